//! From memtables to sstables.
//!
//! A memtable that is to be flushed is switched for an empty one at once and stays readable until
//! its sstable is open. One task writes them one after the other. A flush that fails, be it that
//! the drive is full, is tried again until it succeeds: the writes are in the commit log, and
//! memory stays bounded because writers are refused meanwhile. Where it is not the drive that fails
//! but what is to be written, it is tried behind the others: they have nothing to do with it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::{Env, oneshot};
use model::{Row, Table, TableId};

use super::Inner;
use super::table::{HandOver, TableStore, add};
use crate::Unfiltered;
use crate::error::FlushError;
use crate::memtable::{MemRow, MemStream, Memtable};
use crate::merge::{Items, MergedPartition, Source};
use crate::sstable::{
    Descriptor, PartitionLimits, SSTable, ShardOrigin, WriteError, Writer, WriterOptions,
    folder as sstable_folder,
};

/// How long to wait before a flush that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a memtable that was written waits for those who still read it.
const READERS: Duration = Duration::from_secs(1);

/// How many items pass between two looks at the time.
const ITEMS_A_LOOK: u32 = 64;

/// A memtable to be written, or, without one, a sign that all before it are.
pub(super) struct FlushJob {
    table: Rc<TableStore>,
    memtable: Option<Rc<Memtable>>,
    /// Who waits for it.
    waiter: Option<oneshot::Sender<Result<(), FlushError>>>,
    /// Was it tried, and cannot be written?
    is_stuck: bool,
}

impl Inner {
    /// Switches the memtable of a table and has the full one flushed.
    pub(super) fn begin_flush(&self, table: &Rc<TableStore>) {
        if let Some(memtable) = self.switch(table) {
            self.queue_flush(table, Some(memtable), None);
        }
    }

    fn switch(&self, table: &TableStore) -> Option<Rc<Memtable>> {
        let full = table.switch()?;
        self.begin_period(table);
        Some(full)
    }

    fn queue_flush(
        &self,
        table: &Rc<TableStore>,
        memtable: Option<Rc<Memtable>>,
        waiter: Option<oneshot::Sender<Result<(), FlushError>>>,
    ) {
        if let Some(memtable) = &memtable {
            self.memory.begin_flush(memtable.bytes());
            add(&self.counters.pending_flushes, 1);
        }
        self.flushes.borrow_mut().push_back(FlushJob {
            table: table.clone(),
            memtable,
            waiter,
            is_stuck: false,
        });
        self.flush_work.notify_one();
    }

    /// Flushes a table, or all, and waits for it and for what was to be flushed before.
    pub(super) async fn flush(&self, id: Option<TableId>) -> Result<(), FlushError> {
        let tables = match id {
            Some(id) => vec![self.table(id).ok_or(FlushError::UnknownTable(id))?],
            None => self.all_tables(),
        };
        if self.stopped.get() {
            return Err(FlushError::Closed);
        }
        let mut waiting = Vec::new();
        for table in tables {
            let (sender, receiver) = oneshot();
            self.queue_flush(&table, self.switch(&table), Some(sender));
            waiting.push(receiver);
        }
        let mut result = Ok(());
        for receiver in waiting {
            let flushed = receiver.await.unwrap_or(Err(FlushError::Closed));
            // Those behind one that fails are not over yet.
            result = result.and(flushed);
        }
        result
    }

    /// Writes memtables as they come, until the store is closed and all are written.
    pub(super) async fn run_flushes(self: Rc<Inner>) {
        loop {
            let job = self.flushes.borrow_mut().pop_front();
            let Some(mut job) = job else {
                if self.stopped.get() {
                    return;
                }
                self.flush_work.notified().await;
                continue;
            };
            let result = match &job.memtable {
                Some(memtable) => {
                    // A truncation under way decides first whether there is anything to write.
                    job.table.entrance().await;
                    job.table.flushing_now.set(true);
                    let flushed = self.flush_memtable(&job.table, memtable).await;
                    job.table.flushing_now.set(false);
                    // One that came meanwhile could not say whether all is gone.
                    if flushed.is_ok() && !job.table.is_blocked() {
                        self.finish_truncation(&job.table).await;
                    }
                    flushed
                }
                None => Ok(()),
            };
            let failure = result.clone().err();
            let reason = failure.as_ref().map(ToString::to_string);
            *self.flush_failure.borrow_mut() = reason;
            if let Some(waiter) = job.waiter.take() {
                let _ = waiter.send(result);
            }
            match failure {
                None => {
                    if let Some(memtable) = job.memtable {
                        self.let_go(memtable).await;
                    }
                }
                Some(error @ FlushError::Unwritable(_)) => self.set_aside(job, &error).await,
                Some(error) => {
                    self.flush_failed(job, &error);
                    self.env.sleep(RETRY).await;
                }
            }
        }
    }

