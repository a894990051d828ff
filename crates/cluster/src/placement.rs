//! Which nodes hold the data of a keyspace.
//!
//! The replicas of a token are found by walking round the ring from its owner on (`SimpleStrategy`,
//! `NetworkTopologyStrategy`):
//!
//! * simple: the next distinct nodes;
//! * network topology: for each data centre, its next distinct nodes, but one in a rack that has
//!   a replica already is passed over until every rack of the data centre has one. If a data
//!   centre has fewer racks than replicas, as many repeats as must be are taken in passing.
//!
//! While nodes come or go there are two rings, the one that was and the one that will be. A write
//! goes to the replicas of both, from before anything is copied until after the last read of the old
//! ones; reads turn from the one to the other at one epoch in between (Cassandra's CEP-21:
//! `DataPlacement` with its reads and writes). So whichever of both rings a coordinator still
//! reads from, what was written has reached a quorum of it.
//!
//! Replicas change only where a token of a ring lies, so all of them are worked out when a
//! ring or a keyspace changes, and a request looks them up.

use std::collections::{BTreeMap, BTreeSet};

use model::Token;

use crate::{NodeId, ReplicationStrategy, Ring};

/// The replicas of a range of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Those that are read from, and written to, in the order of the ring: the first is the
    /// primary one. Fewer than the replication factor if the cluster has too few nodes.
    pub natural: Vec<NodeId>,
    /// Those that only get writes: they are becoming replicas, or were ones a moment ago. Each
    /// of them makes a write need one more response.
    pub pending: Vec<NodeId>,
}

/// Which nodes hold the data of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Tokens, sorted; each is the (inclusive) end of a range.
    ends: Vec<Token>,
    /// The replicas of each range.
    replicas: Vec<Replicas>,
    strategy: ReplicationStrategy,
}

/// Of any token where nobody owns one.
static NOBODY: Replicas = Replicas {
    natural: Vec::new(),
    pending: Vec::new(),
};

impl Placement {
    /// Of a keyspace that each node has for itself (`LocalStrategy`): it is at `node`.
    pub fn local(node: NodeId) -> Placement {
        let replicas = Replicas {
            natural: vec![node],
            pending: Vec::new(),
        };
        Placement {
            ends: vec![Token::MAX],
            replicas: vec![replicas],
            strategy: ReplicationStrategy::Local,
        }
    }

    /// Works out the replicas of a keyspace that is read from one ring, and written to the
    /// replicas that it has in `others` too. `local` is the node that asks: a local keyspace has
    /// it as its only replica.
    pub fn new(
        read: &Ring,
        others: &[&Ring],
        strategy: &ReplicationStrategy,
        local: NodeId,
    ) -> Placement {
        if *strategy == ReplicationStrategy::Local {
            return Placement::local(local);
        }
        let rings = [read].into_iter().chain(others.iter().copied());
        let ends: BTreeSet<Token> = rings
            .flat_map(|ring| ring.owners().iter().map(|(token, _)| *token))
            .collect();
        let natural = Walks::new(read, strategy);
        let written: Vec<_> = others.iter().map(|r| Walks::new(r, strategy)).collect();
        let replicas_at = |end: &Token| {
            let natural = natural.replicas(*end);
            let mut pending = Vec::new();
            for node in written.iter().flat_map(|walks| walks.replicas(*end)) {
                if !natural.contains(&node) && !pending.contains(&node) {
                    pending.push(node);
                }
            }
            Replicas { natural, pending }
        };
        Placement {
            replicas: ends.iter().map(replicas_at).collect(),
            ends: ends.into_iter().collect(),
            strategy: strategy.clone(),
        }
    }

    /// The replicas of a token.
    pub fn replicas(&self, token: Token) -> &Replicas {
        let i = self.ends.partition_point(|end| *end < token);
        // Behind the last token the ring goes on with the first.
        let found = self.replicas.get(i).or(self.replicas.first());
        found.unwrap_or(&NOBODY)
    }

