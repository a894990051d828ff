//! Two nodes that talk to each other, in the simulator.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Env, TaskGroup};
use node::internode::{Peer, PeerError, Reception, Terms, greet, serve};
use node::metrics::ShardMetrics;
use uuid::Uuid;
use wire::internode::{Answer, Hello, Identity, MessageHead, MessageKind, Refusal, VERSIONS, Verb};

const ASKING: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const ASKED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7000);
const SECOND: Duration = Duration::from_secs(1);

fn hello(cluster: &str) -> Hello {
    Hello {
        versions: (*VERSIONS.start(), *VERSIONS.end()),
        cluster: cluster.to_owned(),
        cluster_id: None,
        host_id: Uuid::from_u128(1),
        expects: None,
        shard: 0,
        compressed: false,
        address: SocketAddr::new(ASKING, 7000),
    }
}

fn peer(env: &Env, hello: Hello) -> Peer {
    Peer::new(env, ASKED, hello, None, Terms::default())
}

/// One whose trouble is counted.
fn counted(env: &Env, hello: Hello) -> (Peer, Arc<ShardMetrics>) {
    let metrics: Arc<ShardMetrics> = Arc::default();
    let terms = Terms::new(metrics.clone(), Rc::default());
    (Peer::new(env, ASKED, hello, None, terms), metrics)
}

/// What the node that is asked has seen.
#[derive(Default)]
struct Seen {
    /// Connections that there are.
    connections: Cell<u32>,
    requests: Cell<u32>,
    at_once: Cell<u32>,
    most_at_once: Cell<u32>,
    refused: RefCell<Vec<String>>,
    metrics: ShardMetrics,
}

/// Answers at `ASKED`, connection after connection.
async fn answer_all(env: Env, seen: Rc<Seen>) {
    let listener = env.listen(ASKED, 16).await.expect("the port is free");
    let own = Identity {
        cluster: "Test".to_owned(),
        cluster_id: None,
        host_id: Uuid::from_u128(2),
        shards: 1,
    };
    while let Ok((stream, _)) = listener.accept().await {
        let (env_of_task, own, seen) = (env.clone(), own.clone(), seen.clone());
        let talking = async move {
            match greet(&env_of_task, stream, Reception::plain(&own)).await {
                Ok((stream, hello)) => {
                    let (env, asked) = (env_of_task.clone(), seen.clone());
                    let handle = move |head, body| answer(env.clone(), asked.clone(), head, body);
                    seen.connections.set(seen.connections.get() + 1);
                    serve(&env_of_task, &stream, &hello, &seen.metrics, handle).await;
                    seen.connections.set(seen.connections.get() - 1);
                }
                Err(error) => seen.refused.borrow_mut().push(error.to_string()),
            }
        };
        env.spawn(TaskGroup::Foreground, talking).detach();
    }
}

/// A write gets its body back, a read its answer after as many milliseconds as the first two bytes of
/// its body say, and all else fails.
async fn answer(
    env: Env,
    seen: Rc<Seen>,
    head: MessageHead,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    seen.requests.set(seen.requests.get() + 1);
    seen.at_once.set(seen.at_once.get() + 1);
    let most = seen.most_at_once.get().max(seen.at_once.get());
    seen.most_at_once.set(most);
    let answer = match head.kind {
        MessageKind::Request(Verb::Mutation) => Ok(body.to_vec()),
        MessageKind::Request(Verb::Read) => {
            let millis = u16::from_be_bytes([body[0], body[1]]);
            env.sleep(Duration::from_millis(millis.into())).await;
            Ok(vec![7])
        }
        _ => Err(b"it cannot".to_vec()),
    };
    seen.at_once.set(seen.at_once.get() - 1);
    answer
}

/// A read that takes so long.
fn millis(millis: u16) -> Vec<u8> {
    millis.to_be_bytes().to_vec()
}

