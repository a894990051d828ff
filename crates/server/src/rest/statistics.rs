//! Statistics of tables as JSON: sums over all shards, histograms as their percentiles.

use std::sync::Arc;

use model::Table;
use serde_json::{Value, json};
use storage::sstable::EstimatedHistogram;
use storage::{SSTableDetails, SnapshotDetails, TableDetails, TableStats};

/// What `tablehistograms` shows: these shares, then the least and the largest value.
const SHARES: [f64; 5] = [0.5, 0.75, 0.95, 0.98, 0.99];

/// Tables, each with the details of all its shards.
pub(super) fn tables(
    tables: &[Arc<Table>],
    details: &[Vec<TableDetails>],
    snapshots: &[SnapshotDetails],
) -> Value {
    let pairs = tables.iter().zip(details);
    pairs
        .map(|(table, shards)| table_stats(table, shards, snapshots))
        .collect()
}

fn table_stats(table: &Table, shards: &[TableDetails], snapshots: &[SnapshotDetails]) -> Value {
    let sum = |of: fn(&TableStats) -> u64| -> u64 { shards.iter().map(|s| of(&s.stats)).sum() };
    let sstables = || shards.iter().flat_map(|shard| &shard.sstables);
    let total = |of: fn(&SSTableDetails) -> u64| -> u64 { sstables().map(of).sum() };
    let own = |snapshot: &&SnapshotDetails| {
        *snapshot.keyspace == *table.keyspace && *snapshot.table == *table.name
    };
    let snapshot_bytes: u64 = snapshots.iter().filter(own).map(|s| s.true_size).sum();
    let merged = |of: fn(&TableDetails) -> &EstimatedHistogram| {
        merge(shards.iter().map(of)).unwrap_or_else(|| EstimatedHistogram::new(1))
    };
    let sizes = merge(sstables().map(|sstable| &sstable.partition_sizes));
    let cells = merge(sstables().map(|sstable| &sstable.cells_per_partition));
    let (reads, writes) = (merged(|d| &d.read_latency), merged(|d| &d.write_latency));
    let cell_count = |sstable: &SSTableDetails| {
        let histogram = &sstable.cells_per_partition;
        histogram.mean().saturating_mul(histogram.count()) as f64
    };
    let all_cells: f64 = sstables().map(cell_count).sum();
    let droppable: f64 = sstables().map(|sstable| sstable.droppable).sum();
    json!({
        "keyspace": &*table.keyspace,
        "table": &*table.name,
        "is_leveled": is_leveled(table),
        "levels": levels(sstables()),
        "sstable_count": sstables().count(),
        "old_sstable_count": sstables().filter(|sstable| sstable.is_old).count(),
        "max_sstable_size": sstables().map(|sstable| sstable.disk_size).max().unwrap_or(0),
        "space_used": total(|sstable| sstable.disk_size),
        "uncompressed": total(|sstable| sstable.data_length),
        "space_used_by_snapshots": snapshot_bytes,
        "compression_ratio": compression_ratio(sstables()),
        "partitions": sum(|s| s.memtable_partitions) + partitions(sstables()),
        "memtable_updates": sum(|s| s.memtable_updates),
        "memtable_bytes": sum(|s| s.memtable_bytes),
        "flushes": sum(|s| s.flushes),
        "reads": sum(|s| s.key_reads) + sum(|s| s.range_reads),
        "writes": sum(|s| s.writes),
        "read_latency_mean": mean(&reads),
        "write_latency_mean": mean(&writes),
        "bloom_false_positives": sum(|s| s.bloom_false_positives),
        "bloom_true_positives": sum(|s| s.sstables_found),
        "filter_size": total(|sstable| sstable.filter_size),
        "summary_size": total(|sstable| sstable.summary_size),
        "offsets_size": total(|sstable| sstable.offsets_size),
        "partition_size_min": sizes.as_ref().map_or(0, EstimatedHistogram::min),
        "partition_size_max": sizes.as_ref().map_or(0, EstimatedHistogram::max),
        "partition_size_mean": sizes.as_ref().map_or(0, EstimatedHistogram::mean),
        "droppable_ratio": if all_cells > 0.0 { droppable / all_cells } else { 0.0 },
        "histograms": {
            "read_latency": percentiles(&reads),
            "write_latency": percentiles(&writes),
            "sstables_per_read": percentiles(&merged(|d| &d.sstables_per_read)),
            "partition_size": sizes.as_ref().map(percentiles),
            "cell_count": cells.as_ref().map(percentiles),
        },
        "too_large": {
            "partition_size": sizes.as_ref().and_then(too_large),
            "cell_count": cells.as_ref().and_then(too_large),
        },
    })
}

fn is_leveled(table: &Table) -> bool {
    let class = table.options.compaction.get("class");
    class.is_some_and(|class| class.ends_with("LeveledCompactionStrategy"))
}

/// Sum of histograms; `None` if there are none.
fn merge<'h>(
    mut histograms: impl Iterator<Item = &'h EstimatedHistogram>,
) -> Option<EstimatedHistogram> {
    let first = histograms.next()?.clone();
    Some(histograms.fold(first, |mut sum, histogram| {
        sum.merge(histogram);
        sum
    }))
}

/// The mean of what was counted; `null` if nothing was.
fn mean(histogram: &EstimatedHistogram) -> Value {
    match histogram.count() {
        0 => Value::Null,
        _ => json!(histogram.mean()),
    }
}

/// `null` where what was counted is too large for a histogram.
fn percentiles(histogram: &EstimatedHistogram) -> Value {
    let shares = SHARES.iter().map(|share| match histogram.is_overflowed() {
        true => Value::Null,
        false => json!(histogram.percentile(*share)),
    });
    shares
        .chain([json!(histogram.min()), json!(histogram.max())])
        .collect()
}

/// What a histogram can count at most, if more was counted.
fn too_large(histogram: &EstimatedHistogram) -> Option<i64> {
    let limit = histogram.largest_offset();
    histogram.is_overflowed().then_some(limit)
}

fn partitions<'s>(sstables: impl Iterator<Item = &'s SSTableDetails>) -> u64 {
    let counts = sstables.map(|sstable| sstable.partition_sizes.count());
    counts.map(|count| u64::try_from(count).unwrap_or(0)).sum()
}

/// Of all that is compressed; -1 if nothing is (`TableMetrics.computeCompressionRatio`).
fn compression_ratio<'s>(sstables: impl Iterator<Item = &'s SSTableDetails>) -> f64 {
    let compressed = sstables.filter(|sstable| sstable.compression_ratio >= 0.0);
    let (small, large) = compressed.fold((0.0, 0.0), |(small, large), sstable| {
        let length = sstable.data_length as f64;
        (small + length * sstable.compression_ratio, large + length)
    });
    if large > 0.0 { small / large } else { -1.0 }
}

/// The number of sstables and their bytes, by level.
fn levels<'s>(sstables: impl Iterator<Item = &'s SSTableDetails>) -> Vec<(u64, u64)> {
    let mut levels: Vec<(u64, u64)> = vec![(0, 0); 9];
    for sstable in sstables {
        let level = levels.get_mut(sstable.level as usize);
        if let Some((count, bytes)) = level {
            *count += 1;
            *bytes += sstable.disk_size;
        }
    }
    levels
}
