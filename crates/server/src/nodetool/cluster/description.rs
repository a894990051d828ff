//! What nodes agree on, and what they tell of themselves: `describecluster`, `gossipinfo`,
//! `failuredetector`.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;

use super::{Api, Cluster, Done, Naming, Node, Ownership, address_with_port, with_port};
use crate::nodetool::text::fixed;

/// Prints what all nodes agree on, and which do not (Cassandra's `DescribeCluster`).
pub(in crate::nodetool) fn describe_cluster(
    api: &Api,
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let keyspaces = api.get(["storage_service", "replication"], &[])?;
    let owned = Ownership::ask(api, None)?;
    print_cluster(&Cluster::ask(api, naming)?, &keyspaces, &owned, out)
}

/// The nodes by what they say of something, those that say nothing last.
fn grouped<'c>(
    cluster: &'c Cluster,
    what: &str,
    named: impl Fn(Node<'c>) -> String,
) -> Vec<(&'c str, String)> {
    let mut groups: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    for node in cluster.nodes() {
        let said = node.0[what].as_str();
        let key = (said.is_none(), said.unwrap_or("UNREACHABLE"));
        groups.entry(key).or_default().push(named(node));
    }
    let groups = groups.into_iter();
    groups
        .map(|((_, said), nodes)| (said, format!("[{}]", nodes.join(", "))))
        .collect()
}

