//! Reads of a range of the ring.

use std::collections::BTreeMap;

use cluster::Consistency;
use io::Random;
use model::{DataLimits, Partition, ReadCommand, ReadPage, Resume, TableOptions};

use super::content::{decorated, delete, rows_of, set};
use super::world::{Plan, World};
use crate::error::RequestError;

/// What a client sees: rows by key and `c`.
type Content = BTreeMap<(i32, i32), i32>;

fn key_of(partition: &Partition) -> i32 {
    let bytes = partition.key.key().as_array().expect("an int");
    i32::from_be_bytes(*bytes)
}

/// All pages, one behind the other.
pub(super) fn paged(
    world: &mut World,
    node: usize,
    mut command: ReadCommand,
    consistency: Consistency,
) -> Vec<(i32, (i32, i32))> {
    let mut all = Vec::new();
    for _ in 0..500 {
        let page = world.read(node, command.clone(), consistency);
        let page = page.expect("enough are up");
        let given: usize = page.partitions.iter().map(Partition::counted_rows).sum();
        assert!(given <= command.limits.rows as usize);
        for partition in &page.partitions {
            let rows = rows_of(partition).into_iter();
            all.extend(rows.map(|row| (key_of(partition), row)));
        }
        let Some(last) = page.partitions.last().filter(|_| page.more) else {
            assert!(!page.more, "a page that says so can be followed");
            return all;
        };
        let before = command
            .resume
            .take()
            .filter(|resume| resume.key == last.key);
        let of_partition = command.limits.rows_per_partition;
        let allowed = before.map_or(of_partition, |resume| resume.remaining_in_partition);
        command.resume = Some(Resume {
            key: last.key.clone(),
            clustering: last.rows.last().map(|row| row.clustering.clone()),
            remaining_in_partition: allowed - last.rows.len() as u32,
        });
    }
    panic!("pages without end");
}

/// The rows of `content` in the order of the ring, at most so many of a partition.
fn expected(content: &Content, of_partition: u32) -> Vec<(i32, (i32, i32))> {
    let mut all: Vec<_> = content.iter().map(|((k, c), v)| (*k, (*c, *v))).collect();
    all.sort_by_key(|(key, row)| (decorated(*key), *row));
    let mut count = BTreeMap::new();
    all.retain(|(key, _)| {
        let count = count.entry(*key).or_insert(0);
        *count += 1;
        *count <= of_partition
    });
    all
}

/// Writes to some of the replicas of random keys, then reads all of it in pages.
fn tell(seed: u64, plan: Plan) {
    let mut random = Random::new(seed);
    let nodes = plan.nodes;
    let mut world = World::new(seed, plan);
    let table = world.table();
    let mut content = Content::new();
    for at in 1..120i64 {
        let place = (random.below(25) as i32, random.below(4) as i32);
        let is_deletion = random.below(4) == 0;
        let update = match is_deletion {
            true => delete(&table, place, at),
            false => set(&table, place, at as i32, at),
        };
        match is_deletion {
            true => drop(content.remove(&place)),
            false => drop(content.insert(place, at as i32)),
        }
        // One of the replicas at least has it.
        let metadata = world.shard(0).metadata();
        let replicas = metadata.placement("ks").replicas(update.key.token());
        let lucky = random.below(replicas.natural.len() as u64) as usize;
        for (number, node) in replicas.natural.iter().enumerate() {
            if number == lucky || random.below(3) > 0 {
                world.write_at(node.0 as usize, update.clone());
            }
        }
    }
    for _ in 0..4 {
        let mut command = world.scan();
        let some = |random: &mut Random, most| 1 + random.below(most) as u32;
        command.limits = DataLimits {
            rows: some(&mut random, 40),
            rows_per_partition: match random.below(2) {
                0 => u32::MAX,
                _ => some(&mut random, 3),
            },
            bytes: match random.below(2) {
                0 => 1 << 20,
                _ => some(&mut random, 500),
            },
        };
        let node = random.below(nodes as u64) as usize;
        let expected = expected(&content, command.limits.rows_per_partition);
        assert_eq!(
            paged(&mut world, node, command, Consistency::All),
            expected,
            "seed {seed}"
        );
    }
    // Once all has been read, all have all of it.
    let mut command = world.scan();
    let all = paged(&mut world, 0, command.clone(), Consistency::All);
    assert_eq!(all, expected(&content, u32::MAX), "seed {seed}");
    let of_one = paged(&mut world, 0, command.clone(), Consistency::One);
    assert_eq!(of_one, expected(&content, u32::MAX), "seed {seed}");
    command.limits.rows = 7;
    let of_one = paged(&mut world, nodes - 1, command, Consistency::One);
    assert_eq!(of_one, expected(&content, u32::MAX), "seed {seed}");
}

