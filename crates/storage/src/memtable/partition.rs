//! A partition in memory.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use model::{
    Cell, Clustering, ComplexDeletion, DecoratedKey, DeletionTime, PartitionUpdate, RangeTombstone,
    RangeTombstoneList, Row, Table,
};

use super::allocated::allocated;
use super::rows::Rows;

/// Rows up to this many bytes of values are laid out anew with every write to them, so that they
/// never keep more memory alive than they use.
const REPACK: usize = 8 << 10;

/// What a memtable knows of a partition. Readers share it; a writer who meets a shared one copies
/// what it changes.
#[derive(Clone, Debug)]
pub(crate) struct MemPartition {
    /// The key.
    pub(crate) key: DecoratedKey,
    /// The deletion of the whole partition.
    pub(crate) deletion: DeletionTime,
    /// The static row.
    pub(crate) static_row: Option<Rc<Row>>,
    /// The rows.
    pub(crate) rows: Rows,
    /// The deleted ranges.
    pub(crate) tombstones: RangeTombstoneList,
}

/// Reference counts beside what they count.
const COUNTS: usize = 2 * size_of::<usize>();

/// A place in the map of partitions, in leaves that are two thirds full and what is above them.
const MAP_ENTRY: usize = 56;

/// Bytes of a partition without rows: itself, its key, its place in the map.
pub(super) fn partition_bytes(key: &DecoratedKey) -> usize {
    allocated(size_of::<MemPartition>() + COUNTS) + allocated(key.key().len()) + MAP_ENTRY
}

impl MemPartition {
    /// A partition of which nothing is known. Copies the key, which may be part of something
    /// larger.
    pub(crate) fn new(key: &DecoratedKey) -> MemPartition {
        MemPartition {
            key: DecoratedKey::new(Bytes::copy_from_slice(key.key())),
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Rows::default(),
            tombstones: RangeTombstoneList::new(),
        }
    }

    /// Takes in an update, whose columns are those of `table`. Gives the bytes that it made the
    /// partition grow by, which may be negative.
    pub(crate) fn apply(&mut self, update: PartitionUpdate, table: &Table) -> isize {
        let container = self.rows.container_bytes();
        let mut grown = 0;
        self.deletion = self.deletion.merge(update.deletion);
        if let Some(row) = update.static_row {
            grown += self.apply_static(row, table);
        }
        for row in update.rows {
            grown += self.apply_row(row, table);
        }
        if !update.range_tombstones.is_empty() {
            let before = tombstones_bytes(self.tombstones.ranges());
            let tombstones = update.range_tombstones.into_iter().map(copied).collect();
            self.tombstones.merge(table.comparator(), tombstones);
            grown += tombstones_bytes(self.tombstones.ranges()) as isize - before as isize;
        }
        grown + self.rows.container_bytes() as isize - container as isize
    }

    fn apply_static(&mut self, mut row: Row, table: &Table) -> isize {
        let Some(known) = &mut self.static_row else {
            row.drop_shadowed();
            pack(&mut row);
            let bytes = row_bytes(&row);
            self.static_row = Some(Rc::new(row));
            return bytes as isize;
        };
        merge_into(Rc::make_mut(known), row, table)
    }

    fn apply_row(&mut self, mut row: Row, table: &Table) -> isize {
        let comparator = table.comparator();
        let (place, found) = self
            .rows
            .search(|known| comparator.compare(&known.clustering, &row.clustering));
        if found {
            return merge_into(self.rows.row_mut(place), row, table);
        }
        row.drop_shadowed();
        pack(&mut row);
        let bytes = row_bytes(&row);
        self.rows.insert(place, row);
        bytes as isize
    }
}

fn merge_into(known: &mut Row, row: Row, table: &Table) -> isize {
    let before = row_bytes(known);
    known.merge(row, table);
    let values = value_bytes(known);
    if values <= REPACK {
        pack(known);
    } else {
        for cell in &mut known.cells {
            // Old values were copied already; only what is new may be part of something larger.
            detach(cell);
        }
    }
    row_bytes(known) as isize - before as isize
}

/// Copies a value that shares its memory with others of the same write: cheap for large rows,
/// where only the few new cells do.
fn detach(cell: &mut Cell) {
    if !cell.value.is_unique() {
        cell.value = Bytes::copy_from_slice(&cell.value);
    }
    if let Some(path) = &mut cell.path
        && !path.is_unique()
    {
        *path = Bytes::copy_from_slice(path);
    }
}

/// Copies all values of a row into one piece of memory of its own: until then they are parts of
/// whatever the write came in.
fn pack(row: &mut Row) {
    let mut piece = BytesMut::with_capacity(value_bytes(row));
    let mut take = |value: &mut Bytes| {
        if value.is_empty() {
            *value = Bytes::new();
        } else {
            piece.extend_from_slice(value);
            *value = piece.split().freeze();
        }
    };
    row.clustering.0.iter_mut().for_each(&mut take);
    for cell in &mut row.cells {
        if let Some(path) = &mut cell.path {
            take(path);
        }
        take(&mut cell.value);
    }
    row.cells.shrink_to_fit();
    row.complex_deletions.shrink_to_fit();
}

fn copied(mut tombstone: RangeTombstone) -> RangeTombstone {
    let copy = |clustering: &mut Clustering| {
        for value in &mut clustering.0 {
            *value = Bytes::copy_from_slice(value);
        }
    };
    copy(&mut tombstone.slice.start.prefix);
    copy(&mut tombstone.slice.end.prefix);
    tombstone
}

/// Bytes of all values of a row.
fn value_bytes(row: &Row) -> usize {
    let clustering: usize = row.clustering.0.iter().map(Bytes::len).sum();
    let cells: usize = row
        .cells
        .iter()
        .map(|c| c.value.len() + c.path.as_ref().map_or(0, Bytes::len))
        .sum();
    clustering + cells
}

/// Bytes that a row takes.
fn row_bytes(row: &Row) -> usize {
    // What `bytes` keeps of a piece of memory whose parts are shared.
    const SHARED: usize = 48;
    let clustering = &row.clustering.0;
    let spilled = if clustering.spilled() {
        clustering.capacity()
    } else {
        0
    };
    let values = value_bytes(row);
    allocated(size_of::<Row>() + COUNTS)
        + allocated(spilled * size_of::<Bytes>())
        + allocated(row.cells.capacity() * size_of::<Cell>())
        + allocated(row.complex_deletions.capacity() * size_of::<ComplexDeletion>())
        + if values > 0 {
            allocated(values) + SHARED
        } else {
            0
        }
}

fn tombstones_bytes(tombstones: &[RangeTombstone]) -> usize {
    let values = |clustering: &Clustering| clustering.0.iter().map(|v| v.len() + 32).sum::<usize>();
    tombstones
        .iter()
        .map(|t| {
            size_of::<RangeTombstone>()
                + values(&t.slice.start.prefix)
                + values(&t.slice.end.prefix)
        })
        .sum()
}
