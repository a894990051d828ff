//! Several versions of a partition become one stream.
//!
//! Sources give items in the same direction, each well formed by itself. [`Merger`] decides, with
//! the next item of each source before it, what comes next: of rows at one place one row, of
//! markers at one place the marker (if any) at which the strongest deletion of all sources
//! changes. What a deletion covers is dropped on the way, so that what comes out says the same as
//! what went in, with nothing in it that has no effect.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{DecoratedKey, DeletionTime, PackedRow, PartitionBound, Row, Slice, Table};

use crate::memtable::{MemStream, Memtable};
use crate::sstable::{PartitionReader, SSTable, SSTableError, ScanOptions, Scanner};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// The next item of a source.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Next {
    /// Not asked for yet.
    #[default]
    Unknown,
    /// This.
    Item(Unfiltered),
    /// No more.
    End,
}

/// Decides what comes next.
pub(crate) struct Merger {
    table: Arc<Table>,
    reversed: bool,
    /// The deletion of the partition, from all sources.
    partition: DeletionTime,
    /// The deleted range that each source is in.
    open: Vec<Option<DeletionTime>>,
    /// The deleted range that the output is in.
    in_force: Option<DeletionTime>,
}

impl Merger {
    /// For so many sources of a partition whose deletion, from all of them, is `partition`.
    pub(crate) fn new(
        table: Arc<Table>,
        sources: usize,
        partition: DeletionTime,
        reversed: bool,
    ) -> Merger {
        Merger {
            table,
            reversed,
            partition,
            open: vec![None; sources],
            in_force: None,
        }
    }

    /// Goes on with another partition, of so many sources.
    fn restart(&mut self, sources: usize, partition: DeletionTime) {
        self.partition = partition;
        self.open.clear();
        self.open.resize(sources, None);
        self.in_force = None;
    }

    /// Takes what comes first out of `next` (none of them unknown), leaving `Unknown` there.
    /// `None` where nothing is left of it.
    pub(crate) fn step(&mut self, next: &mut [Next]) -> Option<Unfiltered> {
        let first = self.first(next)?;
        let taken = take(&mut next[first])?;
        match taken {
            Unfiltered::Row(mut row) => {
                for other in &mut next[first + 1..] {
                    if self.same_row(other, &row)
                        && let Some(Unfiltered::Row(version)) = take(other)
                    {
                        row.merge(version, &self.table);
                    }
                }
                let range = self.in_force.unwrap_or(DeletionTime::LIVE);
                row.shadow_by(self.partition.merge(range));
                (!row.is_empty()).then_some(Unfiltered::Row(row))
            }
            Unfiltered::Marker(marker) => {
                self.open[first] = marker.in_force_after(self.reversed);
                for (at, other) in next.iter_mut().enumerate().skip(first + 1) {
                    if self.same_place(other, &marker)
                        && let Some(Unfiltered::Marker(other)) = take(other)
                    {
                        self.open[at] = other.in_force_after(self.reversed);
                    }
                }
                self.marker_at(marker)
            }
        }
    }

    /// The first source, in order, of those whose item comes first.
    fn first(&self, next: &[Next]) -> Option<usize> {
        let mut first: Option<(usize, &Unfiltered)> = None;
        for (at, candidate) in next.iter().enumerate() {
            debug_assert_ne!(*candidate, Next::Unknown);
            let Next::Item(item) = candidate else {
                continue;
            };
            let before = first.is_none_or(|(_, known)| {
                let order = item.compare(known, self.table.comparator());
                order == self.forward()
            });
            if before {
                first = Some((at, item));
            }
        }
        first.map(|(at, _)| at)
    }

    /// How what comes first in the stream compares with what comes later.
    fn forward(&self) -> Ordering {
        match self.reversed {
            false => Ordering::Less,
            true => Ordering::Greater,
        }
    }

    fn same_row(&self, next: &Next, row: &Row) -> bool {
        let Next::Item(Unfiltered::Row(other)) = next else {
            return false;
        };
        let comparator = self.table.comparator();
        comparator.compare(&other.clustering, &row.clustering) == Ordering::Equal
    }

    fn same_place(&self, next: &Next, marker: &RangeTombstoneMarker) -> bool {
        let Next::Item(Unfiltered::Marker(other)) = next else {
            return false;
        };
        let comparator = self.table.comparator();
        comparator.compare_bounds(&other.bound, &marker.bound) == Ordering::Equal
    }

