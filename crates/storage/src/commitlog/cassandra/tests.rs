//! What real Cassandras left when they were killed (5.0.6; `segments/`) comes to the tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{
    ClusteringSelection, Column, ColumnId, ColumnKind, CqlType, DataLimits, DroppedColumn,
    Keyspace, Order, Partition, PartitionBound, PartitionSelection, ReadCommand, Schema, Sharder,
    Slice, Table, TableId, TableOptions, UnservedTable,
};

use super::{CassandraReplay, Covered, count_mutations, descriptor, segment};
use crate::commitlog::SegmentName;
use crate::commitlog::window::{WINDOW, held};
use crate::sstable::{CommitLogPosition, Format, PartitionLimits};
use crate::testing::{TempDir, run};
use crate::{CommitLogConfig, IndexSSTables, OpenError, SharedFiles, Store, StoreConfig};

/// A segment: its name, its bytes, and the ids that the tables `k.s`, `k.t` and `k.wide` had.
struct Left {
    name: &'static str,
    bytes: &'static [u8],
    ids: [u128; 3],
}

macro_rules! left {
    ($file:literal, $name:literal, $s:literal, $t:literal, $wide:literal) => {
        Left {
            name: $name,
            bytes: include_bytes!(concat!("segments/", $file)),
            ids: [$s, $t, $wide],
        }
    };
}

/// One for each compressor, one for each version of 5.0.
static ALL: [Left; 6] = [
    left!(
        "uncompressed-7.log",
        "CommitLog-7-1795259799189.log",
        0x0c3e4630e59d11f1830e1dbee5bc0897,
        0x0c0eaab0e59d11f1830e1dbee5bc0897,
        0x0d26aa60e59d11f1830e1dbee5bc0897
    ),
    left!(
        "uncompressed-8.log",
        "CommitLog-8-1795259906318.log",
        0x4b47f830e59d11f190c1e521dfd4ed05,
        0x4b25ca30e59d11f190c1e521dfd4ed05,
        0x4baed050e59d11f190c1e521dfd4ed05
    ),
    left!(
        "lz4.log",
        "CommitLog-7-1795259818048.log",
        0x1777cf30e59d11f19d005f80e1a9a0cb,
        0x174b6800e59d11f19d005f80e1a9a0cb,
        0x18034650e59d11f19d005f80e1a9a0cb
    ),
    left!(
        "snappy.log",
        "CommitLog-7-1795259837513.log",
        0x2478d1c0e59d11f19016bdb842db3ded,
        0x2444f080e59d11f19016bdb842db3ded,
        0x2575a850e59d11f19016bdb842db3ded
    ),
    left!(
        "deflate.log",
        "CommitLog-7-1795259861677.log",
        0x32e7e340e59d11f1b1c0d3294effba2f,
        0x32909b80e59d11f1b1c0d3294effba2f,
        0x33db43f0e59d11f1b1c0d3294effba2f
    ),
    left!(
        "zstd.log",
        "CommitLog-7-1795259885287.log",
        0x40e965e0e59d11f195174d8039af4677,
        0x40c5d850e59d11f195174d8039af4677,
        0x41b604b0e59d11f195174d8039af4677
    ),
];

/// A column by name, type and part; clustering ones say their direction.
type Said = (&'static str, &'static str, ColumnKind, usize, Order);

fn table(id: u128, name: &str, columns: &[Said]) -> Arc<Table> {
    let columns = columns.iter().enumerate();
    let columns = columns.map(|(at, (name, ty, kind, position, order))| Column {
        id: ColumnId(at as u32),
        name: (*name).into(),
        ty: CqlType::from_marshal(&ty.replace('@', "org.apache.cassandra.db.marshal."))
            .expect("a type"),
        kind: *kind,
        position: *position,
        order: *order,
    });
    let options = TableOptions::default();
    let id = TableId::from_u128(id);
    Arc::new(Table::new(id, "k", name, columns.collect(), options))
}

