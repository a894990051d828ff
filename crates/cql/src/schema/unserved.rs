//! What the folder has that is not served: changes of the schema must leave it to Cassandra as it
//! is.

use model::{Keyspace, Schema, TableId};

use super::keyspace_of;
use super::tables::invalid;
use crate::CqlError;
use crate::ast::Statement;

/// Why the statement is refused, and what can be done. `IF EXISTS` and `IF NOT EXISTS` change
/// nothing: whoever writes them takes silence for a yes.
fn refuse<T>(problem: &str) -> Result<T, CqlError> {
    invalid(format!(
        "{problem}. Only Cassandra can alter or drop it: start one on this folder, or use another \
         name"
    ))
}

fn view_problem(keyspace: &Keyspace, view: &str) -> String {
    format!(
        "materialized view {}.{view} is not served: views are not supported yet",
        keyspace.name
    )
}

fn check_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    match keyspace.unserved.tables.get(name) {
        Some(table) => refuse(&table.problem),
        None => Ok(()),
    }
}

/// Refuses to create a table over one that is not served, or over a view.
pub(super) fn check_new_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    check_table(keyspace, name)?;
    check_view(keyspace, name)
}

/// Refuses to alter a table that is not served, or a view.
pub(super) fn check_alter_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    check_table(keyspace, name)?;
    if keyspace.unserved.views.contains_key(name) {
        return invalid(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"
                .to_owned(),
        );
    }
    Ok(())
}

/// Refuses to drop a table that is not served, or a view.
pub(super) fn check_drop_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    check_table(keyspace, name)?;
    if keyspace.unserved.views.contains_key(name) {
        return invalid(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead."
                .to_owned(),
        );
    }
    Ok(())
}

/// Refuses to create, alter or drop a type that is not served.
pub(super) fn check_type(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    match keyspace.unserved.types.get(name) {
        Some(problem) => refuse(problem),
        None => Ok(()),
    }
}

fn check_view(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    if keyspace.unserved.views.contains_key(name) {
        return refuse(&view_problem(keyspace, name));
    }
    Ok(())
}

/// Refuses to drop what is there, but not served.
pub(super) fn check_drop(schema: &Schema, statement: &Statement) -> Result<(), CqlError> {
    let Statement::DropView(drop) = statement else {
        return Ok(());
    };
    match schema.keyspaces.get(keyspace_of(&drop.name)) {
        Some(keyspace) => check_view(keyspace, &drop.name.name),
        None => Ok(()),
    }
}

/// The table or view that has this id.
pub(super) fn user_of_id(schema: &Schema, id: TableId) -> Option<String> {
    schema.keyspaces.values().find_map(|keyspace| {
        let unserved = &keyspace.unserved;
        let tables = unserved.tables.iter().map(|(name, table)| (name, table.id));
        let views = unserved.views.iter().map(|(name, view)| (name, view.id));
        let (name, _) = tables.chain(views).find(|(_, of)| *of == Some(id))?;
        Some(format!("{}.{name}", keyspace.name))
    })
}
