//! Which nodes a local cluster has, and what each of them is started with.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use super::ClusterError;
use super::options::ClusterOptions;
use crate::config_file;
use crate::machine::Machine;
use crate::options::StartOptions;
use crate::settings::Settings;

/// A node that is to be started.
#[derive(Debug)]
pub(super) struct PlannedNode {
    /// What its folder is called, and its lines.
    pub(super) name: String,
    /// What is behind `helenus`.
    pub(super) arguments: Vec<OsString>,
    /// What it makes of them.
    pub(super) settings: Settings,
}

/// The nodes of a cluster on a machine. Where neither the command line nor the configuration file says how
/// much a node may use, each has the same part of what there is.
pub(super) fn plan(
    options: &ClusterOptions,
    machine: Machine,
) -> Result<Vec<PlannedNode>, ClusterError> {
    let shared = &options.shared;
    let given = match &shared.options.config {
        Some(path) => shared.options.clone().or(config_file::read(path)?),
        None => shared.options.clone(),
    };
    let nodes = options.nodes;
    let machine = Machine {
        cores: (machine.cores / nodes).max(1),
        memory: machine.memory / u64::from(nodes),
    };
    let first = u32::from(options.first);
    (0..nodes)
        .map(|number| {
            let name = format!("node{}", number + 1);
            let next = first.checked_add(number.into()).map(Ipv4Addr::from);
            let address = next.filter(Ipv4Addr::is_loopback);
            let address = address.ok_or(ClusterError::NoAddress {
                first: options.first,
                nodes,
            })?;
            let own = StartOptions {
                data: Some(shared.data().join(&name)),
                address: Some(address.into()),
                ..StartOptions::default()
            };
            let mut settings = Settings::resolve(own.or(given.clone()), machine)?;
            if let Some(api) = &mut settings.api {
                api.set_ip(address.into());
            }
            let rack = options
                .racks
                .map(|racks| format!("rack{}", number % racks + 1));
            let arguments = arguments(options, &settings, rack);
            Ok(PlannedNode {
                name,
                arguments,
                settings,
            })
        })
        .collect()
}

/// The first node begins the cluster, the others join it.
fn arguments(options: &ClusterOptions, settings: &Settings, rack: Option<String>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["start".into()];
    let own: [(&str, OsString); 6] = [
        ("--data", settings.data.clone().into()),
        ("--address", settings.address.to_string().into()),
        ("--api-address", settings.address.to_string().into()),
        ("--seeds", IpAddr::from(options.first).to_string().into()),
        ("--shards", settings.shards.to_string().into()),
        ("--memory", settings.memory.to_string().into()),
    ];
    let rack = rack.map(|rack| ("--rack", rack.into()));
    for (name, value) in own.into_iter().chain(rack) {
        arguments.extend([name.into(), value]);
    }
    arguments.extend(options.shared.passed_on().map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        cores: 8,
        memory: 24 << 30,
    };

    /// What `helenus cluster` makes of these words.
    fn planned(text: &str) -> Result<Vec<PlannedNode>, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: ClusterOptions,
        }
        let words = ["cluster"].into_iter().chain(text.split_whitespace());
        let line = <Line as clap::Parser>::try_parse_from(words);
        let options = line.map_err(|error| error.to_string())?.options;
        plan(&options, MACHINE).map_err(|error| error.to_string())
    }

    fn words(node: &PlannedNode) -> String {
        let words: Vec<_> = node.arguments.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn each_node_has_its_own_address_folder_and_share() {
        let nodes = planned("").expect("nothing is wrong");
        assert_eq!(nodes.len(), 3);
        assert_eq!(
            words(&nodes[2]),
            "start --data ./cluster/node3 --address 127.0.0.3 --api-address 127.0.0.3 --seeds \
             127.0.0.1 --shards 2 --memory 6442450944"
        );
        let settings = &nodes[2].settings;
        assert_eq!(settings.cql().to_string(), "127.0.0.3:9042");
        assert_eq!(
            settings.api.expect("it has one").to_string(),
            "127.0.0.3:10000"
        );
        let many = planned("--nodes 64").expect("nothing is wrong");
        assert_eq!(many[63].settings.shards, 1, "fewer cores than nodes");
    }

    #[test]
    fn what_is_given_is_given_to_all() {
        let nodes = planned(
            "--nodes 4 --data /x --first 127.5.0.254 --racks 2 --shards 3 --memory 1G --port 9043 \
             --data-center east",
        )
        .expect("nothing is wrong");
        assert_eq!(
            words(&nodes[2]),
            "start --data /x/node3 --address 127.5.1.0 --api-address 127.5.1.0 --seeds 127.5.0.254 \
             --shards 3 --memory 1073741824 --rack rack1 --port 9043 --data-center east"
        );
        assert!(words(&nodes[3]).contains(" --rack rack2 "));
        assert_eq!(nodes[3].settings.cql().to_string(), "127.5.1.1:9043");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, word) in [
            ("--nodes 0", "0 is not in 1..=64"),
            ("--first 10.0.0.1", "no address of this machine alone"),
            ("--first 127.255.255.254", "run out"),
            ("--address 127.0.0.1", "unexpected argument"),
            ("--seeds 127.0.0.1", "unexpected argument"),
            ("--shards none", "no number of shards"),
            ("--nodes 2 --memory 1M", "too little"),
            ("--port 7000", "both 7000"),
        ] {
            let error = planned(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
