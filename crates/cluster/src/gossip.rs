//! Who of the nodes is up.
//!
//! They also pass on what each tells of itself ([`ApplicationState`]).
//!
//! Nodes ask each other in turn whether they are there, and have others ask where no answer comes;
//! who does not answer is suspected, and is down if it has not contradicted within seconds. What a
//! node learns it passes on with its next messages, so each sends the same few a second however large
//! the cluster is: SWIM (Das, Gupta, Motivala 2002) with suspicion, by `foca`.
//!
//! Who the nodes are is not learned here but from the topology; a node that was down, or that knew
//! nobody, is met again as soon as any of the others reaches it.

mod states;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use foca::{
    AccumulatingRuntime, Config, Foca, Identity, OwnedNotification, PostcardCodec, State, Timer,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use crate::NodeId;
pub use states::ApplicationState;
use states::States;

/// For how many nodes news is spread and suspicion lasts as foca advises: more need little more, as
/// both grow with the logarithm.
const NODES: NonZeroU32 = NonZeroU32::new(100).expect("100 is not 0");
/// How often some of those that are not up are told that this node is there, and how many: after a
/// partition both sides take each other to be down, and nobody else would bring them together.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_NODES: usize = 3;
/// How long it is remembered who is down.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest message, in bytes.
const MAX_MESSAGE: NonZeroUsize = NonZeroUsize::new(16 << 10).expect("16 KiB is not 0");

/// By how much the steps grow by which a node's life becomes later, and the longest of them, in microseconds.
const GROWTH: u64 = 16;
const LONGEST_STEP: u64 = 1 << 32;

/// A node in one of its lives: the latest is the one that counts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Speaker {
    node: u32,
    /// When it started, by its clock, or later where it had to contradict that it is down.
    life: u64,
    /// By how much it is later the next time. Steps grow: where the clock was set back since the last start,
    /// by nobody knows how much, the others believe in the life before, until a later one contradicts. Of no
    /// concern to others.
    #[serde(skip)]
    step: u64,
}

impl PartialEq for Speaker {
    fn eq(&self, other: &Speaker) -> bool {
        (self.node, self.life) == (other.node, other.life)
    }
}

impl Eq for Speaker {}

impl Identity for Speaker {
    type Addr = u32;

    fn addr(&self) -> u32 {
        self.node
    }

    fn renew(&self) -> Option<Speaker> {
        let step = self.step.max(1);
        Some(Speaker {
            life: self.life.saturating_add(step),
            step: step.saturating_mul(GROWTH).min(LONGEST_STEP),
            ..*self
        })
    }

    fn win_addr_conflict(&self, other: &Speaker) -> bool {
        self.life > other.life
    }
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The node is up.
    Up(NodeId),
    /// The node is down.
    Down(NodeId),
    /// The node tells something else of itself than before ([`Gossip::told`]), or nothing any more. Of this node
    /// it is told, too.
    Told(NodeId, ApplicationState),
}

/// The bytes are no message of gossip.
#[derive(Debug, thiserror::Error)]
#[error("a message of gossip that is none: {0}")]
pub struct GossipError(String);

/// What one node knows of who is up. Time is counted from any moment before its making.
pub struct Gossip {
    foca: Foca<Speaker, PostcardCodec, SmallRng, States>,
    /// What all have told of themselves, and what this node tells.
    states: States,
    own: BTreeMap<ApplicationState, String>,
    runtime: AccumulatingRuntime<Speaker>,
    /// By when they are due and the order in which they were set.
    timers: BTreeMap<(Duration, u64), Timer<Speaker>>,
    timers_set: u64,
    to_send: VecDeque<(NodeId, Bytes)>,
    news: VecDeque<News>,
    /// Who is up, be it a member or not.
    up: BTreeSet<NodeId>,
    /// All other members of the topology.
    others: BTreeSet<NodeId>,
    /// Since when those have given no answer that are suspected or down.
    silent_since: BTreeMap<NodeId, Duration>,
    /// When those that are not up are told again, and behind whom to go on.
    again: (Duration, NodeId),
}

