//! The commit log: what makes an acknowledged write survive.
//!
//! `DIR/commitlog` holds the segments of all shards. [`format`] says what is in a file,
//! [`record`] what a group's payload is, and [`logged`] what becomes a record; [`log`] appends and lets go, [`writer`] brings groups to
//! the drive, into the files that [`segment_file`] makes, [`release`] removes segments, [`replay`]
//! reads them at start, and [`truncation`] keeps what replay must not bring back. [`window`] is the
//! part of a file that a replay has in memory. [`cassandra`] reads what a Cassandra left. [`single`]
//! is a mutation outside of a log.

mod archive;
mod cassandra;
mod format;
mod log;
mod logged;
mod record;
mod release;
mod replay;
mod segment_file;
mod single;
mod state;
mod truncation;
mod window;
mod writer;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use cassandra::{CassandraReplay, Covered};
pub(crate) use format::{Position, SegmentName};
pub(crate) use log::{CommitLog, Ticket};
pub(crate) use release::SPARE_EXTENSION;
pub(crate) use replay::{Replay, ReplayedGroup};
pub(crate) use state::max_timestamp;
pub(crate) use truncation::{Truncation, Truncations};

use crate::sstable::CommitLogPosition;

pub use archive::{Archive, SEGMENT_HEAD, is_commitlog_file, segment_name};
pub use cassandra::count_mutations as count_cassandra_mutations;
pub use record::RecordError;
pub use replay::ReplayError;
pub use single::{decode_mutation, encode_mutation};

/// When a write is acknowledged: `commitlog_sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitlogSync {
    /// When the drive has it; all writes that wait meanwhile go together. The default.
    Group,
    /// When the operating system has it; the drive has it at most this much later. A crash of the
    /// process loses nothing, one of the machine what was acknowledged since the last sync.
    Periodic {
        /// `commitlog_sync_period`.
        every: Duration,
        /// `periodic_commitlog_sync_lag_block`: when the drive is this far behind, writes wait for
        /// it. Cassandra's is one and a half periods.
        lag_block: Duration,
    },
    /// When the drive has it. With one group in flight there is nothing left to wait for, so this
    /// is the same as `Group` without a window.
    Batch,
}

impl CommitlogSync {
    /// Is each group on the drive before its writes are acknowledged?
    pub(crate) fn syncs_each_group(self) -> bool {
        match self {
            CommitlogSync::Group | CommitlogSync::Batch => true,
            CommitlogSync::Periodic { .. } => false,
        }
    }
}

/// How a commit log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLogConfig {
    /// When a write is acknowledged.
    pub sync: CommitlogSync,
    /// With [`CommitlogSync::Group`], how long the drive rests between two groups at least
    /// (`commitlog_sync_group_window`). None is best for latency and mostly for throughput, as
    /// groups grow by themselves while the drive is busy.
    pub group_window: Duration,
    /// Bytes of a segment's file (`commitlog_segment_size`); half of it is the largest mutation.
    pub segment_bytes: u64,
    /// Bytes of all segments of this shard beyond which memtables are flushed to free the oldest
    /// (`commitlog_total_space`, as a share of a shard).
    pub total_bytes: u64,
    /// Bytes under way to the drive beyond which writes are refused.
    pub pending_bytes: usize,
    /// Is damage passed over at replay (`cassandra.commitlog.ignorereplayerrors`)? What cannot be
    /// read is lost then.
    pub ignore_replay_errors: bool,
    /// Mutations with a later timestamp, in the unit of timestamps, are not replayed
    /// (`restore_point_in_time`).
    pub restore_until: i64,
    /// The same point in time in microseconds since 1970, whatever the unit of timestamps: what was
    /// truncated later is replayed.
    pub restore_point: i64,
    /// Up to here, and no further, the sstables have what is in the log of the Cassandra that left it
    /// (`snapshot_commitlog_position`); `None`: they say it themselves.
    pub snapshot_position: Option<CommitLogPosition>,
    /// Is the page cache bypassed where the file system can (`commitlog_disk_access_mode`)?
    pub direct: bool,
}

impl Default for CommitLogConfig {
    fn default() -> CommitLogConfig {
        CommitLogConfig {
            sync: CommitlogSync::Group,
            group_window: Duration::ZERO,
            segment_bytes: 32 << 20,
            total_bytes: 1 << 30,
            pending_bytes: 32 << 20,
            ignore_replay_errors: false,
            restore_until: i64::MAX,
            restore_point: i64::MAX,
            snapshot_position: None,
            direct: true,
        }
    }
}

/// Why a mutation is not in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendError {
    /// Too much is under way to the drive.
    #[error("the commit log's drive is behind")]
    Overloaded,
    /// There is no room for the next segment.
    #[error("{0}")]
    Full(Arc<str>),
    /// The mutation is larger than the log takes.
    #[error("a mutation of {bytes} bytes is larger than {limit} bytes, half a commit-log segment")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// The log has failed for good.
    #[error("{0}")]
    Failed(Arc<str>),
}

/// Durations, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Latency {
    /// One more.
    pub(crate) fn add(&mut self, duration: Duration) {
        self.count += 1;
        self.sum += duration;
        self.max = self.max.max(duration);
    }
}

/// Counters of a shard's commit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Segments that are there.
    pub segments: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Records that the drive does not have yet.
    pub pending_records: u64,
    /// Bytes on their way to the drive.
    pub pending_bytes: u64,
    /// Records appended since the start.
    pub records: u64,
    /// Groups written since the start.
    pub groups: u64,
    /// Bytes written since the start, padding included.
    pub written_bytes: u64,
    /// Syncs since the start.
    pub syncs: u64,
    /// How long a group took to be written and synced.
    pub group_latency: Latency,
}
