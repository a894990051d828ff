//! Tables come, change and go; the commit log is replayed for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use io::TaskGroup;
use model::{Schema, Table, TableId};

use super::backup::BACKUPS;
use super::snapshot::SNAPSHOTS;
use super::table::{TableStore, Unreadable};
use super::{Inner, folder};
use crate::commitlog::{Position, Replay, ReplayedGroup, max_timestamp};
use crate::error::OpenError;
use crate::sstable::{
    Descriptor, SSTable, SSTableError, ShardOrigin, check_table, folder as sstable_folder,
};

/// How many sstables of a table are opened at once.
const OPENED_AT_ONCE: usize = 16;

impl Inner {
    /// Opens, alters and, if `all` tables are in the schema, drops.
    pub(super) async fn set_schema(
        self: &Rc<Inner>,
        schema: &Schema,
        all: bool,
    ) -> Result<(), OpenError> {
        let mut wanted: BTreeMap<TableId, (Arc<Table>, bool)> = BTreeMap::new();
        for keyspace in schema.keyspaces.values().filter(|k| !k.is_virtual) {
            for table in keyspace.tables.values().filter(|t| !t.is_virtual) {
                wanted.insert(table.id, (table.clone(), keyspace.durable_writes));
            }
        }
        if all {
            for table in self.all_tables() {
                if !wanted.contains_key(&table.table().id) {
                    self.drop_table(&table).await?;
                }
            }
        }
        for (id, (table, durable)) in wanted {
            match self.table(id) {
                Some(known) => {
                    known.set_table(&table);
                    known.durable.set(durable);
                    // Its strategy may be another one now.
                    self.compaction_work.notify_one();
                }
                None => {
                    let opened = self.open_table(table, durable).await?;
                    self.tables.borrow_mut().insert(id, Rc::new(opened));
                }
            }
        }
        self.memory.tell_caches();
        Ok(())
    }

    async fn open_table(&self, table: Arc<Table>, durable: bool) -> Result<TableStore, OpenError> {
        let dir = TableStore::folder(&self.config.sstables, &table);
        let found = folder::open_table(&self.env, &self.config, &dir).await?;
        let mut there = Vec::new();
        for sstable in found.sstables {
            let truncated = folder::is_truncated(&self.truncations.borrow(), table.id, &sstable);
            let (descriptor, origin) = sstable;
            if truncated {
                let shards = self.config.sharder.shards();
                let shared = origin.is_none_or(|o| o.shards != shards) && shards > 1;
                let path = descriptor.path(crate::sstable::Component::Data);
                if !shared || self.config.shared.let_go(&path, shards) {
                    let removed = sstable_folder::remove(&self.env, &descriptor).await;
                    removed.map_err(|error| OpenError::Io {
                        path: error.path,
                        error: error.source,
                    })?;
                    self.config.shared.removed(&path);
                }
                continue;
            }
            there.push((descriptor, origin));
        }
        let (sstables, mut unreadable) = self.open_sstables(&table, there).await;
        unreadable.extend(found.unknown.into_iter().map(of_unknown_format));
        let noted = self.truncations.borrow();
        let noted = noted.iter().map(|noted| noted.generation(table.id)).max();
        let owner = (self.config.sharder, self.env.shard().0);
        let store = TableStore::new(
            (table, self.rows.clone()),
            dir,
            durable,
            owner,
            found.generation.max(noted.unwrap_or(0)),
            sstables,
            self.now_seconds(),
        );
        for unreadable in unreadable {
            store.add_unreadable(unreadable);
        }
        store.set_written(found.written);
        Ok(store)
    }