impl Gossip {
    /// Of the node `own`, which started at `started` (microseconds since 1970: a later start of the
    /// same node has a greater one, or is found out to be the later). The same `seed` gives the same messages.
    pub fn new(own: NodeId, started: u64, seed: u64) -> Gossip {
        let speaker = Speaker {
            node: own.0,
            life: started,
            step: 1,
        };
        let config = Config {
            remove_down_after: Some(REMEMBERED),
            max_packet_size: MAX_MESSAGE,
            // What foca does for them it does only where anybody is up.
            periodic_announce_to_down_members: None,
            ..Config::new_lan(NODES)
        };
        let random = SmallRng::seed_from_u64(seed);
        let states = States::default();
        states.lives(&speaker);
        let told = states.clone();
        Gossip {
            foca: Foca::with_custom_broadcast(speaker, config, random, PostcardCodec, told),
            states,
            own: BTreeMap::new(),
            runtime: AccumulatingRuntime::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            to_send: VecDeque::new(),
            news: VecDeque::new(),
            up: BTreeSet::new(),
            others: BTreeSet::new(),
            silent_since: BTreeMap::new(),
            again: (Duration::ZERO, own),
        }
    }

    /// A member of the topology, other than this node. To be said at the start, and of each that is new.
    pub fn add(&mut self, node: NodeId, now: Duration) {
        if !self.others.insert(node) {
            return;
        }
        // It may have been heard of before the topology told.
        match self.up.contains(&node) {
            true => self.news.push_back(News::Up(node)),
            false => self.announce(node),
        }
        self.collect(now);
    }

    /// It is no member any more.
    pub fn remove(&mut self, node: NodeId) {
        self.others.remove(&node);
        self.silent_since.remove(&node);
        self.states.remove(node);
        self.collect_states();
    }

    /// These, and no other nodes, are the other members of the topology.
    pub fn set_members(&mut self, members: &BTreeSet<NodeId>, now: Duration) {
        let gone: Vec<NodeId> = self.others.difference(members).copied().collect();
        for node in gone {
            self.remove(node);
        }
        for node in members {
            self.add(*node, now);
        }
    }

    /// Tells a node that this one is there.
    fn announce(&mut self, node: NodeId) {
        let any_life = Speaker {
            node: node.0,
            life: 0,
            step: 1,
        };
        let told = self.foca.announce(any_life, &mut self.runtime);
        debug_assert!(told.is_ok(), "a message of gossip has room: {told:?}");
    }

    fn announce_to_some(&mut self) {
        let behind = (Bound::Excluded(self.again.1), Bound::Unbounded);
        let others = self.others.range(behind).chain(&self.others);
        let others = others.filter(|node| !self.up.contains(*node));
        let some: Vec<NodeId> = others.take(AGAIN_NODES).copied().collect();
        for node in some {
            self.announce(node);
            self.again.1 = node;
        }
    }

    /// Tells the others something of this node. To be said again from time to time, also where nothing has
    /// changed: a node that starts later learns it then. Values have up to 256 bytes.
    pub fn tell(&mut self, state: ApplicationState, value: &str) {
        self.own.insert(state, value.to_owned());
        self.broadcast(state, value);
        self.collect_states();
    }

    /// What this node told in its life before is over.
    fn tell_again(&mut self) {
        for (state, value) in self.own.clone() {
            self.broadcast(state, &value);
        }
    }

    fn broadcast(&mut self, state: ApplicationState, value: &str) {
        let encoded = self.states.encode(self.foca.identity(), state, value);
        let told = encoded.map(|told| self.foca.add_broadcast(&told));
        debug_assert!(
            matches!(told, Ok(Ok(_))),
            "a message of gossip has room: {told:?}"
        );
    }

    /// What a node tells of itself, this one or another member, as far as is known.
    pub fn told(&self, node: NodeId, state: ApplicationState) -> Option<String> {
        self.states.of(node, state)
    }

    fn collect_states(&mut self) {
        while let Some((node, state)) = self.states.next_change() {
            self.news.push_back(News::Told(node, state));
        }
    }

