//! The verbs and their options.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Args, Subcommand};

use super::cluster_verbs::ClusterVerb;
use super::hint_verbs::HintVerb;
use super::setting_verbs::SettingVerb;
use super::structured::Format;

/// What `helenus nodetool` takes.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    // In the order of their names.
    next_display_order = None,
    after_help = "Examples:\n  \
        helenus nodetool status\n  \
        helenus nodetool -h 127.0.0.2 -p 10000 snapshot -t before_upgrade shop\n  \
        helenus nodetool help import"
)]
pub(crate) struct NodetoolOptions {
    /// Address or name of the node's REST API
    #[arg(short = 'h', long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(super) host: String,

    /// Port of the node's REST API
    #[arg(short, long, value_name = "PORT", default_value_t = 10000)]
    pub(super) port: u16,

    /// Accepted for scripts: the API has no users, it is for who reaches its address
    #[arg(short, long, value_name = "NAME")]
    username: Option<String>,

    /// Accepted for scripts (-pw)
    #[arg(long, value_name = "PASSWORD", allow_hyphen_values = true)]
    password: Option<String>,

    /// Accepted for scripts; it is not read (-pwf)
    #[arg(long, value_name = "FILE")]
    password_file: Option<String>,

    /// Print the ports of nodes with their addresses (-pp)
    #[arg(long)]
    pub(super) print_port: bool,

    /// Print help
    #[arg(long, global = true, action = ArgAction::Help)]
    help: Option<bool>,

