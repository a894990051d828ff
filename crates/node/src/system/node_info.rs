//! What a node tells of itself in the tables of `system_views`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use cluster::Member;
use model::Schema;
use storage::SnapshotDetails;
use storage::sstable::EstimatedHistogram;
use uuid::Uuid;

use super::local::LocalNode;
use crate::batch::BatchSizes;

/// A connected client.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// Its address and port.
    pub address: SocketAddr,
    /// The options of its STARTUP.
    pub options: BTreeMap<String, String>,
    /// The keyspace it uses.
    pub keyspace: Option<String>,
    /// The version of the native protocol it speaks.
    pub protocol_version: u8,
    /// How many requests it has made.
    pub requests: u64,
    /// Who it is.
    pub username: String,
    /// Has it finished its STARTUP?
    pub ready: bool,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct CacheInfo {
    /// What it caches: `rows`, `keys`, …
    pub name: String,
    /// Bytes it may take.
    pub capacity: u64,
    /// Bytes it takes.
    pub size: u64,
    /// Entries in it.
    pub entries: u64,
    /// Times something was found in it.
    pub hits: u64,
    /// Times something was looked for.
    pub requests: u64,
}

/// A queue of work: what Cassandra has thread pools for.
#[derive(Clone, Debug)]
pub struct ThreadPoolInfo {
    /// Its name.
    pub name: String,
    /// Tasks under way.
    pub active: u32,
    /// Tasks that may be under way at once.
    pub limit: u32,
    /// Tasks that wait.
    pub pending: u32,
    /// Tasks done since the start.
    pub completed: u64,
    /// Tasks that wait for room in the queue.
    pub blocked: u64,
    /// Tasks that ever waited for it.
    pub blocked_all_time: u64,
}

/// A compaction or flush under way.
#[derive(Clone, Debug)]
pub struct SstableTask {
    /// The keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// The identity of the task: a time uuid.
    pub id: Uuid,
    /// What it does: `compaction`, `flush`, …
    pub kind: String,
    /// How many sstables go in.
    pub sstables: u32,
    /// How much is done.
    pub progress: u64,
    /// How much there is to do.
    pub total: u64,
    /// What is counted: `bytes`.
    pub unit: String,
}

/// Latencies of one kind of request on one table, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latencies {
    /// How many there were.
    pub count: u64,
    /// The longest.
    pub max: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// How many a second, of late.
    pub per_second: f64,
}

impl Latencies {
    /// The longest and the percentiles of these microseconds.
    pub fn set_micros(&mut self, micros: &EstimatedHistogram) {
        let spread = Spread::of(micros);
        self.max = spread.max / 1000.0;
        self.p50 = spread.p50 / 1000.0;
        self.p99 = spread.p99 / 1000.0;
    }
}

/// How values lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    /// How many there were.
    pub count: u64,
    /// The largest.
    pub max: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 999th of a thousand.
    pub p999: f64,
}

impl Spread {
    /// Of what a histogram counted.
    pub fn of(values: &EstimatedHistogram) -> Spread {
        Spread {
            count: u64::try_from(values.count()).unwrap_or(0),
            max: values.max() as f64,
            p50: values.upper_percentile(0.5) as f64,
            p99: values.upper_percentile(0.99) as f64,
            p999: values.upper_percentile(0.999) as f64,
        }
    }
}

/// What is known of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableInfo {
    /// Reads of single partitions.
    pub reads: Latencies,
    /// Reads of ranges.
    pub scans: Latencies,
    /// Writes.
    pub writes: Latencies,
    /// Bytes of its sstables.
    pub disk_bytes: u64,
    /// Bytes of its largest partition.
    pub largest_partition_bytes: u64,
    /// Bytes of its largest sstable.
    pub largest_sstable_bytes: u64,
    /// Milliseconds between the first and the last write of an sstable, the most of any.
    pub longest_sstable_millis: u64,
    /// Live rows that reads went through.
    pub rows_per_read: Spread,
    /// Tombstones that reads went through.
    pub tombstones_per_read: Spread,
}

/// All that the virtual tables show.
#[derive(Clone, Debug)]
pub struct NodeInfo<'a> {
    /// The schema, which `system_virtual_schema` describes.
    pub schema: &'a Schema,
    /// The node.
    pub local: &'a LocalNode,
    /// The other nodes of the cluster.
    pub others: Vec<Member>,
    /// Connected clients.
    pub clients: Vec<ClientInfo>,
    /// Caches.
    pub caches: Vec<CacheInfo>,
    /// Queues of work.
    pub thread_pools: Vec<ThreadPoolInfo>,
    /// Partitions of batches.
    pub batches: BatchSizes,
    /// The indexes by keyspace and name: is it built?
    pub indexes: BTreeMap<(String, String), bool>,
    /// Compactions and flushes.
    pub sstable_tasks: Vec<SstableTask>,
    /// Snapshots, if they are asked for.
    pub snapshots: Vec<SnapshotDetails>,
    /// Settings, by name; `None` for one that is switched off.
    pub settings: BTreeMap<String, Option<String>>,
    /// Statements in the cache of prepared ones.
    pub prepared_statements: u64,
    /// Prepared statements that were dropped from the cache.
    pub prepared_statements_evicted: u64,
    /// Executions of prepared statements.
    pub prepared_statements_executed: u64,
    /// Executions of other statements.
    pub regular_statements_executed: u64,
    /// What is known of tables, by keyspace and name. Tables without an entry count zero.
    pub tables: BTreeMap<(String, String), TableInfo>,
}
