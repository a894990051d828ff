//! Reading what the node makes on the fly: the rows are made of what all shards tell, and then
//! read as if they were a memtable.

mod in_order;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cluster::MemberState;
use model::{ReadCommand, ReadPage};
use storage::{CompactionKind, CompactionStatus, ReadError, SnapshotDetails, StoreStats};

use crate::indexes;
use crate::message::{ShardInformation, ShardReply, ShardRequest};
use crate::shard::Shard;
use crate::system::{self, CacheInfo, IndexName, NodeInfo, SstableTask, TableInfo, time_uuid};
use crate::views;

/// Reads a virtual table.
pub(crate) async fn read(shard: &Rc<Shard>, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let mut shards = vec![inform(shard)];
    for other in shard.others() {
        match shard.ask(other, ShardRequest::Inform).await {
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
        thread_pools: Vec::new(),
        sstable_tasks: shards.iter().flat_map(tasks).collect(),
        snapshots: snapshots(shard, command).await,
        built_indexes: built_indexes(shard, command).await,
        settings: settings::shown(shard),
        prepared_statements: shards[0].prepared_statements,
        prepared_statements_evicted: shards.iter().map(|shard| shard.prepared_evicted).sum(),
        prepared_statements_executed: shards.iter().map(|shard| shard.executed.0).sum(),
        regular_statements_executed: shards.iter().map(|shard| shard.executed.1).sum(),
        tables: tables(shards.iter().map(|shard| &shard.store)),
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

/// The indexes that are built, if it is indexes that are read of.
async fn built_indexes(shard: &Rc<Shard>, command: &ReadCommand) -> BTreeSet<IndexName> {
    match &*command.table.name {
        "sai_column_indexes" => indexes::all_built(shard).await,
        _ => BTreeSet::new(),
    }
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
pub(crate) fn inform(shard: &Shard) -> ShardInformation {
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
    vec![chunks, rows]
}

fn tables<'s>(
    stores: impl Iterator<Item = &'s StoreStats>,
) -> BTreeMap<(String, String), TableInfo> {
    let mut tables: BTreeMap<(String, String), TableInfo> = BTreeMap::new();
    for table in stores.flat_map(|store| &store.tables) {
        let key = (table.keyspace.clone(), table.name.clone());
        let info = tables.entry(key).or_default();
        info.disk_bytes += table.sstable_bytes;
        info.largest_sstable_bytes = info.largest_sstable_bytes.max(table.largest_sstable_bytes);
        info.reads.count += table.key_reads;
        info.scans.count += table.range_reads;
        info.writes.count += table.writes;
    }
    tables
}
