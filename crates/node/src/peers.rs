//! The other nodes, as a shard sees them: who is up, and the connections to their shards.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeId, Place};
use io::{Env, Instant};
use model::{Sharder, Token};
use wire::internode::{Hello, VERSIONS};

use crate::internode::{Encryption, Peer, Terms};
use crate::metadata::Metadata;
use crate::metrics::ShardMetrics;
use crate::system::LocalNode;
use crate::timeouts::Timeouts;

/// The shard of each node that gossips, decides on metadata, and lets others join.
pub(crate) const LEADING_SHARD: u16 = 0;

/// What a shard knows of the other nodes.
pub(crate) struct Peers {
    /// Which connections are under TLS; `None`: none are.
    encryption: Option<Arc<Encryption>>,
    terms: Terms,
    /// Those that are up.
    up: RefCell<Arc<BTreeSet<NodeId>>>,
    /// Since when others are not up that were.
    down_since: RefCell<BTreeMap<NodeId, Instant>>,
    /// Connections by node and shard, each with the address that it leads to.
    connections: RefCell<BTreeMap<(NodeId, u16), (SocketAddr, Peer)>>,
}

impl Peers {
    /// Nobody is up yet.
    pub(crate) fn new(
        encryption: Option<Arc<Encryption>>,
        metrics: Arc<ShardMetrics>,
        timeouts: Rc<Timeouts>,
    ) -> Peers {
        Peers {
            encryption,
            terms: Terms::new(metrics, timeouts),
            up: RefCell::default(),
            down_since: RefCell::default(),
            connections: RefCell::default(),
        }
    }

    /// How connections to a node at this place are encrypted, if they are.
    fn encryption_to(&self, own: &Place, other: Option<&Place>) -> Option<Arc<Encryption>> {
        let demands = |encryption: &&Arc<Encryption>| encryption.demands(own, other);
        self.encryption.as_ref().filter(demands).cloned()
    }

    /// A shard at an address, whichever node that is.
    pub(crate) fn stranger(
        &self,
        env: &Env,
        own: &Place,
        address: SocketAddr,
        hello: Hello,
    ) -> Peer {
        let encryption = self.encryption_to(own, None);
        Peer::new(env, address, hello, encryption, self.terms.clone())
    }

    /// Is another node up, as far as is known?
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.up.borrow().contains(&node)
    }

    /// These others are up, as of `now`.
    pub(crate) fn set_up(&self, up: Arc<BTreeSet<NodeId>>, now: Instant) {
        let mut down_since = self.down_since.borrow_mut();
        down_since.retain(|node, _| !up.contains(node));
        for node in self.up.borrow().difference(&up) {
            down_since.insert(*node, now);
        }
        let before = self.up.replace(up.clone());
        for ((node, _), (_, peer)) in &*self.connections.borrow() {
            match (before.contains(node), up.contains(node)) {
                (false, true) => peer.found_up(),
                (true, false) => peer.found_down(),
                _ => {}
            }
        }
    }

    /// For how long a node has been down that was up since this node started.
    pub(crate) fn down_for(&self, node: NodeId, now: Instant) -> Option<Duration> {
        let down_since = self.down_since.borrow();
        let since = down_since.get(&node)?;
        Some(now.saturating_duration_since(*since))
    }

    /// The shard of another node that owns a token; `None` if there is no such node.
    pub(crate) fn owner(
        &self,
        env: &Env,
        metadata: &Metadata,
        local: &LocalNode,
        node: NodeId,
        token: Token,
    ) -> Option<Peer> {
        let shards = metadata.node(node)?.shards;
        let shard = Sharder::new(shards.max(1)).shard_of(token);
        self.shard_of(env, metadata, local, node, shard)
    }

    /// A shard of another node; `None` if there is no such node.
    pub(crate) fn shard_of(
        &self,
        env: &Env,
        metadata: &Metadata,
        local: &LocalNode,
        node: NodeId,
        shard: u16,
    ) -> Option<Peer> {
        let there = metadata.node(node)?;
        let mut connections = self.connections.borrow_mut();
        if let Some((address, peer)) = connections.get(&(node, shard))
            && *address == there.address
        {
            return Some(peer.clone());
        }
        let hello = Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: local.cluster_name.clone(),
            cluster_id: metadata.cluster_id(),
            host_id: local.host_id,
            expects: Some(there.host_id),
            shard,
            compressed: there.place.datacenter != local.data_center,
            address: local.storage_address(),
        };
        let encryption = self.encryption_to(&local.place(), Some(&there.place));
        let terms = self.terms.clone();
        let peer = Peer::new(env, there.address, hello, encryption, terms);
        connections.insert((node, shard), (there.address, peer.clone()));
        Some(peer)
    }

    /// How many messages to other nodes wait to be sent, and how many were answered or given up, along the
    /// connections that there are.
    pub(crate) fn messages(&self) -> (u64, u64) {
        let connections = self.connections.borrow();
        let counts = connections.values().map(|(_, peer)| peer.messages());
        counts.fold((0, 0), |(waiting, done), (more, others)| {
            (waiting + more, done + others)
        })
    }

    /// How many requests were sent to one node, or wait to be.
    #[cfg(test)]
    pub(crate) fn asked(&self, node: NodeId) -> u64 {
        let connections = self.connections.borrow();
        let to_node = connections.iter().filter(|((to, _), _)| *to == node);
        to_node.map(|(_, (_, peer))| peer.asked()).sum()
    }

    /// Closes the connections to nodes that are not there any more, and to shards that a node has not.
    pub(crate) fn retain(&self, metadata: &Metadata) {
        let leads_there = |node, shard, address| {
            let there = metadata.node(node);
            there.is_some_and(|there| there.address == address && shard < there.shards)
        };
        let mut connections = self.connections.borrow_mut();
        connections.retain(|(node, shard), (address, _)| leads_there(*node, *shard, *address));
    }
}
