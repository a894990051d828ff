//! What a write does to one column (`Operation`, `Constants`, `Lists`, `Sets`, `Maps`,
//! `UserTypes`).

use std::sync::Arc;

use model::{Column, ColumnKind, CqlType, Table};

use crate::CqlError;
use crate::ast::{ArithmeticOperator, Deletion, Operation, Term};
use crate::error::invalid;
use crate::functions::Scalar;
use crate::term::{Analysis, Expression, Receiver, operation_of, prepare};

use super::restriction::column_of;

/// What happens to a column.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// It gets this value; a multi-cell one loses what it had.
    Set(Expression),
    /// This is added to a counter.
    Increment(Expression),
    /// This is taken from a counter.
    Decrement(Expression),
    /// This is added to a number or a text, by a function of both. Needs the value.
    Plus(Arc<Scalar>, Expression),
    /// Elements are added to the end of a list.
    Append(Expression),
    /// Elements are added to the beginning of a list.
    Prepend(Expression),
    /// Elements with these values leave a list. Needs the list.
    Discard(Expression),
    /// Elements or entries are added to a set or map.
    Add(Expression),
    /// The elements, or the entries with these keys, leave a set or map.
    Remove(Expression),
    /// The element at an index of a list gets a value. Needs the list.
    SetIndex(Expression, Expression),
    /// The entry of a key of a map gets a value.
    SetEntry(Expression, Expression),
    /// A field of a user type gets a value.
    SetField(u16, Expression),
    /// It is deleted.
    Delete,
    /// The element at an index leaves a list. Needs the list.
    DeleteIndex(Expression),
    /// An element, or the entry of a key, leaves a set or map. Messages call it so.
    DeleteElement(Expression, &'static str),
    /// A field of a user type is deleted.
    DeleteField(u16),
}

/// An action on a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnAction {
    pub(crate) column: Column,
    pub(crate) action: Action,
}

impl ColumnAction {
    /// Does it depend on what the column holds?
    pub(crate) fn needs_read(&self) -> bool {
        matches!(
            self.action,
            Action::Plus(..) | Action::Discard(_) | Action::SetIndex(..) | Action::DeleteIndex(_)
        )
    }

    /// `column = value` of INSERT and UPDATE.
    pub(crate) fn set(
        analysis: &Analysis<'_>,
        column: &Column,
        term: &Term,
    ) -> Result<ColumnAction, CqlError> {
        let value = prepare(analysis, term, &Receiver::of(column))?;
        if column.ty.is_counter() {
            return invalid!(
                "Cannot set the value of counter column {} (counters can only be \
                 incremented/decremented, not set)",
                column.name
            );
        }
        Ok(ColumnAction {
            column: column.clone(),
            action: Action::Set(value),
        })
    }

    /// An item of SET. `is_conditional`: is it known what is added to?
    pub(crate) fn update(
        analysis: &Analysis<'_>,
        table: &Table,
        name: &str,
        operation: &Operation,
        is_conditional: bool,
    ) -> Result<ColumnAction, CqlError> {
        let column = column_of(table, name)?;
        if is_key(column) {
            return invalid!("PRIMARY KEY part {name} found in SET part");
        }
        let receiver = Receiver::of(column);
        let action = match operation {
            Operation::Set(term) => return ColumnAction::set(analysis, column, term),
            Operation::SetElement(key, value) => set_element(analysis, column, key, value)?,
            Operation::SetField(field, value) => {
                let shown = || format!("{name}.{field} = {value}");
                let (index, ty) = field_of(column, field, shown)?;
                let inner = Receiver::new(format!("{name}.{field}"), ty);
                Action::SetField(index, prepare(analysis, value, &inner)?)
            }
            Operation::Add(term) => add(analysis, column, term, &receiver, is_conditional)?,
            Operation::Subtract(term) => subtract(analysis, column, term, &receiver)?,
            Operation::Prepend(term) => prepend(analysis, column, term, &receiver)?,
        };
        Ok(ColumnAction {
            column: column.clone(),
            action,
        })
    }

