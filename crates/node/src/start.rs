//! The life of a shard: open, begin, serve, close.
//!
//! Every shard opens its store with the system's tables. Shard 0 then leads: it writes the node's
//! own definitions, reads the schema from `system_schema`, has all shards go over to it and finish
//! the replay of their commit logs, writes `system.local`, and opens the ports.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::EntryRefused;
use io::{Env, Full, TaskGroup};
use model::{CqlType, DecoratedKey, Mutation, Schema, Table, Token};
use storage::{CommitLogConfig, OpenError, Store, StoreConfig};
use uuid::Uuid;
use wire::Envelope;

use crate::execute::{self, ForAnother};
use crate::internode::Stream;
use crate::listener::{self, Listeners};
use crate::membership::{self, ClusterService};
use crate::message::{Message, ShardReply, ShardRequest};
use crate::metadata::{self, Metadata};
use crate::node::{Control, ProcessSnapshot, ShardSnapshot};
use crate::own_tables::{own_table, read_schema, read_whole};
use crate::peers::LEADING_SHARD;
use crate::shard::{Seat, Shard, SharedState};
use crate::system::{
    LocalNode, SYSTEM_SCHEMA_TIMESTAMP, local_mutation, schema_to_mutations, unbuilt_mutations,
};
use crate::views;
use crate::{
    batch_log, compaction_history, coordinator, disk_usage, guardrails, hints, indexes, neighbor,
    paxos, prepared, replica, session, size_estimates, stop, truncate, truncations, virtual_tables,
};

/// How often to look for snapshots whose time has passed (`SnapshotManager`).
const SNAPSHOT_LOOK: Duration = Duration::from_secs(60);
/// How often to look how much memory the process has.
const MEMORY_LOOK: Duration = Duration::from_secs(1);
/// What a new node is called and where it is, if nobody says so.
const CLUSTER_NAME: &str = "Helenus";
const DATA_CENTER: &str = "datacenter1";
const RACK: &str = "rack1";
/// Bytes that the commit logs of all shards may take before memtables are flushed to free some, and
/// the part of the free space of the drive that they may take at most (`commitlog_total_space`).
const COMMITLOG_SPACE: u64 = 8 << 30;
const COMMITLOG_SHARE: u64 = 4;
/// What a shard needs to work at all: one segment to write to, one made ahead, and some to be flushed.
const MIN_SEGMENTS_OF_SHARD: u64 = 4;
/// The share of a shard's memory that its store gets, in quarters; the rest is for requests.
const STORE_QUARTERS: u64 = 3;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The shards do not run.
    #[error(transparent)]
    Runtime(#[from] io::StartError),
    /// A shard cannot open what is on disk.
    #[error("shard {shard}: {source}")]
    Store {
        /// Which.
        shard: u16,
        /// Why.
        source: OpenError,
    },
    /// The node's own tables cannot be read or written.
    #[error("the node's own tables: {0}")]
    System(String),
    /// The data is another cluster's.
    #[error(
        "{data} belongs to the cluster `{saved}`, not to `{configured}`: use another folder, or \
         that name"
    )]
    OtherCluster {
        /// The folder.
        data: PathBuf,
        /// The name in its `system.local`.
        saved: String,
        /// The name that was configured.
        configured: String,
    },
    /// The log of the cluster's metadata does not start.
    #[error("the cluster's metadata: {0}")]
    Metadata(String),
    /// What the node has of that log cannot be used.
    #[error(transparent)]
    MetadataLog(#[from] crate::raft::OpenError),
    /// The cluster does not take the node.
    #[error("{0}")]
    Refused(EntryRefused),
    /// A member of the cluster does not let the node in.
    #[error("{member} does not let this node join its cluster: {reason}")]
    NotLetIn {
        /// Which.
        member: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Its folder has a schema of its own.
    #[error(
        "{data} holds {keyspaces} keyspaces of its own, which the cluster of the seeds does not have:          start this node with an empty folder, or without seeds as a cluster of its own"
    )]
    OwnKeyspaces {
        /// The folder.
        data: PathBuf,
        /// How many.
        keyspaces: u32,
    },
    /// The drive of the data is taken to be larger than it is.
    #[error(
        "Invalid value for data_disk_usage_max_disk_size: {specified} bytes specified, but only {available} are \
         actually available on disk"
    )]
    MaxDiskSize {
        /// What is set, in bytes.
        specified: u64,
        /// What the drive has, in bytes.
        available: u64,
    },
    /// A port cannot be opened.
    #[error("cannot listen on {address}: {source}; is another server running there?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A shard ended while the node started.
    #[error("a shard ended: {}", .0.as_ref().map_or_else(String::new, ToString::to_string))]
    Ended(Option<io::ShardError>),
}

