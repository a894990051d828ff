//! What can be done, by method and path.

use std::path::PathBuf;

use node::{SnapshotAge, SnapshotSelection};
use serde_json::{Value, json};
use storage::{CompactionKind, CompactionScope, Granularity, ScrubOptions, VerifyOptions};

use super::{ApiError, Call, Node, answers, statistics};
use crate::control::Phase;

/// What a route answers.
pub(super) type Answer = Result<Value, ApiError>;

/// One thing that can be done.
pub(crate) struct Route {
    /// `GET` looks, `POST` changes, `DELETE` removes.
    pub(crate) method: &'static str,
    /// With parameters in braces.
    pub(crate) path: &'static str,
    /// What it does, in one line.
    pub(crate) summary: &'static str,
    /// Parameters behind the path, and what they mean.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// Does it; blocks.
    pub(crate) run: fn(&Node, &Call) -> Answer,
}

const CF: (&str, &str) = (
    "cf",
    "Tables, with commas between them; all if it is not given",
);

const KN: (&str, &str) = ("kn", "The keyspace; all if it is not given");
const SPLIT: (&str, &str) = ("split_output", "true: several outputs instead of one");

/// All of it.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/storage_service/release_version",
        summary: "The version of Cassandra that the node claims to be",
        query: &[],
        run: |node, _| Ok(json!(node.admin.information()?.release_version)),
    },
    Route {
        method: "GET",
        path: "/storage_service/scylla_release_version",
        summary: "The version of Helenus",
        query: &[],
        run: |_, _| Ok(json!(env!("CARGO_PKG_VERSION"))),
    },
    Route {
        method: "GET",
        path: "/storage_service/node_info",
        summary: "Who the node is, what it holds and for how long it has been up",
        query: &[],
        run: |node, _| {
            let details = node.admin.table_details(&node.admin.tables(None, &[])?)?;
            Ok(answers::node_info(&node.admin.information()?, &details))
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/keyspaces",
        summary: "The names of the keyspaces",
        query: &[("type", "user: only those that are not the system's")],
        run: keyspaces,
    },
    Route {
        method: "POST",
        path: "/storage_service/flush",
        summary: "Write all memtables to sstables",
        query: &[],
        run: |node, _| done(node.admin.flush(None, &[])),
    },
    Route {
        method: "POST",
        path: "/storage_service/keyspace_flush/{keyspace}",
        summary: "Write the memtables of a keyspace, or of some of its tables, to sstables",
        query: &[CF],
        run: |node, call| {
            let keyspace = call.need("keyspace")?;
            done(node.admin.flush(Some(keyspace), &call.list("cf")))
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/snapshots",
        summary: "All snapshots, those of dropped tables too",
        query: &[],
        run: |node, _| Ok(answers::snapshots(&node.admin.snapshots()?)),
    },
    Route {
        method: "POST",
        path: "/storage_service/snapshots",
        summary: "Make a snapshot of all tables, of some keyspaces, or of some tables",
        query: &[
            ("tag", "Its name"),
            (
                "kn",
                "Keyspaces, with commas between them; all if none are given",
            ),
            (
                "cf",
                "Tables of the one keyspace given, with commas between them",
            ),
            ("kt", "Tables as KEYSPACE.TABLE, with commas between them"),
            ("sf", "true: leave out what is in memory"),
            (
                "ttl",
                "Seconds after which it may be removed; it stays if this is not given",
            ),
        ],
        run: take_snapshot,
    },
    Route {
        method: "DELETE",
        path: "/storage_service/snapshots",
        summary: "Remove the snapshots of a name, or all if it is not given",
        query: &[
            ("tag", "The name"),
            (
                "kn",
                "Keyspaces, with commas between them; all if none are given",
            ),
            ("older_than", "Only those older than so many seconds"),
            (
                "made_before",
                "Only those made before this time, in milliseconds since 1970",
            ),
        ],
        run: clear_snapshots,
    },
    Route {
        method: "GET",
        path: "/storage_service/incremental_backups",
        summary: "Are new sstables linked into the backups?",
        query: &[],
        run: |node, _| Ok(json!(node.admin.incremental_backups()?)),
    },
    Route {
        method: "POST",
        path: "/storage_service/incremental_backups",
        summary: "Link new sstables into the backups, or no more, until the node ends",
        query: &[("value", "true or false")],
        run: |node, call| {
            call.need("value")?;
            done(node.admin.set_incremental_backups(call.flag("value")?))
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/import/{keyspace}",
        summary: "Import the sstables of a folder into a table; how many",
        query: &[
            ("cf", "The table"),
            ("path", "The folder, on the node's machine"),
            ("verify", "false: do not read them before"),
            (
                "keep_level",
                "true: they keep their levels of leveled compaction",
            ),
            ("keep_repaired", "true: they keep what they say of repairs"),
            ("copy", "true: leave them where they are, too"),
            (
                "check",
                "true: only look whether the folder is there and may be changed",
            ),
        ],
        run: import,
    },
    Route {
        method: "POST",
        path: "/storage_service/sstables/{keyspace}",
        summary: "Take the sstables that somebody put into a table's own folder; how many",
        query: &[("cf", "The table")],
        run: |node, call| {
            let (keyspace, table) = (call.need("keyspace")?, call.need("cf")?);
            Ok(json!(node.admin.refresh(keyspace, table)?))
        },
    },
    Route {
        method: "GET",
        path: "/column_family/stats",
        summary: "What tables hold and did since the start",
        query: &[KN, CF],
        run: |node, call| {
            let tables = node.admin.tables(call.get("kn"), &call.list("cf"))?;
            // All else is worth being told without the sizes of snapshots.
            let snapshots = node.admin.snapshots().unwrap_or_else(|error| {
                tracing::warn!("tablestats: snapshots cannot be listed: {error}");
                Vec::new()
            });
            let details = node.admin.table_details(&tables)?;
            Ok(statistics::tables(&tables, &details, &snapshots))
        },
    },
    Route {
        method: "GET",
        path: "/column_family/sstables/by_key/{name}",
        summary: "The data files of the sstables that have a partition of the table KEYSPACE:TABLE",
        query: &[
            (
                "key",
                "The partition key, with colons between the values of several columns",
            ),
            ("format", "hex: it is in hexadecimal digits"),
        ],
        run: sstables_by_key,
    },
    Route {
        method: "POST",
        path: "/storage_service/verify",
        summary: "Read all sstables and check all checksums; what is wrong",
        query: &[
            KN,
            CF,
            (
                "dfp",
                "true: do what disk_failure_policy says if one is damaged",
            ),
            (
                "check_version",
                "true: the version of each must be the one that is written",
            ),
            ("quick", "true: do not read the data"),
        ],
        run: verify,
    },
    Route {
        method: "POST",
        path: "/cache_service/invalidate_row_cache",
        summary: "Forget the rows that were kept for being read again",
        query: &[],
        run: |node, _| done(node.admin.invalidate_row_cache()),
    },
    Route {
        method: "POST",
        path: "/storage_service/compact",
        summary: "Compact all tables",
        query: &[SPLIT],
        run: |node, call| {
            let split_output = call.flag("split_output")?;
            let scope = CompactionScope::All { split_output };
            done(node.admin.compact(None, &[], scope))
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/keyspace_compaction/{keyspace}",
        summary: "Compact the tables of a keyspace, or some of them",
        query: &[
            CF,
            SPLIT,
            ("start_token", "Only what lies behind this token"),
            ("end_token", "Only what lies up to this token"),
            (
                "partition",
                "Only the sstables that may have this partition key",
            ),
        ],
        run: compact,
    },
    Route {
        method: "POST",
        path: "/compaction_manager/user_defined",
        summary: "Compact some sstables of a table together",
        query: &[(
            "files",
            "Their data files with their folders, with commas between them",
        )],
        run: |node, call| {
            call.need("files")?;
            let files: Vec<PathBuf> = call.list("files").iter().map(PathBuf::from).collect();
            done(node.admin.compact_files(&files))
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/garbage_collect",
        summary: "Drop what deletions in other sstables cover",
        query: &[KN, CF, ("granularity", "row (the default) or cell")],
        run: |node, call| {
            let granularity = match call.get("granularity").unwrap_or("row") {
                "row" => Granularity::Row,
                "cell" => Granularity::Cell,
                other => {
                    let message = format!("`granularity` is row or cell, not `{other}`");
                    return Err(ApiError::bad_request(message));
                }
            };
            let (keyspace, tables) = (call.get("kn"), call.list("cf"));
            Ok(json!(node.admin.garbage_collect(
                keyspace,
                &tables,
                granularity
            )?))
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/cleanup_all",
        summary: "Rewrite sstables that hold partitions of several shards",
        query: &[KN, CF],
        run: |node, call| Ok(json!(node.admin.cleanup(call.get("kn"), &call.list("cf"))?)),
    },
    Route {
        method: "POST",
        path: "/storage_service/scrub",
        summary: "Rewrite sstables without the partitions that cannot be read",
        query: &[
            KN,
            CF,
            ("disable_snapshot", "true: make no snapshot before"),
            (
                "skip_corrupted",
                "true: skip what is damaged in counter tables too",
            ),
            (
                "no_validate",
                "true: do not compare values with their types",
            ),
            (
                "reinsert_overflowed_ttl",
                "true: let what seems to have expired, as its expiry overflowed, expire in 2038",
            ),
        ],
        run: scrub,
    },
    Route {
        method: "POST",
        path: "/storage_service/upgrade_sstables",
        summary: "Rewrite sstables that are not of the version that is written",
        query: &[
            KN,
            CF,
            ("all", "true: those of that version too"),
            (
                "max_timestamp",
                "Only those written by this time, in milliseconds since 1970",
            ),
        ],
        run: |node, call| {
            let (all, until) = (call.flag("all")?, call.number("max_timestamp")?);
            Ok(json!(node.admin.upgrade_sstables(
                call.get("kn"),
                &call.list("cf"),
                all,
                until
            )?))
        },
    },
    Route {
        method: "GET",
        path: "/compaction_manager/compactions",
        summary: "The compactions that run, and how many there are to do",
        query: &[],
        run: |node, _| {
            Ok(answers::compactions(
                &node.admin.compactions()?,
                &node.admin.information()?,
            ))
        },
    },
    Route {
        method: "GET",
        path: "/compaction_manager/compaction_history",
        summary: "The compactions of the last week",
        query: &[],
        run: |node, _| {
            Ok(answers::compaction_history(
                &node.admin.compaction_history()?,
            ))
        },
    },
    Route {
        method: "POST",
        path: "/compaction_manager/stop_compaction",
        summary: "Stop compactions, by type or by id; how many",
        query: &[
            ("type", "The type, such as COMPACTION"),
            ("id", "The id that the list of compactions shows"),
        ],
        run: stop,
    },
    Route {
        method: "GET",
        path: "/storage_service/auto_compaction",
        summary: "Do the strategies of tables choose compactions by themselves?",
        query: &[KN, CF],
        run: |node, call| {
            let tables = node
                .admin
                .auto_compaction(call.get("kn"), &call.list("cf"))?;
            let one = |(keyspace, table, on): &(String, String, bool)| json!({ "keyspace": keyspace, "table": table, "on": on });
            Ok(tables.iter().map(one).collect())
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/auto_compaction",
        summary: "Let the strategies of tables choose compactions by themselves",
        query: &[KN, CF],
        run: |node, call| {
            let tables = call.list("cf");
            done(
                node.admin
                    .set_auto_compaction(call.get("kn"), &tables, true),
            )
        },
    },
    Route {
        method: "DELETE",
        path: "/storage_service/auto_compaction",
        summary: "Keep the strategies of tables from choosing compactions until the next start",
        query: &[KN, CF],
        run: |node, call| {
            let tables = call.list("cf");
            done(
                node.admin
                    .set_auto_compaction(call.get("kn"), &tables, false),
            )
        },
    },
    Route {
        method: "POST",
        path: "/storage_service/drain",
        summary: "Take no more clients, flush all memtables and write nothing any more",
        query: &[],
        run: |node, _| {
            node.status.enter(Phase::Draining);
            done(node.admin.drain())
        },
    },
];

/// An operation whose only answer is that it is done.
pub(super) fn done(result: Result<(), node::AdminError>) -> Answer {
    result?;
    Ok(Value::Null)
}

fn take_snapshot(node: &Node, call: &Call) -> Answer {
    let keyspaces = call.list("kn");
    let mut request = node::SnapshotRequest {
        tag: call.need("tag")?.to_owned(),
        skip_flush: call.flag("sf")?,
        ttl_seconds: call.number("ttl")?,
        ..node::SnapshotRequest::default()
    };
    for pair in call.list("kt") {
        let (keyspace, table) = pair.split_once('.').ok_or_else(|| {
            ApiError::bad_request(format!("`{pair}` is not of the form KEYSPACE.TABLE"))
        })?;
        request.tables.push((keyspace.to_owned(), table.to_owned()));
    }
    match (&keyspaces[..], call.list("cf")) {
        (_, tables) if tables.is_empty() => request.keyspaces = keyspaces,
        ([keyspace], tables) => {
            let pairs = tables.into_iter().map(|table| (keyspace.clone(), table));
            request.tables.extend(pairs);
        }
        _ => {
            let message = "tables (`cf`) are of one keyspace (`kn`): give exactly one";
            return Err(ApiError::bad_request(message));
        }
    }
    done(node.admin.snapshot(&request))
}

fn clear_snapshots(node: &Node, call: &Call) -> Answer {
    let age = match (call.number("older_than")?, call.number("made_before")?) {
        (None, None) => SnapshotAge::Any,
        (Some(seconds), None) => SnapshotAge::OlderThan(seconds),
        (None, Some(millis)) => SnapshotAge::MadeBefore(millis),
        (Some(_), Some(_)) => {
            let message = "give only one of `older_than` and `made_before`";
            return Err(ApiError::bad_request(message));
        }
    };
    let which = SnapshotSelection {
        tag: call.get("tag").map(str::to_owned),
        keyspaces: call.list("kn"),
        age,
    };
    Ok(json!(node.admin.clear_snapshots(which)?))
}

fn verify(node: &Node, call: &Call) -> Answer {
    let options = VerifyOptions {
        by_policy: call.flag("dfp")?,
        quick: call.flag("quick")?,
    };
    let (tables, check_version) = (call.list("cf"), call.flag("check_version")?);
    let wrong = node
        .admin
        .verify(call.get("kn"), &tables, check_version, options)?;
    Ok(json!(wrong))
}

fn compact(node: &Node, call: &Call) -> Answer {
    let (keyspace, tables) = (call.need("keyspace")?, call.list("cf"));
    let (start, end) = (call.number("start_token")?, call.number("end_token")?);
    let scope = match (start, end) {
        (None, None) => CompactionScope::All {
            split_output: call.flag("split_output")?,
        },
        (start, end) => node::token_range(start, end),
    };
    let Some(key) = call.get("partition") else {
        return done(node.admin.compact(Some(keyspace), &tables, scope));
    };
    for table in node.admin.tables(Some(keyspace), &tables)? {
        let scope = CompactionScope::Partition(node.admin.key_of(&table, key, false)?);
        let name = table.name.to_string();
        node.admin.compact(Some(keyspace), &[name], scope)?;
    }
    Ok(Value::Null)
}

fn sstables_by_key(node: &Node, call: &Call) -> Answer {
    let name = call.need("name")?;
    let table = name.split_once(':').ok_or_else(|| {
        ApiError::bad_request(format!("`{name}` is not of the form KEYSPACE:TABLE"))
    })?;
    let hex = call.get("format") == Some("hex");
    let found = node.admin.sstables_with(table, call.need("key")?, hex)?;
    let one =
        |(file, level): &(PathBuf, u32)| json!({ "file": file.to_string_lossy(), "level": level });
    Ok(found.iter().map(one).collect())
}

/// Of Cassandra's `OperationType` those that are not done here, or not so that they can be stopped.
const NEVER_RUN: [&str; 16] = [
    "P0",
    "VERIFY",
    "RELOCATE",
    "FLUSH",
    "WRITE",
    "ANTICOMPACTION",
    "VALIDATION",
    "INDEX_BUILD",
    "VIEW_BUILD",
    "TOMBSTONE_COMPACTION",
    "UNKNOWN",
    "STREAM",
    "KEY_CACHE_SAVE",
    "ROW_CACHE_SAVE",
    "COUNTER_CACHE_SAVE",
    "INDEX_SUMMARY",
];

fn stop(node: &Node, call: &Call) -> Answer {
    if let Some(id) = call.get("id") {
        let parts = id
            .split_once('-')
            .and_then(|(shard, id)| Some((shard.parse().ok()?, id.parse().ok()?)));
        let (shard, number) = parts.ok_or_else(|| {
            ApiError::bad_request(format!("`{id}` is no id; compactionstats shows them"))
        })?;
        return Ok(json!(u8::from(node.admin.stop_compaction(shard, number)?)));
    }
    let name = call.need("type")?;
    if NEVER_RUN.contains(&name) {
        return Ok(json!(0));
    }
    let kind = CompactionKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| {
        let message = format!("compaction_type: can not convert \"{name}\" to a OperationType");
        ApiError::bad_request(message)
    })?;
    Ok(json!(node.admin.stop_compactions(Some(kind))?))
}

fn import(node: &Node, call: &Call) -> Answer {
    let table = (call.need("keyspace")?, call.need("cf")?);
    let dir = PathBuf::from(call.need("path")?);
    let options = storage::ImportOptions {
        verify: call.get("verify").is_none() || call.flag("verify")?,
        keep_level: call.flag("keep_level")?,
        keep_repaired: call.flag("keep_repaired")?,
        copy: call.flag("copy")?,
    };
    if !dir.is_absolute() {
        let message = format!("{} is no absolute path", dir.display());
        return Err(ApiError::bad_request(message));
    }
    if call.flag("check")? {
        node.admin.check_import(table, &dir, options)?;
        return Ok(json!(0));
    }
    Ok(json!(node.admin.import(table, dir, options)?))
}

fn keyspaces(node: &Node, call: &Call) -> Answer {
    let only_users = match call.get("type") {
        None | Some("all") => false,
        Some("user") => true,
        Some(other) => {
            let message = format!("`type` is user or all, not `{other}`");
            return Err(ApiError::bad_request(message));
        }
    };
    let schema = node.admin.schema()?;
    let names = schema.keyspaces.keys();
    let names = names.filter(|name| !only_users || !cql::schema::is_system_keyspace(name));
    Ok(names.map(|name| json!(&**name)).collect())
}

/// Scrubs tables.
fn scrub(node: &Node, call: &Call) -> Answer {
    let options = ScrubOptions {
        skips_counters: call.flag("skip_corrupted")?,
        validates: !call.flag("no_validate")?,
        reinserts_overflowed: call.flag("reinsert_overflowed_ttl")?,
    };
    let (snapshot, tables) = (!call.flag("disable_snapshot")?, call.list("cf"));
    let scrubbed = node.admin.scrub(call.get("kn"), &tables, snapshot, options);
    let (tag, scrubbed) = scrubbed?;
    let report = scrubbed.report;
    Ok(json!({
        "snapshot": tag,
        "sstables": scrubbed.sstables,
        "partitions": report.kept,
        "skipped": report.lost,
        "cut": report.cut,
        "out_of_order": report.late,
        "empty": report.empty,
        "lost_bytes": report.lost_bytes,
        "fixed_rows": report.fixed_rows,
    }))
}
