//! When tombstones and expiring cells can be dropped: a histogram of bounded size whose nearest
//! bins melt together (`org.apache.cassandra.utils.streamhist`, after Ben-Haim and Tom-Tov, "A
//! streaming parallel decision tree algorithm").

use std::collections::BTreeMap;

use crate::sstable::error::DecodeError;
use crate::sstable::input::Input;

/// Local deletion times and how many things have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TombstoneHistogram {
    /// Seconds since 1970 and counts, by time.
    bins: BTreeMap<i64, u64>,
}

/// Bins of a finished histogram.
const MOST_BINS: usize = 100;
/// Distinct times that are kept before they are put into bins.
const SPOOL: usize = 100_000;
/// Times are rounded up to a minute.
const ROUND_SECONDS: i64 = 60;
/// The last time that is one (`Cell.MAX_DELETION_TIME`).
const MAX_DELETION_TIME: i64 = u32::MAX as i64 - 2;

impl TombstoneHistogram {
    /// How many of the things have a time not after `before`, interpolated
    /// (`TombstoneHistogram.sum`).
    pub fn sum(&self, before: i64) -> f64 {
        let mut sum = 0.0;
        let mut previous: Option<(i64, f64)> = None;
        for (point, count) in &self.bins {
            let count = *count as f64;
            if *point > before {
                let Some((previous_point, previous_count)) = previous else {
                    return 0.0;
                };
                let weight = (before - previous_point) as f64 / (*point - previous_point) as f64;
                let middle = previous_count + (count - previous_count) * weight;
                return sum - previous_count
                    + (previous_count + middle) * weight / 2.0
                    + previous_count / 2.0;
            }
            sum += count;
            previous = Some((*point, count));
        }
        sum
    }

    /// The times and their counts, by time.
    pub fn bins(&self) -> impl Iterator<Item = (i64, u64)> {
        self.bins.iter().map(|(point, count)| (*point, *count))
    }

    fn add(&mut self, point: i64, count: u64) {
        let bin = self.bins.entry(point).or_default();
        *bin = bin.saturating_add(count);
    }

    /// Melts the nearest bins until there are few enough.
    fn shrink(&mut self) {
        while self.bins.len() > MOST_BINS {
            let nearest = self
                .bins
                .keys()
                .zip(self.bins.keys().skip(1))
                .min_by_key(|(a, b)| *b - *a)
                .map(|(a, b)| (*a, *b));
            let Some((a, b)) = nearest else { return };
            let count_a = self.bins.remove(&a).unwrap_or(0);
            let count_b = self.bins.remove(&b).unwrap_or(0);
            let weighted =
                i128::from(a) * i128::from(count_a) + i128::from(b) * i128::from(count_b);
            let point = weighted / i128::from(count_a + count_b).max(1);
            self.add(round_up(point as i64), count_a + count_b);
        }
    }

    /// `unsigned`: as written since version `oa`.
    pub(super) fn encode(&self, out: &mut Vec<u8>, unsigned: bool) {
        let size = self.bins.len() as u32;
        out.extend(size.to_be_bytes());
        out.extend(size.to_be_bytes());
        for (point, count) in &self.bins {
            if unsigned {
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                out.extend(point.to_be_bytes());
                out.extend(count.to_be_bytes());
            } else {
                out.extend((*point as f64).to_be_bytes());
                out.extend(count.to_be_bytes());
            }
        }
    }

    /// `unsigned`: as written since version `oa`.
    pub(super) fn decode(
        input: &mut Input<'_>,
        unsigned: bool,
    ) -> Result<TombstoneHistogram, DecodeError> {
        let mut histogram = TombstoneHistogram::default();
        // How many bins it may have; nobody needs it.
        input.u32()?;
        if unsigned {
            for _ in 0..input.count(12)? {
                let point = input.i64()?;
                histogram.add(point.clamp(0, MAX_DELETION_TIME), input.u32()?.into());
            }
            return Ok(histogram);
        }
        for _ in 0..input.count(16)? {
            // A cast of a float saturates; what is no number becomes 0.
            let point = input.f64()? as i64;
            histogram.add(point.clamp(0, MAX_DELETION_TIME), input.u64()?);
        }
        Ok(histogram)
    }
}

fn round_up(point: i64) -> i64 {
    match point.rem_euclid(ROUND_SECONDS) {
        0 => point,
        rest => (point + ROUND_SECONDS - rest).min(MAX_DELETION_TIME),
    }
}

/// Collects times.
#[derive(Clone, Debug, Default)]
pub(crate) struct TombstoneHistogramBuilder {
    spool: BTreeMap<i64, u64>,
    histogram: TombstoneHistogram,
}

impl TombstoneHistogramBuilder {
    /// Counts one thing of this local deletion time.
    pub(crate) fn add(&mut self, local_deletion_time: u32) {
        let point = round_up(i64::from(local_deletion_time));
        if self.spool.len() >= SPOOL && !self.spool.contains_key(&point) {
            self.drain();
        }
        *self.spool.entry(point).or_default() += 1;
    }

    fn drain(&mut self) {
        for (point, count) in std::mem::take(&mut self.spool) {
            self.histogram.add(point, count);
            self.histogram.shrink();
        }
    }

    /// The histogram.
    pub(crate) fn finish(mut self) -> TombstoneHistogram {
        self.drain();
        self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_stays_small() {
        let mut builder = TombstoneHistogramBuilder::default();
        for i in 0..10_000u32 {
            builder.add(i * 60);
        }
        let histogram = builder.finish();
        assert_eq!(histogram.bins().count(), MOST_BINS);
        assert_eq!(histogram.sum(i64::from(u32::MAX)), 10_000.0);
        let half = histogram.sum(5_000 * 60);
        assert!((4_700.0..5_300.0).contains(&half), "{half}");
        assert_eq!(histogram.sum(-1), 0.0);
    }

    #[test]
    fn reads_as_written() {
        let mut builder = TombstoneHistogramBuilder::default();
        builder.add(1_700_000_001);
        builder.add(1_700_000_002);
        let histogram = builder.finish();
        assert_eq!(histogram.bins().collect::<Vec<_>>(), [(1_700_000_040, 2)]);
        for unsigned in [false, true] {
            let mut out = Vec::new();
            histogram.encode(&mut out, unsigned);
            let back = TombstoneHistogram::decode(&mut Input::new(&out), unsigned);
            assert_eq!(back, Ok(histogram.clone()));
        }
    }
}
