//! Answering a [`ReadCommand`]: from memtables and sstables to a page of live rows.

mod cached;
mod candidates;
mod filter;
mod page;
mod reconcile;
mod single_row;
mod stale;
mod versions;

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use io::{Env, TaskGroup};
use model::{
    Bound, BoundKind, Clustering, ClusteringComparator, ColumnId, DecoratedKey, Partition,
    PartitionBound, PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, Resume, ShardId,
    Sharder, Slice, Table, murmur3_x64_128,
};

use crate::error::ReadError;
use crate::memtable::{MemStream, Memtable};
use crate::merge::{Items, MemScan, MergedPartition, MergedScan, ScanSource, Source};
use crate::sstable::{ColumnSelection, PlainRequest, SSTable, SSTableError, ScanOptions};
use crate::tally::Tally;
use crate::{PartitionHead, Unfiltered};
pub(crate) use cached::CachedTable;
pub(crate) use candidates::IndexView;
pub(crate) use filter::Filters;
use page::{Flow, PageBuilder};
pub use reconcile::{
    Candidates, Named, Reconciled, Reconciliation, Step, Window, command_for_replicas,
};
use smallvec::SmallVec;
pub(crate) use stale::Stale;

/// How many rows pass between two looks at the time.
const ROWS_A_LOOK: u32 = 16;

/// What a table consists of at one moment. Whatever is flushed or compacted later, a read that
/// holds this sees all of it once.
pub(crate) struct View {
    /// The table.
    pub(crate) table: Arc<Table>,
    /// The memtables, the one that is written to first.
    pub(crate) memtables: SmallVec<[Rc<Memtable>; 2]>,
    /// The sstables, the latest first.
    pub(crate) sstables: Rc<[SSTable]>,
    /// This shard.
    pub(crate) owner: (Sharder, ShardId),
    /// The highest number that anything in it has, but for the memtable that is written to.
    pub(crate) number: u64,
    /// Where rows of it are kept that were read, if they are.
    pub(crate) cached: Option<CachedTable>,
    /// With more tombstones than this a page ends: whoever asked is told that there are too many.
    pub(crate) most_tombstones: u64,
    /// The index that a read asks, if it asks one.
    pub(crate) index: Option<Box<IndexView>>,
}

/// What reads count.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    /// Reads of one partition.
    pub(crate) keys: Cell<u64>,
    /// Reads of ranges.
    pub(crate) ranges: Cell<u64>,
    /// sstables that a read of a key passed over, as their bloom filter or bounds allowed.
    pub(crate) skipped: Cell<u64>,
    /// sstables that had what was looked for.
    pub(crate) found: Cell<u64>,
    /// sstables that were looked into in vain.
    pub(crate) in_vain: Cell<u64>,
    /// How many sstables each read of one partition found something in.
    pub(crate) sstables: Tally,
    /// Live rows that each read went through, and tombstones.
    pub(crate) rows: Tally,
    pub(crate) tombstones: Tally,
    /// Reads of a row that the cache knew what they needed of.
    pub(crate) cached: Cell<u64>,
    /// Reads of a row that asked the cache in vain.
    pub(crate) uncached: Cell<u64>,
}

impl ReadCounters {
    /// Counts reads of rows that are shown as they lie in memory: of so many that are there, of so many that are not,
    /// for which so many sstables were passed over.
    pub(crate) fn rows_in_memory(&self, there: u64, absent: u64, skipped: u64) {
        let all = there + absent;
        self.keys.set(self.keys.get() + all);
        self.skipped.set(self.skipped.get() + skipped);
        self.sstables.add_many(0, all);
        self.rows.add_many(0, absent);
        self.rows.add_many(1, there);
        self.tombstones.add_many(0, all);
    }

