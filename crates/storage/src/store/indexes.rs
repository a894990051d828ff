//! The indexes of a table on this shard: they come and go with the schema, are built of what is
//! there, and follow each write.
//!
//! Entries are derived when a write goes into the memtable of its table, without giving way in
//! between, and again by each replay: the commit log has the write alone, and keeps it until the
//! entries are in sstables, too. Each shard has a folder of its own for an index, named by how many
//! shards there are: entries lie on the shard of the row they lead to, and an sstable of them cannot be
//! cut by its tokens. With another number of shards an index is built anew.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use io::TaskGroup;
use model::{
    Index, Mutation, PartitionBound, PartitionSelection, PartitionUpdate, ReadCommand, Slice, Table,
};
use uuid::Uuid;
use uuid::fmt::Simple;

use super::table::TableStore;
use super::{IndexSSTables, Inner, Store, folder};
use crate::commitlog::SegmentName;
use crate::error::{OpenError, ReadError};
use crate::index::{IndexDefinition, Lookup};
use crate::memtable::most_growth_of;
use crate::merge::{Items, MemScan, MergedScan, ScanSource};
use crate::read::{IndexView, Stale, View};
use crate::sstable::{ColumnSelection, SSTable, ScanOptions};
use crate::{PartitionHead, Unfiltered};

/// The file in the folder of an index that says that it was built.
const BUILT: &str = "built";

/// How long a change of the schema waits for a new index to be built: that of a small table is there
/// when its statement returns.
const BUILD_WAIT: Duration = Duration::from_secs(1);

/// How many rows of a partition are indexed at once by a build.
const ROWS_AT_ONCE: usize = 64;

/// How long a build waits when memtables are full.
const ROOM_WAIT: Duration = Duration::from_millis(10);

/// The longest name that file systems take, in bytes (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// The folder of an index in that of its keyspace. What is too long of its name is left out: the id tells it
/// from others.
fn folder_name(entries: &str, id: Uuid) -> String {
    let (before, id) = ("helenus_", id.simple());
    let room = LONGEST_NAME - before.len() - 1 - Simple::LENGTH;
    let end = entries.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = end.take_while(|end| *end <= room).last().unwrap_or(0);
    format!("{before}{}-{id}", &entries[..end])
}

/// An index of a table on this shard.
pub(crate) struct ShardIndex {
    /// Which.
    pub(crate) definition: Rc<IndexDefinition>,
    /// The table of its entries.
    pub(crate) entries: Rc<TableStore>,
    /// Does it lead to all that there is?
    pub(super) built: Cell<bool>,
}

/// An index that one shard has, for those who ask how far it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexState {
    /// The keyspace.
    pub keyspace: std::sync::Arc<str>,
    /// The table.
    pub table: std::sync::Arc<str>,
    /// The index.
    pub name: std::sync::Arc<str>,
    /// Is it built?
    pub built: bool,
}

impl Store {
    /// The indexes of all tables.
    pub fn indexes(&self) -> Vec<IndexState> {
        let tables = self.inner.all_tables();
        let states = tables.iter().flat_map(|table| {
            let schema = table.table();
            let indexes = table.indexes.borrow().clone();
            let state = move |index: &Rc<ShardIndex>| IndexState {
                keyspace: schema.keyspace.clone(),
                table: schema.name.clone(),
                name: index.definition.index.name.clone(),
                built: index.built.get(),
            };
            indexes.iter().map(state).collect::<Vec<_>>()
        });
        states.collect()
    }
}

