//! A row as the cache keeps it.
//!
//! Values that were decoded are slices of the chunk they lay in, so a row that is kept must copy them, or 16 KiB would
//! stay for its hundred bytes. It is laid out in one piece, as in a memtable, whose rows the cache can share therefore;
//! a reader's cells are slices of it in turn: what is read is not copied again.

use std::cell::Cell;
use std::rc::Rc;

use model::{
    ColumnId, DeletionTime, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, PackedRow, Row, Table,
};

use super::{PlaceOf, RowCache};
use crate::memtable::{COUNTS, allocated};

/// A row that was read.
#[derive(Debug)]
pub(crate) struct CachedRow {
    /// Marker, deletion and cells of [`CachedRow::columns`], and nothing of other columns.
    pub(crate) row: PackedRow,
    /// What is deleted around the row: its partition, or a range.
    pub(crate) around: DeletionTime,
    /// The columns that were read, sorted.
    pub(crate) columns: Rc<[ColumnId]>,
    /// All that came to the table up to this number is in the row, but for what `unread` says.
    pub(crate) covers: Cell<u64>,
    /// Sources that were passed over, as what was known was later, have nothing later than this;
    /// [`NO_TIMESTAMP`] if there are none. Who reads has to find that what he knows is still later.
    pub(crate) unread: i64,
    /// Did the row have cells or deletions of other columns? Then they may be what it lives by.
    pub(crate) has_others: bool,
    /// Seconds since 1970 until which it may be used.
    pub(crate) until: u32,
    /// Is all of it to be seen, until something of it expires, and nothing else?
    pub(crate) is_plain: bool,
}

impl CachedRow {
    /// A row as it was read from everything up to `covers`, with the seconds after which deletions
    /// of its table may be purged. `None` if it is too large for `cache`, or has a cell of a collection.
    pub(crate) fn new(
        cache: &RowCache,
        place: PlaceOf<'_>,
        (row, around): (&Row, DeletionTime),
        columns: &[ColumnId],
        covers: u64,
        gc_grace: u32,
    ) -> Option<CachedRow> {
        let is_other = |column: &ColumnId| columns.binary_search(column).is_err();
        let has_others = row.cells.iter().any(|cell| is_other(&cell.column))
            || row.complex_deletions.iter().any(|d| is_other(&d.column));
        let kept = || row.cells.iter().filter(|cell| !is_other(&cell.column));
        let length = place.length() + kept().map(|cell| cell.value.len()).sum::<usize>();
        if length > cache.largest() || kept().any(|cell| cell.path.is_some()) {
            return None;
        }
        let until = keeps_until(row, kept(), around, gc_grace);
        let row = match has_others || !row.complex_deletions.is_empty() {
            false => cache.packed(row),
            true => cache.packed(&Row {
                clustering: row.clustering.clone(),
                liveness: row.liveness,
                deletion: row.deletion,
                complex_deletions: Vec::new(),
                cells: kept().cloned().collect(),
            }),
        };
        Some(CachedRow {
            is_plain: around.is_live() && row.is_plain_for_a_time() && !row.marker().is_empty(),
            until,
            row,
            around,
            columns: cache.shared_columns(columns)?,
            covers: Cell::new(covers),
            unread: NO_TIMESTAMP,
            has_others,
        })
    }

    /// A row of a memtable that nothing deletes, shared with it: the memtable, whose number is `covers`, has all that
    /// there is of it, and it has nothing but cells of `columns`. `None` if it is too large.
    pub(crate) fn shared(
        cache: &RowCache,
        place: PlaceOf<'_>,
        row: &PackedRow,
        columns: &[ColumnId],
        covers: u64,
    ) -> Option<CachedRow> {
        debug_assert!(row.is_plain_for_a_time());
        if place.length() + row.len() > cache.largest() {
            return None;
        }
        Some(CachedRow {
            is_plain: !row.marker().is_empty(),
            until: match row.plain_until() {
                NO_DELETION_TIME => u32::MAX,
                expires_at => expires_at.saturating_sub(1),
            },
            row: row.clone(),
            around: DeletionTime::LIVE,
            columns: cache.shared_columns(columns)?,
            covers: Cell::new(covers),
            unread: NO_TIMESTAMP,
            has_others: false,
        })
    }

    /// The row with what a memtable has of it, whose number is `covers`, and in which nothing deletes anything: all that came to the
    /// table since, up to that number. `None` if it is too large, or the entry is not as plain as that.
    pub(crate) fn with(
        &self,
        cache: &RowCache,
        place: PlaceOf<'_>,
        (row, table): (&PackedRow, &Table),
        covers: u64,
    ) -> Option<CachedRow> {
        if !self.is_plain || self.has_others || !row.is_plain_for_a_time() {
            return None;
        }
        let merged = cache.merged(self.row.clone(), row.clone(), table);
        CachedRow::shared(cache, place, &merged, &self.columns, covers)
    }

    /// What was read for it was less than all: sources with nothing later than `unread` were passed over, or other
    /// columns, if it `has_others`.
    pub(crate) fn leaves_out(&mut self, unread: i64, has_others: bool) {
        self.unread = unread;
        self.has_others |= has_others;
        // What is left out of a row that has its marker is other columns, and they change nothing.
        self.is_plain &= unread == NO_TIMESTAMP;
    }

    /// May it be used now? Most need not know what time it is.
    pub(crate) fn is_current(&self, wall_seconds: impl FnOnce() -> u32) -> bool {
        self.until == u32::MAX || self.until >= wall_seconds()
    }

    /// Bytes of memory that it takes, itself included.
    pub(super) fn bytes(&self) -> usize {
        allocated(size_of::<CachedRow>()) + allocated(COUNTS + self.row.len())
    }
}

/// Until when (in seconds since 1970) none of the deletions of a row, nor `around` it, may be purged
/// from the sstables it was read from: what had to be kept for so long may have been forgotten
/// there later, and what is written then would be judged differently here. An expired cell may
/// become a tombstone as old as its write ([`model::Purge`]).
fn keeps_until<'c>(
    row: &Row,
    cells: impl Iterator<Item = &'c model::Cell>,
    around: DeletionTime,
    gc_grace: u32,
) -> u32 {
    let of_deletion = |deletion: DeletionTime| match deletion.is_live() {
        true => u32::MAX,
        false => deletion.local_deletion_time.saturating_add(gc_grace),
    };
    let of_expiring = |expires_at: u32, ttl: i32| {
        let written = expires_at.saturating_sub(ttl as u32);
        expires_at.max(written.saturating_add(gc_grace))
    };
    let Liveness {
        ttl, expires_at, ..
    } = row.liveness;
    let marker = match ttl {
        NO_TTL => u32::MAX,
        ttl => of_expiring(expires_at, ttl),
    };
    let of_cell = |cell: &model::Cell| match (cell.local_deletion_time, cell.ttl) {
        (NO_DELETION_TIME, _) => u32::MAX,
        (deleted, NO_TTL) => deleted.saturating_add(gc_grace),
        (expires_at, ttl) => of_expiring(expires_at, ttl),
    };
    let cells = cells.map(of_cell).min();
    let deletions = of_deletion(around).min(of_deletion(row.deletion));
    deletions.min(marker).min(cells.unwrap_or(u32::MAX))
}
