//! Expressions of a select clause that are more than a column.

use std::sync::Arc;

use std::cmp::Ordering;

use bytes::Bytes;
use model::{CqlType, collection};

use crate::CqlError;
use crate::error::invalid;
use crate::functions::Scalar;
use crate::term::{Bound, Expression, Request};

use super::fetch::Slots;

/// An expression over the slots of a row.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A slot.
    Slot(usize),
    /// A constant or a bind marker.
    Term(Expression),
    /// The result of an aggregate, by number.
    Aggregate(usize),
    /// The result of a function.
    Call(Arc<Scalar>, Vec<Node>),
    /// A tuple or user type.
    Tuple(Vec<Node>),
    /// A list.
    List(Vec<Node>),
    /// A set with elements of this type.
    Set(CqlType, Vec<Node>),
    /// A map with keys of this type.
    Map(CqlType, Vec<(Node, Node)>),
    /// A vector with elements of this type.
    Vector(CqlType, Vec<Node>),
    /// A field of a user type of so many fields.
    Field {
        /// The user type.
        of: Box<Node>,
        /// Which field.
        index: usize,
        /// Of how many.
        count: usize,
    },
    /// An element of a set or map whose elements or keys are of this type.
    Element {
        /// The set or map.
        of: Box<Node>,
        /// Is it a map?
        is_map: bool,
        /// The type of its keys.
        ty: CqlType,
        /// Which one.
        key: Expression,
        /// What it is called, for messages.
        name: String,
    },
    /// The elements of a set or map between two keys.
    Slice {
        /// The set or map.
        of: Box<Node>,
        /// Is it a map?
        is_map: bool,
        /// Is it one cell? Then what is left of it may be empty, where one of many cells is null.
        frozen: bool,
        /// The type of its keys.
        ty: CqlType,
        /// From this one.
        from: Option<Expression>,
        /// To this one.
        to: Option<Expression>,
        /// What it is called, for messages.
        name: String,
    },
}

fn malformed(error: model::ValueError) -> CqlError {
    CqlError::Invalid(error.to_string())
}

impl Node {
    /// Its value for a row: `aggregates` are the results of the group's aggregates.
    pub(crate) fn evaluate(
        &self,
        slots: &Slots<'_>,
        aggregates: &[Option<Bytes>],
        request: &Request<'_>,
    ) -> Result<Option<Bytes>, CqlError> {
        let value = |node: &Node| node.evaluate(slots, aggregates, request);
        let values = |nodes: &[Node]| nodes.iter().map(value).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Node::Slot(slot) => slots
                .get(*slot)
                .and_then(Option::as_deref)
                .map(Bytes::copy_from_slice),
            Node::Term(term) => term.evaluate(request)?.value(),
            Node::Aggregate(index) => aggregates.get(*index).cloned().flatten(),
            Node::Call(function, arguments) => {
                refuse_unset(function.name(), arguments, request)?;
                function.execute(&request.functions, &values(arguments)?)?
            }
            Node::Tuple(items) => Some(collection::pack_tuple(values(items)?).into()),
            // A list may have nulls, as a tuple: what is selected is not what was stored.
            Node::List(items) => Some(list(values(items)?)),
            Node::Vector(element, items) => {
                let packed = collection::pack_vector(element, present(values(items)?)?);
                Some(packed.map_err(malformed)?.into())
            }
            Node::Set(ty, items) => Some(set(ty, present(values(items)?)?)),
            Node::Map(ty, entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (key, entry) in entries {
                    // A value may be null, as in a list.
                    pairs.push((one(value(key)?)?, value(entry)?));
                }
                Some(map(ty, pairs))
            }
            Node::Field { of, index, count } => match value(of)? {
                Some(whole) => {
                    let fields = collection::components(&whole, *count).map_err(malformed)?;
                    let field = fields.get(*index).copied().flatten();
                    field.map(|field| whole.slice_ref(field))
                }
                None => None,
            },
            Node::Element {
                of,
                is_map,
                ty,
                key,
                name,
            } => match (value(of)?, element_key(key, name, request)?) {
                (Some(whole), key) => element(&whole, *is_map, ty, &key)?,
                _ => None,
            },
            Node::Slice {
                of,
                is_map,
                frozen,
                ty,
                from,
                to,
                name,
            } => {
                let edges = slice_edges(from.as_ref(), to.as_ref(), name, request)?;
                match value(of)? {
                    Some(whole) => {
                        let packed = slice(&whole, *is_map, ty, edges)?;
                        packed.or_else(|| frozen.then(|| collection::pack_elements(NONE).into()))
                    }
                    None => None,
                }
            }
        })
    }
}

/// Functions take no markers that are not set.
pub(super) fn refuse_unset(
    function: &str,
    arguments: &[Node],
    request: &Request<'_>,
) -> Result<(), CqlError> {
    for argument in arguments {
        if let Node::Term(term) = argument
            && term.has_marker()
            && term.evaluate(request)? == Bound::Unset
        {
            return crate::error::invalid!(
                "Invalid unset value for argument in call to function {function}"
            );
        }
    }
    Ok(())
}