    /// Counts a read of a partition whose rows, so many, are shown as they lie in memory.
    pub(crate) fn partition_in_memory(&self, rows: u64, skipped: u64) {
        self.keys.set(self.keys.get() + 1);
        self.skipped.set(self.skipped.get() + skipped);
        self.sstables.add(0);
        self.rows.add(rows);
        self.tombstones.add(0);
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl View {
    /// Answers a command.
    pub(crate) async fn read(
        &self,
        env: &Env,
        command: &ReadCommand,
        counters: &ReadCounters,
    ) -> Result<ReadPage, SSTableError> {
        let mut page = PageBuilder::new(command, &self.table);
        page.stop_at(self.most_tombstones);
        if page.is_full() {
            return Ok(page.finish(false));
        }
        let reading = Reading {
            view: self,
            env,
            command,
            counters,
            found: Cell::new(0),
            columns: page.columns(),
        };
        match &command.partitions {
            PartitionSelection::Key(key) => {
                count(&counters.keys);
                let resume = command.resume.as_ref().filter(|r| r.key == *key);
                let more = reading.partition(key, resume, &mut page).await?;
                counters.sstables.add(reading.found.get());
                page.met_sstables(reading.found.get());
                Ok(page.finish(more))
            }
            PartitionSelection::Range { start, end } => {
                count(&counters.ranges);
                page.met_sstables(self.sstables.len() as u64);
                // Boxed, as the state of a read of one row, the most frequent, should be small.
                match &self.index {
                    Some(index) => {
                        page.met_index_sstables(index.many_sstables);
                        Box::pin(reading.range_by_index(index, (start, end), page)).await
                    }
                    None => Box::pin(reading.range(start, end, page)).await,
                }
            }
        }
    }
}

/// Answers a command from partitions that are not stored: those of a virtual table.
pub async fn read_partitions(
    env: &Env,
    command: &ReadCommand,
    partitions: Vec<Partition>,
) -> Result<ReadPage, ReadError> {
    let view = View::of_partitions(&command.table, partitions);
    Ok(view.read(env, command, &ReadCounters::default()).await?)
}

impl View {
    /// Of partitions in memory.
    fn of_partitions(table: &Arc<Table>, partitions: Vec<Partition>) -> View {
        let memtable = Memtable::default();
        for partition in partitions {
            let update = PartitionUpdate {
                table: table.clone(),
                key: partition.key,
                deletion: partition.deletion,
                static_row: partition.static_row,
                rows: partition.rows,
                range_tombstones: partition.range_tombstones,
            };
            memtable.apply(update, table, None);
        }
        View {
            table: table.clone(),
            memtables: SmallVec::from_elem(Rc::new(memtable), 1),
            sstables: Rc::new([]),
            owner: (Sharder::new(1), 0),
            number: 0,
            cached: None,
            most_tombstones: u64::MAX,
            index: None,
        }
    }
}

/// What a command would be told of partitions that are all in memory.
#[cfg(test)]
pub(crate) async fn versions_in_memory(
    env: &Env,
    command: &ReadCommand,
    partitions: Vec<Partition>,
) -> model::VersionPage {
    let view = View::of_partitions(&command.table, partitions);
    let said = view.versions(env, command, &ReadCounters::default()).await;
    said.expect("memory is read without a drive")
}

struct Reading<'r> {
    view: &'r View,
    env: &'r Env,
    command: &'r ReadCommand,
    counters: &'r ReadCounters,
    /// sstables that it found something in.
    found: Cell<u64>,
    columns: Cow<'r, [ColumnId]>,
}

impl<'r> Reading<'r> {
    /// Reads one partition, from where the page before ended in it. Says whether there is more of
    /// it than the page took.
    async fn partition(
        &self,
        key: &DecoratedKey,
        resume: Option<&Resume>,
        page: &mut PageBuilder<'r>,
    ) -> Result<bool, SSTableError> {
        let table = &self.view.table;
        let all = self.command.clustering.slices.as_slice();
        if resume.is_none()
            && let Some(row) = single_row::single_row(all, &self.columns, table)
        {
            self.single_row(key, row, page).await?;
            return Ok(false);
        }
        let mut slices: Rc<[Slice]> = all.into();
        if let Some(resume) = resume {
            let reversed = self.command.clustering.reversed;
            let comparator = self.view.table.comparator();
            let Some(last) = behind(resume, comparator) else {
                return Ok(false);
            };
            slices = slices_behind(&slices, last, reversed, comparator).into();
            if slices.is_empty() || resume.remaining_in_partition == 0 {
                return Ok(false);
            }
        }
        let remaining = resume.map(|resume| resume.remaining_in_partition);
        Box::pin(self.rows(key, slices, remaining, page)).await
    }

    /// Reads the rows of a partition; `remaining`, if a page before ended in it: how many may come.
    async fn rows(
        &self,
        key: &DecoratedKey,
        slices: Rc<[Slice]>,
        remaining: Option<u32>,
        page: &mut PageBuilder<'r>,
    ) -> Result<bool, SSTableError> {
        let table = &self.view.table;
        let reversed = self.command.clustering.reversed;
        let mut sources = self.sources(key, &slices, reversed).await?;
        if let [Source::Memory(stream)] = &mut sources[..]
            && page.takes_packed()
            && stream.has_only_rows()
        {
            let head = (&stream.head(), remaining);
            return Ok(self.memory_rows(head, stream, page, &mut 0).await);
        }
        let Some(mut merged) = MergedPartition::new(self.env, table.clone(), sources, reversed)
        else {
            return Ok(false);
        };
        let packs = page.takes_packed() && merged.may_have_plain_rows();
        let begun = match packs {
            true => page.begin_packed(merged.head(), remaining, table),
            false => page.begin(merged.head(), remaining, table),
        };
        if !begun || slices.is_empty() {
            return Ok(false);
        }
        self.merged_rows(&mut merged, packs, page, &mut 0).await
    }

