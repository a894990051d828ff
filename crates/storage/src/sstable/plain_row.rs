//! Rows of which all is to be seen, from bytes of `Data.db` straight to the form that pages have.
//!
//! Most rows are such: nothing is deleted or has expired in them, and their columns have one cell each. Of all others,
//! and of all that is wrong with a file, [`super::decode`] knows; here it is only said that a row is none.

use model::{CellRef, Liveness, NO_DELETION_TIME, NO_TTL, PackedRow, RowWriter};
use smallvec::SmallVec;

use super::decode::{
    ColumnSelection, body_length, clustering_values, local_deletion_time, timestamp, ttl, value,
};
use super::encode::{LARGE_COLUMN_COUNT, cell_flag, flag};
use super::input::Input;
use super::layout::{Layout, LayoutColumn};

/// The values of a clustering.
pub(super) type Values<'i> = SmallVec<[&'i [u8]; 4]>;

/// How plain rows are asked for.
pub(crate) struct PlainRequest<'s> {
    /// When, in seconds since 1970: what has expired by then is not plain.
    pub now_seconds: u32,
    /// Does nobody else know of these rows? Else a cell may be all that keeps a row there, be it of a column that is not
    /// wanted; it is then kept without its value.
    pub alone: bool,
    /// Memory for laying out rows.
    pub scratch: &'s mut Vec<u8>,
}

/// How rows are read.
pub(super) struct PlainRows<'l> {
    pub layout: &'l Layout,
    pub columns: &'l ColumnSelection,
    /// As [`PlainRequest`] has them.
    pub now_seconds: u32,
    pub alone: bool,
}

impl PlainRows<'_> {
    /// Takes the row at the front of `input`, laid out in `scratch`, if it is plain, if all of it is there, and if its
    /// clustering is wanted.
    pub(super) fn take<'i>(
        &self,
        input: &mut Input<'i>,
        is_wanted: impl FnOnce(&Values<'i>) -> bool,
        scratch: &mut Vec<u8>,
    ) -> Option<PackedRow> {
        const KNOWN: u8 = flag::HAS_TIMESTAMP | flag::HAS_TTL | flag::HAS_ALL_COLUMNS;
        let layout = self.layout;
        let flags = input.u8().ok()?;
        if flags & !KNOWN != 0 || layout.unkept.is_some() || !layout.regulars.sorted {
            return None;
        }
        let mut clustering = Values::new();
        let taken = clustering_values(input, &layout.clustering, |value| clustering.push(value));
        taken.ok().filter(|()| is_wanted(&clustering))?;
        let body = body_length(input).ok()?;
        let mut body = Input::new(input.take(body).ok()?);
        let marker = self.marker(&mut body, flags)?;
        let base = match marker.is_empty() {
            true => layout.encoding.min_timestamp,
            false => marker.timestamp,
        };
        let mut row = PackedRow::writer(clustering.into_iter(), marker, base, scratch);
        self.cells(&mut body, flags, &marker, &mut row)?;
        (body.remaining() == 0 && !row.is_empty()).then(|| row.into_row())
    }

    /// Takes the marker; `None` if it has expired.
    fn marker(&self, input: &mut Input<'_>, flags: u8) -> Option<Liveness> {
        let mut marker = Liveness::NONE;
        if flags & flag::HAS_TIMESTAMP != 0 {
            marker.timestamp = timestamp(input, self.layout).ok()?;
        }
        if flags & flag::HAS_TTL != 0 {
            marker.ttl = ttl(input, self.layout).ok()?;
            marker.expires_at = local_deletion_time(input, self.layout).ok()?;
        }
        let is_none = marker == Liveness::NONE;
        let expires = marker.ttl != NO_TTL || marker.expires_at == NO_DELETION_TIME;
        (is_none || expires && marker.is_live(self.now_seconds)).then_some(marker)
    }

    /// Takes all cells; `None` if they are not plain.
    fn cells<'i>(
        &self,
        input: &mut Input<'i>,
        flags: u8,
        marker: &Liveness,
        row: &mut RowWriter<'_, 'i>,
    ) -> Option<()> {
        let columns = &self.layout.regulars.columns;
        if flags & flag::HAS_ALL_COLUMNS != 0 {
            let mut columns = columns.iter();
            return columns.try_for_each(|column| self.cell(input, column, marker, row));
        }
        if columns.len() >= LARGE_COLUMN_COUNT {
            return None;
        }
        let missing = input.vint().ok()?;
        let mut present = columns.iter().enumerate();
        present.try_for_each(|(i, column)| match missing >> i & 1 {
            0 => self.cell(input, column, marker, row),
            _ => Some(()),
        })
    }

    #[inline]
    fn cell<'i>(
        &self,
        input: &mut Input<'i>,
        column: &LayoutColumn,
        marker: &Liveness,
        row: &mut RowWriter<'_, 'i>,
    ) -> Option<()> {
        let flags = input.u8().ok()?;
        let has = |flag| flags & flag != 0;
        let shares = has(cell_flag::USE_ROW_TIMESTAMP) || has(cell_flag::USE_ROW_TTL);
        if column.complex || has(cell_flag::IS_DELETED) || shares && marker.is_empty() {
            return None;
        }
        let mut cell = CellRef {
            column: column.id?,
            path: None,
            timestamp: marker.timestamp,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: &[],
        };
        if !has(cell_flag::USE_ROW_TIMESTAMP) {
            cell.timestamp = timestamp(input, self.layout).ok()?;
        }
        if has(cell_flag::USE_ROW_TTL) {
            (cell.ttl, cell.local_deletion_time) = (marker.ttl, marker.expires_at);
        } else if has(cell_flag::IS_EXPIRING) {
            cell.local_deletion_time = local_deletion_time(input, self.layout).ok()?;
            cell.ttl = ttl(input, self.layout).ok()?;
        }
        if !has(cell_flag::HAS_EMPTY_VALUE) {
            cell.value = value(input, column.value_length).ok()?;
        }
        if !cell.is_live(self.now_seconds) || cell.timestamp <= column.dropped_at {
            return None;
        }
        let is_wanted = self.columns.wants(cell.column);
        // Without a marker any cell says that its row is there.
        if is_wanted || marker.is_empty() || !self.alone {
            cell.value = if is_wanted { cell.value } else { &[] };
            row.put(&cell);
        }
        Some(())
    }
}
