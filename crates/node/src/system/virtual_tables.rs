//! The tables of `system_views`, made when they are read.
//!
//! What the node measures is shown; a table of something that the node does not have (repairs) is
//! empty, which is the truth.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use cluster::MemberState;
use model::{CqlType, Index, LetterCase, Partition, Table, Token};
use storage::SnapshotDetails;

use super::local::RELEASE_VERSION;
use super::node_info::{
    CacheInfo, ClientInfo, Latencies, NodeInfo, Spread, SstableTask, TableInfo, ThreadPoolInfo,
};
use super::rows::{
    RowWriter, VirtualRows, bigint, boolean, double, inet, int, text, text_map, uuid,
};
use super::virtual_schema;
use crate::batch::BatchSizes;

/// All partitions of a virtual table, in the order of the ring.
pub fn virtual_rows(table: &Arc<Table>, node: &NodeInfo<'_>) -> Vec<Partition> {
    let mut rows = VirtualRows::new(table);
    if &*table.keyspace == "system_virtual_schema" {
        virtual_schema::fill(&mut rows, &table.name, node.schema);
        return rows.finish();
    }
    match &*table.name {
        "clients" => node.clients.iter().for_each(|c| client(&mut rows, c)),
        "caches" => node.caches.iter().for_each(|c| cache(&mut rows, c)),
        "thread_pools" => node.thread_pools.iter().for_each(|p| pool(&mut rows, p)),
        "sstable_tasks" => node.sstable_tasks.iter().for_each(|t| task(&mut rows, t)),
        "snapshots" => node.snapshots.iter().for_each(|s| snapshot(&mut rows, s)),
        "settings" => settings(&mut rows, node),
        "system_properties" => properties(&mut rows),
        "cql_metrics" => cql_metrics(&mut rows, node),
        "batch_metrics" => batch_metrics(&mut rows, &node.batches),
        "cidr_filtering_metrics_counts" => cidr_counts(&mut rows),
        "cidr_filtering_metrics_latencies" => cidr_latencies(&mut rows),
        "sai_column_indexes" => storage_attached(&mut rows, node),
        "rows_per_read" => spreads(&mut rows, node, |t| t.rows_per_read),
        "tombstones_per_read" => spreads(&mut rows, node, |t| t.tombstones_per_read),
        "max_sstable_duration" => for_tables(&mut rows, node, |row, table| {
            row.set("max_sstable_duration", count(table.longest_sstable_millis));
        }),
        "gossip_info" => gossip_info(&mut rows, node),
        "coordinator_read_latency" | "local_read_latency" => {
            latencies(&mut rows, node, |t| t.reads)
        }
        "coordinator_scan_latency" | "local_scan_latency" => {
            latencies(&mut rows, node, |t| t.scans)
        }
        "coordinator_write_latency" | "local_write_latency" => {
            latencies(&mut rows, node, |t| t.writes);
        }
        "disk_usage" => sizes(&mut rows, node, |t| t.disk_bytes),
        "max_partition_size" => sizes(&mut rows, node, |t| t.largest_partition_bytes),
        "max_sstable_size" => sizes(&mut rows, node, |t| t.largest_sstable_bytes),
        // The node has nothing of what the others show.
        _ => {}
    }
    rows.finish()
}

/// Counts beyond what the column holds show as its largest value.
fn count(value: u64) -> Bytes {
    bigint(i64::try_from(value).unwrap_or(i64::MAX))
}

fn small_count(value: u64) -> Bytes {
    int(i32::try_from(value).unwrap_or(i32::MAX))
}

fn client(rows: &mut VirtualRows, client: &ClientInfo) {
    let key = [
        inet(client.address.ip()),
        int(i32::from(client.address.port())),
    ];
    rows.add(&key, |row| {
        row.set("client_options", text_map(&client.options))
            .set(
                "connection_stage",
                text(if client.ready { "ready" } else { "startup" }),
            )
            .set("hostname", text(&client.address.ip().to_string()))
            .set("protocol_version", int(i32::from(client.protocol_version)))
            .set("request_count", count(client.requests))
            .set("ssl_enabled", boolean(false))
            .set("username", text(&client.username));
        for (column, option) in [
            ("driver_name", "DRIVER_NAME"),
            ("driver_version", "DRIVER_VERSION"),
        ] {
            if let Some(value) = client.options.get(option) {
                row.set(column, text(value));
            }
        }
        if let Some(keyspace) = &client.keyspace {
            row.set("keyspace_name", text(keyspace));
        }
    });
}

