//! Two nodes that talk to each other in the simulator, each with TLS or without.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use cluster::Place;
use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Env, TaskGroup};
use node::internode::{
    Encrypted, Encryption, Peer, PeerError, Reception, Stream, Terms, greet, serve,
};
use node::metrics::ShardMetrics;
use node::tls::{TlsContext, TlsSettings};
use uuid::Uuid;
use wire::internode::{Hello, Identity, MessageHead, Refusal, VERSIONS, Verb};

use crate::certificates::{Authority, context, strict};

const ASKING: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const ASKED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7000);
const SECOND: Duration = Duration::from_secs(1);

static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

fn place(datacenter: &str) -> Place {
    Place {
        datacenter: datacenter.to_owned(),
        rack: "rack1".to_owned(),
    }
}

fn encryption(address: IpAddr, encrypted: Encrypted, optional: bool) -> Arc<Encryption> {
    let context = context(&strict(), &AUTHORITY.credentials(address));
    Arc::new(Encryption::new(encrypted, optional, context))
}

/// What the node that is asked says to who is refused, and how its connections went on.
#[derive(Default)]
struct Seen {
    refused: RefCell<Vec<String>>,
    secure: RefCell<Vec<bool>>,
}

/// Gives bodies back at `ASKED`. Each connection goes to another shard once its first words are said.
async fn answer_all(env: Env, encryption: Option<Arc<Encryption>>, seen: Rc<Seen>) {
    let listener = env.listen(ASKED, 16).await.expect("the port is free");
    let own = Identity {
        cluster: "Test".to_owned(),
        cluster_id: None,
        host_id: Uuid::from_u128(2),
        shards: 1,
    };
    while let Ok((stream, _)) = listener.accept().await {
        let (env_of_task, own, seen) = (env.clone(), own.clone(), seen.clone());
        let encryption = encryption.clone();
        let talking = async move {
            let takes_plain = |_: &Hello| {
                let there = place("here");
                encryption
                    .as_ref()
                    .is_none_or(|encryption| encryption.takes_plain(&there, None))
            };
            let reception = Reception {
                identity: &own,
                encryption: encryption.as_deref(),
                takes_plain: &takes_plain,
            };
            match greet(&env_of_task, stream, reception).await {
                Ok((stream, hello)) => {
                    seen.secure.borrow_mut().push(stream.is_secure());
                    let link = stream.detach().expect("nobody else has it");
                    let stream = Stream::adopt(&env_of_task, link);
                    let metrics = ShardMetrics::default();
                    let handle = |_: MessageHead, body: Bytes| async move { Ok(body.to_vec()) };
                    serve(&env_of_task, &stream, &hello, &metrics, handle).await;
                }
                Err(error) => seen.refused.borrow_mut().push(error.to_string()),
            }
        };
        env.spawn(TaskGroup::Foreground, talking).detach();
    }
}

/// A node that asks and one that is asked.
struct World {
    simulation: Simulation,
    asking: SimNode,
    asked: SimNode,
    seen: Rc<Seen>,
}

impl World {
    fn new(seed: u64, asked_has: Option<Arc<Encryption>>) -> World {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let asking = simulation.add_node(ASKING, 1, 1 << 20);
        let asked = simulation.add_node(ASKED.ip(), 1, 1 << 20);
        let seen: Rc<Seen> = Rc::default();
        let seen_there = seen.clone();
        simulation.start(asked, |env| {
            answer_all(env, asked_has.clone(), seen_there.clone())
        });
        World {
            simulation,
            asking,
            asked,
            seen,
        }
    }

