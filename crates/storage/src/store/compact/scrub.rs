//! Scrubbing the sstables of a table (`CompactionManager.performScrub`): see [`crate::sstable::scrub`].
//!
//! Those that could not be opened, or that the table went without, are scrubbed too, as long as
//! their statistics are there: what can be read of them is part of the table again.

use std::cell::Cell;
use std::rc::Rc;

use model::{CqlType, TableId};

use super::super::table::TableStore;
use super::super::{Inner, Store};
use super::repaired_at;
use super::running::{CompactionKind, Running};
use super::task::failed;
use crate::compaction::transaction::Transaction;
use crate::error::CompactionError;
use crate::sstable::salvage::Salvage;
use crate::sstable::scrub::{Piece, Scrub, ScrubError, ScrubEvent, ScrubReport};
use crate::sstable::{
    Component, Descriptor, SSTable, SSTableError, Writer, WriterOptions, check_table, output_format,
};

/// How sstables are scrubbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Is what is damaged passed over in tables of counters too, whose counts are too low then?
    pub skips_counters: bool,
    /// Is a value that is none of its type taken for damage?
    pub validates: bool,
    /// Does what expires after 2038 in sstables that have no room for that, and so seems to have
    /// expired long ago, get the last expiry that fits?
    pub reinserts_overflowed: bool,
}

impl Default for ScrubOptions {
    fn default() -> ScrubOptions {
        ScrubOptions {
            skips_counters: false,
            validates: true,
            reinserts_overflowed: false,
        }
    }
}

/// What scrubbing a table on one shard came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// sstables that were rewritten.
    pub sstables: usize,
    /// What became of their partitions.
    pub report: ScrubReport,
}

impl Scrubbed {
    /// The sum of what two came to.
    pub fn and(self, other: Scrubbed) -> Scrubbed {
        Scrubbed {
            sstables: self.sstables + other.sstables,
            report: self.report.and(other.report),
        }
    }
}

