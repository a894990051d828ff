//! What a write of a table means for its materialized views (`TableViews`, `ViewUpdateGenerator`).
//!
//! A replica reads what it knows of the rows that a write touches, and gives that and the write to
//! [`view_updates`]; what comes back is to be written to the views. All times in it are those of the table's own
//! cells, so that it does not matter in which order, or how often, it is applied there. That holds as long as the
//! writes of a partition are looked at one after the other, each with what the one before left.
//!
//! A row of a view dies, where its table does not say that its whole row is deleted, by a marker that has expired
//! and not by a deletion: it must not take cells with it that are older than the marker and come back with a later
//! one (CASSANDRA-11500, CASSANDRA-13826).

mod entry;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Cell, Clustering, Column, ColumnId, ColumnKind, DecoratedKey, DeletionTime, Mutation,
    Partition, PartitionUpdate, Row, Slice, Table, ViewRows, decode_key,
};

use self::entry::Entry;
use crate::read::Filters;

/// A view, as a replica keeps it.
#[derive(Debug)]
pub struct ViewRule {
    base: Arc<Table>,
    view: Arc<Table>,
    rows: ViewRows,
    /// Where the values of the key of the view are, partition key first.
    key: Vec<Source>,
    /// The column of the view, by those of the table that are values there; sorted.
    shown: Vec<(ColumnId, ColumnId)>,
    /// The column of the table that is in the key of the view, but not in its own.
    extra: Option<ColumnId>,
}

/// Where a value of the key of a view is in its table.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// At this position of the partition key.
    PartitionKey(usize),
    /// At this position of the clustering key.
    Clustering(usize),
    /// In this column.
    Value(ColumnId),
}

impl ViewRule {
    /// Of a view of a table, which shows these rows. `None` if it is no view of this table: it has columns that the
    /// table does not have.
    pub fn new(base: &Arc<Table>, view: &Arc<Table>, rows: ViewRows) -> Option<ViewRule> {
        let of_base = |column: &Column| base.column_named(&column.name);
        let (mut key, mut extra) = (Vec::new(), None);
        for column in view.partition_key().chain(view.clustering_key()) {
            let column = of_base(column)?;
            key.push(match column.kind {
                ColumnKind::PartitionKey => Source::PartitionKey(column.position),
                ColumnKind::Clustering => Source::Clustering(column.position),
                ColumnKind::Regular => {
                    extra = Some(column.id);
                    Source::Value(column.id)
                }
                ColumnKind::Static => return None,
            });
        }
        let mut shown = Vec::new();
        for column in view.regulars() {
            shown.push((of_base(column)?.id, column.id));
        }
        shown.sort_unstable();
        Some(ViewRule {
            base: base.clone(),
            view: view.clone(),
            rows,
            key,
            shown,
            extra,
        })
    }

    /// The table.
    pub fn base(&self) -> &Arc<Table> {
        &self.base
    }

    /// The view.
    pub fn view(&self) -> &Arc<Table> {
        &self.view
    }

    /// The cells of a row of the table that are values of the view, as it has them.
    pub fn values_of(&self, row: &Row) -> Vec<Cell> {
        let cells = row.cells.iter().filter_map(|cell| {
            let column = self.shown(cell.column)?;
            Some(Cell {
                column,
                ..cell.clone()
            })
        });
        cells.collect()
    }

    /// Has it markers that are as late as they are written ([`Now::micros`])?
    pub fn has_late_markers(&self) -> bool {
        self.extra.is_none() && !self.includes_all()
    }

    /// Does it show all columns of the table, whatever those are?
    fn includes_all(&self) -> bool {
        self.view
            .view
            .as_ref()
            .is_some_and(|view| view.includes_all)
    }

    /// The column of the view for a column of the table that is a value there.
    fn shown(&self, column: ColumnId) -> Option<ColumnId> {
        let found = self.shown.binary_search_by_key(&column, |(base, _)| *base);
        found.ok().map(|i| self.shown[i].1)
    }

    /// May it show rows of this partition (`ReadQuery.selectsKey`)?
    fn selects_key(&self, key: &DecoratedKey) -> bool {
        let listed = self.rows.keys.as_ref();
        !self.rows.slices.is_empty() && listed.is_none_or(|keys| keys.contains(key))
    }

    /// Does it show this row, as it is now (`View.matchesViewFilter`)?
    fn shows(&self, key: &DecoratedKey, row: &Row, now_seconds: u32) -> bool {
        let comparator = self.base.comparator();
        let mut slices = self.rows.slices.iter();
        if !slices.any(|slice| slice.contains(comparator, &row.clustering)) {
            return false;
        }
        if self.rows.filters.is_empty() {
            return true;
        }
        let mut live = row.clone();
        live.retain_live(now_seconds);
        if live.is_empty() {
            return false;
        }
        let filters = Filters::of_view(&self.rows.filters, &self.base);
        filters.partition_passes(key, None, &self.base) && filters.row_passes(&live)
    }
}

/// The slices of the partition that have to be known before a write is applied: all rows that it says something
/// of. None where it says nothing of rows that a view shows.
pub fn slices_touched(rules: &[ViewRule], update: &PartitionUpdate) -> Vec<Slice> {
    if !rules.iter().any(|rule| rule.selects_key(&update.key)) {
        return Vec::new();
    }
    if !update.deletion.is_live() {
        return vec![Slice::ALL];
    }
    let comparator = update.table.comparator();
    let ranges = &update.range_tombstones;
    let mut slices: Vec<Slice> = ranges.iter().map(|range| range.slice.clone()).collect();
    for row in &update.rows {
        let mut known = ranges.iter();
        if !known.any(|range| range.slice.contains(comparator, &row.clustering)) {
            slices.push(Slice::of_prefix(row.clustering.clone()));
        }
    }
    slices.sort_by(|a, b| comparator.compare_bounds(&a.start, &b.start));
    slices
}

