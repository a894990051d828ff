//! CREATE, ALTER and DROP TYPE.

use std::sync::Arc;

use model::{CqlType, Keyspace, Schema, UserType};

use super::table_changes::Parts;
use super::tables::invalid;
use super::types::{UserTypes, check_size};
use super::{
    ChangeKind, ChangeTarget, SchemaChange, changed, keyspace_of, unchanged, unserved,
    with_keyspace,
};
use crate::CqlError;
use crate::ast::{AlterType, AlterTypeAction, CreateType, DataType, Drop};

/// What no field of a user type may be.
fn check_field(ty: &DataType) -> Result<(), CqlError> {
    if ty.is_counter() {
        return invalid("A user type cannot contain counters".to_owned());
    }
    if ty.is_unfrozen_user_type() {
        return invalid("A user type cannot contain non-frozen UDTs".to_owned());
    }
    Ok(())
}

pub(super) fn create(schema: &Schema, statement: &CreateType) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&statement.name), statement.name.name.as_str());
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return invalid(format!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    if keyspace.types.contains_key(name) {
        if statement.if_not_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!("A user type with name '{name}' already exists"));
    }
    unserved::check_type(keyspace, name)?;
    let mut fields: Vec<(Arc<str>, CqlType)> = Vec::new();
    for (field, _) in &statement.fields {
        if fields.iter().any(|(known, _)| **known == **field) {
            return invalid(format!("Duplicate field name '{field}' in type '{name}'"));
        }
        fields.push((Arc::from(field.as_str()), CqlType::Empty));
    }
    for (_, ty) in &statement.fields {
        check_field(ty)?;
    }
    for ((_, ty), (_, field)) in statement.fields.iter().zip(&mut fields) {
        *field = ty.resolve(keyspace_name, &keyspace.types)?;
    }
    let mut keyspace = Keyspace::clone(keyspace);
    let user_type = UserType {
        keyspace: keyspace.name.clone(),
        name: Arc::from(name),
        fields,
    };
    keyspace
        .types
        .insert(user_type.name.clone(), Arc::new(user_type));
    Ok(changed(
        with_keyspace(schema, keyspace),
        ChangeKind::Created,
        ChangeTarget::Type,
        keyspace_name,
        name,
    ))
}

pub(super) fn alter(schema: &Schema, statement: &AlterType) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&statement.name), statement.name.name.as_str());
    let keyspace = schema.keyspaces.get(keyspace_name);
    if let Some(keyspace) = keyspace {
        unserved::check_type(keyspace, name)?;
    }
    let found = keyspace.and_then(|k| k.types.get(name).map(|ty| (k, ty)));
    let Some((keyspace, previous)) = found else {
        if statement.if_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!("Type {keyspace_name}.{name} doesn't exist"));
    };
    let altered = match &statement.action {
        AlterTypeAction::AlterField { .. } => {
            return invalid("Altering field types is no longer supported".to_owned());
        }
        AlterTypeAction::Add {
            if_not_exists,
            field,
            ty,
        } => add_field(keyspace, previous, field, ty, *if_not_exists)?,
        AlterTypeAction::Rename { if_exists, renames } => {
            unserved::check_rename_fields(keyspace, name)?;
            check_initial_conditions(keyspace, name)?;
            rename_fields(previous, renames, *if_exists)?
        }
    };
    let redefined = redefine(keyspace, altered);
    if let AlterTypeAction::Add { .. } = statement.action {
        check_users(&redefined, name)?;
    }
    Ok(changed(
        with_keyspace(schema, redefined),
        ChangeKind::Updated,
        ChangeTarget::Type,
        keyspace_name,
        name,
    ))
}