impl Inner {
    /// A table goes over to the indexes that it has now. `is_new`: it was opened just now, and so what
    /// lies in the folder of an index has followed its table.
    pub(super) async fn set_indexes(
        self: &Rc<Inner>,
        store: &Rc<TableStore>,
        table: &Table,
        is_new: bool,
    ) -> Result<(), OpenError> {
        let wanted = table.indexes.iter();
        let wanted = wanted.filter_map(|index| IndexDefinition::new(table, index));
        let wanted: Vec<Rc<IndexDefinition>> = wanted.map(Rc::new).collect();
        let known = store.indexes.borrow().clone();
        if known.is_empty() && wanted.is_empty() {
            return Ok(());
        }
        let mut indexes = Vec::with_capacity(wanted.len());
        let mut opened = Vec::new();
        for definition in wanted {
            let before = known.iter().find(|index| {
                index.definition.entries.id == definition.entries.id && index.is_there()
            });
            match before {
                Some(index) if index.definition == definition => indexes.push(index.clone()),
                Some(index) => {
                    index.entries.set_table(&definition.entries);
                    indexes.push(Rc::new(ShardIndex {
                        definition,
                        entries: index.entries.clone(),
                        built: index.built.clone(),
                    }));
                }
                None => {
                    let index = Rc::new(self.open_index(store, definition, is_new).await?);
                    opened.push(index.clone());
                    indexes.push(index);
                }
            }
        }
        let stays = |index: &ShardIndex| {
            let mut kept = indexes.iter();
            kept.any(|kept| Rc::ptr_eq(&kept.entries, &index.entries))
        };
        let gone: Vec<_> = known
            .iter()
            .filter(|index| !stays(index))
            .cloned()
            .collect();
        *store.indexes.borrow_mut() = indexes.into();
        for index in gone {
            self.drop_index(&index).await;
        }
        for index in opened.into_iter().filter(|index| !index.built.get()) {
            self.begin_build(store, index, is_new).await;
        }
        Ok(())
    }

    async fn open_index(
        &self,
        store: &TableStore,
        definition: Rc<IndexDefinition>,
        is_new: bool,
    ) -> Result<ShardIndex, OpenError> {
        let durable = store.durable.get();
        let dir = self.folder_of_index(&definition.entries);
        if self.env.shard().0 == 0 {
            let removed = self.remove_folders_of_others(&dir).await;
            removed.map_err(folder::io_error(&dir))?;
        }
        let built = dir.join(BUILT);
        let mut is_built = false;
        if self
            .env
            .exists(&dir)
            .await
            .map_err(folder::io_error(&dir))?
        {
            let there = self.env.exists(&built).await;
            // Without the log nobody knows what an index has lost with the memory.
            is_built = is_new && durable && there.map_err(folder::io_error(&built))?;
            if !is_built {
                let removed = self.env.remove_dir_all(&dir).await;
                removed.map_err(folder::io_error(&dir))?;
            }
        }
        let table = definition.entries.clone();
        let opened = self.open_table_in(table, dir, durable).await?;
        opened.is_index.set(true);
        if let Some(error) = opened.unreadable() {
            tracing::error!("an index is built anew, as it cannot be read: {error}");
            is_built = false;
        }
        let entries = Rc::new(opened);
        let id = definition.entries.id;
        self.tables
            .borrow_mut()
            .insert(id.as_u128(), entries.clone());
        Ok(ShardIndex {
            definition,
            entries,
            built: Cell::new(is_built),
        })
    }

    /// Removes what the index was with other numbers of shards: it has not followed its table since.
    /// Nobody writes before all shards have started.
    async fn remove_folders_of_others(&self, own: &Path) -> Result<(), std::io::Error> {
        let Some(all) = own.parent() else {
            return Ok(());
        };
        if !self.env.exists(all).await? {
            return Ok(());
        }
        let of_these = format!("-of-{}", self.config.sharder.shards());
        for entry in self.env.read_dir(all).await? {
            if entry.name.ends_with(&of_these) {
                continue;
            }
            let other = all.join(&entry.name);
            self.env.remove_file_if_there(&other.join(BUILT)).await?;
            self.env.sync_dir(&other).await?;
            self.env.remove_dir_all(&other).await?;
        }
        Ok(())
    }

    fn folder_of_index(&self, entries: &Table) -> PathBuf {
        let name = folder_name(&entries.name, entries.id);
        let shards = self.config.sharder.shards();
        let own = format!("shard-{}-of-{shards}", self.env.shard().0);
        let keyspace = self.config.sstables.join(&*entries.keyspace);
        keyspace.join(name).join(own)
    }

