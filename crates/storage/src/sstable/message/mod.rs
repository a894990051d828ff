//! Mutations as Cassandra's nodes send them to each other and its commit log keeps them, and
//! updates as its `system.paxos` keeps them.
//!
//! The rows are those of `Data.db`, without the lengths that let a reader pass over them; before
//! them stands what an sstable keeps in its statistics: the columns, by name only, and what times
//! are differences to. So a mutation can be read only with the tables it was written to.
//!
//! ```text
//! mutation = update count vint, update*              Mutation.MutationSerializer
//! update   = table id [16], partition                PartitionUpdate.PartitionUpdateSerializer
//! partition = key, flags u8, encoding stats,         UnfilteredRowIteratorSerializer
//!             [static columns], regular columns, [deletion], [static row], [row count vint],
//!             row or marker*, end u8
//! columns  = count vint, name*                       Columns.Serializer
//! ```

use std::sync::Arc;

use bytes::Bytes;
use model::{
    ColumnKind, CqlType, DecoratedKey, Mutation, PartitionUpdate, RangeTombstone, Row, Slice,
    Table, TableId,
};

use super::decode::{self, ColumnSelection};
use super::encode::flag;
use super::error::DecodeError;
use super::header::{self, EncodingStats, HeaderColumn};
use super::input::Input;
use super::layout::{Layout, LayoutColumns};
use crate::RangeTombstoneMarker;

mod write;

pub use write::encode_partition_update;

#[cfg(test)]
pub(super) use write::encode as encode_in_version;

const IS_EMPTY: u8 = 0x01;
const IS_REVERSED: u8 = 0x02;
const HAS_PARTITION_DELETION: u8 = 0x04;
const HAS_STATIC_ROW: u8 = 0x08;
const HAS_ROW_ESTIMATE: u8 = 0x10;

/// Why bytes are not a mutation of the tables there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    /// They are none at all.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// They speak of a column that the table neither has nor had.
    #[error("it writes to the column {column} of {table}, which does not exist")]
    UnknownColumn {
        /// The table, with its keyspace.
        table: String,
        /// The column.
        column: String,
    },
}

/// The versions of messages (`MessagingService.Version`) that are known: that of Cassandra 3.0 is
/// the first with rows as they are now, those after 5.0 have an epoch in each update.
const VERSION_30: i32 = 10;
const VERSION_40: i32 = 12;
/// From here on, deletion times are unsigned.
const VERSION_50: i32 = 13;

/// Why bytes are not an update of a table that there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionUpdateError {
    /// They are of a version that is not known.
    #[error(
        "it is in version {0} of Cassandra's messages, where only {VERSION_30} to {VERSION_50}          (Cassandra 3.0 to 5.0) can be read"
    )]
    UnknownVersion(i32),
    /// They are of a table that is not known.
    #[error("it writes to the table with the id {0}, which does not exist")]
    UnknownTable(TableId),
    /// They speak of a column that the table neither has nor had.
    #[error("it writes to the column {column} of {table}, which does not exist")]
    UnknownColumn {
        /// The table, with its keyspace.
        table: String,
        /// The column.
        column: String,
    },
    /// They are none at all.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl From<DecodeError> for PartitionUpdateError {
    fn from(error: DecodeError) -> PartitionUpdateError {
        PartitionUpdateError::Damaged(error.to_string())
    }
}

impl From<MessageError> for PartitionUpdateError {
    fn from(error: MessageError) -> PartitionUpdateError {
        match error {
            MessageError::Decode(error) => error.into(),
            MessageError::UnknownColumn { table, column } => {
                PartitionUpdateError::UnknownColumn { table, column }
            }
        }
    }
}

/// Reads an update as a Cassandra of 3.0 to 5.0 kept it in `system.paxos`, in the version that
/// stands beside it; `find` knows the tables. What was written to columns that were dropped since
/// is left out (`PartitionUpdate.fromBytes`).
///
/// # Errors
/// What is wrong with the bytes, or with the tables there are.
pub fn decode_partition_update(
    bytes: &Bytes,
    version: i32,
    find: &dyn Fn(TableId) -> Option<Arc<Table>>,
) -> Result<PartitionUpdate, PartitionUpdateError> {
    if !(VERSION_30..=VERSION_50).contains(&version) {
        return Err(PartitionUpdateError::UnknownVersion(version));
    }
    let mut input = Input::new(bytes);
    let id = table_id(&mut input)?;
    let table = find(id).ok_or(PartitionUpdateError::UnknownTable(id))?;
    let update = partition(bytes, &mut input, table, version >= VERSION_50)?;
    if input.remaining() != 0 {
        return Err(DecodeError::Invalid("an update is longer than its content").into());
    }
    Ok(update)
}

