//! The items of a partition in memory, in some slices, in either direction.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use model::{Bound, ClusteringComparator, PackedRow, RangeTombstone, Slice, Table};

use super::partition::MemPartition;
use super::row::MemRow;
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// Gives the rows and markers of a partition that lie in slices. Deletions that reach beyond a
/// slice are cut at its ends.
pub(crate) struct MemStream {
    partition: Rc<MemPartition>,
    table: Arc<Table>,
    slices: Rc<[Slice]>,
    reversed: bool,
    /// How many slices were begun.
    begun: usize,
    /// What is left of the current slice: rows from the one number to before the other…
    rows: (usize, usize),
    /// …and the ends of its deleted ranges from the one number to before the other. In the order
    /// of the table, range `n` of the partition has the ends `2n` and `2n + 1`.
    ends: (usize, usize),
    /// The next marker of the slice, and how many ends it stands for; found when first asked for.
    marker: Option<Option<(RangeTombstoneMarker, usize)>>,
}

impl MemStream {
    /// The items of `partition` in `slices`, which are sorted and do not overlap.
    pub(crate) fn new(
        partition: Rc<MemPartition>,
        table: Arc<Table>,
        slices: Rc<[Slice]>,
        reversed: bool,
    ) -> MemStream {
        MemStream {
            partition,
            table,
            slices,
            reversed,
            begun: 0,
            rows: (0, 0),
            ends: (0, 0),
            marker: None,
        }
    }

    /// Key, deletion and static row.
    pub(crate) fn head(&self) -> PartitionHead {
        PartitionHead {
            key: self.partition.key(),
            deletion: self.partition.deletion(),
            static_row: self.partition.static_row(),
        }
    }

    /// Are there no markers among its items, and is no row of it covered by a deletion from around it?
    pub(crate) fn has_only_rows(&self) -> bool {
        self.partition.has_only_rows()
    }

    /// How many rows there are yet of the slice that is read, or the next one that has any.
    pub(crate) fn rows_ahead(&mut self) -> usize {
        while self.rows.0 >= self.rows.1 && self.next_slice() {}
        let (from, to) = self.rows;
        to.saturating_sub(from)
    }

    /// The next rows in the direction of reading, some that lie side by side, of a stream that has only rows; none at
    /// its end.
    pub(crate) fn next_rows(&mut self) -> impl ExactSizeIterator<Item = &MemRow> {
        debug_assert!(self.has_only_rows());
        let count = self.rows_ahead();
        let from = self.rows.0;
        let rows = self
            .partition
            .rows_side_by_side(from..from + count, self.reversed);
        match self.reversed {
            false => self.rows.0 += rows.len(),
            true => self.rows.1 -= rows.len(),
        }
        rows
    }

    /// The next item, if it is a row that says no more than its values so many seconds after 1970: shared. Without one,
    /// [`MemStream::next`] knows what is next.
    pub(crate) fn plain_row(&mut self, now_seconds: u32) -> Option<PackedRow> {
        if !self.has_only_rows() {
            return None;
        }
        while self.rows.0 >= self.rows.1 {
            if !self.next_slice() {
                return None;
            }
        }
        let row = match self.peek_row()? {
            MemRow::Packed(row) if row.is_plain_at(now_seconds) => row.clone(),
            _ => return None,
        };
        self.skip_row();
        Some(row)
    }

