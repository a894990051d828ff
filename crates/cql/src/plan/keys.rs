//! Which partitions an execution reads or writes.

use std::cmp::Ordering;

use bytes::Bytes;
use model::{CqlType, DecoratedKey, PartitionBound, Table, Token, encode_key};

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Bound, BoundList, Expression, Request};

use super::restriction::{Demand, OneOf};
use super::restrictions::Restrictions;

/// How many keys `IN` may come to in one statement (`partition_keys_in_select_failure` is not set
/// in Cassandra; this bounds the product of several lists).
const MAX_KEYS: usize = 100_000;

/// How a statement finds its partitions.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    /// Of each column of the partition key; empty where a range of the ring is read.
    columns: Vec<KeyColumn>,
    /// Which tokens.
    token: Option<Demand<Expression>>,
}

#[derive(Clone, Debug)]
struct KeyColumn {
    name: std::sync::Arc<str>,
    ty: CqlType,
    demand: Demand<Expression>,
}

impl KeyPlan {
    /// Of a statement's restrictions.
    pub(crate) fn new(table: &Table, restrictions: &mut Restrictions) -> KeyPlan {
        let mut columns = Vec::new();
        if restrictions.has_keys() {
            for (column, demand) in table.partition_key().zip(&mut restrictions.keys) {
                if let Some(demand) = demand.take() {
                    columns.push(KeyColumn {
                        name: column.name.clone(),
                        ty: column.ty.clone(),
                        demand,
                    });
                }
            }
        }
        KeyPlan {
            columns,
            token: restrictions.token.take(),
        }
    }

    /// Does it read a range of the ring?
    pub(crate) fn is_range(&self) -> bool {
        self.columns.is_empty()
    }

    /// The value of each column of the key, if that is what is restricted: to one value each.
    pub(crate) fn equals(&self) -> Option<impl Iterator<Item = &Expression>> {
        let equal = |column: &KeyColumn| matches!(column.demand, Demand::Equal(_));
        let are_equal = !self.is_range() && self.columns.iter().all(equal);
        let values = self
            .columns
            .iter()
            .filter_map(|column| match &column.demand {
                Demand::Equal(value) => Some(value),
                _ => None,
            });
        (are_equal && self.token.is_none()).then_some(values)
    }

    /// Is the partition key or its token restricted?
    pub(crate) fn restricts(&self) -> bool {
        !self.columns.is_empty() || self.token.is_some()
    }

    /// Is a column restricted by IN?
    pub(crate) fn has_in(&self) -> bool {
        self.columns
            .iter()
            .any(|column| matches!(column.demand, Demand::In(_)))
    }

    /// How many keys the lists of IN come to, the same ones counted as often as they are given; `None` where
    /// there is no IN (`MultiCBuilder.buildSize`).
    pub(crate) fn in_product(&self, request: &Request<'_>) -> Result<Option<u64>, CqlError> {
        product(self.columns.iter().map(|column| &column.demand), request)
    }

