//! Writes of virtual tables: of them only the keys of caches can be deleted.

use model::Table;

use crate::CqlError;
use crate::ast::{self, Modification};
use crate::error::invalid;

use super::restrictions::StatementKind;

/// Does this virtual table show the keys of a cache, which can be deleted from it
/// (`AbstractMutableVirtualTable`)?
pub fn can_forget(table: &Table) -> bool {
    table.is_virtual && table.name.ends_with("_cache_keys")
}

/// Refuses what no write of a virtual table can have.
pub(crate) fn check_statement(statement: &Modification) -> Result<(), CqlError> {
    let (attributes, is_conditional) = match statement {
        Modification::Insert(insert) => (&insert.attributes, insert.if_not_exists),
        Modification::InsertJson(insert) => (&insert.attributes, insert.if_not_exists),
        Modification::Update(update) => (
            &update.attributes,
            update.conditions != ast::Conditions::None,
        ),
        Modification::Delete(delete) => (
            &delete.attributes,
            delete.conditions != ast::Conditions::None,
        ),
    };
    if is_conditional {
        return invalid!("Conditional updates are not supported by virtual tables");
    }
    if attributes.ttl.is_some() {
        return invalid!("Expiring columns are not supported by virtual tables");
    }
    if attributes.timestamp.is_some() {
        return invalid!("Custom timestamp is not supported by virtual tables");
    }
    Ok(())
}

/// Refuses a write of any virtual table but the deletion of keys of a cache, which are forgotten then; those
/// caches are none of ours, so there is nothing to do.
pub(crate) fn check_write(table: &Table, kind: StatementKind) -> Result<(), CqlError> {
    let (keyspace, name) = (&table.keyspace, &table.name);
    if !can_forget(table) {
        return invalid!("Modification is not supported by table {keyspace}.{name}");
    }
    if kind != StatementKind::Delete {
        return invalid!("Column modification is not supported by table {keyspace}.{name}");
    }
    Ok(())
}
