//! What operators do with hints.

use std::rc::Rc;
use std::time::Duration;

use cluster::Consistency;
use uuid::Uuid;

use super::content::set;
use super::world::{Plan, SECOND, World};
use crate::hints::{self, PendingHints};

/// The host id of node 2.
const AWAY: Uuid = Uuid::from_u128(3);

/// A world in which nodes keep hints and knows that node 2 is down.
fn world(seed: u64) -> World {
    let plan = Plan {
        hints: true,
        ..Plan::default()
    };
    let mut world = World::new(seed, plan);
    world.simulation.run_for(SECOND);
    world.all_believe_but(2);
    world
}

fn write(world: &mut World, key: i32) {
    let update = set(&world.table(), (key, 1), key, 10);
    world
        .write(0, update, Consistency::Quorum)
        .expect("two of three");
}

fn pending(world: &mut World) -> Vec<PendingHints> {
    let shard = world.shard(0);
    let found = world.run(&shard, |shard| async move { hints::pending(&shard).await });
    found.expect("the drive is fine")
}

fn kept(world: &World) -> u64 {
    world.shard(0).metrics.hints_kept.get()
}

#[test]
fn hints_that_wait_are_listed_and_removed() {
    let mut world = world(50);
    assert_eq!(pending(&mut world), []);
    write(&mut world, 1);
    let first = pending(&mut world);
    assert_eq!(
        (first.len(), first[0].host_id, first[0].files),
        (1, AWAY, 1)
    );
    assert_eq!(first[0].oldest, first[0].newest);
    world.simulation.run_for(10 * SECOND);
    write(&mut world, 2);
    assert_eq!(pending(&mut world), first, "it goes into the same file");

    let shard = world.shard(0);
    let truncate = |host_id: Option<Uuid>| {
        move |shard: Rc<crate::shard::Shard>| async move { hints::truncate(&shard, host_id).await }
    };
    world
        .run(&shard, truncate(Some(Uuid::from_u128(2))))
        .expect("there are none");
    assert_eq!(pending(&mut world), first);
    for which in [Some(AWAY), None] {
        write(&mut world, 3);
        world
            .run(&shard, truncate(which))
            .expect("the drive is fine");
        assert_eq!(pending(&mut world), []);
    }
    world.all_believe(2, true);
    world.simulation.run_for(5 * SECOND);
    for key in 1..4 {
        assert_eq!(world.rows_at(2, key), [], "nobody has it for the node");
    }
    write(&mut world, 4);
    world.simulation.run_for(SECOND);
    assert_eq!(world.rows_at(2, 4), [(1, 4)]);
}

#[test]
fn hints_are_kept_and_delivered_as_operators_want() {
    let mut world = world(51);
    let shard = world.shard(0);
    shard.hints.enable(false);
    write(&mut world, 1);
    assert!(!shard.hints.is_enabled() && kept(&world) == 0);
    shard.hints.enable(true);
    write(&mut world, 2);
    assert_eq!(kept(&world), 1);

    assert_eq!(shard.hints.window(), Duration::from_secs(3 * 60 * 60));
    shard.hints.set_window(5 * SECOND);
    world.simulation.run_for(6 * SECOND);
    write(&mut world, 3);
    assert_eq!((kept(&world), shard.metrics.hints_dropped.get()), (1, 1));
    shard.hints.set_window(60 * SECOND);
    write(&mut world, 4);
    assert_eq!(kept(&world), 2);

    shard.hints.pause(true);
    world.all_believe(2, true);
    world.simulation.run_for(20 * SECOND);
    assert_eq!(world.rows_at(2, 2), []);
    shard.hints.pause(false);
    world.simulation.run_for(20 * SECOND);
    let having: Vec<bool> = (1..5)
        .map(|key| !world.rows_at(2, key).is_empty())
        .collect();
    assert_eq!(having, [false, true, false, true]);
    assert_eq!(pending(&mut world), []);
}
