//! Compactions of a store on the real driver: what the strategies choose is written as they want
//! it, and what may be forgotten is.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io::Env;
use model::{
    Cell, Clustering, ColumnId, DecoratedKey, DeletionTime, Mutation, NO_DELETION_TIME, NO_TTL,
    Order, PartitionSelection, PartitionUpdate, ReadPage, Sharder, Slice, Table, Token,
};

use super::super::Store;
use super::super::tests::{command, config, content, open, schema};
use super::{ScrubOptions, is_informative};
use crate::Unfiltered;
use crate::sstable::{Component, Format, SSTable, ScanOptions, Statistics};
use crate::testing::{TempDir, run};

pub(super) fn int(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The test table with these options of `compaction`.
pub(super) fn table(class: &str, pairs: &[(&str, &str)]) -> Arc<Table> {
    let mut table = Table::clone(&crate::testing::table(Order::Ascending));
    let options = &mut table.options.compaction;
    options.clear();
    options.insert("class".to_owned(), class.to_owned());
    let pairs = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    options.extend(pairs);
    Arc::new(table)
}

fn row(key: u32, timestamp: i64, table: &Arc<Table>) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(int(key)));
    let clustering = Clustering([int(1), int(2)].into_iter().collect());
    let cell = Cell {
        column: ColumnId(3),
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        // Nothing that compresses well.
        value: int(key.wrapping_mul(2_654_435_761) ^ timestamp as u32),
    };
    update.row_mut(&clustering).add_cell(cell, table);
    update
}

/// A partition that was deleted so long ago that the deletion may be forgotten.
fn deleted(key: u32, timestamp: i64, table: &Arc<Table>) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(int(key)));
    update.deletion = DeletionTime {
        timestamp,
        local_deletion_time: 1,
    };
    update
}

pub(super) async fn write(store: &Store, update: PartitionUpdate) {
    let updates = vec![update];
    let applied = store.apply(Mutation { updates }).await;
    applied.expect("the write is taken");
}

/// Writes rows of these keys and flushes them.
pub(super) async fn flush(
    store: &Store,
    table: &Arc<Table>,
    keys: std::ops::Range<u32>,
    timestamp: i64,
) {
    for key in keys {
        write(store, row(key, timestamp, table)).await;
    }
    store.flush(None).await.expect("it is flushed");
}

pub(super) fn sstables(store: &Store, table: &Arc<Table>) -> Rc<[SSTable]> {
    let table = store.inner.table(table.id).expect("it is known");
    table.sstables()
}

/// Waits until strategies have nothing to do.
async fn settle(env: &Env, store: &Store) {
    let is_idle = || {
        let pending = store.pending_compactions();
        pending.iter().all(|(_, n)| *n == 0) && store.compactions().is_empty()
    };
    for _ in 0..2000 {
        if is_idle() {
            return;
        }
        env.sleep(Duration::from_millis(5)).await;
    }
    panic!("there is always something to do: {:?}", store.compactions());
}

/// Rows and cells in all sstables together.
pub(super) async fn count(store: &Store, table: &Arc<Table>) -> (usize, usize) {
    let (mut rows, mut cells) = (0, 0);
    for sstable in sstables(store, table).iter() {
        let mut scanner = sstable.scan(ScanOptions::default());
        while scanner.next_partition().await.expect("readable").is_some() {
            while let Some(item) = scanner.next().await.expect("readable") {
                if let Unfiltered::Row(row) = item {
                    rows += 1;
                    cells += row.cells.len();
                }
            }
        }
    }
    (rows, cells)
}

pub(super) fn names(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    };
    entries.map(name).collect()
}

#[test]
fn estimates_want_three_entries_of_a_summary() {
    let is = |partitions| is_informative(Format::Big, partitions, 128);
    assert!(!is(0) && !is(256));
    assert!(is(257));
    assert!(is_informative(Format::Bti, 1, 128));
}

