//! Snapshots and backups.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Done;
use super::api::{Api, NodetoolError};
use super::arguments::{ClearSnapshot, Snapshot};
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
            "Invalid duration: {text} Accepted units:[SECONDS, MINUTES, HOURS, DAYS] where case \
             matters and only non-negative values."
        ))
    })
}

/// Prints all snapshots (Cassandra's `ListSnapshots`).
pub(super) fn list(api: &Api, no_ttl: bool, ephemeral: bool, out: &mut impl Write) -> Done {
    writeln!(out, "Snapshot Details: ")?;
    let all = api.get(SNAPSHOTS, &[])?;
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    let shown = all.iter().filter(|s| !no_ttl || s["expires_at"].is_null());
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        return Ok(writeln!(out, "There are no snapshots")?);
    }
    let mut table = TextTable::default();
    let shown_columns = if ephemeral { 8 } else { 7 };
    let heads = [
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
        "Ephemeral",
    ];
    table.add(heads.into_iter().take(shown_columns));
    let mut total = 0;
    for snapshot in shown {
        let text = |name: &str| snapshot[name].as_str().unwrap_or_default();
        let number = |name: &str| snapshot[name].as_u64().unwrap_or(0);
        let cells = [
            text("tag"),
            text("keyspace"),
            text("table"),
            &file_size(number("true_size")),
            &file_size(number("size")),
            text("created_at"),
            text("expires_at"),
            "false",
        ];
        table.add(cells.into_iter().take(shown_columns));
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
pub(super) fn clear(api: &Api, which: &ClearSnapshot, out: &mut impl Write) -> Done {
    check(which)?;
    let named = match &which.keyspaces[..] {
        [] => "all keyspaces".to_owned(),
        keyspaces => keyspaces.join(", "),
    };
    let mut meant = match &which.tag {
        Some(tag) => format!("snapshot name [{tag}]"),
        None => "[all snapshots]".to_owned(),
    };
    let (mut older_than, mut made_before) = (String::new(), String::new());
    if let Some(text) = &which.older_than {
        older_than = seconds(text)?.to_string();
        meant.push_str(&format!(" older than {older_than} seconds."));
    }
    if let Some(text) = &which.older_than_timestamp {
        made_before = millis(text)?.to_string();
        meant.push_str(&format!(" older than timestamp {text}"));
    }
    writeln!(
        out,
        "Requested clearing snapshot(s) for [{named}] with {meant}"
    )?;
    let query = [
        ("tag", which.tag.as_deref().unwrap_or_default()),
        ("kn", &which.keyspaces.join(",")),
        ("older_than", &older_than),
        ("made_before", &made_before),
    ];
    api.delete(SNAPSHOTS, &query).map(drop)
}

/// Do the options fit together?
fn check(which: &ClearSnapshot) -> Done {
    let (named, all) = (which.tag.is_some(), which.all);
    let (age, time) = (
        which.older_than.is_some(),
        which.older_than_timestamp.is_some(),
    );
    let wrong = if !named && !all {
        "Specify snapshot name or --all"
    } else if named && all {
        "Specify only one of snapshot name or --all"
    } else if age && time {
        "Specify only one of --older-than or --older-than-timestamp"
    } else if named && age {
        "Specifying snapshot name together with --older-than flag is not allowed"
    } else if named && time {
        "Specifying snapshot name together with --older-than-timestamp flag is not allowed"
    } else {
        return Ok(());
    };
    Err(NodetoolError::Usage(wrong.to_owned()))
}

/// A time as Java's `Instant.parse` takes it, in milliseconds since 1970.
fn millis(text: &str) -> Result<i64, NodetoolError> {
    let is_instant = text.ends_with(['Z', 'z']) && text.contains(['T', 't']);
    let time: Option<jiff::Timestamp> = text.parse().ok().filter(|_| is_instant);
    let time = time.ok_or_else(|| {
        NodetoolError::Usage(
            "Parameter --older-than-timestamp has to be a valid instant in ISO format.".to_owned(),
        )
    })?;
    Ok(time.as_millisecond())
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

    #[test]
    fn instants_are_javas() {
        assert_eq!(millis("1970-01-01T00:00:01Z").ok(), Some(1000));
        assert_eq!(
            millis("2022-12-03T10:15:30.250Z").ok(),
            Some(1_670_062_530_250)
        );
        for text in ["", "123", "2022-12-03", "2022-12-03T10:15:30"] {
            assert!(millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_all_snapshots_are_chosen_by_age() {
        let which = |tag: Option<&str>, all, older_than: Option<&str>, timestamp: Option<&str>| {
            let which = ClearSnapshot {
                tag: tag.map(str::to_owned),
                all,
                older_than: older_than.map(str::to_owned),
                older_than_timestamp: timestamp.map(str::to_owned),
                keyspaces: Vec::new(),
            };
            check(&which)
        };
        assert!(which(Some("a"), false, None, None).is_ok());
        assert!(which(None, true, Some("3h"), None).is_ok());
        assert!(which(None, true, None, Some("2022-12-03T10:15:30Z")).is_ok());
        for (tag, all, age, time) in [
            (None, false, None, None),
            (None, false, Some("3h"), None),
            (Some("a"), true, None, None),
            (None, true, Some("3h"), Some("t")),
            (Some("a"), false, Some("3h"), None),
            (Some("a"), false, None, Some("t")),
        ] {
            assert!(which(tag, all, age, time).is_err());
        }
    }
}
