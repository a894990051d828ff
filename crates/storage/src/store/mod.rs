//! The storage engine of one shard.
//!
//! **Writing.** A mutation is appended to the commit log, and when the log says that it may be
//! acknowledged, taken into the memtables of its tables; only then is it visible. **Flushing.**
//! When memtables take too much memory, hold back the oldest segment of the log, or are as old as
//! their table wants them to become ([`period`]), they are switched for empty ones and written to
//! sstables in the background, see [`flush`]. **Reading** merges what memtables and sstables know,
//! see [`crate::read`]. **Compaction** keeps the number of sstables bounded, see [`compact`].
//!
//! **Memory.** Memtables, those being flushed included, never take more than their limit: writes
//! wait for a flush a while and are then refused.

#[cfg(test)]
mod answer_tests;
mod backup;
mod begun;
#[cfg(test)]
mod begun_tests;
#[cfg(test)]
mod cache_tests;
mod cached;
mod cassandra;
mod compact;
mod faults;
mod flush;
mod flush_pace;
#[cfg(test)]
mod flush_tests;
mod folder;
#[cfg(test)]
mod folder_tests;
#[cfg(test)]
mod full_drive_tests;
mod import;
#[cfg(test)]
mod index_tests;
mod indexes;
mod inflow;
mod inspect;
mod log_room;
#[cfg(test)]
mod log_tests;
mod memory;
#[cfg(test)]
mod memory_tests;
mod period;
#[cfg(test)]
mod period_tests;
mod pressure;
mod schema;
mod snapshot;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod truncate;
#[cfg(test)]
mod truncate_tests;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::{Env, Instant, Notify, Semaphore, TaskGroup};
use model::{
    Clustering, ColumnId, DecoratedKey, PartitionSelection, ReadCommand, ReadPage, Scanned, Schema,
    Sharder, Table, TableId, VersionPage,
};

use crate::SharedFiles;
use crate::cache::RowCache;
use crate::commitlog::{CommitLog, CommitLogConfig, SegmentName, Truncations};
use crate::error::{FlushError, OpenError, ReadError};
use crate::read::View;
use crate::sstable::{ChunkCache, Format, PartitionLimits, SSTableError};
pub use begun::BegunWrites;
use flush::FlushJob;
use memory::Memory;
use period::FlushPeriods;
use table::{PlainAsked, TableStore};
pub use table::{PlainRow, PlainRows};

pub use compact::{
    CompactionKind, CompactionRecord, CompactionScope, CompactionStatus, Granularity, ScrubOptions,
    Scrubbed,
};
pub use import::{ImportError, ImportOptions};
pub use indexes::{IndexState, asked_index};
pub use inspect::{PartitionEstimate, SSTableDetails, TableDetails, VerifyOptions};
pub use snapshot::{SnapshotDetails, SnapshotError, SnapshotManifest, instant};
pub use stats::{StoreStats, TableStats, TableTallies};

/// How a store is kept.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The folder of the sstables: one for each keyspace in it, and in that one for each table.
    pub sstables: PathBuf,
    /// The folder of the commit log.
    pub commitlog_dir: PathBuf,
    /// How tokens are dealt to shards.
    pub sharder: Sharder,
    /// Bytes of memory for this shard's storage. Memtables take at most half of it; they, rows and
    /// chunks of sstables that may be read again, and the places of partitions together seven
    /// eighths; the rest is for what bloom filters, summaries and running operations take.
    pub memory: u64,
    /// The format of the sstables that are written.
    pub sstable_format: Format,
    /// The commit log.
    pub commitlog: CommitLogConfig,
    /// Are new sstables linked into the backups from the start on?
    pub incremental_backups: bool,
    /// Reads that meet more tombstones than this fail (`tombstone_failure_threshold`).
    pub most_tombstones: u64,
    /// How many sstables of a storage-attached index a read may look into.
    pub index_sstables: IndexSSTables,
    /// Of which partitions that are written to an sstable the log tells.
    pub partition_limits: PartitionLimits,
    /// The files that all shards of this process share: one for all stores.
    pub shared: Arc<SharedFiles>,
}

/// How many sstables of a storage-attached index a read may look into on one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSSTables {
    /// If there are more, the page says how many (`sai_sstable_indexes_per_query_warn_threshold`).
    pub warn: u64,
    /// If there are more, the read fails (`sai_sstable_indexes_per_query_fail_threshold`).
    pub fail: u64,
}

impl IndexSSTables {
    /// As many as there are.
    pub const UNLIMITED: IndexSSTables = IndexSSTables {
        warn: u64::MAX,
        fail: u64::MAX,
    };
}

