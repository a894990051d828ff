//! How the node becomes one of a cluster, and what keeps it one. All of this is on shard 0; the other
//! shards are told what comes of it.
//!
//! | file | what |
//! |---|---|
//! | [`forming`] | a node without a cluster finds one by its seeds, or begins one |
//! | [`group`] | its part in the group that decides on metadata |
//! | [`joining`] | it gets its tokens, and catches up before it serves |
//! | [`follower`] | what it does with each decision |
//! | [`schema`] | changes of the schema, as decisions |
//! | [`voters`] | who leads sees to who votes |
//! | [`heartbeat`] | gossip: who is up, and what nodes tell of themselves |
//! | [`events`] | what clients are told of the others |
//! | [`question`], [`answer`] | what nodes ask each other for all that |
//!
//! What is decided: see [`cluster::ClusterMetadata`].

mod answer;
mod column_ids;
mod encoding;
mod events;
mod follower;
mod forming;
mod group;
mod heartbeat;
mod joining;
mod missing;
mod question;
pub(crate) mod schema;
mod voters;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use cluster::{
    ClusterMetadata, Discovery, EntryRefused, Gossip, MemberState, MetadataEntry, Node, NodeId,
    Place,
};
use cql::guardrails::DiskUsage;
use io::{Env, Instant, Notify, TaskGroup};
use model::{Schema, TableId};
use uuid::Uuid;
use wire::internode::{Hello, Identity, Refusal, VERSIONS, Verb};

use self::group::{Group, Proposed};
use self::question::{Question, Reply};
use crate::disk_usage;
use crate::internode::{Peer, PeerError};
use crate::message::ShardRequest;
use crate::metadata::{Membership, Metadata};
use crate::peers::LEADING_SHARD;
use crate::report::NodeReport;
use crate::shard::Shard;
use crate::system::{LocalNode, RELEASE_VERSION};

pub(crate) use answer::answer;
pub(crate) use joining::join;

/// How long a node waits at its start for news of the others: a client that came before would find too
/// few of them up.
const MEETING: Duration = Duration::from_secs(3);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// The node is up for the others from now on; returns when it knows who of them is, or may be taken to.
pub(crate) async fn meet(shard: &Rc<Shard>) {
    let Some(service) = shard.cluster_service() else {
        return;
    };
    let beating = heartbeat::beat(service.clone(), shard.clone());
    shard.env.spawn(TaskGroup::Foreground, beating).detach();
    let watching = disk_usage::watch(service, shard.clone());
    shard.env.spawn(TaskGroup::Maintenance, watching).detach();
    let meeting = async {
        loop {
            let metadata = shard.metadata();
            if metadata.others().all(|id| shard.peers.is_up(id)) {
                return;
            }
            shard.env.sleep(LOOK).await;
        }
    };
    // Who is down now is met when it comes.
    let _ = shard.env.timeout(MEETING, meeting).await;
}

/// The node takes clients, and tells them what changes from now on.
pub(crate) fn serve(shard: &Rc<Shard>) {
    if let Some(service) = shard.cluster_service() {
        service.go_live();
    }
}

/// How long a decision may take before whoever wants it is told that there is none.
const DECISION: Duration = Duration::from_secs(10);
/// How long to wait before the next node is asked to decide, or the same again.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest entry, in bytes: what members send each other has a bound.
const MAX_ENTRY: usize = 4 << 20;

/// The node as one of a cluster, on shard 0.
pub(crate) struct ClusterService {
    env: Env,
    shard: Weak<Shard>,
    /// When it was made: gossip counts time from then.
    begun: Instant,
    /// The folder that the metadata log is in.
    folder: PathBuf,
    /// While the node looks for a cluster: what it knows, and since when it looks.
    discovery: RefCell<Option<(Discovery, Instant)>>,
    /// Its part in the group, once it has one.
    group: RefCell<Option<Group>>,
    gossip: RefCell<Option<Gossip>>,
    gossip_wake: Notify,
    /// Does it gossip? Not before it serves, and not while an operator does not want it.
    gossips: Cell<bool>,
    /// Connections by address: to seeds, and to members of which no more is known.
    by_address: RefCell<BTreeMap<SocketAddr, Peer>>,
    /// Who has been silent, so that it is said once.
    silent: RefCell<BTreeSet<SocketAddr>>,
    /// The changes of the schema that are proposed here.
    own_changes: Rc<RefCell<BTreeSet<Uuid>>>,
    /// Is the node about to end?
    stops: Cell<bool>,
    /// Are there clients to be told what changes?
    live: Cell<bool>,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProposeError {
    /// It was decided, and does not fit what was decided before.
    #[error("{1}")]
    Refused(u64, EntryRefused),
    /// Nobody leads.
    #[error(
        "the nodes that decide on the schema and on members cannot be reached or are no majority: \
         data is served, but nothing of that can change until more of them are up"
    )]
    NoMajority,
    /// Too large to be sent.
    #[error("it takes {0} bytes, and no more than {MAX_ENTRY} can be decided at once")]
    TooLarge(usize),
    /// This node has no part in it.
    #[error("{0}")]
    Stopped(String),
}

