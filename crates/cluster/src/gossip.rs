//! Who of the nodes is up.
//!
//! Nodes ask each other in turn whether they are there, and have others ask where no answer comes;
//! who does not answer is suspected, and is down if it has not contradicted within seconds. What a
//! node learns it passes on with its next messages, so each sends the same few a second however large
//! the cluster is: SWIM (Das, Gupta, Motivala 2002) with suspicion, by `foca`.
//!
//! Who the nodes are is not learned here but from the topology; a node that was down, or that knew
//! nobody, is met again as soon as any of the others reaches it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use foca::{
    AccumulatingRuntime, Config, Foca, Identity, NoCustomBroadcast, OwnedNotification,
    PostcardCodec, Timer,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use crate::NodeId;

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

/// A node in one of its lives: that of the later start is the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Speaker {
    node: u32,
    /// When it started, or one more than before where it had to contradict that it is down.
    life: u64,
}

impl Identity for Speaker {
    type Addr = u32;

    fn addr(&self) -> u32 {
        self.node
    }

    fn renew(&self) -> Option<Speaker> {
        Some(Speaker {
            life: self.life + 1,
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
}

/// The bytes are no message of gossip.
#[derive(Debug, thiserror::Error)]
#[error("a message of gossip that is none: {0}")]
pub struct GossipError(String);

/// What one node knows of who is up. Time is counted from any moment before its making.
pub struct Gossip {
    foca: Foca<Speaker, PostcardCodec, SmallRng, NoCustomBroadcast>,
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
    /// When those that are not up are told again, and behind whom to go on.
    again: (Duration, NodeId),
}

impl Gossip {
    /// Of the node `own`, which started at `started` (microseconds since 1970: a later start of the
    /// same node has a greater one). The same `seed` gives the same messages.
    pub fn new(own: NodeId, started: u64, seed: u64) -> Gossip {
        let speaker = Speaker {
            node: own.0,
            life: started,
        };
        let config = Config {
            remove_down_after: Some(REMEMBERED),
            max_packet_size: MAX_MESSAGE,
            // What foca does for them it does only where anybody is up.
            periodic_announce_to_down_members: None,
            ..Config::new_lan(NODES)
        };
        let random = SmallRng::seed_from_u64(seed);
        Gossip {
            foca: Foca::new(speaker, config, random, PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            to_send: VecDeque::new(),
            news: VecDeque::new(),
            up: BTreeSet::new(),
            others: BTreeSet::new(),
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
    }

    /// When something is due next.
    pub fn next_due(&self) -> Duration {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        timer.map_or(self.again.0, |at| at.min(self.again.0))
    }

    /// Tells the others that this node goes: they need not find out.
    pub fn leave(&mut self, now: Duration) {
        let left = self.foca.leave_cluster(&mut self.runtime);
        debug_assert!(left.is_ok(), "a message of gossip has room: {left:?}");
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
                _ => {}
            }
        }
    }

    fn note(&mut self, speaker: Speaker, up: bool) {
        let node = NodeId(speaker.node);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(20);
    const SECOND: Duration = Duration::from_secs(1);

    /// Nodes and the messages between them, which take a tick.
    struct Net {
        nodes: Vec<Option<Gossip>>,
        now: Duration,
        started: u64,
        under_way: Vec<(usize, NodeId, Bytes)>,
        /// Of each pair: does nothing get from the one to the other?
        cut: BTreeSet<(usize, usize)>,
        /// One message in so many is lost.
        loss: u64,
        sent: u64,
    }

    impl Net {
        fn new(count: u32, loss: u64) -> Net {
            let mut net = Net {
                nodes: (0..count).map(|_| None).collect(),
                now: Duration::ZERO,
                started: 1,
                under_way: Vec::new(),
                cut: BTreeSet::new(),
                loss,
                sent: 0,
            };
            for node in 0..count as usize {
                net.start(node);
            }
            net
        }

        fn start(&mut self, node: usize) {
            self.started += 1_000_000;
            let own = NodeId(node as u32);
            let mut gossip = Gossip::new(own, self.started, self.started);
            for other in (0..self.nodes.len()).filter(|other| *other != node) {
                gossip.add(NodeId(other as u32), self.now);
            }
            self.nodes[node] = Some(gossip);
        }

        fn tick(&mut self) {
            self.now += TICK;
            let arriving = std::mem::take(&mut self.under_way);
            for (from, to, message) in arriving {
                self.sent += 1;
                let drawn = self.sent.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
                let lost = self.loss > 0 && drawn.is_multiple_of(self.loss);
                let to = to.0 as usize;
                if lost || self.cut.contains(&(from, to)) {
                    continue;
                }
                if let Some(gossip) = &mut self.nodes[to] {
                    // One that comes back to its sender is an error.
                    let _ = gossip.receive(&message, self.now);
                }
            }
            for (from, gossip) in self.nodes.iter_mut().enumerate() {
                let Some(gossip) = gossip else { continue };
                gossip.advance(self.now);
                while let Some((to, message)) = gossip.next_message() {
                    self.under_way.push((from, to, message));
                }
            }
        }

        /// Runs until everybody who is there takes exactly those to be up who are there and not cut off;
        /// gives how long that took.
        fn settle(&mut self, limit: Duration) -> Duration {
            let began = self.now;
            while !self.is_settled() {
                assert!(self.now - began < limit, "{:?}", self.views());
                self.tick();
            }
            self.now - began
        }

        fn is_settled(&self) -> bool {
            self.views().into_iter().all(|(node, view)| {
                let there = (0..self.nodes.len()).filter(|other| {
                    let reached = !self.cut.contains(&(node, *other));
                    *other != node && self.nodes[*other].is_some() && reached
                });
                view == there.collect::<Vec<_>>()
            })
        }

        fn views(&self) -> Vec<(usize, Vec<usize>)> {
            let nodes = self.nodes.iter().enumerate();
            let view = |gossip: &Gossip| -> Vec<usize> {
                let others = 0..self.nodes.len();
                others.filter(|n| gossip.is_up(NodeId(*n as u32))).collect()
            };
            let views = nodes.filter_map(|(node, gossip)| Some((node, view(gossip.as_ref()?))));
            views.collect()
        }

        fn partition(&mut self, side: &[usize]) {
            for a in 0..self.nodes.len() {
                for b in 0..self.nodes.len() {
                    if side.contains(&a) != side.contains(&b) {
                        self.cut.insert((a, b));
                    }
                }
            }
        }
    }

    #[test]
    fn who_dies_is_down_within_seconds_and_up_again_at_once() {
        let mut net = Net::new(5, 0);
        assert!(net.settle(SECOND) < SECOND);
        net.nodes[3] = None;
        let took = net.settle(30 * SECOND);
        assert!(took > SECOND && took < 15 * SECOND, "{took:?}");
        net.start(3);
        let took = net.settle(5 * SECOND);
        assert!(took < 2 * SECOND, "{took:?}");
    }

    #[test]
    fn who_says_that_it_goes_is_down_at_once() {
        let mut net = Net::new(5, 0);
        net.settle(SECOND);
        let now = net.now;
        net.nodes[2].as_mut().expect("it is there").leave(now);
        net.tick();
        net.nodes[2] = None;
        let took = net.settle(5 * SECOND);
        assert!(took < SECOND, "{took:?}");
    }

    #[test]
    fn one_way_that_is_cut_does_not_take_a_node_down() {
        let mut net = Net::new(5, 0);
        net.settle(SECOND);
        net.cut.insert((0, 1));
        for _ in 0..3000 {
            net.tick();
        }
        // Others ask for the one that cannot: nobody is taken to be down.
        net.cut.clear();
        assert!(net.is_settled(), "{:?}", net.views());
    }

    #[test]
    fn news_says_what_is_up_says() {
        let mut net = Net::new(3, 0);
        net.settle(SECOND);
        net.nodes[1] = None;
        net.settle(30 * SECOND);
        let gossip = net.nodes[0].as_mut().expect("it is there");
        let mut news = Vec::from_iter(std::iter::from_fn(|| gossip.next_news()));
        assert_eq!(news.pop(), Some(News::Down(NodeId(1))));
        assert_eq!(news.len(), 2, "{news:?}");
        assert!(gossip.is_up(NodeId(2)) && !gossip.is_up(NodeId(1)));
    }

    #[test]
    fn who_is_no_member_is_not_up() {
        let mut net = Net::new(3, 0);
        net.settle(SECOND);
        let now = net.now;
        let gossip = net.nodes[0].as_mut().expect("it is there");
        while gossip.next_news().is_some() {}
        gossip.remove(NodeId(1));
        assert!(!gossip.is_up(NodeId(1)));
        gossip.add(NodeId(1), now);
        assert_eq!(gossip.next_news(), Some(News::Up(NodeId(1))));
    }

    #[test]
    fn an_idle_cluster_says_little() {
        let mut net = Net::new(7, 0);
        net.settle(SECOND);
        let before = net.sent;
        for _ in 0..1000 {
            net.tick();
        }
        let a_second = (net.sent - before) / 20 / 7;
        assert!(a_second < 10, "{a_second} messages of each node a second");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn after_a_partition_all_see_each_other_again(
            count in 3u32..7,
            side in prop::collection::btree_set(0usize..6, 1..4),
            loss in prop_oneof![Just(0u64), 10u64..50],
        ) {
            let side: Vec<usize> = side.into_iter().filter(|n| *n < count as usize).collect();
            let mut net = Net::new(count, loss);
            net.settle(20 * SECOND);
            net.partition(&side);
            net.settle(60 * SECOND);
            net.cut.clear();
            net.settle(30 * SECOND);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut gossip = Gossip::new(NodeId(0), 1, 1);
            let _ = gossip.receive(&bytes, Duration::ZERO);
        }
    }
}