fn one(value: Option<Bytes>) -> Result<Bytes, CqlError> {
    value.ok_or_else(|| CqlError::Invalid("null is not supported inside collections".to_owned()))
}

fn present(values: Vec<Option<Bytes>>) -> Result<Vec<Bytes>, CqlError> {
    values.into_iter().map(one).collect()
}

fn list(items: Vec<Option<Bytes>>) -> Bytes {
    let mut packed = (items.len() as u32).to_be_bytes().to_vec();
    packed.extend(collection::pack_tuple(items));
    packed.into()
}

fn set(ty: &CqlType, mut items: Vec<Bytes>) -> Bytes {
    items.sort_by(|a, b| ty.compare(a, b));
    items.dedup_by(|a, b| ty.compare(a, b).is_eq());
    collection::pack_elements(items).into()
}

/// Of two values of one key the later one stays.
fn map(ty: &CqlType, mut pairs: Vec<(Bytes, Option<Bytes>)>) -> Bytes {
    pairs.reverse();
    pairs.sort_by(|(a, _), (b, _)| ty.compare(a, b));
    pairs.dedup_by(|(a, _), (b, _)| ty.compare(a, b).is_eq());
    let mut packed = (pairs.len() as u32).to_be_bytes().to_vec();
    let parts = pairs
        .into_iter()
        .flat_map(|(key, value)| [Some(key), value]);
    packed.extend(collection::pack_tuple(parts));
    packed.into()
}

/// No elements.
const NONE: [&[u8]; 0] = [];

/// The key of an element of the column or field `of`: it has to be there.
pub(super) fn element_key(
    term: &Expression,
    of: &str,
    request: &Request<'_>,
) -> Result<Bytes, CqlError> {
    match term.evaluate(request)? {
        Bound::Value(value) => Ok(value),
        Bound::Null => invalid!("Invalid null value for element selection on {of}"),
        Bound::Unset => invalid!("Invalid unset value for element selection on {of}"),
    }
}

/// Between which elements a slice of the column or field `of` is. An edge that is not set is none.
pub(super) fn slice_edges(
    from: Option<&Expression>,
    to: Option<&Expression>,
    of: &str,
    request: &Request<'_>,
) -> Result<(Option<Bytes>, Option<Bytes>), CqlError> {
    let edge = |term: Option<&Expression>| match term.map(|term| term.evaluate(request)) {
        None | Some(Ok(Bound::Unset)) => Ok(None),
        Some(Ok(Bound::Value(value))) => Ok(Some(value)),
        Some(Ok(Bound::Null)) => invalid!("Invalid null value for slice selection on {of}"),
        Some(Err(error)) => Err(error),
    };
    Ok((edge(from)?, edge(to)?))
}

/// The element of a set or map. It is looked for up to the first that comes behind it: a value that was bound
/// need not be in order (`CollectionSerializer.getSerializedValue`).
fn element(
    whole: &Bytes,
    is_map: bool,
    ty: &CqlType,
    key: &[u8],
) -> Result<Option<Bytes>, CqlError> {
    for (at, value) in keyed(whole, is_map)? {
        match ty.compare(at, key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(Some(whole.slice_ref(value))),
            Ordering::Greater => break,
        }
    }
    Ok(None)
}

/// The elements of a set, each with itself, or of a map, by their keys.
fn keyed(whole: &Bytes, is_map: bool) -> Result<Vec<collection::Entry<'_>>, CqlError> {
    if is_map {
        return collection::entries(whole).map_err(malformed);
    }
    let elements = collection::elements(whole).map_err(malformed)?;
    Ok(elements
        .into_iter()
        .map(|element| (element, element))
        .collect())
}

/// What is left of a set or map; `None` if nothing is. It begins with the first that is not before `from`, and
/// ends before the first behind `to` (`CollectionSerializer.getSliceFromSerialized`).
fn slice(
    whole: &Bytes,
    is_map: bool,
    ty: &CqlType,
    (from, to): (Option<Bytes>, Option<Bytes>),
) -> Result<Option<Bytes>, CqlError> {
    let all = keyed(whole, is_map)?.into_iter();
    let begun = all.skip_while(|(key, _)| {
        let from = from.as_ref();
        from.is_some_and(|from| ty.compare(key, from).is_lt())
    });
    let mut kept = Vec::new();
    for (key, value) in begun {
        let order = to.as_ref().map(|to| ty.compare(key, to));
        if order == Some(Ordering::Greater) {
            break;
        }
        kept.push((key, value));
        if order == Some(Ordering::Equal) {
            break;
        }
    }
    let packed = (!kept.is_empty()).then(|| match is_map {
        true => collection::pack_entries(kept),
        false => collection::pack_elements(kept.into_iter().map(|(key, _)| key)),
    });
    Ok(packed.map(Bytes::from))
}
