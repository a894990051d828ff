//! What a partition is made of when it streams: a head, then rows and range tombstone markers in
//! the order of the table (or in reverse), nothing filtered out yet.
//!
//! A range tombstone travels as two markers, one at each end. Where one ends and the next begins
//! at the same place, one marker is both (a *boundary*), as in Cassandra's
//! `RangeTombstoneBoundaryMarker`. A stream that is well formed never opens a deletion within
//! another and closes every deletion it opens.

use std::cmp::Ordering;

use model::{
    Bound, BoundKind, Clustering, ClusteringComparator, DecoratedKey, DeletionTime, Row, Table,
};

/// The beginning of a partition: everything that is not ordered by clustering.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionHead {
    /// The key.
    pub key: DecoratedKey,
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if anything is known of it.
    pub static_row: Option<Row>,
}

/// A row or a marker: one item of a partition's stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// One end of a range tombstone, or the place where two of them meet.
    Marker(RangeTombstoneMarker),
}

/// Where an item is among those of its partition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemPlace<'i> {
    /// A row of this clustering.
    Row(&'i Clustering),
    /// A marker.
    Marker(&'i RangeTombstoneMarker),
}

impl Unfiltered {
    /// The order of two items of one partition, in the order of the table. A marker never equals
    /// a row; two markers are equal when they are at the same place.
    pub fn compare(&self, other: &Unfiltered, comparator: &ClusteringComparator) -> Ordering {
        match (self, other) {
            (Unfiltered::Row(a), Unfiltered::Row(b)) => {
                comparator.compare(&a.clustering, &b.clustering)
            }
            (Unfiltered::Row(a), Unfiltered::Marker(b)) => {
                comparator.compare_to_bound(&a.clustering, &b.bound)
            }
            (Unfiltered::Marker(a), Unfiltered::Row(b)) => comparator
                .compare_to_bound(&b.clustering, &a.bound)
                .reverse(),
            (Unfiltered::Marker(a), Unfiltered::Marker(b)) => {
                comparator.compare_bounds(&a.bound, &b.bound)
            }
        }
    }

    /// Of an item and one that follows it at the same place, what they say together; `None` if
    /// that is nothing.
    pub fn join(self, other: Unfiltered, table: &Table) -> Option<Unfiltered> {
        match (self, other) {
            (Unfiltered::Row(mut row), Unfiltered::Row(other)) => {
                row.merge(other, table);
                Some(Unfiltered::Row(row))
            }
            (Unfiltered::Marker(marker), Unfiltered::Marker(other)) => {
                let joined = match (marker.closes, other.opens) {
                    (Some(closes), Some(opens)) => {
                        Some(RangeTombstoneMarker::boundary(marker.bound, closes, opens))
                    }
                    (closes, opens) => RangeTombstoneMarker::between(marker.bound, closes, opens),
                };
                joined.map(Unfiltered::Marker)
            }
            // These are never at one place.
            (item, _) => Some(item),
        }
    }

    /// The clustering of a row, or the prefix at which a marker stands.
    pub fn prefix(&self) -> &Clustering {
        match self {
            Unfiltered::Row(row) => &row.clustering,
            Unfiltered::Marker(marker) => &marker.bound.prefix,
        }
    }
}

/// The place where a range tombstone begins, ends, or gives way to another one.
///
/// `closes` and `opens` are said in the order of the table, whatever way the stream runs: a
/// reversed stream meets the end of a range first. At least one of the two is there.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeTombstoneMarker {
    /// The place. A start (inclusive or exclusive) if a deletion opens here, otherwise an end. At
    /// a boundary the end of what closes is the opposite: an exclusive end where the next one
    /// starts inclusively, an inclusive end where it starts exclusively.
    pub bound: Bound,
    /// The deletion of the range before this place.
    pub closes: Option<DeletionTime>,
    /// The deletion of the range after this place.
    pub opens: Option<DeletionTime>,
}

impl RangeTombstoneMarker {
    /// The marker where a range begins; `start` is an inclusive or exclusive start.
    pub fn open(start: Bound, deletion: DeletionTime) -> RangeTombstoneMarker {
        debug_assert!(is_start(start.kind));
        RangeTombstoneMarker {
            bound: start,
            closes: None,
            opens: Some(deletion),
        }
    }

