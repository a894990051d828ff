//! The ring of tokens, and which nodes hold what lies between two of them.
//!
//! A token belongs to the node that owns the first token at or after it, going round; the next
//! replicas are found by walking on (`SimpleStrategy`, `NetworkTopologyStrategy`):
//!
//! * simple: the next distinct nodes;
//! * network topology: for each data centre, its next distinct nodes, but one in a rack that has
//!   a replica already is passed over until every rack of the data centre has one. If a data
//!   centre has fewer racks than replicas, as many repeats as must be are taken in passing.
//!
//! Replicas change only where a token of the ring lies, so all of them are worked out when the
//! ring or a keyspace changes, and a request looks them up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::Token;
use uuid::Uuid;

use crate::ReplicationStrategy;

/// A node, by its place in its [`Ring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its identity, also after its address changed.
    pub host_id: Uuid,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// Its data centre.
    pub datacenter: String,
    /// Its rack within the data centre.
    pub rack: String,
    /// The tokens it owns.
    pub tokens: BTreeSet<Token>,
}

/// All members at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    nodes: Vec<Node>,
    /// Sorted by token.
    owners: Vec<(Token, NodeIndex)>,
}

impl Ring {
    /// A ring of these nodes. If two own the same token, the one with the lower host id has it.
    pub fn new(nodes: Vec<Node>) -> Ring {
        let mut owners: Vec<(Token, NodeIndex)> = Vec::new();
        for (i, node) in nodes.iter().enumerate() {
            let index = NodeIndex(u32::try_from(i).expect("a cluster has fewer than 2^32 nodes"));
            owners.extend(node.tokens.iter().map(|token| (*token, index)));
        }
        owners.sort_by_key(|(token, node)| (*token, nodes[node.0 as usize].host_id));
        owners.dedup_by_key(|(token, _)| *token);
        Ring { nodes, owners }
    }

    /// The nodes, in the order of their indexes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at an index that this ring gave.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }

    /// Each token with its owner, in order.
    pub fn owners(&self) -> &[(Token, NodeIndex)] {
        &self.owners
    }

    /// The data centres with nodes, and how many nodes each has.
    pub fn datacenters(&self) -> BTreeMap<&str, usize> {
        let mut datacenters = BTreeMap::new();
        for node in &self.nodes {
            *datacenters.entry(&*node.datacenter).or_default() += 1;
        }
        datacenters
    }

    /// The owners from the one of the token at `start` on, once round.
    fn walk(&self, start: usize) -> impl Iterator<Item = NodeIndex> {
        let (before, from) = self.owners.split_at(start);
        from.iter().chain(before).map(|(_, node)| *node)
    }
}

/// Which nodes hold the data of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The tokens of the ring, sorted; each is the (inclusive) end of a range.
    ends: Vec<Token>,
    /// The replicas of each range.
    replicas: Vec<Vec<NodeIndex>>,
    strategy: ReplicationStrategy,
}

impl Placement {
    /// Works out the replicas of a keyspace. `local` is the node that asks: a local keyspace has
    /// it as its only replica.
    pub fn new(ring: &Ring, strategy: &ReplicationStrategy, local: NodeIndex) -> Placement {
        let replicas = |start: usize| match strategy {
            ReplicationStrategy::Local => vec![local],
            ReplicationStrategy::Simple { factor } => simple(ring, start, *factor as usize),
            ReplicationStrategy::NetworkTopology { datacenters } => {
                network_topology(ring, start, datacenters)
            }
        };
        let (ends, replicas) = match strategy {
            ReplicationStrategy::Local => (vec![Token::MAX], vec![vec![local]]),
            _ => (
                ring.owners.iter().map(|(token, _)| *token).collect(),
                (0..ring.owners.len()).map(replicas).collect(),
            ),
        };
        Placement {
            ends,
            replicas,
            strategy: strategy.clone(),
        }
    }

    /// The replicas of a token, in the order of the ring: the first is its primary one. Fewer
    /// than the replication factor if the cluster has too few nodes.
    pub fn replicas(&self, token: Token) -> &[NodeIndex] {
        let i = self.ends.partition_point(|end| *end < token);
        // Behind the last token the ring goes on with the first.
        let found = self.replicas.get(i).or(self.replicas.first());
        found.map_or(&[], Vec::as_slice)
    }

    /// The ends of all ranges (each inclusive, and the start of the next), with their replicas.
    pub fn ranges(&self) -> impl Iterator<Item = (Token, &[NodeIndex])> {
        self.ends
            .iter()
            .copied()
            .zip(self.replicas.iter().map(Vec::as_slice))
    }

    /// How the keyspace is replicated.
    pub fn strategy(&self) -> &ReplicationStrategy {
        &self.strategy
    }
}

fn simple(ring: &Ring, start: usize, factor: usize) -> Vec<NodeIndex> {
    let mut found = Vec::new();
    let enough = factor.min(ring.nodes.len());
    for node in ring.walk(start) {
        if found.len() == enough {
            break;
        }
        if !found.contains(&node) {
            found.push(node);
        }
    }
    found
}

/// How far the search in one data centre has come.
struct Search<'r> {
    racks: BTreeSet<&'r str>,
    missing: usize,
    /// How many replicas may yet be in a rack that has one already.
    repeats: usize,
}

