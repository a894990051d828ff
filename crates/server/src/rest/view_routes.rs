//! What can be done with materialized views.

use node::ViewCheck;
use serde_json::{Value, json};

use super::routes::{Route, done};

/// All of it.
pub(crate) const VIEW_ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/materialized_views/{keyspace}/{view}/differences",
        summary: "Compare a materialized view with its table, all replicas of both",
        query: &[],
        run: |node, call| {
            let (keyspace, view) = (call.need("keyspace")?, call.need("view")?);
            Ok(found(&node.admin.check_view(keyspace, view, false)?))
        },
    },
    Route {
        method: "POST",
        path: "/materialized_views/{keyspace}/{view}/mend",
        summary: "Compare a materialized view with its table and make it right where it differs",
        query: &[],
        run: |node, call| {
            let (keyspace, view) = (call.need("keyspace")?, call.need("view")?);
            Ok(found(&node.admin.check_view(keyspace, view, true)?))
        },
    },
    Route {
        method: "POST",
        path: "/materialized_views/{keyspace}/{view}/build",
        summary: "Build a materialized view anew from what this node has of its table",
        query: &[],
        run: |node, call| {
            let (keyspace, view) = (call.need("keyspace")?, call.need("view")?);
            done(node.admin.rebuild_view(keyspace, view))
        },
    },
];

fn found(check: &ViewCheck) -> Value {
    json!({
        "rows": check.rows,
        "lacking": check.lacking,
        "excess": check.excess,
        "mended": check.mended,
    })
}
