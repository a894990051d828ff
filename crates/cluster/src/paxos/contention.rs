//! How long to wait after another round came in the way (`ContentionStrategy`, with its default
//! parameters).

use std::time::Duration;

/// How long conditional updates and serial reads took of late: the longer of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The median.
    pub p50: Duration,
    /// Of 100, 95 were faster.
    pub p95: Duration,
}

/// `random=qexp(1.5)`.
const POWER: f64 = 1.5;
/// `max=10ms <= p95(rw)*1.8^attempts <= 100ms`.
const BASE: f64 = 1.8;
const LEAST_MAX: f64 = 0.010;
const MOST_MAX: f64 = 0.100;
/// `min=0 <= p50(rw)*0.66`.
const MIN: f64 = 0.66;
/// `delta=5ms <= p50(rw)*0.5`.
const DELTA: f64 = 0.5;
const LEAST_DELTA: f64 = 0.005;

/// The pause before the next attempt, after so many failed. The more failed, the longer the longest
/// pause is; it is cut into as many parts as attempts have failed, of which the later ones are
/// drawn more often, so that old operations do not starve.
pub(super) fn pause(failed: u32, latencies: Latencies, random: u64) -> Duration {
    let (min, max) = bounds(failed, latencies);
    // Two numbers from 0 to below 1.
    let fraction = |bits: u64| (bits & 0xffff_ffff) as f64 / (1u64 << 32) as f64;
    let (which, within) = (fraction(random >> 32), fraction(random));
    let parts = f64::from(failed.max(1));
    let part = (parts * which.powf(POWER)).floor();
    Duration::from_secs_f64((max - (max - min) / parts * (part + within)).max(min))
}

/// In seconds; the first is not above the second, and neither is above [`MOST_MAX`].
fn bounds(failed: u32, latencies: Latencies) -> (f64, f64) {
    let p50 = latencies.p50.as_secs_f64();
    let min = p50 * MIN;
    let delta = (p50 * DELTA).max(LEAST_DELTA);
    // Any pause has reached its most long before 64.
    let growth = BASE.powf(f64::from(failed.min(64)));
    let max = (latencies.p95.as_secs_f64() * growth).clamp(LEAST_MAX, MOST_MAX);
    if min + delta <= max {
        (min, max)
    } else if min + delta <= MOST_MAX {
        (min, min + delta)
    } else {
        ((MOST_MAX - delta).max(0.0), MOST_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latencies(p50: u64, p95: u64) -> Latencies {
        Latencies {
            p50: Duration::from_millis(p50),
            p95: Duration::from_millis(p95),
        }
    }

    fn close(found: (f64, f64), expected: (f64, f64)) -> bool {
        (found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9
    }

    #[test]
    fn bounds_are_cassandras() {
        // Nothing is known yet.
        assert!(close(bounds(1, latencies(0, 0)), (0.0, 0.010)));
        assert!(close(bounds(3, latencies(0, 0)), (0.0, 0.010)));
        assert!(close(bounds(1, latencies(5, 10)), (0.0033, 0.018)));
        assert!(close(bounds(2, latencies(5, 10)), (0.0033, 0.0324)));
        assert!(close(bounds(9, latencies(5, 10)), (0.0033, 0.100)));
        // The longest pause gives way to the gap, then the shortest one.
        assert!(close(bounds(1, latencies(20, 5)), (0.0132, 0.0232)));
        assert!(close(bounds(1, latencies(100, 100)), (0.050, 0.100)));
        assert!(close(bounds(1, latencies(1_000, 1_000)), (0.0, 0.100)));
    }

    #[test]
    fn later_parts_are_drawn_more_often() {
        let random = |which: u64, within: u64| which << 32 | within;
        let some = latencies(5, 1_000);
        let (min, max) = bounds(4, some);
        let part = Duration::from_secs_f64((max - min) / 4.0);
        assert_eq!(pause(4, some, 0), Duration::from_secs_f64(max));
        // The first part is drawn by (1/4)^(1/1.5), nearly 40 of 100 numbers.
        let late = pause(4, some, random(u64::from(u32::MAX) / 100 * 39, 0));
        assert!(late > Duration::from_secs_f64(max) - part);
        let earlier = pause(4, some, random(u64::from(u32::MAX) / 100 * 40, 0));
        assert!(earlier <= Duration::from_secs_f64(max) - part);
    }

    proptest! {
        #[test]
        fn a_pause_lies_between_its_bounds(
            failed in any::<u32>(),
            p50 in 0u64..100_000,
            p95 in 0u64..100_000,
            random in any::<u64>(),
        ) {
            let latencies = latencies(p50, p95);
            let (min, max) = bounds(failed, latencies);
            prop_assert!(0.0 <= min && min <= max && max <= MOST_MAX);
            let pause = pause(failed, latencies, random).as_secs_f64();
            prop_assert!(min - 1e-9 <= pause && pause <= max + 1e-9);
        }
    }
}
