//! What the store has of its commit log: when a write is acknowledged, and how long the log becomes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use model::{Mutation, Table, TableId};

use super::tests::{config, open_with, schema};
use super::*;
use crate::FailurePolicies;
use crate::testing::{Saying, TempDir, run, table, update};
use model::Order;

/// A store whose log has this mode, in an empty folder.
async fn synced(env: &Env, dir: PathBuf, table: &Arc<Table>, log: CommitLogConfig) -> Store {
    let config = StoreConfig {
        commitlog: log,
        ..config(dir)
    };
    open_with(env, config, &schema(table)).await
}

#[test]
fn periodic_writes_wait_for_a_drive_that_lags() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let lag_block = Duration::from_millis(20);
        let log = CommitLogConfig {
            sync: crate::CommitlogSync::Periodic {
                every: Duration::from_secs(3600),
                lag_block,
            },
            ..config(dir.clone()).commitlog
        };
        let store = synced(&env, dir, &table, log).await;
        let write = |row| Mutation {
            updates: vec![update(&table, &[Saying::Written([1, row], 3, 7)])],
        };
        let pending = || store.stats().commitlog.pending_records;
        store.apply(write(1)).await.expect("applied");
        assert_eq!(pending(), 1, "it is acknowledged at once");
        env.sleep(2 * lag_block).await;
        store.apply(write(2)).await.expect("applied");
        assert_eq!(pending(), 0, "it waited for both");
        store.apply(write(3)).await.expect("applied");
        assert_eq!(pending(), 1, "the drive was not behind");
        store.apply_to_drive(write(4)).await.expect("applied");
        assert_eq!(pending(), 0, "it is not for the period to say");
    });
}

#[test]
fn a_group_window_gathers_writes() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let table = table(Order::Ascending);
        let log = CommitLogConfig {
            group_window: Duration::from_millis(20),
            ..config(dir.clone()).commitlog
        };
        let store = synced(&env, dir, &table, log).await;
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, table, at) = (store.clone(), table.clone(), env.clone());
                env.spawn(io::TaskGroup::Foreground, async move {
                    for row in 0..3 {
                        let saying = Saying::Written([writer, row], 3, 7);
                        let updates = vec![update(&table, &[saying])];
                        store.apply(Mutation { updates }).await.expect("applied");
                        at.sleep(Duration::from_millis(2)).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await;
        }
        let groups = store.stats().commitlog.groups;
        assert!(
            (3..=4).contains(&groups),
            "{groups} groups of twelve writes"
        );
    });
}

/// A table that is written to once, in the first segment, beside one that is written to all the time.
#[test]
fn a_quiet_table_does_not_hold_the_log() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let busy = table(Order::Ascending);
        let mut quiet = Table::clone(&busy);
        quiet.id = TableId::from_u128(2);
        quiet.name = "quiet".into();
        let quiet = Arc::new(quiet);
        let mut tables = schema(&busy);
        let keyspace = tables
            .keyspaces
            .get_mut(&busy.keyspace)
            .expect("it is there");
        let all = &mut Arc::make_mut(keyspace).tables;
        all.insert(quiet.name.clone(), quiet.clone());

        let mut config = config(dir);
        config.memory = 1 << 20;
        config.commitlog.sync = crate::CommitlogSync::Periodic {
            every: Duration::from_secs(1),
            lag_block: Duration::from_secs(60),
        };
        let segment = config.commitlog.segment_bytes;
        let store = open_with(&env, config, &tables).await;
        let once = Mutation {
            updates: vec![update(&quiet, &[Saying::Written([0, 0], 1, 1)])],
        };
        store.apply(once).await.expect("applied");
        let mut most = 0;
        for (round, a) in (0..2).flat_map(|round| (0..200).map(move |a| (round, a))) {
            let rows = (0..=255).map(|b| Saying::Written([a, b], round, 1));
            let rows: Vec<_> = rows.collect();
            let updates = vec![update(&busy, &rows)];
            store.apply(Mutation { updates }).await.expect("applied");
            most = most.max(store.stats().commitlog.bytes);
        }
        let written = store.stats().commitlog.written_bytes;
        let long = memory::LONG_LOG * segment;
        assert!(written > 2 * long, "the log would be {written} bytes long");
        assert!(most <= long + 2 * segment, "it was {most} bytes long");
    });
}

/// Writes as much as a few segments hold, and flushes it.
async fn fill_segments(store: &Store, table: &Arc<Table>) {
    for a in 0..100 {
        let rows: Vec<_> = (0..100).map(|b| Saying::Written([a, b], 1, 1)).collect();
        let updates = vec![update(table, &rows)];
        store.apply(Mutation { updates }).await.expect("applied");
    }
    store.flush(None).await.expect("flushed");
}

/// Links the full segments into a folder, as `ln %path %name` does; gives what was in them.
fn link_waiting(store: &Store, backup: &std::path::Path) -> Vec<(PathBuf, Vec<u8>)> {
    let archive = &store.inner.config.shared.archive;
    let link = |path: PathBuf| {
        archive.is_copied(&path);
        let linked = backup.join(path.file_name()?);
        std::fs::hard_link(&path, &linked).ok()?;
        let content = std::fs::read(&linked).expect("readable");
        Some((linked, content))
    };
    archive.waiting().into_iter().filter_map(link).collect()
}

#[test]
fn what_is_archived_by_links_is_never_written_to() {
    let folder = TempDir::new();
    let backup = folder.0.join("backup");
    std::fs::create_dir_all(&backup).expect("a folder");
    let mut archived = Vec::new();
    // The last life has no archiving, but segments of one that had.
    for archives in [true, true, false] {
        let (dir, backup) = (folder.0.clone(), backup.clone());
        archived.extend(run(move |env| async move {
            let table = table(Order::Ascending);
            let mut config = config(dir);
            config.shared = Arc::new(SharedFiles::new(FailurePolicies::default(), archives));
            let store = open_with(&env, config, &schema(&table)).await;
            let mut linked = Vec::new();
            for _ in 0..3 {
                fill_segments(&store, &table).await;
                linked.extend(link_waiting(&store, &backup));
            }
            linked
        }));
    }
    assert!(archived.len() >= 6, "{}", archived.len());
    for (path, content) in archived {
        let now = std::fs::read(&path).expect("readable");
        assert!(now == content, "{}", path.display());
    }
}

#[test]
fn a_log_that_begins_anew_takes_no_name_of_before() {
    let folder = TempDir::new();
    let mut names: Vec<String> = Vec::new();
    for _ in 0..3 {
        let dir = folder.0.clone();
        let found = run(move |env| async move {
            let table = table(Order::Ascending);
            let store = open_with(&env, config(dir.clone()), &schema(&table)).await;
            fill_segments(&store, &table).await;
            let files = env.read_dir(&dir.join("commitlog")).await;
            store.drain().await.expect("drained");
            let files = files.expect("a folder").into_iter();
            let names = files.filter(|file| crate::is_commitlog_file(&file.name));
            names.map(|file| file.name).collect::<Vec<_>>()
        });
        assert!(!found.is_empty() && found.iter().all(|name| names.iter().all(|n| n < name)));
        names.extend(found);
    }
}
