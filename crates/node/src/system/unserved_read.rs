//! Rows of `system_schema` of what is not served: what it needs of what is.

use std::sync::Arc;

use cql::schema::UserTypes;
use model::{CqlType, Function, Index, IndexKind, Keyspace, TypeNameError, UnservedView, UserType};

use super::functions_read;
use super::rows::RowReader;

/// Adds what is not served besides the tables and types that were left out, and what all of that
/// uses. `rows_of` are the rows of a table of `system_schema` that speak of the keyspace.
pub(super) fn complete<'a>(
    keyspace: &mut Keyspace,
    rows_of: impl Fn(&'static str) -> Vec<RowReader<'a>>,
) {
    let mut types = keyspace.types.clone();
    let unserved = &mut keyspace.unserved;
    for row in rows_of("types") {
        let name = row.text("type_name").unwrap_or_default();
        if let Some(left_out) = unserved.types.get_mut(name) {
            let fields = row.texts("field_types").unwrap_or_default();
            left_out.uses = parse_all(fields, &mut types);
        }
    }
    for row in rows_of("columns") {
        let table = row.text("table_name").unwrap_or_default();
        if let Some(left_out) = unserved.tables.get_mut(table) {
            left_out
                .uses
                .extend(parse_all(row.text("type"), &mut types));
        }
    }
    for index in rows_of("indexes").iter().filter_map(index) {
        match keyspace.tables.get_mut(&index.table) {
            Some(table) if index.is_served(table) => Arc::make_mut(table).indexes.push(index),
            _ => unserved.indexes.push(index),
        }
    }
    let served = |(name, _): &(Arc<str>, UnservedView)| {
        keyspace
            .tables
            .get(name)
            .is_some_and(|table| table.view.is_some())
    };
    let views = rows_of("views");
    let views = views.iter().filter_map(view);
    unserved.views = views.filter(|view| !served(view)).collect();
    for (table, name) in [
        ("functions", "function_name"),
        ("aggregates", "aggregate_name"),
    ] {
        for row in rows_of(table) {
            if functions_read::is_served(&keyspace.functions, table, &row) {
                continue;
            }
            let function = row.text(name).map(|name| function(name, &row, &mut types));
            unserved.functions.extend(function);
        }
    }
    let masks = rows_of("column_masks");
    let is_served = |(table, column): &(Arc<str>, Arc<str>)| {
        let table = keyspace.tables.get(table);
        table.is_some_and(|table| table.masks.contains_key(column))
    };
    let masks = masks.iter().filter_map(mask);
    unserved.masks = masks.filter(|mask| !is_served(mask)).collect();
}

/// The types of these texts. User types that nobody knows, those that were left out among them,
/// are added to `types` as empty ones: what uses them may use others besides.
fn parse_all<'t>(texts: impl IntoIterator<Item = &'t str>, types: &mut UserTypes) -> Vec<CqlType> {
    let texts = texts.into_iter();
    texts.filter_map(|text| parse(text, types)).collect()
}

fn parse(text: &str, types: &mut UserTypes) -> Option<CqlType> {
    loop {
        match CqlType::from_cql(text, types) {
            Ok(ty) => return Some(ty),
            Err(TypeNameError::Unknown { name }) => {
                let empty = UserType {
                    keyspace: Arc::from(""),
                    name: Arc::from(name),
                    fields: Vec::new(),
                };
                types.insert(empty.name.clone(), Arc::new(empty));
            }
            Err(TypeNameError::Syntax { .. }) => return None,
        }
    }
}

fn index(row: &RowReader<'_>) -> Option<Index> {
    let options = row.text_map("options").unwrap_or_default();
    let target = options.get("target");
    let target = target.map(|target| Index::parse_target(target).1);
    Some(Index {
        name: Arc::from(row.text("index_name")?),
        table: Arc::from(row.text("table_name")?),
        column: target.map(Arc::from),
        kind: row.text("kind").and_then(index_kind),
        options,
    })
}

fn index_kind(name: &str) -> Option<IndexKind> {
    let kinds = [IndexKind::Keys, IndexKind::Composites, IndexKind::Custom];
    kinds.into_iter().find(|kind| kind.name() == name)
}

fn view(row: &RowReader<'_>) -> Option<(Arc<str>, UnservedView)> {
    let view = UnservedView {
        id: row.uuid("id"),
        base: row.uuid("base_table_id"),
    };
    Some((Arc::from(row.text("view_name")?), view))
}

fn mask(row: &RowReader<'_>) -> Option<(Arc<str>, Arc<str>)> {
    let (table, column) = (row.text("table_name")?, row.text("column_name")?);
    Some((Arc::from(table), Arc::from(column)))
}

fn function(name: &str, row: &RowReader<'_>, types: &mut UserTypes) -> Function {
    let arguments = row.texts("argument_types").unwrap_or_default();
    let state = row.text("state_type");
    let used = arguments.into_iter().chain(row.text("return_type"));
    let initial = state.filter(|_| row.get("initcond").is_some());
    Function {
        name: Arc::from(name),
        uses: parse_all(used.chain(state), types),
        initial: initial.and_then(|state| parse(state, types)),
    }
}
