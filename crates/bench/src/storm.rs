//! What `storm` does: opens connections at a fixed rate, as all clients of a cluster do at once when a
//! node is back, or when each of their requests makes a connection of its own.
//!
//! A connect is an operation of an open loop: it is due at its moment, and its latency counts from
//! then to the answer to STARTUP. So the time is not hidden that it waited for one of the others, of
//! which there are no more than `--in-flight`, to end; how long it took without that is told beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::cpu::{self, Snapshots};
use crate::descriptors;
use crate::gate::Gate;
use crate::measurement::{Counts, Recorder};
use crate::options::StormOptions;
use crate::pacing::{self, Pacing};
use crate::progress::Progress;
use crate::raw;
use crate::report::{Outcome, Report, Setting};

/// The kind of operation that a connect is.
const CONNECT: &str = "connect";

/// What all threads share.
struct Storm {
    addresses: Vec<SocketAddr>,
    in_flight: usize,
    start: Instant,
    /// When it is over, no connect begins any more.
    duration: Duration,
    gate: Gate,
    /// One for each thread; and another, for latencies since connects were begun.
    recorders: Vec<Recorder>,
    since_begun: Vec<Recorder>,
    pacings: Vec<Arc<Pacing>>,
}

/// Does it, and reports.
pub(crate) fn run(options: &StormOptions) -> Result<(), String> {
    measure(options)?.publish(options.measuring.out.as_deref())
}

fn measure(options: &StormOptions) -> Result<Report, String> {
    descriptors::reserve(options.in_flight)?;
    let addresses = executor()?.block_on(raw::reach(&options.nodes.hosts))?;
    let threads = options.measuring.client_threads.unwrap_or_else(cpu::cores);
    let threads = threads.clamp(1, options.in_flight.max(1));
    let before = Snapshots::take(&options.measuring.pids)?;
    let start = Instant::now() + Duration::from_millis(10);
    let due = due_in(options.duration, options.rate);
    let storm = Arc::new(Storm {
        addresses,
        in_flight: options.in_flight.max(1),
        start,
        duration: options.duration,
        gate: Gate::open(),
        recorders: (0..threads).map(|_| Recorder::new()).collect(),
        since_begun: (0..threads).map(|_| Recorder::new()).collect(),
        pacings: pacing::shares(start, options.rate, threads),
    });
    storm.gate.limit_to(due);
    let mut progress = Progress::new(options.measuring.progress);
    let (counts, elapsed) = storm.blow(&mut progress)?;
    let after = Snapshots::take(&options.measuring.pids)?;
    progress.end();
    Ok(Report::new(
        Setting {
            workload: "storm".to_owned(),
            requests: None,
            hosts: options.nodes.hosts.clone(),
            threads: storm.in_flight,
            rate: Some(options.rate),
        },
        Outcome {
            elapsed,
            due,
            counts,
            since_begun: Some(drained(&storm.since_begun).all()),
            usage: before.usage_until(&after),
            stolen: before.stolen_until(&after),
            intervals: progress.intervals,
        },
    ))
}

/// How many moments, `rate` a second, lie in this time; the first of them is its beginning.
fn due_in(duration: Duration, rate: u64) -> u64 {
    let due = (duration.as_nanos() * u128::from(rate)).div_ceil(1_000_000_000);
    u64::try_from(due).unwrap_or(u64::MAX - 1)
}

fn executor() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
}

fn drained(recorders: &[Recorder]) -> Counts {
    let mut counts = Counts::new();
    for recorder in recorders {
        recorder.drain(&mut counts);
    }
    counts
}

impl Storm {
    /// All of it, to the last answer. Returns what came of it, and after how long that was.
    fn blow(self: &Arc<Storm>, progress: &mut Progress) -> Result<(Counts, Duration), String> {
        let mut counts = Counts::new();
        let threads: Vec<_> = (0..self.recorders.len())
            .map(|index| {
                let storm = self.clone();
                std::thread::spawn(move || storm.run_thread(index))
            })
            .collect();
        std::thread::sleep(self.start.saturating_duration_since(Instant::now()));
        progress.measure_from(self.start);
        let have_ended = || threads.iter().all(|thread| thread.is_finished());
        let duration = Some(self.duration);
        progress.follow(&self.recorders, have_ended, "storm", duration, &mut counts);
        let mut last = self.start + self.duration;
        for thread in threads {
            let answered = thread.join();
            let answered = answered.map_err(|_| "a client thread panicked".to_owned())?;
            last = last.max(answered?);
        }
        // What was on its way when the time was up.
        counts.add(&drained(&self.recorders));
        Ok((counts, last - self.start))
    }

