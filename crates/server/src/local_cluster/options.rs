//! The options of `helenus cluster`: its own, and those of `helenus start` that make sense for all nodes.

use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use crate::options::{NAMES, StartOptions};

/// More nodes than this are no cluster to try things with, but one machine's undoing.
const MOST_NODES: i64 = 64;

/// What `helenus cluster` takes.
#[derive(Args, Debug)]
pub(crate) struct ClusterOptions {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, display_order = 0,
          value_parser = clap::value_parser!(u16).range(1..=MOST_NODES))]
    pub(super) nodes: u16,

    /// Address of the first node; the next ones have the addresses behind it
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST, display_order = 2,
          value_parser = first)]
    pub(super) first: Ipv4Addr,

    /// Deal the nodes out to so many racks, rack1, rack2 … [default: all where they were, or in rack1]
    #[arg(long, value_name = "N", display_order = 3,
          value_parser = clap::value_parser!(u16).range(1..=MOST_NODES))]
    pub(super) racks: Option<u16>,

    #[command(flatten)]
    pub(super) shared: SharedOptions,
}

fn first(text: &str) -> Result<Ipv4Addr, String> {
    match text.parse::<Ipv4Addr>() {
        Ok(address) if address.is_loopback() => Ok(address),
        _ => Err(format!(
            "`{text}` is no address of this machine alone: one looks like 127.0.0.1"
        )),
    }
}

/// Options of `helenus start` that each node has of its own.
const OF_EACH: [&str; 4] = ["address", "api_address", "seeds", "rack"];

const DATA: &str = "Folder with the nodes' own folders, node1, node2 …; made if it does not exist [default: \
                    ./cluster]";
const SHARDS: &str = "Number of shards of each node [default: its share of the cores]";
const MEMORY: &str = "Memory of each node, as 512M or 11.5GiB [default: its share of three quarters of what \
                      all may use]";

/// Options of `helenus start` that are given to all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedOptions {
    /// As they were understood.
    pub(super) options: StartOptions,
    /// As they were given: names as on the command line.
    pub(super) given: Vec<(String, OsString)>,
}

impl SharedOptions {
    /// The folder with the folders of the nodes.
    pub(super) fn data(&self) -> PathBuf {
        let data = self.options.data.clone();
        data.unwrap_or_else(|| PathBuf::from("./cluster"))
    }

    fn understand(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let names = NAMES.iter().chain(&["config"]);
        for name in names.filter(|name| !OF_EACH.contains(name)) {
            let Some(value) = matches.get_raw(name).and_then(Iterator::last) else {
                continue;
            };
            let text = value.to_str().ok_or(ErrorKind::InvalidUtf8);
            let text = text.map_err(Error::new)?;
            match *name {
                "config" => self.options.config = Some(PathBuf::from(value)),
                // The parser of the argument has taken it before.
                name => (self.options.set(name, text))
                    .map_err(|reason| Error::raw(ErrorKind::ValueValidation, reason))?,
            }
            self.given
                .push((format!("--{}", name.replace('_', "-")), value.to_owned()));
        }
        Ok(())
    }

    /// Those that nodes are given as they are.
    pub(super) fn passed_on(&self) -> impl Iterator<Item = &OsStr> {
        let other = |(name, _): &&(String, OsString)| {
            !["--data", "--shards", "--memory"].contains(&name.as_str())
        };
        let given = self.given.iter().filter(other);
        given.flat_map(|(name, value)| [OsStr::new(name), value.as_os_str()])
    }
}

impl FromArgMatches for SharedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SharedOptions, Error> {
        let mut shared = SharedOptions::default();
        shared.understand(matches)?;
        Ok(shared)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.understand(matches)
    }
}

impl Args for SharedOptions {
    fn augment_args(command: Command) -> Command {
        let start = StartOptions::augment_args(Command::new("start"));
        let shared = start.get_arguments().filter(|argument| {
            let name = argument.get_id().as_str();
            !OF_EACH.contains(&name)
        });
        let shared = shared.cloned().enumerate().map(|(place, argument)| {
            let (place, help) = match argument.get_id().as_str() {
                "data" => (1, DATA),
                "shards" => (4, SHARDS),
                "memory" => (5, MEMORY),
                _ => return argument.display_order(10 + place),
            };
            argument.display_order(place).help(help)
        });
        command.args(shared)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
