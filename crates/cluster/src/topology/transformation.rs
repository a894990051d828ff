//! Transformations: the entries of the metadata log that change the topology.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::Token;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::movement::{Change, Movement, Phase};
use super::{Member, MemberState, Node, Topology, tokens};
use crate::{NodeId, Place};

/// A change of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transformation {
    /// A node says who it is, and gets the next id. It owns nothing yet.
    Register(Node),
    /// A member says what is true of it now: another address, another version, other shards.
    Update(NodeId, Node),
    /// A registered node owns these tokens at once. Only for a cluster that holds no data: whoever
    /// keeps the log has looked.
    JoinEmpty(NodeId, #[serde(with = "tokens")] BTreeSet<Token>),
    /// Nodes are about to move.
    Prepare(BTreeMap<NodeId, Change>),
    /// Everybody has what the movement's phase asks for: the next one begins, or it is over.
    Advance {
        /// The phase that ends.
        from: Phase,
    },
    /// The movement is given up. Nothing is lost, whatever its phase: until it is over the
    /// replicas of before get every write. If they are not read from any more, they are again, and
    /// once every coordinator does so this is to be said again.
    Cancel {
        /// The phase that it is in.
        from: Phase,
    },
    /// Nothing is known any more of a node that never joined, or left.
    Forget(NodeId),
}

/// Why a transformation changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejected {
    /// Two nodes with one identity: mostly a copied data folder.
    #[error(
        "host id {host_id} is that of the node at {address}: a data folder must not be copied to \
         another node; start with an empty one"
    )]
    HostIdTaken {
        /// The identity.
        host_id: Uuid,
        /// Who has it.
        address: SocketAddr,
    },
    /// Two nodes at one address.
    #[error(
        "another node of the cluster has the address {0}: give each node its own, or remove that node \
         first if it is gone for good"
    )]
    AddressTaken(SocketAddr),
    /// The node was removed.
    #[error(
        "the node of host id {0} was removed from the cluster: it may come back with an empty data \
         folder, as a new node"
    )]
    Left(Uuid),
    /// No member has this id.
    #[error("no node of the cluster has the id {0}")]
    Unknown(NodeId),
    /// It asks for what only nodes in another state do.
    #[error("the node at {address} {is}")]
    WrongState {
        /// Which.
        address: SocketAddr,
        /// What it is instead.
        is: Cow<'static, str>,
    },
    /// A node cannot change where it stands: its data would be in the wrong place.
    #[error(
        "the node at {address} is in {}/{} and cannot be in {}/{} without moving its data: remove it \
         and let it join anew", .was.datacenter, .was.rack, .now.datacenter, .now.rack
    )]
    OtherPlace {
        /// Which.
        address: SocketAddr,
        /// Where it was.
        was: Box<Place>,
        /// Where it says it is.
        now: Box<Place>,
    },
    /// A token that another node owns, or no tokens at all.
    #[error("token {} is owned by another node", .0.0)]
    TokenTaken(#[serde(with = "tokens::one")] Token),
    /// A node without tokens.
    #[error("a node cannot join without tokens")]
    NoTokens,
    /// One movement at a time.
    #[error("nodes are moving: wait until they are done")]
    MovementUnderWay,
    /// There is no movement, or it is in another phase.
    #[error("no movement is in that phase")]
    NoSuchMovement,
    /// Somebody must keep the data.
    #[error("the last node cannot leave")]
    NobodyLeft,
}

impl Topology {
    /// The topology after a transformation.
    pub fn apply(&self, transformation: &Transformation) -> Result<Topology, Rejected> {
        let mut next = self.clone();
        match transformation {
            Transformation::Register(node) => next.register(node)?,
            Transformation::Update(id, node) => next.update(*id, node)?,
            Transformation::JoinEmpty(id, tokens) => {
                let change = BTreeMap::from([(*id, Change::Join(tokens.clone()))]);
                next.prepare(change)?.finish(&mut next);
            }
            Transformation::Prepare(changes) => {
                let movement = next.prepare(changes.clone())?;
                next.movement = Some(movement);
            }
            Transformation::Advance { from } => next.advance(*from)?,
            Transformation::Cancel { from } => next.cancel(*from)?,
            Transformation::Forget(id) => next.forget(*id)?,
        }
        if let Err(problem) = next.check() {
            panic!("{transformation:?} makes {problem}");
        }
        Ok(next)
    }

    fn register(&mut self, node: &Node) -> Result<(), Rejected> {
        if let Some(known) = self.id_of(node.host_id).and_then(|id| self.member(id)) {
            return Err(match known.state {
                MemberState::Left => Rejected::Left(node.host_id),
                _ => Rejected::HostIdTaken {
                    host_id: node.host_id,
                    address: known.node.address,
                },
            });
        }
        self.check_addresses(None, node)?;
        let member = Member {
            node: node.clone(),
            state: MemberState::Registered,
            tokens: BTreeSet::new(),
        };
        self.members.insert(NodeId(self.next_id), member);
        self.next_id += 1;
        Ok(())
    }

    fn update(&mut self, id: NodeId, node: &Node) -> Result<(), Rejected> {
        self.check_addresses(Some(id), node)?;
        let moves = self.moves(id);
        let member = self.members.get_mut(&id).ok_or(Rejected::Unknown(id))?;
        if member.node.host_id != node.host_id {
            return Err(Rejected::HostIdTaken {
                host_id: member.node.host_id,
                address: member.node.address,
            });
        }
        if member.state == MemberState::Left {
            return Err(Rejected::Left(node.host_id));
        }
        let stays = member.state == MemberState::Joined || moves;
        if stays && member.node.place != node.place {
            return Err(Rejected::OtherPlace {
                address: node.address,
                was: Box::new(member.node.place.clone()),
                now: Box::new(node.place.clone()),
            });
        }
        member.node = node.clone();
        Ok(())
    }

