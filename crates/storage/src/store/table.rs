//! One table on one shard: its memtables and sstables.

mod carry_over;
mod hand_over;
mod numbered;
mod plain_partition;
mod plain_row;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use io::{Env, Notify};
use model::{ShardId, Sharder, Table, TableId};
use smallvec::SmallVec;

use super::compact::TableCompaction;
use super::import::Entered;
use super::indexes::ShardIndex;
use crate::cache::RowCache;
use crate::memtable::Memtable;
use crate::read::{CachedTable, ReadCounters, View};
use crate::sstable::{
    Component, Descriptor, Generation, SSTable, SSTableError, ShardOrigin, Version,
    folder as sstable_folder,
};
use crate::tally::Tally;
pub(crate) use carry_over::CarryOver;
pub(crate) use hand_over::HandOver;
pub use plain_partition::PlainRows;
pub(crate) use plain_row::PlainAsked;
pub use plain_row::PlainRow;

/// The highest generation from which is counted on: no count gets there, but somebody may give a file
/// any name.
const LAST_GENERATION: u64 = u64::MAX / 2;

/// One table on one shard.
pub(crate) struct TableStore {
    /// The table as of now.
    schema: RefCell<Arc<Table>>,
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// Does its keyspace want writes in the commit log?
    pub(crate) durable: Cell<bool>,
    active: RefCell<Rc<Memtable>>,
    /// Memtables on their way to the drive, the latest first.
    flushing: RefCell<Vec<Rc<Memtable>>>,
    /// The latest first.
    sstables: RefCell<Rc<[SSTable]>>,
    /// Shared sstables that this shard needs no more, but that are still there: until they are
    /// gone, no deletion that covers something in them may be purged.
    pub(crate) ghosts: RefCell<Vec<SSTable>>,
    /// The highest number given to a memtable or sstable of it, see [`crate::cache`].
    number: Cell<u64>,
    /// Its rows in the cache, unless it wants none there.
    cached: RefCell<Option<CachedTable>>,
    rows: Rc<RowCache>,
    /// When each was written, in seconds since 1970.
    written: RefCell<BTreeMap<Generation, u32>>,
    /// Did writing or removing an sstable fail, so that the folder may hold some that are not part
    /// of the table until the next start? Until then no deletion may be purged: one of them could
    /// hold what it covers.
    pub(crate) strays: Cell<bool>,
    generation: Cell<u64>,
    /// sstables that are given a name and are not part of the table yet.
    coming: RefCell<BTreeSet<Descriptor>>,
    /// sstables that are no longer part of the table, but whose files are not removed yet.
    leaving: RefCell<BTreeSet<Descriptor>>,
    /// sstables that are opened, to become part of the table when all shards have opened theirs; until
    /// then it is not truncated.
    pub(crate) arrivals: RefCell<Option<(Vec<SSTable>, Entered)>>,
    owner: (Sharder, ShardId),
    /// sstables that could not be read when somebody tried: no compaction is chosen for them again.
    suspects: RefCell<BTreeSet<Descriptor>>,
    /// sstables that are there, but no part of the table, as they cannot be read.
    unreadable: RefCell<Vec<Unreadable>>,
    /// What compaction knows of it.
    pub(crate) compaction: TableCompaction,
    /// Is it being truncated or dropped? Then no flush and no compaction begins, no write enters.
    blocked: Cell<bool>,
    /// Was it dropped?
    pub(crate) dropped: Cell<bool>,
    /// Is a memtable of it being written right now?
    pub(crate) flushing_now: Cell<bool>,
    /// Writes that are in the log but not in the memtable yet, and a compaction whose inputs are
    /// not removed yet.
    in_flight: Cell<usize>,
    changed: Notify,
    /// How many have to find the files there that they know of.
    keepers: Cell<usize>,
    /// Its indexes.
    pub(crate) indexes: RefCell<Rc<[Rc<ShardIndex>]>>,
    /// Is it the hidden table of one?
    pub(crate) is_index: Cell<bool>,
    /// What reads counted.
    pub(crate) reads: ReadCounters,
    /// What was done to it.
    pub(crate) counters: TableCounters,
}

/// An sstable that cannot be opened, or not be read.
pub(crate) struct Unreadable {
    /// Which, and who wrote it, if that is known; `None` if its format is not.
    pub(crate) sstable: Option<(Descriptor, Option<ShardOrigin>)>,
    /// Why the table cannot be read, as nobody knows what is in this sstable; `None`: it can, and
    /// goes without it.
    pub(crate) error: Option<Arc<SSTableError>>,
}

