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
use crate::term::{Bound, Expression, Request};

use super::keys::{in_values, required};
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
        let (_, order) = &comparator.columns()[restriction.first];
        let ascends = *order == Order::Ascending;
        let Some(start) = self.limit(restriction, (start.as_ref(), ascends), request)? else {
            return Ok(Vec::new());
        };
        let Some(end) = self.limit(restriction, (end.as_ref(), !ascends), request)? else {
            return Ok(Vec::new());
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

    /// As [`SlicePlan::slices`], to delete them: a slice from null, which Cassandra fails to write, is
    /// refused instead of deleting what was not meant.
    pub(crate) fn slices_to_delete(
        &self,
        table: &Table,
        request: &Request<'_>,
    ) -> Result<Vec<Slice>, CqlError> {
        for restriction in &self.restrictions {
            let Demand::Slice { start, end } = &restriction.demand else {
                continue;
            };
            for edge in [start, end].into_iter().flatten() {
                let values = self.tuple(restriction, &edge.value, request)?;
                for (bound, name) in values.into_iter().zip(&self.names[restriction.first..]) {
                    required(bound, name)?;
                }
            }
        }
        self.slices(table, request)
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
        for restriction in &self.restrictions {
            let tuples = match &restriction.demand {
                Demand::Slice { .. } => return Ok((prefixes, Some(restriction))),
                Demand::Equal(tuple) => {
                    for value in self.required_tuple(restriction, tuple, request)? {
                        for prefix in &mut prefixes {
                            prefix.push(value.clone());
                        }
                    }
                    continue;
                }
                Demand::In(one_of) => self.tuples(comparator, restriction, one_of, request)?,
            };
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
            // One tuple is as good as `=`, and is refused in its words.
            OneOf::Terms(terms) if !restriction.of_tuples || terms.len() == 1 => terms
                .iter()
                .map(|tuple| self.required_tuple(restriction, tuple, request))
                .collect::<Result<_, _>>()?,
            OneOf::Terms(terms) => {
                let mut tuples = Vec::with_capacity(terms.len());
                for tuple in terms {
                    let mut values = Vec::with_capacity(restriction.count);
                    for bound in self.tuple(restriction, tuple, request)? {
                        match bound.value() {
                            Some(value) => values.push(value),
                            None => {
                                return invalid!(
                                    "Invalid null value in condition for columns: [{}]",
                                    self.names_of(restriction).join(", ")
                                );
                            }
                        }
                    }
                    tuples.push(values);
                }
                tuples
            }
            OneOf::Marker(marker) => {
                if restriction.of_tuples {
                    match marker.evaluate(request)? {
                        Bound::Null => return invalid!("Invalid null value for IN restriction"),
                        Bound::Unset => {
                            let names = self.names_of(restriction).join(",");
                            return invalid!("Invalid unset value for in({names})");
                        }
                        Bound::Value(_) => {}
                    }
                }
                let marker = OneOf::Marker(marker.clone());
                let values = in_values(&marker, &self.names[first], request)?;
                if restriction.of_tuples {
                    let types: Vec<CqlType> = columns.iter().map(|(ty, _)| ty.clone()).collect();
                    let tuple = |value: Bytes| self.components(first, &value, &types);
                    values.into_iter().map(tuple).collect::<Result<_, _>>()?
                } else {
                    values.into_iter().map(|value| vec![value]).collect()
                }
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

    fn names_of(&self, restriction: &ClusteringRestriction) -> Vec<&str> {
        self.names[restriction.first..restriction.first + restriction.count]
            .iter()
            .map(|name| &**name)
            .collect()
    }

    /// A tuple that has all of its values.
    fn required_tuple(
        &self,
        restriction: &ClusteringRestriction,
        tuple: &Tuple,
        request: &Request<'_>,
    ) -> Result<Vec<Bytes>, CqlError> {
        self.tuple(restriction, tuple, request)?
            .into_iter()
            .zip(&self.names[restriction.first..])
            .map(|(value, name)| match value {
                Bound::Null if restriction.of_tuples => {
                    invalid!("Invalid null value for column {name}")
                }
                value => required(value, name),
            })
            .collect()
    }

    /// The components of a bound tuple: none may be null.
    fn components(
        &self,
        first: usize,
        value: &Bytes,
        types: &[CqlType],
    ) -> Result<Vec<Bytes>, CqlError> {
        let components = collection::components(value, types.len())
            .map_err(|error| CqlError::Invalid(error.to_string()))?;
        components
            .into_iter()
            .enumerate()
            .map(|(i, component)| match component {
                Some(bytes) => Ok(value.slice_ref(bytes)),
                None => required(Bound::Null, &self.names[first + i]),
            })
            .collect()
    }

    fn tuple(
        &self,
        restriction: &ClusteringRestriction,
        tuple: &Tuple,
        request: &Request<'_>,
    ) -> Result<SmallVec<[Bound; 1]>, CqlError> {
        match tuple {
            Tuple::Terms(terms) => terms
                .iter()
                .enumerate()
                .map(
                    |(i, term): (usize, &Expression)| match term.evaluate(request)? {
                        Bound::Unset if restriction.of_tuples => {
                            invalid!("Invalid unset value for tuple field number {i}")
                        }
                        bound => Ok(bound),
                    },
                )
                .collect(),
            Tuple::Marker(marker, types) => match marker.evaluate(request)? {
                Bound::Value(value) => Ok(self
                    .components(restriction.first, &value, types)?
                    .into_iter()
                    .map(Bound::Value)
                    .collect()),
                Bound::Null => Ok(std::iter::repeat_n(Bound::Null, types.len()).collect()),
                Bound::Unset => invalid!(
                    "Invalid unset value for tuple ({})",
                    self.names_of(restriction).join(",")
                ),
            },
        }
    }

    /// One end of a slice; the outer `None` where nothing lies on its side. A null stands before all
    /// that is in the partition, whatever the order: what begins there is everything, what ends
    /// there is nothing. Within a tuple it is refused.
    #[allow(clippy::option_option)]
    fn limit(
        &self,
        restriction: &ClusteringRestriction,
        (edge, begins): (Option<&Edge<Tuple>>, bool),
        request: &Request<'_>,
    ) -> Result<Option<Option<Limit>>, CqlError> {
        let Some(edge) = edge else {
            return Ok(Some(None));
        };
        let mut values = Vec::new();
        let names = &self.names[restriction.first..];
        for (bound, name) in self
            .tuple(restriction, &edge.value, request)?
            .into_iter()
            .zip(names)
        {
            match bound {
                Bound::Null if !restriction.of_tuples => return Ok(begins.then_some(None)),
                bound => values.push(required(bound, name)?),
            }
        }
        Ok(Some(Some(Limit {
            values,
            inclusive: edge.inclusive,
        })))
    }
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
