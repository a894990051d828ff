//! `GROUP BY` (`SelectStatement.getAggregationSpecFactory`): columns of the key in their order, those
//! restricted by `=` may be left out, and functions of clustering columns at the end. Groups never
//! span partitions.

use std::sync::Arc;

use bytes::Bytes;
use model::{ColumnKind, CqlType, Table, argument_type, quote_identifier};

use crate::CqlError;
use crate::ast::{Select, Selector};
use crate::error::invalid;
use crate::functions::Scalar;
use crate::term::Analysis;

use super::node::Node;
use super::restrictions::{Restrictions, named};
use super::selection::Selection;

/// Functions that keep the order of their argument, so that equal results lie together.
const MONOTONIC: [&str; 7] = [
    "floor",
    "to_date",
    "to_timestamp",
    "to_unix_timestamp",
    "todate",
    "totimestamp",
    "tounixtimestamp",
];

/// A value that the rows of a group have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// The value.
    pub(crate) node: Node,
    /// Of a clustering column, its type: equal values may have other bytes, and lie together.
    compared_as: Option<CqlType>,
}

impl Common {
    /// Are the values of two rows the same?
    pub(crate) fn is_same(&self, a: Option<&Bytes>, b: Option<&Bytes>) -> bool {
        match (&self.compared_as, a, b) {
            (Some(ty), Some(a), Some(b)) => ty.compare(a, b).is_eq(),
            _ => a == b,
        }
    }
}

/// What rows of one group have in common, with the columns of the partition key.
pub(crate) fn group_by(
    analysis: &Analysis<'_>,
    table: &Arc<Table>,
    selection: &mut Selection,
    select: &Select,
    restrictions: &Restrictions,
) -> Result<Vec<Common>, CqlError> {
    let mut grouping = Grouping {
        analysis,
        table,
        selection,
        parts: Vec::new(),
        after_function: false,
    };
    let mut key = table.partition_key().chain(table.clustering_key());
    for selector in &select.group_by {
        let name = grouping.item(selector)?;
        let column = named(table, name)?;
        loop {
            let Some(next) = key.next() else {
                return wrong_order();
            };
            if next.id == column.id {
                break;
            }
            if !restrictions.fixes(next) {
                return wrong_order();
            }
        }
        if select.distinct && column.kind == ColumnKind::Clustering {
            return invalid!(
                "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"
            );
        }
    }
    if select.group_by.is_empty() {
        return Ok(Vec::new());
    }
    if key
        .next()
        .is_some_and(|next| next.kind == ColumnKind::PartitionKey)
    {
        return invalid!("Group by is not supported on only a part of the partition key");
    }
    let mut parts = grouping.parts;
    for part in &parts {
        refuse_unordered(&part.node)?;
    }
    for column in table.partition_key() {
        parts.push(Common {
            node: Node::Slot(selection.slot_of(column)?),
            compared_as: None,
        });
    }
    Ok(parts)
}

fn wrong_order<T>() -> Result<T, CqlError> {
    invalid!(
        "Group by currently only support groups of columns following their declared order in the \
         PRIMARY KEY"
    )
}

/// The items of a `GROUP BY` up to the one at hand.
struct Grouping<'g, 'a> {
    analysis: &'g Analysis<'a>,
    table: &'g Arc<Table>,
    selection: &'g mut Selection,
    parts: Vec<Common>,
    after_function: bool,
}

impl Grouping<'_, '_> {
    /// Takes an item in; the column that it is about.
    fn item<'s>(&mut self, selector: &'s Selector) -> Result<&'s str, CqlError> {
        match selector {
            Selector::Column(name) => {
                let column = named(self.table, name)?;
                if matches!(column.kind, ColumnKind::Static | ColumnKind::Regular) {
                    return invalid!(
                        "Group by is currently only supported on the columns of the PRIMARY KEY, \
                         got {}",
                        column.name
                    );
                }
                if self.after_function {
                    return invalid!(
                        "Functions are only supported on the last element of the GROUP BY clause"
                    );
                }
                let slot = self.selection.slot_of(column)?;
                let is_clustering = column.kind == ColumnKind::Clustering;
                self.parts.push(Common {
                    node: Node::Slot(slot),
                    compared_as: is_clustering.then(|| column.ty.clone()),
                });
                Ok(name)
            }
            Selector::Function { .. }
            | Selector::CountRows
            | Selector::Operation { .. }
            | Selector::Negation(_) => self.function(selector),
            other => invalid!("Unsupported selector in GROUP BY: {other}"),
        }
    }

    fn function<'s>(&mut self, selector: &'s Selector) -> Result<&'s str, CqlError> {
        let node = self
            .selection
            .compile(self.analysis, self.table, selector)?;
        let mut columns = Vec::new();
        columns_of(selector, &mut columns);
        columns.dedup();
        let [only] = columns[..] else {
            if columns.is_empty() {
                return invalid!(
                    "GROUP BY functions must have one clustering column name as parameter"
                );
            }
            return invalid!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                columns.join(",")
            );
        };
        if named(self.table, only)?.kind != ColumnKind::Clustering {
            return invalid!(
                "Group by functions are only supported on clustering columns, got {only}"
            );
        }
        self.parts.push(Common {
            node,
            compared_as: None,
        });
        self.after_function = true;
        Ok(only)
    }
}

/// The columns within a selector, in the order of the text.
fn columns_of<'s>(selector: &'s Selector, columns: &mut Vec<&'s str>) {
    match selector {
        Selector::Column(name) => columns.push(name),
        Selector::Term(_) | Selector::CountRows => {}
        Selector::TypeHint(_, inner)
        | Selector::WriteTime(_, inner)
        | Selector::Cast(inner, _)
        | Selector::Negation(inner)
        | Selector::Field(inner, _)
        | Selector::Element(inner, _)
        | Selector::Slice(inner, ..) => columns_of(inner, columns),
        Selector::Parentheses(items)
        | Selector::List(items)
        | Selector::Set(items)
        | Selector::Function {
            arguments: items, ..
        } => items.iter().for_each(|item| columns_of(item, columns)),
        Selector::Map(entries) => {
            for (key, value) in entries {
                columns_of(key, columns);
                columns_of(value, columns);
            }
        }
        Selector::Operation { left, right, .. } => {
            columns_of(left, columns);
            columns_of(right, columns);
        }
    }
}

/// Equal results must lie together, or a group would begin again.
fn refuse_unordered(node: &Node) -> Result<(), CqlError> {
    let Node::Call(function, arguments) = node else {
        return Ok(());
    };
    // `floor` ascends with what it is of, if nothing else varies.
    let mut others = arguments.iter().skip(1);
    let alone = others.all(|argument| matches!(argument, Node::Term(_)));
    if !MONOTONIC.contains(&function.name()) || !alone {
        return invalid!(
            "Only monotonic functions are supported in the GROUP BY clause. Got: {} ",
            signature(function, arguments)
        );
    }
    arguments.iter().try_for_each(refuse_unordered)
}

/// `system.f : (int, int(constant)) -> int`
fn signature(function: &Scalar, arguments: &[Node]) -> String {
    let name = match function.name() {
        "token" => "token".to_owned(),
        name => format!("{}.{}", function.keyspace(), quote_identifier(name)),
    };
    let types = function.arguments().iter().zip(arguments);
    let types = types.map(|(ty, argument)| match argument {
        Node::Term(_) => format!("{}(constant)", argument_type(ty)),
        _ => argument_type(ty),
    });
    format!(
        "{name} : ({}) -> {}",
        types.collect::<Vec<_>>().join(", "),
        argument_type(function.result())
    )
}
