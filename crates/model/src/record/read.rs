//! Reading what is known of a partition.

use super::{
    CELL_DELETED, CELL_PATH, CELL_SAME_TIMESTAMP, CELL_TTL, CONTENT_DELETION, CONTENT_STATIC,
    Content, Input, ROW_COMPLEX, ROW_DELETION, ROW_LIVENESS, ROW_TTL, ReadColumns, RecordError,
};
use crate::{
    Cell, ComplexDeletion, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, RangeTombstone, Row,
    Slice,
};

/// Takes what is known of a partition off `input`.
///
/// # Errors
/// The bytes are something else.
pub fn read_content(input: &mut Input, columns: &impl ReadColumns) -> Result<Content, RecordError> {
    let flags = input.u8()?;
    if flags & !(CONTENT_DELETION | CONTENT_STATIC) != 0 {
        return Err(RecordError::Unknown("flag of an update"));
    }
    let mut last_timestamp = 0;
    let deletion = match flags & CONTENT_DELETION {
        0 => DeletionTime::LIVE,
        _ => input.deletion()?,
    };
    let static_row = match flags & CONTENT_STATIC {
        0 => None,
        _ => Some(read_row(input, columns, &mut last_timestamp)?),
    };
    let count = input.vint()?;
    let mut rows = Vec::with_capacity(room(count));
    for _ in 0..count {
        rows.push(read_row(input, columns, &mut last_timestamp)?);
    }
    let mut range_tombstones = Vec::new();
    for _ in 0..input.vint()? {
        let slice = Slice {
            start: input.bound()?,
            end: input.bound()?,
        };
        range_tombstones.push(RangeTombstone {
            slice,
            deletion: input.deletion()?,
        });
    }
    Ok(Content {
        deletion,
        static_row,
        rows,
        range_tombstones,
    })
}

/// For how many of `count` things room is made before they are there: a number alone takes no memory.
pub(super) fn room(count: u64) -> usize {
    const MOST: u64 = 32;
    count.min(MOST) as usize
}

/// Numbers of columns may have changed since a row was written: by them rows are sorted.
pub(super) fn sort_by_columns(row: &mut Row) {
    row.complex_deletions.sort_by_key(|c| c.column);
    row.cells.sort_by_key(|c| c.column);
}

fn read_row(
    input: &mut Input,
    columns: &impl ReadColumns,
    last_timestamp: &mut i64,
) -> Result<Row, RecordError> {
    let flags = input.u8()?;
    if flags & !(ROW_LIVENESS | ROW_TTL | ROW_DELETION | ROW_COMPLEX) != 0 {
        return Err(RecordError::Unknown("flag of a row"));
    }
    let mut row = Row::new(input.clustering()?);
    if flags & ROW_LIVENESS != 0 {
        row.liveness.timestamp = i64::from_le_bytes(input.array()?);
        *last_timestamp = row.liveness.timestamp;
    }
    if flags & ROW_TTL != 0 {
        row.liveness = Liveness {
            ttl: i32::from_le_bytes(input.array()?),
            expires_at: u32::from_le_bytes(input.array()?),
            ..row.liveness
        };
    }
    if flags & ROW_DELETION != 0 {
        row.deletion = input.deletion()?;
    }
    if flags & ROW_COMPLEX != 0 {
        for _ in 0..input.vint()? {
            let number = input.vint()?;
            let deletion = input.deletion()?;
            if let Some(column) = columns.column(number, deletion.timestamp)? {
                row.complex_deletions
                    .push(ComplexDeletion { column, deletion });
            }
        }
    }
    let count = input.vint()?;
    row.cells.reserve_exact(room(count));
    for _ in 0..count {
        if let Some(cell) = read_cell(input, columns, last_timestamp)? {
            row.cells.push(cell);
        }
    }
    sort_by_columns(&mut row);
    Ok(row)
}

fn read_cell(
    input: &mut Input,
    columns: &impl ReadColumns,
    last_timestamp: &mut i64,
) -> Result<Option<Cell>, RecordError> {
    let flags = input.u8()?;
    if flags & !(CELL_PATH | CELL_TTL | CELL_DELETED | CELL_SAME_TIMESTAMP) != 0 {
        return Err(RecordError::Unknown("flag of a cell"));
    }
    let number = input.vint()?;
    if flags & CELL_SAME_TIMESTAMP == 0 {
        *last_timestamp = i64::from_le_bytes(input.array()?);
    }
    let ttl = match flags & CELL_TTL {
        0 => NO_TTL,
        _ => i32::from_le_bytes(input.array()?),
    };
    let local_deletion_time = match flags & (CELL_TTL | CELL_DELETED) {
        0 => NO_DELETION_TIME,
        _ => u32::from_le_bytes(input.array()?),
    };
    let path = match flags & CELL_PATH {
        0 => None,
        _ => Some(input.bytes()?),
    };
    let value = input.bytes()?;
    let column = columns.column(number, *last_timestamp)?;
    Ok(column.map(|column| Cell {
        column,
        path,
        timestamp: *last_timestamp,
        ttl,
        local_deletion_time,
        value,
    }))
}
