//! Clustering keys, their order, and slices of them.

use std::cmp::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{CqlType, Order};

/// The values of the clustering columns of a row, in the order of the schema; empty for a static
/// row and for tables without clustering columns. As a bound it may be a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clustering(pub SmallVec<[Bytes; 1]>);

impl Clustering {
    /// The clustering of a static row, of the only row of a table without clustering columns,
    /// and the bound that spans a partition.
    pub const EMPTY: Clustering = Clustering(SmallVec::new_const());

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// The values, one after the other.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(|value| &**value)
    }

    /// Of two clusterings that are equal in the order of their table, always the same one.
    pub(crate) fn max_bytes(self, other: Clustering) -> Clustering {
        if other.0 > self.0 { other } else { self }
    }
}

/// On which side of its prefix a bound lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundKind {
    /// Starts a range with all that has the prefix.
    InclusiveStart,
    /// Starts a range after all that has the prefix.
    ExclusiveStart,
    /// Ends a range with all that has the prefix.
    InclusiveEnd,
    /// Ends a range before all that has the prefix.
    ExclusiveEnd,
}

/// One end of a range of clusterings, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// A prefix of a clustering; empty is the end of the partition.
    pub prefix: Clustering,
    /// On which side of the prefix.
    pub kind: BoundKind,
}

impl Bound {
    /// The start of the partition.
    pub const BOTTOM: Bound = Bound {
        prefix: Clustering::EMPTY,
        kind: BoundKind::InclusiveStart,
    };
    /// The end of the partition.
    pub const TOP: Bound = Bound {
        prefix: Clustering::EMPTY,
        kind: BoundKind::InclusiveEnd,
    };

    /// Does the bound lie after everything that has its prefix (otherwise before it)?
    pub(crate) fn is_after(&self) -> bool {
        matches!(
            self.kind,
            BoundKind::ExclusiveStart | BoundKind::InclusiveEnd
        )
    }
}

/// A range of clusterings. In the order of the table, whatever way it is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The lower end: an inclusive or exclusive start.
    pub start: Bound,
    /// The upper end: an inclusive or exclusive end.
    pub end: Bound,
}

impl Slice {
    /// The whole partition.
    pub const ALL: Slice = Slice {
        start: Bound::BOTTOM,
        end: Bound::TOP,
    };

    /// Is it the whole partition?
    pub fn is_all(&self) -> bool {
        let (start, end) = (&self.start, &self.end);
        let is_open = start.prefix.0.is_empty() && end.prefix.0.is_empty();
        is_open && !start.is_after() && end.is_after()
    }

    /// All that has `prefix`: one row, if the prefix is a full clustering.
    pub fn of_prefix(prefix: Clustering) -> Slice {
        Slice {
            start: Bound {
                prefix: prefix.clone(),
                kind: BoundKind::InclusiveStart,
            },
            end: Bound {
                prefix,
                kind: BoundKind::InclusiveEnd,
            },
        }
    }

    /// Can nothing lie in this slice?
    pub fn is_empty(&self, comparator: &ClusteringComparator) -> bool {
        comparator.compare_bounds(&self.start, &self.end) != Ordering::Less
    }

    /// Does `clustering` lie in this slice?
    pub fn contains(&self, comparator: &ClusteringComparator, clustering: &Clustering) -> bool {
        comparator.compare_to_bound(clustering, &self.start) == Ordering::Greater
            && comparator.compare_to_bound(clustering, &self.end) == Ordering::Less
    }
}

/// The order of the rows of a table: type and direction of each clustering column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusteringComparator {
    columns: Vec<(CqlType, Order)>,
}

impl ClusteringComparator {
    /// For the clustering columns in the order of the schema.
    pub fn new(columns: Vec<(CqlType, Order)>) -> ClusteringComparator {
        ClusteringComparator { columns }
    }

    /// Type and direction of each clustering column.
    pub fn columns(&self) -> &[(CqlType, Order)] {
        &self.columns
    }

    /// The order of two rows of one partition.
    pub fn compare(&self, a: &Clustering, b: &Clustering) -> Ordering {
        self.compare_values(a.values(), b)
    }

    /// The order of a row of these values and another of the same partition.
    pub fn compare_values<'v>(
        &self,
        values: impl ExactSizeIterator<Item = &'v [u8]>,
        other: &Clustering,
    ) -> Ordering {
        self.compare_rows(values, other.values())
    }

    /// The order of two rows of one partition, of these values.
    pub fn compare_rows<'v, 'w>(
        &self,
        a: impl ExactSizeIterator<Item = &'v [u8]>,
        b: impl ExactSizeIterator<Item = &'w [u8]>,
    ) -> Ordering {
        let lens = (a.len(), b.len());
        let order = self.compare_common(a, b);
        order.then_with(|| lens.0.cmp(&lens.1))
    }

    /// The order of a row and a bound; never equal.
    pub fn compare_to_bound(&self, clustering: &Clustering, bound: &Bound) -> Ordering {
        self.compare_values_to_bound(clustering.values(), bound)
    }

    /// The order of a row of these values and a bound; never equal.
    pub fn compare_values_to_bound<'v>(
        &self,
        values: impl ExactSizeIterator<Item = &'v [u8]>,
        bound: &Bound,
    ) -> Ordering {
        let order = self.compare_common(values, bound.prefix.values());
        order.then(if bound.is_after() {
            Ordering::Less
        } else {
            Ordering::Greater
        })
    }

    /// The order of two bounds. An exclusive end and an inclusive start of the same prefix are
    /// the same place.
    pub fn compare_bounds(&self, a: &Bound, b: &Bound) -> Ordering {
        let common = a.prefix.0.len().min(b.prefix.0.len());
        let order = self.compare_common(a.prefix.values(), b.prefix.values());
        order.then_with(|| {
            let after = |bound: &Bound| {
                if bound.is_after() {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            };
            match (a.prefix.0.len() == common, b.prefix.0.len() == common) {
                (true, true) => a.is_after().cmp(&b.is_after()),
                // The shorter prefix spans all that the longer one lies in.
                (true, false) => after(a),
                (false, true) => after(b).reverse(),
                (false, false) => unreachable!("one of the prefixes ends with the common part"),
            }
        })
    }

    /// Compares as many components as both have.
    fn compare_common<'v, 'w>(
        &self,
        a: impl ExactSizeIterator<Item = &'v [u8]>,
        b: impl ExactSizeIterator<Item = &'w [u8]>,
    ) -> Ordering {
        debug_assert!(a.len().max(b.len()) <= self.columns.len());
        for ((ty, order), (x, y)) in self.columns.iter().zip(a.zip(b)) {
            let ordering = match order {
                Order::Ascending => ty.compare(x, y),
                Order::Descending => ty.compare(y, x),
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }
}
