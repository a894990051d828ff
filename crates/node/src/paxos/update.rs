//! Updates as proposals have them.

use std::sync::Arc;

use bytes::Bytes;
use cluster::paxos::Update;
use model::record::message::{MessageError, decode_mutation, encode_mutation};
use model::{DecoratedKey, Mutation, PartitionUpdate, Table, TableId};

/// In the place of the version of Cassandra's messages: updates are in the form of
/// [`encode_mutation`], with the names of columns.
const VERSION: i32 = 0x4802;

/// Bytes of a proposal are no update.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpdateError {
    /// They are something else.
    #[error(transparent)]
    Malformed(#[from] MessageError),
    /// They are of a version that is not known.
    #[error("an update of version {0}, which only another version can read")]
    OtherVersion(i32),
}

/// Encodes an update; `None` if it changes nothing.
pub(crate) fn encode(update: PartitionUpdate) -> Option<Update> {
    Some(Update {
        timestamp: timestamp_of(&update)?,
        version: VERSION,
        bytes: encoded(update),
    })
}

/// The time of the ballot that an update was first proposed with, in microseconds since 1970: what it
/// writes bears that, and what it deletes the one before ([`PartitionUpdate::retime`]). `None`: it
/// changes nothing.
pub(crate) fn timestamp_of(update: &PartitionUpdate) -> Option<i64> {
    let rows = || update.static_row.iter().chain(&update.rows);
    let cells = || rows().flat_map(|row| &row.cells);
    let live = rows().map(|row| row.liveness.timestamp);
    let live = live.chain(
        cells()
            .filter(|cell| !cell.is_tombstone())
            .map(|c| c.timestamp),
    );
    let of_rows = rows().flat_map(|row| {
        let complex = row.complex_deletions.iter().map(|complex| complex.deletion);
        complex.chain([row.deletion])
    });
    let of_ranges = update.range_tombstones.iter().map(|range| range.deletion);
    let deletions = of_rows.chain(of_ranges).chain([update.deletion]);
    let deleted = deletions.map(|deletion| deletion.timestamp);
    let deleted = deleted.chain(
        cells()
            .filter(|cell| cell.is_tombstone())
            .map(|c| c.timestamp),
    );
    let is_one = |timestamp: &i64| *timestamp != i64::MIN;
    let live = live.filter(is_one).max();
    live.or_else(|| {
        deleted
            .filter(is_one)
            .max()
            .map(|before| before.saturating_add(1))
    })
}

/// The version and the bytes of an update that changes nothing.
pub(crate) fn nothing(table: &Arc<Table>, key: &DecoratedKey) -> (i32, Bytes) {
    let empty = PartitionUpdate::new(table.clone(), key.clone());
    (VERSION, encoded(empty))
}

fn encoded(update: PartitionUpdate) -> Bytes {
    let mutation = Mutation {
        updates: vec![update],
    };
    encode_mutation(&mutation, true).into()
}

/// Reads an update; `find` knows the tables of today.
pub(crate) fn decode(
    bytes: Bytes,
    version: i32,
    find: impl Fn(TableId) -> Option<Arc<Table>>,
) -> Result<PartitionUpdate, UpdateError> {
    if version != VERSION {
        return Err(UpdateError::OtherVersion(version));
    }
    let mut mutation = decode_mutation(bytes, find)?;
    Ok(mutation.updates.swap_remove(0))
}