fn add_field(
    keyspace: &Keyspace,
    previous: &UserType,
    field: &str,
    ty: &DataType,
    if_not_exists: bool,
) -> Result<UserType, CqlError> {
    let shown = format!("{}.{}", keyspace.name, previous.name);
    check_field(ty)?;
    if previous.fields.iter().any(|(known, _)| **known == *field) {
        if if_not_exists {
            return Ok(previous.clone());
        }
        return invalid(format!(
            "Cannot add field {field} to type {shown}: a field with name {field} already exists"
        ));
    }
    let resolved = ty.resolve(&keyspace.name, &keyspace.types)?;
    let ty = ty.qualified(&keyspace.name);
    if uses(&resolved, &previous.name) {
        return invalid(format!(
            "Cannot add new field {field} of type {ty} to user type {shown} as it would create a \
             circular reference"
        ));
    }
    let tables: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| {
            table
                .partition_key()
                .any(|column| uses(&column.ty, &previous.name))
        })
        .map(|table| format!("{}.{}", table.keyspace, table.name))
        .collect();
    if !tables.is_empty() {
        return invalid(format!(
            "Cannot add new field {field} of type {ty} to user type {shown} as the type is being \
             used in partition key by the following tables: {}",
            tables.join(", ")
        ));
    }
    let mut altered = previous.clone();
    altered.fields.push((Arc::from(field), resolved));
    Ok(altered)
}

/// A field makes all that uses its type larger, too.
fn check_users(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    let fields = keyspace.types.values().flat_map(|user_type| {
        let fields = user_type.fields.iter();
        fields.map(|(field, ty)| (&user_type.name, field, ty))
    });
    let columns = keyspace.tables.values().flat_map(|table| {
        let columns = table.columns();
        columns.map(|column| (&table.name, &column.name, &column.ty))
    });
    for (of, part, ty) in fields.chain(columns).filter(|(.., ty)| uses(ty, name)) {
        let shown = format_args!(
            "With this field the type of {part} of {}.{of}",
            keyspace.name
        );
        check_size(ty, shown)?;
    }
    Ok(())
}

fn rename_fields(
    previous: &UserType,
    renames: &[(String, String)],
    if_exists: bool,
) -> Result<UserType, CqlError> {
    let mut altered = previous.clone();
    for (old, new) in renames {
        let position = previous.fields.iter().position(|(name, _)| **name == **old);
        match position {
            Some(position) => altered.fields[position].0 = Arc::from(new.as_str()),
            None if if_exists => {}
            None => {
                // Spelt as Cassandra spells it.
                return invalid(format!(
                    "Unkown field {old} in user type {}.{}",
                    previous.keyspace, previous.name
                ));
            }
        }
    }
    for (i, (name, _)) in altered.fields.iter().enumerate() {
        if altered.fields[..i].iter().any(|(other, _)| other == name) {
            return invalid(format!(
                "Duplicate field name {name} in type {}",
                previous.keyspace
            ));
        }
    }
    Ok(altered)
}

pub(super) fn drop(schema: &Schema, statement: &Drop) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&statement.name), statement.name.name.as_str());
    let keyspace = schema.keyspaces.get(keyspace_name);
    if let Some(keyspace) = keyspace {
        unserved::check_type(keyspace, name)?;
    }
    let Some(keyspace) = keyspace.filter(|k| k.types.contains_key(name)) else {
        if statement.if_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!("Type '{keyspace_name}.{name}' doesn't exist"));
    };
    let in_use = |users: &[&str], what: &str| {
        if users.is_empty() {
            return Ok(());
        }
        invalid(format!(
            "Cannot drop user type '{keyspace_name}.{name}' as it is still used by {what} {}",
            users.join(", ")
        ))
    };
    let (functions, mut types, mut tables) = unserved::users_of_type(keyspace, name);
    let served = users_among_functions(keyspace, name);
    let functions: Vec<&str> = served
        .iter()
        .chain(&functions)
        .map(String::as_str)
        .collect();
    in_use(&functions, "functions")?;
    let served = keyspace.types.values();
    types.extend(
        served
            .filter(|ty| ty.fields.iter().any(|(_, field)| uses(field, name)))
            .map(|ty| &*ty.name),
    );
    in_use(&types, "user types")?;
    // A view has its types from its table.
    let served = keyspace
        .tables
        .values()
        .filter(|table| table.view.is_none());
    tables.extend(
        served
            .filter(|table| table.columns().any(|column| uses(&column.ty, name)))
            .map(|table| &*table.name),
    );
    in_use(&tables, "tables")?;
    let mut rest = Keyspace::clone(keyspace);
    rest.types.remove(name);
    Ok(changed(
        with_keyspace(schema, rest),
        ChangeKind::Dropped,
        ChangeTarget::Type,
        keyspace_name,
        name,
    ))
}

