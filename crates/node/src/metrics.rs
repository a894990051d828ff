//! What a shard counts. Each value has one writer, its shard; the HTTP thread reads them, so they
//! are atomics that are never contended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cluster::Consistency;
use wire::internode::Verb;

/// A number that its shard alone changes and anybody may read.
#[derive(Debug, Default)]
pub struct Value(AtomicU64);

impl Value {
    /// Adds `n`. Only the owning shard calls this: a plain add, no locked instruction.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes `n` away (gauges).
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// Replaces the value (gauges).
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the buckets of a latency histogram, in microseconds: four to a doubling from
/// 5 µs to a minute, which keeps every quantile within 25 % of the truth.
pub fn bucket_bounds_micros() -> impl Iterator<Item = u64> {
    (0..LatencyHistogram::BUCKETS - 1).map(upper_bound)
}

fn upper_bound(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / 4, bucket % 4);
    (1u64 << octave) * (5 + quarter as u64)
}

/// Counts of latencies by logarithmic bucket.
#[derive(Debug)]
pub struct LatencyHistogram {
    buckets: [Value; Self::BUCKETS],
    sum_micros: Value,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram {
            buckets: std::array::from_fn(|_| Value::default()),
            sum_micros: Value::default(),
        }
    }
}

impl LatencyHistogram {
    /// The last bucket holds all above the highest bound.
    const BUCKETS: usize = 97;

    /// Counts one latency.
    pub fn record(&self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Counts a latency that so many had.
    pub(crate) fn record_many(&self, latency: Duration, times: u64) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.buckets[Self::bucket_of(micros)].add(times);
        self.sum_micros.add(micros.saturating_mul(times));
    }

    /// The first bucket whose bound is not below `micros`.
    fn bucket_of(micros: u64) -> usize {
        if micros <= upper_bound(0) {
            return 0;
        }
        // The bounds of octave k lie above 2^(k+2) and up to 2^(k+3).
        let octave = (u64::BITS - 3 - (micros - 1).leading_zeros()) as usize;
        let quarter = ((micros - 1) >> octave) as usize - 4;
        (octave * 4 + quarter).min(Self::BUCKETS - 1)
    }

    /// The counts, one a bucket in the order of [`bucket_bounds_micros`], then those above all.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Value::get)
    }

    /// The sum of all latencies, in microseconds.
    pub fn sum_micros(&self) -> u64 {
        self.sum_micros.get()
    }
}

/// The kinds of request that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// SELECT of partitions.
    Read,
    /// SELECT of a range.
    Range,
    /// SELECT at SERIAL or LOCAL_SERIAL.
    SerialRead,
    /// INSERT, UPDATE, DELETE.
    Write,
    /// INSERT, UPDATE, DELETE and BATCH on conditions.
    Conditional,
    /// BATCH.
    Batch,
    /// PREPARE.
    Prepare,
    /// Schema changes and TRUNCATE.
    Schema,
    /// All else: OPTIONS, STARTUP, USE, REGISTER, DESCRIBE.
    Other,
}

impl RequestKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [RequestKind; 9] = [
        RequestKind::Read,
        RequestKind::Range,
        RequestKind::SerialRead,
        RequestKind::Write,
        RequestKind::Conditional,
        RequestKind::Batch,
        RequestKind::Prepare,
        RequestKind::Schema,
        RequestKind::Other,
    ];

    /// The kind of a SELECT.
    pub(crate) fn of_read(is_range: bool, consistency: Consistency) -> RequestKind {
        match (consistency.is_serial(), is_range) {
            (true, _) => RequestKind::SerialRead,
            (false, true) => RequestKind::Range,
            (false, false) => RequestKind::Read,
        }
    }

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Range => "range",
            RequestKind::SerialRead => "cas_read",
            RequestKind::Write => "write",
            RequestKind::Conditional => "cas_write",
            RequestKind::Batch => "batch",
            RequestKind::Prepare => "prepare",
            RequestKind::Schema => "schema",
            RequestKind::Other => "other",
        }
    }
}

/// Error codes of the native protocol that are counted one by one.
pub const ERROR_CODES: [u32; 17] = [
    0x0000, 0x000A, 0x0100, 0x1000, 0x1001, 0x1002, 0x1003, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500,
    0x2000, 0x2100, 0x2200, 0x2300, 0x2400,
];

