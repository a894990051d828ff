//! What is known of a partition, as bytes: in the commit log, in the batch log, and between nodes.
//!
//! ```text
//! content    = flags u8, [deletion], [static row], row count vint, row*, tombstone count vint, tombstone*
//! row        = flags u8, clustering, [liveness], [ttl], [deletion], [complex], cell count vint, cell*
//! complex    = count vint, (column vint, deletion)*
//! cell       = flags u8, column vint, [timestamp], [ttl], [local deletion time], [path], value
//! tombstone  = bound, bound, deletion
//! bound      = kind u8, clustering
//! clustering = count vint, value*
//! ```
//!
//! Numbers without a fixed width are [`crate::vint`]s, fixed ones little-endian; values have their
//! lengths before them; a cell's timestamp is left out if it is that of the cell before.
//!
//! Columns are numbers, whose meaning is said elsewhere, as the ids of a table mean something only
//! within a process: in the commit log by a record that stands before ([`Ids`] gives the ids
//! themselves), between nodes by [`message`].

mod input;
pub mod message;
mod packed;
mod read;
mod write;

use crate::{ColumnId, DeletionTime, Partition, PartitionUpdate, RangeTombstone, Row};

pub use input::Input;
pub use packed::read_packed_row;
pub use read::read_content;
pub use write::{write_bytes, write_content};

/// Why bytes are no record: a bug, damage, or a version unknown to us.
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
    /// A number that is none of a column.
    #[error("the record has a column that is not known here")]
    UnknownColumn,
    /// Bytes that say what cannot be: rows that are not in order, say.
    #[error("the record has {0}")]
    Unsound(&'static str),
}

/// How columns are numbered in what is written.
pub trait WriteColumns {
    /// The number of a column; `None`: what is said of it is left out.
    fn number(&self, column: ColumnId) -> Option<u32>;

    /// Do the numbers of all columns rise with their ids, and is none left out?
    fn keep_order(&self) -> bool;
}

/// Which columns the numbers in what is read mean.
pub trait ReadColumns {
    /// The column for what was written at `timestamp` to the one of that number; `None`: it is gone,
    /// and what is said of it is left out.
    ///
    /// # Errors
    /// The number means nothing.
    fn column(&self, number: u64, timestamp: i64) -> Result<Option<ColumnId>, RecordError>;
}

/// The ids of columns are their numbers.
pub struct Ids;

impl WriteColumns for Ids {
    fn number(&self, column: ColumnId) -> Option<u32> {
        Some(column.0)
    }

    fn keep_order(&self) -> bool {
        true
    }
}

/// What is known of a partition besides its key, to be written.
#[derive(Clone, Copy, Debug)]
pub struct ContentRef<'c> {
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if anything is known of it.
    pub static_row: Option<&'c Row>,
    /// The rows.
    pub rows: &'c [Row],
    /// The deleted ranges.
    pub range_tombstones: &'c [RangeTombstone],
}

impl ContentRef<'_> {
    /// About how many bytes it is written as, rather more than fewer.
    pub(crate) fn about_bytes(&self) -> usize {
        // Two bounds without values and a deletion.
        const RANGE: usize = 32;
        let rows = self.static_row.into_iter().chain(self.rows);
        let rows: u64 = rows.map(Row::answer_bytes).sum();
        16 + rows as usize + self.range_tombstones.len() * RANGE
    }
}

impl<'c> From<&'c PartitionUpdate> for ContentRef<'c> {
    fn from(update: &'c PartitionUpdate) -> ContentRef<'c> {
        ContentRef {
            deletion: update.deletion,
            static_row: update.static_row.as_ref(),
            rows: &update.rows,
            range_tombstones: &update.range_tombstones,
        }
    }
}

impl<'c> From<&'c Partition> for ContentRef<'c> {
    fn from(partition: &'c Partition) -> ContentRef<'c> {
        ContentRef {
            deletion: partition.deletion,
            static_row: partition.static_row.as_ref(),
            rows: &partition.rows,
            range_tombstones: &partition.range_tombstones,
        }
    }
}

/// What is known of a partition besides its key, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if anything is known of it.
    pub static_row: Option<Row>,
    /// The rows, in the order in which they were written.
    pub rows: Vec<Row>,
    /// The deleted ranges.
    pub range_tombstones: Vec<RangeTombstone>,
}

/// What a content has.
const CONTENT_DELETION: u8 = 1;
const CONTENT_STATIC: u8 = 2;
/// What a row has.
const ROW_LIVENESS: u8 = 1;
const ROW_TTL: u8 = 2;
const ROW_DELETION: u8 = 4;
const ROW_COMPLEX: u8 = 8;
/// What a cell has.
const CELL_PATH: u8 = 1;
const CELL_TTL: u8 = 2;
const CELL_DELETED: u8 = 4;
const CELL_SAME_TIMESTAMP: u8 = 8;
