//! What the folder has that is not served: changes of the schema must leave it to Cassandra, and
//! with it all that it needs. Where Cassandra refuses a change for the same reason, the text is
//! its own (`AlterTableStatement`, `DropTableStatement`, `DropTypeStatement`).

use model::{Column, CqlType, Keyspace, Schema, Table, TableId};

use super::tables::invalid;
use super::user_types::uses;
use crate::CqlError;

/// Why the statement is refused, and what can be done. `IF EXISTS` and `IF NOT EXISTS` change
/// nothing: whoever writes them takes silence for a yes.
fn refuse<T>(problem: &str) -> Result<T, CqlError> {
    invalid(format!(
        "{problem}. Only a Cassandra on this folder can alter or drop it, and nothing else can \
         have its name"
    ))
}

/// Refuses what is about a table that is not served.
pub(super) fn check_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
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

/// Refuses to drop a table that is not served or has views that are not, or such a view.
pub(super) fn check_drop_table(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    check_table(keyspace, name)?;
    if keyspace.unserved.views.contains_key(name) {
        return invalid(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead."
                .to_owned(),
        );
    }
    match keyspace.tables.get(name) {
        Some(table) if !views_of(keyspace, table).is_empty() => {
            // Cassandra says the keyspace where it means the views.
            invalid(format!(
                "Cannot drop a table when materialized views still depend on it ({})",
                keyspace.name
            ))
        }
        _ => Ok(()),
    }
}

/// Is it the name of a view?
pub(super) fn is_view(keyspace: &Keyspace, name: &str) -> bool {
    keyspace.unserved.views.contains_key(name)
}

/// Has an index that is not served this name?
pub(super) fn has_index(keyspace: &Keyspace, name: &str) -> bool {
    let mut indexes = keyspace.unserved.indexes.iter();
    indexes.any(|index| *index.name == *name)
}

/// Refuses what is about an index that is not served.
pub(super) fn refuse_index<T>(keyspace: &Keyspace, name: &str) -> Result<T, CqlError> {
    refuse(&format!(
        "index {}.{name} is not served: indexes of its kind are not supported",
        keyspace.name
    ))
}

/// Refuses what an index on the column does not allow.
fn check_indexes(
    refused: &str,
    keyspace: &Keyspace,
    table: &Table,
    column: &Column,
) -> Result<(), CqlError> {
    let indexes = indexes_on(keyspace, table, column);
    if indexes.is_empty() {
        return Ok(());
    }
    invalid(format!(
        "{refused} column {} because it has dependent secondary indexes ({})",
        column.name,
        indexes.join(", ")
    ))
}

/// Refuses to drop a column that an index is on, or one of a table with views.
pub(super) fn check_drop_column(
    keyspace: &Keyspace,
    table: &Table,
    column: &Column,
) -> Result<(), CqlError> {
    let name = &column.name;
    check_indexes("Cannot drop", keyspace, table, column)?;
    if has_views(keyspace, table) {
        return invalid(format!(
            "Cannot drop column {name} on base table {} with materialized views",
            table.name
        ));
    }
    Ok(())
}

/// Refuses to rename a column that an index is on, or one that views have.
pub(super) fn check_rename_column(
    keyspace: &Keyspace,
    table: &Table,
    column: &Column,
) -> Result<(), CqlError> {
    let name = &column.name;
    check_indexes("Can't rename", keyspace, table, column)?;
    // A view has all columns of its table's key; Cassandra renames them there too.
    let views = views_of(keyspace, table);
    if !views.is_empty() {
        return invalid(format!(
            "Cannot rename column {name} of base table {} with materialized views ({}) that are \
             not served",
            table.name,
            views.join(", ")
        ));
    }
    let mask = (table.name.clone(), name.clone());
    if keyspace.unserved.masks.contains(&mask) {
        return invalid(format!(
            "Cannot rename column {name}: it has a mask of a function that is not served; ALTER \
             TABLE {} ALTER {name} DROP MASKED first, or rename it with Cassandra",
            table.name
        ));
    }
    Ok(())
}

/// The keyspace without the mask of a column, also in the views of its table.
pub(super) fn without_mask(keyspace: &Keyspace, table: &Table, column: &str) -> Keyspace {
    let mut masked = views_of(keyspace, table);
    masked.push(&table.name);
    masked.extend(keyspace.views_of(table.id).map(|view| &*view.name));
    let mut rest = keyspace.clone();
    let masks = &mut rest.unserved.masks;
    masks.retain(|(of, name)| **name != *column || !masked.contains(&&**of));
    rest
}

