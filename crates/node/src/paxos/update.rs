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
    let (written, deleted) = update.latest_times();
    written.or_else(|| deleted.map(|before| before.saturating_add(1)))
}

/// The version and the bytes of an update that changes nothing.
pub(crate) fn nothing(table: &Arc<Table>, key: &DecoratedKey) -> (i32, Bytes) {
    let nothing = PartitionUpdate::new(table.clone(), key.clone());
    let encoded = encode_partition_update(&nothing);
    let (version, bytes) = encoded.expect("nothing fits anywhere");
    (version, bytes.into())
}
