//! Typed terms: what a term of the text is once it is known which type it must have.
//!
//! [`prepare`] checks a term against its receiver with all the implicit conversions of Cassandra
//! (`Term.Raw.prepare`) and folds what is constant, so that at execution only bind markers and
//! functions are left to do.

mod assign;
mod expression;
mod literal;
mod order;
mod prepare;
mod request;

pub(crate) use assign::TermArgument;
pub(crate) use expression::{Bound, BoundList, Expression};
pub(crate) use literal::preferred_type;
pub(crate) use order::{is_ordered_once, ordered};
pub(crate) use prepare::{Analysis, MarkerSpec, constant, operation_of, prepare, value_of};
pub use request::{Request, Value, Values};

use std::sync::Arc;

use model::CqlType;

/// A column of a result, or a bind marker, as clients are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    /// The keyspace of its table.
    pub keyspace: Arc<str>,
    /// Its table.
    pub table: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: CqlType,
}

/// What a term is for: its type, and the name that messages and bind markers give it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Receiver {
    /// The name of the column, or a description of the part of it.
    pub(crate) name: Arc<str>,
    /// The type.
    pub(crate) ty: CqlType,
    /// The position in the partition key, if the term is the value of a column of it.
    pub(crate) key_position: Option<usize>,
    /// Is a bound collection kept in the order in which it was sent? Cassandra sorts those of
    /// other columns, but sees no collection in the type of a clustering column in descending
    /// order.
    pub(crate) keeps_order: bool,
}

impl Receiver {
    /// Something that is no column.
    pub(crate) fn new(name: impl Into<Arc<str>>, ty: CqlType) -> Receiver {
        Receiver {
            name: name.into(),
            ty,
            key_position: None,
            keeps_order: false,
        }
    }

    /// A column.
    pub(crate) fn of(column: &model::Column) -> Receiver {
        Receiver {
            name: column.name.clone(),
            ty: column.ty.clone(),
            key_position: (column.kind == model::ColumnKind::PartitionKey)
                .then_some(column.position),
            keeps_order: column.order == model::Order::Descending,
        }
    }
}
