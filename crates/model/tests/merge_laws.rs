//! The laws of merging: what replicas hold depends on what was written, not on the order or the
//! number of times in which it arrived.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, ComplexDeletion, CqlType,
    DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Order, PartitionUpdate, Purge,
    RangeTombstone, RangeTombstoneList, Row, Slice, Table, TableOptions, compare_cells,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Keys `k`, clustering `a` ascending and `b` descending, static `s`, regular `v`, and a set `w`.
fn table() -> Arc<Table> {
    let column = |id, name: &str, ty, kind, position, order| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position,
        order,
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    use {ColumnKind::*, Order::*};
    Arc::new(Table::new(
        uuid::Uuid::nil(),
        "ks",
        "t",
        vec![
            column(0, "k", CqlType::Int, PartitionKey, 0, Ascending),
            column(1, "a", CqlType::Int, Clustering, 0, Ascending),
            column(2, "b", CqlType::Tinyint, Clustering, 1, Descending),
            column(3, "s", CqlType::Int, Static, 0, Ascending),
            column(4, "v", CqlType::Blob, Regular, 0, Ascending),
            column(5, "w", set, Regular, 0, Ascending),
        ],
        TableOptions::default(),
    ))
}

// Few distinct times and values, so that ties and overlaps are common.
fn timestamp() -> impl Strategy<Value = i64> {
    0..4i64
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    (timestamp(), 0..3u32).prop_map(|(timestamp, local_deletion_time)| DeletionTime {
        timestamp,
        local_deletion_time,
    })
}

fn maybe_deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![3 => Just(DeletionTime::LIVE), 1 => deletion()]
}

/// ttl and local deletion time: for ever, expiring, deleted.
fn end() -> impl Strategy<Value = (i32, u32)> {
    prop_oneof![
        Just((NO_TTL, NO_DELETION_TIME)),
        (1..3i32, 0..3u32),
        (Just(NO_TTL), 0..3u32)
    ]
}

fn liveness() -> impl Strategy<Value = Liveness> {
    let marker = (timestamp(), end()).prop_map(|(timestamp, (ttl, end))| Liveness {
        timestamp,
        ttl,
        expires_at: if ttl == NO_TTL { NO_DELETION_TIME } else { end },
    });
    prop_oneof![Just(Liveness::NONE), marker]
}

fn cell(column: u32, path: Option<i32>) -> impl Strategy<Value = Cell> {
    (timestamp(), end(), 0..2u8).prop_map(move |(timestamp, (ttl, end), value)| {
        let deleted = ttl == NO_TTL && end != NO_DELETION_TIME;
        Cell {
            column: ColumnId(column),
            path: path.map(|p| Bytes::copy_from_slice(&p.to_be_bytes())),
            timestamp,
            ttl,
            local_deletion_time: end,
            value: if deleted || path.is_some() {
                Bytes::new()
            } else {
                Bytes::copy_from_slice(&[value])
            },
        }
    })
}

fn row(clustering: Clustering, column: u32) -> impl Strategy<Value = Row> {
    let set = vec((-1..2i32).prop_flat_map(|path| cell(5, Some(path))), 0..3);
    let parts = (liveness(), maybe_deletion(), maybe_deletion());
    (parts, vec(cell(column, None), 0..2), set).prop_map(
        move |((liveness, deletion, complex), simple, set)| {
            let table = table();
            let mut row = Row::new(clustering.clone());
            row.liveness = liveness;
            row.deletion = deletion;
            if column == 4 && !complex.is_live() {
                row.complex_deletions = vec![ComplexDeletion {
                    column: ColumnId(5),
                    deletion: complex,
                }];
            }
            for cell in simple.into_iter().chain(set) {
                if column == 4 || cell.column == ColumnId(column) {
                    row.add_cell(cell, &table);
                }
            }
            row
        },
    )
}

fn clustering() -> impl Strategy<Value = Clustering> {
    (0..3i32, 0..3i8).prop_map(|(a, b)| {
        Clustering(
            [
                Bytes::copy_from_slice(&a.to_be_bytes()),
                Bytes::copy_from_slice(&b.to_be_bytes()),
            ]
            .into_iter()
            .collect(),
        )
    })
}

fn bound(start: bool) -> impl Strategy<Value = Bound> {
    (clustering(), 0..3usize, any::<bool>()).prop_map(move |(mut prefix, len, inclusive)| {
        prefix.0.truncate(len);
        let kind = match (start, inclusive || len == 0) {
            (true, true) => BoundKind::InclusiveStart,
            (true, false) => BoundKind::ExclusiveStart,
            (false, true) => BoundKind::InclusiveEnd,
            (false, false) => BoundKind::ExclusiveEnd,
        };
        Bound { prefix, kind }
    })
}