    fn marker_at(&mut self, marker: RangeTombstoneMarker) -> Option<Unfiltered> {
        let strongest = self
            .open
            .iter()
            .flatten()
            .fold(DeletionTime::LIVE, |a, b| a.merge(*b));
        let after = strongest.supersedes(&self.partition).then_some(strongest);
        let before = std::mem::replace(&mut self.in_force, after);
        let (closes, opens) = match self.reversed {
            false => (before, after),
            true => (after, before),
        };
        RangeTombstoneMarker::between(marker.bound, closes, opens).map(Unfiltered::Marker)
    }
}

fn take(next: &mut Next) -> Option<Unfiltered> {
    match std::mem::take(next) {
        Next::Item(item) => Some(item),
        other => {
            *next = other;
            None
        }
    }
}

/// The head of a partition, from all who know of it.
pub(crate) fn merge_heads(
    heads: impl IntoIterator<Item = PartitionHead>,
    table: &Table,
) -> Option<PartitionHead> {
    let mut heads = heads.into_iter();
    let mut merged = heads.next()?;
    for head in heads {
        merged.deletion = merged.deletion.merge(head.deletion);
        match (&mut merged.static_row, head.static_row) {
            (Some(row), Some(other)) => row.merge(other, table),
            (known @ None, other) => *known = other,
            (Some(_), None) => {}
        }
    }
    if let Some(row) = &mut merged.static_row {
        row.shadow_by(merged.deletion);
    }
    merged.static_row.take_if(|row| row.is_empty());
    Some(merged)
}

/// Gives the items of one partition, one after the other.
pub(crate) trait Items {
    /// The next item.
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError>;

    /// The next item, if it is a row of which all is to be seen at this time (in seconds since 1970), and known without
    /// waiting; in the form that pages have, laid out in `scratch`. Without one, [`Items::next`] knows what is next.
    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow>;
}

/// A partition of a memtable or an sstable.
pub(crate) enum Source {
    /// In memory.
    Memory(MemStream),
    /// On disk.
    File(Box<PartitionReader>),
}

impl Items for Source {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        match self {
            Source::Memory(stream) => Ok(stream.next()),
            Source::File(reader) => reader.next().await,
        }
    }

    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow> {
        match self {
            Source::Memory(_) => None,
            Source::File(reader) => reader.plain_row(now_seconds, scratch),
        }
    }
}

impl Source {
    /// Key, deletion and static row.
    pub(crate) fn head(&self) -> PartitionHead {
        match self {
            Source::Memory(stream) => stream.head(),
            Source::File(reader) => reader.head().clone(),
        }
    }
}

/// How many items that leave nothing pass between two looks at the time.
const ITEMS_A_LOOK: u32 = 64;

/// The merged items of some sources.
struct MergedItems {
    env: Env,
    merger: Merger,
    next: Vec<Next>,
}

impl MergedItems {
    fn new(env: &Env, merger: Merger) -> MergedItems {
        let sources = merger.open.len();
        MergedItems {
            env: env.clone(),
            merger,
            next: (0..sources).map(|_| Next::Unknown).collect(),
        }
    }

    /// Goes on with another partition, of so many sources.
    fn restart(&mut self, sources: usize, partition: DeletionTime) {
        self.merger.restart(sources, partition);
        self.next.clear();
        self.next.resize_with(sources, Next::default);
    }

    /// See [`Items::plain_row`]: that of the only source, if no deletion is about it.
    fn plain_row(
        &mut self,
        sources: &mut [impl Items],
        now_seconds: u32,
        scratch: &mut Vec<u8>,
    ) -> Option<PackedRow> {
        let Merger {
            partition,
            in_force,
            ..
        } = &self.merger;
        match (sources, &self.next[..]) {
            ([only], [Next::Unknown]) if partition.is_live() && in_force.is_none() => {
                only.plain_row(now_seconds, scratch)
            }
            _ => None,
        }
    }

    async fn next(
        &mut self,
        sources: &mut [impl Items],
    ) -> Result<Option<Unfiltered>, SSTableError> {
        let mut nothing = 0u32;
        loop {
            let mut ended = true;
            for (next, source) in self.next.iter_mut().zip(sources.iter_mut()) {
                if *next == Next::Unknown {
                    *next = match source.next().await? {
                        Some(item) => Next::Item(item),
                        None => Next::End,
                    };
                }
                ended &= *next == Next::End;
            }
            if ended {
                return Ok(None);
            }
            if let Some(item) = self.merger.step(&mut self.next) {
                return Ok(Some(item));
            }
            // A deletion may cover any number of rows.
            nothing += 1;
            if nothing.is_multiple_of(ITEMS_A_LOOK) {
                self.env.maybe_yield().await;
            }
        }
    }
}

