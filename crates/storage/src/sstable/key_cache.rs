//! Where partitions lie in sstables that were looked up before, so that the index need not be
//! searched again: one of a shard, a table that grows up to what it may take.
//!
//! A key may be in one of four places, which its hash chooses; a new one takes the place of one of
//! them, in turn. An entry is recognised by 64 bits of hash over sstable and key, so a wrong one is
//! found practically never; who uses it looks at the key in the data anyway, and asks the index if
//! it is another one.

use std::cell::{Cell, RefCell};

use super::index::Location;
use crate::growing_table::{GrowingTable, set_of};

/// Places that a key may be in.
const WAYS: usize = 4;
/// It grows when more than one entry of so many is taken.
const SPARE: usize = 3;
/// Tag, place in the data, place of the index of blocks, how much of it there is.
type Entry = [u64; 4];

/// The cache. Zeros are no entry.
pub(crate) struct KeyCache {
    entries: RefCell<GrowingTable<Entry>>,
    turn: Cell<usize>,
}

impl KeyCache {
    /// A cache of at most `bytes`; with less than a set of entries, nothing.
    pub(crate) fn new(bytes: usize) -> KeyCache {
        let sets = bytes / (WAYS * size_of::<Entry>());
        KeyCache {
            entries: RefCell::new(GrowingTable::new(sets * WAYS, SPARE)),
            turn: Cell::new(0),
        }
    }

    /// The tag of a key, by its [`model::murmur3_x64_128`], in an sstable.
    fn tag(file: u64, hash: [i64; 2]) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (hash[0] as u64).rotate_left(32) ^ (hash[1] as u64) ^ file.wrapping_mul(ODD);
        (mixed ^ (mixed >> 31)).wrapping_mul(ODD).max(1)
    }

    /// Where in a segment of entries a tag may be.
    fn places(entries: usize, tag: u64) -> std::ops::Range<usize> {
        let set = set_of(tag.rotate_left(23), entries / WAYS);
        set * WAYS..set * WAYS + WAYS
    }

    pub(super) fn get(&self, file: u64, hash: [i64; 2]) -> Option<Location> {
        let entries = self.entries.borrow();
        let tag = KeyCache::tag(file, hash);
        let segment = entries.segment(tag)?;
        let set = &segment[KeyCache::places(segment.len(), tag)];
        let [_, data, place, count] = *set.iter().find(|e| e[0] == tag)?;
        Some(Location {
            data,
            blocks: (place, count),
        })
    }

    pub(super) fn insert(&self, file: u64, hash: [i64; 2], location: Location) {
        let mut entries = self.entries.borrow_mut();
        let tag = KeyCache::tag(file, hash);
        let Some(segment) = entries.segment_mut(tag) else {
            return;
        };
        let places = KeyCache::places(segment.len(), tag);
        let set = &mut segment[places];
        let known = set.iter().position(|e| e[0] == tag || e[0] == 0);
        let turn = self.turn.get();
        self.turn.set((turn + 1) % WAYS);
        let (place, count) = location.blocks;
        let entry = [tag, location.data, place, count];
        let before = std::mem::replace(&mut set[known.unwrap_or(turn)], entry);
        if before[0] == 0 {
            entries.take(|[tag, ..]| Some(*tag));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::murmur3_x64_128;

    fn location(n: u64) -> Location {
        Location {
            data: n,
            blocks: (n + 1, 7),
        }
    }

    #[test]
    fn what_was_found_is_found_again() {
        let cache = KeyCache::new(1 << 20);
        let hash = |n: u64| murmur3_x64_128(&n.to_be_bytes());
        for n in 0..10_000 {
            cache.insert(n % 3, hash(n), location(n));
        }
        let found = |n: &u64| cache.get(n % 3, hash(*n)) == Some(location(*n));
        assert!((0..10_000).filter(found).count() > 9_500);
        assert!((0..10_000).all(|n| cache.get(3, hash(n)).is_none()));
        for n in 10_000..100_000 {
            cache.insert(0, hash(n), location(n));
        }
        let size = (1 << 20) / size_of::<Entry>();
        let kept = |n: &u64| cache.get(0, hash(*n)) == Some(location(*n));
        let kept = (10_000..100_000).filter(kept).count();
        assert!(kept <= size && kept > size / 2, "{kept} of {size}");
    }

    #[test]
    fn without_memory_it_holds_nothing() {
        let cache = KeyCache::new(100);
        cache.insert(1, [2, 3], location(4));
        assert_eq!(cache.get(1, [2, 3]), None);
    }
}