/// A node that asks and one that is asked.
struct World {
    simulation: Simulation,
    asking: SimNode,
    asked: SimNode,
    seen: Rc<Seen>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let asking = simulation.add_node(ASKING, 1, 1 << 20);
        let asked = simulation.add_node(ASKED.ip(), 1, 1 << 20);
        let mut world = World {
            simulation,
            asking,
            asked,
            seen: Rc::default(),
        };
        world.start_asked();
        world
    }

    fn start_asked(&mut self) {
        let seen = self.seen.clone();
        let main = |env| answer_all(env, seen.clone());
        self.simulation.start(self.asked, main);
    }

    /// Runs `ask` on the node that asks, to its end.
    fn ask<F, T>(&mut self, ask: impl Fn(Env) -> F) -> T
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let result = Rc::new(RefCell::new(None));
        self.simulation.start(self.asking, |env| {
            let (asking, result) = (ask(env), result.clone());
            async move {
                let given = asking.await;
                *result.borrow_mut() = Some(given);
            }
        });
        let ended = self.simulation.run_to_end(self.asking, 120 * SECOND);
        assert!(ended, "it waits for ever");
        self.simulation.crash(self.asking, Crash::Process);
        let given = result.borrow_mut().take();
        given.expect("it has ended")
    }
}

#[test]
fn requests_are_answered_each_with_its_own() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.ask(|env| async move {
            let hello = Hello {
                compressed: seed % 2 == 0,
                ..hello("Test")
            };
            let peer = peer(&env, hello);
            let ask = |verb, body: Vec<u8>| {
                let peer = peer.clone();
                let asking = async move { peer.ask(verb, 0, SECOND, body).await };
                env.spawn(TaskGroup::Foreground, asking)
            };
            let slow = ask(Verb::Read, millis(300));
            let bodies = (0..200u32).map(|number| number.to_be_bytes().repeat(1 + number as usize));
            let pings: Vec<_> = bodies
                .map(|body| (ask(Verb::Mutation, body.clone()), body))
                .collect();
            for (answer, body) in pings {
                assert_eq!(answer.await, Ok(Bytes::from(body)));
            }
            assert_eq!(slow.await, Ok(Bytes::from_static(&[7])));
            let failed = ask(Verb::Metadata, Vec::new()).await;
            let words = Bytes::from_static(b"it cannot");
            assert_eq!(failed, Err(PeerError::Failed(words)));
        });
        assert_eq!(world.seen.requests.get(), 202);
    }
}

#[test]
fn a_node_of_another_cluster_is_told_so() {
    let mut world = World::new(1);
    let refused = world.ask(|env| async move {
        let peer = peer(&env, hello("Other"));
        peer.ask(Verb::Ping, 0, SECOND, Vec::new()).await
    });
    let refusal = Refusal::OtherCluster {
        name: "Test".to_owned(),
    };
    let address = ASKED;
    assert_eq!(refused, Err(PeerError::Refused { address, refusal }));
    let seen = world.seen.refused.borrow();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("a node of the cluster `Other` was refused"));
}

#[test]
fn a_node_that_is_down_fails_requests_at_once_and_is_found_again() {
    let mut world = World::new(2);
    world.simulation.crash(world.asked, Crash::Process);
    world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        for _ in 0..3 {
            let began = env.now();
            let answer = peer.ask(Verb::Ping, 0, 10 * SECOND, Vec::new()).await;
            let unreachable = matches!(answer, Err(PeerError::Unreachable { .. }));
            assert!(unreachable, "{answer:?}");
            let took = env.now().saturating_duration_since(began);
            assert!(took < SECOND, "it is known to be down after {took:?}");
        }
    });
    world.start_asked();
    let answer = world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        peer.ask(Verb::Mutation, 0, SECOND, vec![1]).await
    });
    assert_eq!(answer, Ok(Bytes::from_static(&[1])));
}

#[test]
fn who_is_late_is_not_waited_for() {
    let mut world = World::new(3);
    world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        let late = peer.ask(Verb::Read, 0, SECOND / 10, millis(500)).await;
        assert_eq!(late, Err(PeerError::TimedOut(ASKED)));
        let answer = peer.ask(Verb::Read, 0, SECOND, millis(500)).await;
        assert_eq!(answer, Ok(Bytes::from_static(&[7])));
    });
}

#[test]
fn an_answer_may_take_longer_than_a_peer_may_be_silent() {
    let mut world = World::new(9);
    let answer = world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        peer.ask(Verb::Read, 0, 60 * SECOND, millis(45_000)).await
    });
    assert_eq!(answer, Ok(Bytes::from_static(&[7])));
}

