//! Latencies of the last minutes (`DecayingEstimatedHistogramReservoir`).

use std::time::Duration;

use io::Instant;

/// Buckets: four to a doubling, from a microsecond to more than an hour.
const BUCKETS: usize = 128;
/// In this time what was counted comes to weigh half.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// After so many half lives nothing is left.
const GONE: u32 = 32;

/// Counts of latencies that fade.
pub(super) struct Latencies {
    counts: [u32; BUCKETS],
    faded: Option<Instant>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            counts: [0; BUCKETS],
            faded: None,
        }
    }
}

impl Latencies {
    /// Counts one.
    pub(super) fn add(&mut self, latency: Duration, now: Instant) {
        self.fade(now);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let count = &mut self.counts[bucket_of(micros)];
        *count = count.saturating_add(1);
    }

    /// The latency that this part of all do not exceed, to a quarter; `None` if there are none.
    pub(super) fn percentile(&mut self, part: f64, now: Instant) -> Option<Duration> {
        self.fade(now);
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * part).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        found.map(|bucket| Duration::from_micros(upper_bound(bucket)))
    }

    fn fade(&mut self, now: Instant) {
        let since = *self.faded.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        let half_lives = (passed.as_nanos() / HALF_LIFE.as_nanos()).min(u128::from(GONE)) as u32;
        if half_lives > 0 {
            for count in &mut self.counts {
                *count = count.checked_shr(half_lives).unwrap_or(0);
            }
            self.faded = Some(now);
        }
    }
}

/// The first bucket whose bound is not below `micros`.
fn bucket_of(micros: u64) -> usize {
    let (mut low, mut high) = (0, BUCKETS - 1);
    while low < high {
        let middle = (low + high) / 2;
        match upper_bound(middle) < micros {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

fn upper_bound(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    (1u64 << octave) * (4 + quarter) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_and_fade() {
        let mut latencies = Latencies::default();
        let begin = Instant::from_nanos(0);
        assert_eq!(latencies.percentile(0.5, begin), None);
        for n in 1..=1000u64 {
            latencies.add(Duration::from_micros(n * 10), begin);
        }
        for (part, micros) in [(0.5, 5000u64), (0.9, 9000), (0.99, 9900), (0.001, 10)] {
            let found = latencies.percentile(part, begin).expect("there are some");
            let near = Duration::from_micros(micros)..=Duration::from_micros(micros * 5 / 4);
            assert!(near.contains(&found), "{part}: {found:?}");
        }
        let later = begin + 10 * HALF_LIFE;
        for _ in 0..5 {
            latencies.add(Duration::from_micros(7), later);
        }
        let found = latencies.percentile(0.9, later);
        assert_eq!(found, Some(Duration::from_micros(7)));
        let much_later = later + 100 * HALF_LIFE;
        assert_eq!(latencies.percentile(0.9, much_later), None);
    }

    #[test]
    fn every_latency_has_a_bucket() {
        for micros in [0, 1, 2, 3, 1000, 5_000_000, u64::MAX] {
            let bucket = bucket_of(micros);
            assert!(bucket < BUCKETS);
            assert!(bucket == BUCKETS - 1 || upper_bound(bucket) >= micros);
        }
    }
}
