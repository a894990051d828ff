//! What is written is read: all of it, by key, by slices, from both ends, whatever the
//! compression.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, ColumnId, ColumnKind, CompactForm, ComplexDeletion,
    CqlType, DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Order, PartitionBound,
    Row, Slice, Table,
};
use proptest::prelude::*;
use smallvec::smallvec;

use super::support::{Partition, hashed, options_for, read_all, table_of, write_all};
use crate::sstable::*;
use crate::testing::{TempDir, run};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// The columns lie in the file in another order than that of their ids.
pub(super) fn table(compression: &str) -> Arc<Table> {
    let list = CqlType::List {
        element: Box::new(CqlType::Text),
        frozen: false,
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    let column = |name: &str, ty, kind| (name.to_owned(), ty, kind, Order::Ascending);
    let mut table = table_of(vec![
        column("pk", CqlType::Int, ColumnKind::PartitionKey),
        column("c1", CqlType::Text, ColumnKind::Clustering),
        (
            "c2".into(),
            CqlType::Int,
            ColumnKind::Clustering,
            Order::Descending,
        ),
        column("z", CqlType::Blob, ColumnKind::Regular),
        column("l", list, ColumnKind::Regular),
        column("a", CqlType::Int, ColumnKind::Regular),
        column("ss", set, ColumnKind::Static),
        column("s", CqlType::Int, ColumnKind::Static),
    ]);
    table.options.compression = if compression.is_empty() {
        [("enabled".to_owned(), "false".to_owned())].into()
    } else {
        [
            ("class".to_owned(), compression.to_owned()),
            ("chunk_length_in_kb".to_owned(), "4".to_owned()),
            ("min_compress_ratio".to_owned(), "1.1".to_owned()),
        ]
        .into()
    };
    Arc::new(table)
}

const BASE: i64 = 1_700_000_000_000_000;
const Z: ColumnId = ColumnId(3);
const L: ColumnId = ColumnId(4);
const A: ColumnId = ColumnId(5);
const SS: ColumnId = ColumnId(6);
const S: ColumnId = ColumnId(7);

fn deletion() -> impl Strategy<Value = DeletionTime> {
    (0i64..1000, 0u32..1000).prop_map(|(timestamp, seconds)| DeletionTime {
        timestamp: BASE + timestamp,
        local_deletion_time: 1_700_000_000 + seconds,
    })
}

fn maybe_deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![4 => Just(DeletionTime::LIVE), 1 => deletion()]
}

fn times() -> impl Strategy<Value = (i64, i32, u32)> {
    prop_oneof![
        4 => (0i64..3).prop_map(|t| (BASE + t, NO_TTL, NO_DELETION_TIME)),
        1 => (0i64..1000, 1i32..3).prop_map(|(t, ttl)| (BASE + t, ttl, 1_700_000_500)),
    ]
}

fn liveness() -> impl Strategy<Value = Liveness> {
    prop_oneof![
        1 => Just(Liveness::NONE),
        3 => times().prop_map(|(timestamp, ttl, expires_at)| Liveness { timestamp, ttl, expires_at }),
    ]
}

/// Values of a column: none, a tombstone, or a value of a strategy.
fn cell(
    column: ColumnId,
    path: Option<Bytes>,
    value: impl Strategy<Value = Vec<u8>>,
) -> impl Strategy<Value = Option<Cell>> {
    (times(), value, 0..4).prop_map(move |((timestamp, ttl, local), value, kind)| {
        let cell = Cell {
            column,
            path: path.clone(),
            timestamp,
            ttl,
            local_deletion_time: local,
            value: value.into(),
        };
        match kind {
            0 => None,
            1 => Some(Cell {
                ttl: NO_TTL,
                local_deletion_time: 1_700_000_900,
                value: Bytes::new(),
                ..cell
            }),
            _ => Some(cell),
        }
    })
}

fn int() -> impl Strategy<Value = Vec<u8>> {
    any::<i32>().prop_map(|i| i.to_be_bytes().to_vec())
}

fn clustering() -> impl Strategy<Value = Clustering> {
    ("[ab]{0,2}", 0i32..4).prop_map(|(c1, c2)| {
        Clustering(smallvec![
            Bytes::from(c1),
            Bytes::copy_from_slice(&c2.to_be_bytes())
        ])
    })
}

fn row() -> impl Strategy<Value = Row> {
    let blob = proptest::collection::vec(any::<u8>(), 0..3000);
    let path = |i: u8| Some(Bytes::copy_from_slice(&[i; 16]));
    let text = || "[a-z]{0,20}".prop_map(String::into_bytes);
    let cells = (
        cell(Z, None, blob),
        cell(L, path(0), text()),
        cell(L, path(1), text()),
        cell(A, None, prop_oneof![int(), Just(Vec::new())]),
    );
    (
        clustering(),
        liveness(),
        maybe_deletion(),
        maybe_deletion(),
        cells,
    )
        .prop_map(
            |(clustering, liveness, deletion, complex, (z, l0, l1, a))| Row {
                clustering,
                liveness,
                deletion,
                complex_deletions: complex_of(L, complex),
                cells: [z, l0, l1, a].into_iter().flatten().collect(),
            },
        )
}

