//! Updates in the format of `system.paxos`: those that a Cassandra 5.0.6 left there, and any.
//!
//! `tests/corpus/paxos.py` makes the golden file and says what is in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Column, ColumnId, ColumnKind, CqlType, DecoratedKey, DroppedColumn, Order, PartitionUpdate,
    RangeTombstone, Row, Slice, Table, TableId, TableOptions,
};
use proptest::prelude::*;

use super::roundtrip;
use super::support::Partition;
use crate::dump::{JsonDump, JsonForm, TimeForm};
use crate::sstable::message::encode_in_version;
use crate::sstable::{
    PartitionUpdateError, decode_partition_update, encode_partition_update, stream,
};
use crate::{PartitionHead, Unfiltered, testing};

const GOLDEN: &str = include_str!("golden/paxos.golden");
const VERSIONS: [i32; 2] = [12, 13];

/// Something that Cassandra kept.
struct Blob {
    /// What left it.
    statement: &'static str,
    version: i32,
    bytes: Bytes,
    /// What it wrote, as sstabledump says; nothing if that was not asked.
    dump: Option<&'static str>,
}

/// The golden file.
struct Golden {
    tables: BTreeMap<TableId, Arc<Table>>,
    blobs: Vec<Blob>,
}

impl Golden {
    fn read() -> Golden {
        let mut columns: BTreeMap<&str, Vec<Column>> = BTreeMap::new();
        let mut golden = Golden {
            tables: BTreeMap::new(),
            blobs: Vec::new(),
        };
        let mut statement = "";
        for line in GOLDEN.lines().filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(' ').expect("a word and more");
            match word {
                "column" => {
                    let (table, rest) = rest.split_once(' ').expect("a table");
                    let of_table = columns.entry(table).or_default();
                    of_table.push(column(of_table.len(), rest));
                }
                "table" => {
                    let (id, name) = rest.split_once(' ').expect("an id");
                    let id = id.parse().expect("an id");
                    let columns = columns[name].clone();
                    let table = Table::new(id, "lwt", name, columns, TableOptions::default());
                    golden.tables.insert(id, Arc::new(table));
                }
                ">" => statement = rest,
                "|" => golden.blobs.last_mut().expect("a blob").dump = Some(rest),
                _ => {
                    let (version, hex) = rest.split_once(' ').expect("a version");
                    golden.blobs.push(Blob {
                        statement,
                        version: version.parse().expect("a version"),
                        bytes: from_hex(hex),
                        dump: None,
                    });
                }
            }
        }
        golden
    }

    /// With columns numbered as they lie in files, which is the order in which they are dumped.
    fn read_in_file_order() -> Golden {
        let mut golden = Golden::read();
        for table in golden.tables.values_mut() {
            let mut columns: Vec<Column> = table.columns().cloned().collect();
            columns.sort_by_key(|column| column.ty.is_multi_cell());
            for (at, column) in columns.iter_mut().enumerate() {
                column.id = ColumnId(at as u32);
            }
            let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
            let options = TableOptions::default();
            *table = Arc::new(Table::new(table.id, keyspace, name, columns, options));
        }
        golden
    }

    fn find(&self) -> impl Fn(TableId) -> Option<Arc<Table>> {
        |id| self.tables.get(&id).cloned()
    }

    fn decode(&self, blob: &Blob) -> PartitionUpdate {
        decode_partition_update(&blob.bytes, blob.version, &self.find())
            .unwrap_or_else(|error| panic!("{}: {error}", blob.statement))
    }
}

/// `NAME KIND POSITION ORDER TYPE`
fn column(id: usize, line: &str) -> Column {
    let words: Vec<&str> = line.splitn(5, ' ').collect();
    Column {
        id: ColumnId(id as u32),
        name: words[0].into(),
        kind: match words[1] {
            "partition_key" => ColumnKind::PartitionKey,
            "clustering" => ColumnKind::Clustering,
            "static" => ColumnKind::Static,
            _ => ColumnKind::Regular,
        },
        position: words[2].parse().expect("a position"),
        order: match words[3] {
            "desc" => Order::Descending,
            _ => Order::Ascending,
        },
        ty: CqlType::from_marshal(words[4]).expect("a type"),
    }
}

fn from_hex(text: &str) -> Bytes {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16);
    digits.map(|pair| byte(pair).expect("two digits")).collect()
}

fn head(update: &PartitionUpdate) -> PartitionHead {
    PartitionHead {
        key: update.key.clone(),
        deletion: update.deletion,
        static_row: update.static_row.clone(),
    }
}