/// The functions and aggregates that use a type.
fn users_among_functions(keyspace: &Keyspace, name: &str) -> Vec<String> {
    let used = |types: &[CqlType]| types.iter().any(|ty| uses(ty, name));
    let shown = |of: &str| format!("{}.{of}", keyspace.name);
    let scalars = keyspace.functions.scalars.values();
    let scalars = scalars
        .filter(|f| used(&f.argument_types) || uses(&f.return_type, name))
        .map(|f| shown(&f.name));
    let aggregates = keyspace.functions.aggregates.values();
    let aggregates = aggregates
        .filter(|a| {
            used(&a.argument_types) || uses(&a.return_type, name) || uses(&a.state_type, name)
        })
        .map(|a| shown(&a.name));
    scalars.chain(aggregates).collect()
}

/// Refuses to rename fields of a type that an INITCOND names.
fn check_initial_conditions(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    let aggregates = keyspace.functions.aggregates.values();
    let aggregates: Vec<String> = aggregates
        .filter(|a| a.initial.is_some() && uses(&a.state_type, name))
        .map(|a| format!("{}.{}", keyspace.name, a.name))
        .collect();
    if aggregates.is_empty() {
        return Ok(());
    }
    invalid(format!(
        "Cannot alter user type {}.{name} as it is still used in INITCOND by aggregates {}",
        keyspace.name,
        aggregates.join(", ")
    ))
}

/// Does a type refer to the user type of this name, itself or through other user types?
pub(super) fn uses(ty: &CqlType, name: &str) -> bool {
    ty.any(&|part| matches!(part, CqlType::Udt { definition, .. } if *definition.name == *name))
}

/// The keyspace with a user type redefined, and with it all types and tables that use it.
fn redefine(keyspace: &Keyspace, altered: UserType) -> Keyspace {
    let mut result = keyspace.clone();
    let altered = Arc::new(altered);
    result.types.insert(altered.name.clone(), altered.clone());
    // A type that uses a type that uses it … takes a round each; they cannot go in circles.
    for _ in 0..result.types.len() {
        let known = result.types.clone();
        for user_type in result.types.values_mut() {
            let fields: Vec<(Arc<str>, CqlType)> = user_type
                .fields
                .iter()
                .map(|(name, ty)| (name.clone(), substitute(ty, &known)))
                .collect();
            if fields != user_type.fields {
                *user_type = Arc::new(UserType {
                    fields,
                    ..UserType::clone(user_type)
                });
            }
        }
        if known == result.types {
            break;
        }
    }
    for table in result.tables.values_mut() {
        if table
            .columns()
            .any(|column| uses(&column.ty, &altered.name))
        {
            let parts = Parts::of(table).map_types(|ty| substitute(ty, &result.types));
            *table = Arc::new(parts.build(table));
        }
    }
    if !users_among_functions(&result, &altered.name).is_empty() {
        let mapped = result
            .functions
            .map_types(|ty| substitute(ty, &result.types));
        result.functions = mapped;
    }
    result
}

/// The type with all user types as they are defined now.
pub(super) fn substitute(ty: &CqlType, types: &UserTypes) -> CqlType {
    let inner = |ty: &CqlType| Box::new(substitute(ty, types));
    match ty {
        CqlType::Udt { definition, frozen } => {
            let definition = types.get(&definition.name).unwrap_or(definition);
            let ty = CqlType::Udt {
                definition: definition.clone(),
                frozen: false,
            };
            if *frozen { ty.freeze() } else { ty }
        }
        CqlType::Tuple(parts) => {
            CqlType::Tuple(parts.iter().map(|ty| substitute(ty, types)).collect())
        }
        CqlType::List { element, frozen } => CqlType::List {
            element: inner(element),
            frozen: *frozen,
        },
        CqlType::Set { element, frozen } => CqlType::Set {
            element: inner(element),
            frozen: *frozen,
        },
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: inner(key),
            value: inner(value),
            frozen: *frozen,
        },
        CqlType::Vector { element, dimension } => CqlType::Vector {
            element: inner(element),
            dimension: *dimension,
        },
        CqlType::Composite(composite) => {
            CqlType::Composite(composite.map_types(|ty| substitute(ty, types)).into())
        }
        simple => simple.clone(),
    }
}