    /// Runs `ask` on the node that asks, to its end.
    fn ask<F, T>(&mut self, ask: impl Fn(Env, Peer) -> F, has: Option<Arc<Encryption>>) -> T
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let result = Rc::new(RefCell::new(None));
        self.simulation.start(self.asking, |env| {
            let hello = Hello {
                versions: (*VERSIONS.start(), *VERSIONS.end()),
                cluster: "Test".to_owned(),
                cluster_id: None,
                host_id: Uuid::from_u128(1),
                expects: None,
                shard: 0,
                compressed: true,
                address: SocketAddr::new(ASKING, 7000),
            };
            let peer = Peer::new(&env, ASKED, hello, has.clone(), Terms::default());
            let (asking, result) = (ask(env, peer), result.clone());
            async move {
                let given = asking.await;
                *result.borrow_mut() = Some(given);
            }
        });
        let ended = self.simulation.run_to_end(self.asking, 120 * SECOND);
        assert!(ended, "it waits for ever");
        self.simulation.crash(self.asking, Crash::Process);
        // Who is refused is listened to for a moment.
        self.simulation.run_for(2 * SECOND);
        let given = result.borrow_mut().take();
        given.expect("it has ended")
    }

    /// What comes of one request.
    fn ask_once(&mut self, has: Option<Arc<Encryption>>) -> Result<Bytes, PeerError> {
        self.ask(
            |_, peer| async move { peer.ask(Verb::Mutation, 0, SECOND, vec![1, 2, 3]).await },
            has,
        )
    }

    /// What the one that is asked says of who it refused.
    fn refused(&self) -> String {
        self.seen.refused.borrow().join("\n")
    }
}

fn with(encrypted: Encrypted, optional: bool) -> [Option<Arc<Encryption>>; 2] {
    [ASKING, ASKED.ip()].map(|address| Some(encryption(address, encrypted, optional)))
}

#[test]
fn requests_of_any_size_are_answered_under_tls() {
    for seed in 0..3 {
        let [here, there] = with(Encrypted::All, false);
        let mut world = World::new(seed, there);
        world.ask(
            |env, peer| async move {
                let asked: Vec<_> = [0, 1, 100, 20_000, 70_000, 300_000, 3]
                    .into_iter()
                    .map(|length| {
                        let body: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
                        let (peer, sent) = (peer.clone(), body.clone());
                        let asking =
                            async move { peer.ask(Verb::Mutation, 0, 9 * SECOND, sent).await };
                        (env.spawn(TaskGroup::Foreground, asking), body)
                    })
                    .collect();
                for (answer, body) in asked {
                    assert!(answer.await == Ok(Bytes::from(body)));
                }
            },
            here,
        );
        assert_eq!(*world.seen.secure.borrow(), [true]);
    }
}

#[test]
fn who_has_no_tls_is_told_so_on_both_sides() {
    let [_, there] = with(Encrypted::All, false);
    let mut world = World::new(1, there);
    let refused = world.ask_once(None);
    let (address, refusal) = (ASKED, Refusal::TlsRequired);
    assert_eq!(refused, Err(PeerError::Refused { address, refusal }));
    assert!(
        world
            .refused()
            .contains("connections without TLS are not taken")
    );
}

#[test]
fn who_takes_no_tls_is_told_so_on_both_sides() {
    let [here, there] = with(Encrypted::None, false);
    for there in [None, there] {
        let mut world = World::new(2, there);
        let refused = world.ask_once(here.clone());
        let (address, refusal) = (ASKED, Refusal::NoTls);
        assert_eq!(refused, Err(PeerError::Refused { address, refusal }));
        assert!(
            world
                .refused()
                .contains("connections under TLS are not taken")
        );
    }
}

#[test]
fn where_it_is_optional_all_talk_and_prefer_it() {
    let [here, there] = with(Encrypted::All, true);
    for (here, there, secure) in [
        (here.clone(), there.clone(), true),
        (here, None, false),
        (None, there, false),
    ] {
        let mut world = World::new(3, there);
        assert_eq!(world.ask_once(here), Ok(Bytes::from_static(&[1, 2, 3])));
        assert_eq!(*world.seen.secure.borrow(), [secure]);
    }
}

