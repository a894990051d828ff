//! Partitions from bytes of `Data.db`: the decoder. [`super::encode`] describes the format.
//!
//! Decoding goes in two steps, so that rows can be passed over and so that the caller knows how
//! many bytes a row takes before all of them are in memory: first the head of an item ([`item`]),
//! then its body ([`row`], [`marker`]). Both answer [`DecodeError::Incomplete`] when the bytes end
//! too early. Values are slices of the input, not copies.

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, ColumnId, ComplexDeletion, DeletionTime, Liveness,
    NO_DELETION_TIME, NO_TTL, Row,
};
use smallvec::SmallVec;

use super::encode::{LARGE_COLUMN_COUNT, MAX_CLUSTERING_VALUE, cell_flag, flag, kind};
use super::error::DecodeError;
use super::input::{Input, deletion_time, legacy_deletion_time};
use super::layout::{Layout, LayoutColumn, Unkept};
use crate::RangeTombstoneMarker;

/// Which columns' values a read wants.
#[derive(Clone, Debug, Default)]
pub enum ColumnSelection {
    /// All.
    #[default]
    All,
    /// Those in the list, sorted. Cells of other columns come without their value: they still say
    /// whether their row is alive.
    Values(std::rc::Rc<[ColumnId]>),
}

impl ColumnSelection {
    pub(super) fn wants(&self, id: ColumnId) -> bool {
        match self {
            ColumnSelection::All => true,
            ColumnSelection::Values(ids) => ids.binary_search(&id).is_ok(),
        }
    }
}

/// The fixed part of a partition's beginning.
pub(crate) struct RawHead {
    pub key: Bytes,
    pub deletion: DeletionTime,
}

/// Key and deletion of a partition.
pub(crate) fn head(
    bytes: &Bytes,
    input: &mut Input<'_>,
    layout: &Layout,
) -> Result<RawHead, DecodeError> {
    let key = input.short_bytes()?;
    Ok(RawHead {
        deletion: input.deletion_time(layout.unsigned_deletion_time)?,
        key: bytes.slice_ref(key),
    })
}

/// The place of a marker, as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MarkerPlace {
    pub bound: Bound,
    pub boundary: bool,
}

/// What begins here.
#[derive(Debug, PartialEq)]
pub(crate) enum Item {
    /// Nothing: the partition ends.
    End,
    /// A row.
    Row {
        flags: u8,
        extension: u8,
        clustering: Clustering,
        body: usize,
    },
    /// A marker.
    Marker { place: MarkerPlace, body: usize },
}

/// Takes the head of an item; `body` is how many bytes of its body follow.
pub(crate) fn item(
    bytes: &Bytes,
    input: &mut Input<'_>,
    layout: &Layout,
) -> Result<Item, DecodeError> {
    let flags = input.u8()?;
    if flags & flag::END_OF_PARTITION != 0 {
        return Ok(Item::End);
    }
    if flags & flag::IS_MARKER != 0 {
        let code = input.u8()?;
        let place = bound(bytes, input, &layout.clustering, code)?;
        let body = body_length(input)?;
        return Ok(Item::Marker { place, body });
    }
    let extension = if flags & flag::EXTENSION != 0 {
        input.u8()?
    } else {
        0
    };
    if let Some(unkept) = &layout.unkept {
        note_unkept(&mut input.clone(), extension, layout, unkept);
    }
    let clustering = if extension & flag::IS_STATIC != 0 {
        Clustering::EMPTY
    } else {
        clustering(bytes, input, &layout.clustering)?
    };
    let body = body_length(input)?;
    Ok(Item::Row {
        flags,
        extension,
        clustering,
        body,
    })
}

/// Notes what of a row is only kept where the table is known to be one that has such.
fn note_unkept(input: &mut Input<'_>, extension: u8, layout: &Layout, unkept: &Unkept) {
    /// The bits for nulls: see `encode::write_values`.
    const NULLS: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    if extension & flag::HAS_SHADOWABLE_DELETION != 0 {
        unkept.note("deletions of a materialized view that later updates take back");
    }
    let has_clustering = extension & flag::IS_STATIC == 0 && !layout.clustering.is_empty();
    // What cannot be read is an error of those who want it.
    if has_clustering && input.vint().is_ok_and(|nulls| nulls & NULLS != 0) {
        unkept
            .note("rows that do not give all clustering columns, of a table with COMPACT STORAGE");
    }
}

