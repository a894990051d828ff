//! What the store keeps, and what it says of files that it cannot read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use model::{
    ClusteringSelection, ColumnId, DataLimits, Keyspace, Mutation, Order, PartitionBound,
    PartitionSelection, ReadCommand, Schema, Sharder, Slice, Table,
};

use super::*;
use crate::sstable::Format;
use crate::testing::{Saying, TempDir, run, table, update};
use crate::{SharedFiles, Unfiltered};

pub(super) fn config(dir: PathBuf) -> StoreConfig {
    StoreConfig {
        sstables: dir.join("data"),
        commitlog_dir: dir.join("commitlog"),
        sharder: Sharder::new(1),
        memory: 1 << 22,
        sstable_format: Format::Big,
        commitlog: CommitLogConfig {
            segment_bytes: 1 << 17,
            ..CommitLogConfig::default()
        },
        incremental_backups: false,
        most_tombstones: u64::MAX,
        index_sstables: IndexSSTables::UNLIMITED,
        partition_limits: PartitionLimits::default(),
        shared: Arc::new(SharedFiles::default()),
    }
}

pub(super) fn schema(table: &Arc<Table>) -> Schema {
    let keyspace = Keyspace {
        name: table.keyspace.clone(),
        replication: BTreeMap::new(),
        durable_writes: true,
        tables: BTreeMap::from([(table.name.clone(), table.clone())]),
        types: BTreeMap::new(),
        functions: Default::default(),
        is_virtual: false,
        unserved: Default::default(),
    };
    Schema {
        keyspaces: BTreeMap::from([(table.keyspace.clone(), Arc::new(keyspace))]),
        ..Schema::default()
    }
}

pub(super) async fn open(env: &Env, dir: PathBuf, table: &Arc<Table>) -> Store {
    open_with(env, config(dir), &schema(table)).await
}

/// A store of these tables, with its log replayed.
pub(super) async fn open_with(env: &Env, config: StoreConfig, schema: &Schema) -> Store {
    let store = Store::open(env.clone(), config, schema).await;
    let store = store.expect("the store opens");
    store.replay().await.expect("the log is replayed");
    store
}

/// A table whose deletions are never old enough to be purged: the writes of these tests come in
/// any order of their timestamps.
pub(super) fn undying(order: Order) -> Arc<Table> {
    let mut table = Table::clone(&table(order));
    table.options.gc_grace_seconds = i32::MAX;
    Arc::new(table)
}

/// A read of the whole table, or of one slice of each partition.
pub(super) fn command(table: &Arc<Table>, slices: Vec<Slice>, reversed: bool) -> ReadCommand {
    ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Range {
            start: PartitionBound::Unbounded,
            end: PartitionBound::Unbounded,
        },
        clustering: ClusteringSelection { slices, reversed },
        columns: vec![ColumnId(3), ColumnId(4)],
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds: 1_000,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}

/// What a page says: how much was gone through for it depends on where things lie.
pub(super) fn content(page: ReadPage) -> ReadPage {
    ReadPage {
        scanned: model::Scanned::default(),
        ..page
    }
}

#[test]
fn tables_are_truncated_at_the_same_time() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let first = table(Order::Ascending);
        let tables: Vec<Arc<Table>> = (0..8)
            .map(|number| {
                let mut table = Table::clone(&first);
                table.id = model::TableId::from_u128(0x100 + number);
                table.name = format!("t{number}").into();
                Arc::new(table)
            })
            .collect();
        let mut keyspace = Keyspace::clone(&schema(&first).keyspaces[&first.keyspace]);
        let named = tables
            .iter()
            .map(|table| (table.name.clone(), table.clone()));
        keyspace.tables = named.collect();
        let mut schema = Schema::default();
        let name = keyspace.name.clone();
        schema.keyspaces.insert(name, Arc::new(keyspace));
        let store = open_with(&env, config(path), &schema).await;
        let truncating: Vec<_> = tables
            .iter()
            .map(|table| {
                let (store, id) = (store.clone(), table.id);
                let truncate = async move { store.truncate(id).await };
                env.spawn(io::TaskGroup::Foreground, truncate)
            })
            .collect();
        for truncated in truncating {
            truncated.await.expect("the table is truncated");
        }
    });
}

