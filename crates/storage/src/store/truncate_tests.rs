//! What a start makes of a truncation: of one that was through, and of one that was cut off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use io::Env;
use model::{Mutation, Order, Schema, Slice, Table};

use super::tests::{command, config, open_with, schema};
use super::*;
use crate::FailurePolicies;
use crate::commitlog::{Position, Truncation};
use crate::testing::{Saying, TempDir, run, table, update};

/// A store in this folder, with archiving or without.
async fn open(env: &Env, dir: &Path, archives: bool, restore_point: i64) -> Store {
    let mut config = config(dir.to_owned());
    config.commitlog.restore_point = restore_point;
    config.shared = Arc::new(SharedFiles::new(FailurePolicies::default(), archives));
    open_with(env, config, &schema(&table(Order::Ascending))).await
}

async fn write(store: &Store, table: &Arc<Table>, rows: std::ops::Range<u8>) {
    for row in rows {
        let updates = vec![update(table, &[Saying::Written([1, row], 3, 7)])];
        let applied = store.apply(Mutation { updates }).await;
        applied.expect("the write is taken");
    }
}

async fn rows(store: &Store, table: &Arc<Table>) -> usize {
    let page = store.read(&command(table, vec![Slice::ALL], false)).await;
    let partitions = page.expect("it can be read").partitions;
    partitions
        .iter()
        .map(|partition| partition.rows.len())
        .sum()
}

fn table_folder(dir: &Path, table: &Table) -> PathBuf {
    dir.join("data/ks").join(format!("t-{}", table.id.simple()))
}

/// Copies what a snapshot holds into the folder of its table, under the same names.
fn put_back(dir: &Path, table: &Table, tag: &str) {
    let folder = table_folder(dir, table);
    for file in std::fs::read_dir(folder.join("snapshots").join(tag)).expect("a snapshot") {
        let file = file.expect("a file");
        let copied = std::fs::copy(file.path(), folder.join(file.file_name()));
        copied.expect("it can be copied");
    }
}

#[test]
fn what_is_put_back_after_a_truncation_is_there_at_the_next_start() {
    for (archives, drains) in [(true, true), (true, false), (false, true), (false, false)] {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        run(move |env| async move {
            let table = table(Order::Ascending);
            let store = open(&env, &dir, archives, i64::MAX).await;
            write(&store, &table, 0..4).await;
            let linked = store.link_snapshot(table.id, "before", true).await;
            linked.expect("a snapshot is made");
            store.truncate(table.id).await.expect("truncated");
            // A flush moves what is noted of the table forward.
            write(&store, &table, 10..11).await;
            store.flush(None).await.expect("flushed");
            if drains {
                store.drain().await.expect("drained");
            }
            put_back(&dir, &table, "before");
            let store = open(&env, &dir, archives, i64::MAX).await;
            assert_eq!(rows(&store, &table).await, 5, "{archives} {drains}");
        });
    }
}

#[test]
fn what_a_truncation_that_was_cut_off_left_goes_and_no_more() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, &dir, false, i64::MAX).await;
        write(&store, &table, 0..4).await;
        let linked = store.link_snapshot(table.id, "before", true).await;
        linked.expect("a snapshot is made");
        write(&store, &table, 4..5).await;
        // The process ends before the first file is removed.
        let cut_off = Truncation {
            position: store.inner.log.position(),
            generation: store
                .inner
                .table(table.id)
                .expect("known")
                .last_generation(),
            at: env.wall_micros(),
            unfinished: true,
        };
        store.inner.truncations.borrow_mut()[0].note(table.id, cut_off);
        store.inner.save_truncations().await.expect("noted");
        store.inner.log.sync().await.expect("synced");
    });
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, &dir, false, i64::MAX).await;
        assert_eq!(rows(&store, &table).await, 0);
        put_back(&dir, &table, "before");
    });
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, &dir, false, i64::MAX).await;
        assert_eq!(
            rows(&store, &table).await,
            4,
            "it was through at the last start"
        );
    });
}

