//! What the node knows, as JSON.

use node::{CompactionReport, NodeInformation, PastCompaction, RunningCompaction};
use serde_json::{Value, json};
use storage::{SnapshotDetails, TableDetails};

/// The node.
pub(super) fn node_info(node: &NodeInformation, tables_of_shards: &[Vec<TableDetails>]) -> Value {
    let tables = || node.stores.iter().flat_map(|store| &store.tables);
    // What shards share is there once.
    let sstables = || {
        tables_of_shards
            .iter()
            .flatten()
            .flat_map(|table| &table.sstables)
    };
    let load: u64 = sstables().map(|sstable| sstable.disk_size).sum();
    let uncompressed_load: u64 = sstables().map(|sstable| sstable.data_length).sum();
    let sstable_memory: u64 = tables().map(|table| table.sstable_memory).sum();
    let memtables: u64 = node.stores.iter().map(|store| store.memtable_bytes).sum();
    let cache = |of: fn(&storage::ChunkCacheStats) -> u64| -> u64 {
        node.stores.iter().map(|store| of(&store.chunk_cache)).sum()
    };
    let rows = |of: fn(&storage::RowCacheStats) -> u64| -> u64 {
        node.stores.iter().map(|store| of(&store.row_cache)).sum()
    };
    let caches = cache(|cache| cache.size as u64) + rows(|cache| cache.size as u64);
    let used = memtables + sstable_memory + caches;
    json!({
        "host_id": node.host_id.to_string(),
        "cluster_name": node.cluster_name,
        "data_center": node.data_center,
        "rack": node.rack,
        "address": node.address.to_string(),
        "tokens": node.tokens,
        "generation": node.generation,
        "uptime_seconds": node.uptime_seconds,
        "serves_clients": node.serves_clients,
        "exceptions": node.task_panics,
        "load": load,
        "uncompressed_load": uncompressed_load,
        "memory": {
            "limit": node.memory_limit,
            "used": used,
            "memtables": memtables,
            "sstables": sstable_memory,
        },
        "row_cache": {
            "hits": rows(|cache| cache.hits),
            "misses": rows(|cache| cache.misses),
            "size": rows(|cache| cache.size as u64),
            "capacity": rows(|cache| cache.capacity as u64),
            "entries": rows(|cache| cache.entries as u64),
        },
        "chunk_cache": {
            "hits": cache(|cache| cache.hits),
            "misses": cache(|cache| cache.misses),
            "size": cache(|cache| cache.size as u64),
            "capacity": cache(|cache| cache.capacity as u64),
            "chunks": cache(|cache| cache.chunks as u64),
        },
    })
}

/// Snapshots.
pub(super) fn snapshots(snapshots: &[SnapshotDetails]) -> Value {
    let one = |snapshot: &SnapshotDetails| {
        let time = |time: Option<i64>| time.map(storage::instant);
        json!({
            "tag": snapshot.tag,
            "keyspace": snapshot.keyspace,
            "table": snapshot.table,
            "true_size": snapshot.true_size,
            "true_data_size": snapshot.true_data_size,
            "size": snapshot.size,
            "created_at": time(snapshot.manifest.created_at),
            "expires_at": time(snapshot.manifest.expires_at),
        })
    };
    snapshots.iter().map(one).collect()
}

/// Compactions.
pub(super) fn compactions(report: &CompactionReport, node: &NodeInformation) -> Value {
    let running = |running: &RunningCompaction| {
        let status = &running.status;
        json!({
            "id": format!("{}-{}", running.shard, status.id),
            "kind": status.kind.title(),
            "keyspace": status.keyspace,
            "table": status.table_name,
            "completed": status.done_bytes,
            "total": status.total_bytes,
            "sstables": status.inputs,
        })
    };
    let pending = |(keyspace, table, count): &(String, String, usize)| json!({ "keyspace": keyspace, "table": table, "count": count });
    let tables = || node.stores.iter().flat_map(|store| &store.tables);
    let failed: u64 = node
        .stores
        .iter()
        .map(|store| store.failed_compactions)
        .sum();
    json!({
        "running": report.running.iter().map(running).collect::<Value>(),
        "pending": report.pending.iter().map(pending).collect::<Value>(),
        "completed": tables().map(|table| table.compactions).sum::<u64>(),
        "compacted_bytes": tables().map(|table| table.compacted_bytes).sum::<u64>(),
        "failed": failed,
        "recent": report.recent,
        "shards": node.stores.len(),
        "uptime_seconds": node.uptime_seconds,
    })
}

/// Compactions that were done.
pub(super) fn compaction_history(compactions: &[PastCompaction]) -> Value {
    let one = |past: &PastCompaction| {
        let merged = past.merged.iter();
        let merged = merged.map(|(inputs, count)| json!({ "key": inputs, "value": count }));
        json!({
            "id": past.id.to_string(),
            "ks": past.keyspace,
            "cf": past.table,
            "compacted_at": storage::instant(past.at).trim_end_matches('Z'),
            "bytes_in": past.bytes_in,
            "bytes_out": past.bytes_out,
            "rows_merged": merged.collect::<Value>(),
            "compaction_properties": past.properties,
        })
    };
    compactions.iter().map(one).collect()
}