    /// A message of another node has come.
    ///
    /// # Errors
    /// It is none.
    pub fn receive(&mut self, message: &[u8], now: Duration) -> Result<(), GossipError> {
        let received = self.foca.handle_data(message, &mut self.runtime);
        self.collect(now);
        received.map_err(|error| GossipError(error.to_string()))
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Duration) {
        if self.again.0 <= now {
            self.again.0 = now + AGAIN;
            self.announce_to_some();
            self.collect(now);
        }
        while let Some(first) = self
            .timers
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            let timer = first.remove();
            // What a timer was for may be over.
            let _ = self.foca.handle_timer(timer, &mut self.runtime);
            self.collect(now);
        }
        self.note_silence(now);
    }

    fn note_silence(&mut self, now: Duration) {
        for member in self.foca.iter_membership_state() {
            let node = NodeId(member.id().node);
            match member.state() {
                State::Alive => {
                    self.silent_since.remove(&node);
                }
                State::Suspect | State::Down => {
                    self.silent_since.entry(node).or_insert(now);
                }
            }
        }
    }

    /// For how long each of the other members has given no answer, as far as this was found out when
    /// [`Gossip::advance`] was last called: nothing for one that is taken to be there. `None`: it has
    /// not been met since this node started.
    pub fn silences(&self, now: Duration) -> impl Iterator<Item = (NodeId, Option<Duration>)> {
        self.others.iter().map(move |node| {
            let silence = match self.silent_since.get(node) {
                Some(since) => Some(now.saturating_sub(*since)),
                None => self.up.contains(node).then_some(Duration::ZERO),
            };
            (*node, silence)
        })
    }

    /// When something is due next.
    pub fn next_due(&self) -> Duration {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        timer.map_or(self.again.0, |at| at.min(self.again.0))
    }

    /// Tells the others that this node goes: they need not find out. What is known of them stays as it
    /// is until [`Gossip::come_back`].
    pub fn leave(&mut self, now: Duration) {
        let left = self.foca.leave_cluster(&mut self.runtime);
        debug_assert!(left.is_ok(), "a message of gossip has room: {left:?}");
        self.collect(now);
    }

    /// Tells the others that this node is there again, after it left; `at` is the time of day as for
    /// [`Gossip::new`].
    pub fn come_back(&mut self, at: u64, now: Duration) {
        let before = *self.foca.identity();
        let speaker = Speaker {
            life: at.max(before.life.saturating_add(1)),
            ..before
        };
        let told = self.foca.change_identity(speaker, &mut self.runtime);
        debug_assert!(told.is_ok(), "it is another, and has room: {told:?}");
        self.states.lives(&speaker);
        // Those that are up are asked again whether they are there.
        self.tell_again();
        let none = std::iter::empty();
        let asked = self.foca.apply_many(none, true, &mut self.runtime);
        debug_assert!(asked.is_ok(), "there is nothing to refuse: {asked:?}");
        self.collect(now);
    }

    /// The next message to be sent, and to whom.
    pub fn next_message(&mut self) -> Option<(NodeId, Bytes)> {
        self.to_send.pop_front()
    }

    /// What has changed next.
    pub fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Is another member up, as far as is known?
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up.contains(&node) && self.others.contains(&node)
    }

    fn collect(&mut self, now: Duration) {
        while let Some((to, message)) = self.runtime.to_send() {
            self.to_send.push_back((NodeId(to.node), message));
        }
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers.insert((now + after, self.timers_set), timer);
            self.timers_set += 1;
        }
        while let Some(notification) = self.runtime.to_notify() {
            match notification {
                OwnedNotification::MemberUp(speaker) => self.note(speaker, true),
                OwnedNotification::MemberDown(speaker) => self.note(speaker, false),
                OwnedNotification::Rename(_, speaker) => self.states.lives(&speaker),
                OwnedNotification::Rejoin(speaker) => {
                    self.states.lives(&speaker);
                    self.tell_again();
                }
                _ => {}
            }
        }
        self.collect_states();
    }

    fn note(&mut self, speaker: Speaker, up: bool) {
        let node = NodeId(speaker.node);
        if up {
            self.states.lives(&speaker);
        }
        let changed = match up {
            true => self.up.insert(node),
            false => self.up.remove(&node),
        };
        if changed && self.others.contains(&node) {
            let news = if up { News::Up(node) } else { News::Down(node) };
            self.news.push_back(news);
        }
    }
}
