//! What can be asked of the cluster, and of the node's part in it.

use node::AdminError;
use serde_json::{Value, json};

use super::routes::{Answer, Route, done};
use super::{ApiError, Call, Node, answers, requests};
use crate::control::Phase;

/// All of it.
pub(crate) const CLUSTER_ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/storage_service/cluster_info",
        summary: "Who the nodes of the cluster are and how they are, as far as this one knows",
        query: &[],
        run: |node, _| Ok(answers::cluster_info(&node.admin.cluster()?)),
    },
    Route {
        method: "GET",
        path: "/storage_service/ownership/{keyspace}",
        summary: "The share of a keyspace's data that each node has; `null`: of those of users, if all \
                  are replicated in the same way",
        query: &[],
        run: ownership,
    },
    Route {
        method: "GET",
        path: "/storage_service/describe_ring/{keyspace}",
        summary: "The ranges of a keyspace, each with the nodes that have its data",
        query: &[],
        run: |node, call| {
            let ranges = node.admin.ranges(call.need("keyspace")?)?;
            Ok(answers::describe_ring(&ranges, &node.admin.cluster()?))
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/natural_endpoints/{keyspace}",
        summary: "The nodes that have a partition",
        query: &[
            ("cf", "The table"),
            (
                "key",
                "The partition key, with colons between the values of several columns",
            ),
        ],
        run: natural_endpoints,
    },
    Route {
        method: "GET",
        path: "/storage_service/replication",
        summary: "How each keyspace is replicated",
        query: &[],
        run: |node, _| Ok(answers::replication(&*node.admin.schema()?)),
    },
    Route {
        method: "GET",
        path: "/storage_service/native_transport",
        summary: "Can clients connect?",
        query: &[],
        run: |node, _| Ok(json!(node.admin.information()?.serves_clients)),
    },
    Route {
        method: "POST",
        path: "/storage_service/native_transport",
        summary: "Open the ports of clients again",
        query: &[],
        run: |node, _| {
            node.admin.enable_clients()?;
            node.status.turn(Phase::Closed, Phase::Ready);
            Ok(Value::Null)
        },
    },
    Route {
        method: "DELETE",
        path: "/storage_service/native_transport",
        summary: "Close the ports of clients and end their connections; the node stays a replica",
        query: &[],
        run: |node, _| {
            node.status.turn(Phase::Ready, Phase::Closed);
            done(node.admin.disable_clients())
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/gossiping",
        summary: "Does the node tell others that it is there?",
        query: &[],
        run: |node, _| Ok(json!(node.admin.information()?.gossips)),
    },
    Route {
        method: "POST",
        path: "/storage_service/gossiping",
        summary: "Tell the other nodes that this one is there again",
        query: &[],
        run: |node, _| done(node.admin.enable_gossip()),
    },
    Route {
        method: "DELETE",
        path: "/storage_service/gossiping",
        summary: "Tell the other nodes that this one goes; it still serves clients",
        query: &[],
        run: |node, _| done(node.admin.disable_gossip()),
    },
    Route {
        method: "GET",
        path: "/failure_detector/endpoint_phi_values",
        summary: "For how long each of the other nodes has given no answer, in seconds: 0 as long as it is \
                  taken to be up, null if it has not been met since the start",
        query: &[],
        run: |node, _| Ok(answers::silences(&node.admin.silences()?)),
    },
    Route {
        method: "GET",
        path: "/storage_proxy/latencies",
        summary: "How long clients waited since the start, in microseconds, by kind of request",
        query: &[],
        run: |node, _| Ok(requests::latencies(&node.admin.requests()?)),
    },
    Route {
        method: "GET",
        path: "/storage_proxy/read_repair_repaired_blocking",
        summary: "How many reads found replicas that did not know the same",
        query: &[],
        run: |node, _| {
            let shards = node.admin.requests()?;
            let mismatched = shards.iter().map(|shard| shard.mismatched_reads.get());
            Ok(json!(mismatched.sum::<u64>()))
        },
    },
    Route {
        method: "GET",
        path: "/storage_service/stages",
        summary: "What is under way, waits and was done, by kind of work",
        query: &[],
        run: |node, _| {
            let compactions = node.admin.compactions()?;
            let (information, requests) = (node.admin.information()?, node.admin.requests()?);
            Ok(requests::stages(&information, &requests, &compactions))
        },
    },
    Route {
        method: "GET",
        path: "/messaging_service/messages/dropped",
        summary: "Messages between nodes that came too late, by what they asked for",
        query: &[],
        run: |node, _| Ok(requests::dropped_messages(&node.admin.requests()?)),
    },
    Route {
        method: "GET",
        path: "/messaging_service/messages",
        summary: "What this node asks others: messages that wait, and that were answered or given up",
        query: &[],
        run: |node, _| {
            let (pending, completed) = node.admin.messages()?;
            Ok(json!({ "pending": pending, "completed": completed }))
        },
    },
];

/// `null` means no keyspace, as in ScyllaDB's API.
fn ownership(node: &Node, call: &Call) -> Answer {
    let keyspace = Some(call.need("keyspace")?).filter(|keyspace| *keyspace != "null");
    let owned = node.admin.ownership(keyspace)?;
    Ok(answers::ownership(&owned, &node.admin.cluster()?))
}

fn natural_endpoints(node: &Node, call: &Call) -> Answer {
    let (keyspace, table) = (call.need("keyspace")?, call.need("cf")?);
    let found = node
        .admin
        .natural_endpoints(keyspace, table, call.need("key")?)?;
    let cluster = node.admin.cluster()?;
    let address = |id| {
        let known = cluster.nodes.get(id);
        let gone = || AdminError::Failed(format!("node {id} has left: try again"));
        let node = known.ok_or_else(gone)?;
        Ok(json!(node.node.address.ip().to_string()))
    };
    found
        .iter()
        .map(address)
        .collect::<Result<Value, ApiError>>()
}
