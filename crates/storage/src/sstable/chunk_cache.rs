//! A cache of decompressed chunks, one a shard.
//!
//! Bounded in bytes; which chunk goes is decided by the clock algorithm: a hand goes round the
//! slots and takes the first one that was not used since it last passed. Chunks of files that are
//! gone are never asked for again and so leave by themselves.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::HashMap;

use super::key_cache::KeyCache;

/// Which chunk: the file's number in this cache, and the chunk's number in its file.
type Key = (u64, u64);

/// Multiplies and folds: keys are small numbers that nobody outside chooses.
#[derive(Clone, Copy, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Slot {
    key: Key,
    chunk: Bytes,
    used: Cell<bool>,
}

#[derive(Default)]
struct Clock {
    by_key: HashMap<Key, usize, BuildHasherDefault<KeyHasher>>,
    slots: Vec<Option<Slot>>,
    /// Slots without a chunk. The one that was emptied last, just behind the hand, is filled first,
    /// so that what came last is met last.
    free: Vec<usize>,
    hand: usize,
    size: usize,
    capacity: usize,
}

/// A cache of chunks; clones share it.
#[derive(Clone)]
pub struct ChunkCache {
    clock: Rc<RefCell<Clock>>,
    keys: Rc<KeyCache>,
    next_file: Rc<Cell<u64>>,
    held: Rc<Cell<usize>>,
    hits: Rc<Cell<u64>>,
    misses: Rc<Cell<u64>>,
    read_chunks: Rc<Cell<u64>>,
    read_bytes: Rc<Cell<u64>>,
}

/// Chunks of a file that a cache has before the file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptChunks {
    /// The file's number in the cache.
    pub(crate) file: u64,
    /// The length of each but the last, in bytes of content.
    pub(crate) length: u64,
}

/// What an sstable keeps in memory beside its chunks: it is counted until this is dropped.
pub(crate) struct Held {
    all: Rc<Cell<usize>>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.bytes);
    }
}

/// What a cache did since it was made, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkCacheStats {
    /// Chunks found.
    pub hits: u64,
    /// Chunks that had to be read.
    pub misses: u64,
    /// Chunks that were read from files, those read ahead and past the cache included.
    pub read_chunks: u64,
    /// Their bytes in the files.
    pub read_bytes: u64,
    /// Bytes held.
    pub size: usize,
    /// Bytes it may hold.
    pub capacity: usize,
    /// Chunks held.
    pub chunks: usize,
}

/// Places of partitions may take so many bytes: one part in so many of the chunks' bytes, and no
/// more than this.
const KEYS_SHARE: usize = 16;
const MAX_KEYS: usize = 512 << 20;

/// What a slot takes besides the chunk, roughly.
const SLOT_OVERHEAD: usize = 96;

impl ChunkCache {
    /// A cache that holds at most `capacity` bytes of chunks, with 0 nothing, and beside them a
    /// [`KeyCache`] of a sixteenth of that.
    pub fn new(capacity: usize) -> ChunkCache {
        ChunkCache {
            keys: Rc::new(KeyCache::new((capacity / KEYS_SHARE).min(MAX_KEYS))),
            clock: Rc::new(RefCell::new(Clock {
                capacity,
                ..Clock::default()
            })),
            next_file: Rc::default(),
            held: Rc::default(),
            hits: Rc::default(),
            misses: Rc::default(),
            read_chunks: Rc::default(),
            read_bytes: Rc::default(),
        }
    }

    /// Changes how much it may hold; frees what is too much.
    pub fn set_capacity(&self, capacity: usize) {
        let mut clock = self.clock.borrow_mut();
        clock.capacity = capacity;
        clock.shrink();
    }