/// A shard from its start to its end.
pub(crate) async fn run_shard(env: Env, state: Arc<SharedState>, mut seat: Seat) {
    let mesh = seat.mesh.join(&env);
    let system = state.system.clone();
    let config = store_config(&env, &state).await;
    let store = match Store::open(env.clone(), config, &system).await {
        Ok(store) => store,
        Err(source) => {
            let shard = env.shard().0;
            let _ = seat.ready.send(Err(StartError::Store { shard, source }));
            return;
        }
    };
    if env.shard().0 == LEADING_SHARD
        && let Err(error) = disk_usage::check_max_size(&env, &state.config).await
    {
        let _ = seat.ready.send(Err(error));
        return;
    }
    let metadata = Metadata::new(system, None);
    let shard = Rc::new(Shard::new(env.clone(), state, mesh, store, metadata));
    env.spawn(TaskGroup::Foreground, receive(shard.clone()))
        .detach();
    let hinting = hints::run(shard.clone());
    env.spawn(TaskGroup::Maintenance, hinting).detach();
    let keeping = compaction_history::keep(shard.clone());
    env.spawn(TaskGroup::Maintenance, keeping).detach();
    let weighing = weigh_memory(shard.clone());
    env.spawn(TaskGroup::Maintenance, weighing).detach();
    let listeners = Rc::new(std::cell::RefCell::new(None));
    if shard.index() == 0 {
        let expiring = expire_snapshots(shard.clone());
        env.spawn(TaskGroup::Maintenance, expiring).detach();
        let (leader, ready, listeners) = (shard.clone(), seat.ready.clone(), listeners.clone());
        let lead = async move {
            let started = match begin(&leader).await {
                Ok(()) => {
                    membership::meet(&leader).await;
                    listener::listen(&leader).await
                }
                Err(error) => Err(error),
            };
            let address = started.map(|opened| {
                let address = opened.address;
                *listeners.borrow_mut() = Some(opened);
                membership::serve(&leader);
                let indexing = indexes::keep(leader.clone());
                leader.env.spawn(TaskGroup::Maintenance, indexing).detach();
                let estimating = size_estimates::keep(leader.clone());
                leader
                    .env
                    .spawn(TaskGroup::Maintenance, estimating)
                    .detach();
                address
            });
            let _ = ready.send(address);
        };
        env.spawn(TaskGroup::Foreground, lead).detach();
    }
    drop(seat.ready);
    obey(&shard, &mut seat.controls, &listeners).await;
}

/// Holds the process to the memory that it was given, for as long as the shard lives.
async fn weigh_memory(shard: Rc<Shard>) {
    let shards = u64::from(shard.env.shards());
    let granted = shard.state.config.memory / shards;
    loop {
        shard.env.sleep(MEMORY_LOOK).await;
        let Some(resident) = shard.env.resident_bytes() else {
            return;
        };
        shard.store.weigh(resident / shards, granted);
    }
}

/// Removes snapshots whose time has passed, for as long as the shard lives.
async fn expire_snapshots(shard: Rc<Shard>) {
    loop {
        shard.env.sleep(SNAPSHOT_LOOK).await;
        match shard.store.clear_expired_snapshots().await {
            Ok(0) => {}
            Ok(count) => tracing::info!("{count} snapshots removed: their time has passed"),
            Err(error) => tracing::error!("removing snapshots whose time has passed: {error}"),
        }
    }
}

