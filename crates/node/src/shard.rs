//! What one shard of a node has.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;

use cluster::NodeId;
use cql::functions::FunctionLanguage;
use hashbrown::HashMap;
use io::{Env, Mesh, MeshSeat, Notify, Outlet, Semaphore, oneshot};
use model::{Schema, Sharder, Token};
use storage::{SharedFiles, Store};
use wire::Envelope;

use crate::batch::BatchSizes;
use crate::batch_log::BatchLog;
use crate::clients::Clients;
use crate::config::NodeConfig;
use crate::coordinator::{CounterLocks, Observed, Relays, SerialTurns};
use crate::disk_usage::DiskUsages;
use crate::execute::Answered;
use crate::flaw::Flaw;
use crate::functions;
use crate::hints::Hints;
use crate::internode::Peer;
use crate::listener::ClientPorts;
use crate::membership::ClusterService;
use crate::message::{Message, ShardReply, ShardRequest};
use crate::metadata::Metadata;
use crate::metrics::ShardMetrics;
use crate::node::Control;
use crate::paxos::Acceptors;
use crate::peers::Peers;
use crate::response_buffers::ResponseBuffers;
use crate::start::StartError;
use crate::statements::StatementCache;
use crate::system::LocalNode;
use crate::timeouts::Timeouts;
use crate::timestamps::Timestamps;
use crate::truncations::Truncations;
use crate::views::Views;

/// What all shards share: nothing of it changes but counters.
pub(crate) struct SharedState {
    /// What the node was told.
    pub(crate) config: NodeConfig,
    /// The keyspaces that it defines itself.
    pub(crate) system: Arc<Schema>,
    /// Each shard's counters; the shard alone writes them.
    pub(crate) metrics: Vec<Arc<ShardMetrics>>,
    /// Who has let go of which file.
    pub(crate) files: Arc<SharedFiles>,
    /// A mistake that it is made with, for a proof.
    pub(crate) flaw: Flaw,
}

/// What a shard is given to start with.
pub(crate) struct Seat {
    /// Its place in the mesh.
    pub(crate) mesh: MeshSeat<Message>,
    /// What the process asks of it.
    pub(crate) controls: Outlet<Control>,
    /// Where it says that the node is ready (shard 0) or why it cannot start.
    pub(crate) ready: mpsc::Sender<Result<std::net::SocketAddr, StartError>>,
}

/// One shard of a node.
pub(crate) struct Shard {
    pub(crate) env: Env,
    pub(crate) state: Arc<SharedState>,
    pub(crate) metrics: Arc<ShardMetrics>,
    pub(crate) mesh: Mesh<Message>,
    pub(crate) store: Store,
    pub(crate) sharder: Sharder,
    /// The schema and what follows from it; replaced whole.
    metadata: RefCell<Rc<Metadata>>,
    metadata_changed: Notify,
    /// Who the node is; known once the node has begun.
    local: RefCell<Option<Arc<LocalNode>>>,
    /// What user-defined functions are written in; `None` where they are switched off.
    pub(crate) functions: Option<Rc<dyn FunctionLanguage>>,
    pub(crate) statements: RefCell<StatementCache>,
    pub(crate) clients: Clients,
    /// Where they come in (shard 0).
    pub(crate) client_ports: Rc<ClientPorts>,
    pub(crate) peers: Peers,
    /// How full the drives of nodes are.
    pub(crate) disk_usages: DiskUsages,
    pub(crate) hints: Hints,
    pub(crate) counter_locks: CounterLocks,
    /// What this shard has promised and accepted in rounds of Paxos that are under way.
    pub(crate) acceptors: Acceptors,
    /// The conditional updates and serial reads that this shard coordinates.
    pub(crate) serial_turns: SerialTurns,
    /// Writes that replicas far away pass on among themselves.
    pub(crate) relays: Relays,
    /// How fast replicas have been of late.
    pub(crate) observed: Observed,
    /// How long requests may take.
    pub(crate) timeouts: Rc<Timeouts>,
    /// How many partitions the batches had that this shard coordinated.
    pub(crate) batch_sizes: RefCell<BatchSizes>,
    /// The share of requests that are traced without having been asked to.
    pub(crate) trace_probability: Cell<f64>,
    /// Each trace that is being written takes one.
    pub(crate) traces: Semaphore,
    pub(crate) timestamps: Timestamps,
    /// Of changes of the schema: each is later than all that the cluster has seen.
    pub(crate) schema_timestamps: Timestamps,
    /// Of what the node says of itself in `system.local`, and of others in `system.peers`: each is later than all
    /// before it, also where the clock was ahead in an earlier life (shard 0).
    pub(crate) local_timestamps: Timestamps,
    /// What makes the node one of a cluster (shard 0).
    cluster_service: RefCell<Option<Rc<ClusterService>>>,
    /// Held while the schema changes (shard 0).
    pub(crate) schema_change: Semaphore,
    /// Bytes of requests that may be under way at once.
    pub(crate) request_memory: Semaphore,
    /// How many of them one request is taken to need at most.
    pub(crate) most_memory_of_request: usize,
    pub(crate) batch_log: BatchLog,
    pub(crate) truncations: Truncations,
    pub(crate) views: Views,
    pub(crate) response_buffers: ResponseBuffers,
    /// Is the node about to stop?
    pub(crate) stopping: Cell<bool>,
    /// Requests to other shards that wait for their replies.
    waiting: RefCell<HashMap<u64, oneshot::Sender<ShardReply>>>,
    next_request: Cell<u64>,
}

