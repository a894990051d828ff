//! What a replica knows, for a coordinator that asks several: dead and alive, as far as another one may
//! need to learn of it (`ReadCommand.executeLocally` with `withoutPurgeableTombstones`).
//!
//! Two replicas that know the same give the same answer, however it is split over memtables and
//! sstables and whatever of it a compaction has purged: what a deletion covers is dropped, what any
//! compaction might forget by now is left out, expired cells are the tombstones that they become, and
//! deleted ranges have their one form. So answers can be compared by their digests.
//!
//! One row is read the short way, with the cache of rows ([`super::single_row`]). That may leave out older
//! sources, with deletions that matter no more: of a row that has all its cells, which is later than all
//! of them, no deletions are said; of another one all are, and if sources were left out it is read again.
//!
//! Limits count live rows, and bytes of all that is in the answer: a page of tombstones has an end, too.
//! What rows must fulfil besides their place is looked at only as far as their keys tell
//! ([`super::reconcile`] says why).

use std::borrow::Cow;
use std::rc::Rc;

use io::Env;
use model::{
    Bound, BoundKind, Clustering, ClusteringComparator, ColumnId, DecoratedKey, DeletionTime,
    NO_TIMESTAMP, Partition, PartitionBound, PartitionSelection, PartitionVersion, Purge,
    RangeTombstone, RangeTombstoneList, ReadCommand, Resume, Row, RowFilter, Slice, Table,
    VersionPage,
};

use super::filter::Filters;
use super::page::{Flow, detach_small, purge_of, rows_of};
use super::single_row::{Known, single_row};
use super::{ReadCounters, Reading, View, behind, count, slices_behind};
use crate::merge::{Items, MergedPartition, MergedScan};
use crate::sstable::SSTableError;
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

impl View {
    /// Says all that is known of what a command asks for.
    pub(crate) async fn versions(
        &self,
        env: &Env,
        command: &ReadCommand,
        counters: &ReadCounters,
    ) -> Result<VersionPage, SSTableError> {
        let filters = key_filters(command, &self.table);
        let mut page = VersionBuilder::new(command, &filters, &self.table);
        page.most_tombstones = self.most_tombstones;
        if page.is_full() {
            return Ok(page.finish(false));
        }
        let one_row = self.one_row(command);
        let (clustering, columns) = match one_row {
            Some((clustering, columns)) => (Some(clustering), Cow::Owned(columns)),
            None => (None, Cow::Borrowed(&command.columns[..])),
        };
        let reading = Reading {
            view: self,
            env,
            command,
            counters,
            found: std::cell::Cell::new(0),
            columns,
        };
        match &command.partitions {
            PartitionSelection::Key(key) => {
                count(&counters.keys);
                let resume = command.resume.as_ref().filter(|r| r.key == *key);
                let said = match clustering {
                    Some(row) => reading.version_of_row(key, row, &mut page).await?,
                    None => false,
                };
                if !said {
                    reading.version(key, resume, &mut page).await?;
                }
                counters.sstables.add(reading.found.get());
                page.page.scanned.sstables = reading.found.get();
                page.end();
                Ok(page.finish(false))
            }
            PartitionSelection::Range { start, end } => {
                count(&counters.ranges);
                page.page.scanned.sstables = self.sstables.len() as u64;
                reading.range_of_versions(start, end, page).await
            }
        }
    }
}

impl View {
    /// The row that a command asks for, if it is one that can be read the short way, and all columns of
    /// rows: what was not asked for may be what it lives by.
    fn one_row(&self, command: &ReadCommand) -> Option<(Clustering, Vec<ColumnId>)> {
        let is_key = matches!(command.partitions, PartitionSelection::Key(_));
        if !is_key || command.resume.is_some() {
            return None;
        }
        let slices = &command.clustering.slices;
        single_row(slices, &command.columns, &self.table)?;
        let columns = self.table.regular_ids();
        let row = single_row(slices, &columns, &self.table)?;
        Some((row, columns))
    }
}

/// The filters that the keys of a row decide.
fn key_filters(command: &ReadCommand, table: &Table) -> Vec<RowFilter> {
    let is_of_key = |filter: &&RowFilter| {
        let column = table.column(filter.column);
        column.is_none_or(|column| column.kind.is_key())
    };
    command.filters.iter().filter(is_of_key).cloned().collect()
}

