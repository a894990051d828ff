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
//! written all the time would otherwise be read from each new sstable once.
//!
//! **What stays.** `quick_cache`: Clock-PRO with two references as in S3-FIFO (Yang et al., *FIFO
//! queues are all you need for cache eviction*, SOSP 2023). A row comes here when it is asked for the
//! second time ([`Doorkeeper`]), as one that is asked for once was copied in vain. Rows of scans,
//! compactions and repairs do not come here.

mod doorkeeper;
mod packed_row;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

use bytes::Bytes;
use model::{Clustering, ColumnId, DecoratedKey, DeletionTime, NO_TIMESTAMP, Row, Token};
use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, Weighter};

pub(crate) use packed_row::PackedRow;

use doorkeeper::Doorkeeper;

use crate::memtable::allocated;
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

/// A row that was read.
#[derive(Debug)]
pub(crate) struct CachedRow {
    /// Marker, deletion and cells of [`CachedRow::columns`], and nothing of other columns.
    pub(crate) row: PackedRow,
    /// What is deleted around the row: its partition, or a range.
    pub(crate) around: DeletionTime,
    /// The columns that were read, sorted.
    pub(crate) columns: Rc<[ColumnId]>,
    /// All that came to the table up to this number is in the row, but for what `unread` says.
    pub(crate) covers: Cell<u64>,
    /// Sources that were passed over, as what was known was later, have nothing later than this;
    /// [`NO_TIMESTAMP`] if there are none. Who reads has to find that what he knows is still later.
    pub(crate) unread: i64,
    /// Did the row have cells or deletions of other columns? Then they may be what it lives by.
    pub(crate) has_others: bool,
    /// Seconds since 1970 until which it may be used.
    pub(crate) until: u32,
    /// Is all of it to be seen, whenever that is, and nothing else?
    pub(crate) is_plain: bool,
}

impl CachedRow {
    /// A row as it was read from everything up to `covers`, with the seconds after which deletions
    /// of its table may be purged. `None` if it is too large for `cache`.
    pub(crate) fn new(
        cache: &RowCache,
        key: &DecoratedKey,
        (row, around): (&Row, DeletionTime),
        columns: &[ColumnId],
        covers: u64,
        gc_grace: u32,
    ) -> Option<CachedRow> {
        let packed = PackedRow::new(key, row, columns, cache.largest())?;
        let columns = cache.shared_columns(columns)?;
        let is_other = |column: &ColumnId| columns.binary_search(column).is_err();
        let has_others = row.cells.iter().any(|cell| is_other(&cell.column))
            || row.complex_deletions.iter().any(|d| is_other(&d.column));
        Some(CachedRow {
            is_plain: around.is_live() && packed.is_plain(),
            until: packed.keeps_until(around, gc_grace),
            row: packed,
            around,
            columns,
            covers: Cell::new(covers),
            unread: NO_TIMESTAMP,
            has_others,
        })
    }

    /// What was read for it was less than all: sources with nothing later than `unread` were passed over, or other
    /// columns, if it `has_others`.
    pub(crate) fn leaves_out(&mut self, unread: i64, has_others: bool) {
        self.unread = unread;
        self.has_others |= has_others;
        // What is left out of a row that has its marker is other columns, and they change nothing.
        self.is_plain &= unread == NO_TIMESTAMP;
    }

    /// May it be used now? Most need not know what time it is.
    pub(crate) fn is_current(&self, wall_seconds: impl FnOnce() -> u32) -> bool {
        self.until == u32::MAX || self.until >= wall_seconds()
    }
}

/// Where a row lies.
struct Place {
    table: u64,
    token: Token,
    key_length: u32,
    /// Key and clustering, a part of the row's own memory.
    bytes: Bytes,
}

/// The same, to look for.
#[derive(Clone, Copy)]
pub(crate) struct PlaceOf<'p> {
    /// The table's number.
    pub(crate) table: u64,
    /// The partition.
    pub(crate) key: &'p DecoratedKey,
    /// The row; recognised by its bytes, even where others are equal in the order of the table.
    pub(crate) clustering: &'p Clustering,
}

impl PlaceOf<'_> {
    fn is(&self, place: &Place) -> bool {
        let key = self.key.key();
        place.table == self.table
            && place.token == self.key.token()
            && place.key_length as usize == key.len()
            && packed_row::is_place(&place.bytes, key, self.clustering)
    }
}

impl Equivalent<Place> for PlaceOf<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.is(place)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        (self.table, self.token, self.key_length) == (other.table, other.token, other.key_length)
            && self.bytes == other.bytes
    }
}

impl Eq for Place {}

/// The token is a good hash of the key.
fn hash_partition(table: u64, token: Token, hasher: &mut impl Hasher) {
    hasher.write_u64(table ^ token.0 as u64);
}

fn hash_value(value: &[u8], hasher: &mut impl Hasher) {
    hasher.write_u64(value.len() as u64);
    hasher.write(value);
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hash_partition(self.table, self.token, hasher);
        let clustering = &self.bytes[self.key_length as usize..];
        packed_row::place_values(clustering).for_each(|value| hash_value(value, hasher));
    }
}

