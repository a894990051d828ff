//! A mutation on its own: in one piece what a segment of the commit log says of it, for the batch
//! log.
//!
//! ```text
//! version u8, schema record*, mutation record or record of a row
//! ```

use std::sync::Arc;

use bytes::Bytes;
use model::{Mutation, Table, TableId};

use super::record::{self, RecordError};

/// The version of this form, its first byte.
const VERSION: u8 = 1;

/// Writes a mutation so that [`decode_mutation`] can read it when its tables have changed.
pub fn encode_mutation(mutation: &Mutation) -> Vec<u8> {
    let mut out = vec![VERSION];
    let mut declared: Vec<&Arc<Table>> = Vec::new();
    let mut numbers = Vec::with_capacity(mutation.updates.len());
    for update in &mutation.updates {
        let table = &update.table;
        let known = declared.iter().position(|known| Arc::ptr_eq(known, table));
        let number = known.unwrap_or_else(|| {
            record::write_schema(&mut out, declared.len() as u32, table);
            declared.push(table);
            declared.len() - 1
        });
        numbers.push(number as u32);
    }
    record::write_mutation(&mut out, mutation, &numbers);
    out
}

/// Reads what [`encode_mutation`] wrote; `find` knows the tables of today. `None` if nothing is
/// left of it, as its tables are gone.
///
/// # Errors
/// The bytes are something else.
pub fn decode_mutation(
    bytes: Bytes,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<Option<Mutation>, RecordError> {
    if bytes.first() != Some(&VERSION) {
        return Err(RecordError::Unknown("version of a mutation"));
    }
    let mut payload = bytes.slice(1..);
    let mut declared = Vec::new();
    while !payload.is_empty() {
        let (kind, body) = record::split_record(&mut payload)?;
        match kind {
            record::SCHEMA => {
                let (number, table) = record::read_schema(body, &find)?;
                if number as usize != declared.len() {
                    return Err(RecordError::Undeclared);
                }
                declared.push(Some(table));
            }
            _ => {
                let updates = record::read_written(kind, body, &declared)?.updates;
                return Ok((!updates.is_empty()).then_some(Mutation { updates }));
            }
        }
    }
    Err(RecordError::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row_update, saying, table, update};
    use model::Order;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mutation_reads_as_written(sayings in prop::collection::vec(saying(), 1..9)) {
            let table = table(Order::Ascending);
            let mutation = Mutation { updates: vec![update(&table, &sayings); 2] };
            let bytes = Bytes::from(encode_mutation(&mutation));
            let read = decode_mutation(bytes.clone(), |_| Some(table.clone()));
            prop_assert_eq!(read, Ok(Some(mutation)));
            prop_assert_eq!(decode_mutation(bytes, |_| None), Ok(None));
        }

        #[test]
        fn a_row_that_was_laid_out_reads_as_written(update in row_update()) {
            let mut bytes = vec![VERSION];
            record::write_schema(&mut bytes, 0, &update.table);
            record::write_row_update(&mut bytes, &update, 0);
            let table = update.table.clone();
            let read = decode_mutation(Bytes::from(bytes), |_| Some(table.clone()));
            prop_assert_eq!(read, Ok(Some(Mutation { updates: vec![update.unpack()] })));
        }

        #[test]
        fn no_bytes_make_it_panic(
            sayings in prop::collection::vec(saying(), 1..5),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let table = table(Order::Ascending);
            let mutation = Mutation { updates: vec![update(&table, &sayings)] };
            let mut bytes = encode_mutation(&mutation);
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            let _ = decode_mutation(Bytes::from(bytes), |_| Some(table.clone()));
        }
    }
}
