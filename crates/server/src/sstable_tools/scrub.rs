//! `helenus sstable scrub`: what `sstablescrub` does (`StandaloneScrubber`), on files instead of a
//! table of a stopped node.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use io::Env;
use model::CqlType;
use storage::dump::key_text;
use storage::sstable::scrub::{Piece, Scrub, ScrubError, ScrubEvent, ScrubReport};
use storage::sstable::{Descriptor, SSTableError, Writer, folder};

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

    /// Take any bytes for values of the column's type
    #[arg(short = 'n', long)]
    no_validate: bool,

    /// Let what expires after 2038 in sstables before version oa, and so seems to have expired, expire
    /// in January 2038, with a timestamp by one later
    #[arg(short = 'r', long)]
    reinsert_overflowed_ttl: bool,

    /// Say more
    #[arg(short = 'v', long)]
    verbose: bool,

    /// For scripts that call sstablescrub: headers need no fixing. With `validate-only` and `fix-only`
    /// nothing is scrubbed
    #[arg(short = 'e', long, value_name = "HOW")]
    header_fix: Option<HeaderFix>,

    /// For scripts that call sstablescrub: there is no manifest. Nothing is scrubbed
    #[arg(short = 'm', long)]
    manifest_check: bool,

    /// For scripts that call sstablescrub; it makes no difference
    #[arg(long)]
    debug: bool,
}

/// What sstablescrub does about serialization headers (`SSTableHeaderFix`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HeaderFix {
    ValidateOnly,
    Validate,
    FixOnly,
    Fix,
    Off,
}

impl ScrubOptions {
    /// Says which of the options do nothing. Is there anything left to do?
    fn say_ignored(&self) -> bool {
        if self.header_fix.is_some() {
            eprintln!(
                "helenus sstable: header-fix ignored: where a header does not tell whether a user type \
                 is frozen, the table's schema does"
            );
        }
        if self.manifest_check {
            eprintln!("helenus sstable: manifest-check ignored: levels are kept in the sstables");
        }
        let only = [Some(HeaderFix::ValidateOnly), Some(HeaderFix::FixOnly)];
        !self.manifest_check && !only.contains(&self.header_fix)
    }
}

pub(crate) fn run(options: ScrubOptions) -> ExitCode {
    if !options.say_ignored() {
        return ExitCode::SUCCESS;
    }
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
    let (descriptor, folders) = Original::lock(file)?;
    let salvage = files::open_to_salvage(env, &descriptor, !options.no_validate).await?;
    let original = Original::of(descriptor, folders, salvage.sstable().clone())?;
    let data = original.data().display().to_string();
    original.snapshot(snapshot)?;
    println!("Pre-scrub sstables snapshotted into snapshot {snapshot}");
    println!("Scrubbing {data}");
    let mut scrubbing = Scrubbing {
        env,
        original: &original,
        options,
        written: Vec::new(),
    };
    let scrub = Scrub::new(salvage, None, options.reinsert_overflowed_ttl);
    let scrubbed = scrubbing.all(scrub).await;
    let scrubbed = scrubbed.and_then(|report| original.is_kept().map(|()| report));
    let report = match scrubbed {
        Ok(report) => report,
        Err(error) => {
            for descriptor in &scrubbing.written {
                remove(env, descriptor).await?;
            }
            return Err(error);
        }
    };
    if scrubbing.written.is_empty() && report.is_loss() {
        return Err(ToolError::Argument(format!(
            "{data}: nothing in it can be read; it is left as it is. Restore it from a backup, or \
             remove its files and repair from other nodes"
        )));
    }
    // What replaces the original is read once more before that goes.
    for descriptor in &scrubbing.written {
        let (_, sstable) = files::open(env, descriptor).await?;
        sstable.verify().await?;
    }
    original.remove(env).await?;
    say(&data, &report);
    Ok(())
}

/// Says what a scrub came to, as Cassandra does.
fn say(data: &str, report: &ScrubReport) {
    if report.kept == 0 {
        let empty = report.empty;
        println!("Scrub of {data} complete; looks like all {empty} partitions were tombstoned");
        return;
    }
    println!("Scrub of {data} complete: {report}");
    if report.is_loss() {
        println!(
            "The original is in the snapshot; repair brings what is lost from other nodes, if there \
             are any"
        );
    }
}

