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
    // Of these Cassandra's says that they failed.
    let failed = |message: &str| Err(NodetoolError::Failed(message.to_owned()));
    let ranged = options.start_token.is_some() || options.end_token.is_some();
    let is_partial = ranged || options.partition.is_some();
    if options.split_output && (options.user_defined || is_partial) {
        return failed("Invalid option combination: Can not use split-output here");
    }
    if options.user_defined && is_partial {
        return failed(
            "Invalid option combination: Can not provide tokens when using user-defined",
        );
    }
    if options.user_defined {
        if arguments.is_empty() {
            return usage("compact --user-defined requires the data files of sstables");
        }
        let query = [("files", &*arguments.join(","))];
        return api
            .post(["compaction_manager", "user_defined"], &query)
            .map(drop);
    }
    let split = if options.split_output {
        "true"
    } else {
        "false"
    };
    let Some((keyspace, tables)) = arguments.split_first() else {
        if is_partial {
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

/// Rewrites old sstables (Cassandra's `UpgradeSSTable`).
pub(super) fn upgrade(
    api: &Api,
    tables: (Option<&str>, &[String]),
    all: bool,
    until: Option<i64>,
) -> Done {
    let all = if all { "true" } else { "false" };
    let until = until.map_or_else(String::new, |until| until.to_string());
    let more = [("all", all), ("max_timestamp", &*until)];
    operate(api, "upgrade_sstables", tables, &more).map(drop)
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
pub(super) fn stats(api: &Api, human: bool, vtable: bool, out: &mut impl Write) -> Done {
    let report = api.get(["compaction_manager", "compactions"], &[])?;
    Ok(write!(
        out,
        "{}",
        stats_table(&report, human, vtable).text()
    )?)
}

fn stats_table(report: &Value, human: bool, vtable: bool) -> TextTable {
    let size = |value: &Value| match human {
        true => file_size(number(value)),
        false => number(value).to_string(),
    };
    let list = |name: &str| report[name].as_array().map_or(&[][..], Vec::as_slice);
    let pending = list("pending");
    let mut table = TextTable::default();
    // Two a shard at most, the second one beside a much larger one.
    let compactors = 2 * number(&report["shards"]);
    table.add(["concurrent compactors", &compactors.to_string()]);
    let tasks: u64 = pending.iter().map(|one| number(&one["count"])).sum();
    table.add(["pending tasks", &tasks.to_string()]);
    for one in pending {
        let count = number(&one["count"]).to_string();
        table.add([text(&one["keyspace"]), text(&one["table"]), &count]);
    }
    add_done(&mut table, report, &size(&report["compacted_bytes"]));
    add_running(&mut table, list("running"), vtable, size);
    table
}

/// What was done since the start. No compaction is made smaller here for want of space, so none
/// leaves out sstables.
fn add_done(table: &mut TextTable, report: &Value, bytes: &str) {
    let completed = number(&report["completed"]);
    let hours = number(&report["uptime_seconds"]).max(1) as f64 / 3600.0;
    // The mean of the last minutes; Cassandra's weighs the later ones more.
    let recent = number(&report["recent"]) as f64 / node::RECENT_MINUTES as f64;
    let failed = number(&report["failed"]);
    table.add(["compactions completed", &completed.to_string()]);
    table.add(["data compacted", bytes]);
    table.add(["compactions aborted", &failed.to_string()]);
    table.add(["compactions reduced", "0"]);
    table.add(["sstables dropped from compaction", "0"]);
    table.add(["15 minute rate", &format!("{}/minute", fixed(recent, 2))]);
    table.add([
        "mean rate",
        &format!("{}/hour", fixed(completed as f64 / hours, 2)),
    ]);
    table.add(["compaction throughput (MiB/s)", "throttling disabled (0)"]);
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The columns of the compactions that run.
const RUNNING: &str = "id,compaction type,keyspace,table,completed,total,unit,progress";

/// As they are in `system_views.sstable_tasks`.
const RUNNING_AS_VTABLE: &str = "keyspace,table,task id,completion ratio,kind,progress,sstables,\
                                 total,unit,target directory";

/// The compactions that run, below what is above them in the same columns.
fn add_running(
    table: &mut TextTable,
    running: &[Value],
    vtable: bool,
    size: impl Fn(&Value) -> String,
) {
    if running.is_empty() {
        return;
    }
    let heads = if vtable { RUNNING_AS_VTABLE } else { RUNNING };
    table.add(heads.split(','));
    for one in running {
        let (done, total) = (number(&one["completed"]), number(&one["total"]));
        let ratio = match total {
            0 => "n/a".to_owned(),
            _ => format!("{}%", fixed(done as f64 / total as f64 * 100.0, 2)),
        };
        let [id, kind, keyspace, name] =
            ["id", "kind", "keyspace", "table"].map(|field| text(&one[field]));
        let (done, total) = (size(&one["completed"]), size(&one["total"]));
        let sstables = number(&one["sstables"]).to_string();
        match vtable {
            true => table.add([
                keyspace, name, id, &ratio, kind, &done, &sstables, &total, "bytes", "",
            ]),
            false => table.add([id, kind, keyspace, name, &done, &total, "bytes", &ratio]),
        }
    }
    // Without a limit of the throughput there is nothing to tell it by.
    table.add(["active compaction remaining time", "n/a"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_are_shown_in_cassandras_rows() {
        let running = json!({
            "id": "0-1", "kind": "Compaction", "keyspace": "ks", "table": "t",
            "completed": 512, "total": 2048, "sstables": 4,
        });
        let report = json!({
            "running": [running], "pending": [{ "keyspace": "ks", "table": "t", "count": 3 }],
            "completed": 30, "compacted_bytes": 4096, "failed": 1, "recent": 30, "shards": 2,
            "uptime_seconds": 7200,
        });
        let lines = |vtable| -> Vec<String> {
            let text = stats_table(&report, false, vtable).text();
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            text.lines().map(words).collect()
        };
        let expected = "concurrent compactors 4|pending tasks 3|ks t 3|compactions completed 30|\
                        data compacted 4096|compactions aborted 1|compactions reduced 0|\
                        sstables dropped from compaction 0|15 minute rate 2.00/minute|\
                        mean rate 15.00/hour|\
                        compaction throughput (MiB/s) throttling disabled (0)|\
                        id compaction type keyspace table completed total unit progress|\
                        0-1 Compaction ks t 512 2048 bytes 25.00%|\
                        active compaction remaining time n/a";
        assert_eq!(lines(false).join("|"), expected);
        let vtable = lines(true);
        assert_eq!(
            vtable[11],
            "keyspace table task id completion ratio kind progress sstables total unit target \
             directory"
        );
        assert_eq!(vtable[12], "ks t 0-1 25.00% Compaction 512 4 2048 bytes");
    }
}
