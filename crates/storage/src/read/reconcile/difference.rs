//! What a replica lacks of what all of them know together (`RowIteratorMergeListener`).

use std::cmp::Ordering;

use model::{
    Bound, Cell, ClusteringComparator, ColumnId, PartitionUpdate, RangeTombstone,
    RangeTombstoneList, Row, Slice, Table, compare_cells,
};

use super::part::halves;

/// What `own` lacks of `merged` up to a place in the direction of reading; `None` if that is nothing.
///
/// Cells of columns that were not asked for have no values, and are not said.
pub(super) fn difference(
    merged: &PartitionUpdate,
    own: &PartitionUpdate,
    columns: &[ColumnId],
    (end, reversed): (Option<&Bound>, bool),
) -> Option<PartitionUpdate> {
    let table = &merged.table;
    let comparator = table.comparator();
    let mut lacking = PartitionUpdate::new(table.clone(), merged.key.clone());
    if merged.deletion.supersedes(&own.deletion) {
        lacking.deletion = merged.deletion;
    }
    if let Some(row) = &merged.static_row {
        lacking.static_row = of_row(row, own.static_row.as_ref(), columns, table);
    }
    let seen = end.map_or(Slice::ALL, |end| halves(end, reversed)[0].clone());
    let rows = merged.rows.iter();
    for row in rows.filter(|row| seen.contains(comparator, &row.clustering)) {
        lacking
            .rows
            .extend(of_row(row, own.row(&row.clustering), columns, table));
    }
    let ranges = RangeTombstoneList::from(merged.range_tombstones.clone());
    let known = RangeTombstoneList::from(own.range_tombstones.clone());
    for range in ranges.within(comparator, &seen) {
        for range in of_range(&range, &known, comparator) {
            lacking.add_range_tombstone(range);
        }
    }
    (!lacking.is_empty()).then_some(lacking)
}

/// What a version of a row lacks.
fn of_row(merged: &Row, own: Option<&Row>, columns: &[ColumnId], table: &Table) -> Option<Row> {
    let nothing = Row::new(merged.clustering.clone());
    let own = own.unwrap_or(&nothing);
    let mut lacking = Row::new(merged.clustering.clone());
    if merged.liveness != own.liveness {
        lacking.liveness = merged.liveness;
    }
    if merged.deletion != own.deletion {
        lacking.deletion = merged.deletion;
    }
    let complex = merged.complex_deletions.iter();
    let unknown = complex.filter(|c| c.deletion != own.complex_deletion(c.column));
    lacking.complex_deletions = unknown.copied().collect();
    let mut known = own.cells.iter().peekable();
    for cell in &merged.cells {
        let before = |known: &&Cell| compare_cells(table, known, cell) == Ordering::Less;
        while known.next_if(before).is_some() {}
        let same = known.peek().is_some_and(|known| *known == cell);
        if !same && columns.binary_search(&cell.column).is_ok() {
            lacking.cells.push(cell.clone());
        }
    }
    (!lacking.is_empty()).then_some(lacking)
}

/// The parts of a deleted range that are not known.
fn of_range(
    range: &RangeTombstone,
    known: &RangeTombstoneList,
    comparator: &ClusteringComparator,
) -> Vec<RangeTombstone> {
    let mut lacking = Vec::new();
    let mut lack = |start: &Bound, end: &Bound| {
        let slice = Slice {
            start: start.clone(),
            end: end.clone(),
        };
        if !slice.is_empty(comparator) {
            lacking.push(RangeTombstone {
                slice,
                deletion: range.deletion,
            });
        }
    };
    // As the start of what is not known to be there.
    let mut place = range.slice.start.clone();
    let known = known.within(comparator, &range.slice);
    for known in known.filter(|known| known.deletion == range.deletion) {
        lack(&place, &known.slice.start.inverted());
        place = known.slice.end.inverted();
    }
    lack(&place, &range.slice.end);
    lacking
}