/// One partition, from all who know of it.
pub(crate) struct MergedPartition {
    head: PartitionHead,
    items: MergedItems,
    sources: Vec<Source>,
}

impl MergedPartition {
    /// Merges `sources`; `None` if there are none.
    pub(crate) fn new(
        env: &Env,
        table: Arc<Table>,
        sources: Vec<Source>,
        reversed: bool,
    ) -> Option<MergedPartition> {
        let head = merge_heads(sources.iter().map(Source::head), &table)?;
        let merger = Merger::new(table, sources.len(), head.deletion, reversed);
        Some(MergedPartition {
            items: MergedItems::new(env, merger),
            head,
            sources,
        })
    }

    /// Key, deletion and static row.
    pub(crate) fn head(&self) -> &PartitionHead {
        &self.head
    }

    /// Is it in one sstable, and nowhere else?
    pub(crate) fn is_in_one_file(&self) -> bool {
        matches!(self.sources[..], [Source::File(_)])
    }
}

impl Items for MergedPartition {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        self.items.next(&mut self.sources).await
    }

    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow> {
        self.items
            .plain_row(&mut self.sources, now_seconds, scratch)
    }
}

/// The partitions of a range of a memtable.
pub(crate) struct MemScan {
    memtable: Rc<Memtable>,
    table: Arc<Table>,
    start: PartitionBound,
    end: PartitionBound,
    slices: Rc<[Slice]>,
    at: Option<DecoratedKey>,
    stream: Option<MemStream>,
}

impl MemScan {
    /// The slices of the partitions between `start` and `end`.
    pub(crate) fn new(
        memtable: Rc<Memtable>,
        table: Arc<Table>,
        (start, end): (PartitionBound, PartitionBound),
        slices: Rc<[Slice]>,
    ) -> MemScan {
        MemScan {
            memtable,
            table,
            start,
            end,
            slices,
            at: None,
            stream: None,
        }
    }

    fn next_partition(&mut self) -> Option<PartitionHead> {
        let found = self
            .memtable
            .next(&self.start, &self.end, self.at.as_ref())?;
        let stream = MemStream::new(found, self.table.clone(), self.slices.clone(), false);
        let head = stream.head();
        self.at = Some(head.key.clone());
        self.stream = Some(stream);
        Some(head)
    }
}

/// sstables that lie one behind the other on the ring, read as if they were one: only one of them
/// has buffers at a time.
///
/// What is read is written again, so that it must be in order. Items of one file at one place, as
/// Cassandras with bugs have written them, are one (CASSANDRA-12144).
pub(crate) struct ChainScan {
    env: Env,
    table: Arc<Table>,
    current: Option<Scanner>,
    /// The item that was read last: the next one may be at its place.
    held: Option<Unfiltered>,
    /// In ring order.
    later: VecDeque<SSTable>,
    options: ScanOptions,
}

impl ChainScan {
    /// Of sstables in ring order, of which none reaches to the first key of the next one.
    pub(crate) fn new(
        env: &Env,
        table: Arc<Table>,
        sstables: Vec<SSTable>,
        options: ScanOptions,
    ) -> ChainScan {
        ChainScan {
            env: env.clone(),
            table,
            current: None,
            held: None,
            later: sstables.into(),
            options,
        }
    }

