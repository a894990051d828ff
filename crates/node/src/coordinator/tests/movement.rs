//! A node that is about to join: it gets writes and is not read from.

use cluster::{Consistency, Outcome};

use super::content::{rows, set};
use super::world::{Plan, World};
use crate::error::RequestError;

fn world(seed: u64) -> World {
    let plan = Plan {
        nodes: 4,
        joining: true,
        ..Plan::default()
    };
    World::new(seed, plan)
}

/// A key that the joining node gets.
fn moving(world: &World) -> i32 {
    let metadata = world.shard(0).metadata();
    let placement = metadata.placement("ks");
    let moves = |key: &i32| {
        let token = super::content::decorated(*key).token();
        !placement.replicas(token).pending.is_empty()
    };
    (0..1000).find(moves).expect("some move")
}

#[test]
fn a_write_needs_it_too() {
    let mut world = world(1);
    let (table, key) = (world.table(), moving(&world));
    let written = world.write(0, set(&table, (key, 1), 1, 10), Consistency::All);
    written.expect("all are up");
    assert_eq!(world.rows_at(3, key), [(1, 1)]);
    world.cut_off(1);
    world.cut_off(2);
    let late = world.write(0, set(&table, (key, 1), 2, 20), Consistency::Quorum);
    let Err(RequestError::Write { outcome, .. }) = late else {
        panic!("{late:?}");
    };
    let timeout = Outcome::Timeout {
        received: 2,
        block_for: 3,
    };
    assert_eq!(outcome, timeout);
}

#[test]
fn what_is_read_at_a_quorum_one_more_has_to_know() {
    let mut world = world(2);
    let (table, key) = (world.table(), moving(&world));
    world.write_at(0, set(&table, (key, 1), 1, 10));
    let page = world.read(0, world.command(key), Consistency::Quorum);
    assert_eq!(rows(&page.expect("all are up")), [(1, 1)]);
    // Any three of four are most of those that were and of those that will be.
    let having = (0..4).filter(|node| !world.rows_at(*node, key).is_empty());
    assert_eq!(having.count(), 3);
}

#[test]
fn it_is_told_where_another_is_down() {
    let mut world = world(3);
    let (table, key) = (world.table(), moving(&world));
    world.write_at(0, set(&table, (key, 1), 1, 10));
    world.crash(2);
    world.believe_up(0, &[1, 3]);
    let page = world.read(0, world.command(key), Consistency::Quorum);
    assert_eq!(rows(&page.expect("enough are up")), [(1, 1)]);
    for node in [1, 3] {
        assert_eq!(world.rows_at(node, key), [(1, 1)]);
    }
}
