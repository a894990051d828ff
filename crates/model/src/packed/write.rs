//! Laying out a row.

use std::sync::Arc;

use smallvec::SmallVec;

use super::head::{Head, HeadRef};
use super::{
    CELL_DELETION_TIME, CELL_PATH, CELL_TTL, CELL_VALUE, CLUSTERING_AT, COMPLEX, DELETION,
    EXPIRING, FADING, LIVENESS, PLAIN, PackedRow,
};
use crate::{Cell, CellRef, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Row, vint};

/// The timestamp that most of a row has.
pub(super) fn base_of(row: &Row) -> i64 {
    match row.cells.first() {
        _ if !row.liveness.is_empty() => row.liveness.timestamp,
        Some(cell) => cell.timestamp,
        None => row.deletion.timestamp,
    }
}

/// Everything that comes before the cells.
fn put_head(out: &mut Vec<u8>, row: HeadRef<'_>, base: i64, clustering: impl FnOnce(&mut Vec<u8>)) {
    let Liveness {
        timestamp,
        ttl,
        expires_at,
    } = row.liveness;
    let expiring = ttl != NO_TTL || expires_at != NO_DELETION_TIME;
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(
        flag(!row.liveness.is_empty(), LIVENESS)
            | flag(expiring, EXPIRING)
            | flag(row.deletion != DeletionTime::LIVE, DELETION)
            | flag(!row.complex_deletions.is_empty(), COMPLEX),
    );
    out.extend_from_slice(&[0; CLUSTERING_AT - 1]);
    clustering(out);
    out.extend_from_slice(&base.to_be_bytes());
    if !row.liveness.is_empty() {
        put_time(out, timestamp, base);
    }
    if expiring {
        vint::write_unsigned(out, u64::from(ttl as u32));
        out.extend_from_slice(&expires_at.to_be_bytes());
    }
    if row.deletion != DeletionTime::LIVE {
        put_deletion(out, row.deletion, base);
    }
    if !row.complex_deletions.is_empty() {
        vint::write_unsigned(out, row.complex_deletions.len() as u64);
        for complex in row.complex_deletions {
            vint::write_unsigned(out, u64::from(complex.column.0));
            put_deletion(out, complex.deletion, base);
        }
    }
}

/// Lays out a row in `head`, but for the values of its cells, which stay where they are until all
/// is known.
pub struct RowWriter<'o, 'v> {
    head: &'o mut Vec<u8>,
    base: i64,
    /// Where the number of cells stands.
    number_at: usize,
    number: u32,
    values: SmallVec<[&'v [u8]; 16]>,
    value_bytes: usize,
    /// What the flags of its cells have besides values.
    flags: u8,
    /// Is there a cell that is deleted?
    has_tombstones: bool,
}

impl<'o, 'v> RowWriter<'o, 'v> {
    /// With `row`, and the clustering, which `clustering` appends.
    pub(super) fn new(
        head: &'o mut Vec<u8>,
        row: HeadRef<'_>,
        base: i64,
        clustering: impl FnOnce(&mut Vec<u8>),
    ) -> RowWriter<'o, 'v> {
        head.clear();
        put_head(head, row, base, clustering);
        let number_at = head.len();
        head.extend_from_slice(&[0; 4]);
        RowWriter {
            head,
            base,
            number_at,
            number: 0,
            values: SmallVec::new(),
            value_bytes: 0,
            flags: 0,
            has_tombstones: false,
        }
    }

    /// Appends a cell, if no deletion of the row covers it.
    pub(super) fn put_unless_deleted(&mut self, cell: &CellRef<'v>, row: &Head) {
        if !row.deletes(cell) {
            self.put(cell);
        }
    }

    /// With room for so many cells.
    pub(super) fn with_capacity(mut self, cells: usize) -> Self {
        self.reserve(cells);
        self
    }

    /// Makes room for so many more cells.
    pub fn reserve(&mut self, cells: usize) {
        self.values.reserve(cells);
    }