impl Reading<'_> {
    /// What is known of one row; says whether that was enough.
    async fn version_of_row(
        &self,
        key: &DecoratedKey,
        clustering: Clustering,
        page: &mut VersionBuilder<'_>,
    ) -> Result<bool, SSTableError> {
        let now = self.command.now_seconds;
        let is_complete = |known: &Known| known.is_complete(&self.columns, now);
        // What an entry says of deletions around the row is not where they are.
        let has_all = |known: &Known| known.unread == NO_TIMESTAMP && known.around().is_live();
        let enough = |known: &Known| is_complete(known) || has_all(known);
        let Some(known) = self.known(key, clustering.clone(), enough).await? else {
            return Ok(true);
        };
        if is_complete(&known) {
            let mut row = known.row;
            row.deletion = DeletionTime::LIVE;
            page.one_row(key, (DeletionTime::LIVE, DeletionTime::LIVE), row);
            return Ok(true);
        }
        let all_read = known.unread == NO_TIMESTAMP;
        if all_read {
            page.one_row(key, (known.partition, known.range), known.row);
        }
        Ok(all_read)
    }

    /// What is known of one partition, from where the page before ended in it.
    async fn version(
        &self,
        key: &DecoratedKey,
        resume: Option<&Resume>,
        page: &mut VersionBuilder<'_>,
    ) -> Result<(), SSTableError> {
        let reversed = self.command.clustering.reversed;
        let mut slices: Rc<[Slice]> = self.command.clustering.slices.as_slice().into();
        if let Some(resume) = resume {
            let comparator = self.view.table.comparator();
            let Some(last) = behind(resume, comparator) else {
                return Ok(());
            };
            slices = slices_behind(&slices, last, reversed, comparator).into();
            if slices.is_empty() || resume.remaining_in_partition == 0 {
                return Ok(());
            }
        }
        let remaining = resume.map(|resume| resume.remaining_in_partition);
        let sources = self.sources(key, &slices, reversed).await?;
        let table = self.view.table.clone();
        let merged = MergedPartition::new(self.env, table, sources, reversed);
        let Some(mut merged) = merged else {
            return Ok(());
        };
        if !page.begin(merged.head(), remaining) || slices.is_empty() {
            return Ok(());
        }
        let mut rows = 0;
        while let Some(item) = merged.next().await? {
            self.give_way(&mut rows).await;
            if page.item(item) == Flow::More {
                continue;
            }
            // Where all that is left may be forgotten, there is nothing left.
            while let Some(item) = merged.next().await? {
                self.give_way(&mut rows).await;
                if page.knows_more(item) {
                    page.cut();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn range_of_versions(
        &self,
        start: &PartitionBound,
        end: &PartitionBound,
        mut page: VersionBuilder<'_>,
    ) -> Result<VersionPage, SSTableError> {
        let mut start = start.clone();
        if let Some(resume) = &self.command.resume {
            let (sharder, shard) = self.view.owner;
            // Every shard is asked to go on, but only one of them began this partition.
            if sharder.shard_of(resume.key.token()) == shard {
                self.version(&resume.key, Some(resume), &mut page).await?;
                page.end();
            }
            start = PartitionBound::KeyExclusive(resume.key.clone());
        }
        let mut scan = self.scan(start, end.clone());
        let mut rows = 0;
        while let Some(head) = scan.next_partition().await? {
            self.give_way(&mut rows).await;
            if page.is_full() {
                return Ok(page.finish(true));
            }
            match self.command.clustering.reversed {
                true => self.version(&head.key, None, &mut page).await?,
                false => {
                    self.scanned_version(&head, &mut scan, &mut page, &mut rows)
                        .await?;
                }
            }
            page.end();
        }
        Ok(page.finish(false))
    }

    /// Takes what the current partition of a scan has.
    async fn scanned_version(
        &self,
        head: &PartitionHead,
        scan: &mut MergedScan,
        page: &mut VersionBuilder<'_>,
        rows: &mut u32,
    ) -> Result<(), SSTableError> {
        if !page.begin(head, None) {
            return Ok(());
        }
        while let Some(item) = scan.next().await? {
            self.give_way(rows).await;
            if page.item(item) == Flow::More {
                continue;
            }
            while let Some(item) = scan.next().await? {
                self.give_way(rows).await;
                if page.knows_more(item) {
                    page.cut();
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// About how many bytes a deleted range takes in an answer.
fn range_bytes(range: &RangeTombstone) -> u64 {
    let bounds = [&range.slice.start, &range.slice.end];
    let values = bounds.iter().flat_map(|bound| bound.prefix.values());
    32 + values.map(|value| value.len() as u64 + 4).sum::<u64>()
}

/// A page being filled.
struct VersionBuilder<'c> {
    command: &'c ReadCommand,
    filters: Filters<'c>,
    table: &'c Table,
    purge: Purge,
    page: VersionPage,
    rows_left: u32,
    bytes_left: u64,
    /// With more tombstones than this the page ends.
    most_tombstones: u64,
    current: Option<Current>,
}

/// The partition whose rows come.
struct Current {
    version: PartitionVersion,
    ranges: RangeTombstoneList,
    /// Where, in the direction of reading, the deleted range began that the stream is in.
    open: Option<(Bound, DeletionTime)>,
    /// Where the marker stands with which the page was full.
    cut_at: Option<Bound>,
    rows_left: u32,
    live_rows: u32,
    /// Did the page before end within it?
    resumed: bool,
}

impl<'c> VersionBuilder<'c> {
    fn new(
        command: &'c ReadCommand,
        filters: &'c [RowFilter],
        table: &'c Table,
    ) -> VersionBuilder<'c> {
        VersionBuilder {
            filters: Filters::new(filters, command, table),
            table,
            purge: purge_of(command, table),
            most_tombstones: u64::MAX,
            page: VersionPage::default(),
            rows_left: command.limits.rows,
            bytes_left: u64::from(command.limits.bytes),
            current: None,
            command,
        }
    }

    fn is_full(&self) -> bool {
        self.rows_left == 0
            || self.bytes_left == 0
            || self.page.scanned.tombstones > self.most_tombstones
    }

    /// Begins a partition; `false` if nothing of it is wanted. `resumed`, if the page before ended
    /// within it, says how many rows it may still give.
    fn begin(&mut self, head: &PartitionHead, resumed: Option<u32>) -> bool {
        if !self.filters.partition_passes(&head.key, None, self.table) {
            return false;
        }
        let mut deletion = head.deletion;
        if self.purge.forgets(&deletion) {
            deletion = DeletionTime::LIVE;
        }
        let mut static_row = head.static_row.clone();
        if let Some(row) = &mut static_row {
            row.retain_columns(&self.command.columns);
            row.purge(&self.purge);
        }
        static_row.take_if(|row| row.is_empty());
        let partition = Partition {
            key: head.key.clone(),
            deletion,
            static_row,
            rows: rows_of(self.table),
            packed: Vec::new(),
            range_tombstones: Vec::new(),
        };
        self.current = Some(Current {
            version: PartitionVersion {
                partition,
                end: None,
            },
            ranges: RangeTombstoneList::new(),
            open: None,
            cut_at: None,
            rows_left: resumed.unwrap_or(self.command.limits.rows_per_partition),
            live_rows: 0,
            resumed: resumed.is_some(),
        });
        true
    }

    fn item(&mut self, item: Unfiltered) -> Flow {
        match item {
            Unfiltered::Row(row) => self.row(row),
            Unfiltered::Marker(marker) => self.marker(&marker),
        }
    }

    /// A partition of which one row is read, with what was deleted around it.
    fn one_row(
        &mut self,
        key: &DecoratedKey,
        (partition, range): (DeletionTime, DeletionTime),
        row: Row,
    ) {
        let head = PartitionHead {
            key: key.clone(),
            deletion: partition,
            static_row: None,
        };
        if !self.begin(&head, None) {
            return;
        }
        let slice = Slice::of_prefix(row.clustering.clone());
        let in_range = range.supersedes(&partition);
        let open = RangeTombstoneMarker::open(slice.start, range);
        let close = RangeTombstoneMarker::close(slice.end, range);
        let (first, last) = match self.command.clustering.reversed {
            false => (open, close),
            true => (close, open),
        };
        if in_range {
            self.marker(&first);
        }
        if !row.is_empty() {
            self.row(row);
        }
        if in_range {
            self.marker(&last);
        }
    }

    fn row(&mut self, mut row: Row) -> Flow {
        let Some(current) = &mut self.current else {
            return Flow::PartitionDone;
        };
        if current.rows_left == 0 {
            return Flow::PartitionDone;
        }
        if !self.table.dropped.is_empty() {
            row.retain_columns_of(self.table);
        }
        row.purge(&self.purge);
        self.page.scanned.row(&row, &self.purge);
        if row.is_empty() || !self.filters.row_passes(&row) {
            return Flow::More;
        }
        strip_values(&mut row, &self.command.columns);
        let rows = &mut current.version.partition.rows;
        let bytes = row.answer_bytes();
        detach_small(&mut row, bytes, rows.len());
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if self.table.shows(&row, self.command.now_seconds) {
            current.rows_left -= 1;
            current.live_rows += 1;
            self.rows_left -= 1;
        }
        rows.push(row);
        let partition_done = current.rows_left == 0;
        if self.is_full() {
            Flow::PageDone
        } else if partition_done {
            Flow::PartitionDone
        } else {
            Flow::More
        }
    }

    fn marker(&mut self, marker: &RangeTombstoneMarker) -> Flow {
        let reversed = self.command.clustering.reversed;
        let Some(current) = &mut self.current else {
            return Flow::PartitionDone;
        };
        let comparator = self.table.comparator();
        let deletions = [marker.closes, marker.opens];
        self.page.scanned.marker(deletions, &self.purge);
        let place = end_of(marker.bound.clone(), reversed);
        let closed = current.close(&place, &self.purge, comparator);
        self.bytes_left = self.bytes_left.saturating_sub(closed);
        let too_many = self.page.scanned.tombstones > self.most_tombstones;
        if self.bytes_left == 0 || too_many {
            current.cut_at = Some(place);
            return Flow::PageDone;
        }
        let opens = marker.in_force_after(reversed);
        current.open = opens.map(|deletion| (place.inverted(), deletion));
        Flow::More
    }

    /// Does an item behind what was taken say anything?
    fn knows_more(&mut self, item: Unfiltered) -> bool {
        match item {
            Unfiltered::Row(mut row) => {
                if !self.table.dropped.is_empty() {
                    row.retain_columns_of(self.table);
                }
                row.purge(&self.purge);
                !row.is_empty()
            }
            Unfiltered::Marker(marker) => {
                let deletions = [marker.closes, marker.opens];
                let mut deletions = deletions.iter().flatten();
                deletions.any(|deletion| !self.purge.forgets(deletion))
            }
        }
    }

    /// The page does not take all of the partition.
    fn cut(&mut self) {
        let reversed = self.command.clustering.reversed;
        let Some(current) = &mut self.current else {
            return;
        };
        let last = current.version.partition.rows.last();
        let behind_last = || last.map(|row| bound_after(&row.clustering, reversed));
        let Some(end) = current.cut_at.take().or_else(behind_last) else {
            return;
        };
        let closed = current.close(&end, &self.purge, self.table.comparator());
        self.bytes_left = self.bytes_left.saturating_sub(closed);
        current.version.end = Some(end);
    }

    /// Ends the partition.
    fn end(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let kept = |(_, deletion): &(Bound, DeletionTime)| !self.purge.forgets(deletion);
        debug_assert!(
            !current.open.as_ref().is_some_and(kept),
            "a stream closes what it opens"
        );
        let mut version = current.version;
        version.partition.range_tombstones = current.ranges.into();
        let known = &version.partition;
        let nothing = known.deletion.is_live()
            && known.static_row.is_none()
            && known.rows.is_empty()
            && known.range_tombstones.is_empty();
        if nothing && version.end.is_none() {
            return;
        }
        let static_row = known.static_row.as_ref();
        let is_live = static_row.is_some_and(|row| row.is_live(self.command.now_seconds));
        let alone = current.live_rows == 0 && !current.resumed && !self.filters.want_rows();
        if alone && is_live {
            // Static data without rows shows as one row.
            self.rows_left = self.rows_left.saturating_sub(1);
        }
        // That of a deletion counts, too.
        let bytes = known.head_bytes() + 16;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.page.partitions.push(version);
    }

    fn finish(mut self, more: bool) -> VersionPage {
        debug_assert!(self.current.is_none(), "every partition is ended");
        self.page.more = more && !self.page.partitions.is_empty();
        self.page
    }
}

impl Current {
    /// Ends the deleted range that the stream is in, if it is in one, at a place; says how many bytes
    /// that takes.
    fn close(&mut self, end: &Bound, purge: &Purge, comparator: &ClusteringComparator) -> u64 {
        let Some((begin, deletion)) = self.open.take() else {
            return 0;
        };
        if purge.forgets(&deletion) {
            return 0;
        }
        let (start, end) = match crate::is_start(begin.kind) {
            true => (begin, end.clone()),
            false => (end.clone(), begin),
        };
        let slice = Slice { start, end };
        let range = RangeTombstone { slice, deletion };
        let bytes = range_bytes(&range);
        self.ranges.add(comparator, range);
        bytes
    }
}

/// The place behind a row, as the end of what was read.
pub(super) fn bound_after(clustering: &Clustering, reversed: bool) -> Bound {
    Bound {
        prefix: clustering.clone(),
        kind: match reversed {
            false => BoundKind::InclusiveEnd,
            true => BoundKind::InclusiveStart,
        },
    }
}

/// A place as the end of what lies before it in the direction of reading.
pub(super) fn end_of(place: Bound, reversed: bool) -> Bound {
    match crate::is_start(place.kind) == reversed {
        true => place,
        false => place.inverted(),
    }
}

/// Cells of columns that were not asked for keep no values: they only say what a row lives by.
fn strip_values(row: &mut Row, columns: &[ColumnId]) {
    for cell in &mut row.cells {
        if columns.binary_search(&cell.column).is_err() {
            cell.value = bytes::Bytes::new();
        }
    }
}
