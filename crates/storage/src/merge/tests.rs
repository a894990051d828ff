//! The law of the merge: it says what `PartitionUpdate::merge` says, in any slices and in either
//! direction.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, Order, PartitionUpdate, RangeTombstone, RangeTombstoneList, Row, Slice, Table,
    TableId, TableOptions,
};
use proptest::prelude::*;

use super::*;
use crate::memtable::Memtable;

fn table(order: Order) -> Arc<Table> {
    let column = |id: u32, name: &str, kind, position, order| Column {
        id: ColumnId(id),
        name: name.into(),
        ty: CqlType::Int,
        kind,
        position,
        order,
    };
    let columns = vec![
        column(0, "k", ColumnKind::PartitionKey, 0, Order::Ascending),
        column(1, "a", ColumnKind::Clustering, 0, order),
        column(2, "b", ColumnKind::Clustering, 1, Order::Ascending),
        column(3, "v", ColumnKind::Regular, 0, Order::Ascending),
        column(4, "s", ColumnKind::Static, 0, Order::Ascending),
    ];
    let id = TableId::from_u128(1);
    Arc::new(Table::new(id, "ks", "t", columns, TableOptions::default()))
}

fn int(n: u8) -> Bytes {
    Bytes::copy_from_slice(&u32::from(n).to_be_bytes())
}

fn clustering(values: &[u8]) -> Clustering {
    Clustering(values.iter().map(|n| int(*n)).collect())
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime {
        timestamp,
        local_deletion_time: timestamp as u32,
    }
}

fn cell(column: u32, timestamp: i64, value: u8) -> Cell {
    Cell {
        column: ColumnId(column),
        path: None,
        timestamp,
        ttl: model::NO_TTL,
        local_deletion_time: model::NO_DELETION_TIME,
        value: int(value),
    }
}

/// One thing that an update says.
#[derive(Clone, Debug)]
enum Saying {
    Partition(i64),
    Static(i64, u8),
    Deleted([u8; 2], i64),
    Written([u8; 2], i64, u8),
    Marked([u8; 2], i64),
    Range(Slice, i64),
}

fn bound(kinds: [BoundKind; 2]) -> impl Strategy<Value = Bound> {
    let prefix = prop_oneof![
        1 => Just(clustering(&[])),
        4 => (0u8..4).prop_map(|a| clustering(&[a])),
        4 => (0u8..4, 0u8..3).prop_map(|(a, b)| clustering(&[a, b])),
    ];
    (prefix, prop::sample::select(kinds.to_vec())).prop_map(move |(prefix, kind)| {
        // The empty prefix has no outside.
        let kind = if prefix.0.is_empty() { kinds[0] } else { kind };
        Bound { prefix, kind }
    })
}

fn slice() -> impl Strategy<Value = Slice> {
    let start = bound([BoundKind::InclusiveStart, BoundKind::ExclusiveStart]);
    let end = bound([BoundKind::InclusiveEnd, BoundKind::ExclusiveEnd]);
    (start, end).prop_map(|(start, end)| Slice { start, end })
}

fn saying() -> impl Strategy<Value = Saying> {
    let place = || (0u8..4, 0u8..3).prop_map(|(a, b)| [a, b]);
    let time = || 1i64..9;
    prop_oneof![
        1 => time().prop_map(Saying::Partition),
        1 => (time(), any::<u8>()).prop_map(|(t, v)| Saying::Static(t, v)),
        2 => (place(), time()).prop_map(|(p, t)| Saying::Deleted(p, t)),
        6 => (place(), time(), any::<u8>()).prop_map(|(p, t, v)| Saying::Written(p, t, v)),
        2 => (place(), time()).prop_map(|(p, t)| Saying::Marked(p, t)),
        3 => (slice(), time()).prop_map(|(s, t)| Saying::Range(s, t)),
    ]
}

fn update(table: &Arc<Table>, sayings: &[Saying]) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(int(7)));
    for saying in sayings {
        match saying {
            Saying::Partition(t) => update.deletion = update.deletion.merge(deletion(*t)),
            Saying::Static(t, v) => update.static_row_mut().add_cell(cell(4, *t, *v), table),
            Saying::Deleted(place, t) => {
                let row = update.row_mut(&clustering(place));
                row.deletion = row.deletion.merge(deletion(*t));
            }
            Saying::Written(place, t, v) => update
                .row_mut(&clustering(place))
                .add_cell(cell(3, *t, *v), table),
            Saying::Marked(place, t) => {
                let row = update.row_mut(&clustering(place));
                row.liveness.timestamp = row.liveness.timestamp.max(*t);
            }
            Saying::Range(slice, t) => update.add_range_tombstone(RangeTombstone {
                slice: slice.clone(),
                deletion: deletion(*t),
            }),
        }
    }
    update
}

