//! What `/metrics` shows, in the text format of OpenMetrics.

mod catalog;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use io::GroupStats;
use node::ShardSnapshot;
use node::metrics::{RequestKind, bucket_bounds_micros};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use storage::TableStats;

use catalog::{
    GROUP_METRICS, Metric, PROCESS_GAUGES, REQUEST_COUNTERS, REQUEST_GAUGES, STORE_COUNTERS,
    STORE_GAUGES, TABLE_COUNTERS, TABLE_GAUGES,
};

type Reporter = Box<dyn Fn() -> Vec<ShardSnapshot> + Send + Sync>;

/// Where metrics come from: nowhere, until there is a node.
#[derive(Default)]
pub(crate) struct MetricsSource(OnceLock<Reporter>);

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetricsSource(connected: {})", self.0.get().is_some())
    }
}

impl MetricsSource {
    /// From now on metrics come from here; only the first call counts.
    pub(crate) fn connect(
        &self,
        reporter: impl Fn() -> Vec<ShardSnapshot> + Send + Sync + 'static,
    ) {
        // There is one node in a process, so nothing is lost.
        let _ = self.0.set(Box::new(reporter));
    }

    /// All metrics as text.
    pub(crate) fn encode(&self) -> Result<String, fmt::Error> {
        let shards = self.0.get().map(|reporter| reporter()).unwrap_or_default();
        let mut registry = Registry::with_prefix("helenus");
        registry.register_collector(Box::new(Reports { shards }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The reports of one moment.
#[derive(Debug)]
struct Reports {
    shards: Vec<ShardSnapshot>,
}

/// Tables get no label of the shard: a node with many of both would have too many series.
type ByTable<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a TableStats>>;

impl Collector for Reports {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        let mut family = family(encoder, "build", "The version", MetricType::Gauge)?;
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1i64).encode(family.encode_family(&labels)?)?;
        self.encode_latencies(encoder)?;
        self.encode_errors(encoder)?;
        self.encode_by_shard(encoder, MetricType::Counter, &REQUEST_COUNTERS, |s| {
            Some(&*s.requests)
        })?;
        self.encode_by_shard(encoder, MetricType::Gauge, &REQUEST_GAUGES, |s| {
            Some(&*s.requests)
        })?;
        self.encode_by_shard(encoder, MetricType::Counter, &STORE_COUNTERS, |s| {
            s.store.as_ref()
        })?;
        self.encode_by_shard(encoder, MetricType::Gauge, &STORE_GAUGES, |s| {
            s.store.as_ref()
        })?;
        self.encode_process(encoder)?;
        self.encode_log_latency(encoder)?;
        self.encode_groups(encoder)?;
        self.encode_tables(encoder)
    }
}

impl Reports {
    fn encode_by_shard<T>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        kind: MetricType,
        metrics: &[Metric<T>],
        of: impl Fn(&ShardSnapshot) -> Option<&T>,
    ) -> Result<(), fmt::Error> {
        for (name, help, value) in metrics {
            let mut family = family(encoder, name, help, kind)?;
            for shard in &self.shards {
                let Some(found) = of(shard) else { continue };
                let labels = [("shard", shard.shard.to_string())];
                put(family.encode_family(&labels)?, kind, value(found))?;
            }
        }
        Ok(())
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(process) = self.shards.iter().find_map(|shard| shard.process) else {
            return Ok(());
        };
        for (name, help, value) in PROCESS_GAUGES {
            let family = family(encoder, name, help, MetricType::Gauge)?;
            put(family, MetricType::Gauge, value(&process))?;
        }
        Ok(())
    }

    /// Every second bound of the buckets that shards count in, which halves the series; kinds of
    /// requests that never came are left out but for reads and writes.
    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let name = "request_duration_seconds";
        let help = "From the arrival of a request to its answer";
        let mut family = family(encoder, name, help, MetricType::Histogram)?;
        for shard in &self.shards {
            for kind in RequestKind::ALL {
                let histogram = shard.requests.latency(kind);
                let counts: Vec<u64> = histogram.counts().collect();
                let count = counts.iter().sum();
                if count == 0 && !matches!(kind, RequestKind::Read | RequestKind::Write) {
                    continue;
                }
                let bounds = bucket_bounds_micros().map(|micros| micros as f64 / 1e6);
                let bounds: Vec<f64> = bounds.chain([f64::INFINITY]).collect();
                let pairs: Vec<(f64, u64)> = bounds
                    .chunks(2)
                    .zip(counts.chunks(2))
                    .map(|(bounds, counts)| (bounds[bounds.len() - 1], counts.iter().sum()))
                    .collect();
                let labels = [
                    ("shard", shard.shard.to_string()),
                    ("kind", kind.label().to_owned()),
                ];
                let sum = histogram.sum_micros() as f64 / 1e6;
                let mut metric = family.encode_family(&labels)?;
                metric.encode_histogram::<[(&str, &str); 0]>(sum, count, &pairs, None)?;
            }
        }
        Ok(())
    }

    fn encode_errors(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = family(
            encoder,
            "errors",
            "ERROR responses by code",
            MetricType::Counter,
        )?;
        for shard in &self.shards {
            for (code, count) in shard.requests.errors() {
                let labels = [
                    ("shard", shard.shard.to_string()),
                    ("code", format!("0x{code:04x}")),
                ];
                put(family.encode_family(&labels)?, MetricType::Counter, count)?;
            }
        }
        Ok(())
    }

