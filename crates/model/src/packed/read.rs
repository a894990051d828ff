//! Going along a packed row.

use super::head::Head;
use super::{
    CELL_DELETION_TIME, CELL_PATH, CELL_TTL, CELL_VALUE, CLUSTERING_AT, COMPLEX, DELETION,
    EXPIRING, LIVENESS,
};
use crate::{
    CellRef, ColumnId, ComplexDeletion, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, vint,
};

/// The values of the clustering of a packed row, one after the other.
#[derive(Clone, Debug)]
pub struct PackedClustering<'p> {
    packed: &'p [u8],
    left: usize,
    rest: &'p [u8],
}

impl<'p> PackedClustering<'p> {
    /// Of a packed row.
    pub(super) fn of(packed: &'p [u8]) -> PackedClustering<'p> {
        let mut rest = packed.get(CLUSTERING_AT..).unwrap_or(&[]);
        let left = number(&mut rest) as usize;
        PackedClustering { packed, left, rest }
    }

    /// What stands behind the clustering, as [`super::PackedRow::values`], without going along that again.
    pub fn then_values(mut self) -> PackedValues<'p> {
        self.by_ref().for_each(drop);
        let (packed, mut rest) = (self.packed, self.rest);
        let mut head = packed;
        let flags = fixed::<1>(&mut head)[0];
        let values_at = u32::from_be_bytes(fixed(&mut head)) as usize;
        fixed::<8>(&mut rest);
        let has = |flag| flags & flag != 0;
        if has(LIVENESS) {
            number(&mut rest);
        }
        if has(EXPIRING) {
            number(&mut rest);
            fixed::<4>(&mut rest);
        }
        if has(DELETION) {
            skip_deletion(&mut rest);
        }
        if has(COMPLEX) {
            for _ in 0..number(&mut rest) {
                number(&mut rest);
                skip_deletion(&mut rest);
            }
        }
        PackedValues {
            cells: u32::from_be_bytes(fixed(&mut rest)) as usize,
            rest,
            values: packed.get(values_at..).unwrap_or(&[]),
        }
    }
}

impl<'p> Iterator for PackedClustering<'p> {
    type Item = &'p [u8];

    fn next(&mut self) -> Option<&'p [u8]> {
        self.left = self.left.checked_sub(1)?;
        Some(bytes(&mut self.rest))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for PackedClustering<'_> {}

/// What a packed row says, the cells one after the other.
pub(super) struct Parts<'p> {
    pub(super) head: Head,
    /// The clustering as it is laid out.
    pub(super) clustering: &'p [u8],
    pub(super) base: i64,
    pub(super) cells: Cells<'p>,
}

/// The cells of a packed row, one after the other.
#[derive(Clone)]
pub(super) struct Cells<'p> {
    base: i64,
    left: usize,
    rest: &'p [u8],
    /// Of the cells in `rest`.
    values: &'p [u8],
}

impl<'p> Parts<'p> {
    pub(super) fn of(packed: &'p [u8]) -> Parts<'p> {
        let mut rest = packed;
        let flags = fixed::<1>(&mut rest)[0];
        let values_at = u32::from_be_bytes(fixed(&mut rest)) as usize;
        let values = packed.get(values_at..).unwrap_or(&[]);
        let start = rest;
        for _ in 0..number(&mut rest) {
            bytes(&mut rest);
        }
        let clustering = &start[..start.len() - rest.len()];
        let base = i64::from_be_bytes(fixed(&mut rest));
        let mut head = Head::of_marker(Liveness::NONE);
        if flags & LIVENESS != 0 {
            head.liveness.timestamp = time(&mut rest, base);
        }
        if flags & EXPIRING != 0 {
            head.liveness.ttl = number(&mut rest) as i32;
            head.liveness.expires_at = u32::from_be_bytes(fixed(&mut rest));
        }
        if flags & DELETION != 0 {
            head.deletion = deletion(&mut rest, base);
        }
        if flags & COMPLEX != 0 {
            let count = number(&mut rest);
            let complex = (0..count).map(|_| ComplexDeletion {
                column: ColumnId(number(&mut rest) as u32),
                deletion: deletion(&mut rest, base),
            });
            head.complex_deletions = complex.collect();
        }
        let left = u32::from_be_bytes(fixed(&mut rest)) as usize;
        let cells = Cells {
            base,
            left,
            rest,
            values,
        };
        Parts {
            head,
            clustering,
            base,
            cells,
        }
    }
}

impl Cells<'_> {
    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }
}

