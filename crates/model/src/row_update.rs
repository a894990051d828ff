//! A write of one row by itself.

use std::sync::Arc;

use crate::{
    Cell, CqlType, DecoratedKey, DeletionTime, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, PackedRow,
    PartitionUpdate, Table,
};

/// What one write says about one row, and nothing else of its partition: a [`PartitionUpdate`] in the layout in which
/// memtables keep rows. Who writes a map of some thousand entries lays them out once, where it is read, and nobody
/// behind has a cell of its own for each. Nothing of it expires, or counts.
#[derive(Clone, Debug)]
pub struct RowUpdate {
    /// The table, as the writer knew it: it gives the columns' ids their meaning.
    pub table: Arc<Table>,
    /// The partition.
    pub key: DecoratedKey,
    /// The row, with no cells that its own deletions cover, and values that are what the types of their columns say.
    pub row: PackedRow,
    /// The lowest timestamp of anything that it says, and when the first of what it deletes was deleted, or
    /// [`NO_DELETION_TIME`] if that is nothing.
    least: DeletionTime,
}

impl RowUpdate {
    /// Of a row of which `least` says the least times.
    pub fn new(
        table: Arc<Table>,
        key: DecoratedKey,
        row: PackedRow,
        least: DeletionTime,
    ) -> RowUpdate {
        debug_assert_eq!(least, least_times(&row));
        RowUpdate {
            table,
            key,
            row,
            least,
        }
    }

    /// What an update says, if that is of one row, and nothing of it expires or counts; `scratch` is memory to lay it out
    /// in.
    pub fn of(update: &PartitionUpdate, scratch: &mut Vec<u8>) -> Option<RowUpdate> {
        let [row] = &update.rows[..] else {
            return None;
        };
        let counts = |cell: &Cell| {
            let column = update.table.column(cell.column);
            column.is_none_or(|column| column.ty == CqlType::Counter)
        };
        let expires = row.liveness.ttl != NO_TTL || row.cells.iter().any(Cell::is_expiring);
        let says_more = !update.deletion.is_live()
            || update.static_row.is_some()
            || !update.range_tombstones.is_empty();
        if says_more || expires || row.cells.iter().any(counts) {
            return None;
        }
        let mut row = row.clone();
        row.drop_shadowed();
        if row.is_empty() {
            return None;
        }
        let row = PackedRow::new(&row, scratch);
        let least = least_times(&row);
        let (table, key) = (update.table.clone(), update.key.clone());
        Some(RowUpdate::new(table, key, row, least))
    }

    /// The lowest timestamp of anything that it says, and when the first of what it deletes was deleted, or
    /// [`NO_DELETION_TIME`] if that is nothing.
    pub fn least_times(&self) -> DeletionTime {
        self.least
    }

    /// The same in the form that all writes have. Its values share the memory of this one.
    pub fn unpack(self) -> PartitionUpdate {
        let mut update = PartitionUpdate::new(self.table, self.key);
        update.rows.push(self.row.unpack());
        update
    }
}

/// As [`RowUpdate::least_times`], of a row.
fn least_times(row: &PackedRow) -> DeletionTime {
    let head = row.head();
    let marker = (head.liveness.timestamp, NO_DELETION_TIME);
    let complex = head.complex_deletions.iter().map(|c| c.deletion);
    let deletions = complex.chain([head.deletion]);
    let deletions = deletions.map(|d| (d.timestamp, d.local_deletion_time));
    let cells = row.cell_refs();
    let cells = cells.map(|cell| (cell.timestamp, cell.local_deletion_time));
    let (mut timestamp, mut deleted) = (i64::MAX, NO_DELETION_TIME);
    for (at, deleted_at) in deletions.chain([marker]).chain(cells) {
        if at != NO_TIMESTAMP {
            timestamp = timestamp.min(at);
        }
        deleted = deleted.min(deleted_at);
    }
    DeletionTime {
        timestamp,
        local_deletion_time: deleted,
    }
}
