//! Which rows of each partition an execution reads or deletes.
//!
//! Restrictions come in the order of the clustering columns. Those by `=` and `IN` grow a list of
//! prefixes; a slice ends it. A slice of several columns compares tuples by their values, whatever
//! the order of the columns in the table: where some ascend and some descend it falls into several
//! ranges. `(c, d) > (1, 2)` is `c = 1 AND d > 2` or `c > 1`, and each of these is one range.

use std::cmp::Ordering;

use bytes::Bytes;
use model::{
    Bound as RowBound, BoundKind, Clustering, ClusteringComparator, CqlType, Order, Slice, Table,
    collection,
};
use smallvec::SmallVec;

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Bound, BoundList, Expression, Request};

use super::keys::{in_values, product, required};
use super::restriction::{Demand, Edge, OneOf, Tuple};
use super::restrictions::ClusteringRestriction;

/// How many rows or ranges `IN` may come to in one statement.
const MAX_PREFIXES: usize = 100_000;

type Prefix = SmallVec<[Bytes; 1]>;

/// How a statement finds its rows.
#[derive(Clone, Debug)]
pub(crate) struct SlicePlan {
    restrictions: Vec<ClusteringRestriction>,
    names: Vec<std::sync::Arc<str>>,
}

/// Where a slice of one execution begins or ends: values, and whether they are part of it.
struct Limit {
    values: Vec<Bytes>,
    inclusive: bool,
}

/// One end of a slice in one execution.
enum Edged {
    /// It has no such end.
    Open,
    /// Its value is null.
    Null,
    /// It ends here.
    At(Limit),
}

impl Edged {
    fn limit(self) -> Option<Limit> {
        match self {
            Edged::At(limit) => Some(limit),
            Edged::Open | Edged::Null => None,
        }
    }
}

impl SlicePlan {
    /// Of a statement's restrictions.
    pub(crate) fn new(table: &Table, restrictions: Vec<ClusteringRestriction>) -> SlicePlan {
        SlicePlan {
            restrictions,
            names: table.clustering_key().map(|c| c.name.clone()).collect(),
        }
    }

    /// Are all rows wanted?
    pub(crate) fn is_all(&self) -> bool {
        self.restrictions.is_empty()
    }

    /// Is each clustering column restricted by `=` or IN?
    pub(crate) fn selects_rows(&self) -> bool {
        let count: usize = self.restrictions.iter().map(|r| r.count).sum();
        count == self.names.len() && !self.has_slice()
    }

    /// The values that the first clustering columns are restricted to, if there are no other restrictions.
    pub(super) fn equals(&self) -> Option<impl Iterator<Item = &Tuple>> {
        let equal = |r: &ClusteringRestriction| matches!(r.demand, Demand::Equal(_));
        let are_equal = self.restrictions.iter().all(equal);
        let values = self.restrictions.iter().filter_map(|r| match &r.demand {
            Demand::Equal(value) => Some(value),
            _ => None,
        });
        are_equal.then_some(values)
    }

    /// Is a column restricted by `<`, `>` and the like?
    pub(crate) fn has_slice(&self) -> bool {
        self.restrictions
            .iter()
            .any(|restriction| matches!(restriction.demand, Demand::Slice { .. }))
    }

    /// Is a column restricted by IN?
    pub(crate) fn has_in(&self) -> bool {
        self.restrictions
            .iter()
            .any(|restriction| matches!(restriction.demand, Demand::In(_)))
    }

    /// How many rows of a partition the lists of IN come to, the same ones counted as often as they are given;
    /// `None` where there is no IN, or the clustering is not whole.
    pub(crate) fn in_product(&self, request: &Request<'_>) -> Result<Option<u64>, CqlError> {
        match self.selects_rows() {
            true => product(self.restrictions.iter().map(|r| &r.demand), request),
            false => Ok(None),
        }
    }

    /// Is the column at this position restricted to one value?
    pub(crate) fn fixes(&self, position: usize) -> bool {
        self.restrictions.iter().any(|restriction| {
            (restriction.first..restriction.first + restriction.count).contains(&position)
                && matches!(restriction.demand, Demand::Equal(_))
        })
    }

