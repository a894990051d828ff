//! Commit log, memtable, sstables, compaction and the table that merges them.

mod any_bytes;
mod cache;
mod commitlog;
mod compaction;
pub mod dump;
mod error;
mod growing_table;
mod health;
mod index;
mod memtable;
mod merge;
mod read;
mod shared_files;
mod space;
pub mod sstable;
mod store;
mod tally;
#[cfg(test)]
mod testing;
mod unfiltered;
mod view;

#[doc(hidden)]
pub use any_bytes::decode_component;
pub use cache::RowCacheStats;
pub use commitlog::{
    Archive, CommitLogConfig, CommitlogSync, Latency, LogStats, RecordError, ReplayError,
    SEGMENT_HEAD, count_cassandra_mutations, decode_mutation, encode_mutation, is_commitlog_file,
    segment_name,
};
pub use error::{CompactionError, FlushError, OpenError, ReadError, TruncateError, WriteError};
pub use health::{CommitFailurePolicy, DiskFailurePolicy, FailurePolicies, Health, Verdict};
#[doc(hidden)]
pub use memtable::MeasuredMemtable;
pub use read::{
    Candidates, Named, Reconciled, Reconciliation, Step, Window, command_for_replicas,
    read_partitions,
};
pub use shared_files::SharedFiles;
pub use sstable::{
    ChunkCacheStats, Misfit, PartitionUpdateError, check_fits, decode_cassandra_mutation,
    decode_partition_update, encode_partition_update,
};
pub use store::{
    BegunWrites, CompactionKind, CompactionRecord, CompactionScope, CompactionStatus, Granularity,
    ImportError, ImportOptions, IndexSSTables, IndexState, PartitionEstimate, PlainRow, PlainRows,
    SSTableDetails, ScrubOptions, Scrubbed, SnapshotDetails, SnapshotError, SnapshotManifest,
    Store, StoreConfig, StoreStats, TableDetails, TableStats, TableTallies, VerifyOptions,
    asked_index, instant,
};
pub use unfiltered::{PartitionHead, RangeTombstoneMarker, Unfiltered, is_start, opposite};
pub use view::{Now, ViewRule, ViewUpdates, slices_touched};