/// The length of a body, without that of the item before, which is part of what is measured.
pub(super) fn body_length(input: &mut Input<'_>) -> Result<usize, DecodeError> {
    let length = input.vint_len()?;
    let before = input.position();
    input.vint()?;
    length
        .checked_sub(input.position() - before)
        .ok_or(DecodeError::Invalid("a row is shorter than its head"))
}

/// Values of a clustering or a bound, `lengths.len()` of them.
pub(crate) fn clustering(
    bytes: &Bytes,
    input: &mut Input<'_>,
    lengths: &[Option<usize>],
) -> Result<Clustering, DecodeError> {
    let mut values = SmallVec::with_capacity(lengths.len());
    clustering_values(input, lengths, |value| {
        values.push(match value {
            [] => Bytes::new(),
            _ => bytes.slice_ref(value),
        });
    })?;
    Ok(Clustering(values))
}

/// Gives the values of a clustering or a bound to `take`, one after the other.
pub(super) fn clustering_values<'i>(
    input: &mut Input<'i>,
    lengths: &[Option<usize>],
    mut take: impl FnMut(&'i [u8]),
) -> Result<(), DecodeError> {
    for lengths in lengths.chunks(32) {
        let header = input.vint()?;
        for (i, length) in lengths.iter().enumerate() {
            // A null, which only tables with COMPACT STORAGE can have, reads as empty; see
            // `encode::write_row_clustering`.
            let absent = header >> (2 * i) & 0b11 != 0;
            take(match absent {
                true => &[],
                false => clustering_value(input, *length)?,
            });
        }
    }
    Ok(())
}

/// A value of a clustering: longer ones than Cassandra allows are not waited for.
fn clustering_value<'a>(
    input: &mut Input<'a>,
    length: Option<usize>,
) -> Result<&'a [u8], DecodeError> {
    let length = match length {
        Some(length) => length,
        None => input.vint_len()?,
    };
    if length > MAX_CLUSTERING_VALUE {
        return Err(DecodeError::Invalid("a clustering value is too long"));
    }
    input.take(length)
}

/// A value, with its length unless its type says it.
#[inline]
pub(super) fn value<'a>(
    input: &mut Input<'a>,
    length: Option<usize>,
) -> Result<&'a [u8], DecodeError> {
    match length {
        Some(length) => input.take(length),
        None => input.vint_bytes(),
    }
}

/// A bound of this kind: the number of its values, then the values.
pub(crate) fn bound(
    bytes: &Bytes,
    input: &mut Input<'_>,
    lengths: &[Option<usize>],
    code: u8,
) -> Result<MarkerPlace, DecodeError> {
    let (bound_kind, boundary) = match code {
        kind::EXCLUSIVE_END => (BoundKind::ExclusiveEnd, false),
        kind::INCLUSIVE_START => (BoundKind::InclusiveStart, false),
        kind::EXCLUSIVE_END_INCLUSIVE_START => (BoundKind::InclusiveStart, true),
        kind::INCLUSIVE_END_EXCLUSIVE_START => (BoundKind::ExclusiveStart, true),
        kind::INCLUSIVE_END => (BoundKind::InclusiveEnd, false),
        kind::EXCLUSIVE_START => (BoundKind::ExclusiveStart, false),
        _ => return Err(DecodeError::Invalid("a bound is of unknown kind")),
    };
    let count = usize::from(input.u16()?);
    let lengths = lengths
        .get(..count)
        .ok_or(DecodeError::Invalid("a bound has too many values"))?;
    Ok(MarkerPlace {
        bound: Bound {
            prefix: clustering(bytes, input, lengths)?,
            kind: bound_kind,
        },
        boundary,
    })
}

/// Decodes the body of a marker. `input` holds exactly the body.
pub(crate) fn marker(
    input: &mut Input<'_>,
    place: MarkerPlace,
    layout: &Layout,
) -> Result<RangeTombstoneMarker, DecodeError> {
    let marker = marker_content(input, place, layout)?;
    if input.remaining() != 0 {
        return Err(DecodeError::Invalid("a marker is longer than its content"));
    }
    Ok(marker)
}