fn cache(rows: &mut VirtualRows, cache: &CacheInfo) {
    rows.add(&[text(&cache.name)], |row| {
        row.set("capacity_bytes", count(cache.capacity))
            .set("entry_count", small_count(cache.entries))
            .set("hit_count", count(cache.hits))
            .set(
                "hit_ratio",
                double(cache.hits as f64 / cache.requests as f64),
            )
            .set("recent_hit_rate_per_second", bigint(0))
            .set("recent_request_rate_per_second", bigint(0))
            .set("request_count", count(cache.requests))
            .set("size_bytes", count(cache.size));
    });
}

fn pool(rows: &mut VirtualRows, pool: &ThreadPoolInfo) {
    rows.add(&[text(&pool.name)], |row| {
        row.set("active_tasks", small_count(pool.active.into()))
            .set("active_tasks_limit", small_count(pool.limit.into()))
            .set("blocked_tasks", count(pool.blocked))
            .set("blocked_tasks_all_time", count(pool.blocked_all_time))
            .set("completed_tasks", count(pool.completed))
            .set("pending_tasks", small_count(pool.pending.into()));
    });
}

fn task(rows: &mut VirtualRows, task: &SstableTask) {
    let key = [text(&task.keyspace), text(&task.table), uuid(task.id)];
    let ratio = match task.total {
        0 => 0.0,
        total => task.progress as f64 / total as f64,
    };
    rows.add(&key, |row| {
        row.set("completion_ratio", double(ratio))
            .set("kind", text(&task.kind))
            .set("progress", count(task.progress))
            .set("sstables", small_count(task.sstables.into()))
            .set("total", count(task.total))
            .set("unit", text(&task.unit));
    });
}

fn snapshot(rows: &mut VirtualRows, snapshot: &SnapshotDetails) {
    let key = [
        text(&snapshot.tag),
        text(&snapshot.keyspace),
        text(&snapshot.table),
    ];
    rows.add(&key, |row| {
        row.set("ephemeral", boolean(false))
            .set("size_on_disk", count(snapshot.size))
            .set("true_size", count(snapshot.true_size));
        let manifest = &snapshot.manifest;
        for (column, time) in [
            ("created_at", manifest.created_at),
            ("expires_at", manifest.expires_at),
        ] {
            if let Some(milliseconds) = time {
                row.set(column, bigint(milliseconds));
            }
        }
    });
}

fn named_value(rows: &mut VirtualRows, name: &str, value: &str) {
    rows.add(&[text(name)], |row| {
        row.set("value", text(value));
    });
}

fn settings(rows: &mut VirtualRows, node: &NodeInfo<'_>) {
    let local = node.local;
    let known = [
        ("cluster_name", local.cluster_name.clone()),
        ("listen_address", local.listen_address.to_string()),
        ("rpc_address", local.rpc_address.to_string()),
        ("native_transport_port", local.rpc_port.to_string()),
        ("storage_port", local.listen_port.to_string()),
        ("num_tokens", local.tokens.len().to_string()),
        ("partitioner", super::PARTITIONER.to_owned()),
    ];
    for (name, value) in known {
        if !node.settings.contains_key(name) {
            named_value(rows, name, &value);
        }
    }
    for (name, value) in &node.settings {
        match value {
            Some(value) => named_value(rows, name, value),
            None => rows.add(&[text(name)], |_| ()),
        }
    }
}

/// There is no Java whose properties could be shown; the version is what tools look for.
fn properties(rows: &mut VirtualRows) {
    named_value(rows, "helenus.version", env!("CARGO_PKG_VERSION"));
    named_value(rows, "cassandra.compatible_version", RELEASE_VERSION);
}

