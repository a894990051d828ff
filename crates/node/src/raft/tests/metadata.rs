//! Three members with logs on their drives, whose processes and power end at any time and whose
//! drives fail: nothing that was acknowledged is lost, and all have the same metadata.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io::Result as IoResult;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{ClusterIdentity, ClusterMetadata, EntryRefused, MetadataEntry, SchemaEntry};
use io::sim::{Crash, DiskFaults, SimConfig, SimNode, Simulation};
use io::{Env, Random, Task, TaskGroup};
use openraft::async_runtime::WatchReceiver;
use openraft::raft::SnapshotResponse;
use openraft::{Config, Raft, SnapshotPolicy};
use uuid::Uuid;

use super::super::snapshot::{decode, encode};
use super::super::types::{Snapshot, Vote};
use super::super::{Applied, Machine, Member as Peer, Metadata, Subscriber, open, receive, within};
use super::network::{Dialer, Member, Network, Taker};

/// The members.
pub(super) const MEMBERS: [u64; 3] = [0, 1, 2];
/// Who writes; it is no member.
const CLIENT: u64 = 3;
/// How many write at once.
const CLIENTS: u64 = 2;
/// How long a client waits for an answer.
const ANSWER: Duration = Duration::from_millis(500);

/// The tables of a node's schema: numbers. Gone with its process, so that a start has to bring back
/// all of them.
#[derive(Default)]
pub(super) struct Tables {
    numbers: RefCell<Vec<u64>>,
    /// Those that were decided and are not among them yet.
    decided: RefCell<Vec<u64>>,
    /// How many snapshots came from others.
    received: Rc<Cell<u64>>,
}

impl Tables {
    /// How many snapshots came from others.
    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }
}

impl Subscriber for Tables {
    async fn applied(&self, change: &Applied<'_>) -> IoResult<()> {
        // A change that was proposed again is made once.
        let is_new = change.metadata.schema_epoch() == change.metadata.epoch();
        if let (MetadataEntry::Schema(schema), Ok(()), true) = (change.entry, change.result, is_new)
        {
            let number = schema.event.first_chunk().expect("a number");
            self.decided.borrow_mut().push(u64::from_le_bytes(*number));
        }
        Ok(())
    }

    async fn settle(&self) -> IoResult<()> {
        let decided = self.decided.take();
        self.numbers.borrow_mut().extend(decided);
        Ok(())
    }

    async fn schema_snapshot(&self) -> IoResult<Bytes> {
        assert!(
            self.decided.borrow().is_empty(),
            "between two of what settles"
        );
        let numbers = self.numbers.borrow();
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        Ok(bytes.collect())
    }

    async fn install_schema(&self, _metadata: &Rc<ClusterMetadata>, schema: Bytes) -> IoResult<()> {
        let (numbers, _) = schema.as_chunks::<8>();
        let numbers = numbers.iter().copied().map(u64::from_le_bytes);
        let before = self.numbers.replace(numbers.collect());
        // A start finds nothing here: this one came from a leader.
        let received = u64::from(!before.is_empty());
        self.received.set(self.received.get() + received);
        Ok(())
    }
}

impl Taker<Metadata> for Machine<Tables> {
    /// As bytes, as it would come from another node.
    async fn take(
        raft: Raft<Metadata, Machine<Tables>>,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<SnapshotResponse<Metadata>, String> {
        let snapshot = decode(&encode(&snapshot)).expect("a member made it");
        let taken = receive(&raft, vote, snapshot).await;
        taken.map_err(|error| error.to_string())
    }
}

type Wire = Network<Metadata, Machine<Tables>>;

pub(super) fn config() -> Arc<Config> {
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(15),
        max_in_snapshot_log_to_keep: 3,
        ..super::super::config()
    };
    Arc::new(config.validate().expect("it is valid"))
}

pub(super) fn address(id: u64) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, id as u8 + 1).into()
}

pub(super) fn members() -> BTreeMap<u64, Peer> {
    let peer = |id| Peer {
        address: SocketAddr::new(address(id), 7000),
    };
    MEMBERS.map(|id| (id, peer(id))).into()
}

/// What happened to members.
#[derive(Clone, Default)]
struct Counts {
    /// How often one began again because its drive failed.
    failures: Rc<Cell<u64>>,
    /// How many snapshots came from others.
    received: Rc<Cell<u64>>,
}

