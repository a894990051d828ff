//! What people ask of compaction: the verbs of `nodetool`.
//!
//! Each concerns one table on this shard; whoever speaks for the node asks all shards. An operation
//! has the table for itself: compactions that its strategy chose are stopped, other operations
//! come first.

use std::rc::Rc;

use io::TaskGroup;
use model::{DecoratedKey, TableId, Token, murmur3_x64_128};

use super::super::table::TableStore;
use super::super::{Inner, Store};
use super::running::{CompactionKind, CompactionStatus, Hold};
use super::task::Job;
use crate::compaction::{Candidate, Granularity};
use crate::error::CompactionError;
use crate::sstable::{Component, SSTable, output_format};

/// Which sstables somebody wants compacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionScope {
    /// All of them, as the strategy does it.
    All {
        /// Are the outputs of SizeTiered cut into halves, quarters and so on?
        split_output: bool,
    },
    /// Those that have these data files, by their names without the folder.
    Files(Vec<String>),
    /// Those that may have partitions of one of these ranges: from the first token to the second
    /// one, both included. A range whose start is above its end goes round the ring.
    Ranges(Vec<(Token, Token)>),
    /// Those that may have this partition, as far as their filters know.
    Partition(DecoratedKey),
}

impl Store {
    /// Compacts all sstables of a table.
    pub async fn compact(&self, table: TableId) -> Result<(), CompactionError> {
        let split_output = false;
        let scope = CompactionScope::All { split_output };
        self.compact_scope(table, scope).await.map(|_| ())
    }

    /// Compacts sstables of a table together: `nodetool compact`, with `--split-output`, `-st` and
    /// `-et`, `--partition`, or `--user-defined`. How many sstables there were to compact.
    pub async fn compact_scope(
        &self,
        table: TableId,
        scope: CompactionScope,
    ) -> Result<usize, CompactionError> {
        self.operate(table, move |inner, table| async move {
            inner.compact_scope(&table, &scope).await
        })
        .await
    }

    /// Drops from the sstables of a table what deletions in its other sstables cover, one after
    /// the other: `nodetool garbagecollect`. How many sstables were rewritten.
    pub async fn garbage_collect(
        &self,
        table: TableId,
        granularity: Granularity,
    ) -> Result<usize, CompactionError> {
        self.operate(table, move |inner, table| async move {
            let kind = CompactionKind::GarbageCollect;
            let shadows = Some(granularity);
            inner.rewrite_each(&table, kind, shadows, |_| true).await
        })
        .await
    }

    /// Rewrites the sstables of a table that hold partitions of other shards, so that this shard
    /// has its own: `nodetool cleanup`. How many were rewritten.
    pub async fn cleanup(&self, table: TableId) -> Result<usize, CompactionError> {
        self.operate(table, move |inner, table| async move {
            let kind = CompactionKind::Cleanup;
            let shared = table.clone();
            let is_shared = move |sstable: &SSTable| shared.is_shared(sstable);
            inner.rewrite_each(&table, kind, None, is_shared).await
        })
        .await
    }

    /// Rewrites the sstables of a table that are not of the version that is written, or `all`; only
    /// those that were written by `until`, in milliseconds since 1970: `nodetool upgradesstables`,
    /// with `-a` and `-t`. How many were rewritten.
    pub async fn upgrade_sstables(
        &self,
        table: TableId,
        all: bool,
        until: i64,
    ) -> Result<usize, CompactionError> {
        self.operate(table, move |inner, table| async move {
            let kind = CompactionKind::UpgradeSstables;
            let (format, now) = (inner.config.sstable_format, inner.env.wall_seconds());
            let later = inner.written_after(&table, until).await?;
            let is_meant = move |sstable: &SSTable| {
                let found = sstable.descriptor();
                let present = output_format(format, [sstable], now).written();
                (all || found.version != present) && !later.contains(&found.generation)
            };
            inner.rewrite_each(&table, kind, None, is_meant).await
        })
        .await
    }

    /// Stops the compactions that run, all or those of a kind: `nodetool stop`. They leave things
    /// as they were. How many there are.
    pub fn stop_compactions(&self, kind: Option<CompactionKind>) -> usize {
        let is_meant = |status: &CompactionStatus| kind.is_none_or(|kind| kind == status.kind);
        self.inner.compactions.stop(is_meant)
    }

    /// Stops the compaction with this [`CompactionStatus::id`]. Was there one?
    pub fn stop_compaction(&self, id: u64) -> bool {
        self.inner.compactions.stop(|status| status.id == id) > 0
    }

    /// May the strategy of a table choose compactions by itself: `nodetool enableautocompaction`
    /// and `disableautocompaction`. It wins over `enabled` of the table's options and holds until
    /// the process ends. Is there such a table?
    pub fn set_auto_compaction(&self, table: TableId, enabled: bool) -> bool {
        let Some(table) = self.inner.table(table) else {
            return false;
        };
        table.compaction.set_enabled(enabled);
        // What the options say now is no decision against it.
        self.inner.may_choose(&table);
        self.inner.compaction_work.notify_one();
        true
    }

    /// May it: `nodetool statusautocompaction`. `None`: there is no such table.
    pub fn auto_compaction(&self, table: TableId) -> Option<bool> {
        let inner = &self.inner;
        let table = inner.table(table)?;
        Some(inner.may_choose(&table))
    }

    /// The compactions that run now.
    pub fn compactions(&self) -> Vec<CompactionStatus> {
        self.inner.compactions.statuses()
    }

