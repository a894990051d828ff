//! What `system` says of the indexes and views that are built.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{DecoratedKey, Mutation, PartitionUpdate, Schema};

use super::rows::{RowWriter, WriteTime, clustering, text};

/// A keyspace, and an index in it.
pub(crate) type IndexName = (Arc<str>, Arc<str>);

/// What turns the rows of `system."IndexInfo"` of some indexes into those of others. `timestamp` is in
/// microseconds since 1970.
pub(crate) fn built_mutations(
    schema: &Schema,
    before: &BTreeSet<IndexName>,
    after: &BTreeSet<IndexName>,
    timestamp: i64,
) -> Vec<Mutation> {
    let time = WriteTime::at(timestamp);
    let Some(table) = schema.table("system", "IndexInfo") else {
        return Vec::new();
    };
    let changed = before.symmetric_difference(after);
    let mutation = |name: &IndexName| {
        let key = DecoratedKey::new(text(&name.0));
        let mut update = PartitionUpdate::new(table.clone(), key);
        let row = update.row_mut(&clustering([&*name.1]));
        match after.contains(name) {
            true => drop(RowWriter::insert(table, row, time)),
            false => row.deletion = time.deletion(),
        }
        Mutation {
            updates: vec![update],
        }
    };
    changed.map(mutation).collect()
}

/// Takes back that indexes and views of users are built, also in part. Cassandra believes it
/// (`CassandraIndex.getInitializationTask`, `ViewBuilder.start`), and without it builds its own anew
/// when it opens the folder again: what is kept of them here it does not know. SASI and SAI look at each sstable
/// whether it is indexed. `timestamp` is in microseconds since 1970.
pub(crate) fn unbuilt_mutations(schema: &Schema, timestamp: i64) -> Vec<Mutation> {
    let keyspaces = schema.keyspaces.values();
    let mutations = keyspaces.map(|keyspace| {
        let (unserved, views) = (&keyspace.unserved.indexes, &keyspace.unserved.views);
        let served = keyspace
            .tables
            .values()
            .any(|table| !table.indexes.is_empty());
        // All three keep a partition for each keyspace, whatever the first calls it.
        let tables = [
            ("IndexInfo", served || !unserved.is_empty()),
            ("built_views", !views.is_empty()),
            ("view_builds_in_progress", !views.is_empty()),
        ];
        let wrong = tables.into_iter().filter(|(_, wrong)| *wrong);
        let updates = wrong.filter_map(|(name, _)| {
            let table = schema.table("system", name)?;
            let key = DecoratedKey::new(text(&keyspace.name));
            let mut update = PartitionUpdate::new(table.clone(), key);
            update.deletion = WriteTime::at(timestamp).deletion();
            Some(update)
        });
        Mutation {
            updates: updates.collect(),
        }
    });
    mutations.filter(|m| !m.updates.is_empty()).collect()
}
