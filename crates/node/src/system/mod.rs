//! The system keyspaces: what is in them, and how schema is kept in them.
//!
//! Their definitions are CQL of this folder, compiled when the node starts. The rows of
//! `system_schema` are the durable truth of the schema: [`schema_to_mutations`] writes what
//! changed, [`schema_from_rows`] reads all of it back, also as Cassandra wrote it. The tables of
//! the virtual keyspaces are made on the fly by [`virtual_rows`].

mod batches;
mod built;
mod definitions;
mod estimates;
mod functions_read;
#[cfg(test)]
mod golden_tests;
mod history;
mod local;
mod masks_read;
mod node_info;
mod paxos;
mod peers;
mod prepared;
mod rows;
mod schema_read;
mod schema_write;
mod traces;
mod truncated;
mod unserved_read;
#[cfg(test)]
mod unserved_tests;
#[cfg(test)]
mod view_tests;
mod views;
mod virtual_schema;
mod virtual_tables;

pub(crate) use batches::{
    SavedBatch, batch_mutation, forget_mutation, saved_batch, time_of, time_uuid,
};
pub(crate) use built::{IndexName, built_mutations, unbuilt_mutations};
pub use definitions::system_keyspaces;
pub(crate) use estimates::{KeyspaceEstimates, RangeEstimate, estimates_mutations};
pub use history::PastCompaction;
pub(crate) use history::{history_mutation, past_compaction};
pub use local::{
    CQL_VERSION, LocalNode, NATIVE_PROTOCOL_VERSION, PARTITIONER, RELEASE_VERSION, local_mutation,
};
pub use node_info::{
    CacheInfo, ClientInfo, Latencies, NodeInfo, Spread, SstableTask, TableInfo, ThreadPoolInfo,
};
pub(crate) use paxos::{SavedProposal, paxos_read, paxos_update, saved_paxos};
pub(crate) use peers::{PeerRow, peer_mutations, saved_peers};
pub(crate) use prepared::{
    SavedStatement, prepared_mutation, saved_statement, unprepared_mutation,
};
pub use schema_read::{SCHEMA_TABLES, SchemaProblem, schema_from_rows};
pub use schema_write::{SYSTEM_SCHEMA_TIMESTAMP, schema_to_mutations};
pub(crate) use traces::{TracedEvents, TracedSession};
pub(crate) use truncated::{SavedTruncation, saved_truncations, truncation_mutation};
pub(crate) use views::{
    BuildProgress, build_status_mutation, builds_in_progress, built_mutation, built_views,
    forget_view_mutation, progress_mutation,
};
pub use virtual_tables::virtual_rows;
