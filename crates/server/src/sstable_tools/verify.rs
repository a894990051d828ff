//! `helenus sstable verify`: what `sstableverify` does (`StandaloneVerifier`,
//! `SortedTableVerifier`), on files instead of a table of a stopped node.
//!
//! All data is read and every checksum there is compared, not only the one of the whole file:
//! that one tells that something is wrong, the others where.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use io::Env;
use model::{PartitionBound, Token};
use storage::sstable::{Component, Descriptor, SSTable, ScanOptions};

use super::output::Output;
use super::{ToolError, files, shard};

/// The options of `helenus sstable verify`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyOptions {
    /// Files of sstables, usually their Data.db
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Extended verification; all values are read in any case
    #[arg(short = 'e', long)]
    extended: bool,

    /// Only statistics, index and filter; the data is not read
    #[arg(short = 'q', long)]
    quick: bool,

    /// An sstable of another version than the one that is written is an error
    #[arg(short = 'c', long)]
    check_version: bool,

    /// Say more
    #[arg(short = 'v', long)]
    verbose: bool,

    /// Partitions outside of these tokens are an error; may be given several times
    #[arg(short = 't', long = "token_range", value_name = "LEFT,RIGHT", value_parser = token_range,
          allow_hyphen_values = true)]
    tokens: Vec<(i64, i64)>,

    /// For scripts that call sstableverify; it makes no difference
    #[arg(short = 'f', long)]
    force: bool,

    /// For scripts that call sstableverify; the repair status is never changed
    #[arg(short = 'r', long)]
    mutate_repair_status: bool,
}

/// `left,right`: tokens above the one up to the other.
fn token_range(text: &str) -> Result<(i64, i64), String> {
    text.split_once(',')
        .and_then(|(left, right)| Some((left.trim().parse().ok()?, right.trim().parse().ok()?)))
        .ok_or_else(|| format!("`{text}` is no range of tokens: one looks like -100,250"))
}

pub(crate) fn run(options: VerifyOptions) -> ExitCode {
    shard::exit_quietly(shard::run(move |env| async move {
        let mut sound = true;
        for file in &options.files {
            if let Err(error) = verify(&env, file, &options).await {
                shard::complain(&error);
                sound = false;
            }
        }
        Ok(sound)
    }))
}

async fn verify(env: &Env, file: &Path, options: &VerifyOptions) -> Result<(), ToolError> {
    let descriptor = files::descriptor(file)?;
    let mut output = Output::new();
    let result = Verification {
        env,
        options,
        name: descriptor.path(Component::Data).display().to_string(),
        output: &mut output,
    }
    .all(&descriptor)
    .await;
    output.flush()?;
    result
}

struct Verification<'v> {
    env: &'v Env,
    options: &'v VerifyOptions,
    name: String,
    output: &'v mut Output,
}

impl Verification<'_> {
    async fn all(&mut self, descriptor: &Descriptor) -> Result<(), ToolError> {
        let name = self.name.clone();
        let length = descriptor.path(Component::Data).metadata();
        let length = length.map_or(0, |found| found.len());
        self.output
            .line(&format!("Verifying {name} ({})", memory(length)))?;
        let (version, latest) = (descriptor.version, descriptor.version.format().written());
        if self.options.check_version && version != latest {
            return Err(ToolError::Argument(format!(
                "{name} is of version {version}, not the latest one, {latest}: run `helenus \
                 nodetool upgradesstables`"
            )));
        }
        self.output
            .line(&format!("Deserializing sstable metadata for {name}"))?;
        let (_, sstable) = files::open(self.env, descriptor).await?;
        self.debug(&format!("Reading the index of {name}"))?;
        if !sstable.verify_derived().await? {
            let summary = descriptor.path(Component::Summary);
            return Err(ToolError::Argument(format!(
                "{} is missing; a node goes without it, but takes longer to start",
                summary.display()
            )));
        }
        if !self.options.tokens.is_empty() {
            self.tokens(&sstable).await?;
        }
        if self.options.quick {
            return Ok(());
        }
        self.output
            .line(&format!("Checking computed hash of {name}"))?;
        if !descriptor.path(Component::Digest).exists() {
            self.output
                .line("Data digest missing, assuming extended verification of disk values")?;
        } else if self.options.extended {
            self.output
                .line("Extended Verify requested, proceeding to inspect values")?;
        }
        sstable.verify_with_filter().await?;
        let partitions = sstable.partitions();
        self.output.line(&format!(
            "Verify of {name} succeeded. All {partitions} rows read successfully"
        ))
    }

    fn debug(&mut self, text: &str) -> Result<(), ToolError> {
        match self.options.verbose {
            true => self.output.line(text),
            false => Ok(()),
        }
    }

    /// All partitions lie in the ranges that were given.
    async fn tokens(&mut self, sstable: &SSTable) -> Result<(), ToolError> {
        self.debug("Checking that all tokens are in the ranges given")?;
        let mut scan = sstable.scan(ScanOptions {
            start: PartitionBound::Unbounded,
            end: PartitionBound::Unbounded,
            ..ScanOptions::default()
        });
        while let Some(head) = scan.next_partition().await? {
            let token = head.key.token();
            if !self.options.tokens.iter().any(|range| holds(*range, token)) {
                return Err(ToolError::Argument(format!(
                    "{}: a partition with token {} is in none of the ranges given",
                    self.name, token.0
                )));
            }
        }
        Ok(())
    }
}

/// A range whose left end is not below its right one goes around the ring.
fn holds((left, right): (i64, i64), Token(token): Token) -> bool {
    if left < right {
        left < token && token <= right
    } else {
        left < token || token <= right
    }
}

/// As `FBUtilities.prettyPrintMemory`.
fn memory(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift {
            return format!("{:.3}{unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_tokens_go_around_the_ring() {
        assert_eq!(token_range("-100,250"), Ok((-100, 250)));
        assert!(token_range("100").is_err());
        assert!(holds((-100, 250), Token(250)));
        assert!(!holds((-100, 250), Token(-100)));
        assert!(holds((250, -100), Token(i64::MAX)));
        assert!(holds((250, -100), Token(-100)));
        assert!(!holds((250, -100), Token(0)));
    }
}