/// The other shard is gone: the node is about to end.
#[derive(Debug, thiserror::Error)]
#[error("shard {0} does not answer: the node is shutting down")]
pub(crate) struct ShardGone(u16);

/// How much of a shard's memory prepared statements may take: one part in so many.
const STATEMENTS_SHARE: u64 = 64;
/// How much requests under way may take: one part in so many.
const REQUESTS_SHARE: u64 = 16;
/// How many traces may be written at once: where writes are slow, those beyond are
/// lost (Cassandra's stage for them refuses what is behind a thousand).
pub(crate) const MAX_TRACES: usize = 256;
/// One request of the largest size must always fit.
const MIN_REQUEST_MEMORY: u64 = 2 * wire::DEFAULT_MAX_ENVELOPE as u64;

impl Shard {
    pub(crate) fn new(
        env: Env,
        state: Arc<SharedState>,
        mesh: Mesh<Message>,
        store: Store,
        metadata: Metadata,
    ) -> Shard {
        let shards = env.shards();
        let memory = state.config.memory / u64::from(shards);
        let requests = (memory / REQUESTS_SHARE).max(MIN_REQUEST_MEMORY);
        let metrics = state.metrics[usize::from(env.shard().0)].clone();
        let timeouts = Rc::<Timeouts>::default();
        let functions = state.config.user_functions;
        Shard {
            functions: functions.map(|timeout| functions::language(&env, timeout)),
            sharder: Sharder::new(shards),
            statements: RefCell::new(StatementCache::new(bytes(memory / STATEMENTS_SHARE))),
            request_memory: Semaphore::new(bytes(requests)),
            most_memory_of_request: bytes(requests / 2),
            peers: Peers::new(
                state.config.encryption.clone(),
                metrics.clone(),
                timeouts.clone(),
            ),
            disk_usages: DiskUsages::default(),
            timeouts,
            batch_sizes: RefCell::default(),
            trace_probability: Cell::default(),
            traces: Semaphore::new(MAX_TRACES),
            metrics,
            env,
            state,
            mesh,
            store,
            metadata: RefCell::new(Rc::new(metadata)),
            metadata_changed: Notify::new(),
            local: RefCell::default(),
            clients: Clients::default(),
            client_ports: Rc::default(),
            hints: Hints::default(),
            counter_locks: CounterLocks::default(),
            acceptors: Acceptors::default(),
            serial_turns: SerialTurns::default(),
            relays: Relays::default(),
            observed: Observed::default(),
            timestamps: Timestamps::default(),
            schema_timestamps: Timestamps::default(),
            local_timestamps: Timestamps::default(),
            cluster_service: RefCell::default(),
            schema_change: Semaphore::new(1),
            batch_log: BatchLog::default(),
            truncations: Truncations::default(),
            views: Views::default(),
            response_buffers: ResponseBuffers::default(),
            stopping: Cell::new(false),
            waiting: RefCell::default(),
            next_request: Cell::new(0),
        }
    }

    /// The number of this shard.
    pub(crate) fn index(&self) -> u16 {
        self.env.shard().0
    }

    /// The schema, as of now.
    pub(crate) fn metadata(&self) -> Rc<Metadata> {
        self.metadata.borrow().clone()
    }

    /// What `look` finds in the schema and what follows from it, and in who the node is; neither is kept.
    ///
    /// # Panics
    /// Before the node has begun.
    pub(crate) fn with_metadata<T>(&self, look: impl FnOnce(&Metadata, &LocalNode) -> T) -> T {
        let local = self.local.borrow();
        let local = local.as_ref().expect("clients come after the start");
        look(&self.metadata.borrow(), local)
    }

    /// Goes over to another schema or another cluster.
    pub(crate) fn set_metadata(&self, metadata: Metadata) {
        self.peers.retain(&metadata);
        let schema = &metadata.schema;
        self.observed
            .retain(|table| schema.table_by_id(table).is_some());
        *self.metadata.borrow_mut() = Rc::new(metadata);
        self.metadata_changed.notify_all();
    }

    /// Waits until this node knows the cluster as of an epoch.
    pub(crate) async fn metadata_reached(&self, epoch: u64) {
        while self.metadata().epoch() < epoch {
            self.metadata_changed.notified().await;
        }
    }

