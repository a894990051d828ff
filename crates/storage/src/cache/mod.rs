//! The cache of rows: what reads of single rows found in sstables, one a shard.
//!
//! **Why it is exact.** An entry is never changed by a write, and no write has to find it. Instead,
//! all that a table consists of is numbered in the order in which it came: a memtable when it is
//! taken out of use to be flushed, and with the same number its sstable; sstables that are imported
//! when they are shown; what a compaction writes gets the highest number of what it read. An entry
//! says up to which number it knows everything of its row (`covers`). Who reads looks, besides, into
//! what has a higher number and into the memtable that is written to, and merges. So a write is
//! visible at once because it is in that memtable; a flush and a compaction change nothing; an entry
//! that is behind costs a look into the new memtables and the bloom filters of the new sstables, and
//! is put back with what they said. Merging is idempotent, so it does no harm if an entry knows of
//! something already. A read that began long ago may put what it saw, as it says what that covers.
//!
//! Where content goes that is not deleted (TRUNCATE, a scrub that leaves out what is damaged), or is
//! understood differently (ALTER TABLE), the table gets a new number here: what was kept under the
//! old one is never asked for again and leaves like all that nobody asks for.
//!
//! Two things would still make an answer differ from that of the sources, and [`CachedRow`] carries
//! what it takes to see them: sources that the read passed over because what it knew was later, and
//! deletions that a compaction may have purged since. And a compaction may forget a deletion that came
//! after an entry together with the row that it covered, so that the entry is all that is left of it:
//! a table knows up to which number that may have happened (`forgotten`), and what covers less is
//! not believed.
//!
//! A flush takes what it writes into the entries that know everything else: rows that are read and
//! written all the time would otherwise be read from each new sstable once. And rows of which its memtable has all
//! that there is come here as they lie, if they were asked for more than once while they were there. A compaction tells the
//! entries that know all that its inputs have of their partition that they know its output, which would seem new to them.
//!
//! **What stays.** `quick_cache`: Clock-PRO with two references as in S3-FIFO (Yang et al., *FIFO
//! queues are all you need for cache eviction*, SOSP 2023). A row comes here when it is asked for the
//! second time ([`Doorkeeper`]), as one that is asked for once was copied in vain. Rows of scans,
//! compactions and repairs do not come here.

mod doorkeeper;
mod parts;
mod place;
mod row;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use model::{ColumnId, PackedRow, Row, Table};
use quick_cache::Weighter;

pub(crate) use place::PlaceOf;
pub(crate) use row::CachedRow;

use doorkeeper::Doorkeeper;
use parts::{Part, Parts};
use place::{Place, Seed};

use crate::sstable::ChunkCache;

/// Rows with more bytes of key and values than one part in so many of the cache are not kept.
const LARGEST_SHARE: usize = 64;
/// Nor are those with more bytes than this: each hit saves little beside what it takes to send them.
const LARGEST: usize = 64 << 10;
/// How many bytes of the cache an entry is expected to take, to choose how many that left are
/// remembered.
const EXPECTED: usize = 1024;
/// How many different lists of columns entries may have.
const MOST_LISTS: usize = 64;

/// What an entry takes besides its slot, which the cache counts as a whole.
#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<Place, Box<CachedRow>> for Bytewise {
    fn weight(&self, place: &Place, cached: &Box<CachedRow>) -> u64 {
        (place.heap_bytes() + cached.bytes()) as u64
    }
}

/// Rows that the cache holds no more, but that are still in memory.
pub(crate) struct Forgotten(Vec<Part>);

impl Forgotten {
    /// Drops them one by one, as they are taken.
    pub(crate) fn drops(&mut self) -> impl Iterator<Item = ()> {
        self.0.iter_mut().flat_map(|part| part.drain().map(drop))
    }
}

/// The cache of the rows of a shard. It shares its memory with the cache of chunks: what rows do
/// not take, chunks may.
pub(crate) struct RowCache {
    entries: Parts,
    asked: Doorkeeper,
    /// The lists of columns of entries, each once.
    columns: RefCell<Vec<Rc<[ColumnId]>>>,
    /// Where rows are laid out.
    scratch: RefCell<Vec<u8>>,
    seed: Seed,
    chunks: ChunkCache,
    /// Bytes for rows and chunks together.
    shared: Cell<usize>,
    tables: Cell<u64>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

/// What a cache of rows did since it was made, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheStats {
    /// Reads of a row that it knew what they needed of.
    pub hits: u64,
    /// Reads of a row that had to look into sstables, or found none to look into.
    pub misses: u64,
    /// Bytes held, as the allocator counts them.
    pub size: usize,
    /// Bytes it may hold.
    pub capacity: usize,
    /// Rows held.
    pub entries: usize,
}

/// What part of the bytes that rows and chunks share rows may take.
fn rows_of(shared: usize) -> usize {
    shared / 4 * 3
}

