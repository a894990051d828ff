//! Tokens for a node that comes: chosen so that all nodes have much the same to hold.
//!
//! As Cassandra's `allocate_tokens_for_local_replication_factor` (`ReplicationAwareTokenAllocator`,
//! CASSANDRA-7032) this looks at what nodes hold of a keyspace with three replicas in the data centre,
//! and takes one token after the other, each where it evens out most. What nodes hold as first replicas
//! counts too: among the first nodes all hold everything, and those that come later build on what they
//! chose. Nothing depends on it being the same everywhere: the tokens stand in the metadata log.

use std::collections::{BTreeMap, BTreeSet};

use model::Token;

use crate::placement::{Search, range_share};
use crate::{NodeId, Place, Ring};

/// The replicas in a data centre that are evened out (`allocate_tokens_for_local_replication_factor`).
const REPLICAS: usize = 3;
/// Where in a range a token is tried, in so many parts of it.
const PARTS: u64 = 8;
/// In how many ranges at most: the largest ones.
const RANGES: usize = 64;

/// `count` tokens with which a new node at `place` has about as much as the others there.
pub fn allocate_tokens(ring: &Ring, place: &Place, count: u16) -> BTreeSet<Token> {
    let own = NodeId(ring.places().keys().last().map_or(0, |id| id.0 + 1));
    let mut layout = Layout::new(ring, place, own);
    if layout.owners.is_empty() {
        return evenly(count, &layout.taken);
    }
    let mut tokens = BTreeSet::new();
    for left in (1..=u32::from(count)).rev() {
        let token = layout.best(own, left);
        layout.insert(token, own);
        tokens.insert(token);
    }
    tokens
}

/// The tokens of the first node of a data centre: as far from each other as can be, where none is taken.
fn evenly(count: u16, taken: &BTreeSet<Token>) -> BTreeSet<Token> {
    let step = u64::MAX / u64::from(count.max(1));
    let from = |first: i64| {
        let token = move |n: u16| Token(first.wrapping_add_unsigned(step * u64::from(n)));
        (0..count).map(token)
    };
    let first = (1..).find(|first| from(*first).all(|token| !taken.contains(&token)));
    from(first.expect("there are 2^64 tokens")).collect()
}

/// What a node holds, in shares of all tokens: as the first replica, and as any.
type Held = [f64; 2];

/// The ring of one data centre.
struct Layout<'r> {
    owners: Vec<(Token, NodeId)>,
    /// The tokens that nobody can take any more, those of other data centres too.
    taken: BTreeSet<Token>,
    racks: BTreeMap<NodeId, &'r str>,
    /// For the replicas of a token, as it begins.
    search: Search<'r>,
    held: BTreeMap<NodeId, Held>,
}