    /// The marker where a range ends; `end` is an inclusive or exclusive end.
    pub fn close(end: Bound, deletion: DeletionTime) -> RangeTombstoneMarker {
        debug_assert!(!is_start(end.kind));
        RangeTombstoneMarker {
            bound: end,
            closes: Some(deletion),
            opens: None,
        }
    }

    /// The marker where one range ends and the next begins; `bound` may be given as the end of
    /// the one or as the start of the other.
    pub fn boundary(
        bound: Bound,
        closes: DeletionTime,
        opens: DeletionTime,
    ) -> RangeTombstoneMarker {
        let bound = if is_start(bound.kind) {
            bound
        } else {
            opposite(bound)
        };
        RangeTombstoneMarker {
            bound,
            closes: Some(closes),
            opens: Some(opens),
        }
    }

    /// The marker at the place of `bound` (a start or an end) between a range deleted by
    /// `closes` and one deleted by `opens`; `None` if nothing begins or ends there.
    pub fn between(
        bound: Bound,
        closes: Option<DeletionTime>,
        opens: Option<DeletionTime>,
    ) -> Option<RangeTombstoneMarker> {
        if closes == opens {
            return None;
        }
        let wants_start = opens.is_some();
        let bound = if is_start(bound.kind) == wants_start {
            bound
        } else {
            opposite(bound)
        };
        Some(RangeTombstoneMarker {
            bound,
            closes,
            opens,
        })
    }

    /// Does one range end here and another begin?
    pub fn is_boundary(&self) -> bool {
        self.closes.is_some() && self.opens.is_some()
    }

    /// The end of the range that closes here, as an inclusive or exclusive end.
    pub fn end_bound(&self) -> Option<Bound> {
        self.closes?;
        Some(if is_start(self.bound.kind) {
            opposite(self.bound.clone())
        } else {
            self.bound.clone()
        })
    }

    /// The start of the range that opens here, as an inclusive or exclusive start.
    pub fn start_bound(&self) -> Option<Bound> {
        self.opens?;
        Some(self.bound.clone())
    }

    /// The deletion in force after this marker for a stream of this direction.
    pub fn in_force_after(&self, reversed: bool) -> Option<DeletionTime> {
        if reversed { self.closes } else { self.opens }
    }

    /// The deletion in force before this marker for a stream of this direction.
    pub fn in_force_before(&self, reversed: bool) -> Option<DeletionTime> {
        if reversed { self.opens } else { self.closes }
    }
}

/// The same place seen from the other side: the exclusive end before an inclusive start and so on.
pub fn opposite(bound: Bound) -> Bound {
    let kind = match bound.kind {
        BoundKind::InclusiveStart => BoundKind::ExclusiveEnd,
        BoundKind::ExclusiveStart => BoundKind::InclusiveEnd,
        BoundKind::InclusiveEnd => BoundKind::ExclusiveStart,
        BoundKind::ExclusiveEnd => BoundKind::InclusiveStart,
    };
    Bound {
        prefix: bound.prefix,
        kind,
    }
}

/// Is it the start of a range, not the end?
pub fn is_start(kind: BoundKind) -> bool {
    matches!(kind, BoundKind::InclusiveStart | BoundKind::ExclusiveStart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deletion(timestamp: i64) -> DeletionTime {
        DeletionTime {
            timestamp,
            local_deletion_time: 1,
        }
    }

    #[test]
    fn a_boundary_is_a_start_and_knows_its_end() {
        let end = Bound {
            prefix: Clustering::EMPTY,
            kind: BoundKind::InclusiveEnd,
        };
        let marker = RangeTombstoneMarker::boundary(end.clone(), deletion(1), deletion(2));
        assert_eq!(marker.bound.kind, BoundKind::ExclusiveStart);
        assert_eq!(marker.end_bound(), Some(end));
        assert_eq!(marker.in_force_after(false), Some(deletion(2)));
        assert_eq!(marker.in_force_after(true), Some(deletion(1)));
    }

    #[test]
    fn between_equal_deletions_there_is_no_marker() {
        let place = Bound::BOTTOM;
        assert_eq!(
            RangeTombstoneMarker::between(place.clone(), Some(deletion(1)), Some(deletion(1))),
            None
        );
        let marker = RangeTombstoneMarker::between(place, Some(deletion(1)), None);
        assert_eq!(
            marker.map(|m| m.bound.kind),
            Some(BoundKind::ExclusiveEnd),
            "what only closes is an end"
        );
    }
}