/// Takes the content of a marker, behind which there may be more.
pub(super) fn marker_content(
    input: &mut Input<'_>,
    place: MarkerPlace,
    layout: &Layout,
) -> Result<RangeTombstoneMarker, DecodeError> {
    let deletion = |input: &mut Input<'_>| {
        let deletion = delta_deletion(input, layout)?;
        if deletion.is_live() {
            return Err(DecodeError::Invalid("a marker deletes nothing"));
        }
        Ok(deletion)
    };
    let first = deletion(input)?;
    Ok(if place.boundary {
        let opens = deletion(input)?;
        RangeTombstoneMarker::boundary(place.bound, first, opens)
    } else if crate::is_start(place.bound.kind) {
        RangeTombstoneMarker::open(place.bound, first)
    } else {
        RangeTombstoneMarker::close(place.bound, first)
    })
}

pub(super) fn timestamp(input: &mut Input<'_>, layout: &Layout) -> Result<i64, DecodeError> {
    let delta = input.vint()? as i64;
    Ok(layout.encoding.min_timestamp.wrapping_add(delta))
}

pub(super) fn ttl(input: &mut Input<'_>, layout: &Layout) -> Result<i32, DecodeError> {
    let delta = input.vint()? as i32;
    let ttl = layout.encoding.min_ttl.wrapping_add(delta);
    if ttl < 0 {
        return Err(DecodeError::Invalid("a ttl is negative"));
    }
    Ok(ttl)
}

pub(super) fn local_deletion_time(
    input: &mut Input<'_>,
    layout: &Layout,
) -> Result<u32, DecodeError> {
    let delta = input.vint()? as u32;
    let time = layout.encoding.min_local_deletion_time.wrapping_add(delta);
    Ok(if layout.unsigned_deletion_time {
        time
    } else {
        legacy_deletion_time(time as i32)
    })
}

pub(super) fn delta_deletion(
    input: &mut Input<'_>,
    layout: &Layout,
) -> Result<DeletionTime, DecodeError> {
    let timestamp = timestamp(input, layout)?;
    let local = local_deletion_time(input, layout)?;
    deletion_time(timestamp, local)
}

/// Decodes the body of a row. `input` holds exactly the body; `bytes` is what it is a part of.
pub(crate) fn row(
    bytes: &Bytes,
    input: &mut Input<'_>,
    (flags, extension): (u8, u8),
    clustering: Clustering,
    layout: &Layout,
    selection: &ColumnSelection,
) -> Result<Row, DecodeError> {
    let row = row_content(
        bytes,
        input,
        (flags, extension),
        clustering,
        layout,
        selection,
    )?;
    if input.remaining() != 0 {
        return Err(DecodeError::Invalid("a row is longer than its content"));
    }
    Ok(row)
}

/// Takes the content of a row, behind which there may be more.
pub(super) fn row_content(
    bytes: &Bytes,
    input: &mut Input<'_>,
    (flags, extension): (u8, u8),
    clustering: Clustering,
    layout: &Layout,
    selection: &ColumnSelection,
) -> Result<Row, DecodeError> {
    let mut row = Row::new(clustering);
    if flags & flag::HAS_TIMESTAMP != 0 {
        row.liveness.timestamp = timestamp(input, layout)?;
        if flags & flag::HAS_TTL != 0 {
            row.liveness.ttl = ttl(input, layout)?;
            let expires_at = local_deletion_time(input, layout)?;
            // Without a time to live it never does (`LivenessInfo.withExpirationTime`).
            if row.liveness.ttl != NO_TTL {
                row.liveness.expires_at = expires_at;
            }
        }
    }
    if flags & flag::HAS_DELETION != 0 {
        row.deletion = delta_deletion(input, layout)?;
        let shadowable = extension & flag::HAS_SHADOWABLE_DELETION != 0;
        if shadowable && row.liveness.timestamp > row.deletion.timestamp {
            row.deletion = DeletionTime::LIVE;
        }
    }
    let columns = layout.columns(extension & flag::IS_STATIC != 0);
    let mut cells = Cells {
        bytes,
        layout,
        selection,
        has_complex_deletion: flags & flag::HAS_COMPLEX_DELETION != 0,
        row: &mut row,
    };
    if flags & flag::HAS_ALL_COLUMNS != 0 {
        cells.row.cells.reserve(columns.columns.len());
        for column in &columns.columns {
            cells.column(input, column)?;
        }
    } else {
        cells.some_columns(input, &columns.columns)?;
    }
    if !columns.sorted {
        row.cells.sort_by_key(|c| c.column);
        row.complex_deletions.sort_by_key(|d| d.column);
    }
    Ok(row)
}

