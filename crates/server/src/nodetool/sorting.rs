//! In which order `tablestats` prints tables (Cassandra's `StatsTableComparator`).

use super::statistics::{Table, off_heap};

/// The keys of `StatsTableComparator`, in its order.
pub(super) const SORT_KEYS: [&str; 47] = [
    "average_live_cells_per_slice_last_five_minutes",
    "average_tombstones_per_slice_last_five_minutes",
    "bloom_filter_false_positives",
    "bloom_filter_false_ratio",
    "bloom_filter_off_heap_memory_used",
    "bloom_filter_space_used",
    "compacted_partition_maximum_bytes",
    "compacted_partition_mean_bytes",
    "compacted_partition_minimum_bytes",
    "compression_metadata_off_heap_memory_used",
    "dropped_mutations",
    "full_name",
    "index_summary_off_heap_memory_used",
    "local_read_count",
    "local_read_latency_ms",
    "local_write_latency_ms",
    "maximum_live_cells_per_slice_last_five_minutes",
    "maximum_tombstones_per_slice_last_five_minutes",
    "memtable_cell_count",
    "memtable_data_size",
    "memtable_off_heap_memory_used",
    "memtable_switch_count",
    "number_of_partitions_estimate",
    "off_heap_memory_used_total",
    "pending_flushes",
    "percent_repaired",
    "read_latency",
    "reads",
    "space_used_by_snapshots_total",
    "space_used_live",
    "space_used_total",
    "sstable_compression_ratio",
    "sstable_count",
    "table_name",
    "write_latency",
    "writes",
    "max_sstable_size",
    "local_read_write_ratio",
    "twcs_max_duration",
    "sai_local_query_latency_ms",
    "sai_post_filtering_read_latency",
    "sai_disk_used_bytes",
    "sai_sstable_indexes_hit",
    "sai_index_segments_hit",
    "sai_rows_filtered",
    "sai_total_query_timeouts",
    "sai_total_queryable_index_ratio",
];

/// The number of a table that a key means; 0 of what is not counted, by which all are alike.
fn sorted_by(table: &Table, key: &str) -> f64 {
    let field = match key {
        "percent_repaired" => {
            return if table.number("uncompressed") > 0 {
                0.0
            } else {
                100.0
            };
        }
        "bloom_filter_false_ratio" => return table.false_ratio(),
        "local_read_write_ratio" => return table.read_write_ratio(),
        "off_heap_memory_used_total" => return off_heap(table) as f64,
        "sstable_count" | "max_sstable_size" => key,
        "space_used_live" | "space_used_total" => "space_used",
        "space_used_by_snapshots_total" => "space_used_by_snapshots",
        "sstable_compression_ratio" => "compression_ratio",
        "number_of_partitions_estimate" => "partitions",
        "memtable_cell_count" => "memtable_updates",
        "memtable_data_size" => "memtable_bytes",
        "memtable_switch_count" => "flushes",
        "local_read_count" | "reads" => "reads",
        "writes" => "writes",
        "local_read_latency_ms" | "read_latency" => "read_latency_mean",
        "local_write_latency_ms" | "write_latency" => "write_latency_mean",
        "bloom_filter_false_positives" => "bloom_false_positives",
        "bloom_filter_space_used" | "bloom_filter_off_heap_memory_used" => "filter_size",
        "index_summary_off_heap_memory_used" => "summary_size",
        "compression_metadata_off_heap_memory_used" => "offsets_size",
        "compacted_partition_minimum_bytes" => "partition_size_min",
        "compacted_partition_maximum_bytes" => "partition_size_max",
        "compacted_partition_mean_bytes" => "partition_size_mean",
        _ => return 0.0,
    };
    // What is no number is below all that are, as in Cassandra.
    table.0[field].as_f64().unwrap_or(0.0)
}

/// By a key of `StatsTableComparator`: downwards, and by name where they are alike.
pub(super) fn sort(tables: &mut [Table], key: &str) {
    let full = |table: &Table| {
        let (keyspace, name) = (table.name("keyspace"), table.name("table"));
        match key {
            "table_name" => (name.to_owned(), keyspace.to_owned()),
            _ => (keyspace.to_owned(), name.to_owned()),
        }
    };
    if matches!(key, "full_name" | "table_name") {
        return tables.sort_by_key(|table| std::cmp::Reverse(full(table)));
    }
    tables.sort_by(|a, b| {
        let numbers = sorted_by(b, key).total_cmp(&sorted_by(a, key));
        numbers.then_with(|| full(a).cmp(&full(b)))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_sorted_by_all_keys() {
        let table = |name: &str, reads: u64| {
            Table(json!({ "keyspace": "ks", "table": name, "reads": reads, "writes": 1 }))
        };
        let order = |key: &str| -> String {
            let mut tables = [table("b", 1), table("c", 2), table("a", 1)];
            sort(&mut tables, key);
            tables.iter().map(|table| table.name("table")).collect()
        };
        for key in SORT_KEYS {
            let expected = match key {
                "reads" | "local_read_count" | "local_read_write_ratio" => "cab",
                "full_name" | "table_name" => "cba",
                _ => "abc",
            };
            assert_eq!(order(key), expected, "{key}");
        }
    }
}
