//! Movements: data goes from some nodes to others, and the ring follows.

use std::collections::{BTreeMap, BTreeSet};

use model::Token;
use serde::{Deserialize, Serialize};

use super::{MemberState, Topology, tokens};
use crate::NodeId;

/// How a movement stands. In each phase coordinators of two neighbouring phases may be at work, as
/// nodes learn of an epoch one after the other; each pair of neighbours has a write quorum of the one
/// meet every read quorum of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// It is known what will move; nobody does anything else than before.
    Prepared,
    /// Writes go to old and new replicas, reads to the old ones. Once every coordinator is here, data
    /// is copied.
    Writing,
    /// Writes go to old and new replicas, reads to the new ones. Once every coordinator is here, the
    /// movement is finished: old replicas get nothing any more.
    Reading,
}

/// What a node does in a movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It becomes the owner of tokens.
    Join(#[serde(with = "tokens")] BTreeSet<Token>),
    /// It takes the place of a member that is gone for good, with that one's tokens.
    Replace(NodeId),
    /// It gives its tokens for others.
    Move(#[serde(with = "tokens")] BTreeSet<Token>),
    /// It leaves, or is removed.
    Leave,
}

/// A change of the ring that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Movement {
    /// Who does what.
    pub changes: BTreeMap<NodeId, Change>,
    /// How far it is.
    pub phase: Phase,
}

impl Movement {
    /// Who owns what when it is over.
    pub(super) fn tokens_after(&self, topology: &Topology) -> BTreeMap<NodeId, BTreeSet<Token>> {
        let joined = topology.joined();
        let mut tokens: BTreeMap<NodeId, BTreeSet<Token>> = joined
            .map(|(id, member)| (id, member.tokens.clone()))
            .collect();
        for (id, change) in &self.changes {
            let after = match change {
                Change::Join(own) | Change::Move(own) => Some(own.clone()),
                Change::Replace(gone) => tokens.remove(gone),
                Change::Leave => None,
            };
            match after {
                Some(own) => tokens.insert(*id, own),
                None => tokens.remove(id),
            };
        }
        tokens
    }

    /// Those that are no members with tokens any more when it is over.
    pub(super) fn leaving(&self) -> impl Iterator<Item = NodeId> {
        let changes = self.changes.iter();
        changes.filter_map(|(id, change)| match change {
            Change::Replace(gone) => Some(*gone),
            Change::Leave => Some(*id),
            Change::Join(_) | Change::Move(_) => None,
        })
    }

    /// The topology once this is over.
    pub(super) fn finish(&self, topology: &mut Topology) {
        let mut after = self.tokens_after(topology);
        let leaving: BTreeSet<NodeId> = self.leaving().collect();
        for (id, member) in &mut topology.members {
            if let Some(tokens) = after.remove(id) {
                member.tokens = tokens;
                member.state = MemberState::Joined;
            } else if leaving.contains(id) {
                member.tokens.clear();
                member.state = MemberState::Left;
            }
        }
        assert!(after.is_empty(), "who moves is a member");
        topology.movement = None;
    }
}
