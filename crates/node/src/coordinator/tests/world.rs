//! Nodes whose membership is fixed, in the simulator: each with its shards, their stores, and the
//! connections between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use cluster::{
    Change, ClusterIdentity, ClusterMetadata, Consistency, MetadataEntry, Node, NodeId, Phase,
    Place, Transformation,
};
use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{DriverChoice, Env, MeshSeat, TaskGroup};
use model::{
    Column, ColumnId, ColumnKind, CqlType, Index, IndexKind, Keyspace, Mutation, Order,
    PartitionBound, PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, Schema, Sharder,
    Table, TableId, TableOptions, Token,
};
use storage::{CommitLogConfig, FailurePolicies, SharedFiles, Store, StoreConfig};
use uuid::Uuid;
use wire::WriteType;
use wire::internode::{Identity, MessageHead, MessageKind, VERSIONS, Verb};

use super::content::{command, decorated, rows};
use crate::batch_log;
use crate::config::{MetadataConfig, NodeConfig};
use crate::coordinator;
use crate::error::RequestError;
use crate::flaw::Flaw;
use crate::hints;
use crate::internode::{Reception, greet, serve};
use crate::message::{Message, ShardReply, ShardRequest};
use crate::metadata::{Membership, Metadata};
use crate::paxos;
use crate::remote;
use crate::shard::{Shard, SharedState};
use crate::system::{LocalNode, system_keyspaces};
use crate::truncations;

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// More than any request takes.
const REQUEST: Duration = Duration::from_secs(60);
const DATA_CENTER: &str = "dc1";
const FAR: &str = "dc2";
pub(super) const KEYSPACE: &str = "ks";

/// What of the keyspace `system` is needed; compiled once for all nodes.
static SYSTEM: LazyLock<Keyspace> = LazyLock::new(|| {
    let mut system = Keyspace::clone(&system_keyspaces().keyspaces["system"]);
    let needed = |name: &str| matches!(name, "batches" | "local" | "paxos");
    system.tables.retain(|name, _| needed(name));
    system
});

/// How a world is made.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) shards: u16,
    /// How many replicas the keyspace has.
    pub(super) factor: usize,
    pub(super) options: TableOptions,
    /// The columns of the table that have an index.
    pub(super) indexed: &'static [&'static str],
    /// Tokens of each node.
    pub(super) tokens: usize,
    /// So many of the nodes, the last ones, are in another data centre, which has as many replicas.
    pub(super) far: usize,
    /// Is the last node about to join, and gets writes?
    pub(super) joining: bool,
    /// Racks that the nodes are in, in turn.
    pub(super) racks: usize,
    /// Are hints written down and delivered?
    pub(super) hints: bool,
    /// The version of the protocol that nodes are said to speak.
    pub(super) protocol: u16,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            nodes: 3,
            shards: 1,
            factor: 3,
            options: TableOptions::default(),
            indexed: &[],
            tokens: 4,
            far: 0,
            joining: false,
            racks: 1,
            hints: false,
            protocol: *VERSIONS.end(),
        }
    }
}

impl Plan {
    fn table(&self) -> Table {
        let mut table = table(self.options.clone());
        let index = |column: &&'static str| Index {
            name: format!("t_{column}_idx").into(),
            table: "t".into(),
            column: Some((*column).into()),
            kind: Some(IndexKind::Composites),
            options: BTreeMap::from([("target".to_owned(), (*column).to_owned())]),
        };
        table.indexes = self.indexed.iter().map(index).collect();
        table
    }

    fn place(&self, node: usize) -> Place {
        let datacenter = match node < self.nodes - self.far {
            true => DATA_CENTER,
            false => FAR,
        };
        Place {
            datacenter: datacenter.to_owned(),
            rack: format!("rack{}", node % self.racks + 1),
        }
    }
}

type Shards = Rc<RefCell<BTreeMap<(usize, u16), Rc<Shard>>>>;

pub(super) struct World {
    pub(super) simulation: Simulation,
    pub(super) nodes: Vec<SimNode>,
    pub(super) plan: Plan,
    shards: Shards,
}

fn address(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, node as u8 + 1).into()
}

