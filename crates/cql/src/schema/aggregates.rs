//! CREATE and DROP AGGREGATE (`CreateAggregateStatement`, `DropAggregateStatement`).

use std::sync::Arc;

use bytes::Bytes;
use model::{CqlType, Keyspace, Schema, UserAggregate, UserFunction, argument_type, signature};

use super::functions::{
    changed, check_ambiguity, check_directives, check_not_frozen, may_replace, resolve_all, shown,
};
use super::tables::invalid;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, keyspace_of_function, unchanged, unserved,
    with_keyspace,
};
use crate::CqlError;
use crate::ast::{CreateAggregate, DropFunction, Term};
use crate::term::{Analysis, Request, constant, value_of};

/// The first state that a term of a statement gives; `None` where that is null.
fn initial_value(
    (schema, keyspace): (&Schema, &Keyspace),
    term: &Term,
    state_type: &CqlType,
    evaluation: &Request<'_>,
) -> Result<Option<Bytes>, CqlError> {
    let analysis = Analysis::of_keyspace(&keyspace.name, &keyspace.types).in_schema(schema);
    let value = value_of(&analysis, term, state_type, evaluation)?;
    check_initial(value, term, state_type)
}

fn check_initial(
    value: Option<Bytes>,
    term: &Term,
    state_type: &CqlType,
) -> Result<Option<Bytes>, CqlError> {
    let is_empty = value.as_ref().is_none_or(|value| {
        value.is_empty() && !matches!(state_type, CqlType::Text | CqlType::Ascii | CqlType::Blob)
    });
    if is_empty && *term != Term::Null {
        return invalid(
            "INITCOND must not be empty for all types except TEXT, ASCII, BLOB".to_owned(),
        );
    }
    Ok(value)
}

/// The first state of an aggregate, as `system_schema` has it: a constant, so that a schema is read
/// without running anything.
pub fn initial_condition(
    keyspace: &Keyspace,
    text: &str,
    state_type: &CqlType,
) -> Result<Option<Bytes>, CqlError> {
    let term = crate::parser::parse_term(text)?;
    let value = constant(&keyspace.name, &keyspace.types, &term, state_type)?;
    check_initial(value, &term, state_type)
}

/// A function of an aggregate. `what` is `State` or `Final`.
fn called<'k>(
    what: &str,
    keyspace: &'k Keyspace,
    name: &str,
    types: &[CqlType],
    shown: &str,
) -> Result<&'k Arc<UserFunction>, CqlError> {
    unserved::check_function(keyspace, name)?;
    let signature = signature(name, types);
    if keyspace.functions.aggregates.contains_key(&signature) {
        return invalid(format!("{what} function {shown} isn't a scalar function"));
    }
    match keyspace.functions.scalars.get(&signature) {
        Some(function) => Ok(function),
        None => invalid(format!("{what} function {shown} doesn't exist")),
    }
}

pub(super) fn create(
    schema: &Schema,
    statement: &CreateAggregate,
    evaluation: &Request<'_>,
) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of_function(&statement.name), &statement.name.name);
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return Err(CqlError::Config(format!(
            "Keyspace {keyspace_name} doesn't exist"
        )));
    };
    check_directives(statement.or_replace, statement.if_not_exists)?;
    for ty in &statement.arguments {
        check_not_frozen("Argument", ty)?;
    }
    check_not_frozen("State type", &statement.state_type)?;
    let aggregate = define((schema, keyspace), statement, evaluation)?;
    unserved::check_function(keyspace, name)?;
    let kind = match check_existing(keyspace, &aggregate, statement)? {
        None => return Ok(unchanged(schema)),
        Some(kind) => kind,
    };
    let arguments = aggregate.argument_types.clone();
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.functions.put_aggregate(aggregate);
    Ok(changed(
        with_keyspace(schema, keyspace),
        kind,
        ChangeTarget::Aggregate,
        (keyspace_name, name),
        &arguments,
    ))
}

