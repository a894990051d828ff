//! Conditional updates and serial reads: who is told what, and what comes of updates that were left
//! unfinished.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cluster::paxos::Ballot;
use cluster::{Consistency, Outcome};
use io::TaskGroup;
use model::{PartitionUpdate, ReadPage};

use super::content::{rows, set};
use super::world::{Plan, SECOND, World};
use crate::coordinator::{Conditional, update_if};
use crate::error::RequestError;

const SERIAL: (Consistency, Consistency) = (Consistency::Serial, Consistency::Quorum);

/// The value of the row 1 of a partition; 0 where there is none.
fn value(page: &ReadPage) -> i32 {
    rows(page).first().map_or(0, |(_, value)| *value)
}

/// Adds one to it, if it is what `expected` says; gives what it was.
async fn add(
    shard: Rc<crate::shard::Shard>,
    read: model::ReadCommand,
    key: i32,
    expected: Option<i32>,
    levels: (Consistency, Consistency),
) -> Result<(bool, i32), RequestError> {
    let table = read.table.clone();
    let mut was = 0;
    let decide = |page: &ReadPage, at: Ballot| -> Result<Option<PartitionUpdate>, RequestError> {
        was = value(page);
        let holds = expected.is_none_or(|expected| expected == was);
        Ok(holds.then(|| set(&table, (key, 1), was + 1, at.micros())))
    };
    match update_if(&shard, read, levels, None, None, decide).await? {
        Conditional::Applied => Ok((true, was)),
        Conditional::Refused(page) => Ok((false, value(&page))),
    }
}

impl World {
    fn add(
        &mut self,
        node: usize,
        key: i32,
        expected: Option<i32>,
        levels: (Consistency, Consistency),
    ) -> Result<(bool, i32), RequestError> {
        let (shard, read) = (self.shard(node), self.command_of(key));
        self.run(&shard, |shard| add(shard, read, key, expected, levels))
    }

    fn serial_value(&mut self, node: usize, key: i32) -> Result<i32, RequestError> {
        let read = self.read(node, self.command_of(key), Consistency::Serial);
        read.map(|page| value(&page))
    }
}

#[test]
fn an_update_is_done_if_its_condition_holds() {
    for (seed, shards) in [(1, 1), (2, 2), (3, 3)] {
        let plan = Plan {
            shards,
            ..Plan::default()
        };
        let mut world = World::new(seed, plan);
        for key in 0..6 {
            let node = key as usize % 3;
            let added = |world: &mut World, expected| {
                let added = world.add(node, key, expected, SERIAL);
                added.expect("all are up")
            };
            assert_eq!(added(&mut world, Some(0)), (true, 0));
            assert_eq!(added(&mut world, Some(0)), (false, 1));
            assert_eq!(added(&mut world, Some(1)), (true, 1));
            for node in 0..3 {
                assert_eq!(world.serial_value(node, key).expect("all are up"), 2);
            }
        }
        world.simulation.run_for(SECOND);
        for key in 0..6 {
            for node in 0..3 {
                assert_eq!(world.rows_at(node, key), [(1, 2)]);
            }
        }
        // Nothing is kept of what nobody works on.
        for node in 0..3 {
            for key in 0..6 {
                assert!(world.owner(node, key).acceptors.is_empty());
                assert!(world.shard(node).serial_turns.is_empty());
            }
        }
    }
}

#[test]
fn a_node_alone_agrees_with_itself() {
    let plan = Plan {
        nodes: 1,
        factor: 1,
        shards: 2,
        ..Plan::default()
    };
    let mut world = World::new(4, plan);
    for round in 0..5 {
        for key in 0..4 {
            let added = world.add(0, key, Some(round), SERIAL).expect("it is up");
            assert_eq!(added, (true, round));
        }
    }
    assert_eq!(world.serial_value(0, 3).expect("it is up"), 5);
}

#[test]
fn who_has_no_replica_coordinates_too() {
    let plan = Plan {
        nodes: 5,
        factor: 3,
        shards: 2,
        ..Plan::default()
    };
    let mut world = World::new(5, plan);
    for key in 0..10 {
        for node in 0..5 {
            let added = world.add(node, key, None, SERIAL).expect("all are up");
            assert_eq!(added, (true, node as i32));
        }
    }
}

/// Of many at once each is done alone.
#[test]
fn additions_at_once_come_one_after_the_other() {
    for seed in 10..16 {
        let plan = Plan {
            shards: 1 + (seed % 2) as u16,
            ..Plan::default()
        };
        let mut world = World::new(seed, plan);
        let done = Rc::new(RefCell::new(Vec::new()));
        let mut under_way = 0;
        for node in 0..3 {
            for _ in 0..4 {
                let (shard, read, done) = (world.shard(node), world.command(7), done.clone());
                under_way += 1;
                let env = shard.env.clone();
                env.spawn(TaskGroup::Foreground, async move {
                    let added = add(shard, read, 7, None, SERIAL).await;
                    done.borrow_mut().push(added);
                })
                .detach();
            }
        }
        let told = done.clone();
        let ended = world
            .simulation
            .run_until(20 * SECOND, |_| told.borrow().len() == under_way);
        assert!(ended, "some wait for ever");
        let last = world.serial_value(0, 7).expect("all are up");
        let done = done.borrow();
        let mut seen: Vec<i32> = done
            .iter()
            .filter_map(|added| added.as_ref().ok())
            .map(|(applied, was)| {
                assert!(applied, "there was no condition");
                *was
            })
            .collect();
        let sure = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), sure, "two have begun with the same");
        assert!(sure > 0, "none got through");
        // Of those that were not told, some may be done.
        let (sure, all) = (sure as i32, under_way as i32);
        assert!((sure..=all).contains(&last), "{last} of {sure} to {all}");
    }
}

