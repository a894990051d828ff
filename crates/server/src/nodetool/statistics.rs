//! What tables hold: `tablestats`, `getsstables`.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map, Value, json};

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::{GetSSTables, TableStatistics};
use super::sorting::{SORT_KEYS, sort};
use super::structured;
use super::text::{double, file_size, fixed, memory_size};

/// The numbers of a table as the API tells them.
pub(super) struct Table(pub(super) Value);

impl Table {
    pub(super) fn name(&self, part: &str) -> &str {
        self.0[part].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or(0)
    }

    pub(super) fn real(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or(f64::NAN)
    }

    /// Of microseconds.
    fn millis(&self, name: &str) -> f64 {
        self.real(name) / 1000.0
    }

    pub(super) fn false_ratio(&self) -> f64 {
        let wrong = self.number("bloom_false_positives") as f64;
        let right = self.number("bloom_true_positives") as f64;
        if wrong > 0.0 {
            wrong / (wrong + right)
        } else {
            0.0
        }
    }

    pub(super) fn read_write_ratio(&self) -> f64 {
        match self.number("writes") {
            0 => 0.0,
            writes => self.number("reads") as f64 / writes as f64,
        }
    }

    fn levels(&self, of: usize) -> Vec<String> {
        let levels = self.0["levels"].as_array().cloned().unwrap_or_default();
        let of = levels
            .iter()
            .map(|level| level[of].as_u64().unwrap_or(0).to_string());
        of.collect()
    }
}

/// That there is no such keyspace, or no such table, in the words of Cassandra's `TableStatsHolder`.
pub(super) fn unknown(name: &str) -> String {
    match name.split_once('.') {
        Some((keyspace, table)) => format!("Unknown tables: [{table}] in keyspace: {keyspace}"),
        None => format!("Unknown keyspace: {name}"),
    }
}

/// The tables that names mean: keyspaces, or tables with their keyspace in front.
pub(super) fn selected(
    api: &Api,
    names: &[String],
    ignore: bool,
    unknown: impl Fn(&str) -> String,
) -> Result<Vec<Table>, NodetoolError> {
    let all = api.get(["column_family", "stats"], &[])?;
    let all = all.as_array().cloned().unwrap_or_default();
    let tables: Vec<Table> = all.into_iter().map(Table).collect();
    for name in names {
        let known = match name.split_once('.') {
            Some((keyspace, table)) => tables
                .iter()
                .any(|t| t.name("keyspace") == keyspace && t.name("table") == table),
            None => tables.iter().any(|t| t.name("keyspace") == name),
        };
        if !known {
            return Err(NodetoolError::Usage(unknown(name)));
        }
    }
    let named = |table: &Table| {
        let full = format!("{}.{}", table.name("keyspace"), table.name("table"));
        names
            .iter()
            .any(|name| name == table.name("keyspace") || *name == full)
    };
    let wanted = |table: &Table| names.is_empty() || named(table) != ignore;
    Ok(tables.into_iter().filter(wanted).collect())
}

/// Prints statistics of tables (Cassandra's `TableStats`).
pub(super) fn table_stats(api: &Api, options: &TableStatistics, out: &mut impl Write) -> Done {
    let names = &options.names;
    check_sort(options)?;
    // Without names it leaves out all, as in Cassandra.
    if options.ignore && names.is_empty() {
        return Ok(());
    }
    let mut tables = selected(api, names, options.ignore, unknown)?;
    let count = tables.len();
    if let Some(key) = &options.sort {
        sort(&mut tables, key);
        if options.top > 0 {
            tables.truncate(options.top);
        }
    }
    if let Some(format) = options.format {
        return structured::print(format, &as_value(&tables, count, options), out);
    }
    write!(out, "Total number of tables: {count}")?;
    match &options.sort {
        Some(key) if options.top > 0 => {
            writeln!(out, " (showing top {} by {key})", options.top.min(count))?;
        }
        _ => writeln!(out)?,
    }
    writeln!(out, "----------------")?;
    if options.sort.is_some() {
        for table in &tables {
            let name = format!("{}.{}", table.name("keyspace"), table.name("table"));
            print_table(table, &name, "\t", options, out)?;
        }
        return Ok(writeln!(out, "----------------")?);
    }
    for (keyspace, tables) in by_keyspace(&tables) {
        let totals = Totals::of(&tables);
        writeln!(out, "Keyspace: {keyspace}")?;
        writeln!(out, "\tRead Count: {}", totals.reads)?;
        writeln!(out, "\tRead Latency: {} ms", double(totals.read_millis))?;
        writeln!(out, "\tWrite Count: {}", totals.writes)?;
        writeln!(out, "\tWrite Latency: {} ms", double(totals.write_millis))?;
        writeln!(out, "\tPending Flushes: 0")?;
        for table in tables {
            print_table(table, table.name("table"), "\t\t", options, out)?;
        }
        writeln!(out, "----------------")?;
    }
    Ok(())
}

