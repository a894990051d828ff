//! Writes: who has them, and what clients are told.

use std::time::Duration;

use cluster::{Consistency, FailureReason, Outcome};

use super::content::set;
use super::world::{Plan, SECOND, World, schema};
use crate::error::RequestError;

fn outcome(result: Result<(), RequestError>) -> Outcome {
    match result {
        Err(RequestError::Write { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_write_goes_to_all_replicas() {
    for (seed, shards) in [(1, 1), (2, 2), (3, 3)] {
        let mut world = World::new(
            seed,
            Plan {
                shards,
                ..Plan::default()
            },
        );
        let table = world.table();
        for key in 0..10 {
            let node = key as usize % 3;
            let written = world.write(node, set(&table, (key, 1), key, 10), Consistency::One);
            written.expect("all are up");
        }
        world.simulation.run_for(SECOND);
        for key in 0..10 {
            for node in 0..3 {
                assert_eq!(world.rows_at(node, key), [(1, key)]);
            }
        }
        assert_eq!((0..3).map(|node| world.missed(node)).sum::<u64>(), 0);
    }
}

#[test]
fn a_node_without_the_data_coordinates_too() {
    let plan = Plan {
        nodes: 5,
        factor: 2,
        ..Plan::default()
    };
    let mut world = World::new(4, plan);
    let table = world.table();
    for key in 0..20 {
        let update = set(&table, (key, 1), key, 10);
        let written = world.write(key as usize % 5, update, Consistency::All);
        written.expect("all are up");
        let having = (0..5).filter(|node| !world.rows_at(*node, key).is_empty());
        assert_eq!(having.count(), 2);
        let page = world.read(
            4 - key as usize % 5,
            world.command(key),
            Consistency::Quorum,
        );
        assert_eq!(super::content::rows(&page.expect("all are up")), [(1, key)]);
    }
}

#[test]
fn a_write_is_refused_where_too_few_are_up() {
    let mut world = World::new(5, Plan::default());
    let table = world.table();
    world.crash(1);
    world.crash(2);
    world.believe_up(0, &[]);
    for (consistency, required) in [(Consistency::Quorum, 2), (Consistency::All, 3)] {
        let refused = world.write(0, set(&table, (1, 1), 1, 10), consistency);
        let Err(RequestError::Unavailable(unavailable)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((unavailable.required, unavailable.alive), (required, 1));
    }
    assert_eq!(world.rows_at(0, 1), []);
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::One);
    written.expect("one is up");
    assert_eq!(world.missed(0), 2);
}

#[test]
fn a_write_that_too_few_answer_times_out() {
    let mut world = World::new(6, Plan::default());
    let table = world.table();
    world.cut_off(1);
    world.cut_off(2);
    let began = world.simulation.now();
    let late = world.write(0, set(&table, (1, 1), 1, 10), Consistency::Quorum);
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 2,
    };
    assert_eq!(outcome(late), timeout);
    let took = world.simulation.now().saturating_duration_since(began);
    assert!(
        (Duration::from_millis(1900)..3 * SECOND).contains(&took),
        "{took:?}"
    );
    world.simulation.run_for(3 * SECOND);
    assert_eq!(world.missed(0), 2);
    // One that nobody up has.
    let late = world.write(0, set(&table, (1, 1), 1, 10), Consistency::All);
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 3,
    };
    assert_eq!(outcome(late), timeout);
}

#[test]
fn a_write_is_done_with_a_quorum_and_late_answers_are_waited_for() {
    let mut world = World::new(7, Plan::default());
    let table = world.table();
    world.cut_off(2);
    let began = world.simulation.now();
    let written = world.write(0, set(&table, (1, 1), 7, 10), Consistency::Quorum);
    written.expect("two of three");
    let took = world.simulation.now().saturating_duration_since(began);
    assert!(took < SECOND / 2, "{took:?}");
    assert_eq!(world.missed(0), 0);
    world.simulation.run_for(Duration::from_millis(500));
    world.simulation.heal();
    world.simulation.run_for(5 * SECOND);
    for node in 0..3 {
        assert_eq!(world.rows_at(node, 1), [(1, 7)]);
    }
}

#[test]
fn replicas_that_fail_are_named() {
    let mut world = World::new(8, Plan::default());
    let table = world.table();
    for node in [1, 2] {
        let shard = world.shard(node);
        let without = schema(&world.plan, Vec::new());
        let changed = world.run(&shard, |shard| async move {
            shard.store.set_schema(&without).await
        });
        changed.expect("the drive is fine");
    }
    let failed = world.write(0, set(&table, (1, 1), 1, 10), Consistency::Quorum);
    let Err(RequestError::Write {
        outcome,
        mut failures,
        ..
    }) = failed
    else {
        panic!("{failed:?}");
    };
    let Outcome::Failure {
        received,
        block_for,
        ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    // The own drive may have it before the others fail.
    assert!(received <= 1, "{received}");
    assert_eq!(block_for, 2);
    failures.sort_by_key(|(address, _)| *address);
    let reason = FailureReason::IncompatibleSchema;
    let named = [1u8, 2].map(|node| (([10, 0, 0, node + 1], 7000).into(), reason));
    assert_eq!(failures, named);
    assert_eq!(world.missed(0), 2);
    let written = world.write(0, set(&table, (1, 1), 1, 10), Consistency::One);
    written.expect("it is here");
}