    /// The next item in the direction of reading.
    pub(crate) fn next(&mut self) -> Option<Unfiltered> {
        loop {
            if self.marker.is_none() {
                self.marker = Some(self.find_marker());
            }
            let marker = self.marker.as_ref().and_then(Option::as_ref);
            let marker_first = match (self.peek_row(), marker) {
                (None, None) => {
                    if !self.next_slice() {
                        return None;
                    }
                    continue;
                }
                (Some(row), Some((marker, _))) => {
                    let order = row.compare_to_bound(self.table.comparator(), &marker.bound);
                    (order == Ordering::Greater) != self.reversed
                }
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            if marker_first {
                let (marker, count) = self.marker.take()??;
                self.skip_ends(count);
                return Some(Unfiltered::Marker(marker));
            }
            let row = self.peek_row()?.to_row();
            self.skip_row();
            return Some(Unfiltered::Row(row));
        }
    }

    fn peek_row(&self) -> Option<&MemRow> {
        let (from, to) = self.rows;
        if from >= to {
            return None;
        }
        let index = if self.reversed { to - 1 } else { from };
        self.partition.row_at(index)
    }

    fn skip_row(&mut self) {
        match self.reversed {
            false => self.rows.0 += 1,
            true => self.rows.1 -= 1,
        }
    }

    /// The next marker, and how many ends of ranges it stands for.
    fn find_marker(&self) -> Option<(RangeTombstoneMarker, usize)> {
        let (from, to) = self.ends;
        if from >= to {
            return None;
        }
        let comparator = self.table.comparator();
        let cut = (comparator, &self.slices[self.current()]);
        let at = if self.reversed { to - 1 } else { from };
        let n = at / 2;
        let tombstones = self.partition.tombstones()?;
        let range = tombstones.get(n)?;
        // A range that begins where the one before it ends shares a marker with it.
        let meet = |before: &RangeTombstone, behind: &RangeTombstone| {
            comparator.compare_bounds(end(before, cut), start(behind, cut)) == Ordering::Equal
        };
        let neighbour = match self.reversed {
            false if at + 1 < to => tombstones.get(n + 1),
            true if at > from => n.checked_sub(1).and_then(|before| tombstones.get(before)),
            _ => None,
        };
        let is_start = at.is_multiple_of(2);
        let marker = match (is_start, self.reversed, neighbour) {
            (false, false, Some(behind)) if meet(range, behind) => RangeTombstoneMarker::boundary(
                start(behind, cut).clone(),
                range.deletion,
                behind.deletion,
            ),
            (true, true, Some(before)) if meet(before, range) => RangeTombstoneMarker::boundary(
                start(range, cut).clone(),
                before.deletion,
                range.deletion,
            ),
            (true, ..) => {
                return Some((
                    RangeTombstoneMarker::open(start(range, cut).clone(), range.deletion),
                    1,
                ));
            }
            (false, ..) => {
                return Some((
                    RangeTombstoneMarker::close(end(range, cut).clone(), range.deletion),
                    1,
                ));
            }
        };
        Some((marker, 2))
    }

    fn skip_ends(&mut self, count: usize) {
        match self.reversed {
            false => self.ends.0 += count,
            true => self.ends.1 -= count,
        }
    }

    /// The number of the current slice.
    fn current(&self) -> usize {
        match self.reversed {
            false => self.begun - 1,
            true => self.slices.len() - self.begun,
        }
    }

    fn next_slice(&mut self) -> bool {
        if self.begun == self.slices.len() {
            return false;
        }
        self.begun += 1;
        let slice = &self.slices[self.current()];
        let comparator = self.table.comparator();
        self.rows = self.partition.rows_within(comparator, slice);
        let ranges = self
            .partition
            .tombstones()
            .map(|t| t.within(comparator, slice));
        let (first, behind) = ranges.unwrap_or((0, 0));
        self.ends = (2 * first, 2 * behind);
        self.marker = None;
        true
    }
}

/// An order, and a slice to whose ends ranges are cut.
type Cut<'b> = (&'b ClusteringComparator, &'b Slice);

fn start<'b>(range: &'b RangeTombstone, (comparator, slice): Cut<'b>) -> &'b Bound {
    let (own, cut) = (&range.slice.start, &slice.start);
    match comparator.compare_bounds(own, cut) {
        Ordering::Less => cut,
        _ => own,
    }
}

fn end<'b>(range: &'b RangeTombstone, (comparator, slice): Cut<'b>) -> &'b Bound {
    let (own, cut) = (&range.slice.end, &slice.end);
    match comparator.compare_bounds(own, cut) {
        Ordering::Greater => cut,
        _ => own,
    }
}