fn complex_of(column: ColumnId, deletion: DeletionTime) -> Vec<ComplexDeletion> {
    (!deletion.is_live())
        .then_some(ComplexDeletion { column, deletion })
        .into_iter()
        .collect()
}

fn static_row() -> impl Strategy<Value = Option<Row>> {
    let path = Some(Bytes::from_static(&[0, 0, 0, 1]));
    let set = cell(SS, path, Just(Vec::new()));
    (cell(S, None, int()), set, maybe_deletion()).prop_map(|(s, set, complex)| {
        let row = Row {
            complex_deletions: complex_of(SS, complex),
            cells: [set, s].into_iter().flatten().collect(),
            ..Row::new(Clustering::EMPTY)
        };
        Some(row).filter(|r| !r.is_empty())
    })
}

/// A place: a prefix of a clustering, before or after all that has it.
fn place() -> impl Strategy<Value = Bound> {
    (clustering(), 0usize..3, any::<bool>()).prop_map(|(mut clustering, length, after)| {
        clustering.0.truncate(length);
        Bound {
            prefix: clustering,
            kind: if after {
                BoundKind::InclusiveEnd
            } else {
                BoundKind::InclusiveStart
            },
        }
    })
}

/// Rows and markers in order; markers are made to fit each other.
fn items() -> impl Strategy<Value = Vec<Unfiltered>> {
    let rows = proptest::collection::vec(row(), 0..12);
    let places = proptest::collection::vec((place(), deletion(), any::<bool>()), 0..6);
    (rows, places).prop_map(|(rows, places)| {
        let table = table("");
        let comparator = table.comparator();
        let mut rows: Vec<Row> = rows;
        rows.sort_by(|a, b| comparator.compare(&a.clustering, &b.clustering));
        rows.dedup_by(|a, b| a.clustering == b.clustering);
        let mut places = places;
        places.sort_by(|a, b| comparator.compare_bounds(&a.0, &b.0));
        places.dedup_by(|a, b| comparator.compare_bounds(&a.0, &b.0).is_eq());
        let mut open = None;
        let mut markers = Vec::new();
        let count = places.len();
        for (i, (bound, deletion, opens)) in places.into_iter().enumerate() {
            let next = (opens && i + 1 < count).then_some(deletion);
            markers.extend(RangeTombstoneMarker::between(bound, open, next));
            open = next;
        }
        let mut items: Vec<Unfiltered> = rows.into_iter().map(Unfiltered::Row).collect();
        items.extend(markers.into_iter().map(Unfiltered::Marker));
        items.sort_by(|a, b| a.compare(b, comparator));
        items
    })
}

pub(super) fn partitions() -> impl Strategy<Value = Vec<Partition>> {
    let partition = (any::<i32>(), maybe_deletion(), static_row(), items());
    proptest::collection::vec(partition, 1..8).prop_map(|partitions| {
        let mut partitions: Vec<Partition> = partitions
            .into_iter()
            .map(|(key, deletion, static_row, items)| {
                let head = PartitionHead {
                    key: DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes())),
                    deletion,
                    static_row,
                };
                (head, items)
            })
            .collect();
        partitions.sort_by(|a, b| a.0.key.cmp(&b.0.key));
        partitions.dedup_by(|a, b| a.0.key == b.0.key);
        partitions
    })
}

/// Sorted slices that do not overlap.
fn slices() -> impl Strategy<Value = Vec<Slice>> {
    proptest::collection::vec(place(), 0..8).prop_map(|mut places| {
        let table = table("");
        let comparator = table.comparator();
        places.sort_by(|a, b| comparator.compare_bounds(a, b));
        places.dedup_by(|a, b| comparator.compare_bounds(a, b).is_eq());
        places
            .chunks_exact(2)
            .map(|pair| Slice {
                start: as_kind(&pair[0], true),
                end: as_kind(&pair[1], false),
            })
            .collect()
    })
}

/// The same place as a start or as an end.
fn as_kind(bound: &Bound, start: bool) -> Bound {
    if crate::is_start(bound.kind) == start {
        bound.clone()
    } else {
        crate::opposite(bound.clone())
    }
}

