//! Who has the data of a token, and whom to ask first (`ReplicaLayout`, `DynamicEndpointSnitch`).

use std::net::SocketAddr;

use cluster::{FailureReason, NodeId, Outcome, Placement, Replica, Replicas};
use model::Token;
use smallvec::SmallVec;

use crate::metadata::Metadata;
use crate::shard::Shard;

/// Is this node the only replica?
pub(super) fn are_here(replicas: &Replicas, metadata: &Metadata) -> bool {
    replicas.pending.is_empty() && replicas.natural[..] == [metadata.own()]
}

/// Is it the only replica of all of a keyspace?
pub(super) fn all_are_here(placement: &Placement, metadata: &Metadata) -> bool {
    let mut ranges = placement.ranges();
    ranges.all(|(_, replicas)| are_here(replicas, metadata))
}

/// The replicas of a token, those to come last.
pub(super) fn replicas_of<'m>(
    shard: &Shard,
    metadata: &'m Metadata,
    placement: &Placement,
    token: Token,
) -> SmallVec<[Replica<'m>; 1]> {
    let replicas = placement.replicas(token);
    let own = metadata.own();
    let replica = |pending| {
        move |node: &NodeId| Replica {
            node: *node,
            datacenter: metadata
                .node(*node)
                .map_or("", |node| &node.place.datacenter),
            alive: *node == own || shard.peers.is_up(*node),
            pending,
        }
    };
    let natural = replicas.natural.iter().map(replica(false));
    natural
        .chain(replicas.pending.iter().map(replica(true)))
        .collect()
}

/// The replicas of a token that may be read from, in the order in which they are asked: this node, then
/// those of its rack, of its data centre, and the others; of those that are as near, the faster ones
/// first.
pub(super) fn preferred<'m>(
    shard: &Shard,
    metadata: &'m Metadata,
    placement: &Placement,
    token: Token,
) -> SmallVec<[Replica<'m>; 1]> {
    let mut replicas = replicas_of(shard, metadata, placement, token);
    replicas.retain(|replica| !replica.pending);
    let local = shard.local();
    let distance = |node: NodeId| match metadata.node(node) {
        _ if node == metadata.own() => 0,
        Some(there) if there.place == local.place() => 1,
        Some(there) if there.place.datacenter == local.data_center => 2,
        _ => 3,
    };
    let now = shard.env.now();
    replicas.sort_by_cached_key(|replica| {
        let slowness = shard.observed.slowness(replica.node, now);
        (distance(replica.node), slowness)
    });
    replicas
}

/// The replicas that failed, by their addresses.
pub(super) fn failures(outcome: &Outcome, metadata: &Metadata) -> Vec<(SocketAddr, FailureReason)> {
    let Outcome::Failure { failures, .. } = outcome else {
        return Vec::new();
    };
    let failures = failures.iter();
    let known = failures.filter_map(|(node, reason)| {
        let address = metadata.node(*node)?.address;
        Some((address, *reason))
    });
    known.collect()
}