/// Leaves out the masks of columns that a table did not have before, or does not have any more: a
/// new column has none.
pub(super) fn forget_masks(keyspace: &mut Keyspace, before: &Table, after: &Table) {
    let stays = |column: &str| {
        before.column_named(column).is_some() && after.column_named(column).is_some()
    };
    let masks = &mut keyspace.unserved.masks;
    masks.retain(|(table, column)| *table != after.name || stays(column));
}

/// Refuses to forget deletions of a table with views at once.
pub(super) fn check_gc_grace(
    keyspace: &Keyspace,
    table: &Table,
    gc_grace_seconds: i32,
) -> Result<(), CqlError> {
    if gc_grace_seconds == 0 && has_views(keyspace, table) {
        return invalid(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since \
             this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might \
             cause undelivered updates to expire before being replayed."
                .to_owned(),
        );
    }
    Ok(())
}

fn indexes_on<'k>(keyspace: &'k Keyspace, table: &'k Table, column: &Column) -> Vec<&'k str> {
    let indexes = table.indexes.iter().chain(&keyspace.unserved.indexes);
    indexes
        .filter(|index| index.table == table.name && index.column.as_ref() == Some(&column.name))
        .map(|index| &*index.name)
        .collect()
}

/// The views of a table that are not served.
fn views_of<'k>(keyspace: &'k Keyspace, table: &Table) -> Vec<&'k str> {
    let views = keyspace.unserved.views.iter();
    views
        .filter(|(_, view)| view.base == Some(table.id))
        .map(|(name, _)| &**name)
        .collect()
}

/// Has a table views, be they served or not?
fn has_views(keyspace: &Keyspace, table: &Table) -> bool {
    !views_of(keyspace, table).is_empty() || keyspace.views_of(table.id).next().is_some()
}

/// Refuses to create, alter or drop a type that is not served.
pub(super) fn check_type(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    match keyspace.unserved.types.get(name) {
        Some(ty) => refuse(&ty.problem),
        None => Ok(()),
    }
}

/// The functions, types and tables that are not served and use a type, in this order.
pub(super) fn users_of_type<'k>(
    keyspace: &'k Keyspace,
    name: &'k str,
) -> (Vec<String>, Vec<&'k str>, Vec<&'k str>) {
    let unserved = &keyspace.unserved;
    let used = |types: &[CqlType]| types.iter().any(|ty| uses(ty, name));
    let functions = unserved.functions.iter().filter(|f| used(&f.uses));
    let types = unserved.types.iter().filter(|(_, ty)| used(&ty.uses));
    let tables = unserved
        .tables
        .iter()
        .filter(|(_, table)| used(&table.uses));
    (
        functions.map(|f| qualified(keyspace, &f.name)).collect(),
        types.map(|(name, _)| &**name).collect(),
        tables.map(|(name, _)| &**name).collect(),
    )
}

/// Refuses to rename fields of a type that an INITCOND names.
pub(super) fn check_rename_fields(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    let functions = keyspace.unserved.functions.iter();
    let aggregates: Vec<String> = functions
        .filter(|f| f.initial.as_ref().is_some_and(|state| uses(state, name)))
        .map(|f| qualified(keyspace, &f.name))
        .collect();
    if !aggregates.is_empty() {
        return invalid(format!(
            "Cannot alter user type {}.{name} as it is still used in INITCOND by aggregates {}",
            keyspace.name,
            aggregates.join(", ")
        ));
    }
    Ok(())
}

fn qualified(keyspace: &Keyspace, name: &str) -> String {
    format!("{}.{name}", keyspace.name)
}

/// Refuses what is about a view that is not served.
pub(super) fn check_view(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    if keyspace.unserved.views.contains_key(name) {
        return refuse(&format!(
            "materialized view {}.{name} is not served",
            keyspace.name
        ));
    }
    Ok(())
}

/// Refuses to create, replace or drop functions and aggregates of a name that is not served.
pub(super) fn check_function(keyspace: &Keyspace, name: &str) -> Result<(), CqlError> {
    if is_function(keyspace, name) {
        return refuse(&format!(
            "function {}.{name} is not served: only user-defined functions in Lua are supported",
            keyspace.name
        ));
    }
    Ok(())
}

/// Is there a function or aggregate of this name that is not served?
pub(crate) fn is_function(keyspace: &Keyspace, name: &str) -> bool {
    let mut functions = keyspace.unserved.functions.iter();
    functions.any(|function| *function.name == *name)
}

/// The table or view that has this id.
pub(super) fn user_of_id(schema: &Schema, id: TableId) -> Option<String> {
    schema.keyspaces.values().find_map(|keyspace| {
        let unserved = &keyspace.unserved;
        let tables = unserved.tables.iter().map(|(name, table)| (name, table.id));
        let views = unserved.views.iter().map(|(name, view)| (name, view.id));
        let (name, _) = tables.chain(views).find(|(_, of)| *of == Some(id))?;
        Some(qualified(keyspace, name))
    })
}
