//! Who a node is and how it is: `version`, `info`, `statusbinary`, `statusgossip`.

use std::io::Write;

use serde_json::Value;

use super::api::{Api, NodetoolError};
use super::text::{file_size, fixed};

type Done = Result<(), NodetoolError>;

fn node_info(api: &Api) -> Result<Value, NodetoolError> {
    api.get(["storage_service", "node_info"], &[])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Prints the version.
pub(super) fn version(api: &Api, verbose: bool, out: &mut impl Write) -> Done {
    let version = api.get(["storage_service", "release_version"], &[])?;
    writeln!(out, "ReleaseVersion: {}", text(&version))?;
    if verbose {
        let own = api.get(["storage_service", "scylla_release_version"], &[])?;
        writeln!(out, "Helenus: {}", text(&own))?;
    }
    Ok(())
}

/// Does a service of the node run?
pub(super) fn status_of(api: &Api, service: &str, out: &mut impl Write) -> Done {
    let running = api.get(["storage_service", service], &[])? == true;
    let said = if running { "running" } else { "not running" };
    Ok(writeln!(out, "{said}")?)
}

/// What a cache did and holds, as Cassandra prints those that it can save; nothing is one that is
/// empty.
fn saved_cache(cache: &Value) -> String {
    let hits = number(&cache["hits"]);
    let requests = hits + number(&cache["misses"]);
    format!(
        "entries {}, size {}, capacity {}, {hits} hits, {requests} requests, {} recent hit rate, 0 \
         save period in seconds",
        number(&cache["entries"]),
        file_size(number(&cache["size"])),
        file_size(number(&cache["capacity"])),
        fixed(hits as f64 / requests as f64, 3),
    )
}

/// When the node started, in seconds since 1970; 0 while it does not gossip.
fn generation(node: &Value) -> u64 {
    match node["gossips"] == true {
        true => number(&node["generation"]),
        false => 0,
    }
}

/// What is said of the tokens of a node: all, or how many there are.
fn tokens(node: &Value, all: bool) -> Vec<String> {
    let tokens = node["tokens"].as_array().map_or(&[][..], Vec::as_slice);
    match all || tokens.len() == 1 {
        true => tokens.iter().map(Value::to_string).collect(),
        false => vec![format!(
            "(invoke with -T/--tokens to see all {} tokens)",
            tokens.len()
        )],
    }
}

/// Prints who the node is and what it holds (Cassandra's `Info`). Of the caches those of rows and of
/// chunks are there; the others are named because people's scripts look for them. Nothing of a cache
/// is saved.
pub(super) fn info(api: &Api, all_tokens: bool, out: &mut impl Write) -> Done {
    let node = node_info(api)?;
    let mut line = |name: &str, value: String| writeln!(out, "{name:<23}: {value}");
    let mebibytes = |bytes: u64| fixed(bytes as f64 / 1_048_576.0, 2);
    line("ID", text(&node["host_id"]).to_owned())?;
    line("Gossip active", node["gossips"].to_string())?;
    line(
        "Native Transport active",
        node["serves_clients"].to_string(),
    )?;
    line("Load", file_size(number(&node["load"])))?;
    line(
        "Uncompressed load",
        file_size(number(&node["uncompressed_load"])),
    )?;
    line("Generation No", generation(&node).to_string())?;
    line("Uptime (seconds)", node["uptime_seconds"].to_string())?;
    let memory = &node["memory"];
    let limit = mebibytes(number(&memory["limit"]));
    line(
        "Heap Memory (MB)",
        format!("{} / {limit}", mebibytes(number(&memory["used"]))),
    )?;
    line(
        "Off Heap Memory (MB)",
        mebibytes(number(&memory["sstables"])),
    )?;
    line("Data Center", text(&node["data_center"]).to_owned())?;
    line("Rack", text(&node["rack"]).to_owned())?;
    line("Exceptions", node["exceptions"].to_string())?;
    for (name, key) in [
        ("Key Cache", "key_cache"),
        ("Row Cache", "row_cache"),
        ("Counter Cache", "counter_cache"),
    ] {
        line(name, saved_cache(&node[key]))?;
    }
    let cache = &node["chunk_cache"];
    let (hits, misses) = (number(&cache["hits"]), number(&cache["misses"]));
    let requests = hits + misses;
    line(
        "Chunk Cache",
        format!(
            "entries {}, size {}, capacity {}, {misses} misses, {requests} requests, {} recent hit \
             rate, NaN microseconds miss latency",
            number(&cache["chunks"]),
            file_size(number(&cache["size"])),
            file_size(number(&cache["capacity"])),
            fixed(hits as f64 / requests as f64, 3),
        ),
    )?;
    line(
        "Network Cache",
        "size 0 bytes, overflow size: 0 bytes, capacity 0 bytes".to_owned(),
    )?;
    line("Percent Repaired", "0.0%".to_owned())?;
    for token in tokens(&node, all_tokens) {
        line("Token", token)?;
    }
    line("Bootstrap state", "COMPLETED".to_owned())?;
    line("Bootstrap failed", "false".to_owned())?;
    line("Decommissioning", "false".to_owned())?;
    line("Decommission failed", "false".to_owned())?;
    Ok(())
}