/// Are these the same sstable of one folder? Cheaper than to compare all of both.
pub(crate) fn is_same(a: &Descriptor, b: &Descriptor) -> bool {
    a.generation == b.generation && a.version == b.version
}

/// What was done to a table since the start.
#[derive(Debug, Default)]
pub(crate) struct TableCounters {
    pub(crate) writes: Cell<u64>,
    /// In microseconds, from being taken to being visible.
    pub(crate) write_latency: Tally,
    /// Of reads of one partition, in microseconds.
    pub(crate) read_latency: Tally,
    /// Of reads of ranges, in microseconds.
    pub(crate) scan_latency: Tally,
    pub(crate) flushes: Cell<u64>,
    pub(crate) flushed_bytes: Cell<u64>,
    pub(crate) compactions: Cell<u64>,
    pub(crate) compacted_bytes: Cell<u64>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get() + count);
}

impl TableStore {
    /// A table with these sstables; `generation` is the highest in its folder.
    pub(crate) fn new(
        (table, rows): (Arc<Table>, Rc<RowCache>),
        dir: PathBuf,
        durable: bool,
        owner: (Sharder, ShardId),
        generation: u64,
        sstables: Vec<SSTable>,
        now_seconds: u32,
    ) -> TableStore {
        let store = TableStore {
            schema: RefCell::new(table),
            dir,
            durable: Cell::new(durable),
            active: RefCell::default(),
            flushing: RefCell::default(),
            sstables: RefCell::new(Rc::new([])),
            ghosts: RefCell::default(),
            number: Cell::new(0),
            cached: RefCell::default(),
            rows,
            written: RefCell::default(),
            strays: Cell::new(false),
            generation: Cell::new(0),
            coming: RefCell::default(),
            leaving: RefCell::default(),
            arrivals: RefCell::default(),
            owner,
            suspects: RefCell::default(),
            unreadable: RefCell::default(),
            compaction: TableCompaction::default(),
            blocked: Cell::new(false),
            dropped: Cell::new(false),
            flushing_now: Cell::new(false),
            in_flight: Cell::new(0),
            changed: Notify::new(),
            keepers: Cell::new(0),
            indexes: RefCell::new(Rc::new([])),
            is_index: Cell::new(false),
            reads: ReadCounters::default(),
            counters: TableCounters::default(),
        };
        store.raise_generation(generation);
        store.forget_cached();
        store.replace_sstables(&[], sstables, now_seconds);
        store
    }

    /// The table as of now.
    pub(crate) fn table(&self) -> Arc<Table> {
        self.schema.borrow().clone()
    }

    pub(crate) fn id(&self) -> TableId {
        self.schema.borrow().id
    }

    /// What is on its way to the drive is written as the table is now, whatever it loses meanwhile.
    pub(crate) fn keep_columns(&self) {
        for memtable in self.flushing.borrow().iter() {
            memtable.set_schema(&self.table());
        }
    }

    /// The table was altered.
    pub(crate) fn set_table(&self, table: &Arc<Table>) {
        if Arc::ptr_eq(&self.schema.borrow(), table) {
            return;
        }
        *self.schema.borrow_mut() = table.clone();
        self.forget_cached();
        for sstable in self.sstables.borrow().iter() {
            sstable.set_table(table);
        }
        for ghost in self.ghosts.borrow().iter() {
            ghost.set_table(table);
        }
    }

    /// All that the table consists of now.
    pub(crate) fn view(&self) -> View {
        let active = self.active.borrow().clone();
        let mut memtables: SmallVec<[Rc<Memtable>; 2]> = SmallVec::from_elem(active, 1);
        memtables.extend(self.flushing.borrow().iter().cloned());
        memtables.retain(|memtable| !memtable.is_empty());
        View {
            table: self.table(),
            memtables,
            sstables: self.sstables.borrow().clone(),
            owner: self.owner,
            number: self.number.get(),
            cached: self.cached.borrow().clone(),
            most_tombstones: u64::MAX,
            index: None,
        }
    }

