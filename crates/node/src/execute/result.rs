//! Writing the rows of a result.

use model::{Partition, ReadPage};
use wire::RowsWriter;

use crate::error::RequestError;

/// How many bytes a result may have: one that is read without paging would otherwise take all
/// memory there is.
const MAX_RESULT: usize = 256 << 20;

/// So much room is made at most for values that may not be asked for, in bytes.
const MOST_RESERVED: usize = 64 << 10;

/// Makes room for the rows of a page that are known to take some, before they are written one by one.
pub(super) fn make_room(rows: &mut RowsWriter<'_>, page: &ReadPage) {
    // Each row may show the key of its partition.
    let key = |partition: &Partition| partition.packed.len() * (partition.key.key().len() + 8);
    let bytes = |partition: &Partition| partition.packed_bytes() + key(partition) as u64;
    let bytes: u64 = page.partitions.iter().map(bytes).sum();
    rows.reserve(MOST_RESERVED.min(bytes as usize));
}

/// Writes a row.
pub(super) fn put_row(rows: &mut RowsWriter<'_>, row: &[Option<&[u8]>]) {
    for value in row {
        rows.value(*value);
    }
}

/// Refuses a result that has grown too large.
pub(super) fn check_size(rows: &RowsWriter<'_>) -> Result<(), RequestError> {
    if rows.len() > MAX_RESULT {
        return Err(RequestError::invalid(format!(
            "the result is larger than {} MiB: use paging, or ask for less",
            MAX_RESULT >> 20
        )));
    }
    Ok(())
}
