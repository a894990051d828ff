//! Reads by an index of which several replicas have to answer.

use std::collections::BTreeMap;

use cluster::Consistency;
use io::Random;
use model::{
    ColumnId, DataLimits, FilterOperator, Partition, PartitionUpdate, ReadCommand, RowFilter,
};

use super::content::{cell, clustering, decorated, delete, int, rows_of, set, update};
use super::range::paged;
use super::world::{Plan, SECOND, World};

/// What a client sees of a row: `v` and `w`.
type Values = (Option<i32>, Option<i32>);

fn equal(column: u32, value: i32) -> RowFilter {
    RowFilter {
        column: ColumnId(column),
        operator: FilterOperator::Equal,
        values: vec![int(value)],
    }
}

/// Some of the replicas learn of it, one of them at least.
fn tell_some(world: &mut World, random: &mut Random, update: &PartitionUpdate) {
    let metadata = world.shard(0).metadata();
    let replicas = metadata.placement("ks").replicas(update.key.token());
    let lucky = random.below(replicas.natural.len() as u64) as usize;
    for (number, node) in replicas.natural.iter().enumerate() {
        if number == lucky || random.below(3) == 0 {
            world.write_at(node.0 as usize, update.clone());
        }
    }
}

fn limits(random: &mut Random) -> DataLimits {
    let mut some = |most| 1 + random.below(most) as u32;
    DataLimits {
        rows: some(20),
        rows_per_partition: [u32::MAX, some(3)][some(2) as usize - 1],
        bytes: [1 << 20, some(500)][some(2) as usize - 1],
    }
}

/// Writes `v` and `w` to some of the replicas, which so know different rows by their indexes, and asks for both.
fn ask_for_rows(seed: u64, plan: Plan) {
    let mut random = Random::new(seed);
    let nodes = plan.nodes as u64;
    let mut world = World::new(seed, plan);
    world.simulation.run_for(SECOND);
    let table = world.table();
    let mut content: BTreeMap<(i32, i32), Values> = BTreeMap::new();
    for at in 1..300i64 {
        let place = (random.below(25) as i32, random.below(4) as i32);
        let value = random.below(3) as i32;
        let update = match random.below(6) {
            0 => {
                content.remove(&place);
                delete(&table, place, at)
            }
            1 | 2 => {
                content.entry(place).or_default().1 = Some(value);
                let mut update = update(&table, place.0);
                let row = update.row_mut(&clustering(place.1));
                row.add_cell(cell(3, value, at), &table);
                update
            }
            _ => {
                content.entry(place).or_default().0 = Some(value);
                set(&table, place, value, at)
            }
        };
        tell_some(&mut world, &mut random, &update);
    }
    for _ in 0..6 {
        let (v, w) = (random.below(3) as i32, random.below(3) as i32);
        let with_w = random.below(2) == 0;
        let mut command = world.scan();
        command.filters.push(equal(2, v));
        if with_w {
            command.filters.push(equal(3, w));
        }
        command.limits = limits(&mut random);
        let mut expected: Vec<(i32, (i32, i32))> = content
            .iter()
            .filter(|(_, values)| values.0 == Some(v) && (!with_w || values.1 == Some(w)))
            .map(|((key, c), _)| (*key, (*c, v)))
            .collect();
        expected.sort_by_key(|(key, row)| (decorated(*key), *row));
        let mut count = BTreeMap::new();
        let most = command.limits.rows_per_partition;
        expected.retain(|(key, _)| {
            let count = count.entry(*key).or_insert(0);
            *count += 1;
            *count <= most
        });
        let node = random.below(nodes) as usize;
        let found = paged(&mut world, node, command, Consistency::All);
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn rows_that_some_replicas_name_are_those_that_all_know() {
    for seed in 0..5 {
        let plan = Plan {
            shards: 1 + (seed % 2) as u16,
            indexed: &["v"],
            ..Plan::default()
        };
        ask_for_rows(seed, plan.clone());
        ask_for_rows(
            seed,
            Plan {
                nodes: 5,
                tokens: 3,
                ..plan.clone()
            },
        );
        ask_for_rows(
            seed,
            Plan {
                nodes: 4,
                factor: 2,
                ..plan
            },
        );
    }
}

#[test]
fn partitions_that_some_replicas_name_have_the_rows_of_all() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let plan = Plan {
            indexed: &["s"],
            ..Plan::default()
        };
        let mut world = World::new(seed, plan);
        world.simulation.run_for(SECOND);
        let table = world.table();
        let mut statics: BTreeMap<i32, i32> = BTreeMap::new();
        let mut rows: BTreeMap<(i32, i32), i32> = BTreeMap::new();
        for at in 1..200i64 {
            let place = (random.below(20) as i32, random.below(5) as i32);
            let value = random.below(2) as i32;
            let update = match random.below(2) {
                0 => {
                    statics.insert(place.0, value);
                    let mut update = update(&table, place.0);
                    update.static_row_mut().add_cell(cell(4, value, at), &table);
                    update
                }
                _ => {
                    rows.insert(place, value);
                    set(&table, place, value, at)
                }
            };
            tell_some(&mut world, &mut random, &update);
        }
        for _ in 0..4 {
            let s = random.below(2) as i32;
            let mut command = world.scan();
            command.filters.push(equal(4, s));
            command.limits = limits(&mut random);
            command.limits.rows_per_partition = u32::MAX;
            let mut expected: Vec<(i32, (i32, i32))> = rows
                .iter()
                .filter(|((key, _), _)| statics.get(key) == Some(&s))
                .map(|((key, c), v)| (*key, (*c, *v)))
                .collect();
            expected.sort_by_key(|(key, row)| (decorated(*key), *row));
            let found = paged(&mut world, 0, command, Consistency::All);
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

/// A query for a few rows of many reads those, on as many replicas as have to answer.
#[test]
fn what_no_index_names_is_not_read() {
    let plan = Plan {
        indexed: &["v"],
        ..Plan::default()
    };
    let mut world = World::new(60, plan);
    world.simulation.run_for(SECOND);
    let table = world.table();
    for key in 0..400 {
        let written = world.write(0, set(&table, (key, 1), key % 100, 10), Consistency::All);
        written.expect("all are up");
    }
    let answered = |world: &World| {
        let tables = (0..3).flat_map(|node| world.shard(node).store.stats().tables);
        let reads = tables.map(|table| (table.range_reads, table.key_reads));
        reads.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    let before = answered(&world);
    let mut command: ReadCommand = world.scan();
    command.filters.push(equal(2, 7));
    let page = world.read(0, command, Consistency::Quorum);
    let page = page.expect("all are up");
    let rows: usize = page
        .partitions
        .iter()
        .map(|p: &Partition| rows_of(p).len())
        .sum();
    assert_eq!((rows, page.more), (4, false));
    let after = answered(&world);
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 8));
}
