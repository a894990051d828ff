//! Three members that reach each other through connections between nodes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{ClusterMetadata, MetadataEntry, SchemaEntry};
use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Env, TaskGroup};
use openraft::Raft;
use uuid::Uuid;
use wire::internode::{Hello, Identity, MessageHead, VERSIONS};

use super::super::{Call, Dialer, Machine, Member, Metadata, open, within};
use super::metadata::{MEMBERS, Tables, address, config, create, members};
use crate::internode::{Peer, Reception, Terms, greet, serve};
use crate::metrics::ShardMetrics;

type Group = Raft<Metadata, Machine<Tables>>;

/// The members that run, by their ids.
type Running = Rc<RefCell<BTreeMap<u64, (Env, Group, Machine<Tables>)>>>;

fn host_id(id: u64) -> Uuid {
    Uuid::from_u128(u128::from(id) + 1)
}

fn port(id: u64) -> SocketAddr {
    SocketAddr::new(address(id), 7000)
}

/// How `own` finds others.
fn dialer(env: &Env, own: u64) -> Dialer {
    let env = env.clone();
    let peers: RefCell<BTreeMap<u64, Peer>> = RefCell::default();
    Dialer::new(own, move |target, member: &Member| {
        let hello = Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: "Test".to_owned(),
            cluster_id: None,
            host_id: host_id(own),
            expects: Some(host_id(target)),
            shard: 0,
            compressed: false,
            address: port(own),
        };
        let mut peers = peers.borrow_mut();
        let peer = peers.entry(target);
        let peer =
            peer.or_insert_with(|| Peer::new(&env, member.address, hello, None, Terms::default()));
        Some(peer.clone())
    })
}

/// A life of a member: until it is killed.
async fn live(env: Env, id: u64, running: Running) {
    let folder = Path::new("/data");
    env.create_dir_all(folder).await.expect("the drive is fine");
    // Or all of it is gone when the power fails.
    let root = env.sync_dir(Path::new("/")).await;
    root.expect("the drive is fine");
    let (log, machine) = open(&env, folder, Tables::default())
        .await
        .expect("what it wrote is whole");
    let raft = Raft::new(id, config(), dialer(&env, id), log, machine.clone());
    let raft = raft.await.expect("it starts");
    if id == MEMBERS[0] && !raft.is_initialized().await.unwrap_or(true) {
        let _ = raft.initialize(members()).await;
    }
    let member = (env.clone(), raft.clone(), machine);
    running.borrow_mut().insert(id, member);
    let own = Identity {
        cluster: "Test".to_owned(),
        cluster_id: None,
        host_id: host_id(id),
        shards: 1,
    };
    let listener = env.listen(port(id), 16).await.expect("the port is free");
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (env_of_task, own, raft) = (env.clone(), own.clone(), raft.clone());
        let talking = async move {
            let greeting = greet(&env_of_task, stream, Reception::plain(&own));
            let Ok((stream, hello)) = greeting.await else {
                return;
            };
            let env = env_of_task.clone();
            let handle = move |_: MessageHead, body: Bytes| {
                let raft = raft.clone();
                within(&env, Box::pin(async move { answer(&raft, &body).await }))
            };
            let metrics = ShardMetrics::default();
            serve(&env_of_task, &stream, &hello, &metrics, handle).await;
        };
        env.spawn(TaskGroup::Foreground, talking).detach();
    }
}

async fn answer(raft: &Group, body: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let answered = match Call::decode(body) {
        Ok(call) => call.answer(raft).await,
        Err(error) => Err(error),
    };
    answered.map_err(|error| error.to_string().into_bytes())
}

struct World {
    simulation: Simulation,
    nodes: Vec<SimNode>,
    running: Running,
}

impl World {
    fn new(seed: u64) -> World {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let nodes = MEMBERS.map(|id| simulation.add_node(address(id), 1, 64 << 20));
        let mut world = World {
            simulation,
            nodes: nodes.into(),
            running: Running::default(),
        };
        for id in MEMBERS {
            world.start(id);
        }
        world
    }

    fn start(&mut self, id: u64) {
        let running = self.running.clone();
        self.simulation.start(self.nodes[id as usize], |env| {
            within(&env.clone(), Box::pin(live(env, id, running.clone())))
        });
    }

    fn crash(&mut self, id: u64) {
        self.running.borrow_mut().remove(&id);
        self.simulation.crash(self.nodes[id as usize], Crash::Power);
    }

    /// Has whoever leads decide on an entry, made of what it knows.
    fn write(&mut self, make: impl Fn(&ClusterMetadata) -> MetadataEntry) {
        for _ in 0..200 {
            self.simulation.run_for(Duration::from_millis(50));
            let members: Vec<_> = self.running.borrow().values().cloned().collect();
            for (env, raft, machine) in members {
                let taken: Rc<RefCell<Option<bool>>> = Rc::default();
                let (entry, told) = (make(&machine.metadata()), taken.clone());
                let writing = within(&env, async move {
                    let written = raft.client_write(entry).await;
                    *told.borrow_mut() = Some(written.is_ok_and(|w| w.data.result.is_ok()));
                });
                env.spawn(TaskGroup::Foreground, writing).detach();
                let limit = Duration::from_millis(500);
                self.simulation
                    .run_until(limit, |_| taken.borrow().is_some());
                if *taken.borrow() == Some(true) {
                    return;
                }
            }
        }
        panic!("nobody takes it");
    }

    fn agree(&mut self) {
        let running = self.running.clone();
        let agreed = self.simulation.run_until(Duration::from_secs(60), |_| {
            let running = running.borrow();
            let mut all = running.values().map(|(.., machine)| machine.metadata());
            let first = all.next();
            running.len() == MEMBERS.len() && all.all(|other| Some(other) == first)
        });
        assert!(agreed, "the members differ");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.borrow_mut().clear();
        for node in &self.nodes {
            self.simulation.crash(*node, Crash::Process);
        }
    }
}

fn schema(known: &ClusterMetadata) -> MetadataEntry {
    MetadataEntry::Schema(SchemaEntry {
        id: Uuid::from_u128(known.epoch().into()),
        base: known.schema_epoch(),
        mutations: vec![vec![1; 100]],
        timestamp: Some(5),
        event: 7u64.to_le_bytes().to_vec(),
        keyspaces: 1,
    })
}

fn story(seed: u64) -> u64 {
    let mut world = World::new(seed);
    world.write(create);
    for _ in 0..3 {
        world.write(schema);
    }
    world.agree();
    // One hears nothing and is not heard, and later so much has been decided that it needs a snapshot.
    let away = world.nodes[seed as usize % world.nodes.len()];
    for node in world.nodes.clone() {
        if node != away {
            world.simulation.block(node, away);
            world.simulation.block(away, node);
        }
    }
    for _ in 0..25 {
        world.write(schema);
    }
    world.simulation.heal();
    world.agree();
    let received: u64 = {
        let running = world.running.borrow();
        let machines = running.values().map(|(.., machine)| machine);
        machines
            .map(|machine| machine.subscriber().received())
            .sum()
    };
    assert!(received > 0, "seed {seed}: nobody needed a snapshot");
    // And one loses its power.
    let dead = MEMBERS[(seed as usize + 1) % MEMBERS.len()];
    world.crash(dead);
    world.write(schema);
    world.start(dead);
    world.agree();
    world.simulation.trace_hash()
}

#[test]
fn members_agree_over_connections_that_come_and_go() {
    let mut hashes: Vec<u64> = (0..6).map(story).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 6, "seeds differ");
}

#[test]
fn a_seed_tells_the_same_story() {
    assert_eq!(story(3), story(3));
}
