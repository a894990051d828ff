//! Scrubbing: rewriting what can be read of sstables that may be damaged (Cassandra's `Scrubber`).
//!
//! The index tells where partitions are, so that one that cannot be read does not hide those behind
//! it. Each is read twice: once to see whether it can be read to its end, once to be written, so
//! that memory stays bounded and no half of a partition is written. What is left out is said.

use std::cell::Cell;
use std::rc::Rc;

use model::{DecoratedKey, Slice, TableId, murmur3_x64_128};

use super::super::table::TableStore;
use super::super::{Inner, Store};
use super::running::{CompactionKind, Running};
use super::task::failed;
use crate::compaction::transaction::Transaction;
use crate::error::CompactionError;
use crate::sstable::{
    ColumnSelection, Descriptor, PartitionReader, SSTable, SSTableError, Writer, WriterOptions,
};

/// What scrubbing a table on one shard came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// sstables that were rewritten.
    pub sstables: usize,
    /// Partitions that could be read.
    pub partitions: u64,
    /// Partitions that could not, and were left out.
    pub skipped: u64,
}

impl Store {
    /// Rewrites all sstables of a table, without what cannot be read.
    pub async fn scrub(&self, table: TableId) -> Result<Scrubbed, CompactionError> {
        let done = Rc::new(Cell::new(Scrubbed::default()));
        let counts = done.clone();
        self.operate(table, move |inner, table| async move {
            for sstable in table.sstables().iter() {
                inner.scrub(&table, sstable, &counts).await?;
            }
            Ok(counts.get().sstables)
        })
        .await?;
        Ok(done.get())
    }
}

impl Inner {
    async fn scrub(
        self: &Rc<Inner>,
        table: &Rc<TableStore>,
        sstable: &SSTable,
        counts: &Cell<Scrubbed>,
    ) -> Result<(), CompactionError> {
        let descriptor = sstable.descriptor().clone();
        let bytes = (sstable.disk_size(), sstable.data_length());
        let kind = CompactionKind::Scrub;
        let place = self.compactions.enter(kind, table, vec![descriptor], bytes);
        let begun = Transaction::begin(&self.env, &table.dir, kind.operation()).await;
        let mut transaction = begun.map_err(failed)?;
        let mut scrubbed = counts.get();
        let scrubbing = Scrubbing {
            inner: self,
            table,
            sstable,
        };
        let written = scrubbing
            .run(&mut transaction, &place.running, &mut scrubbed)
            .await;
        let inputs = std::slice::from_ref(sstable);
        self.replace((table, kind), inputs, transaction, written)
            .await?;
        scrubbed.sstables += 1;
        counts.set(scrubbed);
        Ok(())
    }
}

/// One sstable that is being scrubbed.
struct Scrubbing<'s> {
    inner: &'s Rc<Inner>,
    table: &'s Rc<TableStore>,
    sstable: &'s SSTable,
}

impl Scrubbing<'_> {
    /// Writes what can be read; the output, if there is anything.
    async fn run(
        &self,
        transaction: &mut Transaction,
        running: &Running,
        counts: &mut Scrubbed,
    ) -> Result<Vec<SSTable>, CompactionError> {
        let Inner { env, config, .. } = &**self.inner;
        let (table, sstable) = (self.table, self.sstable);
        let format = config.sstable_format;
        let descriptor = Descriptor::new(table.dir.clone(), format, table.next_generation());
        transaction.add(&descriptor).await.map_err(failed)?;
        let options = WriterOptions {
            level: sstable.stats().level,
            ..WriterOptions::new(
                sstable.partitions(),
                sstable.encoding_stats(),
                self.inner.origin(),
            )
        };
        let schema = table.table();
        let mut writer = Writer::create(env, descriptor.clone(), &schema, options).await?;
        let mut keys = sstable.index_keys();
        let mut last: Option<DecoratedKey> = None;
        while let Some(key) = keys.next().await? {
            if self.inner.closed.get() || running.is_stopped() || table.is_blocked() {
                return Err(CompactionError::Cancelled);
            }
            if config.sharder.shard_of(key.token()) != env.shard().0 {
                continue;
            }
            let in_order = last.as_ref().is_none_or(|last| *last < key);
            if in_order && self.is_readable(&key).await? {
                self.write(&mut writer, &key).await?;
                counts.partitions += 1;
                last = Some(key);
            } else {
                counts.skipped += 1;
            }
            running.proceed(writer.data_length());
            env.maybe_yield().await;
        }
        match writer.finish().await? {
            Some(_) => {
                let cache = &self.inner.cache;
                Ok(vec![SSTable::open(env, &descriptor, &schema, cache).await?])
            }
            None => Ok(Vec::new()),
        }
    }

    async fn open(&self, key: &DecoratedKey) -> Result<Option<PartitionReader>, SSTableError> {
        let hash = murmur3_x64_128(key.key());
        let all = Rc::new([Slice::ALL]);
        let columns = ColumnSelection::All;
        self.sstable.get((key, hash), all, false, &columns).await
    }

    /// Can the partition be read to its end?
    async fn is_readable(&self, key: &DecoratedKey) -> Result<bool, SSTableError> {
        let read = async {
            let Some(mut reader) = self.open(key).await? else {
                return Ok::<bool, SSTableError>(false);
            };
            while reader.next().await?.is_some() {
                self.inner.env.maybe_yield().await;
            }
            Ok(true)
        };
        match read.await {
            Err(error) if error.is_corruption() => {
                let table = self.table.table();
                let (keyspace, name) = (&table.keyspace, &table.name);
                tracing::error!("scrubbing {keyspace}.{name}: a partition is left out: {error}");
                Ok(false)
            }
            other => other,
        }
    }

    async fn write(&self, writer: &mut Writer, key: &DecoratedKey) -> Result<(), CompactionError> {
        let Some(mut reader) = self.open(key).await? else {
            return Ok(());
        };
        writer.begin_partition(reader.head()).await?;
        while let Some(item) = reader.next().await? {
            writer.append(&item).await?;
            self.inner.env.maybe_yield().await;
        }
        Ok(writer.end_partition().await?)
    }
}
