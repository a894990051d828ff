//! The laws of counters: contexts merge like sets, and nothing that was counted is lost or counted
//! twice, in whatever order and however often replicas hear of it.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::sync::Arc;

use bytes::Bytes;
use model::counter::{self, CounterShard, ShardKind};
use model::{
    Cell, Clustering, Column, ColumnId, ColumnKind, CounterMutation, CqlType, DecoratedKey,
    DeletionTime, Mutation, NO_DELETION_TIME, NO_TTL, Order, Partition, PartitionUpdate, ReadPage,
    Row, Slice, Table, TableOptions,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn id(n: u8) -> [u8; 16] {
    [n; 16]
}

fn kind() -> impl Strategy<Value = ShardKind> {
    prop_oneof![
        Just(ShardKind::Remote),
        Just(ShardKind::Local),
        Just(ShardKind::Global)
    ]
}

/// Few nodes, clocks and counts, so that shards meet and tie.
fn context(kind: impl Strategy<Value = ShardKind>) -> impl Strategy<Value = Vec<u8>> {
    btree_map(0..4u8, (0..3i64, -2..3i64, kind), 0..4).prop_map(|shards| {
        let shards: Vec<CounterShard> = shards
            .into_iter()
            .map(|(node, (clock, count, kind))| CounterShard {
                id: id(node),
                clock,
                count,
                kind,
            })
            .collect();
        counter::encode(&shards)
    })
}

proptest! {
    #[test]
    fn merging_is_commutative_and_associative(
        a in context(kind()),
        b in context(kind()),
        c in context(kind()),
    ) {
        prop_assert_eq!(counter::merge(&a, &b), counter::merge(&b, &a));
        let left = counter::merge(&counter::merge(&a, &b), &c);
        prop_assert_eq!(left, counter::merge(&a, &counter::merge(&b, &c)));
    }

    /// Local shards add up, all others merge as often as one likes.
    #[test]
    fn merging_is_idempotent_without_local_shards(
        a in context(prop_oneof![Just(ShardKind::Remote), Just(ShardKind::Global)]),
        b in context(prop_oneof![Just(ShardKind::Remote), Just(ShardKind::Global)]),
    ) {
        prop_assert_eq!(counter::merge(&a, &a), a.clone());
        let both = counter::merge(&a, &b);
        prop_assert_eq!(counter::merge(&both, &a), both.clone());
        prop_assert_eq!(counter::merge(&b, &both), both);
    }

    #[test]
    fn a_context_is_what_was_encoded(a in context(kind())) {
        let shards = counter::decode(&a).unwrap();
        prop_assert_eq!(counter::encode(&shards), a);
    }

    #[test]
    fn updates_add_up(deltas in vec(any::<i64>(), 1..8)) {
        let merged = deltas
            .iter()
            .map(|delta| counter::update(*delta))
            .reduce(|a, b| counter::merge(&a, &b))
            .unwrap();
        let sum = deltas.iter().fold(0i64, |sum, delta| sum.wrapping_add(*delta));
        prop_assert_eq!(counter::delta(&merged), Some(sum));
    }

    /// Each increment is led by one of three nodes, whose clocks jump as they like. What they write
    /// arrives at a replica in any order, some of it again and again: it counts everything once.
    #[test]
    fn every_increment_counts_once(
        increments in vec((0..3u8, -5..6i64, 0..50i64), 1..20),
        order in vec(any::<prop::sample::Index>(), 0..40),
        heard in vec(any::<bool>(), 20),
    ) {
        let mut held: [Option<Vec<u8>>; 3] = [None, None, None];
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for ((node, delta, now), hears) in increments.iter().zip(&heard) {
            let leader = &mut held[usize::from(*node)];
            let written = counter::apply(leader.as_deref(), id(*node), *now, *delta).unwrap();
            let merged = match &*leader {
                Some(current) => counter::merge(current, &written),
                None => written.clone(),
            };
            *leader = Some(merged);
            sent.push(written);
            if *hears {
                // A leader holds what others wrote too; that must not change what it adds to.
                let other = sent[sent.len() / 2].clone();
                let leader = &mut held[usize::from(*node)];
                *leader = leader.take().map(|own| counter::merge(&own, &other));
            }
        }
        let again = order.iter().map(|index| index.get(&sent).clone());
        let arrivals: Vec<Vec<u8>> = again.chain(sent.iter().rev().cloned()).collect();
        let replica = arrivals
            .into_iter()
            .reduce(|a, b| counter::merge(&a, &b))
            .unwrap();
        let sum: i64 = increments.iter().map(|(_, delta, _)| delta).sum();
        prop_assert_eq!(counter::total(&replica), sum);
    }

    /// Contexts come from files and from other nodes.
    #[test]
    fn no_bytes_make_a_panic(
        a in vec(prop_oneof![Just(0u8), Just(0x80), Just(1), any::<u8>()], 0..80),
        b in context(kind()),
        now in any::<i64>(),
        delta in any::<i64>(),
    ) {
        let _ = (counter::decode(&a), counter::delta(&a), counter::total(&a));
        prop_assert_eq!(counter::merge(&a, &b), counter::merge(&b, &a));
        let applied = counter::apply(Some(&a), id(1), now, delta);
        prop_assert_eq!(applied.is_ok(), counter::decode(&a).is_ok());
    }
}

/// Keys `k` and `c`, counters `s` (static), `v` and `w`.
fn table() -> Arc<Table> {
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    let column = |id, name: &str, ty, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    Arc::new(Table::new(
        uuid::Uuid::nil(),
        "ks",
        "t",
        vec![
            column(0, "k", CqlType::Int, PartitionKey),
            column(1, "c", CqlType::Int, Clustering),
            column(2, "s", CqlType::Counter, Static),
            column(3, "v", CqlType::Counter, Regular),
            column(4, "w", CqlType::Counter, Regular),
        ],
        TableOptions::default(),
    ))
}

fn row(clustering: Option<i32>, cells: Vec<(u32, Vec<u8>)>) -> Row {
    let clustering = clustering.map(|c| Bytes::copy_from_slice(&c.to_be_bytes()));
    let mut row = Row::new(Clustering(clustering.into_iter().collect()));
    row.cells = cells
        .into_iter()
        .map(|(column, value)| Cell {
            column: ColumnId(column),
            path: None,
            timestamp: 9,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: value.into(),
        })
        .collect();
    row
}

fn tombstone(row: &mut Row, cell: usize) {
    row.cells[cell].local_deletion_time = 1;
    row.cells[cell].value = Bytes::new();
}

fn update_of(table: &Arc<Table>) -> PartitionUpdate {
    let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
    PartitionUpdate::new(table.clone(), key)
}

/// The answer to a leader's read of its partition.
fn page(static_row: Option<Row>, rows: Vec<Row>) -> ReadPage {
    let partition = Partition {
        key: update_of(&table()).key,
        deletion: DeletionTime::LIVE,
        static_row,
        rows,
        packed: Vec::new(),
        range_tombstones: Vec::new(),
    };
    ReadPage {
        partitions: vec![partition],
        more: false,
        ..ReadPage::default()
    }
}

fn global(count: i64) -> Vec<u8> {
    counter::apply(None, id(7), 50, count).unwrap()
}

#[test]
fn a_leader_reads_the_counters_that_are_added_to_and_writes_its_shards() {
    let table = table();
    let mut update = update_of(&table);
    update.static_row = Some(row(None, vec![(2, counter::update(1))]));
    let mut deleted = row(Some(5), vec![(3, Vec::new())]);
    tombstone(&mut deleted, 0);
    update.rows = vec![
        row(
            Some(1),
            vec![(3, counter::update(10)), (4, counter::update(20))],
        ),
        row(Some(2), vec![(3, counter::update(30))]),
        deleted.clone(),
    ];
    let deletions = {
        let mut update = update_of(&table);
        update.deletion = DeletionTime {
            timestamp: 9,
            local_deletion_time: 1,
        };
        update
    };
    let mutation = CounterMutation::new(Mutation {
        updates: vec![deletions.clone(), update],
    });

    let reads = mutation.reads(1_000);
    let [read] = &reads[..] else {
        panic!("one update has increments: {reads:?}")
    };
    assert_eq!(read.columns, [ColumnId(2), ColumnId(3), ColumnId(4)]);
    let of_row = |c: i32| {
        let value = Bytes::copy_from_slice(&c.to_be_bytes());
        Slice::of_prefix(Clustering([value].into_iter().collect()))
    };
    assert_eq!(read.clustering.slices, [of_row(1), of_row(2)]);
    assert_eq!(read.now_seconds, 1_000);

    let mut other = row(Some(1), vec![(3, Vec::new()), (4, global(4))]);
    tombstone(&mut other, 0);
    let current = page(Some(row(None, vec![(2, global(100))])), vec![other]);
    let written = mutation.clone().lead(id(7), 60, &[current]).unwrap();
    assert_eq!(written.updates[0], deletions);
    let led = &written.updates[1];
    let counted = |count| counter::apply(None, id(7), 60, count).unwrap();
    let expected = vec![
        row(Some(1), vec![(3, counted(10)), (4, counted(24))]),
        row(Some(2), vec![(3, counted(30))]),
        deleted,
    ];
    assert_eq!(led.rows, expected);
    assert_eq!(led.static_row, Some(row(None, vec![(2, counted(101))])));

    let broken = page(None, vec![row(Some(2), vec![(3, vec![1])])]);
    assert!(mutation.lead(id(7), 60, &[broken]).is_err());
}

#[test]
fn only_what_increments_nothing_needs_no_leader() {
    let table = table();
    let mut update = update_of(&table);
    update.rows = vec![row(Some(5), vec![(3, Vec::new())])];
    tombstone(&mut update.rows[0], 0);
    let deletions = Mutation {
        updates: vec![update.clone()],
    };
    let mutation = CounterMutation::new(deletions.clone());
    assert!(mutation.reads(0).is_empty());
    assert_eq!(mutation.into_deletions(), Ok(deletions));

    update.static_row = Some(row(None, vec![(2, counter::update(1))]));
    let mutation = CounterMutation::new(Mutation {
        updates: vec![update],
    });
    assert_eq!(mutation.clone().into_deletions(), Err(mutation));
}