    fn encode_log_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let name = "commitlog_group_seconds";
        let help = "Time that groups took to be written and synced";
        let mut family = family(encoder, name, help, MetricType::Counter)?;
        for shard in &self.shards {
            let Some(store) = &shard.store else { continue };
            let labels = [("shard", shard.shard.to_string())];
            let seconds = store.commitlog.group_latency.sum.as_secs_f64();
            ConstCounter::new(seconds).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_groups(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let labels = |shard: &ShardSnapshot, group: &GroupStats| {
            let name = format!("{:?}", group.group).to_lowercase();
            [("shard", shard.shard.to_string()), ("group", name)]
        };
        let name = "task_run_seconds";
        let mut times = family(encoder, name, "Time that tasks ran", MetricType::Counter)?;
        for (shard, group) in self.groups() {
            let metric = ConstCounter::new(group.run_time.as_secs_f64());
            metric.encode(times.encode_family(&labels(shard, group))?)?;
        }
        for (kind, (name, help, value)) in GROUP_METRICS {
            let mut family = family(encoder, name, help, kind)?;
            for (shard, group) in self.groups() {
                put(
                    family.encode_family(&labels(shard, group))?,
                    kind,
                    value(group),
                )?;
            }
        }
        Ok(())
    }

    fn groups(&self) -> impl Iterator<Item = (&ShardSnapshot, &GroupStats)> {
        self.shards
            .iter()
            .flat_map(|shard| shard.groups.iter().map(move |group| (shard, group)))
    }

    fn encode_tables(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut tables = ByTable::new();
        for table in self
            .shards
            .iter()
            .filter_map(|s| s.store.as_ref())
            .flat_map(|s| &s.tables)
        {
            let name = (table.keyspace.as_str(), table.name.as_str());
            tables.entry(name).or_default().push(table);
        }
        encode_table_metrics(encoder, MetricType::Counter, &TABLE_COUNTERS, &tables)?;
        encode_table_metrics(encoder, MetricType::Gauge, &TABLE_GAUGES, &tables)
    }
}

fn encode_table_metrics(
    encoder: &mut DescriptorEncoder<'_>,
    kind: MetricType,
    metrics: &[Metric<TableStats>],
    tables: &ByTable<'_>,
) -> Result<(), fmt::Error> {
    for (name, help, value) in metrics {
        let mut family = family(encoder, name, help, kind)?;
        for ((keyspace, table), shards) in tables {
            let labels = [("keyspace", *keyspace), ("table", *table)];
            let sum = shards.iter().map(|stats| value(stats)).sum();
            put(family.encode_family(&labels)?, kind, sum)?;
        }
    }
    Ok(())
}

fn family<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, kind)
}

fn put(metric: MetricEncoder<'_>, kind: MetricType, value: u64) -> Result<(), fmt::Error> {
    match kind {
        MetricType::Counter => ConstCounter::new(value).encode(metric),
        _ => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn encoded(shards: Vec<ShardSnapshot>) -> String {
        let source = MetricsSource::default();
        source.connect(move || shards.clone());
        source.encode().expect("text")
    }

    fn report(shard: u16) -> ShardSnapshot {
        ShardSnapshot {
            shard,
            requests: Arc::default(),
            store: None,
            groups: vec![GroupStats {
                group: io::TaskGroup::Compaction,
                run_time: Duration::from_millis(1500),
                polls: 7,
                queued: 2,
                tasks: 3,
            }],
            task_panics: 0,
            process: (shard == 0).then_some(node::ProcessSnapshot {
                resident_bytes: 5 << 20,
                background_window: 256 << 10,
            }),
        }
    }

    #[test]
    fn without_a_node_there_is_only_the_version() {
        let text = MetricsSource::default().encode().expect("text");
        assert!(text.contains("helenus_build{version="));
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_the_process_has_is_said_once() {
        let text = encoded(vec![report(0), report(1)]);
        assert_eq!(
            text.matches("\nhelenus_resident_bytes 5242880\n").count(),
            1
        );
        assert_eq!(
            text.matches("\nhelenus_drive_background_window_bytes 262144\n")
                .count(),
            1
        );
    }

    #[test]
    fn requests_and_errors_are_counted_by_shard() {
        let one = report(0);
        one.requests
            .latency(RequestKind::Read)
            .record(Duration::from_micros(100));
        one.requests
            .latency(RequestKind::Read)
            .record(Duration::from_secs(1000));
        one.requests.count_error(0x2200);
        one.requests.bytes_in.add(42);
        let text = encoded(vec![one, report(1)]);
        for line in [
            "helenus_request_duration_seconds_count{shard=\"0\",kind=\"read\"} 2",
            "helenus_request_duration_seconds_count{shard=\"1\",kind=\"write\"} 0",
            "helenus_request_duration_seconds_bucket{le=\"+Inf\",shard=\"0\",kind=\"read\"} 2",
            "helenus_errors_total{shard=\"0\",code=\"0x2200\"} 1",
            "helenus_received_bytes_total{shard=\"0\"} 42",
            "helenus_task_run_seconds_total{shard=\"0\",group=\"compaction\"} 1.5",
            "helenus_task_queue{shard=\"1\",group=\"compaction\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        // Kinds that never came are left out.
        assert!(!text.contains("kind=\"batch\""));
    }
}