impl<'r> Layout<'r> {
    fn new(ring: &'r Ring, place: &'r Place, own: NodeId) -> Layout<'r> {
        let neighbours = ring.places().iter();
        let neighbours = neighbours.filter(|(_, other)| other.datacenter == place.datacenter);
        let mut racks: BTreeMap<NodeId, &str> =
            neighbours.map(|(id, other)| (*id, &*other.rack)).collect();
        racks.insert(own, &place.rack);
        let owners = ring.owners().iter().copied();
        let taken = owners.clone().map(|(token, _)| token).chain([Token::MIN]);
        let of_each: Vec<&str> = racks.values().copied().collect();
        let mut layout = Layout {
            taken: taken.collect(),
            owners: owners
                .filter(|(_, node)| racks.contains_key(node))
                .collect(),
            search: Search::new(REPLICAS, &of_each),
            held: racks.keys().map(|id| (*id, Held::default())).collect(),
            racks,
        };
        for at in 0..layout.owners.len() {
            let (share, replicas) = (layout.share(at), layout.walk(at).0);
            add(&mut layout.held, &replicas, share);
        }
        layout
    }

    /// Where the range begins that ends at a place of the ring.
    fn start(&self, at: usize) -> Token {
        let before = at.checked_sub(1).unwrap_or(self.owners.len() - 1);
        self.owners[before].0
    }

    fn share(&self, at: usize) -> f64 {
        range_share(self.start(at), self.owners[at].0)
    }

    /// The replicas of the range that ends there, and how many places of the ring it took to find
    /// them.
    fn walk(&self, at: usize) -> (Vec<NodeId>, usize) {
        let (mut found, mut search) = (Vec::new(), self.search.clone());
        let len = self.owners.len();
        for step in 0..len {
            if search.missing() == 0 {
                return (found, step);
            }
            let node = self.owners[(at + step) % len].1;
            if !found.contains(&node) && search.takes(self.racks[&node]) {
                found.push(node);
            }
        }
        (found, len)
    }

    /// What a token would change: for each node how much more it would hold.
    fn change(&mut self, token: Token, own: NodeId) -> BTreeMap<NodeId, Held> {
        let mut change = BTreeMap::new();
        let len = self.owners.len();
        let at = self.owners.partition_point(|(end, _)| *end < token);
        // Of the range that it divides, and those before from which a walk comes here.
        let mut affected = vec![(at % len).min(len - 1)];
        for back in 1..len {
            let before = (at + len - back) % len;
            if self.walk(before).1 <= back {
                break;
            }
            affected.push(before);
        }
        for at in &affected {
            add(&mut change, &self.walk(*at).0, -self.share(*at));
        }
        let after: Vec<Token> = affected.iter().map(|at| self.owners[*at].0).collect();
        self.owners.insert(at, (token, own));
        for end in after.into_iter().chain([token]) {
            let at = self.owners.partition_point(|(other, _)| *other < end);
            add(&mut change, &self.walk(at).0, self.share(at));
        }
        self.owners.remove(at);
        change
    }

    fn insert(&mut self, token: Token, own: NodeId) {
        for (node, more) in self.change(token, own) {
            let held = self.held.entry(node).or_default();
            for (held, more) in held.iter_mut().zip(more) {
                *held += more;
            }
        }
        let at = self.owners.partition_point(|(end, _)| *end < token);
        self.owners.insert(at, (token, own));
        self.taken.insert(token);
    }

    /// The token that evens out most, if `left` are still to be chosen with it: each is to bring its part
    /// of what the node lacks.
    fn best(&mut self, own: NodeId, left: u32) -> Token {
        let nodes = self.held.len() as f64;
        let fair: Held = [1.0 / nodes, self.search.missing() as f64 / nodes];
        let own_held = self.held[&own];
        let mut best: Option<(f64, Token)> = None;
        for token in self.candidates() {
            if self.taken.contains(&token) {
                continue;
            }
            let mut cost = 0.0;
            for (node, more) in self.change(token, own) {
                let held = self.held.get(&node).copied().unwrap_or_default();
                for of in 0..fair.len() {
                    let lacks = |held: f64| (held - fair[of]).powi(2);
                    cost += match node == own {
                        // As far from its part as from everybody's fair share.
                        true => (more[of] - (fair[of] - own_held[of]) / f64::from(left)).powi(2),
                        false => lacks(held[of] + more[of]) - lacks(held[of]),
                    };
                }
            }
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, token));
            }
        }
        // A ring that has no room there: the first that is free.
        let any = || (1..).map(Token).find(|token| !self.taken.contains(token));
        let token = best.map(|(_, token)| token).or_else(any);
        token.expect("there are 2^64 tokens")
    }

    fn candidates(&self) -> Vec<Token> {
        let mut ranges: Vec<(Token, u64)> = (0..self.owners.len())
            .map(|at| {
                let start = self.start(at);
                let width = self.owners[at].0.0.wrapping_sub(start.0).cast_unsigned();
                // One token's range is the whole ring.
                (start, if width == 0 { u64::MAX } else { width })
            })
            .collect();
        ranges.sort_by_key(|(_, width)| std::cmp::Reverse(*width));
        ranges.truncate(RANGES);
        let parts = |(start, width): (Token, u64)| {
            let part = move |n| start.0.wrapping_add_unsigned(width / PARTS * n);
            (1..PARTS).map(part).map(Token)
        };
        ranges.into_iter().flat_map(parts).collect()
    }
}

/// More of the tokens for the replicas of a range.
fn add(held: &mut BTreeMap<NodeId, Held>, replicas: &[NodeId], share: f64) {
    for (at, node) in replicas.iter().enumerate() {
        let held = held.entry(*node).or_default();
        held[1] += share;
        if at == 0 {
            held[0] += share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Placement, ReplicationStrategy};

    fn tokens_of(ring: &Ring) -> BTreeSet<Token> {
        ring.owners().iter().map(|(token, _)| *token).collect()
    }

    /// What the nodes of a data centre hold that came one after the other, by rack.
    fn held(nodes: u32, racks: u32) -> Vec<Vec<f64>> {
        let mut ring = Ring::new();
        let rack = |node| (node % racks) as usize;
        for node in 0..nodes {
            let place = Place {
                datacenter: "dc1".to_owned(),
                rack: format!("rack{}", rack(node)),
            };
            let tokens = allocate_tokens(&ring, &place, 16);
            assert_eq!(tokens.len(), 16);
            assert!(tokens.is_disjoint(&tokens_of(&ring)));
            ring.insert(NodeId(node), &place, &tokens);
        }
        let strategy = ReplicationStrategy::network_topology([("dc1", 3)]);
        let owned = Placement::new(&ring, &[], &strategy, NodeId(0)).ownership();
        let mut by_rack = vec![Vec::new(); racks as usize];
        for (node, share) in owned {
            by_rack[rack(node.0)].push(share);
        }
        by_rack
    }

    /// With as many racks as replicas each has all there is, and its nodes share that.
    #[test]
    fn nodes_that_come_one_by_one_hold_much_the_same() {
        for (nodes, racks) in [(1, 1), (3, 1), (4, 1), (5, 1), (7, 1), (5, 3), (8, 3)] {
            for shares in held(nodes, racks) {
                let fair = shares.iter().sum::<f64>() / shares.len() as f64;
                let even = |share: &f64| (0.85..1.2).contains(&(share / fair));
                assert!(shares.iter().all(even), "{nodes} in {racks}: {shares:?}");
            }
        }
    }

    #[test]
    fn tokens_of_another_data_centre_are_not_taken_twice() {
        let mut ring = Ring::new();
        for (node, datacenter) in [(0, "a"), (1, "b"), (2, "b")] {
            let place = Place {
                datacenter: datacenter.to_owned(),
                rack: "r".to_owned(),
            };
            let tokens = allocate_tokens(&ring, &place, 16);
            assert!(tokens.is_disjoint(&tokens_of(&ring)));
            ring.insert(NodeId(node), &place, &tokens);
        }
        assert_eq!(ring.owners().len(), 48);
    }
}
