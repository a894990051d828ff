//! Several replicas answer as one that knows all that they know.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use io::Env;
use model::{ColumnId, DecoratedKey, FilterOperator, Order, Partition, RowFilter, Sharder, Table};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use smallvec::SmallVec;

use super::*;
use crate::memtable::Memtable;
use crate::read::{ReadCounters, View};
use crate::testing::{Saying, saying, simulate, slice, table, update};

/// A write to a partition.
type Write = (u8, Vec<Saying>);

/// Polls what waits for nothing but its turn.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        let context = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return value;
        }
    }
}

/// What has seen these writes, each of them in a memtable of its own if `apart`.
fn replica<'w>(table: &Arc<Table>, writes: impl Iterator<Item = &'w Write>, apart: bool) -> View {
    let mut memtables: SmallVec<[Rc<Memtable>; 2]> = SmallVec::new();
    for (key, sayings) in writes {
        if apart || memtables.is_empty() {
            memtables.push(Rc::new(Memtable::default()));
        }
        let mut update = update(table, sayings);
        update.key = DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, *key]));
        let memtable = memtables.last().expect("it was pushed");
        memtable.apply(update, table, None);
    }
    View {
        table: table.clone(),
        memtables,
        sstables: Rc::new([]),
        owner: (Sharder::new(1), 0),
        number: 0,
        cached: None,
        most_tombstones: u64::MAX,
        index: None,
    }
}

fn partition() -> impl Strategy<Value = PartitionSelection> {
    let key = |n: u8| DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, n]));
    let unbounded = || PartitionBound::Unbounded;
    let all = (unbounded(), unbounded());
    prop_oneof![
        (0u8..4).prop_map(move |n| PartitionSelection::Key(key(n))),
        Just(all).prop_map(|(start, end)| PartitionSelection::Range { start, end }),
        (0u8..4).prop_map(move |n| PartitionSelection::Range {
            start: PartitionBound::KeyInclusive(key(n)),
            end: unbounded(),
        }),
    ]
}

fn filter() -> impl Strategy<Value = RowFilter> {
    // A clustering column, the regular one, the static one.
    let column = prop::sample::select(vec![2u32, 3, 4]);
    (column, any::<bool>(), any::<u8>()).prop_map(|(column, less, value)| RowFilter {
        column: ColumnId(column),
        operator: match less {
            true => FilterOperator::LessOrEqual,
            false => FilterOperator::Greater,
        },
        values: vec![Bytes::copy_from_slice(&[
            0,
            0,
            0,
            if column == 2 { value % 3 } else { value },
        ])],
    })
}

fn command(table: Arc<Table>) -> impl Strategy<Value = ReadCommand> {
    let slices = prop_oneof![
        3 => Just(vec![Slice::ALL]),
        2 => prop::collection::vec(slice(), 0..3),
    ];
    let columns = prop::sample::subsequence(vec![ColumnId(3), ColumnId(4)], 0..=2);
    let filters = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(filter(), 1..3)];
    let limit = || prop_oneof![2 => Just(u32::MAX), 3 => 1u32..6];
    let bytes = prop_oneof![2 => Just(u32::MAX), 1 => 1u32..200];
    (
        (partition(), slices, any::<bool>()),
        (columns, filters),
        (limit(), limit(), bytes),
    )
        .prop_map(
            move |(what, (columns, filters), (rows, per_partition, bytes))| {
                let (partitions, slices, reversed) = what;
                let comparator = table.comparator();
                // Sorted, and apart from each other.
                let mut sorted: Vec<Slice> = Vec::new();
                for slice in slices {
                    let apart = sorted.last().is_none_or(|last| {
                        comparator.compare_bounds(&last.end, &slice.start).is_lt()
                    });
                    if apart && !slice.is_empty(comparator) {
                        sorted.push(slice);
                    }
                }
                ReadCommand {
                    table: table.clone(),
                    partitions,
                    clustering: ClusteringSelection {
                        slices: sorted,
                        reversed,
                    },
                    columns,
                    filters,
                    limits: DataLimits {
                        rows,
                        rows_per_partition: per_partition,
                        bytes,
                    },
                    now_seconds: 10,
                    resume: None,
                    bypass_cache: false,
                    packed: false,
                }
            },
        )
}

