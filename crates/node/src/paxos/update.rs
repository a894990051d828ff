//! Updates as proposals have them: in the encoding of Cassandra's, so that either of both reads what the
//! other has left in `system.paxos`.

use std::sync::Arc;

use bytes::Bytes;
use cluster::paxos::Update;
use model::{DecoratedKey, PartitionUpdate, Table};
use storage::{Misfit, encode_partition_update};

/// Encodes an update; `None` if it changes nothing.
///
/// # Errors
/// It cannot be kept.
pub(crate) fn encode(update: &PartitionUpdate) -> Result<Option<Update>, Misfit> {
    let Some(timestamp) = timestamp_of(update) else {
        return Ok(None);
    };
    let (version, bytes) = encode_partition_update(update)?;
    Ok(Some(Update {
        timestamp,
        version,
        bytes: bytes.into(),
    }))
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
    let nothing = PartitionUpdate::new(table.clone(), key.clone());
    let encoded = encode_partition_update(&nothing);
    let (version, bytes) = encoded.expect("nothing fits anywhere");
    (version, bytes.into())
}
