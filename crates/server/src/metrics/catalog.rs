//! What is counted, by what it is counted of: names, helps, values.

use io::GroupStats;
use node::ProcessSnapshot;
use node::metrics::ShardMetrics;
use prometheus_client::metrics::MetricType;
use storage::{StoreStats, TableStats};

/// Name, help, value. The names of counters get the suffix `_total`.
pub(super) type Metric<T> = (&'static str, &'static str, fn(&T) -> u64);

pub(super) const REQUEST_COUNTERS: [Metric<ShardMetrics>; 19] = [
    ("received_bytes", "Bytes received from clients", |m| {
        m.bytes_in.get()
    }),
    ("sent_bytes", "Bytes sent to clients", |m| m.bytes_out.get()),
    ("connections_accepted", "Connections ever accepted", |m| {
        m.connections_accepted.get()
    }),
    (
        "hints_kept",
        "Hints kept for nodes that missed a write",
        |m| m.hints_kept.get(),
    ),
    (
        "hints_dropped",
        "Writes that a node missed and for which no hint was kept",
        |m| m.hints_dropped.get(),
    ),
    ("shard_hops", "Commands sent to another shard", |m| {
        m.hops.get()
    }),
    (
        "prepared_statements_evicted",
        "Prepared statements that made room for others",
        |m| m.prepared_evicted.get(),
    ),
    (
        "internode_late",
        "Requests between nodes that came or were to be sent too late, and were dropped",
        |m| m.late_messages.get(),
    ),
    (
        "internode_shed",
        "Requests to other nodes that were refused, as too much waited to be sent",
        |m| m.shed_messages.get(),
    ),
    (
        "internode_connections_lost",
        "Connections to other nodes that broke",
        |m| m.lost_connections.get(),
    ),
    (
        "traces_lost",
        "Traces of requests that were not written, as too many were being written or the node takes no writes",
        |m| m.lost_traces.get(),
    ),
    (
        "writes_missed",
        "Writes that a replica did not take in time",
        |m| m.missed_writes.get(),
    ),
    (
        "reads_speculated",
        "Reads that asked one more replica, as others were slow",
        |m| m.speculative_reads.get(),
    ),
    (
        "reads_mismatched",
        "Reads whose replicas did not know the same",
        |m| m.mismatched_reads.get(),
    ),
    (
        "cas_write_contentions",
        "Rounds of conditional updates that others kept from their end",
        |m| m.contended_updates.get(),
    ),
    (
        "cas_read_contentions",
        "Rounds of reads at SERIAL that others kept from their end",
        |m| m.contended_reads.get(),
    ),
    (
        "batches_logged",
        "Logged batches of several partitions that clients had written",
        |m| m.logged_batches.get(),
    ),
    (
        "batches_replayed",
        "Logged batches that who coordinated them did not see to, completed here",
        |m| m.replayed_batches.get(),
    ),
    (
        "read_repairs",
        "What replicas lacked and were sent for a read",
        |m| m.read_repairs.get(),
    ),
];

pub(super) const REQUEST_GAUGES: [Metric<ShardMetrics>; 4] = [
    (
        "batches_held",
        "Logged batches kept here for who coordinates them",
        |m| m.held_batches.get(),
    ),
    ("connections", "Connections open now", |m| {
        m.connections.get()
    }),
    ("requests_in_flight", "Requests being worked on", |m| {
        m.in_flight.get()
    }),
    ("prepared_statements", "Prepared statements kept", |m| {
        m.prepared_statements.get()
    }),
];

pub(super) const STORE_COUNTERS: [Metric<StoreStats>; 11] = [
    ("writes_refused", "Writes refused for want of memory", |s| {
        s.refused_writes
    }),
    (
        "flushes_failed",
        "Flushes that failed, to be tried again",
        |s| s.failed_flushes,
    ),
    ("compactions_failed", "Compactions that failed", |s| {
        s.failed_compactions
    }),
    ("cache_hits", "Chunks of sstables found in the cache", |s| {
        s.chunk_cache.hits
    }),
    (
        "cache_misses",
        "Chunks of sstables that had to be read",
        |s| s.chunk_cache.misses,
    ),
    (
        "row_cache_hits",
        "Reads of a row that the cache of rows answered",
        |s| s.row_cache.hits,
    ),
    (
        "row_cache_misses",
        "Reads of a row that the cache of rows could not answer",
        |s| s.row_cache.misses,
    ),
    (
        "commitlog_records",
        "Records appended to the commit log",
        |s| s.commitlog.records,
    ),
    (
        "commitlog_groups",
        "Groups written to the commit log",
        |s| s.commitlog.groups,
    ),
    (
        "commitlog_written_bytes",
        "Bytes written to the commit log",
        |s| s.commitlog.written_bytes,
    ),
    ("commitlog_syncs", "Syncs of the commit log", |s| {
        s.commitlog.syncs
    }),
];