fn cql_metrics(rows: &mut VirtualRows, node: &NodeInfo<'_>) {
    let executed = node.prepared_statements_executed as f64;
    let all = executed + node.regular_statements_executed as f64;
    let metrics = [
        ("prepared_statements_count", node.prepared_statements as f64),
        (
            "prepared_statements_evicted",
            node.prepared_statements_evicted as f64,
        ),
        ("prepared_statements_executed", executed),
        (
            "prepared_statements_ratio",
            if all > 0.0 { executed / all } else { 0.0 },
        ),
        (
            "regular_statements_executed",
            node.regular_statements_executed as f64,
        ),
    ];
    for (name, value) in metrics {
        rows.add(&[text(name)], |row| {
            row.set("value", double(value));
        });
    }
}

fn batch_metrics(rows: &mut VirtualRows, sizes: &BatchSizes) {
    for (kind, sizes) in [
        ("counter", &sizes.counter),
        ("logged", &sizes.logged),
        ("unlogged", &sizes.unlogged),
    ] {
        let name = format!("partitions_per_{kind}_batch");
        let spread = Spread::of(sizes);
        rows.add(&[text(&name)], |row| {
            row.set("max", bigint(sizes.max()))
                .set("p50th", double(spread.p50))
                .set("p99th", double(spread.p99))
                .set("p999th", double(spread.p999));
        });
    }
}

/// Nobody is let in by the network that he comes from: nothing is looked up.
fn cidr_counts(rows: &mut VirtualRows) {
    rows.add(&[text("CIDR groups cache reload count")], |row| {
        row.set("value", bigint(0));
    });
}

fn cidr_latencies(rows: &mut VirtualRows) {
    for what in [
        "CIDR checks",
        "CIDR groups cache reload",
        "Lookup IP in CIDR groups cache",
    ] {
        rows.add(&[text(&format!("{what} latency (ns)"))], |row| {
            for column in ["max", "p50th", "p95th", "p999th", "p99th"] {
                row.set(column, double(0.0));
            }
        });
    }
}

/// `ColumnIndexesSystemView`
fn storage_attached(rows: &mut VirtualRows, node: &NodeInfo<'_>) {
    let tables = node.schema.keyspaces.values();
    for table in tables.flat_map(|keyspace| keyspace.tables.values()) {
        let attached = table.indexes.iter().filter(|i| i.is_storage_attached());
        for index in attached {
            let Some(column) = index.column_of(table) else {
                continue;
            };
            let name = (table.keyspace.to_string(), index.name.to_string());
            // One without entries has nothing to be built.
            let built = node.indexes.get(&name).copied().unwrap_or(true);
            let is_literal = index.value_type(column).is_some_and(|ty| is_literal(&ty));
            rows.add(&[text(&name.0), text(&name.1)], |row| {
                row.set("analyzer", text(&analyzer(index)))
                    .set("column_name", text(&column.name))
                    .set("is_building", boolean(!built))
                    .set("is_queryable", boolean(built))
                    .set("is_string", boolean(is_literal))
                    .set("table_name", text(&table.name));
            });
        }
    }
}

/// Are values of this type kept as they are, and not as numbers (`IndexTermType.isLiteral`)?
fn is_literal(ty: &CqlType) -> bool {
    use CqlType::{Ascii, Boolean, Text, Vector};
    matches!(ty, Ascii | Boolean | Text | Vector { .. }) || ty.parts().next().is_some()
}

/// What an index makes of texts, as Cassandra writes it (`AbstractAnalyzer.toString`).
fn analyzer(index: &Index) -> String {
    let options = ["case_sensitive", "normalize", "ascii"];
    if !options.iter().any(|o| index.options.contains_key(*o)) {
        return "NoOpAnalyzer".to_owned();
    }
    let analyzer = index.analyzer();
    format!(
        "NonTokenizingAnalyzer{{caseSensitive={}, normalized={}, ascii={}}}",
        analyzer.letters == LetterCase::Kept,
        analyzer.normalize,
        analyzer.ascii
    )
}