fn host_id(node: usize) -> Uuid {
    Uuid::from_u128(node as u128 + 1)
}

/// Who the nodes are.
fn cluster(plan: &Plan) -> Arc<ClusterMetadata> {
    let identity = ClusterIdentity {
        id: Uuid::from_u128(77),
        name: "Test".to_owned(),
    };
    let mut entries = vec![MetadataEntry::Create(identity)];
    let spread = u64::MAX / (plan.nodes * plan.tokens) as u64;
    for number in 0..plan.nodes {
        let node = Node {
            host_id: host_id(number),
            address: SocketAddr::new(address(number), 7000),
            native_address: SocketAddr::new(address(number), 9042),
            place: plan.place(number),
            shards: plan.shards,
            release: "5.0.6".to_owned(),
            protocol: plan.protocol,
        };
        entries.push(MetadataEntry::Topology(Transformation::Register(node)));
        let token = |at: usize| {
            let place = spread * (at * plan.nodes + number) as u64;
            Token(i64::MIN.wrapping_add_unsigned(place + 1))
        };
        let tokens: BTreeSet<Token> = (0..plan.tokens).map(token).collect();
        let id = NodeId(number as u32);
        if plan.joining && number == plan.nodes - 1 {
            let join = BTreeMap::from([(id, Change::Join(tokens))]);
            let from = Phase::Prepared;
            for change in [
                Transformation::Prepare(join),
                Transformation::Advance { from },
            ] {
                entries.push(MetadataEntry::Topology(change));
            }
            continue;
        }
        let join = Transformation::JoinEmpty(id, tokens);
        entries.push(MetadataEntry::Topology(join));
    }
    let mut cluster = ClusterMetadata::default();
    for (entry, epoch) in entries.iter().zip(1..) {
        let (next, taken) = cluster.apply(epoch, entry);
        assert_eq!(taken, Ok(()));
        cluster = next;
    }
    Arc::new(cluster)
}

fn column(id: u32, name: &str, kind: ColumnKind) -> Column {
    Column {
        id: ColumnId(id),
        name: name.into(),
        ty: CqlType::Int,
        kind,
        position: 0,
        order: Order::Ascending,
    }
}

/// A table with a clustering column `c`, regular columns `v` (2) and `w` (3), and a static one `s` (4),
/// all of type `int`.
pub(super) fn table(options: TableOptions) -> Table {
    let columns = vec![
        column(0, "k", ColumnKind::PartitionKey),
        column(1, "c", ColumnKind::Clustering),
        column(2, "v", ColumnKind::Regular),
        column(3, "w", ColumnKind::Regular),
        column(4, "s", ColumnKind::Static),
    ];
    Table::new(TableId::from_u128(5), KEYSPACE, "t", columns, options)
}

pub(super) fn schema(plan: &Plan, tables: Vec<Table>) -> Schema {
    let factor = &*plan.factor.to_string();
    let replication: &[(&str, &str)] = match plan.far {
        0 => &[
            ("class", "org.apache.cassandra.locator.SimpleStrategy"),
            ("replication_factor", factor),
        ],
        _ => &[
            (
                "class",
                "org.apache.cassandra.locator.NetworkTopologyStrategy",
            ),
            (DATA_CENTER, factor),
            (FAR, factor),
        ],
    };
    let replication = replication.iter();
    let keyspace = Keyspace {
        name: KEYSPACE.into(),
        replication: replication
            .map(|(option, value)| ((*option).to_owned(), (*value).to_owned()))
            .collect(),
        durable_writes: true,
        tables: tables
            .into_iter()
            .map(|table| (table.name.clone(), Arc::new(table)))
            .collect(),
        types: BTreeMap::new(),
        functions: Default::default(),
        is_virtual: false,
        unserved: model::Unserved::default(),
    };
    Schema {
        keyspaces: [keyspace, SYSTEM.clone()]
            .map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace)))
            .into(),
        version: Uuid::from_u128(1),
    }
}

