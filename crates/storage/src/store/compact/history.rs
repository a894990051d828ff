//! What compactions did: the latest of a shard since its start, for `nodetool compactionhistory`.

use std::cell::RefCell;
use std::collections::VecDeque;

use uuid::Uuid;

use super::super::{Inner, Store};
use super::running::CompactionKind;
use crate::sstable::SSTable;

/// How many are remembered.
const MOST: usize = 1024;

/// A compaction that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRecord {
    /// Its identity.
    pub id: Uuid,
    /// Why it was done.
    pub kind: CompactionKind,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// When it was done, in milliseconds since 1970.
    pub at: i64,
    /// Bytes on disk of its inputs.
    pub bytes_in: u64,
    /// Bytes on disk of its outputs.
    pub bytes_out: u64,
}

/// The latest compactions, the oldest first.
#[derive(Default)]
pub(crate) struct History(RefCell<VecDeque<CompactionRecord>>);

impl Store {
    /// The latest compactions since the start, the oldest first.
    pub fn compaction_history(&self) -> Vec<CompactionRecord> {
        let history = self.inner.compactions.history.0.borrow();
        history.iter().cloned().collect()
    }
}

impl Inner {
    /// Remembers a compaction.
    pub(super) fn remember(
        &self,
        kind: CompactionKind,
        (keyspace, table): (&str, &str),
        (inputs, outputs): (&[SSTable], &[SSTable]),
    ) {
        let bytes = |sstables: &[SSTable]| sstables.iter().map(SSTable::disk_size).sum();
        let random = [self.env.random_u64(), self.env.random_u64()];
        let random = u128::from(random[0]) << 64 | u128::from(random[1]);
        let record = CompactionRecord {
            id: uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid(),
            kind,
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            at: self.env.wall_micros() / 1000,
            bytes_in: bytes(inputs),
            bytes_out: bytes(outputs),
        };
        let mut history = self.compactions.history.0.borrow_mut();
        history.push_back(record);
        if history.len() > MOST {
            history.pop_front();
        }
    }
}
