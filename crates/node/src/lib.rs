//! A node: the sessions of its clients, the coordinator, the replica with its shards, metadata,
//! and the system keyspaces.
//!
//! Every shard runs the same code ([`shard`]) on its own part of everything; shard 0 also accepts
//! connections, changes the schema and leads the start ([`start`]). Shards share nothing but
//! immutable snapshots; they talk in messages ([`message`]).

mod admin;
mod auto_snapshot;
mod batch;
mod batch_log;
mod clients;
mod compaction_history;
mod conditional;
mod config;
mod coordinator;
mod disk_usage;
mod error;
mod execute;
mod flaw;
mod functions;
mod guardrails;
mod hints;
mod indexes;
pub mod internode;
mod listener;
mod membership;
mod message;
mod metadata;
pub mod metrics;
mod neighbor;
mod node;
mod output;
mod own_tables;
mod paxos;
mod peers;
mod prepared;
pub mod raft;
mod read_warnings;
mod remote;
mod replica;
mod report;
mod request_memory;
mod response_buffers;
mod scan;
mod session;
mod shard;
mod size_estimates;
mod start;
mod statements;
mod stop;
pub mod system;
mod timeouts;
mod timestamps;
pub mod tls;
mod trace;
mod truncate;
mod truncations;
mod views;
mod virtual_tables;
mod window;

pub use admin::{
    Admin, AdminError, ClusterInformation, CompactionReport, NodeInformation, NodeState,
    NodeStatus, RECENT_MINUTES, RangeReplicas, RunningCompaction, Silence, SnapshotAge,
    SnapshotRequest, SnapshotSelection, token_range,
};
pub use config::{MetadataConfig, NodeConfig, TombstoneLimits};
pub use flaw::Flaw;
pub use hints::PendingHints;
pub use node::{
    DrainError, Node, NodeMetrics, NodeShards, NodeWatch, ProcessSnapshot, ShardSnapshot,
};
pub use report::NodeReport;
pub use start::StartError;
pub use system::PastCompaction;
pub use timeouts::TimeoutKind;
pub use views::ViewCheck;
