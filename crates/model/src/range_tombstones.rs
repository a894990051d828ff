//! The deleted ranges of a partition (`RangeTombstoneList`).
//!
//! Always in one form: sorted, without overlaps, and ranges that touch and have the same deletion
//! are one. Where two ranges overlap, the part that both cover belongs to the deletion that
//! supersedes the other. So two lists that delete the same are equal, however they came about.

use std::cmp::Ordering;

use crate::{
    Bound, BoundKind, Clustering, ClusteringComparator, DeletionTime, RangeTombstone, Slice,
};

/// Deleted ranges of one partition; sorted, and they do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstoneList {
    ranges: Vec<RangeTombstone>,
}

impl From<Vec<RangeTombstone>> for RangeTombstoneList {
    /// Of ranges that are sorted and do not overlap, as in an update.
    fn from(ranges: Vec<RangeTombstone>) -> RangeTombstoneList {
        RangeTombstoneList { ranges }
    }
}

impl From<RangeTombstoneList> for Vec<RangeTombstone> {
    fn from(list: RangeTombstoneList) -> Vec<RangeTombstone> {
        list.ranges
    }
}

/// The deletion that covers `clustering`, of `ranges` that are sorted and do not overlap.
pub fn covering(
    ranges: &[RangeTombstone],
    comparator: &ClusteringComparator,
    clustering: &Clustering,
) -> DeletionTime {
    let after = ranges.partition_point(|range| {
        comparator.compare_to_bound(clustering, &range.slice.start) == Ordering::Greater
    });
    match ranges[..after].last() {
        Some(range)
            if comparator.compare_to_bound(clustering, &range.slice.end) == Ordering::Less =>
        {
            range.deletion
        }
        _ => DeletionTime::LIVE,
    }
}

impl RangeTombstoneList {
    /// No deleted ranges.
    pub fn new() -> RangeTombstoneList {
        RangeTombstoneList::default()
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[RangeTombstone] {
        &self.ranges
    }

    /// No deleted ranges?
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The deletion that covers `clustering`, or [`DeletionTime::LIVE`].
    pub fn covering(
        &self,
        comparator: &ClusteringComparator,
        clustering: &Clustering,
    ) -> DeletionTime {
        covering(&self.ranges, comparator, clustering)
    }

    /// Deletes a range. Takes time for the ranges it touches, and to move those behind it.
    pub fn add(&mut self, comparator: &ClusteringComparator, tombstone: RangeTombstone) {
        if tombstone.deletion.is_live() || tombstone.slice.is_empty(comparator) {
            return;
        }
        // Those that touch it take part, as they may become one with it.
        let first = self.ranges.partition_point(|range| {
            comparator.compare_bounds(&range.slice.end, &tombstone.slice.start) == Ordering::Less
        });
        let count = self.ranges[first..].partition_point(|range| {
            comparator.compare_bounds(&range.slice.start, &tombstone.slice.end) != Ordering::Greater
        });
        let affected = &self.ranges[first..first + count];
        let merged = sweep(comparator, affected, std::slice::from_ref(&tombstone));
        self.ranges.splice(first..first + count, merged);
    }

    /// Deletes all ranges of another list.
    pub fn merge(&mut self, comparator: &ClusteringComparator, other: Vec<RangeTombstone>) {
        if self.ranges.is_empty() {
            self.ranges = other;
        } else if !other.is_empty() {
            self.ranges = sweep(comparator, &self.ranges, &other);
        }
    }

    /// Drops the ranges that the deletion of the partition covers.
    pub fn shadow_by(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.ranges
                .retain(|range| range.deletion.supersedes(&deletion));
        }
    }

    /// What of the ranges lies in `slice`.
    pub fn within(
        &self,
        comparator: &ClusteringComparator,
        slice: &Slice,
    ) -> impl Iterator<Item = RangeTombstone> {
        let first = self.ranges.partition_point(|range| {
            comparator.compare_bounds(&range.slice.end, &slice.start) != Ordering::Greater
        });
        self.ranges[first..]
            .iter()
            .take_while(|range| {
                comparator.compare_bounds(&range.slice.start, &slice.end) == Ordering::Less
            })
            .map(|range| RangeTombstone {
                slice: Slice {
                    start: later(comparator, &range.slice.start, &slice.start).clone(),
                    end: earlier(comparator, &range.slice.end, &slice.end).clone(),
                },
                deletion: range.deletion,
            })
    }
}

impl Bound {
    /// The same place as the end of what lies before it, or the start of what lies behind it.
    pub fn inverted(&self) -> Bound {
        let kind = match self.kind {
            BoundKind::InclusiveStart => BoundKind::ExclusiveEnd,
            BoundKind::ExclusiveStart => BoundKind::InclusiveEnd,
            BoundKind::InclusiveEnd => BoundKind::ExclusiveStart,
            BoundKind::ExclusiveEnd => BoundKind::InclusiveStart,
        };
        Bound {
            prefix: self.prefix.clone(),
            kind,
        }
    }
}

fn earlier<'b>(comparator: &ClusteringComparator, a: &'b Bound, b: &'b Bound) -> &'b Bound {
    if comparator.compare_bounds(b, a) == Ordering::Less {
        b
    } else {
        a
    }
}

fn later<'b>(comparator: &ClusteringComparator, a: &'b Bound, b: &'b Bound) -> &'b Bound {
    if comparator.compare_bounds(b, a) == Ordering::Greater {
        b
    } else {
        a
    }
}

/// Walks along both lists from boundary to boundary; between two boundaries the same ranges are
/// open, of which the stronger one is kept.
fn sweep<'r>(
    comparator: &ClusteringComparator,
    mut left: &'r [RangeTombstone],
    mut right: &'r [RangeTombstone],
) -> Vec<RangeTombstone> {
    let mut out = Vec::with_capacity(left.len() + right.len() + 1);
    let starts = |list: &[RangeTombstone]| list.first().map(|range| range.slice.start.clone());
    // As the start of what comes next.
    let mut place = match (starts(left), starts(right)) {
        (Some(a), Some(b)) => earlier(comparator, &a, &b).clone(),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => return out,
    };
    loop {
        let mut deletion = DeletionTime::LIVE;
        let mut next: Option<Bound> = None;
        for list in [&mut left, &mut right] {
            // What ends here is done with.
            while let [range, rest @ ..] = *list
                && comparator.compare_bounds(&range.slice.end, &place) != Ordering::Greater
            {
                *list = rest;
            }
            let Some(range) = list.first() else { continue };
            let open = comparator.compare_bounds(&range.slice.start, &place) != Ordering::Greater;
            let boundary = if open {
                deletion = deletion.merge(range.deletion);
                range.slice.end.inverted()
            } else {
                range.slice.start.clone()
            };
            next = Some(match next {
                Some(known) => earlier(comparator, &known, &boundary).clone(),
                None => boundary,
            });
        }
        let Some(next) = next else { return out };
        if !deletion.is_live() {
            push(comparator, &mut out, place, next.inverted(), deletion);
        }
        place = next;
    }
}

/// Appends a range, which becomes one with the last if it continues it.
fn push(
    comparator: &ClusteringComparator,
    out: &mut Vec<RangeTombstone>,
    start: Bound,
    end: Bound,
    deletion: DeletionTime,
) {
    if let Some(last) = out.last_mut()
        && last.deletion == deletion
        && comparator.compare_bounds(&last.slice.end, &start) == Ordering::Equal
    {
        last.slice.end = end;
        return;
    }
    out.push(RangeTombstone {
        slice: Slice { start, end },
        deletion,
    });
}
