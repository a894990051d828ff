//! Reading a range of the ring by an index: the scan that skips.
//!
//! Instead of all partitions of the range, the rows are read that an index names, in the same order;
//! and each passes all filters, so that what is stale in the index is not shown.

use std::rc::Rc;

use io::Env;
use model::{
    Clustering, DataLimits, DecoratedKey, PartitionBound, PartitionSelection, ReadCommand,
    ReadPage, Slice,
};

use super::page::{Flow, PageBuilder};
use super::{ReadCounters, Reading, View};
use crate::Unfiltered;
use crate::index::{Candidate, IndexDefinition};
use crate::merge::{MergedPartition, Source};
use crate::sstable::SSTableError;

/// How many rows of a partition are looked for at once.
const ROWS_AT_ONCE: usize = 64;

/// An index that a read asks, as it is at the same moment as the table.
pub(crate) struct IndexView {
    /// Which.
    pub(crate) definition: Rc<IndexDefinition>,
    /// The value whose entries are wanted.
    pub(crate) value: bytes::Bytes,
    /// The table of its entries.
    pub(crate) entries: View,
}

impl IndexView {
    /// The candidates of a range of the ring, or those of it behind one.
    async fn candidates(
        &self,
        env: &Env,
        range: (&PartitionBound, &PartitionBound),
        (behind, now_seconds): (Option<&Candidate>, u32),
    ) -> Result<Candidates<'_>, SSTableError> {
        let table = self.entries.table.clone();
        let key = IndexDefinition::partition();
        let slice = self.definition.slice(&self.value, range, behind);
        let is_empty = slice.is_empty(table.comparator());
        let slices: Rc<[Slice]> = Rc::new([slice]);
        let command = ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Key(key.clone()),
            clustering: model::ClusteringSelection {
                slices: slices.to_vec(),
                reversed: false,
            },
            columns: Vec::new(),
            filters: Vec::new(),
            limits: DataLimits {
                rows: u32::MAX,
                rows_per_partition: u32::MAX,
                bytes: u32::MAX,
            },
            now_seconds,
            resume: None,
            bypass_cache: false,
        };
        let counters = ReadCounters::default();
        let reading = Reading {
            view: &self.entries,
            env,
            command: &command,
            counters: &counters,
            found: std::cell::Cell::new(0),
            columns: std::borrow::Cow::Borrowed(&[]),
        };
        let sources: Vec<Source> = match is_empty {
            true => Vec::new(),
            false => reading.sources(&key, &slices, false).await?,
        };
        Ok(Candidates {
            definition: &self.definition,
            entries: MergedPartition::new(env, table, sources, false),
            next: None,
            now_seconds,
        })
    }
}

/// Candidates, in the order of the ring.
struct Candidates<'i> {
    definition: &'i IndexDefinition,
    entries: Option<MergedPartition>,
    /// The one that was looked at last, and not given yet.
    next: Option<Candidate>,
    now_seconds: u32,
}