    /// What to do
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// A keyspace and some of its tables.
#[derive(Args, Debug)]
pub(super) struct Tables {
    /// The keyspace; all if none is given
    pub(super) keyspace: Option<String>,
    /// Tables of it; all if none is given
    #[arg(value_name = "TABLES")]
    pub(super) tables: Vec<String>,
}

impl Tables {
    /// The keyspace and its tables.
    pub(super) fn named(&self) -> (Option<&str>, &[String]) {
        (self.keyspace.as_deref(), &self.tables)
    }
}

/// How many at once.
#[derive(Args, Debug)]
pub(super) struct Jobs {
    /// Accepted for scripts: each shard does one after the other
    #[arg(short, long, value_name = "N")]
    jobs: Option<u32>,
}

/// Options of `snapshot`.
#[derive(Args, Debug)]
pub(super) struct Snapshot {
    /// Its name [default: the milliseconds since 1970]
    #[arg(short, long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// One table of the one keyspace given (-cf)
    #[arg(long, alias = "table", value_name = "TABLE")]
    pub(super) column_family: Option<String>,
    /// Tables as KEYSPACE.TABLE, with commas between them (-kt, -kc)
    #[arg(long, alias = "kc.list", value_name = "LIST")]
    pub(super) kt_list: Option<String>,
    /// Leave out what is in memory (-sf)
    #[arg(long)]
    pub(super) skip_flush: bool,
    /// After this time it is removed, as 3d, 12h or 90m
    #[arg(long, value_name = "TIME")]
    pub(super) ttl: Option<String>,
    /// The keyspaces; all if none are given
    pub(super) keyspaces: Vec<String>,
}

/// Options of `clearsnapshot`.
#[derive(Args, Debug)]
pub(super) struct ClearSnapshot {
    /// Their name
    #[arg(short, long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// All of them
    #[arg(long)]
    pub(super) all: bool,
    /// With --all: only those older than this, as 7d, 12h or 90m
    #[arg(long, value_name = "TIME")]
    pub(super) older_than: Option<String>,
    /// With --all: only those made before this time, as 2022-12-03T10:15:30Z
    #[arg(long, value_name = "TIMESTAMP")]
    pub(super) older_than_timestamp: Option<String>,
    /// Of these keyspaces; of all if none are given
    pub(super) keyspaces: Vec<String>,
}

/// Options of `import`.
#[derive(Args, Debug)]
pub(super) struct Import {
    /// Keep the levels of leveled compaction
    #[arg(short = 'l', long)]
    pub(super) keep_level: bool,
    /// Keep what they say of repairs
    #[arg(short = 'r', long)]
    pub(super) keep_repaired: bool,
    /// Do not read them before
    #[arg(short = 'v', long)]
    pub(super) no_verify: bool,
    /// Do not check that the node owns all tokens (one node owns all)
    #[arg(short = 't', long)]
    pub(super) no_tokens: bool,
    /// Do not empty the row cache (which an import never has to)
    #[arg(short = 'c', long)]
    pub(super) no_invalidate_caches: bool,
    /// As -v -t -c
    #[arg(short = 'q', long)]
    pub(super) quick: bool,
    /// Check all values too (which is done without it)
    #[arg(short = 'e', long)]
    pub(super) extended_verify: bool,
    /// Leave the sstables where they are, too
    #[arg(short = 'p', long)]
    pub(super) copy_data: bool,
    /// Accepted for scripts: there are no indexes that are attached to sstables (-ri)
    #[arg(long)]
    require_index_components: bool,
    /// Accepted for scripts (-niv)
    #[arg(long)]
    no_index_validation: bool,
    /// The keyspace
    pub(super) keyspace: String,
    /// The table
    pub(super) table: String,
    /// Folders with sstables, on the node's machine
    #[arg(required = true)]
    pub(super) directories: Vec<String>,
}

/// Options of `compact`.
#[derive(Args, Debug)]
pub(super) struct Compact {
    /// Write several sstables instead of one
    #[arg(short, long)]
    pub(super) split_output: bool,
    /// Only what lies behind this token (-st)
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(super) start_token: Option<i64>,
    /// Only what lies up to this token (-et)
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(super) end_token: Option<i64>,
    /// Only the sstables that may have this partition key
    #[arg(long, value_name = "KEY")]
    pub(super) partition: Option<String>,
    /// Compact these sstables together
    #[arg(long)]
    pub(super) user_defined: bool,
    /// A keyspace and tables of it, or data files of sstables; all keyspaces if none are given
    #[arg(value_name = "KEYSPACE TABLES|FILES")]
    pub(super) arguments: Vec<String>,
}

/// Options of `tablestats`.
#[derive(Args, Debug)]
pub(super) struct TableStatistics {
    /// For programs: json or yaml
    #[arg(short = 'F', long, value_name = "json|yaml")]
    pub(super) format: Option<Format>,
    /// Print bytes as KiB, MiB, GiB, TiB
    #[arg(short = 'H', long)]
    pub(super) human_readable: bool,
    /// Show all tables but those that are named
    #[arg(short)]
    pub(super) ignore: bool,
    /// Print whether the sstables are where they should be, which they always are
    #[arg(short = 'l', long)]
    pub(super) sstable_location_check: bool,
    /// Sort the tables by this, such as space_used_live
    #[arg(short, long, value_name = "KEY")]
    pub(super) sort: Option<String>,
    /// With -s: show only so many
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub(super) top: usize,
    /// Keyspaces, or tables as KEYSPACE.TABLE; all if none are given
    pub(super) names: Vec<String>,
}

/// Options of `getsstables`.
#[derive(Args, Debug)]
pub(super) struct GetSSTables {
    /// The key is given in hexadecimal digits (-hf)
    #[arg(long)]
    pub(super) hex_format: bool,
    /// Print the levels of leveled compaction too
    #[arg(short = 'l', long)]
    pub(super) show_levels: bool,
    /// The keyspace
    pub(super) keyspace: String,
    /// The table
    pub(super) table: String,
    /// The partition key
    #[arg(allow_hyphen_values = true)]
    pub(super) key: String,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    #[command(flatten)]
    Cluster(ClusterVerb),

    #[command(flatten)]
    Hints(HintVerb),

    #[command(flatten)]
    Settings(SettingVerb),

    /// Rewrite sstables that hold partitions of several shards, so that each shard has its own
    #[command(after_help = "\
Examples:
  helenus nodetool cleanup
  helenus nodetool cleanup shop orders")]
    Cleanup {
        #[command(flatten)]
        tables: Tables,
        #[command(flatten)]
        jobs: Jobs,
    },

    /// Remove snapshots
    #[command(after_help = "\
Examples:
  helenus nodetool clearsnapshot -t before_upgrade
  helenus nodetool clearsnapshot --all shop
  helenus nodetool clearsnapshot --all --older-than 7d")]
    Clearsnapshot(ClearSnapshot),

    /// Compact tables, or some of their sstables
    #[command(after_help = "\
Examples:
  helenus nodetool compact
  helenus nodetool compact shop orders
  helenus nodetool compact -st 0 -et 1000 shop orders
  helenus nodetool compact --user-defined /var/lib/helenus/data/shop/orders-0123/nb-1-big-Data.db")]
    Compact(Compact),

