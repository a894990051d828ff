//! A snapshot of what is about to go: TRUNCATE and DROP of a table by mistake can be taken back
//! (Cassandra's `auto_snapshot`).
//!
//! It is made before anything else is done; if it cannot be, the statement fails and nothing has
//! changed. A table with nothing in it leaves none.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Schema, Table};
use storage::SnapshotManifest;

use crate::admin::schema_cql;
use crate::message::{ShardReply, ShardRequest};
use crate::shard::Shard;

/// Before a TRUNCATE.
pub(crate) async fn truncating(shard: &Shard, table: &Table) -> Result<(), String> {
    take(shard, table, "truncated").await
}

/// Before a change of the schema: of the tables that the new one does not have.
pub(crate) async fn dropping(shard: &Shard, old: &Schema, new: &Schema) -> Result<(), String> {
    let tables = old
        .keyspaces
        .values()
        .flat_map(|keyspace| keyspace.tables.values());
    for table in tables.filter(|table| new.table_by_id(table.id).is_none()) {
        take(shard, table, "dropped").await?;
    }
    Ok(())
}

async fn take(shard: &Shard, table: &Table, why: &str) -> Result<(), String> {
    let wanted = shard.state.config.auto_snapshot && table.options.allow_auto_snapshot;
    if !wanted || table.is_virtual {
        return Ok(());
    }
    let now = shard.env.wall_micros() / 1000;
    let tag: Arc<str> = format!("{why}-{now}-{}", table.name).into();
    let made = make(shard, table, &tag, now).await;
    made.map_err(|error| {
        let (keyspace, name) = (&table.keyspace, &table.name);
        format!(
            "the snapshot before it failed: {error}; without one it goes after ALTER TABLE \
             {keyspace}.{name} WITH allow_auto_snapshot = false"
        )
    })
}

async fn make(shard: &Shard, table: &Table, tag: &Arc<str>, now: i64) -> Result<(), String> {
    let mut pending = Vec::new();
    for other in shard.others() {
        let request = ShardRequest::LinkSnapshot(table.id, tag.clone());
        pending.push(shard.send(other, request).await);
    }
    let own = shard.store.link_snapshot(table.id, tag, true).await;
    let mut linked: Result<BTreeSet<String>, String> = own.map_err(|error| error.to_string());
    for reply in pending {
        let more = match reply.reply().await {
            Ok(ShardReply::Linked(files)) => Ok(files),
            Ok(ShardReply::Failed(reason)) => Err(reason),
            Ok(_) => Err("an answer to another question".to_owned()),
            Err(gone) => Err(gone.to_string()),
        };
        linked = linked.and_then(|mut files| {
            files.extend(more?);
            Ok(files)
        });
    }
    let files = linked?;
    if files.is_empty() {
        return Ok(());
    }
    let manifest = SnapshotManifest {
        files: files.into_iter().collect(),
        created_at: Some(now),
        expires_at: None,
    };
    let schema = schema_cql(table);
    let finished = shard
        .store
        .finish_snapshot(table.id, tag, &manifest, &schema)
        .await;
    finished.map_err(|error| error.to_string())
}
