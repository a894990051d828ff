//! What is printed of a cluster of three nodes in two racks, of which one is down.

use serde_json::{Value, json};

use super::description::{print_cluster, print_gossip, print_silences};
use super::nodes::{print_ring, print_status};
use super::ranges::print_ranges;
use super::{Cluster, Done, Naming, Ownership};

/// Three nodes in two racks; the second is down, a fourth is about to join.
fn cluster(naming: Naming) -> Cluster {
    let node = |number: u8, rack: &str, tokens: &[i64], is_up: Value| {
        json!({
            "host_id": format!("00000000-0000-0000-0000-00000000000{number}"),
            "address": format!("127.0.0.{number}"),
            "port": 7000,
            "native_address": format!("127.0.0.{number}"),
            "native_port": 9042,
            "data_center": "datacenter1",
            "rack": rack,
            "release_version": "5.0.6",
            "tokens": tokens,
            "state": if tokens.is_empty() { "Joining" } else { "Normal" },
            "is_up": is_up,
        })
    };
    let mut nodes = [
        node(1, "rack1", &[-300, 300], json!(true)),
        node(2, "rack2", &[-200, 200], json!(false)),
        node(3, "rack1", &[-100, 100], json!(true)),
        node(4, "rack1", &[], Value::Null),
    ];
    for (at, load) in [(0, 15712), (2, 26)] {
        nodes[at]["load"] = json!(load);
        nodes[at]["generation"] = json!(1_764_000_000);
        nodes[at]["schema_version"] = json!("11111111-1111-1111-1111-111111111111");
        nodes[at]["serves_clients"] = json!(at == 0);
    }
    nodes[2]["disk_usage"] = json!("STUFFED");
    Cluster {
        info: json!({
            "name": "Test",
            "snitch": "org.apache.cassandra.locator.GossipingPropertyFileSnitch",
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "epoch": 12, "own_address": "127.0.0.1",
            "schema_version": "11111111-1111-1111-1111-111111111111",
            "nodes": nodes,
        }),
        naming,
        hosts: match naming.names {
            true => "# names\n127.0.0.1\tlocalhost loop # us\n127.0.0.3 third".to_owned(),
            false => String::new(),
        },
    }
}

fn owned() -> Ownership {
    let share = |number: u8, share: f64| {
        let host = format!("00000000-0000-0000-0000-00000000000{number}");
        json!({ "key": format!("127.0.0.{number}"), "value": share, "host_id": host })
    };
    Ownership::of(&json!([
        share(1, 1.0),
        share(2, 0.66666),
        share(3, 0.33333)
    ]))
}

fn meaningless() -> Ownership {
    Ownership::Meaningless("it means nothing".to_owned())
}

