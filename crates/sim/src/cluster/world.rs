//! The nodes of a simulated cluster, and what happens to them.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use io::sim::{Crash, DiskFaults, LinkConfig, SimConfig, SimNode, Simulation};
use io::{DriverChoice, Env, Instant, TaskGroup};
use node::{Flaw, MetadataConfig, NodeConfig, NodeShards, StartError};
use storage::{CommitLogConfig, FailurePolicies};

use super::client::{Client, Failure};
use crate::Random;

/// The port of clients.
const CQL: u16 = 9042;
/// The port of other nodes.
const STORAGE: u16 = 7000;
/// Bytes of a drive.
const DRIVE: u64 = 1 << 30;
/// Bytes that a node may use.
const MEMORY: u64 = 192 << 20;
/// How many of the nodes are seeds.
const SEEDS: usize = 2;

/// A node and how it stands.
struct Member {
    node: SimNode,
    address: IpAddr,
    shards: u16,
    rack: String,
    /// The process that runs, if one does.
    running: Option<Rc<NodeShards>>,
    /// Can clients connect?
    ready: bool,
}

/// A cluster, the node that its clients are on, and the network.
pub struct World {
    /// Time, chance, drives and the network.
    pub simulation: Simulation,
    members: Vec<Member>,
    clients: SimNode,
    clients_env: Option<Env>,
    flaw: Flaw,
    metadata: MetadataConfig,
}

impl World {
    /// So many nodes that have never run, with drives of their own.
    pub fn new(seed: u64, nodes: usize, random: &mut Random) -> World {
        World::with_flaw((seed, Flaw::None), nodes, random)
    }

    /// One node of one shard.
    pub fn alone(seed: u64) -> World {
        World::of_shards((seed, Flaw::None), &[1])
    }

    /// The same as [`World::new`], of nodes with a mistake.
    pub fn with_flaw(seed: (u64, Flaw), nodes: usize, random: &mut Random) -> World {
        let shards: Vec<u16> = (0..nodes).map(|_| 1 + random.below(4) as u16).collect();
        World::of_shards(seed, &shards)
    }

    fn of_shards((seed, flaw): (u64, Flaw), shards: &[u16]) -> World {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let members = shards.iter().enumerate().map(|(number, &shards)| {
            let address = Ipv4Addr::new(10, 0, 0, number as u8 + 1).into();
            Member {
                node: simulation.add_node(address, shards, DRIVE),
                address,
                shards,
                rack: format!("rack{}", 1 + number % 3),
                running: None,
                ready: false,
            }
        });
        let members = members.collect();
        let clients = simulation.add_node(Ipv4Addr::new(10, 0, 9, 9).into(), 1, DRIVE);
        let mut world = World {
            simulation,
            members,
            clients,
            clients_env: None,
            flaw,
            metadata: MetadataConfig::default(),
        };
        world.start_clients();
        world
    }

    /// How nodes keep the log of metadata that are started from now on.
    pub fn set_metadata(&mut self, metadata: MetadataConfig) {
        self.metadata = metadata;
    }

    fn start_clients(&mut self) {
        let env = RefCell::new(None);
        self.simulation.start(self.clients, |own| {
            *env.borrow_mut() = Some(own.clone());
            async move {
                // Until the world ends.
                own.sleep(Duration::from_secs(1 << 30)).await;
            }
        });
        self.clients_env = env.into_inner();
    }