/// An update as sstabledump shows its partition, without saying where things lie.
fn dump(update: &PartitionUpdate) -> String {
    let mut json = JsonDump::new(&update.table, JsonForm::Lines, TimeForm::Raw, 0);
    json.begin_partition(&head(update), 0);
    for item in stream::items(update) {
        json.item(&item, 0);
    }
    json.end_partition();
    without_positions(json.finish().trim())
}

fn without_positions(json: &str) -> String {
    let mut parts = json.split("\"position\":");
    let mut out = parts.next().expect("text").to_owned();
    out.extend(parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())));
    out
}

#[test]
fn what_cassandra_kept_is_what_it_wrote() {
    let golden = Golden::read_in_file_order();
    assert_eq!(golden.blobs.len(), 190, "of the golden file");
    let mut compared = 0;
    for blob in &golden.blobs {
        let update = golden.decode(blob);
        if let Some(written) = blob.dump {
            assert_eq!(
                dump(&update),
                without_positions(written),
                "{}",
                blob.statement
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 93);
}

#[test]
fn what_cassandra_kept_is_written_as_it_was() {
    let golden = Golden::read();
    let (mut empty, mut late) = (0, 0);
    for blob in &golden.blobs {
        let update = golden.decode(blob);
        let encoded = encode_in_version(&update, blob.version).expect("it fits");
        assert_eq!(Bytes::from(encoded), blob.bytes, "{}", blob.statement);
        let (version, bytes) = encode_partition_update(&update).expect("it fits");
        // Nothing else expires after 2038.
        let is_late = blob.statement.contains("'late'");
        assert_eq!(version, if is_late { 13 } else { 12 }, "{}", blob.statement);
        let again = decode_partition_update(&bytes.into(), version, &golden.find());
        empty += u32::from(update.is_empty());
        late += u32::from(is_late);
        assert_eq!(again, Ok(update), "{}", blob.statement);
    }
    assert!(
        empty > 0 && late > 0,
        "{empty} empty updates, {late} late ones"
    );
}

/// A table without a column of it.
fn without(table: &Table, gone: &Column) -> Table {
    let columns = table.columns().filter(|c| c.id != gone.id).cloned();
    let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
    let options = TableOptions::default();
    Table::new(table.id, keyspace, name, columns.collect(), options)
}

/// Takes what an update says of a column out of it; whether it said anything.
fn take_out(update: &mut PartitionUpdate, gone: &Column) -> bool {
    let says = |row: &Row| row.cells.len() + row.complex_deletions.len();
    let before: usize = update.rows.iter().map(says).sum();
    for row in &mut update.rows {
        row.cells.retain(|cell| cell.column != gone.id);
        row.complex_deletions.retain(|d| d.column != gone.id);
    }
    let after: usize = update.rows.iter().map(says).sum();
    update.rows.retain(|row| !row.is_empty());
    before != after
}

#[test]
fn what_was_dropped_since_is_left_out() {
    let golden = Golden::read();
    let mut left_out = 0;
    for blob in &golden.blobs {
        let mut expected = golden.decode(blob);
        let Some(gone) = expected.table.regulars().next().cloned() else {
            continue;
        };
        let mut table = without(&expected.table, &gone);
        let decode = |table: &Table| {
            let table = Arc::new(table.clone());
            decode_partition_update(&blob.bytes, blob.version, &move |_| Some(table.clone()))
        };
        if take_out(&mut expected, &gone) {
            let unknown = PartitionUpdateError::UnknownColumn {
                table: format!("lwt.{}", table.name),
                column: gone.name.to_string(),
            };
            assert_eq!(decode(&table), Err(unknown), "{}", blob.statement);
            left_out += 1;
        }
        table.dropped.push(DroppedColumn {
            name: gone.name,
            ty: gone.ty,
            is_static: false,
            dropped_at: i64::MAX,
        });
        let decoded = decode(&table).expect("it can be read");
        assert_eq!(decoded.rows, expected.rows, "{}", blob.statement);
    }
    assert!(left_out > 20, "{left_out} updates of dropped columns");
}

#[test]
fn what_is_not_known_is_named() {
    let golden = Golden::read();
    let blob = &golden.blobs[0];
    for version in [i32::MIN, 9, 14, i32::MAX] {
        let decoded = decode_partition_update(&blob.bytes, version, &golden.find());
        assert_eq!(decoded, Err(PartitionUpdateError::UnknownVersion(version)));
    }
    let id = TableId::from_slice(&blob.bytes[..16]).expect("an id");
    let decoded = decode_partition_update(&blob.bytes, blob.version, &|_| None);
    assert_eq!(decoded, Err(PartitionUpdateError::UnknownTable(id)));
}

#[test]
fn damage_gives_errors() {
    let golden = Golden::read();
    for blob in &golden.blobs {
        for length in 0..blob.bytes.len() {
            let cut = blob.bytes.slice(..length);
            let decoded = decode_partition_update(&cut, blob.version, &golden.find());
            assert!(decoded.is_err(), "{length} bytes of {}", blob.statement);
        }
        let longer = [&blob.bytes[..], &[0]].concat().into();
        let decoded = decode_partition_update(&longer, blob.version, &golden.find());
        assert!(decoded.is_err(), "more than {}", blob.statement);
        for at in 0..blob.bytes.len() {
            let mut bytes = blob.bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            // It may be another update, or none.
            let decoded = decode_partition_update(&bytes.into(), blob.version, &golden.find());
            if let Ok(update) = decoded {
                encode_partition_update(&update).expect("it fits");
            }
        }
    }
}

#[test]
fn a_column_is_named_once() {
    let golden = Golden::read();
    let blob = &golden.blobs[0];
    let names = [2, 1, b't', 1, b'v'];
    let at = blob.bytes.windows(5).position(|part| part == names);
    let mut bytes = blob.bytes.to_vec();
    bytes[at.expect("two columns") + 4] = b't';
    let decoded = decode_partition_update(&bytes.into(), blob.version, &golden.find());
    let error = decoded.expect_err("`t` twice").to_string();
    assert_eq!(error, "it is damaged: a column is named twice");
}

/// The partition of an sstable as an update.
fn update(table: &Arc<Table>, (head, items): Partition) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), head.key);
    update.deletion = head.deletion;
    update.static_row = head.static_row;
    let mut open = None;
    for item in items {
        match item {
            Unfiltered::Row(row) => update.rows.extend(Some(row).filter(|row| !row.is_empty())),
            Unfiltered::Marker(marker) => {
                if let (Some((start, deletion)), Some(end)) = (open.take(), marker.end_bound()) {
                    let slice = Slice { start, end };
                    let tombstone = RangeTombstone { slice, deletion };
                    update.range_tombstones.push(tombstone);
                }
                open = marker.start_bound().zip(marker.opens);
            }
        }
    }
    update
}

