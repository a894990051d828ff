//! The laws of merging: what replicas hold depends on what was written, not on the order or the
//! number of times in which it arrived.

#![allow(clippy::unwrap_used)] // tests, with their helpers

mod written;

use std::cmp::Ordering;

use model::{
    Cell, Clustering, ColumnId, CqlType, DeletionTime, DroppedColumn, NO_DELETION_TIME, NO_TTL,
    PartitionUpdate, Purge, RangeTombstoneList, Row, Slice, Table, compare_cells,
};
use proptest::collection::vec;
use proptest::prelude::*;
use written::{bound, clustering, range_tombstone, table, update};

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
    fn many_are_merged_as_one_after_the_other(updates in vec(update(), 0..9)) {
        let mut one_by_one = updates.iter().cloned();
        let first = one_by_one.next();
        let expected = first.map(|first| one_by_one.fold(first, |all, next| merged(&all, &next)));
        prop_assert_eq!(PartitionUpdate::merge_all(updates), expected);
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

#[test]
fn what_is_as_old_as_the_drop_of_a_column_is_not_of_the_one_that_came_back() {
    let mut table = Table::clone(&table());
    for name in ["v", "gone"] {
        table.dropped.push(DroppedColumn {
            name: name.into(),
            ty: CqlType::Blob,
            is_static: false,
            dropped_at: 5,
        });
    }
    let of = |column: u32, timestamp: i64| Cell {
        column: ColumnId(column),
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: Default::default(),
    };
    let kept = |cell: Cell| {
        let mut row = Row::new(Clustering::EMPTY);
        row.cells.push(cell);
        row.retain_columns_of(&table);
        !row.cells.is_empty()
    };
    assert!(!kept(of(4, 5)));
    assert!(kept(of(4, 6)));
    assert!(kept(of(3, 5)), "of a column that was not dropped");
    assert!(!kept(of(9, 6)), "of a column that is gone");
}