pub(super) const GROUP_METRICS: [(MetricType, Metric<GroupStats>); 3] = [
    (
        MetricType::Counter,
        ("task_polls", "Times that tasks were run", |g| g.polls),
    ),
    (
        MetricType::Gauge,
        ("task_queue", "Tasks ready to run", |g| g.queued as u64),
    ),
    (MetricType::Gauge, ("tasks", "Tasks", |g| g.tasks as u64)),
];

pub(super) const STORE_GAUGES: [Metric<StoreStats>; 16] = [
    ("memtable_bytes", "Bytes of memtables", |s| s.memtable_bytes),
    (
        "memtable_flushing_bytes",
        "Bytes of memtables being flushed",
        |s| s.flushing_bytes,
    ),
    (
        "memtable_limit_bytes",
        "Bytes that memtables may take",
        |s| s.memtable_limit,
    ),
    ("writes_waiting", "Writes that wait for memory", |s| {
        s.waiting_writes
    }),
    (
        "flushes_pending",
        "Memtables that wait to be flushed or are",
        |s| s.pending_flushes,
    ),
    ("compactions_running", "Compactions running", |s| {
        s.running_compactions
    }),
    ("cache_bytes", "Bytes in the cache of chunks", |s| {
        s.chunk_cache.size as u64
    }),
    (
        "cache_limit_bytes",
        "Bytes the cache of chunks may hold",
        |s| s.chunk_cache.capacity as u64,
    ),
    ("row_cache_bytes", "Bytes in the cache of rows", |s| {
        s.row_cache.size as u64
    }),
    (
        "row_cache_limit_bytes",
        "Bytes the cache of rows may hold",
        |s| s.row_cache.capacity as u64,
    ),
    ("row_cache_rows", "Rows in the cache of rows", |s| {
        s.row_cache.entries as u64
    }),
    (
        "cache_given_back_bytes",
        "Bytes that caches do without, as the process had more memory than it was given",
        |s| s.held_back,
    ),
    ("commitlog_segments", "Segments of the commit log", |s| {
        s.commitlog.segments
    }),
    ("commitlog_bytes", "Bytes of the commit log", |s| {
        s.commitlog.bytes
    }),
    (
        "commitlog_pending_records",
        "Records the drive does not have yet",
        |s| s.commitlog.pending_records,
    ),
    (
        "commitlog_pending_bytes",
        "Bytes on their way to the drive",
        |s| s.commitlog.pending_bytes,
    ),
];

pub(super) const PROCESS_GAUGES: [Metric<ProcessSnapshot>; 2] = [
    (
        "resident_bytes",
        "Bytes of memory that the process really has, without files that are mapped",
        |p| p.resident_bytes,
    ),
    (
        "drive_background_window_bytes",
        "Bytes that flushes and compactions may have under way: little where reads and the commit log \
         have to wait for the drive",
        |p| p.background_window,
    ),
];

pub(super) const TABLE_COUNTERS: [Metric<TableStats>; 11] = [
    ("table_writes", "Writes", |t| t.writes),
    ("table_reads", "Reads of one partition", |t| t.key_reads),
    ("table_range_reads", "Reads of ranges", |t| t.range_reads),
    (
        "table_sstables_skipped",
        "sstables that reads passed over",
        |t| t.sstables_skipped,
    ),
    (
        "table_bloom_false_positives",
        "sstables read in vain",
        |t| t.bloom_false_positives,
    ),
    (
        "table_row_cache_hits",
        "Reads of a row that the cache of rows answered",
        |t| t.row_cache_hits,
    ),
    (
        "table_row_cache_misses",
        "Reads of a row that the cache of rows could not answer",
        |t| t.row_cache_misses,
    ),
    ("table_flushes", "Flushes", |t| t.flushes),
    ("table_flushed_bytes", "Bytes written by flushes", |t| {
        t.flushed_bytes
    }),
    ("table_compactions", "Compactions", |t| t.compactions),
    (
        "table_compacted_bytes",
        "Bytes written by compactions",
        |t| t.compacted_bytes,
    ),
];

pub(super) const TABLE_GAUGES: [Metric<TableStats>; 6] = [
    ("table_memtable_bytes", "Bytes of memtables", |t| {
        t.memtable_bytes
    }),
    (
        "table_sstables",
        "sstables, each counted by every shard that has it open",
        |t| t.sstables,
    ),
    (
        "table_suspect_sstables",
        "sstables that are not compacted, as reading them failed",
        |t| t.suspect_sstables,
    ),
    (
        "table_unreadable_sstables",
        "sstables that the table goes without, as they cannot be read",
        |t| t.unreadable_sstables,
    ),
    ("table_sstable_bytes", "Bytes of sstables on disk", |t| {
        t.sstable_bytes
    }),
    (
        "table_sstable_memory_bytes",
        "Bytes of bloom filters and summaries",
        |t| t.sstable_memory,
    ),
];