/// Reads a mutation of a batch that a Cassandra logged, in this version of its messages; `find`
/// knows the tables. `None` if nothing is left of it, as its tables are gone.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_cassandra_mutation(
    bytes: &Bytes,
    version: i32,
    find: &dyn Fn(TableId) -> Option<Arc<Table>>,
) -> Result<Option<Mutation>, String> {
    let decoded = MessageMutation::decode(bytes, version >= VERSION_50, find);
    let updates = decoded.map_err(|error| error.to_string())?.updates;
    Ok((!updates.is_empty()).then_some(Mutation { updates }))
}

/// What is known of a mutation.
#[derive(Debug, PartialEq)]
pub(crate) struct MessageMutation {
    /// Its updates, all of one key.
    pub(crate) updates: Vec<PartitionUpdate>,
    /// A table that is not known: what follows could not be read.
    pub(crate) unknown: Option<TableId>,
}

impl MessageMutation {
    /// The key that a mutation is about, without reading the rest of it.
    pub(crate) fn key(bytes: &Bytes) -> Result<DecoratedKey, DecodeError> {
        let mut input = Input::new(bytes);
        input.vint()?;
        table_id(&mut input)?;
        Ok(DecoratedKey::new(bytes.slice_ref(input.vint_bytes()?)))
    }