fn range_tombstone() -> impl Strategy<Value = RangeTombstone> {
    (bound(true), bound(false), deletion()).prop_map(|(start, end, deletion)| RangeTombstone {
        slice: Slice { start, end },
        deletion,
    })
}

fn update() -> impl Strategy<Value = PartitionUpdate> {
    let rows = vec(clustering().prop_flat_map(|c| row(c, 4)), 0..5);
    let statics = proptest::option::of(row(Clustering::EMPTY, 3));
    let ranges = vec(range_tombstone(), 0..4);
    (maybe_deletion(), statics, rows, ranges).prop_map(|(deletion, statics, rows, ranges)| {
        let table = table();
        let mut update = PartitionUpdate::new(
            table.clone(),
            DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1])),
        );
        update.deletion = deletion;
        update.static_row = statics;
        for row in rows {
            update.row_mut(&row.clustering.clone()).merge(row, &table);
        }
        for range in ranges {
            update.add_range_tombstone(range);
        }
        update.drop_shadowed();
        update
    })
}

fn merged(a: &PartitionUpdate, b: &PartitionUpdate) -> PartitionUpdate {
    let mut merged = a.clone();
    merged.merge(b.clone());
    merged
}

/// Is the list in its one form?
fn assert_canonical(list: &RangeTombstoneList) -> Result<(), TestCaseError> {
    let table = table();
    let comparator = table.comparator();
    for range in list.ranges() {
        prop_assert!(!range.slice.is_empty(comparator));
        prop_assert!(!range.deletion.is_live());
    }
    for pair in list.ranges().windows(2) {
        let gap = comparator.compare_bounds(&pair[0].slice.end, &pair[1].slice.start);
        prop_assert!(gap != Ordering::Greater, "{pair:?}");
        prop_assert!(gap == Ordering::Less || pair[0].deletion != pair[1].deletion);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn merging_is_commutative(a in update(), b in update()) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
    }

    #[test]
    fn merging_is_associative(a in update(), b in update(), c in update()) {
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    }

    #[test]
    fn merging_is_idempotent(a in update(), b in update()) {
        prop_assert_eq!(merged(&a, &a), a.clone());
        let both = merged(&a, &b);
        prop_assert_eq!(merged(&both, &b), both);
    }

    #[test]
    fn a_merged_update_is_sorted(a in update(), b in update()) {
        let table = table();
        let both = merged(&a, &b);
        for pair in both.rows.windows(2) {
            let order = table.comparator().compare(&pair[0].clustering, &pair[1].clustering);
            prop_assert_eq!(order, Ordering::Less);
        }
        for row in &both.rows {
            for pair in row.cells.windows(2) {
                prop_assert_eq!(compare_cells(&table, &pair[0], &pair[1]), Ordering::Less);
            }
            prop_assert_eq!(both.row(&row.clustering), Some(row));
        }
        assert_canonical(&RangeTombstoneList::from(both.range_tombstones))?;
    }

    /// Every row is covered by the strongest of the deletions that were added over it.
    #[test]
    fn ranges_cover_what_was_deleted(ranges in vec(range_tombstone(), 0..8), at in clustering()) {
        let table = table();
        let comparator = table.comparator();
        let mut list = RangeTombstoneList::new();
        let mut halves = [RangeTombstoneList::new(), RangeTombstoneList::new()];
        for (i, range) in ranges.iter().enumerate() {
            list.add(comparator, range.clone());
            halves[i % 2].add(comparator, range.clone());
        }
        assert_canonical(&list)?;
        let expected = ranges
            .iter()
            .filter(|range| range.slice.contains(comparator, &at))
            .fold(DeletionTime::LIVE, |strongest, range| strongest.merge(range.deletion));
        prop_assert_eq!(list.covering(comparator, &at), expected);

        let [mut even, odd] = halves;
        even.merge(comparator, odd.into());
        prop_assert_eq!(even, list);
    }

    #[test]
    fn ranges_within_a_slice_cover_the_same(
        ranges in vec(range_tombstone(), 0..8),
        start in bound(true),
        end in bound(false),
        at in clustering(),
    ) {
        let table = table();
        let comparator = table.comparator();
        let slice = Slice { start, end };
        prop_assume!(!slice.is_empty(comparator));
        let mut list = RangeTombstoneList::new();
        for range in ranges {
            list.add(comparator, range);
        }
        let cut: Vec<_> = list.within(comparator, &slice).collect();
        let inside = slice.contains(comparator, &at);
        let expected = if inside { list.covering(comparator, &at) } else { DeletionTime::LIVE };
        prop_assert_eq!(RangeTombstoneList::from(cut).covering(comparator, &at), expected);
    }

    /// What a deletion covers is gone, and so are deletions that are covered themselves.
    #[test]
    fn nothing_shadowed_is_left(a in update(), b in update()) {
        let both = merged(&a, &b);
        for range in &both.range_tombstones {
            prop_assert!(range.deletion.supersedes(&both.deletion));
        }
        for row in both.rows.iter().chain(&both.static_row) {
            let around = match row.clustering == Clustering::EMPTY {
                true => both.deletion,
                false => both.deletion_of(&row.clustering),
            };
            prop_assert!(row.deletion.is_live() || row.deletion.supersedes(&around));
            let covering = around.merge(row.deletion);
            prop_assert!(!covering.deletes(row.liveness.timestamp) || row.liveness.is_empty());
            for complex in &row.complex_deletions {
                prop_assert!(complex.deletion.supersedes(&covering));
            }
            for cell in &row.cells {
                let strongest = covering.merge(row.complex_deletion(cell.column));
                prop_assert!(!strongest.deletes(cell.timestamp));
            }
        }
    }

    /// Readers see the same before and after a purge.
    #[test]
    fn purging_changes_nothing_that_lives(a in update(), now in 0..4u32, gc_before in 0..4u32) {
        let purge = Purge { now_seconds: now, gc_before: gc_before.min(now), purgeable_before: i64::MAX };
        let mut purged = a.clone();
        purged.purge(&purge);
        prop_assert_eq!(seen(&a, now), seen(&purged, now));
    }

    /// Also together with what did not take part in the purge, if that is not older than it says.
    #[test]
    fn purging_brings_nothing_back(a in update(), b in update(), now in 0..4u32, oldest in 0..9i64) {
        // Timestamps of the two differ: for equal ones, a cell that has expired loses to one that
        // expires later, but as a tombstone wins over it. (So in Cassandra.)
        let (a, b) = (retimed(&a, |t| 2 * t), retimed(&b, |t| (2 * t + 1).max(oldest | 1)));
        let all = Purge { now_seconds: now, gc_before: u32::MAX, purgeable_before: oldest | 1 };
        let mut purged = a.clone();
        purged.purge(&all);
        prop_assert_eq!(seen(&merged(&a, &b), now), seen(&merged(&purged, &b), now));
    }

    /// As long as other replicas may not know of a deletion, it is kept.
    #[test]
    fn young_deletions_are_kept(a in update(), b in update(), now in 0..4u32) {
        let (a, b) = (retimed(&a, |t| 2 * t), retimed(&b, |t| 2 * t + 1));
        let none = Purge { now_seconds: now, gc_before: 0, purgeable_before: i64::MAX };
        let mut purged = a.clone();
        purged.purge(&none);
        prop_assert_eq!(seen(&merged(&a, &b), now), seen(&merged(&purged, &b), now));
    }
}

