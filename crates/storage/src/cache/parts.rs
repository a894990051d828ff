//! The entries of the cache, in parts.
//!
//! A hash table that is full grows to twice its size in one go, and looks at each entry for it: of a quarter of a million
//! rows that takes a tenth of a second, in which the shard answers nobody. So there are many small ones, of which each
//! holds the rows of some hashes, and which are full at different times.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;

use quick_cache::unsync::{Cache, DefaultLifecycle};

use super::place::{Place, Seed};
use super::{Bytewise, CachedRow, EXPECTED, PlaceOf};

/// At most so many.
const MOST: usize = 256;
/// Bytes of a part at least: with less its largest rows would be a good part of it.
const LEAST_BYTES: usize = 8 << 20;
/// Where in a hash the number of the part is: its table takes the lowest bits, and the highest ones.
const PART_BITS: u32 = 40;

pub(super) type Part =
    Cache<Place, Box<CachedRow>, Bytewise, Seed, DefaultLifecycle<Place, Box<CachedRow>>>;

/// All parts.
pub(super) struct Parts {
    parts: Box<[RefCell<Part>]>,
    seed: Seed,
    /// Bytes that all may have.
    capacity: Cell<usize>,
    /// Bytes of entries and of their slots.
    size: Cell<usize>,
    /// How many entries.
    len: Cell<usize>,
}

/// Bytes of the slots, and of all that is in them.
fn bytes(part: &Part) -> (usize, usize) {
    let slots = part.memory_used().total();
    (slots, slots + part.weight() as usize)
}

impl Parts {
    /// Empty ones that have so many bytes together. Their number stays as it is.
    pub(super) fn new(capacity: usize, seed: Seed) -> Parts {
        let count = (capacity / LEAST_BYTES).clamp(1, MOST);
        let count = 1 << count.ilog2();
        let part = |_| RefCell::new(empty(capacity / count, seed));
        Parts {
            parts: (0..count).map(part).collect(),
            seed,
            capacity: Cell::new(capacity),
            size: Cell::new(0),
            len: Cell::new(0),
        }
    }

    /// Bytes of one part.
    fn share(&self) -> usize {
        self.capacity.get() / self.parts.len()
    }

    fn of(&self, place: PlaceOf<'_>) -> &RefCell<Part> {
        let hash = self.seed.hash_one(place);
        &self.parts[(hash >> PART_BITS) as usize & (self.parts.len() - 1)]
    }

    /// What `with` makes of the part that a place lies in.
    pub(super) fn with<T>(&self, place: PlaceOf<'_>, with: impl FnOnce(&Part) -> T) -> T {
        with(&self.of(place).borrow())
    }

    /// The same, to change it.
    pub(super) fn with_mut<T>(&self, place: PlaceOf<'_>, with: impl FnOnce(&mut Part) -> T) -> T {
        self.change(&mut self.of(place).borrow_mut(), with)
    }

    /// Bytes that all may have from now on; what is too much goes.
    pub(super) fn set_capacity(&self, capacity: usize) {
        self.capacity.set(capacity);
        for part in &self.parts {
            self.change(&mut part.borrow_mut(), |part| {
                part.set_capacity(self.share().saturating_sub(bytes(part).0) as u64);
            });
        }
    }

    /// Empties all; gives what was in them.
    pub(super) fn take(&self) -> Vec<Part> {
        let mut taken = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            self.change(&mut part.borrow_mut(), |part| {
                taken.push(std::mem::replace(part, empty(self.share(), self.seed)));
            });
        }
        taken
    }

    /// Bytes of entries and of their slots.
    pub(super) fn size(&self) -> usize {
        self.size.get()
    }

    /// How many entries.
    pub(super) fn len(&self) -> usize {
        self.len.get()
    }

    /// Changes a part, and keeps account of it. Its entries have what its slots leave them.
    fn change<T>(&self, part: &mut Part, change: impl FnOnce(&mut Part) -> T) -> T {
        let ((slots, size), len) = (bytes(part), part.len());
        let made = change(part);
        // Slots grow by doubling, so this is rare.
        let now = part.memory_used().total();
        if now != slots {
            part.set_capacity(self.share().saturating_sub(now) as u64);
        }
        self.size.set(self.size.get() - size + bytes(part).1);
        self.len.set(self.len.get() - len + part.len());
        made
    }
}

fn empty(capacity: usize, seed: Seed) -> Part {
    let expected = (capacity / EXPECTED).max(16);
    let lifecycle = DefaultLifecycle::default();
    Cache::with(expected, capacity as u64, Bytewise, seed, lifecycle)
}