async fn remove(env: &Env, descriptor: &Descriptor) -> Result<(), ToolError> {
    let removed = folder::remove(env, descriptor).await;
    removed.map_err(|error| ToolError::Io {
        what: error.path.display().to_string(),
        source: error.source,
    })
}

struct Scrubbing<'s> {
    env: &'s Env,
    original: &'s Original,
    options: &'s ScrubOptions,
    /// What is complete.
    written: Vec<Descriptor>,
}

impl Scrubbing<'_> {
    async fn all(&mut self, mut scrub: Scrub) -> Result<ScrubReport, ToolError> {
        let mut writer = self.writer().await?;
        let in_order = self.in_order(&mut scrub, &mut writer).await;
        self.end(writer, in_order).await?;
        loop {
            let late = scrub.take_late();
            if late.is_empty() {
                return Ok(scrub.report());
            }
            let mut writer = self.writer().await?;
            let written = self.late(&scrub, &mut writer, &late).await;
            self.end(writer, written).await?;
        }
    }

    async fn writer(&self) -> Result<Writer, ToolError> {
        let partitions = self.original.sstable.partitions();
        self.original.writer(self.env, partitions).await
    }

    /// Finishes what was written, or removes it.
    async fn end(
        &mut self,
        writer: Writer,
        written: Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        match written {
            Ok(()) => self.written.extend(writer.finish().await?),
            Err(error) => {
                writer.abort().await?;
                return Err(error);
            }
        }
        Ok(())
    }

    async fn in_order(&self, scrub: &mut Scrub, writer: &mut Writer) -> Result<(), ToolError> {
        let table = &self.original.table;
        while let Some(event) = scrub.next().await? {
            match event {
                ScrubEvent::Piece(piece) => self.write(scrub, writer, &piece).await?,
                ScrubEvent::Late(key) => {
                    let key = key_text(table, &key);
                    eprintln!("helenus sstable: partition {key} is not in its place");
                }
                ScrubEvent::NoIndex(error) => {
                    eprintln!("helenus sstable: {error}; going on without the index");
                }
                ScrubEvent::Damaged { key, cut, error } => {
                    let key = key.map(|key| key_text(table, &key));
                    self.damaged(key, cut, error)?;
                }
            }
        }
        Ok(())
    }

    async fn late(
        &self,
        scrub: &Scrub,
        writer: &mut Writer,
        late: &[Piece],
    ) -> Result<(), ToolError> {
        for piece in late {
            self.write(scrub, writer, piece).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        scrub: &Scrub,
        writer: &mut Writer,
        piece: &Piece,
    ) -> Result<(), ToolError> {
        if self.options.verbose {
            let key = key_text(&self.original.table, piece.key());
            println!("partition {key}: {} rows and markers", piece.items());
        }
        self.env.maybe_yield().await;
        let written = scrub.write(writer, piece).await;
        written.map_err(|error| match error {
            ScrubError::Read(error) => error.into(),
            ScrubError::Write(error) => error.into(),
        })
    }

    /// Says what is damaged; an error if that cannot be passed over.
    fn damaged(
        &self,
        key: Option<String>,
        cut: bool,
        error: SSTableError,
    ) -> Result<(), ToolError> {
        let table = &self.original.table;
        let counters = table.columns().any(|column| column.ty == CqlType::Counter);
        if counters && !self.options.skip_corrupted {
            return Err(ToolError::Argument(format!(
                "{error}; nothing was changed, as counters would lose increments: use -s to go on \
                 without what cannot be read"
            )));
        }
        let key = key.map_or_else(
            || "a partition".to_owned(),
            |key| format!("partition {key}"),
        );
        let what = if cut { "is cut" } else { "is lost" };
        eprintln!("helenus sstable: {key} {what}: {error}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: ScrubOptions,
    }

    #[test]
    fn options_of_sstablescrub_scrub_no_more_than_they_did() {
        let scrubs = |line: &str| {
            let line = Line::try_parse_from(line.split(' ')).expect("it is taken");
            line.options.say_ignored()
        };
        assert!(scrubs("scrub --debug -e fix nb-1-big-Data.db"));
        assert!(scrubs("scrub --header-fix off nb-1-big-Data.db"));
        assert!(!scrubs("scrub -e validate-only nb-1-big-Data.db"));
        assert!(!scrubs("scrub -m nb-1-big-Data.db"));
        assert!(Line::try_parse_from(["scrub", "-e", "what", "f"]).is_err());
    }
}