    async fn next_partition(&mut self) -> Result<Option<PartitionHead>, SSTableError> {
        self.held = None;
        loop {
            if let Some(scanner) = &mut self.current
                && let Some(head) = scanner.next_partition().await?
            {
                return Ok(Some(head));
            }
            self.current = self.later.pop_front().map(|s| s.scan(self.options.clone()));
            if self.current.is_none() {
                return Ok(None);
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        let Some(scanner) = &mut self.current else {
            return Ok(None);
        };
        loop {
            let Some(item) = scanner.next().await? else {
                return Ok(self.held.take());
            };
            let Some(held) = self.held.take() else {
                self.held = Some(item);
                continue;
            };
            match held.compare(&item, self.table.comparator()) {
                Ordering::Less => {
                    self.held = Some(item);
                    return Ok(Some(held));
                }
                Ordering::Equal => self.held = held.join(item, &self.table),
                Ordering::Greater => {
                    return Err(scanner.corrupt("the rows of a partition are not in order"));
                }
            }
            self.env.maybe_yield().await;
        }
    }
}

/// The partitions of a range of a memtable or of sstables.
pub(crate) enum ScanSource {
    /// In memory.
    Memory(Box<MemScan>),
    /// On disk.
    File(Box<Scanner>),
    /// On disk, in several sstables.
    Chain(Box<ChainScan>),
}

impl ScanSource {
    async fn next_partition(&mut self) -> Result<Option<PartitionHead>, SSTableError> {
        match self {
            ScanSource::Memory(scan) => Ok(scan.next_partition()),
            ScanSource::File(scanner) => scanner.next_partition().await,
            ScanSource::Chain(chain) => chain.next_partition().await,
        }
    }
}

impl Items for ScanSource {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        match self {
            ScanSource::Memory(scan) => Ok(scan.stream.as_mut().and_then(MemStream::next)),
            ScanSource::File(scanner) => scanner.next().await,
            ScanSource::Chain(chain) => chain.next().await,
        }
    }

    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow> {
        match self {
            ScanSource::Memory(_) | ScanSource::Chain(_) => None,
            ScanSource::File(scanner) => scanner.plain_row(now_seconds, scratch),
        }
    }
}

/// The partitions of a range, from all who know of them, in ring order.
pub(crate) struct MergedScan {
    table: Arc<Table>,
    /// With the partition that is each one's next. Those of the current one come first, and their heads are
    /// taken.
    sources: Vec<(ScanSource, Option<PartitionHead>)>,
    /// How many those are; at the beginning, where none has said what it has, all.
    current: usize,
    items: MergedItems,
}

impl MergedScan {
    /// Merges `sources`.
    pub(crate) fn new(env: &Env, table: Arc<Table>, sources: Vec<ScanSource>) -> MergedScan {
        let merger = Merger::new(table.clone(), 0, DeletionTime::LIVE, false);
        MergedScan {
            items: MergedItems::new(env, merger),
            table,
            current: sources.len(),
            sources: sources.into_iter().map(|source| (source, None)).collect(),
        }
    }

    /// Goes to the next partition, whatever is left of this one; `None` at the end.
    pub(crate) async fn next_partition(&mut self) -> Result<Option<PartitionHead>, SSTableError> {
        let advance = std::mem::take(&mut self.current);
        let mut ended = false;
        for (source, head) in &mut self.sources[..advance] {
            *head = source.next_partition().await?;
            ended |= head.is_none();
        }
        if ended {
            self.sources.retain(|(_, head)| head.is_some());
        }
        self.current = self.gather_first();
        let heads = self.sources[..self.current].iter_mut();
        let Some(head) = merge_heads(heads.filter_map(|(_, head)| head.take()), &self.table) else {
            return Ok(None);
        };
        self.items.restart(self.current, head.deletion);
        Ok(Some(head))
    }

    /// Brings those to the front whose next partition is the first of all; says how many they are.
    fn gather_first(&mut self) -> usize {
        let mut count = 0;
        for at in 0..self.sources.len() {
            let key = |at: usize| self.sources[at].1.as_ref().map(|head| &head.key);
            let order = match count {
                0 => Ordering::Less,
                _ => key(at).cmp(&key(0)),
            };
            match order {
                Ordering::Less => count = 0,
                Ordering::Equal => {}
                Ordering::Greater => continue,
            }
            if count != at {
                self.sources.swap(count, at);
            }
            count += 1;
        }
        count
    }

    /// The rows of the partition, if only a memtable knows of it and has nothing else.
    pub(crate) fn only_rows(&mut self) -> Option<&mut MemStream> {
        match &mut self.sources[..self.current] {
            [(ScanSource::Memory(scan), _)] => scan.stream.as_mut().filter(|s| s.has_only_rows()),
            _ => None,
        }
    }

    /// How many know of the current partition; 0 behind the last one.
    pub(crate) fn sources(&self) -> usize {
        self.current
    }

    /// Is the current partition in one sstable, and nowhere else?
    pub(crate) fn is_in_one_file(&self) -> bool {
        matches!(self.sources[..self.current], [(ScanSource::File(_), _)])
    }
}

/// Those of the current partition.
impl Items for MergedScan {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        let sources = &mut self.sources[..self.current];
        self.items.next(sources).await
    }

    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow> {
        let sources = &mut self.sources[..self.current];
        self.items.plain_row(sources, now_seconds, scratch)
    }
}

impl Items for (ScanSource, Option<PartitionHead>) {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        self.0.next().await
    }

    fn plain_row(&mut self, now_seconds: u32, scratch: &mut Vec<u8>) -> Option<PackedRow> {
        self.0.plain_row(now_seconds, scratch)
    }
}