async fn store_config(env: &Env, state: &SharedState) -> StoreConfig {
    let shards = env.shards();
    let log = match state.config.commitlog_total_space {
        Some(bytes) => bytes,
        None => {
            // If the system does not tell, the drive is taken to be large enough.
            let free = env.available_space(&state.config.commitlog_dir).await;
            COMMITLOG_SPACE.min(free.unwrap_or(u64::MAX) / COMMITLOG_SHARE)
        }
    };
    let segment = state.config.commitlog.segment_bytes;
    let least = MIN_SEGMENTS_OF_SHARD * segment;
    let share = log / u64::from(shards);
    if share < least && state.config.commitlog_total_space.is_some() && env.shard().0 == 0 {
        tracing::warn!(
            "commitlog_total_space of {log} bytes is too little for {shards} shards: each takes \
             {MIN_SEGMENTS_OF_SHARD} segments of {segment} bytes (commitlog_segment_size) at least"
        );
    }
    let set = state.config.guardrails.as_deref().cloned();
    let set = set.unwrap_or_default();
    StoreConfig {
        sstables: state.config.sstables.clone(),
        commitlog_dir: state.config.commitlog_dir.clone(),
        sharder: model::Sharder::new(shards),
        memory: state.config.memory / u64::from(shards) / 4 * STORE_QUARTERS,
        sstable_format: state.config.sstable_format,
        commitlog: CommitLogConfig {
            total_bytes: share.max(least),
            ..state.config.commitlog
        },
        incremental_backups: state.config.incremental_backups,
        most_tombstones: state.config.tombstones.fail,
        index_sstables: guardrails::index_sstables(&set),
        partition_limits: guardrails::partition_limits(&set),
        shared: state.files.clone(),
    }
}

/// Does what the process asks, until it is told to end.
async fn obey(
    shard: &Rc<Shard>,
    controls: &mut io::Outlet<Control>,
    listeners: &std::cell::RefCell<Option<Listeners>>,
) {
    while let Some(control) = controls.recv().await {
        match control {
            Control::Snapshot(answer) => {
                let _ = answer.send(snapshot(shard));
            }
            Control::StopClients(answer) => {
                let opened = listeners.borrow_mut().take();
                if let Some(opened) = opened {
                    opened.close();
                }
                let _ = answer.send(stop::stop_clients(shard).await);
            }
            Control::Settle(answer) => {
                let _ = answer.send(stop::settle(shard).await);
            }
            Control::Operate(operation) => {
                let running = operation(shard.clone());
                shard.env.spawn(TaskGroup::Maintenance, running).detach();
            }
            Control::Drain(answer) => {
                let _ = answer.send(stop::flush(shard).await);
            }
            Control::Close(answer) => {
                let _ = answer.send(stop::flush(shard).await);
                return;
            }
            Control::Abort => return,
        }
    }
}

fn snapshot(shard: &Shard) -> ShardSnapshot {
    ShardSnapshot {
        shard: shard.index(),
        requests: shard.metrics.clone(),
        store: Some(shard.store.stats()),
        groups: shard.env.group_stats(),
        task_panics: shard.env.task_panics(),
        process: (shard.index() == LEADING_SHARD).then(|| ProcessSnapshot {
            resident_bytes: shard.env.resident_bytes().unwrap_or(0),
            background_window: shard.env.background_window(),
        }),
    }
}

