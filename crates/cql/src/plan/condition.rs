//! `IF …` of a write, analysed (`Conditions` and its kinds, `ColumnCondition.Raw.prepare`).

use bytes::Bytes;
use model::{Column, ColumnId, ColumnKind, CqlType, Table};

use crate::CqlError;
use crate::ast::{self, Comparison, ConditionTarget, ConditionValue, InValues};
use crate::error::invalid;
use crate::term::{Analysis, Bound, BoundList, Expression, Receiver, Request, prepare};

use super::bound_condition::{BoundCondition, BoundPart};
use super::restriction::column_of;

/// The conditions of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Conditions {
    /// No `IF`.
    None,
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF EXISTS`
    Exists,
    /// `IF a = b AND …`
    Columns {
        /// Those on regular columns, in the order of the text.
        regular: Vec<ColumnCondition>,
        /// Those on static columns, in the order of the text.
        statics: Vec<ColumnCondition>,
    },
}

/// A condition on a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnCondition {
    pub(crate) column: Column,
    part: Part,
    comparison: Comparison,
    values: Values,
}

/// What of the column.
#[derive(Clone, Debug)]
enum Part {
    /// All of it.
    Whole,
    /// The element at an index of a list, or at a key of a map.
    Element(Expression),
    /// A field of a user type.
    Field(u16),
}

/// What it is compared with.
#[derive(Clone, Debug)]
enum Values {
    /// A value, or each of those of IN.
    Terms(Vec<Expression>),
    /// A marker for the list of those of IN.
    Marker(Expression),
}

impl Conditions {
    /// Those of INSERT.
    pub(crate) fn of_insert(if_not_exists: bool) -> Conditions {
        match if_not_exists {
            true => Conditions::NotExists,
            false => Conditions::None,
        }
    }

    /// Those of UPDATE and DELETE. `has_timestamp`: does the statement say when it happens?
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: &Table,
        conditions: &ast::Conditions,
        has_timestamp: bool,
    ) -> Result<Conditions, CqlError> {
        let all = match conditions {
            ast::Conditions::None => return Ok(Conditions::None),
            ast::Conditions::Exists => return Ok(Conditions::Exists),
            ast::Conditions::All(all) => all,
        };
        refuse_timestamp(has_timestamp)?;
        let (mut regular, mut statics) = (Vec::new(), Vec::new());
        for condition in all {
            let column = column_of(table, &condition.column)?;
            let condition = ColumnCondition::new(analysis, column, condition)?;
            match column.kind {
                ColumnKind::Static => statics.push(condition),
                ColumnKind::Regular => regular.push(condition),
                ColumnKind::PartitionKey | ColumnKind::Clustering => {
                    return invalid!(
                        "PRIMARY KEY column '{}' cannot have IF conditions",
                        column.name
                    );
                }
            }
        }
        Ok(Conditions::Columns { regular, statics })
    }

    /// No `IF`?
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Conditions::None)
    }

    /// Is there one on a regular column?
    pub(crate) fn look_at_regulars(&self) -> bool {
        matches!(self, Conditions::Columns { regular, .. } if !regular.is_empty())
    }

    /// Is there one on a static column?
    pub(crate) fn look_at_statics(&self) -> bool {
        matches!(self, Conditions::Columns { statics, .. } if !statics.is_empty())
    }

    /// The columns that are looked at, in the order in which clients are shown them; `None` where
    /// it is whole rows that are asked for.
    pub(crate) fn columns(&self) -> Option<Vec<ColumnId>> {
        match self {
            Conditions::None => Some(Vec::new()),
            Conditions::NotExists | Conditions::Exists => None,
            Conditions::Columns { regular, statics } => {
                let all = regular.iter().chain(statics);
                Some(all.map(|condition| condition.column.id).collect())
            }
        }
    }
}

/// When a conditional write happens is for Paxos to say.
pub(crate) fn refuse_timestamp(has_timestamp: bool) -> Result<(), CqlError> {
    if has_timestamp {
        return invalid!("Cannot provide custom timestamp for conditional updates");
    }
    Ok(())
}

impl ColumnCondition {
    fn new(
        analysis: &Analysis<'_>,
        column: &Column,
        condition: &ast::Condition,
    ) -> Result<ColumnCondition, CqlError> {
        if column.ty.is_counter() {
            return invalid!("Conditions on counters are not supported");
        }
        let comparison = condition.comparison;
        let (part, receiver) = match &condition.target {
            ConditionTarget::Column => (Part::Whole, Receiver::of(column)),
            ConditionTarget::Element(key) => element(analysis, column, key)?,
            ConditionTarget::Field(field) => field_of(column, field)?,
        };
        refuse_order_of_durations(&receiver.ty, comparison)?;
        let receiver = contents(column, receiver, comparison)?;
        let values = match &condition.value {
            ConditionValue::Term(term) => Values::Terms(vec![prepare(analysis, term, &receiver)?]),
            ConditionValue::In(InValues::Terms(terms)) => {
                let terms = terms.iter().map(|term| prepare(analysis, term, &receiver));
                Values::Terms(terms.collect::<Result<_, _>>()?)
            }
            ConditionValue::In(InValues::Marker(marker)) => {
                let list = CqlType::List {
                    element: receiver.ty.clone().into(),
                    frozen: false,
                };
                let list = Receiver::new(format!("in({})", receiver.name), list);
                Values::Marker(analysis.marker(marker, &list))
            }
        };
        Ok(ColumnCondition {
            column: column.clone(),
            part,
            comparison,
            values,
        })
    }

    /// The condition of one execution. What could not be compared with anything is refused here,
    /// whatever the row holds.
    pub(crate) fn bind(&self, request: &Request<'_>) -> Result<BoundCondition<'_>, CqlError> {
        let part = match &self.part {
            Part::Whole => BoundPart::Whole,
            Part::Field(index) => BoundPart::Field(*index),
            Part::Element(key) => {
                let is_map = matches!(self.column.ty, CqlType::Map { .. });
                let kind = if is_map { "map" } else { "list" };
                match key.evaluate(request)? {
                    Bound::Value(key) => BoundPart::Element(key),
                    // Cassandra looks for a key without bytes.
                    Bound::Unset if is_map => BoundPart::Element(Bytes::new()),
                    Bound::Null => return invalid!("Invalid null value for {kind} element access"),
                    Bound::Unset => {
                        return invalid!("Invalid unset value for {kind} element access");
                    }
                }
            }
        };
        let is_in = self.comparison == Comparison::In;
        // Of a collection of many cells Cassandra looks for an element without bytes.
        let looks_at_cells = matches!(
            self.comparison,
            Comparison::Contains | Comparison::ContainsKey
        ) && self.column.ty.is_multi_cell();
        let mut values = Vec::new();
        match &self.values {
            Values::Terms(terms) => {
                for term in terms {
                    match term.evaluate(request)? {
                        Bound::Value(value) => values.push(Some(value)),
                        Bound::Null => values.push(None),
                        Bound::Unset if is_in => {}
                        Bound::Unset if looks_at_cells => values.push(Some(Bytes::new())),
                        Bound::Unset => return invalid!("Invalid 'unset' value in condition"),
                    }
                }
            }
            Values::Marker(marker) => match marker.evaluate_list(request)? {
                BoundList::Values(all) => values = all,
                BoundList::Null => return invalid!("Invalid null list in IN condition"),
                BoundList::Unset => return invalid!("Invalid 'unset' value in condition"),
            },
        }
        // To be one of several values is to be equal to one of them.
        let comparison = if is_in {
            Comparison::Equal
        } else {
            self.comparison
        };
        BoundCondition::new(&self.column, part, comparison, values)
    }
}

/// `column[key]`: what the key must be, and what its value.
fn element(
    analysis: &Analysis<'_>,
    column: &Column,
    key: &ast::Term,
) -> Result<(Part, Receiver), CqlError> {
    let name = &column.name;
    let (what, key_type, value_type) = match &column.ty {
        CqlType::List { element, .. } => ("idx", &CqlType::Int, element),
        CqlType::Map { key, value, .. } => ("key", &**key, value),
        CqlType::Set { .. } => {
            return invalid!("Invalid element access syntax for set column {name}");
        }
        _ => return invalid!("Invalid element access syntax for non-collection column {name}"),
    };
    let key_receiver = Receiver::new(format!("{what}({name})"), key_type.clone());
    let value = Receiver::new(format!("value({name})"), (**value_type).clone());
    let key = prepare(analysis, key, &key_receiver)?;
    Ok((Part::Element(key), value))
}

/// `column.field`: which field, and what its value must be.
fn field_of(column: &Column, field: &str) -> Result<(Part, Receiver), CqlError> {
    let name = &column.name;
    let CqlType::Udt { definition, .. } = &column.ty else {
        return invalid!("Invalid field access syntax for non-UDT column {name}");
    };
    let mut fields = definition.fields.iter();
    let Some(index) = fields.position(|(known, _)| **known == *field) else {
        return invalid!("Unknown field {field} for column {name}");
    };
    let ty = definition.fields[index].1.clone();
    let receiver = Receiver::new(format!("{name}.{field}"), ty);
    Ok((Part::Field(index as u16), receiver))
}

/// CONTAINS compares with a part of what the receiver holds.
fn contents(
    column: &Column,
    receiver: Receiver,
    comparison: Comparison,
) -> Result<Receiver, CqlError> {
    let name = &column.name;
    let (what, ty) = match (comparison, &receiver.ty) {
        (Comparison::ContainsKey, CqlType::Map { key, .. }) => ("key", key),
        (Comparison::ContainsKey, _) => {
            return invalid!("Cannot use CONTAINS KEY on non-map column {name}");
        }
        (Comparison::Contains, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
            ("value", element)
        }
        (Comparison::Contains, CqlType::Map { value, .. }) => ("value", value),
        (Comparison::Contains, _) => {
            return invalid!("Cannot use CONTAINS on non-collection column {name}");
        }
        _ => return Ok(receiver),
    };
    Ok(Receiver::new(format!("{what}({name})"), (**ty).clone()))
}

fn refuse_order_of_durations(ty: &CqlType, comparison: Comparison) -> Result<(), CqlError> {
    let is_slice = matches!(
        comparison,
        Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual
    );
    if !is_slice || !ty.has(&CqlType::Duration) {
        return Ok(());
    }
    let what = match ty {
        ty if ty.is_collection() => "collections",
        CqlType::Tuple(_) => "tuples",
        CqlType::Udt { .. } => "UDTs",
        _ => {
            return invalid!(
                "Slice conditions ( {} ) are not supported on durations",
                comparison.symbol()
            );
        }
    };
    invalid!("Slice conditions are not supported on {what} containing durations")
}