/// Everything one shard counts about requests and connections.
#[derive(Debug, Default)]
pub struct ShardMetrics {
    latencies: [LatencyHistogram; RequestKind::ALL.len()],
    errors: [Value; ERROR_CODES.len()],
    unprepared: Value,
    /// Bytes received from clients.
    pub bytes_in: Value,
    /// Bytes sent to clients.
    pub bytes_out: Value,
    /// Connections open now.
    pub connections: Value,
    /// Connections ever accepted.
    pub connections_accepted: Value,
    /// Requests being worked on now.
    pub in_flight: Value,
    /// Commands this shard sent to another one.
    pub hops: Value,
    /// Requests of other nodes that came too late for who asked, and were not begun; and those to other nodes
    /// that had waited too long to be sent.
    pub late_messages: Value,
    /// The same by what was asked for, in the order of [`Verb::ALL`].
    late_by_verb: [Value; Verb::ALL.len()],
    /// Requests to other nodes that were refused at once, as too much waited to be sent.
    pub shed_messages: Value,
    /// Connections to other nodes that broke.
    pub lost_connections: Value,
    /// Traces that were not written, or not whole.
    pub lost_traces: Value,
    /// Writes that a replica on another node, or this one, did not take.
    pub missed_writes: Value,
    /// Hints that were kept for nodes that missed a write.
    pub hints_kept: Value,
    /// Hints that were not: the node has been down for too long, or too much waited for the drive.
    pub hints_dropped: Value,
    /// Reads that asked one more replica, as the others were slow.
    pub speculative_reads: Value,
    /// Reads whose replicas did not know the same.
    pub mismatched_reads: Value,
    /// What replicas lacked and were sent for a read.
    pub read_repairs: Value,
    /// Rounds of conditional updates that others kept from their end, and that were begun anew.
    pub contended_updates: Value,
    /// The same of reads at SERIAL.
    pub contended_reads: Value,
    /// Logged batches of several partitions that clients had written.
    pub logged_batches: Value,
    /// Logged batches that whoever coordinated them did not see to, and that were completed here.
    pub replayed_batches: Value,
    /// Logged batches that are kept here now, for whoever coordinates them.
    pub held_batches: Value,
    /// Prepared statements in the cache now.
    pub prepared_statements: Value,
    /// Prepared statements that made room for others.
    pub prepared_evicted: Value,
    /// Executions of prepared statements.
    pub prepared_executed: Value,
    /// Executions of statements given as text.
    pub text_executed: Value,
}

impl ShardMetrics {
    /// The latencies of one kind of request.
    pub fn latency(&self, kind: RequestKind) -> &LatencyHistogram {
        &self.latencies[kind as usize]
    }

    /// Counts a message between nodes that came too late.
    pub fn count_late(&self, verb: Option<Verb>) {
        self.late_messages.add(1);
        if let Some(at) = verb.and_then(|verb| Verb::ALL.iter().position(|v| *v == verb)) {
            self.late_by_verb[at].add(1);
        }
    }

    /// Messages between nodes that came too late, by what they asked for.
    pub fn late(&self) -> impl Iterator<Item = (Verb, u64)> {
        let counts = self.late_by_verb.iter().map(Value::get);
        Verb::ALL.into_iter().zip(counts)
    }

    /// Counts an ERROR response.
    pub fn count_error(&self, code: u32) {
        match ERROR_CODES.iter().position(|c| *c == code) {
            Some(at) => self.errors[at].add(1),
            None => self.unprepared.add(1),
        }
    }

    /// Error responses so far, by code; UNPREPARED (0x2500) last.
    pub fn errors(&self) -> impl Iterator<Item = (u32, u64)> {
        ERROR_CODES
            .iter()
            .copied()
            .zip(self.errors.iter().map(Value::get))
            .chain(std::iter::once((0x2500, self.unprepared.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_falls_into_the_first_bucket_that_holds_it() {
        let bounds: Vec<u64> = bucket_bounds_micros().collect();
        assert!(bounds.is_sorted());
        for micros in (0..5_000).chain([59_000_000, 90_000_000, u64::MAX]) {
            let expected = bounds
                .iter()
                .position(|b| micros <= *b)
                .unwrap_or(bounds.len());
            assert_eq!(LatencyHistogram::bucket_of(micros), expected, "{micros} µs");
        }
    }
}
