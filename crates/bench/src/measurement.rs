//! What is measured: latencies by kind of operation, errors, and what was not found.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies are kept in nanoseconds, from one microsecond to two minutes, to three digits.
const LOWEST: u64 = 1_000;
const HIGHEST: u64 = 120_000_000_000;
const DIGITS: u8 = 3;

/// What happened in some stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Of each kind of operation, by its name.
    latencies: BTreeMap<&'static str, Histogram<u64>>,
    /// How often each error came.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Reads that found no record.
    pub(crate) missing: u64,
}

impl Counts {
    pub(crate) fn new() -> Counts {
        Counts {
            latencies: BTreeMap::new(),
            errors: BTreeMap::new(),
            missing: 0,
        }
    }

    fn record(&mut self, kind: &'static str, latency: Duration) {
        let nanoseconds = latency.as_nanos().min(u128::from(HIGHEST)) as u64;
        let latencies = self.latencies.entry(kind).or_insert_with(histogram);
        latencies.saturating_record(nanoseconds.max(LOWEST));
    }

    /// Adds what happened elsewhere, or later.
    pub(crate) fn add(&mut self, other: &Counts) {
        for (kind, more) in &other.latencies {
            let all = self.latencies.entry(kind).or_insert_with(histogram);
            all.add(more).expect("all have the same bounds");
        }
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
        self.missing += other.missing;
    }

    fn clear(&mut self) {
        self.latencies.values_mut().for_each(Histogram::reset);
        self.errors.clear();
        self.missing = 0;
    }

    /// Operations that were answered without an error.
    pub(crate) fn operations(&self) -> u64 {
        self.latencies.values().map(Histogram::len).sum()
    }

    /// Operations that ended with an error.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The latencies of all kinds together.
    pub(crate) fn all(&self) -> Latency {
        let mut all = histogram();
        for more in self.latencies.values() {
            all.add(more).expect("all have the same bounds");
        }
        Latency::of(&all)
    }

    /// The latencies of each kind that came up.
    pub(crate) fn by_kind(&self) -> BTreeMap<&'static str, Latency> {
        self.latencies
            .iter()
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(kind, histogram)| (*kind, Latency::of(histogram)))
            .collect()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST, HIGHEST, DIGITS).expect("the bounds are in order")
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) operations: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let empty = histogram.is_empty();
        Latency {
            operations: histogram.len(),
            mean: if empty { 0.0 } else { histogram.mean() / 1e3 },
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

/// Where the workers of one client thread put what they measure. The lock is theirs alone but
/// for the moment, each second, in which it is read.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: Mutex<Counts>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder {
            counts: Mutex::new(Counts::new()),
        }
    }

    /// An operation of this kind was answered after `latency`; was there what it asked for?
    pub(crate) fn succeeded(&self, kind: &'static str, latency: Duration, found: bool) {
        let mut counts = self.counts.lock().expect("nobody panics while holding it");
        counts.record(kind, latency);
        counts.missing += u64::from(!found);
    }

    /// An operation ended with this error.
    pub(crate) fn failed(&self, error: String) {
        let mut counts = self.counts.lock().expect("nobody panics while holding it");
        // Texts may differ each time; their number must not grow without end.
        let known = counts.errors.contains_key(&error) || counts.errors.len() < 20;
        let name = if known { error } else { "others".to_owned() };
        *counts.errors.entry(name).or_default() += 1;
    }

    /// Moves what was measured since the last time over to `into`.
    pub(crate) fn drain(&self, into: &mut Counts) {
        let mut counts = self.counts.lock().expect("nobody panics while holding it");
        into.add(&counts);
        counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_percentiles() {
        let recorder = Recorder::new();
        for micros in 1..=1000u64 {
            recorder.succeeded("read", Duration::from_micros(micros), micros != 7);
        }
        recorder.succeeded("update", Duration::from_secs(1000), true);
        for i in 0..30 {
            recorder.failed(format!("error {i}"));
        }
        let mut counts = Counts::new();
        recorder.drain(&mut counts);
        assert_eq!(counts.operations(), 1001);
        assert_eq!((counts.missing, counts.failed()), (1, 30));
        assert_eq!(counts.errors["others"], 10);

        let reads = counts.by_kind()["read"];
        assert!((reads.p50 - 500.0).abs() < 1.0, "{reads:?}");
        assert!((reads.p99 - 990.0).abs() < 2.0, "{reads:?}");
        assert_eq!(counts.all().operations, 1001);
        assert!(counts.all().max >= 120e6);

        let mut rest = Counts::new();
        recorder.drain(&mut rest);
        assert_eq!(rest.operations(), 0);
    }
}
