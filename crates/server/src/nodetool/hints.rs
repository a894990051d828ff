//! What is done with hints.

use std::io::Write;
use std::net::{IpAddr, ToSocketAddrs};

use serde_json::Value;

use super::Done;
use super::api::{Api, NodetoolError};
use super::text::TextTable;

const ENABLED: [&str; 2] = ["storage_proxy", "hinted_handoff_enabled"];
const WINDOW: [&str; 2] = ["storage_proxy", "max_hint_window"];
const HINTS: [&str; 2] = ["hinted_handoff", "hints"];

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

/// Keeps hints, or none.
pub(super) fn enable(api: &Api, enabled: bool) -> Done {
    api.post(ENABLED, &[("enable", word(enabled))]).map(drop)
}

/// Delivers none, or does again.
pub(super) fn pause(api: &Api, paused: bool) -> Done {
    let path = ["hinted_handoff", "pause"];
    api.post(path, &[("pause", word(paused))]).map(drop)
}

/// Prints whether hints are kept (Cassandra's `StatusHandoff`).
pub(super) fn status(api: &Api, out: &mut impl Write) -> Done {
    let said = match api.get(ENABLED, &[])? == true {
        true => "Hinted handoff is running",
        false => "Hinted handoff is not running",
    };
    Ok(writeln!(out, "{said}")?)
}

/// Prints for how long they are kept (Cassandra's `GetMaxHintWindow`).
pub(super) fn get_window(api: &Api, out: &mut impl Write) -> Done {
    let window = api.get(WINDOW, &[])?;
    Ok(writeln!(out, "Current max hint window: {window} ms")?)
}

/// Sets for how long they are kept.
pub(super) fn set_window(api: &Api, millis: u32) -> Done {
    api.post(WINDOW, &[("ms", &millis.to_string())]).map(drop)
}

/// Removes hints (Cassandra's `TruncateHints`).
pub(super) fn truncate(api: &Api, endpoint: Option<&str>) -> Done {
    let Some(endpoint) = endpoint else {
        return api.delete(HINTS, &[]).map(drop);
    };
    let address = address_of(endpoint)?.to_string();
    api.delete(HINTS, &[("host", &address)]).map(drop)
}

/// The address that a name means here.
fn address_of(endpoint: &str) -> Result<IpAddr, NodetoolError> {
    if let Ok(address) = endpoint.parse() {
        return Ok(address);
    }
    let found = (endpoint, 0).to_socket_addrs().ok();
    let first = found.and_then(|mut addresses| addresses.next());
    let unknown = || NodetoolError::Usage(format!("{endpoint}: no address is known for this name"));
    Ok(first.ok_or_else(unknown)?.ip())
}

/// Prints for which nodes there are hints (Cassandra's `ListPendingHints`).
pub(super) fn list_pending(api: &Api, out: &mut impl Write) -> Done {
    let hints = api.get(HINTS, &[])?;
    let cluster = api.get(["storage_service", "cluster_info"], &[])?;
    print_pending(&hints, &cluster, out)
}

fn print_pending(hints: &Value, cluster: &Value, out: &mut impl Write) -> Done {
    let hints = hints.as_array().map_or(&[][..], Vec::as_slice);
    if hints.is_empty() {
        return Ok(writeln!(out, "This node does not have any pending hints")?);
    }
    let mut table = TextTable::default();
    table.add([
        "Host ID",
        "Address",
        "Rack",
        "DC",
        "Status",
        "Total files",
        "Newest",
        "Oldest",
    ]);
    for of_node in hints {
        let mut nodes = cluster["nodes"].as_array().into_iter().flatten();
        let node = nodes.find(|node| node["host_id"] == of_node["host_id"]);
        let text = |name: &str| {
            node.and_then(|node| node[name].as_str())
                .unwrap_or("Unknown")
                .to_owned()
        };
        let address = match node.map(|node| &node["port"]) {
            Some(port) => super::cluster::address_with_port(&text("address"), port),
            None => text("address"),
        };
        let status = match node.and_then(|node| node["is_up"].as_bool()) {
            Some(true) => "UP",
            Some(false) => "DOWN",
            None => "Unknown",
        };
        table.add([
            of_node["host_id"].as_str().unwrap_or("?").to_owned(),
            address,
            text("rack"),
            text("data_center"),
            status.to_owned(),
            of_node["files"].to_string(),
            moment(&of_node["newest"]),
            moment(&of_node["oldest"]),
        ]);
    }
    Ok(write!(out, "{}", table.text())?)
}

/// A time in milliseconds since 1970 as `yyyy-MM-dd HH:mm:ss,SSS`, in UTC.
fn moment(millis: &Value) -> String {
    let millis = millis.as_i64().unwrap_or(0);
    let seconds = storage::instant(millis - millis.rem_euclid(1000));
    let seconds = seconds.trim_end_matches('Z').replace('T', " ");
    format!("{seconds},{:03}", millis.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_with_hints_are_shown_in_cassandras_columns() {
        let host = |number: u8| format!("00000000-0000-0000-0000-00000000000{number}");
        let hints = json!([
            { "host_id": host(1), "files": 12, "oldest": 1_764_000_000_007_i64, "newest": 1_764_003_600_120_i64 },
            { "host_id": host(2), "files": 1, "oldest": 0, "newest": 0 },
        ]);
        let cluster = json!({ "nodes": [
            { "host_id": host(1), "address": "10.0.0.7", "port": 7000, "rack": "r1", "data_center": "east",
              "is_up": false },
        ] });
        let printed = |hints: &Value| {
            let mut out = Vec::new();
            print_pending(hints, &cluster, &mut out).expect("a buffer takes all");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            printed(&hints),
            "\
Host ID                              Address       Rack    DC      Status  Total files Newest                  Oldest                 
00000000-0000-0000-0000-000000000001 10.0.0.7:7000 r1      east    DOWN    12          2025-11-24 17:00:00,120 2025-11-24 16:00:00,007
00000000-0000-0000-0000-000000000002 Unknown       Unknown Unknown Unknown 1           1970-01-01 00:00:00,000 1970-01-01 00:00:00,000
"
        );
        assert_eq!(
            printed(&json!([])),
            "This node does not have any pending hints\n"
        );
    }

    #[test]
    fn names_of_nodes_are_resolved() {
        for (name, address) in [("10.0.0.7", "10.0.0.7"), ("::1", "::1")] {
            assert_eq!(
                address_of(name)
                    .map(|found| found.to_string())
                    .ok()
                    .as_deref(),
                Some(address)
            );
        }
        assert!(address_of("no such name").is_err());
    }
}
