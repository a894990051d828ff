//! `helenus sstable split`: what `sstablesplit` does (`StandaloneSplitter`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use io::Env;
use storage::sstable::{Descriptor, ScanOptions, Writer};

use super::rewrite::Original;
use super::{ToolError, files, shard};

const MEBIBYTE: u64 = 1 << 20;

/// The options of `helenus sstable split`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SplitOptions {
    /// Files of sstables, usually their Data.db
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How large the new sstables become at most, in MiB
    #[arg(short = 's', long, value_name = "MIB", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,

    /// No links to the originals in snapshots/
    #[arg(long)]
    no_snapshot: bool,
}

pub(crate) fn run(options: SplitOptions) -> ExitCode {
    shard::exit_quietly(shard::run(move |env| async move {
        let name = format!("pre-split-{}", env.wall_micros() / 1000);
        let (mut sound, mut any) = (true, false);
        for file in &options.files {
            match split(&env, file, &options, &name).await {
                Ok(split) => any |= split,
                Err(error) => {
                    shard::complain(&error);
                    sound = false;
                }
            }
        }
        if sound && !any {
            println!("No sstables needed splitting.");
        }
        Ok(sound)
    }))
}

/// Was it large enough?
async fn split(
    env: &Env,
    file: &Path,
    options: &SplitOptions,
    snapshot: &str,
) -> Result<bool, ToolError> {
    let original = Original::open(env, file).await?;
    let data = original.data();
    let length = data.metadata().map_or(0, |found| found.len());
    let size = options.size.saturating_mul(MEBIBYTE);
    if length <= size {
        println!(
            "Skipping {}: it's size ({:.3} MB) is less than the split size ({} MB)",
            data.display(),
            length as f64 / MEBIBYTE as f64,
            options.size
        );
        return Ok(false);
    }
    if !options.no_snapshot {
        original.snapshot(snapshot)?;
        println!("Pre-split sstables snapshotted into snapshot {snapshot}");
    }
    let mut parts = Parts {
        env,
        original: &original,
        size,
        // As many in each as go into one of the size wanted.
        partitions: (original.sstable.partitions() * size / length.max(1)).max(1),
        writer: None,
        written: Vec::new(),
    };
    let written = parts.write().await;
    if let Err(error) = written.and_then(|()| original.is_kept()) {
        parts.undo().await?;
        return Err(error);
    }
    let written = parts.written;
    original.remove(env).await?;
    let parts = written.len();
    println!("Split {} into {parts} sstables", data.display());
    Ok(true)
}

struct Parts<'p> {
    env: &'p Env,
    original: &'p Original,
    /// How long the data of each may become, in bytes on disk.
    size: u64,
    /// About how many partitions go into each.
    partitions: u64,
    writer: Option<Writer>,
    written: Vec<Descriptor>,
}

impl Parts<'_> {
    async fn write(&mut self) -> Result<(), ToolError> {
        let mut scan = self.original.sstable.scan(ScanOptions::default());
        while let Some(head) = scan.next_partition().await? {
            let mut writer = match self.writer.take() {
                Some(writer) => writer,
                None => self.original.writer(self.env, self.partitions).await?,
            };
            let result = async {
                writer.begin_partition(&head).await?;
                while let Some(item) = scan.next().await? {
                    writer.append(&item).await?;
                }
                Ok::<_, ToolError>(writer.end_partition().await?)
            }
            .await;
            let full = writer.disk_length() >= self.size;
            self.writer = Some(writer);
            result?;
            if full {
                self.finish().await?;
            }
            self.env.maybe_yield().await;
        }
        self.finish().await
    }

    /// Ends an sstable, and reads it once more.
    async fn finish(&mut self) -> Result<(), ToolError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        if let Some(written) = writer.finish().await? {
            self.written.push(written.clone());
            let (_, sstable) = files::open(self.env, &written).await?;
            sstable.verify().await?;
        }
        Ok(())
    }

    /// Removes what was written.
    async fn undo(&mut self) -> Result<(), ToolError> {
        if let Some(writer) = self.writer.take() {
            writer.abort().await?;
        }
        for written in self.written.drain(..) {
            let removed = storage::sstable::folder::remove(self.env, &written).await;
            removed.map_err(|error| ToolError::Io {
                what: error.path.display().to_string(),
                source: error.source,
            })?;
        }
        Ok(())
    }
}
