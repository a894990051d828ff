//! Reading a range of the ring by an index: the scan that skips.
//!
//! Instead of all partitions of the range, the rows are read that an index names, in the same order;
//! and each passes all filters, so that what is stale in the index is not shown. What was found to be stale
//! is noted ([`super::stale`]) and removed afterwards.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use io::Env;
use model::{
    Clustering, ClusteringSelection, DataLimits, DecoratedKey, Index, PartitionBound,
    PartitionSelection, ReadCommand, ReadPage, Resume, Slice, Table,
};

use super::page::{Flow, PageBuilder};
use super::stale::{Checks, Stale};
use super::{ReadCounters, Reading, View};
use crate::Unfiltered;
use crate::index::{Candidate, Entry, IndexDefinition, Lookup};
use crate::merge::{Items, MergedPartition, Source};
use crate::sstable::SSTableError;

/// How many rows of a partition are looked for at once.
const ROWS_AT_ONCE: usize = 64;

/// By how many entries at most, unless the next ones lead to the same row.
const MOST_ENTRIES: usize = 1024;

/// How many entries of a range of values are held at once.
const WINDOW: usize = 4096;

/// An index that a read asks, as it is at the same moment as the table.
pub(crate) struct IndexView {
    /// Which.
    pub(crate) definition: Rc<IndexDefinition>,
    /// Of which values the entries are wanted.
    pub(crate) lookup: Lookup,
    /// The table of its entries.
    pub(crate) entries: View,
    /// How many of its sstables are looked into, if whoever asked is to be warned of that; else 0.
    pub(crate) many_sstables: u64,
    /// Entries that were found to lead to nothing.
    pub(crate) stale: Stale,
}

/// Where candidates are wanted.
#[derive(Clone)]
struct Place {
    start: PartitionBound,
    end: PartitionBound,
    /// Those behind this one.
    behind: Option<Candidate>,
    now_seconds: u32,
}

impl Place {
    fn contains(&self, candidate: &Candidate, table: &Table) -> bool {
        let key = &candidate.key;
        let above = match &self.start {
            PartitionBound::Unbounded => true,
            PartitionBound::TokenInclusive(token) => key.token() >= *token,
            PartitionBound::TokenExclusive(token) => key.token() > *token,
            PartitionBound::KeyInclusive(start) => key >= start,
            PartitionBound::KeyExclusive(start) => key > start,
        };
        let below = match &self.end {
            PartitionBound::Unbounded => true,
            PartitionBound::TokenInclusive(token) => key.token() <= *token,
            PartitionBound::TokenExclusive(token) => key.token() < *token,
            PartitionBound::KeyInclusive(end) => key <= end,
            PartitionBound::KeyExclusive(end) => key < end,
        };
        let behind = self.behind.as_ref();
        above && below && behind.is_none_or(|at| compare(at, candidate, table).is_lt())
    }
}

/// The order of the ring.
fn compare(a: &Candidate, b: &Candidate, table: &Table) -> Ordering {
    let rows = || match (&a.row, &b.row) {
        (Some(a), Some(b)) => table.comparator().compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    a.key.cmp(&b.key).then_with(rows)
}

impl IndexView {
    /// The candidates of a place, in the order of the ring.
    async fn candidates<'i>(
        &'i self,
        env: &'i Env,
        table: &'i Table,
        place: Place,
    ) -> Result<Candidates<'i>, SSTableError> {
        let entries = match &self.lookup {
            Lookup::Value(value) => {
                let range = (&place.start, &place.end);
                let slice = IndexDefinition::slice(value, range, place.behind.as_ref());
                let entries = self.entries_in(env, slice, place.now_seconds).await?;
                Entries::InOrder(entries.map(Box::new))
            }
            Lookup::Range(_) | Lookup::Like(..) => Entries::Window {
                held: Vec::new().into_iter(),
                is_last: false,
            },
        };
        Ok(Candidates {
            view: self,
            env,
            table,
            place,
            entries,
            next: None,
        })
    }

    async fn entries_in(
        &self,
        env: &Env,
        slice: Slice,
        now_seconds: u32,
    ) -> Result<Option<MergedPartition>, SSTableError> {
        let table = self.entries.table.clone();
        if slice.is_empty(table.comparator()) {
            return Ok(None);
        }
        let key = IndexDefinition::partition();
        let slices: Rc<[Slice]> = Rc::new([slice]);
        let command = ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Key(key.clone()),
            clustering: ClusteringSelection {
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
            packed: false,
        };
        let counters = ReadCounters::default();
        let reading = Reading {
            view: &self.entries,
            env,
            command: &command,
            counters: &counters,
            found: Cell::new(0),
            columns: Cow::Borrowed(&[]),
        };
        let sources: Vec<Source> = reading.sources(&key, &slices, false).await?;
        Ok(MergedPartition::new(env, table, sources, false))
    }
}

