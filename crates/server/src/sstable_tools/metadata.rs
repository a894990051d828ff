//! `helenus sstable metadata`: what `sstablemetadata` prints
//! (`org.apache.cassandra.tools.SSTableMetadataViewer`). Times are in UTC.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use io::Env;
use model::{Bound, BoundKind, CqlType, NO_DELETION_TIME, Order, Slice};
use storage::dump::key_text;
use storage::sstable::{
    Descriptor, HeaderColumn, SerializationHeader, Statistics, Stats, Version, inspect,
};

use super::histogram::{Style, draw};
use super::output::Output;
use super::scan::{Overview, overview};
use super::{ToolError, files, java, shard};

/// The options of `helenus sstable metadata`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MetadataOptions {
    /// Files of sstables, usually their Data.db
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Use ANSI colours
    #[arg(short = 'c', long)]
    colors: bool,

    /// Draw histograms with Unicode blocks
    #[arg(short = 'u', long)]
    unicode: bool,

    /// Seconds since a deletion from which on a tombstone can be dropped
    #[arg(
        short = 'g',
        long = "gc_grace_seconds",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    gc_grace_seconds: i64,

    /// The unit of timestamps; for scripts that call sstablemetadata, which takes microseconds, too
    #[arg(
        short = 't',
        long = "timestamp_unit",
        value_name = "UNIT",
        default_value = "MICROSECONDS"
    )]
    timestamp_unit: String,

    /// Read all data for the largest partitions and those with most tombstones
    #[arg(short = 's', long)]
    scan: bool,
}

const UNITS: [&str; 7] = [
    "NANOSECONDS",
    "MICROSECONDS",
    "MILLISECONDS",
    "SECONDS",
    "MINUTES",
    "HOURS",
    "DAYS",
];

pub(crate) fn run(options: MetadataOptions) -> ExitCode {
    shard::exit_quietly(shard::run(move |env| async move {
        if !UNITS.contains(&options.timestamp_unit.as_str()) {
            let unit = &options.timestamp_unit;
            let known = UNITS.join(", ");
            return Err(ToolError::Argument(format!(
                "-t {unit}: it is none of {known}"
            )));
        }
        let mut sound = true;
        for file in &options.files {
            if let Err(error) = show(&env, file, &options).await {
                shard::complain(&error);
                sound = false;
            }
        }
        Ok(sound)
    }))
}

async fn show(env: &Env, file: &Path, options: &MetadataOptions) -> Result<(), ToolError> {
    let descriptor = files::descriptor(file)?;
    let statistics = inspect::read_statistics(env, &descriptor).await?;
    let compression = inspect::read_compression(env, &descriptor).await?;
    let overview = match options.scan {
        true => Some(overview(env, &descriptor).await?),
        false => None,
    };
    let mut page = Page {
        output: Output::new(),
        style: Style {
            colors: options.colors,
            unicode: options.unicode,
        },
    };
    let name = descriptor.dir.join(descriptor.prefix());
    page.field("SSTable", &name.display().to_string(), None)?;
    if let Some(overview) = &overview {
        page.overview(overview)?;
    }
    page.field("Partitioner", &statistics.partitioner, None)?;
    let chance = java::double(statistics.bloom_filter_fp_chance);
    page.field("Bloom Filter FP chance", &chance, None)?;
    let compressor = compression.map(|parameters| parameters.algorithm.class());
    page.times(&statistics.stats, compressor)?;
    page.tokens(env, &descriptor, &statistics).await?;
    let gc_before = env.wall_micros() / 1_000_000 - options.gc_grace_seconds;
    page.content((&statistics, descriptor.version), gc_before)?;
    page.histograms(&statistics.stats)?;
    if let Some(keys) = statistics.estimated_keys() {
        page.field("Estimated cardinality", &keys.to_string(), None)?;
    }
    page.header(&statistics)?;
    page.output.flush()
}

struct Page {
    output: Output,
    style: Style,
}

/// A point in time that may be none.
fn deletion(time: u32) -> (String, String) {
    match time {
        NO_DELETION_TIME => ("no tombstones".to_owned(), i64::MAX.to_string()),
        0 => ("no tombstones".to_owned(), "0".to_owned()),
        time => (
            java::date(i64::from(time)).unwrap_or_default(),
            time.to_string(),
        ),
    }
}

impl Page {
    fn field(&mut self, name: &str, value: &str, aside: Option<&str>) -> Result<(), ToolError> {
        let style = self.style;
        let (blue, cyan, reset, white) = (style.blue(), style.cyan(), style.reset(), style.white());
        let mut line = format!("{blue}{name}{cyan}: {reset}{value}");
        if let Some(aside) = aside {
            line.push_str(&format!("{white} ({aside}){reset}"));
        }
        self.output.line(&line)
    }

    /// A field whose value may be none.
    fn maybe(&mut self, name: &str, value: Option<String>, aside: &str) -> Result<(), ToolError> {
        self.field(name, value.as_deref().unwrap_or("--"), Some(aside))
    }

