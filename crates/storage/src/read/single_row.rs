//! Reading one row: the most frequent read, so it takes the shortest way.
//!
//! The row is put together source by source, the latest first. Once what is known of it is later
//! than anything in the remaining sstables, and complete, they need not be read
//! (`SinglePartitionReadCommand.queryMemtableAndSSTablesInTimestampOrder`).

use std::rc::Rc;

use model::{
    BoundKind, Clustering, ColumnId, ColumnKind, DecoratedKey, DeletionTime, Row, Slice, Table,
    murmur3_x64_128,
};

use super::page::PageBuilder;
use super::{Reading, count};
use crate::memtable::MemPartition;
use crate::sstable::{ColumnSelection, SSTable, SSTableError};
use crate::{PartitionHead, Unfiltered};

/// The row that slices select, if it is one; then also all columns must be of one cell and none of
/// them static.
pub(super) fn single_row(
    slices: &[Slice],
    columns: &[ColumnId],
    table: &Table,
) -> Option<Clustering> {
    let [slice] = slices else {
        return None;
    };
    let simple = |id: &ColumnId| {
        let column = table.column(*id);
        column.is_none_or(|c| c.kind == ColumnKind::Regular && !c.ty.is_multi_cell())
    };
    if !columns.iter().all(simple) {
        return None;
    }
    let full = table.clustering_key().len();
    if full == 0 {
        return Some(Clustering::EMPTY);
    }
    let one = slice.start.prefix == slice.end.prefix
        && slice.start.prefix.0.len() == full
        && slice.start.kind == BoundKind::InclusiveStart
        && slice.end.kind == BoundKind::InclusiveEnd;
    one.then(|| slice.start.prefix.clone())
}

/// What is known of a row so far.
struct Known {
    row: Row,
    /// The deletion of the partition.
    partition: DeletionTime,
    /// The deletion of a range with the row in it.
    range: DeletionTime,
    found: bool,
}

impl Known {
    /// What covers the row from around it.
    fn around(&self) -> DeletionTime {
        self.partition.merge(self.range)
    }

    fn add_memory(&mut self, partition: &MemPartition, table: &Table) {
        self.found = true;
        let comparator = table.comparator();
        self.partition = self.partition.merge(partition.deletion);
        let clustering = &self.row.clustering;
        if !partition.tombstones.is_empty() {
            let covering = partition.tombstones.covering(comparator, clustering);
            self.range = self.range.merge(covering);
        }
        let (place, found) = partition
            .rows
            .search(|row| comparator.compare(&row.clustering, clustering));
        if found && let Some(row) = partition.rows.get(place) {
            self.add_row(Row::clone(row), table);
        }
    }

    fn add_row(&mut self, row: Row, table: &Table) {
        if self.row.is_empty() {
            self.row = row;
        } else {
            self.row.merge(row, table);
        }
    }

    /// Can nothing written at or before `timestamp` change what a reader of `columns` sees?
    fn is_settled(&self, timestamp: i64, columns: &[ColumnId], now_seconds: u32) -> bool {
        if self.around().deletes(timestamp) || self.row.deletion.deletes(timestamp) {
            return true;
        }
        let liveness = &self.row.liveness;
        let later = |column: &ColumnId| {
            let cells = self.row.cells_of(*column);
            cells.first().is_some_and(|cell| cell.timestamp > timestamp)
        };
        liveness.timestamp > timestamp
            && liveness.is_live(now_seconds)
            && !self.around().deletes(liveness.timestamp)
            && columns.iter().all(later)
    }
}

impl<'r> Reading<'r> {
    /// Reads one row of a partition into the page.
    pub(super) async fn single_row(
        &self,
        key: &DecoratedKey,
        clustering: Clustering,
        slices: &Rc<[Slice]>,
        page: &mut PageBuilder<'r>,
    ) -> Result<(), SSTableError> {
        let view = self.view;
        let table = &view.table;
        let mut known = Known {
            row: Row::new(clustering),
            partition: DeletionTime::LIVE,
            range: DeletionTime::LIVE,
            found: false,
        };
        for memtable in &view.memtables {
            if let Some(partition) = memtable.get(key) {
                known.add_memory(&partition, table);
            }
        }
        let hash = murmur3_x64_128(key.key());
        for sstable in view.sstables.iter() {
            let latest = sstable.stats().max_timestamp;
            let settled = known.is_settled(latest, &self.columns, self.command.now_seconds);
            if settled || !sstable.may_contain(key, hash) || !sstable.may_contain_slices(slices) {
                count(&self.counters.skipped);
                continue;
            }
            Box::pin(self.add_file(sstable, (key, hash), slices, &mut known)).await?;
        }
        if !known.found {
            return Ok(());
        }
        let around = known.around();
        known.row.shadow_by(around);
        let head = PartitionHead {
            key: key.clone(),
            deletion: known.partition,
            static_row: None,
        };
        if page.begin(&head, None, table) && !known.row.is_empty() {
            page.row(known.row);
        }
        Ok(())
    }

    async fn add_file(
        &self,
        sstable: &SSTable,
        key: (&DecoratedKey, [i64; 2]),
        slices: &Rc<[Slice]>,
        known: &mut Known,
    ) -> Result<(), SSTableError> {
        let columns = ColumnSelection::Values(self.columns.clone());
        let Some(mut reader) = sstable.get(key, slices.clone(), false, &columns).await? else {
            count(&self.counters.in_vain);
            return Ok(());
        };
        count(&self.counters.found);
        count(&self.found);
        known.found = true;
        known.partition = known.partition.merge(reader.head().deletion);
        while let Some(item) = reader.next().await? {
            match item {
                Unfiltered::Row(row) => known.add_row(row, &self.view.table),
                // Of a slice with one row in it, every deleted range is around that row.
                Unfiltered::Marker(marker) => {
                    known.range = known
                        .range
                        .merge(marker.opens.unwrap_or(DeletionTime::LIVE));
                }
            }
        }
        Ok(())
    }
}
