//! What a run came to: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::cpu::{self, Usage};
use crate::measurement::{Counts, Latency};
use crate::options::{Common, TableName, name_of};
use crate::table::ROWS_OF_A_PARTITION;

/// All figures of a run. Times are in seconds, latencies in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    setting: Setting,
    client_threads_cores: usize,
    seconds: f64,
    operations: u64,
    ops_per_second: f64,
    /// Operations that were due but not done when the time was up (with a rate).
    behind: u64,
    errors: BTreeMap<String, u64>,
    missing: u64,
    latency: Latency,
    latency_by_kind: BTreeMap<&'static str, Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_since_begun: Option<Latency>,
    server_cpu: Option<ServerCpu>,
    client_cpu: Usage,
    /// The share of its cores that the client used.
    client_load: f64,
    /// The share of the machine's time in which a hypervisor let it wait: what waited then waited for that.
    stolen: f64,
    /// What came of each stretch of the time.
    intervals: Vec<Interval>,
}

/// What was measured, and with which options.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) workload: String,
    /// None where operations are no requests.
    #[serde(flatten)]
    pub(crate) requests: Option<Requests>,
    pub(crate) hosts: Vec<String>,
    /// Operations in flight, at most.
    pub(crate) threads: usize,
    /// Operations a second that were asked for; none: as many as possible.
    pub(crate) rate: Option<u64>,
}

/// What requests are about.
#[derive(Debug, Serialize)]
pub(crate) struct Requests {
    table: String,
    /// Rows of a partition that is read, or points that are written, for an operation.
    items_per_operation: u64,
    consistency: String,
    routing: String,
    client: String,
    records: u64,
}

impl Setting {
    /// Of a workload's requests.
    pub(crate) fn of_requests(workload: &str, options: &Common) -> Setting {
        Setting {
            workload: workload.to_owned(),
            requests: Some(Requests {
                table: options.table.name(),
                items_per_operation: match options.table {
                    TableName::Records => 1,
                    TableName::Partitions => ROWS_OF_A_PARTITION as u64,
                    TableName::Metrics => options.points as u64,
                },
                consistency: name_of(options.consistency).to_owned(),
                routing: options.routing.name(),
                client: options.client.name(),
                records: options.records,
            }),
            hosts: options.nodes.hosts.clone(),
            threads: options.threads,
            rate: options.rate,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Duration,
    /// Operations that were due in this time; 0 without a rate.
    pub(crate) due: u64,
    pub(crate) counts: Counts,
    /// Latencies from when each was begun, not due, if they were taken.
    pub(crate) since_begun: Option<Latency>,
    /// CPU time of the server, if its processes are known, and of the client.
    pub(crate) usage: (Option<Usage>, Usage),
    /// The share of the machine's time in which a hypervisor let it wait.
    pub(crate) stolen: f64,
    pub(crate) intervals: Vec<Interval>,
}

/// What came of a stretch of time, which ended at `at` of what is measured.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    at: f64,
    /// In seconds since 1970, so that it can be laid beside what others note.
    ended: f64,
    ops_per_second: f64,
    errors: u64,
    latency: Latency,
    stolen: f64,
}

impl Interval {
    /// That ends now; `stolen` of the machine's time (see [`Report`]).
    pub(crate) fn new(at: Duration, length: Duration, counts: &Counts, stolen: f64) -> Interval {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Interval {
            at: at.as_secs_f64(),
            ended: since_1970.unwrap_or_default().as_secs_f64(),
            ops_per_second: counts.operations() as f64 / length.as_secs_f64().max(1e-9),
            errors: counts.failed(),
            latency: counts.all(),
            stolen,
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
    pub(crate) fn new(setting: Setting, outcome: Outcome) -> Report {
        let counts = &outcome.counts;
        let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
        let operations = counts.operations();
        let cores = cpu::cores();
        let per_operation = |cpu: f64| cpu * 1e6 / operations.max(1) as f64;
        let (server, client) = outcome.usage;
        Report {
            setting,
            client_threads_cores: cores,
            seconds,
            operations,
            ops_per_second: operations as f64 / seconds,
            behind: outcome.due.saturating_sub(operations + counts.failed()),
            errors: counts.errors.clone(),
            missing: counts.missing,
            latency: counts.all(),
            latency_by_kind: counts.by_kind(),
            latency_since_begun: outcome.since_begun,
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
            stolen: outcome.stolen,
            intervals: outcome.intervals,
        }
    }

    /// Prints it for people, and writes all figures to `out`, if it is given.
    pub(crate) fn publish(&self, out: Option<&Path>) -> Result<(), String> {
        print(self, &mut io::stdout()).map_err(|error| error.to_string())?;
        out.map_or(Ok(()), |path| self.write(path))
    }

    /// Writes all figures as JSON.
    fn write(&self, path: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, json + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Writes a report for people.
fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let requests = report.setting.requests.as_ref();
    let level = requests.map(|requests| format!(" at {}", requests.consistency));
    writeln!(
        out,
        "\n{}: {} operations in {:.1} s{}, {} in flight",
        report.setting.workload,
        grouped(report.operations),
        report.seconds,
        level.unwrap_or_default(),
        report.setting.threads
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
    let since_begun = report.latency_since_begun.as_ref();
    let since_begun = since_begun.map(|latency| ("  since begun", latency));
    for (name, latency) in by_kind.chain(all).chain(since_begun) {
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
    if report.stolen > 0.005 {
        writeln!(
            out,
            "note: a hypervisor let the machine wait for {:.1} % of the time: latencies are of that, too",
            report.stolen * 100.0
        )?;
    }
    if report.client_load > 0.9 {
        writeln!(
            out,
            "note: the client was busy all the time: the server may be faster"
        )?;
    }
    // What was due in the last moment may well be on its way.
    if let Some(rate) = report.setting.rate
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