/// A life of a member: opens its log, takes part until Raft stops because the drive failed, and
/// begins again.
async fn live(env: Env, id: u64, network: Wire, counts: Counts) {
    let folder = Path::new("/data");
    loop {
        // What there is no sense in going on without.
        let ready = async {
            env.create_dir_all(folder).await?;
            env.sync_dir(Path::new("/")).await
        };
        if ready.await.is_ok() {
            let tables = Tables {
                received: counts.received.clone(),
                ..Tables::default()
            };
            match open(&env, folder, tables).await {
                Ok((log, machine)) => {
                    take_part(&env, id, &network, (log.clone(), machine.clone())).await;
                    log.close().await;
                    machine.close().await;
                }
                Err(error) => assert!(error.to_string().starts_with("cannot "), "{error}"),
            }
        }
        counts.failures.set(counts.failures.get() + 1);
        env.sleep(Duration::from_millis(20)).await;
    }
}

/// Until Raft stops.
async fn take_part(
    env: &Env,
    id: u64,
    network: &Wire,
    (log, machine): (super::super::Log, Machine<Tables>),
) {
    let dialer = Dialer {
        network: network.clone(),
        env: env.clone(),
        id,
    };
    let raft = Raft::<Metadata, _>::new(id, config(), dialer, log, machine.clone()).await;
    let Ok(raft) = raft else {
        return;
    };
    let member = Member {
        env: env.clone(),
        raft: raft.clone(),
        list: machine,
    };
    network.join(id, member);
    if id == MEMBERS[0] && !raft.is_initialized().await.unwrap_or(true) {
        let _ = raft.initialize(members()).await;
    }
    let mut metrics = raft.metrics();
    while metrics.borrow_watched().running_state.is_ok() {
        if metrics.changed().await.is_err() {
            break;
        }
    }
    let _ = raft.shutdown().await;
}

/// Somebody who changes the schema.
struct Client {
    env: Env,
    network: Wire,
    to: u64,
}

