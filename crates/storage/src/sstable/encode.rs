//! Partitions as bytes of `Data.db`: the encoder. [`super::decode`] is its inverse.
//!
//! A partition is its key, its deletion, the static row if the table has static columns, then rows
//! and markers in order, then a byte that ends it. A row is flags, its clustering, the length of
//! what follows, the length of the item before (nobody uses it), then row marker, deletion, which
//! columns it has, and their cells. `org.apache.cassandra.db.rows.UnfilteredSerializer` and
//! `Cell.Serializer` describe it.

use bytes::Bytes;
use model::vint::write_unsigned;
use model::{
    Bound, BoundKind, CellRef, Clustering, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Row,
};
use smallvec::SmallVec;

use super::header::write_vint32;
use super::input::{
    to_legacy_deletion_time, write_deletion_time, write_short_bytes, write_vint_bytes,
};
use super::layout::{Layout, LayoutColumn};
use super::row_parts::{Present, RowParts, of_row};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// Flags of an item.
pub(super) mod flag {
    pub(crate) const END_OF_PARTITION: u8 = 0x01;
    pub(crate) const IS_MARKER: u8 = 0x02;
    pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
    pub(crate) const HAS_TTL: u8 = 0x08;
    pub(crate) const HAS_DELETION: u8 = 0x10;
    pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
    pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
    pub(crate) const EXTENSION: u8 = 0x80;
    /// In the second byte that `EXTENSION` announces.
    pub(crate) const IS_STATIC: u8 = 0x01;
    /// In the second byte: a deletion that a later row marker takes back (materialized views).
    pub(crate) const HAS_SHADOWABLE_DELETION: u8 = 0x02;
}

/// Flags of a cell.
pub(super) mod cell_flag {
    pub(crate) const IS_DELETED: u8 = 0x01;
    pub(crate) const IS_EXPIRING: u8 = 0x02;
    pub(crate) const HAS_EMPTY_VALUE: u8 = 0x04;
    pub(crate) const USE_ROW_TIMESTAMP: u8 = 0x08;
    pub(crate) const USE_ROW_TTL: u8 = 0x10;
}

/// What stands where a clustering or a bound is written with its kind (`ClusteringPrefix.Kind`).
pub(super) mod kind {
    pub(crate) const EXCLUSIVE_END: u8 = 0;
    pub(crate) const INCLUSIVE_START: u8 = 1;
    pub(crate) const EXCLUSIVE_END_INCLUSIVE_START: u8 = 2;
    pub(crate) const CLUSTERING: u8 = 4;
    pub(crate) const INCLUSIVE_END_EXCLUSIVE_START: u8 = 5;
    pub(crate) const INCLUSIVE_END: u8 = 6;
    pub(crate) const EXCLUSIVE_START: u8 = 7;
}

/// From so many columns on, those of a row are listed by number instead of in a bitmap.
pub(super) const LARGE_COLUMN_COUNT: usize = 64;

/// The longest value of a clustering column, in bytes; CQL does not allow longer ones.
pub(super) const MAX_CLUSTERING_VALUE: usize = 65_535;

/// What cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// The type of a value has a length, and the value another.
    #[error("a value of {actual} bytes where the type has {expected}")]
    WrongLength {
        /// The type's.
        expected: usize,
        /// The value's.
        actual: usize,
    },
    /// A value of a clustering column is too long.
    #[error("a clustering value of {0} bytes is longer than {MAX_CLUSTERING_VALUE}")]
    TooLong(usize),
    /// The items of a partition do not come in the order of the table.
    #[error("the rows of a partition are not in order")]
    NotInOrder,
}

/// Encodes the items of partitions.
pub(crate) struct Encoder {
    layout: Layout,
    /// How many bytes the length of the item before took: mostly as many as that of the next one.
    length_width: usize,
}

