//! The partitions of a range, from all who know of them.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{DecoratedKey, DeletionTime, PackedRow, PartitionBound, Slice, Table};

use super::{Items, MergedItems, Merger, merge_heads};
use crate::memtable::{MemStream, Memtable};
use crate::sstable::{PlainRequest, SSTable, SSTableError, ScanOptions, Scanner};
use crate::{PartitionHead, Unfiltered};

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

    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        match self {
            ScanSource::Memory(scan) => scan.stream.as_mut()?.plain_row(request.now_seconds),
            ScanSource::File(scanner) => scanner.plain_row(request),
            ScanSource::Chain(_) => None,
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

    /// The number of the newest sstable that knows of the current partition; `None` if that of one of them is not known, or
    /// behind the last partition.
    pub(crate) fn newest(&self) -> Option<u64> {
        let of = |source: &ScanSource| match source {
            ScanSource::Memory(_) => None,
            ScanSource::File(scanner) => scanner.number(),
            ScanSource::Chain(chain) => chain.current.as_ref().and_then(Scanner::number),
        };
        let current = &self.sources[..self.current];
        let numbers = current.iter().map(|(source, _)| of(source));
        numbers.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Does the cache have what was read last of the current partition, from any source?
    pub(crate) fn is_cached(&self) -> bool {
        let current = &self.sources[..self.current];
        current.iter().any(|(source, _)| match source {
            ScanSource::Memory(_) => false,
            ScanSource::File(scanner) => scanner.is_cached(),
            ScanSource::Chain(chain) => chain.current.as_ref().is_some_and(Scanner::is_cached),
        })
    }

    /// May rows of the current partition be plain?
    pub(crate) fn may_have_plain_rows(&self) -> bool {
        let current = &self.sources[..self.current];
        current.iter().any(|(source, _)| match source {
            ScanSource::Memory(scan) => scan.stream.as_ref().is_some_and(MemStream::has_only_rows),
            ScanSource::File(_) => true,
            ScanSource::Chain(_) => false,
        })
    }
}

/// Those of the current partition.
impl Items for MergedScan {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        let sources = &mut self.sources[..self.current];
        self.items.next(sources).await
    }

    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        let sources = &mut self.sources[..self.current];
        self.items.plain_row(sources, request)
    }
}

impl Items for (ScanSource, Option<PartitionHead>) {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        self.0.next().await
    }

    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        self.0.plain_row(request)
    }
}
