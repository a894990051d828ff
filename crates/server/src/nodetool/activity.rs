//! What a node does: `netstats`, `tpstats`, `proxyhistograms`.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::Done;
use super::api::Api;
use super::structured::{self, Format};
use super::text::{TextTable, fixed};

/// Prints what goes between this node and the others (Cassandra's `NetStats`). Nothing is streamed, and
/// messages are not told apart: all go along one connection for each pair of shards.
pub(super) fn net_stats(api: &Api, out: &mut impl Write) -> Done {
    let node = api.get(["storage_service", "node_info"], &[])?;
    let messages = api.get(["messaging_service", "messages"], &[])?;
    let repaired = ["storage_proxy", "read_repair_repaired_blocking"];
    print_net_stats(&mode(&node), &api.get(repaired, &[])?, &messages, out)
}

/// What the node does, as `StorageService.Mode` has it.
fn mode(node: &Value) -> String {
    match (node["is_drained"] == true, node["state"].as_str()) {
        (true, _) => "DRAINED".to_owned(),
        (false, state) => state.unwrap_or("STARTING").to_ascii_uppercase(),
    }
}

/// Repairs that no read waits for do not exist, here or in Cassandra since 4.0.
fn print_net_stats(mode: &str, repaired: &Value, messages: &Value, out: &mut impl Write) -> Done {
    writeln!(out, "Mode: {mode}\nNot sending any streams.")?;
    writeln!(out, "Read Repair Statistics:\nAttempted: 0")?;
    writeln!(
        out,
        "Mismatch (Blocking): {repaired}\nMismatch (Background): 0"
    )?;
    let mut line = |cells: [&str; 5]| {
        let [name, active, pending, completed, dropped] = cells;
        writeln!(
            out,
            "{name:<25}{active:>10}{pending:>10}{completed:>15}{dropped:>10}"
        )
    };
    line(["Pool Name", "Active", "Pending", "Completed", "Dropped"])?;
    let [pending, completed] = ["pending", "completed"].map(|name| messages[name].to_string());
    line(["Large messages", "n/a", "n/a", "n/a", "n/a"])?;
    line(["Small messages", "n/a", &pending, &completed, "n/a"])?;
    Ok(line(["Gossip messages", "n/a", "n/a", "n/a", "n/a"])?)
}

/// Prints kinds of work as Cassandra's thread pools (`TpStats`).
pub(super) fn tp_stats(api: &Api, format: Option<Format>, out: &mut impl Write) -> Done {
    let stages = api.get(["storage_service", "stages"], &[])?;
    let dropped = api.get(["messaging_service", "messages", "dropped"], &[])?;
    match format {
        Some(format) => structured::print(format, &pools(&stages, &dropped), out),
        None => print_pools(&stages, &dropped, out),
    }
}

/// What is not counted, as Cassandra's nodetool puts it.
fn counted(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        value => value.to_string(),
    }
}

/// For how long messages waited nobody counts.
fn print_pools(stages: &Value, dropped: &Value, out: &mut impl Write) -> Done {
    let mut table = TextTable::default();
    let heads = [
        "Pool Name",
        "Active",
        "Pending",
        "Completed",
        "Blocked",
        "All time blocked",
    ];
    table.add(heads);
    for stage in stages.as_array().into_iter().flatten() {
        let numbers = [
            "active",
            "pending",
            "completed",
            "blocked",
            "all_time_blocked",
        ];
        let numbers = numbers.map(|name| counted(&stage[name]));
        let name = stage["name"].as_str().unwrap_or("?").to_owned();
        table.add([name].into_iter().chain(numbers));
    }
    write!(out, "{}", table.text())?;
    writeln!(
        out,
        "\nLatencies waiting in queue (micros) per dropped message types"
    )?;
    let mut table = TextTable::default();
    table.add([
        "Message type",
        "Dropped    ",
        "50%     ",
        "95%     ",
        "99%     ",
        "Max",
    ]);
    for (name, count) in dropped.as_object().into_iter().flatten() {
        let count = count.to_string();
        table.add([name, &count, "N/A", "N/A", "N/A", "N/A"]);
    }
    Ok(write!(out, "{}", table.text())?)
}

/// Under the names of `TpStatsHolder`.
fn pools(stages: &Value, dropped: &Value) -> Value {
    let pool = |stage: &Value| {
        let name = stage["name"].as_str().unwrap_or("?").to_owned();
        let number = |name: &str| match &stage[name] {
            Value::Null => json!("N/A"),
            number => number.clone(),
        };
        let value = json!({
            "ActiveTasks": number("active"),
            "PendingTasks": number("pending"),
            "CompletedTasks": number("completed"),
            "CurrentlyBlockedTasks": number("blocked"),
            "TotalBlockedTasks": number("all_time_blocked"),
        });
        (name, value)
    };
    let pools: Map<String, Value> = stages.as_array().into_iter().flatten().map(pool).collect();
    json!({ "ThreadPools": pools, "DroppedMessage": dropped, "WaitLatencies": {} })
}

