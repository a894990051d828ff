//! Mutations between nodes.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::{MessageError, Numbering, check_slice, read_table, write_table};
use crate::record::{
    Content, ContentRef, Input, RecordError, read::room, read_content, write_bytes, write_content,
};
use crate::{DecoratedKey, MAX_KEY_LENGTH, Mutation, PartitionUpdate, Row, Table, TableId, vint};

/// Writes a mutation, with the names of columns or without.
pub fn encode_mutation(mutation: &Mutation, named: bool) -> Vec<u8> {
    // A table without the names of its columns takes a few bytes more than its id.
    const TABLE: usize = 32;
    let key = mutation.key().key();
    let about = |update: &PartitionUpdate| TABLE + ContentRef::from(update).about_bytes();
    let about: usize = mutation.updates.iter().map(about).sum();
    let mut out = Vec::with_capacity(16 + key.len() + about);
    write_bytes(&mut out, key);
    vint::write_unsigned(&mut out, mutation.updates.len() as u64);
    for update in &mutation.updates {
        write_table(&mut out, &update.table, named);
        write_content(
            &mut out,
            update.into(),
            &Numbering::own(update.table.clone()),
        );
    }
    out
}

/// Reads what [`encode_mutation`] wrote; `find` knows the tables of today.
///
/// # Errors
/// It is something else, or about tables or columns that are not known.
pub fn decode_mutation(
    bytes: Bytes,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<Mutation, MessageError> {
    let mut input = Input::new(bytes);
    let key = read_key(&mut input)?;
    let count = input.vint()?;
    let mut updates = Vec::with_capacity(room(count));
    for _ in 0..count {
        let numbering = read_table(&mut input, &find)?;
        let content = read_content(&mut input, &numbering)?;
        check_content(numbering.table(), &content, Ordering::Less)?;
        updates.push(PartitionUpdate {
            deletion: content.deletion,
            static_row: content.static_row,
            rows: content.rows,
            range_tombstones: content.range_tombstones,
            ..PartitionUpdate::new(numbering.table().clone(), key.clone())
        });
    }
    if updates.is_empty() {
        return Err(RecordError::Unsound("no update").into());
    }
    if !input.is_empty() {
        return Err(RecordError::Unsound("something behind its end").into());
    }
    Ok(Mutation { updates })
}

/// A partition key.
pub(super) fn read_key(input: &mut Input) -> Result<DecoratedKey, RecordError> {
    let key = input.bytes()?;
    match key.len() <= MAX_KEY_LENGTH {
        true => Ok(DecoratedKey::new(key)),
        false => Err(RecordError::Unsound("a key that is too long")),
    }
}

/// Fails unless rows and ranges are whole and in order; `forward` is how a row compares with the next.
pub(super) fn check_content(
    table: &Table,
    content: &Content,
    forward: Ordering,
) -> Result<(), RecordError> {
    let comparator = table.comparator();
    let full = table.clustering_key().len();
    let is_full = |row: &Row| row.clustering.0.len() == full;
    let in_order =
        |pair: &[Row]| comparator.compare(&pair[0].clustering, &pair[1].clustering) == forward;
    let statics_are_sound = content.static_row.iter().all(|r| r.clustering.0.is_empty());
    if !content.rows.iter().all(is_full) || !statics_are_sound {
        return Err(RecordError::Unsound("a clustering that is not whole"));
    }
    if !content.rows.windows(2).all(in_order) {
        return Err(RecordError::Unsound("rows that are not in order"));
    }
    for tombstone in &content.range_tombstones {
        check_slice(table, &tombstone.slice)?;
    }
    let apart = content.range_tombstones.windows(2).all(|pair| {
        let order = comparator.compare_bounds(&pair[0].slice.end, &pair[1].slice.start);
        order != Ordering::Greater
    });
    match apart {
        true => Ok(()),
        false => Err(RecordError::Unsound("deleted ranges that overlap")),
    }
}