    /// Print the compactions of the last week
    #[command(after_help = "\
They are kept in system.compaction_history. rows_merged says of how many partitions so many of the
inputs knew.

Examples:
  helenus nodetool compactionhistory
  helenus nodetool compactionhistory -F json")]
    Compactionhistory {
        /// For programs: json or yaml
        #[arg(short = 'F', long, value_name = "json|yaml")]
        format: Option<Format>,
    },

    /// Print what compaction does and has to do
    #[command(after_help = "\
Example:
  helenus nodetool compactionstats -H")]
    Compactionstats {
        /// Print bytes as KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
        /// Print the columns of system_views.sstable_tasks
        #[arg(short = 'V', long)]
        vtable: bool,
    },

    /// Keep the strategies of tables from choosing compactions, until the next start
    #[command(after_help = "\
Example:
  helenus nodetool disableautocompaction shop orders")]
    Disableautocompaction(Tables),

    /// Stop linking new sstables into the backups
    #[command(after_help = "\
It holds until the node ends; the next start goes by its option --incremental-backups.

Example:
  helenus nodetool disablebackup")]
    Disablebackup,

    /// Drain the node: stop accepting clients, write all memtables to sstables, write nothing more
    #[command(after_help = "\
The process goes on; a SIGTERM then ends it at once.

Example:
  helenus nodetool drain")]
    Drain,

    /// Let the strategies of tables choose compactions again
    #[command(after_help = "\
Example:
  helenus nodetool enableautocompaction shop orders")]
    Enableautocompaction(Tables),

    /// Link new sstables into the folder `backups` of their tables
    #[command(after_help = "\
It holds until the node ends; the next start goes by its option --incremental-backups.

Example:
  helenus nodetool enablebackup")]
    Enablebackup,

    /// Write the memtables of tables to sstables
    #[command(after_help = "\
Examples:
  helenus nodetool flush
  helenus nodetool flush shop orders customers")]
    Flush(Tables),

    /// Drop from sstables what deletions in other sstables cover
    #[command(after_help = "\
Example:
  helenus nodetool garbagecollect -g CELL shop orders")]
    Garbagecollect {
        /// ROW: what deletions of partitions and rows cover; CELL: also cells that were overwritten or
        /// deleted
        #[arg(short, long, value_name = "ROW|CELL", default_value = "ROW", ignore_case = true,
              value_parser = ["ROW", "CELL"])]
        granularity: String,
        #[command(flatten)]
        tables: Tables,
        #[command(flatten)]
        jobs: Jobs,
    },

    /// Print the limit of compaction's throughput: there is none
    #[command(after_help = "\
Example:
  helenus nodetool getcompactionthroughput")]
    Getcompactionthroughput {
        /// As a number with a fraction
        #[arg(short = 'd', long)]
        precise_mib: bool,
    },

    /// Print the data files of the sstables that have a partition
    #[command(after_help = "\
The values of a key of several columns have colons between them.

Examples:
  helenus nodetool getsstables shop orders ada
  helenus nodetool getsstables -hf shop orders 616461")]
    Getsstables(GetSSTables),

    /// Import sstables from any folders into a table, without a restart
    #[command(after_help = "\
They are moved out of the folders unless --copy-data is given. All checksums are checked before; a
folder with a damaged sstable, or one of another table, is left as it is and named.

Examples:
  helenus nodetool import shop orders /backup/shop/orders
  helenus nodetool import --copy-data shop orders /backup/1 /backup/2")]
    Import(Import),

    /// Print information about the node: identity, load, uptime, memory
    #[command(after_help = "\
Example:
  helenus nodetool info --tokens")]
    Info {
        /// Print all tokens
        #[arg(short = 'T', long)]
        tokens: bool,
    },

    /// Forget the rows that were kept for being read again
    #[command(after_help = "\
Example:
  helenus nodetool invalidaterowcache")]
    Invalidaterowcache,

    /// Print all snapshots with their sizes and times
    #[command(after_help = "\
The true size is that of the files that only the snapshot keeps on disk.

Examples:
  helenus nodetool listsnapshots
  helenus nodetool listsnapshots -nt")]
    Listsnapshots {
        /// Leave out those that expire (-nt)
        #[arg(long)]
        no_ttl: bool,
        /// Print whether they are ephemeral, which none is
        #[arg(short, long)]
        ephemeral: bool,
    },

    /// Take the sstables that were put into a table's own folder, without a restart
    #[command(after_help = "\
