//! What compactions did, until somebody takes it down (`system.compaction_history`).

use std::cell::RefCell;
use std::collections::VecDeque;

use io::Notify;

use super::super::{Inner, Store};
use super::running::{CompactionKind, Running};
use crate::sstable::SSTable;

/// How many are remembered if nobody takes them.
const MOST: usize = 1024;

/// A compaction that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRecord {
    /// Why it was done.
    pub kind: CompactionKind,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// When it was done, in microseconds since 1970.
    pub at: i64,
    /// Bytes on disk of its inputs.
    pub bytes_in: u64,
    /// Bytes on disk of its outputs.
    pub bytes_out: u64,
    /// Of how many partitions so many of the inputs knew: the number at 0 is of those that one knew.
    pub merged: Vec<u64>,
}

/// The latest compactions, the oldest first.
#[derive(Default)]
pub(crate) struct History {
    done: RefCell<VecDeque<CompactionRecord>>,
    more: Notify,
}

impl Store {
    /// Waits for compactions to be done, and gives those that it has not given yet, the oldest
    /// first. If nobody asks, the latest 1,024 are kept.
    pub async fn compactions_done(&self) -> Vec<CompactionRecord> {
        let history = &self.inner.compactions.history;
        loop {
            let done = std::mem::take(&mut *history.done.borrow_mut());
            if !done.is_empty() {
                return done.into();
            }
            history.more.notified().await;
        }
    }
}

impl Inner {
    /// Remembers a compaction.
    pub(super) fn remember(
        &self,
        running: &Running,
        (keyspace, table): (&str, &str),
        (inputs, outputs): (&[SSTable], &[SSTable]),
    ) {
        let bytes = |sstables: &[SSTable]| sstables.iter().map(SSTable::disk_size).sum();
        let record = CompactionRecord {
            kind: running.kind(),
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            at: self.env.wall_micros(),
            bytes_in: bytes(inputs),
            bytes_out: bytes(outputs),
            merged: running.merged(),
        };
        let mut done = self.compactions.history.done.borrow_mut();
        done.push_back(record);
        if done.len() > MOST {
            done.pop_front();
        }
        self.compactions.history.more.notify_one();
    }
}