/// What a client gets of replicas, how many answers that took, and what the replicas lack.
fn reconciled(env: &Env, command: &ReadCommand, replicas: &[View]) -> (Reconciled, usize) {
    let mut reconciliation = Reconciliation::new(command, replicas.len(), true);
    let mut answers = 0;
    loop {
        match reconciliation.step() {
            Step::Working => {}
            Step::Done => return (reconciliation.finish(), answers),
            Step::Ask(asked) => {
                assert!(!asked.is_empty());
                for (number, command) in asked {
                    answers += 1;
                    assert!(answers < 500, "it comes to an end");
                    let counters = ReadCounters::default();
                    let page = now(replicas[number].versions(env, &command, &counters));
                    reconciliation.answer(number, page.expect("it is in memory"));
                }
            }
        }
    }
}

fn read(env: &Env, command: &ReadCommand, replica: &View) -> ReadPage {
    let page = now(replica.read(env, command, &ReadCounters::default()));
    page.expect("it is in memory")
}

/// All pages, one behind the other, as one.
fn paged(command: &ReadCommand, read: impl Fn(&ReadCommand) -> ReadPage) -> Vec<Partition> {
    let mut command = command.clone();
    let mut all: Vec<Partition> = Vec::new();
    for _ in 0..200 {
        let page = read(&command);
        let given: usize = page.partitions.iter().map(Partition::counted_rows).sum();
        assert!(given <= command.limits.rows as usize);
        assert!(
            !page.more || given > 0,
            "a page that says so can be followed"
        );
        let Some(last) = page.partitions.last() else {
            return all;
        };
        let before = command.resume.take().filter(|r| r.key == last.key);
        let of_partition = before.map_or(command.limits.rows_per_partition, |resume| {
            resume.remaining_in_partition
        });
        command.resume = Some(Resume {
            key: last.key.clone(),
            clustering: last.rows.last().map(|row| row.clustering.clone()),
            remaining_in_partition: of_partition.saturating_sub(last.rows.len() as u32),
        });
        for partition in page.partitions {
            match all.last_mut().filter(|last| last.key == partition.key) {
                Some(last) => last.rows.extend(partition.rows),
                None => all.push(partition),
            }
        }
        if !page.more {
            return all;
        }
    }
    panic!("pages without end");
}

fn writes() -> impl Strategy<Value = Vec<(Write, [bool; 3])>> {
    let write = (0u8..4, prop::collection::vec(saying(), 1..4));
    let seen = prop_oneof![
        3 => Just([true; 3]),
        2 => any::<[bool; 3]>(),
    ];
    prop::collection::vec((write, seen), 0..12)
}

/// Runs a law on random commands and what three replicas have seen of random writes.
fn law(
    order: Order,
    cases: u32,
    holds: impl Fn(&Env, &ReadCommand, &[(Write, [bool; 3])]) + 'static,
) {
    let holds = Rc::new(RefCell::new(Some(holds)));
    simulate(move |env| {
        let holds = holds.borrow_mut().take();
        async move {
            let holds = holds.expect("one run");
            let config = Config {
                failure_persistence: None,
                ..Config::with_cases(cases)
            };
            // Tombstones do not grow old here: everything was written within ten seconds.
            let table = table(order);
            let inputs = (command(table), writes());
            let ran = TestRunner::new(config).run(&inputs, |(command, writes)| {
                holds(&env, &command, &writes);
                Ok(())
            });
            if let Err(error) = ran {
                panic!("{error}");
            }
        }
    });
}

fn replicas(table: &Arc<Table>, writes: &[(Write, [bool; 3])], apart: bool) -> Vec<View> {
    let of = |number: usize| {
        let seen = writes.iter().filter(move |(_, seen)| seen[number]);
        replica(table, seen.map(|(write, _)| write), apart)
    };
    (0..3).map(of).collect()
}

#[test]
fn replicas_answer_as_one_that_knows_all() {
    for order in [Order::Ascending, Order::Descending] {
        law(order, 1000, |env, command, writes| {
            let all = replica(&command.table, writes.iter().map(|(w, _)| w), false);
            let seen_by_nobody = |(_, seen): &(Write, [bool; 3])| *seen == [false; 3];
            if writes.iter().any(seen_by_nobody) {
                return;
            }
            let replicas = replicas(&command.table, writes, false);
            let (reconciled, _) = reconciled(env, command, &replicas);
            let expected = read(env, command, &all);
            if command.limits.bytes == u32::MAX {
                assert_eq!(reconciled.page.partitions, expected.partitions);
            }
            let together =
                |command: &ReadCommand| super::tests::reconciled(env, command, &replicas).0.page;
            let of_one = paged(command, |command| read(env, command, &all));
            assert_eq!(paged(command, together), of_one);
        });
    }
}

