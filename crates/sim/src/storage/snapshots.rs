//! Snapshots in the storage workload: what is in one must be what had been written when it was
//! made, to the keys that nobody wrote to meanwhile, now and after any crash; and its sstables can
//! be imported again. A snapshot is looked at as people do it: linked into the folder of another
//! store, and read there.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{PartitionSelection, Sharder, Slice, Table, TableId};
use storage::{ImportError, ImportOptions, SnapshotError, Store, StoreConfig};

use super::client::{command, shown};
use super::oracle::Observation;
use super::run::config;
use super::tables;
use super::world::World;
use crate::Random;

/// A snapshot, and what has to be in it.
pub(crate) struct Snapshot {
    tag: String,
    table: TableId,
    keys: Vec<Observation>,
}

fn folder(table: &Table) -> PathBuf {
    let name = format!("{}-{}", table.name, table.id.simple());
    PathBuf::from("/data/data/sim").join(name)
}

/// Makes a snapshot of a table on this shard.
pub(crate) async fn take(
    env: &Env,
    store: &Store,
    world: &World,
    random: &mut Random,
) -> Result<(), String> {
    let table = random.pick(&world.tables()).clone();
    let tag = format!("s{}-{}", env.shard().0, world.next_snapshot());
    // Half of the keys: to the others writes go on.
    let mut keys = world.keys_of(env);
    keys.retain(|key| random.chance(50) && world.may_lock(key));
    keys.iter().for_each(|key| world.lock(key));
    let observed: Vec<Observation> = keys
        .iter()
        .map(|key| world.oracle.borrow_mut().observe(key))
        .collect();
    let linked = store.link_snapshot(table.id, &tag, true).await;
    let keys_then = {
        let mut oracle = world.oracle.borrow_mut();
        let observed = observed.into_iter().map(|o| oracle.freeze(o));
        observed.collect()
    };
    keys.iter().for_each(|key| world.unlock(key));
    match linked {
        Ok(_) => {}
        Err(SnapshotError::Flush(_) | SnapshotError::Io { .. }) if world.may_writing_fail() => {
            return Ok(());
        }
        Err(error) => return Err(format!("a snapshot failed: {error}")),
    }
    let snapshot = Rc::new(Snapshot {
        tag,
        table: table.id,
        keys: keys_then,
    });
    let checked = check(env, world, &snapshot).await;
    world.snapshots.borrow_mut().push(snapshot);
    checked
}

/// Looks into the snapshots there are.
pub(crate) async fn check_all(env: &Env, world: &World) -> Result<(), String> {
    let all = world.snapshots.borrow().clone();
    for snapshot in all {
        check(env, world, &snapshot).await?;
    }
    Ok(())
}

/// Removes one of the snapshots.
pub(crate) async fn clear(store: &Store, world: &World, random: &mut Random) -> Result<(), String> {
    let Some(snapshot) = world.take_snapshot(random) else {
        return Ok(());
    };
    match store.clear_snapshots(&[], Some(&snapshot.tag), None).await {
        // It may have been that of a table with nothing in it: then there is no folder.
        Ok(_) => Ok(()),
        Err(_) if world.may_writing_fail() => Ok(()),
        Err(error) => Err(format!("a snapshot cannot be removed: {error}")),
    }
}

/// Imports the sstables of a snapshot into its table: what is in them is there already, or was
/// covered since.
pub(crate) async fn import(
    env: &Env,
    store: &Store,
    world: &World,
    random: &mut Random,
) -> Result<(), String> {
    let Some(snapshot) = world.take_snapshot(random) else {
        return Ok(());
    };
    let all = world.tables();
    let table = all.iter().find(|table| table.id == snapshot.table);
    let table = table.expect("tables stay").clone();
    // What was purged since must not come back, neither here nor in life.
    let imported = match table.options.gc_grace_seconds {
        0 => Ok(()),
        // Nobody removes the snapshot meanwhile.
        _ => import_all(env, store, &table, &snapshot.tag).await,
    };
    world.snapshots.borrow_mut().push(snapshot);
    match imported {
        Err(_) if world.may_writing_fail() => Ok(()),
        Err(error) => Err(format!("an import failed: {error}")),
        Ok(()) => Ok(()),
    }
}

