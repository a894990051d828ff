//! Three members in the simulator: they elect, write, lose their leader, see the next one die and
//! come back, and find together again; and the same seed tells the same story.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Env, Task, TaskGroup};
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, EmptyNode, Raft, ServerState, SnapshotPolicy};

use super::super::within;
use super::network::{Dialer, Member, Network};
use super::store::{List, Log, Numbers};

/// The members.
pub(super) const MEMBERS: [u64; 3] = [1, 2, 3];
/// The one who writes. It is no member.
const CLIENT: u64 = 0;
/// A number that is written to a leader which nobody hears.
const LOST: u64 = 999;
/// How many write at once.
const CLIENTS: usize = 4;
/// How long a client waits for an answer.
const ANSWER: Duration = Duration::from_millis(500);

/// What a member knew, and from when on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    nanos: u64,
    member: u64,
    term: u64,
    leader: Option<u64>,
    applied: Option<u64>,
}

/// What all members knew, in the order in which they learned it.
pub(super) type Trace = Rc<RefCell<Vec<Seen>>>;

/// Snapshots are taken often, so that who was away for long gets one.
fn config() -> Arc<Config> {
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        enable_pre_vote: Some(true),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(30),
        max_in_snapshot_log_to_keep: 5,
        ..Config::default()
    };
    Arc::new(config.validate().expect("it is valid"))
}

/// What a member has on its drive.
#[derive(Clone, Default)]
pub(super) struct Drive {
    pub(super) log: Log,
    pub(super) list: List,
}

/// A member's life on its shard: joins the others, then notes what it sees. The first one founds the
/// cluster.
pub(super) async fn live(env: Env, id: u64, drive: Drive, network: Network, trace: Trace) {
    let Drive { log, list } = drive;
    let dialer = Dialer {
        network: network.clone(),
        env: env.clone(),
        id,
    };
    let raft = Raft::<Numbers, List>::new(id, config(), dialer, log, list.clone()).await;
    let raft = raft.expect("it starts");
    let member = Member {
        env: env.clone(),
        raft: raft.clone(),
        list,
    };
    network.join(id, member);
    if id == MEMBERS[0] && !raft.is_initialized().await.expect("it runs") {
        let members: BTreeMap<u64, EmptyNode> = MEMBERS.map(|id| (id, EmptyNode {})).into();
        raft.initialize(members).await.expect("it is the first");
    }
    let mut metrics = raft.metrics();
    drop(raft);
    loop {
        let seen = {
            let metrics = metrics.borrow_and_update();
            Seen {
                nanos: env.now().as_nanos(),
                member: id,
                term: metrics.current_term,
                leader: metrics.current_leader,
                applied: metrics.last_applied.map(|applied| applied.index),
            }
        };
        trace.borrow_mut().push(seen);
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// Somebody who writes. It asks who answered last, then the others in turn, until one says yes.
pub(super) struct Client {
    pub(super) env: Env,
    pub(super) network: Network,
    /// Whom to ask: a place in [`MEMBERS`].
    pub(super) to: usize,
}

impl Client {
    /// Has the cluster decide on a number.
    pub(super) async fn write(&mut self, number: u64) {
        loop {
            let way = (CLIENT, MEMBERS[self.to]);
            let ask = |raft: Raft<Numbers, List>| async move { raft.client_write(number).await };
            let asking = self.network.call(&self.env, way, ask);
            if let Ok(Some(Ok(_))) = self.env.timeout(ANSWER, asking).await {
                return;
            }
            self.to = (self.to + 1) % MEMBERS.len();
        }
    }
}

/// Three nodes with a member each, and one with a client.
pub(super) struct Cluster {
    simulation: Simulation,
    nodes: Vec<SimNode>,
    pub(super) network: Network,
    pub(super) drives: BTreeMap<u64, Drive>,
    trace: Trace,
    client: Env,
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Cluster {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let ids = MEMBERS.into_iter().chain([CLIENT]);
        let nodes: Vec<_> = ids
            .map(|id| simulation.add_node(address(id), 1, 1 << 20))
            .collect();
        let client = RefCell::new(None);
        simulation.start(nodes[MEMBERS.len()], |env| {
            client.replace(Some(env));
            pending()
        });
        let mut cluster = Cluster {
            simulation,
            nodes,
            network: Network::default(),
            drives: MEMBERS.map(|id| (id, Drive::default())).into(),
            trace: Trace::default(),
            client: client.take().expect("it was started"),
        };
        for id in MEMBERS {
            cluster.start(id);
        }
        cluster
    }

    /// The node of a member.
    fn node(&self, id: u64) -> SimNode {
        self.nodes[id as usize - 1]
    }

    fn start(&mut self, id: u64) {
        let node = self.node(id);
        self.simulation.start(node, |env| {
            let (network, trace) = (self.network.clone(), self.trace.clone());
            let life = live(env.clone(), id, self.drives[&id].clone(), network, trace);
            within(&env, life)
        });
    }

    /// Kills a member's process and starts it again a while later.
    fn restart(&mut self, id: u64) {
        self.simulation.crash(self.node(id), Crash::Process);
        self.run_for(Duration::from_millis(200));
        self.start(id);
    }

    /// Runs until this is so.
    pub(super) fn wait(&mut self, what: &str, mut is_so: impl FnMut(&Network) -> bool) {
        let limit = Duration::from_secs(60);
        let came = self.simulation.run_until(limit, |_| is_so(&self.network));
        assert!(came, "{what}: not within a minute");
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        self.simulation.run_for(time);
    }

    /// The member who leads: of those who believe it, the one of the latest term.
    pub(super) fn leader(network: &Network) -> Option<u64> {
        let members = network.members();
        let leaders = members.iter().filter_map(|(id, member)| {
            let metrics = member.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.state == ServerState::Leader).then_some((metrics.current_term, *id))
        });
        leaders.max().map(|(_, id)| id)
    }

    /// Writes numbers: several clients share them, each writes one after the other.
    pub(super) fn write(&mut self, numbers: Range<u64>) {
        let left = Rc::new(RefCell::new(numbers));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let left = left.clone();
                let mut client = Client {
                    env: self.client.clone(),
                    network: self.network.clone(),
                    to: 0,
                };
                self.client.spawn(TaskGroup::Foreground, async move {
                    while let Some(number) = { left.borrow_mut().next() } {
                        client.write(number).await;
                    }
                })
            })
            .collect();
        self.wait("all is written", |_| clients.iter().all(Task::is_finished));
    }

    fn lists(&self) -> BTreeMap<u64, Vec<u64>> {
        let members = self.network.members();
        let lists = members.iter().map(|(id, m)| (*id, m.list.numbers()));
        lists.collect()
    }
}

