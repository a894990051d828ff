//! A row in memory.

use std::cmp::Ordering;
use std::rc::Rc;

use bytes::Bytes;
use model::{
    Bound, Cell, Clustering, ClusteringComparator, ComplexDeletion, PackedRow, Row, Table,
    most_packed_len,
};

use super::allocated::{COUNTS, allocated};

/// A row in memory; a clone shares it.
#[derive(Clone, Debug)]
pub(crate) enum MemRow {
    /// Laid out in one piece.
    Packed(PackedRow),
    /// Its values in pieces of their own.
    Large(Rc<Row>),
}

impl MemRow {
    /// A row, copied: until then its values are parts of whatever the write came in. `scratch` is
    /// memory to do it in.
    pub(super) fn new(mut row: Row, scratch: &mut Vec<u8>) -> MemRow {
        row.drop_shadowed();
        MemRow::of(row, scratch)
    }

    fn of(mut row: Row, scratch: &mut Vec<u8>) -> MemRow {
        if PackedRow::suits(value_bytes(&row), row.cells.len()) {
            return MemRow::Packed(PackedRow::new(&row, scratch));
        }
        copy_values(&mut row);
        row.cells.shrink_to_fit();
        row.complex_deletions.shrink_to_fit();
        MemRow::Large(Rc::new(row))
    }

    /// Takes in another version of the row, whose columns are those of `table`.
    pub(super) fn merge(&mut self, mut other: Row, table: &Table, scratch: &mut Vec<u8>) {
        match self {
            MemRow::Packed(packed) => {
                let bytes = packed.len() + value_bytes(&other);
                let fits = suit(bytes, || packed.cells() + other.cells.len());
                let left = match fits {
                    true => packed.merge(other, table, scratch).err(),
                    false => Some(other),
                };
                if let Some(other) = left {
                    let mut row = packed.unpack();
                    row.merge(other, table);
                    *self = MemRow::of(row, scratch);
                }
            }
            MemRow::Large(known) => {
                copy_values(&mut other);
                let row = Rc::make_mut(known);
                row.merge(other, table);
                // Later than it became large, so that rows do not change to and fro.
                if PackedRow::suits(2 * value_bytes(row), row.cells.len()) {
                    let row = std::mem::replace(row, Row::new(Clustering::EMPTY));
                    *self = MemRow::of(row, scratch);
                }
            }
        }
    }

    /// Takes in another version of the row, which is laid out already.
    pub(super) fn merge_packed(&mut self, other: PackedRow, table: &Table, scratch: &mut Vec<u8>) {
        if let MemRow::Packed(packed) = self {
            let bytes = packed.len() + other.len();
            if suit(bytes, || packed.cells() + other.cells()) {
                return packed.merge_packed(other, table, scratch);
            }
        }
        self.merge(other.unpack(), table, scratch);
    }

    /// Asks for its memory.
    pub(super) fn prefetch(&self) {
        match self {
            MemRow::Packed(packed) => io::prefetch(packed.memory()),
            MemRow::Large(row) => io::prefetch(&**row),
        }
    }

    /// The row as everybody else knows it.
    pub(crate) fn to_row(&self) -> Row {
        match self {
            MemRow::Packed(packed) => packed.unpack(),
            MemRow::Large(row) => Row::clone(row),
        }
    }

