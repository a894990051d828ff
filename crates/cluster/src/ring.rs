//! The ring of tokens.
//!
//! A token belongs to the node that owns the first token at or after it, going round. Which other
//! nodes have replicas of it is [`crate::Placement`]'s business.

use std::collections::{BTreeMap, BTreeSet};

use model::Token;
use serde::{Deserialize, Serialize};

/// A node, for as long as the cluster lives: an id is given once and never to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a node stands: what replicas are spread over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Its data centre.
    pub datacenter: String,
    /// Its rack within the data centre.
    pub rack: String,
}

/// Who owns which token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    places: BTreeMap<NodeId, Place>,
    /// Sorted by token.
    owners: Vec<(Token, NodeId)>,
}

impl Ring {
    /// An empty one.
    pub fn new() -> Ring {
        Ring::default()
    }

    /// Adds a node that owns these tokens, beside those that it has. Of two that own the same
    /// token the one with the lower id has it.
    pub fn insert(&mut self, node: NodeId, place: &Place, tokens: &BTreeSet<Token>) {
        self.places.insert(node, place.clone());
        self.owners
            .extend(tokens.iter().map(|token| (*token, node)));
        self.owners.sort_unstable();
        self.owners.dedup_by_key(|(token, _)| *token);
    }

    /// The nodes, with their places.
    pub fn places(&self) -> &BTreeMap<NodeId, Place> {
        &self.places
    }

    /// Each token with its owner, in order.
    pub fn owners(&self) -> &[(Token, NodeId)] {
        &self.owners
    }

    /// The data centres with nodes, and how many nodes each has.
    pub fn datacenters(&self) -> BTreeMap<&str, usize> {
        let mut datacenters = BTreeMap::new();
        for place in self.places.values() {
            *datacenters.entry(&*place.datacenter).or_default() += 1;
        }
        datacenters
    }

    /// The owners from the one of the token at `start` on, once round.
    pub(crate) fn walk(&self, start: usize) -> impl Iterator<Item = NodeId> {
        let (before, from) = self.owners.split_at(start);
        from.iter().chain(before).map(|(_, node)| *node)
    }

    /// Where the first token at or after this one lies, going round; 0 in an empty ring.
    pub(crate) fn at(&self, token: Token) -> usize {
        let at = self.owners.partition_point(|(end, _)| *end < token);
        if at == self.owners.len() { 0 } else { at }
    }
}