#[test]
fn a_point_in_time_before_a_truncation_brings_back_what_it_emptied() {
    for (earlier, expected) in [(true, 4), (false, 0)] {
        let folder = TempDir::new();
        let (dir, point) = (folder.0.clone(), Arc::new(AtomicI64::new(0)));
        let restore_point = point.clone();
        run(move |env| async move {
            let table = table(Order::Ascending);
            let store = open(&env, &dir, true, i64::MAX).await;
            write(&store, &table, 0..4).await;
            let before = env.wall_micros();
            env.sleep(std::time::Duration::from_millis(2)).await;
            store.truncate(table.id).await.expect("truncated");
            let after = env.wall_micros();
            point.store(if earlier { before } else { after }, Ordering::Relaxed);
        });
        // The second time without it: what came back stays.
        for restore_point in [restore_point.load(Ordering::Relaxed), i64::MAX] {
            let dir = folder.0.clone();
            run(move |env| async move {
                let table = table(Order::Ascending);
                let store = open(&env, &dir, true, restore_point).await;
                assert_eq!(rows(&store, &table).await, expected, "{restore_point}");
            });
        }
    }
}

/// The segments that hold its writes are there as long as another table needs them, and the id can be
/// given again: `CREATE TABLE ... WITH ID`.
#[test]
fn a_dropped_table_does_not_come_back_with_its_id() {
    for earlier in [false, true] {
        let folder = TempDir::new();
        let (dir, point) = (folder.0.clone(), Arc::new(AtomicI64::new(i64::MAX)));
        let restore_point = point.clone();
        run(move |env| async move {
            let table = table(Order::Ascending);
            let store = open(&env, &dir, true, i64::MAX).await;
            write(&store, &table, 0..4).await;
            if earlier {
                point.store(env.wall_micros(), Ordering::Relaxed);
            }
            env.sleep(std::time::Duration::from_millis(2)).await;
            for schema in [Schema::default(), schema(&table)] {
                store.set_schema(&schema).await.expect("it is set");
            }
            write(&store, &table, 10..11).await;
            // As with a kill: nothing is flushed, and the log is all there.
        });
        let dir = folder.0.clone();
        run(move |env| async move {
            let table = table(Order::Ascending);
            let restore_point = restore_point.load(Ordering::Relaxed);
            let store = open(&env, &dir, true, restore_point).await;
            let expected = if earlier { 5 } else { 1 };
            assert_eq!(rows(&store, &table).await, expected, "{restore_point}");
        });
    }
}

#[test]
fn notes_go_with_the_segments_that_they_speak_of() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let store = open(&env, &dir, false, i64::MAX).await;
        write(&store, &table, 0..1).await;
        let dropped = Schema::default();
        store.set_schema(&dropped).await.expect("it is dropped");
        let mut other = Table::clone(&table);
        other.id = model::TableId::from_u128(0x200);
        other.name = "other".into();
        let other = Arc::new(other);
        let made = store.set_schema(&schema(&other)).await;
        made.expect("another is made");
        let is_noted = || {
            let first = Position {
                segment: 0,
                offset: 0,
            };
            let token = update(&table, &[]).key.token();
            store.inner.truncations.borrow()[0].covers(table.id, token, first)
        };
        assert!(is_noted());
        let log = &store.inner.log;
        let segment = log.position().segment;
        for _ in 0..100 {
            write(&store, &other, 0..100).await;
            if log.position().segment > segment {
                break;
            }
        }
        store.flush(None).await.expect("flushed");
        for _ in 0..1000 {
            env.sleep(std::time::Duration::from_millis(10)).await;
            if log.oldest_segment() > segment {
                break;
            }
        }
        assert!(log.oldest_segment() > segment);
        store.truncate(other.id).await.expect("truncated");
        assert!(!is_noted());
    });
}

#[test]
fn notes_of_other_numbers_of_shards_go_with_their_segments() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let log = dir.join("commitlog");
        std::fs::create_dir_all(&log).expect("a folder");
        let mut noted = Truncations::new(0, 4);
        let cut_off = Truncation {
            position: Position {
                segment: 5,
                offset: 0,
            },
            generation: 8,
            at: env.wall_micros(),
            unfinished: true,
        };
        noted.note(table.id, cut_off);
        noted.save(&env, &log).await.expect("noted");
        // Nothing had been written to it.
        let segment = log.join("helenus-0of4-000000000005.log");
        std::fs::write(&segment, vec![0; 8192]).expect("written");
        let read = async || {
            let bytes = std::fs::read(log.join("truncated-0of4")).ok()?;
            let mut noted = Truncations::new(0, 4);
            noted.decode(&bytes).expect("it is whole");
            Some(noted.covers_sstable(table.id, (0, 4), 8))
        };
        assert_eq!(read().await, Some(true));
        let store = open(&env, &dir, false, i64::MAX).await;
        assert_eq!(read().await, Some(false), "the segment may still need it");
        store.drain().await.expect("drained");
        assert!(!segment.exists());
        let _store = open(&env, &dir, false, i64::MAX).await;
        assert_eq!(read().await, None);
    });
}