/// Prints how long clients waited (Cassandra's `ProxyHistograms`).
pub(super) fn proxy_histograms(api: &Api, out: &mut impl Write) -> Done {
    let latencies = api.get(["storage_proxy", "latencies"], &[])?;
    print_latencies(&latencies, out)
}

/// Of what is not measured or does not exist there are no numbers.
fn print_latencies(latencies: &Value, out: &mut impl Write) -> Done {
    writeln!(out, "proxy histograms")?;
    let heads = [
        ("Read Latency", "read"),
        ("Write Latency", "write"),
        ("Range Latency", "range"),
        ("CAS Read Latency", "cas_read"),
        ("CAS Write Latency", "cas_write"),
        ("View Write Latency", "view_write"),
    ];
    let mut line = |first: &str, cells: [String; 6]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>19}")).collect();
        writeln!(out, "{first:<10}{cells}")
    };
    line("Percentile", heads.map(|(head, _)| head.to_owned()))?;
    line("", heads.map(|_| "(micros)".to_owned()))?;
    let rows = ["50%", "75%", "95%", "98%", "99%", "Min", "Max"];
    for (at, row) in rows.iter().enumerate() {
        let number = |name: &str| latencies[name][at].as_f64().unwrap_or(f64::NAN);
        line(row, heads.map(|(_, name)| fixed(number(name), 2)))?;
    }
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(print: impl FnOnce(&mut Vec<u8>) -> Done) -> String {
        let mut out = Vec::new();
        print(&mut out).expect("a buffer takes all");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn messages_are_shown_in_cassandras_rows() {
        let messages = json!({ "pending": 2, "completed": 1234567 });
        assert_eq!(
            printed(|out| print_net_stats("NORMAL", &json!(7), &messages, out)),
            "\
Mode: NORMAL
Not sending any streams.
Read Repair Statistics:
Attempted: 0
Mismatch (Blocking): 7
Mismatch (Background): 0
Pool Name                    Active   Pending      Completed   Dropped
Large messages                  n/a       n/a            n/a       n/a
Small messages                  n/a         2        1234567       n/a
Gossip messages                 n/a       n/a            n/a       n/a
"
        );
        for (node, expected) in [
            (
                json!({ "is_drained": false, "state": "Leaving" }),
                "LEAVING",
            ),
            (json!({ "is_drained": false, "state": null }), "STARTING"),
            (json!({ "is_drained": true, "state": "Normal" }), "DRAINED"),
        ] {
            assert_eq!(mode(&node), expected);
        }
    }

    #[test]
    fn kinds_of_work_are_shown_as_cassandras_pools() {
        let stages = json!([
            { "name": "ReadStage", "active": null, "pending": null, "completed": 12 },
            { "name": "CompactionExecutor", "active": 1, "pending": 20, "completed": 300 },
        ]);
        assert_eq!(
            printed(|out| print_pools(&stages, &json!({ "READ_REQ": 12 }), out)),
            "\
Pool Name          Active Pending Completed Blocked All time blocked
ReadStage          N/A    N/A     12        N/A     N/A             
CompactionExecutor 1      20      300       N/A     N/A             

Latencies waiting in queue (micros) per dropped message types
Message type Dropped     50%      95%      99%      Max
READ_REQ     12          N/A      N/A      N/A      N/A
"
        );
        let structured = pools(&stages, &json!({}));
        assert_eq!(
            structured["ThreadPools"]["CompactionExecutor"]["PendingTasks"],
            20
        );
        assert_eq!(structured["ThreadPools"]["ReadStage"]["ActiveTasks"], "N/A");
    }

    #[test]
    fn latencies_are_shown_in_cassandras_columns() {
        let latencies = json!({
            "read": [32, 40, 56, 64, 80, 6, 1024],
            "write": [null, null, null, null, null, 9, null],
        });
        assert_eq!(
            printed(|out| print_latencies(&latencies, out)),
            "\
proxy histograms
Percentile       Read Latency      Write Latency      Range Latency   CAS Read Latency  CAS Write Latency View Write Latency
                     (micros)           (micros)           (micros)           (micros)           (micros)           (micros)
50%                     32.00                NaN                NaN                NaN                NaN                NaN
75%                     40.00                NaN                NaN                NaN                NaN                NaN
95%                     56.00                NaN                NaN                NaN                NaN                NaN
98%                     64.00                NaN                NaN                NaN                NaN                NaN
99%                     80.00                NaN                NaN                NaN                NaN                NaN
Min                      6.00               9.00                NaN                NaN                NaN                NaN
Max                   1024.00                NaN                NaN                NaN                NaN                NaN

"
        );
    }
}
