//! Logged batches: who keeps them, that all of them is applied whoever dies, and what clients are told.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use cluster::{Consistency, Outcome};
use io::TaskGroup;
use model::Mutation;
use wire::WriteType;

use super::content::set;
use super::world::{Plan, SECOND, World};
use crate::batch_log;
use crate::coordinator;
use crate::error::RequestError;
use crate::truncate;

/// After that whoever keeps a batch has completed it.
const REPLAYED: Duration = Duration::from_secs(16);
const KEYS: std::ops::Range<i32> = 0..6;

fn with_hints(plan: Plan) -> Plan {
    Plan {
        hints: true,
        ..plan
    }
}

/// A batch that sets `v` of a row of each key.
fn batch(world: &World, value: i32, timestamp: i64) -> Vec<Mutation> {
    let table = world.table();
    let update = |key| set(&table, (key, 1), value, timestamp);
    let mutation = |key| Mutation {
        updates: vec![update(key)],
    };
    KEYS.map(mutation).collect()
}

/// Has a node coordinate a batch.
fn write(
    world: &mut World,
    node: usize,
    value: i32,
    consistency: Consistency,
) -> Result<(), RequestError> {
    let mutations = batch(world, value, 10);
    let shard = world.shard(node);
    world.run(&shard, |shard| async move {
        coordinator::write_logged(&shard, mutations, consistency, None, None).await
    })
}

/// How many batches a node keeps.
fn kept(world: &World, node: usize) -> usize {
    let shards = world.shards_of(node);
    shards.iter().map(|shard| shard.batch_log.len()).sum()
}

/// Has a node begin a batch, and runs until those that are to keep it do: these.
fn begin(world: &mut World, node: usize, holders: usize) -> BTreeSet<usize> {
    let mutations = batch(world, 7, 10);
    let shard = world.shard(node);
    let writing = {
        let shard = shard.clone();
        async move {
            let _ =
                coordinator::write_logged(&shard, mutations, Consistency::Quorum, None, None).await;
        }
    };
    shard.env.spawn(TaskGroup::Foreground, writing).detach();
    let nodes = world.nodes.len();
    let all: Vec<_> = (0..nodes).map(|node| world.shards_of(node)).collect();
    let holding = || {
        let keeps = |node: &usize| all[*node].iter().any(|shard| shard.batch_log.len() > 0);
        (0..nodes).filter(keeps).collect::<BTreeSet<usize>>()
    };
    let begun = world
        .simulation
        .run_until(SECOND, |_| holding().len() == holders);
    assert!(begun, "only {:?} keep it", holding());
    holding()
}

/// What nodes have of each key.
fn values(world: &mut World, node: usize) -> Vec<Option<i32>> {
    KEYS.map(|key| world.rows_at(node, key).first().map(|(_, value)| *value))
        .collect()
}

#[test]
fn two_others_keep_a_batch_until_it_is_done() {
    for (seed, shards) in [(1, 1), (2, 3)] {
        let plan = Plan {
            nodes: 5,
            shards,
            ..Plan::default()
        };
        let mut world = World::new(seed, plan);
        let holders = begin(&mut world, 3, 2);
        assert!(!holders.contains(&3), "{holders:?}");
        world.simulation.run_for(SECOND);
        assert_eq!((0..5).map(|node| kept(&world, node)).sum::<usize>(), 0);
        for key in KEYS {
            let read = world.read(0, world.command(key), Consistency::Quorum);
            let rows = super::content::rows(&read.expect("all are up"));
            assert_eq!(rows, [(1, 7)]);
        }
        // Nor do those come back that forgot it.
        for node in holders {
            world.crash(node);
            world.start(node);
            assert_eq!(kept(&world, node), 0);
        }
    }
}

#[test]
fn nodes_of_other_racks_keep_a_batch() {
    let plan = Plan {
        nodes: 6,
        racks: 3,
        ..Plan::default()
    };
    let mut seen = BTreeSet::new();
    for seed in 1..12 {
        let mut world = World::new(seed, plan.clone());
        let holders = begin(&mut world, 1, 2);
        let racks: BTreeSet<usize> = holders.iter().map(|node| node % 3).collect();
        assert_eq!(racks, BTreeSet::from([0, 2]), "{holders:?}");
        seen.extend(holders);
    }
    assert_eq!(seen, BTreeSet::from([0, 2, 3, 5]), "each at times");
}

#[test]
fn others_complete_what_a_coordinator_has_left() {
    for (seed, shards) in [(1, 1), (2, 1), (3, 2)] {
        let plan = Plan {
            shards,
            ..Plan::default()
        };
        let mut world = World::new(seed, with_hints(plan));
        assert_eq!(begin(&mut world, 0, 2), BTreeSet::from([1, 2]));
        world.crash(0);
        world.all_believe_but(0);
        world.simulation.run_for(SECOND);
        for node in [1, 2] {
            assert_eq!(values(&mut world, node), [None; 6], "it was not applied");
        }
        world.simulation.run_for(REPLAYED);
        for node in [1, 2] {
            assert_eq!(values(&mut world, node), [Some(7); 6]);
            assert_eq!(kept(&world, node), 0);
        }
        world.start(0);
        world.all_believe(0, true);
        world.simulation.run_for(REPLAYED);
        assert_eq!(values(&mut world, 0), [Some(7); 6], "by hints");
    }
}

