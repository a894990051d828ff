//! Taking the node out of gossip for a while, and what gossip tells of the others.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cluster::NodeId;

use super::cluster::{NodeState, own_state};
use super::{Admin, AdminError, refuse_to_start};
use crate::shard::Shard;

/// For how long another node has given no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The node.
    pub node: NodeId,
    /// Where it is.
    pub address: SocketAddr,
    /// Nothing for a node that is taken to be there. `None`: it has not been met since this one started.
    pub silence: Option<Duration>,
}

impl Admin {
    /// Tells the other nodes that this one goes: they take it to be down, and send it nothing. It serves its
    /// clients as before, and takes others to be up or down as it did then, until [`Admin::enable_gossip`] or
    /// the next start (`StorageService.stopGossiping`).
    pub fn disable_gossip(&self) -> Result<(), AdminError> {
        self.lead(async |shard: Rc<Shard>| {
            let service = shard.cluster_service().ok_or(AdminError::Closed)?;
            if !service.gossips() {
                return Ok(());
            }
            if own_state(&shard) != Some(NodeState::Normal) {
                return Err(AdminError::Refused(
                    "Unable to stop gossip because the node is not in the normal state. Try to stop the \
                     node instead."
                        .to_owned(),
                ));
            }
            tracing::warn!("gossip is stopped, as an operator wants it: others take this node to be down");
            if shard.client_ports.are_open() {
                tracing::warn!(
                    "clients that still reach this node may read what others have changed since: \
                     `nodetool disablebinary` sends them away"
                );
            }
            service.fall_silent().await;
            Ok(())
        })?
    }

    /// Tells the other nodes that this one is there, if they were told that it went.
    pub fn enable_gossip(&self) -> Result<(), AdminError> {
        self.lead(async |shard: Rc<Shard>| {
            let service = shard.cluster_service().ok_or(AdminError::Closed)?;
            if service.gossips() {
                return Ok(());
            }
            refuse_to_start("gossip", &shard)?;
            match service.speak_again() {
                true => {
                    tracing::warn!("gossip is started, as an operator wants it");
                    Ok(())
                }
                false => Err(AdminError::Closed),
            }
        })?
    }

    /// For how long each of the other nodes has given no answer, by their numbers.
    pub fn silences(&self) -> Result<Vec<Silence>, AdminError> {
        self.lead(async |shard: Rc<Shard>| {
            let service = shard.cluster_service().ok_or(AdminError::Closed)?;
            let metadata = shard.metadata();
            let silences = service.silences().into_iter();
            let silences = silences.filter_map(|(node, silence)| {
                let address = metadata.node(node)?.address;
                Some(Silence {
                    node,
                    address,
                    silence,
                })
            });
            Ok(silences.collect())
        })?
    }
}
