//! What a shard knows of the cluster and its schema, and what follows from it for requests.
//!
//! Both change by entries of the metadata log, which shard 0 follows ([`crate::membership`]): it has
//! what they say written into the tables of `system_schema`, then all shards go over to the new
//! schema, and only when all have, clients are told. The rows are the truth: a node that stops in
//! between finds them at its next start.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cluster::{ClusterMetadata, Node, NodeId, Place, Placement, ReplicationStrategy, Topology};
use cql::schema::{ChangeKind, ChangeTarget, SchemaPlan};
use model::{Schema, TableId};
use storage::ViewRule;
use uuid::Uuid;
use wire::SchemaChange;

use crate::error::RequestError;
use crate::membership;
use crate::message::{ShardReply, ShardRequest};
use crate::peers::LEADING_SHARD;
use crate::prepared;
use crate::shard::Shard;
use crate::views;

/// The cluster, as this node is one of it.
#[derive(Clone)]
pub(crate) struct Membership {
    /// This node.
    pub(crate) own: NodeId,
    /// What all agree on, as of the last epoch that is known here.
    pub(crate) cluster: Arc<ClusterMetadata>,
}

/// The schema, who the nodes are, and where the data of each keyspace lies.
pub(crate) struct Metadata {
    /// All keyspaces.
    pub(crate) schema: Arc<Schema>,
    /// The nodes; `None` before this one is one of them.
    membership: Option<Membership>,
    placements: BTreeMap<Arc<str>, Placement>,
    /// The views of tables that have any.
    views: views::Rules,
    local_only: Placement,
}

/// The node as long as it has no id: only what it has for itself is read and written then.
const NO_MEMBER: NodeId = NodeId(u32::MAX);

impl Metadata {
    /// Of a schema, in a cluster.
    pub(crate) fn new(schema: Arc<Schema>, membership: Option<Membership>) -> Metadata {
        let own = membership.as_ref().map_or(NO_MEMBER, |member| member.own);
        let strategies: Vec<_> = schema
            .keyspaces
            .iter()
            .map(|(name, keyspace)| {
                // What the node itself defines or a statement has been checked to be is never wrong;
                // rows of another node's making may be, and then the data is where it is: here.
                ReplicationStrategy::from_options(name, &keyspace.replication)
                    .unwrap_or(ReplicationStrategy::Local)
            })
            .collect();
        let placements = match &membership {
            Some(member) => member.cluster.topology().placements(&strategies, own),
            None => Topology::new().placements(&strategies, own),
        };
        Metadata {
            placements: schema.keyspaces.keys().cloned().zip(placements).collect(),
            views: views::rules_of(&schema),
            schema,
            membership,
            local_only: Placement::local(own),
        }
    }

    /// The views of a table, if it has any.
    pub(crate) fn views_of(&self, table: TableId) -> Option<Rc<[ViewRule]>> {
        self.views.get(&table).cloned()
    }

    /// Where the data of a keyspace lies.
    pub(crate) fn placement(&self, keyspace: &str) -> &Placement {
        self.placements.get(keyspace).unwrap_or(&self.local_only)
    }

    /// The cluster, once this node is one of it.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// The other nodes that own tokens.
    pub(crate) fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.own();
        let members = self.membership().into_iter();
        let members = members.flat_map(|member| member.cluster.topology().joined());
        members.map(|(id, _)| id).filter(move |id| *id != own)
    }

    /// What clients are warned of who have just changed the schema, which was `before`.
    pub(crate) fn warnings(&self, plan: &SchemaPlan, before: &Schema) -> Vec<String> {
        let members = self.membership().into_iter();
        let members = members.flat_map(|member| member.cluster.topology().joined());
        let mut nodes = BTreeMap::new();
        for (_, member) in members {
            *nodes
                .entry(member.node.place.datacenter.as_str())
                .or_insert(0) += 1;
        }
        plan.warnings(before, &self.schema, &nodes)
    }

    /// The id of this node.
    pub(crate) fn own(&self) -> NodeId {
        self.membership
            .as_ref()
            .map_or(NO_MEMBER, |member| member.own)
    }

    /// The epoch of what is known of the cluster; 0 before this node is one of it.
    pub(crate) fn epoch(&self) -> u64 {
        let membership = self.membership.as_ref();
        membership.map_or(0, |member| member.cluster.epoch())
    }

    /// The identity of the cluster.
    pub(crate) fn cluster_id(&self) -> Option<Uuid> {
        Some(self.membership.as_ref()?.cluster.identity()?.id)
    }

    /// What a node says of itself, if it is known.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        let topology = self.membership.as_ref()?.cluster.topology();
        Some(&topology.member(id)?.node)
    }

    /// Where the node of this identity is, if it is known.
    pub(crate) fn place_of(&self, host_id: Uuid) -> Option<Place> {
        let topology = self.membership.as_ref()?.cluster.topology();
        let id = topology.id_of(host_id)?;
        Some(topology.member(id)?.node.place.clone())
    }
}

/// Changes the schema by a statement, wherever it came in. What clients are told; `None` where
/// nothing changed.
pub(crate) async fn change(
    shard: &Rc<Shard>,
    plan: &SchemaPlan,
) -> Result<Option<SchemaChange>, RequestError> {
    if shard.index() == LEADING_SHARD {
        return membership::schema::change(shard, plan).await;
    }
    let request = ShardRequest::ChangeSchema(Box::new(plan.clone()));
    match shard.ask(LEADING_SHARD, request).await.map_err(failed)? {
        ShardReply::SchemaChanged(result) => result,
        _ => Err(failed("an answer to another question")),
    }
}

fn failed(reason: impl ToString) -> RequestError {
    RequestError::Server(format!("schema change: {}", reason.to_string()))
}

/// A random identity.
pub(crate) fn random_uuid(shard: &Shard) -> Uuid {
    let (high, low) = (shard.env.random_u64(), shard.env.random_u64());
    uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
        .into_uuid()
}

/// All shards go over to a schema; returns when all have.
pub(crate) async fn set_everywhere(shard: &Rc<Shard>, schema: &Arc<Schema>) -> Result<(), String> {
    let request = || ShardRequest::SetSchema(schema.clone());
    shard.on_all(request, set(shard, schema.clone())).await
}

/// This shard goes over to a schema.
pub(crate) async fn set(shard: &Rc<Shard>, schema: Arc<Schema>) -> Result<(), String> {
    let opened = shard.store.set_schema(&schema).await;
    opened.map_err(|error| format!("shard {}: {error}", shard.index()))?;
    let stale = shard.statements.borrow_mut().retain_valid(&schema);
    tracing::debug!(
        "schema {}: {} prepared statements are stale",
        schema.version,
        stale.len()
    );
    shard.count_statements();
    let membership = shard.metadata().membership().cloned();
    shard.set_metadata(Metadata::new(schema, membership));
    prepared::forget(shard, stale);
    Ok(())
}

/// As the native protocol puts it.
pub(crate) fn wire_change(event: cql::schema::ChangeEvent) -> SchemaChange {
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
            ChangeTarget::Function => wire::ChangeTarget::Function {
                name: event.name,
                argument_types: event.arguments,
            },
            ChangeTarget::Aggregate => wire::ChangeTarget::Aggregate {
                name: event.name,
                argument_types: event.arguments,
            },
        },
    }
}