fn printed(print: impl FnOnce(&mut Vec<u8>) -> Done) -> String {
    let mut out = Vec::new();
    print(&mut out).expect("a buffer takes all");
    let text = String::from_utf8(out).expect("text");
    // Blanks at the ends of lines would not survive editors.
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

#[test]
fn status_shows_all_nodes() {
    let shown = printed(|out| print_status(&cluster(Naming::default()), &owned(), out));
    assert_eq!(
        shown,
        "\
Datacenter: datacenter1
=======================
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address    Load       Tokens  Owns (effective)  Host ID                               Rack
UN  127.0.0.1  15.34 KiB  2       100.0%            00000000-0000-0000-0000-000000000001  rack1
DN  127.0.0.2  ?          2       66.7%             00000000-0000-0000-0000-000000000002  rack2
UN  127.0.0.3  26 bytes   2       33.3%             00000000-0000-0000-0000-000000000003  rack1
?J  127.0.0.4  ?          0       ?                 00000000-0000-0000-0000-000000000004  rack1

"
    );
    let naming = Naming {
        names: true,
        ports: true,
    };
    let shown = printed(|out| print_status(&cluster(naming), &meaningless(), out));
    assert!(
        shown.contains("UN  localhost:7000  15.34 KiB  2       ?     0000"),
        "{shown}"
    );
    assert!(shown.contains("\nDN  127.0.0.2:7000  "), "{shown}");
    assert!(shown.ends_with("\n\nNote: it means nothing\n"), "{shown}");
}

#[test]
fn data_centres_stand_apart_and_their_columns_in_line() {
    let mut cluster = cluster(Naming::default());
    cluster.info["nodes"][1]["data_center"] = json!("b");
    cluster.info["nodes"][3]["address"] = json!("127.0.0.104");
    let shown = printed(|out| print_status(&cluster, &owned(), out));
    let (first, second) = shown.split_once("\n\n").expect("two data centres");
    assert!(
        first.starts_with("Datacenter: b\n=============\nStatus=Up/Down\n"),
        "{first}"
    );
    assert!(first.ends_with("rack2"), "{first}");
    assert!(second.starts_with("Datacenter: datacenter1\n"), "{second}");
    for line in [
        "DN  127.0.0.2    ?          2       66.7% ",
        "UN  127.0.0.1    15.34 KiB  2       100.0% ",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    // A token for each data centre: then they are shown.
    for (at, tokens) in [(0, json!([5])), (1, json!([7])), (2, json!([]))] {
        cluster.info["nodes"][at]["tokens"] = tokens;
    }
    let shown = printed(|out| print_status(&cluster, &owned(), out));
    assert!(
        shown.contains("  Host ID                               Token  Rack\n"),
        "{shown}"
    );
    assert!(shown.contains("0002  7      rack2"), "{shown}");
}

#[test]
fn the_ring_is_in_the_order_of_its_tokens() {
    let shown = printed(|out| print_ring(&cluster(Naming::default()), &owned(), out));
    assert_eq!(
        shown,
        "
Datacenter: datacenter1
==========
Address         Rack        Status State   Load            Owns                Token
                                                                               300
127.0.0.1       rack1       Up     Normal  15.34 KiB       100.00%             -300
127.0.0.2       rack2       Down   Normal  ?               66.67%              -200
127.0.0.3       rack1       Up     Normal  26 bytes        33.33%              -100
127.0.0.3       rack1       Up     Normal  26 bytes        33.33%              100
127.0.0.2       rack2       Down   Normal  ?               66.67%              200
127.0.0.1       rack1       Up     Normal  15.34 KiB       100.00%             300

  Warning: \"nodetool ring\" is used to output all the tokens of a node.
  To view status related info of a node use \"nodetool status\" instead.



"
    );
}

#[test]
fn what_nodes_agree_on_is_described() {
    let keyspaces = json!([
        { "keyspace": "shop", "class": "NetworkTopologyStrategy",
          "options": { "datacenter1": "3", "east": "2" } },
        { "keyspace": "system", "class": "LocalStrategy", "options": {} },
    ]);
    let cluster = cluster(Naming::default());
    let shown = printed(|out| print_cluster(&cluster, &keyspaces, &owned(), out));
    assert_eq!(
        shown,
        "\
Cluster Information:
	Name: Test
	Snitch: org.apache.cassandra.locator.GossipingPropertyFileSnitch
	DynamicEndPointSnitch: disabled
	Partitioner: org.apache.cassandra.dht.Murmur3Partitioner
	Schema versions:
		11111111-1111-1111-1111-111111111111: [127.0.0.1, 127.0.0.3]

		UNREACHABLE: [127.0.0.2, 127.0.0.4]

Stats for all nodes:
	Live: 2
	Joining: 1
	Moving: 0
	Leaving: 0
	Unreachable: 1

Data Centers:
	datacenter1 #Nodes: 4 #Down: 1

Database versions:
	5.0.6: [127.0.0.1:7000, 127.0.0.2:7000, 127.0.0.3:7000, 127.0.0.4:7000]

Keyspaces:
	shop -> Replication class: NetworkTopologyStrategy {datacenter1=3, east=2}
	system -> Replication class: LocalStrategy {}
"
    );
    let shown = printed(|out| print_cluster(&cluster, &keyspaces, &meaningless(), out));
    assert!(
        shown.ends_with("LocalStrategy {}\n\nNote: it means nothing\n"),
        "{shown}"
    );
}

#[test]
fn ranges_are_described_as_cassandra_does() {
    let details = |number: u8, rack: &str| {
        json!({ "host": format!("127.0.0.{number}"), "port": 7000, "native_port": 9042,
                "datacenter": "datacenter1", "rack": rack })
    };
    let ranges = json!([{
        "start_token": "-300", "end_token": "-200",
        "endpoints": ["127.0.0.2", "127.0.0.3"], "rpc_endpoints": ["127.0.1.2", "127.0.1.3"],
        "endpoint_details": [details(2, "rack2"), details(3, "rack1")],
    }]);
    assert_eq!(
        printed(|out| print_ranges("1-1", &ranges, false, out)),
        "\
Schema Version:1-1
TokenRange:
	TokenRange(start_token:-300, end_token:-200, endpoints:[127.0.0.2, 127.0.0.3], \
         rpc_endpoints:[127.0.1.2, 127.0.1.3], endpoint_details:[EndpointDetails(host:127.0.0.2, \
         datacenter:datacenter1, rack:rack2), EndpointDetails(host:127.0.0.3, \
         datacenter:datacenter1, rack:rack1)])
"
    );
    let with_ports = printed(|out| print_ranges("1-1", &ranges, true, out));
    for part in [
        "[127.0.0.2:7000, ",
        "[127.0.1.2:9042, ",
        "(host:127.0.0.3:7000, ",
    ] {
        assert!(with_ports.contains(part), "{with_ports}");
    }
}

#[test]
fn gossip_tells_what_is_known() {
    let shown = printed(|out| print_gossip(&cluster(Naming::default()), out));
    let nodes: Vec<&str> = shown.split("/127.0.0.").skip(1).collect();
    assert_eq!(
        nodes[0],
        "\
1
  generation:1764000000
  heartbeat:?
  STATUS:12:NORMAL,-300
  LOAD:12:15712.0
  SCHEMA:12:11111111-1111-1111-1111-111111111111
  DC:12:datacenter1
  RACK:12:rack1
  RELEASE_VERSION:12:5.0.6
  RPC_ADDRESS:12:127.0.0.1
  HOST_ID:12:00000000-0000-0000-0000-000000000001
  RPC_READY:12:true
  NATIVE_ADDRESS_AND_PORT:12:127.0.0.1:9042
  STATUS_WITH_PORT:12:NORMAL,-300
  TOKENS:12:<hidden>
"
    );
    assert!(
        nodes[1].starts_with("2\n  generation:?\n  heartbeat:?\n  DC:12:"),
        "{shown}"
    );
    assert!(nodes[2].contains("  RPC_READY:12:false\n"), "{shown}");
    assert!(nodes[2].contains("  DISK_USAGE:12:STUFFED\n"), "{shown}");
    assert!(
        nodes[3].contains("STATUS_WITH_PORT:12:BOOT\n  TOKENS: not present\n"),
        "{shown}"
    );
}

#[test]
fn silences_stand_in_the_column_of_phi() {
    let silences = json!([
        { "endpoint": "127.0.0.2", "port": 7000, "phi": 0.0 },
        { "endpoint": "10.20.30.40", "port": 7000, "phi": 12.5 },
        { "endpoint": "::1", "port": 7000, "phi": null },
    ]);
    assert_eq!(
        printed(|out| print_silences(&silences, false, out)),
        "  Endpoint,             Phi
/127.0.0.2,      0.00000000
/10.20.30.40,     12.50000000
      /::1,             NaN
"
    );
    let with_ports = printed(|out| print_silences(&silences, true, out));
    assert!(with_ports.contains("\n/127.0.0.2:7000,  ") && with_ports.contains("\n/[::1]:7000,"));
}