/// Takes what other shards send.
async fn receive(shard: Rc<Shard>) {
    loop {
        let (from, message) = shard.mesh.recv().await;
        match message {
            Message::Reply { id, reply } => shard.take_reply(id, reply),
            Message::Adopt(stream) => {
                let stream = shard.env.adopt(stream);
                let session = session::serve(shard.clone(), stream);
                shard.env.spawn(TaskGroup::Foreground, session).detach();
            }
            Message::AdoptNode(adopted) => {
                let (link, hello) = *adopted;
                let stream = Stream::adopt(&shard.env, link);
                let talking = neighbor::talk(shard.clone(), stream, hello);
                shard.env.spawn(TaskGroup::Foreground, talking).detach();
            }
            Message::Request { id, request } => {
                let answering = answer(shard.clone(), from, id, request);
                shard.env.spawn(TaskGroup::Foreground, answering).detach();
            }
            Message::Answer { id, envelopes } => {
                let answer = || answer_clients(&shard, (from, id), &envelopes);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(answer)) {
                    // A task ends with it, as it would have with one of its own: not the one that takes all messages.
                    let failing = async move { resume_unwind(panic) };
                    shard
                        .env
                        .spawn::<()>(TaskGroup::Foreground, failing)
                        .detach();
                }
            }
        }
    }
}

/// Answers requests of another shard's client. A task for what does not wait would take longer than that.
fn answer_clients(shard: &Rc<Shard>, (from, id): (u16, u64), envelopes: &[Envelope]) {
    let reply = move |answered| Message::Reply {
        id,
        reply: ShardReply::Answered(answered),
    };
    let of_task = shard.clone();
    match execute::answer_for_another(shard, envelopes) {
        ForAnother::Answered(answered) => {
            if let Err(Full(reply)) = shard.mesh.try_send(from, reply(answered)) {
                let sending = async move { of_task.mesh.send(from, reply).await };
                shard.env.spawn(TaskGroup::Foreground, sending).detach();
            }
        }
        ForAnother::Writing(writing) => {
            let writing = async move {
                let answered = writing.finish().await;
                of_task.mesh.send(from, reply(answered)).await;
            };
            shard.env.spawn(TaskGroup::Foreground, writing).detach();
        }
    }
}

async fn answer(shard: Rc<Shard>, from: u16, id: u64, request: ShardRequest) {
    let reply = perform(&shard, request).await;
    shard.mesh.send(from, Message::Reply { id, reply }).await;
}

