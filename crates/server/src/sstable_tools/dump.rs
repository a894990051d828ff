//! `helenus sstable dump`: what `sstabledump` does (`org.apache.cassandra.tools.SSTableExport`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use io::Env;
use model::{CqlType, DecoratedKey, PartitionBound, Table, key_from_text};
use storage::dump::{JsonDump, JsonForm, TimeForm, internal, key_text};
use storage::sstable::{ScanOptions, Scanner};

use super::output::Output;
use super::{ToolError, files, shard};

/// How much JSON is gathered before it is written, in bytes.
const GATHERED: usize = 64 << 10;

/// The options of `helenus sstable dump`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DumpOptions {
    /// Files of sstables, usually their Data.db
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A row a line, in Cassandra's internal representation
    #[arg(short = 'd')]
    internal: bool,

    /// Only the partition keys
    #[arg(short = 'e')]
    keys_only: bool,

    /// Only these partitions; columns of a composite key have colons between them
    #[arg(short = 'k', value_name = "KEY", num_args = 1..)]
    keys: Vec<String>,

    /// Not these partitions
    #[arg(short = 'x', value_name = "KEY", num_args = 1..)]
    excluded: Vec<String>,

    /// Timestamps as numbers instead of ISO 8601
    #[arg(short = 't')]
    raw_timestamps: bool,

    /// A line of JSON a partition
    #[arg(short = 'l')]
    json_lines: bool,
}

pub(crate) fn run(options: DumpOptions) -> ExitCode {
    shard::exit(shard::run(move |env| async move {
        for file in &options.files {
            dump(&env, file, &options).await?;
        }
        Ok(())
    }))
}

async fn dump(env: &Env, file: &std::path::Path, options: &DumpOptions) -> Result<(), ToolError> {
    let descriptor = files::descriptor(file)?;
    let (table, sstable) = match options.keys.is_empty() || options.keys_only {
        true => files::open_in_any_order(env, &descriptor).await?,
        false => files::open(env, &descriptor).await?,
    };
    let excluded: BTreeSet<&str> = options.excluded.iter().map(String::as_str).collect();
    let mut dump = Dump {
        table: table.clone(),
        options,
        excluded: &excluded,
        output: Output::new(),
    };
    let scans: Vec<ScanOptions> = if options.keys.is_empty() || options.keys_only {
        vec![ScanOptions::default()]
    } else {
        ranges(&table, &options.keys, &excluded)?
    };
    let scans = scans.into_iter().map(|scan| sstable.scan(scan));
    let result = if options.keys_only {
        dump.keys(scans).await
    } else if options.internal {
        dump.internal(scans).await
    } else {
        dump.json(scans, env.wall_seconds()).await
    };
    // What was read before the damage is printed.
    dump.output.flush()?;
    result
}

/// The tokens of the partitions that are asked for, in ring order.
fn ranges(
    table: &Table,
    keys: &[String],
    excluded: &BTreeSet<&str>,
) -> Result<Vec<ScanOptions>, ToolError> {
    let types: Vec<&CqlType> = table.partition_key().map(|column| &column.ty).collect();
    let mut found = Vec::new();
    for key in keys.iter().filter(|key| !excluded.contains(key.as_str())) {
        let parsed = key_from_text(key, &types)
            .map_err(|error| ToolError::Argument(format!("-k {key}: {error}")))?;
        found.push(DecoratedKey::new(parsed));
    }
    found.sort();
    Ok(found
        .iter()
        .map(|key| ScanOptions {
            start: PartitionBound::TokenInclusive(key.token()),
            end: PartitionBound::TokenInclusive(key.token()),
            ..ScanOptions::default()
        })
        .collect())
}

struct Dump<'o> {
    table: Arc<Table>,
    options: &'o DumpOptions,
    excluded: &'o BTreeSet<&'o str>,
    output: Output,
}

impl Dump<'_> {
    fn is_excluded(&self, key: &DecoratedKey) -> bool {
        !self.excluded.is_empty() && self.excluded.contains(key_text(&self.table, key).as_str())
    }

    fn times(&self) -> TimeForm {
        match self.options.raw_timestamps {
            true => TimeForm::Raw,
            false => TimeForm::Iso,
        }
    }

    async fn keys(&mut self, scans: impl Iterator<Item = Scanner>) -> Result<(), ToolError> {
        let table = self.table.clone();
        let mut json = JsonDump::new(&table, JsonForm::Array, self.times(), 0);
        for mut scan in scans {
            while let Some(head) = scan.next_partition().await? {
                json.key_only(&head.key);
                self.gather(&mut json)?;
            }
        }
        self.output.write(&json.finish())
    }

    fn gather(&mut self, json: &mut JsonDump<'_>) -> Result<(), ToolError> {
        if json.pending() >= GATHERED {
            self.output.write(&json.take())?;
        }
        Ok(())
    }

    async fn json(
        &mut self,
        scans: impl Iterator<Item = Scanner>,
        now: u32,
    ) -> Result<(), ToolError> {
        let table = self.table.clone();
        let form = match self.options.json_lines {
            true => JsonForm::Lines,
            false => JsonForm::Array,
        };
        let mut json = JsonDump::new(&table, form, self.times(), now);
        for scan in scans {
            if let Err(error) = self.json_of(scan, &mut json).await {
                self.output.write(&json.take())?;
                return Err(error);
            }
        }
        self.output.write(&json.finish())
    }

    async fn json_of(
        &mut self,
        mut scan: Scanner,
        json: &mut JsonDump<'_>,
    ) -> Result<(), ToolError> {
        while let Some(head) = scan.next_partition().await? {
            if self.is_excluded(&head.key) {
                continue;
            }
            let mut position = scan.position();
            json.begin_partition(&head, position);
            while let Some(item) = scan.next().await? {
                json.item(&item, position);
                position = scan.position();
                self.gather(json)?;
            }
            json.end_partition();
            self.gather(json)?;
        }
        Ok(())
    }

    async fn internal(&mut self, scans: impl Iterator<Item = Scanner>) -> Result<(), ToolError> {
        let table = self.table.clone();
        for mut scan in scans {
            while let Some(head) = scan.next_partition().await? {
                if self.is_excluded(&head.key) {
                    continue;
                }
                let mut position = scan.position();
                let lines = internal::head_lines(&table, &head, position);
                self.output.write(&lines)?;
                while let Some(item) = scan.next().await? {
                    let line = internal::item_line(&table, &head.key, &item, position);
                    self.output.write(&line)?;
                    position = scan.position();
                }
            }
        }
        Ok(())
    }
}