    /// The slices of this execution, sorted, without overlap; none where nothing can match.
    pub(crate) fn slices(
        &self,
        table: &Table,
        request: &Request<'_>,
    ) -> Result<Vec<Slice>, CqlError> {
        if self.is_all() {
            return Ok(vec![Slice::ALL]);
        }
        let comparator = table.comparator();
        let (prefixes, last) = self.prefixes(comparator, request)?;
        let mut slices = Vec::with_capacity(prefixes.len());
        let Some(
            restriction @ ClusteringRestriction {
                first,
                demand: Demand::Slice { start, end },
                ..
            },
        ) = last
        else {
            slices.extend(
                prefixes
                    .into_iter()
                    .map(|prefix| Slice::of_prefix(Clustering(prefix))),
            );
            return Ok(slices);
        };
        // Null lies before all values in the order of the table, wherever the column descends.
        let ascends = comparator.columns()[*first].1 == Order::Ascending;
        let start = match self.limit(restriction, start.as_ref(), request)? {
            Edged::Null if !ascends => return Ok(Vec::new()),
            edge => edge.limit(),
        };
        let end = match self.limit(restriction, end.as_ref(), request)? {
            Edged::Null if ascends => return Ok(Vec::new()),
            edge => edge.limit(),
        };
        for prefix in &prefixes {
            let above = ranges(comparator, prefix, start.as_ref(), true);
            let below = ranges(comparator, prefix, end.as_ref(), false);
            for a in &above {
                for b in &below {
                    slices.extend(intersection(comparator, a, b));
                }
            }
        }
        slices.sort_by(|a, b| comparator.compare_bounds(&a.start, &b.start));
        Ok(slices)
    }

    /// Are there slices in Cassandra that no row is in: all that is before null, which lies before everything?
    pub(crate) fn are_before_null(
        &self,
        table: &Table,
        request: &Request<'_>,
    ) -> Result<bool, CqlError> {
        let (prefixes, last) = self.prefixes(table.comparator(), request)?;
        let Some(restriction) = last.filter(|_| !prefixes.is_empty()) else {
            return Ok(false);
        };
        let Demand::Slice { start, end } = &restriction.demand else {
            return Ok(false);
        };
        let (start, end) = match table.comparator().columns()[restriction.first].1 {
            Order::Ascending => (start, end),
            Order::Descending => (end, start),
        };
        let ends_there = matches!(self.limit(restriction, end.as_ref(), request)?, Edged::Null);
        Ok(start.is_none() && ends_there)
    }

    /// Refuses a slice that begins or ends at null: what a SELECT takes for all rows or none is no
    /// range to delete.
    pub(crate) fn refuse_null(&self, request: &Request<'_>) -> Result<(), CqlError> {
        for restriction in &self.restrictions {
            let Demand::Slice { start, end } = &restriction.demand else {
                continue;
            };
            for edge in [start, end] {
                if let Edged::Null = self.limit(restriction, edge.as_ref(), request)? {
                    let name = &self.names[restriction.first];
                    return invalid!("Invalid null value in condition for column {name}");
                }
            }
        }
        Ok(())
    }

    /// The clusterings of this execution: for statements that name rows; sorted, each once.
    pub(crate) fn rows(
        &self,
        table: &Table,
        request: &Request<'_>,
    ) -> Result<Vec<Clustering>, CqlError> {
        let (prefixes, _) = self.prefixes(table.comparator(), request)?;
        Ok(prefixes.into_iter().map(Clustering).collect())
    }

    /// The prefixes that `=` and IN come to, sorted, each once, and the slice after them.
    fn prefixes(
        &self,
        comparator: &ClusteringComparator,
        request: &Request<'_>,
    ) -> Result<(Vec<Prefix>, Option<&ClusteringRestriction>), CqlError> {
        let mut prefixes: Vec<Prefix> = vec![Prefix::new()];
        let last = self.restrictions.len().saturating_sub(1);
        for (i, restriction) in self.restrictions.iter().enumerate() {
            // A tuple may be bound with fewer values: it is a prefix, and no row.
            let may_be_short = i == last && !self.selects_rows();
            let mut tuples = match &restriction.demand {
                Demand::Slice { .. } => return Ok((prefixes, Some(restriction))),
                Demand::Equal(tuple) => {
                    let values = self.required_tuple(restriction, tuple, request)?;
                    if values.len() < restriction.count && !may_be_short {
                        return Ok((Vec::new(), None));
                    }
                    for value in values {
                        for prefix in &mut prefixes {
                            prefix.push(value.clone());
                        }
                    }
                    continue;
                }
                Demand::In(one_of) => self.tuples(comparator, restriction, one_of, request)?,
            };
            tuples.retain(|tuple| tuple.len() == restriction.count || may_be_short);
            if prefixes.len().saturating_mul(tuples.len()) > MAX_PREFIXES {
                return invalid!(
                    "The IN relations select more than {MAX_PREFIXES} rows of a partition: split \
                     the query"
                );
            }
            prefixes = prefixes
                .iter()
                .flat_map(|prefix| {
                    tuples.iter().map(|tuple| {
                        let mut prefix = prefix.clone();
                        prefix.extend(tuple.iter().cloned());
                        prefix
                    })
                })
                .collect();
        }
        Ok((prefixes, None))
    }

