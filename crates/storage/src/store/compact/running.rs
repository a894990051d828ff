//! Which compactions run, what they compact, and how far they are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use io::{Instant, Notify, Semaphore};
use model::TableId;

use super::super::table::{TableStore, is_same};
use super::history::History;
use crate::compaction::{Strategy, transaction::Operation};
use crate::space::Reservation;
use crate::sstable::Descriptor;

/// Why sstables are rewritten (`OperationType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactionKind {
    /// The strategy of the table chose it.
    Compaction,
    /// Somebody asked for a compaction.
    MajorCompaction,
    /// Dropping what does not belong here.
    Cleanup,
    /// Writing the present version.
    UpgradeSstables,
    /// Dropping what is deleted.
    GarbageCollect,
    /// Dropping what cannot be read.
    Scrub,
}

impl CompactionKind {
    /// All of them.
    pub const ALL: [CompactionKind; 6] = [
        CompactionKind::Compaction,
        CompactionKind::MajorCompaction,
        CompactionKind::Cleanup,
        CompactionKind::UpgradeSstables,
        CompactionKind::GarbageCollect,
        CompactionKind::Scrub,
    ];

    /// As Cassandra's `nodetool compactionstats` shows it.
    pub fn title(self) -> &'static str {
        match self {
            CompactionKind::Compaction => "Compaction",
            CompactionKind::MajorCompaction => "Major compaction",
            CompactionKind::Cleanup => "Cleanup",
            CompactionKind::UpgradeSstables => "Upgrade sstables",
            CompactionKind::GarbageCollect => "Remove deleted data",
            CompactionKind::Scrub => "Scrub",
        }
    }

    /// As Cassandra's `nodetool stop` takes it.
    pub fn name(self) -> &'static str {
        match self {
            CompactionKind::Compaction => "COMPACTION",
            CompactionKind::MajorCompaction => "MAJOR_COMPACTION",
            CompactionKind::Cleanup => "CLEANUP",
            CompactionKind::UpgradeSstables => "UPGRADE_SSTABLES",
            CompactionKind::GarbageCollect => "GARBAGE_COLLECT",
            CompactionKind::Scrub => "SCRUB",
        }
    }

    pub(super) fn operation(self) -> Operation {
        match self {
            CompactionKind::Compaction => Operation::Compaction,
            CompactionKind::MajorCompaction => Operation::Major,
            CompactionKind::Cleanup => Operation::Cleanup,
            CompactionKind::UpgradeSstables => Operation::Upgrade,
            CompactionKind::GarbageCollect => Operation::GarbageCollect,
            CompactionKind::Scrub => Operation::Scrub,
        }
    }
}

/// A compaction that runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionStatus {
    /// Numbers the compactions of a shard since its start.
    pub id: u64,
    /// Why.
    pub kind: CompactionKind,
    /// The table.
    pub table: TableId,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table_name: String,
    /// How many sstables are compacted.
    pub inputs: usize,
    /// How far it is, in bytes before compression; an estimate.
    pub done_bytes: u64,
    /// How far it goes, in bytes before compression.
    pub total_bytes: u64,
}

/// The compactions of a shard.
#[derive(Default)]
pub(crate) struct Compactions {
    running: RefCell<Vec<Rc<Running>>>,
    started: Cell<u64>,
    /// Those that are done.
    pub(super) history: History,
    /// The table that was compacted last.
    pub(super) last_table: Cell<TableId>,
    /// The shares of the shard's time that compaction has.
    pub(super) shares: Cell<u64>,
    /// When they were set last.
    pub(super) paced_at: Cell<Option<Instant>>,
    /// One of them has ended.
    ended: Notify,
}

/// A compaction under way. Others leave its inputs alone until it is dropped.
pub(super) struct Running {
    id: u64,
    kind: CompactionKind,
    table: Rc<TableStore>,
    inputs: Vec<Descriptor>,
    /// Bytes on disk, by which it is compared with others.
    size: u64,
    total: u64,
    done: Cell<u64>,
    /// Of how many partitions so many inputs knew.
    merged: RefCell<Vec<u64>>,
    /// May it have forgotten deletions?
    forgets: Cell<bool>,
    stopped: Cell<bool>,
    /// The room that it was promised for what it has still to write.
    room: RefCell<Option<Reservation>>,
}

