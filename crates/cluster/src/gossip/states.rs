//! What nodes tell all others of themselves, be they up at that moment or come later: Cassandra's application
//! states (`ApplicationState`), as far as nobody decides on them together.
//!
//! Each is a broadcast: whoever hears of something new passes it on with its next messages, as news of who is
//! up. A node tells its own again and again ([`super::Gossip::tell`]), so those that start later learn them, too.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use foca::{BroadcastHandler, Invalidates};
use serde::{Deserialize, Serialize};

use super::Speaker;
use crate::NodeId;

/// The longest value, in bytes.
const LONGEST_VALUE: usize = 256;

/// What a node may tell of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ApplicationState {
    /// How full its drive is.
    DiskUsage,
}

/// What was told, and when: what is later counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    node: u32,
    state: ApplicationState,
    /// The life of the node, and how often it had told of something before in it.
    version: (u64, u64),
    value: String,
}

/// What is newer takes the place of what was told of the same before.
#[derive(Debug)]
pub(super) struct Topic(u32, ApplicationState);

impl Invalidates for Topic {
    fn invalidates(&self, other: &Topic) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

/// The bytes tell nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error("a state of a node that is none: {0}")]
    Undecodable(serde_json::Error),
    #[error("a state of a node of {0} bytes")]
    TooLong(usize),
}

/// What all nodes have told.
#[derive(Debug, Default)]
struct Known {
    told: BTreeMap<(NodeId, ApplicationState), Told>,
    /// The latest life of each node: what it told in an earlier one may still be on its way.
    lives: BTreeMap<NodeId, u64>,
    /// Of whom something else is known than before.
    changed: VecDeque<(NodeId, ApplicationState)>,
}

/// What all nodes have told. Those who have it share it: foca keeps one.
#[derive(Clone, Debug, Default)]
pub(super) struct States(Rc<RefCell<Known>>);

impl States {
    /// What `speaker` tells from now on, to be broadcast.
    ///
    /// # Errors
    /// It is too long.
    pub(super) fn encode(
        &self,
        speaker: &Speaker,
        state: ApplicationState,
        value: &str,
    ) -> Result<Vec<u8>, StateError> {
        if value.len() > LONGEST_VALUE {
            return Err(StateError::TooLong(value.len()));
        }
        let known = self.0.borrow();
        let before = known.told.get(&(NodeId(speaker.node), state));
        let before = before.map_or((0, 0), |told| told.version);
        let told = Told {
            node: speaker.node,
            state,
            // Where the clock was set back, others may have heard of a later life of this node.
            version: (speaker.life.max(before.0), before.1.saturating_add(1)),
            value: value.to_owned(),
        };
        serde_json::to_vec(&told).map_err(StateError::Undecodable)
    }

    /// What a node has told last.
    pub(super) fn of(&self, node: NodeId, state: ApplicationState) -> Option<String> {
        let known = self.0.borrow();
        let told = known.told.get(&(node, state))?;
        Some(told.value.clone())
    }

    /// The next of whom something else is known than before.
    pub(super) fn next_change(&self) -> Option<(NodeId, ApplicationState)> {
        self.0.borrow_mut().changed.pop_front()
    }

    /// The node is in this life: what it told in an earlier one is over.
    pub(super) fn lives(&self, speaker: &Speaker) {
        let mut known = self.0.borrow_mut();
        let life = known.lives.entry(NodeId(speaker.node)).or_default();
        *life = speaker.life.max(*life);
        drop(known);
        self.forget(|told| told.node == speaker.node && told.version.0 < speaker.life);
    }

    /// The node is no member any more.
    pub(super) fn remove(&self, node: NodeId) {
        self.forget(|told| told.node == node.0);
    }

    fn forget(&self, is_over: impl Fn(&Told) -> bool) {
        let Known { told, changed, .. } = &mut *self.0.borrow_mut();
        told.retain(|of, told| {
            let stays = !is_over(told);
            if !stays {
                changed.push_back(*of);
            }
            stays
        });
    }
}

impl BroadcastHandler<Speaker> for States {
    type Key = Topic;
    type Error = StateError;

    fn receive_item(
        &mut self,
        data: &[u8],
        _sender: Option<&Speaker>,
    ) -> Result<Option<Topic>, StateError> {
        let told: Told = serde_json::from_slice(data).map_err(StateError::Undecodable)?;
        if told.value.len() > LONGEST_VALUE {
            return Err(StateError::TooLong(told.value.len()));
        }
        let of = (NodeId(told.node), told.state);
        let mut known = self.0.borrow_mut();
        let life = known.lives.get(&of.0);
        if life.is_some_and(|life| told.version.0 < *life) {
            return Ok(None);
        }
        let before = known.told.get(&of);
        if before.is_some_and(|before| before.version >= told.version) {
            return Ok(None);
        }
        if before.is_none_or(|before| before.value != told.value) {
            known.changed.push_back(of);
        }
        known.told.insert(of, told);
        Ok(Some(Topic(of.0.0, of.1)))
    }
}