/// What gossip and the metadata log tell of all nodes. What only a node itself knows is there of this one.
fn gossip_info(rows: &mut VirtualRows, node: &NodeInfo<'_>) {
    let local = node.local;
    let key = [
        inet(local.listen_address),
        int(i32::from(local.listen_port)),
    ];
    rows.add(&key, |row| {
        let native = SocketAddr::new(local.rpc_address, local.rpc_port);
        row.set("dc", text(&local.data_center))
            .set("rack", text(&local.rack))
            .set("generation", int(local.gossip_generation))
            .set("host_id", text(&local.host_id.to_string()))
            .set("release_version", text(RELEASE_VERSION))
            .set("rpc_ready", text("true"))
            .set("schema", text(&node.schema.version.to_string()));
        addresses(row, local.storage_address(), native);
        status(row, MemberState::Joined, local.tokens.first());
    });
    for member in &node.others {
        let other = &member.node;
        let key = [
            inet(other.address.ip()),
            int(i32::from(other.address.port())),
        ];
        rows.add(&key, |row| {
            row.set("dc", text(&other.place.datacenter))
                .set("rack", text(&other.place.rack))
                .set("host_id", text(&other.host_id.to_string()))
                .set("release_version", text(&other.release));
            addresses(row, other.address, other.native_address);
            status(row, member.state, member.tokens.first());
        });
    }
}

fn addresses(row: &mut RowWriter<'_>, storage: SocketAddr, native: SocketAddr) {
    row.set("hostname", text(&storage.ip().to_string()))
        .set("rpc_address", text(&native.ip().to_string()))
        .set("native_address_and_port", text(&native.to_string()));
}

/// As `VersionedValue` of Cassandra puts it.
fn status(row: &mut RowWriter<'_>, state: MemberState, token: Option<&Token>) {
    let name = match state {
        MemberState::Registered => "BOOT",
        MemberState::Joined => "NORMAL",
        MemberState::Left => "LEFT",
    };
    let status = match token {
        Some(token) => format!("{name},{}", token.0),
        None => name.to_owned(),
    };
    row.set("status", text(&status))
        .set("status_with_port", text(&status));
}

/// Calls `write` for each table that is stored.
fn for_tables(
    rows: &mut VirtualRows,
    node: &NodeInfo<'_>,
    write: impl Fn(&mut RowWriter<'_>, &TableInfo),
) {
    for keyspace in node.schema.keyspaces.values().filter(|k| !k.is_virtual) {
        for table in keyspace.tables.values() {
            let name = (keyspace.name.to_string(), table.name.to_string());
            let info = node.tables.get(&name).copied().unwrap_or_default();
            rows.add(&[text(&name.0), text(&name.1)], |row| write(row, &info));
        }
    }
}

fn latencies(rows: &mut VirtualRows, node: &NodeInfo<'_>, of: impl Fn(&TableInfo) -> Latencies) {
    for_tables(rows, node, |row, table| {
        let latencies = of(table);
        row.set("count", count(latencies.count))
            .set("max_ms", double(latencies.max))
            .set("p50th_ms", double(latencies.p50))
            .set("p99th_ms", double(latencies.p99))
            .set("per_second", double(latencies.per_second));
    });
}

fn spreads(rows: &mut VirtualRows, node: &NodeInfo<'_>, of: impl Fn(&TableInfo) -> Spread) {
    for_tables(rows, node, |row, table| {
        let spread = of(table);
        row.set("count", count(spread.count))
            .set("max", double(spread.max))
            .set("p50th", double(spread.p50))
            .set("p99th", double(spread.p99));
    });
}

fn sizes(rows: &mut VirtualRows, node: &NodeInfo<'_>, of: impl Fn(&TableInfo) -> u64) {
    const MEBIBYTE: u64 = 1024 * 1024;
    for_tables(rows, node, |row, table| {
        row.set("mebibytes", count(of(table).div_ceil(MEBIBYTE)));
    });
}