    /// No other node that is there may have one of a node's addresses.
    fn check_addresses(&self, own: Option<NodeId>, node: &Node) -> Result<(), Rejected> {
        let others = self.members.iter();
        let others =
            others.filter(|(id, other)| own != Some(**id) && other.state != MemberState::Left);
        for (_, other) in others {
            for (taken, wanted) in [
                (other.node.address, node.address),
                (other.node.native_address, node.native_address),
            ] {
                if taken == wanted {
                    return Err(Rejected::AddressTaken(wanted));
                }
            }
        }
        Ok(())
    }

    fn prepare(&self, changes: BTreeMap<NodeId, Change>) -> Result<Movement, Rejected> {
        if self.movement.is_some() {
            return Err(Rejected::MovementUnderWay);
        }
        for (id, change) in &changes {
            let member = self.member(*id).ok_or(Rejected::Unknown(*id))?;
            let (wanted, is) = match change {
                Change::Join(_) | Change::Replace(_) => (
                    MemberState::Registered,
                    "has joined the cluster, or has left it",
                ),
                Change::Move(_) | Change::Leave => {
                    (MemberState::Joined, "is no member of the ring")
                }
            };
            member.check_state(wanted, is)?;
            if let Change::Replace(gone) = change {
                let gone = self.member(*gone).ok_or(Rejected::Unknown(*gone))?;
                gone.check_state(MemberState::Joined, "is no member of the ring")?;
            }
        }
        self.check_leaving(&changes)?;
        let movement = Movement {
            changes,
            phase: Phase::Prepared,
        };
        let after = movement.tokens_after(self);
        let mut owned = BTreeSet::new();
        for tokens in after.values() {
            if tokens.is_empty() {
                return Err(Rejected::NoTokens);
            }
            let twice = tokens.iter().find(|token| !owned.insert(**token));
            if let Some(token) = twice {
                return Err(Rejected::TokenTaken(*token));
            }
        }
        match after.is_empty() {
            true => Err(Rejected::NobodyLeft),
            false => Ok(movement),
        }
    }

    /// Nobody leaves, or is replaced, in two ways at once.
    fn check_leaving(&self, changes: &BTreeMap<NodeId, Change>) -> Result<(), Rejected> {
        let mut replaced = BTreeSet::new();
        for change in changes.values() {
            let Change::Replace(gone) = change else {
                continue;
            };
            if changes.contains_key(gone) || !replaced.insert(*gone) {
                let member = self.member(*gone).ok_or(Rejected::Unknown(*gone))?;
                return Err(Rejected::WrongState {
                    address: member.node.address,
                    is: "is to move in another way, too".into(),
                });
            }
        }
        Ok(())
    }

    fn movement_in(&mut self, phase: Phase) -> Result<&mut Movement, Rejected> {
        let movement = self.movement.as_mut();
        let movement = movement.filter(|movement| movement.phase == phase);
        movement.ok_or(Rejected::NoSuchMovement)
    }

    fn cancel(&mut self, from: Phase) -> Result<(), Rejected> {
        let movement = self.movement_in(from)?;
        match from {
            Phase::Reading => movement.phase = Phase::Writing,
            Phase::Prepared | Phase::Writing => self.movement = None,
        }
        Ok(())
    }

    fn advance(&mut self, from: Phase) -> Result<(), Rejected> {
        let movement = self.movement_in(from)?;
        match from {
            Phase::Prepared => movement.phase = Phase::Writing,
            Phase::Writing => movement.phase = Phase::Reading,
            Phase::Reading => movement.clone().finish(self),
        }
        Ok(())
    }

    fn forget(&mut self, id: NodeId) -> Result<(), Rejected> {
        let member = self.member(id).ok_or(Rejected::Unknown(id))?;
        if member.state == MemberState::Joined {
            return Err(Rejected::WrongState {
                address: member.node.address,
                is: "is a member of the ring: it must leave first".into(),
            });
        }
        if self.moves(id) {
            return Err(Rejected::MovementUnderWay);
        }
        self.members.remove(&id);
        Ok(())
    }

    /// Is it part of the movement?
    fn moves(&self, id: NodeId) -> bool {
        let movement = self.movement.as_ref();
        movement.is_some_and(|movement| {
            movement.changes.contains_key(&id) || movement.leaving().any(|leaves| leaves == id)
        })
    }

    /// What is true of every topology, also of one that came from elsewhere.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let mut owned = BTreeSet::new();
        for (id, member) in &self.members {
            if id.0 >= self.next_id {
                return Err("an id that was never given");
            }
            if (member.state == MemberState::Joined) == member.tokens.is_empty() {
                return Err(
                    "a member that owns tokens without having joined, or has joined without",
                );
            }
            if !member.tokens.iter().all(|token| owned.insert(*token)) {
                return Err("a token with two owners");
            }
        }
        let moving = self.movement.iter().flat_map(|movement| &movement.changes);
        for (id, change) in moving {
            let replaced = match change {
                Change::Replace(gone) => *gone,
                Change::Join(_) | Change::Move(_) | Change::Leave => *id,
            };
            if [*id, replaced].iter().any(|id| self.member(*id).is_none()) {
                return Err("a movement of who is no member");
            }
        }
        Ok(())
    }
}

impl Member {
    fn check_state(&self, wanted: MemberState, is: &'static str) -> Result<(), Rejected> {
        match self.state == wanted {
            true => Ok(()),
            false => Err(Rejected::WrongState {
                address: self.node.address,
                is: is.into(),
            }),
        }
    }
}
