//! What the node knows, as JSON.

use std::collections::BTreeMap;

use cluster::NodeId;
use model::Schema;
use node::{
    ClusterInformation, CompactionReport, NodeInformation, NodeState, NodeStatus, PastCompaction,
    RangeReplicas, RunningCompaction, Silence,
};
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
        "is_drained": node.is_drained,
        "gossips": node.gossips,
        "state": node.state.map(NodeState::name),
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

/// The class that nodes would have that say themselves where they are, and the one of the tokens.
const SNITCH: &str = "org.apache.cassandra.locator.GossipingPropertyFileSnitch";

/// The cluster, its nodes by address.
pub(super) fn cluster_info(cluster: &ClusterInformation) -> Value {
    let mut nodes: Vec<_> = cluster.nodes.iter().collect();
    nodes.sort_by_key(|(_, status)| status.node.address);
    let nodes = nodes
        .into_iter()
        .map(|(id, status)| cluster_node(status, cluster.voters.contains(id)));
    json!({
        "name": cluster.name,
        "snitch": SNITCH,
        "partitioner": node::system::PARTITIONER,
        "epoch": cluster.epoch,
        "own_address": cluster.nodes.get(&cluster.own).map(|own| own.node.address.ip().to_string()),
        "schema_version": cluster.schema_version.to_string(),
        "nodes": nodes.collect::<Value>(),
    })
}

fn cluster_node(status: &NodeStatus, votes: bool) -> Value {
    let NodeStatus { node, report, .. } = status;
    let tokens = status.tokens.iter().map(|token| token.0);
    let report = report.as_ref();
    json!({
        "host_id": node.host_id.to_string(),
        "address": node.address.ip().to_string(),
        "port": node.address.port(),
        "native_address": node.native_address.ip().to_string(),
        "native_port": node.native_address.port(),
        "data_center": node.place.datacenter,
        "rack": node.place.rack,
        "release_version": node.release,
        "shards": node.shards,
        "tokens": tokens.collect::<Vec<i64>>(),
        "state": status.state.name(),
        "is_up": status.is_up,
        "votes": votes,
        "load": report.map(|report| report.load),
        "schema_version": report.map(|report| report.schema_version.to_string()),
        "generation": report.map(|report| report.generation),
        "serves_clients": report.map(|report| report.serves_clients),
        "disk_usage": status.disk_usage,
    })
}

/// For how long others have given no answer.
pub(super) fn silences(silences: &[Silence]) -> Value {
    let one = |silence: &Silence| {
        json!({
            "endpoint": silence.address.ip().to_string(),
            "port": silence.address.port(),
            "phi": silence.silence.map(|silence| silence.as_secs_f64()),
        })
    };
    let mut silences: Vec<&Silence> = silences.iter().collect();
    silences.sort_by_key(|silence| silence.address);
    silences.into_iter().map(one).collect()
}

/// The share of each node, by address.
pub(super) fn ownership(owned: &BTreeMap<NodeId, f64>, cluster: &ClusterInformation) -> Value {
    let one = |(id, share): (&NodeId, &f64)| {
        let node = &cluster.nodes.get(id)?.node;
        let address = node.address.ip().to_string();
        Some(json!({ "key": address, "value": share, "host_id": node.host_id.to_string() }))
    };
    owned.iter().filter_map(one).collect()
}

/// Ranges with their nodes; each begins behind its first token.
pub(super) fn describe_ring(ranges: &[RangeReplicas], cluster: &ClusterInformation) -> Value {
    let one = |(start, end, nodes): &RangeReplicas| {
        let nodes = nodes.iter().filter_map(|id| cluster.nodes.get(id));
        let nodes: Vec<_> = nodes.map(|status| &status.node).collect();
        let storage = nodes.iter().map(|node| node.address.ip().to_string());
        let native = nodes
            .iter()
            .map(|node| node.native_address.ip().to_string());
        let details = nodes.iter().map(|node| {
            json!({
                "host": node.address.ip().to_string(),
                "port": node.address.port(),
                "native_port": node.native_address.port(),
                "datacenter": node.place.datacenter,
                "rack": node.place.rack,
            })
        });
        json!({
            "start_token": start.0.to_string(),
            "end_token": end.0.to_string(),
            "endpoints": storage.collect::<Vec<_>>(),
            "rpc_endpoints": native.collect::<Vec<_>>(),
            "endpoint_details": details.collect::<Vec<_>>(),
        })
    };
    ranges.iter().map(one).collect()
}

/// Each keyspace with its strategy and what that is told.
pub(super) fn replication(schema: &Schema) -> Value {
    let keyspaces = schema
        .keyspaces
        .values()
        .filter(|keyspace| !keyspace.is_virtual);
    let one = |keyspace: &std::sync::Arc<model::Keyspace>| {
        let class = keyspace.replication.get("class").map_or("", String::as_str);
        let class = class.rsplit('.').next().unwrap_or(class);
        let others = keyspace.replication.iter();
        let others: BTreeMap<_, _> = others.filter(|(name, _)| *name != "class").collect();
        json!({ "keyspace": &*keyspace.name, "class": class, "options": others })
    };
    keyspaces.map(one).collect()
}
