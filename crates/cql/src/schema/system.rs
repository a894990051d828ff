//! Which keyspaces belong to the node itself, and who may change what of them
//! (`SchemaConstants`, `ClientState.preventSystemKSSchemaModification`).

use crate::CqlError;
use crate::ast::Statement;

/// Kept on each node by itself; nobody may change their schema.
const LOCAL: [&str; 4] = [
    "system",
    "system_schema",
    "system_views",
    "system_virtual_schema",
];

/// Replicated; their replication may be altered, nothing else.
const REPLICATED: [&str; 3] = ["system_auth", "system_distributed", "system_traces"];

/// Is this one of the keyspaces that each node keeps by itself?
pub fn is_local_system_keyspace(name: &str) -> bool {
    LOCAL.contains(&name)
}

/// Is this one of the keyspaces made on the fly?
pub fn is_virtual_keyspace(name: &str) -> bool {
    name == "system_views" || name == "system_virtual_schema"
}

/// Is this a keyspace of the node or the cluster, not of users?
pub fn is_system_keyspace(name: &str) -> bool {
    is_local_system_keyspace(name) || REPLICATED.contains(&name)
}

/// Refuses changes to the keyspaces of the system.
pub(super) fn authorize(statement: &Statement, keyspace: &str) -> Result<(), CqlError> {
    if is_local_system_keyspace(keyspace) {
        if matches!(
            statement,
            Statement::CreateKeyspace(_)
                | Statement::CreateFunction(_)
                | Statement::DropFunction(_)
                | Statement::CreateAggregate(_)
                | Statement::DropAggregate(_)
                | Statement::CreateTrigger(_)
                | Statement::DropTrigger(_)
        ) {
            return Err(CqlError::Invalid(format!(
                "System keyspace '{keyspace}' is not user-modifiable"
            )));
        }
        return Err(CqlError::Unauthorized(format!(
            "{keyspace} keyspace is not user-modifiable."
        )));
    }
    if !REPLICATED.contains(&keyspace) {
        return Ok(());
    }
    let (permission, resource) = match statement {
        Statement::DropKeyspace { .. } => ("DROP", format!("keyspace {keyspace}")),
        Statement::CreateTable(_) | Statement::CopyTable(_) | Statement::CreateType(_) => {
            ("CREATE", format!("all tables in {keyspace}"))
        }
        Statement::AlterTable(alter) => ("ALTER", format!("table {keyspace}.{}", alter.table.name)),
        Statement::DropTable(drop) => ("DROP", format!("table {keyspace}.{}", drop.name.name)),
        Statement::CreateFunction(_) | Statement::CreateAggregate(_) => {
            ("CREATE", format!("all functions in {keyspace}"))
        }
        Statement::AlterType(_) => ("ALTER", format!("all tables in {keyspace}")),
        Statement::DropType(_) => ("DROP", format!("all tables in {keyspace}")),
        _ => return Ok(()),
    };
    Err(CqlError::Unauthorized(format!(
        "Cannot {permission} <{resource}>"
    )))
}
