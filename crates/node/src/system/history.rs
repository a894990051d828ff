//! `system.compaction_history`: what compactions did (`SystemKeyspace.updateCompactionHistory`).

use std::collections::BTreeMap;

use model::{Clustering, DecoratedKey, Mutation, Partition, PartitionUpdate, Schema, Table};
use storage::CompactionRecord;
use uuid::Uuid;

use super::batches::time_uuid;
use super::rows::{RowReader, RowWriter, WriteTime, bigint, int, text, text_map, uuid};

/// How long it is kept, in seconds.
const KEEP: u32 = 7 * 24 * 60 * 60;
/// What says why it was done.
const KIND: &str = "compaction_type";

/// A compaction as it was written down, by Cassandra perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCompaction {
    /// Its identity.
    pub id: Uuid,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// When it was done, in milliseconds since 1970.
    pub at: i64,
    /// Bytes on disk of its inputs.
    pub bytes_in: i64,
    /// Bytes on disk of its outputs.
    pub bytes_out: i64,
    /// Of how many partitions so many of the inputs knew.
    pub merged: BTreeMap<i32, i64>,
    /// Why it was done, among others.
    pub properties: BTreeMap<String, String>,
}

/// Writes a compaction down; `random` tells it from others of that time. `None` if the schema has no
/// such table.
pub(crate) fn history_mutation(
    schema: &Schema,
    record: &CompactionRecord,
    random: u64,
) -> Option<Mutation> {
    let table = schema.table("system", "compaction_history")?;
    let id = time_uuid(record.at, 0, random);
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(uuid(id)));
    let row = update.row_mut(&Clustering::EMPTY);
    let bytes = |bytes: u64| bigint(i64::try_from(bytes).unwrap_or(i64::MAX));
    let merged = (1..).zip(&record.merged).filter(|(_, count)| **count > 0);
    let properties = BTreeMap::from([(KIND.to_owned(), record.kind.title().to_owned())]);
    RowWriter::insert(table, row, WriteTime::at(record.at))
        .for_seconds(KEEP)
        .set("keyspace_name", text(&record.keyspace))
        .set("columnfamily_name", text(&record.table))
        .set("compacted_at", bigint(record.at / 1000))
        .set("bytes_in", bytes(record.bytes_in))
        .set("bytes_out", bytes(record.bytes_out))
        .set("compaction_properties", text_map(&properties))
        .add(
            "rows_merged",
            merged.map(|(inputs, count)| (int(inputs), bytes(*count))),
        );
    Some(Mutation {
        updates: vec![update],
    })
}

/// The compaction of a partition of `system.compaction_history`; `None` if there is none in it.
pub(crate) fn past_compaction(table: &Table, partition: &Partition) -> Option<PastCompaction> {
    let id = Uuid::from_slice(partition.key.key()).ok()?;
    let row = partition.rows.first()?;
    let merged = row.cells_of(table.column_named("rows_merged")?.id);
    let merged = merged.iter().filter_map(|cell| {
        let inputs = cell.path.as_deref()?.try_into().ok()?;
        let count = cell.value.as_ref().try_into().ok()?;
        Some((i32::from_be_bytes(inputs), i64::from_be_bytes(count)))
    });
    let merged = merged.collect();
    let row = RowReader::new(table, row);
    Some(PastCompaction {
        id,
        keyspace: row.text("keyspace_name")?.to_owned(),
        table: row.text("columnfamily_name")?.to_owned(),
        at: row.bigint("compacted_at")?,
        bytes_in: row.bigint("bytes_in").unwrap_or(0),
        bytes_out: row.bigint("bytes_out").unwrap_or(0),
        merged,
        properties: row.text_map("compaction_properties").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    #[test]
    fn a_compaction_reads_as_written() {
        let schema = system_keyspaces();
        let record = CompactionRecord {
            kind: storage::CompactionKind::MajorCompaction,
            keyspace: "shop".to_owned(),
            table: "carts".to_owned(),
            at: 1_700_000_000_123_456,
            bytes_in: 100,
            bytes_out: 70,
            merged: vec![5, 0, 2],
        };
        let mutation = history_mutation(&schema, &record, 7).expect("there is a table");
        let update = mutation.updates.into_iter().next().expect("there is one");
        let table = update.table.clone();
        let partition = Partition::from(update);
        let past = past_compaction(&table, &partition).expect("it is one");
        assert_eq!((&*past.keyspace, &*past.table), ("shop", "carts"));
        assert_eq!(past.at, 1_700_000_000_123);
        assert_eq!((past.bytes_in, past.bytes_out), (100, 70));
        assert_eq!(past.merged, BTreeMap::from([(1, 5), (3, 2)]));
        assert_eq!(past.properties[KIND], "Major compaction");
    }
}