#[test]
fn a_peer_that_goes_without_a_word_is_lost_and_found_again() {
    let mut world = World::new(4);
    let answers: Rc<RefCell<Vec<(u32, bool)>>> = Rc::default();
    let step = Rc::new(Cell::new(0));
    world.simulation.start(world.asking, |env| {
        let (answers, step) = (answers.clone(), step.clone());
        async move {
            let peer = peer(&env, hello("Test"));
            loop {
                let answer = peer.ask(Verb::Ping, 0, 30 * SECOND, Vec::new()).await;
                answers.borrow_mut().push((step.get(), answer.is_ok()));
                env.sleep(SECOND).await;
            }
        }
    });
    world.simulation.run_for(5 * SECOND);
    step.set(1);
    world.simulation.block(world.asked, world.asking);
    world.simulation.run_for(25 * SECOND);
    step.set(2);
    world.simulation.heal();
    world.simulation.run_for(40 * SECOND);
    let answers = answers.borrow();
    let count = |step, ok| {
        answers
            .iter()
            .filter(|answer| **answer == (step, ok))
            .count()
    };
    assert!(count(0, true) >= 4 && count(0, false) == 0, "{answers:?}");
    assert!(
        count(1, false) > 0,
        "noticed before the time is up: {answers:?}"
    );
    assert!(count(2, true) > 20, "{answers:?}");
}

#[test]
fn what_waits_for_a_peer_has_a_bound() {
    let mut world = World::new(5);
    let overloaded = world.ask(|env| async move {
        let (peer, metrics) = counted(&env, hello("Test"));
        // All in one turn: the connection is not even there yet.
        let asked: Vec<_> = (0..100)
            .map(|_| {
                let peer = peer.clone();
                let body = vec![1; 100 << 10];
                let asking = async move { peer.ask(Verb::Mutation, 0, 60 * SECOND, body).await };
                env.spawn(TaskGroup::Foreground, asking)
            })
            .collect();
        let mut overloaded = 0;
        for answer in asked {
            match answer.await {
                Ok(_) => {}
                Err(PeerError::Overloaded(_)) => overloaded += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(metrics.shed_messages.get(), overloaded);
        overloaded
    });
    assert_eq!(overloaded, 100 - (4 << 20) / (100 << 10));
}

/// How long a request waits that was asked right after the way to the peer was cut.
fn noticed(seed: u64, one_way: bool) -> Duration {
    let mut world = World::new(seed);
    let took: Rc<RefCell<Option<(PeerError, Duration)>>> = Rc::default();
    let cut = Rc::new(Cell::new(false));
    world.simulation.start(world.asking, |env| {
        let (took, cut) = (took.clone(), cut.clone());
        async move {
            let peer = peer(&env, hello("Test"));
            while !cut.get() {
                let answer = peer.ask(Verb::Ping, 0, SECOND, Vec::new()).await;
                assert!(answer.is_ok() || cut.get());
                env.sleep(SECOND / 100).await;
            }
            let began = env.now();
            let answer = peer.ask(Verb::Mutation, 0, 30 * SECOND, vec![1]).await;
            let error = answer.expect_err("nothing gets through");
            let waited = env.now().saturating_duration_since(began);
            *took.borrow_mut() = Some((error, waited));
        }
    });
    world.simulation.run_for(SECOND);
    cut.set(true);
    world.simulation.block(world.asked, world.asking);
    if !one_way {
        world.simulation.block(world.asking, world.asked);
    }
    world.simulation.run_for(40 * SECOND);
    let (error, waited) = took.borrow_mut().take().expect("it is given up");
    assert!(matches!(error, PeerError::Lost { .. }), "{error}");
    waited
}

#[test]
fn a_way_that_was_cut_is_noticed_within_three_seconds() {
    for seed in 0..10 {
        let waited = noticed(seed, seed % 2 == 0);
        assert!((2 * SECOND..3 * SECOND).contains(&waited), "{waited:?}");
    }
}

#[test]
fn a_way_that_vanishes_while_nobody_asks_is_noticed_before_somebody_does() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        let metrics: Rc<RefCell<Option<Arc<ShardMetrics>>>> = Rc::default();
        let healed = Rc::new(Cell::new(false));
        let took: Rc<Cell<Option<Duration>>> = Rc::default();
        world.simulation.start(world.asking, |env| {
            let (metrics, healed, took) = (metrics.clone(), healed.clone(), took.clone());
            async move {
                let (peer, counted) = counted(&env, hello("Test"));
                *metrics.borrow_mut() = Some(counted);
                let answer = peer.ask(Verb::Mutation, 0, SECOND, vec![1]).await;
                assert!(answer.is_ok());
                while !healed.get() {
                    env.sleep(SECOND / 10).await;
                }
                let began = env.now();
                let answer = peer.ask(Verb::Mutation, 0, SECOND, vec![1]).await;
                assert!(answer.is_ok());
                took.set(Some(env.now().saturating_duration_since(began)));
            }
        });
        let lost = || {
            let metrics = metrics.borrow();
            metrics.as_ref().map(|m| m.lost_connections.get())
        };
        // A quiet way is kept.
        world.simulation.run_for(300 * SECOND);
        assert_eq!((lost(), world.seen.connections.get()), (Some(0), 1));
        world.simulation.block(world.asked, world.asking);
        world.simulation.block(world.asking, world.asked);
        world.simulation.run_for(15 * SECOND);
        assert_eq!(lost(), Some(1), "nobody has asked");
        world.simulation.heal();
        healed.set(true);
        world.simulation.run_for(2 * SECOND);
        let took = took.get().expect("it was answered");
        assert!(took < SECOND / 2, "{took:?}");
    }
}

