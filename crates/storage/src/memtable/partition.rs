//! A partition in memory.

use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;
use model::{
    Bound, Clustering, ClusteringComparator, DecoratedKey, DeletionTime, PackedRow,
    PartitionUpdate, Row, Slice, Table,
};

use super::allocated::{COUNTS, allocated};
use super::key::MemKey;
use super::row::MemRow;
use super::tombstones::Tombstones;
use super::tree::{self, Tree};

/// Bytes that the place of a row takes at most in the tree of a new partition, of many rows in any
/// order; of few, a node more.
pub(super) const PLACE: usize = tree::most_bytes_a_place::<MemRow>();

/// What a memtable knows of a partition. Readers share it; a writer who meets a shared one copies
/// what it changes.
// The key stands first, beside the counts of references: who looks a partition up has both from one line of memory.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct MemPartition {
    key: MemKey,
    rows: Tree<MemRow>,
    /// What most partitions do not have.
    rest: Option<Box<Rest>>,
    /// How often rows of it were asked for by themselves; [`ASKED_AGAIN`] is as often as anything.
    asked: Cell<u8>,
}

/// Who asks for the second time has a reason to: the same as of the cache of rows.
const ASKED_AGAIN: u8 = 2;

#[derive(Clone, Debug)]
struct Rest {
    /// Of the whole partition.
    deletion: DeletionTime,
    static_row: Option<MemRow>,
    tombstones: Tombstones,
}

impl MemPartition {
    /// A partition of which nothing is known. Copies the key, which may be part of something
    /// larger.
    pub(super) fn new(key: &[u8]) -> MemPartition {
        MemPartition {
            key: MemKey::new(key),
            rows: Tree::default(),
            rest: None,
            asked: Cell::new(0),
        }
    }

    /// A row of it was asked for.
    pub(crate) fn note_asked(&self) {
        let asked = self.asked.get();
        if asked < ASKED_AGAIN {
            self.asked.set(asked + 1);
        }
    }

    /// Were rows of it asked for more than once?
    pub(crate) fn is_asked_again(&self) -> bool {
        self.asked.get() >= ASKED_AGAIN
    }

    /// The serialized key.
    pub(super) fn key_bytes(&self) -> &[u8] {
        &self.key
    }

    /// The key.
    pub(crate) fn key(&self) -> DecoratedKey {
        DecoratedKey::new(Bytes::copy_from_slice(&self.key))
    }

    /// Asks for the memory of its key, where that is elsewhere, and of its row, if that is the only one.
    pub(super) fn prefetch(&self) {
        self.key.prefetch();
        if let Some(row) = self.rows.only() {
            row.prefetch();
        }
    }

    /// How many rows, without the static one.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The deletion of the whole partition.
    pub(crate) fn deletion(&self) -> DeletionTime {
        self.rest
            .as_ref()
            .map_or(DeletionTime::LIVE, |rest| rest.deletion)
    }

    /// The static row.
    pub(crate) fn static_row(&self) -> Option<Row> {
        self.rest.as_ref()?.static_row.as_ref().map(MemRow::to_row)
    }

    /// The deleted ranges, if there are any.
    pub(crate) fn tombstones(&self) -> Option<&Tombstones> {
        self.rest.as_ref().map(|rest| &rest.tombstones)
    }

    /// Is nothing deleted but rows and cells by themselves?
    pub(crate) fn has_only_rows(&self) -> bool {
        let rest = self.rest.as_ref();
        rest.is_none_or(|rest| rest.deletion.is_live() && rest.tombstones.is_empty())
    }

