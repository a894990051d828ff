//! Entries of an index that lead to rows which have not their value any more: whoever reads by the index
//! meets them, and has them removed, so that they are not met again (`CompositesSearcher.deleteAllEntries`).
//!
//! An entry is removed only where the row says why: what it stands for was overwritten or deleted, at its
//! time or later. As long as the row says so, nothing as old as the entry can be what the row has. Of a
//! row that says nothing, as what deleted it was forgotten, only entries are removed that are older than
//! anything that may still arrive (`gc_grace_seconds`).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{
    Clustering, ColumnKind, DecoratedKey, DeletionTime, IndexPart, PartitionUpdate, Row, Slice,
    Table,
};

use super::IndexView;
use crate::PartitionHead;
use crate::index::{Entry, IndexDefinition};

/// How many are noted by one read at most; what is left is met by another one.
const MOST: usize = 1024;
/// An entry of a row that says nothing is to be older than `gc_grace_seconds` by so much, in microseconds:
/// clocks of clients may be wrong.
const MARGIN: i64 = 24 * 3600 * 1_000_000;
/// The first timestamp that is taken for a time, that of the year 2000: where clients count otherwise, nobody
/// knows what may still arrive.
const TIMES: i64 = 946_684_800_000_000;

/// Entries that were found to be stale: where they lie, and when they were written.
#[derive(Default)]
pub(crate) struct Stale(RefCell<Vec<(Clustering, i64)>>);

impl Stale {
    fn add(&self, entry: Entry) {
        let mut all = self.0.borrow_mut();
        if all.len() < MOST {
            all.push((entry.clustering, entry.timestamp));
        }
    }

    /// The deletion of all of them.
    pub(crate) fn deletion(&self, entries: &Arc<Table>, now: u32) -> Option<PartitionUpdate> {
        let all = self.0.take();
        if all.is_empty() {
            return None;
        }
        let mut update = PartitionUpdate::new(entries.clone(), IndexDefinition::partition());
        for (clustering, timestamp) in all {
            update.row_mut(&clustering).deletion = DeletionTime {
                timestamp,
                local_deletion_time: now,
            };
        }
        Some(update)
    }
}

/// Holds the entries that name some rows of a partition against these rows, as they are read.
pub(super) struct Checks<'c> {
    index: &'c IndexView,
    key: &'c DecoratedKey,
    table: Arc<Table>,
    /// Those whose row has not come yet, in the order of the rows.
    waiting: VecDeque<Entry>,
    /// The deletion of the partition.
    deletion: DeletionTime,
    /// Entries of then, of rows of which nothing is known, are stale.
    forgotten: Range<i64>,
}

impl<'c> Checks<'c> {
    /// Of `entries` those are looked at whose rows are read.
    pub(super) fn new(
        index: &'c IndexView,
        (key, slices): (&'c DecoratedKey, &Rc<[Slice]>),
        head: &PartitionHead,
        entries: Vec<Entry>,
        (env, table): (&Env, &Arc<Table>),
    ) -> Checks<'c> {
        let comparator = table.comparator();
        let is_read = |entry: &Entry| {
            let row = entry.candidate.row.as_ref();
            row.is_some_and(|row| slices.iter().any(|slice| slice.contains(comparator, row)))
        };
        let grace = i64::from(table.options.gc_grace_seconds.max(0)) * 1_000_000;
        Checks {
            index,
            key,
            waiting: entries.into_iter().filter(is_read).collect(),
            deletion: head.deletion,
            forgotten: TIMES..env.wall_micros() - grace - MARGIN,
            table: table.clone(),
        }
    }

    /// A row, with all that is known of it.
    pub(super) fn row(&mut self, row: &Row) {
        let mut own: Option<Option<PartitionUpdate>> = None;
        while let Some(entry) = self.waiting.pop_front() {
            let comparator = self.table.comparator();
            let place = entry.candidate.row.as_ref();
            match place.map(|place| comparator.compare(place, &row.clustering)) {
                Some(Ordering::Less) => self.without_row(entry),
                Some(Ordering::Equal) => {
                    if self.has_value(row, &entry) {
                        continue;
                    }
                    let own = own.get_or_insert_with(|| self.entries_of(row));
                    let is_own = |update: &PartitionUpdate| {
                        let mut rows = update.rows.iter();
                        rows.any(|own| own.clustering == entry.clustering)
                    };
                    if !own.as_ref().is_some_and(is_own) && self.says_why(row, &entry) {
                        self.index.stale.add(entry);
                    }
                }
                _ => {
                    self.waiting.push_front(entry);
                    return;
                }
            }
        }
    }

    /// All rows have come.
    pub(super) fn end(&mut self) {
        while let Some(entry) = self.waiting.pop_front() {
            self.without_row(entry);
        }
    }

    fn without_row(&self, entry: Entry) {
        if self.deletion.deletes(entry.timestamp) || self.forgotten.contains(&entry.timestamp) {
            self.index.stale.add(entry);
        }
    }

    /// The short way, for what most rows are found by.
    fn has_value(&self, row: &Row, entry: &Entry) -> bool {
        let definition = &self.index.definition;
        if definition.column.kind != ColumnKind::Regular
            || definition.index.part() != IndexPart::Simple
        {
            return false;
        }
        let cell = row.cells_of(definition.column.id).first();
        cell.is_some_and(|cell| {
            !cell.is_tombstone() && entry.clustering.0.first() == Some(&cell.value)
        })
    }

    /// The entries that the row makes.
    fn entries_of(&self, row: &Row) -> Option<PartitionUpdate> {
        let mut update = PartitionUpdate::new(self.table.clone(), self.key.clone());
        update.rows.push(row.clone());
        self.index.definition.entries_of(&update)
    }

    /// Does the row know of something that overwrote or deleted what the entry stands for?
    fn says_why(&self, row: &Row, entry: &Entry) -> bool {
        let column = self.index.definition.column.id;
        let path = entry.clustering.0.last().filter(|path| !path.is_empty());
        let mut complex = row.complex_deletions.iter();
        self.deletion.deletes(entry.timestamp)
            || row.deletion.deletes(entry.timestamp)
            || complex.any(|of| of.column == column && of.deletion.deletes(entry.timestamp))
            || row
                .cells_of(column)
                .iter()
                .any(|cell| cell.path.as_ref() == path && cell.timestamp >= entry.timestamp)
    }
}
