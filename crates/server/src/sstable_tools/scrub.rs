//! `helenus sstable scrub`: what `sstablescrub` does (`SortedTableScrubber`), on files instead of a
//! table of a stopped node.
//!
//! Each partition is read twice, so that one of any size can be kept up to where it is damaged: the
//! first time to find out how much of it can be read, the second time to write that.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use io::Env;
use model::{Bound, BoundKind, CqlType, DeletionTime};
use storage::dump::key_text;
use storage::sstable::{Component, SSTableError, ScanOptions, Scanner, Writer};
use storage::{PartitionHead, RangeTombstoneMarker, Unfiltered};

use super::rewrite::Original;
use super::{ToolError, files, shard};

/// The options of `helenus sstable scrub`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScrubOptions {
    /// Files of sstables, usually their Data.db
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Skip what is damaged in counter tables too, whose counts are then too low
    #[arg(short = 's', long)]
    skip_corrupted: bool,

    /// Say more
    #[arg(short = 'v', long)]
    verbose: bool,
}

pub(crate) fn run(options: ScrubOptions) -> ExitCode {
    shard::exit_quietly(shard::run(move |env| async move {
        let name = format!("pre-scrub-{}", env.wall_micros() / 1000);
        let mut sound = true;
        for file in &options.files {
            if let Err(error) = scrub(&env, file, &options, &name).await {
                shard::complain(&error);
                sound = false;
            }
        }
        Ok(sound)
    }))
}

async fn scrub(
    env: &Env,
    file: &Path,
    options: &ScrubOptions,
    snapshot: &str,
) -> Result<(), ToolError> {
    let original = Original::open(env, file).await?;
    let data = original.data().display().to_string();
    original.snapshot(snapshot)?;
    println!("Pre-scrub sstables snapshotted into snapshot {snapshot}");
    println!("Scrubbing {data}");
    let mut writer = original.writer(env, original.sstable.partitions()).await?;
    let scrubbed = Scrub {
        env,
        original: &original,
        options,
        kept: 0,
        cut: 0,
        lost: 0,
    }
    .all(&mut writer)
    .await;
    let scrub = match scrubbed {
        Ok(scrub) => scrub,
        Err(error) => {
            writer.abort().await?;
            return Err(error);
        }
    };
    let Some(written) = writer.finish().await? else {
        return Err(ToolError::Argument(format!(
            "{data}: nothing in it can be read; it is left as it is. Restore it from a backup, or \
             remove its files and repair from other nodes"
        )));
    };
    // What replaces the original is read once more before that goes.
    let (_, sstable) = files::open(env, &written).await?;
    sstable.verify().await?;
    original.remove(env).await?;
    scrub.report(&data);
    Ok(())
}

struct Scrub<'s> {
    env: &'s Env,
    original: &'s Original,
    options: &'s ScrubOptions,
    /// Partitions that are in the new sstable.
    kept: u64,
    /// Those of them that are not whole.
    cut: u64,
    /// Partitions of which nothing could be read.
    lost: u64,
}

impl<'s> Scrub<'s> {
    async fn all(mut self, writer: &mut Writer) -> Result<Scrub<'s>, ToolError> {
        let sstable = &self.original.sstable;
        // Chunk by chunk, so that damage harms only what lies in its own.
        let mut scan = sstable.scan(ScanOptions {
            read_ahead: 0,
            ..ScanOptions::default()
        });
        loop {
            let head = match scan.next_partition().await {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(self),
                Err(error) => {
                    self.damaged(error, None)?;
                    self.lost += 1;
                    scan.go_on();
                    continue;
                }
            };
            let (items, error) = readable(&mut scan).await;
            let is_cut = error.is_some();
            if let Some(error) = error {
                self.damaged(error, Some(&head))?;
                self.cut += 1;
            }
            self.write(writer, &head, (items, is_cut)).await?;
            self.kept += 1;
            self.env.maybe_yield().await;
        }
    }

    /// Says what is damaged; an error if that cannot be passed over.
    fn damaged(&self, error: SSTableError, head: Option<&PartitionHead>) -> Result<(), ToolError> {
        let data = self.original.descriptor.path(Component::Data);
        let in_data = matches!(&error, SSTableError::Corrupt { path, .. } if *path == data);
        if !in_data {
            return Err(error.into());
        }
        let table = &self.original.table;
        let counters = table.columns().any(|column| column.ty == CqlType::Counter);
        if counters && !self.options.skip_corrupted {
            return Err(ToolError::Argument(format!(
                "{error}; nothing was changed, as counters would lose increments: use -s to go on \
                 without what cannot be read"
            )));
        }
        let what = match head {
            Some(head) => format!("partition {} is cut", key_text(table, &head.key)),
            None => "a partition is lost".to_owned(),
        };
        eprintln!("helenus sstable: {what}: {error}");
        Ok(())
    }

    /// Writes the first items of a partition.
    async fn write(
        &self,
        writer: &mut Writer,
        head: &PartitionHead,
        (items, is_cut): (u64, bool),
    ) -> Result<(), ToolError> {
        if self.options.verbose {
            let key = key_text(&self.original.table, &head.key);
            println!("partition {key}: {items} rows and markers");
        }
        let mut reader = self.original.partition(head).await?;
        writer.begin_partition(reader.head()).await?;
        let mut open = None;
        for left in (0..items).rev() {
            let Some(item) = reader.next().await? else {
                break;
            };
            if let Unfiltered::Marker(marker) = &item {
                open = marker.opens;
            }
            if left == 0 && is_cut {
                for item in closed(item, open) {
                    writer.append(&item).await?;
                }
            } else {
                writer.append(&item).await?;
            }
        }
        writer.end_partition().await?;
        Ok(())
    }

    fn report(&self, data: &str) {
        let kept = self.kept;
        println!("Scrub of {data} complete: {kept} partitions in new sstable");
        if self.cut + self.lost > 0 {
            println!(
                "{} partitions were cut and {} lost. The original is in the snapshot; repair brings \
                 them from other nodes, if there are any",
                self.cut, self.lost
            );
        }
    }
}

/// How many rows and markers of a partition can be read, and what is wrong with the next.
async fn readable(scan: &mut Scanner) -> (u64, Option<SSTableError>) {
    let mut items = 0;
    loop {
        match scan.next().await {
            Ok(Some(_)) => items += 1,
            Ok(None) => return (items, None),
            Err(error) => return (items, Some(error)),
        }
    }
}

/// The last item of a partition that is cut behind it: a range deletion that is open there ends
/// there.
fn closed(item: Unfiltered, open: Option<DeletionTime>) -> Vec<Unfiltered> {
    match (item, open) {
        (Unfiltered::Marker(marker), _) => {
            let closes = RangeTombstoneMarker::between(marker.bound, marker.closes, None);
            closes.map(Unfiltered::Marker).into_iter().collect()
        }
        (Unfiltered::Row(row), None) => vec![Unfiltered::Row(row)],
        (Unfiltered::Row(row), Some(open)) => {
            let end = Bound {
                prefix: row.clustering.clone(),
                kind: BoundKind::InclusiveEnd,
            };
            let marker = RangeTombstoneMarker::close(end, open);
            vec![Unfiltered::Row(row), Unfiltered::Marker(marker)]
        }
    }
}
