//! What memtables may take, and who waits for it.
//!
//! Memtables, caches and what open sstables keep in memory share one budget. What memtables and
//! sstables (their bloom filters most of all) do not take is for rows and chunks of
//! sstables: a node that is only read has nearly all of its memory for them, and one that is
//! written to takes it back as memtables grow, a little at a time. What the process has beyond all that is
//! counted, caches give back (`pressure`).
//!
//! A write reserves what it may make memtables grow by before it is logged, so that memtables,
//! those being flushed and the writes under way never take more than their limit. At three eighths of it
//! the largest memtable is flushed: as much again is what writers fill meanwhile. Where the drive
//! does not follow, writes are let in at the rate at which what is left lasts until the flush is over
//! (`inflow`), so that all are slowed alike and early; at the limit they wait in turn, and are refused
//! after a while. A flush has as much of the shard as lets it be over then (`flush_pace`), and from when
//! writers are slowed it leaves the drive to nobody else ([`Env::set_hurry`](io::Env::set_hurry)). For a write that
//! needs more than is left then, the largest memtables are flushed until there is room for it. One that
//! there can never be room for is refused at once.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

use io::{Instant, Notify, Semaphore};
use model::Mutation;

use super::Inner;
use super::inflow::{Inflow, Room};
use super::pressure::Pressure;
use super::table::add;
use crate::cache::RowCache;
use crate::error::WriteError;
use crate::memtable::{Growth, most_growth};

/// How long a write waits for memory before it is refused.
const WRITE_WAIT: Duration = Duration::from_secs(1);
/// How many writes may wait for memory at once.
const MAX_WAITING: usize = 1024;

/// The log is long when memtables could be full twice, and it has so many segments. Then it is not what
/// is written most that holds it, but a table that is hardly written to: flushing that one costs next
/// to nothing, a restart reads less, and segments that go are used again instead of new ones, whose
/// writes the file system has to log.
pub(super) const LONG_LOG: u64 = 8;
/// Next to nothing: so many tables at most,
const FEW_HOLDERS: usize = 16;
/// with this part of what memtables may take.
const FEW_BYTES: usize = 256;

/// Caches are told of changes of this part of the budget.
const STEPS: usize = 256;

/// What memtables take.
pub(super) struct Memory {
    /// What memtables and sstables do not take of this is for caches,
    budget: usize,
    /// but for what the process has too much.
    pressure: RefCell<Pressure>,
    /// What memtables and sstables took when caches were last told, in steps.
    told: Cell<usize>,
    rows: Rc<RowCache>,
    pub(super) limit: usize,
    /// From here on the largest memtable is flushed.
    pub(super) flush_at: usize,
    /// Of memtables that are written to.
    pub(super) active: Cell<usize>,
    /// Of memtables being flushed.
    pub(super) flushing: Cell<usize>,
    /// What writes under way may add.
    reserved: Cell<usize>,
    /// Who may write when there is little left.
    inflow: RefCell<Inflow>,
    /// Wakes those who wait for their time: a flush is over.
    relieved: Notify,
    /// Wakes the one whose turn it is.
    pub(super) freed: Notify,
    pub(super) waiting: Cell<usize>,
    /// Was it said that flushes cannot wait?
    hurries: Cell<bool>,
    /// Held by the first of those who wait: a large write is not overtaken by small ones.
    turn: Semaphore,
    /// The segment that the log wrote to when it was last asked whether it is too large.
    looked_at_log: Cell<u64>,
}

impl Memory {
    /// Memtables of at most `limit` bytes, which with `rows`, the chunks beside them and the sstables
    /// of those take no more than `budget`.
    pub(super) fn new(limit: usize, budget: usize, rows: Rc<RowCache>) -> Memory {
        rows.set_shared(budget);
        Memory {
            budget,
            pressure: RefCell::new(Pressure::new(budget)),
            told: Cell::new(0),
            rows,
            limit,
            flush_at: limit / 8 * 3,
            active: Cell::new(0),
            flushing: Cell::new(0),
            reserved: Cell::new(0),
            inflow: RefCell::new(Inflow::new()),
            relieved: Notify::new(),
            freed: Notify::new(),
            waiting: Cell::new(0),
            hurries: Cell::new(false),
            turn: Semaphore::new(1),
            looked_at_log: Cell::new(0),
        }
    }