#[test]
fn levels_are_written_and_do_not_overlap() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let pairs = [("sstable_size_in_mb", "0.01"), ("fanout_size", "4")];
        let table = table("LeveledCompactionStrategy", &pairs);
        let store = open(&env, dir, &table).await;
        for round in 0..6 {
            flush(
                &store,
                &table,
                round * 1000..round * 1000 + 1500,
                round.into(),
            )
            .await;
        }
        settle(&env, &store).await;
        let files = sstables(&store, &table);
        let highest = files.iter().map(|file| file.stats().level).max();
        assert!(highest >= Some(2), "{highest:?}");
        for level in 1..9 {
            let of_level = files.iter().filter(|file| file.stats().level == level);
            let mut ranges: Vec<(Token, Token)> = of_level
                .map(|file| (file.first_key().token(), file.last_key().token()))
                .collect();
            ranges.sort();
            assert!(
                ranges.windows(2).all(|pair| pair[0].1 < pair[1].0),
                "level {level}"
            );
        }
        assert!(count(&store, &table).await.0 >= 6500);
        assert!(files.iter().all(|file| file.disk_size() < 40 << 10));
        let table_dir = files[0].descriptor().dir.clone();
        // The logs go when the files have gone that they doom, behind the compaction's back. Where the
        // drive is slow, compactions follow too that nobody counted yet when all had settled.
        let has_log = || names(&table_dir).iter().any(|name| name.contains("_txn_"));
        let mut gone = false;
        for _ in 0..12_000 {
            gone = !has_log();
            if gone {
                break;
            }
            env.sleep(Duration::from_millis(5)).await;
        }
        assert!(gone, "{:?}", names(&table_dir));
        // All of it again, from level 1 on.
        store.compact(table.id).await.expect("it is compacted");
        assert_eq!(count(&store, &table).await, (6500, 6500));
        settle(&env, &store).await;
        assert_eq!(count(&store, &table).await, (6500, 6500));
    });
}

#[test]
fn strategies_change_while_the_store_runs() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let off = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
        let store = open(&env, dir, &off).await;
        for round in 0..4 {
            flush(&store, &off, 0..500, round).await;
        }
        settle(&env, &store).await;
        assert_eq!(sstables(&store, &off).len(), 4);
        assert_eq!(store.auto_compaction(off.id), Some(false));
        let unified = table(
            "UnifiedCompactionStrategy",
            &[
                ("target_sstable_size", "2KiB"),
                ("min_sstable_size", "0B"),
                ("sstable_growth", "0"),
            ],
        );
        assert!(store.set_auto_compaction(off.id, false));
        store
            .set_schema(&schema(&unified))
            .await
            .expect("it is altered");
        let on = store.auto_compaction(off.id);
        assert_eq!(on, Some(true), "it was off anyway when it was switched");
        assert!(store.set_auto_compaction(off.id, true));
        settle(&env, &store).await;
        let files = sstables(&store, &unified);
        assert!(files.len() >= 4, "cut at boundaries: {}", files.len());
        let quarter = |file: &SSTable, last: bool| {
            let key = if last {
                file.last_key()
            } else {
                file.first_key()
            };
            (key.token().0 as u64).wrapping_add(1 << 63) >> 62
        };
        assert!(
            files
                .iter()
                .all(|file| quarter(file, false) == quarter(file, true))
        );
        assert_eq!(count(&store, &unified).await, (500, 500));
        let windows = table("TimeWindowCompactionStrategy", &[("min_threshold", "2")]);
        store
            .set_schema(&schema(&windows))
            .await
            .expect("it is altered");
        store.set_auto_compaction(off.id, true);
        settle(&env, &store).await;
        assert_eq!(sstables(&store, &windows).len(), 1);
        assert_eq!(count(&store, &windows).await, (500, 500));
    });
}

#[test]
fn a_switch_wins_over_the_options() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let off = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
        let store = open(&env, dir, &off).await;
        for round in 0..4 {
            flush(&store, &off, 0..500, round).await;
        }
        assert_eq!(store.pending_compactions(), [(off.id, 0)]);
        assert!(store.set_auto_compaction(off.id, true));
        assert_eq!(store.auto_compaction(off.id), Some(true));
        settle(&env, &store).await;
        assert_eq!(sstables(&store, &off).len(), 1);
        assert!(store.set_auto_compaction(off.id, false));
        assert_eq!(store.auto_compaction(off.id), Some(false));
    });
}

