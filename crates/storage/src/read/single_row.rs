//! Reading one row: the most frequent read, so it takes the shortest way.
//!
//! The row is put together source by source, the latest first. Once what is known of it is later
//! than anything in the remaining sstables, and complete, they need not be read
//! (`SinglePartitionReadCommand.queryMemtableAndSSTablesInTimestampOrder`).

use std::rc::Rc;

use model::{
    BoundKind, Clustering, ColumnId, ColumnKind, CqlType, DecoratedKey, DeletionTime, NO_TIMESTAMP,
    Row, Slice, Table, murmur3_x64_128,
};

use super::cached::{Start, is_same_place};
use super::page::PageBuilder;
use super::{Reading, View, count};
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
        // Of a counter every source has a part: none is known from the latest alone.
        let is_one_cell = |ty: &CqlType| !ty.is_multi_cell() && *ty != CqlType::Counter;
        column.is_none_or(|c| c.kind == ColumnKind::Regular && is_one_cell(&c.ty))
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
pub(super) struct Known {
    pub(super) row: Row,
    /// The deletion of the partition.
    pub(super) partition: DeletionTime,
    /// The deletion of a range with the row in it.
    pub(super) range: DeletionTime,
    /// Does anything know of the partition?
    pub(super) found: bool,
    /// Nothing later is in the sources that were passed over as what is known is later.
    pub(super) unread: i64,
    /// Of a row that the cache knew: were there other columns, of which it knows nothing?
    pub(super) has_others: bool,
}

impl Known {
    /// Nothing yet.
    pub(super) fn new(clustering: Clustering) -> Known {
        Known {
            row: Row::new(clustering),
            partition: DeletionTime::LIVE,
            range: DeletionTime::LIVE,
            found: false,
            unread: NO_TIMESTAMP,
            has_others: false,
        }
    }

    /// What covers the row from around it.
    pub(super) fn around(&self) -> DeletionTime {
        self.partition.merge(self.range)
    }

    pub(super) fn add_memory(&mut self, partition: &MemPartition, table: &Table) {
        self.found = true;
        let comparator = table.comparator();
        self.partition = self.partition.merge(partition.deletion());
        let covering = partition.covering(comparator, &self.row.clustering);
        self.range = self.range.merge(covering);
        if let Some(row) = partition.row(comparator, &self.row.clustering) {
            self.add_row(row, table);
        }
    }

    fn add_row(&mut self, row: Row, table: &Table) {
        if self.row.is_empty() {
            self.row = row;
        } else {
            self.row.merge(row, table);
        }
    }

    /// Is it alive by its marker, with a cell of each of `columns`? Then it is later than all that was
    /// deleted around it.
    pub(super) fn is_complete(&self, columns: &[ColumnId], now_seconds: u32) -> bool {
        let (marker, around) = (&self.row.liveness, self.around());
        let has = |column: &ColumnId| {
            let cells = self.row.cells_of(*column);
            cells
                .first()
                .is_some_and(|cell| !around.deletes(cell.timestamp))
        };
        marker.is_live(now_seconds) && !around.deletes(marker.timestamp) && columns.iter().all(has)
    }

    /// Can nothing written at or before `timestamp` change what a reader of `columns` sees?
    pub(super) fn is_settled(
        &self,
        timestamp: i64,
        columns: &[ColumnId],
        now_seconds: u32,
    ) -> bool {
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
        page: &mut PageBuilder<'r>,
    ) -> Result<(), SSTableError> {
        if let Some(known) = self.known(key, clustering, |_| true).await? {
            self.show(key, known, page);
        }
        Ok(())
    }

    /// What is known of a row; `None` if nobody knows of its partition. What the cache says is taken if
    /// it is `enough`.
    pub(super) async fn known(
        &self,
        key: &DecoratedKey,
        clustering: Clustering,
        enough: impl Fn(&Known) -> bool,
    ) -> Result<Option<Known>, SSTableError> {
        let now = self.command.now_seconds;
        let mut start = self.recall(key, &clustering);
        loop {
            let wider = start.columns.clone();
            let columns = wider.as_deref().unwrap_or(&self.columns);
            let is_behind = start.covered < self.view.number;
            let files = self.found.get();
            self.add_memtables(key, &mut start);
            if is_behind {
                self.add_files(key, columns, (&mut start.known, start.covered))
                    .await?;
            }
            let recalled = start.covered > 0;
            if recalled && !(start.known.stands(columns, now) && enough(&start.known)) {
                // What the entry leaves out is needed now.
                start = Start {
                    known: Known::new(clustering.clone()),
                    covered: 0,
                    columns: start.columns,
                };
                continue;
            }
            self.count_recalled(recalled && self.found.get() == files);
            let mut known = start.known;
            if !known.found {
                return Ok(None);
            }
            let around = known.around();
            known.row.shadow_by(around);
            // What memtables alone know is found there as fast.
            let worth_keeping = recalled || self.found.get() > files;
            if is_behind && worth_keeping && is_same_place(&known.row, &clustering) {
                self.keep(key, (&known, recalled), columns);
            }
            return Ok(Some(known));
        }
    }

    fn show(&self, key: &DecoratedKey, known: Known, page: &mut PageBuilder<'r>) {
        let head = PartitionHead {
            key: key.clone(),
            deletion: known.partition,
            static_row: None,
        };
        if page.begin(&head, None, &self.view.table) && !known.row.is_empty() {
            page.row(known.row);
        }
    }

    /// Takes in what memtables know that is not known yet.
    fn add_memtables(&self, key: &DecoratedKey, start: &mut Start) {
        for memtable in &self.view.memtables {
            if !View::is_covered(memtable, start.covered)
                && let Some(partition) = memtable.get(key)
            {
                partition.note_asked();
                start.known.add_memory(&partition, &self.view.table);
            }
        }
    }

    /// Takes in what sstables know that is not known yet, but for those that cannot change it.
    async fn add_files(
        &self,
        key: &DecoratedKey,
        columns: &[ColumnId],
        (known, covered): (&mut Known, u64),
    ) -> Result<(), SSTableError> {
        if self.view.sstables.is_empty() {
            return Ok(());
        }
        let slices: Rc<[Slice]> = self.command.clustering.slices.as_slice().into();
        let selection = ColumnSelection::Values(columns.into());
        let hash = murmur3_x64_128(key.key());
        for sstable in self.view.sstables.iter() {
            if View::is_file_covered(sstable, covered) {
                continue;
            }
            if !sstable.may_contain(key, hash) || !sstable.may_contain_slices(&slices) {
                count(&self.counters.skipped);
                continue;
            }
            let latest = sstable.stats().max_timestamp;
            if known.is_settled(latest, columns, self.command.now_seconds) {
                known.unread = known.unread.max(latest);
                count(&self.counters.skipped);
                continue;
            }
            Box::pin(self.add_file(sstable, (key, hash), (&slices, &selection), known)).await?;
        }
        Ok(())
    }

    async fn add_file(
        &self,
        sstable: &SSTable,
        key: (&DecoratedKey, [i64; 2]),
        (slices, columns): (&Rc<[Slice]>, &ColumnSelection),
        known: &mut Known,
    ) -> Result<(), SSTableError> {
        let Some(mut reader) = sstable.get(key, slices.clone(), false, columns).await? else {
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
