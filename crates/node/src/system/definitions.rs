//! The tables of the system keyspaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::CqlError;
use cql::schema::{SchemaPlan, version_of};
use model::{Keyspace, Schema};

/// Stored keyspaces: their files define them too.
const STORED: [&str; 5] = [
    include_str!("system.cql"),
    include_str!("system_schema.cql"),
    include_str!("system_auth.cql"),
    include_str!("system_distributed.cql"),
    include_str!("system_traces.cql"),
];

/// Virtual keyspaces, which CQL cannot define.
const VIRTUAL: [(&str, &str); 2] = [
    ("system_views", include_str!("system_views.cql")),
    (
        "system_virtual_schema",
        include_str!("system_virtual_schema.cql"),
    ),
];

/// The system keyspaces with all their tables, as Cassandra 5.0.6 has them.
pub fn system_keyspaces() -> Schema {
    let mut schema = Schema::default();
    for (name, _) in VIRTUAL {
        let name: Arc<str> = Arc::from(name);
        let keyspace = Keyspace {
            name: name.clone(),
            replication: BTreeMap::new(),
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            functions: Default::default(),
            is_virtual: true,
            unserved: Default::default(),
        };
        schema.keyspaces.insert(name, Arc::new(keyspace));
    }
    let texts = STORED
        .into_iter()
        .chain(VIRTUAL.into_iter().map(|(_, text)| text));
    for text in texts {
        schema = define(&schema, text).expect("the definitions of this folder are right: tested");
    }
    schema.version = version_of(&schema);
    schema
}

/// The schema after all statements of a file.
fn define(schema: &Schema, text: &str) -> Result<Schema, CqlError> {
    let mut schema = schema.clone();
    for statement in text.split_inclusive(";\n") {
        if statement.trim().is_empty() {
            continue;
        }
        let statement = cql::parse(statement)?;
        if let Some(plan) = SchemaPlan::new(&statement, None)? {
            schema = plan.define_system(&schema)?;
        }
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keyspaces_are_defined() {
        let schema = system_keyspaces();
        let tables: Vec<(&str, usize, bool)> = schema
            .keyspaces
            .values()
            .map(|keyspace| (&*keyspace.name, keyspace.tables.len(), keyspace.is_virtual))
            .collect();
        assert_eq!(
            tables,
            [
                ("system", 23, false),
                ("system_auth", 8, false),
                ("system_distributed", 4, false),
                ("system_schema", 11, false),
                ("system_traces", 2, false),
                ("system_views", 43, true),
                ("system_virtual_schema", 3, true),
            ]
        );
        let local = schema.table("system", "local").unwrap();
        assert_eq!(local.id.to_string(), "7ad54392-bcdd-35a6-8417-4e047860b377");
        assert_eq!(local.options.gc_grace_seconds, 0);
        let clients = schema.table("system_views", "clients").unwrap();
        assert!(clients.is_virtual);
    }
}