    /// Are two tokens read from the same nodes, in whatever order?
    pub fn same_readers(&self, one: Token, other: Token) -> bool {
        let (one, other) = (self.replicas(one), self.replicas(other));
        one.natural.len() == other.natural.len()
            && one.natural.iter().all(|node| other.natural.contains(node))
    }

    /// The ends of all ranges (each inclusive, and the start of the next), with their replicas.
    pub fn ranges(&self) -> impl Iterator<Item = (Token, &Replicas)> {
        self.ends.iter().copied().zip(&self.replicas)
    }

    /// The share of all tokens that each node is a natural replica of: 1 if it has all of the
    /// keyspace (what `nodetool status` calls effective ownership).
    pub fn ownership(&self) -> BTreeMap<NodeId, f64> {
        let mut owned: BTreeMap<NodeId, f64> = BTreeMap::new();
        let before = self.ends.last().into_iter().chain(&self.ends);
        for ((start, end), replicas) in before.zip(&self.ends).zip(&self.replicas) {
            let share = range_share(*start, *end);
            for node in &replicas.natural {
                *owned.entry(*node).or_default() += share;
            }
        }
        owned
    }

    /// How the keyspace is replicated.
    pub fn strategy(&self) -> &ReplicationStrategy {
        &self.strategy
    }
}

/// What part of all tokens lies after `start`, up to and with `end`, going round; all of them if
/// both are the same.
pub(crate) fn range_share(start: Token, end: Token) -> f64 {
    match end.0.wrapping_sub(start.0).cast_unsigned() {
        0 => 1.0,
        width => width as f64 / 2f64.powi(64),
    }
}

/// A strategy's walks round one ring.
struct Walks<'r> {
    ring: &'r Ring,
    kind: Kind<'r>,
}

enum Kind<'r> {
    Simple(usize),
    NetworkTopology(BTreeMap<&'r str, Search<'r>>),
}

/// How far the search for the replicas in one data centre has come.
#[derive(Clone)]
pub(crate) struct Search<'r> {
    racks: BTreeSet<&'r str>,
    missing: usize,
    /// How many replicas may yet be in a rack that has one already.
    repeats: usize,
}

impl<'r> Search<'r> {
    /// Of `factor` replicas among members in these racks, of which each is named.
    pub(crate) fn new(factor: usize, racks: &[&'r str]) -> Search<'r> {
        let distinct = racks.iter().collect::<BTreeSet<_>>().len();
        Search {
            racks: BTreeSet::new(),
            missing: factor.min(racks.len()),
            repeats: factor.saturating_sub(distinct),
        }
    }

    /// How many replicas are still to be found.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// A member in this rack comes by that is no replica yet: does it become one?
    pub(crate) fn takes(&mut self, rack: &'r str) -> bool {
        if self.missing == 0 {
            return false;
        }
        if !self.racks.insert(rack) {
            if self.repeats == 0 {
                return false;
            }
            self.repeats -= 1;
        }
        self.missing -= 1;
        true
    }
}

impl<'r> Walks<'r> {
    fn new(ring: &'r Ring, strategy: &'r ReplicationStrategy) -> Walks<'r> {
        let owners: BTreeSet<NodeId> = ring.owners().iter().map(|(_, node)| *node).collect();
        let kind = match strategy {
            ReplicationStrategy::Local => Kind::Simple(0),
            ReplicationStrategy::Simple { factor } => {
                Kind::Simple(owners.len().min(*factor as usize))
            }
            ReplicationStrategy::NetworkTopology { datacenters } => {
                let searches = datacenters.iter().map(|(datacenter, factor)| {
                    let places = owners.iter().filter_map(|node| ring.places().get(node));
                    let members = places.filter(|place| place.datacenter == *datacenter);
                    let racks: Vec<&str> = members.map(|place| &*place.rack).collect();
                    (&**datacenter, Search::new(*factor as usize, &racks))
                });
                Kind::NetworkTopology(searches.collect())
            }
        };
        Walks { ring, kind }
    }

    fn replicas(&self, token: Token) -> Vec<NodeId> {
        let mut walk = self.ring.walk(self.ring.at(token));
        match &self.kind {
            Kind::Simple(count) => simple(&mut walk, *count),
            Kind::NetworkTopology(searches) => {
                network_topology(self.ring, &mut walk, searches.clone())
            }
        }
    }
}

fn simple(walk: &mut dyn Iterator<Item = NodeId>, count: usize) -> Vec<NodeId> {
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        let Some(node) = walk.next() else { break };
        if !found.contains(&node) {
            found.push(node);
        }
    }
    found
}