/// Does what another shard asks.
async fn perform(shard: &Rc<Shard>, request: ShardRequest) -> ShardReply {
    let done = |result: Result<(), String>| match result {
        Ok(()) => ShardReply::Done,
        Err(reason) => ShardReply::Failed(reason),
    };
    match request {
        ShardRequest::Apply(mutation) => {
            ShardReply::Applied(views::apply(shard, mutation, None).await)
        }
        ShardRequest::ApplyToDrive(mutation) => {
            ShardReply::Applied(shard.store.apply_to_drive(mutation).await)
        }
        ShardRequest::ApplyLate(mutation, written_at) => {
            ShardReply::Applied(views::apply(shard, mutation, Some(written_at)).await)
        }
        ShardRequest::KeepBatch(batch) => {
            ShardReply::Applied(batch_log::keep_here(shard, batch).await)
        }
        ShardRequest::ForgetBatch(id) => {
            ShardReply::Applied(batch_log::forget_here(shard, id).await)
        }
        ShardRequest::SettleViews => {
            views::settle(shard).await;
            ShardReply::Done
        }
        ShardRequest::TakeTime(past) => ShardReply::Time(views::time::lead(shard, past).await),
        ShardRequest::HoldViewWrites => done(views::hold(shard).await),
        ShardRequest::ReleaseViewWrites => {
            views::release(shard);
            ShardReply::Done
        }
        ShardRequest::FindBatches => done(batch_log::find(shard).await),
        ShardRequest::BeginBatches => done(batch_log::begin(shard).await),
        ShardRequest::LeadCounter(addition, consistency) => {
            ShardReply::Written(coordinator::lead(shard, addition, consistency).await)
        }
        ShardRequest::Read(command) => ShardReply::Read(shard.store.read(&command).await),
        ShardRequest::ReadVersions(command) => {
            ShardReply::Versions(shard.store.read_versions(&command).await)
        }
        ShardRequest::Paxos(ask) => ShardReply::Paxos(Box::new(paxos::answer(shard, *ask).await)),
        ShardRequest::Keep(statement) => {
            prepared::keep(shard, statement);
            ShardReply::Done
        }
        ShardRequest::SetSchema(schema) => done(metadata::set(shard, schema).await),
        ShardRequest::SetCluster(membership) => {
            membership::set(shard, membership);
            ShardReply::Done
        }
        ShardRequest::SetUp(up) => {
            shard.peers.set_up(up, shard.env.now());
            ShardReply::Done
        }
        ShardRequest::SetDiskUsage(known) => {
            shard.disk_usages.set(known);
            ShardReply::Done
        }
        ShardRequest::SetLocal(local) => {
            shard.set_local(local);
            ShardReply::Done
        }
        ShardRequest::Announce(event) => {
            shard.clients.announce(&event);
            ShardReply::Done
        }
        ShardRequest::Begin(local) => done(begin_shard(shard, local).await),
        ShardRequest::ChangeSchema(plan) => {
            ShardReply::SchemaChanged(metadata::change(shard, &plan).await)
        }
        ShardRequest::TruncateEverywhere(table, time) => {
            ShardReply::Written(truncate::everywhere(shard, table, time).await)
        }
        ShardRequest::Truncate(table, at) => done(truncate::on_shard(shard, table, at).await),
        ShardRequest::LinkSnapshot(table, tag) => {
            match shard.store.link_snapshot(table, &tag, true).await {
                Ok(files) => ShardReply::Linked(files),
                Err(error) => ShardReply::Failed(error.to_string()),
            }
        }
        ShardRequest::Inform(asked) => {
            ShardReply::Information(Box::new(virtual_tables::inform(shard, asked)))
        }
        ShardRequest::Indexes => ShardReply::Indexes(shard.store.indexes()),
        ShardRequest::EstimatePartitions(tables) => {
            ShardReply::PartitionEstimates(size_estimates::of_shard(shard, &tables))
        }
    }
}

/// Finishes the start of this shard, now that it knows all tables.
async fn begin_shard(shard: &Rc<Shard>, local: Arc<LocalNode>) -> Result<(), String> {
    let replayed = shard.store.replay().await;
    replayed.map_err(|error| format!("shard {}: {error}", shard.index()))?;
    // The system's tables were replayed on all shards before.
    let loaded = truncations::load(shard).await;
    loaded.map_err(|error| format!("shard {}: truncations: {error}", shard.index()))?;
    shard.set_local(local);
    Ok(())
}

/// Leads the start of the node. On shard 0.
async fn begin(shard: &Rc<Shard>) -> Result<(), StartError> {
    let system = shard.state.system.clone();
    let write = async |mutation| {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| StartError::System(error.to_string()))
    };
    for mutation in schema_to_mutations(&Schema::default(), &system, SYSTEM_SCHEMA_TIMESTAMP) {
        write(mutation).await?;
    }
    let schema = Arc::new(read_schema(shard, &system).await?);
    let everywhere = metadata::set_everywhere(shard, &schema).await;
    everywhere.map_err(StartError::System)?;
    let local = Arc::new(local_node(shard, &system).await?);
    let request = || ShardRequest::Begin(local.clone());
    let begun = shard.on_all(request, begin_shard(shard, local.clone()));
    begun.await.map_err(StartError::System)?;
    let found = batch_log::find_everywhere(shard).await;
    found.map_err(|error| StartError::System(format!("replaying logged batches: {error}")))?;
    // Its identity must be on the drive before others know it.
    save_local(shard).await?;
    let service = Rc::new(ClusterService::new(shard));
    shard.set_cluster_service(Some(service.clone()));
    let storage_port = listener::open_storage_port(shard).await?;
    neighbor::accept(shard, &service, storage_port).detach();
    membership::join(shard, &service).await?;
    save_local(shard).await?;
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    for mutation in unbuilt_mutations(&schema, now) {
        let keyspace = String::from_utf8_lossy(mutation.key().key()).into_owned();
        tracing::info!(
            "indexes and views of keyspace {keyspace} do not get what is written here: Cassandra \
             builds them anew when it opens this folder again"
        );
        write(mutation).await?;
    }
    let replayed = batch_log::begin_everywhere(shard).await;
    replayed.map_err(|error| StartError::System(format!("replaying logged batches: {error}")))?;
    let loaded = Box::pin(prepared::load(shard)).await;
    loaded.map_err(|error| StartError::System(format!("prepared statements: {error}")))?;
    views::build::look_soon(shard);
    Ok(())
}