    /// Counts what an sstable keeps in memory beside its chunks, as long as what this gives lives.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        self.held.set(self.held.get() + bytes);
        Held {
            all: self.held.clone(),
            bytes,
        }
    }

    /// What all sstables keep in memory beside their chunks, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// What it did and holds.
    pub fn stats(&self) -> ChunkCacheStats {
        let clock = self.clock.borrow();
        ChunkCacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            read_chunks: self.read_chunks.get(),
            read_bytes: self.read_bytes.get(),
            size: clock.size,
            capacity: clock.capacity,
            chunks: clock.by_key.len(),
        }
    }

    /// Where the partitions of sstables lie.
    pub(crate) fn keys(&self) -> &KeyCache {
        &self.keys
    }

    /// A number for a file, never given before.
    pub(crate) fn register_file(&self) -> u64 {
        let file = self.next_file.get();
        self.next_file.set(file + 1);
        file
    }

    /// Counts a read of a file.
    pub(crate) fn count_read(&self, chunks: u64, bytes: u64) {
        self.read_chunks.set(self.read_chunks.get() + chunks);
        self.read_bytes.set(self.read_bytes.get() + bytes);
    }

    pub(crate) fn get(&self, file: u64, chunk: u64) -> Option<Bytes> {
        let clock = self.clock.borrow();
        let Some(at) = clock.by_key.get(&(file, chunk)) else {
            self.misses.set(self.misses.get() + 1);
            return None;
        };
        self.hits.set(self.hits.get() + 1);
        let slot = clock.slots[*at].as_ref()?;
        slot.used.set(true);
        Some(slot.chunk.clone())
    }

    /// Is it there? That is not counted as asking for it.
    pub(crate) fn has(&self, file: u64, chunk: u64) -> bool {
        self.clock.borrow().by_key.contains_key(&(file, chunk))
    }

    /// Takes in chunks of a file, with their numbers.
    pub(crate) fn insert_all(&self, file: u64, chunks: impl IntoIterator<Item = (u64, Bytes)>) {
        for (chunk, bytes) in chunks {
            self.insert(file, chunk, bytes);
        }
    }

    pub(crate) fn insert(&self, file: u64, chunk: u64, bytes: Bytes) {
        let mut clock = self.clock.borrow_mut();
        let key = (file, chunk);
        let size = bytes.len() + SLOT_OVERHEAD;
        // One chunk must not push out most of the others.
        if size > clock.capacity / 4 || clock.by_key.contains_key(&key) {
            return;
        }
        clock.size += size;
        clock.shrink();
        let at = clock.free.pop().unwrap_or_else(|| {
            clock.slots.push(None);
            clock.slots.len() - 1
        });
        clock.by_key.insert(key, at);
        clock.slots[at] = Some(Slot {
            key,
            chunk: bytes,
            used: Cell::new(false),
        });
    }
}

impl Clock {
    fn shrink(&mut self) {
        while self.size > self.capacity && !self.by_key.is_empty() {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if let Some(gone) = slot.take_if(|slot| !slot.used.replace(false)) {
                self.by_key.remove(&gone.key);
                self.size -= gone.chunk.len() + SLOT_OVERHEAD;
                self.free.push(self.hand);
            }
            self.hand += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bounds_and_keeps_what_is_used() {
        let cache = ChunkCache::new(100 * (1000 + SLOT_OVERHEAD));
        let file = cache.register_file();
        for chunk in 0..1000 {
            cache.insert(file, chunk, Bytes::from(vec![chunk as u8; 1000]));
            assert_eq!(cache.get(file, 0).map(|c| c[0]), Some(0));
        }
        let stats = cache.stats();
        assert!(stats.size <= stats.capacity);
        assert!(stats.size > stats.capacity / 2);
        assert_eq!(cache.get(file, 500), None);
        cache.set_capacity(0);
        assert_eq!(cache.stats().size, 0);
        assert_eq!(cache.get(file, 0), None);
    }

    #[test]
    fn what_came_last_stays_longer_than_what_came_first() {
        let cache = ChunkCache::new(100 * (1000 + SLOT_OVERHEAD));
        let file = cache.register_file();
        for chunk in 0..1000 {
            cache.insert(file, chunk, Bytes::from(vec![0; 1000]));
        }
        let held = |chunk: &u64| cache.get(file, *chunk).is_some();
        assert_eq!((0..900).filter(held).count(), 0);
        assert_eq!((900..1000).filter(held).count(), 100);
    }

    #[test]
    fn files_do_not_mix() {
        let cache = ChunkCache::new(1 << 20);
        let (a, b) = (cache.register_file(), cache.register_file());
        cache.insert(a, 7, Bytes::from_static(b"a"));
        assert_eq!(cache.get(b, 7), None);
        assert_eq!(cache.get(a, 7).as_deref(), Some(&b"a"[..]));
    }
}