#[test]
fn a_range_is_what_all_replicas_know_of_it() {
    for seed in 0..6 {
        let shards = 1 + (seed % 3) as u16;
        tell(
            seed,
            Plan {
                shards,
                ..Plan::default()
            },
        );
        tell(
            seed,
            Plan {
                nodes: 5,
                shards,
                tokens: 3,
                ..Plan::default()
            },
        );
        tell(
            seed,
            Plan {
                nodes: 4,
                shards,
                factor: 2,
                ..Plan::default()
            },
        );
    }
}

#[test]
fn neighbours_with_the_same_replicas_are_one_question() {
    let mut world = World::new(
        50,
        Plan {
            tokens: 16,
            ..Plan::default()
        },
    );
    let table = world.table();
    for key in 0..50 {
        let written = world.write(0, set(&table, (key, 1), key, 10), Consistency::All);
        written.expect("all are up");
    }
    let answered = |world: &World, node: usize| {
        world
            .shard(node)
            .store
            .stats()
            .tables
            .iter()
            .map(|table| table.range_reads)
            .sum::<u64>()
    };
    let before = answered(&world, 1) + answered(&world, 2);
    let page = world
        .read(0, world.scan(), Consistency::Quorum)
        .expect("all are up");
    assert_eq!(page.partitions.len(), 50);
    assert_eq!(answered(&world, 1) + answered(&world, 2) - before, 1);
}

#[test]
fn who_knows_the_same_of_a_range_says_so_by_a_digest() {
    for shards in 1..4 {
        let plan = Plan {
            shards,
            tokens: 16,
            ..Plan::default()
        };
        let mut world = World::new(52, plan);
        let table = world.table();
        for key in 0..50 {
            let written = world.write(0, set(&table, (key, 1), key, 10), Consistency::All);
            written.expect("all are up");
        }
        let read = |world: &mut World, rows: u32| {
            let mut command = world.scan();
            command.limits.rows = rows;
            let page = world.read(0, command, Consistency::All);
            let partitions = page.expect("all are up").partitions.len();
            let mismatched = world.shard(0).metrics.mismatched_reads.get();
            (partitions, mismatched)
        };
        for rows in [1, 7, 49, 50, 1000] {
            assert_eq!(read(&mut world, rows), (50.min(rows as usize), 0));
        }
        world.write_at(1, set(&table, (50, 1), 50, 10));
        assert_eq!(read(&mut world, 1000), (51, 1), "of {shards} shards");
    }
}

#[test]
fn a_range_with_too_few_replicas_up_is_refused() {
    let plan = Plan {
        nodes: 4,
        factor: 2,
        ..Plan::default()
    };
    let mut world = World::new(51, plan);
    let table = world.table();
    for key in 0..40 {
        let written = world.write(0, set(&table, (key, 1), key, 10), Consistency::All);
        written.expect("all are up");
    }
    world.crash(3);
    world.all_believe_but(3);
    let refused = world.read(0, world.scan(), Consistency::Quorum);
    let Err(RequestError::Unavailable(unavailable)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((unavailable.required, unavailable.alive), (2, 1));
    let page = world
        .read(0, world.scan(), Consistency::One)
        .expect("one of two is up");
    assert_eq!(page.partitions.len(), 40);
}

#[test]
fn a_table_that_wants_no_repair_is_reconciled_all_the_same() {
    let options = TableOptions {
        read_repair: "NONE".to_owned(),
        ..TableOptions::default()
    };
    let mut world = World::new(
        52,
        Plan {
            options,
            ..Plan::default()
        },
    );
    let table = world.table();
    for key in 0..30 {
        for node in 0..3 {
            world.write_at(node, set(&table, (key, 1), 1, 10));
        }
        if key % 10 > 0 {
            world.write_at(key as usize % 3, delete(&table, (key, 1), 20));
        }
    }
    let mut command = world.scan();
    command.limits.rows = 2;
    let all = paged(&mut world, 0, command, Consistency::All);
    let mut keys: Vec<i32> = all.into_iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 10, 20]);
    let page: ReadPage = world
        .read(1, world.scan(), Consistency::All)
        .expect("all are up");
    assert_eq!(page.partitions.len(), 3);
}