/// What a read of slices must give: the definition, not the way.
fn sliced(table: &Table, items: &[Unfiltered], slices: &[Slice]) -> Vec<Unfiltered> {
    let comparator = table.comparator();
    let place = |item: &Unfiltered, bound: &Bound| match item {
        Unfiltered::Row(row) => comparator.compare_to_bound(&row.clustering, bound),
        Unfiltered::Marker(marker) => comparator.compare_bounds(&marker.bound, bound),
    };
    // The deletion in force just behind a bound, or just before it.
    let in_force = |bound: &Bound, behind: bool| {
        items
            .iter()
            .filter_map(|item| match item {
                Unfiltered::Marker(marker) => Some(marker),
                Unfiltered::Row(_) => None,
            })
            .take_while(|m| match comparator.compare_bounds(&m.bound, bound) {
                Ordering::Less => true,
                Ordering::Equal => behind,
                Ordering::Greater => false,
            })
            .last()
            .and_then(|m| m.opens)
    };
    let mut out = Vec::new();
    for slice in slices {
        let start = in_force(&slice.start, true)
            .map(|d| RangeTombstoneMarker::open(slice.start.clone(), d));
        let end =
            in_force(&slice.end, false).map(|d| RangeTombstoneMarker::close(slice.end.clone(), d));
        let within = items
            .iter()
            .filter(|item| place(item, &slice.start).is_gt() && place(item, &slice.end).is_lt());
        out.extend(start.map(Unfiltered::Marker));
        out.extend(within.cloned());
        out.extend(end.map(Unfiltered::Marker));
    }
    out
}

const COMPRESSORS: [&str; 6] = [
    "",
    "LZ4Compressor",
    "SnappyCompressor",
    "DeflateCompressor",
    "ZstdCompressor",
    "NoopCompressor",
];

async fn get_all(
    sstable: &SSTable,
    key: &DecoratedKey,
    slices: &Rc<[Slice]>,
    reversed: bool,
) -> Vec<Unfiltered> {
    let mut reader = sstable
        .get(hashed(key), slices.clone(), reversed, &ColumnSelection::All)
        .await
        .expect("reads")
        .expect("is there");
    let mut items = Vec::new();
    while let Some(item) = reader.next().await.expect("reads") {
        items.push(item);
    }
    items
}

async fn check(
    env: &io::Env,
    compression: &str,
    partitions: &[Partition],
    slices: Rc<[Slice]>,
    (format, column_index_size): (Format, u64),
) {
    let table = table(compression);
    let dir = TempDir::new();
    let mut options = options_for(partitions);
    options.column_index_size = Some(column_index_size);
    let descriptor = write_all(env, &dir.0, &table, partitions, (format, options))
        .await
        .expect("writes");
    let found = folder::recover(env, &dir.0, |_| true).await.expect("lists");
    assert_eq!(found.sstables, std::slice::from_ref(&descriptor));
    let cache = ChunkCache::new(1 << 20);
    let sstable = SSTable::open(env, &descriptor, &table, &cache)
        .await
        .expect("opens");
    let all = read_all(&sstable, ScanOptions::default())
        .await
        .expect("scans");
    assert_eq!(all, partitions);
    sstable.verify().await.expect("is whole");
    for (head, items) in partitions {
        let expected = sliced(&table, items, &slices);
        assert_eq!(get_all(&sstable, &head.key, &slices, false).await, expected);
        let mut reversed = get_all(&sstable, &head.key, &slices, true).await;
        reversed.reverse();
        assert_eq!(reversed, expected);
    }
    let start = partitions.len() / 2;
    let from = ScanOptions {
        start: PartitionBound::KeyInclusive(partitions[start].0.key.clone()),
        ..ScanOptions::default()
    };
    let rest = read_all(&sstable, from).await.expect("scans");
    assert_eq!(rest, &partitions[start..]);
    folder::remove(env, &descriptor).await.expect("removes");
    let left = std::fs::read_dir(&dir.0).expect("the folder").count();
    assert_eq!(left, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_is_read(
        partitions in partitions(),
        slices in slices(),
        compression in 0..COMPRESSORS.len(),
        column_index_size in 1u64..6000,
        tries: bool,
    ) {
        run(move |env| async move {
            let compression = COMPRESSORS[compression];
            let format = if tries { Format::Bti } else { Format::Big };
            let written = (format, column_index_size);
            check(&env, compression, &partitions, slices.into(), written).await;
        });
    }
}

#[test]
fn other_columns_come_without_values() {
    run(|env| async move {
        let table = table("LZ4Compressor");
        let dir = TempDir::new();
        let mut row = Row::new(Clustering(smallvec![
            Bytes::from_static(b"x"),
            Bytes::from_static(&[0, 0, 0, 1])
        ]));
        for column in [Z, A] {
            row.cells.push(Cell {
                column,
                path: None,
                timestamp: BASE,
                ttl: NO_TTL,
                local_deletion_time: NO_DELETION_TIME,
                value: Bytes::from_static(&[1, 2, 3, 4]),
            });
        }
        let head = PartitionHead {
            key: DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 7])),
            deletion: DeletionTime::LIVE,
            static_row: None,
        };
        let partitions = [(head.clone(), vec![Unfiltered::Row(row.clone())])];
        let written = (Format::Bti, options_for(&partitions));
        let descriptor = write_all(&env, &dir.0, &table, &partitions, written)
            .await
            .expect("writes");
        let cache = ChunkCache::new(0);
        let sstable = SSTable::open(&env, &descriptor, &table, &cache)
            .await
            .expect("opens");
        let columns = ColumnSelection::Values(Rc::new([A]));
        let mut reader = sstable
            .get(hashed(&head.key), Rc::new([Slice::ALL]), false, &columns)
            .await
            .expect("reads")
            .expect("is there");
        row.cells[0].value = Bytes::new();
        assert_eq!(
            reader.next().await.expect("reads"),
            Some(Unfiltered::Row(row))
        );
        assert_eq!(reader.next().await.expect("reads"), None);
    });
}

