//! Nodes that gossip over a network that loses messages and is cut.

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

/// Found by seed 119 of the simulator's `traffic`: it stayed down, and sent without pause.
#[test]
fn who_starts_with_a_clock_that_was_set_back_is_up_again() {
    let mut net = Net::new(5, 0);
    net.started += 3_600_000_000;
    net.nodes[3] = None;
    net.start(3);
    net.settle(5 * SECOND);
    for noticed in [true, false] {
        net.nodes[3] = None;
        if noticed {
            net.settle(30 * SECOND);
        }
        net.started -= 1_800_000_000;
        net.start(3);
        let until = net.now + 20 * SECOND;
        while net.now < until {
            net.tick();
        }
        let took = net.settle(SECOND);
        assert!(took.is_zero(), "noticed: {noticed}, {took:?}");
    }
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
fn who_left_comes_back_and_learns_who_died_meanwhile() {
    let mut net = Net::new(5, 0);
    net.settle(SECOND);
    let now = net.now;
    let mut away = net.nodes[2].take().expect("it is there");
    away.leave(now);
    // The last words are on their way when it does not listen any more.
    while let Some((to, message)) = away.next_message() {
        net.under_way.push((2, to, message));
    }
    let took = net.settle(5 * SECOND);
    assert!(took < SECOND, "{took:?}");
    net.nodes[4] = None;
    net.settle(30 * SECOND);
    let (mut now, known) = (net.now, [0, 1, 3, 4].map(NodeId));
    assert!(known.iter().all(|node| away.is_up(*node)), "nothing moves");
    // The clock of the machine was set back.
    away.come_back(1, now);
    net.nodes[2] = Some(away);
    while !(0..2).all(|node| net.nodes[node].as_ref().is_some_and(|g| g.is_up(NodeId(2)))) {
        net.tick();
        let back = net.nodes[2].as_ref().expect("it is back");
        assert!([0, 1, 3].iter().all(|node| back.is_up(NodeId(*node))));
        assert!(net.now - now < SECOND, "they are told at once");
    }
    now = net.now;
    let took = net.settle(30 * SECOND);
    assert!(took < 15 * SECOND && net.now > now, "{took:?}");
}

#[test]
fn who_is_left_alone_when_it_comes_back_finds_out() {
    let mut net = Net::new(2, 0);
    net.settle(SECOND);
    let now = net.now;
    let mut away = net.nodes[0].take().expect("it is there");
    away.leave(now);
    while away.next_message().is_some() {}
    net.nodes[1] = None;
    net.now += 60 * SECOND;
    away.come_back(u64::MAX / 2, net.now);
    net.nodes[0] = Some(away);
    let took = net.settle(30 * SECOND);
    assert!(took < 15 * SECOND, "{took:?}");
}

#[test]
fn silence_lasts_from_the_first_suspicion() {
    let mut net = Net::new(4, 0);
    net.nodes[3] = None;
    let silences = |net: &Net| -> Vec<Option<Duration>> {
        let gossip = net.nodes[0].as_ref().expect("it is there");
        gossip
            .silences(net.now)
            .map(|(_, silence)| silence)
            .collect()
    };
    net.settle(SECOND);
    assert_eq!(
        silences(&net),
        [Some(Duration::ZERO), Some(Duration::ZERO), None]
    );
    net.nodes[1] = None;
    let died = net.now;
    net.settle(30 * SECOND);
    let silence = silences(&net)[0].expect("it was met");
    assert!(silence > SECOND && silence < net.now - died, "{silence:?}");
    for _ in 0..50 {
        net.tick();
    }
    assert_eq!(
        silences(&net),
        [Some(silence + SECOND), Some(Duration::ZERO), None]
    );
    net.start(1);
    net.settle(5 * SECOND);
    net.tick();
    assert_eq!(
        silences(&net),
        [Some(Duration::ZERO), Some(Duration::ZERO), None]
    );
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

impl Net {
    /// What each node knows of another.
    fn told(&self, of: u32) -> Vec<Option<String>> {
        let nodes = self.nodes.iter().flatten();
        nodes
            .map(|gossip| gossip.told(NodeId(of), ApplicationState::DiskUsage))
            .collect()
    }

    fn tell(&mut self, node: usize, value: &str) {
        let gossip = self.nodes[node].as_mut().expect("it is there");
        gossip.tell(ApplicationState::DiskUsage, value);
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.tick();
        }
    }
}

#[test]
fn what_a_node_tells_of_itself_reaches_all() {
    let mut net = Net::new(5, 10);
    net.settle(30 * SECOND);
    net.tell(1, "STUFFED");
    net.run(10 * SECOND);
    let all = |value: &str| vec![Some(value.to_owned()); 5];
    assert_eq!(net.told(1), all("STUFFED"));
    assert_eq!(net.told(2), vec![None; 5]);
    net.tell(1, "FULL");
    net.tell(1, "SPACIOUS");
    net.run(10 * SECOND);
    assert_eq!(net.told(1), all("SPACIOUS"));
}

#[test]
fn a_node_that_starts_later_learns_it_when_it_is_told_again() {
    let mut net = Net::new(3, 0);
    net.nodes[2] = None;
    net.settle(60 * SECOND);
    net.tell(0, "FULL");
    net.run(30 * SECOND);
    net.start(2);
    net.settle(30 * SECOND);
    net.tell(0, "FULL");
    net.run(5 * SECOND);
    assert_eq!(net.told(0), vec![Some("FULL".to_owned()); 3]);
    let gossip = net.nodes[2].as_mut().expect("it is there");
    let news: Vec<News> = std::iter::from_fn(|| gossip.next_news()).collect();
    let told = News::Told(NodeId(0), ApplicationState::DiskUsage);
    assert_eq!(news.iter().filter(|news| **news == told).count(), 1);
}

#[test]
fn what_was_told_before_a_restart_is_over() {
    let mut net = Net::new(3, 0);
    net.settle(30 * SECOND);
    net.tell(0, "FULL");
    // While others still pass it on.
    net.run(SECOND / 2);
    net.start(0);
    net.run(30 * SECOND);
    assert_eq!(net.told(0), vec![None; 3]);
    net.tell(0, "SPACIOUS");
    net.run(5 * SECOND);
    assert_eq!(net.told(0), vec![Some("SPACIOUS".to_owned()); 3]);
}

#[test]
fn what_a_node_tells_holds_when_it_comes_back() {
    let mut net = Net::new(3, 0);
    net.settle(30 * SECOND);
    net.tell(0, "FULL");
    net.run(5 * SECOND);
    let (now, started) = (net.now, net.started + 1_000_000);
    let gossip = net.nodes[0].as_mut().expect("it is there");
    gossip.leave(now);
    net.run(5 * SECOND);
    let now = net.now;
    let gossip = net.nodes[0].as_mut().expect("it is there");
    gossip.come_back(started, now);
    net.run(10 * SECOND);
    assert_eq!(net.told(0), vec![Some("FULL".to_owned()); 3]);
}

#[test]
fn a_state_that_is_none_is_an_error() {
    let mut states = states::States::default();
    for broken in [&b"{}"[..], b"\xff", b"[1,\"DiskUsage\",[1,1],\"x\""] {
        let received = foca::BroadcastHandler::receive_item(&mut states, broken, None);
        assert!(received.is_err(), "{received:?}");
    }
    let long = format!(
        r#"{{"node":1,"state":"DiskUsage","version":[1,1],"value":"{}"}}"#,
        "x".repeat(257)
    );
    let received = foca::BroadcastHandler::receive_item(&mut states, long.as_bytes(), None);
    assert!(received.is_err(), "{received:?}");
}