#[test]
fn a_snapshot_holds_all_of_a_table_while_it_is_compacted() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = undying(Order::Ascending);
        let store = open(&env, path.clone(), &table).await;
        for round in 1..=20u8 {
            for time in 1..4 {
                let sayings = [Saying::Written([round % 4, time], i64::from(round), round)];
                let updates = vec![update(&table, &sayings)];
                let applied = store.apply(Mutation { updates }).await;
                applied.expect("the write is taken");
                store.flush(None).await.expect("it can be flushed");
            }
            let (compacted, id) = (store.clone(), table.id);
            let compact = async move { compacted.compact(id).await };
            let compacting = env.spawn(io::TaskGroup::Compaction, compact);
            let mut snapshots = Vec::new();
            while !compacting.is_finished() {
                let tag = format!("s{round}-{}", snapshots.len());
                let linked = store.link_snapshot(table.id, &tag, false).await;
                snapshots.push((tag, linked.expect("it can be linked")));
                // The compaction removes its inputs between two snapshots.
                env.sleep(Duration::from_millis(1)).await;
            }
            compacting.await.expect("it can be compacted");
            for (tag, data) in snapshots {
                let folder = path
                    .join("data/ks")
                    .join(format!("t-{}", table.id.simple()));
                let folder = folder.join("snapshots").join(&tag);
                assert!(rows_of(&env, &folder, &data, &table).await >= 3 * i64::from(round.min(4)));
            }
        }
    });
}

/// How many rows the sstables of a folder hold, which have to be these, whole and sound.
async fn rows_of(
    env: &Env,
    folder: &std::path::Path,
    data: &std::collections::BTreeSet<String>,
    table: &Arc<Table>,
) -> i64 {
    use crate::sstable::{ChunkCache, Descriptor, SSTable};
    let files = env.read_dir(folder).await.expect("it is there");
    let found = files.iter().filter(|file| file.name.ends_with("-Data.db"));
    assert_eq!(found.count(), data.len());
    let mut rows = 0;
    for name in data {
        let (descriptor, _) = Descriptor::parse(folder, name).expect("a data file");
        let opened = SSTable::open(env, &descriptor, table, &ChunkCache::new(1 << 20)).await;
        let sstable = opened.expect("it is whole");
        sstable.verify().await.expect("it is sound");
        rows += sstable.stats().rows;
    }
    rows
}

#[test]
fn a_flush_leaves_nothing_that_a_deletion_covers() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, dir, &table).await;
        let sayings = [
            Saying::Written([1, 1], 3, 7),
            Saying::Static(3, 7),
            Saying::Partition(5),
            Saying::Written([2, 2], 6, 8),
        ];
        for saying in sayings {
            let updates = vec![update(&table, &[saying])];
            store.apply(Mutation { updates }).await.expect("applied");
        }
        store.flush(None).await.expect("flushed");
        let sstables = store.inner.table(table.id).expect("known").sstables();
        let mut scanner = sstables[0].scan(crate::sstable::ScanOptions::default());
        let head = scanner.next_partition().await.expect("readable");
        assert_eq!(head.expect("one").static_row, None);
        let mut rows = 0;
        while let Some(item) = scanner.next().await.expect("readable") {
            rows += usize::from(matches!(item, Unfiltered::Row(_)));
        }
        assert_eq!(rows, 1);
    });
}

/// The files of the sstables of a folder whose names end so.
fn files_ending(dir: &std::path::Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_ending(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}

#[test]
fn an_sstable_that_cannot_be_opened_keeps_only_its_table_from_being_read() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    let written = |table: &Arc<Table>| Mutation {
        updates: vec![update(table, &[Saying::Written([1, 1], 3, 7)])],
    };
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, dir, &table).await;
        store.apply(written(&table)).await.expect("applied");
        store.flush(None).await.expect("flushed");
        store.drain().await.expect("drained");
    });
    let data = folder.0.join("data");
    let statistics = files_ending(&data, "Statistics.db");
    std::fs::write(&statistics[0], b"nonsense").expect("written");
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, dir, &table).await;
        let all = command(&table, vec![Slice::ALL], false);
        let error = store.read(&all).await.expect_err("it cannot be read");
        assert!(error.to_string().contains("Statistics.db"), "{error}");
        store.apply(written(&table)).await.expect("applied");
        store.flush(None).await.expect("flushed");
        store.read(&all).await.expect_err("it still cannot be read");
        store.truncate(table.id).await.expect("truncated");
        let page = store.read(&all).await.expect("nobody misses it now");
        assert_eq!(page.partitions.len(), 0);
    });
    assert_eq!(files_ending(&data, "Data.db"), Vec::<PathBuf>::new());
}

