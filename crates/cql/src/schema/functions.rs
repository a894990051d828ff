//! CREATE and DROP FUNCTION (`CreateFunctionStatement`, `DropFunctionStatement`).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{
    CqlType, Keyspace, Schema, UserFunction, argument_type, signature, told_argument_type,
};

use super::tables::invalid;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, keyspace_of_function, masks, unchanged, unserved,
    with_keyspace,
};
use crate::CqlError;
use crate::ast::{CreateFunction, DataType, DropFunction};
use crate::functions::{DISABLED, FunctionLanguage};

/// Says that both were given.
pub(super) fn check_directives(or_replace: bool, if_not_exists: bool) -> Result<(), CqlError> {
    if or_replace && if_not_exists {
        return invalid("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives".to_owned());
    }
    Ok(())
}

/// Refuses a type that is frozen though it could also not be. `what` is what has it.
pub(super) fn check_not_frozen(what: &str, ty: &DataType) -> Result<(), CqlError> {
    match ty {
        DataType::Frozen(inner) => match &**inner {
            // Types that cannot be frozen at all are refused where they are resolved.
            DataType::Tuple(_)
            | DataType::Vector(..)
            | DataType::Native(_)
            | DataType::Varchar
            | DataType::Custom(_) => Ok(()),
            _ => {
                let ty = all_frozen(ty);
                invalid(format!(
                    "{what} '{ty}' cannot be frozen; remove frozen<> modifier from '{ty}'"
                ))
            }
        },
        _ => Ok(()),
    }
}

/// A frozen type as Cassandra writes it: what is in it is frozen, too (`CQL3Type.Raw.freeze`).
fn all_frozen(ty: &DataType) -> DataType {
    let part = |part: &DataType| Box::new(all_frozen(part));
    let frozen = |ty| DataType::Frozen(Box::new(ty));
    match ty {
        DataType::Frozen(inner) => all_frozen(inner),
        DataType::List(element) => frozen(DataType::List(part(element))),
        DataType::Set(element) => frozen(DataType::Set(part(element))),
        DataType::Map(key, value) => frozen(DataType::Map(part(key), part(value))),
        DataType::User { .. } => frozen(ty.clone()),
        DataType::Native(_)
        | DataType::Varchar
        | DataType::Tuple(_)
        | DataType::Vector(..)
        | DataType::Custom(_) => ty.clone(),
    }
}

/// The types of arguments.
pub(super) fn resolve_all<'t>(
    types: impl IntoIterator<Item = &'t DataType>,
    keyspace: &Keyspace,
) -> Result<Vec<CqlType>, CqlError> {
    let types = types.into_iter();
    types
        .map(|ty| ty.resolve(&keyspace.name, &keyspace.types))
        .collect()
}

/// May a function whose results are of type `new` take the place of one whose are of type `old`
/// (`AbstractType.isCompatibleWith`)?
pub(super) fn may_replace(new: &CqlType, old: &CqlType) -> bool {
    let (new, old) = (new.freeze(), old.freeze());
    match (&new, &old) {
        (CqlType::Text, CqlType::Ascii) => true,
        (CqlType::Blob, old) => *old != CqlType::Counter,
        (new, old) => new == old,
    }
}

/// What clients are told of a function or aggregate.
pub(super) fn changed(
    schema: Schema,
    kind: ChangeKind,
    target: ChangeTarget,
    (keyspace, name): (&str, &str),
    arguments: &[CqlType],
) -> SchemaChange {
    let mut change = super::changed(schema, kind, target, keyspace, name);
    if let Some(event) = &mut change.event {
        event.arguments = arguments.iter().map(told_argument_type).collect();
    }
    change
}

/// Refuses what needs no schema.
fn check_form(
    statement: &CreateFunction,
    language: Option<&dyn FunctionLanguage>,
) -> Result<(), CqlError> {
    check_directives(statement.or_replace, statement.if_not_exists)?;
    if language.is_none() {
        return invalid(DISABLED.to_owned());
    }
    let name = &statement.name.name;
    let names: Vec<&str> = statement.arguments.iter().map(|(n, _)| &**n).collect();
    if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
        return invalid(format!(
            "Duplicate argument names for given function {name} with argument names [{}]",
            names.join(", ")
        ));
    }
    for (_, ty) in &statement.arguments {
        check_not_frozen("Argument", ty)?;
    }
    check_not_frozen("Return type", &statement.returns)
}

pub(super) fn create(
    schema: &Schema,
    statement: &CreateFunction,
    language: Option<&dyn FunctionLanguage>,
) -> Result<SchemaChange, CqlError> {
    check_form(statement, language)?;
    let (keyspace_name, name) = (keyspace_of_function(&statement.name), &statement.name.name);
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return invalid(format!("Keyspace '{keyspace_name}' doesn't exist"));
    };
    let texts = |names: &[(String, DataType)]| -> Vec<Arc<str>> {
        names.iter().map(|(n, _)| Arc::from(n.as_str())).collect()
    };
    let function = UserFunction {
        keyspace: keyspace.name.clone(),
        name: Arc::from(name.as_str()),
        argument_names: texts(&statement.arguments),
        argument_types: resolve_all(statement.arguments.iter().map(|(_, ty)| ty), keyspace)?,
        return_type: statement.returns.resolve(&keyspace.name, &keyspace.types)?,
        called_on_null_input: statement.called_on_null_input,
        language: Arc::from(statement.language.as_str()),
        body: Arc::from(statement.body.as_str()),
    };
    if let Some(language) = language {
        let mut names = language.names().iter();
        let known = names.find(|(name, _)| **name == *function.language);
        let Some((_, shown)) = known else {
            let shown: Vec<&str> = language.names().iter().map(|(_, shown)| *shown).collect();
            return invalid(format!(
                "Currently only {} UDFs are available in Helenus: LANGUAGE {} is not supported",
                shown.join(" and "),
                statement.language
            ));
        };
        let checked = language.check(&function);
        checked.map_err(|error| {
            CqlError::Invalid(format!("{shown} source compilation failed:\n{error}"))
        })?;
    }
    unserved::check_function(keyspace, name)?;
    let kind = match check_existing(keyspace, &function, statement)? {
        Existing::Stays => return Ok(unchanged(schema)),
        Existing::None => ChangeKind::Created,
        Existing::Replaced => ChangeKind::Updated,
    };
    let arguments = function.argument_types.clone();
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.functions.put_scalar(function);
    Ok(changed(
        with_keyspace(schema, keyspace),
        kind,
        ChangeTarget::Function,
        (keyspace_name, name),
        &arguments,
    ))
}

