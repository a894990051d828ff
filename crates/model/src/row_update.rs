//! A write of one row by itself.

use std::sync::Arc;

use crate::{
    Cell, CqlType, DecoratedKey, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, PackedRow,
    PartitionUpdate, Table,
};

/// What one write says about one row, and nothing else of its partition: a [`PartitionUpdate`] in the layout in which
/// memtables keep rows. Who writes a map of some thousand entries lays them out once, where it is read, and nobody
/// behind has a cell of its own for each. Nothing of it counts.
#[derive(Clone, Debug)]
pub struct RowUpdate {
    /// The table, as the writer knew it: it gives the columns' ids their meaning.
    pub table: Arc<Table>,
    /// The partition.
    pub key: DecoratedKey,
    /// The row, with no cells that its own deletions cover, and values that are what the types of their columns say.
    pub row: PackedRow,
    least: LeastTimes,
}

/// The lowest of all times that a write says, each by itself: what those that an sstable has are differences from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTimes {
    /// Of anything, in microseconds since 1970.
    pub timestamp: i64,
    /// When the first of what it deletes was deleted, or of what expires does, in seconds since 1970;
    /// [`NO_DELETION_TIME`] if that is nothing.
    pub local_deletion_time: u32,
    /// Of what expires, in seconds; [`NO_TTL`] if that is nothing.
    pub ttl: i32,
}

impl LeastTimes {
    /// Of nothing.
    const NONE: LeastTimes = LeastTimes {
        timestamp: i64::MAX,
        local_deletion_time: NO_DELETION_TIME,
        ttl: NO_TTL,
    };

    /// With these; those that say "none" do not count.
    fn and(self, timestamp: i64, ttl: i32, local_deletion_time: u32) -> LeastTimes {
        LeastTimes {
            timestamp: match timestamp {
                NO_TIMESTAMP => self.timestamp,
                timestamp => self.timestamp.min(timestamp),
            },
            local_deletion_time: self.local_deletion_time.min(local_deletion_time),
            ttl: match (self.ttl, ttl) {
                (NO_TTL, ttl) | (ttl, NO_TTL) => ttl,
                (a, b) => a.min(b),
            },
        }
    }
}

impl RowUpdate {
    /// Of a row of which `least` says the least times.
    pub fn new(
        table: Arc<Table>,
        key: DecoratedKey,
        row: PackedRow,
        least: LeastTimes,
    ) -> RowUpdate {
        debug_assert_eq!(least, least_times(&row));
        RowUpdate {
            table,
            key,
            row,
            least,
        }
    }

    /// What an update says, if that is of one row, and nothing of it counts; `scratch` is memory to lay it out in.
    pub fn of(update: &PartitionUpdate, scratch: &mut Vec<u8>) -> Option<RowUpdate> {
        let [row] = &update.rows[..] else {
            return None;
        };
        let counts = |cell: &Cell| {
            let column = update.table.column(cell.column);
            column.is_none_or(|column| column.ty == CqlType::Counter)
        };
        let says_more = !update.deletion.is_live()
            || update.static_row.is_some()
            || !update.range_tombstones.is_empty();
        if says_more || row.cells.iter().any(counts) {
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

    /// The lowest of all times that it says.
    pub fn least_times(&self) -> LeastTimes {
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
fn least_times(row: &PackedRow) -> LeastTimes {
    let head = row.head();
    let marker = &head.liveness;
    let least = LeastTimes::NONE.and(marker.timestamp, marker.ttl, marker.expires_at);
    let complex = head.complex_deletions.iter().map(|c| c.deletion);
    let deletions = complex.chain([head.deletion]);
    let least = deletions.fold(least, |least, deletion| {
        least.and(deletion.timestamp, NO_TTL, deletion.local_deletion_time)
    });
    row.cell_refs().fold(least, |least, cell| {
        least.and(cell.timestamp, cell.ttl, cell.local_deletion_time)
    })
}