    /// The index goes, with its files.
    pub(super) async fn drop_index(&self, index: &ShardIndex) {
        let id = index.definition.entries.id;
        index.built.set(false);
        let entries = &index.entries;
        entries.dropped.set(true);
        entries.block().await;
        entries.compaction.idle().await;
        self.tables.borrow_mut().remove(&id.as_u128());
        let mut removed = self
            .remove_content(entries)
            .await
            .map_err(|e| e.to_string());
        entries.unblock();
        let (shared, shards) = (&self.config.shared, self.config.sharder.shards());
        let all = entries.dir.parent().unwrap_or(&entries.dir);
        // The last shard to drop it removes the folder of all.
        if shared.let_go(all, shards) {
            removed = self
                .env
                .remove_dir_all(all)
                .await
                .map_err(|e| e.to_string());
            shared.forget_folder(all);
        }
        if let Err(error) = removed {
            tracing::warn!("removing the files of a dropped index: {error}");
        }
    }

    /// Builds an index in the background. A start waits for none: the commit log is replayed first.
    async fn begin_build(
        self: &Rc<Inner>,
        store: &Rc<TableStore>,
        index: Rc<ShardIndex>,
        is_start: bool,
    ) {
        let (inner, store) = (self.clone(), store.clone());
        let building = self.env.spawn(TaskGroup::Maintenance, async move {
            inner.build_index(&store, &index).await;
        });
        if !is_start {
            let _ = self.env.timeout(BUILD_WAIT, building).await;
        }
    }

    async fn build_index(self: &Rc<Inner>, store: &TableStore, index: &ShardIndex) {
        let name = &index.definition.entries.name;
        match self.build(store, index).await {
            Ok(true) => index.built.set(true),
            // Dropped meanwhile, or the node stops.
            Ok(false) => {}
            Err(error) => {
                tracing::error!(
                    "building the index {name}: {error}; until it is built, by nodetool \
                     rebuild_index or at the next start, nobody can read by it"
                );
            }
        }
    }

    /// Derives entries of all that the table has now, and notes that it is done. Writes make their own
    /// since before that.
    async fn build(&self, store: &TableStore, index: &ShardIndex) -> Result<bool, String> {
        let is_done = self.index_view(&store.view(), index).await?;
        if is_done {
            self.note_built(index).await?;
        }
        Ok(is_done && index.is_there())
    }

    /// What sstables that are about to become part of a table say is indexed, and on the drive, before
    /// anybody sees them.
    pub(super) async fn index_arrivals(
        &self,
        store: &TableStore,
        arrivals: &[SSTable],
    ) -> Result<(), String> {
        let mut view = store.view();
        view.memtables.clear();
        view.sstables = arrivals.into();
        let indexes = store.indexes.borrow().clone();
        for index in indexes.iter() {
            self.index_view(&view, index).await?;
        }
        Ok(())
    }

    /// Until the indexes of a table have what comes into its folder, a start is to build them anew.
    pub(super) async fn doubt_indexes(&self, store: &TableStore) -> Result<(), std::io::Error> {
        let indexes = store.indexes.borrow().clone();
        for index in indexes.iter() {
            let dir = &index.entries.dir;
            self.env.remove_file_if_there(&dir.join(BUILT)).await?;
            self.env.sync_dir(dir).await?;
        }
        Ok(())
    }

    /// All is in the indexes again.
    pub(super) async fn trust_indexes(&self, store: &TableStore) {
        let indexes = store.indexes.borrow().clone();
        for index in indexes.iter().filter(|index| index.built.get()) {
            if let Err(error) = self.note_built(index).await {
                tracing::warn!("the next start builds an index anew: {error}");
            }
        }
    }

