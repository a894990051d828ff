//! Writes of before: hints (`HintMessage`), and what of a logged batch is applied later.
//!
//! A replica leaves out what it has truncated since they were written.

use std::sync::Arc;

use bytes::Bytes;

use super::{MessageError, decode_mutation, encode_mutation};
use crate::record::Input;
use crate::{Mutation, Table, TableId};

/// Writes a mutation with when it was written, in microseconds since 1970.
pub fn encode_late(mutation: &Mutation, written_at: i64, named: bool) -> Vec<u8> {
    let mut out = encode_mutation(mutation, named);
    out.extend_from_slice(&written_at.to_be_bytes());
    // In front, without a second buffer.
    out.rotate_right(8);
    out
}

/// Reads what [`encode_late`] wrote; `find` knows the tables of today.
///
/// # Errors
/// It is something else, or about tables or columns that are not known.
pub fn decode_late(
    bytes: Bytes,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<(Mutation, i64), MessageError> {
    let mut input = Input::new(bytes);
    let written_at = i64::from_be_bytes(input.array()?);
    Ok((decode_mutation(input.rest(), find)?, written_at))
}
