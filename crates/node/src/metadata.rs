//! The schema of a node and what follows from it for requests; and how it changes.
//!
//! Shard 0 makes one change after the other: the statement gives a new schema, the difference goes
//! into the tables of `system_schema`, then all shards go over to the new schema, and only when
//! all have, clients are told. The rows are the truth: a node that stops in between finds them at
//! its next start.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{NodeId, Placement, ReplicationStrategy, Ring};
use cql::schema::{ChangeKind, ChangeTarget, SchemaPlan};
use model::Schema;
use uuid::Uuid;
use wire::SchemaChange;

use crate::auto_snapshot;
use crate::error::RequestError;
use crate::message::{ShardReply, ShardRequest};
use crate::replica;
use crate::shard::Shard;
use crate::system::{LocalNode, local_mutation, schema_to_mutations};

/// The schema, and where the data of each keyspace lies.
pub(crate) struct Metadata {
    /// All keyspaces.
    pub(crate) schema: Arc<Schema>,
    placements: BTreeMap<Arc<str>, Placement>,
    local_only: Placement,
}

/// This node, in a ring of one.
pub(crate) const LOCAL_NODE: NodeId = NodeId(0);

impl Metadata {
    /// Of a schema, in a cluster of this one node.
    pub(crate) fn new(schema: Arc<Schema>, local: Option<&LocalNode>) -> Metadata {
        let mut ring = Ring::new();
        if let Some(local) = local {
            let tokens = local.tokens.iter().copied().collect();
            ring.insert(LOCAL_NODE, &local.place(), &tokens);
        }
        let placement = |strategy: &_| Placement::new(&ring, &[], strategy, LOCAL_NODE);
        let placements = schema.keyspaces.iter().map(|(name, keyspace)| {
            // What the node itself defines or a statement has been checked to be is never wrong;
            // rows of another node's making may be, and then the data is where it is: here.
            let strategy = ReplicationStrategy::from_options(name, &keyspace.replication)
                .unwrap_or(ReplicationStrategy::Local);
            (name.clone(), placement(&strategy))
        });
        Metadata {
            placements: placements.collect(),
            schema,
            local_only: Placement::local(LOCAL_NODE),
        }
    }

    /// Where the data of a keyspace lies.
    pub(crate) fn placement(&self, keyspace: &str) -> &Placement {
        self.placements.get(keyspace).unwrap_or(&self.local_only)
    }
}

/// Changes the schema by a statement, wherever it came in. What clients are told; `None` where
/// nothing changed.
pub(crate) async fn change(
    shard: &Shard,
    plan: &SchemaPlan,
) -> Result<Option<SchemaChange>, RequestError> {
    if shard.index() == 0 {
        return apply(shard, plan).await;
    }
    let request = ShardRequest::ChangeSchema(Box::new(plan.clone()));
    match shard.ask(0, request).await.map_err(failed)? {
        ShardReply::SchemaChanged(result) => result,
        _ => Err(failed("an answer to another question")),
    }
}

fn failed(reason: impl ToString) -> RequestError {
    RequestError::Server(format!("schema change: {}", reason.to_string()))
}

/// Changes the schema. On shard 0.
pub(crate) async fn apply(
    shard: &Shard,
    plan: &SchemaPlan,
) -> Result<Option<SchemaChange>, RequestError> {
    let _one_at_a_time = shard.schema_change.acquire(1).await;
    let old = shard.metadata().schema.clone();
    let local = shard.local();
    let now = shard.timestamps.next(&shard.env);
    let ids = || random_uuid(shard);
    let change = plan.apply(&old, ids, now, &[&local.data_center])?;
    let Some(event) = change.event else {
        return Ok(None);
    };
    let new = Arc::new(change.schema);
    auto_snapshot::dropping(shard, &old, &new)
        .await
        .map_err(failed)?;
    for mutation in schema_to_mutations(&old, &new, now) {
        replica::apply(shard, mutation).await.map_err(failed)?;
    }
    set_everywhere(shard, &new).await.map_err(failed)?;
    if let Some(mutation) = local_mutation(&new, &local, shard.timestamps.next(&shard.env)) {
        replica::apply(shard, mutation).await.map_err(failed)?;
    }
    let event = wire_change(event);
    announce(shard, &event).await;
    Ok(Some(event))
}

/// A random identity.
pub(crate) fn random_uuid(shard: &Shard) -> Uuid {
    let (high, low) = (shard.env.random_u64(), shard.env.random_u64());
    uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
        .into_uuid()
}

/// All shards go over to a schema; returns when all have.
pub(crate) async fn set_everywhere(shard: &Shard, schema: &Arc<Schema>) -> Result<(), String> {
    let mut pending = Vec::new();
    for other in shard.others() {
        let request = ShardRequest::SetSchema(schema.clone());
        pending.push(shard.send(other, request).await);
    }
    let mut result = set(shard, schema.clone()).await;
    for reply in pending {
        result = result.and(match reply.reply().await {
            Ok(ShardReply::Failed(reason)) => Err(reason),
            Ok(_) => Ok(()),
            Err(gone) => Err(gone.to_string()),
        });
    }
    result
}

/// This shard goes over to a schema.
pub(crate) async fn set(shard: &Shard, schema: Arc<Schema>) -> Result<(), String> {
    let opened = shard.store.set_schema(&schema).await;
    opened.map_err(|error| format!("shard {}: {error}", shard.index()))?;
    let stale = shard.statements.borrow_mut().retain_valid(&schema);
    tracing::debug!(
        "schema {}: {stale} prepared statements are stale",
        schema.version
    );
    shard.count_statements();
    let local = shard.local_if_known();
    shard.set_metadata(Metadata::new(schema, local.as_deref()));
    Ok(())
}

async fn announce(shard: &Shard, change: &SchemaChange) {
    let mut pending = Vec::new();
    for other in shard.others() {
        let request = ShardRequest::Announce(change.clone());
        pending.push(shard.send(other, request).await);
    }
    shard.clients.announce(change);
    for reply in pending {
        // A shard that is gone has no clients.
        let _ = reply.reply().await;
    }
}

/// As the native protocol puts it.
fn wire_change(event: cql::schema::ChangeEvent) -> SchemaChange {
    SchemaChange {
        kind: match event.kind {
            ChangeKind::Created => wire::ChangeKind::Created,
            ChangeKind::Updated => wire::ChangeKind::Updated,
            ChangeKind::Dropped => wire::ChangeKind::Dropped,
        },
        keyspace: event.keyspace,
        target: match event.target {
            ChangeTarget::Keyspace => wire::ChangeTarget::Keyspace,
            ChangeTarget::Table => wire::ChangeTarget::Table(event.name),
            ChangeTarget::Type => wire::ChangeTarget::Type(event.name),
        },
    }
}
