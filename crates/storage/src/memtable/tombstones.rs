//! The deleted ranges of a partition in memory.

use std::cmp::Ordering;
use std::rc::Rc;

use bytes::Bytes;
use model::{
    Clustering, ClusteringComparator, DeletionTime, RangeTombstone, RangeTombstoneList, Slice,
};

use super::allocated::{COUNTS, allocated};
use super::row::piece_bytes;
use super::tree::Tree;

/// Sorted ranges that do not overlap, as in a [`RangeTombstoneList`], of which there may be many:
/// adding one takes time for those it touches; a clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tombstones(Tree<Rc<RangeTombstone>>);

impl Tombstones {
    /// Is there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range of a number.
    pub(crate) fn get(&self, index: usize) -> Option<&RangeTombstone> {
        self.0.get(index).map(|range| &**range)
    }

    /// The deletion that covers a row, or [`DeletionTime::LIVE`].
    pub(crate) fn covering(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> DeletionTime {
        if self.0.is_empty() {
            return DeletionTime::LIVE;
        }
        let (after, _) = self.0.search(comparator.rank_of(clustering), |range| {
            let start = &range.slice.start;
            comparator.compare_to_bound(clustering, start).reverse()
        });
        let last = after.checked_sub(1).and_then(|last| self.get(last));
        match last {
            Some(RangeTombstone { slice, deletion })
                if comparator.compare_to_bound(clustering, &slice.end).is_lt() =>
            {
                *deletion
            }
            _ => DeletionTime::LIVE,
        }
    }

    /// The numbers of the ranges that have something in common with a slice: from the one to
    /// before the other.
    pub(crate) fn within(
        &self,
        comparator: &ClusteringComparator,
        slice: &Slice,
    ) -> (usize, usize) {
        let starting_before = |bound| {
            let (count, _) = self.0.search(comparator.rank_of_bound(bound), |range| {
                comparator.compare_bounds(&range.slice.start, bound)
            });
            count
        };
        let (mut first, behind) = (starting_before(&slice.start), starting_before(&slice.end));
        // Of those that start before the slice only the last can reach into it.
        let before = first.checked_sub(1).and_then(|before| self.get(before));
        if before.is_some_and(|range| {
            comparator.compare_bounds(&range.slice.end, &slice.start) == Ordering::Greater
        }) {
            first -= 1;
        }
        (first, behind.max(first))
    }

    /// Deletes a range, whose values are copied. What the ranges take grows by `grown` bytes.
    pub(super) fn add(
        &mut self,
        comparator: &ClusteringComparator,
        tombstone: RangeTombstone,
        grown: &mut isize,
    ) {
        let slice = &tombstone.slice;
        let (mut first, _) = self
            .0
            .search(comparator.rank_of_bound(&slice.start), |range| {
                comparator.compare_bounds(&range.slice.start, &slice.start)
            });
        // Those that touch it take part, as they may become one with it: of those that start
        // before it the last ones, then all that start within it.
        let mut affected = Vec::new();
        while let Some(before) = first.checked_sub(1)
            && let Some(range) = self.get(before)
            && comparator
                .compare_bounds(&range.slice.end, &slice.start)
                .is_ge()
        {
            affected.insert(0, range.clone());
            first = before;
        }
        while let Some(range) = self.get(first + affected.len())
            && comparator
                .compare_bounds(&range.slice.start, &slice.end)
                .is_le()
        {
            affected.push(range.clone());
        }
        for range in &affected {
            *grown -= bytes(range) as isize;
            self.0.remove(first, grown);
        }
        let mut merged = RangeTombstoneList::from(affected);
        merged.add(comparator, copied(tombstone));
        for (n, range) in Vec::from(merged).into_iter().enumerate() {
            *grown += bytes(&range) as isize;
            let rank = |range: &Rc<RangeTombstone>| comparator.rank_of_bound(&range.slice.start);
            self.0.insert(first + n, Rc::new(range), rank, grown);
        }
    }
}

/// Bytes that a range takes.
fn bytes(range: &RangeTombstone) -> usize {
    let ends = [&range.slice.start.prefix, &range.slice.end.prefix];
    let of_end = |prefix: &Clustering| {
        let list = match prefix.0.spilled() {
            true => allocated(prefix.0.capacity() * size_of::<Bytes>()),
            false => 0,
        };
        list + prefix.values().map(piece_bytes).sum::<usize>()
    };
    allocated(COUNTS + size_of::<RangeTombstone>()) + ends.map(of_end).iter().sum::<usize>()
}

/// A range with values in memory of their own.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use model::Order;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn ranges(tombstones: &Tombstones) -> Vec<RangeTombstone> {
        let range = |n| tombstones.get(n).cloned();
        (0..).map_while(range).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_list(
            added in vec((testing::slice(), 1i64..6), 0..60),
            looked_at in testing::slice(),
            descending: bool,
        ) {
            let order = if descending { Order::Descending } else { Order::Ascending };
            let table = testing::table(order);
            let comparator = table.comparator();
            let (mut tombstones, mut grown) = (Tombstones::default(), 0);
            let mut expected = RangeTombstoneList::new();
            let mut reader = (tombstones.clone(), Vec::new());
            for (n, (slice, timestamp)) in added.into_iter().enumerate() {
                if n % 7 == 3 {
                    reader = (tombstones.clone(), expected.ranges().to_vec());
                }
                let deletion = DeletionTime { timestamp, local_deletion_time: 1 };
                let tombstone = RangeTombstone { slice, deletion };
                tombstones.add(comparator, tombstone.clone(), &mut grown);
                expected.add(comparator, tombstone);
                prop_assert_eq!(ranges(&tombstones), expected.ranges());
            }
            prop_assert_eq!(ranges(&reader.0), reader.1);
            let counted: usize = expected.ranges().iter().map(bytes).sum();
            prop_assert!(grown as usize >= counted);
            for bound in [&looked_at.start, &looked_at.end] {
                let row = &bound.prefix;
                if row.0.len() == 2 {
                    let covering = expected.covering(comparator, row);
                    prop_assert_eq!(tombstones.covering(comparator, row), covering);
                }
            }
            if !looked_at.is_empty(comparator) {
                let (first, behind) = tombstones.within(comparator, &looked_at);
                let within = expected.within(comparator, &looked_at).count();
                prop_assert_eq!(behind - first, within);
                let found = expected.within(comparator, &looked_at).next();
                prop_assert_eq!(
                    found.map(|found| found.deletion),
                    (within > 0).then(|| tombstones.get(first).map(|r| r.deletion)).flatten()
                );
            }
        }
    }
}