/// The test table in this keyspace, with its regular column of this name, and with its first
/// clustering column in this order.
fn variant(keyspace: &str, column: &str, order: Order) -> Table {
    let table = table(order);
    let mut columns: Vec<model::Column> = table.columns().cloned().collect();
    columns[3].name = column.into();
    Table::new(table.id, keyspace, "t", columns, table.options.clone())
}

/// What a store of `own` says of reading an sstable that one of `written` wrote to its folder, if
/// that is an error. Whatever it is, the files stay.
fn reading_as(own: Table, written: Table) -> Option<String> {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    let (own, written) = (Arc::new(own), Arc::new(written));
    run(move |env| async move {
        let store = open(&env, dir.clone(), &written).await;
        let update = update(&written, &[Saying::Written([1, 1], 3, 7)]);
        let updates = vec![update];
        store.apply(Mutation { updates }).await.expect("applied");
        store.flush(None).await.expect("flushed");
        store.drain().await.expect("drained");
        drop(store);
        let data = files_ending(&dir.join("data"), "Data.db");
        let store = open(&env, dir.clone(), &own).await;
        let page = store.read(&command(&own, vec![Slice::ALL], false)).await;
        let error = page.err().map(|error| error.to_string());
        if error.is_some() {
            assert_eq!(store.stats().tables[0].unreadable_sstables, 1);
            store.compact(own.id).await.expect("there is nothing to do");
            let scrubbed = store.scrub(own.id, ScrubOptions::default()).await;
            assert!(
                scrubbed.is_err(),
                "it would leave out what it does not know"
            );
            assert_eq!(files_ending(&dir.join("data"), "Data.db"), data);
        }
        error
    })
}

#[test]
fn sstables_of_other_tables_are_left_out_with_their_columns() {
    let variant = |column| variant("ks", column, Order::Ascending);
    let error = reading_as(variant("v"), variant("note")).expect("it is of another table");
    for named in ["Data.db", "`note`", "ks.t", "move its files away"] {
        assert!(error.contains(named), "{error}");
    }
    let mut dropped = variant("v");
    dropped.dropped.push(model::DroppedColumn {
        name: "note".into(),
        ty: model::CqlType::Int,
        is_static: false,
        dropped_at: 9,
    });
    assert_eq!(reading_as(dropped, variant("note")), None);
    let own = |column| super::tests::variant("system_traces", column, Order::Ascending);
    assert_eq!(reading_as(own("v"), own("note")), None);
}

#[test]
fn sstables_in_another_order_are_left_out() {
    let variant = |order| variant("ks", "v", order);
    let error = reading_as(variant(Order::Ascending), variant(Order::Descending));
    let error = error.expect("it is of another table");
    assert!(error.contains("clustering column `a`"), "{error}");
}