impl ClusterService {
    pub(crate) fn new(shard: &Rc<Shard>) -> ClusterService {
        ClusterService {
            env: shard.env.clone(),
            shard: Rc::downgrade(shard),
            begun: shard.env.now(),
            folder: shard.state.config.data.clone(),
            discovery: RefCell::default(),
            group: RefCell::default(),
            gossip: RefCell::default(),
            gossip_wake: Notify::new(),
            gossips: Cell::new(false),
            by_address: RefCell::default(),
            silent: RefCell::default(),
            own_changes: Rc::default(),
            stops: Cell::new(false),
            live: Cell::new(false),
        }
    }

    fn shard(&self) -> Result<Rc<Shard>, String> {
        let gone = || "the node is about to end".to_owned();
        self.shard.upgrade().ok_or_else(gone)
    }

    /// Takes no part in decisions any more. The node is about to end.
    pub(crate) async fn stop(&self) {
        self.stops.set(true);
        let group = self.group.borrow_mut().take();
        if let Some(group) = group {
            group.stop().await;
        }
    }

    fn group(&self) -> Option<Group> {
        self.group.borrow().clone()
    }

    /// Are there clients to be told what changes?
    fn is_live(&self) -> bool {
        self.live.get()
    }

    /// From now on clients are told of what changes.
    fn go_live(&self) {
        self.live.set(true);
    }

    /// What has been decided, as far as it is known here.
    pub(crate) fn metadata(&self) -> Option<Rc<ClusterMetadata>> {
        Some(self.group()?.metadata())
    }

    /// Who votes on metadata, as far as it is known here.
    pub(crate) async fn voters(&self) -> BTreeSet<NodeId> {
        match self.group() {
            Some(group) => group.voters().await,
            None => BTreeSet::new(),
        }
    }

    /// How this node introduces itself, or answers an introduction.
    pub(crate) fn identity(&self, local: &LocalNode) -> Identity {
        Identity {
            cluster: local.cluster_name.clone(),
            cluster_id: self.cluster_id(),
            host_id: local.host_id,
            shards: self.env.shards(),
        }
    }

    fn cluster_id(&self) -> Option<Uuid> {
        let metadata = self.metadata()?;
        Some(metadata.identity()?.id)
    }

    /// Waits until this node knows an epoch.
    async fn reach(&self, epoch: u64) {
        if let Some(group) = self.group() {
            group.reach(epoch).await;
        }
    }

    /// The leading shard of a node at an address, whoever that is.
    fn peer_at(&self, address: SocketAddr) -> Result<Peer, String> {
        if let Some(peer) = self.by_address.borrow().get(&address) {
            return Ok(peer.clone());
        }
        let shard = self.shard()?;
        let local = shard.local();
        let hello = Hello {
            versions: (*VERSIONS.start(), *VERSIONS.end()),
            cluster: local.cluster_name.clone(),
            cluster_id: self.cluster_id(),
            host_id: local.host_id,
            expects: None,
            shard: LEADING_SHARD,
            compressed: false,
            address: local.storage_address(),
        };
        let peer = shard
            .peers
            .stranger(&self.env, &local.place(), address, hello);
        self.by_address.borrow_mut().insert(address, peer.clone());
        Ok(peer)
    }

    /// The leading shard of a node.
    fn peer_of(&self, node: NodeId) -> Option<Peer> {
        let shard = self.shard.upgrade()?;
        let (metadata, local) = (shard.metadata(), shard.local());
        let peers = &shard.peers;
        let known = peers.shard_of(&self.env, &metadata, &local, node, LEADING_SHARD);
        known.or_else(|| {
            // Decided, and not told to the shards yet.
            let address = self.metadata()?.topology().member(node)?.node.address;
            self.peer_at(address).ok()
        })
    }

    /// Asks whoever is at an address.
    async fn ask_at(
        &self,
        address: SocketAddr,
        question: &Question,
        time: Duration,
    ) -> Result<Reply, AskError> {
        let peer = self.peer_at(address).map_err(AskError::NoAnswer)?;
        ask(&peer, question, time).await
    }

    /// Asks a node.
    async fn ask(
        &self,
        node: NodeId,
        question: &Question,
        time: Duration,
    ) -> Result<Reply, AskError> {
        let peer = self.peer_of(node).ok_or_else(|| unknown(node))?;
        ask(&peer, question, time).await
    }

