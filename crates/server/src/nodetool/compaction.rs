//! Compaction: what runs, what is to run, what people ask for.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::{Compact, ScrubHow, VerifyHow};
use super::structured::{self, Format};
use super::text::{TextTable, file_size, fixed};

/// Compacts (Cassandra's `Compact`).
pub(super) fn compact(api: &Api, options: &Compact) -> Done {
    let arguments = &options.arguments;
    let usage = |message: &str| Err(NodetoolError::Usage(message.to_owned()));
    if options.user_defined {
        if arguments.is_empty() {
            return usage("compact --user-defined requires the data files of sstables");
        }
        let query = [("files", &*arguments.join(","))];
        return api
            .post(["compaction_manager", "user_defined"], &query)
            .map(drop);
    }
    let ranged = options.start_token.is_some() || options.end_token.is_some();
    if options.split_output && (ranged || options.partition.is_some()) {
        return usage("Invalid option combination: Can not use split-output here");
    }
    let split = if options.split_output {
        "true"
    } else {
        "false"
    };
    let Some((keyspace, tables)) = arguments.split_first() else {
        if ranged || options.partition.is_some() {
            return usage("name the keyspace whose partitions are meant");
        }
        let parts = ["storage_service", "compact"];
        return api.post(parts, &[("split_output", split)]).map(drop);
    };
    let text = |token: Option<i64>| token.map_or_else(String::new, |token| token.to_string());
    let query = [
        ("cf", &*tables.join(",")),
        ("split_output", split),
        ("start_token", &text(options.start_token)),
        ("end_token", &text(options.end_token)),
        (
            "partition",
            options.partition.as_deref().unwrap_or_default(),
        ),
    ];
    api.post(["storage_service", "keyspace_compaction", keyspace], &query)
        .map(drop)
}

/// An operation on tables: all, those of a keyspace, or some of it.
pub(super) fn operate(
    api: &Api,
    name: &str,
    (keyspace, tables): (Option<&str>, &[String]),
    more: &[(&str, &str)],
) -> Result<Value, NodetoolError> {
    let cf = tables.join(",");
    let mut query = vec![("kn", keyspace.unwrap_or_default()), ("cf", &cf)];
    query.extend_from_slice(more);
    api.post(["storage_service", name], &query)
}

/// Checks all checksums (Cassandra's `Verify`).
pub(super) fn verify(api: &Api, tables: (Option<&str>, &[String]), how: VerifyHow) -> Done {
    if how.check_tokens && !how.extended_verify {
        let message = "Token verification requires --extended-verify".to_owned();
        return Err(NodetoolError::Usage(message));
    }
    let flag = |on: bool| if on { "true" } else { "false" };
    let more = [
        ("dfp", flag(how.dfp)),
        ("check_version", flag(how.check_version)),
        ("quick", flag(how.quick)),
    ];
    let wrong = operate(api, "verify", tables, &more)?;
    let wrong: Vec<&str> = wrong
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(NodetoolError::Failed(wrong.join("; "))),
    }
}

/// Rewrites what can be read (Cassandra's `Scrub`), and says what could not.
pub(super) fn scrub(
    api: &Api,
    tables: (Option<&str>, &[String]),
    (no_snapshot, how): (bool, ScrubHow),
    out: &mut impl Write,
) -> Done {
    let flag = |on: bool| if on { "true" } else { "false" };
    let more = [
        ("disable_snapshot", flag(no_snapshot)),
        ("skip_corrupted", flag(how.skip_corrupted)),
        ("no_validate", flag(how.no_validate)),
        ("reinsert_overflowed_ttl", flag(how.reinsert_overflowed_ttl)),
    ];
    let done = operate(api, "scrub", tables, &more)?;
    let count = |name: &str| done[name].as_u64().unwrap_or(0);
    let (skipped, cut, bytes) = (count("skipped"), count("cut"), count("lost_bytes"));
    if skipped + cut == 0 {
        return Ok(());
    }
    write!(
        out,
        "{skipped} partitions could not be read and were left out"
    )?;
    if cut > 0 {
        write!(out, ", {cut} only up to where they are damaged")?;
    }
    if bytes > 0 {
        write!(
            out,
            ", and {bytes} bytes behind them, as the index is damaged too"
        )?;
    }
    match done["snapshot"].as_str() {
        Some(tag) => writeln!(out, "; the sstables as they were are in the snapshot {tag}")?,
        None => writeln!(out)?,
    }
    Ok(())
}