impl Store {
    /// Rewrites all sstables of a table, without what cannot be read.
    pub async fn scrub(
        &self,
        table: TableId,
        options: ScrubOptions,
    ) -> Result<Scrubbed, CompactionError> {
        let done = Rc::new(Cell::new(Scrubbed::default()));
        let counts = done.clone();
        self.operate(table, move |inner, table| async move {
            for sstable in table.sstables().iter() {
                let salvage = Salvage::of(sstable, options.validates);
                let scrubbed = inner.scrub(&table, salvage, options).await?;
                counts.set(counts.get().and(scrubbed));
            }
            for descriptor in table.unreadable_sstables() {
                let schema = table.table();
                let (env, cache) = (&inner.env, &inner.cache);
                let opened =
                    Salvage::open(env, &descriptor, &schema, cache, options.validates).await?;
                check_table(opened.sstable(), &schema)?;
                let scrubbed = inner.scrub(&table, opened, options).await?;
                counts.set(counts.get().and(scrubbed));
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
        salvage: Salvage,
        options: ScrubOptions,
    ) -> Result<Scrubbed, CompactionError> {
        let sstable = salvage.sstable().clone();
        let descriptor = sstable.descriptor().clone();
        let bytes = (sstable.disk_size(), sstable.data_length());
        let kind = CompactionKind::Scrub;
        let place = self.compactions.enter(kind, table, vec![descriptor], bytes);
        // What is damaged is saved whatever room there is; others have to know of it.
        let room = self.config.shared.space.reserve(bytes.0);
        place.running.take_room(room);
        let owner = (self.config.sharder, self.env.shard().0);
        let owner = table.is_shared(&sstable).then_some(owner);
        let scrubbing = Scrubbing {
            inner: self,
            table,
            sstable: &sstable,
            running: &place.running,
            options,
        };
        let scrub = Scrub::new(salvage, owner, options.reinserts_overflowed);
        let scrubbed = scrubbing.all(scrub).await;
        if let Err(error) = &scrubbed
            && !matches!(error, CompactionError::Read(error) if error.is_corruption())
        {
            self.compaction_failed(table, error);
        }
        scrubbed
    }
}

/// One sstable that is being scrubbed.
struct Scrubbing<'s> {
    inner: &'s Rc<Inner>,
    table: &'s Rc<TableStore>,
    sstable: &'s SSTable,
    running: &'s Running,
    options: ScrubOptions,
}

impl Scrubbing<'_> {
    /// Puts what can be read in the place of the sstable.
    async fn all(&self, mut scrub: Scrub) -> Result<Scrubbed, CompactionError> {
        let (inner, table) = (self.inner, self.table);
        let operation = CompactionKind::Scrub.operation();
        let begun = Transaction::begin(&inner.env, &table.dir, operation).await;
        let mut transaction = begun.map_err(failed)?;
        let written = self.run(&mut transaction, &mut scrub).await;
        let report = scrub.report();
        let inputs = std::slice::from_ref(self.sstable);
        let done = inner.replace((table, self.running), inputs, transaction, written);
        done.await?;
        let data = self.sstable.descriptor().path(Component::Data);
        tracing::info!("Scrub of {} complete: {report}", data.display());
        Ok(Scrubbed {
            sstables: 1,
            report,
        })
    }

    /// Writes what can be read; the outputs, if there is anything.
    async fn run(
        &self,
        transaction: &mut Transaction,
        scrub: &mut Scrub,
    ) -> Result<Vec<SSTable>, CompactionError> {
        let mut outputs = Vec::new();
        let is_lost = !self.table.has_live(self.sstable);
        // One that comes back may overlap others of its level by now.
        let level = if is_lost {
            0
        } else {
            self.sstable.stats().level
        };
        let (mut writer, descriptor) = self.writer(transaction, level).await?;
        while let Some(event) = scrub.next().await? {
            match event {
                ScrubEvent::Piece(piece) => self.write(&mut writer, scrub, &piece).await?,
                ScrubEvent::Late(key) => self.say(&format!("{key:?} is not in its place")),
                ScrubEvent::NoIndex(error) => {
                    self.say(&format!("the index is of no use: {error}"));
                }
                ScrubEvent::Damaged { error, .. } => self.damaged(error)?,
            }
            self.running.proceed(scrub.done());
            self.inner.env.maybe_yield().await;
        }
        outputs.extend(self.finish(writer, &descriptor).await?);
        loop {
            let late = scrub.take_late();
            if late.is_empty() {
                return Ok(outputs);
            }
            let (mut writer, descriptor) = self.writer(transaction, 0).await?;
            for piece in &late {
                self.write(&mut writer, scrub, piece).await?;
                self.inner.env.maybe_yield().await;
            }
            outputs.extend(self.finish(writer, &descriptor).await?);
        }
    }

    async fn writer(
        &self,
        transaction: &mut Transaction,
        level: u32,
    ) -> Result<(Writer, Descriptor), CompactionError> {
        let (inner, table, sstable) = (self.inner, self.table, self.sstable);
        let format = output_format(
            inner.config.sstable_format,
            [sstable],
            inner.env.wall_seconds(),
        );
        let descriptor = table.new_descriptor(&inner.env, format.written()).await;
        transaction.add(&descriptor).await.map_err(failed)?;
        let (partitions, encoding) = (sstable.partitions(), sstable.encoding_stats());
        let options = WriterOptions {
            level,
            repaired_at: repaired_at(sstable),
            partition_limits: inner.partition_limits(table),
            ..WriterOptions::new(partitions, encoding, inner.origin())
        };
        let schema = table.table();
        let writer = Writer::create(&inner.env, descriptor.clone(), &schema, options).await?;
        Ok((writer, descriptor))
    }

    async fn write(
        &self,
        writer: &mut Writer,
        scrub: &Scrub,
        piece: &Piece,
    ) -> Result<(), CompactionError> {
        let gone = self.inner.closed.get() || self.table.is_blocked();
        if gone || self.running.is_stopped() {
            return Err(CompactionError::Cancelled);
        }
        scrub
            .write(writer, piece)
            .await
            .map_err(|error| match error {
                ScrubError::Read(error) => error.into(),
                ScrubError::Write(error) => error.into(),
            })
    }

    async fn finish(
        &self,
        writer: Writer,
        descriptor: &Descriptor,
    ) -> Result<Option<SSTable>, CompactionError> {
        let (inner, schema) = (self.inner, self.table.table());
        match writer.finish().await? {
            None => Ok(None),
            Some(_) => {
                let opened = SSTable::open(&inner.env, descriptor, &schema, &inner.cache);
                Ok(Some(opened.await?))
            }
        }
    }

    /// Counts must not become too low without somebody wanting it (CASSANDRA-2759).
    fn damaged(&self, error: SSTableError) -> Result<(), CompactionError> {
        let table = self.table.table();
        let counts = table.columns().any(|column| column.ty == CqlType::Counter);
        if counts && !self.options.skips_counters {
            return Err(error.into());
        }
        self.say(&format!("a partition is cut or left out: {error}"));
        Ok(())
    }

    fn say(&self, what: &str) {
        let table = self.table.table();
        let (keyspace, name) = (&table.keyspace, &table.name);
        tracing::error!("scrubbing {keyspace}.{name}: {what}");
    }
}
