//! `system.local`: what drivers ask of a node first.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use cluster::Place;
use model::{Clustering, DecoratedKey, Mutation, PartitionUpdate, Schema, Token};
use uuid::Uuid;

use super::rows::{RowWriter, WriteTime, inet, int, text, uuid};

/// What the node tells of itself.
#[derive(Clone, Debug)]
pub struct LocalNode {
    /// The identity of the node, for its life.
    pub host_id: Uuid,
    /// The name of the cluster.
    pub cluster_name: String,
    /// The data centre it is in.
    pub data_center: String,
    /// The rack it is in.
    pub rack: String,
    /// The address clients connect to.
    pub rpc_address: IpAddr,
    /// The port clients connect to.
    pub rpc_port: u16,
    /// The address other nodes connect to.
    pub listen_address: IpAddr,
    /// The port other nodes connect to.
    pub listen_port: u16,
    /// The tokens it owns.
    pub tokens: Vec<Token>,
    /// Seconds since 1970 of its start.
    pub gossip_generation: i32,
}

impl LocalNode {
    /// Where other nodes connect.
    pub fn storage_address(&self) -> SocketAddr {
        SocketAddr::new(self.listen_address, self.listen_port)
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        Place {
            datacenter: self.data_center.clone(),
            rack: self.rack.clone(),
        }
    }
}

/// The version that Helenus claims to be: clients choose their queries by it.
pub const RELEASE_VERSION: &str = "5.0.6";
/// The version of CQL.
pub const CQL_VERSION: &str = "3.4.7";
/// The highest version of the native protocol.
pub const NATIVE_PROTOCOL_VERSION: &str = "5";
/// The class of the partitioner.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Writes the row of `system.local`, at `now_micros` (microseconds since 1970). `None` if the
/// schema has no such table.
pub fn local_mutation(schema: &Schema, node: &LocalNode, now_micros: i64) -> Option<Mutation> {
    let table = schema.table("system", "local")?;
    let time = WriteTime::at(now_micros);
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(text("local")));
    let row = update.row_mut(&Clustering::EMPTY);
    let tokens: Vec<String> = node
        .tokens
        .iter()
        .map(|token| token.0.to_string())
        .collect();
    let tokens: Vec<Bytes> = tokens.iter().map(|token| text(token)).collect();
    RowWriter::insert(table, row, time)
        .set("bootstrapped", text("COMPLETED"))
        .set("broadcast_address", inet(node.listen_address))
        .set("broadcast_port", int(i32::from(node.listen_port)))
        .set("cluster_name", text(&node.cluster_name))
        .set("cql_version", text(CQL_VERSION))
        .set("data_center", text(&node.data_center))
        .set("gossip_generation", int(node.gossip_generation))
        .set("host_id", uuid(node.host_id))
        .set("listen_address", inet(node.listen_address))
        .set("listen_port", int(i32::from(node.listen_port)))
        .set("native_protocol_version", text(NATIVE_PROTOCOL_VERSION))
        .set("partitioner", text(PARTITIONER))
        .set("rack", text(&node.rack))
        .set("release_version", text(RELEASE_VERSION))
        .set("rpc_address", inet(node.rpc_address))
        .set("rpc_port", int(i32::from(node.rpc_port)))
        .set("schema_version", uuid(schema.version))
        .set_elements("tokens", tokens);
    Some(Mutation {
        updates: vec![update],
    })
}
