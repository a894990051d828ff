//! Journals on drives that fail and under processes that end: what was acknowledged stays.

use std::cell::RefCell;
use std::future::pending;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use io::sim::{Crash, DiskFaults, SimConfig, SimNode, Simulation};
use io::{Env, Random, TaskGroup};

use super::super::journal::{Journal, JournalError};
use super::super::records::Record;

/// Where the journal is.
fn path() -> &'static Path {
    Path::new("/metadata/log")
}

/// A record that says its number, and is as long as chance wants.
fn record(number: u64, padding: usize) -> Record {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(8 + padding, number as u8);
    Record {
        kind: 7,
        body: body.into(),
    }
}

/// The number that a record says.
fn number(record: &Record) -> u64 {
    let number = record.body.first_chunk().expect("all begin with one");
    assert_eq!(record.body[8..], vec![number[0]; record.body.len() - 8]);
    u64::from_le_bytes(*number)
}

/// What is known of a journal outside of the machine that has it. Its records are numbered one after
/// the other; beginning anew drops those in front of a number.
#[derive(Default)]
struct Known {
    /// Numbers below this were appended.
    appended: u64,
    /// Those of them below this were acknowledged.
    acknowledged: u64,
    /// Beginning anew dropped numbers below this, or did it not come to that?
    dropped: u64,
    /// How often a life found its journal.
    opened: u64,
    /// How many records were found that nobody had acknowledged.
    surplus: u64,
}

