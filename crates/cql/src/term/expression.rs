//! Terms that are ready to be evaluated.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use model::{CqlType, UserType, collection};

use crate::CqlError;
use crate::functions::{Scalar, has_empty_value};

use super::order::ordered;
use super::{Request, Value};

/// A typed term.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// Always the same value; `None` is null.
    Constant(Option<Bytes>),
    /// The value bound to a marker, of this type.
    Marker {
        /// The number of the marker.
        index: usize,
        /// What it must be.
        ty: CqlType,
        /// Is a collection kept in the order in which it was sent?
        keeps_order: bool,
    },
    /// The result of a function.
    Function {
        /// The function.
        function: Arc<Scalar>,
        /// Its arguments.
        arguments: Vec<Expression>,
    },
    /// A list.
    List(Vec<Expression>),
    /// A set with elements of this type.
    Set(CqlType, Vec<Expression>),
    /// A map with keys of this type.
    Map(CqlType, Vec<(Expression, Expression)>),
    /// A tuple or a user type.
    Tuple {
        /// The user type, if it is one: for messages.
        of: Option<Arc<UserType>>,
        /// Its components, or fields.
        items: Vec<Expression>,
    },
    /// A vector with elements of this type.
    Vector(CqlType, Vec<Expression>),
}

/// The value of a term in one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Null.
    Null,
    /// A marker that was not set.
    Unset,
    /// A value.
    Value(Bytes),
}

/// The values of a marker for a list in one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoundList {
    /// Null.
    Null,
    /// It was not set.
    Unset,
    /// Its values; `None` is null.
    Values(Vec<Option<Bytes>>),
}

impl Bound {
    /// The same, as a client binds it.
    pub(crate) fn borrowed(&self) -> Value<'_> {
        match self {
            Bound::Value(value) => Value::Bytes(value),
            Bound::Null => Value::Null,
            Bound::Unset => Value::Unset,
        }
    }

    /// The value; null and unset are `None`.
    pub(crate) fn value(self) -> Option<Bytes> {
        match self {
            Bound::Value(value) => Some(value),
            Bound::Null | Bound::Unset => None,
        }
    }
}

impl Expression {
    /// Does a bind marker occur in it?
    pub(crate) fn has_marker(&self) -> bool {
        match self {
            Expression::Constant(_) => false,
            Expression::Marker { .. } => true,
            Expression::Function { arguments: all, .. }
            | Expression::List(all)
            | Expression::Set(_, all)
            | Expression::Tuple { items: all, .. }
            | Expression::Vector(_, all) => all.iter().any(Expression::has_marker),
            Expression::Map(_, entries) => entries
                .iter()
                .any(|(key, value)| key.has_marker() || value.has_marker()),
        }
    }

