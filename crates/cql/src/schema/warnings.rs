//! What clients are warned of who change the schema (`AlterSchemaStatement.clientWarnings`,
//! `AbstractReplicationStrategy.maybeWarnOnOptions`).

use std::collections::BTreeMap;

use model::{Index, Schema};

use super::{is_system_keyspace, replication, sasi, storage_attached, views};
use crate::ast::{CreateIndex, Statement};

/// The warnings of a statement that has made the schema `after` from `before`, in a cluster with so
/// many nodes in each data centre.
pub(super) fn of(
    statement: &Statement,
    before: &Schema,
    after: &Schema,
    nodes: &BTreeMap<&str, usize>,
) -> Vec<String> {
    match statement {
        Statement::CreateView(_) => vec![views::USAGE_WARNING.to_owned()],
        Statement::CreateKeyspace(create) if !before.keyspaces.contains_key(&*create.name) => {
            too_few_nodes(&create.name, after, nodes)
        }
        Statement::AlterKeyspace(alter) => {
            let mut warnings = too_few_nodes(&alter.name, after, nodes);
            if copies(&alter.name, before) < copies(&alter.name, after) {
                warnings.push(
                    "When increasing replication factor you need to run a full (-full) repair to \
                     distribute the data."
                        .to_owned(),
                );
            }
            warnings
        }
        Statement::CreateIndex(create) if create.using.as_deref() == Some(model::Index::SASI) => {
            vec![sasi::USAGE_WARNING.to_owned()]
        }
        Statement::CreateIndex(create) => of_vectors(create, before, after),
        _ => Vec::new(),
    }
}

/// An index is made on a table that has one of vectors then: all of its indexes are looked at.
fn of_vectors(create: &CreateIndex, before: &Schema, after: &Schema) -> Vec<String> {
    let table = |schema: &Schema| {
        let keyspace = create.table.keyspace.as_deref()?;
        schema.table(keyspace, &create.table.name).cloned()
    };
    let (Some(before), Some(after)) = (table(before), table(after)) else {
        return Vec::new();
    };
    let of_vectors = |index: &Index| {
        let column = index.column_of(&after);
        column.is_some_and(|column| !index.has_entries(column))
    };
    match before.indexes.len() < after.indexes.len() && after.indexes.iter().any(of_vectors) {
        true => vec![storage_attached::USAGE_WARNING.to_owned()],
        false => Vec::new(),
    }
}

/// One warning for each data centre, or the cluster, that has fewer nodes than there are to be copies.
fn too_few_nodes(name: &str, schema: &Schema, nodes: &BTreeMap<&str, usize>) -> Vec<String> {
    let Some(keyspace) = schema.keyspaces.get(name) else {
        return Vec::new();
    };
    if is_system_keyspace(name) {
        return Vec::new();
    }
    let all: usize = nodes.values().sum();
    let mut warnings = Vec::new();
    for (datacenter, factor) in replication::factors(&keyspace.replication) {
        let (count, place) = match datacenter {
            None => (all, String::new()),
            Some(datacenter) => (
                nodes.get(datacenter).copied().unwrap_or(0),
                format!(" for datacenter {datacenter}"),
            ),
        };
        if count > 0 && factor as usize > count {
            warnings.push(format!(
                "Your replication factor {factor} for keyspace {name} is higher than the number of \
                 nodes {count}{place}"
            ));
        }
    }
    warnings
}

/// How many copies of each partition a keyspace has in all.
fn copies(name: &str, schema: &Schema) -> u64 {
    let keyspace = schema.keyspaces.get(name);
    let factors = keyspace.map(|keyspace| replication::factors(&keyspace.replication));
    factors.map_or(0, |factors| {
        factors.map(|(_, factor)| u64::from(factor)).sum()
    })
}