    /// Appends a cell: behind those of columns before its own, and of its own behind those of lesser paths.
    pub fn put(&mut self, cell: &CellRef<'v>) {
        self.number += 1;
        let out = &mut *self.head;
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let ends = cell.local_deletion_time != NO_DELETION_TIME;
        vint::write_unsigned(out, u64::from(cell.column.0));
        let flags = flag(cell.path.is_some(), CELL_PATH)
            | flag(cell.ttl != NO_TTL, CELL_TTL)
            | flag(ends, CELL_DELETION_TIME);
        self.flags |= flags;
        self.has_tombstones |= ends && cell.ttl == NO_TTL;
        out.push(flags | flag(!cell.value.is_empty(), CELL_VALUE));
        put_time(out, cell.timestamp, self.base);
        if cell.ttl != NO_TTL {
            vint::write_unsigned(out, u64::from(cell.ttl as u32));
        }
        if ends {
            out.extend_from_slice(&cell.local_deletion_time.to_be_bytes());
        }
        if let Some(path) = cell.path {
            put_bytes(out, path);
        }
        if !cell.value.is_empty() {
            vint::write_unsigned(out, cell.value.len() as u64);
            self.values.push(cell.value);
            self.value_bytes += cell.value.len();
        }
    }

    /// Has nothing been laid out that says that the row is there?
    pub fn is_empty(&self) -> bool {
        self.head[0] & LIVENESS == 0 && self.number == 0
    }

    /// Has it values that should not lie in one piece ([`PackedRow::suits`])?
    pub fn is_long(&self) -> bool {
        !PackedRow::suits(self.value_bytes, self.number as usize)
    }

    /// The row.
    pub fn into_row(self) -> PackedRow {
        // A row without a marker is there by its cells.
        let is_there = !self.is_empty();
        let RowWriter { head, values, .. } = self;
        let is_simple = head[0] & (DELETION | COMPLEX) == 0 && self.flags & CELL_PATH == 0;
        if is_simple && is_there && !self.has_tombstones {
            let expires = head[0] & EXPIRING != 0 || self.flags != 0;
            head[0] |= if expires { FADING } else { PLAIN };
        }
        let values_at = head.len();
        head[1..CLUSTERING_AT].copy_from_slice(&(values_at as u32).to_be_bytes());
        head[self.number_at..][..4].copy_from_slice(&self.number.to_be_bytes());
        let zeros = std::iter::repeat_n(0, values_at + self.value_bytes);
        let mut packed: Arc<[u8]> = zeros.collect();
        // Nobody else has it yet.
        if let Some(packed) = Arc::get_mut(&mut packed) {
            let (place, mut rest) = packed.split_at_mut(values_at);
            place.copy_from_slice(head);
            for value in values {
                let (place, behind) = rest.split_at_mut(value.len());
                place.copy_from_slice(value);
                rest = behind;
            }
        }
        PackedRow(packed)
    }
}

/// Bytes that the layout of a packed row takes at most, whatever other timestamps are differences from.
pub fn most_packed_len(row: &Row) -> usize {
    const TIME: usize = 9;
    // An id, a time to live, a length.
    const NUMBER: usize = 5;
    const DELETED: usize = TIME + 4;
    let bytes = |bytes: &[u8]| vint::unsigned_len(bytes.len() as u64) + bytes.len();
    let cell = |cell: &Cell| {
        let ends = cell.ttl != NO_TTL || cell.local_deletion_time != NO_DELETION_TIME;
        NUMBER
            + 1
            + TIME
            + if ends { NUMBER + 4 } else { 0 }
            + cell.path.as_ref().map_or(0, |path| bytes(path))
            + bytes(&cell.value)
    };
    let expiring = row.liveness.ttl != NO_TTL || row.liveness.expires_at != NO_DELETION_TIME;
    let complex = row.complex_deletions.len();
    CLUSTERING_AT
        + NUMBER
        + row.clustering.values().map(bytes).sum::<usize>()
        + size_of::<i64>()
        + TIME
        + if expiring { NUMBER + 4 } else { 0 }
        + if row.deletion == DeletionTime::LIVE {
            0
        } else {
            DELETED
        }
        + if complex > 0 { NUMBER } else { 0 }
        + complex * (NUMBER + DELETED)
        + 4
        + row.cells.iter().map(cell).sum::<usize>()
}

pub(super) fn put_clustering<'v>(
    out: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = &'v [u8]>,
) {
    vint::write_unsigned(out, values.len() as u64);
    values.for_each(|value| put_bytes(out, value));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_time(out: &mut Vec<u8>, timestamp: i64, base: i64) {
    vint::write_signed(out, timestamp.wrapping_sub(base));
}

fn put_deletion(out: &mut Vec<u8>, deletion: DeletionTime, base: i64) {
    put_time(out, deletion.timestamp, base);
    out.extend_from_slice(&deletion.local_deletion_time.to_be_bytes());
}
