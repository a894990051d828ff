//! What was written and is not in an sstable yet.
//!
//! Partitions lie in a B-tree by token, so that a look-up compares integers only and a scan or a
//! flush walks in ring order. Each is shared with its readers, who see it as it was when they
//! began. Values are copied into memory of the memtable's own, one piece a row, so that the bytes
//! it counts are the bytes it takes.

mod allocated;
mod measured;
mod partition;
mod rows;
mod stream;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use model::{DecoratedKey, PartitionBound, PartitionUpdate, Table, Token};
use smallvec::SmallVec;

pub(crate) use allocated::allocated;
pub use measured::MeasuredMemtable;
pub(crate) use partition::MemPartition;
pub(crate) use stream::MemStream;

use crate::commitlog::SegmentName;
use crate::sstable::{EncodingStats, EncodingStatsCollector};
use partition::partition_bytes;

/// Partitions of one token: nearly always one.
type Slot = SmallVec<[Rc<MemPartition>; 1]>;

/// The memtable of one table on one shard.
#[derive(Default)]
pub(crate) struct Memtable {
    partitions: RefCell<BTreeMap<Token, Slot>>,
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// Updates taken in; with every one it changes.
    updates: Cell<u64>,
    times: Cell<EncodingStatsCollector>,
    /// Its number among what its table consists of; 0 as long as it is written to.
    number: Cell<u64>,
    /// How many mutations of each commit-log segment are in here.
    commits: RefCell<BTreeMap<SegmentName, u64>>,
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
        if let Some(segment) = segment {
            *self.commits.borrow_mut().entry(segment).or_default() += 1;
        }
        self.updates.set(self.updates.get() + 1);
        let mut times = self.times.get();
        times.update_deletion(&update.deletion);
        for row in update.static_row.iter().chain(&update.rows) {
            times.update_row(row);
        }
        for range in &update.range_tombstones {
            times.update_deletion(&range.deletion);
        }
        self.times.set(times);

        let mut partitions = self.partitions.borrow_mut();
        let slot = partitions.entry(update.key.token()).or_default();
        let mut grown = 0;
        let at = match slot.binary_search_by(|known| known.key.cmp(&update.key)) {
            Ok(at) => at,
            Err(at) => {
                let partition = MemPartition::new(&update.key);
                grown += partition_bytes(&partition.key) as isize;
                slot.insert(at, Rc::new(partition));
                self.count.set(self.count.get() + 1);
                at
            }
        };
        grown += Rc::make_mut(&mut slot[at]).apply(update, table);
        self.bytes
            .set(self.bytes.get().saturating_add_signed(grown));
        grown
    }

    /// The partition of a key, as it is now.
    pub(crate) fn get(&self, key: &DecoratedKey) -> Option<Rc<MemPartition>> {
        let partitions = self.partitions.borrow();
        let slot = partitions.get(&key.token())?;
        slot.iter().find(|known| known.key == *key).cloned()
    }

    /// The first partition behind `after`, or from `start` if that is `None`, that is not behind
    /// `end`.
    pub(crate) fn next(
        &self,
        start: &PartitionBound,
        end: &PartitionBound,
        after: Option<&DecoratedKey>,
    ) -> Option<Rc<MemPartition>> {
        let from = match (after, start) {
            (Some(key), _) => Bound::Included(key.token()),
            (None, PartitionBound::Unbounded) => Bound::Unbounded,
            (None, PartitionBound::TokenInclusive(token)) => Bound::Included(*token),
            (None, PartitionBound::TokenExclusive(token)) => Bound::Excluded(*token),
            (None, PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key)) => {
                Bound::Included(key.token())
            }
        };
        let partitions = self.partitions.borrow();
        let found = partitions
            .range((from, Bound::Unbounded))
            .flat_map(|(_, slot)| slot)
            .find(|partition| match after {
                Some(after) => partition.key > *after,
                None => begins(start, &partition.key),
            })?;
        within(end, &found.key).then(|| found.clone())
    }

    /// How many partitions.
    pub(crate) fn len(&self) -> usize {
        self.count.get()
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

/// Is `key` at or behind this lower end?
pub(crate) fn begins(start: &PartitionBound, key: &DecoratedKey) -> bool {
    match start {
        PartitionBound::Unbounded => true,
        PartitionBound::TokenInclusive(token) => key.token() >= *token,
        PartitionBound::TokenExclusive(token) => key.token() > *token,
        PartitionBound::KeyInclusive(start) => key >= start,
        PartitionBound::KeyExclusive(start) => key > start,
    }
}

/// Is `key` at or before this upper end?
pub(crate) fn within(end: &PartitionBound, key: &DecoratedKey) -> bool {
    match end {
        PartitionBound::Unbounded => true,
        PartitionBound::TokenInclusive(token) => key.token() <= *token,
        PartitionBound::TokenExclusive(token) => key.token() < *token,
        PartitionBound::KeyInclusive(end) => key <= end,
        PartitionBound::KeyExclusive(end) => key < end,
    }
}