#[test]
fn a_stranger_is_refused_and_both_say_why() {
    let stranger = Authority::new();
    let stranger = context(&strict(), &stranger.credentials(ASKING));
    let stranger = Arc::new(Encryption::new(Encrypted::All, true, stranger));
    let [_, there] = with(Encrypted::All, false);
    let mut world = World::new(4, there);
    let refused = world.ask_once(Some(stranger));
    let Err(PeerError::Insecure { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("truststore"), "{reason}");
    assert!(
        world
            .refused()
            .contains("does not take this node's certificate")
    );
}

#[test]
fn a_certificate_that_has_expired_is_refused_and_both_say_why() {
    let mut old = AUTHORITY.credentials(ASKING);
    old.keystore = AUTHORITY.issue_until(ASKING, 2020);
    for versions in [node::tls::TlsVersions::V12, node::tls::TlsVersions::V13] {
        let settings = TlsSettings {
            versions,
            ..strict()
        };
        let old = context(&settings, &old);
        let old = Arc::new(Encryption::new(Encrypted::All, false, old));
        let [_, there] = with(Encrypted::All, false);
        let mut world = World::new(5, there);
        let refused = world.ask_once(Some(old));
        let Err(PeerError::Insecure { reason, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            reason.contains("does not take this node's certificate"),
            "{reason}"
        );
        assert!(world.refused().contains("its certificate has expired"));
    }
}

#[test]
fn a_certificate_of_another_address_is_refused_and_both_say_why() {
    let elsewhere = encryption([10, 0, 0, 7].into(), Encrypted::All, false);
    let [_, there] = with(Encrypted::All, false);
    let mut world = World::new(8, there);
    let refused = world.ask_once(Some(elsewhere));
    let (address, refusal) = (ASKED, Refusal::OtherCertificate);
    assert_eq!(refused, Err(PeerError::Refused { address, refusal }));
    assert!(world.refused().contains("is not for its address"));
}

#[test]
fn a_way_that_is_cut_is_found_again() {
    let [here, there] = with(Encrypted::All, false);
    let mut world = World::new(6, there);
    let answers: Rc<RefCell<Vec<bool>>> = Rc::default();
    let told = answers.clone();
    let (asking, asked) = (world.asking, world.asked);
    world.simulation.start(asking, |env| {
        let hello = Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: "Test".to_owned(),
            cluster_id: None,
            host_id: Uuid::from_u128(1),
            expects: None,
            shard: 0,
            compressed: false,
            address: SocketAddr::new(ASKING, 7000),
        };
        let peer = Peer::new(&env, ASKED, hello, here.clone(), Terms::default());
        let told = told.clone();
        async move {
            loop {
                // Large, so that it is cut in the middle.
                let body = vec![7; 150_000];
                let answer = peer.ask(Verb::Mutation, 0, 30 * SECOND, body.clone()).await;
                told.borrow_mut()
                    .push(answer.is_ok_and(|answer| answer == body));
                env.sleep(SECOND / 100).await;
            }
        }
    });
    for _ in 0..3 {
        world.simulation.run_for(SECOND / 3);
        world.simulation.block(asking, asked);
        world.simulation.run_for(4 * SECOND);
        world.simulation.heal();
        answers.borrow_mut().clear();
        world.simulation.run_for(4 * SECOND);
        assert_eq!(answers.borrow().last(), Some(&true));
    }
}

#[test]
fn certificates_are_replaced_while_it_runs() {
    let [_, there] = with(Encrypted::All, false);
    let there = there.expect("it has TLS");
    let mut world = World::new(7, Some(there.clone()));
    let other = Authority::new();
    let other = |address| -> TlsContext { context(&strict(), &other.credentials(address)) };
    let here = Arc::new(Encryption::new(Encrypted::All, false, other(ASKING)));
    assert!(matches!(
        world.ask_once(Some(here.clone())),
        Err(PeerError::Insecure { .. })
    ));
    there.replace(other(ASKED.ip()));
    assert!(world.ask_once(Some(here)).is_ok());
}

#[test]
fn places_decide_who_is_talked_to_under_tls() {
    let [one, other] = [place("here"), place("there")];
    let next_rack = Place {
        rack: "rack2".to_owned(),
        ..one.clone()
    };
    for (encrypted, same, rack, center, unknown) in [
        (Encrypted::None, false, false, false, false),
        (Encrypted::OtherDataCenters, false, false, true, true),
        (Encrypted::OtherRacks, false, true, true, true),
        (Encrypted::All, true, true, true, true),
    ] {
        for optional in [false, true] {
            let encryption = encryption(ASKING, encrypted, optional);
            let others = [Some(&one), Some(&next_rack), Some(&other), None];
            let demands = others.map(|other| encryption.demands(&one, other));
            assert_eq!(demands, [same, rack, center, unknown]);
            let plain = others.map(|other| encryption.takes_plain(&one, other));
            assert_eq!(plain, demands.map(|demanded| optional || !demanded));
        }
    }
}
