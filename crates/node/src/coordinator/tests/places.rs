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
    let plan = Plan {
        nodes: 6,
        far: 3,
        ..Plan::default()
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