/// A table without strategy's compactions, whose first 100 rows were written twice, and of whose
/// next 100 the partitions were deleted.
pub(super) async fn overwritten(env: &Env, dir: std::path::PathBuf) -> (Store, Arc<Table>) {
    let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
    let store = open(env, dir, &table).await;
    flush(&store, &table, 0..300, 10).await;
    for key in 0..100 {
        write(&store, row(key, 20, &table)).await;
    }
    for key in 100..200 {
        let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(int(key)));
        update.deletion = DeletionTime {
            timestamp: 20,
            local_deletion_time: u32::MAX - 10,
        };
        write(&store, update).await;
    }
    store.flush(None).await.expect("it is flushed");
    (store, table)
}

/// What reads of partitions of these keys find.
async fn read_each(store: &Store, table: &Arc<Table>, keys: std::ops::Range<u32>) -> Vec<ReadPage> {
    let mut found = Vec::new();
    for key in keys {
        let mut command = command(table, vec![Slice::ALL], false);
        command.partitions = PartitionSelection::Key(DecoratedKey::new(int(key)));
        let page = store.read(&command).await;
        found.push(content(page.expect("it can be read")));
    }
    found
}

#[test]
fn what_is_asked_for_need_not_be_read_again_once_it_was_compacted() {
    for (class, chunk_length) in [("LZ4Compressor", 16 << 10), ("", 64 << 10)] {
        // How many chunks, of data and of indexes, are read behind a compaction of what was asked for, or not.
        let [warm, cold] = [true, false].map(|asked| {
            let folder = TempDir::new();
            let dir = folder.0.clone();
            run(move |env| async move {
                let mut table = Table::clone(&table("SizeTieredCompactionStrategy", &[]));
                let compression = &mut table.options.compression;
                compression.clear();
                compression.insert("class".to_owned(), class.to_owned());
                let table = Arc::new(table);
                let store = open(&env, dir, &table).await;
                store.set_auto_compaction(table.id, false);
                flush(&store, &table, 0..4_000, 1).await;
                flush(&store, &table, 2_000..6_000, 2).await;
                let before = match asked {
                    true => read_each(&store, &table, 0..6_000).await,
                    false => Vec::new(),
                };
                store.compact(table.id).await.expect("it can be compacted");
                let [sstable] = &sstables(&store, &table)[..] else {
                    panic!("there is one");
                };
                let chunks = sstable.data_length().div_ceil(chunk_length);
                let read = || store.stats().chunk_cache.read_chunks;
                let compacted = read();
                let after = read_each(&store, &table, 0..6_000).await;
                assert!(before.is_empty() || before == after);
                (chunks, read() - compacted)
            })
        });
        assert_eq!(warm.0, cold.0);
        assert!(warm.0 > 2, "{class}: {} chunks", warm.0);
        assert_eq!(
            cold.1 - warm.1,
            warm.0,
            "{class}: {} and {}",
            cold.1,
            warm.1
        );
    }
}

/// Says in the statistics of an sstable that it was repaired then.
fn set_repaired(sstable: &SSTable, repaired_at: i64) {
    let descriptor = sstable.descriptor();
    let path = descriptor.path(Component::Statistics);
    let bytes = Bytes::from(std::fs::read(&path).expect("the statistics"));
    let decoded = Statistics::decode(&bytes, descriptor.version);
    let mut statistics = decoded.expect("they are whole");
    statistics.stats.repaired_at = repaired_at;
    let keys = (sstable.first_key(), sstable.last_key());
    let encoded = statistics.encode(descriptor.version, keys);
    std::fs::write(&path, encoded).expect("they are written");
}

#[test]
fn what_is_repaired_stays_apart_and_repaired() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
        let store = open(&env, dir.clone(), &table).await;
        for round in 0..4 {
            flush(&store, &table, round * 100..round * 100 + 150, round.into()).await;
        }
        store.drain().await.expect("it is drained");
        let files = sstables(&store, &table);
        drop(store);
        for (file, repaired_at) in files.iter().zip([500, 400]) {
            set_repaired(file, repaired_at);
        }
        drop(files);
        let store = open(&env, dir, &table).await;
        store.compact(table.id).await.expect("they are compacted");
        for again in 0..2 {
            let files = sstables(&store, &table);
            let repaired = files.iter().map(|file| file.stats().repaired_at);
            let mut repaired: Vec<i64> = repaired.collect();
            repaired.sort_unstable();
            assert_eq!(repaired, [0, 400], "{again}");
            let scrubbed = store.scrub(table.id, ScrubOptions::default()).await;
            scrubbed.expect("they are scrubbed");
        }
    });
}