/// The tables as they were when the Cassandra was killed.
fn tables(ids: [u128; 3]) -> [Arc<Table>; 3] {
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    use Order::{Ascending as Up, Descending as Down};
    let ut = "@UserType(k,7574,61:@Int32Type,62:@UTF8Type)";
    let frozen = "@FrozenType(@UserType(k,7574,61:@Int32Type,62:@UTF8Type))";
    let mut s = Table::clone(&table(
        ids[0],
        "s",
        &[
            ("k", "@UTF8Type", PartitionKey, 0, Up),
            ("v", "@BytesType", Regular, 0, Up),
            ("added", "@Int32Type", Regular, 0, Up),
        ],
    ));
    s.dropped.push(DroppedColumn {
        name: "drp".into(),
        ty: CqlType::Int,
        is_static: false,
        dropped_at: i64::MAX,
    });
    let t = table(
        ids[1],
        "t",
        &[
            ("p", "@Int32Type", PartitionKey, 0, Up),
            ("q", "@UTF8Type", PartitionKey, 1, Up),
            ("c", "@Int32Type", Clustering, 0, Down),
            ("d", "@UTF8Type", Clustering, 1, Up),
            ("st", "@UTF8Type", Static, 0, Up),
            ("v", "@UTF8Type", Regular, 0, Up),
            ("n", "@LongType", Regular, 0, Up),
            ("m", "@MapType(@UTF8Type,@Int32Type)", Regular, 0, Up),
            ("l", "@ListType(@Int32Type)", Regular, 0, Up),
            ("e", "@SetType(@Int32Type)", Regular, 0, Up),
            ("f", frozen, Regular, 0, Up),
            ("u", ut, Regular, 0, Up),
        ],
    );
    let wide = table(
        ids[2],
        "wide",
        &[
            ("k", "@Int32Type", PartitionKey, 0, Up),
            ("c", "@Int32Type", Clustering, 0, Down),
            ("v", "@Int32Type", Regular, 0, Up),
        ],
    );
    [Arc::new(s), t, wide]
}

fn schema(tables: &[Arc<Table>]) -> Schema {
    let keyspace = Keyspace {
        name: "k".into(),
        replication: BTreeMap::new(),
        durable_writes: true,
        tables: tables.iter().map(|t| (t.name.clone(), t.clone())).collect(),
        types: BTreeMap::new(),
        is_virtual: false,
        functions: Default::default(),
        unserved: Default::default(),
    };
    Schema {
        keyspaces: BTreeMap::from([("k".into(), Arc::new(keyspace))]),
        ..Schema::default()
    }
}

async fn open(
    env: &Env,
    dir: &Path,
    tables: &[Arc<Table>],
    ignore: bool,
) -> Result<Store, OpenError> {
    open_all(env, dir, &schema(tables), ignore).await
}

async fn open_all(
    env: &Env,
    dir: &Path,
    schema: &Schema,
    ignore: bool,
) -> Result<Store, OpenError> {
    let log = CommitLogConfig {
        ignore_replay_errors: ignore,
        ..CommitLogConfig::default()
    };
    open_with(env, dir, schema, log).await
}

async fn open_with(
    env: &Env,
    dir: &Path,
    schema: &Schema,
    log: CommitLogConfig,
) -> Result<Store, OpenError> {
    let config = StoreConfig {
        sstables: dir.join("data"),
        commitlog_dir: dir.join("commitlog"),
        sstable_format: Format::Big,
        sharder: Sharder::new(1),
        memory: 1 << 22,
        commitlog: CommitLogConfig {
            segment_bytes: 1 << 17,
            ..log
        },
        incremental_backups: false,
        most_tombstones: u64::MAX,
        index_sstables: IndexSSTables::UNLIMITED,
        partition_limits: PartitionLimits::default(),
        shared: Arc::new(SharedFiles::default()),
    };
    let store = Store::open(env.clone(), config, schema).await?;
    store.replay().await?;
    Ok(store)
}

