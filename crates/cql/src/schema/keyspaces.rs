//! CREATE, ALTER and DROP KEYSPACE.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Keyspace, Schema};

use super::properties::Properties;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, Surroundings, changed, replication, unchanged,
    with_keyspace,
};
use crate::CqlError;
use crate::ast::{AlterKeyspace, CreateKeyspace};

/// Names of keyspaces are names of folders (`SchemaConstants.NAME_LENGTH`).
const MAX_NAME: usize = 48;

const PROPERTIES: &[&str] = &["durable_writes", "replication"];

/// What a keyspace may be called, in whatever statement names one (`AlterSchemaStatement.validateKeyspaceName`).
pub(super) fn check_name(name: &str) -> Result<(), CqlError> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(CqlError::Invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore \
             characters only (got \"{name}\")"
        )));
    }
    if name.len() > MAX_NAME {
        return Err(CqlError::Invalid(format!(
            "Keyspace name must not be more than {MAX_NAME} characters long (got {} characters \
             for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

pub(super) fn create(
    schema: &Schema,
    statement: &CreateKeyspace,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    let name = statement.name.as_str();
    check_name(name)?;
    let properties = Properties::collect(&statement.properties)?;
    properties.check_names(PROPERTIES)?;
    let replication = properties.map("replication")?;
    if replication.is_some_and(|options| !options.contains_key("class")) {
        return Err(CqlError::Config(
            "Missing replication strategy class".to_owned(),
        ));
    }
    let Some(replication) = replication else {
        return Err(CqlError::Invalid(
            "Missing mandatory option 'replication'".to_owned(),
        ));
    };
    if schema.keyspaces.contains_key(name) {
        if statement.if_not_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::AlreadyExists {
            keyspace: name.to_owned(),
            table: String::new(),
        });
    }
    let durable_writes = properties.boolean("durable_writes")?;
    let keyspace = Keyspace {
        name: Arc::from(name),
        replication: replication::normalize(name, replication, &BTreeMap::new(), &with)?,
        durable_writes: durable_writes.unwrap_or(true),
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        functions: Default::default(),
        is_virtual: false,
        unserved: Default::default(),
    };
    Ok(changed(
        with_keyspace(schema, keyspace),
        ChangeKind::Created,
        ChangeTarget::Keyspace,
        name,
        "",
    ))
}

pub(super) fn alter(
    schema: &Schema,
    statement: &AlterKeyspace,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    let name = statement.name.as_str();
    let properties = Properties::collect(&statement.properties)?;
    properties.check_names(PROPERTIES)?;
    let replication = properties.map("replication")?;
    let Some(previous) = schema.keyspaces.get(name) else {
        if statement.if_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::Invalid(format!(
            "Keyspace '{name}' doesn't exist"
        )));
    };
    let durable_writes = properties.boolean("durable_writes")?;
    let mut keyspace = Keyspace::clone(previous);
    // Without any option in it, it changes nothing.
    if let Some(options) = replication.filter(|options| !options.is_empty()) {
        keyspace.replication = replication::normalize(name, options, &previous.replication, &with)?;
    }
    keyspace.durable_writes = durable_writes.unwrap_or(previous.durable_writes);
    Ok(changed(
        with_keyspace(schema, keyspace),
        ChangeKind::Updated,
        ChangeTarget::Keyspace,
        name,
        "",
    ))
}

pub(super) fn drop(schema: &Schema, name: &str, if_exists: bool) -> Result<SchemaChange, CqlError> {
    let mut rest = schema.clone();
    if rest.keyspaces.remove(name).is_none() {
        if if_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::Invalid(format!(
            "Keyspace '{name}' doesn't exist"
        )));
    }
    Ok(changed(
        rest,
        ChangeKind::Dropped,
        ChangeTarget::Keyspace,
        name,
        "",
    ))
}
