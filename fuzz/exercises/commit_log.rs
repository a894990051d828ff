//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte chooses: a whole segment of Cassandra's; a mutation of Cassandra's, put into an
//! intact segment, as a fuzzer hardly finds a checksum; or a mutation of ours.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Column, ColumnId, ColumnKind, CqlType, DroppedColumn, Order, Table, TableId, TableOptions,
};

/// Reads the input as what its first byte says.
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let table = table();
    match choice & 3 {
        0 => {
            let file = Bytes::copy_from_slice(data);
            storage::count_cassandra_mutations(file, &|_| Some(table.clone()));
        }
        1 => {
            // The first byte of a mutation counts updates, then comes the first table's id.
            let version = 7 + u32::from(choice >> 2 & 1);
            let file = segment(version, data);
            let find = |_: TableId| Some(table.clone());
            let (mutations, damages) = storage::count_cassandra_mutations(file.into(), &find);
            assert!(mutations + damages <= 1);
        }
        2 => {
            let file = segment(7, data);
            storage::count_cassandra_mutations(file.into(), &|_| None);
        }
        _ => {
            let bytes = Bytes::copy_from_slice(data);
            let _ = storage::decode_mutation(bytes, |_| Some(table.clone()));
        }
    }
}

/// A segment that holds one mutation, in one section.
fn segment(version: u32, mutation: &[u8]) -> Vec<u8> {
    const ID: u64 = 0x1_0000_0002;
    let mut file = Vec::new();
    file.extend(version.to_be_bytes());
    file.extend(ID.to_be_bytes());
    file.extend(2u16.to_be_bytes());
    file.extend(b"{}");
    let id = [2u32.to_be_bytes(), 1u32.to_be_bytes()].concat();
    let head = [&version.to_be_bytes()[..], &id, &2u32.to_be_bytes(), b"{}"].concat();
    file.extend(crc32fast::hash(&head).to_be_bytes());
    let at = file.len();
    file.extend(((at + 20 + mutation.len()) as u32).to_be_bytes());
    let marker = [&id[..], &(at as u32).to_be_bytes()].concat();
    file.extend(crc32fast::hash(&marker).to_be_bytes());
    let length = (mutation.len() as u32).to_be_bytes();
    file.extend(length);
    file.extend(crc32fast::hash(&length).to_be_bytes());
    file.extend(mutation);
    let all = [&length, mutation].concat();
    file.extend(crc32fast::hash(&all).to_be_bytes());
    file
}

/// The table that every id means: of the columns of the kept segments' `k.t`.
fn table() -> Arc<Table> {
    let parts = [
        ("p", "Int32Type", ColumnKind::PartitionKey, 0),
        ("q", "UTF8Type", ColumnKind::PartitionKey, 1),
        ("c", "Int32Type", ColumnKind::Clustering, 0),
        ("d", "UTF8Type", ColumnKind::Clustering, 1),
        ("st", "UTF8Type", ColumnKind::Static, 0),
        ("v", "UTF8Type", ColumnKind::Regular, 0),
        ("n", "LongType", ColumnKind::Regular, 0),
        ("m", "MapType(UTF8Type,Int32Type)", ColumnKind::Regular, 0),
        ("l", "ListType(Int32Type)", ColumnKind::Regular, 0),
        ("e", "SetType(Int32Type)", ColumnKind::Regular, 0),
    ];
    let column =
        |(at, (name, ty, kind, position)): (usize, &(&str, &str, ColumnKind, usize))| Column {
            id: ColumnId(at as u32),
            name: (*name).into(),
            ty: CqlType::from_marshal(ty).expect("a type"),
            kind: *kind,
            position: *position,
            order: Order::Ascending,
        };
    let columns = parts.iter().enumerate().map(column).collect();
    let options = TableOptions::default();
    let mut table = Table::new(TableId::from_u128(1), "k", "t", columns, options);
    table.dropped.push(DroppedColumn {
        name: "f".into(),
        ty: CqlType::Blob,
        is_static: false,
        dropped_at: i64::MAX,
    });
    Arc::new(table)
}