    /// Puts a job that cannot be written behind the others, and tells all who wait for the ones of
    /// the same table. If all are like that it waits a while.
    async fn set_aside(&self, mut job: FlushJob, error: &FlushError) {
        if !job.is_stuck {
            tracing::error!("{error}; the table is not flushed, the others are");
            add(&self.counters.failed_flushes, 1);
        }
        job.table.strays.set(true);
        job.is_stuck = true;
        let others = {
            let mut flushes = self.flushes.borrow_mut();
            let same = |waiting: &&mut FlushJob| Rc::ptr_eq(&waiting.table, &job.table);
            for waiting in flushes.iter_mut().filter(same) {
                if let Some(waiter) = waiting.waiter.take() {
                    let _ = waiter.send(Err(error.clone()));
                }
            }
            let others = flushes.iter().any(|waiting| !waiting.is_stuck);
            flushes.push_back(job);
            others
        };
        if !others {
            let _ = self.env.timeout(RETRY, self.flush_work.notified()).await;
        }
    }

    /// Puts a job that failed back, and tells all who wait for the ones behind it.
    fn flush_failed(&self, job: FlushJob, error: &FlushError) {
        let table = job.table.table();
        tracing::error!(
            "flushing {}.{} failed: {error}; trying again",
            table.keyspace,
            table.name
        );
        job.table.strays.set(true);
        add(&self.counters.failed_flushes, 1);
        let mut flushes = self.flushes.borrow_mut();
        for waiting in flushes.iter_mut() {
            if let Some(waiter) = waiting.waiter.take() {
                let _ = waiter.send(Err(error.clone()));
            }
        }
        flushes.push_front(job);
    }

    /// Writes one memtable and puts its sstable in its place.
    async fn flush_memtable(
        &self,
        table: &Rc<TableStore>,
        memtable: &Rc<Memtable>,
    ) -> Result<(), FlushError> {
        if table.is_index.get() {
            // What is removed of an index rests on what rows say: that is on the drive before.
            let synced = self.log.sync().await;
            synced.map_err(|error| FlushError::Failed(error.to_string()))?;
        }
        let mut written = None;
        if let Some(descriptor) = self.name_for(table, memtable).await {
            match self.write_memtable(table, memtable, &descriptor).await {
                Ok(sstable) => written = sstable,
                Err(error) => {
                    // It is tried again under another name: a full drive must not fill up with
                    // what failed before.
                    sstable_folder::discard(&self.env, &descriptor).await;
                    table.files_gone(&descriptor);
                    return Err(error);
                }
            }
        }
        if table.holds(memtable) {
            if let Some(sstable) = &written {
                add(&table.counters.flushed_bytes, sstable.disk_size());
            }
            add(&table.counters.flushes, 1);
            table.flushed(memtable, written.clone(), self.env.wall_seconds());
            self.back_up(table, written.as_slice()).await;
        } else if let Some(sstable) = written {
            // Truncated or dropped meanwhile.
            let removed = sstable_folder::remove(&self.env, sstable.descriptor()).await;
            removed.map_err(|error| {
                self.writing_failed(&error.source, &error);
                FlushError::Failed(error.to_string())
            })?;
        }
        self.let_go_of(table.id(), memtable);
        self.memory.end_flush(memtable.bytes());
        self.set_hurry();
        let pending = &self.counters.pending_flushes;
        pending.set(pending.get().saturating_sub(1));
        self.note_flush(table.id()).await;
        self.compaction_work.notify_one();
        Ok(())
    }

    /// Drops a memtable bit by bit, and the next one is written when that is done: a full one takes a quarter of a second, in
    /// which nobody would be answered. Of those who read it still after a while the last one drops it.
    async fn let_go(&self, memtable: Rc<Memtable>) {
        let until = self.env.now() + READERS;
        while Rc::strong_count(&memtable) > 1 && self.env.now() < until {
            self.env.sleep(READERS / 100).await;
        }
        if let Some(mut memtable) = Rc::into_inner(memtable) {
            while memtable.drop_some() {
                self.env.maybe_yield().await;
            }
        }
    }

    /// A name for the sstable of a memtable, if the table still holds that. A truncation notes up to
    /// which generation sstables go: what it covers must not get a later one while it is under way.
    async fn name_for(
        &self,
        table: &Rc<TableStore>,
        memtable: &Rc<Memtable>,
    ) -> Option<Descriptor> {
        if !table.holds(memtable) {
            return None;
        }
        let version = self.config.sstable_format.written();
        let descriptor = table.new_descriptor(&self.env, version).await;
        if table.is_blocked() {
            table.entrance().await;
        }
        if !table.holds(memtable) {
            table.files_gone(&descriptor);
            return None;
        }
        Some(descriptor)
    }