fn config(shards: u16) -> NodeConfig {
    NodeConfig {
        data: PathBuf::from("/data"),
        sstables: PathBuf::from("/data/data"),
        commitlog_dir: PathBuf::from("/data/commitlog"),
        address: address(0),
        port: 9042,
        shard_aware_port: None,
        shards,
        cpus: Vec::new(),
        driver: DriverChoice::default(),
        memory: 256 << 20,
        sstable_format: storage::sstable::Format::Big,
        commitlog: CommitLogConfig::default(),
        commitlog_total_space: None,
        archives: false,
        failure_policies: FailurePolicies::default(),
        batch_limits: cql::BatchLimits::default(),
        guardrails: None,
        tombstones: crate::config::TombstoneLimits::default(),
        auto_snapshot: false,
        user_functions: None,
        materialized_views: true,
        sasi_indexes: true,
        dynamic_data_masking: false,
        incremental_backups: false,
        cluster_name: None,
        data_center: None,
        rack: None,
        storage_port: 7000,
        seeds: Vec::new(),
        encryption: None,
        num_tokens: 4,
        metadata: MetadataConfig::default(),
    }
}

fn local(plan: &Plan, node: usize) -> LocalNode {
    let Place { datacenter, rack } = plan.place(node);
    LocalNode {
        host_id: host_id(node),
        cluster_name: "Test".to_owned(),
        data_center: datacenter,
        rack,
        rpc_address: address(node),
        rpc_port: 9042,
        listen_address: address(node),
        listen_port: 7000,
        tokens: Vec::new(),
        gossip_generation: 0,
    }
}

/// A shard of a node, until it is killed.
async fn live(
    env: Env,
    number: usize,
    plan: Plan,
    (seat, state): (MeshSeat<Message>, Arc<SharedState>),
    shards: Shards,
) {
    let schema = Arc::new(schema(&plan, vec![plan.table()]));
    let store = StoreConfig {
        sstables: PathBuf::from("/data/data"),
        commitlog_dir: PathBuf::from("/data/commitlog"),
        sharder: Sharder::new(plan.shards),
        memory: 64 << 20,
        sstable_format: storage::sstable::Format::Big,
        commitlog: CommitLogConfig::default(),
        incremental_backups: false,
        most_tombstones: u64::MAX,
        index_sstables: storage::IndexSSTables::UNLIMITED,
        partition_limits: storage::sstable::PartitionLimits::default(),
        shared: state.files.clone(),
    };
    let store = Store::open(env.clone(), store, &schema).await;
    let store = store.expect("the drive is fine");
    store.replay().await.expect("the drive is fine");
    let membership = Membership {
        own: NodeId(number as u32),
        cluster: cluster(&plan),
    };
    let metadata = Metadata::new(schema, Some(membership));
    let mesh = seat.join(&env);
    let shard = Rc::new(Shard::new(env.clone(), state, mesh, store, metadata));
    shard.set_local(Arc::new(local(&plan, number)));
    let others = (0..plan.nodes as u32).map(NodeId);
    let others = others.filter(|node| *node != NodeId(number as u32));
    shard
        .peers
        .set_up(Arc::new(others.collect()), shard.env.now());
    env.spawn(TaskGroup::Foreground, receive(shard.clone()))
        .detach();
    let loaded = truncations::load(&shard).await;
    loaded.expect("the drive is fine");
    if plan.hints {
        let hinting = hints::run(shard.clone());
        env.spawn(TaskGroup::Maintenance, hinting).detach();
    }
    let found = batch_log::find(&shard).await;
    found.expect("the drive is fine");
    let begun = batch_log::begin(&shard).await;
    begun.expect("the drive is fine");
    let key = (number, shard.index());
    shards.borrow_mut().insert(key, shard.clone());
    if shard.index() == 0 {
        listen(shard, shards, number).await;
    }
    std::future::pending().await
}

