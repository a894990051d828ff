//! Gathers what `Statistics.db` says while an sstable is written
//! (`org.apache.cassandra.io.sstable.metadata.MetadataCollector`).

use std::cmp::Ordering;

use model::{
    Bound, BoundKind, CellRef, Clustering, ClusteringComparator, DeletionTime, NO_DELETION_TIME,
    NO_TIMESTAMP, NO_TTL, Row, Slice,
};

use super::cardinality::Cardinality;
use super::histogram::EstimatedHistogram;
use super::tombstones::TombstoneHistogramBuilder;
use super::{CELL_HISTOGRAM_BUCKETS, PARTITION_HISTOGRAM_BUCKETS, Stats};
use crate::sstable::row_parts::RowParts;
use crate::{PartitionHead, RangeTombstoneMarker};

/// Smallest and largest of what was seen.
#[derive(Clone, Copy, Debug)]
struct Range<T>(Option<(T, T)>);

impl<T: Ord + Copy> Range<T> {
    fn update(&mut self, value: T) {
        self.0 = Some(match self.0 {
            None => (value, value),
            Some((low, high)) => (low.min(value), high.max(value)),
        });
    }
}

/// The statistics of an sstable in the making.
pub(crate) struct Collector {
    comparator: ClusteringComparator,
    partition_sizes: EstimatedHistogram,
    cells_per_partition: EstimatedHistogram,
    timestamps: Range<i64>,
    local_deletion_times: Range<u32>,
    ttls: Range<i32>,
    drop_times: TombstoneHistogramBuilder,
    cardinality: Cardinality,
    first: Option<Bound>,
    last: Option<Bound>,
    has_partition_deletions: bool,
    cells_in_partition: i64,
    tombstones_in_partition: u64,
    /// As of when cells have expired, in seconds since 1970.
    now: u32,
    columns_set: i64,
    rows: i64,
}

impl Collector {
    /// `now`, in seconds since 1970: what has expired by then counts among the tombstones of a partition.
    pub(crate) fn new(comparator: ClusteringComparator, now: u32) -> Collector {
        Collector {
            comparator,
            partition_sizes: EstimatedHistogram::new(PARTITION_HISTOGRAM_BUCKETS),
            cells_per_partition: EstimatedHistogram::new(CELL_HISTOGRAM_BUCKETS),
            timestamps: Range(None),
            local_deletion_times: Range(None),
            ttls: Range(None),
            drop_times: TombstoneHistogramBuilder::default(),
            cardinality: Cardinality::default(),
            first: None,
            last: None,
            has_partition_deletions: false,
            cells_in_partition: 0,
            tombstones_in_partition: 0,
            now,
            columns_set: 0,
            rows: 0,
        }
    }

    pub(crate) fn begin_partition(&mut self, head: &PartitionHead) {
        self.has_partition_deletions |= !head.deletion.is_live();
        self.deletion(&head.deletion);
        if let Some(row) = head.static_row.as_ref().filter(|r| !r.is_empty()) {
            self.content(row, row.cell_refs());
        }
    }

