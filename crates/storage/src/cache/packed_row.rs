//! A row as the cache keeps it: in two pieces of memory, whatever the number of its cells.
//!
//! Values that were decoded are slices of the chunk they lay in, so a row that is kept must copy
//! them, or 16 KiB would stay for its hundred bytes. They are copied into one piece, which a
//! reader's cells are slices of in turn: what is read is not copied again.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use model::{
    Cell, CellRef, Clustering, ColumnId, DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME,
    NO_TTL, Row,
};

use crate::memtable::allocated;

/// A row of columns of one cell each.
#[derive(Debug, PartialEq)]
pub(crate) struct PackedRow {
    /// The key of the partition, the clustering, then the values of the cells.
    bytes: Bytes,
    /// How much of them is key and clustering.
    place: u32,
    /// The row marker.
    pub(crate) liveness: Liveness,
    /// The deletion of the row.
    deletion: DeletionTime,
    cells: Box<[PackedCell]>,
}

#[derive(Debug, PartialEq)]
struct PackedCell {
    column: ColumnId,
    ttl: i32,
    timestamp: i64,
    local_deletion_time: u32,
    /// Where in the bytes the value ends; it begins where the one before ends.
    end: u32,
}

/// What `bytes` keeps of a piece of memory whose parts are shared.
const SHARED: usize = 32;

/// Writes down where a row lies, so that different places are written differently: the key as it
/// is, each value of the clustering behind its length. The length of the key is known besides.
fn write_place(key: &[u8], clustering: &Clustering, to: &mut BytesMut) {
    to.put_slice(key);
    for value in &clustering.0 {
        to.put_u32(value.len() as u32);
        to.put_slice(value);
    }
}

/// How long that is.
fn place_length(key: &[u8], clustering: &Clustering) -> usize {
    let values: usize = clustering.0.iter().map(|value| 4 + value.len()).sum();
    key.len() + values
}

/// The values of a clustering that [`write_place`] wrote behind a key.
pub(super) fn place_values(mut written: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = written.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        written = rest;
        Some(value)
    })
}

/// Is this what [`write_place`] writes?
pub(super) fn is_place(written: &[u8], key: &[u8], clustering: &Clustering) -> bool {
    written.strip_prefix(key).is_some_and(|rest| {
        let values = clustering.0.iter().map(|value| &**value);
        place_values(rest).eq(values)
    })
}

impl PackedRow {
    /// The cells of `columns` (sorted) of a row and what it says besides of itself. `None` if it is
    /// larger than `most` bytes or has a cell of a collection.
    pub(crate) fn new(
        key: &DecoratedKey,
        row: &Row,
        columns: &[ColumnId],
        most: usize,
    ) -> Option<PackedRow> {
        let wanted = |cell: &&Cell| columns.binary_search(&cell.column).is_ok();
        let kept = || row.cells.iter().filter(wanted);
        let place = place_length(key.key(), &row.clustering);
        let length = place + kept().map(|cell| cell.value.len()).sum::<usize>();
        if length > most.min(u32::MAX as usize) || kept().any(|cell| cell.path.is_some()) {
            return None;
        }
        let mut bytes = BytesMut::with_capacity(length);
        write_place(key.key(), &row.clustering, &mut bytes);
        let cells = kept().map(|cell| {
            bytes.put_slice(&cell.value);
            PackedCell {
                column: cell.column,
                ttl: cell.ttl,
                timestamp: cell.timestamp,
                local_deletion_time: cell.local_deletion_time,
                end: bytes.len() as u32,
            }
        });
        let cells = cells.collect();
        Some(PackedRow {
            bytes: bytes.freeze(),
            place: place as u32,
            liveness: row.liveness,
            deletion: row.deletion,
            cells,
        })
    }

    /// Where the row lies, as [`is_place`] knows it.
    pub(super) fn place(&self) -> Bytes {
        self.bytes.slice(..self.place as usize)
    }

