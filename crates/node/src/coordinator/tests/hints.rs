//! Hints: what a replica that was down missed, but for what was truncated since.

use cluster::Consistency;
use model::Mutation;

use super::content::set;
use super::world::{Plan, SECOND, World};
use crate::{hints, truncate};

/// Long enough for hints to be delivered.
const DELIVERED: std::time::Duration = SECOND.saturating_mul(16);

/// Node 2 has missed a write that node 0 coordinated, and runs again, which node 0 does not know yet.
fn missed(seed: u64) -> World {
    let plan = Plan {
        hints: true,
        ..Plan::default()
    };
    let mut world = World::new(seed, plan);
    world.crash(2);
    world.all_believe_but(2);
    let table = world.table();
    let written = world.write(0, set(&table, (1, 1), 7, 10), Consistency::Quorum);
    written.expect("two of three");
    world.simulation.run_for(SECOND);
    world.start(2);
    world.simulation.run_for(SECOND);
    assert_eq!(world.rows_at(2, 1), []);
    world
}

fn truncate(world: &mut World, node: usize) {
    let shard = world.shard(node);
    let table = world.table_of(node).id;
    let truncated = world.run(&shard, |shard| async move {
        truncate::here(&shard, table).await
    });
    truncated.expect("it is truncated");
    world.simulation.run_for(SECOND);
}

fn restart(world: &mut World, node: usize) {
    world.crash(node);
    world.start(node);
    for other in 0..3 {
        world.believe_up(other, &[0, 1]);
    }
}

#[test]
fn a_node_that_is_back_gets_what_it_missed() {
    let mut world = missed(1);
    world.all_believe(2, true);
    world.simulation.run_for(DELIVERED);
    assert_eq!(world.rows_at(2, 1), [(1, 7)]);
}

#[test]
fn who_keeps_a_hint_of_before_a_truncation_drops_it_after_a_restart() {
    let mut world = missed(2);
    for node in 0..3 {
        truncate(&mut world, node);
    }
    restart(&mut world, 0);
    world.all_believe(2, true);
    world.simulation.run_for(DELIVERED);
    assert_eq!(world.rows_at(2, 1), []);
    // What is written from now on is missed and delivered as ever.
    world.crash(2);
    world.all_believe_but(2);
    let table = world.table();
    let written = world.write(0, set(&table, (1, 2), 8, 11), Consistency::Quorum);
    written.expect("two of three");
    world.start(2);
    world.all_believe(2, true);
    world.simulation.run_for(DELIVERED);
    assert_eq!(world.rows_at(2, 1), [(2, 8)]);
}

#[test]
fn who_was_truncated_takes_no_hint_of_before_after_a_restart() {
    let mut world = missed(3);
    // Who keeps the hint has not heard of it.
    truncate(&mut world, 2);
    restart(&mut world, 2);
    world.all_believe(2, true);
    world.simulation.run_for(DELIVERED);
    assert_eq!(world.rows_at(2, 1), []);
}

#[test]
fn a_hint_is_as_old_as_its_write() {
    let plan = Plan {
        hints: true,
        ..Plan::default()
    };
    let mut world = World::new(4, plan);
    let table = world.table();
    world.cut_off(2);
    let written = world.write(0, set(&table, (1, 1), 7, 10), Consistency::Quorum);
    written.expect("two of three");
    world.simulation.run_for(SECOND);
    // It is still waited for node 2; only then there will be a hint.
    for node in 0..3 {
        let shard = world.shard(node);
        let table = table.id;
        let truncated = world.run(&shard, |shard| async move {
            truncate::here(&shard, table).await
        });
        truncated.expect("it is truncated");
    }
    world.simulation.run_for(3 * SECOND);
    assert_eq!(world.missed(0), 1);
    world.simulation.heal();
    world.simulation.run_for(DELIVERED);
    for node in 0..3 {
        assert_eq!(world.rows_at(node, 1), [], "node {node}");
    }
}

/// Its drive was late, say: others have the write, and nobody but itself has the hint.
#[test]
fn a_coordinator_gets_what_its_own_replica_missed() {
    let plan = Plan {
        hints: true,
        ..Plan::default()
    };
    let mut world = World::new(5, plan);
    let (shard, table) = (world.shard(0), world.table_of(0));
    let kept = world.run(&shard, |shard| async move {
        let mutation = Mutation {
            updates: vec![set(&table, (1, 1), 7, 10)],
        };
        let (own, now) = (shard.metadata().own(), shard.env.wall_micros());
        hints::keep(&shard, own, &mutation, now)
    });
    assert!(kept.is_some());
    world.simulation.run_for(DELIVERED);
    assert_eq!(world.rows_at(0, 1), [(1, 7)]);
}