/// How long a store that is drained waits for its compactions to end.
const COMPACTIONS_END: Duration = Duration::from_secs(10);

/// The keyspaces that the node keeps for itself: it reads them whatever is in them
/// (`SchemaConstants.LOCAL_SYSTEM_KEYSPACE_NAMES`).
const LOCAL_SYSTEM: [&str; 2] = ["system", "system_schema"];

/// The storage engine of one shard. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    env: Env,
    config: StoreConfig,
    log: CommitLog,
    /// Segments of earlier runs that concern this shard.
    old_segments: Vec<SegmentName>,
    /// What the commit log of earlier runs must not bring back.
    truncations: RefCell<Vec<Truncations>>,
    /// Held while what this shard noted of them is written to its file.
    truncations_file: Semaphore,
    /// The tables whose old writes were replayed.
    replayed: RefCell<Vec<TableId>>,
    /// By their ids, as numbers: those are compared at once.
    tables: RefCell<BTreeMap<u128, Rc<TableStore>>>,
    /// The names of tables that are there, but not served.
    unserved: RefCell<BTreeMap<TableId, String>>,
    cache: ChunkCache,
    rows: Rc<RowCache>,
    memory: Memory,
    flushes: RefCell<VecDeque<FlushJob>>,
    /// Why the last flush failed, if it did.
    flush_failure: RefCell<Option<String>>,
    /// Wakes the task that flushes.
    flush_work: Notify,
    periods: FlushPeriods,
    /// Wakes the task that compacts.
    compaction_work: Notify,
    compactions: compact::Compactions,
    /// Is replay through, so that compaction may begin?
    ready: Cell<bool>,
    /// Are new sstables linked into the backups now?
    incremental_backups: Cell<bool>,
    /// No more writes.
    closed: Cell<bool>,
    /// No more flushes.
    stopped: Cell<bool>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    refused: Cell<u64>,
    failed_flushes: Cell<u64>,
    pending_flushes: Cell<u64>,
    failed_compactions: Cell<u64>,
}

impl Store {
    /// Opens the store of a shard with these tables, and replays what the commit log has for them.
    /// Of the others, the log is replayed by [`Store::replay`], once [`Store::set_schema`] has told
    /// of them. Only one process may have the folder open: the caller sees to that.
    pub async fn open(
        env: Env,
        config: StoreConfig,
        system_tables: &Schema,
    ) -> Result<Store, OpenError> {
        let found = folder::open_commitlog(&env, &config).await?;
        let limit = usize::try_from(config.memory / 2)
            .unwrap_or(usize::MAX)
            .max(1 << 16);
        // What waits for the drive is memory too.
        let most = limit / 4;
        let log_config = CommitLogConfig {
            pending_bytes: config.commitlog.pending_bytes.min(most),
            ..config.commitlog
        };
        let log = CommitLog::start(
            env.clone(),
            config.commitlog_dir.clone(),
            log_config,
            config.sharder,
            found.next_segment,
            found.segments.clone(),
            config.shared.clone(),
        );
        let budget = usize::try_from(config.memory / 16 * 13).unwrap_or(usize::MAX);
        let cache = ChunkCache::new(budget);
        let rows = Rc::new(RowCache::new(budget, cache.clone(), env.random_u64()));
        let inner = Rc::new(Inner {
            log,
            old_segments: found.segments.iter().map(|(name, _)| *name).collect(),
            truncations: RefCell::new(found.truncations),
            truncations_file: Semaphore::new(1),
            replayed: RefCell::default(),
            tables: RefCell::default(),
            unserved: RefCell::default(),
            memory: Memory::new(limit, budget, rows.clone()),
            rows,
            cache,
            flushes: RefCell::default(),
            flush_failure: RefCell::default(),
            flush_work: Notify::new(),
            periods: FlushPeriods::default(),
            compaction_work: Notify::new(),
            compactions: compact::Compactions::default(),
            ready: Cell::new(false),
            incremental_backups: Cell::new(config.incremental_backups),
            closed: Cell::new(false),
            stopped: Cell::new(false),
            counters: Counters::default(),
            config,
            env: env.clone(),
        });
        let store = Store { inner };
        let flusher = store.inner.clone();
        drop(env.spawn(TaskGroup::Flush, async move { flusher.run_flushes().await }));
        let room = store.inner.clone();
        drop(env.spawn(TaskGroup::Flush, async move { room.run_log_room().await }));
        let periods = store.inner.clone();
        let run = async move { periods.run_periods().await };
        drop(env.spawn(TaskGroup::Maintenance, run));
        for _ in 0..compact::WORKERS {
            let compactor = store.inner.clone();
            let run = async move { compactor.run_compactions().await };
            drop(env.spawn(TaskGroup::Compaction, run));
        }
        store.inner.set_schema(system_tables, false).await?;
        store.inner.replay_known().await?;
        Ok(store)
    }