    async fn note_built(&self, index: &ShardIndex) -> Result<(), String> {
        let path = index.entries.dir.join(BUILT);
        let noted = match self.env.write_file(&path, Vec::new()).await {
            Ok(()) => self.env.sync_dir(&index.entries.dir).await,
            Err(error) => Err(error),
        };
        noted.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Derives entries of all that a view has, and flushes them; `false` if the index, or the store, goes.
    async fn index_view(&self, view: &View, index: &ShardIndex) -> Result<bool, String> {
        let ends = || self.closed.get() || !index.is_there();
        let mut scan = view.scan_all(&self.env);
        while let Some(head) = scan.next_partition().await.map_err(|e| e.to_string())? {
            let mut update = empty_update(view, &head);
            update.static_row = head.static_row;
            loop {
                let item = scan.next().await.map_err(|e| e.to_string())?;
                let ended = item.is_none();
                if let Some(Unfiltered::Row(row)) = item {
                    update.rows.push(row);
                }
                if ended || update.rows.len() == ROWS_AT_ONCE {
                    self.wait_for_room(index, &update).await;
                    if ends() {
                        return Ok(false);
                    }
                    self.add_entries(index, &update, None);
                    update.rows.clear();
                    update.static_row = None;
                }
                if ended {
                    break;
                }
            }
        }
        let id = index.definition.entries.id;
        // What waits for a flush that fails may still come.
        loop {
            if ends() {
                return Ok(false);
            }
            match self.flush(Some(id)).await {
                Ok(()) => return Ok(!ends()),
                Err(error) => tracing::warn!("building an index: {error}"),
            }
            self.env.sleep(BUILD_WAIT).await;
        }
    }

    /// Until there is memory for the entries that an update makes, or for nothing but them.
    async fn wait_for_room(&self, index: &ShardIndex, update: &PartitionUpdate) {
        self.env.maybe_yield().await;
        self.relieve();
        let entries = index.definition.entries_of(update);
        let bytes = entries.as_ref().map_or(0, most_growth_of);
        let must_wait = || !self.memory.has_room(bytes) && self.memory.used() > 0;
        while must_wait() && !self.closed.get() {
            self.env.sleep(ROOM_WAIT).await;
        }
    }

    /// All entries that a write makes, to know what memory they take; `None` if it makes none.
    pub(super) fn entries_of(&self, mutation: &Mutation) -> Option<Mutation> {
        let mut updates = Vec::new();
        for update in &mutation.updates {
            let table = self.table(update.table.id)?;
            for index in table.indexes.borrow().iter() {
                updates.extend(index.definition.entries_of(update));
            }
        }
        (!updates.is_empty()).then_some(Mutation { updates })
    }

    /// Takes the entries that an update makes into the memtable of an index.
    pub(super) fn add_entries(
        &self,
        index: &ShardIndex,
        update: &PartitionUpdate,
        segment: Option<SegmentName>,
    ) {
        let Some(entries) = index.definition.entries_of(update) else {
            return;
        };
        if !index.is_there() {
            return;
        }
        if let Some(segment) = segment {
            self.log.count(segment, &entries);
        }
        let table = index.entries.table();
        let grown = index.entries.active().apply(entries, &table, segment);
        self.memory.grow_active(grown);
    }

    /// The index that a read asks; `None` if there is none that helps.
    pub(super) fn index_for(
        &self,
        table: &TableStore,
        command: &ReadCommand,
    ) -> Result<Option<Box<IndexView>>, ReadError> {
        let indexes = table.indexes.borrow().clone();
        if indexes.is_empty() && command.table.indexes.is_empty() {
            return Ok(None);
        }
        let schema = table.table();
        let found = indexes.iter().filter_map(|index| {
            let lookup = index.definition.lookup(&schema, &command.filters)?;
            Some((index, lookup))
        });
        let found = found.min_by_key(|(index, lookup)| rank(&index.definition.index, lookup));
        let Some((index, lookup)) = found else {
            // The shard that asked knows of an index that is not here yet.
            return match asked_index(command) {
                Some(name) if indexes.iter().all(|i| *i.definition.index.name != *name) => {
                    Err(ReadError::IndexNotAvailable(name))
                }
                _ => Ok(None),
            };
        };
        if !index.built.get() {
            let name = index.definition.index.name.to_string();
            return Err(ReadError::IndexNotAvailable(name));
        }
        let entries = index.entries.view();
        Ok(Some(Box::new(IndexView {
            many_sstables: self.many_sstables(&index.definition, (&lookup, &entries), command)?,
            definition: index.definition.clone(),
            lookup,
            entries,
            stale: Stale::default(),
        })))
    }

    /// How many sstables of a storage-attached index may have what is looked for, if those are more than whoever
    /// asks is warned of; else 0. A read of one partition filters that, and asks no index
    /// (`QueryController.maybeTriggerGuardrails`).
    fn many_sstables(
        &self,
        definition: &IndexDefinition,
        (lookup, entries): (&Lookup, &View),
        command: &ReadCommand,
    ) -> Result<u64, ReadError> {
        let IndexSSTables { warn, fail } = self.config.index_sstables;
        let asks = matches!(command.partitions, PartitionSelection::Range { .. });
        if !asks || !definition.index.is_storage_attached() {
            return Ok(0);
        }
        let slices = [lookup.slice()];
        let sstables = entries.sstables.iter();
        let referenced = sstables.filter(|sstable| sstable.may_contain_slices(&slices));
        let referenced = referenced.count() as u64;
        if referenced > fail {
            return Err(ReadError::TooManyIndexes {
                referenced,
                most: fail,
            });
        }
        Ok(if referenced > warn { referenced } else { 0 })
    }

    /// Removes the entries that a read has found to be stale. The log has nothing of it: after a crash they
    /// are found again.
    pub(super) fn sweep(&self, table: &TableStore, view: &IndexView) {
        let indexes = table.indexes.borrow().clone();
        let mut indexes = indexes.iter();
        let index = indexes.find(|index| Rc::ptr_eq(&index.definition, &view.definition));
        let Some(index) = index.filter(|index| index.is_there()) else {
            return;
        };
        let entries = index.entries.table();
        if self.closed.get() {
            return;
        }
        let Some(deletion) = view.stale.deletion(&entries, self.env.wall_seconds()) else {
            return;
        };
        if self.memory.has_room(most_growth_of(&deletion)) {
            let grown = index.entries.active().apply(deletion, &entries, None);
            self.memory.grow_active(grown);
        }
    }
}

/// The index by which a command is read: one that its table has for one of its filters.
pub fn asked_index(command: &ReadCommand) -> Option<String> {
    let table = &command.table;
    let found = table.indexes.iter().filter_map(|index| {
        let definition = IndexDefinition::new(table, index)?;
        let lookup = definition.lookup(table, &command.filters)?;
        Some((index, lookup))
    });
    let found = found.min_by_key(|(index, lookup)| rank(index, lookup));
    found.map(|(index, _)| index.name.to_string())
}

/// Of several indexes the one of the least rank is asked. Storage-attached ones come last, as in Cassandra
/// (`StorageAttachedIndexQueryPlan.getEstimatedResultRows`): they do not find all that others do. Of one value there
/// are fewer entries than of a range, as a rule.
fn rank(index: &Index, lookup: &Lookup) -> impl Ord + use<> {
    (
        index.is_storage_attached(),
        matches!(lookup, Lookup::Range(_)),
    )
}

fn empty_update(view: &View, head: &PartitionHead) -> PartitionUpdate {
    PartitionUpdate::new(view.table.clone(), head.key.clone())
}

impl ShardIndex {
    /// Is it not dropped?
    fn is_there(&self) -> bool {
        !self.entries.dropped.get()
    }
}

impl View {
    /// All that the table has.
    fn scan_all(&self, env: &io::Env) -> MergedScan {
        let unbounded = || (PartitionBound::Unbounded, PartitionBound::Unbounded);
        let slices: Rc<[Slice]> = Rc::new([Slice::ALL]);
        let columns = self.table.statics().chain(self.table.regulars());
        let mut columns: Vec<_> = columns.map(|column| column.id).collect();
        columns.sort_unstable();
        let memory = self.memtables.iter().map(|memtable| {
            let table = self.table.clone();
            let scan = MemScan::new(memtable.clone(), table, unbounded(), slices.clone());
            ScanSource::Memory(Box::new(scan))
        });
        let files = self.sstables.iter().map(|sstable| {
            let options = ScanOptions {
                owner: self.owner_of(sstable),
                slices: slices.clone(),
                columns: ColumnSelection::Values(columns[..].into()),
                group: TaskGroup::Maintenance,
                ..ScanOptions::default()
            };
            ScanSource::File(Box::new(sstable.scan(options)))
        });
        let sources = memory.chain(files).collect();
        MergedScan::new(env, self.table.clone(), sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_indexes_have_names_that_file_systems_take() {
        let id = Uuid::from_u128(7);
        let short = format!("helenus_t.i-{}", id.simple());
        assert_eq!(folder_name("t.i", id), short);
        let long = folder_name(&"t".repeat(400), id);
        assert_eq!(long.len(), LONGEST_NAME);
        assert!(long.ends_with(&format!("t-{}", id.simple())));
        assert!(folder_name(&"é".repeat(400), id).len() <= LONGEST_NAME);
    }
}