    /// Takes in a row of which `head` has everything but the cells; gives its parts, which are found on the way.
    pub(in crate::sstable) fn row<'r, C: Iterator<Item = CellRef<'r>> + Clone>(
        &mut self,
        head: &'r Row,
        cells: C,
    ) -> RowParts<'r, C> {
        self.clustering(&head.clustering);
        self.content(head, cells)
    }

    /// Takes in a marker.
    pub(crate) fn marker(&mut self, marker: &RangeTombstoneMarker) {
        for deletion in [marker.closes, marker.opens].into_iter().flatten() {
            self.deletion(&deletion);
        }
        // What opens here closes later and the other way round, so each matters on one side only.
        if let Some(start) = marker.start_bound() {
            self.widen_first(start);
        }
        if let Some(end) = marker.end_bound() {
            self.widen_last(end);
        }
    }

    /// How many tombstones the partition has so far: deletions, and cells and rows' own times that are deleted
    /// or have expired (`MetadataCollector.totalTombstones`).
    pub(crate) fn tombstones_in_partition(&self) -> u64 {
        self.tombstones_in_partition
    }

    pub(crate) fn end_partition(&mut self, key: &[u8], size: u64) {
        self.partition_sizes.add(size as i64);
        self.cells_per_partition.add(self.cells_in_partition);
        self.cells_in_partition = 0;
        self.tombstones_in_partition = 0;
        self.cardinality.add(key);
    }

    /// Rows come in order within a partition, so one comparison is enough for most.
    fn clustering(&mut self, clustering: &Clustering) {
        let at = |kind| {
            Some(Bound {
                prefix: clustering.clone(),
                kind,
            })
        };
        let beyond = |bound: &Option<Bound>, order| {
            bound
                .as_ref()
                .is_none_or(|b| self.comparator.compare_to_bound(clustering, b) == order)
        };
        if beyond(&self.last, Ordering::Greater) {
            self.last = at(BoundKind::InclusiveEnd);
            if self.first.is_none() {
                self.first = at(BoundKind::InclusiveStart);
            }
        } else if beyond(&self.first, Ordering::Less) {
            self.first = at(BoundKind::InclusiveStart);
        }
    }

    fn widen_first(&mut self, start: Bound) {
        let wider = self
            .first
            .as_ref()
            .is_none_or(|f| self.comparator.compare_bounds(&start, f) == Ordering::Less);
        if wider {
            self.first = Some(start);
        }
    }

    fn widen_last(&mut self, end: Bound) {
        let wider = self
            .last
            .as_ref()
            .is_none_or(|l| self.comparator.compare_bounds(&end, l) == Ordering::Greater);
        if wider {
            self.last = Some(end);
        }
    }

    fn content<'r, C: Iterator<Item = CellRef<'r>> + Clone>(
        &mut self,
        head: &'r Row,
        cells: C,
    ) -> RowParts<'r, C> {
        self.rows += 1;
        let liveness = &head.liveness;
        let mut before = (liveness.timestamp, liveness.ttl, liveness.expires_at);
        if !liveness.is_empty() {
            self.times(before.0, before.1, before.2);
        }
        self.deletion(&head.deletion);
        for complex in &head.complex_deletions {
            self.deletion(&complex.deletion);
        }
        let parts = RowParts::new(head, cells, |cell| {
            let times = (cell.timestamp, cell.ttl, cell.local_deletion_time);
            // Most cells are as old as the one before, and those that stay say no more then.
            if times != before || cell.local_deletion_time != NO_DELETION_TIME {
                self.times(times.0, times.1, times.2);
                before = times;
            }
        });
        let (cells, columns) = parts.counts();
        self.columns_set += columns as i64;
        self.cells_in_partition += cells as i64;
        parts
    }

    fn deletion(&mut self, deletion: &DeletionTime) {
        if !deletion.is_live() {
            self.timestamps.update(deletion.timestamp);
            self.local(deletion.local_deletion_time);
            self.tombstones_in_partition += 1;
        }
    }

    fn times(&mut self, timestamp: i64, ttl: i32, local_deletion_time: u32) {
        self.timestamps.update(timestamp);
        self.ttls.update(ttl);
        self.local(local_deletion_time);
        let dies = local_deletion_time != NO_DELETION_TIME;
        if dies && (ttl == NO_TTL || local_deletion_time <= self.now) {
            self.tombstones_in_partition += 1;
        }
    }

    fn local(&mut self, local_deletion_time: u32) {
        self.local_deletion_times.update(local_deletion_time);
        if local_deletion_time != NO_DELETION_TIME {
            self.drop_times.add(local_deletion_time);
        }
    }

    /// The statistics and the bytes of the cardinality. What the collector cannot know (level,
    /// compression, repair, host) has its default.
    pub(crate) fn finish(mut self) -> (Stats, Vec<u8>) {
        let cardinality = self.cardinality.encode();
        let (min_timestamp, max_timestamp) = self.timestamps.0.unwrap_or((NO_TIMESTAMP, i64::MAX));
        let (min_local_deletion_time, max_local_deletion_time) = self
            .local_deletion_times
            .0
            .unwrap_or((NO_DELETION_TIME, NO_DELETION_TIME));
        let (min_ttl, max_ttl) = self.ttls.0.unwrap_or((NO_TTL, NO_TTL));
        let stats = Stats {
            partition_sizes: self.partition_sizes,
            cells_per_partition: self.cells_per_partition,
            min_timestamp,
            max_timestamp,
            min_local_deletion_time,
            max_local_deletion_time,
            min_ttl,
            max_ttl,
            drop_times: self.drop_times.finish(),
            // Without rows: from the end of all of them to their beginning, as Cassandra has it.
            covered: Some(Slice {
                start: self.first.unwrap_or(Bound {
                    prefix: Clustering::EMPTY,
                    kind: BoundKind::ExclusiveStart,
                }),
                end: self.last.unwrap_or(Bound {
                    prefix: Clustering::EMPTY,
                    kind: BoundKind::ExclusiveEnd,
                }),
            }),
            has_partition_deletions: self.has_partition_deletions,
            columns_set: self.columns_set,
            rows: self.rows,
            ..Stats::default()
        };
        (stats, cardinality)
    }
}

