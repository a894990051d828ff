//! What of the deletions a compaction may forget: `CompactionController.getPurgeEvaluator`.
//!
//! A deletion is forgotten when `gc_grace_seconds` have passed and nothing that it could cover is
//! left: nothing as old in any sstable that takes no part and may hold the partition (by its first
//! and last key and its bloom filter), nothing in a memtable that does, and nothing in the commit
//! log, which a replay would bring back. Once writing or removing an sstable has failed nothing is
//! purged until the next start, which sees what is really there. An sstable that other shards need
//! too takes no part in this sense, for it stays on disk and would come back with a restart.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use model::{DecoratedKey, DeletionTime, Purge, Table, TableId, murmur3_x64_128};

use super::super::Inner;
use super::super::table::{TableStore, is_same};
use super::repaired_at;
use crate::compaction::CommonOptions;
use crate::sstable::{Component, Descriptor, SSTable, Stats};
use crate::{RangeTombstoneMarker, Unfiltered};

/// Deletions with a local deletion time before this may be forgotten.
pub(super) fn gc_before(now: u32, table: &Table) -> u32 {
    now.saturating_sub(u32::try_from(table.options.gc_grace_seconds).unwrap_or(0))
}

/// Does the option `only_purge_repaired_tombstones` forbid that these are purged?
fn is_forbidden(inputs: &[SSTable], schema: &Table) -> bool {
    CommonOptions::of(&schema.options).only_purge_repaired_tombstones
        && inputs.iter().any(|input| repaired_at(input) == 0)
}

/// The lowest timestamp of what is not in the sstables of the table: in memtables, in the log, and in
/// sstables that this shard needs no more but that are still there, and back after a restart. Nothing
/// in an sstable that is as late may be dropped without being read. `i64::MIN`: nothing may be dropped
/// at all.
pub(super) fn memory_min_timestamp(inner: &Inner, table: &TableStore, schema: &Table) -> i64 {
    if table.strays.get() {
        return i64::MIN;
    }
    let memtables = table.view().memtables;
    let in_memory = memtables.iter().map(|m| m.times().min_timestamp);
    let gc_before = gc_before(inner.env.wall_seconds(), schema);
    let ghosts = table.ghosts.borrow();
    let stats = ghosts.iter().map(SSTable::stats);
    let alive = stats.filter(|stats| stats.max_local_deletion_time >= gc_before);
    let oldest = in_memory.chain(alive.map(|stats| stats.min_timestamp));
    oldest.fold(inner.log.oldest_timestamp(schema.id), i64::min)
}

/// What may be forgotten of each partition.
pub(super) struct Purging {
    now: u32,
    gc_before: u32,
    inner: Rc<Inner>,
    id: TableId,
    table: Rc<TableStore>,
    inputs: Vec<Descriptor>,
    /// Is there anything in the inputs that is old enough?
    anything: bool,
    /// Deletions with this timestamp or a later one stay, whatever partition they are of.
    limit: Cell<i64>,
    /// The sstables of the table when last asked, and those of them that take no part.
    others: RefCell<(Rc<[SSTable]>, Vec<SSTable>)>,
}

impl Purging {
    pub(super) fn new(
        inner: &Rc<Inner>,
        table: &Rc<TableStore>,
        inputs: &[SSTable],
        schema: &Table,
    ) -> Purging {
        let shared = &inner.config.shared;
        let gone = |ghost: &SSTable| shared.is_gone(&ghost.descriptor().path(Component::Data));
        table.ghosts.borrow_mut().retain(|ghost| !gone(ghost));
        let now = inner.env.wall_seconds();
        let own = inputs.iter().filter(|input| !table.is_shared(input));
        let gc_before = gc_before(now, schema);
        // What has expired becomes a deletion as old as its write.
        let has_old = |stats: &Stats| match stats.max_ttl > 0 {
            true => stats.min_local_deletion_time <= now,
            false => stats.min_local_deletion_time < gc_before,
        };
        Purging {
            now,
            gc_before,
            anything: inputs.iter().any(|input| has_old(input.stats())),
            inner: inner.clone(),
            id: schema.id,
            table: table.clone(),
            inputs: own.map(|input| input.descriptor().clone()).collect(),
            limit: Cell::new(match is_forbidden(inputs, schema) {
                true => i64::MIN,
                false => inner.log.oldest_timestamp(schema.id),
            }),
            others: RefCell::new((Rc::new([]), table.ghosts.borrow().clone())),
        }
    }

    /// May anything be forgotten?
    pub(super) fn may_forget(&self) -> bool {
        self.anything
    }

    /// What may be forgotten of a partition.
    pub(super) fn of(&self, key: &DecoratedKey) -> Purge {
        Purge {
            now_seconds: self.now,
            gc_before: self.gc_before,
            purgeable_before: match self.anything {
                true => self.purgeable_before(key),
                // Most compactions spare themselves the search.
                false => i64::MIN,
            },
        }
    }

    /// The timestamp before which deletions of a partition cover nothing outside of the inputs.
    fn purgeable_before(&self, key: &DecoratedKey) -> i64 {
        let view = self.table.view();
        let mut others = self.others.borrow_mut();
        // A flush while the compaction runs moves data from a memtable to an sstable.
        if !Rc::ptr_eq(&others.0, &view.sstables) {
            let takes_part = |sstable: &&SSTable| {
                let mut inputs = self.inputs.iter();
                inputs.any(|input| is_same(input, sstable.descriptor()))
            };
            let mut apart: Vec<SSTable> = view
                .sstables
                .iter()
                .filter(|sstable| !takes_part(sstable))
                .cloned()
                .collect();
            apart.extend(self.table.ghosts.borrow().iter().cloned());
            // What was flushed meanwhile may have been written meanwhile too.
            self.limit.set(
                self.limit
                    .get()
                    .min(self.inner.log.oldest_timestamp(self.id)),
            );
            *others = (view.sstables.clone(), apart);
        }
        let mut purgeable_before = match self.table.strays.get() {
            true => i64::MIN,
            false => self.limit.get(),
        };
        let hash = murmur3_x64_128(key.key());
        for other in others.1.iter().filter(|other| other.may_contain(key, hash)) {
            purgeable_before = purgeable_before.min(other.stats().min_timestamp);
        }
        for memtable in &view.memtables {
            if memtable.get(key).is_some() {
                purgeable_before = purgeable_before.min(memtable.times().min_timestamp);
            }
        }
        purgeable_before
    }
}

/// What is left of an item.
pub(super) fn purged(item: Unfiltered, purge: &Purge) -> Option<Unfiltered> {
    match item {
        Unfiltered::Row(mut row) => {
            row.purge(purge);
            (!row.is_empty()).then_some(Unfiltered::Row(row))
        }
        Unfiltered::Marker(marker) => {
            let keep = |deletion: Option<DeletionTime>| deletion.filter(|d| !purge.forgets(d));
            RangeTombstoneMarker::between(marker.bound, keep(marker.closes), keep(marker.opens))
                .map(Unfiltered::Marker)
        }
    }
}