    /// Opens sstables, some at once, as each waits for the drive many times.
    async fn open_sstables(
        &self,
        table: &Arc<Table>,
        there: Vec<(Descriptor, Option<ShardOrigin>)>,
    ) -> (Vec<SSTable>, Vec<Unreadable>) {
        let (mut sstables, mut unreadable) = (Vec::new(), Vec::new());
        for some in there.chunks(OPENED_AT_ONCE) {
            let open = |(descriptor, _): &(Descriptor, _)| {
                let (env, cache) = (self.env.clone(), self.cache.clone());
                let (descriptor, table) = (descriptor.clone(), table.clone());
                self.env.spawn(TaskGroup::Foreground, async move {
                    let opened = SSTable::open(&env, &descriptor, &table, &cache).await?;
                    check_table(&opened, &table)?;
                    Ok(opened)
                })
            };
            let opening: Vec<_> = some.iter().map(open).collect();
            for (sstable, opening) in some.iter().zip(opening) {
                match opening.await {
                    Ok(opened) if self.is_of_another(opened.origin()) => {}
                    Ok(opened) => sstables.push(opened),
                    Err(error) => {
                        self.tell_of(&error);
                        let goes_without = self.goes_without(&error);
                        match goes_without {
                            true => tracing::error!("an sstable is left out: {error}"),
                            false => tracing::error!(
                                "an sstable is left out, its table cannot be read: {error}"
                            ),
                        }
                        unreadable.push(Unreadable {
                            sstable: Some(sstable.clone()),
                            error: (!goes_without).then(|| Arc::new(error)),
                        });
                    }
                }
            }
        }
        (sstables, unreadable)
    }

    async fn drop_table(&self, table: &Rc<TableStore>) -> Result<(), OpenError> {
        let id = table.table().id;
        table.dropped.set(true);
        table.block().await;
        // They see that it is blocked; until then they write into its folder.
        table.compaction.idle().await;
        self.tables.borrow_mut().remove(&id);
        let removed = self.remove_content(table).await;
        table.unblock();
        removed.map_err(|error| OpenError::Io {
            path: error.path,
            error: error.source,
        })?;
        // The last shard to drop the table removes its folder.
        if self
            .config
            .shared
            .let_go(&table.dir, self.config.sharder.shards())
        {
            let removed = self.remove_folder(&table.dir).await;
            removed.map_err(folder::io_error(&table.dir))?;
            self.config.shared.removed(&table.dir);
        }
        Ok(())
    }

