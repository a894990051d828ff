//! `system.peers` and `system.peers_v2`: what drivers ask a node about the others
//! (`SystemKeyspace.updateTokens`, `updatePeerInfo`).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use cluster::Node;
use model::{
    Clustering, DecoratedKey, DeletionTime, Mutation, Partition, PartitionUpdate, Schema, Table,
    Token,
};
use uuid::Uuid;

use super::rows::{RowWriter, WriteTime, inet, int, text, uuid};

/// Another node of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct PeerRow {
    /// What it says of itself.
    pub(crate) node: Node,
    /// The tokens it owns.
    pub(crate) tokens: Vec<Token>,
}

/// The nodes that the tables have rows of: by address in the first, by address and port in the second,
/// whose port is `None` in the first.
pub(crate) fn saved_peers(
    tables: &[(Arc<Table>, Vec<Partition>)],
) -> BTreeSet<(IpAddr, Option<u16>)> {
    let mut saved = BTreeSet::new();
    for (table, partitions) in tables {
        let with_port = &*table.name == "peers_v2";
        for partition in partitions {
            let Some(address) = address(partition.key.key()) else {
                continue;
            };
            for row in &partition.rows {
                let port = row.clustering.0.first().and_then(|port| port_of(port));
                if !with_port || port.is_some() {
                    saved.insert((address, port.filter(|_| with_port)));
                }
            }
        }
    }
    saved
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(octets.into());
    }
    Some(<[u8; 16]>::try_from(bytes).ok()?.into())
}

fn port_of(bytes: &[u8]) -> Option<u16> {
    let port = i32::from_be_bytes(bytes.try_into().ok()?);
    u16::try_from(port).ok()
}

/// Writes the rows of `peers`, and deletes those of `saved` that are of nobody any more. All nodes have
/// the schema of this version.
pub(crate) fn peer_mutations(
    schema: &Schema,
    peers: &[PeerRow],
    saved: &BTreeSet<(IpAddr, Option<u16>)>,
    version: Uuid,
    now_micros: i64,
) -> Vec<Mutation> {
    let time = WriteTime::at(now_micros);
    let addresses: Vec<SocketAddr> = peers.iter().map(|peer| peer.node.address).collect();
    let is_there = |address: &IpAddr, port: &Option<u16>| {
        let mut known = addresses.iter();
        known.any(|known| known.ip() == *address && port.is_none_or(|port| port == known.port()))
    };
    let mut mutations = Vec::new();
    if let Some(table) = schema.table("system", "peers") {
        let gone = saved
            .iter()
            .filter(|(ip, port)| port.is_none() && !is_there(ip, port));
        mutations.extend(gone.map(|(ip, _)| delete(table, *ip, None, time)));
        mutations.extend(
            peers
                .iter()
                .map(|peer| write(table, peer, false, version, time)),
        );
    }
    if let Some(table) = schema.table("system", "peers_v2") {
        let gone = saved
            .iter()
            .filter(|(ip, port)| port.is_some() && !is_there(ip, port));
        mutations.extend(gone.map(|(ip, port)| delete(table, *ip, *port, time)));
        mutations.extend(
            peers
                .iter()
                .map(|peer| write(table, peer, true, version, time)),
        );
    }
    mutations
}

/// The place of a node's row; its port is part of it in the second table.
fn place(address: IpAddr, port: Option<u16>) -> (DecoratedKey, Clustering) {
    let clustering = port.map(|port| int(i32::from(port)));
    (
        DecoratedKey::new(inet(address)),
        Clustering(clustering.into_iter().collect()),
    )
}

fn delete(table: &Arc<Table>, address: IpAddr, port: Option<u16>, time: WriteTime) -> Mutation {
    let (key, clustering) = place(address, port);
    let mut update = PartitionUpdate::new(table.clone(), key);
    match port {
        None => update.deletion = time.deletion(),
        Some(_) => update.row_mut(&clustering).deletion = time.deletion(),
    }
    Mutation {
        updates: vec![update],
    }
}

fn write(
    table: &Arc<Table>,
    peer: &PeerRow,
    with_ports: bool,
    version: Uuid,
    time: WriteTime,
) -> Mutation {
    let node = &peer.node;
    let (address, native) = (node.address, node.native_address);
    let (key, clustering) = place(address.ip(), with_ports.then_some(address.port()));
    let mut update = PartitionUpdate::new(table.clone(), key);
    // What the row said before is gone with it.
    let before = DeletionTime {
        timestamp: time.micros - 1,
        ..time.deletion()
    };
    let row = update.row_mut(&clustering);
    row.deletion = before;
    let tokens: Vec<Bytes> = peer.tokens.iter().map(|t| text(&t.0.to_string())).collect();
    let mut writer = RowWriter::insert(table, row, time);
    writer
        .set("data_center", text(&node.place.datacenter))
        .set("host_id", uuid(node.host_id))
        .set("preferred_ip", inet(address.ip()))
        .set("rack", text(&node.place.rack))
        .set("release_version", text(&node.release))
        .set("schema_version", uuid(version))
        .set_elements("tokens", tokens);
    match with_ports {
        false => {
            writer.set("rpc_address", inet(native.ip()));
        }
        true => {
            writer
                .set("native_address", inet(native.ip()))
                .set("native_port", int(i32::from(native.port())))
                .set("preferred_port", int(i32::from(address.port())));
        }
    }
    Mutation {
        updates: vec![update],
    }
}