fn network_topology(ring: &Ring, start: usize, factors: &BTreeMap<String, u32>) -> Vec<NodeIndex> {
    let mut searches: BTreeMap<&str, Search<'_>> = BTreeMap::new();
    for (datacenter, factor) in factors {
        let members = ring.nodes.iter().filter(|n| n.datacenter == *datacenter);
        let with_tokens = members.filter(|node| !node.tokens.is_empty());
        let (mut count, mut racks) = (0, BTreeSet::new());
        for node in with_tokens {
            count += 1;
            racks.insert(&*node.rack);
        }
        let missing = (*factor as usize).min(count);
        let search = Search {
            racks: BTreeSet::new(),
            missing,
            repeats: (*factor as usize).saturating_sub(racks.len()),
        };
        searches.insert(datacenter, search);
    }

    let mut found = Vec::new();
    for index in ring.walk(start) {
        let node = ring.node(index);
        let Some(search) = searches.get_mut(&*node.datacenter) else {
            continue;
        };
        if search.missing == 0 || found.contains(&index) {
            continue;
        }
        if !search.racks.insert(&node.rack) {
            if search.repeats == 0 {
                continue;
            }
            search.repeats -= 1;
        }
        search.missing -= 1;
        found.push(index);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes with the tokens i, i + n, i + 2n, … of 12; places as "datacentre/rack".
    fn ring(places: &[&str]) -> Ring {
        let nodes = places.iter().enumerate().map(|(i, place)| {
            let (datacenter, rack) = place.split_once('/').unwrap();
            Node {
                host_id: Uuid::from_u128(i as u128),
                address: SocketAddr::from(([127, 0, 0, i as u8 + 1], 7000)),
                datacenter: datacenter.to_owned(),
                rack: rack.to_owned(),
                tokens: (0..12i64)
                    .filter(|t| *t as usize % places.len() == i)
                    .map(|t| Token(t * 10))
                    .collect(),
            }
        });
        Ring::new(nodes.collect())
    }

    fn replicas(ring: &Ring, strategy: &ReplicationStrategy, token: i64) -> Vec<u32> {
        let placement = Placement::new(ring, strategy, NodeIndex(0));
        placement
            .replicas(Token(token))
            .iter()
            .map(|n| n.0)
            .collect()
    }

    fn topology(factors: &[(&str, u32)]) -> ReplicationStrategy {
        ReplicationStrategy::NetworkTopology {
            datacenters: factors
                .iter()
                .map(|(dc, f)| ((*dc).to_owned(), *f))
                .collect(),
        }
    }

    #[test]
    fn simple_replicas_are_the_next_nodes() {
        let ring = ring(&["a/1", "a/1", "a/1", "a/1"]);
        let strategy = ReplicationStrategy::Simple { factor: 3 };
        assert_eq!(replicas(&ring, &strategy, 0), [0, 1, 2]);
        assert_eq!(replicas(&ring, &strategy, 1), [1, 2, 3]);
        assert_eq!(replicas(&ring, &strategy, 10), [1, 2, 3]);
        assert_eq!(replicas(&ring, &strategy, 110), [3, 0, 1]);
        // Behind the last token the ring starts anew.
        assert_eq!(replicas(&ring, &strategy, 111), [0, 1, 2]);
        assert_eq!(replicas(&ring, &strategy, i64::MAX), [0, 1, 2]);
        let more = ReplicationStrategy::Simple { factor: 9 };
        assert_eq!(replicas(&ring, &more, 0), [0, 1, 2, 3]);
        let none = ReplicationStrategy::Simple { factor: 0 };
        assert!(replicas(&ring, &none, 0).is_empty());
    }

    #[test]
    fn replicas_are_spread_over_racks() {
        let ring = ring(&["a/1", "a/1", "a/2", "b/1", "b/1", "b/1"]);
        // Nodes 0 and 1 share a rack: 2 comes before 1.
        assert_eq!(replicas(&ring, &topology(&[("a", 2)]), 0), [0, 2]);
        assert_eq!(replicas(&ring, &topology(&[("a", 3)]), 0), [0, 1, 2]);
        assert_eq!(
            replicas(&ring, &topology(&[("a", 2), ("b", 1)]), 10),
            [1, 2, 3]
        );
        // One rack only: repeats from the start.
        assert_eq!(replicas(&ring, &topology(&[("b", 2)]), 0), [3, 4]);
        assert_eq!(replicas(&ring, &topology(&[("b", 9)]), 40), [4, 5, 3]);
        assert!(replicas(&ring, &topology(&[("c", 1)]), 0).is_empty());
    }

    #[test]
    fn a_local_keyspace_is_here() {
        let ring = ring(&["a/1", "a/1"]);
        let placement = Placement::new(&ring, &ReplicationStrategy::Local, NodeIndex(1));
        for token in [Token::MIN, Token(0), Token(11), Token::MAX] {
            assert_eq!(placement.replicas(token), [NodeIndex(1)]);
        }
    }

    #[test]
    fn a_ring_of_one_holds_all() {
        let ring = ring(&["a/1"]);
        let placement = Placement::new(
            &ring,
            &ReplicationStrategy::Simple { factor: 3 },
            NodeIndex(0),
        );
        assert!(placement.ranges().all(|(_, nodes)| nodes == [NodeIndex(0)]));
        assert_eq!(placement.ranges().count(), 12);
        assert_eq!(ring.datacenters(), BTreeMap::from([("a", 1)]));
    }
}
