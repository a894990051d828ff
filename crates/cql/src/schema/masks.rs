//! `MASKED WITH`: which function may stand before the values of a column (`ColumnMask.Raw`).
//!
//! Whoever may not see a column's values is shown what its mask makes of them. Without users everybody
//! may see all, so that a mask is kept, checked and described, and never called.

use std::fmt;
use std::sync::Arc;

use model::{ColumnMask, CqlType, Keyspace, Order, Schema, Table, UserFunction, signature};

use super::tables::invalid;
use crate::CqlError;
use crate::ast::{AlterTableAction, Mask, Statement};
use crate::functions::{Argument, Assignment, Function, Receiver, SYSTEM, assign_type, resolve};
use crate::term::{Analysis, TermArgument, constant};

/// The functions of `system` that may be masks (`MaskingFcts`).
const MASKING: [&str; 6] = [
    "mask_default",
    "mask_hash",
    "mask_inner",
    "mask_null",
    "mask_outer",
    "mask_replace",
];

/// What a statement that gives a column a mask is told where `dynamic_data_masking_enabled` is off.
pub fn masks_disabled() -> CqlError {
    CqlError::Invalid(
        "Cannot mask columns because dynamic data masking is not enabled. You can enable it with \
         the dynamic_data_masking_enabled property on cassandra.yaml"
            .to_owned(),
    )
}

/// Does the statement give a column a mask?
pub(super) fn gives_mask(statement: &Statement) -> bool {
    let columns = match statement {
        Statement::CreateTable(create) => &create.columns,
        Statement::AlterTable(alter) => match &alter.action {
            AlterTableAction::Add { columns, .. } => columns,
            AlterTableAction::Mask { mask, .. } => return mask.is_some(),
            _ => return false,
        },
        _ => return false,
    };
    columns.iter().any(|column| column.mask.is_some())
}

/// The column that gets a mask.
#[derive(Clone, Copy)]
pub(super) struct MaskedColumn<'a> {
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    pub(super) ty: &'a CqlType,
    pub(super) order: Order,
}

/// A value of the column, as the first argument of its mask. In messages it is Java's name of its type.
struct MaskedValue<'a>(MaskedColumn<'a>);

impl fmt::Display for MaskedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.0.ty.to_marshal();
        match self.0.order {
            Order::Ascending => f.write_str(&class),
            Order::Descending => write!(f, "org.apache.cassandra.db.marshal.ReversedType({class})"),
        }
    }
}

impl Argument for MaskedValue<'_> {
    fn assignment(&self, ty: &CqlType) -> Assignment {
        assign_type(self.0.ty, ty)
    }

    fn exact_type(&self) -> Option<CqlType> {
        Some(self.0.ty.clone())
    }
}

/// The mask that is written, checked.
pub(super) fn prepare(
    schema: &Schema,
    keyspace: &Keyspace,
    column: MaskedColumn<'_>,
    mask: &Mask,
) -> Result<ColumnMask, CqlError> {
    let analysis = Analysis::of_keyspace(&keyspace.name, &keyspace.types).in_schema(schema);
    let function = find(&analysis, keyspace, column, mask)?;
    let types = function.arguments().iter().skip(1);
    let arguments = mask.arguments.iter().zip(types).map(|(term, ty)| {
        let value = constant(&keyspace.name, &keyspace.types, term, ty)?;
        // Functions know frozen types alone, `system_schema` has the column's own.
        let ty = match *ty == column.ty.freeze() {
            true => column.ty.clone(),
            false => ty.clone(),
        };
        Ok((ty, value))
    });
    Ok(ColumnMask {
        keyspace: Arc::from(function.keyspace()),
        function: Arc::from(function.name()),
        arguments: arguments.collect::<Result<_, CqlError>>()?,
    })
}

fn find(
    analysis: &Analysis<'_>,
    keyspace: &Keyspace,
    column: MaskedColumn<'_>,
    mask: &Mask,
) -> Result<Function, CqlError> {
    let value = MaskedValue(column);
    let terms = mask.arguments.iter();
    let terms: Vec<TermArgument<'_>> = terms.map(|term| TermArgument { analysis, term }).collect();
    let mut arguments: Vec<&dyn Argument> = vec![&value];
    arguments.extend(terms.iter().map(|term| term as &dyn Argument));
    let receiver = Receiver {
        ty: Some(column.ty),
        partition_key: &[],
        users: analysis.users(),
    };
    let called = &mask.function;
    let found = resolve(
        called.keyspace.as_deref(),
        &called.name,
        &arguments,
        receiver,
    )?;
    let Some(function) = found else {
        return invalid(format!(
            "Unable to find masking function for {}, no declared function matches the signature \
             {mask}",
            column.name
        ));
    };
    if matches!(function, Function::Aggregate(_)) {
        return invalid(format!(
            "Aggregate function {mask} cannot be used for masking table columns"
        ));
    }
    let is_native = function.keyspace() == SYSTEM;
    if is_native && !MASKING.contains(&function.name()) {
        return invalid(format!(
            "Not-masking function {mask} cannot be used for masking table columns"
        ));
    }
    if !is_native && function.keyspace() != &*keyspace.name {
        return invalid(format!(
            "Masking function {mask} doesn't belong to the same keyspace as the table {}.{}",
            keyspace.name, column.table
        ));
    }
    if function.result().freeze() != column.ty.freeze() {
        return invalid(format!(
            "Masking function {mask} return type is {}. This is different to the type of the \
             masked column {} of type {}. Masking functions can only be attached to table columns \
             if they return the same data type as the masked column.",
            function.result(),
            column.name,
            column.ty
        ));
    }
    Ok(function)
}

/// Does it call the function of a user that has this name and these types of arguments?
pub(super) fn calls(mask: &ColumnMask, ty: &CqlType, function: &UserFunction) -> bool {
    let signature_of = |types: &[CqlType]| signature(&mask.function, types);
    mask.keyspace == function.keyspace
        && mask.function == function.name
        && signature_of(&types_of(mask, ty)) == signature_of(&function.argument_types)
}

/// The types of all arguments of a mask on a column of type `ty`.
fn types_of(mask: &ColumnMask, ty: &CqlType) -> Vec<CqlType> {
    let others = mask.arguments.iter().map(|(ty, _)| ty.clone());
    [ty.clone()].into_iter().chain(others).collect()
}

/// Is the function of a mask that `system_schema` has on a column of type `ty` one that is there?
pub fn is_mask_served(keyspace: &Keyspace, mask: &ColumnMask, ty: &CqlType) -> bool {
    if &*mask.keyspace == SYSTEM {
        return MASKING.contains(&&*mask.function);
    }
    let mut functions = keyspace.functions.scalars_named(&mask.function);
    functions.any(|function| calls(mask, ty, function))
}

/// The tables with a column whose mask calls this function.
pub(super) fn tables_using<'k>(keyspace: &'k Keyspace, function: &UserFunction) -> Vec<&'k str> {
    let uses = |table: &&Arc<Table>| {
        table.masks.iter().any(|(name, mask)| {
            let column = table.column_named(name);
            column.is_some_and(|column| calls(mask, &column.ty, function))
        })
    };
    let tables = keyspace.tables.values().filter(uses);
    tables.map(|table| &*table.name).collect()
}
