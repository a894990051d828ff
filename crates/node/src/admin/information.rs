//! What a node tells of itself to those who operate it.

use std::net::IpAddr;
use std::rc::Rc;

use storage::StoreStats;
use uuid::Uuid;

use super::{Admin, AdminError};
use crate::report;
use crate::shard::Shard;
use crate::system::RELEASE_VERSION;

/// A node at one moment.
#[derive(Clone, Debug)]
pub struct NodeInformation {
    /// The version of Cassandra that it claims to be.
    pub release_version: &'static str,
    /// The identity of the node, for its life.
    pub host_id: Uuid,
    /// The name of the cluster.
    pub cluster_name: String,
    /// The data centre it is in.
    pub data_center: String,
    /// The rack it is in.
    pub rack: String,
    /// The address clients connect to.
    pub address: IpAddr,
    /// The tokens it owns.
    pub tokens: Vec<i64>,
    /// Seconds since 1970 of its start.
    pub generation: i32,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// Does it take clients, or has it been drained or closed to them?
    pub serves_clients: bool,
    /// Has it been drained, or has a drive failed? It is no part of the cluster then.
    pub is_drained: bool,
    /// How many tasks panicked: each is a defect.
    pub task_panics: u64,
    /// What all shards may use, in bytes.
    pub memory_limit: u64,
    /// The stores of all shards.
    pub stores: Vec<StoreStats>,
}

impl Admin {
    /// What the node tells of itself.
    pub fn information(&self) -> Result<NodeInformation, AdminError> {
        let parts = self
            .everywhere(async |shard: Rc<Shard>| (shard.store.stats(), shard.env.task_panics()))?;
        let local = self.lead(async |shard: Rc<Shard>| {
            let now = shard.env.wall_micros() / 1_000_000;
            let open = (report::serves_clients(&shard), shard.stopping.get());
            let memory = shard.state.config.memory;
            shard
                .local_if_known()
                .map(|local| (local, now, open, memory))
        })?;
        let (local, now, (serves_clients, is_drained), memory_limit) =
            local.ok_or(AdminError::Closed)?;
        let uptime = now - i64::from(local.gossip_generation);
        Ok(NodeInformation {
            release_version: RELEASE_VERSION,
            host_id: local.host_id,
            cluster_name: local.cluster_name.clone(),
            data_center: local.data_center.clone(),
            rack: local.rack.clone(),
            address: local.rpc_address,
            tokens: local.tokens.iter().map(|token| token.0).collect(),
            generation: local.gossip_generation,
            uptime_seconds: u64::try_from(uptime).unwrap_or(0),
            serves_clients,
            is_drained,
            task_panics: parts.iter().map(|(_, panics)| panics).sum(),
            memory_limit,
            stores: parts.into_iter().map(|(store, _)| store).collect(),
        })
    }
}
