//! Looking into tables: what `nodetool tablestats`, `tablehistograms`, `getsstables` and `verify`
//! want to know.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::{DecoratedKey, TableId, murmur3_x64_128};

use super::stats::TableStats;
use super::table::TableStore;
use super::{Inner, Store};
use crate::error::{CompactionError, ReadError};
use crate::sstable::{
    Component, Descriptor, EstimatedHistogram, Generation, SSTable, SSTableError,
};

/// How an sstable is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Do what `disk_failure_policy` says if it is damaged.
    pub by_policy: bool,
    /// Do not read the data.
    pub quick: bool,
}

/// A table of a shard, in detail.
#[derive(Clone, Debug)]
pub struct TableDetails {
    /// What it did and holds.
    pub stats: TableStats,
    /// Its sstables. Those that shards share are told of by each.
    pub sstables: Vec<SSTableDetails>,
    /// Microseconds that reads of one partition took.
    pub read_latency: EstimatedHistogram,
    /// Microseconds that writes took.
    pub write_latency: EstimatedHistogram,
    /// sstables that reads of one partition found something in.
    pub sstables_per_read: EstimatedHistogram,
}

/// An sstable, in detail.
#[derive(Clone, Debug)]
pub struct SSTableDetails {
    /// Its data file.
    pub data: PathBuf,
    /// Bytes on disk.
    pub disk_size: u64,
    /// Bytes of data before compression.
    pub data_length: u64,
    /// Compressed size by size; negative if it is not compressed.
    pub compression_ratio: f64,
    /// Bytes of its bloom filter.
    pub filter_size: u64,
    /// Bytes of its summary.
    pub summary_size: u64,
    /// Bytes of memory that say where the chunks of its data are.
    pub offsets_size: u64,
    /// The level in leveled compaction.
    pub level: u32,
    /// Is it of another version than the one that is written?
    pub is_old: bool,
    /// Bytes of its partitions.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of its partitions.
    pub cells_per_partition: EstimatedHistogram,
    /// Tombstones that may be dropped, and expired cells.
    pub droppable: f64,
}

