//! Histogram with buckets that grow by a fifth (`org.apache.cassandra.utils.EstimatedHistogram`).

use crate::sstable::error::DecodeError;
use crate::sstable::input::Input;

/// Counts values by magnitude. Bucket `i` holds values up to `offsets[i]` and above
/// `offsets[i - 1]`; the last one holds what is larger than all offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatedHistogram {
    offsets: Vec<i64>,
    buckets: Vec<i64>,
}

/// More buckets than any histogram of Cassandra has.
const MOST_BUCKETS: usize = 4096;

impl EstimatedHistogram {
    /// An empty histogram with so many buckets and one for larger values.
    pub fn new(buckets: usize) -> EstimatedHistogram {
        let mut offsets = Vec::with_capacity(buckets);
        let mut last = 1i64;
        offsets.push(last);
        while offsets.len() < buckets {
            let next = (last as f64 * 1.2).round() as i64;
            last = next.max(last + 1);
            offsets.push(last);
        }
        let buckets = vec![0; offsets.len() + 1];
        EstimatedHistogram { offsets, buckets }
    }

    /// As [`EstimatedHistogram::new`], with a bucket for zeroes before the others.
    pub fn with_zeroes(buckets: usize) -> EstimatedHistogram {
        let mut histogram = EstimatedHistogram::new(buckets);
        histogram.offsets.insert(0, 0);
        histogram.buckets.push(0);
        histogram
    }

    /// Counts a value.
    pub fn add(&mut self, value: i64) {
        // The first offsets follow each other, and most values are small.
        let first = usize::try_from(value - self.offsets[0]).ok();
        let at = first.filter(|at| self.offsets.get(*at) == Some(&value));
        let at = at.unwrap_or_else(|| self.offsets.partition_point(|offset| *offset < value));
        self.buckets[at] += 1;
    }

    /// Counts a value so many times.
    pub fn add_many(&mut self, value: i64, count: i64) {
        let at = self.offsets.partition_point(|offset| *offset < value);
        self.buckets[at] = self.buckets[at].saturating_add(count);
    }

    /// The buckets that hold something: their largest value and how many they hold. What is larger
    /// than all buckets comes last, with the largest number.
    pub fn bins(&self) -> impl Iterator<Item = (i64, i64)> {
        let offsets = self.offsets.iter().copied().chain([i64::MAX]);
        let bins = offsets.zip(self.buckets.iter().copied());
        bins.filter(|(_, count)| *count > 0)
    }

    /// The value below or at which lies at least this part of all (0 to 1), as `sstablemetadata`
    /// counts (`TermHistogram`); 0 if there are none.
    pub fn upper_percentile(&self, part: f64) -> i64 {
        let wanted = (self.count() as f64 * part).ceil() as i64;
        if wanted == 0 {
            return 0;
        }
        let mut seen = 0i64;
        for (offset, count) in self.bins() {
            seen = seen.saturating_add(count);
            if seen >= wanted {
                return offset;
            }
        }
        0
    }

    /// How many values were counted.
    pub fn count(&self) -> i64 {
        self.buckets
            .iter()
            .fold(0i64, |sum, b| sum.saturating_add(*b))
    }

    /// The mean of the values, rounded up, as if each were the largest of its bucket. What is
    /// larger than all buckets counts as the largest of them.
    pub fn mean(&self) -> i64 {
        let count = i128::from(self.count());
        if count == 0 {
            return 0;
        }
        let products = self.buckets.iter().enumerate().map(|(i, b)| {
            let offset = self.offsets.get(i).or(self.offsets.last());
            i128::from(*b) * i128::from(offset.copied().unwrap_or(0))
        });
        // A file may say anything.
        let sum = products.fold(0i128, i128::saturating_add);
        let mean = sum.saturating_add(count - 1) / count;
        i64::try_from(mean).unwrap_or(i64::MAX)
    }

