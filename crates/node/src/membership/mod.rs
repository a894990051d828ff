//! How the node becomes one of a cluster, and what all shards then know of it.

use std::sync::Arc;

use cluster::{
    ClusterIdentity, ClusterMetadata, MetadataEntry, Node, NodeId, Place, Transformation,
};
use wire::internode::VERSIONS;

use crate::message::{ShardReply, ShardRequest};
use crate::metadata::{Membership, Metadata, random_uuid};
use crate::shard::Shard;
use crate::system::{LocalNode, RELEASE_VERSION};

/// What the node says of itself.
fn own_node(shard: &Shard, local: &LocalNode) -> Node {
    Node {
        host_id: local.host_id,
        address: local.storage_address(),
        native_address: (local.rpc_address, local.rpc_port).into(),
        place: Place {
            datacenter: local.data_center.clone(),
            rack: local.rack.clone(),
        },
        shards: shard.env.shards(),
        release: RELEASE_VERSION.to_owned(),
        protocol: *VERSIONS.end(),
    }
}

/// A cluster of this node alone.
pub(crate) fn alone(shard: &Shard) -> Membership {
    let local = shard.local();
    let own = NodeId(0);
    let identity = ClusterIdentity {
        id: random_uuid(shard),
        name: local.cluster_name.clone(),
    };
    let tokens = local.tokens.iter().copied().collect();
    let entries = [
        MetadataEntry::Create(identity),
        MetadataEntry::Topology(Transformation::Register(own_node(shard, &local))),
        MetadataEntry::Topology(Transformation::JoinEmpty(own, tokens)),
    ];
    let mut cluster = ClusterMetadata::default();
    for (entry, epoch) in entries.iter().zip(1..) {
        let (next, taken) = cluster.apply(epoch, entry);
        debug_assert_eq!(taken, Ok(()));
        cluster = next;
    }
    let cluster = Arc::new(cluster);
    Membership { own, cluster }
}

/// All shards go over to what is known of the cluster; returns when all have.
pub(crate) async fn set_everywhere(shard: &Shard, membership: &Membership) -> Result<(), String> {
    let mut pending = Vec::new();
    for other in shard.others() {
        let request = ShardRequest::SetCluster(membership.clone());
        pending.push(shard.send(other, request).await);
    }
    set(shard, membership.clone());
    for reply in pending {
        match reply.reply().await {
            Ok(ShardReply::Failed(reason)) => return Err(reason),
            Ok(_) => {}
            Err(gone) => return Err(gone.to_string()),
        }
    }
    Ok(())
}

/// This shard goes over to what is known of the cluster.
pub(crate) fn set(shard: &Shard, membership: Membership) {
    let schema = shard.metadata().schema.clone();
    shard.set_metadata(Metadata::new(schema, Some(membership)));
}
