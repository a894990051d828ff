//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use scylla::statement::Consistency;

use crate::generator::Random;

const EXAMPLES: &str = "\
Examples:
  Load a million records (1 KB each), then half reads and half updates for a minute:
    helenus-bench load --records 1000000
    helenus-bench run a --records 1000000 --threads 64 --warmup 10s --duration 60s

  Reads at a fixed rate, with latency counted from the moment each was due, and the CPU time
  that the server took for an operation:
    helenus-bench run c --records 1000000 --rate 50000 --duration 60s --pid $(pidof helenus)

  The same against three nodes:
    helenus-bench run c --records 1000000 --hosts 127.0.0.1,127.0.0.2,127.0.0.3 --pids 101,102,103

  Rows of 1 to 2 KB of text, written only; and points of metrics, 360 in each insert:
    helenus-bench run w --fields 1 --field-length 1000-2000
    helenus-bench load --table metrics --points 360 --records 100000

  What it costs when requests come to nodes, or shards, that do not have their keys:
    helenus-bench run c --rate 50000 --routing any-shard
    helenus-bench run c --rate 50000 --routing random-node

  Ten thousand new connections a second; and five thousand that are held and do nothing:
    helenus-bench storm --rate 10000 --duration 10s --pid $(pidof helenus)
    helenus-bench idle --connections-held 5000 --duration 60s

  As many reads as the server can do, where the driver would take more CPU than the server:
    helenus-bench run c --client plain --threads 2048

  As `bin/ycsb run cassandra-cql -P workloads/workloada -threads 32 -p operationcount=1000000`:
    helenus-bench run a --threads 32 --operations 1000000 --out result.json
";

/// YCSB, and what else one judges by, against any server that speaks CQL, over the Scylla Rust driver or without one.
#[derive(Debug, Parser)]
#[command(name = "helenus-bench", version, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the table, and insert the records
    #[command(after_help = EXAMPLES)]
    Load {
        /// Drop the keyspace first
        #[arg(long)]
        drop: bool,
        /// Replicas of the keyspace, if it is made
        #[arg(long, value_name = "N", default_value_t = 1)]
        replication_factor: u32,
        /// What stands after WITH where the table is made, as "compaction = {'class': ...}"
        #[arg(long, value_name = "OPTIONS")]
        with: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Run a workload on loaded records
    #[command(after_help = EXAMPLES)]
    Run {
        /// a: 50 % reads, 50 % updates. b: 95 %, 5 %. c: reads only. d: 95 % reads of the latest,
        /// 5 % inserts. e: 95 % short scans, 5 % inserts. f: 50 % reads, 50 % read-modify-writes.
        /// These are YCSB's; beside them, w: updates only. i: inserts only, behind the records
        #[arg(value_name = "WORKLOAD")]
        workload: WorkloadName,
        /// Which records are asked for [default: that of the workload]
        #[arg(long, value_name = "NAME")]
        distribution: Option<Distribution>,
        /// Run before anything is counted
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
        warmup: Duration,
        /// Measure for so long [default: 30s, unless --operations is given]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        duration: Option<Duration>,
        /// Measure so many operations
        #[arg(long, value_name = "N")]
        operations: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Open new connections at a fixed rate, each up to the answer to STARTUP, and close them
    ///
    /// Each connect is due at its moment, and its latency counts from then to READY (or AUTHENTICATE);
    /// "since begun", from when its connect began, which is later if too many are in flight already.
    /// One that takes longer than 5 s is an error.
    #[command(after_help = EXAMPLES)]
    Storm(StormOptions),
    /// Hold connections, STARTUP done, on which nothing is asked
    ///
    /// Says "N connections are held" when they are there. Ends when the time is up, with SIGTERM or
    /// SIGINT, or with standard input, if that is a pipe or a socket.
    #[command(after_help = EXAMPLES)]
    Idle(IdleOptions),
}

/// Whom to connect to.
#[derive(Clone, Debug, Args)]
pub(crate) struct Nodes {
    /// Nodes to connect to: `load` and `run` first, and then to whichever there are; others in turn
    #[arg(
        long,
        value_name = "HOST[:PORT],...",
        value_delimiter = ',',
        default_value = "127.0.0.1"
    )]
    pub(crate) hosts: Vec<String>,
}

/// How it is measured, and where that is said.
#[derive(Clone, Debug, Args)]
pub(crate) struct Measuring {
    /// Threads of this program [default: one for each core it may use]
    #[arg(long, value_name = "N")]
    pub(crate) client_threads: Option<usize>,
    /// Processes of the server's nodes on this machine, to count their CPU time together
    #[arg(
        long,
        visible_alias = "pid",
        value_name = "PID,...",
        value_delimiter = ','
    )]
    pub(crate) pids: Vec<u32>,
    /// Write all figures here, as JSON
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Time between two lines of progress
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) progress: Duration,
}

/// What `storm` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct StormOptions {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Connections opened a second, each when it is due
    #[arg(long, value_name = "CONNECTS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: u64,
    /// Begin connects for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Connections that are there at a time, at most; those that are due wait for their end
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) in_flight: usize,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// What `idle` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct IdleOptions {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// Connections to hold, over all nodes
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) connections_held: usize,
    /// Hold them for so long, once they are there
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
}