/// The entries of a lookup.
enum Entries {
    /// Those of one value lie in the order of the ring.
    InOrder(Option<Box<MergedPartition>>),
    /// Those of a range of values do not: all of them are looked at for the candidates that come next,
    /// as many as a window holds, and again for those behind them.
    Window {
        held: std::vec::IntoIter<Entry>,
        is_last: bool,
    },
}

/// Candidates, in the order of the ring.
struct Candidates<'i> {
    view: &'i IndexView,
    env: &'i Env,
    table: &'i Table,
    place: Place,
    entries: Entries,
    /// The one that was looked at last, and not given yet.
    next: Option<Entry>,
}

/// A partition that is named, or some rows of it.
struct Taken {
    key: DecoratedKey,
    /// In order; `None`: all that it has.
    rows: Option<Vec<Clustering>>,
    /// Those that name the rows, in their order.
    entries: Vec<Entry>,
}

impl Candidates<'_> {
    /// The next entry, without taking it.
    async fn peek(&mut self) -> Result<Option<&Entry>, SSTableError> {
        if self.next.is_none() {
            self.next = self.following().await?;
        }
        Ok(self.next.as_ref())
    }

    async fn following(&mut self) -> Result<Option<Entry>, SSTableError> {
        loop {
            match &mut self.entries {
                Entries::InOrder(None) => return Ok(None),
                Entries::InOrder(Some(entries)) => {
                    let now = self.place.now_seconds;
                    return next_entry(entries, (self.view, self.env), now).await;
                }
                Entries::Window { held, is_last } => {
                    if let Some(next) = held.next() {
                        self.place.behind = Some(next.candidate.clone());
                        return Ok(Some(next));
                    }
                    if *is_last {
                        return Ok(None);
                    }
                    self.entries = self.window().await?;
                }
            }
        }
    }

    /// Looks through all entries of the range of values for the candidates that come next.
    async fn window(&self) -> Result<Entries, SSTableError> {
        let now = self.place.now_seconds;
        let slice = self.view.lookup.slice();
        let entries = self.view.entries_in(self.env, slice, now).await?;
        let mut held: Vec<Entry> = Vec::new();
        let mut is_last = true;
        let shrink = |held: &mut Vec<Entry>| {
            held.sort_by(|a, b| compare(&a.candidate, &b.candidate, self.table));
            let is_more = held.len() > WINDOW;
            held.truncate(WINDOW);
            is_more
        };
        if let Some(mut entries) = entries {
            let mut seen = 0_u32;
            while let Some(next) = next_entry(&mut entries, (self.view, self.env), now).await? {
                seen += 1;
                if seen.is_multiple_of(super::ROWS_A_LOOK) {
                    self.env.maybe_yield().await;
                }
                if self.place.contains(&next.candidate, self.table) {
                    held.push(next);
                }
                if held.len() == 2 * WINDOW {
                    is_last &= !shrink(&mut held);
                }
            }
        }
        is_last &= !shrink(&mut held);
        Ok(Entries::Window {
            held: held.into_iter(),
            is_last,
        })
    }

    /// The next partition, and the rows of it that come next. A row may have several entries.
    async fn take(&mut self) -> Result<Option<Taken>, SSTableError> {
        self.peek().await?;
        let Some(first) = self.next.take() else {
            return Ok(None);
        };
        let mut taken = Taken {
            key: first.candidate.key.clone(),
            rows: first.candidate.row.clone().map(|row| vec![row]),
            entries: vec![first],
        };
        while let Some(next) = self.following().await? {
            let is_same = next.candidate.key == taken.key;
            let is_row = match (&mut taken.rows, &next.candidate.row) {
                (Some(rows), Some(row)) => rows.last() != Some(row),
                _ => false,
            };
            let is_enough = taken.entries.len() >= MOST_ENTRIES
                || is_row && taken.rows.as_ref().is_some_and(|r| r.len() == ROWS_AT_ONCE);
            if !is_same || is_enough {
                self.next = Some(next);
                break;
            }
            if is_row && let (Some(rows), Some(row)) = (&mut taken.rows, &next.candidate.row) {
                rows.push(row.clone());
            }
            taken.entries.push(next);
        }
        Ok(Some(taken))
    }
}

