//! Cells, rows and range tombstones.

use bytes::Bytes;

use crate::{Clustering, ColumnId, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Slice, Table};

/// One value with its time. A tombstone has a deletion time, no ttl and an empty value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The column.
    pub column: ColumnId,
    /// Which element of a non-frozen collection (list: timeuuid, set: element, map: key) or field
    /// of a non-frozen user type (u16, big-endian); `None` for all other columns.
    pub path: Option<Bytes>,
    /// Microseconds since 1970.
    pub timestamp: i64,
    /// Seconds to live; [`NO_TTL`] for ever.
    pub ttl: i32,
    /// Seconds since 1970: when it was deleted, or will expire; else [`NO_DELETION_TIME`].
    pub local_deletion_time: u32,
    /// The value, empty for tombstones and for elements of sets.
    pub value: Bytes,
}

/// A cell whose bytes are somewhere else: in memory that rows are laid out in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'c> {
    /// As in [`Cell`].
    pub column: ColumnId,
    /// As in [`Cell`].
    pub path: Option<&'c [u8]>,
    /// As in [`Cell`].
    pub timestamp: i64,
    /// As in [`Cell`].
    pub ttl: i32,
    /// As in [`Cell`].
    pub local_deletion_time: u32,
    /// As in [`Cell`].
    pub value: &'c [u8],
}

impl Cell {
    /// The cell without owning its bytes.
    pub fn borrowed(&self) -> CellRef<'_> {
        CellRef {
            column: self.column,
            path: self.path.as_deref(),
            timestamp: self.timestamp,
            ttl: self.ttl,
            local_deletion_time: self.local_deletion_time,
            value: &self.value,
        }
    }

    /// Was it written by a deletion?
    pub fn is_tombstone(&self) -> bool {
        self.borrowed().is_tombstone()
    }

    /// Will it expire?
    pub fn is_expiring(&self) -> bool {
        self.borrowed().is_expiring()
    }

    /// Neither deleted nor expired?
    #[inline]
    pub fn is_live(&self, now_seconds: u32) -> bool {
        self.borrowed().is_live(now_seconds)
    }
}

impl CellRef<'_> {
    /// The cell with bytes of its own.
    pub fn to_cell(&self) -> Cell {
        Cell {
            column: self.column,
            path: self.path.map(Bytes::copy_from_slice),
            timestamp: self.timestamp,
            ttl: self.ttl,
            local_deletion_time: self.local_deletion_time,
            value: Bytes::copy_from_slice(self.value),
        }
    }

    /// As [`Cell::is_tombstone`].
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.local_deletion_time != NO_DELETION_TIME && self.ttl == NO_TTL
    }

    /// As [`Cell::is_expiring`].
    #[inline]
    pub fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// As [`Cell::is_live`].
    #[inline]
    pub fn is_live(&self, now_seconds: u32) -> bool {
        self.local_deletion_time == NO_DELETION_TIME
            || (self.ttl != NO_TTL && now_seconds < self.local_deletion_time)
    }
}

/// The deletion of a whole non-frozen collection or user type, as an overwrite does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComplexDeletion {
    /// The column.
    pub column: ColumnId,
    /// What of it is gone.
    pub deletion: DeletionTime,
}

/// A row, or what one write, one memtable or one sstable knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it lies in its partition; empty for the static row.
    pub clustering: Clustering,
    /// The row marker.
    pub liveness: Liveness,
    /// The deletion of the row.
    pub deletion: DeletionTime,
    /// Sorted by column, one each.
    pub complex_deletions: Vec<ComplexDeletion>,
    /// Sorted by column, then by path in the order of the column's path type; one each.
    pub cells: Vec<Cell>,
}