Example:
  helenus nodetool refresh shop orders")]
    Refresh {
        /// The keyspace
        keyspace: String,
        /// The table
        table: String,
    },

    /// Rewrite sstables without the partitions that cannot be read
    #[command(after_help = "\
What was there is kept in the snapshot pre-scrub-TIME.

Examples:
  helenus nodetool scrub shop orders
  helenus nodetool scrub -ns shop")]
    Scrub {
        /// Make no snapshot before (-ns)
        #[arg(long)]
        no_snapshot: bool,
        #[command(flatten)]
        how: ScrubHow,
        #[command(flatten)]
        tables: Tables,
        #[command(flatten)]
        jobs: Jobs,
    },

    /// Accepted for scripts: compaction needs no limit, it takes what clients leave
    #[command(after_help = "\
Example:
  helenus nodetool setcompactionthroughput 0")]
    Setcompactionthroughput {
        /// MiB a second; 0 for no limit
        value: u64,
    },

    /// Make a snapshot of keyspaces or tables: hard links of their sstables
    #[command(after_help = "\
It is in the folder snapshots/TAG of each table, with manifest.json and schema.cql.

Examples:
  helenus nodetool snapshot -t before_upgrade
  helenus nodetool snapshot -t monday --ttl 3d shop
  helenus nodetool snapshot -t orders -cf orders shop
  helenus nodetool snapshot -t some -kt shop.orders,web.sessions --skip-flush")]
    Snapshot(Snapshot),

    /// Print whether the strategies of tables choose compactions
    #[command(after_help = "\
Example:
  helenus nodetool statusautocompaction -a shop")]
    Statusautocompaction {
        /// For each table
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        tables: Tables,
    },

    /// Print whether new sstables are linked into the backups
    #[command(after_help = "\
Example:
  helenus nodetool statusbackup")]
    Statusbackup,

    /// Stop compactions that run; they leave things as they were
    #[command(after_help = "\
Examples:
  helenus nodetool stop COMPACTION
  helenus nodetool stop -id 0-17")]
    Stop {
        /// One compaction, as compactionstats shows it (-id)
        #[arg(long, value_name = "ID")]
        compaction_id: Option<String>,
        /// COMPACTION, MAJOR_COMPACTION, CLEANUP, SCRUB, UPGRADE_SSTABLES or GARBAGE_COLLECT; Cassandra's
        /// other types never run here, and stopping them does nothing
        #[arg(value_name = "TYPE")]
        kind: Option<String>,
    },

    /// Print histograms of tables: latencies, sstables a read, sizes of partitions
    #[command(after_help = "\
Examples:
  helenus nodetool tablehistograms shop orders
  helenus nodetool tablehistograms shop.orders")]
    #[command(alias = "cfhistograms")]
    Tablehistograms {
        /// KEYSPACE TABLE or KEYSPACE.TABLE; all tables if none is given
        #[arg(value_name = "KEYSPACE TABLE")]
        names: Vec<String>,
    },

    /// Print statistics of tables
    #[command(after_help = "\
Examples:
  helenus nodetool tablestats shop
  helenus nodetool tablestats -H -s space_used_live -t 10
  helenus nodetool tablestats -F json shop.orders")]
    #[command(alias = "cfstats")]
    Tablestats(TableStatistics),

    /// Rewrite sstables that are not of the version that is written
    #[command(after_help = "\
Examples:
  helenus nodetool upgradesstables
  helenus nodetool upgradesstables -a shop orders")]
    Upgradesstables {
        /// Rewrite those of that version too
        #[arg(short = 'a', long)]
        include_all_sstables: bool,
        /// Only those written by this time, in milliseconds since 1970
        #[arg(
            short = 't',
            long,
            value_name = "MILLISECONDS",
            allow_hyphen_values = true
        )]
        max_timestamp: Option<i64>,
        #[command(flatten)]
        tables: Tables,
        #[command(flatten)]
        jobs: Jobs,
    },

    /// Read all sstables of tables and check all checksums
    #[command(after_help = "\
Nothing is changed, so --force is not needed; it and the other options are accepted for scripts.

Example:
  helenus nodetool verify shop orders")]
    Verify {
        #[command(flatten)]
        how: VerifyHow,
        #[command(flatten)]
        tables: Tables,
    },

    /// Print the version of Cassandra that the node is compatible with
    #[command(after_help = "\
