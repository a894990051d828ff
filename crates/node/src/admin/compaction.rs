//! Compaction as people ask for it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use model::{Table, TableId, Token};
use storage::{
    CompactionError, CompactionKind, CompactionScope, CompactionStatus, Granularity, ScrubOptions,
    Scrubbed, Store,
};

use super::{Admin, AdminError, SnapshotRequest};
use crate::shard::Shard;
use crate::system::PastCompaction;

/// A compaction that runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCompaction {
    /// The shard that does it.
    pub shard: u16,
    /// What and how far.
    pub status: CompactionStatus,
}

/// What compaction has done and has to do.
#[derive(Clone, Debug, Default)]
pub struct CompactionReport {
    /// Those that run now.
    pub running: Vec<RunningCompaction>,
    /// How many there are to do, by keyspace and table, those with none left out.
    pub pending: Vec<(String, String, usize)>,
    /// How many were done in the last [`RECENT_MINUTES`] minutes.
    pub recent: usize,
}

/// What [`CompactionReport::recent`] goes back.
pub const RECENT_MINUTES: u64 = 15;

/// An operation on one table of a shard that rewrites sstables: how many.
type Rewrite = Result<usize, CompactionError>;

impl Admin {
    /// Compacts the sstables of tables: all of each, or those with some tokens or a partition.
    pub fn compact(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
        scope: CompactionScope,
    ) -> Result<(), AdminError> {
        let tables = self.table_ids(keyspace, tables)?;
        self.rewrite(tables, move |store, table| {
            let scope = scope.clone();
            async move { store.compact_scope(table, scope).await }
        })
        .map(drop)
    }

    /// Compacts sstables together, named by their data files; those of one table at a time.
    pub fn compact_files(&self, files: &[PathBuf]) -> Result<(), AdminError> {
        let tables = self.tables(None, &[])?;
        let mut by_table: Vec<(TableId, Vec<String>)> = Vec::new();
        for file in files {
            let (id, name) = table_of(file, &tables).ok_or_else(|| {
                let reason = format!("{} is not the data file of an sstable", file.display());
                AdminError::Refused(reason)
            })?;
            match by_table.iter_mut().find(|(known, _)| *known == id) {
                Some((_, names)) => names.push(name),
                None => by_table.push((id, vec![name])),
            }
        }
        for (id, names) in by_table {
            let (scope, named) = (CompactionScope::Files(names.clone()), names.join(", "));
            let found = self.rewrite(vec![id], move |store, table| {
                let scope = scope.clone();
                async move { store.compact_scope(table, scope).await }
            })?;
            if found == 0 {
                let reason = format!("{named}: no such sstable, or it is being compacted");
                return Err(AdminError::Refused(reason));
            }
        }
        Ok(())
    }

    /// Drops what deletions cover.
    pub fn garbage_collect(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
        granularity: Granularity,
    ) -> Result<usize, AdminError> {
        let tables = self.table_ids(keyspace, tables)?;
        self.rewrite(tables, move |store, table| async move {
            store.garbage_collect(table, granularity).await
        })
    }

    /// Rewrites sstables that hold partitions of several shards.
    pub fn cleanup(&self, keyspace: Option<&str>, tables: &[String]) -> Result<usize, AdminError> {
        let tables = self.table_ids(keyspace, tables)?;
        self.rewrite(
            tables,
            |store, table| async move { store.cleanup(table).await },
        )
    }

    /// Rewrites sstables that are not of the version that is written, or all; only those that were
    /// written by a time in milliseconds since 1970, if one is given.
    pub fn upgrade_sstables(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
        all: bool,
        until: Option<i64>,
    ) -> Result<usize, AdminError> {
        let tables = self.table_ids(keyspace, tables)?;
        let until = until.unwrap_or(i64::MAX);
        self.rewrite(tables, move |store, table| async move {
            store.upgrade_sstables(table, all, until).await
        })
    }