/// The one row of a table without compression whose clustering ends with an empty value.
async fn written_with_an_empty_end(env: &io::Env, is_compact: bool, format: Format) -> Vec<u8> {
    let mut table = (*table("")).clone();
    table.compact = is_compact.then_some(CompactForm::Dense);
    let dir = TempDir::new();
    let head = PartitionHead {
        key: DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 7])),
        deletion: DeletionTime {
            timestamp: BASE,
            local_deletion_time: 1_700_000_000,
        },
        static_row: None,
    };
    let row = Row::new(Clustering(smallvec![Bytes::new(), Bytes::new()]));
    let partitions = [(head, vec![Unfiltered::Row(row)])];
    let written = (format, options_for(&partitions));
    let descriptor = write_all(env, &dir.0, &Arc::new(table), &partitions, written)
        .await
        .expect("writes");
    std::fs::read(descriptor.path(Component::Data)).expect("is there")
}

/// What reads as a null at the end of a clustering is written as one: Cassandra tells them apart.
#[test]
fn a_compact_table_ends_with_nulls() {
    run(|env| async move {
        for format in [Format::Big, Format::Bti] {
            let usual = written_with_an_empty_end(&env, false, format).await;
            let compact = written_with_an_empty_end(&env, true, format).await;
            let differ: Vec<(u8, u8)> = usual
                .into_iter()
                .zip(compact)
                .filter(|(a, b)| a != b)
                .collect();
            assert_eq!(differ, [(0b01_01, 0b10_10)]);
        }
    });
}

#[test]
fn an_unfinished_sstable_is_removed() {
    run(|env| async move {
        let dir = TempDir::new();
        let table = table("LZ4Compressor");
        let head = PartitionHead {
            key: DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 7])),
            deletion: DeletionTime::LIVE,
            static_row: None,
        };
        let partitions = [(head, Vec::new())];
        let options = options_for(&partitions);
        let mut writer = Writer::create(
            &env,
            Descriptor::new(&dir.0, Format::Big, 3),
            &table,
            options,
        )
        .await
        .expect("creates");
        writer
            .begin_partition(&partitions[0].0)
            .await
            .expect("writes");
        drop(writer);
        for name in ["manifest.json", "ea-1-bti-Data.db"] {
            std::fs::write(dir.0.join(name), "{}").expect("writes");
        }
        let found = folder::recover(&env, &dir.0, |_| false)
            .await
            .expect("lists");
        assert_eq!(found.sstables, []);
        assert!(std::fs::read_dir(&dir.0).expect("the folder").count() > 2);
        let found = folder::recover(&env, &dir.0, |_| true)
            .await
            .expect("lists");
        assert_eq!(found.unknown, [dir.0.join("ea-1-bti-Data.db")]);
        assert_eq!(std::fs::read_dir(&dir.0).expect("the folder").count(), 2);
    });
}

#[test]
fn what_is_out_of_order_is_refused() {
    run(|env| async move {
        let dir = TempDir::new();
        let table = table("LZ4Compressor");
        let mut keys: Vec<DecoratedKey> = (0u8..2)
            .map(|i| DecoratedKey::new(Bytes::copy_from_slice(&[0, 0, 0, i])))
            .collect();
        keys.sort();
        let head = |key: &DecoratedKey| PartitionHead {
            key: key.clone(),
            deletion: DeletionTime::LIVE,
            static_row: None,
        };
        let options = options_for(&[]);
        let mut writer = Writer::create(
            &env,
            Descriptor::new(&dir.0, Format::Bti, 1),
            &table,
            options,
        )
        .await
        .expect("creates");
        writer
            .begin_partition(&head(&keys[1]))
            .await
            .expect("first");
        writer.end_partition().await.expect("ends");
        assert!(writer.begin_partition(&head(&keys[0])).await.is_err());
        assert!(writer.begin_partition(&head(&keys[1])).await.is_err());
    });
}
