//! CREATE TABLE … LIKE, of Cassandra after 5.0 (`CopyTableStatement`).

use std::sync::Arc;

use model::{CqlType, Keyspace, Schema, Table, TableId, UserType};

use super::properties::Properties;
use super::table_changes::Parts;
use super::tables::{self, invalid};
use super::types::UserTypes;
use super::user_types::substitute;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, Surroundings, changed, is_local_system_keyspace,
    keyspace_of, options, unchanged, unserved, with_keyspace,
};
use crate::CqlError;
use crate::ast::CopyTable;

/// What is wrong with the statement whatever the tables.
pub(super) fn check_form(copy: &CopyTable) -> Result<(), CqlError> {
    options::check_form(&Properties::collect(&copy.properties)?)
}

/// The schema with a table that has the columns, masks and options of another, and nothing else of it:
/// no rows, indexes or views.
pub(super) fn create(
    schema: &Schema,
    copy: &CopyTable,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    let source = source_of(schema, copy)?;
    let (keyspace_name, name) = (keyspace_of(&copy.table), copy.table.name.as_str());
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return invalid(format!("Target Keyspace '{keyspace_name}' doesn't exist"));
    };
    if keyspace.tables.contains_key(name) {
        if copy.if_not_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::AlreadyExists {
            keyspace: keyspace_name.to_owned(),
            table: name.to_owned(),
        });
    }
    unserved::check_new_table(keyspace, name)?;
    if source.keyspace != keyspace.name {
        check_types(source, keyspace)?;
    }
    let properties = Properties::collect(&copy.properties)?;
    options::check_memtable(schema, &properties)?;
    let options = options::alter(&source.options, &properties)?;
    if tables::is_counter_table(source) && options.default_time_to_live > 0 {
        return tables::ttl_of_counters();
    }
    let id: TableId = (with.ids)();
    let parts = Parts::of(source).map_types(|ty| substitute(ty, &keyspace.types));
    let table = parts
        .with_options(options)
        .build_new(source, id, keyspace, name);
    tables::validate(&table)?;
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.insert(table.name.clone(), Arc::new(table));
    let (kind, target) = (ChangeKind::Created, ChangeTarget::Table);
    let schema = with_keyspace(schema, keyspace);
    Ok(changed(schema, kind, target, keyspace_name, name))
}

/// The table that the new one is to be like. Those of the node's own keyspaces are none of the schema.
fn source_of<'s>(schema: &'s Schema, copy: &CopyTable) -> Result<&'s Table, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&copy.source), copy.source.name.as_str());
    let keyspace = schema.keyspaces.get(keyspace_name);
    let Some(keyspace) = keyspace.filter(|_| !is_local_system_keyspace(keyspace_name)) else {
        return invalid(format!("Source Keyspace '{keyspace_name}' doesn't exist"));
    };
    unserved::check_table(keyspace, name)?;
    let found = keyspace.tables.get(name);
    if unserved::is_view(keyspace, name) || found.is_some_and(|table| table.view.is_some()) {
        return invalid(format!(
            "Cannot use CREATE TABLE LIKE on a materialized view '{keyspace_name}.{name}'."
        ));
    }
    match found {
        Some(table) => Ok(table),
        None => invalid(format!(
            "Source Table '{keyspace_name}.{name}' doesn't exist"
        )),
    }
}

/// Refuses a keyspace that lacks a user type of the table, or has another one of its name.
fn check_types(source: &Table, keyspace: &Keyspace) -> Result<(), CqlError> {
    let mut used = UserTypes::new();
    for column in source.columns() {
        collect_types(&column.ty, &mut used);
    }
    let missing: Vec<&str> = used
        .keys()
        .filter(|name| !keyspace.types.contains_key(*name))
        .map(|name| &**name)
        .collect();
    if !missing.is_empty() {
        return invalid(format!(
            "UDTs {} do not exist in target keyspace '{}'.",
            missing.join(", "),
            keyspace.name
        ));
    }
    let differs = |definition: &UserType| match keyspace.types.get(&definition.name) {
        Some(other) => {
            let fields = definition.fields.iter();
            let fields = fields.map(|(name, ty)| (name.clone(), substitute(ty, &keyspace.types)));
            !fields.eq(other.fields.iter().cloned())
        }
        None => true,
    };
    match used.values().find(|definition| differs(definition)) {
        Some(other) => invalid(format!(
            "Target keyspace '{}' has same UDT name '{}' as source keyspace '{}' but with \
             different structure.",
            keyspace.name, other.name, source.keyspace
        )),
        None => Ok(()),
    }
}

/// Adds the user types that a type is made of, each walked through once.
fn collect_types(ty: &CqlType, found: &mut UserTypes) {
    if let CqlType::Udt { definition, .. } = ty {
        let name = definition.name.clone();
        if found.insert(name, definition.clone()).is_some() {
            return;
        }
    }
    for part in ty.parts() {
        collect_types(part, found);
    }
}
