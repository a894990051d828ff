//! What is set while a node runs: timeouts, tracing, logs, the batch log.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map, Value, json};

use super::Done;
use super::api::{Api, NodetoolError};
use super::setting_verbs::SettingVerb;
use super::structured;

const TRACE: [&str; 2] = ["storage_service", "trace_probability"];
const THROTTLE: [&str; 2] = ["batchlog_manager", "throttle"];
const LOGGER: [&str; 2] = ["system", "logger"];

/// Cassandra's `GetTimeout.TIMEOUT_TYPES`.
const TIMEOUT_TYPES: &str = "read, range, write, counterwrite, cascontention, truncate, \
                             internodeconnect, internodeuser, internodestreaminguser, misc (general \
                             rpc_timeout_in_ms)";

/// Those that do not exist here, and why.
const NO_TIMEOUTS: [(&str, &str); 3] = [
    (
        "internodeuser",
        "Helenus has no such timeout: a node that is silent while an answer is due is given up after 2 s",
    ),
    (
        "internodestreaminguser",
        "Helenus has no such timeout: nothing is streamed",
    ),
    (
        "misc",
        "Helenus has no such timeout: each kind of request has its own",
    ),
];

/// Carries out a verb.
pub(super) fn carry_out(api: &Api, verb: SettingVerb, out: &mut impl Write) -> Done {
    match verb {
        SettingVerb::Datapaths { format, names } => data_paths(api, format, &names, out),
        SettingVerb::Getbatchlogreplaythrottle => {
            let bytes = api.get(THROTTLE, &[])?.as_u64().unwrap_or(0);
            let kib = bytes / 1024;
            Ok(writeln!(out, "Batchlog replay throttle: {kib} KB/s")?)
        }
        SettingVerb::Getcompactionthreshold { names } => compaction_threshold(api, &names, out),
        SettingVerb::Getlogginglevels => logging_levels(api, out),
        SettingVerb::Getseeds => seeds(
            api,
            "Current list of seed node IPs, excluding the current node's IP",
            out,
        ),
        SettingVerb::Gettimeout { kind } => get_timeout(api, &kind, out),
        SettingVerb::Gettraceprobability => {
            let probability = api.get(TRACE, &[])?;
            let probability = probability.as_f64().unwrap_or(f64::NAN);
            Ok(writeln!(out, "Current trace probability: {probability:?}")?)
        }
        SettingVerb::Refreshsizeestimates => {
            let path = ["storage_service", "size_estimates"];
            api.post(path, &[]).map(drop)
        }
        SettingVerb::Reloadseeds => seeds(
            api,
            "Updated seed node IP list, excluding the current node's IP",
            out,
        ),
        SettingVerb::Reloadssl => {
            let path = ["storage_service", "certificates"];
            api.post(path, &[]).map(drop)
        }
        SettingVerb::Replaybatchlog => api.post(["batchlog_manager", "replay"], &[]).map(drop),
        SettingVerb::Setbatchlogreplaythrottle { value } => {
            let bytes = (u64::from(value) * 1024).to_string();
            api.post(THROTTLE, &[("bytes", &bytes)]).map(drop)
        }
        SettingVerb::Setlogginglevel { component, level } => {
            let given = |text: &Option<String>| text.clone().unwrap_or_default();
            let (component, level) = (given(&component), given(&level));
            let query = [("name", component.as_str()), ("level", level.as_str())];
            api.post(LOGGER, &query).map(drop)
        }
        SettingVerb::Settimeout { arguments } => set_timeout(api, &arguments),
        SettingVerb::Settraceprobability { value } => {
            // Some verbs look before they ask, as others of the node do.
            let value = value.to_string();
            api.post(TRACE, &[("probability", &value)]).map(drop)
        }
    }
}

fn refused(message: impl Into<String>) -> NodetoolError {
    NodetoolError::Usage(message.into())
}

/// A timeout that is here.
fn timeout_of(kind: &str) -> Result<[&str; 3], NodetoolError> {
    if let Some((_, reason)) = NO_TIMEOUTS.iter().find(|(name, _)| *name == kind) {
        return Err(refused(format!("{kind}: {reason}")));
    }
    let is_known = TIMEOUT_TYPES.split(", ").any(|known| known == kind);
    match is_known {
        true => Ok(["storage_proxy", "timeout", kind]),
        false => Err(refused(format!(
            "Timeout type requires one of ({TIMEOUT_TYPES})"
        ))),
    }
}

