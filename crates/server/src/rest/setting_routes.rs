//! What is set while the node runs: timeouts, tracing, logs, the batch log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::Table;
use node::TimeoutKind;
use serde_json::{Value, json};

use super::routes::{Answer, Route, done};
use super::{ApiError, Call, Node};

/// All of it.
pub(crate) const SETTING_ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/storage_proxy/timeout/{kind}",
        summary: "How long something may take, in milliseconds: read, range, write, counterwrite, \
                  cascontention, truncate or internodeconnect",
        query: &[],
        run: |node, call| Ok(json!(node.admin.timeout(kind(call)?)?.as_millis() as u64)),
    },
    Route {
        method: "POST",
        path: "/storage_proxy/timeout/{kind}",
        summary: "Let something take so long, until the next start",
        query: &[("ms", "Milliseconds")],
        run: |node, call| {
            let time = Duration::from_millis(call.need_number("ms")?);
            done(node.admin.set_timeout(kind(call)?, time))
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/trace_probability",
        summary: "The share of requests that are traced without having been asked to",
        query: &[],
        run: |node, _| Ok(json!(node.admin.trace_probability()?)),
    },
    Route {
        method: "POST",
        path: "/storage_service/trace_probability",
        summary: "Trace this share of requests, until the next start",
        query: &[("probability", "From 0 to 1")],
        run: |node, call| {
            let probability = call.need_number("probability")?;
            done(node.admin.set_trace_probability(probability))
        },
    },
    Route {
        method: "GET",
        path: "/batchlog_manager/throttle",
        summary: "Bytes of logged batches that all nodes together complete in a second; 0: no limit",
        query: &[],
        run: |node, _| Ok(json!(node.admin.batch_log_throttle()?)),
    },
    Route {
        method: "POST",
        path: "/batchlog_manager/throttle",
        summary: "Complete so many bytes of logged batches in a second, until the next start",
        query: &[("bytes", "Of all nodes together; 0 for no limit")],
        run: |node, call| {
            let bytes = call.need_number("bytes")?;
            done(node.admin.set_batch_log_throttle(bytes))
        },
    },
    Route {
        method: "POST",
        path: "/batchlog_manager/replay",
        summary: "Complete logged batches that whoever coordinated them did not see to",
        query: &[],
        run: |node, _| done(node.admin.replay_batch_log()),
    },
    Route {
        method: "GET",
        path: "/gossiper/seeds",
        summary: "Where the node asks for a cluster, but for itself",
        query: &[],
        run: |node, _| Ok(json!(node.admin.other_seeds()?)),
    },
    Route {
        method: "POST",
        path: "/storage_service/size_estimates",
        summary: "Estimate anew what system.size_estimates says of each range",
        query: &[],
        run: |node, _| done(node.admin.refresh_size_estimates()),
    },
    Route {
        method: "POST",
        path: "/storage_service/certificates",
        summary: "Read keys and certificates of TLS between nodes again, for connections from now on",
        query: &[],
        run: |node, _| {
            let reloaded = node.status.reload_certificates();
            reloaded.map_err(|error| ApiError::bad_request(error.to_string()))?;
            Ok(Value::Null)
        },
    },
    Route {
        method: "GET",
        path: "/system/logger",
        summary: "What is logged, by part of Helenus",
        query: &[],
        run: |node, _| {
            let levels = node.status.logs.get().map(|logs| logs.levels());
            let one = |(name, level): (String, String)| json!({ "name": name, "level": level });
            Ok(levels.unwrap_or_default().into_iter().map(one).collect())
        },
    },
    Route {
        method: "POST",
        path: "/system/logger",
        summary: "Log so much of a part of Helenus, until the next start; as at the start if none is named",
        query: &[
            ("name", "ROOT, a crate or a module"),
            ("level", "TRACE, DEBUG, INFO, WARN, ERROR or OFF"),
        ],
        run: set_logger,
    },
    Route {
        method: "GET",
        path: "/column_family/compaction_threshold/{keyspace}",
        summary: "How many sstables a compaction of a table takes at least and at most",
        query: &[("cf", "The table")],
        run: compaction_threshold,
    },
    Route {
        method: "GET",
        path: "/column_family/data_paths",
        summary: "The folder of each table",
        query: &[],
        run: data_paths,
    },
];

fn data_paths(node: &Node, _: &Call) -> Answer {
    let folders = node.admin.table_folders()?.into_iter();
    let one = |(table, folder): (Arc<Table>, PathBuf)| {
        let (keyspace, table) = (&*table.keyspace, &*table.name);
        json!({ "keyspace": keyspace, "table": table, "path": folder.to_string_lossy() })
    };
    Ok(folders.map(one).collect())
}

fn kind(call: &Call) -> Result<TimeoutKind, ApiError> {
    let name = call.need("kind")?;
    let found = TimeoutKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        let names = TimeoutKind::ALL.map(TimeoutKind::name).join(", ");
        ApiError::bad_request(format!("`{name}` is no timeout; there are {names}"))
    })
}

fn set_logger(node: &Node, call: &Call) -> Answer {
    let Some(logs) = node.status.logs.get() else {
        return Err(ApiError::bad_request("nothing is logged"));
    };
    let set = match (call.get("name"), call.get("level")) {
        (None, None) => logs.reset(),
        (Some(name), level) => logs.set(name, level.unwrap_or("DEBUG")),
        (None, Some(_)) => Err("name what is to log so much".to_owned()),
    };
    set.map_err(ApiError::bad_request)?;
    Ok(Value::Null)
}

/// What its strategy goes by, or Cassandra's defaults.
fn compaction_threshold(node: &Node, call: &Call) -> Answer {
    let (keyspace, table) = (call.need("keyspace")?, call.need("cf")?);
    let tables = node.admin.tables(Some(keyspace), &[table.to_owned()])?;
    let number = |name: &str, usual: u64| {
        let options = &tables[0].options.compaction;
        let given = options.get(name).and_then(|text| text.parse().ok());
        json!(given.unwrap_or(usual))
    };
    Ok(json!({ "min": number("min_threshold", 4), "max": number("max_threshold", 32) }))
}