impl RowCache {
    /// A cache that shares `shared` bytes with the chunks: up to three quarters of them are for
    /// rows, as a row that is asked for again takes a fraction of its chunk. `seed` chooses where
    /// rows lie.
    pub(crate) fn new(shared: usize, chunks: ChunkCache, seed: u64) -> RowCache {
        let seed = Seed(seed);
        RowCache {
            entries: Parts::new(rows_of(shared), seed),
            asked: Doorkeeper::new(rows_of(shared) / EXPECTED),
            columns: RefCell::default(),
            scratch: RefCell::default(),
            seed,
            chunks,
            shared: Cell::new(shared),
            tables: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
        }
    }

    /// What all sstables keep in memory beside their chunks, in bytes.
    pub(crate) fn held_beside(&self) -> usize {
        self.chunks.held()
    }

    /// Changes how many bytes rows and chunks share; frees what is too much.
    pub(crate) fn set_shared(&self, shared: usize) {
        self.shared.set(shared);
        self.entries.set_capacity(self.capacity());
        self.account();
    }

    /// Bytes for rows.
    fn capacity(&self) -> usize {
        rows_of(self.shared.get())
    }

    /// A number for the content of a table, never given before.
    pub(crate) fn register_table(&self) -> u64 {
        self.tables.set(self.tables.get() + 1);
        self.tables.get()
    }

    /// What `with` makes of the entry of a row, if there is one.
    pub(crate) fn get<T>(
        &self,
        place: PlaceOf<'_>,
        with: impl FnOnce(&CachedRow) -> T,
    ) -> Option<T> {
        self.entries
            .with(place, |part| part.get(&place).map(|cached| with(cached)))
    }

    /// The same, but that does not count as asking for it.
    pub(crate) fn peek<T>(
        &self,
        place: PlaceOf<'_>,
        with: impl FnOnce(&CachedRow) -> T,
    ) -> Option<T> {
        self.entries
            .with(place, |part| part.peek(&place).map(|cached| with(cached)))
    }

    /// Was a row that is not here asked for before, not too long ago? From now on it was.
    pub(crate) fn is_asked_again(&self, place: PlaceOf<'_>) -> bool {
        self.asked.is_asked_again(self.seed.hash_one(place))
    }

    /// Keeps a row, unless what is kept of it covers more.
    pub(crate) fn put(&self, place: PlaceOf<'_>, cached: CachedRow) {
        self.entries.with_mut(place, |part| {
            let known = part.peek(&place);
            if known.is_none_or(|known| known.covers <= cached.covers) {
                part.insert(place.kept(), Box::new(cached));
            }
        });
        self.account();
    }

    /// Forgets a row.
    pub(crate) fn remove(&self, place: PlaceOf<'_>) {
        self.entries.with_mut(place, |part| part.remove(&place));
        self.account();
    }

    /// Forgets all rows; gives them, to be dropped a few at a time.
    pub(crate) fn forget_all(&self) -> Forgotten {
        let forgotten = self.entries.take();
        self.account();
        Forgotten(forgotten)
    }

    /// A row, laid out in one piece.
    fn packed(&self, row: &Row) -> PackedRow {
        PackedRow::new(row, &mut self.scratch.borrow_mut())
    }

    /// Two versions of a row, none of which has deletions or counters, as one.
    fn merged(&self, mut row: PackedRow, other: PackedRow, table: &Table) -> PackedRow {
        row.merge_packed(other, table, &mut self.scratch.borrow_mut());
        row
    }

    /// A list of columns that entries share; `None` if there are too many different ones.
    fn shared_columns(&self, columns: &[ColumnId]) -> Option<Rc<[ColumnId]>> {
        let mut lists = self.columns.borrow_mut();
        if let Some(list) = lists.iter().find(|list| ***list == *columns) {
            return Some(list.clone());
        }
        if lists.len() >= MOST_LISTS {
            lists.retain(|list| Rc::strong_count(list) > 1);
        }
        (lists.len() < MOST_LISTS).then(|| {
            lists.push(columns.into());
            lists[lists.len() - 1].clone()
        })
    }

    /// Gives chunks what rows leave them.
    fn account(&self) {
        let shared = self.shared.get();
        self.chunks
            .set_capacity(shared.saturating_sub(self.entries.size()));
    }

    /// The most bytes of key and values that a row may have.
    fn largest(&self) -> usize {
        (self.capacity() / LARGEST_SHARE).min(LARGEST)
    }

    /// So many reads were answered by it, or not.
    pub(crate) fn count(&self, hit: bool, times: u64) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.set(counter.get() + times);
    }

    /// What it did and holds.
    pub(crate) fn stats(&self) -> RowCacheStats {
        RowCacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            size: self.entries.size(),
            capacity: self.capacity(),
            entries: self.entries.len(),
        }
    }
}
