//! Writers against a drive that follows, and against one that does not: they never wait for a
//! flush as long as it keeps up, are slowed alike when it does not, and memory never takes more
//! than it may.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use io::sim::{DiskFaults, SimConfig, SimNode, Simulation};
use io::{Env, TaskGroup};
use model::{Cell, Clustering, Liveness, Mutation, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row};
use storage::{CommitLogConfig, Store, StoreConfig, WriteError};

use super::operation;
use super::run::{LIMIT, config};
use super::tables::{self, COLUMNS};
use crate::Random;

const WRITERS: usize = 16;
/// Bytes of a value.
const VALUE: u64 = 1000;

/// What the writers saw.
#[derive(Clone, Default)]
struct Seen {
    /// Writes acknowledged, by writer.
    written: Vec<u64>,
    refused: u64,
    longest: Duration,
    /// The most that memtables took, and what they may take.
    memory: (u64, u64),
}

impl Seen {
    fn saw(
        &mut self,
        writer: usize,
        took: Duration,
        written: Result<(), WriteError>,
        store: &Store,
    ) {
        self.longest = self.longest.max(took);
        let stats = store.stats();
        self.memory.0 = self.memory.0.max(stats.memtable_bytes);
        self.memory.1 = stats.memtable_limit;
        match written {
            Ok(()) => self.written[writer] += 1,
            Err(WriteError::Overloaded(_)) => self.refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writes of all writers for this long, with a pause after each.
async fn write(env: Env, store: Store, seen: Rc<RefCell<Seen>>, time: Duration, pause: Duration) {
    let end = env.now() + time;
    seen.borrow_mut().written = vec![0; WRITERS];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (env, store, seen) = (env.clone(), store.clone(), seen.clone());
            let at = env.clone();
            env.spawn(TaskGroup::Foreground, async move {
                let mut random = Random::new(writer as u64);
                while at.now() < end {
                    let begun = at.now();
                    let written = store.apply(mutation(&at, &mut random)).await;
                    let took = at.now() - begun;
                    seen.borrow_mut().saw(writer, took, written, &store);
                    at.sleep(pause).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await;
    }
}

fn mutation(env: &Env, random: &mut Random) -> Mutation {
    let timestamp = env.wall_micros();
    let key = operation::key(random.below(1 << 20) as u32);
    let mut row = Row::new(Clustering(
        [Bytes::copy_from_slice(&7u32.to_be_bytes())]
            .into_iter()
            .collect(),
    ));
    row.liveness = Liveness {
        timestamp,
        ..row.liveness
    };
    row.cells.push(Cell {
        column: COLUMNS.blob,
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: Bytes::from(vec![random.next_u64() as u8; VALUE as usize]),
    });
    let update = PartitionUpdate {
        rows: vec![row],
        ..PartitionUpdate::new(tables::tables(&mut Random::new(0))[0].clone(), key)
    };
    Mutation {
        updates: vec![update],
    }
}

async fn open(env: &Env) -> Store {
    let config = StoreConfig {
        memory: 512 << 10,
        commitlog: CommitLogConfig {
            segment_bytes: 1 << 20,
            total_bytes: 16 << 20,
            ..CommitLogConfig::default()
        },
        ..config(env, &Default::default(), 0)
    };
    let schema = tables::schema(&tables::tables(&mut Random::new(0)));
    let store = Store::open(env.clone(), config, &schema).await;
    let store = store.expect("the store opens");
    store.replay().await.expect("there is nothing to replay");
    store
}

/// A node of one shard whose writers pause so long after each write. With a slow drive, it is slow
/// for the first part, and what was seen then comes first.
fn run(seed: u64, pause: Duration, slow: bool) -> Vec<Seen> {
    let mut simulation = Simulation::new(seed, SimConfig::default());
    let node: SimNode = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 34);
    let parts: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let all = parts.clone();
    let opened: Rc<RefCell<u32>> = Rc::default();
    let turn = opened.clone();
    simulation.start(node, move |env| {
        let (all, turn) = (all.clone(), turn.clone());
        async move {
            let store = open(&env).await;
            for _ in 0..2 {
                *turn.borrow_mut() += 1;
                env.sleep(Duration::from_millis(1)).await;
                let seen: Rc<RefCell<Seen>> = Rc::default();
                let time = Duration::from_secs(2);
                write(env.clone(), store.clone(), seen.clone(), time, pause).await;
                all.borrow_mut().push(seen.borrow().clone());
            }
        }
    });
    let is_turn = |number: u32| {
        let opened = opened.clone();
        move |_: &Simulation| *opened.borrow() == number
    };
    assert!(simulation.run_until(LIMIT, is_turn(1)));
    if slow {
        let faults = DiskFaults {
            slow: 1.0,
            ..DiskFaults::NONE
        };
        simulation.set_disk_faults(node, faults);
    }
    assert!(simulation.run_until(LIMIT, is_turn(2)));
    simulation.set_disk_faults(node, DiskFaults::NONE);
    assert!(simulation.run_to_end(node, LIMIT), "the writers end");
    parts.take()
}

#[test]
fn writers_never_wait_for_a_flush_that_keeps_up() {
    for seen in run(1, Duration::from_millis(5), false) {
        let written: u64 = seen.written.iter().sum();
        // Several times the memory that memtables may take.
        assert!(written * VALUE > 3 * seen.memory.1, "{written} writes");
        assert_eq!(seen.refused, 0);
        let longest = seen.longest;
        assert!(longest < Duration::from_millis(20), "{longest:?}");
    }
}

#[test]
fn a_slow_drive_slows_all_alike_and_memory_stays_bounded() {
    let parts = run(2, Duration::from_millis(2), true);
    let [slow, healed] = &parts[..] else {
        panic!("two parts");
    };
    for seen in &parts {
        let (most, limit) = seen.memory;
        assert!(most <= limit, "{most} bytes of {limit}");
        // A second for memory, one for the log, and a group of a drive a hundred times slower.
        assert!(seen.longest < Duration::from_secs(4), "{:?}", seen.longest);
    }
    let least = slow.written.iter().min().copied().unwrap_or(0);
    let most = slow.written.iter().max().copied().unwrap_or(0);
    assert!(
        least > 0 && most <= least + least / 2 + 10,
        "{least} to {most}"
    );
    let (before, after): (u64, u64) = (slow.written.iter().sum(), healed.written.iter().sum());
    assert!(after > 2 * before, "{before} writes, then {after}");
    assert_eq!(healed.refused, 0);
}
