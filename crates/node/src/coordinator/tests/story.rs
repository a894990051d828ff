//! Nodes that are cut off, connections that break and lose, nodes that die: a quorum still sees what a
//! quorum wrote, and no read goes back in time.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::Consistency;
use io::Random;
use io::sim::LinkConfig;

use super::content::{rows, set};
use super::world::{Plan, SECOND, World};

/// What is known of a key from outside: values are the times at which they were written.
#[derive(Default)]
struct Register {
    /// The latest write that was acknowledged.
    acknowledged: i64,
    /// The latest one that was begun.
    begun: i64,
    /// The latest value that was read.
    seen: i64,
}

const KEYS: u64 = 4;

fn trouble(world: &mut World, random: &mut Random, down: &mut Option<usize>) {
    let number = random.below(3) as usize;
    match random.below(8) {
        0 => world.cut_off(number),
        1 => world.simulation.heal(),
        2 => world.simulation.set_links(LinkConfig {
            loss: 0.1,
            reset: 0.002,
            ..LinkConfig::HEALTHY
        }),
        3 => world.simulation.set_links(LinkConfig::HEALTHY),
        4 if down.is_none() => {
            world.crash(number);
            *down = Some(number);
            for node in (0..3).filter(|node| *node != number) {
                let up: Vec<usize> = (0..3).filter(|n| *n != node && *n != number).collect();
                world.believe_up(node, &up);
            }
        }
        5 => {
            if let Some(number) = down.take() {
                world.start(number);
                world.all_believe(number, true);
            }
        }
        _ => world
            .simulation
            .run_for(Duration::from_millis(random.below(500))),
    }
}

fn tell(seed: u64) -> (u64, u64) {
    let shards = 1 + (seed % 2) as u16;
    let mut world = World::new(
        seed,
        Plan {
            shards,
            ..Plan::default()
        },
    );
    let mut random = Random::new(seed);
    let mut registers: BTreeMap<i32, Register> = BTreeMap::new();
    let mut down = None;
    let mut reads = 0;
    for now in 1..150i64 {
        if random.below(4) == 0 {
            trouble(&mut world, &mut random, &mut down);
        }
        let up: Vec<usize> = (0..3).filter(|node| down != Some(*node)).collect();
        let node = up[random.below(up.len() as u64) as usize];
        let key = random.below(KEYS) as i32;
        let register = registers.entry(key).or_default();
        if random.below(2) == 0 {
            register.begun = now;
            let table = world.shard(node).store.table(model::TableId::from_u128(5));
            let table = table.expect("it is there");
            let update = set(&table, (key, 1), now as i32, now);
            if world.write(node, update, Consistency::Quorum).is_ok() {
                register.acknowledged = now;
            }
            continue;
        }
        let table = world.shard(node).store.table(model::TableId::from_u128(5));
        let command = model::ReadCommand {
            table: table.expect("it is there"),
            ..world.command_of(key)
        };
        let Ok(page) = world.read(node, command, Consistency::Quorum) else {
            continue;
        };
        reads += 1;
        let value = rows(&page).first().map_or(0, |(_, v)| i64::from(*v));
        let register = registers.entry(key).or_default();
        assert!(
            value >= register.acknowledged,
            "seed {seed}: key {key} lost a write at {now}"
        );
        assert!(
            value <= register.begun,
            "seed {seed}: key {key} has what nobody wrote"
        );
        assert!(
            value >= register.seen,
            "seed {seed}: key {key} goes back in time at {now}"
        );
        register.seen = value;
    }
    (world.simulation.trace_hash(), reads)
}

#[test]
fn quorums_see_each_other_whatever_happens() {
    let mut reads = 0;
    for seed in 0..15 {
        reads += tell(seed).1;
    }
    assert!(reads > 250, "{reads} reads were answered");
}

#[test]
fn a_seed_tells_the_same_story() {
    assert_eq!(tell(3), tell(3));
}

#[test]
fn a_write_that_is_read_stays_though_its_writer_gave_up() {
    // It reached one node alone.
    let mut world = World::new(77, Plan::default());
    let table = world.table();
    world.write_at(1, set(&table, (1, 1), 5, 10));
    world.believe_up(0, &[1]);
    let page = world.read(0, world.command(1), Consistency::Quorum);
    assert_eq!(rows(&page.expect("two of three")), [(1, 5)]);
    world.crash(1);
    world.believe_up(2, &[0]);
    world.simulation.run_for(SECOND);
    let page = world.read(2, world.command(1), Consistency::Quorum);
    assert_eq!(rows(&page.expect("two of three")), [(1, 5)]);
}