    /// The keys that are named, sorted and each once where there may be several, of which one may be
    /// empty: see [`check_keys`]. `None` if it reads a range of the ring.
    pub(crate) fn named(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<Vec<DecoratedKey>>, CqlError> {
        if self.is_range() {
            return Ok(None);
        }
        let mut keys = self.unchecked_keys(request)?;
        if self.token.is_some() {
            let (start, end) = token_bounds(self.token.as_ref(), request)?;
            keys.retain(|key| lies_between(key.token(), &start, &end));
        }
        Ok(Some(keys))
    }

    /// The range of the ring that it reads where it names no keys; `None` if that is empty.
    pub(crate) fn range(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<(PartitionBound, PartitionBound)>, CqlError> {
        token_range(self.token.as_ref(), request)
    }

    /// All keys; sorted and each once where there may be several.
    pub(crate) fn keys(&self, request: &Request<'_>) -> Result<Vec<DecoratedKey>, CqlError> {
        let keys = self.unchecked_keys(request)?;
        check_keys(&keys)?;
        Ok(keys)
    }

    /// The keys, of which one may be empty as long as nothing of it is read or written.
    fn unchecked_keys(&self, request: &Request<'_>) -> Result<Vec<DecoratedKey>, CqlError> {
        if let [column] = &*self.columns
            && let Demand::Equal(value) = &column.demand
        {
            let value = column.value(value.evaluate(request)?)?;
            return Ok(vec![key_of(&[value])?]);
        }
        let mut tuples: Vec<Vec<Bytes>> = vec![Vec::new()];
        for column in &self.columns {
            let values = column.values(request)?;
            if let [only] = &*values {
                for tuple in &mut tuples {
                    tuple.push(only.clone());
                }
                continue;
            }
            if tuples.len().saturating_mul(values.len()) > MAX_KEYS {
                return invalid!(
                    "The IN relations select more than {MAX_KEYS} partitions: split the query"
                );
            }
            tuples = tuples
                .iter()
                .flat_map(|tuple| {
                    values.iter().map(|value| {
                        let mut tuple = tuple.clone();
                        tuple.push(value.clone());
                        tuple
                    })
                })
                .collect();
        }
        tuples.iter().map(|values| key_of(values)).collect()
    }
}

fn key_of(values: &[Bytes]) -> Result<DecoratedKey, CqlError> {
    let key = encode_key(values).map_err(|error| CqlError::Invalid(error.to_string()))?;
    Ok(DecoratedKey::new(key))
}

/// Refuses empty keys, where something of them is read or written (`QueryProcessor.validateKey`).
pub(crate) fn check_keys(keys: &[DecoratedKey]) -> Result<(), CqlError> {
    match keys.iter().any(|key| key.key().is_empty()) {
        true => invalid!("Key may not be empty"),
        false => Ok(()),
    }
}

impl KeyColumn {
    fn value(&self, bound: Bound) -> Result<Bytes, CqlError> {
        required(bound, &self.name)
    }

    /// The values, in the order of the type, each once.
    fn values(&self, request: &Request<'_>) -> Result<Vec<Bytes>, CqlError> {
        match &self.demand {
            Demand::Equal(value) => Ok(vec![self.value(value.evaluate(request)?)?]),
            Demand::In(one_of) => {
                let mut values = in_values(one_of, &self.name, request)?;
                sort_values(&mut values, &self.ty);
                Ok(values)
            }
            Demand::Slice { .. } => invalid!("a slice of {} is no key", self.name),
        }
    }
}

/// Sorted by the type, each once.
fn sort_values(values: &mut Vec<Bytes>, ty: &CqlType) {
    values.sort_by(|a, b| ty.compare(a, b));
    values.dedup_by(|a, b| ty.compare(a, b) == Ordering::Equal);
}

/// A value that must be there.
pub(crate) fn required(bound: Bound, name: &str) -> Result<Bytes, CqlError> {
    match bound {
        Bound::Value(value) => Ok(value),
        Bound::Null => invalid!("Invalid null value in condition for column {name}"),
        Bound::Unset => invalid!("Invalid unset value for column {name}"),
    }
}

/// The values of IN.
pub(crate) fn in_values(
    one_of: &OneOf<Expression>,
    name: &str,
    request: &Request<'_>,
) -> Result<Vec<Bytes>, CqlError> {
    match one_of {
        OneOf::Terms(terms) => terms
            .iter()
            .map(|term| required(term.evaluate(request)?, name))
            .collect(),
        OneOf::Marker(marker) => match marker.evaluate_list(request)? {
            BoundList::Null => invalid!("Invalid null value for column {name}"),
            BoundList::Unset => invalid!("Invalid unset value for column {name}"),
            BoundList::Values(values) => values
                .into_iter()
                .map(|value| required(value.map_or(Bound::Null, Bound::Value), name))
                .collect(),
        },
    }
}

/// What several lists of IN come to together; `None` where there is none.
pub(crate) fn product<'d, V: 'd>(
    demands: impl Iterator<Item = &'d Demand<V>>,
    request: &Request<'_>,
) -> Result<Option<u64>, CqlError> {
    let mut product = None;
    for demand in demands {
        let Demand::In(one_of) = demand else {
            continue;
        };
        let count = match one_of {
            OneOf::Terms(terms) => terms.len(),
            OneOf::Marker(marker) => match marker.evaluate_list(request)? {
                BoundList::Values(values) => values.len(),
                BoundList::Null | BoundList::Unset => 0,
            },
        };
        let before = product.unwrap_or(1_u64);
        product = Some(before.saturating_mul(count as u64));
    }
    Ok(product)
}

/// The range of the ring that the token is restricted to; `None` where it is empty.
fn token_range(
    demand: Option<&Demand<Expression>>,
    request: &Request<'_>,
) -> Result<Option<(PartitionBound, PartitionBound)>, CqlError> {
    // The lowest token, which only the empty key of a view has, stands for both ends of the ring: all
    // is above it, with it or without (`Token.maxKeyBound`), and nothing is below it.
    let opened = |bound: PartitionBound| match token_of(&bound) {
        Some(Token::MIN) => PartitionBound::Unbounded,
        _ => bound,
    };
    let (start, end) = token_bounds(demand, request)?;
    let (start, end) = (opened(start), opened(end));
    if let (Some(low), Some(high)) = (token_of(&start), token_of(&end)) {
        let touching = matches!(
            (&start, &end),
            (
                PartitionBound::TokenInclusive(_),
                PartitionBound::TokenInclusive(_)
            )
        );
        if low > high || (low == high && !touching) {
            return Ok(None);
        }
    }
    Ok(Some((start, end)))
}

/// The bounds that the token is restricted to, in whichever order.
fn token_bounds(
    demand: Option<&Demand<Expression>>,
    request: &Request<'_>,
) -> Result<(PartitionBound, PartitionBound), CqlError> {
    let unbounded = PartitionBound::Unbounded;
    Ok(match demand {
        None => (unbounded.clone(), unbounded),
        Some(Demand::In(_)) => return invalid!("IN cannot be used with the token function"),
        Some(Demand::Equal(value)) => {
            let token = token(value, request)?;
            let bound = PartitionBound::TokenInclusive(token);
            (bound.clone(), bound)
        }
        Some(Demand::Slice { start, end }) => {
            let bound = |edge: &super::restriction::Edge<Expression>| {
                let token = token(&edge.value, request)?;
                Ok::<PartitionBound, CqlError>(if edge.inclusive {
                    PartitionBound::TokenInclusive(token)
                } else {
                    PartitionBound::TokenExclusive(token)
                })
            };
            let end = end.as_ref().map(bound).transpose()?;
            let start = start.as_ref().map(bound).transpose()?;
            (
                start.unwrap_or_else(|| unbounded.clone()),
                end.unwrap_or(unbounded),
            )
        }
    })
}

fn token(value: &Expression, request: &Request<'_>) -> Result<Token, CqlError> {
    match value.evaluate(request)? {
        Bound::Value(bytes) => match <[u8; 8]>::try_from(&*bytes) {
            Ok(bytes) => Ok(Token(i64::from_be_bytes(bytes))),
            Err(_) => invalid!("Invalid token value"),
        },
        Bound::Null => invalid!("Invalid null token value"),
        Bound::Unset => invalid!("Invalid unset token value"),
    }
}

fn token_of(bound: &PartitionBound) -> Option<Token> {
    match bound {
        PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => {
            Some(*token)
        }
        _ => None,
    }
}

/// Is a key with this token meant, where keys are named too? Bounds that are not in order mean what is
/// not between them (`TokenFilter.toRangeSet`).
fn lies_between(token: Token, start: &PartitionBound, end: &PartitionBound) -> bool {
    let above = match start {
        PartitionBound::TokenInclusive(low) => token >= *low,
        PartitionBound::TokenExclusive(low) => token > *low,
        _ => true,
    };
    let below = match end {
        PartitionBound::TokenInclusive(high) => token <= *high,
        PartitionBound::TokenExclusive(high) => token < *high,
        _ => true,
    };
    match (token_of(start), token_of(end)) {
        (Some(low), Some(high)) if low > high => above || below,
        _ => above && below,
    }
}
