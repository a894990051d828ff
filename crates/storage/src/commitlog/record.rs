//! The records of the commit log: what a group's payload is made of.
//!
//! ```text
//! record   = kind u8, length u32, body
//! schema   = number vint, table id [16], column*            kind 1
//! column   = id vint, kind u8, name, type (Java class)
//! mutation = key, update count vint, update*                kind 2
//! row      = number vint, key, the row as memtables lay it out (`model::PackedRow`)   kind 3
//! update   = schema number vint, content ([`model::record`])
//! ```
//!
//! A segment describes itself: before the first mutation of a version of a table stands a schema
//! record that gives the numbers of columns their names. So a mutation can be replayed after
//! columns were added, dropped or renumbered.

use std::sync::Arc;

use bytes::Bytes;
pub use model::record::RecordError;
use model::record::{
    Ids, Input, ReadColumns, read_content, read_packed_row, write_bytes, write_content,
};
use model::{
    Column, ColumnId, ColumnKind, DecoratedKey, Mutation, PartitionUpdate, RowUpdate, Table,
    TableId, vint,
};

/// The kind byte of a schema record.
pub(super) const SCHEMA: u8 = 1;
/// The kind byte of a mutation record.
const MUTATION: u8 = 2;
/// The kind byte of the record of a mutation of one row by itself, which was laid out already.
const ROW: u8 = 3;

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

impl ReadColumns for Declared {
    /// The column of today for what was written at `timestamp` to the column of that number.
    fn column(&self, number: u64, timestamp: i64) -> Result<Option<ColumnId>, RecordError> {
        let slot = usize::try_from(number).ok();
        let column = slot.and_then(|slot| *self.columns.get(slot)?);
        let column = column.filter(|column| timestamp > column.dropped_at);
        Ok(column.map(|column| column.id))
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

/// Appends the record of `mutation`; `numbers` gives the schema numbers of its updates, in order.
pub(super) fn write_mutation(out: &mut Vec<u8>, mutation: &Mutation, numbers: &[u32]) {
    debug_assert_eq!(mutation.updates.len(), numbers.len());
    let body = begin_record(out, MUTATION);
    write_bytes(out, mutation.key().key());
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for (update, number) in mutation.updates.iter().zip(numbers) {
        vint::write_unsigned(out, u64::from(*number));
        write_content(out, update.into(), &Ids);
    }
    end_record(out, body);
}

/// Appends the record of the mutation that `update` is all of.
pub(super) fn write_row_update(out: &mut Vec<u8>, update: &RowUpdate, number: u32) {
    let body = begin_record(out, ROW);
    vint::write_unsigned(out, u64::from(number));
    write_bytes(out, update.key.key());
    out.extend_from_slice(update.row.memory());
    end_record(out, body);
}

/// Reads the body of a record of that kind, which is of something that was written; `declared` holds what the segment
/// declared so far.
pub(super) fn read_written(
    kind: u8,
    body: Bytes,
    declared: &[Option<Declared>],
) -> Result<RecordedMutation, RecordError> {
    match kind {
        MUTATION => read_mutation(body, declared),
        ROW => read_row(body, declared),
        _ => Err(RecordError::Unknown("kind of record")),
    }
}

fn read_mutation(
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
        let version = version(input.vint()?, declared)?;
        let content = read_content(&mut input, version)?;
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

fn read_row(body: Bytes, declared: &[Option<Declared>]) -> Result<RecordedMutation, RecordError> {
    let mut input = Input::new(body);
    let version = version(input.vint()?, declared)?;
    let key = DecoratedKey::new(input.bytes()?);
    let row = read_packed_row(input.rest(), version)?;
    let update = version.table.as_ref().map(|table| PartitionUpdate {
        rows: vec![row],
        ..PartitionUpdate::new(table.clone(), key.clone())
    });
    Ok(RecordedMutation {
        updates: Vec::from_iter(update),
        skipped: version.table.is_none(),
        key,
    })
}

/// The version of a table that has a number.
fn version(number: u64, declared: &[Option<Declared>]) -> Result<&Declared, RecordError> {
    let number = usize::try_from(number).map_err(|_| RecordError::Undeclared)?;
    let version = declared.get(number).and_then(Option::as_ref);
    version.ok_or(RecordError::Undeclared)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row_update, saying, table, update};
    use model::{Mutation, Order, PartitionUpdate, TableOptions};
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
        assert!(payload.is_empty());
        read_written(kind, body, &[Some(declared)])
    }

    fn encoded_row(update: &RowUpdate) -> Vec<u8> {
        let mut out = Vec::new();
        write_schema(&mut out, 0, &update.table);
        write_row_update(&mut out, update, 0);
        out
    }

    fn cells(update: &PartitionUpdate) -> Vec<(ColumnId, Bytes)> {
        let cells = update.rows.iter().flat_map(|row| &row.cells);
        cells
            .map(|cell| (cell.column, cell.value.clone()))
            .collect()
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
            let expected: Vec<(ColumnId, Bytes)> = cells(&update)
                .into_iter()
                .map(|(column, value)| (ColumnId(column.0 + 10), value))
                .collect();
            prop_assert_eq!(cells(&read.updates[0]), expected);
            let statics = read.updates[0].static_row.iter().flat_map(|row| &row.cells);
            prop_assert_eq!(statics.count(), 0);
        }

        #[test]
        fn a_row_that_is_laid_out_reads_as_its_mutation_does(update in row_update()) {
            let mutation = Mutation { updates: vec![update.clone().unpack()] };
            for today in [update.table.clone(), renumbered(&update.table, &[]), renumbered(&update.table, &["v"])] {
                let expected = decoded(encoded(&mutation, &update.table), &today).expect("it is whole");
                let read = decoded(encoded_row(&update), &today).expect("it is whole");
                prop_assert_eq!(read.updates, expected.updates);
                prop_assert_eq!((read.key, read.skipped), (expected.key, expected.skipped));
            }
            let read = decoded(encoded_row(&update), &update.table).expect("it is whole");
            prop_assert_eq!(read.updates, mutation.updates);
        }

        #[test]
        fn no_bytes_of_a_row_make_it_panic(
            update in row_update(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut record = Vec::new();
            write_schema(&mut record, 0, &update.table);
            let (_, schema) = split_record(&mut Bytes::from(record)).expect("it is whole");
            let declared = [Some(read_schema(schema, |_| Some(update.table.clone())).expect("whole").1)];
            let mut record = Vec::new();
            write_row_update(&mut record, &update, 0);
            let mut body = record.split_off(5);
            let part = Bytes::copy_from_slice(&body[..cut.index(body.len())]);
            prop_assert!(read_row(part, &declared).is_err());
            for (at, value) in flips {
                let at = at.index(body.len());
                body[at] = value;
            }
            let _ = read_row(Bytes::from(body), &declared);
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