    fn overview(&mut self, overview: &Overview) -> Result<(), ToolError> {
        self.output.write(&format!("\r{:80}\r", " "))?;
        self.field("Size", &overview.bytes.to_string(), None)?;
        self.field("Partitions", &overview.partitions.to_string(), None)?;
        self.field("Rows", &overview.rows.to_string(), None)?;
        self.field("Tombstones", &overview.tombstones.to_string(), None)?;
        self.field("Cells", &overview.cells.to_string(), None)?;
        self.field("Widest Partitions", "", None)?;
        for (key, value) in overview.widest.list() {
            let line = self.leader(key, *value);
            self.output.line(&line)?;
        }
        self.field("Largest Partitions", "", None)?;
        let (white, reset) = (self.style.white(), self.style.reset());
        for (key, value) in overview.largest.list() {
            let line = self.leader(key, *value);
            let size = java::bytes(*value).unwrap_or_else(|| "null".to_owned());
            self.output
                .line(&format!("{line}{white} ({size}){reset}"))?;
        }
        let deleted = overview.most_tombstones.list().iter();
        let lines: Vec<String> = deleted
            .filter(|(_, value)| *value > 0)
            .map(|(key, value)| self.leader(key, *value))
            .collect();
        // A list of so few characters is not shown by sstablemetadata either.
        if lines.iter().map(|line| line.len() + 1).sum::<usize>() <= 10 {
            return Ok(());
        }
        self.field("Tombstone Leaders", "", None)?;
        lines.iter().try_for_each(|line| self.output.line(line))
    }

    fn leader(&self, key: &str, value: i64) -> String {
        let (cyan, reset) = (self.style.cyan(), self.style.reset());
        format!("  {cyan}[{reset}{key}{cyan}] {reset}{value}")
    }

    fn times(&mut self, stats: &Stats, compressor: Option<&str>) -> Result<(), ToolError> {
        let (least, most) = (stats.min_timestamp, stats.max_timestamp);
        self.maybe(
            "Minimum timestamp",
            java::date_of_micros(least),
            &least.to_string(),
        )?;
        self.maybe(
            "Maximum timestamp",
            java::date_of_micros(most),
            &most.to_string(),
        )?;
        let seconds = most.wrapping_sub(least) / 1_000_000;
        let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
        let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
        let text = format!("Days: {days} Hours: {hours} Minutes: {minutes} Seconds: {seconds}");
        self.field("Duration", &text, None)?;
        let (text, number) = deletion(stats.min_local_deletion_time);
        self.field("SSTable min local deletion time", &text, Some(&number))?;
        let (text, number) = deletion(stats.max_local_deletion_time);
        self.field("SSTable max local deletion time", &text, Some(&number))?;
        match compressor {
            None => self.field("Compressor", "-", None)?,
            Some(class) => {
                let class = format!("org.apache.cassandra.io.compress.{class}");
                self.field("Compressor", &class, None)?;
                let ratio = java::double(stats.compression_ratio);
                self.field("Compression ratio", &ratio, None)?;
            }
        }
        for (name, ttl) in [("TTL min", stats.min_ttl), ("TTL max", stats.max_ttl)] {
            self.field(name, &ttl.to_string(), java::duration(ttl).as_deref())?;
        }
        Ok(())
    }

    /// The ends of the sstable; they are left out where it cannot be opened.
    async fn tokens(
        &mut self,
        env: &Env,
        descriptor: &Descriptor,
        statistics: &Statistics,
    ) -> Result<(), ToolError> {
        if statistics.partitioner != storage::sstable::PARTITIONER {
            return Ok(());
        }
        if let Ok((table, sstable)) = files::open(env, descriptor).await {
            for (name, key) in [
                ("First token", sstable.first_key()),
                ("Last token", sstable.last_key()),
            ] {
                let text = key_text(&table, key);
                self.field(name, &key.token().0.to_string(), Some(&text))?;
            }
        }
        Ok(())
    }

    fn content(
        &mut self,
        (statistics, version): (&Statistics, Version),
        gc_before: i64,
    ) -> Result<(), ToolError> {
        let stats = &statistics.stats;
        let covered = covered(stats.covered.as_ref(), &statistics.header, version);
        self.field("Covered clusterings", &covered, None)?;
        let droppable = java::double(stats.droppable_tombstone_ratio(gc_before));
        self.field("Estimated droppable tombstones", &droppable, None)?;
        self.field("SSTable Level", &stats.level.to_string(), None)?;
        let repaired = java::date(stats.repaired_at / 1000);
        self.field(
            "Repaired at",
            &stats.repaired_at.to_string(),
            repaired.as_deref(),
        )?;
        for (name, id) in [
            ("Originating host id", stats.originating_host),
            ("Pending repair", stats.pending_repair),
        ] {
            let id = id.map_or_else(|| "--".to_owned(), |id| id.to_string());
            self.field(name, &id, None)?;
        }
        let place = |position: &storage::sstable::CommitLogPosition| {
            let storage::sstable::CommitLogPosition { segment, position } = position;
            format!("CommitLogPosition(segmentId={segment}, position={position})")
        };
        let intervals = stats.commit_log_intervals.iter();
        let intervals: Vec<String> = intervals
            .map(|(start, end)| format!("{}={}", place(start), place(end)))
            .collect();
        let intervals = format!("{{{}}}", intervals.join(", "));
        self.field("Replay positions covered", &intervals, None)?;
        self.field("totalColumnsSet", &stats.columns_set.to_string(), None)?;
        self.field("totalRows", &stats.rows.to_string(), None)
    }

