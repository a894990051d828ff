//! The verbs that are about the cluster and the node's part in it.

use clap::Subcommand;

use super::structured::Format;

/// What can be asked of the cluster, and of the node as one of it.
#[derive(Debug, Subcommand)]
pub(super) enum ClusterVerb {
    /// Print the name, snitch, partitioner, schema versions and keyspaces of the cluster
    #[command(after_help = "\
Example:
  helenus nodetool describecluster")]
    Describecluster,

    /// Print the token ranges of a keyspace, with the nodes that have their data
    #[command(after_help = "\
Example:
  helenus nodetool describering shop")]
    Describering {
        /// The keyspace
        keyspace: String,
    },

    /// Close the ports of clients and end their connections; the node stays a replica
    #[command(after_help = "\
It holds until enablebinary or the next start. What other nodes send is served.

Example:
  helenus nodetool disablebinary")]
    Disablebinary,

    /// Tell the other nodes that this one goes: they take it to be down; it still serves clients
    #[command(after_help = "\
It holds until enablegossip or the next start. The node takes others to be up or down as it did before.
Run disablebinary first: clients that it still has may read what others have changed since.

Example:
  helenus nodetool disablegossip")]
    Disablegossip,

    /// Open the ports of clients again
    #[command(after_help = "\
Example:
  helenus nodetool enablebinary")]
    Enablebinary,

    /// Tell the other nodes that this one is there again
    #[command(after_help = "\
Example:
  helenus nodetool enablegossip")]
    Enablegossip,

    /// Print for how long each of the other nodes has given no answer
    #[command(after_help = "\
There is no phi: nodes ask each other (SWIM). What stands there are seconds since the node was suspected of
being down: 0 as long as it is taken to be up, NaN if it has not been met since this one started.

Example:
  helenus nodetool failuredetector")]
    Failuredetector,

    /// Print the nodes that have a partition
    #[command(after_help = "\
The values of a key of several columns have colons between them.

Example:
  helenus nodetool getendpoints shop orders ada")]
    Getendpoints {
        /// The keyspace, the table, and the partition key
        #[arg(value_name = "KEYSPACE TABLE KEY", allow_hyphen_values = true)]
        arguments: Vec<String>,
    },

    /// Print what the nodes tell each other of themselves
    #[command(after_help = "\
The number in the middle of a line is that of the last change of the cluster's metadata. What a node that
is down would have to be asked for is left out.

Example:
  helenus nodetool gossipinfo")]
    Gossipinfo {
        /// Show names (of /etc/hosts) instead of addresses
        #[arg(short, long)]
        resolve_ip: bool,
    },

    /// Print what goes between this node and the others
    #[command(after_help = "\
Example:
  helenus nodetool netstats")]
    Netstats {
        /// Accepted for scripts: nothing is streamed
        #[arg(short = 'H', long)]
        human_readable: bool,
    },

    /// Print how long clients waited for this node since its start
    #[command(after_help = "\
Batches count with writes, reads at SERIAL with reads and by themselves; what views get is not counted.

Example:
  helenus nodetool proxyhistograms")]
    Proxyhistograms,

    /// Print all tokens and the nodes that own them
    #[command(after_help = "\
Examples:
  helenus nodetool ring
  helenus nodetool ring shop")]
    Ring {
        /// Whose data the ownership is of
        keyspace: Option<String>,
        /// Show names (of /etc/hosts) instead of addresses
        #[arg(short, long)]
        resolve_ip: bool,
    },

    /// Print the nodes of the cluster: state, load, ownership, identity
    #[command(after_help = "\
Examples:
  helenus nodetool status
  helenus nodetool status shop
  helenus nodetool -pp status -r")]
    Status {
        /// Whose data the ownership is of
        keyspace: Option<String>,
        /// Show names (of /etc/hosts) instead of addresses
        #[arg(short, long)]
        resolve_ip: bool,
    },

    /// Print whether clients can connect
    #[command(after_help = "\
Example:
  helenus nodetool statusbinary")]
    Statusbinary,

    /// Print whether the node tells others that it is there
    #[command(after_help = "\
Example:
  helenus nodetool statusgossip")]
    Statusgossip,

    /// Print kinds of work: what is under way, what waits, what was done
    #[command(after_help = "\
What Cassandra has thread pools for; what is not counted here is N/A.

Examples:
  helenus nodetool tpstats
  helenus nodetool tpstats -F json")]
    Tpstats {
        /// For programs: json or yaml
        #[arg(short = 'F', long, value_name = "json|yaml")]
        format: Option<Format>,
    },
}