impl<'p> Iterator for Cells<'p> {
    type Item = CellRef<'p>;

    fn next(&mut self) -> Option<CellRef<'p>> {
        self.left = self.left.checked_sub(1)?;
        let rest = &mut self.rest;
        let column = ColumnId(number(rest) as u32);
        let flags = fixed::<1>(rest)[0];
        let has = |flag| flags & flag != 0;
        Some(CellRef {
            column,
            timestamp: time(rest, self.base),
            ttl: if has(CELL_TTL) {
                number(rest) as i32
            } else {
                NO_TTL
            },
            local_deletion_time: if has(CELL_DELETION_TIME) {
                u32::from_be_bytes(fixed(rest))
            } else {
                NO_DELETION_TIME
            },
            path: has(CELL_PATH).then(|| bytes(rest)),
            value: if has(CELL_VALUE) {
                let len = number(rest) as usize;
                taken(&mut self.values, len)
            } else {
                &[]
            },
        })
    }
}

/// The values of the cells of a packed row, one after the other, and nothing else of it.
#[derive(Clone, Debug)]
pub struct PackedValues<'p> {
    cells: usize,
    rest: &'p [u8],
    /// Of the cells in `rest`.
    values: &'p [u8],
}

impl PackedValues<'_> {
    /// How many are left.
    pub fn left(&self) -> usize {
        self.cells
    }
}

impl<'p> Iterator for PackedValues<'p> {
    type Item = (ColumnId, &'p [u8]);

    fn next(&mut self) -> Option<(ColumnId, &'p [u8])> {
        self.cells = self.cells.checked_sub(1)?;
        let rest = &mut self.rest;
        let column = ColumnId(number(rest) as u32);
        let flags = fixed::<1>(rest)[0];
        number(rest);
        if flags & !CELL_VALUE != 0 {
            if flags & CELL_TTL != 0 {
                number(rest);
            }
            if flags & CELL_DELETION_TIME != 0 {
                fixed::<4>(rest);
            }
            if flags & CELL_PATH != 0 {
                bytes(rest);
            }
        }
        let len = match flags & CELL_VALUE {
            0 => 0,
            _ => number(rest) as usize,
        };
        Some((column, taken(&mut self.values, len)))
    }
}

// What is read here was written here, so it never ends too early; if it did, the rest would be
// zeros.

pub(super) fn fixed<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk::<N>() {
        Some((taken, left)) => {
            *rest = left;
            *taken
        }
        None => [0; N],
    }
}

fn number(rest: &mut &[u8]) -> u64 {
    // Most numbers are small.
    if let [first @ ..0x80, left @ ..] = *rest {
        *rest = left;
        return u64::from(*first);
    }
    vint::read_unsigned(rest).unwrap_or(0)
}

fn bytes<'p>(rest: &mut &'p [u8]) -> &'p [u8] {
    let len = number(rest) as usize;
    taken(rest, len)
}

fn taken<'p>(rest: &mut &'p [u8], len: usize) -> &'p [u8] {
    let (taken, left) = rest.split_at_checked(len).unwrap_or((&[], &[]));
    *rest = left;
    taken
}

fn time(rest: &mut &[u8], base: i64) -> i64 {
    base.wrapping_add(vint::unzigzag(number(rest)))
}

fn skip_deletion(rest: &mut &[u8]) {
    number(rest);
    fixed::<4>(rest);
}

fn deletion(rest: &mut &[u8], base: i64) -> DeletionTime {
    DeletionTime {
        timestamp: time(rest, base),
        local_deletion_time: u32::from_be_bytes(fixed(rest)),
    }
}