    fn histograms(&mut self, stats: &Stats) -> Result<(), ToolError> {
        let style = self.style;
        let with_aside = move |value: i64, aside: Option<String>| {
            format!("{value} {}", style.aside(aside.as_deref()))
        };
        self.field("Estimated tombstone drop times", "", None)?;
        let times = stats.drop_times.bins();
        let times: Vec<(i64, i64)> = times
            .map(|(time, count)| (time, i64::try_from(count).unwrap_or(i64::MAX)))
            .collect();
        let name = |time| with_aside(time, java::date(time));
        self.output.write(&draw(&times, "Drop Time", name, style))?;
        self.field("Partition Size", "", None)?;
        let sizes: Vec<(i64, i64)> = stats.partition_sizes.bins().collect();
        let name = |size| with_aside(size, java::bytes(size));
        self.output
            .write(&draw(&sizes, "Size (bytes)", name, style))?;
        self.field("Column Count", "", None)?;
        let cells: Vec<(i64, i64)> = stats.cells_per_partition.bins().collect();
        self.output
            .write(&draw(&cells, "Columns", |count| count.to_string(), style))?;
        let coverage = stats.token_space_coverage;
        let coverage = coverage.map_or_else(|| "NaN".to_owned(), java::double);
        self.field("Local token space coverage", &coverage, None)
    }

    fn header(&mut self, statistics: &Statistics) -> Result<(), ToolError> {
        let header = &statistics.header;
        let encoding = &header.encoding;
        let ttl = java::duration(encoding.min_ttl);
        self.field(
            "EncodingStats minTTL",
            &encoding.min_ttl.to_string(),
            ttl.as_deref(),
        )?;
        let local = i64::from(encoding.min_local_deletion_time);
        let name = "EncodingStats minLocalDeletionTime";
        self.maybe(name, java::date(local), &local.to_string())?;
        let timestamp = encoding.min_timestamp;
        let date = java::date_of_micros(timestamp);
        self.maybe("EncodingStats minTimestamp", date, &timestamp.to_string())?;
        self.field("KeyType", &header.key_type, None)?;
        let types: Vec<String> = header
            .clustering
            .iter()
            .map(|(ty, order)| clustering_class(ty, *order))
            .collect();
        self.field("ClusteringTypes", &format!("[{}]", types.join(", ")), None)?;
        self.field("StaticColumns", &columns(&header.statics), None)?;
        self.field("RegularColumns", &columns(&header.regulars), None)?;
        let transient = statistics.stats.is_transient.to_string();
        self.field("IsTransient", &transient, None)
    }
}

fn clustering_class(ty: &CqlType, order: Order) -> String {
    match order {
        Order::Ascending => ty.to_marshal(),
        Order::Descending => format!(
            "org.apache.cassandra.db.marshal.ReversedType({})",
            ty.to_marshal()
        ),
    }
}

fn columns(columns: &[HeaderColumn]) -> String {
    let entries = columns.iter().map(|c| (c.name.clone(), c.ty.to_marshal()));
    let texts: Vec<String> = java::hash_order(entries.collect())
        .into_iter()
        .map(|(name, ty)| format!("{name}:{ty}"))
        .collect();
    texts.join(", ")
}

/// `Slice.toString`.
fn covered(slice: Option<&Slice>, header: &SerializationHeader, version: Version) -> String {
    let all = Slice::ALL;
    let Slice { start, end } = slice.unwrap_or(&all);
    // Since `oa` a slice is kept, and what was everything is read as one without ends.
    if version < Version::Oa && [start, end].iter().all(|bound| bound.prefix.0.is_empty()) {
        return "ALL".to_owned();
    }
    let values = |bound: &Bound| {
        let types = header.clustering.iter().map(|(ty, _)| ty);
        let texts: Vec<String> = types
            .zip(&bound.prefix.0)
            .map(|(ty, value)| ty.format_string(value))
            .collect();
        texts.join(":")
    };
    let open = if start.kind == BoundKind::InclusiveStart {
        "["
    } else {
        "("
    };
    let close = if end.kind == BoundKind::InclusiveEnd {
        "]"
    } else {
        ")"
    };
    format!("{open}{}, {}{close}", values(start), values(end))
}