/// All of a table that is alive.
async fn rows(store: &Store, table: &Arc<Table>) -> Vec<Partition> {
    let mut columns: Vec<ColumnId> = table.columns().map(|c| c.id).collect();
    columns.sort();
    columns.retain(|id| {
        table
            .column(*id)
            .is_some_and(|c| matches!(c.kind, ColumnKind::Regular | ColumnKind::Static))
    });
    let command = ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Range {
            start: PartitionBound::Unbounded,
            end: PartitionBound::Unbounded,
        },
        clustering: ClusteringSelection {
            slices: vec![Slice::ALL],
            reversed: false,
        },
        columns,
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds: 1_795_260_000,
        resume: None,
        bypass_cache: false,
        packed: false,
    };
    store
        .read(&command)
        .await
        .expect("it can be read")
        .partitions
}

/// Cells of a row, `column[path]=value` in hex, in the order of the columns.
fn cells(table: &Table, row: &model::Row) -> String {
    let hex = |bytes: &Bytes| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let all = row.cells.iter().map(|cell| {
        let column = table.column(cell.column).expect("a column");
        match &cell.path {
            // A list's paths are the times of its writes.
            Some(_) if &*column.name == "l" => format!("l={}", hex(&cell.value)),
            Some(path) => format!("{}[{}]={}", column.name, hex(path), hex(&cell.value)),
            None => format!("{}={}", column.name, hex(&cell.value)),
        }
    });
    all.collect::<Vec<_>>().join(" ")
}

fn in_folder(left: &Left, bytes: &[u8]) -> TempDir {
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.0.join("commitlog")).expect("a folder");
    std::fs::write(dir.0.join("commitlog").join(left.name), bytes).expect("a file");
    dir
}

/// The rows that Cassandra showed before it was killed, of those that were in its log alone.
async fn expect_all(store: &Store, [s, t, wide]: &[Arc<Table>; 3], left: &str) {
    let mut shown = Vec::new();
    for partition in rows(store, t).await {
        let fixed = partition.static_row.iter().map(|row| cells(t, row));
        shown.extend(fixed.chain(partition.rows.iter().map(|row| cells(t, row))));
    }
    shown.sort();
    let expected = [
        // (1, a): static, then the row of 1 without the deleted `v`, and that of 3.
        "st=737461746963",
        "v=6166746572",
        "v=6f7574206f662072616e6765",
        "v=757064 m[6b33]=00000003 l=00000004 e[00000007]=",
    ];
    for expected in expected {
        assert!(
            shown.iter().any(|s| s == expected),
            "{left}: {expected} of {shown:#?}"
        );
    }
    let of_one = shown.iter().find(|s| s.starts_with("n=0000000000000009"));
    assert_eq!(
        of_one.map(String::as_str),
        Some(
            "n=0000000000000009 m[6b31]=00000001 m[6b32]=00000002 l=00000001 l=00000002 \
             l=00000003 e[00000005]= e[00000006]= f=0000000400000001000000027562 \
             u[0000]=00000003 u[0001]=7563"
        ),
        "{left}"
    );
    assert_eq!(shown.len(), 5, "{left}: {shown:#?}");
    let of_s = rows(store, s).await;
    // log0 to log4, flushed0 (its second write), batch, dropcol, big.
    assert_eq!(of_s.len(), 9, "{left}");
    let counts: Vec<usize> = rows(store, wide)
        .await
        .iter()
        .map(|p| p.rows.len())
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 43, "{left}: {counts:?}");
}

#[test]
fn what_was_not_flushed_is_there_and_stays() {
    for left in &ALL {
        let dir = in_folder(left, left.bytes);
        let path = dir.0.clone();
        run(move |env| async move {
            let tables = tables(left.ids);
            // Killed before anything was flushed: the second start reads it again.
            let first = open(&env, &path, &tables, false).await;
            expect_all(&first.expect("it opens"), &tables, left.name).await;
            let store = open(&env, &path, &tables, false).await.expect("again");
            expect_all(&store, &tables, left.name).await;
            store.drain().await.expect("it is drained");
            assert!(!path.join("commitlog").join(left.name).exists());
            let store = open(&env, &path, &tables, false).await.expect("flushed");
            expect_all(&store, &tables, left.name).await;
            store.drain().await.expect("it is drained");
        });
    }
}