/// Stops compactions (Cassandra's `Stop`).
pub(super) fn stop(api: &Api, kind: Option<&str>, id: Option<&str>) -> Done {
    let query = match (kind, id) {
        (_, Some(id)) => ("id", id),
        (Some(kind), None) => ("type", kind),
        (None, None) => ("type", "COMPACTION"),
    };
    api.post(["compaction_manager", "stop_compaction"], &[query])
        .map(drop)
}

const AUTO: [&str; 2] = ["storage_service", "auto_compaction"];

/// Lets strategies choose compactions, or not.
pub(super) fn set_auto(api: &Api, (keyspace, tables): (Option<&str>, &[String]), on: bool) -> Done {
    let cf = tables.join(",");
    let query = [("kn", keyspace.unwrap_or_default()), ("cf", &cf)];
    match on {
        true => api.post(AUTO, &query).map(drop),
        false => api.delete(AUTO, &query).map(drop),
    }
}

/// Prints whether they do (Cassandra's `StatusAutoCompaction`).
pub(super) fn status_auto(
    api: &Api,
    (keyspace, tables): (Option<&str>, &[String]),
    all: bool,
    out: &mut impl Write,
) -> Done {
    let cf = tables.join(",");
    let answer = api.get(AUTO, &[("kn", keyspace.unwrap_or_default()), ("cf", &cf)])?;
    let found = answer.as_array().map_or(&[][..], Vec::as_slice);
    let said = |on: bool| if on { "running" } else { "not running" };
    if all {
        let mut table = TextTable::default();
        table.add(["Keyspace", "Table", "Status"]);
        for one in found {
            let text = |name: &str| one[name].as_str().unwrap_or_default();
            table.add([text("keyspace"), text("table"), said(one["on"] == true)]);
        }
        return Ok(write!(out, "{}", table.text())?);
    }
    let on = found.iter().filter(|one| one["on"] == true).count();
    let status = match on {
        0 => said(false),
        _ if on == found.len() => said(true),
        _ => "partially running",
    };
    Ok(writeln!(out, "{status}")?)
}