#[test]
fn expired_sstables_go_without_being_read() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let mut table = Table::clone(&table(
            "SizeTieredCompactionStrategy",
            &[("enabled", "false")],
        ));
        table.options.gc_grace_seconds = 0;
        let table = Arc::new(table);
        let store = open(&env, dir.clone(), &table).await;
        for key in 0..50 {
            let mut update = row(key, 5, &table);
            for cell in &mut update.rows[0].cells {
                cell.ttl = 1;
                cell.local_deletion_time = 10;
            }
            write(&store, update).await;
        }
        store.flush(None).await.expect("it is flushed");
        flush(&store, &table, 0..50, 1000).await;
        let files = sstables(&store, &table);
        let expired = files.iter().find(|file| file.stats().max_timestamp == 5);
        let data = expired
            .expect("it is there")
            .descriptor()
            .path(Component::Data);
        let length = std::fs::metadata(&data).expect("the file").len();
        std::fs::write(&data, vec![0xff; length as usize]).expect("it is damaged");
        store.compact(table.id).await.expect("nobody reads it");
        assert_eq!(count(&store, &table).await, (50, 50));
        assert!(!data.exists());
        assert_eq!(sstables(&store, &table).len(), 1);
    });
}

/// Deletions of what is flushed go with what they cover, though the segment of the log that holds both
/// is still there; and a start after a crash brings back neither.
#[test]
fn what_is_flushed_and_purged_does_not_come_back_with_the_log() {
    let folder = TempDir::new();
    let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
    let mut table = Table::clone(&table);
    table.options.gc_grace_seconds = 0;
    let table = Arc::new(table);
    let (dir, purged) = (folder.0.clone(), table.clone());
    run(move |env| async move {
        let store = open(&env, dir, &purged).await;
        flush(&store, &purged, 0..50, 10).await;
        for key in 0..50 {
            write(&store, deleted(key, 20, &purged)).await;
        }
        store.flush(None).await.expect("it is flushed");
        assert!(store.stats().commitlog.bytes > 0, "the log has all of it");
        store.compact(purged.id).await.expect("they are compacted");
        assert_eq!(sstables(&store, &purged).len(), 0);
        // Not flushed when the process ends.
        write(&store, row(7, 30, &purged)).await;
    });
    let dir = folder.0.clone();
    run(move |env| async move {
        let store = open(&env, dir, &table).await;
        store.flush(None).await.expect("it is flushed");
        assert_eq!(count(&store, &table).await, (1, 1));
        let sstables = sstables(&store, &table);
        assert_eq!(sstables.len(), 1);
        assert_eq!(sstables[0].partitions(), 1);
    });
}

/// An sstable that other shards need too comes back with a restart: until it is gone, so must be the
/// deletions of what is in it, also where an sstable holds nothing else.
#[test]
fn deletions_stay_as_long_as_a_shared_sstable_may_come_back() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
        let mut table = Table::clone(&table);
        table.options.gc_grace_seconds = 0;
        let table = Arc::new(table);
        let store = open(&env, dir.clone(), &table).await;
        flush(&store, &table, 0..100, 10).await;
        for key in 0..100 {
            write(&store, deleted(key, 20, &table)).await;
        }
        store.flush(Some(table.id)).await.expect("it is flushed");
        store.drain().await.expect("it is drained");
        drop(store);
        // This is shard 0 of two now.
        let mut config = config(dir);
        config.sharder = Sharder::new(2);
        for restart in 0..2 {
            // What shards know of each other's files is of one process.
            config.shared = Arc::default();
            let store = Store::open(env.clone(), config.clone(), &schema(&table)).await;
            let store = store.expect("it opens");
            store.replay().await.expect("there is nothing to replay");
            for again in 0..3 {
                store.compact(table.id).await.expect("they are compacted");
                let count = count(&store, &table).await;
                assert_eq!(count, (0, 0), "restart {restart}, compaction {again}");
                let left = sstables(&store, &table).len();
                assert_eq!(left, 1, "restart {restart}, compaction {again}");
            }
            store.drain().await.expect("it is drained");
        }
    });
}