    /// Takes the rows of a partition; `packs`, if they may come in one piece. Says whether there is more of it than the
    /// page took.
    async fn merged_rows(
        &self,
        merged: &mut impl Items,
        packs: bool,
        page: &mut PageBuilder<'r>,
        rows: &mut u32,
    ) -> Result<bool, SSTableError> {
        loop {
            let plain = match packs {
                true => merged.plain_row(&mut PlainRequest {
                    now_seconds: self.command.now_seconds,
                    alone: true,
                    scratch: page.scratch(),
                }),
                false => None,
            };
            let flow = match plain {
                Some(row) => page.plain_row(row),
                None => match merged.next().await? {
                    Some(Unfiltered::Row(row)) => page.row(row),
                    Some(Unfiltered::Marker(marker)) => page.marker(&marker),
                    None => return Ok(false),
                },
            };
            match flow {
                Flow::More => {}
                Flow::PartitionDone => return Ok(false),
                Flow::PageDone => {
                    return Ok(page.partition_may_go_on() && merged.next().await?.is_some());
                }
            }
            self.give_way(rows).await;
        }
    }

    /// Takes the rows of a partition that only a memtable knows of. Says whether there is more of it than the page
    /// took.
    async fn memory_rows(
        &self,
        (head, remaining): (&PartitionHead, Option<u32>),
        stream: &mut MemStream,
        page: &mut PageBuilder<'r>,
        rows: &mut u32,
    ) -> bool {
        if !page.begin_packed(head, remaining, &self.view.table) {
            return false;
        }
        loop {
            page.make_room(stream.rows_ahead());
            let mut together = stream.next_rows();
            let count = together.len();
            let end = together.find_map(|row| match page.memory_row(row) {
                Flow::More => None,
                end => Some(end),
            });
            let are_left = together.len() > 0;
            drop(together);
            match end {
                None if count == 0 => return false,
                None => {}
                Some(Flow::PageDone) => {
                    let are_left = are_left || stream.next_rows().len() > 0;
                    return page.partition_may_go_on() && are_left;
                }
                Some(_) => return false,
            }
            self.give_way_after(rows, count as u32).await;
        }
    }

    /// Who knows of a partition.
    async fn sources(
        &self,
        key: &DecoratedKey,
        slices: &Rc<[Slice]>,
        reversed: bool,
    ) -> Result<Vec<Source>, SSTableError> {
        let view = self.view;
        let mut sources = Vec::new();
        for memtable in &view.memtables {
            if let Some(found) = memtable.get(key) {
                let table = view.table.clone();
                let stream = MemStream::new(found, table, slices.clone(), reversed);
                sources.push(Source::Memory(stream));
            }
        }
        let columns = ColumnSelection::Values(self.columns.as_ref().into());
        let mut deleted_to = sources
            .iter()
            .map(|source| source.head().deletion)
            .fold(model::DeletionTime::LIVE, model::DeletionTime::merge);
        let hash = murmur3_x64_128(key.key());
        for sstable in view.sstables.iter() {
            if !sstable.may_contain(key, hash)
                || !sstable.may_contain_slices(slices)
                || deleted_to.deletes(sstable.stats().max_timestamp)
            {
                count(&self.counters.skipped);
                continue;
            }
            let found = sstable.get((key, hash), slices.clone(), reversed, &columns);
            match found.await? {
                Some(reader) => {
                    count(&self.counters.found);
                    count(&self.found);
                    deleted_to = deleted_to.merge(reader.head().deletion);
                    sources.push(Source::File(Box::new(reader)));
                }
                None => count(&self.counters.in_vain),
            }
        }
        Ok(sources)
    }