#[test]
fn a_batch_outlives_those_who_keep_it() {
    let mut world = World::new(4, with_hints(Plan::default()));
    begin(&mut world, 0, 2);
    world.crash(0);
    // They have it on their drives.
    world.simulation.run_for(SECOND);
    for node in [1, 2] {
        world.crash(node);
    }
    for node in [1, 2] {
        world.start(node);
    }
    world.all_believe_but(0);
    for node in [1, 2] {
        assert_eq!(kept(&world, node), 1);
        assert_eq!(values(&mut world, node), [None; 6]);
    }
    world.simulation.run_for(REPLAYED);
    for node in [1, 2] {
        assert_eq!(values(&mut world, node), [Some(7); 6]);
        assert_eq!(kept(&world, node), 0);
    }
}

#[test]
fn what_a_table_had_before_it_was_truncated_does_not_come_back() {
    let mut world = World::new(5, with_hints(Plan::default()));
    begin(&mut world, 0, 2);
    world.crash(0);
    world.all_believe_but(0);
    world.simulation.run_for(SECOND);
    let table = world.table_of(1);
    for node in [1, 2] {
        let shard = world.shard(node);
        let id = table.id;
        let truncated = world.run(
            &shard,
            |shard| async move { truncate::here(&shard, id).await },
        );
        truncated.expect("it is truncated");
    }
    // One of them learns of it from its drive.
    world.crash(1);
    world.start(1);
    world.all_believe_but(0);
    assert_eq!(kept(&world, 1), 1);
    world.simulation.run_for(REPLAYED);
    for node in [1, 2] {
        assert_eq!(values(&mut world, node), [None; 6]);
        assert_eq!(kept(&world, node), 0);
    }
}

#[test]
fn a_batch_needs_another_node_to_keep_it() {
    let mut world = World::new(6, with_hints(Plan::default()));
    world.cut_off(0);
    world.believe_up(0, &[]);
    let refused = write(&mut world, 0, 1, Consistency::One);
    let Err(refused @ RequestError::NoBatchLog(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(unavailable.consistency, Consistency::Two);
    assert_eq!((unavailable.required, unavailable.alive), (2, 0));
    assert_eq!(
        refused.to_string(),
        "Cannot achieve consistency level TWO for batchlog in local DC, required:2, available:0"
    );
    assert_eq!(values(&mut world, 0), [None; 6]);
    // At ANY it keeps the batch itself.
    let written = write(&mut world, 0, 2, Consistency::Any);
    written.expect("it is here");
    world.simulation.run_for(SECOND);
    assert_eq!(values(&mut world, 0), [Some(2); 6]);
    assert_eq!(kept(&world, 0), 0);
}

#[test]
fn a_batch_that_too_few_could_write_is_kept_by_nobody() {
    let mut world = World::new(7, Plan::default());
    world.crash(2);
    world.all_believe_but(2);
    let refused = write(&mut world, 0, 1, Consistency::All);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(unavailable.consistency, Consistency::All);
    assert_eq!((unavailable.required, unavailable.alive), (3, 2));
    assert_eq!((kept(&world, 0), kept(&world, 1)), (0, 0));
    world.simulation.run_for(REPLAYED);
    assert_eq!(values(&mut world, 0), [None; 6]);
    // One other is enough.
    let written = write(&mut world, 0, 2, Consistency::Quorum);
    written.expect("two of three");
    world.simulation.run_for(SECOND);
    assert_eq!((kept(&world, 0), kept(&world, 1)), (0, 0));
}

#[test]
fn a_batch_that_not_all_keep_in_time_is_not_written_at_once() {
    let mut world = World::new(8, with_hints(Plan::default()));
    world.cut_off(2);
    let late = write(&mut world, 0, 3, Consistency::One);
    let Err(RequestError::Write {
        consistency,
        write_type,
        outcome,
        ..
    }) = late
    else {
        panic!("{late:?}");
    };
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 2,
    };
    assert_eq!(outcome, timeout);
    assert_eq!(consistency, Consistency::Two);
    assert_eq!(write_type, WriteType::BatchLog);
    assert_eq!(values(&mut world, 0), [None; 6]);
    // The other one has it, and nobody says that it was given up.
    assert_eq!(kept(&world, 1), 1);
    world.simulation.heal();
    world.simulation.run_for(REPLAYED);
    assert_eq!(values(&mut world, 0), [Some(3); 6]);
}

#[test]
fn a_node_that_keeps_too_many_refuses_more() {
    let mut world = World::new(9, Plan::default());
    world.shard(2).batch_log.fill();
    let refused = write(&mut world, 0, 3, Consistency::One);
    assert!(
        matches!(refused, Err(RequestError::Overloaded(_))),
        "{refused:?}"
    );
    assert_eq!(values(&mut world, 0), [None; 6]);
}

#[test]
fn a_node_alone_completes_what_a_crash_left_before_it_serves() {
    let plan = Plan {
        nodes: 1,
        factor: 1,
        ..Plan::default()
    };
    let mut world = World::new(10, plan);
    let written = write(&mut world, 0, 1, Consistency::Quorum);
    written.expect("it is here");
    world.simulation.run_for(SECOND);
    assert_eq!(kept(&world, 0), 0);
    let mutations = batch(&world, 2, 20);
    let shard = world.shard(0);
    let keep = |shard: Rc<_>| async move {
        let batch = batch_log::batch_of(&shard, &mutations);
        batch_log::keep(&shard, batch).await
    };
    world.run(&shard, keep).expect("the drive is fine");
    drop(shard);
    assert_eq!(values(&mut world, 0), [Some(1); 6]);
    world.crash(0);
    world.start(0);
    assert_eq!(values(&mut world, 0), [Some(2); 6]);
    assert_eq!(kept(&world, 0), 0);
}