Example:
  helenus nodetool version --verbose")]
    Version {
        /// Print the version of Helenus too
        #[arg(short, long)]
        verbose: bool,
    },
}

/// Options of Cassandra's nodetool with one dash and several letters, which are none elsewhere.
const LONG_FORMS: [(&str, &str); 15] = [
    ("-pw", "--password"),
    ("-pwf", "--password-file"),
    ("-pp", "--print-port"),
    ("-ri", "--require-index-components"),
    ("-niv", "--no-index-validation"),
    ("-cf", "--column-family"),
    ("-kt", "--kt-list"),
    ("-kc", "--kt-list"),
    ("-sf", "--skip-flush"),
    ("-ns", "--no-snapshot"),
    ("-nt", "--no-ttl"),
    ("-hf", "--hex-format"),
    ("-id", "--compaction-id"),
    ("-st", "--start-token"),
    ("-et", "--end-token"),
];

/// Spells out what stands behind `nodetool` in its short forms.
pub(crate) fn spell_out(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_some_and(|verb| verb == "nodetool") {
        for argument in arguments.iter_mut().skip(2).take_while(|a| *a != "--") {
            let known = LONG_FORMS
                .iter()
                .find(|(short, _)| argument == OsStr::new(short));
            if let Some((_, long)) = known {
                *argument = (*long).into();
            }
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_spelt_out_up_to_the_double_dash() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(Into::into).collect() };
        let spelt = |text: &str| spell_out(words(text).into_iter());
        assert_eq!(
            spelt("helenus nodetool snapshot -cf t -sf ks -- -kt"),
            words("helenus nodetool snapshot --column-family t --skip-flush ks -- -kt")
        );
        assert_eq!(spelt("helenus start -cf"), words("helenus start -cf"));
    }

    /// What `helenus nodetool` is asked for.
    fn parsed(text: &str) -> Result<NodetoolOptions, clap::Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: NodetoolOptions,
        }
        let words = text.split(' ').map(Into::into);
        let words = ["helenus", "nodetool"]
            .map(Into::into)
            .into_iter()
            .chain(words);
        let spelt = spell_out(words).split_off(1);
        <Line as clap::Parser>::try_parse_from(spelt).map(|line| line.options)
    }

    #[test]
    fn what_scripts_for_cassandra_give_is_taken() {
        for line in [
            "-h ::1 -p 7199 -u cassandra -pw -secret -pp flush",
            "-u cassandra -pwf /etc/password status",
            "import -ri -niv -q ks t /a /b",
            "cfstats -H ks",
            "cfhistograms ks t",
            "setmaxhintwindow 10800000",
            "truncatehints 127.0.0.2",
            "-pp failuredetector",
        ] {
            if let Err(error) = parsed(line) {
                panic!("{line}: {error}");
            }
        }
        assert!(parsed("flush -niv").is_err());
    }
}

/// How `nodetool scrub` scrubs.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct ScrubHow {
    /// Leave out what is damaged in counter tables too, whose counts are too low then
    #[arg(short, long)]
    pub(super) skip_corrupted: bool,
    /// Take any bytes for values of the column's type
    #[arg(short, long)]
    pub(super) no_validate: bool,
    /// Let what expires after 2038 in sstables before version oa, and so seems to have expired, expire
    /// in January 2038, with a timestamp by one later
    #[arg(short, long)]
    pub(super) reinsert_overflowed_ttl: bool,
}

/// How `nodetool verify` verifies.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct VerifyHow {
    /// Check all values too (which is done without it)
    #[arg(short, long)]
    pub(super) extended_verify: bool,
    /// Name sstables too that are not of the version that is written
    #[arg(short, long)]
    pub(super) check_version: bool,
    /// Do what disk_failure_policy says if an sstable is damaged
    #[arg(short, long)]
    pub(super) dfp: bool,
    /// Accepted for scripts: what sstables say of repairs is never changed
    #[arg(short, long)]
    rsc: bool,
    /// With -e: check that the node owns all tokens (one node owns all)
    #[arg(short = 't', long)]
    pub(super) check_tokens: bool,
    /// Only open them, do not read the data
    #[arg(short, long)]
    pub(super) quick: bool,
    /// Accepted for scripts
    #[arg(short, long)]
    force: bool,
}
