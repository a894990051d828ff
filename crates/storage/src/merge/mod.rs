//! Several versions of a partition become one stream.
//!
//! Sources give items in the same direction, each well formed by itself. [`Merger`] decides, with
//! the next item of each source before it, what comes next: of rows at one place one row, of
//! markers at one place the marker (if any) at which the strongest deletion of all sources
//! changes. What a deletion covers is dropped on the way, so that what comes out says the same as
//! what went in, with nothing in it that has no effect.

mod merger;
mod scan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use io::Env;
use model::{DeletionTime, PackedRow, Table};

use crate::memtable::MemStream;
use crate::sstable::{PartitionReader, PlainRequest, SSTableError};
use crate::{PartitionHead, Unfiltered};
use merger::{Merger, Next};
pub(crate) use scan::{ChainScan, MemScan, MergedScan, ScanSource};

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

    /// The next item in the form that pages have, if it is a row of which all is to be seen, and known without waiting.
    /// Without one, [`Items::next`] knows what is next.
    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow>;
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

    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        match self {
            Source::Memory(stream) => stream.plain_row(request.now_seconds),
            Source::File(reader) => reader.plain_row(request),
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
        let sources = merger.sources();
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

    /// See [`Items::plain_row`]: one that no deletion is about, and no other source.
    fn plain_row(
        &mut self,
        sources: &mut [impl Items],
        request: &mut PlainRequest<'_>,
    ) -> Option<PackedRow> {
        if !self.merger.deletes_nothing() {
            return None;
        }
        request.alone &= sources.len() == 1;
        for (next, source) in self.next.iter_mut().zip(sources) {
            if *next == Next::Unknown {
                *next = Next::Plain(source.plain_row(request)?);
            }
        }
        self.merger.step_plain(&mut self.next)
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

    /// May rows of it be plain?
    pub(crate) fn may_have_plain_rows(&self) -> bool {
        self.sources.iter().any(|source| match source {
            Source::Memory(stream) => stream.has_only_rows(),
            Source::File(_) => true,
        })
    }
}

impl Items for MergedPartition {
    async fn next(&mut self) -> Result<Option<Unfiltered>, SSTableError> {
        self.items.next(&mut self.sources).await
    }

    fn plain_row(&mut self, request: &mut PlainRequest<'_>) -> Option<PackedRow> {
        self.items.plain_row(&mut self.sources, request)
    }
}