    /// Reads a mutation; `find` knows the tables. With `unsigned_deletion_time` it is of messaging
    /// version 50 or later.
    pub(crate) fn decode(
        bytes: &Bytes,
        unsigned_deletion_time: bool,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<MessageMutation, MessageError> {
        let mut input = Input::new(bytes);
        let mut mutation = MessageMutation {
            updates: Vec::new(),
            unknown: None,
        };
        for _ in 0..header::count(&mut input)? {
            let id = table_id(&mut input)?;
            let Some(table) = find(id) else {
                mutation.unknown = Some(id);
                return Ok(mutation);
            };
            let update = partition(bytes, &mut input, table, unsigned_deletion_time)?;
            mutation.updates.push(update);
        }
        if input.remaining() != 0 {
            return Err(DecodeError::Invalid("a mutation is longer than its content").into());
        }
        Ok(mutation)
    }
}

fn table_id(input: &mut Input<'_>) -> Result<TableId, DecodeError> {
    let mut id = [0; 16];
    id.copy_from_slice(input.take(16)?);
    Ok(TableId::from_bytes(id))
}

fn partition(
    bytes: &Bytes,
    input: &mut Input<'_>,
    table: Arc<Table>,
    unsigned_deletion_time: bool,
) -> Result<PartitionUpdate, MessageError> {
    let key = DecoratedKey::new(bytes.slice_ref(input.vint_bytes()?));
    let mut update = PartitionUpdate::new(table, key);
    let flags = input.u8()?;
    if flags & IS_EMPTY != 0 {
        return Ok(update);
    }
    if flags & IS_REVERSED != 0 {
        return Err(DecodeError::Invalid("a partition is in reverse").into());
    }
    let has_static = flags & HAS_STATIC_ROW != 0;
    let table = update.table.clone();
    let encoding = EncodingStats::decode(input)?;
    let statics = match has_static {
        true => columns(input, ColumnKind::Static, &table)?,
        false => LayoutColumns::default(),
    };
    let regulars = columns(input, ColumnKind::Regular, &table)?;
    let columns = [statics, regulars];
    let layout = Layout::of_message(encoding, unsigned_deletion_time, columns, &table);
    if flags & HAS_PARTITION_DELETION != 0 {
        update.deletion = decode::delta_deletion(input, &layout)?;
    }
    if has_static {
        match item(bytes, input, &layout)? {
            Some(Item::Static(row)) => update.static_row = Some(row).filter(|row| !row.is_empty()),
            _ => return Err(DecodeError::Invalid("a static row is none").into()),
        }
    }
    if flags & HAS_ROW_ESTIMATE != 0 {
        input.vint()?;
    }
    let mut open: Option<RangeTombstoneMarker> = None;
    while let Some(item) = item(bytes, input, &layout)? {
        match item {
            Item::Row(row) => push_row(&mut update, row)?,
            Item::Marker(marker) => {
                close_range(&mut update, open.take(), &marker)?;
                open = Some(marker).filter(|marker| marker.opens.is_some());
            }
            Item::Static(_) => return Err(DecodeError::Invalid("a row is static").into()),
        }
    }
    match open {
        None => Ok(update),
        Some(_) => Err(DecodeError::Invalid("a range tombstone has no end").into()),
    }
}

/// The columns that a message names, with the types they have or had.
fn columns(
    input: &mut Input<'_>,
    kind: ColumnKind,
    table: &Table,
) -> Result<LayoutColumns, MessageError> {
    let mut columns = Vec::new();
    for _ in 0..header::count(input)? {
        let name = String::from_utf8_lossy(input.vint_bytes()?).into_owned();
        let Some(ty) = column_type(table, kind, &name) else {
            return Err(MessageError::UnknownColumn {
                table: format!("{}.{}", table.keyspace, table.name),
                column: name,
            });
        };
        columns.push(HeaderColumn { name, ty });
    }
    let mut names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    if names.array_windows().any(|[a, b]| a == b) {
        return Err(DecodeError::Invalid("a column is named twice").into());
    }
    Ok(LayoutColumns::new(&columns, kind, table))
}

fn column_type(table: &Table, kind: ColumnKind, name: &str) -> Option<CqlType> {
    let column = table.column_named(name).filter(|c| c.kind == kind);
    if let Some(column) = column {
        return Some(column.ty.clone());
    }
    // Old schemas do not say whether it was static.
    let mut dropped = table.dropped.iter();
    let dropped = dropped.find(|d| *d.name == *name);
    dropped.map(|dropped| dropped.ty.clone())
}

enum Item {
    Static(Row),
    Row(Row),
    Marker(RangeTombstoneMarker),
}

/// The next row or marker; `None` at the end of the partition.
fn item(
    bytes: &Bytes,
    input: &mut Input<'_>,
    layout: &Layout,
) -> Result<Option<Item>, DecodeError> {
    let flags = input.u8()?;
    if flags & flag::END_OF_PARTITION != 0 {
        return Ok(None);
    }
    if flags & flag::IS_MARKER != 0 {
        let code = input.u8()?;
        let place = decode::bound(bytes, input, &layout.clustering, code)?;
        let marker = decode::marker_content(input, place, layout)?;
        return Ok(Some(Item::Marker(marker)));
    }
    let extension = match flags & flag::EXTENSION {
        0 => 0,
        _ => input.u8()?,
    };
    let is_static = extension & flag::IS_STATIC != 0;
    let clustering = match is_static {
        true => model::Clustering::EMPTY,
        false => decode::clustering(bytes, input, &layout.clustering)?,
    };
    let all = ColumnSelection::All;
    let row = decode::row_content(bytes, input, (flags, extension), clustering, layout, &all)?;
    Ok(Some(match is_static {
        true => Item::Static(row),
        false => Item::Row(row),
    }))
}

fn push_row(update: &mut PartitionUpdate, row: Row) -> Result<(), DecodeError> {
    let comparator = update.table.comparator();
    let in_order = update.rows.last().is_none_or(|last| {
        comparator
            .compare(&last.clustering, &row.clustering)
            .is_lt()
    });
    if !in_order {
        return Err(DecodeError::Invalid("rows are out of order"));
    }
    // Of a row that wrote to nothing but dropped columns, nothing is left.
    if !row.is_empty() {
        update.rows.push(row);
    }
    Ok(())
}

/// Ends the range that `open` began at `marker`, which must close as much as was open.
fn close_range(
    update: &mut PartitionUpdate,
    open: Option<RangeTombstoneMarker>,
    marker: &RangeTombstoneMarker,
) -> Result<(), DecodeError> {
    let begun = open.and_then(|open| Some((open.start_bound()?, open.opens?)));
    let (start, deletion, end) = match (begun, marker.end_bound()) {
        (None, None) => return Ok(()),
        (Some((start, deletion)), Some(end)) if Some(deletion) == marker.closes => {
            (start, deletion, end)
        }
        _ => return Err(DecodeError::Invalid("range tombstones do not match")),
    };
    let slice = Slice { start, end };
    let comparator = update.table.comparator();
    let behind = update.range_tombstones.last().is_none_or(|last| {
        comparator
            .compare_bounds(&last.slice.end, &slice.start)
            .is_le()
    });
    if slice.is_empty(comparator) || !behind {
        return Err(DecodeError::Invalid("range tombstones are out of order"));
    }
    let tombstone = RangeTombstone { slice, deletion };
    update.range_tombstones.push(tombstone);
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::{DroppedColumn, Order};

    use super::*;

    #[test]
    fn a_dropped_column_is_known_by_its_name() {
        let mut own = Table::clone(&crate::testing::table(Order::Ascending));
        own.dropped.push(DroppedColumn {
            name: "gone".into(),
            ty: CqlType::Text,
            is_static: false,
            dropped_at: 7,
        });
        for kind in [ColumnKind::Static, ColumnKind::Regular] {
            assert_eq!(column_type(&own, kind, "gone"), Some(CqlType::Text));
        }
        assert_eq!(column_type(&own, ColumnKind::Static, "v"), None);
    }
}
