//! What was written and is not in an sstable yet.
//!
//! Partitions lie in a B+tree by token, so that a look-up compares integers only and a scan or a
//! flush walks in ring order. Each is shared with its readers, who see it as it was when they
//! began. A row is one piece of memory with all that is known of it ([`model::PackedRow`]), which readers
//! share or take [`model::Row`]s from; the rows of a partition lie in a tree that is copied where it is written
//! to while a reader has it (`tree`).

mod allocated;
mod growth;
mod key;
mod measured;
mod partition;
mod partitions;
mod row;
mod stream;
mod token_map;
mod tombstones;
mod tree;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use model::{DecoratedKey, PartitionBound, PartitionUpdate, RowUpdate, Table};

pub(crate) use allocated::{COUNTS, allocated};
pub(crate) use growth::{Growth, most_growth, most_growth_of, most_growth_of_row};
pub use measured::MeasuredMemtable;
pub(crate) use partition::MemPartition;
pub(crate) use row::MemRow;
pub(crate) use stream::MemStream;

use crate::commitlog::SegmentName;
use crate::sstable::{EncodingStats, EncodingStatsCollector};
use partitions::{Partitions, beginning};

/// Bytes of memory for laying out rows that are kept for the next one.
const MOST_SCRATCH: usize = 64 << 10;

/// How many partitions are looked up side by side without memory of their own for it: as many as memory answers at
/// once, about.
pub(crate) const TOGETHER: usize = 16;

/// The memtable of one table on one shard.
#[derive(Default)]
pub(crate) struct Memtable {
    partitions: RefCell<Partitions>,
    bytes: Cell<usize>,
    /// Rows, static ones left out.
    rows: Cell<usize>,
    /// Updates taken in; with every one it changes.
    updates: Cell<u64>,
    times: Cell<EncodingStatsCollector>,
    /// Its number among what its table consists of; 0 as long as it is written to.
    number: Cell<u64>,
    /// The table that it is written with, if the table has lost columns since.
    schema: OnceCell<Arc<Table>>,
    /// How many mutations of each commit-log segment are in here.
    commits: RefCell<BTreeMap<SegmentName, u64>>,
    /// Where rows are laid out.
    scratch: RefCell<Vec<u8>>,
}

impl Memtable {
    /// Takes in an update whose columns are those of `table`, counted in `segment` if the commit
    /// log has it. Gives the bytes
    /// that the memtable grew by, which may be negative.
    pub(crate) fn apply(
        &self,
        update: PartitionUpdate,
        table: &Table,
        segment: Option<SegmentName>,
    ) -> isize {
        let mut times = self.begin(segment);
        times.update_deletion(&update.deletion);
        for row in update.static_row.iter().chain(&update.rows) {
            times.update_row(row);
        }
        for range in &update.range_tombstones {
            times.update_deletion(&range.deletion);
        }
        self.times.set(times);
        self.change(
            update,
            |update| &update.key,
            |partition, update, scratch| partition.apply(update, table, scratch),
        )
    }

    /// The same, of a row that is laid out already.
    pub(crate) fn apply_row(
        &self,
        update: RowUpdate,
        table: &Table,
        segment: Option<SegmentName>,
    ) -> isize {
        let mut times = self.begin(segment);
        let least = update.least_times();
        times.update(least.timestamp, least.ttl, least.local_deletion_time);
        self.times.set(times);
        self.change(
            update,
            |update| &update.key,
            |partition, update, scratch| partition.apply_packed(update.row, table, scratch),
        )
    }

    /// Counts an update; gives the times of what was taken in so far.
    fn begin(&self, segment: Option<SegmentName>) -> EncodingStatsCollector {
        if let Some(segment) = segment {
            *segment.entry_in(&mut self.commits.borrow_mut(), || 0) += 1;
        }
        self.updates.set(self.updates.get() + 1);
        self.times.get()
    }