pub(super) fn print_cluster(
    cluster: &Cluster,
    keyspaces: &Value,
    owned: &Ownership,
    out: &mut impl Write,
) -> Done {
    writeln!(out, "Cluster Information:")?;
    writeln!(out, "\tName: {}", cluster.text("name"))?;
    writeln!(out, "\tSnitch: {}", cluster.text("snitch"))?;
    writeln!(out, "\tDynamicEndPointSnitch: disabled")?;
    writeln!(out, "\tPartitioner: {}", cluster.text("partitioner"))?;
    writeln!(out, "\tSchema versions:")?;
    for (version, nodes) in grouped(cluster, "schema_version", |node| cluster.named(node)) {
        writeln!(out, "\t\t{version}: {nodes}\n")?;
    }
    let count = |is: &dyn Fn(Node<'_>) -> bool| cluster.nodes().filter(|node| is(*node)).count();
    let in_state = |state: &str| count(&|node| node.text("state") == state);
    let with_status = |status: &str| count(&|node| node.status() == status);
    writeln!(out, "Stats for all nodes:")?;
    writeln!(out, "\tLive: {}", with_status("Up"))?;
    writeln!(out, "\tJoining: {}", in_state("Joining"))?;
    writeln!(out, "\tMoving: {}", in_state("Moving"))?;
    writeln!(out, "\tLeaving: {}", in_state("Leaving"))?;
    writeln!(out, "\tUnreachable: {}", with_status("Down"))?;
    writeln!(out, "\nData Centers: ")?;
    for (name, nodes) in cluster.by_datacenter() {
        let down = nodes.iter().filter(|node| node.status() == "Down").count();
        writeln!(out, "\t{name} #Nodes: {} #Down: {down}", nodes.len())?;
    }
    writeln!(out, "\nDatabase versions:")?;
    let address = |node: Node<'_>| with_port(node.text("address"), node);
    for (version, nodes) in grouped(cluster, "release_version", address) {
        writeln!(out, "\t{version}: {nodes}\n")?;
    }
    writeln!(out, "Keyspaces:")?;
    for keyspace in keyspaces.as_array().into_iter().flatten() {
        let [name, class] =
            ["keyspace", "class"].map(|part| keyspace[part].as_str().unwrap_or("?"));
        let options = keyspace["options"].as_object().into_iter().flatten();
        let options =
            options.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
        let options: Vec<String> = options.collect();
        writeln!(
            out,
            "\t{name} -> Replication class: {class} {{{}}}",
            options.join(", ")
        )?;
    }
    match owned {
        Ownership::Known(_) => Ok(()),
        Ownership::Meaningless(_) => Ok(write!(out, "\n{}", owned.note())?),
    }
}

/// Prints for how long nodes have given no answer (Cassandra's `FailureDetectorInfo`).
pub(in crate::nodetool) fn failure_detector(
    api: &Api,
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let values = api.get(["failure_detector", "endpoint_phi_values"], &[])?;
    print_silences(&values, naming.ports, out)
}

pub(super) fn print_silences(values: &Value, ports: bool, out: &mut impl Write) -> Done {
    writeln!(out, "{:>10},{:>16}", "Endpoint", "Phi")?;
    for value in values.as_array().into_iter().flatten() {
        let address = value["endpoint"].as_str().unwrap_or("?");
        let endpoint = match ports {
            true => address_with_port(address, &value["port"]),
            false => address.to_owned(),
        };
        let seconds = fixed(value["phi"].as_f64().unwrap_or(f64::NAN), 8);
        writeln!(out, "{:>10},{seconds:>16}", format!("/{endpoint}"))?;
    }
    Ok(())
}

/// Prints what nodes tell each other of themselves (Cassandra's `GossipInfo`).
pub(in crate::nodetool) fn gossip_info(api: &Api, naming: Naming, out: &mut impl Write) -> Done {
    print_gossip(&Cluster::ask(api, naming)?, out)
}

/// The version of each state is the number of the last entry of the metadata log; there is no count of
/// heartbeats.
pub(super) fn print_gossip(cluster: &Cluster, out: &mut impl Write) -> Done {
    let epoch = &cluster.info["epoch"];
    for node in cluster.nodes() {
        let name = match (cluster.naming.names, cluster.naming.ports) {
            (false, false) => node.slashed(),
            (false, true) => format!("/{}", cluster.named(node)),
            (true, _) => cluster.named(node),
        };
        writeln!(out, "{name}")?;
        writeln!(
            out,
            "  generation:{}\n  heartbeat:?",
            node.number("generation")
        )?;
        let status = match (node.text("state"), node.tokens().next()) {
            ("Joining", _) => "BOOT".to_owned(),
            ("Leaving", token) => format!("LEAVING,{}", token.unwrap_or_default()),
            ("Moving", token) => format!("MOVING,{}", token.unwrap_or_default()),
            (_, token) => format!("NORMAL,{}", token.unwrap_or_default()),
        };
        let said = |name: &str| node.0[name].as_str().map(str::to_owned);
        let load = node.0["load"].as_u64();
        let ready = node.0["serves_clients"].as_bool();
        let native = format!("{}:{}", node.text("native_address"), node.0["native_port"]);
        // Who is asked says these of itself alone, as Cassandra does since 4.0.
        let is_own = cluster.info["own_address"] == node.0["address"];
        let own = |value: Option<String>| value.filter(|_| is_own);
        let states = [
            ("STATUS", own(Some(status.clone()))),
            ("LOAD", load.map(|load| format!("{load}.0"))),
            ("SCHEMA", said("schema_version")),
            ("DC", said("data_center")),
            ("RACK", said("rack")),
            ("RELEASE_VERSION", said("release_version")),
            ("RPC_ADDRESS", own(said("native_address"))),
            ("HOST_ID", said("host_id")),
            ("RPC_READY", ready.map(|ready| ready.to_string())),
            ("NATIVE_ADDRESS_AND_PORT", Some(native)),
            ("STATUS_WITH_PORT", Some(status)),
            ("DISK_USAGE", said("disk_usage")),
        ];
        for (name, value) in states {
            if let Some(value) = value {
                writeln!(out, "  {name}:{epoch}:{value}")?;
            }
        }
        match node.token_count() {
            0 => writeln!(out, "  TOKENS: not present")?,
            _ => writeln!(out, "  TOKENS:{epoch}:<hidden>")?,
        }
    }
    Ok(writeln!(out)?)
}
