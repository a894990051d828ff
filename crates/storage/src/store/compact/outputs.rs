//! What a compaction writes: one output after the other, and in them the partitions, without what may be forgotten.
//!
//! What is in the cache of an input, as it is asked for, goes to that of the output as it is written. Else everybody would
//! have to read it again as soon as the output is in the place of its inputs, all at the same time.

use std::rc::Rc;
use std::sync::Arc;

use model::{DeletionTime, Purge, Table, Token};

use super::super::Inner;
use super::super::table::{CarryOver, TableStore};
use super::progress::Progress;
use super::purging::purged;
use super::shadow::Shadow;
use super::task::failed;
use crate::compaction::Cutter;
use crate::compaction::transaction::Transaction;
use crate::error::CompactionError;
use crate::merge::{Items, MergedScan};
use crate::sstable::{Descriptor, Format, KeptChunks, SSTable, Writer, WriterOptions};
use crate::{PartitionHead, Unfiltered};

/// How many items pass between two looks at the time.
const ITEMS_A_LOOK: u32 = 64;

/// The outputs of a compaction, one after the other.
pub(super) struct Outputs<'c> {
    inner: &'c Rc<Inner>,
    table: &'c Rc<TableStore>,
    transaction: &'c mut Transaction,
    options: WriterOptions,
    format: Format,
    cutter: Cutter,
    /// With what the cache of chunks has of it.
    writer: Option<(Writer, KeptChunks)>,
    finished: Vec<(Descriptor, KeptChunks)>,
    schema: Arc<Table>,
}

impl<'c> Outputs<'c> {
    /// Of a table, which has this schema for them; none is begun yet.
    pub(super) fn new(
        (inner, table): (&'c Rc<Inner>, &'c Rc<TableStore>),
        schema: Arc<Table>,
        transaction: &'c mut Transaction,
        (options, format): (WriterOptions, Format),
        cutter: Cutter,
    ) -> Outputs<'c> {
        Outputs {
            inner,
            table,
            transaction,
            options,
            format,
            cutter,
            writer: None,
            finished: Vec::new(),
            schema,
        }
    }

    /// The output that a partition of this token goes to.
    pub(super) async fn writer_for(
        &mut self,
        token: Token,
    ) -> Result<&mut Writer, CompactionError> {
        let written = self
            .writer
            .as_ref()
            .map(|(writer, _)| match writer.partitions() {
                0 => 0,
                _ => writer.disk_length().max(1),
            });
        if let Some(written) = written
            && self.cutter.cuts(token, written)
            && written > 0
        {
            self.end().await?;
        }
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin().await?,
        };
        Ok(&mut self.writer.insert(writer).0)
    }

    async fn begin(&mut self) -> Result<(Writer, KeptChunks), CompactionError> {
        let (env, version) = (&self.inner.env, self.format.written());
        let descriptor = self.table.new_descriptor(env, version).await;
        self.transaction.add(&descriptor).await.map_err(failed)?;
        let options = WriterOptions {
            level: self.cutter.level(),
            ..self.options.clone()
        };
        let mut writer = Writer::create(env, descriptor, &self.schema, options).await?;
        let kept = writer.keep_in(&self.inner.cache);
        Ok((writer, kept))
    }

    /// Ends the one that is being written.
    async fn end(&mut self) -> Result<(), CompactionError> {
        if let Some((writer, kept)) = self.writer.take() {
            let finished = writer.finish().await?;
            self.finished
                .extend(finished.map(|descriptor| (descriptor, kept)));
        }
        Ok(())
    }

    /// All of them, opened; those in which there would be nothing there are not.
    pub(super) async fn finish(mut self) -> Result<Vec<SSTable>, CompactionError> {
        self.end().await?;
        let (env, cache) = (&self.inner.env, &self.inner.cache);
        let mut opened = Vec::new();
        for (descriptor, kept) in self.finished {
            let schema = self.table.table();
            let sstable = SSTable::open_kept(env, &descriptor, &schema, (cache, kept));
            opened.push(sstable.await?);
        }
        Ok(opened)
    }
}

/// Writes the next partition of the scan without what falls in the shadow of others, and what may be
/// forgotten.
pub(super) async fn write_partition(
    writer: &mut Writer,
    (scan, shadow): (&mut MergedScan, &mut Option<Shadow>),
    mut head: PartitionHead,
    (purge, progress, carry_over): (&Purge, &Progress<'_>, Option<&CarryOver<'_>>),
) -> Result<(), CompactionError> {
    if purge.forgets(&head.deletion) {
        head.deletion = DeletionTime::LIVE;
    }
    if let Some(row) = &mut head.static_row {
        row.purge(purge);
    }
    head.static_row.take_if(|row| row.is_empty());
    let begun = !head.deletion.is_live() || head.static_row.is_some();
    let carry_over = carry_over.and_then(|carry_over| {
        let newest = scan.newest()?;
        carry_over
            .is_worth_it(newest)
            .then_some((carry_over, newest))
    });
    writer.keep(scan.is_cached());
    if begun {
        writer.begin_partition(&head).await?;
    }
    let mut output = PartitionOutput {
        writer,
        head,
        purge,
        begun,
    };
    let (mut items, mut left) = (0u32, Vec::new());
    while let Some(item) = scan.next().await? {
        items += 1;
        if items.is_multiple_of(ITEMS_A_LOOK) {
            progress.within(output.writer).await?;
        }
        if let (Some((carry_over, newest)), Unfiltered::Row(row)) = (carry_over, &item) {
            let place = (&output.head.key, &row.clustering);
            carry_over.row(place, newest, || progress.wall_seconds());
        }
        output.writer.keep(scan.is_cached());
        match &mut *shadow {
            None => output.append(item).await?,
            Some(shadow) => {
                shadow.fall_on(item, &mut left).await?;
                for item in left.drain(..) {
                    output.append(item).await?;
                }
            }
        }
    }
    if output.begun {
        output.writer.end_partition().await?;
    }
    Ok(())
}

/// A partition that is begun when there is something in it.
struct PartitionOutput<'p> {
    writer: &'p mut Writer,
    head: PartitionHead,
    purge: &'p Purge,
    begun: bool,
}

impl PartitionOutput<'_> {
    async fn append(&mut self, item: Unfiltered) -> Result<(), CompactionError> {
        let Some(item) = purged(item, self.purge) else {
            return Ok(());
        };
        if !self.begun {
            self.writer.begin_partition(&self.head).await?;
            self.begun = true;
        }
        self.writer.append(&item).await?;
        Ok(())
    }
}