#[cfg(test)]
mod tests {
    use model::{Order, PartitionUpdate, Table};

    use super::*;
    use crate::Unfiltered;
    use crate::sstable::stream::items;
    use crate::testing::{Saying, table, update};

    /// How many tombstones a partition has at `now`, as Cassandra 5.0.6 counts them.
    fn tombstones(table: &Table, update: &PartitionUpdate, now: u32) -> u64 {
        let mut collector = Collector::new(table.comparator().clone(), now);
        collector.begin_partition(&PartitionHead {
            key: update.key.clone(),
            deletion: update.deletion,
            static_row: update.static_row.clone(),
        });
        for item in items(update) {
            match &item {
                Unfiltered::Row(row) => drop(collector.row(row, row.cell_refs())),
                Unfiltered::Marker(marker) => collector.marker(marker),
            }
        }
        let tombstones = collector.tombstones_in_partition();
        collector.end_partition(update.key.key(), 1);
        assert_eq!(collector.tombstones_in_partition(), 0);
        tombstones
    }

    #[test]
    fn deletions_of_all_kinds_are_tombstones() {
        let table = table(Order::Ascending);
        let count = |sayings: &[Saying]| tombstones(&table, &update(&table, sayings), 100);
        assert_eq!(
            count(&[Saying::Written([1, 1], 1, 1), Saying::Static(1, 1)]),
            0
        );
        assert_eq!(count(&[Saying::Marked([1, 1], 1)]), 0);
        assert_eq!(count(&[Saying::Partition(5)]), 1);
        let rows = [1, 2, 3].map(|row| Saying::Deleted([row, 1], 5));
        assert_eq!(count(&rows), 3);
        // Each end of a range, as there is a marker for each.
        let range = |n: u8| {
            let value = bytes::Bytes::copy_from_slice(&u32::from(n).to_be_bytes());
            let prefix = Clustering([value].into_iter().collect());
            Saying::Range(Slice::of_prefix(prefix), 5)
        };
        assert_eq!(count(&[range(1), range(4)]), 4);
    }

    #[test]
    fn what_has_expired_is_a_tombstone() {
        let table = table(Order::Ascending);
        let mut update = update(&table, &[Saying::Written([1, 1], 1, 1)]);
        let row = &mut update.rows[0];
        row.cells[0].ttl = 10;
        row.cells[0].local_deletion_time = 50;
        row.liveness = model::Liveness {
            timestamp: 1,
            ttl: 10,
            expires_at: 50,
        };
        assert_eq!(tombstones(&table, &update, 49), 0);
        assert_eq!(tombstones(&table, &update, 50), 2);
        let cell = &mut update.rows[0].cells[0];
        cell.ttl = NO_TTL;
        assert_eq!(tombstones(&table, &update, 49), 1, "it was deleted");
    }
}
