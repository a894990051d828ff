//! What shards count of requests and work, as JSON: sums over all shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use node::metrics::{RequestKind, ShardMetrics, bucket_bounds_micros};
use node::{CompactionReport, NodeInformation};
use serde_json::{Value, json};
use storage::{StoreStats, TableStats};
use wire::internode::Verb;

/// What `proxyhistograms` shows: these shares, then the least and the largest value.
const SHARES: [f64; 5] = [0.5, 0.75, 0.95, 0.98, 0.99];

/// How long requests took. As in Cassandra, reads at SERIAL count with reads, too; writes are single ones and
/// batches; what views get is not counted.
pub(super) fn latencies(shards: &[Arc<ShardMetrics>]) -> Value {
    let of = |kinds: &[RequestKind]| percentiles(&counts(shards, kinds));
    json!({
        "read": of(&[RequestKind::Read, RequestKind::SerialRead]),
        "write": of(&[RequestKind::Write, RequestKind::Batch]),
        "range": of(&[RequestKind::Range]),
        "cas_read": of(&[RequestKind::SerialRead]),
        "cas_write": of(&[RequestKind::Conditional]),
        "view_write": of(&[]),
    })
}

/// Messages between nodes that came too late, under the names of Cassandra's verbs; news and what the
/// cluster agrees by is not among them, as each is sent again.
pub(super) fn dropped_messages(shards: &[Arc<ShardMetrics>]) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (verb, count) in shards.iter().flat_map(|shard| shard.late()) {
        if let Some(name) = cassandras_name(verb) {
            *counts.entry(name).or_default() += count;
        }
    }
    json!(counts)
}

fn cassandras_name(verb: Verb) -> Option<&'static str> {
    match verb {
        Verb::Ping => Some("PING_REQ"),
        Verb::Mutation | Verb::Relay | Verb::RelayedMutation => Some("MUTATION_REQ"),
        Verb::Relayed => Some("MUTATION_RSP"),
        Verb::Read => Some("READ_REQ"),
        Verb::Counter => Some("COUNTER_MUTATION_REQ"),
        Verb::BatchStore => Some("BATCH_STORE_REQ"),
        Verb::BatchRemove => Some("BATCH_REMOVE_REQ"),
        Verb::Hint => Some("HINT_REQ"),
        Verb::Paxos => Some("PAXOS2_PREPARE_REQ"),
        // What is traced may be any of them.
        Verb::Traced => None,
        Verb::Gossip | Verb::Metadata | Verb::Membership => None,
    }
}

/// How many requests of these kinds there were in each bucket.
fn counts(shards: &[Arc<ShardMetrics>], kinds: &[RequestKind]) -> Vec<u64> {
    let mut sums = Vec::new();
    for shard in shards {
        for kind in kinds {
            let counts = shard.latency(*kind).counts();
            for (bucket, count) in counts.enumerate() {
                match sums.get_mut(bucket) {
                    Some(sum) => *sum += count,
                    None => sums.push(count),
                }
            }
        }
    }
    sums
}

/// Cassandra's reading of a histogram (`EstimatedHistogram`): a value is taken to be the largest of its
/// bucket, the least of all the smallest of its. `null` where one is above all buckets.
fn percentiles(counts: &[u64]) -> Value {
    let bounds: Vec<u64> = bucket_bounds_micros().collect();
    let all: u64 = counts.iter().sum();
    let first = counts.iter().position(|count| *count > 0);
    let last = counts.iter().rposition(|count| *count > 0);
    let overflowed = last.is_some_and(|last| last >= bounds.len());
    let at = |share: f64| {
        let wanted = (all as f64 * share).floor() as u64;
        let mut seen = 0;
        let reached = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        match reached {
            _ if overflowed => Value::Null,
            Some(bucket) if wanted > 0 => json!(bounds.get(bucket)),
            _ => json!(0),
        }
    };
    let least = match first {
        None | Some(0) => 0,
        Some(bucket) => bounds[bucket - 1] + 1,
    };
    let largest = last.map_or(json!(0), |bucket| json!(bounds.get(bucket)));
    let shares = SHARES.iter().map(|share| at(*share));
    shares.chain([json!(least), largest]).collect()
}