fn get_timeout(api: &Api, arguments: &[String], out: &mut impl Write) -> Done {
    let [kind] = arguments else {
        let message = format!("gettimeout requires a timeout type, one of ({TIMEOUT_TYPES})");
        return Err(refused(message));
    };
    let millis = api.get(timeout_of(kind)?, &[])?;
    Ok(writeln!(
        out,
        "Current timeout for type {kind}: {millis} ms"
    )?)
}

fn set_timeout(api: &Api, arguments: &[String]) -> Done {
    let [kind, millis] = arguments else {
        return Err(refused(format!(
            "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be \
             one of ({TIMEOUT_TYPES})"
        )));
    };
    // Java's words, which Cassandra shows.
    let number: i64 = millis
        .parse()
        .map_err(|_| refused(format!("For input string: \"{millis}\"")))?;
    if number < 0 {
        return Err(refused("timeout must be non-negative"));
    }
    let path = timeout_of(kind)?;
    api.post(path, &[("ms", &number.to_string())]).map(drop)
}

/// Prints where the node asks for a cluster (Cassandra's `GetSeeds`, `ReloadSeeds`).
fn seeds(api: &Api, heading: &str, out: &mut impl Write) -> Done {
    let seeds = api.get(["gossiper", "seeds"], &[])?;
    let seeds = seeds.as_array().into_iter().flatten();
    // As Java shows addresses.
    let seeds: Vec<String> = seeds
        .filter_map(Value::as_str)
        .map(|seed| format!("/{seed}"))
        .collect();
    match seeds.is_empty() {
        true => writeln!(out, "Seed node list does not contain any remote node IPs")?,
        false => writeln!(out, "{heading}: {}", seeds.join(" "))?,
    }
    Ok(())
}

/// Prints what is logged (Cassandra's `GetLoggingLevels`).
fn logging_levels(api: &Api, out: &mut impl Write) -> Done {
    let levels = api.get(LOGGER, &[])?;
    writeln!(out, "\n{:<50}{:>10}", "Logger Name", "Log Level")?;
    for level in levels.as_array().into_iter().flatten() {
        let [name, level] = ["name", "level"].map(|part| level[part].as_str().unwrap_or("?"));
        writeln!(out, "{name:<50}{level:>10}")?;
    }
    Ok(())
}

/// Prints how many sstables a compaction takes (Cassandra's `GetCompactionThreshold`).
fn compaction_threshold(api: &Api, names: &[String], out: &mut impl Write) -> Done {
    let [keyspace, table] = names else {
        let message = "getcompactionthreshold requires ks and cf args";
        return Err(refused(message));
    };
    let path = ["column_family", "compaction_threshold", keyspace];
    let found = api.get(path, &[("cf", table)])?;
    writeln!(
        out,
        "Current compaction thresholds for {keyspace}/{table}: \n min = {},  max = {}",
        found["min"], found["max"]
    )?;
    Ok(())
}

/// Prints where tables have their files (Cassandra's `DataPaths`).
fn data_paths(
    api: &Api,
    format: Option<structured::Format>,
    names: &[String],
    out: &mut impl Write,
) -> Done {
    let all = api.get(["column_family", "data_paths"], &[])?;
    let mut keyspaces: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    let mut found = vec![false; names.len()];
    for table in all.as_array().into_iter().flatten() {
        let part = |part: &str| table[part].as_str().unwrap_or("?");
        let (keyspace, name) = (part("keyspace"), part("table"));
        let full = format!("{keyspace}.{name}");
        let mut wanted = names.is_empty();
        for (asked, found) in names.iter().zip(&mut found) {
            if asked == keyspace || *asked == full {
                (wanted, *found) = (true, true);
            }
        }
        if wanted {
            let tables = keyspaces.entry(keyspace).or_default();
            tables.insert(name, part("path"));
        }
    }
    if let Some((missing, _)) = names.iter().zip(&found).find(|(_, found)| !**found) {
        return Err(refused(super::statistics::unknown(missing)));
    }
    if let Some(format) = format {
        let tables = |tables: &BTreeMap<&str, &str>| {
            let paths = tables.iter();
            let paths = paths.map(|(name, path)| ((*name).to_owned(), json!([path])));
            Value::Object(paths.collect())
        };
        let value: Map<String, Value> = keyspaces
            .iter()
            .map(|(name, of_keyspace)| ((*name).to_owned(), tables(of_keyspace)))
            .collect();
        return structured::print(format, &Value::Object(value), out);
    }
    for (keyspace, tables) in keyspaces {
        writeln!(out, "Keyspace: {keyspace}")?;
        for (name, path) in tables {
            writeln!(out, "\tTable: {name}\n\tPaths:\n\t\t{path}\n")?;
        }
    }
    Ok(())
}
