//! Replicas that are slow.

use std::time::Duration;

use cluster::Consistency;
use io::sim::LinkConfig;
use model::TableOptions;

use super::content::{rows, set};
use super::world::{Plan, SECOND, World};

const MS: Duration = Duration::from_millis(1);

fn world(seed: u64, policy: &str) -> World {
    let options = TableOptions {
        speculative_retry: policy.to_owned(),
        ..TableOptions::default()
    };
    let mut world = World::new(
        seed,
        Plan {
            options,
            ..Plan::default()
        },
    );
    let table = world.table();
    let written = world.write(0, set(&table, (1, 1), 7, 10), Consistency::All);
    written.expect("all are up");
    world
}

/// How long a read at QUORUM takes, if it is answered.
fn took(world: &mut World, node: usize) -> Option<Duration> {
    let began = world.simulation.now();
    let page = world
        .read(node, world.command(1), Consistency::Quorum)
        .ok()?;
    assert_eq!(rows(&page), [(1, 7)]);
    Some(world.simulation.now().saturating_duration_since(began))
}

#[test]
fn one_more_is_asked_when_one_is_silent() {
    let mut world = world(1, "20ms");
    for away in [1, 2] {
        world.cut_off(away);
        let took = took(&mut world, 0).expect("two of three");
        assert!(took < 40 * MS, "{took:?}");
        world.simulation.heal();
        world.simulation.run_for(30 * SECOND);
    }
    assert!(world.shard(0).metrics.speculative_reads.get() > 0);
}

#[test]
fn without_it_a_silent_replica_makes_reads_late() {
    let mut world = world(2, "NEVER");
    let silent: Vec<bool> = [1, 2]
        .into_iter()
        .map(|away| {
            world.cut_off(away);
            let took = took(&mut world, 0);
            world.simulation.heal();
            world.simulation.run_for(30 * SECOND);
            // Until its connection is given up, and another replica is asked.
            took.is_none_or(|took| took >= 2 * SECOND)
        })
        .collect();
    assert!(silent.contains(&true), "one of them is asked");
}

#[test]
fn one_more_is_always_asked_if_a_table_wants_it() {
    let mut world = world(3, "ALWAYS");
    for away in [1, 2] {
        world.cut_off(away);
        let took = took(&mut world, 0).expect("two of three");
        assert!(took < 10 * MS, "{took:?}");
        world.simulation.heal();
        world.simulation.run_for(30 * SECOND);
    }
}

#[test]
fn a_slow_replica_is_asked_last() {
    let mut world = world(4, "NEVER");
    let slow = LinkConfig {
        min_delay: 30 * MS,
        max_delay: 40 * MS,
        ..LinkConfig::HEALTHY
    };
    for slow_one in [1, 2] {
        let [here, there] = [world.nodes[0], world.nodes[slow_one]];
        world.simulation.set_link(here, there, slow);
        for _ in 0..20 {
            took(&mut world, 0).expect("all are up");
        }
        let took = took(&mut world, 0).expect("all are up");
        assert!(took < 10 * MS, "{took:?}");
        world.simulation.set_link(here, there, LinkConfig::HEALTHY);
        // What is known of it grows old.
        world.simulation.run_for(15 * SECOND);
    }
}

#[test]
fn the_percentile_of_what_was_seen_is_waited_for() {
    let mut world = world(5, "99p");
    for _ in 0..200 {
        took(&mut world, 0).expect("all are up");
        world.simulation.run_for(10 * MS);
    }
    for away in [1, 2] {
        world.cut_off(away);
        let took = took(&mut world, 0).expect("two of three");
        assert!(took < 50 * MS, "{took:?}");
        world.simulation.heal();
        world.simulation.run_for(2 * SECOND);
    }
}
