//! What can go wrong, by operation.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use model::TableId;

use crate::commitlog::{AppendError, ReplayError};
use crate::sstable::{Misfit, SSTableError, folder::FolderError};

/// The store, or a table of it, cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The drive refused.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
    /// The commit log cannot be replayed.
    #[error("commit log: {0}")]
    Replay(#[from] ReplayError),
    /// An sstable cannot be opened.
    #[error("sstable: {0}")]
    SSTable(#[from] SSTableError),
    /// A file of ours is damaged.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A Cassandra's commit log has writes to a table that is not served: they would go with it.
    #[error(
        "{mutations} mutations of a Cassandra's commit log are for {table}, which is not served, and \
         would be lost: start Cassandra on this folder and drain it (nodetool drain) first, or set \
         commitlog_ignore_replay_errors to start without them"
    )]
    Unserved {
        /// The keyspace and name of the table.
        table: String,
        /// How many, on this shard.
        mutations: u64,
    },
    /// Memtables could not be flushed while the commit log was replayed.
    #[error("flushing while the commit log is replayed: {0}")]
    Flush(#[from] FlushError),
}

/// A write did not happen, or nobody knows whether it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Refused: more is under way than the drive or the memory takes, or the drive is full. Nothing
    /// was written.
    #[error("shard overloaded: {0}")]
    Overloaded(Cow<'static, str>),
    /// Larger than the commit log or the memory takes. Nothing was written.
    #[error("mutation of {bytes} bytes is larger than the maximum of {limit} bytes {what}")]
    TooLarge {
        /// How large it is, in bytes.
        bytes: u64,
        /// How large it may be, in bytes.
        limit: u64,
        /// What these are the bytes of, and what to do.
        what: &'static str,
    },
    /// No sstable could hold it. Nothing was written.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// No such table here, or it is being dropped. Nothing was written.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// The commit log failed: the write may be there after a restart, or not.
    #[error("commit log: {0}")]
    CommitLog(Arc<str>),
    /// What the write changes could not be read, which materialized views need. Nothing was written.
    #[error("what there was before for materialized views: {0}")]
    Unread(Arc<str>),
    /// The store was drained. Nothing was written.
    #[error("the node is shutting down")]
    Closed,
}

impl From<AppendError> for WriteError {
    fn from(error: AppendError) -> WriteError {
        match error {
            AppendError::Overloaded => {
                WriteError::Overloaded("the commit log's drive is behind".into())
            }
            AppendError::Full(reason) => WriteError::Overloaded(reason.to_string().into()),
            AppendError::TooLarge { bytes, limit } => WriteError::TooLarge {
                bytes,
                limit,
                what: "that half a segment of the commit log has: write less at once, or raise \
                       commitlog_segment_size",
            },
            AppendError::Failed(reason) => WriteError::CommitLog(reason),
        }
    }
}

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// An sstable is damaged or cannot be read; names the file and the place.
    #[error(transparent)]
    SSTable(#[from] SSTableError),
    /// An sstable of the table could not be opened at the start: nobody knows which rows are in it.
    #[error("an sstable of the table could not be opened: {0}; repair or remove it, then restart")]
    LeftOut(Arc<SSTableError>),
    /// What is asked for is behind too many tombstones.
    #[error(
        "more than {0} tombstones were met (tombstone_failure_threshold): read less at once, or delete \
         ranges instead of rows"
    )]
    TooManyTombstones(u64),
    /// More sstables of a storage-attached index would have to be looked into than may be
    /// (`QueryReferencingTooManyIndexesException`).
    #[error(
        "an attempt to read from too many indexes ({referenced}) but max allowed is {most}; query aborted (see \
         sai_sstable_indexes_per_query_fail_threshold)"
    )]
    TooManyIndexes {
        /// How many those are.
        referenced: u64,
        /// How many may be.
        most: u64,
    },
    /// The index that would have to be asked is not built yet (`IndexNotAvailableException`).
    #[error("The secondary index '{0}' is not yet available")]
    IndexNotAvailable(String),
    /// The shard that has the rows takes no more reads.
    #[error("the node is shutting down")]
    Closed,
}

/// A flush, or something that needs one, failed. What was in memory still is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    /// Writing or opening the sstable failed; it is tried again in a while.
    #[error("{0}")]
    Failed(String),
    /// What is in memory cannot be written, whatever the drive does; other tables are flushed.
    #[error("{0}; restart the node: it then leaves out of the commit log what cannot be written")]
    Unwritable(String),
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// The store was closed meanwhile.
    #[error("the node is shutting down")]
    Closed,
}

/// A compaction failed. Its inputs are as they were.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// An input cannot be read.
    #[error("reading: {0}")]
    Read(#[from] SSTableError),
    /// The output cannot be written.
    #[error("writing: {0}")]
    Write(#[from] crate::sstable::WriteError),
    /// Replacing the inputs by the output failed.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
    /// The output might not fit on the drive.
    #[error(
        "{path}: a compaction needs {needed} bytes, but may only take {available} of those that are \
         free; make room, it is tried again"
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Bytes that the output may take.
        needed: u64,
        /// Bytes that are free, less what stays free and what other compactions have to write.
        available: u64,
    },
    /// Inputs cannot be removed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The table was truncated or dropped meanwhile, or the store closed.
    #[error("the table was truncated or dropped, or the node is shutting down")]
    Cancelled,
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
}

/// A truncation failed.
#[derive(Debug, thiserror::Error)]
pub enum TruncateError {
    /// No such table here.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// The drive refused. The table may be empty after a restart, or as it was.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
    /// Files cannot be removed; they are at the next start.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

#[cfg(test)]
mod tests {
    /// Errors travel from shard to shard.
    #[test]
    fn errors_can_be_sent() {
        fn is_send<T: Send + 'static>() {}
        is_send::<super::WriteError>();
        is_send::<super::ReadError>();
        is_send::<super::FlushError>();
        is_send::<super::CompactionError>();
        is_send::<super::TruncateError>();
        is_send::<super::OpenError>();
    }
}
