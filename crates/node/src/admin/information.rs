//! What a node tells of itself to those who operate it.

use std::net::IpAddr;
use std::rc::Rc;

use storage::StoreStats;
use uuid::Uuid;

use super::cluster::{NodeState, own_state};
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
    /// Does it tell other nodes that it is there?
    pub gossips: bool,
    /// What it does in the ring; `None` if it is no member.
    pub state: Option<NodeState>,
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
        let information = self.lead(async |shard: Rc<Shard>| {
            let now = shard.env.wall_micros() / 1_000_000;
            let local = shard.local_if_known()?;
            let uptime = now - i64::from(local.gossip_generation);
            let service = shard.cluster_service();
            Some(NodeInformation {
                release_version: RELEASE_VERSION,
                host_id: local.host_id,
                cluster_name: local.cluster_name.clone(),
                data_center: local.data_center.clone(),
                rack: local.rack.clone(),
                address: local.rpc_address,
                tokens: local.tokens.iter().map(|token| token.0).collect(),
                generation: local.gossip_generation,
                uptime_seconds: u64::try_from(uptime).unwrap_or(0),
                serves_clients: report::serves_clients(&shard),
                is_drained: shard.stopping.get(),
                gossips: service.is_some_and(|service| service.gossips()),
                state: own_state(&shard),
                task_panics: 0,
                memory_limit: shard.state.config.memory,
                stores: Vec::new(),
            })
        })?;
        Ok(NodeInformation {
            task_panics: parts.iter().map(|(_, panics)| panics).sum(),
            stores: parts.into_iter().map(|(store, _)| store).collect(),
            ..information.ok_or(AdminError::Closed)?
        })
    }
}
