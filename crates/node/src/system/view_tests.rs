//! The rows that the node makes of itself.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Member, MemberState, Node, Place};
use model::{CqlType, Schema, Token};
use uuid::Uuid;

use super::node_info::{CacheInfo, ClientInfo, NodeInfo, TableInfo};
use super::rows::RowReader;
use super::virtual_tables::virtual_rows;
use super::{LocalNode, local_mutation, system_keyspaces};
use crate::batch::BatchSizes;

fn local() -> LocalNode {
    LocalNode {
        host_id: Uuid::from_u128(5),
        cluster_name: "Test Cluster".to_owned(),
        data_center: "datacenter1".to_owned(),
        rack: "rack1".to_owned(),
        rpc_address: "127.0.0.1".parse().unwrap(),
        rpc_port: 9042,
        listen_address: "127.0.0.2".parse().unwrap(),
        listen_port: 7000,
        tokens: vec![Token(-5), Token(7)],
        gossip_generation: 9,
    }
}

/// A node that is joined, at 127.0.0.NUMBER.
fn other(number: u8) -> Member {
    let address = |port| ([127, 0, 0, number], port).into();
    Member {
        node: Node {
            host_id: Uuid::from_u128(number.into()),
            address: address(7001),
            native_address: address(9043),
            place: Place {
                datacenter: "datacenter1".to_owned(),
                rack: "rack2".to_owned(),
            },
            shards: 2,
            release: "5.0.6".to_owned(),
            protocol: 1,
        },
        state: MemberState::Joined,
        tokens: BTreeSet::from([Token(i64::from(number))]),
    }
}

fn info<'a>(schema: &'a Schema, local: &'a LocalNode) -> NodeInfo<'a> {
    NodeInfo {
        schema,
        local,
        others: vec![other(3), other(4)],
        clients: vec![ClientInfo {
            address: "127.0.0.1:5000".parse().unwrap(),
            options: BTreeMap::from([("DRIVER_NAME".to_owned(), "d".to_owned())]),
            keyspace: None,
            protocol_version: 5,
            requests: 12,
            username: "anonymous".to_owned(),
            ready: true,
        }],
        caches: vec![CacheInfo {
            name: "rows".to_owned(),
            capacity: 1000,
            size: 10,
            entries: 2,
            hits: 3,
            requests: 4,
        }],
        thread_pools: Vec::new(),
        batches: BatchSizes::default(),
        indexes: BTreeMap::new(),
        sstable_tasks: Vec::new(),
        snapshots: Vec::new(),
        settings: BTreeMap::new(),
        prepared_statements: 1,
        prepared_statements_evicted: 0,
        prepared_statements_executed: 3,
        regular_statements_executed: 1,
        tables: BTreeMap::from([(
            ("system".to_owned(), "local".to_owned()),
            TableInfo {
                disk_bytes: 1,
                ..TableInfo::default()
            },
        )]),
    }
}

#[test]
fn the_local_row_has_all_that_drivers_ask_for() {
    let schema = system_keyspaces();
    let mutation = local_mutation(&schema, &local(), 1_000_000_000).unwrap();
    let update = &mutation.updates[0];
    let table = update.table.clone();
    let row = &update.rows[0];
    for column in table.regulars() {
        if &*column.name != "truncated_at" {
            let cells = row.cells_of(column.id);
            assert!(!cells.is_empty(), "{} is null", column.name);
            for cell in cells {
                let ty = column.ty.cell_value_type(cell.path.as_deref()).unwrap();
                assert_eq!(ty.validate(&cell.value), Ok(()), "{}", column.name);
            }
        }
    }
    let tokens = table.column_named("tokens").unwrap();
    assert_eq!(row.cells_of(tokens.id).len(), 2);
}

#[test]
fn virtual_tables_hold_valid_values_in_the_order_of_the_ring() {
    let schema = system_keyspaces();
    let local = local();
    let node = info(&schema, &local);
    let mut rows = 0;
    for keyspace in schema.keyspaces.values().filter(|k| k.is_virtual) {
        for table in keyspace.tables.values() {
            let partitions = virtual_rows(table, &node);
            assert!(partitions.is_sorted_by(|a, b| a.key < b.key));
            for row in partitions.iter().flat_map(|partition| &partition.rows) {
                rows += 1;
                assert_eq!(row.clustering.0.len(), table.clustering_key().len());
                for cell in &row.cells {
                    let column = table.column(cell.column).unwrap();
                    let valid = column.ty.validate(&cell.value);
                    assert_eq!(valid, Ok(()), "{}.{}", table.name, column.name);
                }
            }
        }
    }
    assert!(rows > 500, "{rows}");
}

#[test]
fn virtual_tables_tell_what_the_node_told_them() {
    let schema = system_keyspaces();
    let local = local();
    let node = info(&schema, &local);
    let read = |name: &str, column: &str| {
        let table = schema.table("system_views", name).unwrap();
        let partitions = virtual_rows(table, &node);
        let value = RowReader::new(table, &partitions[0].rows[0]).get(column);
        let ty: &CqlType = &table.column_named(column).unwrap().ty;
        value.map(|value| ty.format_string(value))
    };
    assert_eq!(read("clients", "port"), Some("5000".to_owned()));
    assert_eq!(read("clients", "driver_name"), Some("d".to_owned()));
    assert_eq!(read("clients", "driver_version"), None);
    assert_eq!(read("clients", "request_count"), Some("12".to_owned()));
    assert_eq!(read("caches", "hit_ratio"), Some("0.75".to_owned()));
    assert_eq!(read("rows_per_read", "p99th"), Some("0.0".to_owned()));
    let cidr = "cidr_filtering_metrics_counts";
    assert_eq!(read(cidr, "value"), Some("0".to_owned()));
    let disk_usage = schema.table("system_views", "disk_usage").unwrap();
    let used: Vec<i64> = virtual_rows(disk_usage, &node)
        .iter()
        .filter_map(|p| RowReader::new(disk_usage, &p.rows[0]).bigint("mebibytes"))
        .collect();
    assert_eq!(used.iter().sum::<i64>(), 1);
    assert_eq!(used.len(), 48);
}

#[test]
fn gossip_info_has_all_nodes() {
    let schema = system_keyspaces();
    let local = local();
    let node = info(&schema, &local);
    let table = schema.table("system_views", "gossip_info").unwrap();
    let read = |column: &str| -> Vec<String> {
        let ty = &table.column_named(column).unwrap().ty;
        let partitions = virtual_rows(table, &node);
        let rows = partitions.iter().flat_map(|partition| &partition.rows);
        let values = rows.map(|row| match RowReader::new(table, row).get(column) {
            Some(value) => ty.format_string(value),
            None => "null".to_owned(),
        });
        let mut values: Vec<String> = values.collect();
        values.sort();
        values
    };
    assert_eq!(read("hostname"), ["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    assert_eq!(read("rack"), ["rack1", "rack2", "rack2"]);
    assert_eq!(read("status"), ["NORMAL,-5", "NORMAL,3", "NORMAL,4"]);
    assert_eq!(
        read("native_address_and_port"),
        ["127.0.0.1:9042", "127.0.0.3:9043", "127.0.0.4:9043"]
    );
    assert_eq!(read("generation"), ["9", "null", "null"]);
}
