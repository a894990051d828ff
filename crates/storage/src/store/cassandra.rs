//! What a stopped Cassandra left in its commit log comes to the tables.
//!
//! Which node wrote it, and which tables were truncated, Cassandra keeps in `system.local`, whose
//! sstables every shard reads for itself here: the row belongs to one shard only, and Cassandra
//! flushes it whenever one of the two changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use model::{
    Cell, ClusteringSelection, DataLimits, DecoratedKey, PartitionSelection, ReadCommand, Sharder,
    Slice, TableId,
};
use smallvec::SmallVec;

use super::Inner;
use super::table::TableStore;
use crate::commitlog::{CassandraReplay, Covered, SegmentName};
use crate::error::OpenError;
use crate::read::{ReadCounters, View};
use crate::sstable::CommitLogPosition;

/// What `system.local` says of the node that wrote the log.
#[derive(Debug, Default)]
struct LocalNode {
    /// Its host id.
    host: Option<uuid::Uuid>,
    /// Up to where in the log tables were truncated, but for what happened after the point in time to
    /// restore.
    truncated: BTreeMap<TableId, CommitLogPosition>,
}

impl Inner {
    /// Replays these segments of Cassandra's for `new` tables.
    pub(super) async fn replay_cassandra(
        &self,
        names: Vec<SegmentName>,
        new: &BTreeMap<TableId, Rc<TableStore>>,
    ) -> Result<(), OpenError> {
        if names.is_empty() {
            return Ok(());
        }
        let covered = self.covered(new).await?;
        let dir = self.config.commitlog_dir.clone();
        let ignore_errors = self.config.commitlog.ignore_replay_errors;
        let env = self.env.clone();
        let mut replay = CassandraReplay::new(env, &dir, names, covered, ignore_errors);
        let (sharder, shard) = (self.config.sharder, self.env.shard().0);
        let owns = |token| sharder.shard_of(token) == shard;
        // What a mutation says of tables that were replayed before is passed over, but must be
        // known to read on behind it.
        let find = |id: TableId| self.table(id).map(|table| table.table());
        while let Some(group) = replay.next(&owns, &find).await? {
            self.replay_group(group, new);
            self.env.maybe_yield().await;
            self.make_room().await?;
        }
        tracing::info!("shard {shard}: {}", replay.summary());
        self.check_unserved(replay.unknown())
    }

    /// What the log has for tables that were dropped may go with it; what it has for tables that only
    /// a Cassandra serves may not (views are built anew from their tables).
    fn check_unserved(&self, unknown: &BTreeMap<TableId, u64>) -> Result<(), OpenError> {
        let unserved = self.unserved.borrow();
        let lost = unknown
            .iter()
            .find_map(|(id, mutations)| Some((unserved.get(id)?.clone(), *mutations)));
        let Some((table, mutations)) = lost else {
            return Ok(());
        };
        let error = OpenError::Unserved { table, mutations };
        match self.config.commitlog.ignore_replay_errors {
            true => tracing::error!("{error}; ignored, as asked"),
            false => return Err(error),
        }
        Ok(())
    }

    /// What of the log these tables' sstables hold, and what truncations removed; or what the operator
    /// says instead, who restored both (`CommitLogReplayer.construct`).
    async fn covered(
        &self,
        tables: &BTreeMap<TableId, Rc<TableStore>>,
    ) -> Result<Covered, OpenError> {
        let mut covered = Covered::default();
        if let Some(position) = self.config.commitlog.snapshot_position {
            for id in tables.keys() {
                covered.add(*id, CommitLogPosition::NONE, position);
            }
            return Ok(covered);
        }
        let node = self.read_local_node().await?;
        for (id, position) in node.truncated {
            covered.add(id, CommitLogPosition::NONE, position);
        }
        for (id, table) in tables {
            for sstable in table.sstables().iter() {
                let stats = sstable.stats();
                if node.host.is_none() || stats.originating_host != node.host {
                    continue;
                }
                for (from, to) in &stats.commit_log_intervals {
                    covered.add(*id, *from, *to);
                }
            }
        }
        Ok(covered)
    }

