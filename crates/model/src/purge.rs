//! What readers need not see, and what may be forgotten (`DeletionPurger`, `BTreeRow.purge`,
//! `Row.filter`).
//!
//! A deletion may be forgotten when every replica has had time to learn of it (`gc_grace_seconds`
//! after it was made) and nothing older that it covers is left elsewhere on this one.

use crate::{Cell, ColumnId, DeletionTime, Liveness, NO_TTL, PartitionUpdate, RangeTombstone, Row};

/// What may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Seconds since 1970: what has expired by now counts as deleted.
    pub now_seconds: u32,
    /// Deletions with a local deletion time before this are old enough:
    /// `now - gc_grace_seconds`.
    pub gc_before: u32,
    /// Deletions with a timestamp before this cover nothing that is not at hand: the lowest
    /// timestamp in the sources that do not take part; `i64::MAX` if all do.
    pub purgeable_before: i64,
}

impl Purge {
    fn takes(&self, timestamp: i64, local_deletion_time: u32) -> bool {
        timestamp < self.purgeable_before && local_deletion_time < self.gc_before
    }

    /// Does a cell count as a tombstone that a reader has to go through?
    pub(crate) fn counts_cell(&self, cell: &Cell) -> bool {
        if cell.is_live(self.now_seconds) {
            return false;
        }
        let deleted_at = match cell.is_expiring() {
            true => cell.local_deletion_time.saturating_sub(cell.ttl as u32),
            false => cell.local_deletion_time,
        };
        !self.takes(cell.timestamp, deleted_at)
    }

    fn takes_deletion(&self, deletion: &DeletionTime) -> bool {
        !deletion.is_live() && self.takes(deletion.timestamp, deletion.local_deletion_time)
    }

    /// The cell with what may be forgotten forgotten: an expired cell becomes a tombstone as old
    /// as its write, which may be purgeable in turn.
    fn cell(&self, mut cell: Cell) -> Option<Cell> {
        if cell.is_live(self.now_seconds) {
            return Some(cell);
        }
        if self.takes(cell.timestamp, cell.local_deletion_time) {
            return None;
        }
        if cell.is_expiring() {
            cell.local_deletion_time = cell.local_deletion_time.saturating_sub(cell.ttl as u32);
            cell.ttl = NO_TTL;
            cell.value = bytes::Bytes::new();
            if self.takes(cell.timestamp, cell.local_deletion_time) {
                return None;
            }
        }
        Some(cell)
    }
}

impl Row {
    /// Forgets what may be forgotten. The row may be empty afterwards.
    pub fn purge(&mut self, purge: &Purge) {
        if !self.liveness.is_live(purge.now_seconds)
            && purge.takes(self.liveness.timestamp, self.liveness.expires_at)
        {
            self.liveness = Liveness::NONE;
        }
        if purge.takes_deletion(&self.deletion) {
            self.deletion = DeletionTime::LIVE;
        }
        self.complex_deletions
            .retain(|complex| !purge.takes_deletion(&complex.deletion));
        if self
            .cells
            .iter()
            .all(|cell| cell.is_live(purge.now_seconds))
        {
            return;
        }
        let cells = std::mem::take(&mut self.cells);
        self.cells = cells.into_iter().filter_map(|c| purge.cell(c)).collect();
    }

    /// Leaves what a client sees: no deletions, nothing deleted or expired.
    pub fn retain_live(&mut self, now_seconds: u32) {
        if !self.liveness.is_live(now_seconds) {
            self.liveness = Liveness::NONE;
        }
        self.deletion = DeletionTime::LIVE;
        self.complex_deletions.clear();
        self.cells.retain(|cell| cell.is_live(now_seconds));
    }

    /// Leaves only these columns, given sorted.
    pub fn retain_columns(&mut self, columns: &[ColumnId]) {
        let wanted = |column: &ColumnId| columns.binary_search(column).is_ok();
        self.complex_deletions.retain(|c| wanted(&c.column));
        self.cells.retain(|c| wanted(&c.column));
    }
}

impl PartitionUpdate {
    /// Forgets what may be forgotten. Says whether anything is left.
    pub fn purge(&mut self, purge: &Purge) -> bool {
        if purge.takes_deletion(&self.deletion) {
            self.deletion = DeletionTime::LIVE;
        }
        if let Some(row) = &mut self.static_row {
            row.purge(purge);
        }
        self.static_row.take_if(|row| row.is_empty());
        for row in &mut self.rows {
            row.purge(purge);
        }
        self.rows.retain(|row| !row.is_empty());
        self.range_tombstones
            .retain(|range: &RangeTombstone| !purge.takes_deletion(&range.deletion));
        !self.is_empty()
    }
}

impl Purge {
    /// May this deletion be forgotten? For streams, which see deletions one by one.
    pub fn forgets(&self, deletion: &DeletionTime) -> bool {
        self.takes_deletion(deletion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clustering, NO_DELETION_TIME};
    use bytes::Bytes;

    fn purged(cell: Cell, purge: Purge) -> Vec<Cell> {
        let mut row = Row::new(Clustering::EMPTY);
        row.cells = vec![cell];
        row.purge(&purge);
        row.cells
    }

    fn cell(ttl: i32, local_deletion_time: u32) -> Cell {
        Cell {
            column: ColumnId(0),
            path: None,
            timestamp: 5,
            ttl,
            local_deletion_time,
            value: Bytes::from_static(b"v"),
        }
    }

    const PURGE: Purge = Purge {
        now_seconds: 100,
        gc_before: 50,
        purgeable_before: 6,
    };

    #[test]
    fn an_expired_cell_becomes_a_tombstone_of_the_time_it_was_written() {
        let young = cell(20, 90);
        let left = purged(young, PURGE);
        assert_eq!((left[0].ttl, left[0].local_deletion_time), (NO_TTL, 70));
        assert!(left[0].value.is_empty() && left[0].is_tombstone());
        // Written before all that must be kept, though it expired after.
        assert!(purged(cell(60, 90), PURGE).is_empty());
        assert_eq!(purged(cell(60, 101), PURGE).len(), 1, "it lives");
        assert_eq!(purged(cell(NO_TTL, NO_DELETION_TIME), PURGE).len(), 1);
    }

    #[test]
    fn limits_are_exclusive() {
        assert!(purged(cell(NO_TTL, 49), PURGE).is_empty());
        assert_eq!(purged(cell(NO_TTL, 50), PURGE).len(), 1);
        let older = Purge {
            purgeable_before: 5,
            ..PURGE
        };
        assert_eq!(purged(cell(NO_TTL, 49), older).len(), 1);
    }
}
