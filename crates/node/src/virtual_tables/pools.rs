//! `system_views.thread_pools`: kinds of work under the names of Cassandra's thread pools. What is not counted
//! is 0.

use storage::{StoreStats, TableStats};

use crate::message::ShardInformation;
use crate::shard::MAX_TRACES;
use crate::system::ThreadPoolInfo;

/// What all shards do, and did.
pub(super) fn of(shards: &[ShardInformation]) -> Vec<ThreadPoolInfo> {
    let shard_count = u32::try_from(shards.len()).unwrap_or(u32::MAX);
    let stores =
        |of: fn(&StoreStats) -> u64| -> u64 { shards.iter().map(|shard| of(&shard.store)).sum() };
    let tables = |of: fn(&TableStats) -> u64| -> u64 {
        let tables = shards.iter().flat_map(|shard| &shard.store.tables);
        tables.map(of).sum()
    };
    let sum = |of: fn(&ShardInformation) -> u64| -> u64 { shards.iter().map(of).sum() };
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let pool = |name: &str, active: u64, pending: u64, completed: u64| ThreadPoolInfo {
        name: name.to_owned(),
        active: small(active),
        limit: shard_count,
        pending: small(pending),
        completed,
        blocked: 0,
        blocked_all_time: 0,
    };
    let tracing = ThreadPoolInfo {
        limit: shard_count.saturating_mul(MAX_TRACES as u32),
        ..pool("TracingStage", sum(|shard| shard.traces), 0, 0)
    };
    let mutations = ThreadPoolInfo {
        blocked_all_time: stores(|store| store.refused_writes),
        ..pool(
            "MutationStage",
            0,
            stores(|store| store.waiting_writes),
            tables(|table| table.writes),
        )
    };
    vec![
        pool(
            "CompactionExecutor",
            sum(|shard| shard.compactions.len() as u64),
            0,
            tables(|table| table.compactions),
        ),
        pool(
            "MemtableFlushWriter",
            0,
            stores(|store| store.pending_flushes),
            tables(|table| table.flushes),
        ),
        mutations,
        pool(
            "Native-Transport-Requests",
            sum(|shard| shard.requests.0),
            0,
            sum(|shard| shard.requests.1),
        ),
        pool(
            "ReadStage",
            0,
            0,
            tables(|table| table.key_reads + table.range_reads),
        ),
        tracing,
        pool(
            "ViewBuildExecutor",
            sum(|shard| shard.view_builds.len() as u64),
            0,
            0,
        ),
    ]
}