    /// The shard of another node that owns a token; `None` if there is no such node.
    pub(crate) fn peer(&self, node: NodeId, token: Token) -> Option<Peer> {
        let (metadata, local) = (self.metadata(), self.local());
        self.peers.owner(&self.env, &metadata, &local, node, token)
    }

    /// Who the node is.
    ///
    /// # Panics
    /// Before the node has begun: nobody asks then.
    pub(crate) fn local(&self) -> Arc<LocalNode> {
        let local = self.local.borrow().clone();
        local.expect("clients come after the start")
    }

    /// Who the node is, if it has begun.
    pub(crate) fn local_if_known(&self) -> Option<Arc<LocalNode>> {
        self.local.borrow().clone()
    }

    /// Learns who the node is.
    pub(crate) fn set_local(&self, local: Arc<LocalNode>) {
        *self.local.borrow_mut() = Some(local);
    }

    /// What makes the node one of a cluster; `None` but on shard 0, once it has begun.
    pub(crate) fn cluster_service(&self) -> Option<Rc<ClusterService>> {
        self.cluster_service.borrow().clone()
    }

    /// The node begins to become one of a cluster, or is one no more.
    pub(crate) fn set_cluster_service(&self, service: Option<Rc<ClusterService>>) {
        let before = self.cluster_service.replace(service);
        drop(before);
    }

    /// Shows how many statements are kept.
    pub(crate) fn count_statements(&self) {
        let count = self.statements.borrow().len();
        self.metrics.prepared_statements.set(count as u64);
    }

    /// The shard that owns a token.
    pub(crate) fn owner(&self, token: Token) -> u16 {
        self.sharder.shard_of(token)
    }

    /// Sends a request to another shard. What is returned waits for the reply; the request is on
    /// its way once this future has ended.
    pub(crate) async fn send(&self, to: u16, request: ShardRequest) -> PendingReply<'_> {
        let message = |id| Message::Request { id, request };
        self.send_numbered(to, message).await
    }

    /// Sends a message that another shard replies to, under the number that it is given.
    async fn send_numbered(
        &self,
        to: u16,
        message: impl FnOnce(u64) -> Message,
    ) -> PendingReply<'_> {
        debug_assert_ne!(to, self.index(), "the same shard is a plain call");
        let id = self.next_request.get();
        self.next_request.set(id + 1);
        let (sender, receiver) = oneshot();
        self.waiting.borrow_mut().insert(id, sender);
        self.metrics.hops.add(1);
        let pending = PendingReply {
            shard: self,
            to,
            id,
            receiver,
        };
        self.mesh.send(to, message(id)).await;
        pending
    }

    /// Asks another shard and waits for its reply.
    pub(crate) async fn ask(
        &self,
        to: u16,
        request: ShardRequest,
    ) -> Result<ShardReply, ShardGone> {
        self.send(to, request).await.reply().await
    }

    /// Has another shard answer executions of a client ([`Message::Answer`]); gives as many answers as it has.
    pub(crate) async fn have_answered(&self, to: u16, envelopes: Vec<Envelope>) -> Answered {
        let message = |id| Message::Answer { id, envelopes };
        match self.send_numbered(to, message).await.reply().await {
            Ok(ShardReply::Answered(answered)) => answered,
            _ => Answered::default(),
        }
    }

    /// Has all shards do something at once: the others what `request` asks, this one `here`. The first
    /// error, once all are done.
    pub(crate) async fn on_all(
        &self,
        request: impl Fn() -> ShardRequest,
        here: impl Future<Output = Result<(), String>>,
    ) -> Result<(), String> {
        let mut pending = Vec::new();
        for other in self.others() {
            pending.push(self.send(other, request()).await);
        }
        let mut result = here.await;
        for reply in pending {
            result = result.and(match reply.reply().await {
                Ok(ShardReply::Failed(reason)) => Err(reason),
                Ok(_) => Ok(()),
                Err(gone) => Err(gone.to_string()),
            });
        }
        result
    }

    /// A reply has come.
    pub(crate) fn take_reply(&self, id: u64, reply: ShardReply) {
        let waiting = self.waiting.borrow_mut().remove(&id);
        // Who asked may have given up meanwhile.
        if let Some(sender) = waiting {
            let _ = sender.send(reply);
        }
    }

    /// The shards other than this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let own = self.index();
        (0..self.env.shards()).filter(move |shard| *shard != own)
    }
}

fn bytes(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A request that another shard works on.
pub(crate) struct PendingReply<'s> {
    shard: &'s Shard,
    to: u16,
    id: u64,
    receiver: oneshot::Receiver<ShardReply>,
}

impl PendingReply<'_> {
    /// Waits for the reply.
    pub(crate) async fn reply(mut self) -> Result<ShardReply, ShardGone> {
        (&mut self.receiver).await.map_err(|_| ShardGone(self.to))
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        let forgotten = self.shard.waiting.borrow_mut().remove(&self.id);
        drop(forgotten);
    }
}
