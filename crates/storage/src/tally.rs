//! Histograms that one shard adds to while others look at copies.

use std::cell::RefCell;

use crate::sstable::EstimatedHistogram;

/// 90 buckets reach to 25 seconds in microseconds, and far beyond any count of sstables
/// (`TableMetrics`).
const BUCKETS: usize = 90;

/// Counts values by magnitude since the start.
#[derive(Debug)]
pub(crate) struct Tally(RefCell<EstimatedHistogram>);

impl Default for Tally {
    fn default() -> Tally {
        Tally(RefCell::new(EstimatedHistogram::with_zeroes(BUCKETS)))
    }
}

impl Tally {
    /// Counts a value.
    pub(crate) fn add(&self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.0.borrow_mut().add(value);
    }

    /// Counts a value so many times.
    pub(crate) fn add_many(&self, value: u64, times: u64) {
        let clamped = |number| i64::try_from(number).unwrap_or(i64::MAX);
        if times > 0 {
            self.0.borrow_mut().add_many(clamped(value), clamped(times));
        }
    }

    /// All counts.
    pub(crate) fn copy(&self) -> EstimatedHistogram {
        self.0.borrow().clone()
    }
}
