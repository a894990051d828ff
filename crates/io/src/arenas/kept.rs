//! What the allocator gave back, but the process keeps.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};

use super::{SLICE, beside};

/// What part of its memory a process keeps though the allocator gave it back, however much is in use beside it.
const LEAST_SHARE: usize = 8;

/// Slices of an arena that nobody uses and that are still there. It may be asked while somebody allocates.
///
/// A slice belongs to whoever gives it back until that is done, and to whoever takes it from then on, so that what is said
/// of it comes one after the other; only the number of all is everybody's.
#[derive(Debug)]
pub(super) struct Kept {
    /// A bit for each slice. Made before anything is kept.
    slices: OnceLock<Box<[AtomicU64]>>,
    count: AtomicUsize,
    /// How many slices are in use.
    used: AtomicIsize,
    /// How many the process may have in all.
    memory: AtomicUsize,
}

impl Kept {
    pub(super) const fn new() -> Kept {
        Kept {
            slices: OnceLock::new(),
            count: AtomicUsize::new(0),
            used: AtomicIsize::new(0),
            memory: AtomicUsize::new(0),
        }
    }

    /// From now on a part of so many bytes is kept, which the process may have in all, of an arena of so many.
    pub(super) fn keep(&self, arena: usize, memory: usize) {
        let words = arena.div_ceil(SLICE).div_ceil(64);
        self.slices
            .get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        self.memory.store(memory / SLICE, Ordering::Relaxed);
    }

    /// How many slices may be kept, more or less: several may be given back at the same time.
    fn most(&self, used: isize) -> usize {
        let memory = self.memory.load(Ordering::Relaxed);
        beside(usize::try_from(used).unwrap_or(0), memory, LEAST_SHARE)
    }

    /// Slices that nobody uses any more. Are they kept?
    pub(super) fn put(&self, first: usize, count: usize) -> bool {
        let given = count as isize;
        let used = self.used.fetch_sub(given, Ordering::Relaxed) - given;
        if self.count.load(Ordering::Relaxed) + count > self.most(used) {
            return false;
        }
        let set = |word: &AtomicU64, mask| !word.fetch_or(mask, Ordering::Relaxed);
        let put = self.change(first, count, set);
        self.count.fetch_add(put, Ordering::Relaxed);
        true
    }

    /// Slices that are used from now on, whether they were kept or not.
    pub(super) fn take(&self, first: usize, count: usize) {
        let clear = |word: &AtomicU64, mask: u64| word.fetch_and(!mask, Ordering::Relaxed);
        let taken = self.change(first, count, clear);
        self.count.fetch_sub(taken, Ordering::Relaxed);
        self.used.fetch_add(count as isize, Ordering::Relaxed);
    }

    /// Changes bits of these slices, word by word; how many of those that were asked for `change` says are others than they were.
    fn change(&self, first: usize, count: usize, change: impl Fn(&AtomicU64, u64) -> u64) -> usize {
        let slices = self.slices.get().map_or(&[][..], |slices| slices);
        let changed = masks(first, count).map(|(word, mask)| {
            let changed = slices.get(word).map_or(0, |word| change(word, mask));
            (changed & mask).count_ones() as usize
        });
        changed.sum()
    }
}

/// The words of so many bits from the first on, and which of their bits these are.
fn masks(first: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = first + count;
    (first / 64..end.div_ceil(64)).map(move |word| {
        let from = first.saturating_sub(word * 64);
        let to = (end - word * 64).min(64);
        (word, (u64::MAX >> (64 - (to - from))) << from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_kept_unless_it_was_said() {
        let kept = Kept::new();
        kept.take(0, 2);
        assert!(!kept.put(0, 1));
        kept.keep(1000 * SLICE, 0);
        assert!(!kept.put(1, 1));
    }

    proptest! {
        #[test]
        fn masks_are_the_bits(first in 0usize..1000, count in 1usize..300) {
            let bits = masks(first, count).flat_map(|(word, mask)| {
                (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| word * 64 + bit)
            });
            prop_assert!(bits.eq(first..first + count));
        }

        /// Slices are taken and given back in any order: those are counted that are in use, and those that were kept and
        /// not taken since, which are no more than may be.
        #[test]
        fn what_is_kept_is_counted(moves in prop::collection::vec((0usize..190, 1usize..20), 1..200)) {
            const MEMORY: usize = 120;
            let kept = Kept::new();
            kept.keep(210 * SLICE, MEMORY * SLICE);
            let mut used = std::collections::BTreeSet::new();
            let mut there = std::collections::BTreeSet::new();
            for (first, count) in moves {
                let range = first..first + count;
                if range.clone().all(|slice| used.contains(&slice)) {
                    used.retain(|slice| !range.contains(slice));
                    let most = (MEMORY / 4 * 3).saturating_sub(used.len()).clamp(MEMORY / 8, MEMORY / 4);
                    let fits = there.len() + count <= most;
                    prop_assert_eq!(kept.put(first, count), fits);
                    there.extend(range.filter(|_| fits));
                } else if range.clone().all(|slice| !used.contains(&slice)) {
                    kept.take(first, count);
                    used.extend(range.clone());
                    there.retain(|slice| !range.contains(slice));
                }
                prop_assert_eq!(kept.count.load(Ordering::Relaxed), there.len());
                prop_assert_eq!(kept.used.load(Ordering::Relaxed), used.len() as isize);
            }
        }
    }
}
