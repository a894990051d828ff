//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.
//!
//! The first byte chooses the version of Cassandra's messages and the table that every id means;
//! the rest is an update as `system.paxos` keeps it. One that can be read is written, and that
//! reads and writes as itself.

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnKind, CqlType, DroppedColumn, Order, Table, TableId, TableOptions,
};

/// Reads the input as what its first byte says.
pub(super) fn run(data: &[u8]) {
    let [choice, data @ ..] = data else {
        return;
    };
    let version = 10 + i32::from(choice & 3);
    let table = table(TABLES[usize::from(choice >> 2) % TABLES.len()]);
    let decode = |bytes: Vec<u8>, version| {
        storage::decode_partition_update(&bytes.into(), version, &|_| Some(table.clone()))
    };
    let Ok(update) = decode(data.to_vec(), version) else {
        return;
    };
    let (version, bytes) = storage::encode_partition_update(&update).expect("what was read fits");
    let again = decode(bytes.clone(), version).expect("what was written can be read");
    let (version_again, bytes_again) =
        storage::encode_partition_update(&again).expect("what was read fits");
    assert_eq!((version_again, bytes_again), (version, bytes));
}

type Part = (&'static str, &'static str, ColumnKind);

const KEY: Part = ("k", "Int32Type", ColumnKind::PartitionKey);
const NUMBER: Part = ("v", "Int32Type", ColumnKind::Regular);
const TEXT: Part = ("t", "UTF8Type", ColumnKind::Regular);

/// Columns as those of the tables in `crates/storage/src/sstable/tests/golden/paxos.golden`.
const TABLES: [&[Part]; 4] = [
    &[KEY, NUMBER, TEXT],
    &[
        KEY,
        ("a", "ReversedType(Int32Type)", ColumnKind::Clustering),
        ("b", "UTF8Type", ColumnKind::Clustering),
        NUMBER,
        TEXT,
        ("s", "Int32Type", ColumnKind::Static),
        ("st", "UTF8Type", ColumnKind::Static),
    ],
    &[
        KEY,
        ("a", "AsciiType", ColumnKind::Regular),
        ("b", "LongType", ColumnKind::Regular),
        ("bl", "BytesType", ColumnKind::Regular),
        ("bo", "BooleanType", ColumnKind::Regular),
        ("d", "SimpleDateType", ColumnKind::Regular),
        ("de", "DecimalType", ColumnKind::Regular),
        ("dou", "DoubleType", ColumnKind::Regular),
        ("du", "DurationType", ColumnKind::Regular),
        ("f", "FloatType", ColumnKind::Regular),
        ("i", "InetAddressType", ColumnKind::Regular),
        ("n", "Int32Type", ColumnKind::Regular),
        ("s", "ShortType", ColumnKind::Regular),
        TEXT,
        ("ti", "TimeType", ColumnKind::Regular),
        ("tiny", "ByteType", ColumnKind::Regular),
        ("ts", "TimestampType", ColumnKind::Regular),
        ("tu", "TimeUUIDType", ColumnKind::Regular),
        ("u", "UUIDType", ColumnKind::Regular),
        ("v", "IntegerType", ColumnKind::Regular),
        ("vec", "VectorType(FloatType , 3)", ColumnKind::Regular),
    ],
    &[
        KEY,
        ("c", "Int32Type", ColumnKind::Clustering),
        NUMBER,
        ("l", "ListType(Int32Type)", ColumnKind::Regular),
        ("e", "SetType(UTF8Type)", ColumnKind::Regular),
        ("m", "MapType(UTF8Type,Int32Type)", ColumnKind::Regular),
        (
            "fm",
            "FrozenType(MapType(UTF8Type,Int32Type))",
            ColumnKind::Regular,
        ),
        ("t", "TupleType(Int32Type,UTF8Type)", ColumnKind::Regular),
        ("u", USER_TYPE, ColumnKind::Regular),
        ("sm", "MapType(UTF8Type,Int32Type)", ColumnKind::Static),
        ("s", "Int32Type", ColumnKind::Static),
    ],
];

const USER_TYPE: &str = "UserType(lwt,75,66:Int32Type,67:UTF8Type)";

/// A table of these columns, which had a blob `fu` once.
fn table(parts: &[Part]) -> Arc<Table> {
    let mut clusterings = 0;
    let column = |(at, (name, ty, kind)): (usize, &Part)| {
        let (ty, order) = match ty.strip_prefix("ReversedType(") {
            Some(ty) => (ty.trim_end_matches(')'), Order::Descending),
            None => (*ty, Order::Ascending),
        };
        let position = clusterings;
        clusterings += usize::from(*kind == ColumnKind::Clustering);
        Column {
            id: ColumnId(at as u32),
            name: (*name).into(),
            ty: CqlType::from_marshal(ty).expect("a type"),
            kind: *kind,
            position: if *kind == ColumnKind::Clustering {
                position
            } else {
                0
            },
            order,
        }
    };
    let columns = parts.iter().enumerate().map(column).collect();
    let options = TableOptions::default();
    let mut table = Table::new(TableId::from_u128(1), "lwt", "t", columns, options);
    table.dropped.push(DroppedColumn {
        name: "fu".into(),
        ty: CqlType::Blob,
        is_static: false,
        dropped_at: i64::MAX,
    });
    Arc::new(table)
}