/// The next entry that is live and wanted.
async fn next_entry(
    entries: &mut MergedPartition,
    (view, env): (&IndexView, &Env),
    now_seconds: u32,
) -> Result<Option<Entry>, SSTableError> {
    let IndexView {
        definition, lookup, ..
    } = view;
    let mut looked = 0_u32;
    while let Some(item) = entries.next().await? {
        looked += 1;
        if looked.is_multiple_of(super::ROWS_A_LOOK) {
            env.maybe_yield().await;
        }
        let Unfiltered::Row(row) = item else {
            continue;
        };
        if row.is_live(now_seconds)
            && row
                .clustering
                .0
                .first()
                .is_some_and(|value| lookup.wants(value))
            && let Some(candidate) = definition.candidate(&row.clustering)
        {
            return Ok(Some(Entry {
                candidate,
                timestamp: row.liveness.timestamp,
                clustering: row.clustering,
            }));
        }
    }
    Ok(None)
}

impl<'r> Reading<'r> {
    /// Reads a range of the ring by an index.
    pub(super) async fn range_by_index(
        &self,
        index: &IndexView,
        (start, end): (&PartitionBound, &PartitionBound),
        mut page: PageBuilder<'r>,
    ) -> Result<ReadPage, SSTableError> {
        let (place, resume) = self.place_of(index, (start, end));
        let mut candidates = index.candidates(self.env, &self.view.table, place).await?;
        // The partition whose rows come, and whether any more of it is wanted.
        let mut current: Option<(DecoratedKey, bool)> = None;
        let mut rows = 0;
        while let Some(Taken {
            key,
            rows: found,
            entries,
        }) = candidates.take().await?
        {
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
            let mut checks = Checks::new(
                index,
                (&key, &slices),
                merged.head(),
                entries,
                (self.env, &self.view.table),
            );
            match self
                .rows_of(&mut merged, (&mut page, &mut checks), &mut rows)
                .await?
            {
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

    /// Where candidates are wanted, and the partition that goes on.
    fn place_of(
        &self,
        index: &IndexView,
        (start, end): (&PartitionBound, &PartitionBound),
    ) -> (Place, Option<&'r Resume>) {
        let mut place = Place {
            start: start.clone(),
            end: end.clone(),
            behind: None,
            now_seconds: self.command.now_seconds,
        };
        let Some(at) = &self.command.resume else {
            return (place, None);
        };
        let goes_on = at.clustering.is_some() && at.remaining_in_partition > 0;
        if !goes_on || self.view.table.clustering_key().len() == 0 {
            place.start = PartitionBound::KeyExclusive(at.key.clone());
            return (place, None);
        }
        place.start = PartitionBound::KeyInclusive(at.key.clone());
        if !Index::is_of_partitions(&index.definition.column) {
            place.behind = Some(Candidate {
                key: at.key.clone(),
                row: at.clustering.clone(),
            });
        }
        (place, Some(at))
    }

    async fn rows_of(
        &self,
        merged: &mut MergedPartition,
        (page, checks): (&mut PageBuilder<'r>, &mut Checks<'_>),
        rows: &mut u32,
    ) -> Result<Flow, SSTableError> {
        while let Some(item) = merged.next().await? {
            self.give_way(rows).await;
            let flow = match item {
                Unfiltered::Row(row) => {
                    checks.row(&row);
                    page.row(row)
                }
                Unfiltered::Marker(marker) => page.marker(&marker),
            };
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        checks.end();
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