#[test]
fn who_asked_and_vanished_is_not_waited_for() {
    let mut world = World::new(12);
    world.simulation.start(world.asking, |env| async move {
        let peer = peer(&env, hello("Test"));
        let answer = peer.ask(Verb::Mutation, 0, SECOND, vec![1]).await;
        assert!(answer.is_ok());
        env.sleep(600 * SECOND).await;
    });
    world.simulation.run_for(SECOND);
    assert_eq!(world.seen.connections.get(), 1);
    world.simulation.block(world.asking, world.asked);
    world.simulation.crash(world.asking, Crash::Power);
    world.simulation.run_for(50 * SECOND);
    assert_eq!(world.seen.connections.get(), 1, "it may come back");
    world.simulation.run_for(20 * SECOND);
    assert_eq!(world.seen.connections.get(), 0);
}

#[test]
fn what_gossip_says_of_a_node_is_not_waited_for() {
    let mut world = World::new(10);
    let (asking, asked) = (world.asking, world.asked);
    let step = Rc::new(Cell::new(0));
    let took: Rc<RefCell<Vec<Duration>>> = Rc::default();
    world.simulation.start(asking, |env| {
        let (step, took) = (step.clone(), took.clone());
        async move {
            let peer = peer(&env, hello("Test"));
            let first = peer.ask(Verb::Ping, 0, SECOND, Vec::new()).await;
            assert!(first.is_ok());
            let ask = || {
                let (env_of_task, peer, took) = (env.clone(), peer.clone(), took.clone());
                env.spawn(TaskGroup::Foreground, async move {
                    let began = env_of_task.now();
                    let answer = peer.ask(Verb::Mutation, 0, 30 * SECOND, vec![1]).await;
                    let waited = env_of_task.now().saturating_duration_since(began);
                    took.borrow_mut().push(waited);
                    answer.is_ok()
                })
            };
            while step.get() < 1 {
                env.sleep(SECOND / 100).await;
            }
            let lost = ask();
            env.sleep(SECOND / 10).await;
            peer.found_down();
            assert!(!lost.await);
            // Connecting is begun while nothing gets through, and anew when something does.
            let found = ask();
            while step.get() < 2 {
                env.sleep(SECOND / 100).await;
            }
            peer.found_up();
            assert!(found.await);
        }
    });
    world.simulation.run_for(SECOND / 2);
    world.simulation.block(asking, asked);
    step.set(1);
    world.simulation.run_for(SECOND);
    world.simulation.heal();
    step.set(2);
    world.simulation.run_for(SECOND / 2);
    let took = took.borrow();
    assert_eq!(took.len(), 2, "both have ended");
    assert!(took[0] < SECOND / 5 && took[1] < SECOND, "{took:?}");
}

