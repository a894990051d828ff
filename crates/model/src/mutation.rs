//! Writes.

use std::sync::Arc;

use crate::{DecoratedKey, DeletionTime, RangeTombstone, Row, Table};

/// What one write says about one partition of one table. Also the form in which a memtable, an
/// sstable or a replica gives a partition away whole.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionUpdate {
    /// The table, as the writer knew it: it gives the columns' ids their meaning.
    pub table: Arc<Table>,
    /// The partition.
    pub key: DecoratedKey,
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if anything is said of it.
    pub static_row: Option<Row>,
    /// Sorted by clustering, one each.
    pub rows: Vec<Row>,
    /// Sorted by start; they do not overlap.
    pub range_tombstones: Vec<RangeTombstone>,
}

impl PartitionUpdate {
    /// An update that says nothing yet.
    pub fn new(table: Arc<Table>, key: DecoratedKey) -> PartitionUpdate {
        PartitionUpdate {
            table,
            key,
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }

    /// Says nothing?
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live()
            && self.static_row.as_ref().is_none_or(Row::is_empty)
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }
}

/// All that one write says about the partitions of one key in one keyspace: the unit of
/// atomicity and isolation on a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The updates: one a table, all of the same key and keyspace; never empty.
    pub updates: Vec<PartitionUpdate>,
}

impl Mutation {
    /// The key that all updates share.
    pub fn key(&self) -> &DecoratedKey {
        &self.updates[0].key
    }
}
