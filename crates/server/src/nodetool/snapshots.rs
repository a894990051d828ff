//! Snapshots and backups.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::Snapshot;
use super::text::{TextTable, file_size};

const SNAPSHOTS: [&str; 2] = ["storage_service", "snapshots"];
const BACKUPS: [&str; 2] = ["storage_service", "incremental_backups"];

/// Makes a snapshot (Cassandra's `Snapshot`).
pub(super) fn take(api: &Api, what: &Snapshot, out: &mut impl Write) -> Done {
    let (table, ttl) = (what.column_family.as_deref(), what.ttl.as_deref());
    let list = what.kt_list.as_ref().map(|list| list.replace(' ', ""));
    let named = match &list {
        Some(_) if table.is_some() || !what.keyspaces.is_empty() => {
            return Err(NodetoolError::Usage(
                "When specifying the Keyspace table list (using -kt,--kt-list,-kc,--kc.list), you \
                 must not also specify keyspaces to snapshot"
                    .to_owned(),
            ));
        }
        Some(list) => list.clone(),
        None if what.keyspaces.is_empty() => "all keyspaces".to_owned(),
        None => what.keyspaces.join(", "),
    };
    if table.is_some() && what.keyspaces.len() != 1 {
        let message = "with -cf name the one keyspace of the table".to_owned();
        return Err(NodetoolError::Usage(message));
    }
    let tag = what.tag.clone().unwrap_or_else(now_millis);
    let skip_flush = what.skip_flush;
    let mut options = format!("skipFlush={skip_flush}");
    if let Some(ttl) = ttl {
        options.push_str(&format!(", ttl={ttl}"));
    }
    let seconds = ttl
        .map(seconds)
        .transpose()?
        .map(|seconds| seconds.to_string());
    writeln!(
        out,
        "Requested creating snapshot(s) for [{named}] with snapshot name [{tag}] and options \
         {{{options}}}"
    )?;
    let query = [
        ("tag", &*tag),
        ("kn", &what.keyspaces.join(",")),
        ("cf", table.unwrap_or_default()),
        ("kt", &list.unwrap_or_default()),
        ("sf", if skip_flush { "true" } else { "false" }),
        ("ttl", &seconds.unwrap_or_default()),
    ];
    api.post(SNAPSHOTS, &query)?;
    Ok(writeln!(out, "Snapshot directory: {tag}")?)
}

fn now_millis() -> String {
    // A command of its own, without a shard whose clock it could ask.
    #[allow(clippy::disallowed_methods)]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis().to_string()
}

/// A time in seconds, as Cassandra writes durations.
fn seconds(text: &str) -> Result<u64, NodetoolError> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match text[digits.len()..].trim() {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let number: Option<u64> = digits.parse().ok();
    let seconds = number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    seconds.ok_or_else(|| {
        NodetoolError::Usage(format!(
            "`{text}` is no time; one looks like 3d, 12h or 90m"
        ))
    })
}

/// Prints all snapshots (Cassandra's `ListSnapshots`).
pub(super) fn list(api: &Api, no_ttl: bool, out: &mut impl Write) -> Done {
    writeln!(out, "Snapshot Details: ")?;
    let all = api.get(SNAPSHOTS, &[])?;
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    let shown = all.iter().filter(|s| !no_ttl || s["expires_at"].is_null());
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        return Ok(writeln!(out, "There are no snapshots")?);
    }
    let mut table = TextTable::default();
    table.add([
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
    ]);
    let mut total = 0;
    for snapshot in shown {
        let text = |name: &str| snapshot[name].as_str().unwrap_or_default();
        let number = |name: &str| snapshot[name].as_u64().unwrap_or(0);
        table.add([
            text("tag"),
            text("keyspace"),
            text("table"),
            &file_size(number("true_size")),
            &file_size(number("size")),
            text("created_at"),
            text("expires_at"),
        ]);
        total += number("true_data_size");
    }
    write!(out, "{}", table.text())?;
    Ok(writeln!(
        out,
        "\nTotal TrueDiskSpaceUsed: {}\n",
        file_size(total)
    )?)
}

/// Removes snapshots (Cassandra's `ClearSnapshot`).
pub(super) fn clear(
    api: &Api,
    (tag, all): (Option<&str>, bool),
    keyspaces: &[String],
    out: &mut impl Write,
) -> Done {
    let usage = |message: &str| Err(NodetoolError::Usage(message.to_owned()));
    let which = match (tag, all) {
        (None, false) => return usage("Specify snapshot name or --all"),
        (Some(_), true) => return usage("Specify only one of snapshot name or --all"),
        (Some(tag), false) => format!("snapshot name [{tag}]"),
        (None, true) => "[all snapshots]".to_owned(),
    };
    let named = match keyspaces {
        [] => "all keyspaces".to_owned(),
        _ => keyspaces.join(", "),
    };
    writeln!(
        out,
        "Requested clearing snapshot(s) for [{named}] with {which}"
    )?;
    let query = [
        ("tag", tag.unwrap_or_default()),
        ("kn", &keyspaces.join(",")),
    ];
    api.delete(SNAPSHOTS, &query).map(drop)
}

/// Switches incremental backups.
pub(super) fn set_backups(api: &Api, on: bool) -> Done {
    let value = if on { "true" } else { "false" };
    api.post(BACKUPS, &[("value", value)]).map(drop)
}

/// Are there incremental backups?
pub(super) fn status_backups(api: &Api, out: &mut impl Write) -> Done {
    let on = api.get(BACKUPS, &[])? == true;
    let said = if on { "running" } else { "not running" };
    Ok(writeln!(out, "{said}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cassandras() {
        for (text, expected) in [("90m", 5400), ("3d", 259_200), ("60s", 60), ("2 h", 7200)] {
            assert_eq!(seconds(text).ok(), Some(expected), "{text}");
        }
        for text in ["", "1", "d", "1w", "-1s", "99999999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
