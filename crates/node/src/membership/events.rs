//! What clients and the tables of the node say of the other nodes: `system.peers` and its twin, and
//! the events that drivers rely on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use cluster::{NodeId, Topology};
use wire::{Event, StatusChange, TopologyChange};

use crate::message::ShardRequest;
use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::system::{PeerRow, peer_mutations, saved_peers};

/// Brings the tables of peers up to what the cluster is now: also what a node that was moved here from
/// another cluster, a Cassandra's too, had in them.
///
/// # Errors
/// The node's own tables cannot be read or written; in words.
pub(super) async fn save_peers(shard: &Rc<Shard>) -> Result<(), String> {
    let metadata = shard.metadata();
    let Some(membership) = metadata.membership() else {
        return Ok(());
    };
    let others = membership.cluster.topology().joined();
    let others = others.filter(|(id, _)| *id != membership.own);
    let rows: Vec<PeerRow> = others
        .map(|(_, member)| PeerRow {
            node: member.node.clone(),
            tokens: member.tokens.iter().copied().collect(),
        })
        .collect();
    let schema = &metadata.schema;
    let mut saved = Vec::new();
    for name in ["peers", "peers_v2"] {
        let table = own_table(schema, "system", name).map_err(|error| error.to_string())?;
        let read = read_whole(shard, table.clone(), None).await;
        let partitions = read.map_err(|error| error.to_string())?;
        // The clock may have been ahead in an earlier life.
        shard.local_timestamps.pass_rows(&partitions);
        saved.push((table, partitions));
    }
    let now = shard.local_timestamps.next(&shard.env);
    let known = saved_peers(&saved);
    for mutation in peer_mutations(schema, &rows, &known, schema.version, now) {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| format!("writing system.peers: {error}"))?;
    }
    Ok(())
}

/// Tells clients of all shards.
pub(super) async fn tell(shard: &Rc<Shard>, event: Event) {
    let request = || ShardRequest::Announce(event.clone());
    let here = async {
        shard.clients.announce(&event);
        Ok(())
    };
    // A shard that is gone has no clients.
    let _ = shard.on_all(request, here).await;
}

/// Tells of nodes that came, or left for good. That a node came is told before that it is up.
pub(super) async fn tell_of_members(shard: &Rc<Shard>, before: &Topology, now: &Topology) {
    let addresses = |topology: &Topology| -> BTreeMap<NodeId, SocketAddr> {
        let joined = topology.joined();
        joined
            .map(|(id, member)| (id, member.node.native_address))
            .collect()
    };
    let own = shard.metadata().own();
    let (before, now) = (addresses(before), addresses(now));
    let differing = |from: &BTreeMap<NodeId, SocketAddr>, to: &BTreeMap<NodeId, SocketAddr>| {
        let missing = from
            .iter()
            .filter(|(id, address)| **id != own && to.get(id) != Some(address));
        missing.map(|(_, address)| *address).collect::<Vec<_>>()
    };
    for address in differing(&before, &now) {
        tell(shard, Event::Topology(TopologyChange::RemovedNode, address)).await;
    }
    for address in differing(&now, &before) {
        tell(shard, Event::Topology(TopologyChange::NewNode, address)).await;
    }
}

/// Tells that a node is up, or down.
pub(super) async fn tell_of_status(shard: &Rc<Shard>, node: NodeId, up: bool) {
    let address = shard.metadata().node(node).map(|node| node.native_address);
    let Some(address) = address else { return };
    let change = if up {
        StatusChange::Up
    } else {
        StatusChange::Down
    };
    tell(shard, Event::Status(change, address)).await;
}
