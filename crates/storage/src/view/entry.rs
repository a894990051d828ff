//! What becomes of the row of a view when one of its table changes (`ViewUpdateGenerator`).

use bytes::Bytes;
use model::{
    Cell, Clustering, ColumnId, DecoratedKey, EXPIRED_TTL, Liveness, NO_DELETION_TIME,
    NO_TIMESTAMP, NO_TTL, Row, compare_cells, encode_key,
};

use super::{Lateness, Now, Source, ViewRule};

/// The rows of a view that one row of its table gives.
pub(super) struct Entry<'r> {
    pub(super) rule: &'r ViewRule,
    /// The partition of the table, and the values of its key.
    pub(super) key: &'r DecoratedKey,
    pub(super) components: &'r [Bytes],
    pub(super) now: Now,
    pub(super) lateness: Lateness,
}

/// A row of a view, and its partition.
type Place = (DecoratedKey, Row);

impl Entry<'_> {
    /// What is to be written to the view when the row of the table becomes `after`.
    pub(super) fn changes(&self, before: Option<&Row>, after: &Row) -> Vec<Place> {
        let was_there = before.filter(|row| self.has_entry(row));
        let mut changes = Vec::new();
        match (was_there, self.has_entry(after)) {
            (None, false) => {}
            (None, true) => changes.extend(self.created(after)),
            (Some(before), false) => changes.extend(self.deleted_if_shown(before, after)),
            (Some(before), true) if self.is_same_place(before, after) => {
                changes.extend(self.updated(before, after));
            }
            (Some(before), true) => {
                changes.extend(self.created(after));
                changes.extend(self.deleted_if_shown(before, after));
            }
        }
        changes.retain(|(_, row)| !row.is_empty());
        changes
    }

    /// Is there a row in the view for this one, if the view shows it?
    fn has_entry(&self, row: &Row) -> bool {
        match self.rule.extra {
            Some(column) => self.live_cell(row, column).is_some(),
            None => row.is_live(self.now.seconds),
        }
    }

    fn is_same_place(&self, before: &Row, after: &Row) -> bool {
        let Some(id) = self.rule.extra else {
            return true;
        };
        let value = |row: &Row| self.live_cell(row, id).map(|cell| cell.value.clone());
        let (before, after) = (value(before), value(after));
        match (before, after, self.rule.base.column(id)) {
            (Some(a), Some(b), Some(column)) => column.ty.compare(&a, &b).is_eq(),
            _ => false,
        }
    }

    fn live_cell<'c>(&self, row: &'c Row, column: ColumnId) -> Option<&'c Cell> {
        let cell = row.cells_of(column).first();
        cell.filter(|cell| cell.is_live(self.now.seconds))
    }

    fn is_shown(&self, row: &Row) -> bool {
        self.rule.shows(self.key, row, self.now.seconds)
    }

    fn created(&self, row: &Row) -> Option<Place> {
        if !self.is_shown(row) {
            return None;
        }
        let (key, mut entry) = self.place_of(row)?;
        entry.liveness = self.liveness_of(row)?;
        entry.deletion = row.deletion;
        for complex in &row.complex_deletions {
            if let Some(column) = self.rule.shown(complex.column) {
                entry.add_complex_deletion(column, complex.deletion);
            }
        }
        for cell in &row.cells {
            self.add_cell(&mut entry, cell);
        }
        Some((key, entry))
    }

    fn updated(&self, before: &Row, after: &Row) -> Option<Place> {
        if !self.is_shown(before) {
            return self.created(after);
        }
        if !self.is_shown(after) {
            return self.deleted(before, after);
        }
        let (key, mut entry) = self.place_of(after)?;
        entry.liveness = self.liveness_of(after)?;
        entry.deletion = after.deletion;
        self.add_changed_cells(&mut entry, before, after);
        Some((key, entry))
    }

    fn deleted_if_shown(&self, before: &Row, after: &Row) -> Option<Place> {
        self.is_shown(before)
            .then(|| self.deleted(before, after))
            .flatten()
    }

    fn deleted(&self, before: &Row, after: &Row) -> Option<Place> {
        let (key, mut entry) = self.place_of(before)?;
        let timestamp = self.time_of_deletion(before, after)?;
        if timestamp > after.deletion.timestamp {
            entry.liveness = self.dead(timestamp);
        }
        entry.deletion = after.deletion;
        self.add_changed_cells(&mut entry, before, after);
        Some((key, entry))
    }

    /// Where the view has the row, and the row without anything known of it. `None` if a value of its key is
    /// missing, or is too large for one.
    fn place_of(&self, row: &Row) -> Option<Place> {
        let value = |source: &Source| match *source {
            Source::PartitionKey(position) => self.components.get(position).cloned(),
            Source::Clustering(position) => row.clustering.0.get(position).cloned(),
            Source::Value(column) => Some(row.cells_of(column).first()?.value.clone()),
        };
        let values: Vec<Bytes> = self.rule.key.iter().map(value).collect::<Option<_>>()?;
        let (key, clustering) = values.split_at(self.rule.view.partition_key().len());
        let key = DecoratedKey::new(encode_key(key).ok()?);
        let clustering = Clustering(clustering.iter().cloned().collect());
        Some((key, Row::new(clustering)))
    }

    /// The marker of the row of the view (`computeLivenessInfoForEntry`). Where a column that is not in the key of the
    /// table is in that of the view, it is that column's; of a view of all columns it is the table's own.
    ///
    /// Otherwise a row of the table may live by a column that the view does not show, and so has to live there.
    /// Its marker stands for several things then, of which the latest may be the one that ends first. So it is as late
    /// as it is written: each takes the place of all before it. (Cassandra gives it the time of the latest of
    /// them; a row that then comes to live by something earlier does not come back.)
    fn liveness_of(&self, row: &Row) -> Option<Liveness> {
        if let Some(column) = self.rule.extra {
            let cell = self.live_cell(row, column)?;
            return Some(liveness_like(cell, cell.timestamp));
        }
        let own = row.liveness;
        if self.rule.includes_all() {
            return Some(own);
        }
        let timestamp = self.time_of_marker(self.latest(row));
        let unseen = row.cells.iter().filter(|cell| self.is_unseen(cell));
        let unseen = unseen.filter(|cell| cell.is_live(self.now.seconds));
        let all = unseen.map(|cell| liveness_like(cell, timestamp));
        let own = own
            .is_live(self.now.seconds)
            .then_some(Liveness { timestamp, ..own });
        // What lives for ever has the last time of all.
        let last = all.chain(own).max_by_key(|marker| marker.expires_at);
        Some(last.unwrap_or_else(|| self.dead(timestamp)))
    }

    /// When the row of the view is gone: as late as what made it live, and no later, but where markers are as late as
    /// they are written (`computeTimestampForEntryDeletion`).
    fn time_of_deletion(&self, before: &Row, after: &Row) -> Option<i64> {
        if let Some(column) = self.rule.extra {
            let cell = self.live_cell(before, column)?;
            return Some(match after.deletion.deletes(cell.timestamp) {
                true => after.deletion.timestamp,
                false => cell.timestamp,
            });
        }
        if self.rule.includes_all() {
            return Some(after.deletion.timestamp.max(before.liveness.timestamp));
        }
        Some(self.time_of_marker(self.latest(before).max(self.latest(after))))
    }

    /// When a marker is written of a row of which this is the latest that is known: now, but never before that, or a
    /// deletion whose clock was ahead would take it along.
    fn time_of_marker(&self, latest: i64) -> i64 {
        let earliest = match self.lateness {
            Lateness::Build => latest,
            Lateness::Write => latest.saturating_add(1),
        };
        earliest.max(self.now.micros)
    }

    /// The latest of what is known of a row but for what the view has of it itself.
    fn latest(&self, row: &Row) -> i64 {
        let unseen = row.cells.iter().filter(|cell| self.is_unseen(cell));
        let unseen = unseen.map(|cell| cell.timestamp).max();
        let around = row.deletion.timestamp.max(row.liveness.timestamp);
        around.max(unseen.unwrap_or(NO_TIMESTAMP))
    }

    /// The marker of a row that does not live by it.
    fn dead(&self, timestamp: i64) -> Liveness {
        Liveness {
            timestamp,
            ttl: EXPIRED_TTL,
            expires_at: self.now.seconds,
        }
    }

    /// Is it of a column that the view does not have?
    fn is_unseen(&self, cell: &Cell) -> bool {
        self.rule.shown(cell.column).is_none()
    }

    fn add_changed_cells(&self, entry: &mut Row, before: &Row, after: &Row) {
        for complex in &after.complex_deletions {
            let known = before.complex_deletion(complex.column);
            if let Some(column) = self.rule.shown(complex.column)
                && complex.deletion.supersedes(&known)
            {
                entry.add_complex_deletion(column, complex.deletion);
            }
        }
        for cell in &after.cells {
            let of_column = before.cells_of(cell.column);
            let at = of_column.binary_search_by(|k| compare_cells(&self.rule.base, k, cell));
            if !at.is_ok_and(|at| of_column[at] == *cell) {
                self.add_cell(entry, cell);
            }
        }
    }

    fn add_cell(&self, entry: &mut Row, cell: &Cell) {
        if let Some(column) = self.rule.shown(cell.column) {
            let cell = Cell {
                column,
                ..cell.clone()
            };
            entry.add_cell(cell, &self.rule.view);
        }
    }
}

/// The marker that lives as long as a cell does.
fn liveness_like(cell: &Cell, timestamp: i64) -> Liveness {
    let (ttl, expires_at) = match cell.is_expiring() {
        true => (cell.ttl, cell.local_deletion_time),
        false => (NO_TTL, NO_DELETION_TIME),
    };
    Liveness {
        timestamp,
        ttl,
        expires_at,
    }
}
