//! What a store did and holds, for metrics.

use model::TableId;

use super::table::TableStore;
use super::{Inner, Store};
use crate::cache::RowCacheStats;
use crate::commitlog::LogStats;
use crate::sstable::{ChunkCacheStats, EstimatedHistogram, SSTable};

/// What a shard's store did since the start, and what it holds now.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreStats {
    /// The commit log.
    pub commitlog: LogStats,
    /// Bytes of all memtables, those being flushed included.
    pub memtable_bytes: u64,
    /// Bytes of those being flushed.
    pub flushing_bytes: u64,
    /// Bytes that memtables may take.
    pub memtable_limit: u64,
    /// Writes that wait for memory.
    pub waiting_writes: u64,
    /// Writes refused since the start.
    pub refused_writes: u64,
    /// Flushes that failed, to be tried again.
    pub failed_flushes: u64,
    /// Memtables waiting to be flushed or being flushed.
    pub pending_flushes: u64,
    /// Compactions running now.
    pub running_compactions: u64,
    /// Compactions that failed.
    pub failed_compactions: u64,
    /// The cache of rows.
    pub row_cache: RowCacheStats,
    /// The cache of sstable chunks.
    pub chunk_cache: ChunkCacheStats,
    /// Bytes that caches have given back, as the process had more than was counted.
    pub held_back: u64,
    /// By table.
    pub tables: Vec<TableStats>,
}

/// What a table of a shard's store did since the start, and what it holds now.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStats {
    /// Its identity.
    pub id: TableId,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Bytes of its memtables.
    pub memtable_bytes: u64,
    /// Partitions in its memtables.
    pub memtable_partitions: u64,
    /// Updates taken in by its memtables that are not in an sstable yet.
    pub memtable_updates: u64,
    /// sstables.
    pub sstables: u64,
    /// Of them those that no compaction is chosen for, as reading them failed.
    pub suspect_sstables: u64,
    /// sstables that are there, but no part of the table, as they cannot be read.
    pub unreadable_sstables: u64,
    /// Their bytes on disk.
    pub sstable_bytes: u64,
    /// Bytes on disk of the largest of them.
    pub largest_sstable_bytes: u64,
    /// Bytes of bloom filters and summaries in memory.
    pub sstable_memory: u64,
    /// Partitions in the sstables; one in several counts several times.
    pub sstable_partitions: u64,
    /// Writes since the start.
    pub writes: u64,
    /// Reads of one partition since the start.
    pub key_reads: u64,
    /// Reads of ranges since the start.
    pub range_reads: u64,
    /// sstables passed over by their bloom filters and bounds.
    pub sstables_skipped: u64,
    /// sstables that had what was looked for.
    pub sstables_found: u64,
    /// sstables whose bloom filter was wrong.
    pub bloom_false_positives: u64,
    /// Reads of a row that the cache of rows answered.
    pub row_cache_hits: u64,
    /// Reads of a row that it could not answer.
    pub row_cache_misses: u64,
    /// Flushes since the start.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Compactions since the start.
    pub compactions: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
}

/// What reads and writes of a table were like since the start, on one shard.
#[derive(Clone, Debug)]
pub struct TableTallies {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Microseconds that reads of one partition took.
    pub read_latency: EstimatedHistogram,
    /// Microseconds that reads of ranges took.
    pub scan_latency: EstimatedHistogram,
    /// Microseconds that writes took.
    pub write_latency: EstimatedHistogram,
    /// Live rows that reads went through.
    pub rows_per_read: EstimatedHistogram,
    /// Tombstones that they went through.
    pub tombstones_per_read: EstimatedHistogram,
    /// Bytes of the largest partition of an sstable.
    pub largest_partition_bytes: u64,
    /// Microseconds between the first and the last write of an sstable, the most of any.
    pub longest_sstable_micros: u64,
}

impl TableTallies {
    /// Adds those of another shard.
    pub fn merge(&mut self, other: &TableTallies) {
        self.read_latency.merge(&other.read_latency);
        self.scan_latency.merge(&other.scan_latency);
        self.write_latency.merge(&other.write_latency);
        self.rows_per_read.merge(&other.rows_per_read);
        self.tombstones_per_read.merge(&other.tombstones_per_read);
        let largest = &mut self.largest_partition_bytes;
        *largest = (*largest).max(other.largest_partition_bytes);
        let longest = &mut self.longest_sstable_micros;
        *longest = (*longest).max(other.longest_sstable_micros);
    }
}