/// Decodes the cells of a row into it.
struct Cells<'a> {
    bytes: &'a Bytes,
    layout: &'a Layout,
    selection: &'a ColumnSelection,
    has_complex_deletion: bool,
    row: &'a mut Row,
}

impl Cells<'_> {
    /// Which columns there are, and their cells.
    fn some_columns(
        &mut self,
        input: &mut Input<'_>,
        columns: &[LayoutColumn],
    ) -> Result<(), DecodeError> {
        if columns.len() < LARGE_COLUMN_COUNT {
            let missing = input.vint()?;
            if missing >> columns.len() != 0 {
                return Err(DecodeError::Invalid(
                    "a row lacks columns that do not exist",
                ));
            }
            for (i, column) in columns.iter().enumerate() {
                if missing >> i & 1 == 0 {
                    self.column(input, column)?;
                }
            }
            return Ok(());
        }
        let missing = input.vint_len()?;
        let count = columns
            .len()
            .checked_sub(missing)
            .ok_or(DecodeError::Invalid(
                "a row lacks columns that do not exist",
            ))?;
        let lists_present = count < columns.len() / 2;
        let mut listed = vec![false; columns.len()];
        for _ in 0..if lists_present { count } else { missing } {
            *listed
                .get_mut(input.vint_len()?)
                .ok_or(DecodeError::Invalid(
                    "a row has a column that does not exist",
                ))? = true;
        }
        for (column, listed) in columns.iter().zip(listed) {
            if listed == lists_present {
                self.column(input, column)?;
            }
        }
        Ok(())
    }

    fn column(&mut self, input: &mut Input<'_>, column: &LayoutColumn) -> Result<(), DecodeError> {
        if !column.complex {
            return self.cell(input, column);
        }
        if self.has_complex_deletion {
            let deletion = delta_deletion(input, self.layout)?;
            if let Some(id) = column.id
                && !deletion.is_live()
                && deletion.timestamp > column.dropped_at
            {
                self.row.complex_deletions.push(ComplexDeletion {
                    column: id,
                    deletion,
                });
            }
        }
        for _ in 0..input.vint()? {
            self.cell(input, column)?;
        }
        Ok(())
    }

    #[inline]
    fn cell(&mut self, input: &mut Input<'_>, column: &LayoutColumn) -> Result<(), DecodeError> {
        let flags = input.u8()?;
        let deleted = flags & cell_flag::IS_DELETED != 0;
        let expiring = flags & cell_flag::IS_EXPIRING != 0;
        let row: &Liveness = &self.row.liveness;
        let timestamp = if flags & cell_flag::USE_ROW_TIMESTAMP != 0 {
            row.timestamp
        } else {
            timestamp(input, self.layout)?
        };
        let (mut local, mut cell_ttl) = (NO_DELETION_TIME, NO_TTL);
        if flags & cell_flag::USE_ROW_TTL != 0 {
            (local, cell_ttl) = (row.expires_at, row.ttl);
        } else {
            if deleted || expiring {
                local = local_deletion_time(input, self.layout)?;
            }
            if expiring {
                cell_ttl = ttl(input, self.layout)?;
            }
        }
        let path = if column.complex {
            Some(input.vint_bytes()?)
        } else {
            None
        };
        let value = if flags & cell_flag::HAS_EMPTY_VALUE != 0 {
            &[]
        } else {
            value(input, column.value_length)?
        };
        let Some(id) = column.id.filter(|_| timestamp > column.dropped_at) else {
            return Ok(());
        };
        let value = if value.is_empty() || !self.selection.wants(id) {
            Bytes::new()
        } else {
            self.bytes.slice_ref(value)
        };
        self.row.cells.push(Cell {
            column: id,
            path: path.map(|path| self.bytes.slice_ref(path)),
            timestamp,
            ttl: cell_ttl,
            local_deletion_time: local,
            value,
        });
        Ok(())
    }
}