impl Row {
    /// A row of which nothing is known yet.
    pub fn new(clustering: Clustering) -> Row {
        Row {
            clustering,
            liveness: Liveness::NONE,
            deletion: DeletionTime::LIVE,
            complex_deletions: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// About how many bytes it takes in an answer.
    pub fn answer_bytes(&self) -> u64 {
        let clustering: usize = self.clustering.values().map(|value| value.len() + 4).sum();
        let cells: usize = self
            .cells
            .iter()
            .map(|c| 16 + c.value.len() + c.path.as_ref().map_or(0, |p| p.len() + 4))
            .sum();
        (16 + clustering + cells) as u64
    }

    /// Bytes of it as [`PartitionUpdate::data_bytes`](crate::PartitionUpdate::data_bytes) counts them
    /// (`BTreeRow.dataSize`).
    pub(crate) fn data_bytes(&self) -> u64 {
        // A time, a time and when it was set, and the same with whether it is shadowable.
        let liveness = if self.liveness.ttl == NO_TTL { 8 } else { 20 };
        let deletion = 13;
        let bytes_of =
            |cell: &Cell| 20 + cell.value.len() + cell.path.as_ref().map_or(0, Bytes::len);
        let cells: usize = self.cells.iter().map(bytes_of).sum();
        (self.clustering.bytes() + liveness + deletion + cells + 12 * self.complex_columns()) as u64
    }

    /// How many columns of several cells it has.
    fn complex_columns(&self) -> usize {
        let of_cells = self.cells.iter().filter(|cell| cell.path.is_some());
        let of_cells = of_cells.map(|cell| cell.column);
        let deleted = self.complex_deletions.iter().map(|complex| complex.column);
        let mut columns: Vec<ColumnId> = of_cells.chain(deleted).collect();
        columns.sort();
        columns.dedup();
        columns.len()
    }

    /// Nothing known of it: neither marker nor deletion nor cells?
    pub fn is_empty(&self) -> bool {
        self.liveness.is_empty()
            && self.deletion.is_live()
            && self.complex_deletions.is_empty()
            && self.cells.is_empty()
    }

    /// Does a reader see it: a live marker, or a live cell?
    pub fn is_live(&self, now_seconds: u32) -> bool {
        self.liveness.is_live(now_seconds) || self.cells.iter().any(|c| c.is_live(now_seconds))
    }

    /// Keeps what is of columns that `table` has: those that were dropped since the row was
    /// written may still be in memory. What is written to a column that came back is of the one
    /// that was dropped, if its time is not after that (`Row.filter`).
    pub fn retain_columns_of(&mut self, table: &Table) {
        let again: Vec<(ColumnId, i64)> = table.dropped_before().collect();
        let keeps = |column: ColumnId, timestamp: i64| {
            let dropped = again.iter().find(|(id, _)| *id == column);
            table.column(column).is_some() && dropped.is_none_or(|(_, at)| timestamp > *at)
        };
        self.cells.retain(|cell| keeps(cell.column, cell.timestamp));
        self.complex_deletions
            .retain(|complex| keeps(complex.column, complex.deletion.timestamp));
    }

    /// The cells without owning their bytes, in their order.
    pub fn cell_refs(&self) -> impl Iterator<Item = CellRef<'_>> + Clone {
        self.cells.iter().map(Cell::borrowed)
    }

    /// The cells of one column.
    pub fn cells_of(&self, column: ColumnId) -> &[Cell] {
        let start = self.cells.partition_point(|c| c.column < column);
        let end = start + self.cells[start..].partition_point(|c| c.column == column);
        &self.cells[start..end]
    }
}

/// The deletion of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// Which rows.
    pub slice: Slice,
    /// What of them is gone.
    pub deletion: DeletionTime,
}

impl RangeTombstone {
    /// Bytes of it as [`PartitionUpdate::data_bytes`](crate::PartitionUpdate::data_bytes) counts them.
    pub(crate) fn data_bytes(&self) -> u64 {
        (self.slice.start.prefix.bytes() + self.slice.end.prefix.bytes() + 12) as u64
    }
}
