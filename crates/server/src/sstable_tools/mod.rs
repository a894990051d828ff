//! `helenus sstable VERB FILE…`: Cassandra's tools for sstables (`sstabledump` and its kin), which
//! work on files that no node needs to serve.
//!
//! A tool is one process with one job: it runs a single shard ([`shard`]) that reads with
//! `storage`'s readers, prints to standard output, and ends. Errors are one line each on standard
//! error; the exit codes are those of Cassandra's tools: 0, or 1 for whatever went wrong.

mod dump;
mod files;
mod foreign;
mod histogram;
mod java;
mod load;
mod metadata;
mod output;
mod rewrite;
mod scan;
mod scrub;
mod shard;
mod split;
mod verify;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use files::ToolError;
pub(crate) use foreign::spell_out;

/// The verbs of `helenus sstable`.
#[derive(Debug, Subcommand)]
pub(crate) enum SSTableCommand {
    /// Print the content of an sstable as JSON, as sstabledump does
    #[command(after_help = "\
FILE is any component of an sstable, usually its Data.db. Names of key columns are not in the
file; everything else is read from it, so neither a node nor a schema is needed.

Examples:
  helenus sstable dump nb-1-big-Data.db
  helenus sstable dump nb-1-big-Data.db -k 17 18       two partitions
  helenus sstable dump nb-1-big-Data.db -e             the keys only
  helenus sstable dump nb-1-big-Data.db -l | jq .      a line of JSON a partition")]
    Dump(dump::DumpOptions),

    /// Print what Statistics.db says of an sstable, as sstablemetadata does
    #[command(after_help = "\
Times are in UTC.

Examples:
  helenus sstable metadata nb-1-big-Data.db
  helenus sstable metadata -s nb-1-big-Data.db         with the largest partitions
  helenus sstable metadata -g 864000 *-Data.db         what gc_grace_seconds lets drop now")]
    Metadata(metadata::MetadataOptions),

    /// Have a running node import sstables from anywhere, as sstableloader does
    #[command(after_help = "\
The names of the folders say keyspace and table, which has to exist: KEYSPACE/TABLE, or as in a data
folder KEYSPACE/TABLE-ID. The node reads the files itself through its REST API, so they must lie on
its machine, or on a drive it shares. They stay where they are, too.

Examples:
  helenus sstable load -d 127.0.0.1 /backup/shop/orders
  helenus sstable load -d 10.0.0.5,10.0.0.6 -k shop --target-table orders /backup/1
  helenus sstable load -d 127.0.0.1 /backup/shop/orders/nb-7-big-Data.db")]
    Load(load::LoadOptions),

    /// Write anew what of damaged sstables can be read, as sstablescrub does
    #[command(after_help = "\
Stop the node first. The original is linked into snapshots/pre-scrub-<time> of its folder, and goes
only when the new sstable beside it is complete and was read. What was lost is said line by line.

Examples:
  helenus sstable scrub data/ks/t-*/nb-7-big-Data.db
  helenus sstable scrub -s counters-*/*-Data.db        counters too, whose counts are then too low")]
    Scrub(scrub::ScrubOptions),

    /// Split large sstables into several, as sstablesplit does
    #[command(after_help = "\
Stop the node first. A partition is never split. The originals are linked into
snapshots/pre-split-<time> of their folder unless --no-snapshot is given.

Examples:
  helenus sstable split data/ks/t-*/*-Data.db
  helenus sstable split -s 160 --no-snapshot nb-7-big-Data.db")]
    Split(split::SplitOptions),

    /// Read everything and compare all checksums, as sstableverify does
    #[command(after_help = "\
Every file of the sstables is read. What is wrong is said on one line a file, with the place; the
exit code is 1 then. Nothing is changed.

Examples:
  helenus sstable verify data/ks/t-*/*-Data.db
  helenus sstable verify -q nb-1-big-Data.db           without reading the data
  helenus sstable verify -c nb-1-big-Data.db           is it of the version that is written?")]
    Verify(verify::VerifyOptions),
}

/// Runs a verb.
pub(crate) fn run(command: SSTableCommand) -> ExitCode {
    match command {
        SSTableCommand::Dump(options) => dump::run(options),
        SSTableCommand::Metadata(options) => metadata::run(options),
        SSTableCommand::Load(options) => load::run(options),
        SSTableCommand::Scrub(options) => scrub::run(options),
        SSTableCommand::Split(options) => split::run(options),
        SSTableCommand::Verify(options) => verify::run(options),
    }
}