impl Candidates<'_> {
    /// The next one, without taking it.
    async fn peek(&mut self) -> Result<Option<&Candidate>, SSTableError> {
        if self.next.is_none() {
            self.next = self.following(None).await?;
        }
        Ok(self.next.as_ref())
    }

    /// The next one that is not `before`: a row may have several entries of a value.
    async fn following(
        &mut self,
        before: Option<&Candidate>,
    ) -> Result<Option<Candidate>, SSTableError> {
        let Some(entries) = &mut self.entries else {
            return Ok(None);
        };
        while let Some(item) = entries.next().await? {
            let Unfiltered::Row(row) = item else {
                continue;
            };
            if !row.is_live(self.now_seconds) {
                continue;
            }
            let candidate = self.definition.candidate(&row.clustering);
            if let Some(candidate) = candidate.filter(|found| Some(found) != before) {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// The next partition, and the rows of it that come next; `None` in place of these: all.
    async fn take(
        &mut self,
    ) -> Result<Option<(DecoratedKey, Option<Vec<Clustering>>)>, SSTableError> {
        self.peek().await?;
        let Some(mut last) = self.next.take() else {
            return Ok(None);
        };
        let key = last.key.clone();
        let mut rows = Vec::new();
        loop {
            rows.extend(last.row.clone());
            let Some(next) = self.following(Some(&last)).await? else {
                break;
            };
            if next.key != key || rows.len() == ROWS_AT_ONCE {
                self.next = Some(next);
                break;
            }
            last = next;
        }
        Ok(Some((key, (!rows.is_empty()).then_some(rows))))
    }
}

impl<'r> Reading<'r> {
    /// Reads a range of the ring by an index.
    pub(super) async fn range_by_index(
        &self,
        index: &IndexView,
        (start, end): (&PartitionBound, &PartitionBound),
        mut page: PageBuilder<'r>,
    ) -> Result<ReadPage, SSTableError> {
        let mut start = start.clone();
        let mut behind = None;
        let mut resume = self.command.resume.as_ref();
        if let Some(at) = resume {
            let goes_on = at.clustering.is_some() && at.remaining_in_partition > 0;
            if goes_on && self.view.table.clustering_key().len() > 0 {
                start = PartitionBound::KeyInclusive(at.key.clone());
                behind = Some(Candidate {
                    key: at.key.clone(),
                    row: at.clustering.clone(),
                });
                behind.take_if(|_| model::Index::is_of_partitions(&index.definition.column));
            } else {
                start = PartitionBound::KeyExclusive(at.key.clone());
                resume = None;
            }
        }
        let place = (behind.as_ref(), self.command.now_seconds);
        let range = (&start, end);
        let mut candidates = index.candidates(self.env, range, place).await?;
        // The partition whose rows come, and whether any more of it is wanted.
        let mut current: Option<(DecoratedKey, bool)> = None;
        let mut rows = 0;
        while let Some((key, found)) = candidates.take().await? {
            self.give_way(&mut rows).await;
            let is_same = current.as_ref().is_some_and(|(known, _)| *known == key);
            if is_same && current.as_ref().is_some_and(|(_, wanted)| !wanted) {
                continue;
            }
            if !is_same && page.end() {
                return Ok(page.finish(true));
            }
            let resumed = resume.filter(|at| at.key == key);
            let Some(found) = found else {
                // Empty pages come of a partition that was read to its end before.
                let more = self.partition(&key, resumed, &mut page).await?;
                if more {
                    return Ok(page.finish(true));
                }
                current = Some((key, false));
                continue;
            };
            let slices = self.slices_of(found);
            if slices.is_empty() {
                continue;
            }
            let sources = self.sources(&key, &slices, false).await?;
            let table = self.view.table.clone();
            let Some(mut merged) = MergedPartition::new(self.env, table, sources, false) else {
                continue;
            };
            if !is_same {
                let remaining = resumed.map(|at| at.remaining_in_partition);
                let wanted = page.begin(merged.head(), remaining, &self.view.table);
                current = Some((key.clone(), wanted));
                if !wanted {
                    continue;
                }
            }
            match self.rows_of(&mut merged, &mut page, &mut rows).await? {
                Flow::More => {}
                Flow::PartitionDone => current = Some((key, false)),
                Flow::PageDone => {
                    let more = merged.next().await?.is_some() || candidates.peek().await?.is_some();
                    return Ok(page.finish(more));
                }
            }
        }
        Ok(page.finish(false))
    }

    async fn rows_of(
        &self,
        merged: &mut MergedPartition,
        page: &mut PageBuilder<'r>,
        rows: &mut u32,
    ) -> Result<Flow, SSTableError> {
        while let Some(item) = merged.next().await? {
            self.give_way(rows).await;
            let flow = match item {
                Unfiltered::Row(row) => page.row(row),
                Unfiltered::Marker(marker) => page.marker(&marker),
            };
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        Ok(Flow::More)
    }

    /// The rows that the command asks for, too.
    fn slices_of(&self, rows: Vec<Clustering>) -> Rc<[Slice]> {
        let comparator = self.view.table.comparator();
        let wanted = &self.command.clustering.slices;
        let is_wanted = |row: &Clustering| wanted.iter().any(|s| s.contains(comparator, row));
        rows.into_iter()
            .filter(is_wanted)
            .map(Slice::of_prefix)
            .collect()
    }
}
