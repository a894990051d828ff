//! Writes that a replica does not have.

use cluster::NodeId;
use model::Mutation;

use crate::hints::{self, Kept};
use crate::shard::Shard;

/// A write went to the other replicas, but this one is down, has failed, or has not answered in time: it
/// may have it or not, and will not learn of it by itself. A hint is kept for it, if there may be one.
/// `written_at`: since when, in microseconds since 1970.
pub(super) fn missed(
    shard: &Shard,
    node: NodeId,
    mutation: &Mutation,
    written_at: i64,
) -> Option<Kept> {
    shard.metrics.missed_writes.add(1);
    hints::keep(shard, node, mutation, written_at)
}