impl Store {
    /// What reads and writes of all tables were like.
    pub fn tallies(&self) -> Vec<TableTallies> {
        let tables = self.inner.all_tables();
        tables.iter().map(|table| table.tallies()).collect()
    }
}

impl Inner {
    pub(super) fn stats(&self) -> StoreStats {
        let (memory, counters) = (&self.memory, &self.counters);
        StoreStats {
            commitlog: self.log.stats(),
            memtable_bytes: memory.used() as u64,
            flushing_bytes: memory.flushing.get() as u64,
            memtable_limit: memory.limit as u64,
            waiting_writes: memory.waiting.get() as u64,
            refused_writes: counters.refused.get(),
            failed_flushes: counters.failed_flushes.get(),
            pending_flushes: counters.pending_flushes.get(),
            running_compactions: self.compactions.count(),
            failed_compactions: counters.failed_compactions.get(),
            row_cache: self.rows.stats(),
            chunk_cache: self.cache.stats(),
            held_back: memory.held_back() as u64,
            tables: self.all_tables().iter().map(|t| t.stats()).collect(),
        }
    }
}

impl TableStore {
    /// See [`super::Store::partitions`].
    pub(super) fn partitions(&self) -> u64 {
        let view = self.view();
        let memtables = view.memtables.iter().map(|memtable| memtable.len() as u64);
        let sstables = view.sstables.iter().map(|sstable| {
            // Of one that all shards share this shard has its part.
            let shards = view.owner_of(sstable).map_or(1, |(of, _)| of.shards());
            sstable.partitions() / u64::from(shards)
        });
        memtables.chain(sstables).sum()
    }

    fn tallies(&self) -> TableTallies {
        let table = self.table();
        let sstables = self.sstables();
        let largest = sstables.iter().map(|sstable| {
            let sizes = &sstable.stats().partition_sizes;
            u64::try_from(sizes.max()).unwrap_or(0)
        });
        let times = sstables.iter().map(|sstable| {
            let stats = sstable.stats();
            let between = stats.max_timestamp.saturating_sub(stats.min_timestamp);
            u64::try_from(between).unwrap_or(0)
        });
        TableTallies {
            keyspace: table.keyspace.to_string(),
            name: table.name.to_string(),
            read_latency: self.counters.read_latency.copy(),
            scan_latency: self.counters.scan_latency.copy(),
            write_latency: self.counters.write_latency.copy(),
            rows_per_read: self.reads.rows.copy(),
            tombstones_per_read: self.reads.tombstones.copy(),
            largest_partition_bytes: largest.max().unwrap_or(0),
            longest_sstable_micros: times.max().unwrap_or(0),
        }
    }

    pub(super) fn stats(&self) -> TableStats {
        let table = self.table();
        let view = self.view();
        let sum = |of: fn(&SSTable) -> u64| view.sstables.iter().map(of).sum();
        let largest = view.sstables.iter().map(|sstable| sstable.disk_size());
        let (reads, counters) = (&self.reads, &self.counters);
        let (suspect_sstables, unreadable_sstables) = self.set_apart();
        TableStats {
            id: table.id,
            keyspace: table.keyspace.to_string(),
            name: table.name.to_string(),
            memtable_bytes: view.memtables.iter().map(|m| m.bytes() as u64).sum(),
            memtable_partitions: view.memtables.iter().map(|m| m.len() as u64).sum(),
            memtable_updates: view.memtables.iter().map(|m| m.updates()).sum(),
            sstables: view.sstables.len() as u64,
            suspect_sstables,
            unreadable_sstables,
            sstable_bytes: sum(SSTable::disk_size),
            largest_sstable_bytes: largest.max().unwrap_or(0),
            sstable_memory: sum(|sstable| sstable.memory_size() as u64),
            sstable_partitions: sum(SSTable::partitions),
            writes: counters.writes.get(),
            key_reads: reads.keys.get(),
            range_reads: reads.ranges.get(),
            sstables_skipped: reads.skipped.get(),
            sstables_found: reads.found.get(),
            bloom_false_positives: reads.in_vain.get(),
            row_cache_hits: reads.cached.get(),
            row_cache_misses: reads.uncached.get(),
            flushes: counters.flushes.get(),
            flushed_bytes: counters.flushed_bytes.get(),
            compactions: counters.compactions.get(),
            compacted_bytes: counters.compacted_bytes.get(),
        }
    }
}