/// Does what other shards of the node ask.
async fn receive(shard: Rc<Shard>) {
    loop {
        let (from, message) = shard.mesh.recv().await;
        let (id, request) = match message {
            Message::Request { id, request } => (id, request),
            Message::Reply { id, reply } => {
                shard.take_reply(id, reply);
                continue;
            }
            Message::Adopt(_) | Message::AdoptNode(..) | Message::Answer { .. } => {
                unreachable!("there are no clients")
            }
        };
        let answering = {
            let shard = shard.clone();
            async move {
                let reply = match request {
                    ShardRequest::Apply(mutation) => {
                        ShardReply::Applied(shard.store.apply(mutation).await)
                    }
                    ShardRequest::ApplyLate(mutation, written_at) => {
                        let applied = crate::views::apply(&shard, mutation, Some(written_at));
                        ShardReply::Applied(applied.await)
                    }
                    ShardRequest::KeepBatch(batch) => {
                        ShardReply::Applied(batch_log::keep_here(&shard, batch).await)
                    }
                    ShardRequest::ForgetBatch(id) => {
                        ShardReply::Applied(batch_log::forget_here(&shard, id).await)
                    }
                    ShardRequest::Read(command) => {
                        ShardReply::Read(shard.store.read(&command).await)
                    }
                    ShardRequest::ReadVersions(command) => {
                        ShardReply::Versions(shard.store.read_versions(&command).await)
                    }
                    ShardRequest::Paxos(ask) => {
                        ShardReply::Paxos(Box::new(paxos::answer(&shard, *ask).await))
                    }
                    _ => unreachable!("nothing else is asked"),
                };
                shard.mesh.send(from, Message::Reply { id, reply }).await;
            }
        };
        shard.env.spawn(TaskGroup::Foreground, answering).detach();
    }
}

