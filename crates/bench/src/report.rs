//! What a run came to: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::cpu::{self, Usage};
use crate::measurement::{Counts, Latency};
use crate::options::{Common, TableName, name_of};
use crate::table::ROWS_OF_A_PARTITION;

/// All figures of a run. Times are in seconds, latencies in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    workload: String,
    table: String,
    /// Rows of a partition that is read, or points that are written, for an operation.
    items_per_operation: u64,
    hosts: Vec<String>,
    consistency: String,
    records: u64,
    threads: usize,
    client_threads_cores: usize,
    /// Operations a second that were asked for; none: as many as possible.
    rate: Option<u64>,
    seconds: f64,
    operations: u64,
    ops_per_second: f64,
    /// Operations that were due but not done when the time was up (with a rate).
    behind: u64,
    errors: BTreeMap<String, u64>,
    missing: u64,
    latency: Latency,
    latency_by_kind: BTreeMap<&'static str, Latency>,
    server_cpu: Option<ServerCpu>,
    client_cpu: Usage,
    /// The share of its cores that the client used.
    client_load: f64,
    /// What came of each stretch of the time.
    intervals: Vec<Interval>,
}

/// What came of a stretch of time, which ended at `at`.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    at: f64,
    ops_per_second: f64,
    errors: u64,
    latency: Latency,
}

impl Interval {
    pub(crate) fn new(at: Duration, length: Duration, counts: &Counts) -> Interval {
        Interval {
            at: at.as_secs_f64(),
            ops_per_second: counts.operations() as f64 / length.as_secs_f64().max(1e-9),
            errors: counts.failed(),
            latency: counts.all(),
        }
    }
}

/// CPU time of the server.
#[derive(Debug, Serialize)]
struct ServerCpu {
    #[serde(flatten)]
    usage: Usage,
    /// Microseconds for an operation.
    micros_per_operation: f64,
    /// Cores that were busy on average.
    cores: f64,
    /// Microseconds for an operation, of the threads of each name.
    threads_micros_per_operation: BTreeMap<String, f64>,
}

impl Report {
    pub(crate) fn new(
        workload: &str,
        options: &Common,
        elapsed: Duration,
        counts: &Counts,
        (server, client): (Option<Usage>, Usage),
        intervals: Vec<Interval>,
    ) -> Report {
        let (operations, seconds) = (counts.operations(), elapsed.as_secs_f64().max(1e-9));
        let cores = cpu::cores();
        let per_operation = |cpu: f64| cpu * 1e6 / operations.max(1) as f64;
        let due = options
            .rate
            .map_or(0, |rate| (rate as f64 * seconds) as u64);
        Report {
            workload: workload.to_owned(),
            table: options.table.name(),
            items_per_operation: match options.table {
                TableName::Records => 1,
                TableName::Partitions => ROWS_OF_A_PARTITION as u64,
                TableName::Metrics => options.points as u64,
            },
            hosts: options.hosts.clone(),
            consistency: name_of(options.consistency).to_owned(),
            records: options.records,
            threads: options.threads,
            client_threads_cores: cores,
            rate: options.rate,
            seconds,
            operations,
            ops_per_second: operations as f64 / seconds,
            behind: due.saturating_sub(operations + counts.failed()),
            errors: counts.errors.clone(),
            missing: counts.missing,
            latency: counts.all(),
            latency_by_kind: counts.by_kind(),
            server_cpu: server.map(|usage| ServerCpu {
                micros_per_operation: per_operation(usage.seconds),
                cores: usage.seconds / seconds,
                threads_micros_per_operation: usage
                    .threads
                    .iter()
                    .map(|(name, seconds)| (name.clone(), per_operation(*seconds)))
                    .collect(),
                usage,
            }),
            client_load: client.seconds / seconds / cores as f64,
            client_cpu: client,
            intervals,
        }
    }

    /// Writes all figures as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Writes a report for people.
pub(crate) fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{}: {} operations in {:.1} s at {}, {} in flight",
        report.workload,
        grouped(report.operations),
        report.seconds,
        report.consistency,
        report.threads
    )?;
    writeln!(
        out,
        "{:<18} {:>12} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "latency in ms", "operations", "ops/s", "mean", "p50", "p90", "p99", "p99.9", "max"
    )?;
    let by_kind = report
        .latency_by_kind
        .iter()
        .map(|(name, latency)| (*name, latency));
    let all = (report.latency_by_kind.len() > 1).then_some(("all", &report.latency));
    for (name, latency) in by_kind.chain(all) {
        writeln!(
            out,
            "{:<18} {:>12} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            name,
            grouped(latency.operations),
            grouped((latency.operations as f64 / report.seconds) as u64),
            millis(latency.mean),
            millis(latency.p50),
            millis(latency.p90),
            millis(latency.p99),
            millis(latency.p999),
            millis(latency.max)
        )?;
    }
    if let Some(cpu) = &report.server_cpu {
        writeln!(
            out,
            "server: {:.1} µs CPU an operation, {:.2} cores",
            cpu.micros_per_operation, cpu.cores
        )?;
        let mut threads: Vec<_> = cpu.threads_micros_per_operation.iter().collect();
        threads.sort_by(|a, b| b.1.total_cmp(a.1));
        for (name, micros) in threads
            .iter()
            .take(8)
            .filter(|(_, micros)| **micros >= 0.05)
        {
            writeln!(out, "        {micros:>8.1} µs  {name}")?;
        }
    }
    writeln!(
        out,
        "client: {:.0} % of {} cores",
        report.client_load * 100.0,
        report.client_threads_cores
    )?;
    print_doubts(report, out)
}

/// What one must know before one believes the figures.
fn print_doubts(report: &Report, out: &mut impl Write) -> io::Result<()> {
    if report.client_load > 0.9 {
        writeln!(
            out,
            "note: the client was busy all the time: the server may be faster"
        )?;
    }
    // What was due in the last moment may well be on its way.
    if let Some(rate) = report.rate
        && report.behind as f64 > rate as f64 * (report.seconds * 0.01 + 0.1)
    {
        writeln!(
            out,
            "note: {} operations were due but not done: the server cannot keep up with {} ops/s",
            grouped(report.behind),
            grouped(rate)
        )?;
    }
    if report.missing > 0 {
        writeln!(
            out,
            "note: {} reads found no record",
            grouped(report.missing)
        )?;
    }
    for (error, count) in &report.errors {
        writeln!(out, "errors: {} x {error}", grouped(*count))?;
    }
    Ok(())
}

/// `1,234,567`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds as milliseconds, with three digits that count.
pub(crate) fn millis(micros: f64) -> String {
    let millis = micros / 1e3;
    let decimals = match millis {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        _ => 3,
    };
    format!("{millis:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(millis(123.4), "0.123");
        assert_eq!(millis(1_234.5), "1.23");
        assert_eq!(millis(12_345.0), "12.3");
        assert_eq!(millis(1_234_567.0), "1235");
    }
}
