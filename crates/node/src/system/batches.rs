//! `system.batches`: logged batches that may not have been applied yet (`BatchlogManager`).

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Clustering, DecoratedKey, Mutation, Partition, PartitionUpdate, Schema, Table, TableId,
};
use uuid::Uuid;

use super::rows::{RowWriter, WriteTime, int, uuid};

/// In the place of the version of Cassandra's messages: mutations are in the form of
/// [`storage::encode_mutation`].
const VERSION: i32 = 0x4801;
/// Between the beginning of the Gregorian calendar and 1970, in steps of 100 ns (RFC 9562).
const GREGORIAN: i64 = 0x01b2_1dd2_1381_4000;

/// The timeuuid of `micros` (since 1970) and the `step`-th 100 ns behind; `random` tells it from
/// others of that time.
pub(crate) fn time_uuid(micros: i64, step: u16, random: u64) -> Uuid {
    let ticks = (micros * 10 + GREGORIAN) as u64 + u64::from(step);
    let [a, b, node @ ..] = random.to_be_bytes();
    uuid::Builder::from_gregorian_timestamp(ticks, u16::from_be_bytes([a, b]), &node).into_uuid()
}

/// When a timeuuid says that it was made, in microseconds since 1970; `None` if it is none.
pub(crate) fn time_of(id: Uuid) -> Option<i64> {
    let (ticks, _) = id.get_timestamp()?.to_gregorian();
    (id.get_version_num() == 1).then(|| (ticks as i64 - GREGORIAN).div_euclid(10))
}

/// Writes a batch down, at `now_micros`. `None` if the schema has no such table.
pub(crate) fn batch_mutation(
    schema: &Schema,
    id: Uuid,
    now_micros: i64,
    mutations: impl IntoIterator<Item = Bytes>,
) -> Option<Mutation> {
    let table = schema.table("system", "batches")?;
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(uuid(id)));
    let row = update.row_mut(&Clustering::EMPTY);
    let elements = mutations.into_iter().enumerate().map(|(index, bytes)| {
        let path = time_uuid(now_micros, index as u16, index as u64);
        (uuid(path), bytes)
    });
    RowWriter::insert(table, row, WriteTime::at(now_micros))
        .set("version", int(VERSION))
        .add("mutations", elements);
    Some(Mutation {
        updates: vec![update],
    })
}

/// Forgets a batch, at `now_micros`.
pub(crate) fn forget_mutation(schema: &Schema, id: Uuid, now_micros: i64) -> Option<Mutation> {
    let table = schema.table("system", "batches")?;
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(uuid(id)));
    update.deletion = WriteTime::at(now_micros).deletion();
    Some(Mutation {
        updates: vec![update],
    })
}

/// A batch as it was written down.
pub(crate) struct SavedBatch {
    pub(crate) id: Uuid,
    /// When it was begun, in microseconds since 1970.
    pub(crate) begun_at: i64,
    /// Of its cells, in microseconds since 1970.
    pub(crate) timestamp: i64,
    /// Its mutations.
    pub(crate) mutations: Vec<Bytes>,
    /// The version of Cassandra's messages in which they are, if a Cassandra wrote the batch.
    cassandra: Option<i32>,
}

impl SavedBatch {
    /// Reads one of its mutations; `find` knows the tables. `None` if nothing is left of it, as its
    /// tables are gone.
    pub(crate) fn decode(
        &self,
        mutation: &Bytes,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Option<Mutation>, String> {
        match self.cassandra {
            None => storage::decode_mutation(mutation.clone(), find).map_err(|e| e.to_string()),
            Some(version) => storage::decode_cassandra_mutation(mutation, version, find),
        }
    }
}

/// The batch of a partition of `system.batches`; `None` if there is none in it.
pub(crate) fn saved_batch(table: &Table, partition: &Partition) -> Option<SavedBatch> {
    let id = Uuid::from_slice(partition.key.key()).ok()?;
    let row = partition.rows.first()?;
    let version = row.cells_of(table.column_named("version")?.id).first()?;
    let mutations = row.cells_of(table.column_named("mutations")?.id);
    Some(SavedBatch {
        id,
        begun_at: time_of(id).unwrap_or(version.timestamp),
        timestamp: version.timestamp,
        mutations: mutations.iter().map(|cell| cell.value.clone()).collect(),
        cassandra: match i32::from_be_bytes(*version.value.as_array()?) {
            VERSION => None,
            version => Some(version),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    #[test]
    fn a_batch_reads_as_written() {
        let schema = system_keyspaces();
        let id = time_uuid(1_700_000_000_000_000, 0, 7);
        assert_eq!(time_of(id), Some(1_700_000_000_000_000));
        let numbers = (0..300u16).map(u16::to_be_bytes);
        let bytes: Vec<Bytes> = numbers.map(|n| Bytes::copy_from_slice(&n)).collect();
        let mutation = batch_mutation(&schema, id, 1_700_000_000_000_005, bytes.clone());
        let update = mutation.expect("there is a table").updates.remove(0);
        let table = update.table.clone();
        let partition = Partition::from(update);
        let saved = saved_batch(&table, &partition).expect("it is one");
        assert_eq!((saved.id, saved.begun_at), (id, 1_700_000_000_000_000));
        assert_eq!(saved.timestamp, 1_700_000_000_000_005);
        assert_eq!(saved.mutations, bytes);
    }
}