    /// Deletions of these sstables are no longer to be found: rows that the cache has from before
    /// them are not to be believed.
    pub(crate) fn has_forgotten(&self, sstables: &[SSTable]) {
        let latest = sstables.iter().filter_map(SSTable::number).max();
        if let (Some(latest), Some(cached)) = (latest, &mut *self.cached.borrow_mut()) {
            cached.forgotten = cached.forgotten.max(latest);
        }
    }

    /// What the cache holds of it is no longer what it consists of.
    pub(crate) fn forget_cached(&self) {
        let table = self.table();
        let cached = CachedTable::of(&table, &self.rows);
        *self.cached.borrow_mut() = cached;
    }

    fn next_number(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// The memtable that writes go to.
    pub(crate) fn active(&self) -> Rc<Memtable> {
        self.active.borrow().clone()
    }

    /// The sstables, the latest first.
    pub(crate) fn sstables(&self) -> Rc<[SSTable]> {
        self.sstables.borrow().clone()
    }

    /// An sstable cannot be read. Is that new?
    pub(crate) fn suspect(&self, descriptor: &Descriptor) -> bool {
        self.suspects.borrow_mut().insert(descriptor.clone())
    }

    /// Did reading it fail?
    pub(crate) fn is_suspect(&self, descriptor: &Descriptor) -> bool {
        self.suspects.borrow().contains(descriptor)
    }

    /// How many sstables no compaction is chosen for, and how many the table goes without.
    pub(crate) fn set_apart(&self) -> (u64, u64) {
        let unreadable = self.unreadable.borrow();
        let (suspects, unreadable) = (self.suspects.borrow().len(), unreadable.len());
        (suspects as u64, unreadable as u64)
    }

    /// Notes an sstable that cannot be read. No deletion is purged any more: it could hold what
    /// one covers.
    pub(crate) fn add_unreadable(&self, unreadable: Unreadable) {
        self.strays.set(true);
        self.unreadable.borrow_mut().push(unreadable);
    }

    /// Why the table cannot be read, if so.
    pub(crate) fn unreadable(&self) -> Option<Arc<SSTableError>> {
        let unreadable = self.unreadable.borrow();
        unreadable.iter().find_map(|one| one.error.clone())
    }

    /// Those whose files are known.
    pub(crate) fn unreadable_sstables(&self) -> Vec<Descriptor> {
        let unreadable = self.unreadable.borrow();
        let sstables = unreadable.iter().filter_map(|one| one.sstable.as_ref());
        sstables.map(|(descriptor, _)| descriptor.clone()).collect()
    }

    /// Takes those out whose files are known, to be removed.
    pub(crate) fn take_unreadable(&self) -> Vec<(Descriptor, Option<ShardOrigin>)> {
        let mut taken = Vec::new();
        self.unreadable.borrow_mut().retain(|unreadable| {
            taken.extend(unreadable.sstable.clone());
            unreadable.sstable.is_none()
        });
        taken
    }

    /// Takes the active memtable out of use, to be flushed; `None` if it is empty.
    pub(crate) fn switch(&self) -> Option<Rc<Memtable>> {
        if self.active.borrow().is_empty() {
            return None;
        }
        let full = self.active.replace(Rc::default());
        full.set_number(self.next_number());
        self.flushing.borrow_mut().insert(0, full.clone());
        Some(full)
    }

    /// Does the table still hold this memtable, to be flushed?
    pub(crate) fn holds(&self, memtable: &Rc<Memtable>) -> bool {
        self.flushing
            .borrow()
            .iter()
            .any(|held| Rc::ptr_eq(held, memtable))
    }

    /// Is a memtable on its way to the drive?
    pub(crate) fn is_flushing(&self) -> bool {
        !self.flushing.borrow().is_empty()
    }

    /// A memtable became an sstable (or nothing).
    pub(crate) fn flushed(
        &self,
        memtable: &Rc<Memtable>,
        sstable: Option<SSTable>,
        now_seconds: u32,
    ) {
        self.flushing
            .borrow_mut()
            .retain(|held| !Rc::ptr_eq(held, memtable));
        if let (Some(sstable), Some(number)) = (&sstable, memtable.number()) {
            sstable.set_number(number);
        }
        self.replace_sstables(&[], sstable.into_iter().collect(), now_seconds);
    }

    /// Does the table still consist of all these, those included that it cannot read?
    pub(crate) fn has_all(&self, sstables: &[SSTable]) -> bool {
        let unreadable = self.unreadable.borrow();
        sstables.iter().all(|sstable| {
            let mut unreadable = unreadable.iter().filter_map(|one| one.sstable.as_ref());
            self.has_live(sstable)
                || unreadable.any(|(descriptor, _)| is_same(descriptor, sstable.descriptor()))
        })
    }

    /// Do reads see this sstable?
    pub(crate) fn has_live(&self, sstable: &SSTable) -> bool {
        let known = self.sstables.borrow();
        let mut known = known.iter();
        known.any(|known| is_same(known.descriptor(), sstable.descriptor()))
    }

    /// Replaces some sstables by others.
    pub(crate) fn replace_sstables(&self, old: &[SSTable], new: Vec<SSTable>, now_seconds: u32) {
        let schema = self.table();
        let mut written = self.written.borrow_mut();
        for sstable in old {
            written.remove(&sstable.descriptor().generation);
            self.suspects.borrow_mut().remove(sstable.descriptor());
            let is_same = |one: &Unreadable| {
                let unreadable = one.sstable.as_ref();
                unreadable.is_some_and(|(descriptor, _)| is_same(descriptor, sstable.descriptor()))
            };
            self.unreadable.borrow_mut().retain(|one| !is_same(one));
        }
        let left = old.iter().map(|sstable| sstable.descriptor().clone());
        self.leaving.borrow_mut().extend(left);
        for sstable in &new {
            let mut coming = self.coming.borrow_mut();
            coming.remove(sstable.descriptor());
        }
        written.extend(
            new.iter()
                .map(|s| (s.descriptor().generation.clone(), now_seconds)),
        );
        // What came of others knows what they knew, and nothing else; a flushed one has the number of its memtable.
        let inherited = old.iter().filter_map(SSTable::number).max();
        for sstable in &new {
            sstable.set_table(&schema);
        }
        let unnumbered = || new.iter().filter(|sstable| sstable.number().is_none());
        if unnumbered().next().is_some() {
            let number = inherited.unwrap_or_else(|| self.next_number());
            unnumbered().for_each(|sstable| sstable.set_number(number));
        }
        let gone = |known: &SSTable| {
            let mut old = old.iter();
            old.any(|o| is_same(o.descriptor(), known.descriptor()))
        };
        let known = self.sstables.borrow().clone();
        let mut all: Vec<SSTable> = known.iter().filter(|k| !gone(k)).cloned().collect();
        all.extend(new);
        all.sort_by(|a, b| {
            let latest = |s: &SSTable| s.stats().max_timestamp;
            latest(b)
                .cmp(&latest(a))
                .then_with(|| b.descriptor().cmp(a.descriptor()))
        });
        *self.sstables.borrow_mut() = all.into();
    }

    /// Says when the sstables that were found at start were written.
    pub(crate) fn set_written(&self, written: BTreeMap<Descriptor, u32>) {
        let mut all = self.written.borrow_mut();
        for (descriptor, seconds) in written {
            if let Some(since) = all.get_mut(&descriptor.generation) {
                *since = seconds.min(*since);
            }
        }
    }

    /// How many seconds ago an sstable was written.
    pub(crate) fn age(&self, sstable: &SSTable, now_seconds: u32) -> u32 {
        let written = self.written.borrow();
        let since = written.get(&sstable.descriptor().generation).copied();
        now_seconds.saturating_sub(since.unwrap_or(now_seconds))
    }

    /// Empties the table; gives what it consisted of.
    pub(crate) fn clear(&self) -> (Vec<Rc<Memtable>>, Rc<[SSTable]>) {
        let active = self.active.replace(Rc::default());
        let mut memtables = std::mem::take(&mut *self.flushing.borrow_mut());
        memtables.push(active);
        self.forget_cached();
        let sstables = self.sstables.replace(Rc::new([]));
        self.suspects.borrow_mut().clear();
        let left = sstables.iter().map(|s| s.descriptor().clone());
        self.leaving.borrow_mut().extend(left);
        (memtables, sstables)
    }

    /// A name for an sstable that nothing in the folder has, also not what somebody has put there
    /// behind our back, and that none gets from another shard (Cassandra's
    /// `ColumnFamilyStore.getUniqueDescriptorFor`).
    pub(crate) async fn new_descriptor(&self, env: &Env, version: Version) -> Descriptor {
        // A folder that cannot be listed will not take the files either.
        let taken = sstable_folder::numbers(env, &self.dir).await;
        let taken = taken.unwrap_or_default();
        let mut number = self.next_generation();
        while taken.contains(&number) {
            number = self.next_generation();
        }
        let descriptor = Descriptor {
            dir: self.dir.clone(),
            version,
            generation: Generation::Number(number),
        };
        self.coming.borrow_mut().insert(descriptor.clone());
        descriptor
    }

    /// A generation that this shard has not given yet, and that no other gives.
    fn next_generation(&self) -> u64 {
        let (sharder, shard) = self.owner;
        let shards = u64::from(sharder.shards());
        let mut generation = self.generation.get() + 1;
        while generation % shards != u64::from(shard) {
            generation += 1;
        }
        self.generation.set(generation);
        generation
    }

    /// From now on only higher generations are given.
    pub(crate) fn raise_generation(&self, generation: u64) {
        let generation = generation.min(LAST_GENERATION);
        self.generation.set(self.generation.get().max(generation));
    }

    /// The files of an sstable are gone: others may have its name.
    pub(crate) fn files_gone(&self, descriptor: &Descriptor) {
        self.leaving.borrow_mut().remove(descriptor);
        self.coming.borrow_mut().remove(descriptor);
    }

    /// All sstables in its folder that this shard knows of, be they part of the table or not.
    /// `is_gone` tells whether another shard has removed a data file.
    pub(crate) fn known_descriptors(
        &self,
        is_gone: impl Fn(&Path) -> bool,
    ) -> BTreeSet<Descriptor> {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|descriptor| !is_gone(&descriptor.path(Component::Data)));
        let mut known = self.coming.borrow().clone();
        known.extend(leaving.iter().cloned());
        let descriptor = |sstable: &SSTable| sstable.descriptor().clone();
        known.extend(self.sstables.borrow().iter().map(descriptor));
        let arrivals = self.arrivals.borrow();
        let arrivals = arrivals.iter().flat_map(|(sstables, _)| sstables);
        known.extend(arrivals.map(descriptor));
        known
    }

