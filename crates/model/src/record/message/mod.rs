//! Mutations, reads, batches and what replicas know, as nodes send them to each other.
//!
//! ```text
//! mutation = key, update count vint, (table, content)*
//! read     = kind u8, table, partitions, clusterings, columns, filters, limits, now u32, resume
//! page     = more u8, partition count vint, (key, end u8, [bound], content)*
//! late     = written at i64 (microseconds since 1970), mutation
//! batch    = id [16], mutation count vint, (length vint, bytes)*
//! table    = table id [16], form u64, named u8, [column count vint, (kind u8, name)*]
//! ```
//!
//! Nodes may know different versions of a table, and what they know alike has other ids on each of
//! them. So columns have the numbers of [`Table::number_of`] here, which depend on nothing but the
//! columns that there are, and a digest of these ([`Table::form`]) says whose numbers they are. Where
//! both sides have the same columns, which is nearly always, that is all. Where not, the answer is
//! [`MessageError::OtherColumns`], and whoever asked says it again with the names of its columns: one
//! more round trip while the schema changes, and nothing to remember of any node.
//!
//! A page has the numbers of whoever asked for it, so that equal pages have equal bytes, whoever sends
//! them: their digests are compared ([`digest`], [`digest_versions`]).

mod batch;
mod late;
mod mutation;
mod page;
mod read;

use std::sync::Arc;

use twox_hash::xxhash3_128;

use super::{Input, ReadColumns, RecordError, WriteColumns, write_bytes};
use crate::{
    Bound, BoundKind, Clustering, Column, ColumnId, ColumnKind, Slice, Table, TableId, vint,
};

pub use batch::{Batch, decode_batch, encode_batch};
pub use late::{decode_late, encode_late};
pub use mutation::{decode_mutation, encode_mutation};
pub use page::{decode_page, decode_versions, digest_versions, encode_page, encode_versions};
pub use read::{ReadKind, decode_read, encode_read};

/// Why a message is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is damaged, or of a version unknown to us.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It is about a table that is not there.
    #[error("no table with id {0}")]
    UnknownTable(TableId),
    /// It counts columns that are others here: it has to say their names.
    #[error("the table with id {0} has other columns here")]
    OtherColumns(TableId),
}

/// A digest of a page or any other bytes (XXH3, 128 bits).
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    xxhash3_128::Hasher::oneshot(bytes).to_be_bytes()
}

/// The columns of a table, as whoever sent a message numbers them.
#[derive(Clone, Debug)]
pub struct Numbering {
    table: Arc<Table>,
    /// `None`: as this node does.
    foreign: Option<Foreign>,
}

/// Numbers of another version of a table.
#[derive(Clone, Debug)]
struct Foreign {
    columns: Vec<Foreigner>,
    /// By id of this node.
    numbers: Vec<Option<u32>>,
}

/// What a column of the other version is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreigner {
    /// This one. What was written before it was added, and another of its name dropped, is of that.
    Known(ColumnId, i64),
    /// It was dropped here.
    Dropped,
    /// It is not known.
    Unknown,
}

impl Numbering {
    /// That of this node.
    pub fn own(table: Arc<Table>) -> Numbering {
        let foreign = None;
        Numbering { table, foreign }
    }

    /// The table, as this node knows it.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn named(table: Arc<Table>, names: Vec<Foreigner>) -> Numbering {
        let mut numbers = vec![None; table.next_column_id().0 as usize];
        for (number, column) in (0..).zip(&names) {
            if let Foreigner::Known(id, _) = column {
                numbers[id.0 as usize] = Some(number);
            }
        }
        let foreign = Foreign {
            columns: names,
            numbers,
        };
        Numbering {
            table,
            foreign: Some(foreign),
        }
    }

    /// The column of that number, whatever its kind.
    fn any(&self, number: u64) -> Result<ColumnId, RecordError> {
        let number = u32::try_from(number).map_err(|_| RecordError::UnknownColumn)?;
        let found = match &self.foreign {
            None => self.table.numbered(number),
            Some(foreign) => match foreign.columns.get(number as usize) {
                Some(Foreigner::Known(id, _)) => Some(*id),
                _ => None,
            },
        };
        found.ok_or(RecordError::UnknownColumn)
    }
}