/// What the commands that send requests take.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) nodes: Nodes,
    /// User name
    #[arg(long, requires = "password")]
    pub(crate) user: Option<String>,
    /// Password
    #[arg(long, requires = "user")]
    pub(crate) password: Option<String>,
    /// Keyspace
    #[arg(long, default_value = "ycsb")]
    pub(crate) keyspace: String,
    /// What a record is
    #[arg(long, value_name = "TABLE", default_value = "records")]
    pub(crate) table: TableName,
    /// Consistency level of all operations
    #[arg(long, short, value_name = "LEVEL", default_value = "QUORUM", value_parser = parse_consistency)]
    pub(crate) consistency: Consistency,
    /// Records that are, or will be, in the table
    #[arg(long, short, value_name = "N", default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Fields of a record
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) fields: usize,
    /// Bytes of a field, or of the shortest and the longest one, as 1000-2000
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = Lengths::parse)]
    pub(crate) field_length: Lengths,
    /// With --table metrics: points of a write
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) points: usize,
    /// Operations in flight, over all connections
    #[arg(long, short, value_name = "N", default_value_t = 64)]
    pub(crate) threads: usize,
    /// Connections of each client thread to each node, or to each shard of a node that has shards
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) connections: usize,
    /// To which of the connections a request goes. There are the same ones, whichever is chosen
    #[arg(long, value_name = "ROUTING", default_value = "shard")]
    pub(crate) routing: Routing,
    /// What statements are executed with
    #[arg(long, value_name = "CLIENT", default_value = "driver")]
    pub(crate) client: ClientName,
    /// Operations a second, issued when they are due [default: as fast as answers come]
    #[arg(long, value_name = "OPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// YCSB's workloads, and two that only write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    A,
    B,
    C,
    D,
    E,
    F,
    W,
    I,
}

/// The tables that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// YCSB's: a row of --fields fields
    Records,
    /// A partition of 100 rows with one field each, read whole
    Partitions,
    /// A map of points in time, as Mogujie keeps its metrics
    Metrics,
}

impl TableName {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// What is known of where a key is, when a request for it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Routing {
    /// To the shard of a replica that has the key: a driver made for shards
    Shard,
    /// To a random shard of a replica, as a driver that knows nothing of shards: beside `shard`, what a
    /// request costs that comes to another shard than its key's
    AnyShard,
    /// To a random shard of a random node, as a driver without token awareness: beside `any-shard`,
    /// what a request costs that comes to a node that is no replica
    RandomNode,
}

impl Routing {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }
}

/// What statements are executed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientName {
    /// The Scylla Rust driver
    Driver,
    /// Frames, and nothing more: a fraction of the driver's CPU, for machines with few cores for clients. Takes no
    /// --user; batches, of which only `load --table partitions` has some, go over the driver
    Plain,
}

impl ClientName {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// How long values are: from the least on to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    least: usize,
    most: usize,
}

impl Lengths {
    fn parse(text: &str) -> Result<Lengths, String> {
        let number = |text: &str| {
            let wrong = |_| format!("`{text}` is no number of bytes");
            text.parse::<usize>().map_err(wrong)
        };
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let (least, most) = (number(least)?, number(most)?);
        match least <= most {
            true => Ok(Lengths { least, most }),
            false => Err(format!("{least} is more than {most}")),
        }
    }

    /// One of them, all alike.
    pub(crate) fn draw(self, random: &mut Random) -> usize {
        match self.most - self.least {
            0 => self.least,
            more => self.least + random.below(more as u64 + 1) as usize,
        }
    }
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// Some far more often than others, spread over the table
    Zipfian,
    /// Those inserted last more often
    Latest,
    /// All alike
    Uniform,
}

/// `500ms`, `30s`, `5m`, `1h`; without a unit, seconds.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a time as 30s".to_owned())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

const LEVELS: [(&str, Consistency); 9] = [
    ("ANY", Consistency::Any),
    ("ONE", Consistency::One),
    ("TWO", Consistency::Two),
    ("THREE", Consistency::Three),
    ("QUORUM", Consistency::Quorum),
    ("ALL", Consistency::All),
    ("LOCAL_QUORUM", Consistency::LocalQuorum),
    ("EACH_QUORUM", Consistency::EachQuorum),
    ("LOCAL_ONE", Consistency::LocalOne),
];

fn parse_consistency(text: &str) -> Result<Consistency, String> {
    let names = LEVELS.map(|(name, _)| name).join(", ");
    LEVELS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
        .map(|(_, level)| *level)
        .ok_or_else(|| format!("use one of {names}"))
}

/// The name of a level that the command line takes.
pub(crate) fn name_of(level: Consistency) -> &'static str {
    let found = LEVELS.iter().find(|(_, known)| *known == level);
    found.map_or("another level", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("3"), Ok(Duration::from_secs(3)));
        assert!(parse_duration("3d").is_err());
        assert!(parse_duration("s").is_err());
    }

    #[test]
    fn lengths_are_one_or_a_range() {
        let mut random = Random::new(1);
        let drawn = |text: &str, random: &mut Random| {
            let lengths = Lengths::parse(text).expect("valid");
            let mut drawn: Vec<usize> = (0..1000).map(|_| lengths.draw(random)).collect();
            drawn.sort_unstable();
            (drawn[0], drawn[999])
        };
        assert_eq!(drawn("100", &mut random), (100, 100));
        assert_eq!(drawn("5-8", &mut random), (5, 8));
        assert!(Lengths::parse("8-5").is_err());
        assert!(Lengths::parse("a").is_err());
    }

    #[test]
    fn examples_are_understood() {
        let lines = EXAMPLES
            .lines()
            .filter(|line| line.starts_with("    helenus-bench"));
        for line in lines {
            let line = line.replace("$(pidof helenus)", "1");
            let parsed = Options::try_parse_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}
