//! Logged batches between nodes (`Batch`).

use bytes::Bytes;
use uuid::Uuid;

use crate::record::{Input, RecordError, write_bytes};
use crate::vint;

/// More mutations than a batch of the native protocol has statements.
const MAX_MUTATIONS: u64 = 1 << 16;

/// A logged batch, as those keep it that see to it that all of it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// A timeuuid of when it was begun.
    pub id: Uuid,
    /// Its mutations, each in a form that stands for itself: who keeps them does not read them.
    pub mutations: Vec<Bytes>,
}

/// Writes a batch.
pub fn encode_batch(batch: &Batch) -> Vec<u8> {
    let bytes: usize = batch.mutations.iter().map(|m| m.len() + 5).sum();
    let mut out = Vec::with_capacity(16 + 5 + bytes);
    out.extend_from_slice(batch.id.as_bytes());
    vint::write_unsigned(&mut out, batch.mutations.len() as u64);
    for mutation in &batch.mutations {
        write_bytes(&mut out, mutation);
    }
    out
}

/// Reads what [`encode_batch`] wrote.
///
/// # Errors
/// It is something else.
pub fn decode_batch(bytes: Bytes) -> Result<Batch, RecordError> {
    let mut input = Input::new(bytes);
    let id = Uuid::from_bytes(input.array()?);
    if id.get_version_num() != 1 {
        return Err(RecordError::Unsound("a batch whose id says no time"));
    }
    let count = input.vint()?;
    if count > MAX_MUTATIONS {
        return Err(RecordError::Unsound("a batch of too many mutations"));
    }
    let mutations = (0..count).map(|_| input.bytes());
    let mutations = mutations.collect::<Result<_, _>>()?;
    match input.is_empty() {
        true => Ok(Batch { id, mutations }),
        false => Err(RecordError::Unsound("something behind its end")),
    }
}