    /// The deletion of the range that a row lies in, or [`DeletionTime::LIVE`].
    pub(crate) fn covering(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> DeletionTime {
        self.tombstones().map_or(DeletionTime::LIVE, |tombstones| {
            tombstones.covering(comparator, clustering)
        })
    }

    /// The row of a clustering.
    pub(crate) fn row(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> Option<Row> {
        self.find(comparator, clustering).map(MemRow::to_row)
    }

    /// The row of a clustering, or that there is none, if nothing is around it or in it that is deleted; it may be plain
    /// for a time only. `None` if that is not so.
    pub(crate) fn plain_row(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> Option<Option<&PackedRow>> {
        if !self.has_only_rows() {
            return None;
        }
        match self.find(comparator, clustering) {
            None => Some(None),
            Some(MemRow::Packed(row)) if row.is_plain_for_a_time() => Some(Some(row)),
            Some(_) => None,
        }
    }

    fn find(&self, comparator: &ClusteringComparator, clustering: &Clustering) -> Option<&MemRow> {
        let (index, found) = self.search(comparator, clustering);
        self.rows.get(index).filter(|_| found)
    }

    /// The row of a number.
    pub(crate) fn row_at(&self, index: usize) -> Option<&MemRow> {
        self.rows.get(index)
    }

    /// Rows of a range of numbers that lie side by side, from its beginning on or from its end on backwards: their
    /// memory is asked for. None of an empty range.
    pub(crate) fn rows_side_by_side(
        &self,
        range: Range<usize>,
        backwards: bool,
    ) -> impl ExactSizeIterator<Item = &MemRow> {
        let rows = self.rows.side_by_side(range, backwards);
        rows.iter().for_each(|row| row.prefetch());
        rows.into_iter()
    }

    /// The numbers of the rows in a slice: from the one to before the other.
    pub(super) fn rows_within(
        &self,
        comparator: &ClusteringComparator,
        slice: &Slice,
    ) -> (usize, usize) {
        if slice.is_all() {
            return (0, self.rows.len());
        }
        let before = |bound: &Bound| {
            let (count, _) = self.rows.search(comparator.rank_of_bound(bound), |row| {
                row.compare_to_bound(comparator, bound)
            });
            count
        };
        let (from, to) = (before(&slice.start), before(&slice.end));
        (from, to.max(from))
    }

    fn search(&self, comparator: &ClusteringComparator, clustering: &Clustering) -> (usize, bool) {
        self.rows.search(comparator.rank_of(clustering), |row| {
            row.compare(comparator, clustering)
        })
    }

    /// Bytes of a partition of which nothing is known.
    pub(super) fn empty_bytes(&self) -> usize {
        allocated(COUNTS + size_of::<MemPartition>()) + self.key.bytes_elsewhere()
    }

    /// Takes in an update, whose columns are those of `table`; `scratch` is memory to lay out rows
    /// in. Gives the bytes that it made the partition grow by, which may be negative.
    pub(super) fn apply(
        &mut self,
        update: PartitionUpdate,
        table: &Table,
        scratch: &mut Vec<u8>,
    ) -> isize {
        let mut grown = 0;
        for row in update.rows {
            self.apply_row(row, table, scratch, &mut grown);
        }
        if !update.deletion.is_live()
            || update.static_row.is_some()
            || !update.range_tombstones.is_empty()
        {
            let rest = self.rest.get_or_insert_with(|| {
                grown += allocated(size_of::<Rest>()) as isize;
                Box::new(Rest {
                    deletion: DeletionTime::LIVE,
                    static_row: None,
                    tombstones: Tombstones::default(),
                })
            });
            rest.deletion = rest.deletion.merge(update.deletion);
            if let Some(row) = update.static_row {
                rest.apply_static(row, table, scratch, &mut grown);
            }
            for tombstone in update.range_tombstones {
                rest.tombstones
                    .add(table.comparator(), tombstone, &mut grown);
            }
        }
        grown
    }

    /// Takes in a row that is laid out already; otherwise as [`MemPartition::apply`].
    pub(super) fn apply_packed(
        &mut self,
        row: PackedRow,
        table: &Table,
        scratch: &mut Vec<u8>,
    ) -> isize {
        let mut grown = 0;
        let comparator = table.comparator();
        let rank = comparator.rank(row.clustering());
        let (index, found) = self.rows.search(rank, |known| {
            known.compare_values(comparator, row.clustering())
        });
        if found {
            let merged = self.rows.change(index, &mut grown, |known| {
                growth_of(known, |known| known.merge_packed(row, table, scratch))
            });
            return grown + merged.unwrap_or(0);
        }
        let row = MemRow::Packed(row);
        grown += row.bytes() as isize;
        self.rows
            .insert(index, row, |row| row.rank(comparator), &mut grown);
        grown
    }

    fn apply_row(&mut self, row: Row, table: &Table, scratch: &mut Vec<u8>, grown: &mut isize) {
        let comparator = table.comparator();
        let (index, found) = self.search(comparator, &row.clustering);
        if found {
            let merged = self
                .rows
                .change(index, grown, |known| merge(known, row, table, scratch));
            *grown += merged.unwrap_or(0);
            return;
        }
        let row = MemRow::new(row, scratch);
        *grown += row.bytes() as isize;
        self.rows
            .insert(index, row, |row| row.rank(comparator), grown);
    }
}

impl Rest {
    fn apply_static(&mut self, row: Row, table: &Table, scratch: &mut Vec<u8>, grown: &mut isize) {
        match &mut self.static_row {
            Some(known) => *grown += merge(known, row, table, scratch),
            None => {
                let row = MemRow::new(row, scratch);
                *grown += row.bytes() as isize;
                self.static_row = Some(row);
            }
        }
    }
}

/// Gives the bytes that the row grew by.
fn merge(known: &mut MemRow, row: Row, table: &Table, scratch: &mut Vec<u8>) -> isize {
    growth_of(known, |known| known.merge(row, table, scratch))
}

/// The same, of any change.
fn growth_of(known: &mut MemRow, change: impl FnOnce(&mut MemRow)) -> isize {
    let before = known.bytes();
    change(known);
    known.bytes() as isize - before as isize
}
