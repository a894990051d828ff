//! What can be done, by method and path.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{ApiError, Call, Node, answers};
use crate::control::Phase;

type Answer = Result<Value, ApiError>;

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
        run: |node, _| Ok(answers::node_info(&node.admin.information()?)),
    },
    Route {
        method: "GET",
        path: "/storage_service/keyspaces",
        summary: "The names of the keyspaces",
        query: &[("type", "user: only those that are not the system's")],
        run: keyspaces,
    },
    Route {
        method: "GET",
        path: "/storage_service/ownership/{keyspace}",
        summary: "The share of a keyspace's data that each node has",
        query: &[],
        run: ownership,
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
        ],
        run: |node, call| {
            let tag = call.get("tag").map(str::to_owned);
            Ok(json!(node.admin.clear_snapshots(call.list("kn"), tag)?))
        },
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
        summary: "Link new sstables into the backups, or no more, until the next start",
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
fn done(result: Result<(), node::AdminError>) -> Answer {
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

/// There is one node, and it has everything.
fn ownership(node: &Node, call: &Call) -> Answer {
    let keyspace = call.need("keyspace")?;
    let unknown = || node::AdminError::UnknownKeyspace(keyspace.to_owned());
    let schema = node.admin.schema()?;
    schema.keyspaces.get(keyspace).ok_or_else(unknown)?;
    let address = node.admin.information()?.address.to_string();
    Ok(json!([{ "key": address, "value": 1.0 }]))
}
