//! A run from its start to its report: warm-up, measurement, progress.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{Clients, Load};
use crate::connection;
use crate::cpu::{self, Snapshot, Usage};
use crate::measurement::Counts;
use crate::options::{Command, Common, Options};
use crate::report::{self, Interval, Report};
use crate::workload::Workload;

/// What is measured, and for how long.
struct Plan {
    name: String,
    warmup: Duration,
    duration: Option<Duration>,
    operations: Option<u64>,
}

/// Does what the command line says.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let common = options.common();
    let (plan, workload) = match &options.command {
        Command::Load {
            drop,
            replication_factor,
            with,
            ..
        } => {
            create(common, *replication_factor, with.as_deref(), *drop)?;
            let plan = Plan {
                name: "load".to_owned(),
                warmup: Duration::ZERO,
                duration: None,
                operations: Some(common.records),
            };
            (plan, Workload::load())
        }
        Command::Run {
            workload,
            distribution,
            warmup,
            duration,
            operations,
            ..
        } => {
            let unlimited = duration.is_none() && operations.is_none();
            let plan = Plan {
                name: format!("{workload:?}").to_lowercase(),
                warmup: *warmup,
                duration: if unlimited {
                    Some(Duration::from_secs(30))
                } else {
                    *duration
                },
                operations: *operations,
            };
            // How many operations a time will bring, nobody knows: as many as there are records.
            let expected = operations.unwrap_or(common.records);
            let workload = Workload::new(*workload, *distribution, common.records, expected);
            (plan, workload)
        }
    };
    let clients = common.client_threads.unwrap_or_else(cpu::cores);
    let clients = clients.clamp(1, common.threads.max(1));
    let load = Arc::new(Load::new(common.clone(), workload, clients));
    let report = measure(&load, &plan)?;
    report::print(&report, &mut std::io::stdout()).map_err(|error| error.to_string())?;
    if let Some(path) = &common.out {
        report.write(path)?;
    }
    Ok(())
}

fn create(
    options: &Common,
    replication_factor: u32,
    with: Option<&str>,
    drop: bool,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let created = runtime.block_on(connection::create(options, replication_factor, with, drop));
    created.map_err(|error| error.to_string())
}

/// CPU time of server and client up to now.
fn snapshots(options: &Common) -> Result<(Option<Snapshot>, Snapshot), String> {
    let take = |pids: &[u32]| Snapshot::take(pids).map_err(|error| error.to_string());
    let server = (!options.pids.is_empty()).then(|| take(&options.pids));
    Ok((server.transpose()?, take(&[std::process::id()])?))
}

fn measure(load: &Arc<Load>, plan: &Plan) -> Result<Report, String> {
    // Known before the load starts: a wrong process id must not cost a run.
    snapshots(&load.options)?;
    let mut clients = Clients::connect(load)?;
    let mut progress = Progress::new(load.options.progress);
    clients.start(load);
    if !plan.warmup.is_zero() {
        progress.follow(
            load,
            &clients,
            "warm-up",
            Some(plan.warmup),
            &mut Counts::new(),
        );
        progress.intervals.clear();
    }
    if let Some(operations) = plan.operations {
        load.limit_to(operations);
    }
    discard(load);
    let before = snapshots(&load.options)?;
    let start = Instant::now();
    progress.measured_since = start;
    let mut counts = Counts::new();
    progress.follow(load, &clients, &plan.name, plan.duration, &mut counts);
    let elapsed = start.elapsed();
    let after = snapshots(&load.options)?;
    load.stop();
    clients.join()?;
    progress.end();

    let server: Option<Usage> = match (&before.0, &after.0) {
        (Some(before), Some(after)) => Some(before.usage_until(after)),
        _ => None,
    };
    let client = before.1.usage_until(&after.1);
    Ok(Report::new(
        &plan.name,
        &load.options,
        elapsed,
        &counts,
        (server, client),
        progress.intervals,
    ))
}

fn discard(load: &Load) {
    let mut discarded = Counts::new();
    for recorder in &load.recorders {
        recorder.drain(&mut discarded);
    }
}

/// Lines that say how it goes: one after the other, or one that changes on a terminal.
struct Progress {
    every: Duration,
    terminal: bool,
    begun: Instant,
    /// What the lines say, of what is measured.
    intervals: Vec<Interval>,
    measured_since: Instant,
}

impl Progress {
    fn new(every: Duration) -> Progress {
        let begun = Instant::now();
        Progress {
            every: every.max(Duration::from_millis(100)),
            terminal: std::io::stderr().is_terminal(),
            begun,
            intervals: Vec::new(),
            measured_since: begun,
        }
    }

    /// Collects into `counts` until time is up or all clients have ended.
    fn follow(
        &mut self,
        load: &Load,
        clients: &Clients,
        phase: &str,
        duration: Option<Duration>,
        counts: &mut Counts,
    ) {
        let start = Instant::now();
        let mut last = start;
        loop {
            let end = duration.map(|duration| start + duration);
            let next = end.map_or(last + self.every, |end| end.min(last + self.every));
            while Instant::now() < next && !clients.finished() {
                let left = next.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(Duration::from_millis(20)));
            }
            let finished = clients.finished() || end.is_some_and(|end| Instant::now() >= end);
            let mut interval = Counts::new();
            for recorder in &load.recorders {
                recorder.drain(&mut interval);
            }
            let now = Instant::now();
            self.line(phase, &interval, now - last);
            let at = now.saturating_duration_since(self.measured_since);
            self.intervals
                .push(Interval::new(at, now - last, &interval));
            counts.add(&interval);
            last = now;
            if finished {
                return;
            }
        }
    }

    fn line(&self, phase: &str, interval: &Counts, elapsed: Duration) {
        let latency = interval.all();
        let rate = interval.operations() as f64 / elapsed.as_secs_f64().max(1e-9);
        let text = format!(
            "{:>6.1} s  {phase:<8} {:>9} ops/s   p50 {:>8}  p99 {:>8}  p99.9 {:>8}  max {:>8} ms   \
             errors {}",
            self.begun.elapsed().as_secs_f64(),
            report::grouped(rate as u64),
            report::millis(latency.p50),
            report::millis(latency.p99),
            report::millis(latency.p999),
            report::millis(latency.max),
            interval.failed(),
        );
        let mut out = std::io::stderr();
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{text}")
        } else {
            writeln!(out, "{text}")
        };
    }

    fn end(&self) {
        if self.terminal {
            eprintln!();
        }
    }
}
