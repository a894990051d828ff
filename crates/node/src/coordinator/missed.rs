//! Writes that a replica does not have.

use cluster::NodeId;
use model::Mutation;

use crate::shard::Shard;

/// A write went to the other replicas, but this one is down, has failed, or has not answered in time: it
/// may have it or not, and will not learn of it by itself. It is counted; this is where a hint for the
/// replica is to be kept, so that the write is delivered once it is up.
pub(super) fn missed(shard: &Shard, node: NodeId, mutation: &Mutation) {
    shard.metrics.missed_writes.add(1);
    let table = &mutation.updates[0].table;
    tracing::debug!(
        "node {node} missed a write to {}.{}",
        table.keyspace,
        table.name
    );
}
