//! What the store has of its commit log: when a write is acknowledged, and how long the log becomes.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use io::sim::{Crash, SimConfig, Simulation};
use model::{Mutation, Slice, Table, TableId};

use super::tests::{command, config, open_with, schema};
use super::*;
use crate::FailurePolicies;
use crate::testing::{ADDRESS, Saying, TempDir, clustering, run, table, update};
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

/// A store of a table whose log is brought to the drive between its segments, which are small, and not before.
async fn rarely_synced(env: &Env) -> (Store, Arc<Table>) {
    let table = table(Order::Ascending);
    let mut config = config("/".into());
    config.memory = 1 << 26;
    config.commitlog.sync = crate::CommitlogSync::Periodic {
        every: Duration::from_secs(3600),
        lag_block: Duration::from_secs(3600),
    };
    (open_with(env, config, &schema(&table)).await, table)
}

/// Writes that come one after the other, each in a block of the log, as soon as the last one is acknowledged and
/// a while is over.
async fn write_on(
    env: &Env,
    store: &Store,
    table: &Arc<Table>,
    acknowledged: impl Fn(u16, Duration),
) {
    for number in 0..u16::MAX {
        let written = Saying::Written(number.to_be_bytes(), 1, 7);
        let updates = vec![update(table, &[written])];
        let begun = env.now();
        store.apply(Mutation { updates }).await.expect("applied");
        acknowledged(number, env.now() - begun);
        env.sleep(Duration::from_micros(200)).await;
    }
}

#[test]
fn periodic_writes_do_not_wait_between_two_segments() {
    let mut world = Simulation::new(1, SimConfig::default());
    let node = world.add_node(ADDRESS, 1, 1 << 30);
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let segments = Rc::new(Cell::new(0));
    let (most, found) = (longest.clone(), segments.clone());
    world.start(node, move |env: Env| {
        let (longest, segments) = (longest.clone(), segments.clone());
        async move {
            let (store, table) = rarely_synced(&env).await;
            let acknowledged = |number, took| {
                // The first one makes the first segment.
                if number > 0 {
                    longest.set(longest.get().max(took));
                }
                segments.set(store.stats().commitlog.written_bytes >> 17);
            };
            write_on(&env, &store, &table, acknowledged).await;
        }
    });
    assert!(world.run_until(Duration::from_secs(60), |_| found.get() >= 40));
    // A write to the simulated drive takes up to 80 µs, a sync of it up to a millisecond.
    assert!(most.get() < Duration::from_micros(200), "{:?}", most.get());
}

#[test]
fn of_periodic_writes_a_power_failure_takes_only_the_last() {
    let mut lost_some = 0;
    for seed in 0..60 {
        let mut world = Simulation::new(seed, SimConfig::default());
        let node = world.add_node(ADDRESS, 1, 1 << 30);
        // How many were acknowledged, and how many of these the drive did not have.
        let counts = Rc::new(Cell::new((0u64, 0u64)));
        let told = counts.clone();
        world.start(node, move |env: Env| {
            let counts = counts.clone();
            async move {
                let (store, table) = rarely_synced(&env).await;
                let acknowledged = |number, _| {
                    let pending = store.stats().commitlog.pending_records;
                    counts.set((u64::from(number) + 1, pending));
                };
                write_on(&env, &store, &table, acknowledged).await;
            }
        });
        world.run_until(Duration::from_secs(10), |_| told.get().0 > 1);
        // A segment is full after 8 ms.
        world.run_for(Duration::from_micros(5_000 + seed * 1_117));
        world.crash(node, Crash::Power);
        let (acknowledged, pending) = told.get();

        let found = Rc::new(RefCell::new(None));
        let finds = found.clone();
        world.start(node, move |env: Env| {
            let found = found.clone();
            async move {
                let (store, table) = rarely_synced(&env).await;
                let all = command(&table, vec![Slice::ALL], false);
                let page = store.read(&all).await.expect("readable");
                let rows = page.partitions.iter().flat_map(|partition| &partition.rows);
                *found.borrow_mut() =
                    Some(rows.map(|row| row.clustering.clone()).collect::<Vec<_>>());
            }
        });
        assert!(
            world.run_to_end(node, Duration::from_secs(10)),
            "seed {seed}"
        );
        let found = finds.borrow_mut().take().expect("it was read");
        let count = found.len() as u64;
        assert!(
            count + pending >= acknowledged,
            "seed {seed}: {count}, {pending}, {acknowledged}"
        );
        let first = (0..count as u16).map(|number| number.to_be_bytes());
        let first: Vec<_> = first.map(|[a, b]| clustering(&[a, b])).collect();
        assert!(found == first, "seed {seed}: there is a gap");
        lost_some += u32::from(count < acknowledged);
    }
    assert!(lost_some > 20, "{lost_some} of 60 lost anything");
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
