//! Room on the drive that compactions of all shards have been promised.
//!
//! Each would find enough room for itself alone, and all together fill the drive. So each says how
//! much it may still write before it begins, and the next one counts it as taken. A node has one
//! data folder, so one number is enough.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What stays free (`min_free_space_per_drive`).
const MIN_FREE: u64 = 50 << 20;
/// The share of the rest that compactions may fill, in percent
/// (`max_space_usable_for_compactions_in_percentage`).
const USABLE_PERCENT: u128 = 95;

/// How much of so many free bytes compactions may fill
/// (`Directories.getAvailableSpaceForCompactions`).
pub(crate) fn usable(available: u64) -> u64 {
    let usable = u128::from(available.saturating_sub(MIN_FREE)) * USABLE_PERCENT / 100;
    usable as u64
}

/// Bytes that compactions have still to write. One for all shards of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space(Arc<AtomicU64>);

impl Space {
    /// Promises so many bytes, if no more than `most` are promised then.
    pub(crate) fn reserve_within(&self, bytes: u64, most: u64) -> Option<Reservation> {
        let fits = |before: u64| before.checked_add(bytes).filter(|sum| *sum <= most);
        let reserved = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        reserved.is_ok().then(|| self.promised(bytes))
    }

    /// Promises so many bytes, whether they are there or not.
    pub(crate) fn reserve(&self, bytes: u64) -> Reservation {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        self.promised(bytes)
    }

    /// Bytes that are promised.
    pub(crate) fn reserved(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn promised(&self, bytes: u64) -> Reservation {
        Reservation {
            space: self.clone(),
            whole: bytes,
            left: Cell::new(bytes),
        }
    }
}

/// Room that a compaction was promised, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    space: Space,
    whole: u64,
    left: Cell<u64>,
}

impl Reservation {
    /// So much of all is done: what is written is free no more, and need not be promised.
    pub(crate) fn proceed(&self, done: u64, of: u64) {
        let to_do = u128::from(self.whole) * u128::from(of.saturating_sub(done));
        let left = (to_do / u128::from(of.max(1))) as u64;
        self.shrink_to(left);
    }

    fn shrink_to(&self, left: u64) {
        let before = self.left.get();
        if left < before {
            self.left.set(left);
            self.space.0.fetch_sub(before - left, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_a_drive_stays_free() {
        assert_eq!(usable(0), 0);
        assert_eq!(usable(50 << 20), 0);
        assert_eq!(usable((50 << 20) + 1000), 950);
        assert!(usable(u64::MAX) < u64::MAX);
    }

    #[test]
    fn what_is_promised_is_not_promised_again_until_it_is_given_back() {
        let space = Space::default();
        let other_shard = space.clone();
        let first = space.reserve_within(600, 1000).expect("there is room");
        assert!(other_shard.reserve_within(500, 1000).is_none());
        assert!(other_shard.reserve_within(u64::MAX, u64::MAX).is_none());
        first.proceed(50, 100);
        first.proceed(10, 100);
        assert_eq!(space.reserved(), 300, "it never grows again");
        let second = other_shard.reserve_within(500, 1000);
        assert_eq!(space.reserved(), 800);
        drop(second.expect("there is room now"));
        let third = space.reserve(5000);
        assert_eq!(space.reserved(), 5300);
        drop((first, third));
        assert_eq!(space.reserved(), 0);
    }
}