fn network_topology<'r>(
    ring: &'r Ring,
    walk: &mut dyn Iterator<Item = NodeId>,
    mut searches: BTreeMap<&'r str, Search<'r>>,
) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut missing: usize = searches.values().map(Search::missing).sum();
    while missing > 0 {
        let Some(node) = walk.next() else { break };
        let Some(place) = ring.places().get(&node) else {
            continue;
        };
        let Some(search) = searches.get_mut(&*place.datacenter) else {
            continue;
        };
        if !found.contains(&node) && search.takes(&place.rack) {
            missing -= 1;
            found.push(node);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    fn place(text: &str) -> Place {
        let (datacenter, rack) = text.split_once('/').expect("data centre/rack");
        Place {
            datacenter: datacenter.to_owned(),
            rack: rack.to_owned(),
        }
    }

    /// Nodes with the tokens i, i + n, i + 2n, … of 12; places as "datacentre/rack".
    fn ring(places: &[&str]) -> Ring {
        let mut ring = Ring::new();
        for (i, text) in places.iter().enumerate() {
            let own = (0..12i64).filter(|t| *t as usize % places.len() == i);
            let tokens = own.map(|t| Token(t * 10)).collect();
            ring.insert(NodeId(i as u32), &place(text), &tokens);
        }
        ring
    }

    fn numbers(nodes: &[NodeId]) -> Vec<u32> {
        nodes.iter().map(|node| node.0).collect()
    }

    fn replicas(ring: &Ring, strategy: &ReplicationStrategy, token: i64) -> Vec<u32> {
        let placement = Placement::new(ring, &[], strategy, NodeId(0));
        let replicas = placement.replicas(Token(token));
        assert!(replicas.pending.is_empty());
        numbers(&replicas.natural)
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
    fn tokens_may_be_read_from_the_same_nodes_in_another_order() {
        let ring = ring(&["a/1", "a/1", "a/1", "a/1"]);
        let of = |factor| {
            let strategy = ReplicationStrategy::Simple { factor };
            Placement::new(&ring, &[], &strategy, NodeId(0))
        };
        let same = |factor, one, other| of(factor).same_readers(Token(one), Token(other));
        assert!(same(4, 0, 10), "all of them have all");
        assert!(same(3, 1, 10) && same(3, 0, 40) && same(3, 0, 111));
        assert!(!same(3, 0, 10) && !same(3, 10, 0) && !same(3, 0, 30));
    }

    #[test]
    fn replicas_are_spread_over_racks() {
        let ring = ring(&["a/1", "a/1", "a/2", "b/1", "b/1", "b/1"]);
        // Nodes 0 and 1 share a rack: 2 comes before 1.
        assert_eq!(
            replicas(&ring, &ReplicationStrategy::network_topology([("a", 2)]), 0),
            [0, 2]
        );
        assert_eq!(
            replicas(&ring, &ReplicationStrategy::network_topology([("a", 3)]), 0),
            [0, 1, 2]
        );
        assert_eq!(
            replicas(
                &ring,
                &ReplicationStrategy::network_topology([("a", 2), ("b", 1)]),
                10
            ),
            [1, 2, 3]
        );
        // One rack only: repeats from the start.
        assert_eq!(
            replicas(&ring, &ReplicationStrategy::network_topology([("b", 2)]), 0),
            [3, 4]
        );
        assert_eq!(
            replicas(
                &ring,
                &ReplicationStrategy::network_topology([("b", 9)]),
                40
            ),
            [4, 5, 3]
        );
        assert!(replicas(&ring, &ReplicationStrategy::network_topology([("c", 1)]), 0).is_empty());
    }

    #[test]
    fn a_local_keyspace_is_here() {
        let ring = ring(&["a/1", "a/1"]);
        let placement = Placement::new(&ring, &[], &ReplicationStrategy::Local, NodeId(1));
        for token in [Token::MIN, Token(0), Token(11), Token::MAX] {
            assert_eq!(placement.replicas(token).natural, [NodeId(1)]);
        }
    }

    #[test]
    fn a_ring_of_one_holds_all_and_an_empty_one_nothing() {
        let of_one = ring(&["a/1"]);
        let strategy = ReplicationStrategy::Simple { factor: 3 };
        let placement = Placement::new(&of_one, &[], &strategy, NodeId(0));
        let here = |(_, replicas): (_, &Replicas)| replicas.natural == [NodeId(0)];
        assert!(placement.ranges().all(here));
        assert_eq!(placement.ranges().count(), 12);
        assert_eq!(of_one.datacenters(), BTreeMap::from([("a", 1)]));
        assert_eq!(placement.ownership(), BTreeMap::from([(NodeId(0), 1.0)]));

        let placement = Placement::new(&Ring::new(), &[], &strategy, NodeId(0));
        assert_eq!(*placement.replicas(Token(1)), Replicas::default());
        assert!(placement.ownership().is_empty());
    }

    #[test]
    fn writes_go_to_the_replicas_of_both_rings() {
        let before = ring(&["a/1", "a/1", "a/1"]);
        let mut after = before.clone();
        after.insert(NodeId(3), &place("a/1"), &BTreeSet::from([Token(15)]));
        let strategy = ReplicationStrategy::Simple { factor: 2 };
        let joining = Placement::new(&before, &[&after], &strategy, NodeId(0));
        let at = |placement: &Placement, token| {
            let replicas = placement.replicas(Token(token));
            (numbers(&replicas.natural), numbers(&replicas.pending))
        };
        // From 10 to 15 it is to be the first replica, before that the second.
        assert_eq!(at(&joining, 12), (vec![2, 0], vec![3]));
        assert_eq!(at(&joining, 10), (vec![1, 2], vec![3]));
        assert_eq!(at(&joining, 16), (vec![2, 0], vec![]));
        assert_eq!(at(&joining, 0), (vec![0, 1], vec![]));
        // Once reads have moved, who is about to lose a range still gets its writes.
        let joined = Placement::new(&after, &[&before], &strategy, NodeId(0));
        assert_eq!(at(&joined, 12), (vec![3, 2], vec![0]));
        assert_eq!(at(&joined, 10), (vec![1, 3], vec![2]));
        assert_eq!(at(&joined, 16), (vec![2, 0], vec![]));
    }

    #[test]
    fn shares_of_the_ring_add_up_to_the_replication_factor() {
        let ring = ring(&["a/1", "a/2", "b/1", "b/1"]);
        let strategy = ReplicationStrategy::network_topology([("a", 2), ("b", 1)]);
        let owned = Placement::new(&ring, &[], &strategy, NodeId(0)).ownership();
        assert_eq!(owned[&NodeId(0)], 1.0);
        assert_eq!(owned[&NodeId(1)], 1.0);
        assert!(
            (owned.values().sum::<f64>() - 3.0).abs() < 1e-9,
            "{owned:?}"
        );
    }
}
