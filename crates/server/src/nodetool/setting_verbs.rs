//! The verbs that set what a node does while it runs, and look at it.

use clap::Subcommand;

/// What can be set, and what is asked for by hand that the node does by itself some day.
#[derive(Debug, Subcommand)]
pub(super) enum SettingVerb {
    /// Print the folders of tables
    #[command(after_help = "\
Examples:
  helenus nodetool datapaths
  helenus nodetool datapaths shop shop.orders")]
    Datapaths {
        /// For programs: json or yaml
        #[arg(short = 'F', long, value_name = "json|yaml")]
        format: Option<super::structured::Format>,
        /// Keyspaces, or tables as KEYSPACE.TABLE; all if none are given
        names: Vec<String>,
    },

    /// Print how many KiB of logged batches all nodes together complete in a second
    #[command(after_help = "\
Example:
  helenus nodetool getbatchlogreplaythrottle")]
    Getbatchlogreplaythrottle,

    /// Print how many sstables a compaction of a table takes at least and at most
    #[command(after_help = "\
Example:
  helenus nodetool getcompactionthreshold shop orders")]
    Getcompactionthreshold {
        /// KEYSPACE TABLE
        #[arg(value_name = "KEYSPACE TABLE")]
        names: Vec<String>,
    },

    /// Print what is logged, by part of Helenus
    #[command(after_help = "\
Example:
  helenus nodetool getlogginglevels")]
    Getlogginglevels,

    /// Print the seeds but this node itself
    #[command(after_help = "\
Example:
  helenus nodetool getseeds")]
    Getseeds,

    /// Print how long something may take, in milliseconds
    #[command(after_help = "\
Types: read, range, write, counterwrite, cascontention, truncate, internodeconnect.

Example:
  helenus nodetool gettimeout read")]
    Gettimeout {
        /// What
        #[arg(value_name = "TIMEOUT_TYPE")]
        kind: Vec<String>,
    },

    /// Print the share of requests that are traced without having been asked to
    #[command(after_help = "\
Example:
  helenus nodetool gettraceprobability")]
    Gettraceprobability,

    /// Estimate anew what system.size_estimates says of each range
    #[command(after_help = "\
Example:
  helenus nodetool refreshsizeestimates")]
    Refreshsizeestimates,

    /// Print the seeds, which are of use at the first start only
    #[command(after_help = "\
Example:
  helenus nodetool reloadseeds")]
    Reloadseeds,

    /// Read keys and certificates of TLS between nodes again, without waiting until it is seen that they changed
    #[command(after_help = "\
Example:
  helenus nodetool reloadssl")]
    Reloadssl,

    /// Complete the logged batches that whoever coordinated them did not see to, and wait for it
    #[command(after_help = "\
Example:
  helenus nodetool replaybatchlog")]
    Replaybatchlog,

    /// Set how many KiB of logged batches all nodes together complete in a second
    #[command(after_help = "\
It holds for this node until the next start. 0: as many as there are.

Example:
  helenus nodetool setbatchlogreplaythrottle 2048")]
    Setbatchlogreplaythrottle {
        /// KiB a second
        #[arg(value_name = "BATCHLOG_REPLAY_THROTTLE")]
        value: u32,
    },

    /// Set what a part of Helenus logs; as at the start if nothing is given
    #[command(after_help = "\
Parts are the crates node, storage, cluster, cql, wire, io, helenus, and modules such as node::hints; ROOT is all
that have no level of their own. It holds until the next start, which goes by HELENUS_LOG.

Examples:
  helenus nodetool setlogginglevel storage DEBUG
  helenus nodetool setlogginglevel ROOT WARN
  helenus nodetool setlogginglevel")]
    Setlogginglevel {
        /// ROOT, a crate or a module
        component: Option<String>,
        /// TRACE, DEBUG, INFO, WARN, ERROR or OFF
        level: Option<String>,
    },

    /// Set how long something may take, in milliseconds
    #[command(after_help = "\
Types: read, range, write, counterwrite, cascontention, truncate, internodeconnect. It holds for this node until
the next start; what is under way keeps its time.

Example:
  helenus nodetool settimeout read 10000")]
    Settimeout {
        /// What, and milliseconds
        #[arg(value_name = "TIMEOUT_TYPE TIMEOUT_IN_MS", allow_hyphen_values = true)]
        arguments: Vec<String>,
    },

    /// Set the share of requests that are traced without having been asked to
    #[command(after_help = "\
From 0 (none) to 1 (all). It holds for this node until the next start. Traces are in system_traces.

Example:
  helenus nodetool settraceprobability 0.001")]
    Settraceprobability {
        /// From 0 to 1
        #[arg(value_name = "TRACE_PROBABILITY", allow_hyphen_values = true)]
        value: f64,
    },
}
