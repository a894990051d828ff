//! The records of the commit log: what a group's payload is made of.
//!
//! ```text
//! record   = kind u8, length u32, body
//! schema   = number vint, table id [16], column*            kind 1
//! column   = id vint, kind u8, name, type (Java class)
//! mutation = key, update count vint, update*                kind 2
//! update   = schema number vint, flags u8, [deletion], [static row], row*, tombstone*
//! ```
//!
//! A segment describes itself: before the first mutation of a version of a table stands a schema
//! record that gives the numbers of columns their names. So a mutation can be replayed after
//! columns were added, dropped or renumbered. Numbers without a fixed width are `model::vint`s,
//! fixed ones little-endian; a cell's timestamp is left out if it is that of the cell before.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, ComplexDeletion,
    DecoratedKey, DeletionTime, Liveness, Mutation, NO_DELETION_TIME, NO_TTL, PartitionUpdate,
    RangeTombstone, Row, Slice, Table, TableId, vint,
};
use smallvec::SmallVec;

/// The kind byte of a schema record.
pub(super) const SCHEMA: u8 = 1;
/// The kind byte of a mutation record.
pub(super) const MUTATION: u8 = 2;

/// Why bytes with a good checksum are not a record: a bug, or a version unknown to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It ends before its content does.
    #[error("the record ends too early")]
    Short,
    /// A byte that says what follows has an unknown value.
    #[error("unknown {0} in the record")]
    Unknown(&'static str),
    /// A mutation of a schema number that no record before it declared.
    #[error("the record uses an undeclared table version")]
    Undeclared,
}

/// A version of a table as a segment declares it, resolved against the table of today.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    /// The table of today; `None` if it is not known (dropped, or not opened yet).
    pub(super) table: Option<Arc<Table>>,
    /// By the number in the segment: the column of today, if there is one of that name and kind.
    columns: Vec<Option<KnownColumn>>,
}

/// A column of today, and until when what was written under its name belongs to another one.
#[derive(Clone, Copy, Debug)]
struct KnownColumn {
    id: ColumnId,
    dropped_at: i64,
}

impl Declared {
    /// The column of today for what was written at `timestamp` to the column of that number.
    fn column(&self, number: u64, timestamp: i64) -> Option<ColumnId> {
        let column = (*self.columns.get(usize::try_from(number).ok()?)?)?;
        (timestamp > column.dropped_at).then_some(column.id)
    }
}

/// Until when a column of this name that was dropped was written to.
fn dropped_at(table: &Table, name: &str) -> i64 {
    let dropped = table.dropped.iter().filter(|d| &*d.name == name);
    dropped.map(|d| d.dropped_at).max().unwrap_or(i64::MIN)
}

/// Appends the schema record that gives `table` the number `number`.
pub(super) fn write_schema(out: &mut Vec<u8>, number: u32, table: &Table) {
    let body = begin_record(out, SCHEMA);
    vint::write_unsigned(out, u64::from(number));
    out.extend_from_slice(table.id.as_bytes());
    let columns: Vec<&Column> = table.statics().chain(table.regulars()).collect();
    vint::write_unsigned(out, columns.len() as u64);
    for column in columns {
        vint::write_unsigned(out, u64::from(column.id.0));
        out.push(u8::from(column.kind == ColumnKind::Static));
        write_bytes(out, column.name.as_bytes());
        write_bytes(out, column.ty.to_marshal().as_bytes());
    }
    end_record(out, body);
}

