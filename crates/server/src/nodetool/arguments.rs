//! The verbs and their options.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Args, Subcommand};

/// What `helenus nodetool` takes.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
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

/// What can be done.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Remove snapshots
    #[command(after_help = "\
Examples:
  helenus nodetool clearsnapshot -t before_upgrade
  helenus nodetool clearsnapshot --all shop")]
    Clearsnapshot {
        /// Their name
        #[arg(short, long, value_name = "TAG")]
        tag: Option<String>,
        /// All of them
        #[arg(long)]
        all: bool,
        /// Of these keyspaces; of all if none are given
        keyspaces: Vec<String>,
    },

    /// Stop linking new sstables into the backups
    #[command(after_help = "\
Example:
  helenus nodetool disablebackup")]
    Disablebackup,

    /// Drain the node: stop accepting clients, write all memtables to sstables, write nothing more
    #[command(after_help = "\
The process goes on; a SIGTERM then ends it at once.

Example:
  helenus nodetool drain")]
    Drain,

    /// Link new sstables into the folder `backups` of their tables, until the next start
    #[command(after_help = "\
Example:
  helenus nodetool enablebackup")]
    Enablebackup,

    /// Write the memtables of tables to sstables
    #[command(after_help = "\
Examples:
  helenus nodetool flush
  helenus nodetool flush shop orders customers")]
    Flush(Tables),

    /// Import sstables from any folders into a table, without a restart
    #[command(after_help = "\
They are moved out of the folders unless --copy-data is given. All checksums are checked before; a
folder with a damaged sstable, or one of another table, is left as it is and named.

Examples:
  helenus nodetool import shop orders /backup/shop/orders
  helenus nodetool import --copy-data shop orders /backup/1 /backup/2")]
    Import {
        /// Keep the levels of leveled compaction
        #[arg(short = 'l', long)]
        keep_level: bool,
        /// Keep what they say of repairs
        #[arg(short = 'r', long)]
        keep_repaired: bool,
        /// Do not read them before
        #[arg(short = 'v', long)]
        no_verify: bool,
        /// Do not check that the node owns all tokens (one node owns all)
        #[arg(short = 't', long)]
        no_tokens: bool,
        /// Do not empty the row cache (which an import never has to)
        #[arg(short = 'c', long)]
        no_invalidate_caches: bool,
        /// As -v -t -c
        #[arg(short = 'q', long)]
        quick: bool,
        /// Check all values too (which is done without it)
        #[arg(short = 'e', long)]
        extended_verify: bool,
        /// Leave the sstables where they are, too
        #[arg(short = 'p', long)]
        copy_data: bool,
        /// The keyspace
        keyspace: String,
        /// The table
        table: String,
        /// Folders with sstables, on the node's machine
        #[arg(required = true)]
        directories: Vec<String>,
    },

    /// Print information about the node: identity, load, uptime, memory
    #[command(after_help = "\
Example:
  helenus nodetool info --tokens")]
    Info {
        /// Print all tokens
        #[arg(short = 'T', long)]
        tokens: bool,
    },

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
        /// Accepted for scripts; there are no ephemeral snapshots
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

    /// Make a snapshot of keyspaces or tables: hard links of their sstables
    #[command(after_help = "\
It is in the folder snapshots/TAG of each table, with manifest.json and schema.cql.

Examples:
  helenus nodetool snapshot -t before_upgrade
  helenus nodetool snapshot -t monday --ttl 3d shop
  helenus nodetool snapshot -t orders -cf orders shop
  helenus nodetool snapshot -t some -kt shop.orders,web.sessions --skip-flush")]
    Snapshot {
        /// Its name [default: the milliseconds since 1970]
        #[arg(short, long, value_name = "TAG")]
        tag: Option<String>,
        /// One table of the one keyspace given (-cf)
        #[arg(long, alias = "table", value_name = "TABLE")]
        column_family: Option<String>,
        /// Tables as KEYSPACE.TABLE, with commas between them (-kt, -kc)
        #[arg(long, alias = "kc.list", value_name = "LIST")]
        kt_list: Option<String>,
        /// Leave out what is in memory (-sf)
        #[arg(long)]
        skip_flush: bool,
        /// After this time it is removed, as 3d, 12h or 90m
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
        /// The keyspaces; all if none are given
        keyspaces: Vec<String>,
    },

    /// Print the nodes of the cluster: state, load, ownership, identity
    #[command(after_help = "\
Examples:
  helenus nodetool status
  helenus nodetool status shop")]
    Status {
        /// Whose data the ownership is of
        keyspace: Option<String>,
        /// Show names instead of addresses
        #[arg(short, long)]
        resolve_ip: bool,
    },

    /// Print whether new sstables are linked into the backups
    #[command(after_help = "\
Example:
  helenus nodetool statusbackup")]
    Statusbackup,

    /// Print whether clients can connect
    #[command(after_help = "\
Example:
  helenus nodetool statusbinary")]
    Statusbinary,

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
const LONG_FORMS: [(&str, &str); 8] = [
    ("-cf", "--column-family"),
    ("-kt", "--kt-list"),
    ("-kc", "--kt-list"),
    ("-sf", "--skip-flush"),
    ("-nt", "--no-ttl"),
    ("-hf", "--hex-format"),
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
}