/// Writes the row of `system.local`.
async fn save_local(shard: &Rc<Shard>) -> Result<(), StartError> {
    let Some(mutation) = local_row(shard) else {
        return Ok(());
    };
    let applied = replica::apply_to_drive(shard, mutation).await;
    applied.map_err(|error| StartError::System(error.to_string()))
}

/// The row of `system.local` as it is to be now, once the node knows who it is: later than all that it has said.
pub(crate) fn local_row(shard: &Shard) -> Option<Mutation> {
    let local = shard.local_if_known()?;
    let now = shard.local_timestamps.next(&shard.env);
    local_mutation(&shard.metadata().schema, &local, now)
}

/// Who the node is: what it was, if it has run before.
async fn local_node(shard: &Rc<Shard>, system: &Schema) -> Result<LocalNode, StartError> {
    let config = &shard.state.config;
    let table = own_table(system, "system", "local")?;
    let key = DecoratedKey::new(Bytes::from_static(b"local"));
    let saved = read_whole(shard, table.clone(), Some(key)).await?;
    shard.local_timestamps.pass_rows(&saved);
    let row = saved.first().and_then(|partition| partition.rows.first());
    let cell = |name: &str| {
        let column = table.column_named(name)?.id;
        let cell = row?.cells_of(column).first()?;
        Some(cell.value.clone())
    };
    let known = |name: &str| {
        let value = cell(name)?;
        Some(String::from_utf8_lossy(&value).into_owned()).filter(|text| !text.is_empty())
    };
    let cluster_name = known("cluster_name");
    if let (Some(saved), Some(configured)) = (&cluster_name, &config.cluster_name)
        && saved != configured
    {
        return Err(StartError::OtherCluster {
            data: config.data.clone(),
            saved: saved.clone(),
            configured: configured.clone(),
        });
    }
    let one_of = |given: &Option<String>, known: Option<String>, usual: &str| {
        given.clone().or(known).unwrap_or_else(|| usual.to_owned())
    };
    let host_id = cell("host_id").and_then(|id| Uuid::from_slice(&id).ok());
    let local = LocalNode {
        host_id: host_id.unwrap_or_else(|| metadata::random_uuid(shard)),
        cluster_name: one_of(&config.cluster_name, cluster_name, CLUSTER_NAME),
        data_center: one_of(&config.data_center, known("data_center"), DATA_CENTER),
        rack: one_of(&config.rack, known("rack"), RACK),
        rpc_address: config.address,
        rpc_port: config.port,
        listen_address: config.address,
        listen_port: config.storage_port,
        tokens: saved_tokens(&table, row),
        gossip_generation: i32::try_from(shard.env.wall_micros() / 1_000_000).unwrap_or(0),
    };
    Ok(local)
}

/// The tokens of the row of `system.local`.
fn saved_tokens(table: &Table, row: Option<&model::Row>) -> Vec<Token> {
    let column = table
        .column_named("tokens")
        .filter(|column| matches!(&column.ty, CqlType::Set { .. }));
    let (Some(column), Some(row)) = (column, row) else {
        return Vec::new();
    };
    let elements = row.cells_of(column.id).iter();
    elements
        .filter_map(|cell| cell.path.as_deref())
        .filter_map(|text| std::str::from_utf8(text).ok()?.parse().ok().map(Token))
        .collect()
}