    /// Counts what the other one counted. Both have to be of one kind, or nothing is.
    pub fn merge(&mut self, other: &EstimatedHistogram) {
        if self.offsets == other.offsets {
            for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
                *own = own.saturating_add(*more);
            }
        }
    }

    /// The least value that may have been counted.
    pub fn min(&self) -> i64 {
        match self.buckets.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.offsets[bucket - 1].saturating_add(1),
        }
    }

    /// The largest value that may have been counted.
    pub fn max(&self) -> i64 {
        let last = self.buckets.iter().rposition(|count| *count > 0);
        last.map_or(0, |bucket| {
            self.offsets.get(bucket).copied().unwrap_or(i64::MAX)
        })
    }

    /// The largest value that a bucket is for.
    pub fn largest_offset(&self) -> i64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Was something larger than all buckets counted?
    pub fn is_overflowed(&self) -> bool {
        self.buckets.last().is_some_and(|count| *count > 0)
    }

    /// The value that this share (0 to 1) of the values is not above, as if each were the largest
    /// of its bucket.
    pub fn percentile(&self, share: f64) -> i64 {
        let wanted = (self.count() as f64 * share).floor() as i64;
        if wanted == 0 {
            return 0;
        }
        let mut sum = 0i64;
        let reached = self.buckets.iter().position(|count| {
            sum = sum.saturating_add(*count);
            sum >= wanted
        });
        let offset = reached.and_then(|bucket| self.offsets.get(bucket));
        offset.copied().unwrap_or(i64::MAX)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.buckets.len() as u32).to_be_bytes());
        for (i, bucket) in self.buckets.iter().enumerate() {
            out.extend(self.offsets[i.saturating_sub(1)].to_be_bytes());
            out.extend(bucket.to_be_bytes());
        }
    }

    pub(super) fn decode(input: &mut Input<'_>) -> Result<EstimatedHistogram, DecodeError> {
        let count = input.count(16)?;
        if !(2..=MOST_BUCKETS).contains(&count) {
            return Err(DecodeError::Invalid(
                "a histogram has an impossible number of buckets",
            ));
        }
        let (mut offsets, mut buckets) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for i in 0..count {
            let offset = input.i64()?;
            // The first bucket is written with the offset of the second.
            if i > 0 {
                offsets.push(offset);
            }
            buckets.push(input.i64()?);
        }
        if !offsets.is_sorted() || buckets.iter().any(|b| *b < 0) {
            return Err(DecodeError::Invalid("a histogram is not in order"));
        }
        Ok(EstimatedHistogram { offsets, buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_as_cassandras() {
        let histogram = EstimatedHistogram::new(155);
        assert_eq!(histogram.offsets[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(histogram.offsets[8..12], [10, 12, 14, 17]);
        assert_eq!(histogram.offsets.last(), Some(&3_520_571_548_412));
    }

    /// What Cassandra's `EstimatedHistogram` answers (`EstimatedHistogramTest`).
    #[test]
    fn answers_as_cassandras() {
        let mut histogram = EstimatedHistogram::new(90);
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.percentile(0.5)),
            (0, 0, 0)
        );
        for value in [1, 2, 3, 4, 5] {
            histogram.add(value);
        }
        assert_eq!((histogram.min(), histogram.max()), (0, 5));
        for (share, expected) in [
            (0.0, 0),
            (0.5, 2),
            (0.61, 3),
            (0.75, 3),
            (0.99, 4),
            (1.0, 5),
        ] {
            assert_eq!(histogram.percentile(share), expected, "{share}");
        }
        let mut zeroes = EstimatedHistogram::with_zeroes(90);
        for value in [0, 0, 1] {
            zeroes.add(value);
        }
        assert_eq!(
            (zeroes.percentile(0.5), zeroes.percentile(1.0), zeroes.max()),
            (0, 1, 1)
        );
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!(twice.count(), 10);
        assert!(!twice.is_overflowed());
        twice.add(i64::MAX);
        assert!(twice.is_overflowed());
        assert_eq!(twice.max(), i64::MAX);
    }

    #[test]
    fn reads_as_written() {
        let mut histogram = EstimatedHistogram::new(118);
        for value in [0, 1, 9, 10, 11, 1 << 50] {
            histogram.add(value);
        }
        let mut out = Vec::new();
        histogram.encode(&mut out);
        assert_eq!(
            EstimatedHistogram::decode(&mut Input::new(&out)),
            Ok(histogram.clone())
        );
        assert_eq!(histogram.count(), 6);
    }
}