#[test]
fn a_minority_is_told_that_too_few_are_up_or_answer() {
    let mut world = World::new(20, Plan::default());
    world.add(0, 1, None, SERIAL).expect("all are up");
    world.cut_off(0);
    // It has not noticed yet.
    let late = world.add(0, 1, None, SERIAL);
    let Err(RequestError::Serial {
        is_read: false,
        outcome,
        consistency: Consistency::Serial,
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
    let late = world.serial_value(0, 1);
    let is_late = matches!(late, Err(RequestError::Serial { is_read: true, .. }));
    assert!(is_late, "{late:?}");
    world.believe_up(0, &[]);
    let refused = world.add(0, 1, None, SERIAL);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((unavailable.required, unavailable.alive), (2, 1));
    // The others go on.
    world.believe_up(1, &[2]);
    assert_eq!(world.add(1, 1, None, SERIAL).expect("two are"), (true, 1));
    assert_eq!(world.serial_value(1, 1).expect("two are"), 2);
    assert!(world.missed(1) > 0, "a hint for who was away");
}

/// Whatever its coordinator had done of an update: others see all of it or nothing, and then always.
#[test]
fn what_a_coordinator_leaves_unfinished_others_settle() {
    let mut seen = [0; 2];
    for step in 0..25 {
        let mut world = World::new(100 + step, Plan::default());
        world.add(1, 1, None, SERIAL).expect("all are up");
        let (shard, read) = (world.shard(0), world.command(1));
        let env = shard.env.clone();
        env.spawn(TaskGroup::Foreground, async move {
            let _ = add(shard, read, 1, None, SERIAL).await;
        })
        .detach();
        world.simulation.run_for(Duration::from_micros(250 * step));
        world.crash(0);
        world.all_believe_but(0);
        let first = world.serial_value(2, 1).expect("two are up");
        assert!((1..=2).contains(&first), "{first}");
        seen[first as usize - 1] += 1;
        for node in [1, 2] {
            assert_eq!(world.serial_value(node, 1).expect("two are up"), first);
        }
        let added = world.add(1, 1, Some(first), SERIAL).expect("two are up");
        assert_eq!(added, (true, first));
        world.start(0);
        world.all_believe(0, true);
        assert_eq!(world.serial_value(0, 1).expect("all are up"), first + 1);
    }
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}

/// What was told to a client outlives all nodes.
#[test]
fn what_is_agreed_upon_is_on_the_drives() {
    for seed in 200..210 {
        let mut world = World::new(seed, Plan::default());
        for _ in 0..3 {
            world.add(0, 1, None, SERIAL).expect("all are up");
        }
        for node in 0..3 {
            world.crash(node);
        }
        for node in 0..3 {
            world.start(node);
        }
        let added = world.add(1, 1, Some(3), SERIAL).expect("all are up");
        assert_eq!(added, (true, 3));
        assert_eq!(world.serial_value(2, 1).expect("all are up"), 4);
    }
}

/// Prepare and read, propose: a client that does not wait for the commit waits for no more.
#[test]
fn two_round_trips_are_enough() {
    let mut world = World::new(30, Plan::default());
    let levels = (Consistency::Serial, Consistency::Any);
    world.add(0, 1, None, levels).expect("all are up");
    world.simulation.run_for(SECOND);
    let before = world.messages_of(0);
    world.add(0, 1, None, levels).expect("all are up");
    world.simulation.run_for(SECOND);
    // To each of the two others: prepare, propose, commit.
    assert_eq!(world.messages_of(0) - before, 6);
    // A read of what is settled: prepare.
    let before = world.messages_of(0);
    assert_eq!(world.serial_value(0, 1).expect("all are up"), 2);
    world.simulation.run_for(SECOND);
    assert_eq!(world.messages_of(0) - before, 2);
}

#[test]
fn the_replicas_of_one_data_centre_agree_among_themselves() {
    let plan = Plan {
        nodes: 6,
        far: 3,
        factor: 3,
        ..Plan::default()
    };
    let mut world = World::new(40, plan);
    let levels = (Consistency::LocalSerial, Consistency::LocalQuorum);
    for far in 3..6 {
        world.crash(far);
    }
    world.believe_up(0, &[1, 2]);
    assert_eq!(
        world.add(0, 1, None, levels).expect("three are up"),
        (true, 0)
    );
    let read = world.read(0, world.command_of(1), Consistency::LocalSerial);
    assert_eq!(value(&read.expect("three are up")), 1);
    let refused = world.add(0, 1, None, SERIAL);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((unavailable.required, unavailable.alive), (4, 3));
}

#[test]
fn several_partitions_are_read_as_they_were_agreed_upon() {
    let mut world = World::new(50, Plan::default());
    let commands = vec![world.command(1), world.command(2)];
    let shard = world.shard(0);
    let read = world.run(&shard, |shard| async move {
        crate::coordinator::read_all(&shard, &commands, Consistency::Serial, None, None).await
    });
    assert_eq!(read.expect("two partitions").len(), 2);
}