/// Appends the head of a record with room for its length; gives where its body begins.
fn begin_record(out: &mut Vec<u8>, kind: u8) -> usize {
    out.push(kind);
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Fills in the length of the record whose body began at `body`.
fn end_record(out: &mut [u8], body: usize) {
    let len = (out.len() - body) as u32;
    out[body - 4..body].copy_from_slice(&len.to_le_bytes());
}

/// Reads the body of a schema record and resolves it by `find`.
pub(super) fn read_schema(
    body: Bytes,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<(u32, Declared), RecordError> {
    let mut input = Input::new(body);
    let number = u32::try_from(input.vint()?).map_err(|_| RecordError::Unknown("table number"))?;
    let id = TableId::from_bytes(input.array()?);
    let table = find(id);
    let count = input.vint()?;
    let mut columns: Vec<Option<KnownColumn>> = Vec::new();
    for _ in 0..count {
        let column = input.vint()?;
        let slot = usize::try_from(column)
            .ok()
            .filter(|slot| *slot < MAX_COLUMN)
            .ok_or(RecordError::Unknown("column number"))?;
        let kind = match input.u8()? {
            0 => ColumnKind::Regular,
            1 => ColumnKind::Static,
            _ => return Err(RecordError::Unknown("kind of column")),
        };
        let name = input.bytes()?;
        let _type_for_people = input.bytes()?;
        if columns.len() <= slot {
            columns.resize(slot + 1, None);
        }
        columns[slot] = table.as_ref().and_then(|table| {
            let mut columns = table.columns();
            let column = columns.find(|c| c.name.as_bytes() == &name[..] && c.kind == kind)?;
            Some(KnownColumn {
                id: column.id,
                dropped_at: dropped_at(table, &column.name),
            })
        });
    }
    Ok((number, Declared { table, columns }))
}

/// More columns than a table can have (Cassandra's names and ids end far below).
const MAX_COLUMN: usize = 1 << 20;

/// Appends the record of `mutation`; `numbers` gives the schema numbers of its updates, in order.
pub(super) fn write_mutation(out: &mut Vec<u8>, mutation: &Mutation, numbers: &[u32]) {
    debug_assert_eq!(mutation.updates.len(), numbers.len());
    let body = begin_record(out, MUTATION);
    write_bytes(out, mutation.key().key());
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for (update, number) in mutation.updates.iter().zip(numbers) {
        vint::write_unsigned(out, u64::from(*number));
        write_update(out, update);
    }
    end_record(out, body);
}

const UPDATE_DELETION: u8 = 1;
const UPDATE_STATIC: u8 = 2;

fn write_update(out: &mut Vec<u8>, update: &PartitionUpdate) {
    let mut flags = 0;
    if !update.deletion.is_live() {
        flags |= UPDATE_DELETION;
    }
    if update.static_row.is_some() {
        flags |= UPDATE_STATIC;
    }
    out.push(flags);
    let mut last_timestamp = 0;
    if !update.deletion.is_live() {
        write_deletion(out, &update.deletion);
    }
    if let Some(row) = &update.static_row {
        write_row(out, row, &mut last_timestamp);
    }
    vint::write_unsigned(out, update.rows.len() as u64);
    for row in &update.rows {
        write_row(out, row, &mut last_timestamp);
    }
    vint::write_unsigned(out, update.range_tombstones.len() as u64);
    for tombstone in &update.range_tombstones {
        write_bound(out, &tombstone.slice.start);
        write_bound(out, &tombstone.slice.end);
        write_deletion(out, &tombstone.deletion);
    }
}

const ROW_LIVENESS: u8 = 1;
const ROW_TTL: u8 = 2;
const ROW_DELETION: u8 = 4;
const ROW_COMPLEX: u8 = 8;

fn write_row(out: &mut Vec<u8>, row: &Row, last_timestamp: &mut i64) {
    let mut flags = 0;
    if !row.liveness.is_empty() {
        flags |= ROW_LIVENESS;
        if row.liveness.ttl != NO_TTL {
            flags |= ROW_TTL;
        }
    }
    if !row.deletion.is_live() {
        flags |= ROW_DELETION;
    }
    if !row.complex_deletions.is_empty() {
        flags |= ROW_COMPLEX;
    }
    out.push(flags);
    write_clustering(out, &row.clustering);
    if flags & ROW_LIVENESS != 0 {
        out.extend_from_slice(&row.liveness.timestamp.to_le_bytes());
        *last_timestamp = row.liveness.timestamp;
    }
    if flags & ROW_TTL != 0 {
        out.extend_from_slice(&row.liveness.ttl.to_le_bytes());
        out.extend_from_slice(&row.liveness.expires_at.to_le_bytes());
    }
    if flags & ROW_DELETION != 0 {
        write_deletion(out, &row.deletion);
    }
    if flags & ROW_COMPLEX != 0 {
        vint::write_unsigned(out, row.complex_deletions.len() as u64);
        for complex in &row.complex_deletions {
            vint::write_unsigned(out, u64::from(complex.column.0));
            write_deletion(out, &complex.deletion);
        }
    }
    vint::write_unsigned(out, row.cells.len() as u64);
    for cell in &row.cells {
        write_cell(out, cell, last_timestamp);
    }
}

const CELL_PATH: u8 = 1;
const CELL_TTL: u8 = 2;
const CELL_DELETED: u8 = 4;
const CELL_SAME_TIMESTAMP: u8 = 8;

fn write_cell(out: &mut Vec<u8>, cell: &Cell, last_timestamp: &mut i64) {
    let mut flags = 0;
    if cell.path.is_some() {
        flags |= CELL_PATH;
    }
    if cell.ttl != NO_TTL {
        flags |= CELL_TTL;
    } else if cell.local_deletion_time != NO_DELETION_TIME {
        flags |= CELL_DELETED;
    }
    if cell.timestamp == *last_timestamp {
        flags |= CELL_SAME_TIMESTAMP;
    }
    out.push(flags);
    vint::write_unsigned(out, u64::from(cell.column.0));
    if flags & CELL_SAME_TIMESTAMP == 0 {
        out.extend_from_slice(&cell.timestamp.to_le_bytes());
        *last_timestamp = cell.timestamp;
    }
    if flags & CELL_TTL != 0 {
        out.extend_from_slice(&cell.ttl.to_le_bytes());
    }
    if flags & (CELL_TTL | CELL_DELETED) != 0 {
        out.extend_from_slice(&cell.local_deletion_time.to_le_bytes());
    }
    if let Some(path) = &cell.path {
        write_bytes(out, path);
    }
    write_bytes(out, &cell.value);
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_clustering(out: &mut Vec<u8>, clustering: &Clustering) {
    vint::write_unsigned(out, clustering.0.len() as u64);
    for value in &clustering.0 {
        write_bytes(out, value);
    }
}

fn write_bound(out: &mut Vec<u8>, bound: &Bound) {
    out.push(match bound.kind {
        BoundKind::InclusiveStart => 0,
        BoundKind::ExclusiveStart => 1,
        BoundKind::InclusiveEnd => 2,
        BoundKind::ExclusiveEnd => 3,
    });
    write_clustering(out, &bound.prefix);
}

fn write_deletion(out: &mut Vec<u8>, deletion: &DeletionTime) {
    out.extend_from_slice(&deletion.timestamp.to_le_bytes());
    out.extend_from_slice(&deletion.local_deletion_time.to_le_bytes());
}

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
pub(super) fn read_mutation(
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

/// Takes a record from the front of a group's payload: its kind and its body.
pub(super) fn split_record(payload: &mut Bytes) -> Result<(u8, Bytes), RecordError> {
    let mut input = Input::new(payload.clone());
    let kind = input.u8()?;
    let len = u32::from_le_bytes(input.array()?);
    let body = input.take(u64::from(len))?;
    *payload = input.rest();
    Ok((kind, body))
}

/// Bytes being read; what is taken shares their memory.
struct Input {
    bytes: Bytes,
    at: usize,
}

impl Input {
    fn new(bytes: Bytes) -> Input {
        Input { bytes, at: 0 }
    }

    fn rest(self) -> Bytes {
        self.bytes.slice(self.at..)
    }

    fn u8(&mut self) -> Result<u8, RecordError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let array = self.bytes[self.at..]
            .first_chunk::<N>()
            .ok_or(RecordError::Short)?;
        self.at += N;
        Ok(*array)
    }

    fn vint(&mut self) -> Result<u64, RecordError> {
        let mut rest = &self.bytes[self.at..];
        let value = vint::read_unsigned(&mut rest).ok_or(RecordError::Short)?;
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }

    fn bytes(&mut self) -> Result<Bytes, RecordError> {
        let len = self.vint()?;
        self.take(len)
    }

    fn take(&mut self, len: u64) -> Result<Bytes, RecordError> {
        let len = usize::try_from(len).map_err(|_| RecordError::Short)?;
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.bytes.len())
            .ok_or(RecordError::Short)?;
        let bytes = self.bytes.slice(self.at..end);
        self.at = end;
        Ok(bytes)
    }

    fn deletion(&mut self) -> Result<DeletionTime, RecordError> {
        Ok(DeletionTime {
            timestamp: i64::from_le_bytes(self.array()?),
            local_deletion_time: u32::from_le_bytes(self.array()?),
        })
    }

    fn clustering(&mut self) -> Result<Clustering, RecordError> {
        let mut values = SmallVec::new();
        for _ in 0..self.vint()? {
            values.push(self.bytes()?);
        }
        Ok(Clustering(values))
    }

    fn bound(&mut self) -> Result<Bound, RecordError> {
        let kind = match self.u8()? {
            0 => BoundKind::InclusiveStart,
            1 => BoundKind::ExclusiveStart,
            2 => BoundKind::InclusiveEnd,
            3 => BoundKind::ExclusiveEnd,
            _ => return Err(RecordError::Unknown("kind of bound")),
        };
        Ok(Bound {
            prefix: self.clustering()?,
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{saying, table, update};
    use model::{Order, TableOptions};
    use proptest::prelude::*;

    fn encoded(mutation: &Mutation, table: &Table) -> Vec<u8> {
        let mut out = Vec::new();
        write_schema(&mut out, 0, table);
        write_mutation(&mut out, mutation, &[0]);
        out
    }

    /// Reads a schema and a mutation record, the table being `today`.
    fn decoded(bytes: Vec<u8>, today: &Arc<Table>) -> Result<RecordedMutation, RecordError> {
        let mut payload = Bytes::from(bytes);
        let (kind, body) = split_record(&mut payload)?;
        assert_eq!(kind, SCHEMA);
        let (number, declared) = read_schema(body, |_| Some(today.clone()))?;
        assert_eq!(number, 0);
        let (kind, body) = split_record(&mut payload)?;
        assert_eq!(kind, MUTATION);
        assert!(payload.is_empty());
        read_mutation(body, &[Some(declared)])
    }

    /// The same table after other columns were dropped and added: `v` has another number.
    fn renumbered(table: &Table, dropped: &[&str]) -> Arc<Table> {
        let mut columns: Vec<Column> = table.columns().cloned().collect();
        columns.retain(|column| !dropped.contains(&&*column.name));
        for column in &mut columns {
            if column.kind == ColumnKind::Regular {
                column.id = ColumnId(column.id.0 + 10);
            }
        }
        let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
        let options = TableOptions::default();
        Arc::new(Table::new(table.id, keyspace, name, columns, options))
    }

    proptest! {
        #[test]
        fn a_mutation_reads_as_written(sayings in prop::collection::vec(saying(), 1..9)) {
            let table = table(Order::Descending);
            let update = update(&table, &sayings);
            let mutation = Mutation { updates: vec![update.clone()] };
            let read = decoded(encoded(&mutation, &table), &table).expect("it is whole");
            prop_assert_eq!(read.updates, vec![update.clone()]);
            prop_assert!(!read.skipped);

            let today = renumbered(&table, &["s"]);
            let read = decoded(encoded(&mutation, &table), &today).expect("it is whole");
            let cells = |update: &PartitionUpdate| -> Vec<(ColumnId, Bytes)> {
                let cells = update.rows.iter().flat_map(|row| &row.cells);
                cells.map(|cell| (cell.column, cell.value.clone())).collect()
            };
            let expected: Vec<(ColumnId, Bytes)> = cells(&update)
                .into_iter()
                .map(|(column, value)| (ColumnId(column.0 + 10), value))
                .collect();
            prop_assert_eq!(cells(&read.updates[0]), expected);
            let statics = read.updates[0].static_row.iter().flat_map(|row| &row.cells);
            prop_assert_eq!(statics.count(), 0);
        }

        #[test]
        fn no_bytes_make_it_panic(
            sayings in prop::collection::vec(saying(), 1..9),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let table = table(Order::Ascending);
            let mutation = Mutation { updates: vec![update(&table, &sayings)] };
            let mut body = Vec::new();
            write_mutation(&mut body, &mutation, &[0]);
            let mut schema = Vec::new();
            write_schema(&mut schema, 0, &table);
            let (_, schema) = split_record(&mut Bytes::from(schema)).expect("it is whole");
            let declared = [Some(read_schema(schema, |_| Some(table.clone())).expect("whole").1)];
            let cut = cut.index(body.len());
            let _ = read_mutation(Bytes::copy_from_slice(&body[5.min(cut)..cut]), &declared);
            for (at, value) in flips {
                let at = at.index(body.len());
                body[at] = value;
            }
            let _ = split_record(&mut Bytes::from(body.clone()));
            let _ = read_mutation(Bytes::from(body.clone()), &declared);
            let _ = read_schema(Bytes::from(body), |_| Some(table.clone()));
        }
    }

    #[test]
    fn what_was_written_before_a_drop_does_not_come_back() {
        let table = table(Order::Ascending);
        let sayings = [(10, [0, 0]), (20, [0, 1])]
            .map(|(time, place)| crate::testing::Saying::Written(place, time, 1));
        let mutation = Mutation {
            updates: vec![update(&table, &sayings)],
        };
        let mut today = Table::clone(&table);
        today.dropped.push(model::DroppedColumn {
            name: "v".into(),
            ty: model::CqlType::Int,
            is_static: false,
            dropped_at: 10,
        });
        let read = decoded(encoded(&mutation, &table), &Arc::new(today)).expect("it is whole");
        let cells: Vec<usize> = read.updates[0].rows.iter().map(|r| r.cells.len()).collect();
        assert_eq!(cells, [0, 1]);
    }
}