impl Encoder {
    pub(crate) fn new(layout: Layout) -> Encoder {
        Encoder {
            layout,
            length_width: 1,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Appends the beginning of a partition.
    pub(crate) fn head(
        &mut self,
        out: &mut Vec<u8>,
        head: &PartitionHead,
    ) -> Result<(), EncodeError> {
        write_short_bytes(out, head.key.key());
        let unsigned = self.layout.unsigned_deletion_time;
        write_deletion_time(out, &head.deletion, unsigned);
        if !self.layout.statics.columns.is_empty() {
            let empty = Row::new(Clustering::EMPTY);
            let row = head.static_row.as_ref().unwrap_or(&empty);
            self.row(out, &of_row(row), true, Some(0))?;
        }
        Ok(())
    }

    /// Appends a static row without lengths, as messages have it.
    pub(super) fn static_row(&mut self, out: &mut Vec<u8>, row: &Row) -> Result<(), EncodeError> {
        self.row(out, &of_row(row), true, None)
    }

    /// Appends a row or a marker without lengths, as messages have it.
    pub(super) fn unfiltered(
        &mut self,
        out: &mut Vec<u8>,
        item: &Unfiltered,
    ) -> Result<(), EncodeError> {
        match item {
            Unfiltered::Row(row) => self.row(out, &of_row(row), false, None),
            Unfiltered::Marker(marker) => self.marker(out, marker, None),
        }
    }

    /// Appends the byte that ends a partition.
    pub(crate) fn end(&self, out: &mut Vec<u8>) {
        out.push(flag::END_OF_PARTITION);
    }

    /// Appends a row. `previous` is the length of the item before; without it, no lengths are written: messages have none.
    pub(super) fn row<'r, C: Iterator<Item = CellRef<'r>> + Clone>(
        &mut self,
        out: &mut Vec<u8>,
        row: &RowParts<'r, C>,
        is_static: bool,
        previous: Option<u64>,
    ) -> Result<(), EncodeError> {
        let columns = &self.layout.columns(is_static).columns;
        let present = row.present(columns);
        let head = row.head;

        let mut flags = 0;
        if !head.liveness.is_empty() {
            flags |= flag::HAS_TIMESTAMP;
            if head.liveness.ttl != NO_TTL {
                flags |= flag::HAS_TTL;
            }
        }
        if !head.deletion.is_live() {
            flags |= flag::HAS_DELETION;
        }
        if present.len() == columns.len() {
            flags |= flag::HAS_ALL_COLUMNS;
        }
        if present.iter().any(|part| part.deletion.is_some()) {
            flags |= flag::HAS_COMPLEX_DELETION;
        }
        if is_static {
            out.push(flags | flag::EXTENSION);
            out.push(flag::IS_STATIC);
        } else {
            out.push(flags);
            write_row_clustering(out, &head.clustering, &self.layout)?;
        }
        let Some(previous) = previous else {
            return self.row_body(out, head, flags, &present, columns.len());
        };

        let begun = Measured::begin(out, self.length_width, previous);
        self.row_body(out, head, flags, &present, columns.len())?;
        self.length_width = begun.end(out);
        Ok(())
    }

    /// Appends what follows the lengths: of a row in a layout of so many columns.
    fn row_body<'r, C: Iterator<Item = CellRef<'r>> + Clone>(
        &self,
        out: &mut Vec<u8>,
        head: &Row,
        flags: u8,
        present: &[Present<'_, C>],
        columns: usize,
    ) -> Result<(), EncodeError> {
        if flags & flag::HAS_TIMESTAMP != 0 {
            self.timestamp(out, head.liveness.timestamp);
        }
        if flags & flag::HAS_TTL != 0 {
            self.ttl(out, head.liveness.ttl);
            self.local_deletion_time(out, head.liveness.expires_at);
        }
        if flags & flag::HAS_DELETION != 0 {
            self.deletion(out, &head.deletion);
        }
        if flags & flag::HAS_ALL_COLUMNS == 0 {
            write_columns(out, columns, present.iter().map(|part| part.number));
        }
        for part in present {
            let column = part.column;
            if column.complex {
                if flags & flag::HAS_COMPLEX_DELETION != 0 {
                    let deletion = part.deletion.unwrap_or(DeletionTime::LIVE);
                    self.deletion(out, &deletion);
                }
                write_unsigned(out, part.count() as u64);
            }
            for cell in part.cells() {
                self.cell(out, &cell, column, &head.liveness)?;
            }
        }
        Ok(())
    }

    fn cell(
        &self,
        out: &mut Vec<u8>,
        cell: &CellRef<'_>,
        column: &LayoutColumn,
        row: &Liveness,
    ) -> Result<(), EncodeError> {
        let deleted = cell.is_tombstone();
        let expiring = cell.is_expiring();
        let same_timestamp = !row.is_empty() && cell.timestamp == row.timestamp;
        let same_ttl = expiring
            && row.ttl != NO_TTL
            && cell.ttl == row.ttl
            && cell.local_deletion_time == row.expires_at;
        let mut flags = 0;
        for (set, bit) in [
            (deleted, cell_flag::IS_DELETED),
            (expiring, cell_flag::IS_EXPIRING),
            (cell.value.is_empty(), cell_flag::HAS_EMPTY_VALUE),
            (same_timestamp, cell_flag::USE_ROW_TIMESTAMP),
            (same_ttl, cell_flag::USE_ROW_TTL),
        ] {
            if set {
                flags |= bit;
            }
        }
        out.push(flags);
        if !same_timestamp {
            self.timestamp(out, cell.timestamp);
        }
        if (deleted || expiring) && !same_ttl {
            self.local_deletion_time(out, cell.local_deletion_time);
        }
        if expiring && !same_ttl {
            self.ttl(out, cell.ttl);
        }
        if column.complex {
            write_vint_bytes(out, cell.path.unwrap_or_default());
        }
        if !cell.value.is_empty() {
            write_value(out, cell.value, column.value_length)?;
        }
        Ok(())
    }

    /// Appends a marker; `previous` is as in [`Encoder::row`].
    pub(super) fn marker(
        &mut self,
        out: &mut Vec<u8>,
        marker: &RangeTombstoneMarker,
        previous: Option<u64>,
    ) -> Result<(), EncodeError> {
        out.push(flag::IS_MARKER);
        write_bound(out, marker, &self.layout.clustering)?;
        let deletions = [marker.closes, marker.opens].into_iter().flatten();
        let Some(previous) = previous else {
            deletions.for_each(|deletion| self.deletion(out, &deletion));
            return Ok(());
        };
        let begun = Measured::begin(out, self.length_width, previous);
        deletions.for_each(|deletion| self.deletion(out, &deletion));
        self.length_width = begun.end(out);
        Ok(())
    }

    fn timestamp(&self, out: &mut Vec<u8>, timestamp: i64) {
        let delta = timestamp.wrapping_sub(self.layout.encoding.min_timestamp);
        write_unsigned(out, delta as u64);
    }

    fn ttl(&self, out: &mut Vec<u8>, ttl: i32) {
        let delta = ttl.wrapping_sub(self.layout.encoding.min_ttl);
        write_vint32(out, delta as u32);
    }

    fn local_deletion_time(&self, out: &mut Vec<u8>, time: u32) {
        // "Never" only stands in deletions that delete nothing; Cassandra 5.0 writes it so.
        let time = if self.layout.unsigned_deletion_time || time == NO_DELETION_TIME {
            time
        } else {
            to_legacy_deletion_time(time) as u32
        };
        let least = self.layout.encoding.min_local_deletion_time;
        write_vint32(out, time.wrapping_sub(least));
    }

    /// Appends a deletion whose times are differences to the least.
    pub(super) fn deletion(&self, out: &mut Vec<u8>, deletion: &DeletionTime) {
        self.timestamp(out, deletion.timestamp);
        self.local_deletion_time(out, deletion.local_deletion_time);
    }
}

/// The body of an item whose length, which stands before it, is not known yet.
struct Measured {
    /// Where the length stands.
    at: usize,
    /// How many bytes there is room for.
    width: usize,
}

impl Measured {
    /// Leaves so much room for the length. The body begins with `previous`, the length of the item before.
    fn begin(out: &mut Vec<u8>, width: usize, previous: u64) -> Measured {
        let at = out.len();
        out.resize(at + width, 0);
        write_unsigned(out, previous);
        Measured { at, width }
    }

    /// Puts the length into its room, now that the body is there; gives how many bytes it took.
    fn end(self, out: &mut Vec<u8>) -> usize {
        let Measured { at, width } = self;
        let end = out.len();
        write_unsigned(out, (end - at - width) as u64);
        let length: SmallVec<[u8; 9]> = out.drain(end..).collect();
        match length.len() == width {
            true => out[at..at + width].copy_from_slice(&length),
            false => drop(out.splice(at..at + width, length.iter().copied())),
        }
        length.len()
    }
}

/// Which columns a row has (`Columns.Serializer.serializeSubset`): a bitmap of those it has not,
/// or for many columns the numbers of those it has or has not, whichever are fewer.
fn write_columns(out: &mut Vec<u8>, columns: usize, present: impl ExactSizeIterator<Item = usize>) {
    if columns < LARGE_COLUMN_COUNT {
        let all = (1u64 << columns) - 1;
        let missing = present.fold(all, |bitmap, number| bitmap & !(1 << number));
        write_unsigned(out, missing);
        return;
    }
    let count = present.len();
    write_unsigned(out, (columns - count) as u64);
    if count < columns / 2 {
        present.for_each(|number| write_unsigned(out, number as u64));
        return;
    }
    let mut missing_from = 0;
    for number in present.chain([columns]) {
        (missing_from..number).for_each(|missing| write_unsigned(out, missing as u64));
        missing_from = number + 1;
    }
}

/// Is a value as long as all of its type are, if they are, or empty?
pub(super) fn check_length(value: &[u8], length: Option<usize>) -> Result<(), EncodeError> {
    match length {
        Some(expected) if expected != value.len() && !value.is_empty() => {
            Err(EncodeError::WrongLength {
                expected,
                actual: value.len(),
            })
        }
        _ => Ok(()),
    }
}

/// Appends a value that is not empty, with its length unless its type says it.
fn write_value(out: &mut Vec<u8>, value: &[u8], length: Option<usize>) -> Result<(), EncodeError> {
    check_length(value, length)?;
    match length {
        None => write_vint_bytes(out, value),
        Some(_) => out.extend(value),
    }
    Ok(())
}

/// Appends the clustering of a row. The nulls with which one of a table with COMPACT STORAGE may
/// end are read as empty values and answered as nulls; here they become nulls again, as Cassandra
/// tells the two apart.
pub(super) fn write_row_clustering(
    out: &mut Vec<u8>,
    clustering: &Clustering,
    layout: &Layout,
) -> Result<(), EncodeError> {
    let values = &clustering.0;
    let given = match layout.null_ends {
        true => values
            .iter()
            .rposition(|value| !value.is_empty())
            .map_or(0, |last| last + 1),
        false => values.len(),
    };
    write_values(out, values, given, &layout.clustering)
}

/// Appends the values of a clustering or bound, those from `given` on as nulls: before every 32 of
/// them a bitmap, two bits each, that says which are empty (the lower bit) or null (the higher;
/// `ClusteringPrefix.Serializer.serializeValuesWithoutSize`).
fn write_values(
    out: &mut Vec<u8>,
    values: &[Bytes],
    given: usize,
    lengths: &[Option<usize>],
) -> Result<(), EncodeError> {
    debug_assert!(values.len() <= lengths.len());
    for (at, (values, lengths)) in values.chunks(32).zip(lengths.chunks(32)).enumerate() {
        let header = values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_empty())
            .fold(0u64, |header, (i, _)| {
                let null = at * 32 + i >= given;
                header | 1 << (2 * i + usize::from(null))
            });
        write_unsigned(out, header);
        for (value, length) in values.iter().zip(lengths) {
            if value.len() > MAX_CLUSTERING_VALUE {
                return Err(EncodeError::TooLong(value.len()));
            }
            if !value.is_empty() {
                write_value(out, value, *length)?;
            }
        }
    }
    Ok(())
}

/// Appends a marker's place: kind, number of values, values.
pub(super) fn write_bound(
    out: &mut Vec<u8>,
    marker: &RangeTombstoneMarker,
    lengths: &[Option<usize>],
) -> Result<(), EncodeError> {
    out.push(match (marker.bound.kind, marker.is_boundary()) {
        (BoundKind::InclusiveStart | BoundKind::ExclusiveEnd, true) => {
            kind::EXCLUSIVE_END_INCLUSIVE_START
        }
        (BoundKind::ExclusiveStart | BoundKind::InclusiveEnd, true) => {
            kind::INCLUSIVE_END_EXCLUSIVE_START
        }
        (BoundKind::InclusiveStart, false) => kind::INCLUSIVE_START,
        (BoundKind::ExclusiveStart, false) => kind::EXCLUSIVE_START,
        (BoundKind::InclusiveEnd, false) => kind::INCLUSIVE_END,
        (BoundKind::ExclusiveEnd, false) => kind::EXCLUSIVE_END,
    });
    write_prefix(out, &marker.bound, lengths)
}

/// Appends a bound that is no marker's.
pub(super) fn write_plain_bound(
    out: &mut Vec<u8>,
    bound: &Bound,
    lengths: &[Option<usize>],
) -> Result<(), EncodeError> {
    out.push(match bound.kind {
        BoundKind::InclusiveStart => kind::INCLUSIVE_START,
        BoundKind::ExclusiveStart => kind::EXCLUSIVE_START,
        BoundKind::InclusiveEnd => kind::INCLUSIVE_END,
        BoundKind::ExclusiveEnd => kind::EXCLUSIVE_END,
    });
    write_prefix(out, bound, lengths)
}

fn write_prefix(
    out: &mut Vec<u8>,
    bound: &Bound,
    lengths: &[Option<usize>],
) -> Result<(), EncodeError> {
    let prefix = &bound.prefix;
    out.extend((prefix.0.len() as u16).to_be_bytes());
    write_values(out, &prefix.0, prefix.0.len(), lengths)
}
