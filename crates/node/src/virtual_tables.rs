//! Reading what the node makes on the fly: the rows are made of what all shards tell, and then
//! read as if they were a memtable.

mod in_order;
mod pools;
mod settings;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use cluster::MemberState;
use model::{ReadCommand, ReadPage};
use storage::{
    CompactionKind, CompactionStatus, ReadError, SnapshotDetails, StoreStats, TableTallies,
};

use crate::batch::BatchSizes;
use crate::message::{ShardInformation, ShardReply, ShardRequest};
use crate::metrics::RequestKind;
use crate::shard::{MAX_TRACES, Shard};
use crate::system::{self, CacheInfo, NodeInfo, Spread, SstableTask, TableInfo, time_uuid};
use crate::views;

/// Those that show what reads and writes of tables were like.
const TALLIED: [&str; 10] = [
    "coordinator_read_latency",
    "coordinator_scan_latency",
    "coordinator_write_latency",
    "local_read_latency",
    "local_scan_latency",
    "local_write_latency",
    "max_partition_size",
    "max_sstable_duration",
    "rows_per_read",
    "tombstones_per_read",
];

/// What shards are to tell only where it is shown, as it takes them some work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// What reads and writes of tables were like.
    tallies: bool,
    /// How many partitions batches wrote.
    batches: bool,
    /// The indexes, and which of them are built.
    indexes: bool,
}

impl Asked {
    /// For the virtual table of this name.
    fn by(table: &str) -> Asked {
        Asked {
            tallies: TALLIED.contains(&table),
            batches: table == "batch_metrics",
            indexes: table == "sai_column_indexes",
        }
    }
}

/// Reads a virtual table.
pub(crate) async fn read(shard: &Rc<Shard>, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let asked = Asked::by(&command.table.name);
    let mut shards = vec![inform(shard, asked)];
    for other in shard.others() {
        match shard.ask(other, ShardRequest::Inform(asked)).await {
            Ok(ShardReply::Information(information)) => shards.push(*information),
            _ => return Err(ReadError::Closed),
        }
    }
    let metadata = shard.metadata();
    let local = shard.local();
    let members = metadata.membership().into_iter();
    let members = members.flat_map(|member| member.cluster.topology().members());
    let others =
        members.filter(|(id, member)| **id != metadata.own() && member.state != MemberState::Left);
    let info = NodeInfo {
        schema: &metadata.schema,
        local: &local,
        others: others.map(|(_, member)| member.clone()).collect(),
        caches: caches(shards.iter().map(|shard| &shard.store)),
        thread_pools: pools::of(&shards),
        batches: batches(&shards),
        indexes: indexes(&shards),
        sstable_tasks: shards.iter().flat_map(tasks).collect(),
        snapshots: snapshots(shard, command).await,
        settings: settings::shown(shard),
        prepared_statements: shards[0].prepared_statements,
        prepared_statements_evicted: shards.iter().map(|shard| shard.prepared_evicted).sum(),
        prepared_statements_executed: shards.iter().map(|shard| shard.executed.0).sum(),
        regular_statements_executed: shards.iter().map(|shard| shard.executed.1).sum(),
        tables: tables(&shards),
        clients: shards.into_iter().flat_map(|shard| shard.clients).collect(),
    };
    let partitions = system::virtual_rows(&command.table, &info);
    in_order::read(&shard.env, command, partitions).await
}

/// The snapshots, if it is those that are read: they are looked for on the drive.
async fn snapshots(shard: &Shard, command: &ReadCommand) -> Vec<SnapshotDetails> {
    if &*command.table.name != "snapshots" {
        return Vec::new();
    }
    shard.store.snapshots().await.unwrap_or_else(|error| {
        tracing::warn!("system_views.snapshots is empty: {error}");
        Vec::new()
    })
}

/// The compactions of a shard.
fn tasks(shard: &ShardInformation) -> Vec<SstableTask> {
    let task = |status: &CompactionStatus| SstableTask {
        keyspace: status.keyspace.clone(),
        table: status.table_name.clone(),
        // Unique in this process: the shard, and the number that the compaction has there.
        id: time_uuid(0, shard.index, status.id),
        kind: kind(status.kind).to_owned(),
        sstables: u32::try_from(status.inputs).unwrap_or(u32::MAX),
        progress: status.done_bytes,
        total: status.total_bytes,
        unit: "bytes".to_owned(),
    };
    let compactions = shard.compactions.iter().map(task);
    compactions
        .chain(shard.view_builds.iter().cloned())
        .collect()
}

/// As Cassandra calls it (`OperationType`).
fn kind(kind: CompactionKind) -> &'static str {
    match kind {
        CompactionKind::Compaction => "compaction",
        CompactionKind::MajorCompaction => "major compaction",
        CompactionKind::Cleanup => "cleanup",
        CompactionKind::UpgradeSstables => "upgrade sstables",
        CompactionKind::GarbageCollect => "remove deleted data",
        CompactionKind::Scrub => "scrub",
    }
}