/// Can tables be sorted so?
fn check_sort(options: &TableStatistics) -> Done {
    let wrong = match &options.sort {
        Some(key) if !SORT_KEYS.contains(&key.as_str()) => {
            format!("argument for sort must be one of: {}", SORT_KEYS.join(", "))
        }
        None if options.top > 0 => {
            "cannot filter top K tables without specifying a sort key.".to_owned()
        }
        _ => return Ok(()),
    };
    Err(NodetoolError::Usage(wrong))
}

fn by_keyspace(tables: &[Table]) -> BTreeMap<&str, Vec<&Table>> {
    let mut keyspaces: BTreeMap<&str, Vec<&Table>> = BTreeMap::new();
    for table in tables {
        keyspaces
            .entry(table.name("keyspace"))
            .or_default()
            .push(table);
    }
    keyspaces
}

/// Of a keyspace.
struct Totals {
    reads: u64,
    writes: u64,
    read_millis: f64,
    write_millis: f64,
}

impl Totals {
    fn of(tables: &[&Table]) -> Totals {
        let sum = |count: &str, latency: &str| {
            let total: u64 = tables.iter().map(|table| table.number(count)).sum();
            let counted = tables.iter().filter(|table| table.number(count) > 0);
            let millis: f64 = counted
                .map(|table| table.number(count) as f64 * table.millis(latency))
                .sum();
            (total, millis / total as f64)
        };
        let (reads, read_millis) = sum("reads", "read_latency_mean");
        let (writes, write_millis) = sum("writes", "write_latency_mean");
        Totals {
            reads,
            writes,
            read_millis,
            write_millis,
        }
    }
}

/// A line of a table: its name and what stands behind it.
type Line = (&'static str, String);

/// The lines of a table, in Cassandra's order. What Helenus does not count is what it is in
/// Cassandra before anything was counted.
fn print_table(
    table: &Table,
    name: &str,
    indent: &str,
    options: &TableStatistics,
    out: &mut impl Write,
) -> Done {
    writeln!(out, "{indent}Table: {name}")?;
    let size = |bytes: u64| match options.human_readable {
        true => file_size(bytes),
        false => bytes.to_string(),
    };
    let lines = space_lines(table, &size)
        .into_iter()
        .chain(work_lines(table, &size))
        .chain(partition_lines(table));
    for (name, value) in lines {
        writeln!(out, "{indent}{name}: {value}")?;
    }
    if options.sstable_location_check {
        writeln!(out, "{indent}SSTables in correct location: true")?;
    }
    Ok(writeln!(out)?)
}

/// Of nothing all is repaired, as in Cassandra; nothing else is yet.
fn percent_repaired(table: &Table) -> &'static str {
    match table.number("uncompressed") {
        0 => "100.0",
        _ => "0.0",
    }
}

/// What its sstables keep in memory, in bytes.
pub(super) fn off_heap(table: &Table) -> u64 {
    let parts = ["filter_size", "summary_size", "offsets_size"];
    parts.iter().map(|part| table.number(part)).sum()
}

/// What the table takes.
fn space_lines(table: &Table, size: &impl Fn(u64) -> String) -> Vec<Line> {
    let number = |name: &str| table.number(name);
    let off_heap = off_heap(table);
    let snapshots = number("space_used_by_snapshots");
    let mut lines = vec![
        ("SSTable count", number("sstable_count").to_string()),
        ("Old SSTable count", number("old_sstable_count").to_string()),
        ("Max SSTable size", memory_size(number("max_sstable_size"))),
    ];
    if table.0["is_leveled"] == true {
        let (counts, bytes) = (table.levels(0).join(", "), table.levels(1).join(", "));
        lines.push(("SSTables in each level", format!("[{counts}]")));
        lines.push(("SSTable bytes in each level", format!("[{bytes}]")));
    }
    let ratio = table.real("compression_ratio");
    lines.extend([
        ("Space used (live)", size(number("space_used"))),
        ("Space used (total)", size(number("space_used"))),
        ("Space used by snapshots (total)", size(snapshots)),
        ("Off heap memory used (total)", size(off_heap)),
        ("SSTable Compression Ratio", fixed(ratio, 5)),
        (
            "Number of partitions (estimate)",
            number("partitions").to_string(),
        ),
    ]);
    lines
}