#[test]
fn damage_in_the_middle_refuses_with_file_offset_and_remedy() {
    for left in &ALL {
        let mut bytes = left.bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let dir = in_folder(left, &bytes);
        let path = dir.0.clone();
        run(move |env| async move {
            let tables = tables(left.ids);
            let error = open(&env, &path, &tables, false).await.err();
            let error = error.expect("it refuses").to_string();
            for part in [left.name, "offset", "--commitlog-ignore-replay-errors"] {
                assert!(error.contains(part), "{error}");
            }
            assert!(!error.contains('\n'), "{error}");
            // As asked, the rest is there.
            let store = open(&env, &path, &tables, true).await.expect("it opens");
            let found = rows(&store, &tables[2]).await;
            assert!(!found.is_empty(), "{}", left.name);
            store.drain().await.expect("it is drained");
        });
    }
}

#[test]
fn what_stands_behind_the_position_of_a_snapshot_is_replayed() {
    let left = &ALL[0];
    let segment = 1_795_259_799_189;
    for (segment, position, expected) in [
        (segment - 1, i32::MAX, 43),
        (segment, 0, 43),
        (segment, i32::MAX, 0),
        (segment + 1, 0, 0),
    ] {
        let dir = in_folder(left, left.bytes);
        let path = dir.0.clone();
        run(move |env| async move {
            let tables = tables(left.ids);
            let log = CommitLogConfig {
                snapshot_position: Some(CommitLogPosition { segment, position }),
                ..CommitLogConfig::default()
            };
            let store = open_with(&env, &path, &schema(&tables), log).await;
            let store = store.expect("it opens");
            let found = rows(&store, &tables[2]).await;
            let found: usize = found.iter().map(|p| p.rows.len()).sum();
            assert_eq!(found, expected, "{segment},{position}");
            store.drain().await.expect("it is drained");
        });
    }
}

#[test]
fn a_torn_end_is_none() {
    // Without what was synced last, and so without the mark that says where it is.
    let left = &ALL[0];
    let bytes = &left.bytes[..left.bytes.len() - 40];
    let dir = in_folder(left, bytes);
    let path = dir.0.clone();
    run(move |env| async move {
        let tables = tables(left.ids);
        let store = open(&env, &path, &tables, false).await.expect("it opens");
        let found = rows(&store, &tables[2]).await;
        assert_eq!(found.iter().map(|p| p.rows.len()).sum::<usize>(), 42);
        store.drain().await.expect("it is drained");
    });
}

/// Opens a folder with these files beside the first of the kept segments, which is cut off.
fn open_torn(others: &[(&str, Vec<u8>)]) -> Result<(), String> {
    let left = &ALL[0];
    let dir = in_folder(left, &left.bytes[..left.bytes.len() - 40]);
    for (name, bytes) in others {
        std::fs::write(dir.0.join("commitlog").join(name), bytes).expect("a file");
    }
    let path = dir.0.clone();
    run(move |env| async move {
        let store = open(&env, &path, &tables(left.ids), false).await;
        let store = store.map_err(|error| error.to_string())?;
        store.drain().await.map_err(|error| error.to_string())
    })
}

#[test]
fn segments_made_ahead_do_not_keep_a_torn_end_from_being_one() {
    const NEXT: &str = "CommitLog-7-1795259799190.log";
    const LAST: &str = "CommitLog-7-1795259799191.log";
    let head = || descriptor::head(1_795_259_799_190);
    let mapped = [head(), vec![0; 500]].concat();
    // As they come, as compressed ones do, and what a power failure may leave of them.
    for next in [mapped, head(), vec![0; 500], Vec::new()] {
        let others = [(NEXT, next), (LAST, vec![0; 500])];
        assert_eq!(open_torn(&others), Ok(()));
    }
    // What a later one holds was written when the end was on the drive.
    let mut written = head();
    written.resize(500, 1);
    let error = open_torn(&[(NEXT, written)]).expect_err("it refuses");
    assert!(error.contains(ALL[0].name), "{error}");
}