/// What a reader sees of an update.
fn seen(update: &PartitionUpdate, now: u32) -> Vec<Row> {
    let mut rows: Vec<Row> = update
        .static_row
        .iter()
        .chain(&update.rows)
        .cloned()
        .collect();
    rows.iter_mut().for_each(|row| row.retain_live(now));
    rows.retain(|row| !row.is_empty());
    rows
}

/// The same update, written at other times.
fn retimed(update: &PartitionUpdate, at: impl Fn(i64) -> i64) -> PartitionUpdate {
    let mut update = update.clone();
    let shift = |deletion: &mut DeletionTime| {
        if !deletion.is_live() {
            deletion.timestamp = at(deletion.timestamp);
        }
    };
    shift(&mut update.deletion);
    for range in &mut update.range_tombstones {
        shift(&mut range.deletion);
    }
    for row in update.rows.iter_mut().chain(&mut update.static_row) {
        shift(&mut row.deletion);
        if !row.liveness.is_empty() {
            row.liveness.timestamp = at(row.liveness.timestamp);
        }
        for complex in &mut row.complex_deletions {
            shift(&mut complex.deletion);
        }
        for cell in &mut row.cells {
            cell.timestamp = at(cell.timestamp);
        }
    }
    // Times that were different may be the same now.
    update.drop_shadowed();
    update
}