    /// The workers of one thread, to their end. Returns when the last answer came.
    fn run_thread(self: &Arc<Storm>, thread: usize) -> Result<Instant, String> {
        let executor = executor().inspect_err(|_| self.gate.stop())?;
        let answered = executor.block_on(async {
            let mut workers = JoinSet::new();
            for worker in (thread..self.in_flight).step_by(self.recorders.len()) {
                workers.spawn(work(self.clone(), thread, worker));
            }
            let storm = self.clone();
            let pacer =
                tokio::spawn(async move { storm.pacings[thread].drive(&storm.gate.stopped).await });
            let answered = workers.join_all().await;
            pacing::ended(pacer.await).map(|()| answered)
        })?;
        Ok(answered.into_iter().max().unwrap_or(self.start))
    }

    /// May one more connect begin?
    fn pass(&self) -> bool {
        if self.start.elapsed() >= self.duration {
            self.gate.stop();
        }
        self.gate.pass()
    }
}

/// One worker: one connect after the other, to each of the addresses in turn. Returns when its last
/// answer came.
async fn work(storm: Arc<Storm>, thread: usize, worker: usize) -> Instant {
    let (recorder, pacing) = (&storm.recorders[thread], &storm.pacings[thread]);
    let mut addresses = storm.addresses.iter().cycle().skip(worker);
    let mut answered = storm.start;
    while let Some(due) = pacing.next().await {
        if !storm.pass() {
            break;
        }
        let Some(address) = addresses.next() else {
            break;
        };
        let begun = Instant::now();
        let opened = raw::open(*address).await;
        answered = Instant::now();
        match opened {
            // Dropped, it is closed.
            Ok(_) => {
                recorder.succeeded(CONNECT, answered - due, true);
                storm.since_begun[thread].succeeded(CONNECT, answered - begun, true);
            }
            Err(error) => recorder.failed(error.to_string()),
        }
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up_server::{Behaviour, Server};
    use crate::options::{Measuring, Nodes};

    /// 200 connects in a tenth of a second.
    fn report(server: &Server) -> serde_json::Value {
        serde_json::to_value(measure(&options(server)).unwrap()).unwrap()
    }

    fn options(server: &Server) -> StormOptions {
        StormOptions {
            nodes: Nodes {
                hosts: vec![server.address.to_string()],
            },
            rate: 2000,
            duration: Duration::from_millis(100),
            in_flight: 200,
            measuring: Measuring {
                client_threads: Some(2),
                pids: vec![std::process::id()],
                out: None,
                progress: Duration::from_secs(1),
            },
        }
    }

    #[test]
    fn each_connect_that_is_due_counts_once() {
        let server = Server::start(Behaviour::Ready);
        let report = report(&server);
        // Slow as the machine may be: what was not begun in time is told.
        let behind = report["behind"].as_u64().unwrap();
        assert_eq!(report["operations"].as_u64().unwrap() + behind, 200);
        assert_eq!(report["errors"], serde_json::json!({}));
        let latencies = &report["latency_by_kind"][CONNECT]["operations"];
        assert_eq!(*latencies, report["operations"]);
        assert_eq!(report["latency_since_begun"]["operations"], *latencies);
        for key in ["ops_per_second", "latency", "intervals", "server_cpu"] {
            assert!(!report[key].is_null(), "{key}");
        }
        assert!(report.get("consistency").is_none());
        server.await_open(0);
    }

    /// ERROR, of 10 bytes: overloaded, "full".
    const REFUSAL: &[u8] = b"\x84\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x10\x01\x00\x04full";

    #[test]
    fn errors_are_counted_by_kind() {
        let server = Server::start(Behaviour::AnswersLater(REFUSAL.to_vec()));
        let report = report(&server);
        let behind = report["behind"].as_u64().unwrap();
        let kind = "STARTUP answered with error 0x1001: full";
        assert_eq!(report["errors"][kind].as_u64().unwrap() + behind, 200);
        assert_eq!(report["operations"], 0);
    }

    #[test]
    fn who_takes_no_connection_at_all_is_not_stormed() {
        let server = Server::start(Behaviour::Answers(REFUSAL.to_vec()));
        let error = measure(&options(&server)).unwrap_err();
        assert!(error.contains("0x1001: full"), "{error}");
    }

    #[test]
    fn the_last_moment_is_before_the_end() {
        assert_eq!(due_in(Duration::from_millis(100), 2000), 200);
        assert_eq!(due_in(Duration::from_secs(10), 1), 10);
        assert_eq!(due_in(Duration::from_millis(1), 1), 1);
        assert_eq!(due_in(Duration::ZERO, 1000), 0);
    }
}