impl Drop for Cluster {
    /// The shards hold each other through the network until they end.
    fn drop(&mut self) {
        for node in &self.nodes {
            self.simulation.crash(*node, Crash::Process);
        }
    }
}

fn address(id: u64) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, id as u8 + 1).into()
}

/// What one run was like.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Story {
    trace: Vec<Seen>,
    /// The simulator's own fingerprint of every turn of every task.
    hash: u64,
    numbers: Vec<u64>,
    /// How many snapshots were sent.
    snapshots: usize,
}

fn story(seed: u64) -> Story {
    let mut cluster = Cluster::new(seed);
    cluster.wait("a leader", |network| Cluster::leader(network).is_some());
    cluster.write(0..100);

    let old = Cluster::leader(&cluster.network).expect("somebody leads");
    cluster.network.cut_off(old);
    let Member { env, raft, .. } = cluster.network.members()[&old].clone();
    let lost = within(&env, async move { raft.client_write(LOST).await.is_ok() });
    let lost = env.spawn(TaskGroup::Foreground, lost);
    cluster.wait("another leader", |network| {
        Cluster::leader(network).is_some_and(|leader| leader != old)
    });
    cluster.write(100..150);
    let lists = cluster.lists();
    let longest = lists.values().max_by_key(|list| list.len()).expect("three");
    assert!(lists[&old].len() < longest.len(), "it was cut off");
    assert!(longest.starts_with(&lists[&old]), "but is not wrong");

    let next = Cluster::leader(&cluster.network).expect("somebody leads");
    cluster.restart(next);
    cluster.write(150..160);
    cluster.network.heal();
    cluster.write(160..170);
    cluster.wait("all agree", |network| {
        let members = network.members();
        let lists: BTreeSet<_> = members.values().map(|m| m.list.numbers()).collect();
        lists.len() == 1
    });
    cluster.wait("an answer", |_| lost.is_finished());
    let numbers = cluster.lists().remove(&old).expect("it has a list");
    // One that is asked for twice may be decided twice; what nobody heard is not.
    let decided = BTreeSet::from_iter(numbers.iter().copied());
    assert_eq!(decided, BTreeSet::from_iter(0..170));
    let trace = cluster.trace.borrow().clone();
    let members = cluster.network.members();
    Story {
        trace,
        hash: cluster.simulation.trace_hash(),
        numbers,
        snapshots: members.values().map(|m| m.list.installed()).sum(),
    }
}

#[test]
fn a_cluster_outlives_its_leader_and_a_seed_tells_the_same_story() {
    const SEEDS: u64 = 20;
    let told_twice = |seed| {
        let once = story(seed);
        assert!(once == story(seed), "seed {seed} told two stories");
        once
    };
    // Each story is told on one thread; only different ones go side by side.
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let stories: Vec<Story> = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..threads as u64)
            .map(|first| (first..SEEDS).step_by(threads))
            .map(|seeds| scope.spawn(move || seeds.map(told_twice).collect::<Vec<_>>()))
            .collect();
        let told = tellers.into_iter().map(|teller| teller.join());
        told.flat_map(|stories| stories.expect("see above"))
            .collect()
    });
    let different: BTreeSet<&Story> = stories.iter().collect();
    assert_eq!(different.len() as u64, SEEDS, "a seed told another's story");
    let snapshots: usize = stories.iter().map(|story| story.snapshots).sum();
    assert!(snapshots > 0, "who was away for long gets a snapshot");
}