    /// The highest generation given so far.
    pub(crate) fn last_generation(&self) -> u64 {
        self.generation.get()
    }

    /// Is it being truncated or dropped?
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// Keeps flushes, compactions and writes from beginning, and waits for the writes under way.
    pub(crate) async fn block(&self) {
        while self.blocked.get() {
            self.changed.notified().await;
        }
        self.blocked.set(true);
        while self.in_flight.get() > 0 {
            self.changed.notified().await;
        }
    }

    /// Lets them begin again.
    pub(crate) fn unblock(&self) {
        self.blocked.set(false);
        self.changed.notify_all();
    }

    /// Waits until writes may enter.
    pub(crate) async fn entrance(&self) {
        while self.blocked.get() && !self.dropped.get() {
            self.changed.notified().await;
        }
    }

    /// A write is in the log, or a compaction has an output.
    pub(crate) fn enter(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// The write is in the memtable or was given up, or the compaction's inputs are gone.
    pub(crate) fn leave(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 && self.blocked.get() {
            self.changed.notify_all();
        }
    }

    /// As long as what is returned lives, no file of the table is removed.
    pub(crate) fn keep_files(self: &Rc<TableStore>) -> Kept {
        self.keepers.set(self.keepers.get() + 1);
        Kept(self.clone())
    }

    /// Waits until files may be removed.
    pub(crate) async fn removable(&self) {
        while self.keepers.get() > 0 {
            self.changed.notified().await;
        }
    }

    /// Did this shard write an sstable for itself, or do others need it too?
    pub(crate) fn is_shared(&self, sstable: &SSTable) -> bool {
        self.is_shared_of(sstable.origin())
    }

    /// The same of an sstable that this shard of so many wrote.
    pub(crate) fn is_shared_of(&self, origin: Option<ShardOrigin>) -> bool {
        let (sharder, shard) = self.owner;
        let ours = origin.is_some_and(|o| (o.shard, o.shards) == (shard, sharder.shards()));
        !ours && sharder.shards() > 1
    }
}

/// Keeps the files of a table where they are.
pub(crate) struct Kept(Rc<TableStore>);

impl Drop for Kept {
    fn drop(&mut self) {
        let keepers = &self.0.keepers;
        keepers.set(keepers.get() - 1);
        if keepers.get() == 0 {
            self.0.changed.notify_all();
        }
    }
}
