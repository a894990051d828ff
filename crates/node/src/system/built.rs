//! What `system` says of the indexes and views that Cassandra has built.

use model::{DecoratedKey, Mutation, PartitionUpdate, Schema};

use super::rows::{WriteTime, text};

/// Takes back that indexes and views of users are built, also in part. Cassandra believes it
/// (`CassandraIndex.getInitializationTask`, `ViewBuilder.start`), and without it builds them anew
/// when it opens the folder again: nobody keeps them here. SASI and SAI look at each sstable
/// whether it is indexed. `timestamp` is in microseconds since 1970.
pub(crate) fn unbuilt_mutations(schema: &Schema, timestamp: i64) -> Vec<Mutation> {
    let keyspaces = schema.keyspaces.values();
    let mutations = keyspaces.map(|keyspace| {
        let (indexes, views) = (&keyspace.unserved.indexes, &keyspace.unserved.views);
        // All three keep a partition for each keyspace, whatever the first calls it.
        let tables = [
            ("IndexInfo", !indexes.is_empty()),
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