    /// An item of DELETE.
    pub(crate) fn delete(
        analysis: &Analysis<'_>,
        table: &Table,
        deletion: &Deletion,
    ) -> Result<ColumnAction, CqlError> {
        let (Deletion::Column(name) | Deletion::Element(name, _) | Deletion::Field(name, _)) =
            deletion;
        let column = column_of(table, name)?;
        if is_key(column) {
            return invalid!(
                "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
            );
        }
        let action = match deletion {
            Deletion::Column(_) => Action::Delete,
            Deletion::Element(_, key) => delete_element(analysis, column, key)?,
            Deletion::Field(_, field) => match &column.ty {
                CqlType::Udt { frozen: true, .. } => {
                    return invalid!("Frozen UDT column {name} does not support field deletions");
                }
                CqlType::Udt { .. } => Action::DeleteField(field_of(column, field, String::new)?.0),
                _ => {
                    return invalid!("Invalid field deletion operation for non-UDT column {name}");
                }
            },
        };
        Ok(ColumnAction {
            column: column.clone(),
            action,
        })
    }
}

fn is_key(column: &Column) -> bool {
    matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    )
}

/// The number and type of a field of a column that is a user type.
fn field_of(
    column: &Column,
    field: &str,
    shown: impl FnOnce() -> String,
) -> Result<(u16, CqlType), CqlError> {
    let name = &column.name;
    let CqlType::Udt { definition, frozen } = &column.ty else {
        return invalid!("Invalid operation ({}) for non-UDT column {name}", shown());
    };
    if *frozen {
        return invalid!(
            "Invalid operation ({}) for frozen UDT column {name}",
            shown()
        );
    }
    match definition
        .fields
        .iter()
        .position(|(known, _)| **known == *field)
    {
        Some(index) => Ok((index as u16, definition.fields[index].1.clone())),
        None => invalid!("UDT column {name} does not have a field named {field}"),
    }
}

fn set_element(
    analysis: &Analysis<'_>,
    column: &Column,
    key: &Term,
    value: &Term,
) -> Result<Action, CqlError> {
    let name = &column.name;
    let shown = format!("{name}[{key}] = {value}");
    if column.ty.is_collection() && !column.ty.is_multi_cell() {
        return invalid!("Invalid operation ({shown}) for frozen collection column {name}");
    }
    let part = |what: &str, ty: &CqlType| Receiver::new(format!("{what}({name})"), ty.clone());
    match &column.ty {
        CqlType::List { element, .. } => Ok(Action::SetIndex(
            prepare(analysis, key, &part("idx", &CqlType::Int))?,
            prepare(analysis, value, &part("value", element))?,
        )),
        CqlType::Map {
            key: key_type,
            value: value_type,
            ..
        } => Ok(Action::SetEntry(
            prepare(analysis, key, &part("key", key_type))?,
            prepare(analysis, value, &part("value", value_type))?,
        )),
        CqlType::Set { .. } => {
            invalid!("Invalid operation ({shown}) for set column {name}")
        }
        _ => invalid!("Invalid operation ({shown}) for non collection column {name}"),
    }
}

/// `column = value + column`; messages show it as Cassandra does.
fn prepend(
    analysis: &Analysis<'_>,
    column: &Column,
    term: &Term,
    receiver: &Receiver,
) -> Result<Action, CqlError> {
    let name = &column.name;
    let shown = format!("{name} = {term} - {name}");
    let value = prepare(analysis, term, receiver)?;
    match &column.ty {
        CqlType::List { frozen: true, .. } => {
            invalid!("Invalid operation ({shown}) for frozen list column {name}")
        }
        CqlType::List { .. } => Ok(Action::Prepend(value)),
        _ => invalid!("Invalid operation ({shown}) for non list column {name}"),
    }
}

/// `+` and `-` need a collection whose elements are cells of their own.
fn check_multi_cell(column: &Column, shown: &str) -> Result<(), CqlError> {
    if !column.ty.is_multi_cell() {
        return invalid!(
            "Invalid operation ({shown}) for frozen collection column {}",
            column.name
        );
    }
    Ok(())
}