/// What becomes of a function or aggregate that has the signature of a new one.
enum Existing {
    None,
    Stays,
    Replaced,
}

fn check_existing(
    keyspace: &Keyspace,
    function: &UserFunction,
    statement: &CreateFunction,
) -> Result<Existing, CqlError> {
    let (name, signature) = (&function.name, function.signature());
    if keyspace.functions.aggregates.contains_key(&signature) {
        return invalid(format!("Function '{name}' cannot replace an aggregate"));
    }
    let Some(existing) = keyspace.functions.scalars.get(&signature) else {
        return Ok(Existing::None);
    };
    if statement.if_not_exists {
        return Ok(Existing::Stays);
    }
    if !statement.or_replace {
        return invalid(format!("Function '{name}' already exists"));
    }
    if function.called_on_null_input != existing.called_on_null_input {
        // Cassandra names the directive that the new one has.
        let directive = match function.called_on_null_input {
            true => "CALLED ON NULL INPUT",
            false => "RETURNS NULL ON NULL INPUT",
        };
        return invalid(format!("Function '{name}' must have {directive} directive"));
    }
    if !may_replace(&function.return_type, &existing.return_type) {
        return invalid(format!(
            "Cannot replace function '{name}', the new return type {} is not compatible with the \
             return type {} of existing function",
            argument_type(&function.return_type),
            argument_type(&existing.return_type)
        ));
    }
    Ok(Existing::Replaced)
}

/// A function or aggregate to drop, as messages name it.
pub(super) fn shown(statement: &DropFunction) -> String {
    match &statement.arguments {
        Some(types) => {
            let types: Vec<String> = types.iter().map(shown_type).collect();
            format!("{}({})", statement.name, types.join(", "))
        }
        None => statement.name.to_string(),
    }
}

fn shown_type(ty: &DataType) -> String {
    match ty {
        DataType::Frozen(inner) if matches!(**inner, DataType::Tuple(_)) => inner.to_string(),
        ty => ty.to_string(),
    }
}

/// Refuses to guess which of several of one name is meant. `what` is FUNCTION or AGGREGATE.
pub(super) fn check_ambiguity(
    keyspace: &Keyspace,
    statement: &DropFunction,
    what: &str,
) -> Result<(), CqlError> {
    let name = &statement.name.name;
    let functions = &keyspace.functions;
    let count = functions.scalars_named(name).count() + functions.aggregates_named(name).count();
    if count > 1 && statement.arguments.is_none() {
        return invalid(format!(
            "'DROP {what} {name}' matches multiple function definitions; specify the argument \
             types by issuing a statement like 'DROP {what} {name} (type, type, ...)'. You can use \
             cqlsh 'DESCRIBE {what} {name}' command to find all overloads"
        ));
    }
    for ty in statement.arguments.iter().flatten() {
        check_not_frozen("Argument", ty)?;
    }
    Ok(())
}

pub(super) fn drop(schema: &Schema, statement: &DropFunction) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of_function(&statement.name), &statement.name.name);
    let missing = || match statement.if_exists {
        true => Ok(unchanged(schema)),
        false => invalid(format!("Function '{}' doesn't exist", shown(statement))),
    };
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return missing();
    };
    unserved::check_function(keyspace, name)?;
    check_ambiguity(keyspace, statement, "FUNCTION")?;
    let functions = &keyspace.functions;
    let found = match &statement.arguments {
        Some(types) => {
            let types = resolve_all(types, keyspace)?;
            functions.scalars.get(&signature(name, &types))
        }
        None => functions.scalars_named(name).next(),
    };
    let Some(function) = found else {
        return missing();
    };
    let users: Vec<String> = functions
        .aggregates
        .values()
        .filter(|aggregate| aggregate.calls(function))
        .map(|aggregate| format!("{keyspace_name}.{}", aggregate.name))
        .collect();
    if !users.is_empty() {
        return invalid(format!(
            "Function '{}' is still referenced by aggregates {}",
            shown(statement),
            users.join(", ")
        ));
    }
    let masked = masks::tables_using(keyspace, function);
    if !masked.is_empty() {
        return invalid(format!(
            "Function '{}' is still referenced by column masks in tables {}",
            shown(statement),
            masked.join(", ")
        ));
    }
    let mut rest = Keyspace::clone(keyspace);
    rest.functions.scalars.remove(&function.signature());
    Ok(changed(
        with_keyspace(schema, rest),
        ChangeKind::Dropped,
        ChangeTarget::Function,
        (keyspace_name, name),
        &function.argument_types,
    ))
}