impl Running {
    /// Why it runs.
    pub(super) fn kind(&self) -> CompactionKind {
        self.kind
    }

    /// It may forget deletions.
    pub(super) fn set_forgets(&self) {
        self.forgets.set(true);
    }

    /// May it have forgotten deletions?
    pub(super) fn forgets(&self) -> bool {
        self.forgets.get()
    }

    /// A partition was merged that so many inputs, at least one, knew of.
    pub(super) fn count_merged(&self, inputs: usize) {
        let mut merged = self.merged.borrow_mut();
        if merged.len() < inputs {
            merged.resize(inputs, 0);
        }
        merged[inputs - 1] += 1;
    }

    /// Of how many partitions so many inputs knew, from one on.
    pub(super) fn merged(&self) -> Vec<u64> {
        self.merged.borrow().clone()
    }

    /// Was it told to stop?
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// So many bytes are behind it.
    pub(super) fn proceed(&self, done: u64) {
        self.done.set(self.done.get().max(done).min(self.total));
        if let Some(room) = &*self.room.borrow() {
            room.proceed(self.done.get(), self.total);
        }
    }

    /// It writes into this room, which is given back when it ends.
    pub(super) fn take_room(&self, room: Reservation) {
        *self.room.borrow_mut() = Some(room);
    }

    /// Bytes to read in all, before compression.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes on disk that are not compacted yet.
    pub(super) fn left(&self) -> u64 {
        let left = self.total.saturating_sub(self.done.get());
        let scaled = u128::from(self.size) * u128::from(left) / u128::from(self.total.max(1));
        scaled as u64
    }

    fn status(&self) -> CompactionStatus {
        let table = self.table.table();
        CompactionStatus {
            id: self.id,
            kind: self.kind,
            table: table.id,
            keyspace: table.keyspace.to_string(),
            table_name: table.name.to_string(),
            inputs: self.inputs.len(),
            done_bytes: self.done.get(),
            total_bytes: self.total,
        }
    }
}

/// Takes part in the list of running compactions as long as it lives.
pub(super) struct Place<'c> {
    compactions: &'c Compactions,
    pub(super) running: Rc<Running>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut running = self.compactions.running.borrow_mut();
        running.retain(|other| !Rc::ptr_eq(other, &self.running));
        self.running.room.borrow_mut().take();
        let compaction = &self.running.table.compaction;
        let inputs = &self.running.inputs;
        let is_input = |busy: &Descriptor| inputs.iter().any(|input| is_same(input, busy));
        compaction.busy.borrow_mut().retain(|busy| !is_input(busy));
        compaction.freed.notify_all();
        self.compactions.ended.notify_all();
    }
}

impl Compactions {
    /// Waits until none runs.
    pub(crate) async fn all_ended(&self) {
        while !self.running.borrow().is_empty() {
            self.ended.notified().await;
        }
    }

    /// A compaction begins: `size` bytes on disk, `total` before compression.
    pub(super) fn enter(
        &self,
        kind: CompactionKind,
        table: &Rc<TableStore>,
        inputs: Vec<Descriptor>,
        (size, total): (u64, u64),
    ) -> Place<'_> {
        let id = self.started.get() + 1;
        self.started.set(id);
        let mut busy = table.compaction.busy.borrow_mut();
        busy.extend(inputs.iter().cloned());
        let running = Rc::new(Running {
            id,
            kind,
            table: table.clone(),
            inputs,
            size,
            total,
            done: Cell::new(0),
            merged: RefCell::default(),
            forgets: Cell::new(false),
            stopped: Cell::new(false),
            room: RefCell::default(),
        });
        self.running.borrow_mut().push(running.clone());
        Place {
            compactions: self,
            running,
        }
    }

    /// Bytes of the smallest one that a strategy chose; `None` if none of them runs.
    pub(super) fn smallest_running(&self) -> Option<u64> {
        let running = self.running.borrow();
        let chosen = running
            .iter()
            .filter(|running| running.kind == CompactionKind::Compaction);
        chosen.map(|running| running.size).min()
    }

    /// How many run.
    pub(crate) fn count(&self) -> u64 {
        self.running.borrow().len() as u64
    }

    /// Bytes that those that run have still to do.
    pub(super) fn left(&self) -> u64 {
        self.running.borrow().iter().map(|r| r.left()).sum()
    }

    pub(super) fn statuses(&self) -> Vec<CompactionStatus> {
        self.running.borrow().iter().map(|r| r.status()).collect()
    }

    /// Tells those to stop that are meant. How many there are.
    pub(super) fn stop(&self, meant: impl Fn(&CompactionStatus) -> bool) -> usize {
        let running = self.running.borrow();
        let meant = running.iter().filter(|running| meant(&running.status()));
        meant.map(|running| running.stopped.set(true)).count()
    }
}