/// What was done to the table.
fn work_lines(table: &Table, size: &impl Fn(u64) -> String) -> Vec<Line> {
    let number = |name: &str| table.number(name);
    let count = |name: &str| table.number(name).to_string();
    let latency = |name: &str| format!("{} ms", fixed(table.millis(name), 3));
    vec![
        ("Memtable cell count", count("memtable_updates")),
        ("Memtable data size", size(number("memtable_bytes"))),
        ("Memtable off heap memory used", size(0)),
        ("Memtable switch count", count("flushes")),
        ("Speculative retries", "0".to_owned()),
        ("Local read count", count("reads")),
        ("Local read latency", latency("read_latency_mean")),
        ("Local write count", count("writes")),
        ("Local write latency", latency("write_latency_mean")),
        ("Local read/write ratio", fixed(table.read_write_ratio(), 5)),
        ("Pending flushes", "0".to_owned()),
        ("Percent repaired", percent_repaired(table).to_owned()),
        ("Bytes repaired", memory_size(0)),
        ("Bytes unrepaired", memory_size(number("uncompressed"))),
        ("Bytes pending repair", memory_size(0)),
        (
            "Bloom filter false positives",
            count("bloom_false_positives"),
        ),
        ("Bloom filter false ratio", fixed(table.false_ratio(), 5)),
        ("Bloom filter space used", size(number("filter_size"))),
        (
            "Bloom filter off heap memory used",
            size(number("filter_size")),
        ),
        (
            "Index summary off heap memory used",
            size(number("summary_size")),
        ),
        (
            "Compression metadata off heap memory used",
            size(number("offsets_size")),
        ),
    ]
}

/// What its partitions are like.
fn partition_lines(table: &Table) -> Vec<Line> {
    let count = |name: &str| table.number(name).to_string();
    let [none, zero] = ["NaN", "0"].map(str::to_owned);
    vec![
        (
            "Compacted partition minimum bytes",
            count("partition_size_min"),
        ),
        (
            "Compacted partition maximum bytes",
            count("partition_size_max"),
        ),
        (
            "Compacted partition mean bytes",
            count("partition_size_mean"),
        ),
        (
            "Average live cells per slice (last five minutes)",
            none.clone(),
        ),
        (
            "Maximum live cells per slice (last five minutes)",
            zero.clone(),
        ),
        ("Average tombstones per slice (last five minutes)", none),
        ("Maximum tombstones per slice (last five minutes)", zero),
        (
            "Droppable tombstone ratio",
            fixed(table.real("droppable_ratio"), 5),
        ),
    ]
}

/// A table under the names of `TableStatsHolder`.
fn table_value(table: &Table, options: &TableStatistics) -> Value {
    // Cassandra has sizes as texts.
    let size = |bytes: u64| match options.human_readable {
        true => file_size(bytes),
        false => bytes.to_string(),
    };
    let no_number = structured::no_number(options.format);
    let number = |name: &str| table.number(name);
    let leveled = |of: usize| match table.0["is_leveled"] == true {
        true => table.levels(of),
        false => Vec::new(),
    };
    let mut value = json!({
        "sstable_count": number("sstable_count"),
        "old_sstable_count": number("old_sstable_count"),
        "max_sstable_size": number("max_sstable_size"),
        "sstables_in_each_level": leveled(0),
        "sstable_bytes_in_each_level": leveled(1),
        "space_used_live": size(number("space_used")),
        "space_used_total": size(number("space_used")),
        "space_used_by_snapshots_total": size(number("space_used_by_snapshots")),
        "off_heap_memory_used_total": size(off_heap(table)),
        "sstable_compression_ratio": table.real("compression_ratio"),
        "number_of_partitions_estimate": number("partitions"),
        "memtable_cell_count": number("memtable_updates"),
        "memtable_data_size": size(number("memtable_bytes")),
        "memtable_off_heap_memory_used": size(0),
        "memtable_switch_count": number("flushes"),
        "speculative_retries": 0,
        "local_read_count": number("reads"),
        "local_read_latency_ms": fixed(table.millis("read_latency_mean"), 3),
        "local_write_count": number("writes"),
        "local_write_latency_ms": fixed(table.millis("write_latency_mean"), 3),
        "local_read_write_ratio": fixed(table.read_write_ratio(), 5),
        "pending_flushes": 0,
        "percent_repaired": if number("uncompressed") > 0 { 0.0 } else { 100.0 },
        "bytes_repaired": 0,
        "bytes_unrepaired": number("uncompressed"),
        "bytes_pending_repair": 0,
        "bloom_filter_false_positives": number("bloom_false_positives"),
        "bloom_filter_false_ratio": fixed(table.false_ratio(), 5),
        "bloom_filter_space_used": size(number("filter_size")),
        "bloom_filter_off_heap_memory_used": size(number("filter_size")),
        "index_summary_off_heap_memory_used": size(number("summary_size")),
        "compression_metadata_off_heap_memory_used": size(number("offsets_size")),
        "compacted_partition_minimum_bytes": number("partition_size_min"),
        "compacted_partition_maximum_bytes": number("partition_size_max"),
        "compacted_partition_mean_bytes": number("partition_size_mean"),
        "average_live_cells_per_slice_last_five_minutes": no_number,
        "maximum_live_cells_per_slice_last_five_minutes": 0,
        "average_tombstones_per_slice_last_five_minutes": no_number,
        "maximum_tombstones_per_slice_last_five_minutes": 0,
        "droppable_tombstone_ratio": fixed(table.real("droppable_ratio"), 5),
    });
    add_uncounted(&mut value);
    if options.sstable_location_check {
        value["sstables_in_correct_location"] = json!(true);
    }
    value
}

