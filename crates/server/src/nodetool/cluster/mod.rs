//! The cluster, as the node that is asked tells of it.

mod description;
mod nodes;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use super::Done;
use super::api::{Api, NodetoolError};
use super::text::{TextTable, file_size};

pub(super) use description::{describe_cluster, failure_detector, gossip_info};
pub(super) use nodes::{ring, status};
pub(super) use ranges::{describe_ring, get_endpoints};

/// How nodes are named.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Naming {
    /// By their names, where the machine knows them.
    pub(super) names: bool,
    /// With the port of other nodes behind it.
    pub(super) ports: bool,
}

/// Where a machine has the names of addresses.
const HOSTS: &str = "/etc/hosts";

/// The cluster as the API tells of it, its nodes by address.
struct Cluster {
    info: Value,
    naming: Naming,
    /// Names of addresses, as lines of `/etc/hosts`.
    hosts: String,
}

impl Cluster {
    fn ask(api: &Api, naming: Naming) -> Result<Cluster, NodetoolError> {
        let info = api.get(["storage_service", "cluster_info"], &[])?;
        // A machine without the file knows no names.
        let hosts = match naming.names {
            true => std::fs::read_to_string(HOSTS).unwrap_or_default(),
            false => String::new(),
        };
        Ok(Cluster {
            info,
            naming,
            hosts,
        })
    }

    fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let nodes = self.info["nodes"].as_array();
        nodes.into_iter().flatten().map(Node)
    }

    /// The nodes of each data centre.
    fn by_datacenter(&self) -> BTreeMap<&str, Vec<Node<'_>>> {
        let mut datacenters: BTreeMap<&str, Vec<Node<'_>>> = BTreeMap::new();
        for node in self.nodes() {
            let nodes = datacenters.entry(node.text("data_center")).or_default();
            nodes.push(node);
        }
        datacenters
    }

    fn text(&self, name: &str) -> &str {
        self.info[name].as_str().unwrap_or("?")
    }

    /// A node as people want it named.
    fn named(&self, node: Node<'_>) -> String {
        let address = node.text("address");
        let name = name_of(&self.hosts, address).unwrap_or(address);
        match self.naming.ports {
            true => with_port(name, node),
            false => name.to_owned(),
        }
    }
}

/// The name of an address; the first in lines as those of `/etc/hosts`.
fn name_of<'h>(hosts: &'h str, address: &str) -> Option<&'h str> {
    hosts.lines().find_map(|line| {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        words.next().filter(|first| *first == address)?;
        words.next()
    })
}

fn with_port(name: &str, node: Node<'_>) -> String {
    address_with_port(name, &node.0["port"])
}

pub(super) fn address_with_port(name: &str, port: &Value) -> String {
    match name.contains(':') {
        true => format!("[{name}]:{port}"),
        false => format!("{name}:{port}"),
    }
}

/// A node as the API tells of it.
#[derive(Clone, Copy)]
struct Node<'c>(&'c Value);

impl<'c> Node<'c> {
    fn text(self, name: &str) -> &'c str {
        self.0[name].as_str().unwrap_or("?")
    }

    fn tokens(self) -> impl Iterator<Item = i64> + 'c {
        let tokens = self.0["tokens"].as_array();
        tokens.into_iter().flatten().filter_map(Value::as_i64)
    }

    fn token_count(self) -> usize {
        self.tokens().count()
    }

    /// `Up`, `Down`, or `?` of a node that nobody watches.
    fn status(self) -> &'static str {
        match self.0["is_up"].as_bool() {
            Some(true) => "Up",
            Some(false) => "Down",
            None => "?",
        }
    }

    /// `?` if it does not say.
    fn load(self) -> String {
        self.0["load"].as_u64().map_or("?".to_owned(), file_size)
    }

    /// As a number that tools read, or `?`.
    fn number(self, name: &str) -> String {
        self.0[name]
            .as_i64()
            .map_or("?".to_owned(), |n| n.to_string())
    }

    /// As Java shows an address.
    fn slashed(self) -> String {
        format!("/{}", self.text("address"))
    }
}

/// The share of the data that each node has, or why that means nothing.
enum Ownership {
    Known(BTreeMap<String, f64>),
    Meaningless(String),
}

impl Ownership {
    fn ask(api: &Api, keyspace: Option<&str>) -> Result<Ownership, NodetoolError> {
        if let Some(keyspace) = keyspace {
            let keyspaces = api.get(["storage_service", "keyspaces"], &[])?;
            let mut known = keyspaces.as_array().into_iter().flatten();
            if !known.any(|known| known == keyspace) {
                let unknown = format!("The keyspace {keyspace}, does not exist");
                return Err(NodetoolError::Usage(unknown));
            }
        }
        let path = ["storage_service", "ownership", keyspace.unwrap_or("null")];
        match api.get(path, &[]) {
            Ok(owned) => Ok(Ownership::of(&owned)),
            Err(NodetoolError::Refused(reason)) => Ok(Ownership::Meaningless(reason)),
            Err(error) => Err(error),
        }
    }

    fn of(owned: &Value) -> Ownership {
        let entry = |entry: &Value| {
            let (host, share) = (entry["host_id"].as_str()?, entry["value"].as_f64()?);
            Some((host.to_owned(), share))
        };
        let entries = owned.as_array().into_iter().flatten();
        Ownership::Known(entries.filter_map(entry).collect())
    }

    fn heading(&self) -> &'static str {
        match self {
            Ownership::Known(_) => "Owns (effective)",
            Ownership::Meaningless(_) => "Owns",
        }
    }

    /// In percent, with so many digits.
    fn share(&self, node: Node<'_>, digits: usize) -> String {
        match self {
            Ownership::Known(shares) => match shares.get(node.text("host_id")) {
                Some(share) => format!("{:.digits$}%", share * 100.0),
                None => "?".to_owned(),
            },
            Ownership::Meaningless(_) => "?".to_owned(),
        }
    }

    /// A line that says why there are no shares; empty if there are.
    fn note(&self) -> String {
        match self {
            Ownership::Known(_) => String::new(),
            Ownership::Meaningless(reason) => format!("Note: {reason}\n"),
        }
    }
}