/// When a write is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Seconds since 1970: what has expired by then is gone.
    pub seconds: u32,
    /// Microseconds since 1970, later than at any write of the partition that was looked at before, whatever the
    /// clock says.
    pub micros: i64,
}

/// Whether a marker that is as late as it is written is later than all that is known of its row, or as late: what a
/// write means comes after what a view was built from.
#[derive(Clone, Copy, Debug)]
enum Lateness {
    Build,
    Write,
}

/// What is to be written to views for one partition of their table.
pub struct ViewUpdates<'r> {
    rules: &'r [ViewRule],
    key: DecoratedKey,
    components: Vec<bytes::Bytes>,
    now: Now,
    updates: BTreeMap<(usize, DecoratedKey), PartitionUpdate>,
    latest_marker: Option<i64>,
}

impl<'r> ViewUpdates<'r> {
    /// Nothing yet.
    pub fn new(rules: &'r [ViewRule], key: &DecoratedKey, now: Now) -> ViewUpdates<'r> {
        let columns = rules
            .first()
            .map_or(0, |rule| rule.base.partition_key().len());
        ViewUpdates {
            rules,
            components: decode_key(key.key(), columns).unwrap_or_default(),
            key: key.clone(),
            now,
            updates: BTreeMap::new(),
            latest_marker: None,
        }
    }

    /// Adds what a write means, where this is what was known of the rows that it touches.
    pub fn add(&mut self, update: &PartitionUpdate, known: &Partition) {
        let comparator = update.table.comparator();
        let covered = |clustering: &Clustering| {
            let range = model::covering(&known.range_tombstones, comparator, clustering);
            known.deletion.merge(range)
        };
        let mut writes = update.rows.iter().peekable();
        let mut knowns = known.rows.iter().peekable();
        loop {
            let order = match (writes.peek(), knowns.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => comparator.compare(&a.clustering, &b.clustering),
            };
            let write = writes.next_if(|_| order != Ordering::Greater);
            let before = knowns.next_if(|_| order != Ordering::Less);
            let Some(clustering) = write.or(before).map(|row| &row.clustering) else {
                break;
            };
            let written = row_or_deletion(write, clustering, update.deletion_of(clustering));
            let before = row_or_deletion(before, clustering, covered(clustering));
            if let Some(written) = written {
                self.add_row(before, written);
            }
        }
    }

    /// Adds what the views have of all these rows of the table, if they have nothing of them.
    pub fn add_all(&mut self, table: &Table, known: &Partition) {
        let comparator = table.comparator();
        for row in &known.rows {
            let range = model::covering(&known.range_tombstones, comparator, &row.clustering);
            let around = known.deletion.merge(range);
            if let Some(row) = row_or_deletion(Some(row), &row.clustering, around) {
                self.follow(None, row, Lateness::Build);
            }
        }
    }

    /// Adds what the write of a row means, where `before` is what was known of it.
    pub fn add_row(&mut self, before: Option<Row>, written: Row) {
        self.follow(before, written, Lateness::Write);
    }

    /// The latest time of a marker that is as late as it is written, if there is one ([`ViewRule::has_late_markers`]):
    /// it is later than [`Now::micros`] where something of the row is. The next write has to be later.
    pub fn latest_marker(&self) -> Option<i64> {
        self.latest_marker
    }

    fn follow(&mut self, before: Option<Row>, written: Row, lateness: Lateness) {
        let Some(first) = self.rules.first() else {
            return;
        };
        let merged = match &before {
            None => written,
            Some(before) => {
                let mut merged = before.clone();
                merged.merge(written, &first.base);
                merged
            }
        };
        for (number, rule) in self.rules.iter().enumerate() {
            if !rule.selects_key(&self.key) {
                continue;
            }
            let entry = Entry {
                rule,
                key: &self.key,
                components: &self.components,
                now: self.now,
                lateness,
            };
            for (key, row) in entry.changes(before.as_ref(), &merged) {
                if rule.has_late_markers() {
                    self.latest_marker = self.latest_marker.max(Some(row.liveness.timestamp));
                }
                let update = self.updates.entry((number, key));
                let update = update.or_insert_with_key(|(_, key)| {
                    PartitionUpdate::new(rule.view.clone(), key.clone())
                });
                let known = update.row_mut(&row.clustering.clone());
                known.merge(row, &rule.view);
            }
        }
    }

    /// The mutations, each of one partition.
    pub fn finish(self) -> Vec<Mutation> {
        let updates = self.updates.into_values();
        updates
            .map(|mut update| {
                update.rows.retain(|row| !row.is_empty());
                update
            })
            .filter(|update| !update.is_empty())
            .map(|update| Mutation {
                updates: vec![update],
            })
            .collect()
    }
}

/// The row with a deletion around it as its own, where its own is not later; or that deletion alone; `None` if
/// there is neither.
fn row_or_deletion(
    row: Option<&Row>,
    clustering: &Clustering,
    around: DeletionTime,
) -> Option<Row> {
    let mut row = match row {
        Some(row) => row.clone(),
        None if around.is_live() => return None,
        None => Row::new(clustering.clone()),
    };
    row.deletion = row.deletion.merge(around);
    Some(row)
}
