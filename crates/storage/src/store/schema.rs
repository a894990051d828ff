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
    CompressionParameters, Descriptor, SSTable, SSTableError, ShardOrigin, check_table,
    folder as sstable_folder, take_out_misfits,
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
                if !wanted.contains_key(&table.id()) && !table.is_index.get() {
                    let indexes = table.indexes.replace(Rc::new([]));
                    for index in indexes.iter() {
                        self.drop_index(index).await;
                    }
                    self.drop_table(&table).await;
                }
            }
        }
        for (id, (table, durable)) in wanted {
            match self.table(id) {
                Some(known) => {
                    let period = table.options.memtable_flush_period_in_ms;
                    let before = known.table().options.memtable_flush_period_in_ms;
                    if known.table().options.compression != table.options.compression {
                        self.doubt_compression(&table);
                    }
                    self.alter(&known, &table).await;
                    known.durable.set(durable);
                    if before != period {
                        self.begin_period(&known);
                    }
                    self.set_indexes(&known, &table, false).await?;
                    // Its strategy may be another one now.
                    self.compaction_work.notify_one();
                }
                None => {
                    self.doubt_compression(&table);
                    let opened = Rc::new(self.open_table(table.clone(), durable).await?);
                    self.tables
                        .borrow_mut()
                        .insert(id.as_u128(), opened.clone());
                    self.begin_period(&opened);
                    self.set_indexes(&opened, &table, true).await?;
                }
            }
        }
        let keyspaces = schema.keyspaces.values();
        let unserved = keyspaces.flat_map(|keyspace| {
            let tables = keyspace.unserved.tables.iter();
            tables
                .filter_map(|(name, table)| Some((table.id?, format!("{}.{name}", keyspace.name))))
        });
        *self.unserved.borrow_mut() = unserved.collect();
        self.memory.tell_caches();
        Ok(())
    }

    /// A table goes over to a new form. What memory has of columns that it loses goes to the drive
    /// under their names: what of it is newer than the drop belongs to the column that may be added
    /// again, and is there when it is.
    async fn alter(&self, known: &Rc<TableStore>, table: &Arc<Table>) {
        let before = known.table();
        let loses = before.columns().any(|c| table.column(c.id).is_none());
        let mut added = table.columns().filter(|c| before.column(c.id).is_none());
        let is_back = added.any(|c| table.dropped.iter().any(|d| d.name == c.name));
        if loses {
            self.begin_flush(known);
            known.keep_columns();
        }
        if is_back {
            self.flush_for_change(table).await;
        }
        known.set_table(table);
        if loses {
            self.flush_for_change(table).await;
        }
    }

    /// A flush that fails is tried again, and need not keep the schema from being changed.
    async fn flush_for_change(&self, table: &Table) {
        if let Err(error) = self.flush(Some(table.id)).await {
            let (keyspace, name) = (&table.keyspace, &table.name);
            tracing::warn!("flushing {keyspace}.{name} before it changes: {error}");
        }
    }

    /// Says, once for all shards, what of a table's compression is not done as it asks for.
    fn doubt_compression(&self, table: &Table) {
        if self.env.shard().0 != 0 {
            return;
        }
        let (keyspace, name) = (&table.keyspace, &table.name);
        CompressionParameters::from_options(&table.options.compression, &mut |doubt| {
            tracing::warn!("compression of {keyspace}.{name}: {doubt}");
        });
    }

    async fn open_table(&self, table: Arc<Table>, durable: bool) -> Result<TableStore, OpenError> {
        let dir = folder::of_table(&self.env, &self.config.sstables, &table).await?;
        self.open_table_in(table, dir, durable).await
    }

    /// Opens a table that lies in this folder.
    pub(super) async fn open_table_in(
        &self,
        table: Arc<Table>,
        dir: PathBuf,
        durable: bool,
    ) -> Result<TableStore, OpenError> {
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
                    tracing::warn!(
                        "removing {}: its table was truncated, and the process ended before this \
                         was gone",
                        path.display()
                    );
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
            self.env.wall_seconds(),
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

    /// Drops a table, whatever becomes of its files: the schema has it no more, and it must not stay
    /// on some shards only.
    async fn drop_table(&self, table: &Rc<TableStore>) {
        let id = table.id();
        table.dropped.set(true);
        table.block().await;
        // They see that it is blocked; until then they write into its folder.
        table.compaction.idle().await;
        self.tables.borrow_mut().remove(&id.as_u128());
        self.note_drop(table).await;
        let mut removed = self.remove_content(table).await;
        table.unblock();
        // The last shard to drop the table removes its folder.
        if self
            .config
            .shared
            .let_go(&table.dir, self.config.sharder.shards())
        {
            // All that the shards could not remove too.
            removed = self.remove_folder(&table.dir).await;
            self.config.shared.forget_folder(&table.dir);
        }
        if let Err(error) = removed {
            let dir = table.dir.display();
            tracing::warn!(
                "removing the files of a dropped table: {error}. What is left in {dir} can be removed \
                 by hand"
            );
        }
    }

    /// Removes the folder of a dropped table, but not its snapshots and backups: they are there for
    /// the day on which somebody misses what was dropped.
    async fn remove_folder(&self, dir: &Path) -> Result<(), sstable_folder::FolderError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            |source| sstable_folder::FolderError { path, source }
        };
        let entries = self.env.read_dir(dir).await.map_err(at(dir))?;
        let kept = |name: &str| [SNAPSHOTS, BACKUPS].contains(&name);
        if !entries
            .iter()
            .any(|entry| entry.is_dir && kept(&entry.name))
        {
            return self.env.remove_dir_all(dir).await.map_err(at(dir));
        }
        let mut removed = Ok(());
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let path = dir.join(&entry.name);
            let gone = self.env.remove_file_if_there(&path).await;
            removed = removed.and(gone.map_err(at(&path)));
        }
        self.env.sync_dir(dir).await.map_err(at(dir))?;
        removed
    }

    /// Empties a blocked table in memory and on disk.
    pub(super) async fn remove_content(
        &self,
        table: &TableStore,
    ) -> Result<(), sstable_folder::FolderError> {
        let (memtables, sstables) = table.clear();
        self.begin_period(table);
        let id = table.id();
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
            let of =
                |(id, table): (&u128, &Rc<TableStore>)| (TableId::from_u128(*id), table.clone());
            let new = tables.iter().map(of);
            new.filter(|(id, _)| !replayed.contains(id)).collect()
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
            for mut update in mutation.updates {
                let id = update.table.id;
                let Some(table) = tables.get(&id) else {
                    continue;
                };
                // What is flushed of the table need not be flushed of its indexes. Where the table was
                // truncated they name what is not there, which does no harm.
                for index in table.indexes.borrow().iter() {
                    self.add_entries(index, &update, Some(group.segment));
                }
                if self.is_truncated(id, token, group.position) {
                    continue;
                }
                for misfit in take_out_misfits(&mut update) {
                    tracing::error!("left out of what the commit log holds: {misfit}");
                }
                if update.is_empty() {
                    continue;
                }
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

    /// Drops the notes on truncations that no segment contradicts any more. All tables are open, and
    /// so nothing is left of what a truncation that was cut off had to remove.
    pub(super) async fn forget_truncations(&self) -> Result<(), OpenError> {
        let oldest = self.log.oldest_segment();
        self.forget_former_truncations(oldest).await?;
        let finished = self.truncations.borrow_mut()[0].finish_all(|_| true);
        self.forget_truncations_before(oldest, finished).await
    }

    /// The same of those that other numbers of shards noted: the last shard to come here sees to their
    /// files.
    async fn forget_former_truncations(&self, oldest: u64) -> Result<(), OpenError> {
        let others = self.truncations.borrow_mut().split_off(1);
        let (dir, shards) = (&self.config.commitlog_dir, self.config.sharder.shards());
        for mut noted in others.into_iter().filter(|n| n.is_of_former(shards)) {
            let path = noted.path(dir);
            if self.config.shared.let_go(&path, shards) {
                noted.finish_all(|_| true);
                noted.forget_before(oldest);
                let saved = noted.save_or_remove(&self.env, dir).await;
                saved.map_err(folder::io_error(&path))?;
            }
        }
        Ok(())
    }

    /// All is flushed and nothing goes on. If the log is `emptied` no note has anything to say; else
    /// they speak of the log alone, and not of sstables that somebody may restore from a backup.
    pub(super) async fn forget_drained_truncations(&self, emptied: bool) -> Result<(), OpenError> {
        let finished = self.finish_truncations();
        let oldest = if emptied { u64::MAX } else { 0 };
        self.forget_truncations_before(oldest, finished).await
    }

    async fn forget_truncations_before(&self, oldest: u64, changed: bool) -> Result<(), OpenError> {
        let forgotten = self.truncations.borrow_mut()[0].forget_before(oldest);
        if !forgotten && !changed {
            return Ok(());
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