/// What this shard tells.
pub(crate) fn inform(shard: &Shard, asked: Asked) -> ShardInformation {
    let requests = RequestKind::ALL.iter();
    let requests = requests.flat_map(|kind| shard.metrics.latency(*kind).counts());
    ShardInformation {
        index: shard.index(),
        compactions: shard.store.compactions(),
        clients: shard.clients.infos(),
        store: shard.store.stats(),
        prepared_statements: shard.metrics.prepared_statements.get(),
        prepared_evicted: shard.metrics.prepared_evicted.get(),
        view_builds: views::build::under_way(shard),
        executed: (
            shard.metrics.prepared_executed.get(),
            shard.metrics.text_executed.get(),
        ),
        requests: (shard.metrics.in_flight.get(), requests.sum()),
        traces: (MAX_TRACES - shard.traces.available()) as u64,
        batches: match asked.batches {
            true => shard.batch_sizes.borrow().clone(),
            false => BatchSizes::default(),
        },
        tallies: match asked.tallies {
            true => shard.store.tallies(),
            false => Vec::new(),
        },
        indexes: match asked.indexes {
            true => shard.store.indexes(),
            false => Vec::new(),
        },
    }
}

/// The caches as `system_views.caches` shows them, all shards taken together.
fn caches<'s>(stores: impl Iterator<Item = &'s StoreStats>) -> Vec<CacheInfo> {
    let empty = |name: &str| CacheInfo {
        name: name.to_owned(),
        capacity: 0,
        size: 0,
        entries: 0,
        hits: 0,
        requests: 0,
    };
    let (mut chunks, mut rows) = (empty("chunks"), empty("rows"));
    for store in stores {
        let (chunk, row) = (&store.chunk_cache, &store.row_cache);
        chunks.capacity += chunk.capacity as u64;
        chunks.size += chunk.size as u64;
        chunks.entries += chunk.chunks as u64;
        chunks.hits += chunk.hits;
        chunks.requests += chunk.hits + chunk.misses;
        rows.capacity += row.capacity as u64;
        rows.size += row.size as u64;
        rows.entries += row.entries as u64;
        rows.hits += row.hits;
        rows.requests += row.hits + row.misses;
    }
    // Of keys and counters nothing is kept apart.
    vec![chunks, empty("counters"), empty("keys"), rows]
}

fn batches(shards: &[ShardInformation]) -> BatchSizes {
    let mut all = BatchSizes::default();
    shards.iter().for_each(|shard| all.merge(&shard.batches));
    all
}

/// The indexes; one is built that all shards have built.
fn indexes(shards: &[ShardInformation]) -> BTreeMap<(String, String), bool> {
    let mut built = BTreeMap::new();
    for index in shards.iter().flat_map(|shard| &shard.indexes) {
        let name = (index.keyspace.to_string(), index.name.to_string());
        *built.entry(name).or_insert(true) &= index.built;
    }
    built
}

fn tables(shards: &[ShardInformation]) -> BTreeMap<(String, String), TableInfo> {
    let mut tables: BTreeMap<(String, String), TableInfo> = BTreeMap::new();
    for table in shards.iter().flat_map(|shard| &shard.store.tables) {
        let key = (table.keyspace.clone(), table.name.clone());
        let info = tables.entry(key).or_default();
        info.disk_bytes += table.sstable_bytes;
        info.largest_sstable_bytes = info.largest_sstable_bytes.max(table.largest_sstable_bytes);
        info.reads.count += table.key_reads;
        // All shards are asked for a range, as a rule.
        info.scans.count = info.scans.count.max(table.range_reads);
        info.writes.count += table.writes;
    }
    let mut merged: BTreeMap<(String, String), TableTallies> = BTreeMap::new();
    for tallies in shards.iter().flat_map(|shard| &shard.tallies) {
        let key = (tallies.keyspace.clone(), tallies.name.clone());
        match merged.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(tallies.clone());
            }
            Entry::Occupied(mut entry) => entry.get_mut().merge(tallies),
        }
    }
    for (key, tallies) in &merged {
        if let Some(info) = tables.get_mut(key) {
            info.reads.set_micros(&tallies.read_latency);
            info.scans.set_micros(&tallies.scan_latency);
            info.writes.set_micros(&tallies.write_latency);
            info.rows_per_read = Spread::of(&tallies.rows_per_read);
            info.tombstones_per_read = Spread::of(&tallies.tombstones_per_read);
            info.largest_partition_bytes = tallies.largest_partition_bytes;
            info.longest_sstable_millis = tallies.longest_sstable_micros / 1000;
        }
    }
    tables
}