    /// Tells of all tables there are: new ones are opened, altered ones take their new form, and
    /// those that are not in the schema are dropped with their files.
    pub async fn set_schema(&self, schema: &Schema) -> Result<(), OpenError> {
        self.inner.set_schema(schema, true).await
    }

    /// Replays the commit log for the tables that were opened since [`Store::open`]. What it holds
    /// of tables that are not known now is forgotten.
    pub async fn replay(&self) -> Result<(), OpenError> {
        let inner = &self.inner;
        inner.replay_known().await?;
        inner.forget_truncations().await?;
        inner.log.replayed();
        inner.ready.set(true);
        inner.periods.changed.notify_one();
        inner.compaction_work.notify_one();
        Ok(())
    }

    /// Reads.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadPage, ReadError> {
        let inner = &self.inner;
        let table = inner.readable(command.table.id)?;
        let mut view = inner.view_of(&table, command);
        if !command.filters.is_empty() {
            view.index = inner.index_for(&table, command)?;
        }
        let begun = inner.env.now();
        let page = view.read(&inner.env, command, &table.reads).await;
        if let Some(index) = &view.index {
            inner.sweep(&table, index);
        }
        let page = inner.have_read((&table, command), begun, page)?;
        inner.have_scanned(&table, &view, page.scanned)?;
        Ok(page)
    }

    /// Lets `show` show rows of a table, or that there are none, one after the other and in their order, as long as
    /// they lie in memory as they are to be seen, with nothing in them or around them that is deleted or has expired, and
    /// `show` has shown the one before. For what is not shown it takes [`Store::read`] to say what there is. `columns`
    /// are those that are asked for, sorted, of a table without static columns whose others have one cell each and are
    /// no counters; `began` is when the reads did, and `now_seconds` says so in seconds since 1970, if that matters.
    ///
    /// Says how many were shown, and when that was done; `None` if none were.
    pub fn with_plain_rows(
        &self,
        table: TableId,
        places: &[(&DecoratedKey, &Clustering)],
        columns: &[ColumnId],
        (began, now_seconds): (Instant, impl Fn() -> u32),
        show: impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> Option<(usize, Instant)> {
        let wall_seconds = || self.inner.env.wall_seconds();
        let asked = PlainAsked {
            columns,
            now_seconds: &now_seconds,
            wall_seconds: &wall_seconds,
        };
        self.show_plain(table, began, |table| {
            table.with_plain_rows(places, asked, show)
        })
    }

    /// As [`Store::with_plain_rows`], all rows of partitions that have few.
    pub fn with_plain_partitions(
        &self,
        table: TableId,
        keys: &[&DecoratedKey],
        (began, now_seconds): (Instant, u32),
        show: impl FnMut(PlainRows<'_>) -> bool,
    ) -> Option<(usize, Instant)> {
        self.show_plain(table, began, |table| {
            table.with_plain_partitions(keys, now_seconds, show)
        })
    }

    /// Has reads of a table, which began then, answered by `show`, which says how many were.
    fn show_plain(
        &self,
        table: TableId,
        began: Instant,
        show: impl FnOnce(&TableStore) -> usize,
    ) -> Option<(usize, Instant)> {
        let inner = &self.inner;
        let tables = inner.tables.borrow();
        let table = tables
            .get(&table.as_u128())
            .filter(|table| table.unreadable().is_none())?;
        let shown = show(table);
        if shown == 0 {
            return None;
        }
        let now = inner.env.now();
        let latency = (now - began).as_micros() as u64;
        table.counters.read_latency.add_many(latency, shown as u64);
        Some((shown, now))
    }

    /// Says all that is known of what a command asks for, for a coordinator that asks other replicas,
    /// too. Filters on static and regular columns are for the coordinator: they are not looked at.
    pub async fn read_versions(&self, command: &ReadCommand) -> Result<VersionPage, ReadError> {
        let inner = &self.inner;
        let table = inner.readable(command.table.id)?;
        let view = inner.view_of(&table, command);
        if !command.filters.is_empty() {
            inner.index_for(&table, command)?;
        }
        let begun = inner.env.now();
        let page = view.versions(&inner.env, command, &table.reads).await;
        let page = inner.have_read((&table, command), begun, page)?;
        inner.have_scanned(&table, &view, page.scanned)?;
        Ok(page)
    }

    /// The table of this id, as it is now.
    pub fn table(&self, id: TableId) -> Option<Arc<Table>> {
        self.inner.table(id).map(|table| table.table())
    }

    /// About how many partitions this shard has of a table: one that is in several memtables and
    /// sstables counts several times.
    pub fn partitions(&self, table: TableId) -> u64 {
        let table = self.inner.table(table);
        table.map_or(0, |table| table.partitions())
    }

    /// Writes the memtables of a table, or of all, to sstables.
    pub async fn flush(&self, table: Option<TableId>) -> Result<(), FlushError> {
        self.inner.flush(table).await
    }

    /// Flushes all, closes the commit log, and takes no more writes. Compactions stop: their files are left alone then,
    /// unless one takes more than ten seconds to its next look. Where it has happened before there is
    /// nothing to do.
    pub async fn drain(&self) -> Result<(), FlushError> {
        let inner = &self.inner;
        if inner.stopped.get() {
            return Ok(());
        }
        inner.closed.set(true);
        inner.compaction_work.notify_all();
        inner.memory.freed.notify_all();
        inner.periods.changed.notify_one();
        let flushed = inner.flush(None).await;
        inner.stopped.set(true);
        inner.flush_work.notify_one();
        let closed = inner.log.close().await;
        flushed?;
        let emptied = closed.map_err(|error| FlushError::Failed(error.to_string()))?;
        let forgotten = inner.forget_drained_truncations(emptied).await;
        let ended = inner.compactions.all_ended();
        if inner.env.timeout(COMPACTIONS_END, ended).await.is_err() {
            tracing::warn!(
                "a compaction has not stopped in {COMPACTIONS_END:?}: its files may still change"
            );
        }
        forgotten.map_err(|error| FlushError::Failed(error.to_string()))
    }

    /// Why no write is acknowledged any more, if so: the commit log's drive failed.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.inner.log.failure()
    }

    /// Of `granted` bytes of memory the process really has `resident`, both for one shard: caches give
    /// back what is over, a moment later at most. To be called once a second.
    pub fn weigh(&self, resident: u64, granted: u64) {
        let clamped = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.inner.memory.weigh(clamped(resident), clamped(granted));
    }

    /// Counters for metrics.
    pub fn stats(&self) -> StoreStats {
        self.inner.stats()
    }
}

