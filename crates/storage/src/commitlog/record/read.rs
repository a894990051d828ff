//! Reading mutations.

use bytes::Bytes;
use model::{
    Cell, ComplexDeletion, DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL,
    PartitionUpdate, RangeTombstone, Row, Slice,
};

use super::input::Input;
use super::{
    CELL_DELETED, CELL_PATH, CELL_SAME_TIMESTAMP, CELL_TTL, Declared, ROW_COMPLEX, ROW_DELETION,
    ROW_LIVENESS, ROW_TTL, RecordError, UPDATE_DELETION, UPDATE_STATIC,
};

/// What a mutation record says, before anybody asks whether its tables still exist.
#[derive(Debug)]
pub(crate) struct RecordedMutation {
    /// The key.
    pub(crate) key: DecoratedKey,
    /// The updates of tables that are known today. Cells of columns that are gone are left out.
    pub(crate) updates: Vec<PartitionUpdate>,
    /// Were there updates of tables that are not known?
    pub(crate) skipped: bool,
}

/// Reads the body of a mutation record; `declared` holds what the segment declared so far.
pub(in crate::commitlog) fn read_mutation(
    body: Bytes,
    declared: &[Option<Declared>],
) -> Result<RecordedMutation, RecordError> {
    let mut input = Input::new(body);
    let key = DecoratedKey::new(input.bytes()?);
    let count = input.vint()?;
    let mut recorded = RecordedMutation {
        key,
        updates: Vec::new(),
        skipped: false,
    };
    for _ in 0..count {
        let number = usize::try_from(input.vint()?).map_err(|_| RecordError::Undeclared)?;
        let version = declared
            .get(number)
            .and_then(Option::as_ref)
            .ok_or(RecordError::Undeclared)?;
        let content = read_update(&mut input, version)?;
        match &version.table {
            Some(table) => recorded.updates.push(PartitionUpdate {
                deletion: content.deletion,
                static_row: content.static_row,
                rows: content.rows,
                range_tombstones: content.range_tombstones,
                ..PartitionUpdate::new(table.clone(), recorded.key.clone())
            }),
            None => recorded.skipped = true,
        }
    }
    Ok(recorded)
}

struct UpdateContent {
    deletion: DeletionTime,
    static_row: Option<Row>,
    rows: Vec<Row>,
    range_tombstones: Vec<RangeTombstone>,
}

fn read_update(input: &mut Input, version: &Declared) -> Result<UpdateContent, RecordError> {
    let flags = input.u8()?;
    if flags & !(UPDATE_DELETION | UPDATE_STATIC) != 0 {
        return Err(RecordError::Unknown("flag of an update"));
    }
    let mut last_timestamp = 0;
    let deletion = match flags & UPDATE_DELETION {
        0 => DeletionTime::LIVE,
        _ => input.deletion()?,
    };
    let static_row = match flags & UPDATE_STATIC {
        0 => None,
        _ => Some(read_row(input, version, &mut last_timestamp)?),
    };
    let mut rows = Vec::new();
    for _ in 0..input.vint()? {
        rows.push(read_row(input, version, &mut last_timestamp)?);
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
    Ok(UpdateContent {
        deletion,
        static_row,
        rows,
        range_tombstones,
    })
}

fn read_row(
    input: &mut Input,
    version: &Declared,
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
            if let Some(column) = version.column(number, deletion.timestamp) {
                row.complex_deletions
                    .push(ComplexDeletion { column, deletion });
            }
        }
    }
    for _ in 0..input.vint()? {
        if let Some(cell) = read_cell(input, version, last_timestamp)? {
            row.cells.push(cell);
        }
    }
    // Numbers of columns may have changed since: by them rows are sorted.
    row.complex_deletions.sort_by_key(|c| c.column);
    row.cells.sort_by_key(|c| c.column);
    Ok(row)
}

fn read_cell(
    input: &mut Input,
    version: &Declared,
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
    let column = version.column(number, *last_timestamp);
    Ok(column.map(|column| Cell {
        column,
        path,
        timestamp: *last_timestamp,
        ttl,
        local_deletion_time,
        value,
    }))
}