/// A life with a journal: opens it, checks what is there, then appends until it ends or fails.
async fn live(env: Env, known: Rc<RefCell<Known>>) {
    let folder = Path::new("/metadata");
    if env.create_dir_all(folder).await.is_err() || env.sync_dir(Path::new("/")).await.is_err() {
        return;
    }
    let mut found = Vec::new();
    let opened = Journal::open(&env, path(), |records| {
        found = records.iter().map(number).collect();
        Ok::<_, JournalError>(records)
    });
    let journal = match opened.await {
        Ok(journal) => journal,
        Err(JournalError::Io { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    check(&found, &mut known.borrow_mut());
    // Opening made it so.
    let mut live: Vec<u64> = found;
    loop {
        match env.random_u64() % 20 {
            0..14 => {
                let records = 1 + env.random_u64() % 4;
                for _ in 0..records {
                    let number = {
                        let known = &mut *known.borrow_mut();
                        known.appended += 1;
                        known.appended - 1
                    };
                    live.push(number);
                    let padding = (env.random_u64() % 3 * (env.random_u64() % 1500)) as usize;
                    let Ok(ticket) = journal.push(record(number, padding)) else {
                        return;
                    };
                    let (journal, known) = (journal.clone(), known.clone());
                    let telling = async move {
                        if journal.wait(ticket).await.is_ok() {
                            let known = &mut *known.borrow_mut();
                            known.acknowledged = known.acknowledged.max(number + 1);
                        }
                    };
                    env.spawn(TaskGroup::Foreground, telling).detach();
                }
            }
            14..16 => {
                let keep = env.random_u64() as usize % (live.len() + 1);
                live.drain(..live.len() - keep);
                let first = live.first().copied();
                {
                    let known = &mut *known.borrow_mut();
                    known.dropped = known.dropped.max(first.unwrap_or(known.appended));
                }
                let records = live.iter().map(|number| record(*number, 9)).collect();
                if journal.begin_anew(records).is_err() {
                    return;
                }
            }
            _ => {
                env.sleep(Duration::from_micros(env.random_u64() % 400))
                    .await
            }
        }
    }
}

/// What was found goes on without a gap, from what may be the first to what was acknowledged last.
fn check(found: &[u64], known: &mut Known) {
    assert!(found.is_sorted_by(|a, b| a + 1 == *b), "{found:?}");
    let end = found
        .last()
        .map_or(known.dropped.min(known.appended), |last| last + 1);
    assert!(end <= known.appended, "{end} of {}", known.appended);
    if let Some(first) = found.first() {
        assert!(*first <= known.dropped, "{first} is not the first");
        assert!(end >= known.acknowledged, "{end}: {}", known.acknowledged);
        known.surplus += end - known.acknowledged;
    } else {
        assert!(known.acknowledged <= known.dropped, "all is gone");
    }
    // What was not acknowledged and is not there never was.
    known.appended = end.max(known.acknowledged);
    known.acknowledged = known.appended;
    known.dropped = found.first().copied().unwrap_or(known.appended);
    known.opened += 1;
}

/// Several lives of a journal, each ended in its own way.
fn lives(seed: u64) -> Known {
    let mut simulation = Simulation::new(seed, SimConfig::default());
    let mut random = Random::new(seed ^ 0x5eed);
    let node = simulation.add_node(Ipv4Addr::LOCALHOST.into(), 1, 64 << 20);
    let known = Rc::new(RefCell::new(Known::default()));
    for life in 0..6 {
        let fails = random.chance(0.3);
        // Its last life has a good drive, to see what the others left.
        let faults = match fails && life < 5 {
            true => DiskFaults {
                read_error: 0.01,
                write_error: 0.03,
                sync_error: 0.03,
                slow: 0.05,
                ..DiskFaults::NONE
            },
            false => DiskFaults::NONE,
        };
        simulation.set_disk_faults(node, faults);
        simulation.start(node, |env| {
            let known = known.clone();
            async move {
                live(env, known).await;
                pending().await
            }
        });
        simulation.run_for(Duration::from_micros(random.below(8_000)));
        let how = match random.chance(0.5) {
            true => Crash::Power,
            false => Crash::Process,
        };
        simulation.crash(node, how);
    }
    known.take()
}

#[test]
fn what_was_acknowledged_outlives_every_end() {
    let (mut opened, mut appended, mut surplus) = (0, 0, 0);
    for seed in 0..500 {
        let known = lives(seed);
        opened += known.opened;
        appended += known.appended;
        surplus += known.surplus;
    }
    println!("{opened} lives found {appended} records, {surplus} of them not acknowledged");
    assert!(opened > 1_500 && appended > 10_000 && surplus > 500);
}

/// A journal on a good drive, and the shard it is on.
pub(super) struct Desk {
    pub(super) simulation: Simulation,
    pub(super) node: SimNode,
}

impl Desk {
    pub(super) fn new() -> Desk {
        let mut simulation = Simulation::new(1, SimConfig::default());
        let node = simulation.add_node(Ipv4Addr::LOCALHOST.into(), 1, 1 << 30);
        Desk { simulation, node }
    }

    /// Runs this to its end, in a process of its own.
    pub(super) fn run<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        make: impl Fn(Env) -> F,
    ) -> T {
        let result = Rc::new(RefCell::new(None));
        self.simulation.start(self.node, |env| {
            let (result, future) = (result.clone(), make(env));
            async move {
                let value = future.await;
                result.replace(Some(value));
            }
        });
        let ended = self
            .simulation
            .run_to_end(self.node, Duration::from_secs(600));
        assert!(ended, "it ends");
        self.simulation.crash(self.node, Crash::Process);
        result.take().expect("it ended")
    }

    /// The records' numbers, or why there are none.
    fn open(&mut self) -> Result<Vec<u64>, JournalError> {
        self.run(async |env: Env| {
            env.create_dir_all(Path::new("/metadata")).await.unwrap();
            let mut found = Vec::new();
            let journal = Journal::open(&env, path(), |records| {
                found = records.iter().map(number).collect();
                Ok::<_, JournalError>(records)
            });
            journal.await.map(|_| found)
        })
    }

    /// Appends records with these numbers, each in a group of its own.
    fn append(&mut self, numbers: std::ops::Range<u64>) {
        self.run(move |env| {
            let numbers = numbers.clone();
            async move {
                env.create_dir_all(Path::new("/metadata")).await.unwrap();
                let journal = Journal::open(&env, path(), Ok::<_, JournalError>).await;
                let journal = journal.unwrap();
                for number in numbers {
                    journal.append(record(number, 20)).await.unwrap();
                }
            }
        });
    }

    fn bytes(&self) -> u64 {
        let files = self.simulation.files(self.node);
        let file = files.iter().find(|(name, _)| name == path());
        file.expect("it is there").1
    }
}

#[test]
fn damage_in_the_middle_says_where_and_what_to_do() {
    let mut desk = Desk::new();
    desk.append(0..9);
    let middle = desk.bytes() / 2;
    desk.simulation
        .flip_bit(desk.node, path(), middle, 3)
        .unwrap();
    let error = desk.open().expect_err("it is damaged").to_string();
    assert!(
        error.starts_with("/metadata/log is damaged at offset "),
        "{error}"
    );
    assert!(error.contains("let it join anew"), "{error}");
    desk.simulation
        .flip_bit(desk.node, path(), middle, 3)
        .unwrap();
    assert_eq!(
        desk.open().expect("it is whole again"),
        Vec::from_iter(0..9)
    );
    desk.simulation.flip_bit(desk.node, path(), 7, 1).unwrap();
    let error = desk.open().expect_err("it is something else").to_string();
    assert!(error.starts_with("/metadata/log is no journal"), "{error}");
}

/// Once it was opened all of it was on the drive before it got its name, the last record too.
#[test]
fn damage_of_what_a_start_wrote_is_seen_to_its_end() {
    let mut desk = Desk::new();
    desk.append(0..3);
    assert_eq!(desk.open().unwrap(), [0, 1, 2]);
    let last = desk.bytes() - 1;
    desk.simulation
        .flip_bit(desk.node, path(), last, 0)
        .unwrap();
    let error = desk.open();
    assert!(
        matches!(error, Err(JournalError::Damaged { .. })),
        "{error:?}"
    );
}

#[test]
fn a_torn_tail_is_cut_off_and_appended_behind() {
    let mut desk = Desk::new();
    desk.append(0..3);
    let len = desk.bytes() - 5;
    desk.run(move |env| async move {
        let options = io::OpenOptions {
            write: true,
            ..io::OpenOptions::default()
        };
        let file = env.open(path(), options).await.unwrap();
        file.set_len(len).await.unwrap();
        file.sync_all().await.unwrap();
    });
    desk.append(2..5);
    assert_eq!(desk.open().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn records_that_come_together_share_a_sync_and_a_closed_journal_takes_none() {
    let mut desk = Desk::new();
    desk.run(async |env: Env| {
        env.create_dir_all(Path::new("/metadata")).await.unwrap();
        let journal = Journal::open(&env, path(), Ok::<_, JournalError>).await;
        let journal = journal.unwrap();
        let start = env.now();
        journal.append(record(0, 0)).await.unwrap();
        let one = env.now() - start;
        let start = env.now();
        let tickets: Vec<_> = (1..100)
            .map(|number| journal.push(record(number, 0)).unwrap())
            .collect();
        for ticket in tickets {
            journal.wait(ticket).await.unwrap();
        }
        let many = env.now() - start;
        assert!(many < one * 10, "{many:?}, and {one:?} for one");
        let ticket = journal.push(record(100, 0)).unwrap();
        journal.close().await;
        journal.wait(ticket).await.expect("it was handed in before");
        let refused = journal.append(record(101, 0)).await;
        assert!(matches!(refused, Err(JournalError::Closed { .. })));
    });
    assert_eq!(desk.open().unwrap(), Vec::from_iter(0..101));
}

#[test]
fn after_a_failure_nothing_is_acknowledged_any_more() {
    let mut desk = Desk::new();
    let kept: Rc<RefCell<Option<(Env, Journal)>>> = Rc::default();
    desk.simulation.start(desk.node, |env| {
        let kept = kept.clone();
        async move {
            env.create_dir_all(Path::new("/metadata")).await.unwrap();
            let journal = Journal::open(&env, path(), Ok::<_, JournalError>).await;
            kept.replace(Some((env, journal.unwrap())));
            pending().await
        }
    });
    desk.simulation.run_for(Duration::from_millis(100));
    let (env, journal) = kept.take().expect("it is open");
    let mut append = |faults, number| {
        desk.simulation.set_disk_faults(desk.node, faults);
        let journal = journal.clone();
        let appending = async move { journal.append(record(number, 0)).await };
        let mut task = env.spawn(TaskGroup::Foreground, appending);
        desk.simulation.run_for(Duration::from_millis(100));
        assert!(task.is_finished());
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut task).poll(context) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => panic!("it is finished"),
        }
    };
    let sync_error = 1.0;
    let fails = DiskFaults {
        sync_error,
        ..DiskFaults::NONE
    };
    append(DiskFaults::NONE, 0).expect("the drive is good");
    let error = append(fails, 1).expect_err("the drive fails").to_string();
    assert!(
        error.starts_with("cannot write to /metadata/log: "),
        "{error}"
    );
    append(DiskFaults::NONE, 2).expect_err("the end is unknown");
    drop((env, journal));
    desk.simulation.crash(desk.node, Crash::Process);
    // The second one is in the kernel.
    assert_eq!(desk.open().unwrap(), [0, 1]);
}

#[test]
fn a_record_that_is_too_large_is_refused_and_the_next_is_taken() {
    let mut desk = Desk::new();
    desk.run(async |env: Env| {
        env.create_dir_all(Path::new("/metadata")).await.unwrap();
        let journal = Journal::open(&env, path(), Ok::<_, JournalError>).await;
        let journal = journal.unwrap();
        let body = Bytes::from(vec![0; (64 << 20) + 1]);
        let refused = journal.push(Record { kind: 1, body });
        assert!(matches!(refused, Err(JournalError::TooLarge { .. })));
        journal.append(record(0, 0)).await.unwrap();
    });
    assert_eq!(desk.open().unwrap(), [0]);
}
