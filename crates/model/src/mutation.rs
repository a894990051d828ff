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

    /// Gives all that it says this time (microseconds since 1970), and deletions the one before, so
    /// that they leave alone what is written with them
    /// (`PartitionUpdate.Builder.updateAllTimestamp`).
    pub fn retime(&mut self, timestamp: i64) {
        let before = timestamp.saturating_sub(1);
        retime_deletion(&mut self.deletion, before);
        for tombstone in &mut self.range_tombstones {
            retime_deletion(&mut tombstone.deletion, before);
        }
        for row in self.static_row.iter_mut().chain(&mut self.rows) {
            if !row.liveness.is_empty() {
                row.liveness.timestamp = timestamp;
            }
            retime_deletion(&mut row.deletion, before);
            for complex in &mut row.complex_deletions {
                retime_deletion(&mut complex.deletion, before);
            }
            for cell in &mut row.cells {
                cell.timestamp = if cell.is_tombstone() {
                    before
                } else {
                    timestamp
                };
            }
        }
    }

    /// The latest time of what it writes, and of what it deletes, in microseconds since 1970.
    pub fn latest_times(&self) -> (Option<i64>, Option<i64>) {
        let rows = || self.static_row.iter().chain(&self.rows);
        let cells = |deleted| {
            let cells = rows().flat_map(|row| &row.cells);
            let wanted = cells.filter(move |cell| cell.is_tombstone() == deleted);
            wanted.map(|cell| cell.timestamp)
        };
        let live = rows().filter(|row| !row.liveness.is_empty());
        let written = live.map(|row| row.liveness.timestamp).chain(cells(false));
        let of_rows = rows().flat_map(|row| {
            let complex = row.complex_deletions.iter().map(|complex| complex.deletion);
            complex.chain([row.deletion])
        });
        let of_ranges = self.range_tombstones.iter().map(|range| range.deletion);
        let deletions = of_rows.chain(of_ranges).chain([self.deletion]);
        let deletions = deletions.filter(|deletion| !deletion.is_live());
        let deleted = deletions.map(|deletion| deletion.timestamp);
        (written.max(), deleted.chain(cells(true)).max())
    }

    /// Bytes of what it says, as Cassandra counts them to judge batches (`PartitionUpdate.dataSize`): a
    /// rule of its own, of neither memory nor files.
    pub fn data_bytes(&self) -> u64 {
        // The time of the partition's deletion is counted where there is none, too, and the static row.
        const STATIC_ROW: u64 = 21;
        let static_row = self.static_row.as_ref().map_or(STATIC_ROW, Row::data_bytes);
        let rows: u64 = self.rows.iter().map(Row::data_bytes).sum();
        let ranges = self.range_tombstones.iter().map(RangeTombstone::data_bytes);
        let ranges = match self.range_tombstones.is_empty() {
            true => 0,
            false => ranges.sum::<u64>() + 4,
        };
        8 + static_row + rows + ranges
    }

    /// Says nothing?
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live()
            && self.static_row.as_ref().is_none_or(Row::is_empty)
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }
}

fn retime_deletion(deletion: &mut DeletionTime, timestamp: i64) {
    if !deletion.is_live() {
        deletion.timestamp = timestamp;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::{
        Cell, Clustering, Column, ColumnId, ColumnKind, ComplexDeletion, CqlType, Liveness,
        NO_DELETION_TIME, NO_TTL, Order, Slice, TableOptions,
    };

    fn table() -> Arc<Table> {
        let column = |id, kind| Column {
            id: ColumnId(id),
            name: format!("c{id}").into(),
            ty: CqlType::Int,
            kind,
            position: 0,
            order: Order::Ascending,
        };
        let columns = vec![
            column(0, ColumnKind::PartitionKey),
            column(1, ColumnKind::Regular),
        ];
        let options = TableOptions::default();
        Arc::new(Table::new(uuid::Uuid::nil(), "ks", "t", columns, options))
    }

    #[test]
    fn a_new_time_keeps_what_is_written_from_what_is_deleted() {
        let deletion = |timestamp| DeletionTime {
            timestamp,
            local_deletion_time: 7,
        };
        let cell = |timestamp, ttl, local_deletion_time| Cell {
            column: ColumnId(1),
            path: None,
            timestamp,
            ttl,
            local_deletion_time,
            value: Bytes::new(),
        };
        let all = |live, deleted| {
            let mut row = Row::new(Clustering::EMPTY);
            row.liveness = Liveness {
                timestamp: live,
                ..Liveness::NONE
            };
            row.deletion = deletion(deleted);
            row.complex_deletions = vec![ComplexDeletion {
                column: ColumnId(1),
                deletion: deletion(deleted),
            }];
            row.cells = vec![
                cell(live, NO_TTL, NO_DELETION_TIME),
                cell(live, 5, 12),
                cell(deleted, NO_TTL, 7),
            ];
            let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
            let mut update = PartitionUpdate::new(table(), key);
            update.deletion = deletion(deleted);
            update.static_row = Some(row.clone());
            // What says nothing of a time keeps to that.
            update.rows = vec![row, Row::new(Clustering::EMPTY)];
            update.range_tombstones = vec![RangeTombstone {
                slice: Slice::ALL,
                deletion: deletion(deleted),
            }];
            update
        };
        let mut update = all(3, 4);
        update.retime(100);
        assert_eq!(update, all(100, 99));
        assert!(update.rows[1].is_empty());
    }
}