    pub(super) fn used(&self) -> usize {
        self.active.get() + self.flushing.get()
    }

    pub(super) fn grow_active(&self, bytes: isize) {
        self.active
            .set(self.active.get().saturating_add_signed(bytes));
        self.tell_caches();
    }

    /// A memtable is to be flushed.
    pub(super) fn begin_flush(&self, bytes: usize) {
        self.active.set(self.active.get().saturating_sub(bytes));
        self.flushing.set(self.flushing.get() + bytes);
    }

    /// It is gone.
    pub(super) fn end_flush(&self, bytes: usize) {
        self.flushing.set(self.flushing.get().saturating_sub(bytes));
        self.freed.notify_all();
        self.relieved.notify_all();
        self.tell_caches();
    }

    /// So many bytes of the memtable that is being flushed are written.
    pub(super) fn flushes(&self, done: usize, now: Instant) {
        self.inflow.borrow_mut().flushes(done, now);
    }

    /// No flush is under way.
    pub(super) fn ends_writing(&self) {
        self.inflow.borrow_mut().ends();
    }

    /// Lets caches have what memtables and sstables leave.
    pub(super) fn tell_caches(&self) {
        let taken = self.used() + self.rows.held_beside() + self.held_back();
        let steps = taken.div_ceil((self.budget / STEPS).max(1));
        if self.told.replace(steps) != steps {
            let taken = steps * (self.budget / STEPS);
            self.rows.set_shared(self.budget.saturating_sub(taken));
        }
    }

    /// Of `granted` bytes the process has `resident`, in equal parts for its shards: caches give back
    /// what is over.
    pub(super) fn weigh(&self, resident: usize, granted: usize) {
        self.pressure.borrow_mut().look(resident, granted);
        self.tell_caches();
    }

    /// Bytes that caches have given back.
    pub(super) fn held_back(&self) -> usize {
        self.pressure.borrow().held_back()
    }

    pub(super) fn committed(&self) -> usize {
        self.used() + self.reserved.get()
    }

    /// Is there room for so much?
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.committed().saturating_add(bytes) <= self.limit
    }

    /// Would memtables that are written to leave no room for a write, were there nothing else?
    fn is_in_the_way_of(&self, growth: Growth) -> bool {
        let active = self.active.get();
        active.saturating_add(growth.beside(active)) > self.limit
    }

    /// Is there more than flushes should let it come to?
    fn is_short(&self) -> bool {
        self.flushing.get() > 0 && self.free() < self.plenty()
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.committed())
    }

    /// So much is left where writers need not be slowed.
    fn plenty(&self) -> usize {
        self.limit / 4
    }

    /// Are writers slowed, or do some wait?
    pub(super) fn cannot_wait(&self) -> bool {
        self.is_short() || self.waiting.get() > 0
    }

    /// How long a write should wait although there is room.
    fn pace(&self, bytes: usize, now: Instant) -> Duration {
        self.inflow.borrow_mut().wait(bytes, &self.room(), now)
    }

    fn room(&self) -> Room {
        Room {
            free: self.free(),
            plenty: self.plenty(),
            flushing: self.flushing.get(),
        }
    }

    /// May a write that may take so many bytes begin at once, with nobody waiting before it?
    pub(super) fn lets_in(&self, bytes: usize, now: impl FnOnce() -> Instant) -> bool {
        let is_in_time = || (self.inflow.borrow_mut()).lets_in(bytes, &self.room(), now());
        self.waiting.get() == 0 && self.has_room(bytes) && (!self.is_short() || is_in_time())
    }

    /// Sets memory aside for a write under way, until it is given back.
    pub(super) fn set_aside(&self, bytes: usize) {
        self.reserved.set(self.reserved.get() + bytes);
    }

    /// Gives back what was set aside.
    pub(super) fn give_back(&self, bytes: usize) {
        self.reserved.set(self.reserved.get() - bytes);
        if self.waiting.get() > 0 {
            self.freed.notify_one();
        }
    }

    fn reserve(&self, bytes: usize) -> Reserved<'_> {
        self.set_aside(bytes);
        Reserved {
            memory: self,
            bytes,
        }
    }
}