    /// Says once that somebody does not answer.
    fn note_silence(&self, address: SocketAddr, reason: &str) {
        if self.silent.borrow_mut().insert(address) {
            tracing::info!("{address} does not answer yet: {reason}");
        }
    }

    /// Has an entry decided, here or by whoever leads. Its epoch, which this node knows then.
    ///
    /// # Errors
    /// Nothing was decided, as far as is known: an entry without an answer may be decided yet, so
    /// whoever repeats one proposes what is taken once only.
    async fn propose(&self, entry: MetadataEntry) -> Result<u64, ProposeError> {
        let bytes = entry.encode().len();
        if bytes > MAX_ENTRY {
            return Err(ProposeError::TooLarge(bytes));
        }
        let deciding = self.have_decided(entry);
        let (epoch, result) = match self.env.timeout(DECISION, deciding).await {
            Ok(decided) => decided?,
            Err(_) => return Err(ProposeError::NoMajority),
        };
        result.map_err(|refused| ProposeError::Refused(epoch, refused))?;
        match self.env.timeout(DECISION, self.reach(epoch)).await {
            Ok(()) => Ok(epoch),
            Err(_) => Err(ProposeError::NoMajority),
        }
    }

    async fn have_decided(
        &self,
        entry: MetadataEntry,
    ) -> Result<(u64, Result<(), EntryRefused>), ProposeError> {
        loop {
            let stopped = || ProposeError::Stopped("this node has no part in the group".to_owned());
            let group = self.group().ok_or_else(stopped)?;
            let leader = match group.propose(entry.clone()).await {
                Ok(Proposed::Decided(epoch, result)) => return Ok((epoch, result)),
                Ok(Proposed::NotLeader(leader)) => leader,
                // It is being started anew.
                Err(_) => None,
            };
            if let Some(leader) = leader {
                let question = Question::Propose(entry.clone());
                if let Ok(Reply::Decided(epoch, result)) =
                    self.ask(leader, &question, DECISION).await
                {
                    return Ok((epoch, result));
                }
            }
            self.env.sleep(PAUSE).await;
        }
    }

    /// Waits until this node knows all that was decided when this was called; false if nobody leads.
    async fn catch_up(&self, patience: Duration) -> bool {
        let catching_up = async {
            loop {
                if let Some(epoch) = self.decided().await {
                    return self.reach(epoch).await;
                }
                self.env.sleep(PAUSE).await;
            }
        };
        self.env.timeout(patience, catching_up).await.is_ok()
    }

    async fn decided(&self) -> Option<u64> {
        let group = self.group()?;
        let leader = group.leader().await?;
        if Some(leader) == self.own() {
            return group.decided().await;
        }
        match self.ask(leader, &Question::Decided, DECISION).await {
            Ok(Reply::Decided(epoch, _)) => Some(epoch),
            _ => None,
        }
    }

    fn own(&self) -> Option<NodeId> {
        let host_id = self.shard.upgrade()?.local().host_id;
        self.metadata()?.topology().id_of(host_id)
    }

    /// What the other nodes that are up say of themselves; those that do not within `patience` are left out.
    pub(crate) async fn reports(
        &self,
        shard: &Rc<Shard>,
        patience: Duration,
    ) -> BTreeMap<NodeId, NodeReport> {
        let metadata = shard.metadata();
        let up = metadata.others().filter(|id| shard.peers.is_up(*id));
        let group = TaskGroup::Maintenance;
        let answers = self.ask_all(up, &Question::Report, patience, group).await;
        let mut reports = BTreeMap::new();
        for (id, answer) in answers {
            if let Ok(Reply::Report(report)) = answer {
                reports.insert(id, report);
            }
        }
        reports
    }

    /// Asks several nodes at once; their answers once all are there.
    async fn ask_all(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        question: &Question,
        time: Duration,
        group: TaskGroup,
    ) -> Vec<(NodeId, Result<Reply, AskError>)> {
        let asked: Vec<_> = nodes
            .map(|id| {
                let (peer, question) = (self.peer_of(id), question.clone());
                let asking = async move {
                    match peer {
                        Some(peer) => ask(&peer, &question, time).await,
                        None => Err(unknown(id)),
                    }
                };
                (id, self.env.spawn(group, asking))
            })
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (id, answer) in asked {
            answers.push((id, answer.await));
        }
        answers
    }