/// Prints what compaction does and has to do (Cassandra's `CompactionStats`).
pub(super) fn stats(api: &Api, human: bool, out: &mut impl Write) -> Done {
    let report = api.get(["compaction_manager", "compactions"], &[])?;
    let size = |value: &Value| match human {
        true => file_size(number(value)),
        false => number(value).to_string(),
    };
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let (pending, running) = (list("pending"), list("running"));
    let mut table = TextTable::default();
    // Two a shard at most, the second one beside a much larger one.
    let compactors = 2 * number(&report["shards"]);
    table.add(["concurrent compactors", &compactors.to_string()]);
    let tasks: u64 = pending.iter().map(|one| number(&one["count"])).sum();
    table.add(["pending tasks", &tasks.to_string()]);
    for one in &pending {
        let count = number(&one["count"]).to_string();
        table.add([text(&one["keyspace"]), text(&one["table"]), &count]);
    }
    let completed = number(&report["completed"]);
    let hours = number(&report["uptime_seconds"]).max(1) as f64 / 3600.0;
    let mean = format!("{}/hour", fixed(completed as f64 / hours, 2));
    table.add(["compactions completed", &completed.to_string()]);
    table.add(["data compacted", &size(&report["compacted_bytes"])]);
    table.add([
        "compactions aborted",
        &number(&report["failed"]).to_string(),
    ]);
    table.add(["mean rate", &mean]);
    table.add(["compaction throughput (MiB/s)", "throttling disabled (0)"]);
    add_running(&mut table, &running, size);
    write!(out, "{}", table.text())?;
    if !running.is_empty() {
        let remaining = "Active compaction remaining time : ";
        writeln!(out, "{remaining:>25}{:>10}", "n/a")?;
    }
    Ok(())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The compactions that run, below what is above them in the same columns.
fn add_running(table: &mut TextTable, running: &[Value], size: impl Fn(&Value) -> String) {
    if running.is_empty() {
        return;
    }
    let heads = "id,compaction type,keyspace,table,completed,total,unit,progress";
    table.add(heads.split(','));
    for one in running {
        let (done, total) = (number(&one["completed"]), number(&one["total"]));
        let progress = match total {
            0 => "n/a".to_owned(),
            _ => format!("{}%", fixed(done as f64 / total as f64 * 100.0, 2)),
        };
        table.add([
            text(&one["id"]),
            text(&one["kind"]),
            text(&one["keyspace"]),
            text(&one["table"]),
            &size(&one["completed"]),
            &size(&one["total"]),
            "bytes",
            &progress,
        ]);
    }
}

/// The columns of the history.
const HISTORY: [&str; 8] = [
    "id",
    "keyspace_name",
    "columnfamily_name",
    "compacted_at",
    "bytes_in",
    "bytes_out",
    "rows_merged",
    "compaction_properties",
];

/// Prints the compactions that were done (Cassandra's `CompactionHistory`).
pub(super) fn history(api: &Api, format: Option<Format>, out: &mut impl Write) -> Done {
    let done = api.get(["compaction_manager", "compaction_history"], &[])?;
    let row = |record: &Value| {
        // As FBUtilities.toString has maps.
        let merged = record["rows_merged"].as_array().into_iter().flatten();
        let merged = merged.map(|entry| format!("{}:{}", entry["key"], entry["value"]));
        let merged: Vec<String> = merged.collect();
        let properties = record["compaction_properties"]
            .as_object()
            .into_iter()
            .flatten();
        let properties = properties
            .map(|(name, value)| format!("{name}:{}", value.as_str().unwrap_or_default()));
        let properties: Vec<String> = properties.collect();
        let values = [
            record["id"].clone(),
            record["ks"].clone(),
            record["cf"].clone(),
            record["compacted_at"].clone(),
            record["bytes_in"].clone(),
            record["bytes_out"].clone(),
            json!(format!("{{{}}}", merged.join(", "))),
            json!(format!("{{{}}}", properties.join(", "))),
        ];
        HISTORY
            .into_iter()
            .map(str::to_owned)
            .zip(values)
            .collect::<Map<String, Value>>()
    };
    let rows: Vec<Map<String, Value>> = done.as_array().into_iter().flatten().map(row).collect();
    if let Some(format) = format {
        return structured::print(format, &json!({ "CompactionHistory": rows }), out);
    }
    writeln!(out, "Compaction History: ")?;
    if rows.is_empty() {
        return Ok(writeln!(out, "There is no compaction history")?);
    }
    let mut table = TextTable::default();
    table.add(HISTORY);
    for row in &rows {
        let text = |name: &str| match &row[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.add(HISTORY.map(text));
    }
    Ok(write!(out, "{}", table.text())?)
}

/// Nothing is to be set, which is said: scripts written for Cassandra go on.
pub(super) fn set_throughput(value: u64, out: &mut impl Write) -> Done {
    if value > 0 {
        writeln!(
            out,
            "Nothing was set: compaction has no throughput to limit, it takes what clients leave"
        )?;
    }
    Ok(())
}

/// There is no limit, which Cassandra calls 0.
pub(super) fn get_throughput(precise: bool, out: &mut impl Write) -> Done {
    let none = if precise { "0.0 MiB/s" } else { "0 MB/s" };
    Ok(writeln!(out, "Current compaction throughput: {none}")?)
}