/// About how much a shard has of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionEstimate {
    /// Partitions.
    pub partitions: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl PartitionEstimate {
    /// Of both together.
    pub fn plus(self, other: PartitionEstimate) -> PartitionEstimate {
        PartitionEstimate {
            partitions: self.partitions.saturating_add(other.partitions),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Bytes of a partition; 0 if there is none.
    pub fn mean_size(self) -> u64 {
        self.bytes.checked_div(self.partitions).unwrap_or(0)
    }
}

impl Store {
    /// About how much the sstables of a table have; nothing if there is no such table. Partitions that are in
    /// several count as often, and of those that shards share each has its part.
    pub fn partition_estimate(&self, table: TableId) -> PartitionEstimate {
        let Some(table) = self.inner.table(table) else {
            return PartitionEstimate::default();
        };
        let shards = u64::from(self.inner.env.shards());
        let of_sstable = |sstable: &SSTable| {
            let sizes = &sstable.stats().partition_sizes;
            let partitions = u64::try_from(sizes.count()).unwrap_or(0);
            let mean = u64::try_from(sizes.mean()).unwrap_or(0);
            let parts = if table.is_shared(sstable) { shards } else { 1 };
            let partitions = partitions.div_ceil(parts);
            PartitionEstimate {
                partitions,
                bytes: partitions.saturating_mul(mean),
            }
        };
        let estimates = table.sstables();
        let estimates = estimates.iter().map(of_sstable);
        estimates.fold(PartitionEstimate::default(), PartitionEstimate::plus)
    }

    /// The folder of a table; `None` if there is none.
    pub fn table_folder(&self, table: TableId) -> Option<PathBuf> {
        Some(self.inner.table(table)?.dir.clone())
    }

    /// A table in detail; `None` if there is none.
    pub fn table_details(&self, table: TableId) -> Option<TableDetails> {
        let inner = &self.inner;
        let table = inner.table(table)?;
        let grace = i64::from(table.table().options.gc_grace_seconds);
        let gc_before = i64::from(inner.env.wall_seconds()) - grace;
        let sstables = table.sstables();
        let details = sstables.iter().map(|sstable| details(sstable, gc_before));
        Some(TableDetails {
            stats: table.stats(),
            sstables: details.collect(),
            read_latency: table.counters.read_latency.copy(),
            write_latency: table.counters.write_latency.copy(),
            sstables_per_read: table.reads.sstables.copy(),
        })
    }

    /// The data files of the sstables of a table that have this partition, with their levels.
    pub async fn sstables_with(
        &self,
        table: TableId,
        key: &DecoratedKey,
    ) -> Result<Vec<(PathBuf, u32)>, ReadError> {
        let found = self.inner.table(table);
        let table = found.ok_or(ReadError::UnknownTable(table))?;
        let hash = murmur3_x64_128(key.key());
        let mut with = Vec::new();
        for sstable in table.sstables().iter() {
            if sstable.may_contain(key, hash) && sstable.has(key).await? {
                let data = sstable.descriptor().path(Component::Data);
                with.push((data, sstable.stats().level));
            }
        }
        Ok(with)
    }

    /// Is the sstable with this data file of the version that is written?
    pub fn is_of_written_version(&self, data: &Path) -> bool {
        let name = data.file_name().and_then(|name| name.to_str());
        let named = data.parent().zip(name);
        let parsed = named.and_then(|(dir, name)| Descriptor::parse(dir, name));
        parsed.is_some_and(|(found, _)| found.version == self.inner.config.sstable_format.written())
    }

    /// Reads all of an sstable of a table and checks all checksums; if it is to be `quick` only
    /// what opening it takes. `false`: it is no part of the table any more. If it is damaged
    /// `disk_failure_policy` is asked only `by_policy`, as by Cassandra's verifier
    /// (`invokeDiskFailurePolicy`); if the drive fails it always is.
    pub async fn verify(
        &self,
        table: TableId,
        data: &PathBuf,
        VerifyOptions { by_policy, quick }: VerifyOptions,
    ) -> Result<bool, ReadError> {
        let found = self.inner.table(table);
        let table = found.ok_or(ReadError::UnknownTable(table))?;
        let sstables = table.sstables();
        let mut all = sstables.iter();
        let Some(sstable) = all.find(|s| s.descriptor().path(Component::Data) == *data) else {
            return Ok(false);
        };
        let verified = match quick {
            false => sstable.verify().await.map(drop),
            true => {
                let (inner, schema) = (&self.inner, table.table());
                let descriptor = sstable.descriptor();
                let opened = SSTable::open(&inner.env, descriptor, &schema, &inner.cache).await;
                opened.map(drop)
            }
        };
        let Err(error) = verified else {
            return Ok(true);
        };
        // A compaction may have removed it meanwhile.
        if !table.has_all(std::slice::from_ref(sstable)) {
            return Ok(false);
        }
        if by_policy || matches!(error, SSTableError::Io { .. }) {
            self.inner.tell_of(&error);
        }
        self.inner.isolate(&table, &error);
        Err(error.into())
    }
}

impl Inner {
    /// The sstables in a table's folder whose data was written after a time in milliseconds since
    /// 1970 (Cassandra's `getDataCreationTime`).
    pub(super) async fn written_after(
        &self,
        table: &TableStore,
        millis: i64,
    ) -> Result<BTreeSet<Generation>, CompactionError> {
        if millis == i64::MAX {
            return Ok(BTreeSet::new());
        }
        let dir = &table.dir;
        let entries = self.env.read_dir(dir).await;
        let entries = entries.map_err(|error| CompactionError::Io {
            path: dir.clone(),
            error,
        })?;
        let later = entries
            .iter()
            .filter(|entry| entry.modified_micros / 1000 > millis);
        let data = later.filter_map(|entry| {
            let (descriptor, component) = Descriptor::parse(dir, &entry.name)?;
            (component == Component::Data.name()).then_some(descriptor.generation)
        });
        Ok(data.collect())
    }
}

fn details(sstable: &SSTable, gc_before: i64) -> SSTableDetails {
    let stats = sstable.stats();
    let descriptor = sstable.descriptor();
    SSTableDetails {
        data: descriptor.path(Component::Data),
        disk_size: sstable.disk_size(),
        data_length: sstable.data_length(),
        compression_ratio: stats.compression_ratio,
        filter_size: sstable.filter_size() as u64,
        summary_size: sstable.summary_size() as u64,
        offsets_size: sstable.offsets_size() as u64,
        level: stats.level,
        is_old: descriptor.version != descriptor.version.format().written(),
        partition_sizes: stats.partition_sizes.clone(),
        cells_per_partition: stats.cells_per_partition.clone(),
        droppable: stats.drop_times.sum(gc_before),
    }
}