/// What Cassandra says of indexes, which no table has yet, and of what is counted with its repairs alone.
fn add_uncounted(value: &mut Value) {
    for name in ["sai_total_queryable_index_ratio", "sai_disk_used_bytes"] {
        value[name] = Value::Null;
    }
    for name in [
        "sai_post_filtering_read_latency",
        "sai_local_query_latency_ms",
    ] {
        value[name] = json!("0.000");
    }
    for name in [
        "sai_index_segments_hit",
        "sai_rows_filtered",
        "sai_sstable_indexes_hit",
    ] {
        value[name] = json!(0.0);
    }
    value["sai_total_query_timeouts"] = json!(0);
    for name in ["top_size_partitions", "top_tombstone_partitions"] {
        value[name] = json!({});
    }
    value["twcs"] = Value::Null;
}

fn as_value(tables: &[Table], count: usize, options: &TableStatistics) -> Value {
    let mut all = Map::new();
    all.insert("total_number_of_tables".to_owned(), json!(count));
    if options.sort.is_some() {
        for table in tables {
            let name = format!("{}.{}", table.name("keyspace"), table.name("table"));
            all.insert(name, table_value(table, options));
        }
        return Value::Object(all);
    }
    for (keyspace, tables) in by_keyspace(tables) {
        let totals = Totals::of(&tables);
        // What is no number is null in JSON and has its own word in YAML, as in Cassandra.
        let real = |number: f64| match (number.is_nan(), options.format) {
            (true, Some(structured::Format::Yaml)) => structured::no_number(options.format),
            _ => json!(number),
        };
        let each = tables
            .iter()
            .map(|table| (table.name("table").to_owned(), table_value(table, options)));
        let value = json!({
            "read_count": totals.reads,
            "read_latency": real(totals.read_millis),
            "read_latency_ms": real(totals.read_millis),
            "write_count": totals.writes,
            "write_latency_ms": real(totals.write_millis),
            "pending_flushes": 0,
            "tables": each.collect::<Map<String, Value>>(),
        });
        all.insert(keyspace.to_owned(), value);
    }
    Value::Object(all)
}

/// Prints the sstables that have a partition (Cassandra's `GetSSTables`).
pub(super) fn get_sstables(api: &Api, options: &GetSSTables, out: &mut impl Write) -> Done {
    let (keyspace, table) = (&options.keyspace, &options.table);
    let name = format!("{keyspace}:{table}");
    let parts = ["column_family", "sstables", "by_key", &name];
    let format = if options.hex_format { "hex" } else { "" };
    let found = api.get(parts, &[("key", &options.key), ("format", format)]);
    let found = found.map_err(|error| match error {
        NodetoolError::Refused(reason) if reason.starts_with("Unknown keyspace/cf pair") => {
            let unknown = format!("ColumnFamilyStore for {keyspace}/{table} not found.");
            NodetoolError::Refused(unknown)
        }
        error => error,
    })?;
    let selected = selected(api, &[format!("{keyspace}.{table}")], false, unknown)?;
    let leveled = selected.iter().any(|table| table.0["is_leveled"] == true);
    for sstable in found.as_array().into_iter().flatten() {
        let file = sstable["file"].as_str().unwrap_or_default();
        match options.show_levels && leveled {
            true => writeln!(out, "{}: {file}", sstable["level"])?,
            false => writeln!(out, "{file}")?,
        }
    }
    Ok(())
}