impl Hash for PlaceOf<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hash_partition(self.table, self.key.token(), hasher);
        let values = self.clustering.0.iter();
        values.for_each(|value| hash_value(value, hasher));
    }
}

/// Begins with a number that nobody outside knows, so that nobody can choose clusterings that
/// collide.
#[derive(Clone, Copy)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = PlaceHasher;

    fn build_hasher(&self) -> PlaceHasher {
        PlaceHasher(self.0)
    }
}

/// Multiplies and folds, a word at a time.
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last));
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What an entry takes besides its slot, which the cache counts as a whole.
#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<Place, Box<CachedRow>> for Bytewise {
    fn weight(&self, _: &Place, cached: &Box<CachedRow>) -> u64 {
        (allocated(size_of::<CachedRow>()) + cached.row.heap_bytes()) as u64
    }
}

type Entries =
    Cache<Place, Box<CachedRow>, Bytewise, Seed, DefaultLifecycle<Place, Box<CachedRow>>>;

fn empty(capacity: usize, seed: u64) -> Entries {
    let expected = (capacity / EXPECTED).max(16);
    let lifecycle = DefaultLifecycle::default();
    Cache::with(expected, capacity as u64, Bytewise, Seed(seed), lifecycle)
}

/// Rows that the cache holds no more, but that are still in memory.
pub(crate) struct Forgotten(Entries);

impl Forgotten {
    /// Drops them one by one, as they are taken.
    pub(crate) fn drops(&mut self) -> impl Iterator<Item = ()> {
        self.0.drain().map(drop)
    }
}

/// The cache of the rows of a shard. It shares its memory with the cache of chunks: what rows do
/// not take, chunks may.
pub(crate) struct RowCache {
    entries: RefCell<Entries>,
    asked: Doorkeeper,
    /// The lists of columns of entries, each once.
    columns: RefCell<Vec<Rc<[ColumnId]>>>,
    seed: u64,
    chunks: ChunkCache,
    /// Bytes for rows and chunks together.
    shared: Cell<usize>,
    /// Bytes that slots took when it was last looked how much is left for rows.
    slots: Cell<usize>,
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
        RowCache {
            entries: RefCell::new(empty(rows_of(shared), seed)),
            asked: Doorkeeper::new(rows_of(shared) / EXPECTED),
            columns: RefCell::default(),
            seed,
            chunks,
            shared: Cell::new(shared),
            slots: Cell::new(0),
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
        let mut entries = self.entries.borrow_mut();
        entries.set_capacity(self.capacity().saturating_sub(self.slots.get()) as u64);
        self.account(&mut entries);
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
        self.entries.borrow().get(&place).map(|cached| with(cached))
    }

    /// The same, but that does not count as asking for it.
    pub(crate) fn peek<T>(
        &self,
        place: PlaceOf<'_>,
        with: impl FnOnce(&CachedRow) -> T,
    ) -> Option<T> {
        self.entries
            .borrow()
            .peek(&place)
            .map(|cached| with(cached))
    }

    /// Was a row that is not here asked for before, not too long ago? From now on it was.
    pub(crate) fn is_asked_again(&self, place: PlaceOf<'_>) -> bool {
        self.asked.is_asked_again(Seed(self.seed).hash_one(place))
    }

    /// Keeps a row, unless what is kept of it covers more.
    pub(crate) fn put(&self, place: PlaceOf<'_>, cached: CachedRow) {
        let mut entries = self.entries.borrow_mut();
        let known = entries.peek(&place);
        if known.is_some_and(|known| known.covers > cached.covers) {
            return;
        }
        let place = Place {
            table: place.table,
            token: place.key.token(),
            key_length: place.key.key().len() as u32,
            bytes: cached.row.place(),
        };
        entries.insert(place, Box::new(cached));
        self.account(&mut entries);
    }

    /// Forgets a row.
    pub(crate) fn remove(&self, place: PlaceOf<'_>) {
        let mut entries = self.entries.borrow_mut();
        entries.remove(&place);
        self.account(&mut entries);
    }

    /// Forgets all rows; gives them, to be dropped a few at a time.
    pub(crate) fn forget_all(&self) -> Forgotten {
        let mut entries = self.entries.borrow_mut();
        let forgotten = std::mem::replace(&mut *entries, empty(self.capacity(), self.seed));
        self.account(&mut entries);
        Forgotten(forgotten)
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

    /// Gives rows what slots leave them, and chunks what rows leave them.
    fn account(&self, entries: &mut Entries) {
        let slots = entries.memory_used().total();
        // Slots grow by doubling, so this is rare.
        if self.slots.replace(slots) != slots {
            entries.set_capacity(self.capacity().saturating_sub(slots) as u64);
        }
        let rows = slots + entries.weight() as usize;
        let shared = self.shared.get();
        self.chunks.set_capacity(shared.saturating_sub(rows));
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
        let entries = self.entries.borrow();
        RowCacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            size: entries.memory_used().total() + entries.weight() as usize,
            capacity: self.capacity(),
            entries: entries.len(),
        }
    }
}