    /// The row again, with the cells of the columns that `wanted` says yes to.
    pub(crate) fn unpack(&self, clustering: Clustering, wanted: impl Fn(ColumnId) -> bool) -> Row {
        let mut cells = Vec::with_capacity(self.cells.len());
        for (cell, value) in self.cells() {
            if wanted(cell.column) {
                cells.push(Cell {
                    column: cell.column,
                    path: None,
                    timestamp: cell.timestamp,
                    ttl: cell.ttl,
                    local_deletion_time: cell.local_deletion_time,
                    value: self.bytes.slice(value),
                });
            }
        }
        Row {
            clustering,
            liveness: self.liveness,
            deletion: self.deletion,
            complex_deletions: Vec::new(),
            cells,
        }
    }

    /// Is it there by its marker, and is nothing of it deleted and nothing going to expire?
    pub(super) fn is_plain(&self) -> bool {
        let stays =
            |cell: &PackedCell| cell.ttl == NO_TTL && cell.local_deletion_time == NO_DELETION_TIME;
        !self.liveness.is_empty()
            && self.liveness.ttl == NO_TTL
            && self.liveness.expires_at == NO_DELETION_TIME
            && self.deletion.is_live()
            && self.cells.iter().all(stays)
    }

    /// The columns of its cells and their values.
    pub(crate) fn values(&self) -> impl Iterator<Item = (ColumnId, &[u8])> {
        let cells = self.cells();
        cells.map(|(cell, value)| (cell.column, &self.bytes[value]))
    }

    /// The cells, in their order.
    pub(crate) fn cell_refs(&self) -> impl Iterator<Item = CellRef<'_>> {
        self.cells().map(|(cell, value)| CellRef {
            column: cell.column,
            path: None,
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            local_deletion_time: cell.local_deletion_time,
            value: &self.bytes[value],
        })
    }

    /// The cells, and where in the bytes the value of each is.
    fn cells(&self) -> impl Iterator<Item = (&PackedCell, Range<usize>)> {
        let mut start = self.place as usize;
        self.cells.iter().map(move |cell| {
            let end = cell.end as usize;
            (cell, std::mem::replace(&mut start, end)..end)
        })
    }

    /// Bytes of memory that it takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        allocated(self.bytes.len())
            + allocated(SHARED)
            + allocated(self.cells.len() * size_of::<PackedCell>())
    }

    /// Until when (in seconds since 1970) none of its deletions, nor `around` it, may be purged
    /// from the sstables it was read from: what had to be kept for so long may have been forgotten
    /// there later, and what is written then would be judged differently here. An expired cell may
    /// become a tombstone as old as its write ([`model::Purge`]).
    pub(super) fn keeps_until(&self, around: DeletionTime, gc_grace: u32) -> u32 {
        let of_deletion = |deletion: DeletionTime| match deletion.is_live() {
            true => u32::MAX,
            false => deletion.local_deletion_time.saturating_add(gc_grace),
        };
        let of_expiring = |expires_at: u32, ttl: i32| {
            let written = expires_at.saturating_sub(ttl as u32);
            expires_at.max(written.saturating_add(gc_grace))
        };
        let marker = match self.liveness.ttl {
            NO_TTL => u32::MAX,
            ttl => of_expiring(self.liveness.expires_at, ttl),
        };
        let of_cell = |cell: &PackedCell| match (cell.local_deletion_time, cell.ttl) {
            (NO_DELETION_TIME, _) => u32::MAX,
            (deleted, NO_TTL) => deleted.saturating_add(gc_grace),
            (expires_at, ttl) => of_expiring(expires_at, ttl),
        };
        let cells = self.cells.iter().map(of_cell).min();
        let deletions = of_deletion(around).min(of_deletion(self.deletion));
        deletions.min(marker).min(cells.unwrap_or(u32::MAX))
    }
}