/// Memory that a write under way may come to need, as long as this lives.
pub(super) struct Reserved<'m> {
    memory: &'m Memory,
    bytes: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// Counts one who waits, as long as it lives.
struct Waiting<'c>(&'c Cell<usize>);

impl<'c> Waiting<'c> {
    fn new(count: &'c Cell<usize>) -> Waiting<'c> {
        count.set(count.get() + 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// How many bytes a write may come to take, with the entries of indexes that it makes.
pub(super) fn most_growth_with(mutation: &Mutation, entries: Option<&Mutation>) -> usize {
    most_growth(mutation) + entries.map_or(0, most_growth)
}

impl Inner {
    /// Waits until there is memory for a write.
    pub(super) async fn admit(&self, mutation: &Mutation) -> Result<Reserved<'_>, WriteError> {
        let memory = &self.memory;
        let entries = self.entries_of(mutation);
        let bytes = most_growth_with(mutation, entries.as_ref());
        if memory.waiting.get() == 0 && memory.has_room(bytes) && !self.closed.get() {
            let reserved = memory.reserve(bytes);
            if memory.is_short() {
                self.wait_in_line(bytes).await;
            }
            return Ok(reserved);
        }
        let growth = Growth::of(mutation);
        let growth = match &entries {
            Some(entries) => growth.and(&Growth::of(entries)),
            None => growth,
        };
        Box::pin(self.admit_later(growth)).await
    }

    /// Waits until a write for which there is room may begin.
    async fn wait_in_line(&self, bytes: usize) {
        let wait = self.memory.pace(bytes, self.env.now());
        if !wait.is_zero() {
            // Whether its time has come or there is room for all, it goes on.
            let relieved = self.memory.relieved.notified();
            let _ = self.env.timeout(wait, relieved).await;
        }
    }

    async fn admit_later(&self, growth: Growth) -> Result<Reserved<'_>, WriteError> {
        let memory = &self.memory;
        let refuse = |error| {
            add(&self.counters.refused, 1);
            Err(error)
        };
        let overloaded = |reason: Cow<'static, str>| WriteError::Overloaded(reason);
        let least = growth.beside(0);
        if least > memory.limit {
            return refuse(WriteError::TooLarge {
                bytes: least as u64,
                limit: memory.limit as u64,
                what: "that memtables of a shard may take: write less at once, or give the node \
                       more with --memory",
            });
        }
        if memory.waiting.get() >= MAX_WAITING {
            let reason = "memtables are full and too many writes wait for a flush";
            return refuse(overloaded(reason.into()));
        }
        let _waiting = Waiting::new(&memory.waiting);
        let room = async {
            let _turn = memory.turn.acquire(1).await;
            while !self.closed.get() {
                self.relieve();
                self.make_way_for(growth);
                let bytes = growth.beside(memory.active.get());
                if memory.has_room(bytes) {
                    return Ok(memory.reserve(bytes));
                }
                memory.freed.notified().await;
            }
            Err(WriteError::Closed)
        };
        // Nobody knows when a flush that fails will succeed.
        let wait = match self.flush_failure.borrow().is_some() {
            true => Duration::ZERO,
            false => WRITE_WAIT,
        };
        match self.env.timeout(wait, room).await {
            Ok(admitted) => admitted,
            Err(_) => refuse(overloaded(match &*self.flush_failure.borrow() {
                Some(reason) => {
                    format!("memtables are full and their flush fails: {reason}").into()
                }
                None => "memtables are full and their flush does not keep up".into(),
            })),
        }
    }

    /// Where writers wait for a flush, it waits for nobody.
    pub(super) fn set_hurry(&self) {
        let memory = &self.memory;
        let hurries = memory.cannot_wait();
        if memory.hurries.replace(hurries) != hurries {
            self.env.set_hurry(hurries);
        }
    }

    /// Flushes the largest memtables until those that are left leave room for a write. What is being
    /// flushed already and what other writes reserved becomes free by itself.
    fn make_way_for(&self, growth: Growth) {
        // What cannot be written takes no less memory in more pieces.
        let fails = self.flush_failure.borrow().is_some();
        if fails || !self.memory.is_in_the_way_of(growth) {
            return;
        }
        let mut tables = self.all_tables();
        tables.retain(|table| !table.is_blocked());
        tables.sort_by_cached_key(|table| Reverse(table.active().bytes()));
        for table in tables {
            if !self.memory.is_in_the_way_of(growth) {
                return;
            }
            self.begin_flush(&table);
        }
    }

    /// Flushes what has to be flushed for memory's sake or the log's.
    pub(super) fn relieve(&self) {
        self.set_hurry();
        if self.memory.active.get() >= self.memory.flush_at {
            let tables = self.tables.borrow();
            let largest = tables
                .values()
                .filter(|table| !table.is_blocked())
                .max_by_key(|table| table.active().bytes());
            if let Some(table) = largest {
                self.begin_flush(table);
            }
        }
        // The log grows by whole segments.
        let segment = self.log.active_segment();
        if self.memory.looked_at_log.replace(segment) == segment {
            return;
        }
        let total = self.log.total_bytes();
        let long =
            (2 * self.memory.limit as u64).max(LONG_LOG * self.config.commitlog.segment_bytes);
        if total <= long.min(self.config.commitlog.total_bytes) {
            return;
        }
        let holders = self.log.holders_of_oldest();
        let holders: Vec<_> = holders
            .into_iter()
            .filter_map(|id| self.table(id))
            .collect();
        let worth_it = || {
            let bytes: usize = holders.iter().map(|table| table.active().bytes()).sum();
            holders.len() <= FEW_HOLDERS && bytes <= self.memory.limit / FEW_BYTES
        };
        if total > self.config.commitlog.total_bytes || worth_it() {
            for table in holders.iter().filter(|table| !table.is_blocked()) {
                self.begin_flush(table);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::ChunkCache;

    #[test]
    fn caches_have_what_memtables_leave_them() {
        const BUDGET: usize = 256 << 10;
        let chunks = ChunkCache::new(BUDGET);
        let rows = Rc::new(RowCache::new(BUDGET, chunks.clone(), 1));
        let memory = Memory::new(BUDGET / 2, BUDGET, rows);
        let file = chunks.register_file();
        let fill = || (0..400).for_each(|n| chunks.insert(file, n, vec![0; 1000].into()));
        fill();
        assert!(chunks.stats().size > BUDGET / 10 * 9);
        for _ in 0..100 {
            memory.grow_active(1000);
            assert!(memory.used() + chunks.stats().size <= BUDGET);
        }
        fill();
        memory.begin_flush(100_000);
        memory.grow_active(20_000);
        assert!(memory.used() + chunks.stats().size <= BUDGET);
        memory.end_flush(100_000);
        fill();
        let all = memory.used() + chunks.stats().size;
        assert!(all <= BUDGET && all > BUDGET / 10 * 9, "{all}");
        memory.grow_active(-20_000);
        assert_eq!(chunks.stats().capacity, BUDGET);
        let held = chunks.hold(100_000);
        memory.tell_caches();
        assert!(100_000 + chunks.stats().size <= BUDGET);
        drop(held);
        memory.tell_caches();
        assert_eq!(chunks.stats().capacity, BUDGET);
        fill();
        memory.weigh(BUDGET + 60_000, BUDGET);
        assert!(30_000 + chunks.stats().size <= BUDGET);
    }
}