    /// Rewrites all sstables of tables without what cannot be read, after a snapshot of them if so
    /// wished: its name, and what it came to.
    pub fn scrub(
        &self,
        keyspace: Option<&str>,
        names: &[String],
        snapshot: bool,
        options: ScrubOptions,
    ) -> Result<(Option<String>, Scrubbed), AdminError> {
        let tables = self.tables(keyspace, names)?;
        self.flush(keyspace, names)?;
        let mut tag = None;
        if snapshot {
            let now = self.lead(async |shard: Rc<Shard>| shard.env.wall_micros() / 1000)?;
            let pairs = tables
                .iter()
                .map(|t| (t.keyspace.to_string(), t.name.to_string()));
            let request = SnapshotRequest {
                tag: format!("pre-scrub-{now}"),
                tables: pairs.collect(),
                skip_flush: true,
                ..SnapshotRequest::default()
            };
            self.snapshot(&request)?;
            tag = Some(request.tag);
        }
        let ids: Arc<[TableId]> = tables.iter().map(|table| table.id).collect();
        let done = self.try_everywhere(move |shard: Rc<Shard>| {
            let ids = ids.clone();
            async move {
                let mut all = Vec::new();
                for id in &*ids {
                    match shard.store.scrub(*id, options).await {
                        Ok(scrubbed) => all.push(scrubbed),
                        // It was dropped meanwhile.
                        Err(CompactionError::UnknownTable(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(all)
            }
        })?;
        let done = done.into_iter().flatten();
        let scrubbed = done.fold(Scrubbed::default(), Scrubbed::and);
        Ok((tag, scrubbed))
    }

    /// Does something with each of these tables on all shards; the sum of what it tells.
    pub(super) fn rewrite<F>(
        &self,
        tables: Vec<TableId>,
        operation: impl Fn(Store, TableId) -> F + Clone + Send + 'static,
    ) -> Result<usize, AdminError>
    where
        F: Future<Output = Rewrite> + 'static,
    {
        let tables: Arc<[TableId]> = tables.into();
        let counts = self.try_everywhere(move |shard: Rc<Shard>| {
            let (tables, operation) = (tables.clone(), operation.clone());
            async move {
                let mut count = 0;
                for table in &*tables {
                    match operation(shard.store.clone(), *table).await {
                        Ok(done) => count += done,
                        // It was dropped meanwhile.
                        Err(CompactionError::UnknownTable(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(count)
            }
        })?;
        Ok(counts.into_iter().sum())
    }

    /// Stops compactions, all or those of a kind. How many.
    pub fn stop_compactions(&self, kind: Option<CompactionKind>) -> Result<usize, AdminError> {
        let stop = move |shard: Rc<Shard>| async move { shard.store.stop_compactions(kind) };
        Ok(self.everywhere(stop)?.into_iter().sum())
    }

    /// Stops one compaction of a shard. Was there one?
    pub fn stop_compaction(&self, shard: u16, id: u64) -> Result<bool, AdminError> {
        if usize::from(shard) >= self.shards.len() {
            return Ok(false);
        }
        let stop = async move |shard: Rc<Shard>| shard.store.stop_compaction(id);
        let answers = self.on(usize::from(shard), stop)?;
        answers.recv().map_err(|_| AdminError::Closed)
    }

    /// Lets the strategies of tables choose compactions by themselves, or no more until the next
    /// start.
    pub fn set_auto_compaction(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
        on: bool,
    ) -> Result<(), AdminError> {
        let tables: Arc<[TableId]> = self.table_ids(keyspace, tables)?.into();
        self.everywhere(move |shard: Rc<Shard>| {
            for table in &*tables {
                shard.store.set_auto_compaction(*table, on);
            }
            async {}
        })
        .map(drop)
    }

    /// Do the strategies of tables choose compactions by themselves? By keyspace and table.
    pub fn auto_compaction(
        &self,
        keyspace: Option<&str>,
        tables: &[String],
    ) -> Result<Vec<(String, String, bool)>, AdminError> {
        let tables = self.tables(keyspace, tables)?;
        self.lead(async move |shard: Rc<Shard>| {
            let tables = tables.iter().filter_map(|table| {
                let on = shard.store.auto_compaction(table.id)?;
                Some((table.keyspace.to_string(), table.name.to_string(), on))
            });
            tables.collect()
        })
    }

    /// The compactions of the last week, the latest first.
    pub fn compaction_history(&self) -> Result<Vec<PastCompaction>, AdminError> {
        let read =
            self.lead(async |shard: Rc<Shard>| crate::compaction_history::read(&shard).await)?;
        read.map_err(|error| AdminError::Failed(error.to_string()))
    }

    /// What compaction does and has to do.
    pub fn compactions(&self) -> Result<CompactionReport, AdminError> {
        let tables = self.tables(None, &[])?;
        let parts = self.everywhere(async |shard: Rc<Shard>| {
            let store = &shard.store;
            (
                shard.index(),
                store.compactions(),
                store.pending_compactions(),
            )
        })?;
        let mut report = CompactionReport::default();
        let mut pending: Vec<(&Arc<Table>, usize)> = tables.iter().map(|t| (t, 0)).collect();
        for (shard, running, waiting) in parts {
            let running = running.into_iter();
            let running = running.map(|status| RunningCompaction { shard, status });
            report.running.extend(running);
            for (id, count) in waiting {
                if let Some((_, sum)) = pending.iter_mut().find(|(table, _)| table.id == id) {
                    *sum += count;
                }
            }
        }
        let pending = pending.into_iter().filter(|(_, count)| *count > 0);
        report.pending = pending
            .map(|(table, count)| (table.keyspace.to_string(), table.name.to_string(), count))
            .collect();
        report.recent = self.recent_compactions()?;
        Ok(report)
    }

    fn recent_compactions(&self) -> Result<usize, AdminError> {
        let now = self.lead(async |shard: Rc<Shard>| shard.env.wall_micros() / 1000)?;
        let since = now - RECENT_MINUTES as i64 * 60_000;
        // The latest come first.
        let past = self.compaction_history()?;
        Ok(past.iter().take_while(|past| past.at > since).count())
    }
}

/// The table whose data file this is, by the folder it lies in, and its name.
fn table_of(file: &Path, tables: &[Arc<Table>]) -> Option<(TableId, String)> {
    let name = file.file_name()?.to_str()?;
    let dir = file.parent()?;
    let folder = dir.file_name()?.to_str()?;
    let mut tables = tables.iter();
    let table = match folder.rsplit_once('-') {
        Some((_, id)) => tables.find(|table| table.id.simple().to_string() == id)?,
        // Tables of before Cassandra 2.1 lie in folders of their name alone.
        None => {
            let keyspace = dir.parent()?.file_name()?.to_str()?;
            tables.find(|table| (&*table.keyspace, &*table.name) == (keyspace, folder))?
        }
    };
    name.ends_with("-Data.db")
        .then(|| (table.id, name.to_owned()))
}

/// A range of tokens as `nodetool compact -st … -et …` has it. From a token to itself there is
/// none (`StorageService.createRepairRangeFrom`).
pub fn token_range(start: Option<i64>, end: Option<i64>) -> CompactionScope {
    let start = start.map_or(Token::MIN, Token);
    let end = end.map_or(Token::MAX, Token);
    let range = (start != end).then_some((start, end));
    CompactionScope::Ranges(range.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_table_by_id_or_by_name() {
        let schema = crate::system::system_keyspaces();
        let local = schema.table("system", "local").expect("it is there");
        let tables = [local.clone()];
        let found = |path: String| table_of(Path::new(&path), &tables);
        let expected = Some((local.id, "nb-1-big-Data.db".to_owned()));
        let with_id = format!("/d/system/local-{}/nb-1-big-Data.db", local.id.simple());
        assert_eq!(found(with_id), expected);
        assert_eq!(
            found("/d/system/local/nb-1-big-Data.db".to_owned()),
            expected
        );
        assert_eq!(found("/d/other/local/nb-1-big-Data.db".to_owned()), None);
        assert_eq!(found("/d/system/local/nb-1-big-Index.db".to_owned()), None);
    }

    #[test]
    fn a_range_has_two_tokens() {
        let ranges = |start, end| match token_range(start, end) {
            CompactionScope::Ranges(ranges) => ranges,
            other => panic!("{other:?} is no range"),
        };
        assert_eq!(ranges(Some(5), Some(7)), [(Token(5), Token(7))]);
        assert_eq!(ranges(Some(7), None), [(Token(7), Token::MAX)]);
        assert!(ranges(Some(5), Some(5)).is_empty());
    }
}
