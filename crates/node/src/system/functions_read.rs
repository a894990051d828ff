//! Rows of `system_schema.functions` and `aggregates`: those that are served.

use std::sync::Arc;

use cql::schema::initial_condition;
use model::{CqlType, Keyspace, UserAggregate, UserFunction, UserFunctions, signature};

use super::rows::RowReader;

/// Adds the functions and aggregates that are served. `rows_of` are the rows of a table of
/// `system_schema` that speak of the keyspace.
pub(super) fn read<'a>(
    keyspace: &mut Keyspace,
    rows_of: impl Fn(&'static str) -> Vec<RowReader<'a>>,
) {
    for row in rows_of("functions") {
        if let Some(function) = function(keyspace, &row) {
            keyspace.functions.put_scalar(function);
        }
    }
    for row in rows_of("aggregates") {
        if let Some(aggregate) = aggregate(keyspace, &row) {
            keyspace.functions.put_aggregate(aggregate);
        }
    }
}

/// Is the row of this table one of a function or aggregate that was read?
pub(super) fn is_served(functions: &UserFunctions, table: &str, row: &RowReader<'_>) -> bool {
    let types = row.texts("argument_types").unwrap_or_default();
    let is_row = |name: &str, of: &[CqlType]| {
        let mut each = of.iter().zip(&types);
        of.len() == types.len()
            && row_name(table, row) == Some(name)
            && each.all(|(ty, text)| ty.to_string() == *text)
    };
    match table {
        "functions" => {
            let mut all = functions.scalars.values();
            all.any(|f| is_row(&f.name, &f.argument_types))
        }
        _ => {
            let mut all = functions.aggregates.values();
            all.any(|a| is_row(&a.name, &a.argument_types))
        }
    }
}

fn row_name<'a>(table: &str, row: &RowReader<'a>) -> Option<&'a str> {
    row.text(match table {
        "functions" => "function_name",
        _ => "aggregate_name",
    })
}

fn types(keyspace: &Keyspace, row: &RowReader<'_>) -> Option<Vec<CqlType>> {
    let texts = row.texts("argument_types")?;
    let types = texts.iter().map(|text| ty(keyspace, text));
    types.collect()
}

fn ty(keyspace: &Keyspace, text: &str) -> Option<CqlType> {
    CqlType::from_cql(text, &keyspace.types).ok()
}

fn function(keyspace: &Keyspace, row: &RowReader<'_>) -> Option<UserFunction> {
    let is_served = |name: &&str| lua::LANGUAGES.iter().any(|(language, _)| language == name);
    let language = row.text("language").filter(is_served)?;
    let names = row.texts("argument_names")?;
    Some(UserFunction {
        keyspace: keyspace.name.clone(),
        name: Arc::from(row.text("function_name")?),
        argument_names: names.into_iter().map(Arc::from).collect(),
        argument_types: types(keyspace, row)?,
        return_type: ty(keyspace, row.text("return_type")?)?,
        called_on_null_input: row.boolean("called_on_null_input")?,
        language: Arc::from(language),
        body: Arc::from(row.text("body")?),
    })
}

fn aggregate(keyspace: &Keyspace, row: &RowReader<'_>) -> Option<UserAggregate> {
    let argument_types = types(keyspace, row)?;
    let state_type = ty(keyspace, row.text("state_type")?)?;
    let mut called = vec![state_type.clone()];
    called.extend(argument_types.iter().cloned());
    let scalars = &keyspace.functions.scalars;
    let state_function = scalars.get(&signature(row.text("state_func")?, &called))?;
    let final_function = match row.text("final_func") {
        Some(name) => Some(scalars.get(&signature(name, std::slice::from_ref(&state_type)))?),
        None => None,
    };
    let initial = match row.text("initcond") {
        Some(text) => initial_condition(keyspace, text, &state_type).ok()?,
        None => None,
    };
    Some(UserAggregate {
        keyspace: keyspace.name.clone(),
        name: Arc::from(row.text("aggregate_name")?),
        argument_types,
        return_type: ty(keyspace, row.text("return_type")?)?,
        state_function: state_function.clone(),
        final_function: final_function.cloned(),
        state_type,
        initial,
    })
}