    /// Has the partition of an update changed, which is made if there is none; `change` gives by how many bytes it
    /// grows. Gives by how many the memtable does.
    fn change<U>(
        &self,
        update: U,
        key: impl Fn(&U) -> &DecoratedKey,
        change: impl FnOnce(&mut MemPartition, U, &mut Vec<u8>) -> isize,
    ) -> isize {
        let mut partitions = self.partitions.borrow_mut();
        let mut grown = 0;
        let key = key(&update);
        let partition = partitions.get_or_insert(key.token(), key.key(), &mut grown);
        let mut scratch = self.scratch.borrow_mut();
        let rows = partition.len();
        grown += change(partition, update, &mut scratch);
        self.rows.set(self.rows.get() + partition.len() - rows);
        if scratch.capacity() > MOST_SCRATCH {
            *scratch = Vec::new();
        }
        self.bytes
            .set(self.bytes.get().saturating_add_signed(grown));
        grown
    }

    /// The partition of a key, as it is now.
    pub(crate) fn get(&self, key: &DecoratedKey) -> Option<Rc<MemPartition>> {
        let partitions = self.partitions.borrow();
        partitions.get(key.token(), key.key()).cloned()
    }

    /// What `with` makes of the partitions of keys, as they are now: they are looked up side by side.
    pub(crate) fn with_partitions<'k, T>(
        &self,
        keys: impl Iterator<Item = &'k DecoratedKey> + Clone,
        with: impl FnOnce(&[Option<&MemPartition>]) -> T,
    ) -> T {
        let places = keys.map(|key| (key.token(), &key.key()[..]));
        with(&self.partitions.borrow().get_together(places))
    }

    /// Asks for the memory of the partitions of keys, which are about to be changed, side by side.
    pub(crate) fn bring_near<'k>(&self, keys: impl Iterator<Item = &'k DecoratedKey> + Clone) {
        let partitions = self.partitions.borrow();
        partitions.bring_near(keys.map(DecoratedKey::token));
    }

    /// The first partition behind `after`, or from `start` if that is `None`, that is not behind
    /// `end`.
    pub(crate) fn next(
        &self,
        start: &PartitionBound,
        end: &PartitionBound,
        after: Option<&DecoratedKey>,
    ) -> Option<Rc<MemPartition>> {
        let from = match after {
            Some(key) => Bound::Excluded((key.token(), &key.key()[..])),
            None => beginning(start)?,
        };
        self.partitions.borrow().next(from, end).cloned()
    }

    /// How many partitions.
    pub(crate) fn len(&self) -> usize {
        self.partitions.borrow().len()
    }

    /// Partitions and rows together, static rows left out.
    pub(crate) fn items(&self) -> usize {
        self.len() + self.rows.get()
    }

    /// Nothing in it?
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Its number among what its table consists of, see [`crate::cache`]; `None` as long as it is
    /// written to.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.number.get()).filter(|number| *number > 0)
    }

    /// It is written to no more.
    pub(crate) fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    /// The table is about to lose columns, of which there may be something in it.
    pub(crate) fn set_schema(&self, table: &Arc<Table>) {
        // What it had before it lost some earlier is more.
        self.schema.get_or_init(|| table.clone());
    }

    /// The table that it is to be written with, unless that is the one of today.
    pub(crate) fn schema(&self) -> Option<Arc<Table>> {
        self.schema.get().cloned()
    }

    /// Drops some of its partitions; `false` if there are none. A memtable that was full takes a quarter of a second to
    /// be dropped in one go.
    pub(crate) fn drop_some(&mut self) -> bool {
        self.partitions.get_mut().drop_some()
    }

    /// How many updates it took in.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.get()
    }

    /// The lower bounds of the times in it.
    pub(crate) fn times(&self) -> EncodingStats {
        self.times.get().finish()
    }

    /// How many mutations of each commit-log segment are in here; asked once, when they no longer
    /// need their segments.
    pub(crate) fn take_commits(&self) -> BTreeMap<SegmentName, u64> {
        std::mem::take(&mut self.commits.borrow_mut())
    }
}
