//! Who belongs to the cluster, and how that changes.
//!
//! A topology is a value. It changes by [`Transformation`]s, one after the other in the order of the
//! metadata log, so that every node that has applied the same of them has the same topology: nothing
//! but the topology and the transformation goes into [`Topology::apply`]. What does not fit the
//! topology that it meets is refused and changes nothing; who proposed it looks again.
//!
//! Nodes that hold data come and go in a [`Movement`] (Cassandra's CEP-21: `PrepareJoin`, `StartJoin`,
//! `MidJoin`, `FinishJoin` and their likes for other changes). There is one at a time, of as many
//! nodes as want to move together; see [`Phase`] for what coordinators do meanwhile.

mod movement;
mod tokens;
mod transformation;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::Token;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use movement::{Change, Movement, Phase};
pub use transformation::{Rejected, Transformation};

use crate::{NodeId, Place, Placement, ReplicationStrategy, Ring};

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its identity, also after its address changed.
    pub host_id: Uuid,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// Where clients reach it.
    pub native_address: SocketAddr,
    /// Its data centre and rack.
    pub place: Place,
    /// How many shards it has: other nodes open a connection to each.
    pub shards: u16,
    /// The version of Cassandra that it claims to be.
    pub release: String,
    /// The newest version of the protocol between nodes that it speaks.
    pub protocol: u16,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    /// It has an id and no tokens yet.
    Registered,
    /// It owns tokens.
    Joined,
    /// It is gone, and does not come back under its host id.
    Left,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it says of itself.
    pub node: Node,
    /// What it is.
    pub state: MemberState,
    /// The tokens it owns.
    #[serde(with = "tokens")]
    pub tokens: BTreeSet<Token>,
}

/// All members at one moment, and the movement that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    next_id: u32,
    members: BTreeMap<NodeId, Member>,
    movement: Option<Movement>,
}

impl Topology {
    /// Of nobody.
    pub fn new() -> Topology {
        Topology::default()
    }

    /// The members, those that left too.
    pub fn members(&self) -> &BTreeMap<NodeId, Member> {
        &self.members
    }

    /// A member.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// The id of the node of this identity.
    pub fn id_of(&self, host_id: Uuid) -> Option<NodeId> {
        let mut members = self.members.iter();
        let (id, _) = members.find(|(_, member)| member.node.host_id == host_id)?;
        Some(*id)
    }

    /// The members that own tokens.
    pub fn joined(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        let members = self.members.iter();
        let joined = members.filter(|(_, member)| member.state == MemberState::Joined);
        joined.map(|(id, member)| (*id, member))
    }

    /// What moves at this moment.
    pub fn movement(&self) -> Option<&Movement> {
        self.movement.as_ref()
    }

    /// The ring of those that own tokens now.
    pub fn ring(&self) -> Ring {
        let mut ring = Ring::new();
        for (id, member) in self.joined() {
            ring.insert(id, &member.node.place, &member.tokens);
        }
        ring
    }

    /// The ring as it is when the movement is over.
    pub fn next_ring(&self) -> Option<Ring> {
        let movement = self.movement.as_ref()?;
        let mut ring = Ring::new();
        for (id, tokens) in movement.tokens_after(self) {
            let place = self.member(id).map(|member| &member.node.place);
            ring.insert(id, place.expect("who moves is a member"), &tokens);
        }
        Some(ring)
    }

    /// Where the data of keyspaces of these strategies lies. `local` is the node that asks.
    pub fn placements<'s>(
        &self,
        strategies: impl IntoIterator<Item = &'s ReplicationStrategy>,
        local: NodeId,
    ) -> Vec<Placement> {
        let now = self.ring();
        let next = self.next_ring();
        let phase = self.movement.as_ref().map(|movement| movement.phase);
        let (read, others): (&Ring, Vec<&Ring>) = match (phase, &next) {
            (Some(Phase::Writing), Some(next)) => (&now, vec![next]),
            (Some(Phase::Reading), Some(next)) => (next, vec![&now]),
            (Some(Phase::Prepared) | None, _) | (_, None) => (&now, Vec::new()),
        };
        let placement = |strategy| Placement::new(read, &others, strategy, local);
        strategies.into_iter().map(placement).collect()
    }
}
