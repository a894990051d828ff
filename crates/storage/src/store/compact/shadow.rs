//! What sstables that are not compacted say of a partition that is: with it, what their deletions
//! cover can be dropped (`CompactionIterator.GarbageSkipper`).
//!
//! Unlike Cassandra a deletion that the others hold just so stays: a compaction of theirs beside this
//! one may be about to drop it because it is here.

use std::rc::Rc;

use model::{
    Bound, ClusteringComparator, CqlType, DecoratedKey, DeletionTime, Row, Slice, murmur3_x64_128,
};

use super::super::Inner;
use super::super::table::TableStore;
use super::Granularity;
use crate::error::CompactionError;
use crate::merge::{Items, MergedPartition, Source};
use crate::sstable::{ColumnSelection, Descriptor};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// What others know of a partition, gone through beside it.
pub(super) struct Shadow {
    granularity: Granularity,
    comparator: ClusteringComparator,
    partition: MergedPartition,
    /// The deletion of the range that it is in.
    open: DeletionTime,
    next: Option<Unfiltered>,
    /// The deletion of the range that what it falls on is in.
    below: DeletionTime,
    /// The one that was let through there and not closed yet.
    passed: DeletionTime,
}

impl Shadow {
    /// `None`: nobody else knows of the partition.
    pub(super) async fn of(
        inner: &Inner,
        table: &Rc<TableStore>,
        inputs: &[Descriptor],
        key: &DecoratedKey,
        granularity: Granularity,
    ) -> Result<Option<Shadow>, CompactionError> {
        let schema = table.table();
        // Of counters the newer cell is not the whole truth.
        let counts = schema.columns().any(|column| column.ty == CqlType::Counter);
        let granularity = if counts {
            Granularity::Row
        } else {
            granularity
        };
        let hash = murmur3_x64_128(key.key());
        let mut sources = Vec::new();
        for other in table.sstables().iter() {
            let takes_part = inputs.contains(other.descriptor());
            let is_suspect = table.is_suspect(other.descriptor());
            if takes_part || is_suspect || !other.may_contain(key, hash) {
                continue;
            }
            let all: Rc<[Slice]> = Rc::new([Slice::ALL]);
            let found = other
                .get((key, hash), all, false, &ColumnSelection::All)
                .await?;
            sources.extend(found.map(|reader| Source::File(Box::new(reader))));
        }
        let comparator = schema.comparator().clone();
        let merged = MergedPartition::new(&inner.env, schema, sources, false);
        let Some(mut partition) = merged else {
            return Ok(None);
        };
        let next = partition.next().await?;
        Ok(Some(Shadow {
            granularity,
            comparator,
            partition,
            open: DeletionTime::LIVE,
            next,
            below: DeletionTime::LIVE,
            passed: DeletionTime::LIVE,
        }))
    }

    /// Drops what it covers of the head of the partition.
    pub(super) fn fall_on_head(&self, head: &mut PartitionHead) {
        let own = self.partition.head();
        if own.deletion.supersedes(&head.deletion) {
            head.deletion = DeletionTime::LIVE;
        }
        if let Some(row) = &mut head.static_row {
            self.cover(row, own.deletion, own.static_row.as_ref());
        }
    }

    /// Leaves in `left` what it does not cover of the next item.
    pub(super) async fn fall_on(
        &mut self,
        item: Unfiltered,
        left: &mut Vec<Unfiltered>,
    ) -> Result<(), CompactionError> {
        self.catch_up(&item, left).await?;
        match item {
            Unfiltered::Row(mut row) => {
                let same = match &self.next {
                    Some(Unfiltered::Row(other)) if other.clustering == row.clustering => {
                        Some(other)
                    }
                    _ => None,
                };
                self.cover(&mut row, self.around(), same);
                left.push(Unfiltered::Row(row));
            }
            Unfiltered::Marker(marker) => {
                if let Some(next) = &self.next
                    && let Unfiltered::Marker(other) = next
                    && self
                        .comparator
                        .compare_bounds(&other.bound, &marker.bound)
                        .is_eq()
                {
                    self.open = other.opens.unwrap_or(DeletionTime::LIVE);
                    self.next = self.partition.next().await?;
                }
                self.below = marker.opens.unwrap_or(DeletionTime::LIVE);
                left.extend(self.turn_at(marker.bound));
            }
        }
        Ok(())
    }

    /// Goes on to the place of an item. Where a deletion ends that covered a range, the range
    /// begins again.
    async fn catch_up(
        &mut self,
        item: &Unfiltered,
        left: &mut Vec<Unfiltered>,
    ) -> Result<(), CompactionError> {
        while let Some(next) = &self.next
            && next.compare(item, &self.comparator).is_lt()
        {
            if let Unfiltered::Marker(marker) = next {
                self.open = marker.opens.unwrap_or(DeletionTime::LIVE);
                // Where it begins to cover one the range goes on: it may be back before it ends.
                if self.passed.is_live() {
                    let bound = marker.bound.clone();
                    left.extend(self.turn_at(bound));
                }
            }
            self.next = self.partition.next().await?;
        }
        Ok(())
    }

    /// The marker by which the range that was let through gives way to the one that begins here,
    /// unless that is covered.
    fn turn_at(&mut self, bound: Bound) -> Option<Unfiltered> {
        let known = |deletion: DeletionTime| Some(deletion).filter(|d| !d.is_live());
        let before = known(self.passed);
        let after = known(self.below).filter(|below| !self.around().supersedes(below));
        self.passed = after.unwrap_or(DeletionTime::LIVE);
        RangeTombstoneMarker::between(bound, before, after).map(Unfiltered::Marker)
    }

    /// What covers whatever is at its place.
    fn around(&self) -> DeletionTime {
        self.partition.head().deletion.merge(self.open)
    }

    fn cover(&self, row: &mut Row, around: DeletionTime, other: Option<&Row>) {
        let deletion = other.map_or(around, |other| around.merge(other.deletion));
        let own = row.deletion;
        row.shadow_by(deletion);
        if own == deletion {
            row.deletion = own;
        }
        let Some(other) = other.filter(|_| self.granularity == Granularity::Cell) else {
            return;
        };
        if other.liveness.supersedes(&row.liveness) {
            row.liveness = model::Liveness::NONE;
        }
        row.complex_deletions
            .retain(|own| !other.complex_deletion(own.column).supersedes(&own.deletion));
        row.cells.retain(|cell| {
            let newer = other.cells_of(cell.column).iter();
            let mut newer = newer.filter(|o| o.path == cell.path);
            !other.complex_deletion(cell.column).deletes(cell.timestamp)
                && !newer.any(|o| o.timestamp > cell.timestamp)
        });
    }
}
