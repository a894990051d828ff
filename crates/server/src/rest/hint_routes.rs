//! What can be done with hints.

use std::time::Duration;

use node::PendingHints;
use serde_json::{Value, json};

use super::ApiError;
use super::routes::{Route, done};

/// All of it.
pub(crate) const HINT_ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/storage_proxy/hinted_handoff_enabled",
        summary: "Are hints kept for nodes that are down?",
        query: &[],
        run: |node, _| Ok(json!(node.admin.hints_enabled()?)),
    },
    Route {
        method: "POST",
        path: "/storage_proxy/hinted_handoff_enabled",
        summary: "Keep hints for nodes that are down, or none, until the next start",
        query: &[("enable", "true or false")],
        run: |node, call| {
            call.need("enable")?;
            done(node.admin.enable_hints(call.flag("enable")?))
        },
    },
    Route {
        method: "GET",
        path: "/storage_proxy/max_hint_window",
        summary: "For how long hints are kept for a node that is down, in milliseconds",
        query: &[],
        run: |node, _| Ok(json!(node.admin.hint_window()?.as_millis() as u64)),
    },
    Route {
        method: "POST",
        path: "/storage_proxy/max_hint_window",
        summary: "Keep hints for a node that is down for so long, until the next start",
        query: &[("ms", "Milliseconds")],
        run: |node, call| {
            let millis = call.need_number("ms")?;
            done(node.admin.set_hint_window(Duration::from_millis(millis)))
        },
    },
    Route {
        method: "POST",
        path: "/hinted_handoff/pause",
        summary: "Deliver no hints, or do again, until the next start",
        query: &[("pause", "true or false")],
        run: |node, call| {
            call.need("pause")?;
            done(node.admin.pause_hints(call.flag("pause")?))
        },
    },
    Route {
        method: "GET",
        path: "/hinted_handoff/hints",
        summary: "The hints that wait for each node: files, and when the oldest and the newest were begun, in \
                  milliseconds since 1970",
        query: &[],
        run: |node, _| Ok(pending(&node.admin.pending_hints()?)),
    },
    Route {
        method: "DELETE",
        path: "/hinted_handoff/hints",
        summary: "Forget the hints for a node, or for all",
        query: &[("host", "The address of the node")],
        run: |node, call| {
            let address = call.get("host").map(|host| {
                let none = |_| ApiError::bad_request(format!("`host`: `{host}` is no address"));
                host.parse().map_err(none)
            });
            done(node.admin.truncate_hints(address.transpose()?))
        },
    },
];

fn pending(hints: &[PendingHints]) -> Value {
    let one = |hints: &PendingHints| {
        json!({
            "host_id": hints.host_id.to_string(),
            "files": hints.files,
            "oldest": hints.oldest,
            "newest": hints.newest,
        })
    };
    hints.iter().map(one).collect()
}