    /// The tuples of IN, in the order of the table, each once.
    fn tuples(
        &self,
        comparator: &ClusteringComparator,
        restriction: &ClusteringRestriction,
        one_of: &OneOf<Tuple>,
        request: &Request<'_>,
    ) -> Result<Vec<Vec<Bytes>>, CqlError> {
        let first = restriction.first;
        let columns = &comparator.columns()[first..first + restriction.count];
        let mut tuples: Vec<Vec<Bytes>> = match one_of {
            OneOf::Terms(terms) if restriction.of_tuples && terms.len() > 1 => {
                let mut tuples = Vec::with_capacity(terms.len());
                for tuple in terms {
                    let bounds = self.tuple(restriction, tuple, request)?;
                    tuples.push(self.each_of_tuple(restriction, bounds)?);
                }
                tuples
            }
            OneOf::Terms(terms) => {
                let mut tuples = Vec::with_capacity(terms.len());
                for tuple in terms {
                    tuples.push(self.required_tuple(restriction, tuple, request)?);
                }
                tuples
            }
            OneOf::Marker(marker) if restriction.of_tuples => {
                let types: Vec<CqlType> = columns.iter().map(|(ty, _)| ty.clone()).collect();
                self.marked_tuples(restriction, marker, &types, request)?
            }
            OneOf::Marker(marker) => {
                let marker = OneOf::Marker(marker.clone());
                let values = in_values(&marker, &self.names[first], request)?;
                values.into_iter().map(|value| vec![value]).collect()
            }
        };
        let compare = |a: &Vec<Bytes>, b: &Vec<Bytes>| {
            columns
                .iter()
                .zip(a.iter().zip(b))
                .map(|((ty, order), (x, y))| match order {
                    Order::Ascending => ty.compare(x, y),
                    Order::Descending => ty.compare(y, x),
                })
                .find(|ordering| ordering.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        tuples.sort_by(compare);
        tuples.dedup_by(|a, b| compare(a, b).is_eq());
        Ok(tuples)
    }

    /// The tuples of a marker that stands for all of them.
    fn marked_tuples(
        &self,
        restriction: &ClusteringRestriction,
        marker: &Expression,
        types: &[CqlType],
        request: &Request<'_>,
    ) -> Result<Vec<Vec<Bytes>>, CqlError> {
        let values = match marker.evaluate_list(request)? {
            BoundList::Null => return invalid!("Invalid null value for IN restriction"),
            BoundList::Unset => {
                return invalid!("Invalid unset value for in{}", self.shown(restriction));
            }
            BoundList::Values(values) => values,
        };
        let mut tuples = Vec::with_capacity(values.len());
        for value in values {
            let components = match &value {
                Some(value) => components(value, types)?,
                None => vec![Bound::Null],
            };
            tuples.push(self.each_of_tuple(restriction, components)?);
        }
        Ok(tuples)
    }

    /// The values of one tuple of several: all of them are there.
    fn each_of_tuple(
        &self,
        restriction: &ClusteringRestriction,
        bounds: impl IntoIterator<Item = Bound>,
    ) -> Result<Vec<Bytes>, CqlError> {
        let mut tuple = Vec::with_capacity(restriction.count);
        for bound in bounds {
            let Bound::Value(value) = bound else {
                let names = &self.names[restriction.first..restriction.first + restriction.count];
                return invalid!(
                    "Invalid null value in condition for columns: [{}]",
                    names.join(", ")
                );
            };
            tuple.push(value);
        }
        Ok(tuple)
    }

    /// The values of `=` or of one tuple of IN: all of them are there.
    fn required_tuple(
        &self,
        restriction: &ClusteringRestriction,
        tuple: &Tuple,
        request: &Request<'_>,
    ) -> Result<Vec<Bytes>, CqlError> {
        let values = self.tuple(restriction, tuple, request)?;
        let mut required_values = Vec::with_capacity(values.len());
        for (value, name) in values.into_iter().zip(&self.names[restriction.first..]) {
            required_values.push(match value {
                Bound::Null if restriction.of_tuples => {
                    return invalid!("Invalid null value for column {name}");
                }
                value => required(value, name)?,
            });
        }
        Ok(required_values)
    }

    fn tuple(
        &self,
        restriction: &ClusteringRestriction,
        tuple: &Tuple,
        request: &Request<'_>,
    ) -> Result<SmallVec<[Bound; 1]>, CqlError> {
        match tuple {
            Tuple::Terms(terms) => {
                let mut bounds = SmallVec::with_capacity(terms.len());
                for (i, term) in terms.iter().enumerate() {
                    let bound = term.evaluate(request)?;
                    if restriction.of_tuples && bound == Bound::Unset {
                        return invalid!("Invalid unset value for tuple field number {i}");
                    }
                    bounds.push(bound);
                }
                Ok(bounds)
            }
            Tuple::Marker(marker, types) => match marker.evaluate(request)? {
                Bound::Value(value) => Ok(components(&value, types)?.into()),
                Bound::Null => Ok(std::iter::repeat_n(Bound::Null, types.len()).collect()),
                Bound::Unset => {
                    invalid!("Invalid unset value for tuple {}", self.shown(restriction))
                }
            },
        }
    }

    /// One end of a slice.
    fn limit(
        &self,
        restriction: &ClusteringRestriction,
        edge: Option<&Edge<Tuple>>,
        request: &Request<'_>,
    ) -> Result<Edged, CqlError> {
        let Some(edge) = edge else {
            return Ok(Edged::Open);
        };
        let mut values = Vec::new();
        let bounds = self.tuple(restriction, &edge.value, request)?;
        for (bound, name) in bounds.into_iter().zip(&self.names[restriction.first..]) {
            match bound {
                Bound::Null if !restriction.of_tuples => return Ok(Edged::Null),
                bound => values.push(required(bound, name)?),
            }
        }
        if values.is_empty() {
            return Ok(Edged::Open);
        }
        Ok(Edged::At(Limit {
            values,
            inclusive: edge.inclusive,
        }))
    }

    /// The columns of a restriction as messages show them: `(b,c)`.
    fn shown(&self, restriction: &ClusteringRestriction) -> String {
        let names = &self.names[restriction.first..restriction.first + restriction.count];
        format!("({})", names.join(","))
    }
}

/// The components of a bound tuple, which may have fewer than there are types: then it is an end of
/// a slice of the first columns, and no row.
fn components(value: &Bytes, types: &[CqlType]) -> Result<Vec<Bound>, CqlError> {
    let components = collection::given_components(value, types.len())
        .map_err(|error| CqlError::Invalid(error.to_string()))?;
    Ok(components
        .into_iter()
        .map(|component| match component {
            Some(bytes) => Bound::Value(value.slice_ref(bytes)),
            None => Bound::Null,
        })
        .collect())
}

/// The ranges of a prefix that lie above, or below, a limit.
fn ranges(
    comparator: &ClusteringComparator,
    prefix: &Prefix,
    limit: Option<&Limit>,
    above: bool,
) -> Vec<Slice> {
    let Some(limit) = limit else {
        return vec![Slice::of_prefix(Clustering(prefix.clone()))];
    };
    let orders = &comparator.columns()[prefix.len()..prefix.len() + limit.values.len()];
    let count = limit.values.len();
    if orders.iter().all(|(_, order)| *order == orders[0].1) {
        return vec![half(
            prefix,
            &limit.values,
            limit.inclusive,
            above,
            orders[0].1,
        )];
    }
    (0..count)
        .map(|i| {
            let inclusive = limit.inclusive && i + 1 == count;
            let mut equal = prefix.clone();
            equal.extend(limit.values[..i].iter().cloned());
            half(&equal, &limit.values[i..=i], inclusive, above, orders[i].1)
        })
        .collect()
}

/// The part of a prefix on one side of values, all of whose columns have the same order.
fn half(prefix: &Prefix, values: &[Bytes], inclusive: bool, above: bool, order: Order) -> Slice {
    let whole = Slice::of_prefix(Clustering(prefix.clone()));
    let mut edge = prefix.clone();
    edge.extend(values.iter().cloned());
    let bound = |kind| RowBound {
        prefix: Clustering(edge),
        kind,
    };
    if above == (order == Order::Ascending) {
        let kind = if inclusive {
            BoundKind::InclusiveStart
        } else {
            BoundKind::ExclusiveStart
        };
        Slice {
            start: bound(kind),
            end: whole.end,
        }
    } else {
        let kind = if inclusive {
            BoundKind::InclusiveEnd
        } else {
            BoundKind::ExclusiveEnd
        };
        Slice {
            start: whole.start,
            end: bound(kind),
        }
    }
}

/// What two slices share, if anything.
fn intersection(comparator: &ClusteringComparator, a: &Slice, b: &Slice) -> Option<Slice> {
    let start = match comparator.compare_bounds(&a.start, &b.start) {
        Ordering::Less => &b.start,
        _ => &a.start,
    };
    let end = match comparator.compare_bounds(&a.end, &b.end) {
        Ordering::Greater => &b.end,
        _ => &a.end,
    };
    let slice = Slice {
        start: start.clone(),
        end: end.clone(),
    };
    (!slice.is_empty(comparator)).then_some(slice)
}