    /// Reads the sstables of `system.local`, whoever owns the row.
    async fn read_local_node(&self) -> Result<LocalNode, OpenError> {
        let is_local = |table: &Rc<TableStore>| {
            let table = table.table();
            (&*table.keyspace, &*table.name) == ("system", "local")
        };
        let Some(store) = self.all_tables().into_iter().find(is_local) else {
            return Ok(LocalNode::default());
        };
        let table = store.table();
        let column = |name| table.column_named(name).map(|column| column.id);
        let (host, truncated) = (column("host_id"), column("truncated_at"));
        let view = View {
            table: table.clone(),
            memtables: SmallVec::new(),
            sstables: store.sstables(),
            owner: (Sharder::new(1), 0),
            number: 0,
            cached: None,
            most_tombstones: u64::MAX,
            index: None,
        };
        let mut columns: Vec<_> = host.into_iter().chain(truncated).collect();
        columns.sort();
        let command = ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Key(DecoratedKey::new(Bytes::from_static(b"local"))),
            clustering: ClusteringSelection {
                slices: vec![Slice::ALL],
                reversed: false,
            },
            columns,
            filters: Vec::new(),
            limits: DataLimits {
                rows: u32::MAX,
                rows_per_partition: u32::MAX,
                bytes: u32::MAX,
            },
            now_seconds: self.env.wall_seconds(),
            resume: None,
            bypass_cache: false,
            packed: false,
        };
        let counters = ReadCounters::default();
        let page = view.read(&self.env, &command, &counters).await?;
        let rows = page.partitions.iter().flat_map(|partition| &partition.rows);
        let mut node = LocalNode::default();
        for cell in rows.flat_map(|row| &row.cells) {
            if Some(cell.column) == host {
                node.host = uuid::Uuid::from_slice(&cell.value).ok();
            } else if Some(cell.column) == truncated {
                let until = self.config.commitlog.restore_point;
                let noted = truncation(cell);
                let noted = noted.filter(|(.., millis)| millis.saturating_mul(1000) <= until);
                let noted = noted.map(|(table, position, _)| (table, position));
                node.truncated.extend(noted);
            }
        }
        Ok(node)
    }
}

/// An entry of `truncated_at`: a table, and the position and time of its truncation, in milliseconds
/// since 1970 (`SystemKeyspace.truncationAsMapEntry`).
fn truncation(cell: &Cell) -> Option<(TableId, CommitLogPosition, i64)> {
    let table = TableId::from_slice(cell.path.as_ref()?).ok()?;
    let (segment, rest) = cell.value.split_first_chunk::<8>()?;
    let (position, millis) = rest.split_first_chunk::<4>()?;
    let position = CommitLogPosition {
        segment: i64::from_be_bytes(*segment),
        position: i32::from_be_bytes(*position),
    };
    Some((table, position, i64::from_be_bytes(*millis.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use model::{ColumnId, NO_DELETION_TIME, NO_TTL};

    use super::*;

    #[test]
    fn a_truncation_says_which_table_where_and_when() {
        let table = TableId::from_u128(7);
        let mut value = 1_795_258_768_842i64.to_be_bytes().to_vec();
        value.extend(4711i32.to_be_bytes());
        value.extend(1_795_258_769_000i64.to_be_bytes());
        let cell = |value: &[u8]| Cell {
            column: ColumnId(1),
            path: Some(Bytes::copy_from_slice(table.as_bytes())),
            timestamp: 1,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: Bytes::copy_from_slice(value),
        };
        let position = CommitLogPosition {
            segment: 1_795_258_768_842,
            position: 4711,
        };
        let expected = Some((table, position, 1_795_258_769_000));
        assert_eq!(truncation(&cell(&value)), expected);
        for len in 0..value.len() {
            assert_eq!(truncation(&cell(&value[..len])), None, "{len}");
        }
    }
}