    async fn range(
        &self,
        start: &PartitionBound,
        end: &PartitionBound,
        mut page: PageBuilder<'r>,
    ) -> Result<ReadPage, SSTableError> {
        let mut start = start.clone();
        if let Some(resume) = &self.command.resume {
            let (sharder, shard) = self.view.owner;
            // Every shard is asked to go on, but only one of them began this partition.
            let more = sharder.shard_of(resume.key.token()) == shard
                && self.partition(&resume.key, Some(resume), &mut page).await?;
            if more {
                return Ok(page.finish(true));
            }
            page.end();
            start = PartitionBound::KeyExclusive(resume.key.clone());
        }
        let mut scan = self.scan(start, end.clone());
        let mut rows = 0;
        // Full before the first partition: the one resumed filled the page to the brim.
        let mut full = page.is_full();
        while let Some(head) = scan.next_partition().await? {
            self.give_way(&mut rows).await;
            if full {
                return Ok(page.finish(true));
            }
            let more = match self.command.clustering.reversed {
                true => self.partition(&head.key, None, &mut page).await?,
                false => self.scanned(&head, &mut scan, &mut page, &mut rows).await?,
            };
            if more {
                return Ok(page.finish(true));
            }
            full = page.end();
        }
        Ok(page.finish(false))
    }

    /// Takes the rows of the current partition of a scan. Says whether there is more of it than
    /// the page took.
    async fn scanned(
        &self,
        head: &PartitionHead,
        scan: &mut MergedScan,
        page: &mut PageBuilder<'r>,
        rows: &mut u32,
    ) -> Result<bool, SSTableError> {
        if page.takes_packed()
            && let Some(stream) = scan.only_rows()
        {
            return Ok(self.memory_rows((head, None), stream, page, rows).await);
        }
        let packs = page.takes_packed() && scan.may_have_plain_rows();
        let begun = match packs {
            true => page.begin_packed(head, None, &self.view.table),
            false => page.begin(head, None, &self.view.table),
        };
        match begun {
            true => self.merged_rows(scan, packs, page, rows).await,
            false => Ok(false),
        }
    }

    fn scan(&self, start: PartitionBound, end: PartitionBound) -> MergedScan {
        let view = self.view;
        let slices: Rc<[Slice]> = self.command.clustering.slices.as_slice().into();
        let columns = ColumnSelection::Values(self.columns.as_ref().into());
        let mut sources = Vec::new();
        for memtable in &view.memtables {
            let bounds = (start.clone(), end.clone());
            let scan = MemScan::new(memtable.clone(), view.table.clone(), bounds, slices.clone());
            sources.push(ScanSource::Memory(Box::new(scan)));
        }
        for sstable in view.sstables.iter() {
            let options = ScanOptions {
                start: start.clone(),
                end: end.clone(),
                owner: view.owner_of(sstable),
                slices: slices.clone(),
                columns: columns.clone(),
                group: TaskGroup::Foreground,
                ..ScanOptions::default()
            };
            sources.push(ScanSource::File(Box::new(sstable.scan(options))));
        }
        MergedScan::new(self.env, view.table.clone(), sources)
    }

    async fn give_way(&self, rows: &mut u32) {
        self.give_way_after(rows, 1).await;
    }

    /// The same, after several more.
    async fn give_way_after(&self, rows: &mut u32, more: u32) {
        let looks = *rows / ROWS_A_LOOK;
        *rows += more;
        if *rows / ROWS_A_LOOK > looks {
            self.env.maybe_yield().await;
        }
    }
}

impl View {
    /// Whose tokens to read of an sstable: all, if this shard wrote it for itself.
    pub(crate) fn owner_of(&self, sstable: &SSTable) -> Option<(Sharder, ShardId)> {
        let (sharder, shard) = self.owner;
        let ours = sstable
            .origin()
            .is_some_and(|o| (o.shard, o.shards) == (shard, sharder.shards()));
        (!ours).then_some(self.owner)
    }
}

/// The row behind which a partition goes on; `None` if it is finished.
fn behind<'r>(resume: &'r Resume, comparator: &ClusteringComparator) -> Option<&'r Clustering> {
    let last = resume.clustering.as_ref()?;
    // Without clustering columns the one row there is was given.
    (!comparator.columns().is_empty()).then_some(last)
}

/// What of `slices` lies behind the row `last` in the direction of reading.
fn slices_behind(
    slices: &[Slice],
    last: &Clustering,
    reversed: bool,
    comparator: &ClusteringComparator,
) -> Vec<Slice> {
    let bound = |kind| Bound {
        prefix: last.clone(),
        kind,
    };
    let cut = |slice: &Slice| {
        let mut slice = slice.clone();
        if reversed {
            let end = bound(BoundKind::ExclusiveEnd);
            if comparator.compare_bounds(&end, &slice.end).is_lt() {
                slice.end = end;
            }
        } else {
            let start = bound(BoundKind::ExclusiveStart);
            if comparator.compare_bounds(&start, &slice.start).is_gt() {
                slice.start = start;
            }
        }
        slice
    };
    slices
        .iter()
        .map(cut)
        .filter(|slice| !slice.is_empty(comparator))
        .collect()
}