#[test]
fn a_damaged_middle_of_the_log_refuses_and_can_be_passed_over() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, dir.clone(), &table).await;
        // One group each: a block behind the file's first.
        for row in 0..4 {
            let updates = vec![update(&table, &[Saying::Written([1, row], 3, 7)])];
            store.apply(Mutation { updates }).await.expect("applied");
        }
        let first = std::fs::read_dir(dir.join("commitlog")).expect("a folder");
        let first = first.map(|entry| entry.expect("a file").path()).min();
        let log = first.expect("a segment");
        let mut bytes = std::fs::read(&log).expect("a segment");
        bytes[2 * 4096 + 60] ^= 1;
        std::fs::write(&log, &bytes).expect("it can be written");

        let refused = Store::open(env.clone(), config(dir.clone()), &schema(&table)).await;
        let refused = refused.err().expect("it refuses").to_string();
        let remedy = "--commitlog-ignore-replay-errors";
        let name = log.file_name().expect("a file").to_string_lossy();
        for part in [&*name, "offset 8192", remedy] {
            assert!(refused.contains(part), "{refused}");
        }
        let mut config = config(dir);
        config.commitlog.ignore_replay_errors = true;
        let store = Store::open(env.clone(), config, &schema(&table)).await;
        let store = store.expect("it opens without what cannot be read");
        let asked = command(&table, vec![Slice::ALL], false);
        let page = store.read(&asked).await.expect("it reads");
        assert_eq!(page.partitions[0].rows.len(), 3);
    });
}

#[test]
fn a_table_knows_its_own_folder_and_when_its_sstables_were_written() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, path.clone(), &table).await;
        let updates = vec![update(&table, &[Saying::Written([1, 1], 1, 1)])];
        let applied = store.apply(Mutation { updates }).await;
        applied.expect("the write is taken");
        store.flush(None).await.expect("it can be flushed");

        let own = store.inner.table(table.id).expect("it is there");
        let (link, other) = (path.join("link"), path.join("other"));
        std::os::unix::fs::symlink(&own.dir, &link).expect("links can be made");
        std::fs::create_dir(&other).expect("it can be made");
        for (folder, expected) in [(&own.dir, true), (&link, true), (&other, false)] {
            let is_own = store.is_own_folder(table.id, folder).await;
            assert_eq!(is_own.expect("it is there"), expected);
        }

        let later = |millis| store.inner.written_after(&own, millis);
        assert_eq!(later(0).await.expect("it can be read").len(), 1);
        let now = env.wall_micros() / 1000;
        let none = later(now + 3_600_000).await.expect("it can be read");
        assert!(none.is_empty());
        let upgraded = store.upgrade_sstables(table.id, true, 1).await;
        assert_eq!(upgraded.expect("nothing is to be done"), 0);
    });
}

#[test]
fn a_folder_of_before_ids_is_used_on() {
    let dir = TempDir::new();
    let old = dir.0.join("data/ks/t");
    std::fs::create_dir_all(&old).expect("it can be made");
    for writes in [true, false] {
        let path = dir.0.clone();
        run(move |env| async move {
            let table = table(Order::Ascending);
            let store = open(&env, path.clone(), &table).await;
            if writes {
                let updates = vec![update(&table, &[Saying::Written([1, 1], 1, 1)])];
                let applied = store.apply(Mutation { updates }).await;
                applied.expect("the write is taken");
                store.drain().await.expect("it is flushed");
            }
            let page = store.read(&command(&table, vec![Slice::ALL], false)).await;
            assert_eq!(page.expect("it reads").partitions.len(), 1);
        });
    }
    assert_eq!(files_ending(&old, "Data.db").len(), 1);
    let folders = std::fs::read_dir(dir.0.join("data/ks")).expect("a folder");
    assert_eq!(folders.count(), 1, "none with an id was made");
}

#[test]
fn a_quick_verification_leaves_the_data_unread() {
    let dir = TempDir::new();
    let path = dir.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, path, &table).await;
        let updates = vec![update(&table, &[Saying::Written([1, 1], 1, 1)])];
        let applied = store.apply(Mutation { updates }).await;
        applied.expect("the write is taken");
        store.flush(None).await.expect("it can be flushed");
        let details = store.table_details(table.id).expect("it is there");
        let data = details.sstables[0].data.clone();
        assert!(store.is_of_written_version(&data));
        assert!(!store.is_of_written_version(std::path::Path::new("/x/mc-1-big-Data.db")));

        let mut bytes = std::fs::read(&data).expect("it can be read");
        bytes[0] ^= 0xff;
        std::fs::write(&data, bytes).expect("it can be written");
        let verify = |quick| {
            let options = VerifyOptions {
                quick,
                ..VerifyOptions::default()
            };
            store.verify(table.id, &data, options)
        };
        assert!(verify(true).await.is_ok());
        assert!(verify(false).await.is_err());
    });
}