/// Answers other nodes. (The shard of a connection answers on its own, wherever it was accepted.)
async fn listen(shard: Rc<Shard>, shards: Shards, number: usize) {
    let env = shard.env.clone();
    let port = SocketAddr::new(address(number), 7000);
    let listener = env.listen(port, 64).await.expect("the port is free");
    let own = Identity {
        cluster: "Test".to_owned(),
        cluster_id: Some(Uuid::from_u128(77)),
        host_id: host_id(number),
        shards: shard.env.shards(),
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (env_of_task, own, shards) = (env.clone(), own.clone(), shards.clone());
        let talking = async move {
            let greeting = greet(&env_of_task, stream, Reception::plain(&own));
            let Ok((stream, hello)) = greeting.await else {
                return;
            };
            // All shards of a node run on one thread here.
            let found = shards.borrow().get(&(number, hello.shard)).cloned();
            let Some(shard) = found else { return };
            let metrics = shard.metrics.clone();
            let handle = move |head: MessageHead, body: Bytes| {
                let shard = shard.clone();
                async move {
                    match head.kind {
                        MessageKind::Request(Verb::Mutation) => {
                            remote::apply(&shard, head, body, None).await
                        }
                        MessageKind::Request(Verb::Read) => {
                            remote::read(&shard, head, body, None).await
                        }
                        MessageKind::Request(Verb::Paxos) => {
                            paxos::answer_for(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::Hint) => {
                            remote::apply_late(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::BatchStore) => {
                            remote::keep_batch(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::BatchRemove) => {
                            remote::forget_batch(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::Relay) => {
                            coordinator::relay(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::RelayedMutation) => {
                            coordinator::apply_relayed(&shard, head, body).await
                        }
                        MessageKind::Request(Verb::Relayed) => coordinator::relayed(&shard, body),
                        _ => Err(Vec::new()),
                    }
                }
            };
            serve(&env_of_task, &stream, &hello, &metrics, handle).await;
        };
        env.spawn(TaskGroup::Foreground, talking).detach();
    }
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> World {
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let nodes: Vec<SimNode> = (0..plan.nodes)
            .map(|number| simulation.add_node(address(number), plan.shards, 1 << 30))
            .collect();
        let mut world = World {
            simulation,
            nodes,
            plan,
            shards: Shards::default(),
        };
        for number in 0..world.nodes.len() {
            world.start(number);
        }
        world
    }

    /// Starts a node, and waits until it answers.
    pub(super) fn start(&mut self, number: usize) {
        let count = self.plan.shards;
        let seats = io::mesh(count, 64).into_iter().map(Some);
        let seats: RefCell<Vec<Option<MeshSeat<Message>>>> = RefCell::new(seats.collect());
        let state = Arc::new(SharedState {
            metrics: (0..count).map(|_| Arc::default()).collect(),
            files: Arc::new(SharedFiles::new(FailurePolicies::default(), false)),
            config: config(count),
            system: Arc::default(),
            flaw: Flaw::None,
        });
        let (plan, shards) = (self.plan.clone(), self.shards.clone());
        self.simulation.start(self.nodes[number], |env| {
            let seat = seats.borrow_mut()[usize::from(env.shard().0)].take();
            let seat = seat.expect("each shard starts once");
            live(
                env,
                number,
                plan.clone(),
                (seat, state.clone()),
                shards.clone(),
            )
        });
        let shards = self.shards.clone();
        let started = self.simulation.run_until(REQUEST, |_| {
            let shards = shards.borrow();
            (0..count).all(|shard| shards.contains_key(&(number, shard)))
        });
        assert!(started, "node {number} does not start");
        // It listens a moment later.
        self.simulation.run_for(Duration::from_millis(1));
    }

    /// Kills a node.
    pub(super) fn crash(&mut self, number: usize) {
        self.shards
            .borrow_mut()
            .retain(|(node, _), _| *node != number);
        self.simulation.crash(self.nodes[number], Crash::Process);
    }

    /// What a node believes of others.
    pub(super) fn believe_up(&self, node: usize, up: &[usize]) {
        let up: BTreeSet<NodeId> = up.iter().map(|other| NodeId(*other as u32)).collect();
        for ((of, _), shard) in &*self.shards.borrow() {
            if *of == node {
                shard.peers.set_up(Arc::new(up.clone()), shard.env.now());
            }
        }
    }

    /// What all nodes believe of one.
    pub(super) fn all_believe(&self, about: usize, is_up: bool) {
        for node in 0..self.nodes.len() {
            let up = (0..self.nodes.len()).filter(|n| *n != node && (is_up || *n != about));
            self.believe_up(node, &up.collect::<Vec<_>>());
        }
    }

    /// All nodes that run believe that one is down.
    pub(super) fn all_believe_but(&self, down: usize) {
        for node in (0..self.nodes.len()).filter(|node| *node != down) {
            let up = (0..self.nodes.len()).filter(|n| *n != node && *n != down);
            self.believe_up(node, &up.collect::<Vec<_>>());
        }
    }

    /// Nothing gets from or to a node any more.
    pub(super) fn cut_off(&mut self, number: usize) {
        let away = self.nodes[number];
        for node in self.nodes.clone() {
            if node != away {
                self.simulation.block(node, away);
                self.simulation.block(away, node);
            }
        }
    }

    /// A shard of a node.
    pub(super) fn shard(&self, node: usize) -> Rc<Shard> {
        self.shards.borrow()[&(node, 0)].clone()
    }

    /// The shard of a node that owns a key.
    pub(super) fn owner(&self, node: usize, key: i32) -> Rc<Shard> {
        let owner = self.shard(node).owner(decorated(key).token());
        self.shards.borrow()[&(node, owner)].clone()
    }

    /// The shards of a node.
    pub(super) fn shards_of(&self, node: usize) -> Vec<Rc<Shard>> {
        let shards = self.shards.borrow();
        let of_node = shards.range((node, 0)..=(node, u16::MAX));
        of_node.map(|(_, shard)| shard.clone()).collect()
    }

    /// Does something on a shard, to its end.
    pub(super) fn run<F, T>(&mut self, shard: &Rc<Shard>, what: impl FnOnce(Rc<Shard>) -> F) -> T
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let result = Rc::new(RefCell::new(None));
        let (running, told) = (what(shard.clone()), result.clone());
        let running = async move {
            let value = running.await;
            *told.borrow_mut() = Some(value);
        };
        shard.env.spawn(TaskGroup::Foreground, running).detach();
        let done = result.clone();
        let ended = self
            .simulation
            .run_until(REQUEST, |_| done.borrow().is_some());
        assert!(ended, "it waits for ever");
        let value = result.borrow_mut().take();
        value.expect("it has ended")
    }

    /// Writes with a node as the coordinator.
    pub(super) fn write(
        &mut self,
        node: usize,
        update: PartitionUpdate,
        consistency: Consistency,
    ) -> Result<(), RequestError> {
        let shard = self.shard(node);
        self.run(&shard, |shard| async move {
            let mutation = Mutation {
                updates: vec![update],
            };
            coordinator::write(
                &shard,
                vec![mutation],
                (consistency, WriteType::Simple),
                None,
                None,
            )
            .await
        })
    }

    /// Reads with a node as the coordinator.
    pub(super) fn read(
        &mut self,
        node: usize,
        command: ReadCommand,
        consistency: Consistency,
    ) -> Result<ReadPage, RequestError> {
        let shard = self.shard(node);
        self.run(&shard, |shard| async move {
            coordinator::read(&shard, &command, consistency, None, None).await
        })
    }

    /// Writes to one node alone.
    pub(super) fn write_at(&mut self, node: usize, update: PartitionUpdate) {
        let owner = self.shard(node).owner(update.key.token());
        let shard = self.shards.borrow()[&(node, owner)].clone();
        let mutation = Mutation {
            updates: vec![update],
        };
        let applied = self.run(
            &shard,
            |shard| async move { shard.store.apply(mutation).await },
        );
        applied.expect("it writes");
    }

    /// The live rows that one node alone has of a partition.
    pub(super) fn rows_at(&mut self, node: usize, key: i32) -> Vec<(i32, i32)> {
        let shard = self.owner(node, key);
        let command = self.command_of(key);
        let page = self.run(
            &shard,
            |shard| async move { shard.store.read(&command).await },
        );
        rows(&page.expect("it reads"))
    }

    /// Reads all of a partition.
    pub(super) fn command(&self, key: i32) -> ReadCommand {
        command(&self.table(), PartitionSelection::Key(decorated(key)))
    }

    /// The same, whichever nodes run.
    pub(super) fn command_of(&self, key: i32) -> ReadCommand {
        let table = Arc::new(table(self.plan.options.clone()));
        command(&table, PartitionSelection::Key(decorated(key)))
    }

    /// Reads all there is.
    pub(super) fn scan(&self) -> ReadCommand {
        let range = PartitionSelection::Range {
            start: PartitionBound::Unbounded,
            end: PartitionBound::Unbounded,
        };
        command(&self.table(), range)
    }

    /// The table as node 0 knows it.
    pub(super) fn table(&self) -> Arc<Table> {
        self.table_of(0)
    }

    /// The table as a node knows it.
    pub(super) fn table_of(&self, node: usize) -> Arc<Table> {
        let metadata = self.shard(node).metadata();
        let table = metadata.schema.table(KEYSPACE, "t");
        table.expect("it is there").clone()
    }

    /// How many requests a node's shards have sent to others.
    pub(super) fn messages_of(&self, node: usize) -> u64 {
        let shards = self.shards.borrow();
        let of_node = shards.iter().filter(|((of, _), _)| *of == node);
        let asked = of_node.map(|(_, shard)| {
            let (waiting, done) = shard.peers.messages();
            waiting + done
        });
        asked.sum()
    }

    /// How many requests a node has sent to others.
    pub(super) fn asked(&self, node: usize, others: std::ops::Range<usize>) -> u64 {
        let shards = self.shards.borrow();
        let of_node = shards.iter().filter(|((of, _), _)| *of == node);
        let asked = |shard: &Rc<Shard>| {
            let others = others.clone().map(|other| NodeId(other as u32));
            others.map(|other| shard.peers.asked(other)).sum::<u64>()
        };
        of_node.map(|(_, shard)| asked(shard)).sum()
    }

    /// How many writes replicas have missed, as a node knows.
    pub(super) fn missed(&self, node: usize) -> u64 {
        let shards = self.shards.borrow();
        let of_node = shards.iter().filter(|((of, _), _)| *of == node);
        of_node
            .map(|(_, shard)| shard.metrics.missed_writes.get())
            .sum()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shards.borrow_mut().clear();
        for node in &self.nodes {
            self.simulation.crash(*node, Crash::Process);
        }
    }
}
