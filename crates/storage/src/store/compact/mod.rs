//! Compaction: some sstables of a table become others.
//!
//! [`WORKERS`] tasks a shard do one compaction after the other, as the strategies of the tables
//! choose them ([`crate::compaction`]), in [`TaskGroup::Compaction`](io::TaskGroup). A second one
//! only runs beside a first one that is much larger, so that no large compaction keeps small ones
//! waiting. Tables take turns. How a compaction is done is in `task`, what it writes in `outputs`,
//! what it may forget in `purging`, what people ask for in `operations`, and how much of the
//! shard's time all of it gets in `pace`.

mod dropped;
#[cfg(test)]
mod garbage_tests;
mod history;
mod operations;
#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod order_tests;
mod outputs;
mod pace;
mod progress;
mod purging;
mod running;
mod scrub;
mod shadow;
mod task;
#[cfg(test)]
mod tests;

pub use crate::compaction::Granularity;
pub use history::CompactionRecord;
pub use operations::CompactionScope;
pub(super) use running::Compactions;
pub(crate) use running::TableCompaction;
pub use running::{CompactionKind, CompactionStatus};
pub use scrub::{ScrubOptions, Scrubbed};

use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use super::Inner;
use super::table::{TableStore, add};
use crate::compaction::{Candidate, Choice, CommonOptions, Situation, Strategy};
use crate::error::CompactionError;
use crate::sstable::{Format, SSTable};
use purging::{gc_before, memory_min_timestamp};
use task::Job;

/// How many compactions run at once at most.
pub(super) const WORKERS: usize = 2;
/// How many times larger a compaction must be than one that runs beside it.
const MUCH_LARGER: u64 = 8;
/// How long a table rests after a compaction that failed, unless it failed for an sstable that is
/// not chosen again. Others go on.
const RETRY: Duration = Duration::from_secs(30);
/// How often to look for what time alone makes worth it, as Cassandra does: expired sstables, old
/// windows, tombstones.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Are estimates that are made of an sstable's index worth something (`isEstimationInformative`)?
/// Of BIG it wants three entries of the summary, which has one for the first partition of each
/// interval.
fn is_informative(format: Format, partitions: u64, interval: u64) -> bool {
    match format {
        Format::Big => partitions.div_ceil(interval.max(1)) > 2,
        Format::Bti => true,
    }
}

/// When an sstable was repaired; 0 if never, or if its repair is pending.
fn repaired_at(sstable: &SSTable) -> i64 {
    let stats = sstable.stats();
    match stats.pending_repair {
        None => stats.repaired_at.max(0),
        Some(_) => 0,
    }
}

impl Inner {
    /// Compacts until the store is closed.
    pub(super) async fn run_compactions(self: Rc<Inner>) {
        while !self.closed.get() {
            let chosen = self.choose();
            self.set_pace();
            let Some(job) = chosen else {
                let work = self.compaction_work.notified();
                let _ = self.env.timeout(self.pause(), work).await;
                continue;
            };
            let table = job.table.clone();
            match self.run(job).await {
                Ok(()) | Err(CompactionError::Cancelled) => {}
                Err(error) => {
                    let table = table.table();
                    add(&self.counters.failed_compactions, 1);
                    tracing::error!("compacting {}.{}: {error}", table.keyspace, table.name);
                }
            }
        }
    }

    /// How long to wait when there is nothing to do.
    fn pause(&self) -> Duration {
        let (now, tables) = (self.env.now(), self.tables.borrow());
        let rests = tables.values().any(|table| table.compaction.rests(now));
        if rests { RETRY } else { LOOK_AGAIN }
    }

    /// The next compaction that is worth it, of any table.
    fn choose(&self) -> Option<Job> {
        if self.closed.get() || !self.ready.get() {
            return None;
        }
        let most = self.compactions.smallest_running();
        let most = most.map_or(u64::MAX, |bytes| bytes / MUCH_LARGER);
        let (now, tables) = (self.env.now(), self.tables.borrow());
        // In turn, so that no table with much to compact keeps the others from it.
        let last = self.compactions.last_table.get().as_u128();
        let behind = (Bound::Excluded(last), Bound::Unbounded);
        let in_turn = tables.range(behind).chain(tables.range(..=last));
        in_turn.map(|(_, table)| table).find_map(|table| {
            let compaction = &table.compaction;
            if table.is_blocked() || compaction.rests(now) || compaction.is_held() {
                return None;
            }
            let mut strategy = self.strategy(table);
            if !compaction.is_enabled(strategy.is_enabled()) {
                return None;
            }
            let (candidates, sstables) = self.candidates(table);
            let situation = self.situation(table, &candidates);
            let choice = strategy.next(&situation);
            let job = choice.map(|choice| {
                self.job(
                    table,
                    choice,
                    &candidates,
                    &sstables,
                    CompactionKind::Compaction,
                )
            });
            if job.as_ref().is_some_and(|job| job.bytes() > most) {
                // It has its turn later, and the strategy does not know that it was asked.
                return None;
            }
            *table.compaction.strategy.borrow_mut() = Some(strategy);
            let job = job?;
            self.compactions.last_table.set(table.id());
            Some(job)
        })
    }