    /// Where tasks of clients run.
    ///
    /// # Panics
    /// Never: the node of the clients is started with the world.
    pub fn clients(&self) -> Env {
        self.clients_env
            .clone()
            .expect("clients run from the start")
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Where clients reach a node.
    pub fn cql(&self, number: usize) -> SocketAddr {
        SocketAddr::new(self.members[number].address, CQL)
    }

    fn config(&self, number: usize) -> NodeConfig {
        let member = &self.members[number];
        let seeds = self.members.iter().take(SEEDS);
        NodeConfig {
            data: PathBuf::from("/node"),
            sstables: PathBuf::from("/node/data"),
            commitlog_dir: PathBuf::from("/node/commitlog"),
            address: member.address,
            port: CQL,
            shard_aware_port: None,
            shards: member.shards,
            cpus: Vec::new(),
            driver: DriverChoice::Auto,
            memory: MEMORY,
            sstable_format: storage::sstable::Format::Big,
            commitlog: CommitLogConfig {
                segment_bytes: 1 << 20,
                ..CommitLogConfig::default()
            },
            commitlog_total_space: None,
            archives: false,
            failure_policies: FailurePolicies::default(),
            batch_limits: Default::default(),
            guardrails: None,
            tombstones: Default::default(),
            auto_snapshot: false,
            user_functions: None,
            materialized_views: true,
            sasi_indexes: true,
            dynamic_data_masking: false,
            incremental_backups: false,
            cluster_name: None,
            data_center: None,
            rack: Some(member.rack.clone()),
            storage_port: STORAGE,
            seeds: seeds
                .map(|seed| SocketAddr::new(seed.address, STORAGE))
                .collect(),
            encryption: None,
            num_tokens: 4,
            metadata: self.metadata,
        }
    }

    /// Starts a node that does not run.
    pub fn start(&mut self, number: usize) {
        let shards = Rc::new(NodeShards::with_flaw(self.config(number), self.flaw));
        let of_node = shards.clone();
        let node = self.members[number].node;
        self.simulation.start(node, |env| {
            let of_shard = of_node.clone();
            async move {
                let folder = PathBuf::from("/node");
                // Another shard makes it, too.
                let _ = env.create_dir_all(&folder).await;
                let _ = env.sync_dir(&PathBuf::from("/")).await;
                of_shard.run(env).await;
            }
        });
        self.members[number].running = Some(shards);
        self.members[number].ready = false;
    }

    /// Kills a node, or takes its power.
    pub fn crash(&mut self, number: usize, how: Crash) {
        self.simulation.crash(self.members[number].node, how);
        self.members[number].running = None;
        self.members[number].ready = false;
    }

    /// Does it run, be it ready or not?
    pub fn runs(&self, number: usize) -> bool {
        self.members[number].running.is_some()
    }

    /// Can clients connect to it?
    ///
    /// # Errors
    /// It does not start.
    pub fn is_ready(&mut self, number: usize) -> Result<bool, StartError> {
        let member = &mut self.members[number];
        if let Some(told) = member.running.as_ref().and_then(|shards| shards.ready()) {
            member.ready = told.map(|_| true)?;
        }
        Ok(member.ready)
    }

    /// Lets time pass until all nodes are ready, no longer than `limit`.
    ///
    /// # Errors
    /// One does not start, or it takes longer.
    pub fn wait_until_ready(&mut self, limit: Duration) -> Result<(), String> {
        let until = self.simulation.now() + limit;
        loop {
            let mut missing = Vec::new();
            for number in 0..self.len() {
                match self.is_ready(number) {
                    Ok(true) => {}
                    Ok(false) => missing.push(number),
                    Err(error) => return Err(format!("node {number} does not start: {error}")),
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            if self.simulation.now() >= until {
                return Err(format!("nodes {missing:?} are not ready after {limit:?}"));
            }
            self.simulation.run_for(Duration::from_millis(50));
        }
    }

    /// What a statement gives at a node, when all is well.
    ///
    /// # Errors
    /// It gives none; in words.
    pub fn ask(
        &mut self,
        number: usize,
        text: &str,
        consistency: Consistency,
    ) -> Result<Vec<Vec<Option<Bytes>>>, String> {
        let (env, address) = (self.clients(), self.cql(number));
        let answer: Rc<RefCell<Option<Result<_, Failure>>>> = Rc::default();
        let (told, text) = (answer.clone(), text.to_owned());
        let of_task = env.clone();
        let asking = async move {
            let result = match Client::connect(&of_task, address).await {
                Ok(mut client) => client.query(&text, consistency).await,
                Err(failure) => Err(failure),
            };
            *told.borrow_mut() = Some(result);
        };
        env.spawn(TaskGroup::Foreground, asking).detach();
        let limit = Duration::from_secs(60);
        let simulation = &mut self.simulation;
        simulation.run_until(limit, |_| answer.borrow().is_some());
        match answer.take() {
            Some(Ok(answer)) => Ok(answer.rows),
            Some(Err(failure)) => Err(format!("node {number}: {failure:?}")),
            None => Err(format!("node {number} gives no answer")),
        }
    }

    /// The same, until it gives something or it is `limit`: a connection may not be known to be broken yet.
    ///
    /// # Errors
    /// It gives nothing; in words.
    pub fn ask_until(
        &mut self,
        limit: Instant,
        number: usize,
        text: &str,
        consistency: Consistency,
    ) -> Result<Vec<Vec<Option<Bytes>>>, String> {
        loop {
            let answer = self.ask(number, text, consistency);
            if answer.is_ok() || self.simulation.now() >= limit {
                return answer;
            }
        }
    }

    /// From now on nothing that one of these says reaches one of those.
    pub fn cut(&mut self, from: &[usize], to: &[usize]) {
        for a in from {
            for b in to {
                if a != b {
                    let (a, b) = (self.members[*a].node, self.members[*b].node);
                    self.simulation.block(a, b);
                }
            }
        }
    }

    /// From now on the network is slow, loses packets, and resets a connection now and then.
    pub fn spoil_links(&mut self) {
        self.simulation.set_links(LinkConfig {
            min_delay: Duration::from_micros(200),
            max_delay: Duration::from_millis(40),
            loss: 0.02,
            reset: 0.0005,
        });
    }

    /// From now on many operations of a node's drive take long.
    pub fn slow_drive(&mut self, number: usize) {
        let faults = DiskFaults {
            slow: 0.2,
            ..DiskFaults::NONE
        };
        let node = self.members[number].node;
        self.simulation.set_disk_faults(node, faults);
    }

    /// From now on a node's clock is so much ahead, or behind, in microseconds.
    pub fn set_clock(&mut self, number: usize, ahead: i64) {
        let node = self.members[number].node;
        self.simulation.set_clock(node, ahead);
    }

    /// A node that runs keeps hints from now on, or none, until it starts again.
    pub fn keep_hints(&self, number: usize, kept: bool) {
        if let Some(shards) = &self.members[number].running {
            shards.enable_hints(kept);
        }
    }

    /// All ways are open again and as good as they may be, and so are the drives. Clocks stay wrong.
    pub fn heal(&mut self) {
        self.simulation.heal();
        self.simulation.set_links(LinkConfig::HEALTHY);
        for member in &self.members {
            self.simulation
                .set_disk_faults(member.node, DiskFaults::NONE);
        }
    }
}

impl Drop for World {
    /// Tasks hold what holds them.
    fn drop(&mut self) {
        for number in 0..self.len() {
            if self.runs(number) {
                self.crash(number, Crash::Process);
            }
        }
        self.clients_env = None;
        self.simulation.crash(self.clients, Crash::Process);
    }
}