async fn import_all(env: &Env, store: &Store, table: &Table, tag: &str) -> Result<(), ImportError> {
    let dir = folder(table).join("snapshots").join(tag);
    if !env.exists(&dir).await.unwrap_or(false) {
        return Ok(());
    }
    let options = ImportOptions {
        verify: true,
        copy: true,
        ..ImportOptions::default()
    };
    let mut placed = Vec::new();
    for source in store.find_sstables(table.id, Some(&dir)).await? {
        store.check_import(table.id, &source, true).await?;
        placed.push(store.place(table.id, &source, 0, options).await?);
    }
    store.open_arrivals(table.id, &placed).await?;
    store.show_arrivals(table.id).await
}

/// Is in a snapshot what should be, of the keys of this shard?
async fn check(env: &Env, world: &World, snapshot: &Snapshot) -> Result<(), String> {
    let sharder = Sharder::new(env.shards());
    let is_ours = |o: &&Observation| sharder.shard_of(o.key().token()) == env.shard().0;
    let ours: Vec<&Observation> = snapshot.keys.iter().filter(is_ours).collect();
    // Others look into theirs at the same time.
    let scratch = PathBuf::from(format!("/scratch/{}-{}", env.shard().0, snapshot.tag));
    let _ = env.remove_dir_all(&scratch).await;
    let all = world.tables();
    let table = all.iter().find(|table| table.id == snapshot.table);
    let table = table.expect("tables stay");
    let checked = match restore(env, table, &snapshot.tag, &scratch).await {
        Ok(store) => {
            world.saw_snapshot();
            let checked = compare(env, world, table, &store, &ours).await;
            let _ = store.drain().await;
            checked
        }
        Err(_) if world.may_writing_fail() => Ok(()),
        Err(error) => Err(format!(
            "snapshot {} cannot be opened: {error}",
            snapshot.tag
        )),
    };
    let _ = env.remove_dir_all(&scratch).await;
    checked
}

/// A store of nothing but the snapshot.
async fn restore(
    env: &Env,
    table: &Arc<Table>,
    tag: &str,
    scratch: &Path,
) -> Result<Store, Box<dyn std::error::Error>> {
    let from = folder(table).join("snapshots").join(tag);
    let name = folder(table);
    let name = name.file_name().unwrap_or_default();
    let to = scratch.join("data/sim").join(name);
    env.create_dir_all(&to).await?;
    // A table with nothing in it has none.
    if env.exists(&from).await? {
        for entry in env.read_dir(&from).await? {
            let (file, link) = (from.join(&entry.name), to.join(&entry.name));
            env.hard_link(&file, &link).await?;
        }
    }
    let config = StoreConfig {
        sstables: scratch.join("data"),
        commitlog_dir: scratch.join("commitlog"),
        ..config(env, &Default::default(), 0)
    };
    let schema = tables::schema(std::slice::from_ref(table));
    let store = Store::open(env.clone(), config, &schema).await?;
    store.replay().await?;
    Ok(store)
}

async fn compare(
    env: &Env,
    world: &World,
    table: &Arc<Table>,
    store: &Store,
    keys: &[&Observation],
) -> Result<(), String> {
    let now = env.wall_seconds();
    for observation in keys {
        let selection = PartitionSelection::Key(observation.key().clone());
        let command = command(table, selection, &Slice::ALL, false, now);
        let page = match store.read(&command).await {
            Ok(page) => page,
            Err(_) if world.has_disk_faults() => return Ok(()),
            Err(error) => return Err(format!("a snapshot cannot be read: {error}")),
        };
        let shown = shown(page, false);
        let mut oracle = world.oracle.borrow_mut();
        let checked = oracle.check_frozen(observation, table.id, now, &shown);
        checked.map_err(|problem| format!("in a snapshot: {problem}"))?;
    }
    Ok(())
}