impl ReadColumns for Numbering {
    fn column(&self, number: u64, timestamp: i64) -> Result<Option<ColumnId>, RecordError> {
        let number = u32::try_from(number).map_err(|_| RecordError::UnknownColumn)?;
        let found = match &self.foreign {
            None => self.table.numbered(number),
            Some(foreign) => match foreign.columns.get(number as usize) {
                Some(Foreigner::Known(_, dropped_at)) if timestamp <= *dropped_at => {
                    return Ok(None);
                }
                Some(Foreigner::Known(id, _)) => Some(*id),
                Some(Foreigner::Dropped) => return Ok(None),
                Some(Foreigner::Unknown) | None => None,
            },
        };
        let column = found.and_then(|id| self.table.column(id));
        let has_cells =
            |column: &&Column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular);
        let column = column.filter(has_cells).ok_or(RecordError::UnknownColumn)?;
        Ok(Some(column.id))
    }
}

impl WriteColumns for Numbering {
    fn number(&self, column: ColumnId) -> Option<u32> {
        match &self.foreign {
            None => self.table.number_of(column),
            Some(foreign) => *foreign.numbers.get(column.0 as usize)?,
        }
    }

    fn keep_order(&self) -> bool {
        self.foreign.is_none() && self.table.numbers_rise()
    }
}

fn kind_byte(kind: ColumnKind) -> u8 {
    match kind {
        ColumnKind::PartitionKey => 0,
        ColumnKind::Clustering => 1,
        ColumnKind::Static => 2,
        ColumnKind::Regular => 3,
    }
}

/// All columns, in the order of their numbers.
fn in_order(table: &Table) -> impl Iterator<Item = &Column> {
    let keys = table.partition_key().chain(table.clustering_key());
    keys.chain(table.statics()).chain(table.regulars())
}

/// Appends which table is spoken of, with the names of its columns or without.
fn write_table(out: &mut Vec<u8>, table: &Table, named: bool) {
    out.extend_from_slice(table.id.as_bytes());
    out.extend_from_slice(&table.form().to_le_bytes());
    out.push(u8::from(named));
    if !named {
        return;
    }
    vint::write_unsigned(out, in_order(table).count() as u64);
    for column in in_order(table) {
        out.push(kind_byte(column.kind));
        write_bytes(out, column.name.as_bytes());
    }
}

/// Which table is spoken of; `find` knows those of today.
fn read_table(
    input: &mut Input,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<Numbering, MessageError> {
    let id = TableId::from_bytes(input.array()?);
    let form = u64::from_le_bytes(input.array()?);
    let table = find(id);
    let mut names = None;
    match input.u8()? {
        0 => {}
        1 => {
            let mut columns = Vec::new();
            for _ in 0..input.vint()? {
                let (kind, name) = (input.u8()?, input.bytes()?);
                columns.push(match &table {
                    Some(table) => foreigner(table, kind, &name),
                    None => Foreigner::Unknown,
                });
            }
            names = Some(columns);
        }
        _ => return Err(RecordError::Unknown("form of a table").into()),
    }
    let table = table.ok_or(MessageError::UnknownTable(id))?;
    match names {
        _ if table.form() == form => Ok(Numbering::own(table)),
        Some(names) => Ok(Numbering::named(table, names)),
        None => Err(MessageError::OtherColumns(id)),
    }
}

/// What the column of another version of a table is here.
fn foreigner(table: &Table, kind: u8, name: &[u8]) -> Foreigner {
    let mut columns = table.columns();
    let known = columns.find(|c| c.name.as_bytes() == name && kind_byte(c.kind) == kind);
    let dropped = table.dropped.iter().filter(|d| d.name.as_bytes() == name);
    let dropped_at = dropped.map(|dropped| dropped.dropped_at).max();
    match (known, dropped_at) {
        (Some(column), dropped_at) => Foreigner::Known(column.id, dropped_at.unwrap_or(i64::MIN)),
        (None, Some(_)) => Foreigner::Dropped,
        (None, None) => Foreigner::Unknown,
    }
}

/// Fails if these are more values than there are clustering columns.
fn check_prefix(table: &Table, prefix: &Clustering) -> Result<(), RecordError> {
    match prefix.0.len() <= table.clustering_key().len() {
        true => Ok(()),
        false => Err(RecordError::Unsound("a bound of too many columns")),
    }
}

fn read_slice(input: &mut Input, table: &Table) -> Result<Slice, RecordError> {
    let slice = Slice {
        start: input.bound()?,
        end: input.bound()?,
    };
    check_slice(table, &slice)?;
    Ok(slice)
}

fn check_slice(table: &Table, slice: &Slice) -> Result<(), RecordError> {
    check_prefix(table, &slice.start.prefix)?;
    check_prefix(table, &slice.end.prefix)?;
    match is_start(&slice.start) && !is_start(&slice.end) {
        true => Ok(()),
        false => Err(RecordError::Unsound("a range that begins with an end")),
    }
}

fn is_start(bound: &Bound) -> bool {
    matches!(
        bound.kind,
        BoundKind::InclusiveStart | BoundKind::ExclusiveStart
    )
}
