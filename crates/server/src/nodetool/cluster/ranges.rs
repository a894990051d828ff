//! Where data lies: `describering`, `getendpoints`.

use std::io::Write;

use serde_json::Value;

use super::{Api, Cluster, Done, Naming};
use crate::nodetool::api::NodetoolError;

/// Prints the ranges of a keyspace (Cassandra's `DescribeRing`).
pub(in crate::nodetool) fn describe_ring(
    api: &Api,
    keyspace: &str,
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let info = api.get(["storage_service", "cluster_info"], &[])?;
    let version = info["schema_version"].as_str().unwrap_or("?");
    let ranges = match api.get(["storage_service", "describe_ring", keyspace], &[]) {
        Err(NodetoolError::Refused(reason)) => {
            // Cassandra's has printed so much when it learns of it.
            print_ranges(version, &Value::Null, naming.ports, out)?;
            let is_unknown = reason.ends_with("does not exist.");
            return Err(NodetoolError::Failed(match is_unknown {
                true => format!("No such keyspace: {keyspace}"),
                false => reason,
            }));
        }
        ranges => ranges?,
    };
    print_ranges(version, &ranges, naming.ports, out)
}

pub(super) fn print_ranges(
    version: &str,
    ranges: &Value,
    ports: bool,
    out: &mut impl Write,
) -> Done {
    writeln!(out, "Schema Version:{version}\nTokenRange: ")?;
    for range in ranges.as_array().into_iter().flatten() {
        let text = |name: &str| range[name].as_str().unwrap_or("?");
        let details = range["endpoint_details"].as_array();
        let details: Vec<&Value> = details.into_iter().flatten().collect();
        let listed = |name: &str, port: &str| {
            let addresses = range[name].as_array().into_iter().flatten();
            let addresses = addresses.zip(&details).map(|(address, details)| {
                let address = address.as_str().unwrap_or("?");
                match ports {
                    true => format!("{address}:{}", details[port]),
                    false => address.to_owned(),
                }
            });
            addresses.collect::<Vec<String>>().join(", ")
        };
        let hosts = listed("endpoints", "port");
        let of_details = hosts.split(", ").zip(&details).map(|(host, details)| {
            let [datacenter, rack] =
                ["datacenter", "rack"].map(|part| details[part].as_str().unwrap_or("?"));
            format!("EndpointDetails(host:{host}, datacenter:{datacenter}, rack:{rack})")
        });
        writeln!(
            out,
            "\tTokenRange(start_token:{}, end_token:{}, endpoints:[{hosts}], rpc_endpoints:[{}], \
             endpoint_details:[{}])",
            text("start_token"),
            text("end_token"),
            listed("rpc_endpoints", "native_port"),
            of_details.collect::<Vec<String>>().join(", "),
        )?;
    }
    Ok(())
}

/// What Cassandra's `GetEndpoints` says of names that it does not know, and of keys.
fn in_words_of_get_endpoints(error: NodetoolError, keyspace: &str, table: &str) -> NodetoolError {
    let NodetoolError::Refused(reason) = error else {
        return error;
    };
    if reason.starts_with("Keyspace [") {
        return NodetoolError::Refused(format!("Unknown keyspace '{keyspace}'"));
    }
    match reason.starts_with("Unknown keyspace/cf pair") {
        true => {
            let unknown = format!("Unknown table '{table}' in keyspace '{keyspace}'");
            NodetoolError::Refused(unknown)
        }
        false => NodetoolError::Failed(reason),
    }
}

/// Prints the nodes that have a partition (Cassandra's `GetEndpoints`).
pub(in crate::nodetool) fn get_endpoints(
    api: &Api,
    [keyspace, table, key]: [&str; 3],
    naming: Naming,
    out: &mut impl Write,
) -> Done {
    let path = ["storage_service", "natural_endpoints", keyspace];
    let found = api.get(path, &[("cf", table), ("key", key)]);
    let found = found.map_err(|error| in_words_of_get_endpoints(error, keyspace, table))?;
    let cluster = Cluster::ask(api, naming)?;
    for address in found.as_array().into_iter().flatten() {
        let node = cluster.nodes().find(|node| node.0["address"] == *address);
        match node {
            Some(node) => writeln!(out, "{}", cluster.named(node))?,
            None => writeln!(out, "{}", address.as_str().unwrap_or("?"))?,
        }
    }
    Ok(())
}