fn define(
    (schema, keyspace): (&Schema, &Keyspace),
    statement: &CreateAggregate,
    evaluation: &Request<'_>,
) -> Result<UserAggregate, CqlError> {
    let name = &statement.name.name;
    let argument_types = resolve_all(&statement.arguments, keyspace)?;
    let state_type = &statement.state_type;
    let ty = state_type.resolve(&keyspace.name, &keyspace.types)?;
    let of_keyspace = |name: &str| format!("{}.{name}", keyspace.name);

    let written: Vec<String> = [state_type]
        .into_iter()
        .chain(&statement.arguments)
        .map(ToString::to_string)
        .collect();
    let state_name = of_keyspace(&statement.state_function);
    let state_shown = format!("{state_name}({})", written.join(", "));
    let mut types = vec![ty.clone()];
    types.extend(argument_types.iter().cloned());
    let function = &statement.state_function;
    let state_function = called("State", keyspace, function, &types, &state_shown)?;
    if state_function.return_type.freeze() != ty.freeze() {
        return invalid(format!(
            "State function {state_shown} return type must be the same as the first argument type \
             - check STYPE, argument and return types"
        ));
    }
    let final_function = match &statement.final_function {
        Some(function) => {
            let shown = format!("{}({state_type})", of_keyspace(function));
            let types = std::slice::from_ref(&ty);
            Some(called("Final", keyspace, function, types, &shown)?)
        }
        None => None,
    };
    let initial = match &statement.initial_condition {
        Some(term) => initial_value((schema, keyspace), term, &ty, evaluation)?,
        None => None,
    };
    if !state_function.called_on_null_input && initial.is_none() {
        return invalid(format!(
            "Cannot create aggregate '{name}' without INITCOND because state function {state_name} \
             does not accept 'null' arguments"
        ));
    }
    Ok(UserAggregate {
        keyspace: keyspace.name.clone(),
        name: Arc::from(name.as_str()),
        argument_types,
        return_type: final_function.unwrap_or(state_function).return_type.clone(),
        state_type: ty,
        state_function: state_function.clone(),
        final_function: final_function.cloned(),
        initial,
    })
}

/// What the statement does beside what has the signature; `None`: that stays.
fn check_existing(
    keyspace: &Keyspace,
    aggregate: &UserAggregate,
    statement: &CreateAggregate,
) -> Result<Option<ChangeKind>, CqlError> {
    let (name, signature) = (&aggregate.name, aggregate.signature());
    if keyspace.functions.scalars.contains_key(&signature) {
        return invalid(format!("Aggregate '{name}' cannot replace a function"));
    }
    let Some(existing) = keyspace.functions.aggregates.get(&signature) else {
        return Ok(Some(ChangeKind::Created));
    };
    if statement.if_not_exists {
        return Ok(None);
    }
    if !statement.or_replace {
        return invalid(format!("Aggregate '{name}' already exists"));
    }
    if !may_replace(&aggregate.return_type, &existing.return_type) {
        return invalid(format!(
            "Cannot replace aggregate '{name}', the new return type {} isn't compatible with the \
             return type {} of existing function",
            argument_type(&aggregate.return_type),
            argument_type(&existing.return_type)
        ));
    }
    Ok(Some(ChangeKind::Updated))
}

pub(super) fn drop(schema: &Schema, statement: &DropFunction) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of_function(&statement.name), &statement.name.name);
    let missing = || match statement.if_exists {
        true => Ok(unchanged(schema)),
        false => invalid(format!("Aggregate '{}' doesn't exist", shown(statement))),
    };
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return missing();
    };
    unserved::check_function(keyspace, name)?;
    check_ambiguity(keyspace, statement, "AGGREGATE")?;
    let aggregates = &keyspace.functions;
    let found = match &statement.arguments {
        Some(types) => {
            let types = resolve_all(types, keyspace)?;
            aggregates.aggregates.get(&signature(name, &types))
        }
        None => aggregates.aggregates_named(name).next(),
    };
    let Some(aggregate) = found else {
        return missing();
    };
    let mut rest = Keyspace::clone(keyspace);
    rest.functions.aggregates.remove(&aggregate.signature());
    Ok(changed(
        with_keyspace(schema, rest),
        ChangeKind::Dropped,
        ChangeTarget::Aggregate,
        (keyspace_name, name),
        &aggregate.argument_types,
    ))
}