impl Inner {
    fn table(&self, id: TableId) -> Option<Rc<TableStore>> {
        self.tables.borrow().get(&id.as_u128()).cloned()
    }

    fn readable(&self, id: TableId) -> Result<Rc<TableStore>, ReadError> {
        let table = self.table(id).ok_or(ReadError::UnknownTable(id))?;
        match table.unreadable() {
            Some(error) => Err(ReadError::LeftOut(error)),
            None => Ok(table),
        }
    }

    /// A table for one read. Nobody but the node itself reads its own tables by what is in them.
    fn view_of(&self, table: &Rc<TableStore>, command: &ReadCommand) -> View {
        let mut view = table.view();
        if command.bypass_cache {
            view.cached = None;
        }
        if !LOCAL_SYSTEM.contains(&&*view.table.keyspace) {
            view.most_tombstones = self.config.most_tombstones;
        }
        view
    }

    /// Counts what a read went through, and refuses it if that was too many tombstones.
    fn have_scanned(
        &self,
        table: &TableStore,
        view: &View,
        scanned: Scanned,
    ) -> Result<(), ReadError> {
        table.reads.rows.add(scanned.live_rows);
        table.reads.tombstones.add(scanned.tombstones);
        match scanned.tombstones > view.most_tombstones {
            true => Err(ReadError::TooManyTombstones(view.most_tombstones)),
            false => Ok(()),
        }
    }

    /// Counts a read that began then, and notes it if it failed.
    fn have_read<P>(
        &self,
        (table, command): (&Rc<TableStore>, &ReadCommand),
        begun: Instant,
        page: Result<P, SSTableError>,
    ) -> Result<P, ReadError> {
        let page = page.map_err(|error| {
            self.reading_failed(table, &error);
            ReadError::from(error)
        })?;
        let micros = (self.env.now() - begun).as_micros() as u64;
        match command.partitions {
            PartitionSelection::Key(_) => table.counters.read_latency.add(micros),
            PartitionSelection::Range { .. } => table.counters.scan_latency.add(micros),
        }
        Ok(page)
    }

    fn all_tables(&self) -> Vec<Rc<TableStore>> {
        self.tables.borrow().values().cloned().collect()
    }
}
