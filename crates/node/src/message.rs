//! What the shards of a node say to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::paxos::Answer;
use cluster::{Consistency, NodeId};
use cql::guardrails::DiskUsage;
use cql::schema::SchemaPlan;
use io::DetachedStream;
use model::record::message::Batch;
use model::{CounterMutation, Mutation, ReadCommand, ReadPage, Schema, TableId, VersionPage};
use storage::{CompactionStatus, IndexState, PartitionEstimate, ReadError, WriteError};
use uuid::Uuid;
use wire::internode::Hello;
use wire::{Envelope, Event, SchemaChange};

use crate::batch::BatchSizes;
use crate::error::RequestError;
use crate::execute::Answered;
use crate::internode::DetachedLink;
use crate::metadata::Membership;
use crate::paxos;
use crate::remote::Refusal;
use crate::statements::Statement;
use crate::system::{ClientInfo, LocalNode, SstableTask};
use crate::views::time::Span;
use crate::virtual_tables::Asked;
use storage::{StoreStats, TableTallies};

/// One message over the mesh.
pub(crate) enum Message {
    /// Do something and reply under the same number.
    Request {
        /// Chosen by the asking shard.
        id: u64,
        /// What.
        request: ShardRequest,
    },
    /// Answer executions of a client that were read together, of rows that the other shard owns, as far as nothing is
    /// unusual about them: reads of what is in memory, and writes. The reply has the same number.
    Answer {
        /// Chosen by the asking shard.
        id: u64,
        /// From the first on.
        envelopes: Vec<Envelope>,
    },
    /// The reply to the request of this number.
    Reply {
        /// The request's.
        id: u64,
        /// Its outcome.
        reply: ShardReply,
    },
    /// A client's connection that this shard is to serve.
    Adopt(DetachedStream),
    /// The connection of another node, whose first words have been said.
    AdoptNode(Box<(DetachedLink, Hello)>),
}

/// What one shard asks of another.
pub(crate) enum ShardRequest {
    /// Apply a write to a partition that the other shard owns.
    Apply(Mutation),
    /// The same, and have it on the drive.
    ApplyToDrive(Mutation),
    /// Lead an addition to counters of a partition that the other shard owns.
    LeadCounter(CounterMutation, Consistency),
    /// Read what the other shard owns.
    Read(Box<ReadCommand>),
    /// Say all that the other shard knows.
    ReadVersions(Box<ReadCommand>),
    /// Answer a step of Paxos about a partition that the other shard owns.
    Paxos(Box<paxos::Ask>),
    /// Apply a write of before, of that time in microseconds since 1970, but for what was truncated since.
    ApplyLate(Mutation, i64),
    /// Keep a logged batch whose id the other shard owns.
    KeepBatch(Batch),
    /// Forget it: it is done.
    ForgetBatch(Uuid),
    /// Return when no write is under way that may not know of all views there are.
    SettleViews,
    /// Take time for markers of views that reaches beyond this, in microseconds since 1970 (asked of shard 0).
    TakeTime(i64),
    /// Hold back writes of tables with views.
    HoldViewWrites,
    /// Let them go on.
    ReleaseViewWrites,
    /// Find the logged batches that it keeps.
    FindBatches,
    /// Complete the logged batches that it keeps from now on.
    BeginBatches,
    /// Keep a statement that this shard prepared.
    Keep(Arc<Statement>),
    /// Go over to a new schema.
    SetSchema(Arc<Schema>),
    /// Go over to what is known of the cluster now.
    SetCluster(Membership),
    /// These other nodes are up.
    SetUp(Arc<BTreeSet<NodeId>>),
    /// The drives of these nodes have not much room.
    SetDiskUsage(Arc<BTreeMap<NodeId, DiskUsage>>),
    /// Learn who this node is, now that it has its tokens.
    SetLocal(Arc<LocalNode>),
    /// Tell the clients of something, now that all shards know it.
    Announce(Event),
    /// Finish the replay of the commit log, now that all tables are known, and learn who the node
    /// is.
    Begin(Arc<LocalNode>),
    /// Change the schema (asked of shard 0, which does one change after the other).
    ChangeSchema(Box<SchemaPlan>),
    /// Have all nodes forget all rows of a table, in that time if there is one (asked of shard 0).
    TruncateEverywhere(TableId, Option<Duration>),
    /// Forget all rows of a table, as of that time in milliseconds since 1970.
    Truncate(TableId, i64),
    /// Link what the shard has of a table into the snapshot of this name.
    LinkSnapshot(TableId, Arc<str>),
    /// Tell what virtual tables show.
    Inform(Asked),
    /// Say which indexes are built.
    Indexes,
    /// Estimate how much the shard has of each of these tables.
    EstimatePartitions(Arc<[TableId]>),
}

/// What comes back.
pub(crate) enum ShardReply {
    /// It is done.
    Done,
    /// What became of a write.
    Applied(Result<(), WriteError>),
    /// What became of a write that this shard coordinated.
    Written(Result<(), RequestError>),
    /// The time that was taken.
    Time(Result<Span, WriteError>),
    /// What became of a read.
    Read(Result<ReadPage, ReadError>),
    /// The answers to executions, of which some may be left.
    Answered(Answered),
    /// What became of a read of all that is known.
    Versions(Result<VersionPage, ReadError>),
    /// The answer of Paxos.
    Paxos(Box<Result<Answer<VersionPage>, Refusal>>),
    /// A schema change: what clients are told of it, `None` where nothing changed.
    SchemaChanged(Result<Option<SchemaChange>, RequestError>),
    /// What virtual tables show of this shard.
    Information(Box<ShardInformation>),
    /// How much the shard has of each table that was asked for.
    PartitionEstimates(Vec<PartitionEstimate>),
    /// The indexes of the shard.
    Indexes(Vec<IndexState>),
    /// The names of the data files that were linked.
    Linked(BTreeSet<String>),
    /// Any other request that failed, and why.
    Failed(String),
}

/// What a shard knows that virtual tables show.
pub(crate) struct ShardInformation {
    /// Which one it is.
    pub(crate) index: u16,
    /// Its compactions.
    pub(crate) compactions: Vec<CompactionStatus>,
    /// Its clients.
    pub(crate) clients: Vec<ClientInfo>,
    /// Its store.
    pub(crate) store: StoreStats,
    /// Statements in its cache.
    pub(crate) prepared_statements: u64,
    /// Statements that were dropped from it.
    pub(crate) prepared_evicted: u64,
    /// Views that are being built.
    pub(crate) view_builds: Vec<SstableTask>,
    /// Executions of prepared statements, and of others.
    pub(crate) executed: (u64, u64),
    /// Requests under way, and done.
    pub(crate) requests: (u64, u64),
    /// Traces that are being written.
    pub(crate) traces: u64,
    /// Partitions of batches, if they were asked for.
    pub(crate) batches: BatchSizes,
    /// What reads and writes of tables were like, if that was asked for.
    pub(crate) tallies: Vec<TableTallies>,
    /// The indexes of its tables, if they were asked for.
    pub(crate) indexes: Vec<IndexState>,
}