#[test]
fn the_head_of_a_section_is_never_a_torn_end() {
    let left = &ALL[0];
    let mut bytes = left.bytes.to_vec();
    let head = segment::second_section(&bytes);
    // The last byte of its checksum.
    bytes[head + 7] ^= 1;
    let dir = in_folder(left, &bytes);
    let path = dir.0.clone();
    run(move |env| async move {
        let error = open(&env, &path, &tables(left.ids), false).await.err();
        let error = error.expect("it refuses").to_string();
        assert!(error.contains(&format!("offset {head}")), "{error}");
    });
}

#[test]
fn a_section_larger_than_memory_is_read() {
    const ID: i64 = 1_795_259_799_190;
    // Of a key, and of a table that nobody knows.
    let mut mutation = vec![1];
    mutation.extend([7; 16]);
    mutation.extend([3, b'k', b'e', b'y']);
    mutation.resize(10_000, 0);
    let count = 5 * WINDOW / mutation.len();
    let mut file = descriptor::head(ID);
    segment::add_section(&mut file, ID, std::iter::repeat_n(&mutation[..], count));
    // One that is larger than the window itself.
    mutation.resize(WINDOW + 10_000, 0);
    segment::add_section(&mut file, ID, [&mutation[..]]);
    let dir = TempDir::new();
    let name = format!("CommitLog-7-{ID}.log");
    std::fs::write(dir.0.join(&name), file).expect("a file");
    let path = dir.0.clone();
    run(move |env| async move {
        let names = vec![SegmentName::parse(&name).expect("a name")];
        let covered = Covered::default();
        let mut replay = CassandraReplay::new(env, &path, names, covered, false);
        let mut groups = 0;
        while let Some(group) = replay.next(&|_| true, &|_| None).await.expect("whole") {
            groups += group.mutations.len();
        }
        assert_eq!(groups, count + 1);
        let most = held::most();
        assert!(
            (WINDOW..2 * WINDOW).contains(&most),
            "{most} bytes of files in memory"
        );
    });
}

#[test]
fn writes_to_tables_that_are_not_served_refuse_the_start() {
    let left = &ALL[0];
    let dir = in_folder(left, left.bytes);
    let path = dir.0.clone();
    run(move |env| async move {
        let [s, t, wide] = tables(left.ids);
        let mut schema = schema(&[s, t.clone()]);
        let keyspace = schema.keyspaces.get_mut("k").expect("it is there");
        let unserved = UnservedTable {
            id: Some(wide.id),
            problem: "it cannot be".to_owned(),
            uses: Vec::new(),
        };
        let tables = &mut Arc::make_mut(keyspace).unserved.tables;
        tables.insert(wide.name.clone(), unserved);
        let refused = open_all(&env, &path, &schema, false).await.err();
        let text = refused.expect("it is refused").to_string();
        assert!(
            text.contains("are for k.wide, which is not served"),
            "{text}"
        );
        assert!(text.contains("nodetool drain"), "{text}");
        let store = open_all(&env, &path, &schema, true).await;
        let store = store.expect("it opens without them");
        assert!(!rows(&store, &t).await.is_empty());
        store.drain().await.expect("it is drained");
    });
}

#[test]
fn unknown_tables_are_passed_over_and_unknown_columns_are_not() {
    let left = &ALL[0];
    let bytes = Bytes::from_static(left.bytes);
    let (mutations, damages) = count_mutations(bytes.clone(), &|_| None);
    assert!(mutations > 60 && damages == 0, "{mutations}, {damages}");
    let mut s = Table::clone(&tables(left.ids)[0]);
    s.dropped.clear();
    let s = Arc::new(s);
    let (_, damages) = count_mutations(bytes, &|id| (id == s.id).then(|| s.clone()));
    assert_eq!(damages, 1, "the write to the dropped column");
}