impl Client {
    /// Has the cluster decide on an entry, made anew for each try from what a member knows.
    async fn write(&mut self, make: impl Fn(&ClusterMetadata) -> MetadataEntry) {
        loop {
            let known = {
                let members = self.network.members();
                members.get(&self.to).map(|member| member.list.metadata())
            };
            let entry = make(&known.unwrap_or_default());
            let ask = |raft: Raft<Metadata, Machine<Tables>>| async move {
                raft.client_write(entry).await
            };
            let asking = self.network.call(&self.env, (CLIENT, self.to), ask);
            match self.env.timeout(ANSWER, asking).await {
                Ok(Some(Ok(answer))) => match answer.data.result {
                    // One that nobody answered may have been decided.
                    Ok(()) | Err(EntryRefused::Exists(_)) => return,
                    Err(EntryRefused::SchemaChanged { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                _ => self.to = (self.to + 1) % MEMBERS.len() as u64,
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(super) fn create(_: &ClusterMetadata) -> MetadataEntry {
    MetadataEntry::Create(ClusterIdentity {
        id: Uuid::from_u128(1),
        name: "Test".to_owned(),
    })
}

/// Three nodes with a member each, and one with clients.
struct Cluster {
    simulation: Simulation,
    random: Random,
    nodes: Vec<SimNode>,
    network: Wire,
    client: Env,
    counts: Counts,
    /// Numbers whose writers were told that they are decided.
    acknowledged: Rc<RefCell<BTreeSet<u64>>>,
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let ids = MEMBERS.into_iter().chain([CLIENT]);
        let nodes: Vec<_> = ids
            .map(|id| simulation.add_node(address(id), 1, 64 << 20))
            .collect();
        let client = RefCell::new(None);
        simulation.start(nodes[CLIENT as usize], |env| {
            client.replace(Some(env));
            pending()
        });
        let mut cluster = Cluster {
            simulation,
            random: Random::new(seed ^ 0x5eed),
            nodes,
            network: Wire::default(),
            client: client.take().expect("it was started"),
            counts: Counts::default(),
            acknowledged: Rc::default(),
        };
        for id in MEMBERS {
            cluster.start(id);
        }
        cluster
    }

    fn start(&mut self, id: u64) {
        self.simulation.start(self.nodes[id as usize], |env| {
            let life = live(env.clone(), id, self.network.clone(), self.counts.clone());
            within(&env, life)
        });
    }

    /// Ends some members, all of them perhaps, and starts them again later.
    fn crash(&mut self, members: &[u64]) {
        for id in members {
            let how = match self.random.chance(0.7) {
                true => Crash::Power,
                false => Crash::Process,
            };
            self.simulation.crash(self.nodes[*id as usize], how);
        }
        let pause = Duration::from_millis(self.random.below(400));
        self.simulation.run_for(pause);
        for id in members {
            self.start(*id);
        }
    }

    /// All drives fail sometimes, or never.
    fn set_faults(&mut self, share: f64) {
        let faults = DiskFaults {
            read_error: share,
            write_error: share,
            sync_error: share,
            slow: share,
            ..DiskFaults::NONE
        };
        for id in MEMBERS {
            let node = self.nodes[id as usize];
            self.simulation.set_disk_faults(node, faults);
        }
    }

    /// Starts clients who share these numbers.
    fn write(&self, numbers: Range<u64>) -> Vec<Task<()>> {
        let left = Rc::new(RefCell::new(numbers));
        let clients = (0..CLIENTS).map(|to| {
            let (left, acknowledged) = (left.clone(), self.acknowledged.clone());
            let mut client = Client {
                env: self.client.clone(),
                network: self.network.clone(),
                to,
            };
            self.client.spawn(TaskGroup::Foreground, async move {
                client.write(create).await;
                while let Some(number) = { left.borrow_mut().next() } {
                    let schema = |known: &ClusterMetadata| {
                        MetadataEntry::Schema(SchemaEntry {
                            id: Uuid::from_u128(number.into()),
                            base: known.schema_epoch(),
                            mutations: vec![vec![number as u8; 100]],
                            timestamp: Some(5),
                            event: number.to_le_bytes().to_vec(),
                            keyspaces: 1,
                        })
                    };
                    client.write(schema).await;
                    acknowledged.borrow_mut().insert(number);
                }
            })
        });
        clients.collect()
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&Wire) -> bool) {
        let limit = Duration::from_secs(120);
        let came = self.simulation.run_until(limit, |_| is_so(&self.network));
        assert!(came, "{what}: not within two minutes");
    }

    /// Waits until all members have the same, and looks at it.
    fn agree(&mut self) {
        let acknowledged = self.acknowledged.borrow().clone();
        let has_all = |tables: &Tables| {
            let numbers = BTreeSet::from_iter(tables.numbers.borrow().iter().copied());
            numbers.is_superset(&acknowledged)
        };
        self.wait("all agree", |network| {
            let members = network.members();
            let metadata: Vec<_> = members.values().map(|m| m.list.metadata()).collect();
            let same = metadata.iter().all(|other| *other == metadata[0]);
            same && members.values().all(|m| has_all(m.list.subscriber()))
        });
        let members = self.network.members();
        let tables = members.values().map(|m| m.list.subscriber());
        let numbers: BTreeSet<_> = tables
            .map(|tables| tables.numbers.borrow().clone())
            .collect();
        assert_eq!(numbers.len(), 1, "the schemas differ");
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

/// What happened in a story.
struct Story {
    failures: u64,
    received: u64,
    hash: u64,
}

fn story(seed: u64) -> Story {
    let mut cluster = Cluster::new(seed);
    let clients = cluster.write(0..60);
    // The first membership is not written yet: only one member is asked to.
    cluster.wait("a leader", |network| {
        let members = network.members();
        let mut raft = members.values().map(|member| member.raft.metrics());
        raft.any(|metrics| metrics.borrow_watched().current_leader.is_some())
    });
    cluster.set_faults(if seed.is_multiple_of(2) { 0.002 } else { 0.0 });
    while !clients.iter().all(Task::is_finished) {
        let all = cluster.random.chance(0.2);
        let one = cluster.random.below(MEMBERS.len() as u64);
        let members = MEMBERS.into_iter();
        let members: Vec<u64> = members.filter(|id| all || *id == one).collect();
        cluster.crash(&members);
        let calm = Duration::from_millis(cluster.random.below(3_000));
        cluster.simulation.run_for(calm);
    }
    cluster.set_faults(0.0);
    cluster.agree();
    // Nothing of it is in memory alone.
    cluster.crash(&MEMBERS);
    cluster.agree();
    Story {
        failures: cluster.counts.failures.get(),
        received: cluster.counts.received.get(),
        hash: cluster.simulation.trace_hash(),
    }
}

#[test]
fn no_member_loses_what_was_acknowledged() {
    let (mut failures, mut received) = (0, 0);
    for seed in 0..20 {
        let story = story(seed);
        failures += story.failures;
        received += story.received;
    }
    println!("{failures} times a drive ended Raft, {received} snapshots were sent");
    assert!(failures > 0 && received > 0);
}

#[test]
fn a_seed_tells_the_same_story() {
    assert_eq!(story(4).hash, story(4).hash);
}
