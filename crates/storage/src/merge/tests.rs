//! The law of the merge: it says what `PartitionUpdate::merge` says, in any slices and in either
//! direction.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    Bound, DeletionTime, Order, PartitionUpdate, RangeTombstone, RangeTombstoneList, Row, Slice,
    Table,
};
use proptest::prelude::*;

use super::merge_heads;
use super::merger::{Merger, Next};
use crate::memtable::{MemStream, Memtable};
use crate::testing::{saying, slice, table, update};
use crate::{PartitionHead, Unfiltered};

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