    /// Removes the folder of a dropped table, but not its snapshots and backups: they are there for
    /// the day on which somebody misses what was dropped.
    async fn remove_folder(&self, dir: &Path) -> std::io::Result<()> {
        let entries = self.env.read_dir(dir).await?;
        let kept = |name: &str| [SNAPSHOTS, BACKUPS].contains(&name);
        if !entries
            .iter()
            .any(|entry| entry.is_dir && kept(&entry.name))
        {
            return self.env.remove_dir_all(dir).await;
        }
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            self.env.remove_file(&dir.join(&entry.name)).await?;
        }
        self.env.sync_dir(dir).await
    }

    /// Empties a blocked table in memory and on disk.
    pub(super) async fn remove_content(
        &self,
        table: &TableStore,
    ) -> Result<(), sstable_folder::FolderError> {
        let (memtables, sstables) = table.clear();
        let id = table.table().id;
        // The last one is the active memtable; the flushing ones are counted by their jobs.
        for (at, memtable) in memtables.iter().enumerate() {
            self.let_go_of(id, memtable);
            if at + 1 == memtables.len() {
                self.memory.grow_active(-(memtable.bytes() as isize));
            }
        }
        self.memory.freed.notify_all();
        for sstable in sstables.iter() {
            self.remove_sstable(table, sstable).await?;
        }
        for (descriptor, origin) in table.take_unreadable() {
            let shared = &self.config.shared;
            let path = descriptor.path(crate::sstable::Component::Data);
            if !table.is_shared_of(origin) {
                sstable_folder::remove(&self.env, &descriptor).await?;
            } else if shared.let_go(&path, self.config.sharder.shards()) {
                sstable_folder::remove(&self.env, &descriptor).await?;
                shared.removed(&path);
            }
        }
        Ok(())
    }

    /// Lets go of an sstable that is no longer part of its table; removes it if nobody else needs
    /// it.
    pub(super) async fn remove_sstable(
        &self,
        table: &TableStore,
        sstable: &SSTable,
    ) -> Result<(), sstable_folder::FolderError> {
        table.removable().await;
        let shared = &self.config.shared;
        let path = sstable.descriptor().path(crate::sstable::Component::Data);
        if table.is_shared(sstable) {
            if !shared.let_go(&path, self.config.sharder.shards()) {
                table.ghosts.borrow_mut().push(sstable.clone());
                return Ok(());
            }
            sstable_folder::remove(&self.env, sstable.descriptor()).await?;
            shared.removed(&path);
        } else {
            sstable_folder::remove(&self.env, sstable.descriptor()).await?;
        }
        table.files_gone(sstable.descriptor());
        Ok(())
    }

    /// Replays the commit log of earlier runs for the tables that are open and were not replayed
    /// yet: first what a Cassandra left, then ours.
    pub(super) async fn replay_known(self: &Rc<Inner>) -> Result<(), OpenError> {
        let new: BTreeMap<TableId, Rc<TableStore>> = {
            let replayed = self.replayed.borrow();
            let tables = self.tables.borrow();
            let new = tables.iter().filter(|(id, _)| !replayed.contains(id));
            new.map(|(id, table)| (*id, table.clone())).collect()
        };
        let (cassandras, ours): (Vec<_>, Vec<_>) = self
            .old_segments
            .iter()
            .partition(|name| name.is_cassandra());
        self.replay_cassandra(cassandras, &new).await?;
        let dir = self.config.commitlog_dir.clone();
        let ignore_errors = self.config.commitlog.ignore_replay_errors;
        let mut replay = Replay::new(self.env.clone(), &dir, ours, ignore_errors);
        let find = |id: TableId| new.get(&id).map(|table| table.table());
        while let Some(group) = replay.next(&find).await? {
            self.replay_group(group, &new);
            self.env.maybe_yield().await;
            self.make_room().await?;
        }
        self.replayed.borrow_mut().extend(new.keys());
        Ok(())
    }

    pub(super) fn replay_group(
        &self,
        group: ReplayedGroup,
        tables: &BTreeMap<TableId, Rc<TableStore>>,
    ) {
        let (sharder, shard) = (self.config.sharder, self.env.shard().0);
        for mutation in group.mutations {
            let token = mutation.key.token();
            let until = self.config.commitlog.restore_until;
            if mutation.updates.iter().any(|u| max_timestamp(u) > until) {
                continue;
            }
            if sharder.shard_of(token) != shard {
                continue;
            }
            for update in mutation.updates {
                let id = update.table.id;
                if self.is_truncated(id, token, group.position) {
                    continue;
                }
                let Some(table) = tables.get(&id) else {
                    continue;
                };
                self.log.count(group.segment, &update);
                let schema = table.table();
                let grown = table.active().apply(update, &schema, Some(group.segment));
                self.memory.grow_active(grown);
            }
        }
    }

    fn is_truncated(&self, table: TableId, token: model::Token, position: Position) -> bool {
        let truncations = self.truncations.borrow();
        let mut all = truncations.iter();
        all.any(|noted| noted.covers(table, token, position))
    }

    /// Keeps memory bounded while nobody but replay writes.
    pub(super) async fn make_room(&self) -> Result<(), OpenError> {
        if self.memory.active.get() >= self.memory.flush_at {
            self.flush(None).await?;
        }
        Ok(())
    }

    /// Drops the notes on truncations that no segment contradicts any more.
    pub(super) async fn forget_truncations(&self) -> Result<(), OpenError> {
        self.forget_truncations_before(self.log.oldest_segment())
            .await
    }

    /// Drops all notes on truncations: there are no segments any more, and what was truncated is
    /// gone. They would take sstables for truncated that somebody restores from a backup.
    pub(super) async fn forget_all_truncations(&self) -> Result<(), OpenError> {
        self.forget_truncations_before(u64::MAX).await
    }

    async fn forget_truncations_before(&self, oldest: u64) -> Result<(), OpenError> {
        {
            let mut truncations = self.truncations.borrow_mut();
            truncations.truncate(1);
            if !truncations[0].forget_before(oldest) {
                return Ok(());
            }
        }
        let saved = self.save_truncations().await;
        saved.map_err(folder::io_error(&self.config.commitlog_dir))
    }
}

/// A data file that nobody here can read.
fn of_unknown_format(path: PathBuf) -> Unreadable {
    let error = SSTableError::Unsupported {
        path,
        what: "this Helenus does not know its format: rewrite it with Cassandra's sstableupgrade, \
               or move its files away to go without its rows"
            .to_owned(),
    };
    tracing::error!("an sstable is left out, its table cannot be read: {error}");
    Unreadable {
        sstable: None,
        error: Some(Arc::new(error)),
    }
}
