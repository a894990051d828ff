//! Replicas that lack something learn it from a read.

use std::time::Duration;

use cluster::{Consistency, Outcome};
use model::{Bound, BoundKind, DeletionTime, RangeTombstone, Slice, TableOptions};

use super::content::{clustering, delete, rows, set, update};
use super::world::{Plan, SECOND, World};
use crate::error::RequestError;

#[test]
fn who_lacks_something_is_told_before_the_client() {
    let mut world = World::new(
        1,
        Plan {
            shards: 2,
            ..Plan::default()
        },
    );
    let table = world.table();
    for key in 0..10 {
        let [with, without, away] = [0, 1, 2].map(|n| (key as usize + n) % 3);
        world.write_at(with, set(&table, (key, 1), 7, 10));
        world.write_at(without, set(&table, (key, 2), 8, 10));
        world.all_believe(away, false);
        let page = world.read(without, world.command(key), Consistency::Quorum);
        assert_eq!(rows(&page.expect("two of three")), [(1, 7), (2, 8)]);
        assert_eq!(world.rows_at(without, key), [(1, 7), (2, 8)]);
        assert_eq!(world.rows_at(with, key), [(1, 7), (2, 8)]);
        assert_eq!(world.rows_at(away, key), []);
        world.all_believe(away, true);
    }
    let repairs: u64 = (0..3)
        .map(|node| world.shard(node).metrics.read_repairs.get())
        .sum();
    assert!(repairs > 0);
}

#[test]
fn deletions_are_told_too() {
    let mut world = World::new(2, Plan::default());
    let table = world.table();
    for c in 1..6 {
        world.write_at(1, set(&table, (1, c), c, 10));
        world.write_at(2, set(&table, (1, c), c, 10));
    }
    world.write_at(0, delete(&table, (1, 1), 20));
    let mut range = update(&table, 1);
    range.add_range_tombstone(RangeTombstone {
        slice: Slice {
            start: Bound {
                prefix: clustering(4),
                kind: BoundKind::InclusiveStart,
            },
            end: Bound::TOP,
        },
        deletion: DeletionTime {
            timestamp: 20,
            local_deletion_time: 100,
        },
    });
    world.write_at(0, range);
    let page = world.read(0, world.command(1), Consistency::All);
    assert_eq!(rows(&page.expect("all are up")), [(2, 2), (3, 3)]);
    for node in 0..3 {
        assert_eq!(world.rows_at(node, 1), [(2, 2), (3, 3)]);
    }
    // Also where nothing is left that would be deleted.
    world.write_at(0, delete(&table, (2, 1), 20));
    let page = world.read(0, world.command(2), Consistency::All);
    assert_eq!(rows(&page.expect("all are up")), []);
    for node in 1..3 {
        world.write_at(node, set(&table, (2, 1), 1, 15));
        assert_eq!(world.rows_at(node, 2), []);
    }
}

#[test]
fn a_table_may_want_no_repair() {
    let options = TableOptions {
        read_repair: "NONE".to_owned(),
        ..TableOptions::default()
    };
    let mut world = World::new(
        3,
        Plan {
            options,
            ..Plan::default()
        },
    );
    let table = world.table();
    world.write_at(0, set(&table, (1, 1), 7, 10));
    let page = world.read(1, world.command(1), Consistency::All);
    assert_eq!(rows(&page.expect("all are up")), [(1, 7)]);
    world.simulation.run_for(SECOND);
    assert_eq!(world.rows_at(1, 1), []);
    assert_eq!(world.rows_at(2, 1), []);
}

/// A node that reads, but whose drive takes no more writes.
fn with_a_full_drive(seed: u64, options: TableOptions) -> World {
    let mut world = World::new(
        seed,
        Plan {
            options,
            ..Plan::default()
        },
    );
    let table = world.table();
    world.write_at(0, set(&table, (1, 1), 7, 10));
    let faults = io::sim::DiskFaults {
        write_error: 1.0,
        ..io::sim::DiskFaults::NONE
    };
    world.simulation.set_disk_faults(world.nodes[1], faults);
    world.believe_up(0, &[1, 2]);
    world
}

#[test]
fn a_repair_that_too_few_take_times_out() {
    let never = || "NEVER".to_owned();
    let mut world = with_a_full_drive(
        4,
        TableOptions {
            additional_write_policy: never(),
            speculative_retry: never(),
            ..TableOptions::default()
        },
    );
    world.believe_up(0, &[1]);
    let late = world.read(0, world.command(1), Consistency::Quorum);
    let Err(RequestError::Read {
        outcome,
        data_present: true,
        ..
    }) = late
    else {
        panic!("{late:?}");
    };
    assert_eq!(
        outcome,
        Outcome::Timeout {
            received: 0,
            block_for: 1
        }
    );
}

#[test]
fn another_takes_what_one_does_not() {
    let mut world = with_a_full_drive(5, TableOptions::default());
    let began = world.simulation.now();
    let page = world.read(0, world.command(1), Consistency::Quorum);
    assert_eq!(rows(&page.expect("the third takes it")), [(1, 7)]);
    assert_eq!(world.rows_at(2, 1), [(1, 7)]);
    let took = world.simulation.now().saturating_duration_since(began);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