/// Kinds of work under the names of Cassandra's thread pools. What is not counted is `null`.
pub(super) fn stages(
    node: &NodeInformation,
    shards: &[Arc<ShardMetrics>],
    compactions: &CompactionReport,
) -> Value {
    let stores = |of: fn(&StoreStats) -> u64| -> u64 { node.stores.iter().map(of).sum() };
    let tables = |of: fn(&TableStats) -> u64| -> u64 {
        let tables = node.stores.iter().flat_map(|store| &store.tables);
        tables.map(of).sum()
    };
    let pending: usize = compactions.pending.iter().map(|(_, _, count)| count).sum();
    let requests: u64 = counts(shards, &RequestKind::ALL).iter().sum();
    let in_flight: u64 = shards.iter().map(|shard| shard.in_flight.get()).sum();
    let stage = |name: &str, active: Option<u64>, pending: Option<u64>, completed: u64| json!({ "name": name, "active": active, "pending": pending, "completed": completed });
    json!([
        stage(
            "CompactionExecutor",
            Some(compactions.running.len() as u64),
            Some(pending as u64),
            tables(|table| table.compactions),
        ),
        stage(
            "MemtableFlushWriter",
            None,
            Some(stores(|store| store.pending_flushes)),
            tables(|table| table.flushes),
        ),
        stage(
            "MutationStage",
            None,
            Some(stores(|store| store.waiting_writes)),
            tables(|table| table.writes),
        ),
        stage("Native-Transport-Requests", Some(in_flight), None, requests),
        stage(
            "ReadStage",
            None,
            None,
            tables(|table| table.key_reads + table.range_reads),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn late_messages_are_told_by_cassandras_names() {
        let shards: Vec<Arc<ShardMetrics>> = vec![Arc::default(), Arc::default()];
        shards[0].count_late(Some(Verb::Mutation));
        shards[1].count_late(Some(Verb::Relay));
        shards[1].count_late(Some(Verb::Gossip));
        let dropped = dropped_messages(&shards);
        assert_eq!(dropped["MUTATION_REQ"], 2);
        assert_eq!(dropped["READ_REQ"], 0);
        assert_eq!(dropped.as_object().map(|all| all.len()), Some(9));
    }

    #[test]
    fn latencies_are_those_of_all_shards() {
        let shards: Vec<Arc<ShardMetrics>> = vec![Arc::default(), Arc::default()];
        let nothing = json!([0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            latencies(&shards),
            json!({ "read": nothing, "write": nothing, "range": nothing, "cas_read": nothing,
                    "cas_write": nothing, "view_write": nothing })
        );
        let record = |shard: usize, kind, micros| {
            let latency = shards[shard].latency(kind);
            latency.record(Duration::from_micros(micros));
        };
        for _ in 0..98 {
            record(0, RequestKind::Read, 30);
        }
        record(1, RequestKind::Read, 6);
        record(1, RequestKind::Read, 1000);
        record(0, RequestKind::Write, 10);
        record(1, RequestKind::Batch, 100);
        record(0, RequestKind::Conditional, 100);
        record(0, RequestKind::Range, 100);
        record(0, RequestKind::Schema, 1_000_000);
        // Buckets end at 5, 6, 7, 8, 10, …, 28, 32, …, 896, 1024.
        assert_eq!(
            latencies(&shards),
            json!({
                "read": [32, 32, 32, 32, 32, 6, 1024],
                "write": [10, 10, 10, 10, 10, 9, 112],
                "range": [0, 0, 0, 0, 0, 97, 112],
                "cas_read": nothing,
                "cas_write": [0, 0, 0, 0, 0, 97, 112],
                "view_write": nothing,
            })
        );
        record(0, RequestKind::Write, 100_000_000);
        assert_eq!(
            latencies(&shards)["write"],
            json!([null, null, null, null, null, 9, null])
        );
    }
}