#[test]
fn what_comes_too_late_is_not_begun_but_counted() {
    let mut world = World::new(11);
    let asked = world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        let ask = |time, length| {
            let (peer, mut body) = (peer.clone(), millis(1500));
            body.resize(length, 0);
            let asking = async move { peer.ask(Verb::Read, 0, time, body).await };
            env.spawn(TaskGroup::Foreground, asking)
        };
        // Nearly as many as it works on at once, and then more who do not wait for so long.
        let mut asked: Vec<_> = (0..300)
            .map(|_| (ask(9 * SECOND, 13 << 10), true))
            .collect();
        env.sleep(SECOND / 10).await;
        asked.extend((0..400).map(|_| (ask(SECOND, 1 << 10), false)));
        for (answer, in_time) in asked {
            assert_eq!(answer.await.is_ok(), in_time);
        }
        // What was read is worked through, and what is read later served.
        let answer = peer.ask(Verb::Mutation, 0, 9 * SECOND, vec![1]).await;
        assert!(answer.is_ok());
        300 + 400 + 1
    });
    let (begun, late) = (
        world.seen.requests.get(),
        world.seen.metrics.late_messages.get(),
    );
    assert!(late > 0, "{begun} begun, {late} late");
    assert!(u64::from(begun) + late <= asked);
}

/// What a node of other versions hears when it says its first words.
fn greeted(versions: (u16, u16)) -> Option<Answer> {
    let mut world = World::new(12);
    world.ask(move |env| async move {
        let stream = env.connect(ASKED).await.expect("it listens");
        let hello = Hello {
            versions,
            ..hello("Test")
        };
        let mut words = Vec::new();
        hello.encode(&mut words);
        assert_eq!(stream.write_all(words).await.0.ok(), Some(()));
        let mut input = BytesMut::new();
        loop {
            let (read, bytes) = stream.read(Vec::new()).await;
            if read.ok()? == 0 {
                return None;
            }
            input.extend_from_slice(&bytes);
            if let Some(answer) = Answer::decode(&mut input).expect("it is a node") {
                return Some(answer);
            }
        }
    })
}

#[test]
fn nodes_of_neighbouring_versions_talk_and_others_are_told_why_not() {
    let (oldest, newest) = (*VERSIONS.start(), *VERSIONS.end());
    for (versions, spoken) in [
        ((oldest, newest), Some(newest)),
        // The next one, which still speaks ours, and the one after it.
        ((newest, newest + 1), Some(newest)),
        ((newest + 1, newest + 2), None),
        // The one before, where there is one.
        ((oldest.saturating_sub(1), oldest), Some(oldest)),
        ((0, oldest.saturating_sub(1)), None),
    ] {
        match (greeted(versions), spoken) {
            (Some(Answer::Welcome(welcome)), Some(spoken)) => assert_eq!(welcome.version, spoken),
            (Some(Answer::Refused(refusal)), None) => {
                let expected = Refusal::OtherVersion {
                    lowest: oldest,
                    newest,
                };
                assert_eq!(refusal, expected);
            }
            (answer, _) => panic!("{versions:?}: {answer:?}"),
        }
    }
}

#[test]
fn a_node_works_on_no_more_of_a_connection_than_its_bound() {
    let mut world = World::new(6);
    world.ask(|env| async move {
        let peer = peer(&env, hello("Test"));
        let mut asked = Vec::new();
        for _ in 0..500 {
            let peer = peer.clone();
            // Longer than a peer may be silent: one that reads nothing says that it is there.
            let mut body = millis(6000);
            body.resize(12 << 10, 0);
            let asking = async move { peer.ask(Verb::Read, 0, 100 * SECOND, body).await };
            asked.push(env.spawn(TaskGroup::Foreground, asking));
            // More than that would not wait to be sent.
            env.sleep(SECOND / 1000).await;
        }
        for answer in asked {
            assert_eq!(answer.await, Ok(Bytes::from_static(&[7])));
        }
    });
    assert_eq!(world.seen.requests.get(), 500);
    let (most, bound) = (world.seen.most_at_once.get(), (4 << 20) / (12 << 10));
    assert!(most > bound / 2 && most <= bound, "{most} at once");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed);
        world.ask(|env| async move {
            let peer = peer(&env, hello("Test"));
            for time in 0..50 {
                let answer = peer.ask(Verb::Read, 0, SECOND, millis(time)).await;
                assert!(answer.is_ok());
            }
        });
        world.simulation.trace_hash()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
