//! What sstables that are not compacted say of a partition that is: with it, what their deletions
//! cover can be dropped (`CompactionIterator.GarbageSkipper`).

use std::rc::Rc;

use model::{
    ClusteringComparator, CqlType, DecoratedKey, DeletionTime, Row, Slice, murmur3_x64_128,
};

use super::super::Inner;
use super::super::table::TableStore;
use super::Granularity;
use crate::error::CompactionError;
use crate::merge::{MergedPartition, Source};
use crate::sstable::{ColumnSelection, Descriptor};
use crate::{PartitionHead, Unfiltered};

/// What others know of a partition, gone through beside it.
pub(super) struct Shadow {
    granularity: Granularity,
    comparator: ClusteringComparator,
    partition: MergedPartition,
    /// The deletion of the range that it is in.
    open: DeletionTime,
    next: Option<Unfiltered>,
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
        }))
    }

    /// Drops what it covers of the head of the partition.
    pub(super) fn fall_on_head(&self, head: &mut PartitionHead) {
        let own = self.partition.head();
        if !head.deletion.supersedes(&own.deletion) {
            head.deletion = DeletionTime::LIVE;
        }
        if let Some(row) = &mut head.static_row {
            self.cover(row, own.deletion, own.static_row.as_ref());
        }
    }

    /// Drops what it covers of the next row.
    pub(super) async fn fall_on(&mut self, row: &mut Row) -> Result<(), CompactionError> {
        loop {
            let behind = match &self.next {
                Some(Unfiltered::Row(other)) => {
                    let order = self.comparator.compare(&other.clustering, &row.clustering);
                    order.is_lt()
                }
                Some(Unfiltered::Marker(marker)) => {
                    let at = self
                        .comparator
                        .compare_to_bound(&row.clustering, &marker.bound);
                    at.is_gt()
                }
                None => false,
            };
            if !behind {
                break;
            }
            if let Some(Unfiltered::Marker(marker)) = &self.next {
                self.open = marker.opens.unwrap_or(DeletionTime::LIVE);
            }
            self.next = self.partition.next().await?;
        }
        let same = match &self.next {
            Some(Unfiltered::Row(other)) if other.clustering == row.clustering => Some(other),
            _ => None,
        };
        let around = self.partition.head().deletion.merge(self.open);
        self.cover(row, around, same);
        Ok(())
    }

    fn cover(&self, row: &mut Row, around: DeletionTime, other: Option<&Row>) {
        let deletion = other.map_or(around, |other| around.merge(other.deletion));
        row.shadow_by(deletion);
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