fn add(
    analysis: &Analysis<'_>,
    column: &Column,
    term: &Term,
    receiver: &Receiver,
    is_conditional: bool,
) -> Result<Action, CqlError> {
    let name = &column.name;
    let shown = format!("{name} = {name} + {term}");
    match &column.ty {
        CqlType::Tuple(_) | CqlType::Udt { .. } => {
            return invalid!("Invalid operation ({shown}) for tuple column {name}");
        }
        ty if ty.is_counter() => {
            return Ok(Action::Increment(prepare(analysis, term, receiver)?));
        }
        ty if !ty.is_collection() && is_conditional => {
            let Some(function) = plus(ty) else {
                return invalid!(
                    "Invalid operation ({shown}) for non-numeric and non-text type {name}"
                );
            };
            let value = prepare(analysis, term, receiver)?;
            return Ok(Action::Plus(function.into(), value));
        }
        ty if !ty.is_collection() => {
            return invalid!("Invalid operation ({shown}) for non counter column {name}");
        }
        _ => check_multi_cell(column, &shown)?,
    }
    match &column.ty {
        CqlType::List { .. } => Ok(Action::Append(prepare(analysis, term, receiver)?)),
        CqlType::Map { .. } => match prepare(analysis, term, receiver) {
            Ok(value) => Ok(Action::Add(value)),
            Err(_) => invalid!("Value for a map addition has to be a map, but was: '{term}'"),
        },
        _ => Ok(Action::Add(prepare(analysis, term, receiver)?)),
    }
}

/// The function that adds two values of a type.
fn plus(ty: &CqlType) -> Option<Scalar> {
    operation_of(ArithmeticOperator::Add, ty, ty).filter(|function| function.result() == ty)
}

fn subtract(
    analysis: &Analysis<'_>,
    column: &Column,
    term: &Term,
    receiver: &Receiver,
) -> Result<Action, CqlError> {
    let name = &column.name;
    let shown = format!("{name} = {name} - {term}");
    if column.ty.is_counter() {
        return Ok(Action::Decrement(prepare(analysis, term, receiver)?));
    }
    if !column.ty.is_collection() {
        return invalid!("Invalid operation ({shown}) for non counter column {name}");
    }
    check_multi_cell(column, &shown)?;
    match &column.ty {
        CqlType::List { .. } => Ok(Action::Discard(prepare(analysis, term, receiver)?)),
        CqlType::Map { key, .. } => {
            let keys = CqlType::Set {
                element: key.clone(),
                frozen: false,
            };
            let receiver = Receiver::new(name.clone(), keys);
            match prepare(analysis, term, &receiver) {
                Ok(keys) => Ok(Action::Remove(keys)),
                Err(_) => {
                    invalid!("Value for a map substraction has to be a set, but was: '{term}'")
                }
            }
        }
        _ => Ok(Action::Remove(prepare(analysis, term, receiver)?)),
    }
}

fn delete_element(
    analysis: &Analysis<'_>,
    column: &Column,
    key: &Term,
) -> Result<Action, CqlError> {
    let name = &column.name;
    if !column.ty.is_collection() {
        return invalid!("Invalid deletion operation for non collection column {name}");
    }
    if !column.ty.is_multi_cell() {
        return invalid!("Invalid deletion operation for frozen collection column {name}");
    }
    let part = |what: &str, ty: &CqlType| Receiver::new(format!("{what}({name})"), ty.clone());
    match &column.ty {
        CqlType::List { .. } => {
            let index = prepare(analysis, key, &part("idx", &CqlType::Int))?;
            Ok(Action::DeleteIndex(index))
        }
        CqlType::Map { key: ty, .. } => {
            let key = prepare(analysis, key, &part("key", ty))?;
            Ok(Action::DeleteElement(key, "map key"))
        }
        CqlType::Set { element, .. } => {
            let element = prepare(analysis, key, &part("value", element))?;
            Ok(Action::DeleteElement(element, "set element"))
        }
        _ => invalid!("Invalid deletion operation for non collection column {name}"),
    }
}
