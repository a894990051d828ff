//! Reading a row that was written as [`crate::PackedRow`] lays it out.

use bytes::Bytes;

use super::read::{room, sort_by_columns};
use super::{Input, ReadColumns, RecordError};
use crate::packed::{
    CELL_DELETION_TIME, CELL_PATH, CELL_TTL, CELL_VALUE, COMPLEX, DELETION, EXPIRING, FADING,
    LIVENESS, PLAIN,
};
use crate::{Cell, ComplexDeletion, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Row, vint};

/// What a row may have.
const ROW_FLAGS: u8 = LIVENESS | EXPIRING | DELETION | COMPLEX | PLAIN | FADING;
/// What a cell may have.
const CELL_FLAGS: u8 = CELL_PATH | CELL_TTL | CELL_DELETION_TIME | CELL_VALUE;

/// Reads the layout of a row, which is all of `bytes`. Its values share their memory.
///
/// # Errors
/// The bytes are something else.
pub fn read_packed_row(bytes: Bytes, columns: &impl ReadColumns) -> Result<Row, RecordError> {
    let mut head = Input::new(bytes.clone());
    let flags = head.u8()?;
    if flags & !ROW_FLAGS != 0 {
        return Err(RecordError::Unknown("flag of a row"));
    }
    let values_at = u32::from_be_bytes(head.array()?) as usize;
    if values_at > bytes.len() {
        return Err(RecordError::Short);
    }
    let mut values = Input::new(bytes.slice(values_at..));
    let mut row = Row::new(head.clustering()?);
    let base = i64::from_be_bytes(head.array()?);
    if flags & LIVENESS != 0 {
        row.liveness.timestamp = time(&mut head, base)?;
    }
    if flags & EXPIRING != 0 {
        row.liveness = Liveness {
            ttl: ttl(&mut head)?,
            expires_at: u32::from_be_bytes(head.array()?),
            ..row.liveness
        };
    }
    if flags & DELETION != 0 {
        row.deletion = deletion(&mut head, base)?;
    }
    if flags & COMPLEX != 0 {
        for _ in 0..head.vint()? {
            let number = head.vint()?;
            let deletion = deletion(&mut head, base)?;
            if let Some(column) = columns.column(number, deletion.timestamp)? {
                row.complex_deletions
                    .push(ComplexDeletion { column, deletion });
            }
        }
    }
    let count = u32::from_be_bytes(head.array()?);
    row.cells.reserve_exact(room(u64::from(count)));
    for _ in 0..count {
        let cell = read_cell((&mut head, base), &mut values, columns)?;
        row.cells.extend(cell);
    }
    if head.at() != values_at || !values.is_empty() {
        return Err(RecordError::Unsound("more or less than its row"));
    }
    sort_by_columns(&mut row);
    Ok(row)
}

/// `None`: its column is gone.
fn read_cell(
    (head, base): (&mut Input, i64),
    values: &mut Input,
    columns: &impl ReadColumns,
) -> Result<Option<Cell>, RecordError> {
    let number = head.vint()?;
    let flags = head.u8()?;
    if flags & !CELL_FLAGS != 0 {
        return Err(RecordError::Unknown("flag of a cell"));
    }
    let has = |flag| flags & flag != 0;
    let timestamp = time(head, base)?;
    let ttl = match has(CELL_TTL) {
        true => ttl(head)?,
        false => NO_TTL,
    };
    let local_deletion_time = match has(CELL_DELETION_TIME) {
        true => u32::from_be_bytes(head.array()?),
        false => NO_DELETION_TIME,
    };
    let path = has(CELL_PATH).then(|| head.bytes()).transpose()?;
    let value = match has(CELL_VALUE) {
        true => {
            let len = head.vint()?;
            values.take(len)?
        }
        false => Bytes::new(),
    };
    let column = columns.column(number, timestamp)?;
    Ok(column.map(|column| Cell {
        column,
        path,
        timestamp,
        ttl,
        local_deletion_time,
        value,
    }))
}

fn time(input: &mut Input, base: i64) -> Result<i64, RecordError> {
    Ok(base.wrapping_add(vint::unzigzag(input.vint()?)))
}

/// A time to live, in seconds.
fn ttl(input: &mut Input) -> Result<i32, RecordError> {
    let ttl = u32::try_from(input.vint()?);
    let ttl = ttl.map_err(|_| RecordError::Unsound("a time to live that is none"))?;
    Ok(ttl.cast_signed())
}

fn deletion(input: &mut Input, base: i64) -> Result<DeletionTime, RecordError> {
    Ok(DeletionTime {
        timestamp: time(input, base)?,
        local_deletion_time: u32::from_be_bytes(input.array()?),
    })
}