#[test]
fn one_that_speaks_for_all_answers_as_a_read_does() {
    for order in [Order::Ascending, Order::Descending] {
        law(order, 1000, |env, command, writes| {
            let all = replica(&command.table, writes.iter().map(|(w, _)| w), false);
            let alone = |command: &ReadCommand| {
                let (reconciled, _) = reconciled(env, command, std::slice::from_ref(&all));
                assert!(reconciled.repairs.iter().all(Vec::is_empty));
                reconciled.page
            };
            let read = |command: &ReadCommand| read(env, command, &all);
            if command.limits.bytes == u32::MAX {
                let (alone, read) = (alone(command), read(command));
                assert_eq!(alone.partitions, read.partitions);
                // A read does not look whether what it has not shown lives.
                assert!(read.more || !alone.more, "more of what there is not");
            }
            assert_eq!(paged(command, alone), paged(command, read));
        });
    }
}

#[test]
fn who_was_told_what_it_lacks_lacks_nothing() {
    law(Order::Ascending, 1000, |env, command, writes| {
        // Where pages end by their bytes, they end elsewhere once there is more to say.
        let mut command = command.clone();
        command.limits.bytes = u32::MAX;
        let command = &command;
        let replicas = replicas(&command.table, writes, false);
        let (first, _) = reconciled(env, command, &replicas);
        let repaired: Vec<View> = replicas
            .into_iter()
            .zip(&first.repairs)
            .map(|(mut replica, repairs)| {
                let memtable = Memtable::default();
                for repair in repairs {
                    memtable.apply(repair.clone(), &command.table, None);
                }
                replica.memtables.push(Rc::new(memtable));
                replica
            })
            .collect();
        let (second, _) = reconciled(env, command, &repaired);
        assert_eq!(second.page.partitions, first.page.partitions);
        assert!(
            second.repairs.iter().all(Vec::is_empty),
            "{:?}",
            second.repairs
        );
        // What was not asked for is not repaired, though a row may live by it.
        let asked = command_for_replicas(command).columns;
        if asked.contains(&ColumnId(3)) {
            // What the client has seen it gets of each of them alone from now on.
            for replica in &repaired {
                assert_eq!(
                    read(env, command, replica).partitions,
                    first.page.partitions
                );
            }
        }
    });
}

#[test]
fn what_is_known_is_said_alike_however_it_is_kept() {
    law(Order::Descending, 1000, |env, command, writes| {
        let said = |apart| {
            let writes = writes.iter().map(|(write, _)| write);
            let replica = replica(&command.table, writes, apart);
            let command = command_for_replicas(command);
            let page = now(replica.versions(env, &command, &ReadCounters::default()));
            page.expect("it is in memory")
        };
        assert_eq!(said(true), said(false));
    });
}

#[test]
fn replicas_that_know_the_same_are_asked_once_a_page() {
    law(Order::Ascending, 1000, |env, command, writes| {
        if command.filters.iter().any(|f| f.column != ColumnId(2)) || command.limits.bytes < 1000 {
            return;
        }
        let all: Vec<_> = writes.iter().map(|(w, _)| (w.clone(), [true; 3])).collect();
        let replicas = replicas(&command.table, &all, true);
        let (reconciled, answers) = reconciled(env, command, &replicas);
        assert_eq!(answers, 3);
        assert!(reconciled.repairs.iter().all(Vec::is_empty));
    });
}

#[test]
fn what_may_be_forgotten_is_not_said() {
    law(Order::Ascending, 500, |env, command, writes| {
        let gc_grace = command.table.options.gc_grace_seconds as u32;
        let old = ReadCommand {
            now_seconds: gc_grace + 100,
            ..command_for_replicas(command)
        };
        let replica = replica(&command.table, writes.iter().map(|(w, _)| w), true);
        let page = now(replica.versions(env, &old, &ReadCounters::default()));
        let page = page.expect("it is in memory");
        for version in page.partitions {
            let known = version.partition;
            assert!(known.deletion.is_live() && known.range_tombstones.is_empty());
            let mut rows = known.rows.iter().chain(&known.static_row);
            assert!(rows.all(|row| row.deletion.is_live() && row.is_live(old.now_seconds)));
        }
    });
}