    /// About how many compactions there are to do, by table; those that run are not counted.
    pub fn pending_compactions(&self) -> Vec<(TableId, usize)> {
        let inner = &self.inner;
        let pending = |table: &Rc<TableStore>| (table.id(), inner.pending_of(table));
        inner.all_tables().iter().map(pending).collect()
    }

    /// Bytes on disk that running compactions still have to go through; an estimate.
    pub fn compaction_bytes_left(&self) -> u64 {
        self.inner.compactions.left()
    }

    /// Runs an operation on a table as a task of its own.
    pub(super) async fn operate<F>(
        &self,
        table: TableId,
        operation: impl FnOnce(Rc<Inner>, Rc<TableStore>) -> F + 'static,
    ) -> Result<usize, CompactionError>
    where
        F: Future<Output = Result<usize, CompactionError>> + 'static,
    {
        let inner = self.inner.clone();
        let found = inner.table(table);
        let table = found.ok_or(CompactionError::UnknownTable(table))?;
        let env = inner.env.clone();
        let operate = async move {
            let hold = Hold::new(&inner.compactions, &table).await;
            let result = operation(inner.clone(), table.clone()).await;
            drop(hold);
            inner.compaction_work.notify_one();
            result
        };
        env.spawn(TaskGroup::Compaction, operate).await
    }
}

impl Inner {
    async fn compact_scope(
        self: &Rc<Inner>,
        table: &Rc<TableStore>,
        scope: &CompactionScope,
    ) -> Result<usize, CompactionError> {
        let (candidates, sstables) = self.candidates(table);
        let strategy = self.strategy(table);
        let choices = match scope {
            CompactionScope::All { split_output } => {
                strategy.major(&self.situation(table, &candidates), *split_output)
            }
            CompactionScope::Files(names) => {
                let is_meant = |file: &&Candidate| {
                    let path = sstables[file.id].descriptor().path(Component::Data);
                    let name = path.file_name().and_then(|name| name.to_str());
                    name.is_some_and(|name| names.iter().any(|n| n == name))
                };
                let meant: Vec<&Candidate> = candidates.iter().filter(is_meant).collect();
                strategy.together(&meant)
            }
            CompactionScope::Ranges(ranges) => {
                let is_meant = |file: &&Candidate| {
                    file.is_free && ranges.iter().any(|range| reaches(file, *range))
                };
                let meant: Vec<&Candidate> = candidates.iter().filter(is_meant).collect();
                strategy.together(&meant)
            }
            CompactionScope::Partition(key) => {
                // Filters of other shards say yes now and then.
                let is_ours = self.config.sharder.shard_of(key.token()) == self.env.shard().0;
                let hash = murmur3_x64_128(key.key());
                let is_meant = |file: &&Candidate| {
                    is_ours && file.is_free && sstables[file.id].may_contain(key, hash)
                };
                let meant: Vec<&Candidate> = candidates.iter().filter(is_meant).collect();
                strategy.together(&meant)
            }
        };
        let kind = CompactionKind::MajorCompaction;
        let jobs: Vec<Job> = choices
            .into_iter()
            .map(|choice| self.job(table, choice, &candidates, &sstables, kind))
            .collect();
        let mut count = 0;
        for job in jobs {
            count += job.inputs.len();
            self.run(job).await?;
        }
        Ok(count)
    }

    /// Rewrites sstables of a table one by one, the oldest first.
    async fn rewrite_each(
        self: &Rc<Inner>,
        table: &Rc<TableStore>,
        kind: CompactionKind,
        shadows: Option<Granularity>,
        is_meant: impl Fn(&SSTable) -> bool,
    ) -> Result<usize, CompactionError> {
        let mut meant: Vec<SSTable> = table.sstables().to_vec();
        meant.retain(|sstable| is_meant(sstable));
        meant.sort_by_key(|sstable| sstable.stats().max_timestamp);
        let mut count = 0;
        for sstable in meant {
            let (candidates, sstables) = self.candidates(table);
            let at = sstables
                .iter()
                .position(|s| s.descriptor() == sstable.descriptor());
            let Some(file) = at.map(|at| &candidates[at]).filter(|file| file.is_free) else {
                continue;
            };
            let choice = self.strategy(table).rewrite(file);
            let mut job = self.job(table, choice, &candidates, &sstables, kind);
            job.shadows = shadows.or(job.shadows);
            self.run(job).await?;
            count += 1;
        }
        Ok(count)
    }
}

/// May the file have partitions of the range? Its start is part of it
/// (`CompactionManager.sstablesInBounds`).
fn reaches(file: &Candidate, (start, end): (Token, Token)) -> bool {
    let behind_start = file.last >= start;
    let before_end = file.first <= end;
    if start <= end {
        behind_start && before_end
    } else {
        behind_start || before_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::Candidate;

    #[test]
    fn ranges_go_round_the_ring() {
        let file = Candidate {
            first: Token(10),
            last: Token(20),
            ..crate::compaction::testing::file(1, 1)
        };
        for (range, expected) in [
            ((0, 9), false),
            ((0, 10), true),
            ((19, 30), true),
            ((20, 30), true),
            ((21, 30), false),
            ((20, 10), true),
            ((20, 9), true),
            ((21, 9), false),
            ((15, 15), true),
            ((5, 5), false),
        ] {
            let range = (Token(range.0), Token(range.1));
            assert_eq!(reaches(&file, range), expected, "{range:?}");
        }
    }
}