    /// The strategy of a table, as it is now.
    fn strategy(&self, table: &TableStore) -> Strategy {
        let options = &table.table().options;
        let mut strategy = match &*table.compaction.strategy.borrow() {
            Some(strategy) => strategy.clone(),
            None => Strategy::of(options),
        };
        strategy.follow(options);
        strategy
    }

    /// May the strategy of a table choose compactions by itself?
    fn may_choose(&self, table: &TableStore) -> bool {
        let option = self.strategy(table).is_enabled();
        table.compaction.is_enabled(option)
    }

    /// What strategies have to know of the sstables of a table.
    fn candidates(&self, table: &TableStore) -> (Vec<Candidate>, Rc<[SSTable]>) {
        let now = self.env.wall_seconds();
        let schema = table.table();
        let gc_before = gc_before(now, &schema);
        let interval = u64::try_from(schema.options.min_index_interval).unwrap_or(0);
        let shards = u64::from(self.config.sharder.shards());
        let sstables = table.sstables();
        let candidate = |(id, sstable): (usize, &SSTable)| {
            let stats = sstable.stats();
            // Most files have nothing so old, and there may be thousands of them.
            let droppable_ratio = match stats.min_local_deletion_time < gc_before {
                true => stats.droppable_tombstone_ratio(gc_before.into()),
                false => 0.0,
            };
            let is_suspect = table.is_suspect(sstable.descriptor());
            // Of a file of all shards this one has its share.
            let sharers = if table.is_shared(sstable) { shards } else { 1 };
            Candidate {
                id,
                is_free: !is_suspect && !table.compaction.is_busy(sstable.descriptor()),
                is_suspect,
                size: sstable.disk_size() / sharers,
                first: sstable.first_key().token(),
                last: sstable.last_key().token(),
                level: stats.level,
                min_timestamp: stats.min_timestamp,
                max_timestamp: stats.max_timestamp,
                max_local_deletion_time: stats.max_local_deletion_time,
                droppable_ratio,
                age_seconds: table.age(sstable, now).into(),
                repaired_at: repaired_at(sstable),
                is_informative: is_informative(
                    sstable.descriptor().version.format(),
                    sstable.partitions() / sharers,
                    interval,
                ),
            }
        };
        let candidates = sstables.iter().enumerate().map(candidate).collect();
        (candidates, sstables)
    }

    fn situation<'c>(&self, table: &TableStore, files: &'c [Candidate]) -> Situation<'c> {
        let now_seconds = self.env.wall_seconds();
        let schema = table.table();
        let counters = &table.counters;
        Situation {
            files,
            repaired: false,
            only_purges_repaired: CommonOptions::of(&schema.options).only_purge_repaired_tombstones,
            now_seconds,
            gc_before: gc_before(now_seconds, &schema),
            memory_min_timestamp: memory_min_timestamp(self, table, &schema),
            flush_size: counters
                .flushed_bytes
                .get()
                .checked_div(counters.flushes.get())
                .unwrap_or(0),
        }
    }

    fn job(
        &self,
        table: &Rc<TableStore>,
        choice: Choice,
        candidates: &[Candidate],
        sstables: &[SSTable],
        kind: CompactionKind,
    ) -> Job {
        let inputs = choice.inputs.iter().map(|id| {
            let size = candidates[*id].size;
            (sstables[*id].clone(), size)
        });
        Job {
            table: table.clone(),
            kind,
            inputs: inputs.collect(),
            level: choice.level,
            cut: choice.cut,
            shadows: CommonOptions::of(&table.table().options).provide_overlapping_tombstones,
        }
    }

    /// About how many compactions a table has to do.
    fn pending_of(&self, table: &TableStore) -> usize {
        if !self.may_choose(table) {
            return 0;
        }
        let (candidates, _) = self.candidates(table);
        let strategy = self.strategy(table);
        strategy.pending(&self.situation(table, &candidates))
    }
}