/// What compaction knows of a table on one shard.
pub(crate) struct TableCompaction {
    /// Set when it was first asked for.
    pub(super) strategy: RefCell<Option<Strategy>>,
    /// sstables that are being compacted.
    busy: RefCell<Vec<Descriptor>>,
    /// Some are not any more.
    freed: Notify,
    /// Operations that have the table for themselves, or wait to.
    held: Cell<u32>,
    /// One operation after the other.
    operations: Semaphore,
    /// Did somebody switch compaction by itself on or off (`nodetool enableautocompaction` and
    /// `disableautocompaction`), against the option of the table?
    switch: Cell<Option<bool>>,
    /// Until then nothing is chosen, as the last compaction failed.
    rests_until: Cell<Option<Instant>>,
}

impl Default for TableCompaction {
    fn default() -> TableCompaction {
        TableCompaction {
            strategy: RefCell::default(),
            busy: RefCell::default(),
            freed: Notify::new(),
            held: Cell::new(0),
            operations: Semaphore::new(1),
            switch: Cell::new(None),
            rests_until: Cell::new(None),
        }
    }
}

impl TableCompaction {
    /// Is the sstable being compacted?
    pub(super) fn is_busy(&self, descriptor: &Descriptor) -> bool {
        let busy = self.busy.borrow();
        busy.iter().any(|busy| is_same(busy, descriptor))
    }

    /// Waits until none of its sstables is being compacted.
    pub(crate) async fn idle(&self) {
        while !self.busy.borrow().is_empty() {
            self.freed.notified().await;
        }
    }

    /// Does an operation have the table, or wait for it? Then its strategy chooses nothing.
    pub(super) fn is_held(&self) -> bool {
        self.held.get() > 0
    }

    /// From now until then its strategy chooses nothing.
    pub(super) fn rest(&self, until: Instant) {
        self.rests_until.set(Some(until));
    }

    /// Does it rest?
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.rests_until.get().is_some_and(|until| now < until)
    }

    /// Switches compaction by itself on or off, whatever the table's options say.
    pub(super) fn set_enabled(&self, enabled: bool) {
        self.switch.set(Some(enabled));
    }

    /// May its strategy choose what to compact, if the table's options say this? A switch that says
    /// the same as they is forgotten: whoever alters them later means it
    /// (`CompactionStrategyManager.reloadParamsFromSchema`).
    pub(super) fn is_enabled(&self, option: bool) -> bool {
        let against = self.switch.get().filter(|switch| *switch != option);
        self.switch.set(against);
        against.unwrap_or(option)
    }
}

/// A table for one operation alone: as long as it lives, the strategy chooses nothing.
pub(super) struct Hold {
    table: Rc<TableStore>,
    _turn: io::Permit,
}

impl Hold {
    /// Waits until no other operation has the table and none of its sstables is being compacted;
    /// the compactions that its strategy chose are stopped.
    pub(super) async fn new(compactions: &Compactions, table: &Rc<TableStore>) -> Hold {
        let turn = table.compaction.operations.acquire(1).await;
        table.compaction.held.set(table.compaction.held.get() + 1);
        let hold = Hold {
            table: table.clone(),
            _turn: turn,
        };
        let id = table.id();
        compactions.stop(|s| s.table == id && s.kind == CompactionKind::Compaction);
        table.compaction.idle().await;
        hold
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = &self.table.compaction.held;
        held.set(held.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_wins_over_the_option_until_both_agree() {
        let table = TableCompaction::default();
        assert!(table.is_enabled(true) && !table.is_enabled(false));
        table.set_enabled(true);
        assert!(table.is_enabled(false), "it is switched on");
        table.set_enabled(false);
        assert!(!table.is_enabled(true), "it is switched off");
        assert!(!table.is_enabled(false));
        assert!(table.is_enabled(true), "the options were altered since");
    }
}
