//! The command line.

use clap::{Parser, Subcommand};

use crate::local_cluster::ClusterOptions;
use crate::nodetool::NodetoolOptions;
use crate::options::StartOptions;
use crate::sstable_tools::SSTableCommand;

/// What `helenus --help` says.
#[derive(Debug, Parser)]
#[command(
    name = "helenus",
    version,
    about = "A database that takes the place of Apache Cassandra",
    long_about = "A database that takes the place of Apache Cassandra and ScyllaDB: the same CQL, the \
                  same drivers, the same files.",
    after_help = "Examples:\n  \
        helenus start                            a node on 127.0.0.1:9042, its data in ./data\n  \
        helenus start --help                     all options\n  \
        helenus cluster --nodes 3                a cluster of three nodes on 127.0.0.1 to 127.0.0.3\n  \
        helenus nodetool status                  operate it\n  \
        cqlsh 127.0.0.1                          talk to it",
    arg_required_else_help = true
)]
pub(crate) struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a node; it runs in the foreground until SIGTERM or SIGINT
    #[command(after_help = "\
Every option may stand in the file given with --config instead, under the same name:

  data: /var/lib/helenus
  address: 10.0.0.5
  memory: 16 GiB
  commitlog_sync: periodic

The command line wins over the file, the file over what the machine suggests.

Examples:
  helenus start
  helenus start --data /var/lib/helenus --address 10.0.0.5
  helenus start --shards 2 --memory 4G --port 9043 --shard-aware-port 0 --metrics-port 0
  helenus start --config /etc/helenus.yaml
  helenus start --address 10.0.0.5 --api-address 10.0.0.5 --api-port 10001

When clients can connect it prints one line:
  helenus ready: CQL 127.0.0.1:9042, 4 shards, 11.5 GiB, io_uring

Signals: SIGTERM or SIGINT drains and exits with 0; a second one exits at once.
What it logs is chosen with HELENUS_LOG, for example HELENUS_LOG=debug or =info,storage=trace.")]
    Start(Box<StartOptions>),

    /// Start a cluster on this machine, to try things with; it runs in the foreground until Ctrl-C
    #[command(after_help = "\
Each node is a process of its own (helenus start), with an address and a folder of its own; its lines
have its name in front. The first one begins the cluster. Started again with the same folder, the cluster
goes on; it takes more nodes as long as it has no keyspaces.

Examples:
  helenus cluster
  helenus cluster --nodes 5 --data /tmp/five
  helenus cluster --racks 3 --shards 1 --memory 512M
  helenus cluster --first 127.0.1.1 --port 9043 --commitlog-sync periodic

When clients can connect to all of them it says so:
  helenus cluster ready: 3 nodes, their data in ./cluster
    cqlsh 127.0.0.1                          talk to it
    helenus nodetool status                  see its nodes
    Ctrl-C                                   stop all of them

A node that ends by itself is reported, with the command that starts it again; the others go on.
Signals: SIGTERM or SIGINT (Ctrl-C) drains all nodes and waits for them; a second one ends them at once.")]
    Cluster(Box<ClusterOptions>),

    /// Tools for the files of sstables: what sstabledump and its kin do
    #[command(subcommand)]
    Sstable(SSTableCommand),

    /// Operate a running node, with the verbs and options of Cassandra's nodetool
    Nodetool(Box<NodetoolOptions>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_option_can_stand_in_the_file_too() {
        let command = CommandLine::command();
        let start = command.find_subcommand("start").expect("there is one");
        let mut flags: Vec<String> = start
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .filter(|name| !["config", "help"].contains(name))
            .map(|name| name.replace('-', "_"))
            .collect();
        flags.sort();
        let mut names = crate::options::NAMES.map(str::to_owned);
        names.sort();
        assert_eq!(flags, names);
    }
}
