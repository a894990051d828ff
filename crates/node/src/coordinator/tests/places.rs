//! Two data centres.

use std::time::Duration;

use cluster::{Consistency, Outcome};
use io::sim::LinkConfig;

use super::content::{rows, set};
use super::world::{Plan, SECOND, World};
use crate::error::RequestError;

const MS: Duration = Duration::from_millis(1);

/// Two data centres of three nodes, 30 ms apart, with three replicas in each.
fn world(seed: u64) -> World {
    world_of(seed, Plan::default())
}

/// The same, otherwise as a plan says.
fn world_of(seed: u64, plan: Plan) -> World {
    let plan = Plan {
        nodes: 6,
        far: 3,
        ..plan
    };
    let mut world = World::new(seed, plan);
    let slow = LinkConfig {
        min_delay: 30 * MS,
        max_delay: 31 * MS,
        ..LinkConfig::HEALTHY
    };
    for here in 0..3 {
        for there in 3..6 {
            let [a, b] = [world.nodes[here], world.nodes[there]];
            world.simulation.set_link(a, b, slow);
            world.simulation.set_link(b, a, slow);
        }
    }
    world
}

fn took<T>(world: &mut World, what: impl FnOnce(&mut World) -> T) -> (T, Duration) {
    let began = world.simulation.now();
    let value = what(world);
    (
        value,
        world.simulation.now().saturating_duration_since(began),
    )
}

#[test]
fn local_levels_wait_for_nobody_far_away() {
    let mut world = world(1);
    let table = world.table();
    for node in [0, 4] {
        let update = set(&table, (1, 1), node as i32, 10 + node as i64);
        let (written, time) = took(&mut world, |world| {
            world.write(node, update, Consistency::LocalQuorum)
        });
        written.expect("all are up");
        assert!(time < 20 * MS, "{time:?}");
        for consistency in [Consistency::LocalQuorum, Consistency::LocalOne] {
            let command = world.command(1);
            let (page, time) = took(&mut world, |world| world.read(node, command, consistency));
            assert_eq!(rows(&page.expect("all are up")), [(1, node as i32)]);
            assert!(time < 20 * MS, "{time:?}");
        }
        world.simulation.run_for(SECOND);
        for other in 0..6 {
            assert_eq!(world.rows_at(other, 1), [(1, node as i32)]);
        }
    }
}

#[test]
fn other_levels_do() {
    let mut world = world(2);
    let table = world.table();
    for consistency in [Consistency::EachQuorum, Consistency::Quorum] {
        let update = set(&table, (1, 1), 1, 10);
        let (written, time) = took(&mut world, |world| world.write(0, update, consistency));
        written.expect("all are up");
        assert!(time > 55 * MS, "{time:?}");
        let command = world.command(1);
        let (page, time) = took(&mut world, |world| world.read(0, command, consistency));
        assert_eq!(rows(&page.expect("all are up")), [(1, 1)]);
        assert!(time > 55 * MS, "{time:?}");
    }
}

#[test]
fn a_data_centre_that_is_away_matters_to_those_who_want_it() {
    let mut world = world(3);
    let table = world.table();
    for away in 3..6 {
        world.cut_off(away);
    }
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::LocalQuorum);
    written.expect("those that count are up");
    let page = world.read(1, world.command(1), Consistency::LocalQuorum);
    assert_eq!(rows(&page.expect("those that count are up")), [(1, 1)]);
    let late = world.write(0, set(&table, (1, 1), 2, 20), Consistency::EachQuorum);
    let Err(RequestError::Write { outcome, .. }) = late else {
        panic!("{late:?}");
    };
    let timeout = Outcome::Timeout {
        received: 3,
        block_for: 4,
    };
    assert_eq!(outcome, timeout);
    for node in 0..3 {
        world.believe_up(node, &(0..3).filter(|n| *n != node).collect::<Vec<_>>());
    }
    let refused = world.read(0, world.command(1), Consistency::EachQuorum);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((unavailable.required, unavailable.alive), (2, 0));
}

#[test]
fn a_range_is_read_near_by_if_the_level_allows() {
    let mut world = world(4);
    let table = world.table();
    for key in 0..20 {
        let written = world.write(0, set(&table, (key, 1), key, 10), Consistency::All);
        written.expect("all are up");
    }
    for (node, consistency) in [(0, Consistency::LocalQuorum), (5, Consistency::LocalOne)] {
        let command = world.scan();
        let (page, time) = took(&mut world, |world| world.read(node, command, consistency));
        assert_eq!(page.expect("all are up").partitions.len(), 20);
        assert!(time < 25 * MS, "{time:?}");
    }
}

#[test]
fn a_write_goes_once_to_another_data_center_and_its_replicas_answer() {
    for shards in [1, 2] {
        let plan = Plan {
            shards,
            ..Plan::default()
        };
        let mut world = world_of(10, plan);
        let table = world.table();
        for key in 0..12 {
            let before = world.asked(0, 3..6);
            let update = set(&table, (key, 1), key, 10);
            let (written, time) =
                took(&mut world, |world| world.write(0, update, Consistency::All));
            written.expect("all are up");
            // There, among them, and back; connections are made before.
            assert!(key == 0 || time < SECOND / 2, "{time:?}");
            assert_eq!(world.asked(0, 3..6) - before, 1);
            for node in 0..6 {
                assert_eq!(world.rows_at(node, key), [(1, key)]);
            }
        }
        // Each of them was chosen at times.
        for far in 3..6 {
            assert!(world.asked(0, far..far + 1) > 0);
        }
        world.simulation.run_for(3 * SECOND);
        assert_eq!(world.missed(0), 0);
    }
}

#[test]
fn nodes_of_a_version_before_are_written_to_one_by_one() {
    let plan = Plan {
        protocol: 1,
        ..Plan::default()
    };
    let mut world = world_of(11, plan);
    let table = world.table();
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::All);
    written.expect("all are up");
    assert_eq!(world.asked(0, 3..6), 3);
}

#[test]
fn without_the_one_that_passes_it_on_a_write_goes_to_the_others() {
    let mut world = world(12);
    let table = world.table();
    // Down, and nobody knows.
    world.crash(4);
    for key in 0..9 {
        let update = set(&table, (key, 1), key, 10);
        let (written, time) = took(&mut world, |world| {
            world.write(0, update, Consistency::EachQuorum)
        });
        written.expect("two of three are up in each");
        assert!(time < SECOND, "{time:?}");
    }
    world.simulation.run_for(3 * SECOND);
    assert_eq!(world.missed(0), 9, "one hint for each");
    for key in 0..9 {
        for node in [0, 1, 2, 3, 5] {
            assert_eq!(world.rows_at(node, key), [(1, key)]);
        }
    }
}

#[test]
fn replicas_far_away_that_fail_are_heard_at_once() {
    let mut world = world(13);
    let table = world.table();
    for node in [3, 4, 5] {
        let shard = world.shard(node);
        let without = super::world::schema(&world.plan, Vec::new());
        let changed = world.run(&shard, |shard| async move {
            shard.store.set_schema(&without).await
        });
        changed.expect("the drive is fine");
    }
    let (failed, time) = took(&mut world, |world| {
        world.write(0, set(&table, (1, 1), 1, 10), Consistency::EachQuorum)
    });
    let Err(RequestError::Write { failures, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(
        failures.len() >= 2 && time < SECOND,
        "{failures:?} {time:?}"
    );
    world.simulation.run_for(3 * SECOND);
    assert_eq!(world.missed(0), 3);
}