    /// Gives back to the log what a memtable held.
    pub(super) fn let_go_of(&self, table: TableId, memtable: &Memtable) {
        for (segment, count) in memtable.take_commits() {
            self.log.give_back(segment, table, count);
        }
    }

    /// Notes beside the log that all of a table is in sstables, if it is, so that no replay brings it
    /// back. If that fails a replay does, and deletions stay: no harm.
    async fn note_flush(&self, table: TableId) {
        // Who stops has a log to drop with all its notes; and what is archived may be replayed on top
        // of sstables that are older than the notes.
        if self.closed.get() || self.config.shared.archive.is_enabled() {
            return;
        }
        let Some(position) = self.log.flushed_to(table) else {
            return;
        };
        if self.table(table).is_some_and(|table| table.is_index.get()) {
            // Its entries are derived by each replay, whatever was flushed of them; and what it has deleted
            // may come back.
            self.log.is_noted(table);
            return;
        }
        self.truncations.borrow_mut()[0].note_flush(table, position);
        match self.save_truncations().await {
            Ok(()) => self.log.is_noted(table),
            Err(error) => tracing::warn!("noting a flush beside the commit log: {error}"),
        }
    }

    async fn write_memtable(
        &self,
        table: &TableStore,
        memtable: &Rc<Memtable>,
        descriptor: &Descriptor,
    ) -> Result<Option<SSTable>, FlushError> {
        let written = self.write_partitions(table, memtable, descriptor).await;
        let written = written.map_err(|error| match &error {
            WriteError::Io { source, .. } => {
                self.writing_failed(source, &error);
                FlushError::Failed(error.to_string())
            }
            WriteError::Invalid { .. } => FlushError::Unwritable(error.to_string()),
        });
        if written?.is_none() {
            return Ok(None);
        }
        let opened = SSTable::open(&self.env, descriptor, &table.table(), &self.cache).await;
        opened.map(Some).map_err(|error| {
            self.tell_of(&error);
            FlushError::Failed(error.to_string())
        })
    }

    async fn write_partitions(
        &self,
        table: &TableStore,
        memtable: &Rc<Memtable>,
        descriptor: &Descriptor,
    ) -> Result<Option<Descriptor>, WriteError> {
        let schema = memtable.schema().unwrap_or_else(|| table.table());
        let options = WriterOptions {
            partition_limits: self.partition_limits(table),
            ..WriterOptions::new(memtable.len() as u64, memtable.times(), self.origin())
        };
        let mut writer = Writer::create(&self.env, descriptor.clone(), &schema, options).await?;
        let all = std::rc::Rc::new([model::Slice::ALL]);
        let unbounded = model::PartitionBound::Unbounded;
        let progress = Progress::new(self, memtable);
        let cache = HandOver::new(table, memtable, schema.clone());
        let mut at = None;
        while let Some(partition) = memtable.next(&unbounded, &unbounded, at.as_ref()) {
            let key = partition.key();
            at = Some(key.clone());
            if let Some(cache) = &cache {
                cache.partition(&key, &partition);
            }
            let written = |row: Written<'_>| {
                progress.add_item();
                let wall_seconds = || self.env.wall_seconds();
                match (&cache, row) {
                    (None, _) => {}
                    (Some(cache), Written::AsItLies(MemRow::Packed(row))) => {
                        cache.packed_row(&key, row, wall_seconds);
                    }
                    (Some(cache), Written::AsItLies(row)) => {
                        cache.row((&key, &row.clustering()), wall_seconds);
                    }
                    (Some(cache), Written::Merged(row)) => {
                        cache.row((&key, &row.clustering), wall_seconds);
                    }
                }
            };
            let mut stream = MemStream::new(partition, schema.clone(), all.clone(), false);
            if stream.has_only_rows() && schema.dropped.is_empty() {
                write_rows((&mut writer, &mut stream), written, &self.env).await?;
            } else {
                // A merge of one: what a deletion covers must not reach the file, as readers of a
                // single sstable, Cassandra's too, take it that nothing in it is covered.
                let sources = vec![Source::Memory(stream)];
                let merged = MergedPartition::new(&self.env, schema.clone(), sources, false);
                if let Some(mut partition) = merged {
                    write_partition((&mut writer, &mut partition), &schema, written, &self.env)
                        .await?;
                }
            }
            progress.add_item();
            self.env.maybe_yield().await;
        }
        let written = writer.finish().await;
        progress.end();
        written
    }

    /// Of which partitions of a table the log tells. All entries of an index are one partition, so of none of
    /// those.
    pub(super) fn partition_limits(&self, table: &TableStore) -> PartitionLimits {
        match table.is_index.get() {
            true => PartitionLimits::default(),
            false => self.config.partition_limits,
        }
    }

    /// How sstables of this shard are marked.
    pub(super) fn origin(&self) -> ShardOrigin {
        ShardOrigin {
            shard: self.env.shard().0,
            shards: self.config.sharder.shards(),
        }
    }
}