/// Drives the merge of memtables, which never waits.
fn merged(
    table: &Arc<Table>,
    updates: &[PartitionUpdate],
    slices: &Rc<[Slice]>,
    reversed: bool,
) -> (PartitionHead, Vec<Unfiltered>) {
    let key = updates[0].key.clone();
    let mut streams: Vec<MemStream> = updates
        .iter()
        .map(|update| {
            let memtable = Memtable::default();
            memtable.apply(update.clone(), table, None);
            let partition = memtable.get(&key).expect("just written");
            MemStream::new(partition, table.clone(), slices.clone(), reversed)
        })
        .collect();
    let head = merge_heads(streams.iter().map(MemStream::head), table).expect("a partition");
    let mut merger = Merger::new(table.clone(), streams.len(), head.deletion, reversed);
    let mut next: Vec<Next> = streams.iter().map(|_| Next::Unknown).collect();
    let mut items = Vec::new();
    loop {
        for (next, stream) in next.iter_mut().zip(&mut streams) {
            if *next == Next::Unknown {
                *next = stream.next().map_or(Next::End, Next::Item);
            }
        }
        if next.iter().all(|next| *next == Next::End) {
            return (head, items);
        }
        items.extend(merger.step(&mut next));
    }
}

/// What a well-formed stream in the order of the table says.
fn collect(items: Vec<Unfiltered>, table: &Table) -> (Vec<Row>, Vec<RangeTombstone>) {
    let mut rows: Vec<Row> = Vec::new();
    let mut ranges = RangeTombstoneList::new();
    let mut open: Option<(Bound, DeletionTime)> = None;
    let mut last: Option<Unfiltered> = None;
    for item in items {
        if let Some(last) = &last {
            let order = last.compare(&item, table.comparator());
            assert_eq!(order, Ordering::Less, "{last:?} before {item:?}");
        }
        last = Some(item.clone());
        match item {
            Unfiltered::Row(row) => rows.push(row),
            Unfiltered::Marker(marker) => {
                assert_eq!(
                    marker.closes,
                    open.as_ref().map(|(_, d)| *d),
                    "what is open closes"
                );
                if let Some((start, deletion)) = open.take() {
                    let end = marker.end_bound().expect("it closes");
                    let slice = Slice { start, end };
                    ranges.add(table.comparator(), RangeTombstone { slice, deletion });
                }
                open = marker.start_bound().zip(marker.opens);
            }
        }
    }
    assert_eq!(open, None, "all that opened closed");
    (rows, ranges.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn merging_streams_is_merging_updates(
        sayings in prop::collection::vec(prop::collection::vec(saying(), 1..7), 1..5),
        cut in prop::collection::vec(slice(), 0..3),
        reversed: bool,
        descending: bool,
    ) {
        let table = table(if descending { Order::Descending } else { Order::Ascending });
        let comparator = table.comparator();
        let updates: Vec<PartitionUpdate> = sayings.iter().map(|s| update(&table, s)).collect();

        // Slices that are sorted and do not overlap, or the whole partition.
        let mut slices: Vec<Slice> = cut.into_iter().filter(|s| !s.is_empty(comparator)).collect();
        slices.sort_by(|a, b| comparator.compare_bounds(&a.start, &b.start));
        let mut apart: Vec<Slice> = Vec::new();
        for slice in slices {
            if apart.last().is_none_or(|l| comparator.compare_bounds(&l.end, &slice.start).is_lt()) {
                apart.push(slice);
            }
        }
        if apart.is_empty() {
            apart.push(Slice::ALL);
        }
        let slices: Rc<[Slice]> = apart.into();

        let mut expected = updates[0].clone();
        for update in &updates[1..] {
            expected.merge(update.clone());
        }
        expected.drop_shadowed();
        let rows: Vec<Row> = expected.rows.iter()
            .filter(|row| slices.iter().any(|s| s.contains(comparator, &row.clustering)))
            .cloned().collect();
        let mut ranges = RangeTombstoneList::new();
        let all = RangeTombstoneList::from(expected.range_tombstones.clone());
        for slice in slices.iter() {
            for range in all.within(comparator, slice) {
                ranges.add(comparator, range);
            }
        }

        let (head, mut items) = merged(&table, &updates, &slices, reversed);
        if reversed {
            items.reverse();
        }
        let (merged_rows, merged_ranges) = collect(items, &table);
        prop_assert_eq!(head.deletion, expected.deletion);
        prop_assert_eq!(head.static_row, expected.static_row);
        prop_assert_eq!(merged_rows, rows);
        prop_assert_eq!(merged_ranges, Vec::from(ranges));
    }
}
