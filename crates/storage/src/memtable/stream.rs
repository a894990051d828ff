//! The items of a partition in memory, in some slices, in either direction.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusteringComparator, RangeTombstone, Row, Slice, Table};

use super::partition::MemPartition;
use super::rows::Place;
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
    /// What is left of the current slice: rows from the one place to before the other…
    rows: (Place, Place),
    /// …and the ends of its deleted ranges from the one number to before the other. In the order
    /// of the table, range `n` of the partition has the ends `2n` and `2n + 1`.
    ends: (usize, usize),
}

impl MemStream {
    /// The items of `partition` in `slices`, which are sorted and do not overlap.
    pub(crate) fn new(
        partition: Rc<MemPartition>,
        table: Arc<Table>,
        slices: Rc<[Slice]>,
        reversed: bool,
    ) -> MemStream {
        let start = partition.rows.start();
        MemStream {
            partition,
            table,
            slices,
            reversed,
            begun: 0,
            rows: (start, start),
            ends: (0, 0),
        }
    }

    /// Key, deletion and static row.
    pub(crate) fn head(&self) -> PartitionHead {
        PartitionHead {
            key: self.partition.key.clone(),
            deletion: self.partition.deletion,
            static_row: self.partition.static_row.as_deref().cloned(),
        }
    }

    /// The next item in the direction of reading.
    pub(crate) fn next(&mut self) -> Option<Unfiltered> {
        loop {
            let row = self.peek_row();
            let marker = self.peek_marker();
            let marker_first = match (&row, &marker) {
                (None, None) => {
                    if !self.next_slice() {
                        return None;
                    }
                    continue;
                }
                (Some((_, row)), Some((marker, _))) => {
                    let order = self
                        .table
                        .comparator()
                        .compare_to_bound(&row.clustering, &marker.bound);
                    (order == Ordering::Greater) != self.reversed
                }
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            return match (row, marker) {
                (_, Some((marker, count))) if marker_first => {
                    self.skip_ends(count);
                    Some(Unfiltered::Marker(marker))
                }
                (Some((place, row)), _) => {
                    let row = Row::clone(row);
                    self.skip_row(place);
                    Some(Unfiltered::Row(row))
                }
                (None, _) => None,
            };
        }
    }

    fn peek_row(&self) -> Option<(Place, &Rc<Row>)> {
        let (from, to) = self.rows;
        if from >= to {
            return None;
        }
        let place = match self.reversed {
            false => from,
            true => self.partition.rows.before(to)?,
        };
        Some((place, self.partition.rows.get(place)?))
    }

    fn skip_row(&mut self, place: Place) {
        match self.reversed {
            false => self.rows.0 = self.partition.rows.after(place),
            true => self.rows.1 = place,
        }
    }

    /// The next marker, and how many ends of ranges it stands for.
    fn peek_marker(&self) -> Option<(RangeTombstoneMarker, usize)> {
        let (from, to) = self.ends;
        if from >= to {
            return None;
        }
        let slice = &self.slices[self.current()];
        let comparator = self.table.comparator();
        let ranges = self.partition.tombstones.ranges();
        let start = |n: usize| later(comparator, &ranges[n].slice.start, &slice.start);
        let end = |n: usize| earlier(comparator, &ranges[n].slice.end, &slice.end);
        let deletion = |n: usize| ranges[n].deletion;
        // A range that begins where the one before it ends shares a marker with it.
        let meet = |n: usize| comparator.compare_bounds(end(n), start(n + 1)) == Ordering::Equal;
        let at = if self.reversed { to - 1 } else { from };
        let n = at / 2;
        let is_start = at.is_multiple_of(2);
        let neighbour_left = if self.reversed {
            at > from
        } else {
            at + 1 < to
        };
        let marker = match (is_start, self.reversed) {
            (false, false) if neighbour_left && meet(n) => {
                RangeTombstoneMarker::boundary(start(n + 1).clone(), deletion(n), deletion(n + 1))
            }
            (true, true) if neighbour_left && meet(n - 1) => {
                RangeTombstoneMarker::boundary(start(n).clone(), deletion(n - 1), deletion(n))
            }
            (true, _) => {
                return Some((RangeTombstoneMarker::open(start(n).clone(), deletion(n)), 1));
            }
            (false, _) => {
                return Some((RangeTombstoneMarker::close(end(n).clone(), deletion(n)), 1));
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
        let rows = &self.partition.rows;
        let place = |bound| {
            let (place, _) = rows.search(|row| comparator.compare_to_bound(&row.clustering, bound));
            place
        };
        self.rows = (place(&slice.start), place(&slice.end));
        self.ends = ends_within(self.partition.tombstones.ranges(), comparator, slice);
        true
    }
}

/// The numbers of the ends of the ranges that have something in common with a slice.
fn ends_within(
    ranges: &[RangeTombstone],
    comparator: &ClusteringComparator,
    slice: &Slice,
) -> (usize, usize) {
    let first = ranges.partition_point(|range| {
        comparator.compare_bounds(&range.slice.end, &slice.start) != Ordering::Greater
    });
    let behind = ranges.partition_point(|range| {
        comparator.compare_bounds(&range.slice.start, &slice.end) == Ordering::Less
    });
    (2 * first, 2 * behind.max(first))
}

fn later<'b>(
    comparator: &ClusteringComparator,
    a: &'b model::Bound,
    b: &'b model::Bound,
) -> &'b model::Bound {
    match comparator.compare_bounds(a, b) {
        Ordering::Less => b,
        _ => a,
    }
}

fn earlier<'b>(
    comparator: &ClusteringComparator,
    a: &'b model::Bound,
    b: &'b model::Bound,
) -> &'b model::Bound {
    match comparator.compare_bounds(a, b) {
        Ordering::Greater => b,
        _ => a,
    }
}