/// How much of a memtable is written: those who wait for memory are let in by it.
struct Progress<'i> {
    inner: &'i Inner,
    /// What memtables that are written to took when it began.
    before: usize,
    bytes: usize,
    items: usize,
    done: Cell<usize>,
}

impl<'i> Progress<'i> {
    fn new(inner: &'i Inner, memtable: &Memtable) -> Progress<'i> {
        let progress = Progress {
            inner,
            before: inner.memory.active.get(),
            bytes: memtable.bytes(),
            items: memtable.items().max(1),
            done: Cell::new(0),
        };
        progress.tell(0);
        progress
    }

    /// A partition or a row of it is written.
    fn add_item(&self) {
        let done = self.done.get() + 1;
        self.done.set(done);
        if done.is_multiple_of(ITEMS_A_LOOK as usize) {
            self.tell(done);
        }
    }

    fn tell(&self, done: usize) {
        let part = done.min(self.items) as f64 / self.items as f64;
        let bytes = (self.bytes as f64 * part) as usize;
        self.inner.memory.flushes(bytes, self.inner.env.now());
        self.inner.set_flush_pace(bytes, self.before);
    }

    /// All is written.
    fn end(&self) {
        self.tell(self.items);
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.inner.memory.ends_writing();
    }
}

/// A row that was written.
enum Written<'r> {
    /// Of a partition that has nothing but rows, none of which knows of columns that are gone.
    AsItLies(&'r MemRow),
    /// As it is with what deletes some of it.
    Merged(&'r Row),
}

/// Writes a partition in which nothing is deleted but rows and cells by themselves, and of whose columns none is gone: its
/// rows as they lie. Calls `written` with each.
async fn write_rows(
    (writer, stream): (&mut Writer, &mut MemStream),
    written: impl Fn(Written<'_>),
    env: &Env,
) -> Result<(), WriteError> {
    let mut head = stream.head();
    head.static_row.take_if(|row| row.is_empty());
    let mut begun = head.static_row.is_some();
    if begun {
        writer.begin_partition(&head).await?;
    }
    let mut items = 0u32;
    while stream.rows_ahead() > 0 {
        for row in stream.next_rows() {
            items += 1;
            if items.is_multiple_of(ITEMS_A_LOOK) {
                env.maybe_yield().await;
            }
            if row.is_empty() {
                continue;
            }
            if !begun {
                writer.begin_partition(&head).await?;
                begun = true;
            }
            match row {
                MemRow::Packed(row) => writer.append_packed(row).await?,
                MemRow::Large(row) => writer.append_row(row).await?,
            }
            written(Written::AsItLies(row));
        }
    }
    match begun {
        true => writer.end_partition().await,
        false => Ok(()),
    }
}

/// Writes a partition; calls `written` with the clustering of each of its rows.
async fn write_partition(
    (writer, partition): (&mut Writer, &mut MergedPartition),
    table: &Table,
    written: impl Fn(Written<'_>),
    env: &Env,
) -> Result<(), WriteError> {
    let mut head = partition.head().clone();
    if let Some(row) = &mut head.static_row {
        row.retain_columns_of(table);
    }
    head.static_row.take_if(|row| row.is_empty());
    let mut next = next_item(partition, table).await;
    if head.deletion.is_live() && head.static_row.is_none() && next.is_none() {
        return Ok(());
    }
    writer.begin_partition(&head).await?;
    let mut items = 0u32;
    while let Some(item) = next {
        writer.append(&item).await?;
        if let Unfiltered::Row(row) = &item {
            written(Written::Merged(row));
        }
        items += 1;
        if items.is_multiple_of(ITEMS_A_LOOK) {
            env.maybe_yield().await;
        }
        next = next_item(partition, table).await;
    }
    writer.end_partition().await
}

/// The next item that says something of columns there are.
async fn next_item(partition: &mut MergedPartition, table: &Table) -> Option<Unfiltered> {
    loop {
        let item = partition.next().await;
        match item.expect("a memtable is read without a drive")? {
            Unfiltered::Row(mut row) => {
                row.retain_columns_of(table);
                if !row.is_empty() {
                    return Some(Unfiltered::Row(row));
                }
            }
            marker => return Some(marker),
        }
    }
}
