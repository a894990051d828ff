//! What the metadata log and its snapshots hold of the schema: mutations of `system_schema`, each on
//! its own, with the names of its columns.

use bytes::Bytes;
use model::record::message;
use model::{Mutation, Schema};

/// A mutation.
pub(super) fn encode(mutation: &Mutation) -> Vec<u8> {
    message::encode_mutation(mutation, true)
}

/// The mutation that was encoded, of a table of `schema`.
///
/// # Errors
/// It is none, or of a table or column that this version does not know; in words.
pub(super) fn decode(bytes: Bytes, schema: &Schema) -> Result<Mutation, String> {
    let decoded = message::decode_mutation(bytes, |id| schema.table_by_id(id).cloned());
    decoded.map_err(|error| format!("a change of the schema that cannot be read: {error}"))
}

/// Several, one after the other: each behind its length (u32, big-endian).
pub(super) fn join(mutations: &[Vec<u8>]) -> Bytes {
    let mut all = Vec::new();
    for mutation in mutations {
        all.extend_from_slice(&(mutation.len() as u32).to_be_bytes());
        all.extend_from_slice(mutation);
    }
    all.into()
}

/// The ones that were joined.
///
/// # Errors
/// They end too early; in words.
pub(super) fn split(mut bytes: Bytes) -> Result<Vec<Bytes>, String> {
    let mut parts = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if bytes.len() - 4 < length {
            break;
        }
        bytes = bytes.slice(4..);
        parts.push(bytes.split_to(length));
    }
    match bytes.is_empty() {
        true => Ok(parts),
        false => Err("the schema of a snapshot ends too early".to_owned()),
    }
}