    /// Has other nodes forget all rows of a table.
    ///
    /// # Errors
    /// One of them has not said that it has; in words.
    pub(crate) async fn truncate_at(
        &self,
        nodes: &[NodeId],
        table: TableId,
        time: Duration,
    ) -> Result<(), String> {
        let question = Question::Truncate(Uuid::from_bytes(*table.as_bytes()));
        let nodes = nodes.iter().copied();
        let answers = self.ask_all(nodes, &question, time, TaskGroup::Foreground);
        let mut result = Ok(());
        for (id, answer) in answers.await {
            let answer = match answer {
                Ok(Reply::Done) => Ok(()),
                Ok(Reply::Refused(reason)) => Err(reason),
                Ok(_) => Err("an answer to another question".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            result = result.and(answer.map_err(|reason| format!("node {}: {reason}", id.0)));
        }
        result
    }

    /// Waits until the other nodes that are up know an epoch, no longer than `patience`.
    async fn agree(&self, shard: &Rc<Shard>, epoch: u64, patience: Duration) {
        let metadata = shard.metadata();
        let up = metadata.others().filter(|id| shard.peers.is_up(*id));
        let question = Question::Reach(epoch);
        let answers = self.ask_all(up, &question, patience, TaskGroup::Foreground);
        for (id, answer) in answers.await {
            if let Err(reason) = answer {
                tracing::warn!("node {} does not know epoch {epoch} yet: {reason}", id.0);
            }
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, thiserror::Error)]
enum AskError {
    /// Who is there does not talk to this node, and will not.
    #[error("{0}")]
    Refused(Refusal),
    /// There may be an answer another time.
    #[error("{0}")]
    NoAnswer(String),
}

fn unknown(node: NodeId) -> AskError {
    AskError::NoAnswer(format!("node {} is not known here", node.0))
}

async fn ask(peer: &Peer, question: &Question, time: Duration) -> Result<Reply, AskError> {
    let answer = peer.ask(Verb::Membership, 0, time, question::encode(question));
    match answer.await {
        Ok(answer) => question::decode(&answer).map_err(AskError::NoAnswer),
        Err(PeerError::Refused { refusal, .. }) => Err(AskError::Refused(refusal)),
        Err(PeerError::Failed(words)) => {
            let words = String::from_utf8_lossy(&words).into_owned();
            Err(AskError::NoAnswer(words))
        }
        Err(error) => Err(AskError::NoAnswer(error.to_string())),
    }
}

/// What the node says of itself.
fn own_node(shard: &Shard, local: &LocalNode) -> Node {
    Node {
        host_id: local.host_id,
        address: local.storage_address(),
        native_address: (local.rpc_address, local.rpc_port).into(),
        place: Place {
            datacenter: local.data_center.clone(),
            rack: local.rack.clone(),
        },
        shards: shard.env.shards(),
        release: RELEASE_VERSION.to_owned(),
        protocol: *VERSIONS.end(),
    }
}

/// How many keyspaces a schema has that are no system's.
fn user_keyspaces(schema: &Schema) -> u32 {
    let names = schema.keyspaces.keys();
    let own = names.filter(|name| !cql::schema::is_system_keyspace(name));
    u32::try_from(own.count()).unwrap_or(u32::MAX)
}

/// Is the node of this identity a member that owns tokens?
fn has_joined(metadata: &ClusterMetadata, host_id: Uuid) -> bool {
    let topology = metadata.topology();
    let member = topology.id_of(host_id).and_then(|id| topology.member(id));
    member.is_some_and(|member| member.state == MemberState::Joined)
}

/// All shards go over to what is known of the cluster; returns when all have.
async fn set_everywhere(shard: &Shard, membership: &Membership) -> Result<(), String> {
    let request = || ShardRequest::SetCluster(membership.clone());
    let here = async {
        set(shard, membership.clone());
        Ok(())
    };
    shard.on_all(request, here).await
}

/// This shard goes over to what is known of the cluster.
pub(crate) fn set(shard: &Shard, membership: Membership) {
    let schema = shard.metadata().schema.clone();
    shard.set_metadata(Metadata::new(schema, Some(membership)));
}

/// All shards learn which drives have not much room.
async fn set_disk_usage_everywhere(shard: &Shard, known: BTreeMap<NodeId, DiskUsage>) {
    let known = Arc::new(known);
    let request = || ShardRequest::SetDiskUsage(known.clone());
    let here = async {
        shard.disk_usages.set(known.clone());
        Ok(())
    };
    // As below.
    let _ = shard.on_all(request, here).await;
}

/// All shards learn who is up.
async fn set_up_everywhere(shard: &Shard, up: BTreeSet<NodeId>) {
    let up = Arc::new(up);
    let request = || ShardRequest::SetUp(up.clone());
    let here = async {
        shard.peers.set_up(up.clone(), shard.env.now());
        Ok(())
    };
    // A shard that is gone asks nobody.
    let _ = shard.on_all(request, here).await;
}