fn reads_as_written(update: &PartitionUpdate) -> Result<(), TestCaseError> {
    let table = update.table.clone();
    let find = move |id| Some(table.clone()).filter(|table| table.id == id);
    for version in VERSIONS {
        let bytes: Bytes = encode_in_version(update, version).expect("it fits").into();
        for version in [version, version - 1] {
            let decoded = decode_partition_update(&bytes, version, &find);
            prop_assert_eq!(decoded.as_ref(), Ok(update), "version {}", version);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_partition_reads_as_written(partitions in roundtrip::partitions()) {
        let table = roundtrip::table("");
        for partition in partitions {
            reads_as_written(&update(&table, partition))?;
        }
    }

    #[test]
    fn any_update_reads_as_written(
        sayings in proptest::collection::vec(testing::saying(), 0..12),
        descending: bool,
    ) {
        let order = if descending { Order::Descending } else { Order::Ascending };
        reads_as_written(&testing::update(&testing::table(order), &sayings))?;
    }

    #[test]
    fn times_after_2038_stay_what_they_are(expires_at in 2_147_483_000u32..u32::MAX, t in 0i64..9) {
        let table = testing::table(Order::Ascending);
        let mut update = testing::update(&table, &[testing::Saying::Marked([1, 2], t + 1)]);
        update.rows[0].liveness.ttl = 600_000_000;
        update.rows[0].liveness.expires_at = expires_at;
        let (version, bytes) = encode_partition_update(&update).expect("it fits");
        prop_assert_eq!(version, if expires_at < 2_147_483_647 { 12 } else { 13 });
        let decoded = decode_partition_update(&bytes.into(), version, &|_| Some(table.clone()));
        prop_assert_eq!(decoded, Ok(update));
    }

    #[test]
    fn any_bytes_are_an_update_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        version in 10i32..14,
    ) {
        let table = testing::table(Order::Ascending);
        let bytes = [&[0; 16][..], &bytes].concat().into();
        let _ = decode_partition_update(&bytes, version, &|_| Some(table.clone()));
    }
}

#[test]
fn an_empty_update_is_only_its_key() {
    let table = testing::table(Order::Ascending);
    let key = DecoratedKey::new(Bytes::from_static(b"key"));
    let update = PartitionUpdate::new(table, key);
    let (_, bytes) = encode_partition_update(&update).expect("it fits");
    assert_eq!(bytes[16..], *b"\x03key\x01");
}