    /// Its value in a request. Errors: a bound value that is none of its type, a null in a
    /// collection, a function that fails.
    pub(crate) fn evaluate(&self, request: &Request<'_>) -> Result<Bound, CqlError> {
        Ok(match self {
            Expression::Constant(Some(value)) => Bound::Value(value.clone()),
            Expression::Constant(None) => Bound::Null,
            Expression::Marker {
                index,
                ty,
                keeps_order,
            } => match request.values.get(*index)? {
                Value::Null => Bound::Null,
                Value::Unset => Bound::Unset,
                Value::Bytes(bytes) => {
                    ty.validate_bound(bytes)
                        .map_err(|error| CqlError::Invalid(error.to_string()))?;
                    let ordered = match keeps_order {
                        true => Cow::Borrowed(bytes),
                        false => ordered(ty, bytes)?,
                    };
                    Bound::Value(match ordered {
                        Cow::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
                        Cow::Owned(bytes) => bytes.into(),
                    })
                }
            },
            Expression::Function {
                function,
                arguments,
            } => call(function, arguments, request)?,
            Expression::List(items) => {
                Bound::Value(collection::pack_elements(values(items, request)?).into())
            }
            Expression::Set(ty, items) => {
                let mut items = values(items, request)?;
                items.sort_by(|a, b| ty.compare(a, b));
                items.dedup_by(|a, b| ty.compare(a, b).is_eq());
                Bound::Value(collection::pack_elements(items).into())
            }
            Expression::Map(ty, entries) => map(ty, entries, request)?,
            Expression::Vector(element, items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match item.evaluate(request)? {
                        Bound::Value(value) => values.push(value),
                        Bound::Null | Bound::Unset => {
                            return crate::error::invalid!("null is not supported inside vectors");
                        }
                    }
                }
                let packed = collection::pack_vector(element, values);
                Bound::Value(
                    packed
                        .map_err(|error| CqlError::Invalid(error.to_string()))?
                        .into(),
                )
            }
            Expression::Tuple { of, items } => tuple(of.as_deref(), items, request)?,
        })
    }

    /// The elements of a list that is bound to a marker, nulls among them. Errors: as those of
    /// [`Expression::evaluate`].
    pub(crate) fn evaluate_list(&self, request: &Request<'_>) -> Result<BoundList, CqlError> {
        let Expression::Marker {
            index,
            ty: CqlType::List { element, .. },
            ..
        } = self
        else {
            return crate::error::invalid!("a list of values has to be bound to a marker");
        };
        let list = match request.values.get(*index)? {
            Value::Null => return Ok(BoundList::Null),
            Value::Unset => return Ok(BoundList::Unset),
            Value::Bytes(list) => list,
        };
        let malformed = |error: model::ValueError| CqlError::Invalid(error.to_string());
        let mut values = Vec::new();
        for value in collection::nullable_elements(list).map_err(malformed)? {
            // Bytes that are no value are a null, once the list has been deserialized.
            let value = value.filter(|value| !value.is_empty() || has_empty_value(element));
            let Some(value) = value else {
                values.push(None);
                continue;
            };
            element.validate_bound(value).map_err(malformed)?;
            values.push(Some(Bytes::copy_from_slice(&ordered(element, value)?)));
        }
        Ok(BoundList::Values(values))
    }

    /// As [`Expression::evaluate`], of what has no markers: at analysis.
    pub(crate) fn fold(self) -> Result<Expression, CqlError> {
        if self.has_marker() || self.is_impure() {
            return Ok(self);
        }
        let request = Request::new(super::Values::NONE, 0, 0);
        Ok(Expression::Constant(self.evaluate(&request)?.value()))
    }

    fn is_impure(&self) -> bool {
        match self {
            Expression::Constant(_) | Expression::Marker { .. } => false,
            Expression::Function {
                function,
                arguments,
            } => !function.is_pure() || arguments.iter().any(Expression::is_impure),
            Expression::List(all)
            | Expression::Set(_, all)
            | Expression::Tuple { items: all, .. }
            | Expression::Vector(_, all) => all.iter().any(Expression::is_impure),
            Expression::Map(_, entries) => entries
                .iter()
                .any(|(key, value)| key.is_impure() || value.is_impure()),
        }
    }
}

fn call(
    function: &Scalar,
    arguments: &[Expression],
    request: &Request<'_>,
) -> Result<Bound, CqlError> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(match argument.evaluate(request)? {
            Bound::Value(value) => Some(value),
            Bound::Null => None,
            Bound::Unset => {
                return crate::error::invalid!(
                    "Invalid unset value for argument in call to function {}",
                    function.name()
                );
            }
        });
    }
    Ok(match function.execute(&request.functions, &values)? {
        Some(value) => Bound::Value(value),
        None => Bound::Null,
    })
}

fn tuple(
    of: Option<&UserType>,
    items: &[Expression],
    request: &Request<'_>,
) -> Result<Bound, CqlError> {
    let mut components = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        components.push(match (item.evaluate(request)?, of) {
            (Bound::Value(value), _) => Some(value),
            (Bound::Null, _) => None,
            (Bound::Unset, None) => {
                return crate::error::invalid!("Invalid unset value for tuple field number {i}");
            }
            (Bound::Unset, Some(of)) => {
                return crate::error::invalid!(
                    "Invalid unset value for field '{}' of user defined type {}",
                    of.fields[i].0,
                    of.name
                );
            }
        });
    }
    Ok(Bound::Value(collection::pack_tuple(components).into()))
}

/// The values of the elements of a collection: none of them may be null.
fn values(items: &[Expression], request: &Request<'_>) -> Result<Vec<Bytes>, CqlError> {
    items.iter().map(|item| element(item, request)).collect()
}

fn element(item: &Expression, request: &Request<'_>) -> Result<Bytes, CqlError> {
    match item.evaluate(request)? {
        Bound::Value(value) => Ok(value),
        Bound::Null => crate::error::invalid!("null is not supported inside collections"),
        Bound::Unset => crate::error::invalid!("unset value is not supported inside collections"),
    }
}

fn map(
    ty: &CqlType,
    entries: &[(Expression, Expression)],
    request: &Request<'_>,
) -> Result<Bound, CqlError> {
    let mut pairs = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        pairs.push((element(key, request)?, element(value, request)?));
    }
    // Of two values of one key the later one stays.
    pairs.reverse();
    pairs.sort_by(|(a, _), (b, _)| ty.compare(a, b));
    pairs.dedup_by(|(a, _), (b, _)| ty.compare(a, b).is_eq());
    Ok(Bound::Value(collection::pack_entries(pairs).into()))
}