    /// Does it say nothing at all?
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            MemRow::Packed(packed) => packed.says_nothing(),
            MemRow::Large(row) => row.is_empty(),
        }
    }

    /// Its clustering, copied.
    pub(crate) fn clustering(&self) -> Clustering {
        match self {
            MemRow::Packed(packed) => packed.to_clustering(),
            MemRow::Large(row) => row.clustering.clone(),
        }
    }

    /// The order of this row and another of its partition.
    pub(crate) fn compare(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> Ordering {
        self.compare_values(comparator, clustering.values())
    }

    /// The order of this row and the one of a clustering of these values in its partition.
    pub(super) fn compare_values<'v>(
        &self,
        comparator: &ClusteringComparator,
        values: impl ExactSizeIterator<Item = &'v [u8]>,
    ) -> Ordering {
        match self {
            MemRow::Packed(packed) => comparator.compare_rows(packed.clustering(), values),
            MemRow::Large(row) => comparator.compare_rows(row.clustering.values(), values),
        }
    }

    /// The order of this row and a bound.
    pub(crate) fn compare_to_bound(
        &self,
        comparator: &ClusteringComparator,
        bound: &Bound,
    ) -> Ordering {
        match self {
            MemRow::Packed(row) => comparator.compare_values_to_bound(row.clustering(), bound),
            MemRow::Large(row) => comparator.compare_to_bound(&row.clustering, bound),
        }
    }

    /// Its number among the rows of its partition.
    pub(super) fn rank(&self, comparator: &ClusteringComparator) -> u64 {
        match self {
            MemRow::Packed(packed) => comparator.rank(packed.clustering()),
            MemRow::Large(row) => comparator.rank_of(&row.clustering),
        }
    }

    /// Bytes of memory that a row that is made of this one takes at most.
    pub(super) fn most_bytes(row: &Row) -> usize {
        let bytes = value_bytes(row);
        if !PackedRow::suits(bytes, row.cells.len()) {
            return row_bytes(row);
        }
        let packed = allocated(COUNTS + most_packed_len(row));
        // What is not packed takes in, as it is, what has cells of half the length.
        match PackedRow::suits_by_far(bytes, row.cells.len()) {
            true => packed,
            false => packed.max(row_bytes(row)),
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            MemRow::Packed(packed) => allocated(COUNTS + packed.len()),
            MemRow::Large(row) => row_bytes(row),
        }
    }
}

/// [`PackedRow::suits`] of so many cells, which are counted if they matter.
fn suit(bytes: usize, cells: impl FnOnce() -> usize) -> bool {
    PackedRow::suits(bytes, 0) || PackedRow::suits(bytes, cells())
}

/// Copies all values, each into a piece of its own.
fn copy_values(row: &mut Row) {
    let copy = |value: &mut Bytes| *value = Bytes::copy_from_slice(value);
    row.clustering.0.iter_mut().for_each(copy);
    for cell in &mut row.cells {
        copy(&mut cell.value);
        cell.path.as_mut().into_iter().for_each(copy);
    }
}

/// Bytes of all values of a row.
fn value_bytes(row: &Row) -> usize {
    let of_cell = |cell: &Cell| cell.value.len() + cell.path.as_ref().map_or(0, Bytes::len);
    let clustering: usize = row.clustering.values().map(<[u8]>::len).sum();
    clustering + row.cells.iter().map(of_cell).sum::<usize>()
}

/// Bytes that a row takes whose values are in pieces of their own.
fn row_bytes(row: &Row) -> usize {
    let clustering = &row.clustering.0;
    let spilled = if clustering.spilled() {
        clustering.capacity()
    } else {
        0
    };
    let paths = row.cells.iter().filter_map(|cell| cell.path.as_ref());
    let values = row.cells.iter().map(|cell| &cell.value);
    let pieces = clustering.iter().chain(paths).chain(values);
    allocated(size_of::<Row>() + COUNTS)
        + allocated(spilled * size_of::<Bytes>())
        + allocated(row.cells.capacity() * size_of::<Cell>())
        + allocated(row.complex_deletions.capacity() * size_of::<ComplexDeletion>())
        + pieces.map(|piece| piece_bytes(piece)).sum::<usize>()
}

/// Bytes that a value takes in a piece of its own, with what `bytes` keeps beside it once it was
/// shared.
pub(super) fn piece_bytes(piece: &[u8]) -> usize {
    const SHARED: usize = 32;
    match piece.len() {
        0 => 0,
        len => allocated(len) + SHARED,
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
