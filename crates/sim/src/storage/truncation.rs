//! A truncation that a crash cuts off anywhere leaves all of the table or nothing; one that was
//! acknowledged leaves nothing, and takes nothing away that somebody puts back afterwards.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Env, TaskGroup};
use model::{PartitionSelection, Slice, Table};
use storage::{FailurePolicies, SharedFiles, Store, StoreConfig};

use super::client::{command, shown};
use super::operation::{self, Moment};
use super::oracle::Shown;
use super::run::{LIMIT, config};
use super::tables;
use crate::Random;

const KEYS: u32 = 8;
const SNAPSHOT: &str = "before";

/// A table on a node of one shard, and what became of it.
struct World {
    table: Arc<Table>,
    archives: bool,
    /// Is the table flushed while it is truncated?
    flushes: bool,
    /// How far the life of the node is.
    stage: Cell<u32>,
    /// How many keys have rows.
    found: Cell<usize>,
}

/// The table is full; the truncation is acknowledged; what a snapshot holds is put back.
const FULL: u32 = 1;
const TRUNCATED: u32 = 2;
const PUT_BACK: u32 = 3;

impl World {
    fn new(random: &mut Random) -> Rc<World> {
        Rc::new(World {
            table: tables::tables(&mut Random::new(0))[0].clone(),
            archives: random.chance(50),
            flushes: random.chance(70),
            stage: Cell::new(0),
            found: Cell::new(0),
        })
    }

    async fn open(&self, env: &Env) -> Store {
        let files = SharedFiles::new(FailurePolicies::default(), self.archives);
        let files = Arc::new(files);
        let config = StoreConfig {
            shared: files.clone(),
            ..config(env, &files, 0)
        };
        let schema = tables::schema(std::slice::from_ref(&self.table));
        let store = Store::open(env.clone(), config, &schema).await;
        let store = store.expect("the store opens");
        store.replay().await.expect("the log is replayed");
        store
    }

    async fn write(&self, env: &Env, store: &Store, keys: std::ops::Range<u32>) {
        for number in keys {
            let moment = Moment {
                timestamp: env.wall_micros(),
                seconds: 1,
            };
            let key = operation::key(number);
            let tables = std::slice::from_ref(&self.table);
            let row = operation::mutation(&mut Random::new(4), &key, tables, moment);
            store.apply(row).await.expect("it is written");
        }
    }

    /// Fills the table, truncates it, and puts back what a snapshot of all of it holds.
    async fn truncate(&self, env: &Env) {
        let store = self.open(env).await;
        store.set_auto_compaction(self.table.id, false);
        self.write(env, &store, 0..KEYS / 2).await;
        store.flush(None).await.expect("it is flushed");
        self.write(env, &store, KEYS / 2..KEYS).await;
        let linked = store.link_snapshot(self.table.id, SNAPSHOT, true).await;
        linked.expect("a snapshot is made");
        let details = store.table_details(self.table.id).expect("it is known");
        let folder = details.sstables[0].data.parent().map(PathBuf::from);
        let folder = folder.expect("it is in a folder");
        // Once more, so that some of it is in memory alone.
        self.write(env, &store, 0..KEYS / 4).await;
        let flushing = self.flushes.then(|| {
            let store = store.clone();
            env.spawn(TaskGroup::Flush, async move { store.flush(None).await })
        });
        if self.flushes {
            env.sleep(Duration::from_micros(env.random_u64() % 3000))
                .await;
        }
        self.stage.set(FULL);
        store.truncate(self.table.id).await.expect("truncated");
        self.stage.set(TRUNCATED);
        if let Some(flushing) = flushing {
            flushing.await.expect("what was flushed is no more");
        }
        env.sleep(Duration::from_secs(1)).await;
        let snapshot = folder.join("snapshots").join(SNAPSHOT);
        for entry in env.read_dir(&snapshot).await.expect("it is there") {
            let (from, to) = (snapshot.join(&entry.name), folder.join(&entry.name));
            env.hard_link(&from, &to).await.expect("it can be linked");
        }
        env.sync_dir(&folder).await.expect("it is synced");
        self.stage.set(PUT_BACK);
    }

    async fn look(&self, env: &Env) {
        let store = self.open(env).await;
        let mut found = 0;
        for number in 0..KEYS {
            let key = PartitionSelection::Key(operation::key(number));
            let command = command(&self.table, key, &Slice::ALL, false, 10);
            let page = store.read(&command).await.expect("it is readable");
            found += usize::from(shown(page, false) != Shown::default());
        }
        self.found.set(found);
        self.stage.set(FULL);
    }
}

/// A life of the node that looks how many keys have rows.
fn look(simulation: &mut Simulation, node: SimNode, world: &Rc<World>) -> usize {
    let begun = world.clone();
    world.stage.set(0);
    simulation.start(node, move |env| {
        let world = begun.clone();
        async move { world.look(&env).await }
    });
    assert!(simulation.run_until(LIMIT, |_| world.stage.get() == FULL));
    world.found.get()
}

/// The node begins to truncate; the process or the power ends some time after a stage.
fn truncate(simulation: &mut Simulation, node: SimNode, world: &Rc<World>, until: (u32, Duration)) {
    let begun = world.clone();
    simulation.start(node, move |env| {
        let world = begun.clone();
        async move { world.truncate(&env).await }
    });
    assert!(simulation.run_until(LIMIT, |_| world.stage.get() == until.0));
    simulation.run_for(until.1);
}

fn how(random: &mut Random) -> Crash {
    *random.pick(&[Crash::Process, Crash::Power])
}

#[test]
fn a_crash_leaves_all_or_nothing() {
    let mut ends = [0; 3];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let node = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 32);
        let time = Duration::from_micros(random.below(20_000));
        truncate(&mut simulation, node, &world, (FULL, time));
        let acknowledged = world.stage.get() == TRUNCATED;
        simulation.crash(node, how(&mut random));
        let found = look(&mut simulation, node, &world);
        let all = found == KEYS as usize && !acknowledged;
        assert!(
            found == 0 || all,
            "seed {seed}: {found} keys, {acknowledged}"
        );
        simulation.crash(node, how(&mut random));
        let again = look(&mut simulation, node, &world);
        assert_eq!(again, found, "seed {seed}");
        ends[usize::from(found == 0) + usize::from(acknowledged)] += 1;
    }
    assert!(ends.iter().all(|end| *end > 10), "{ends:?}");
}

#[test]
fn what_is_put_back_stays() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let world = World::new(&mut random);
        let mut simulation = Simulation::new(seed, SimConfig::default());
        let node = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 32);
        let time = Duration::from_micros(random.below(1_000));
        truncate(&mut simulation, node, &world, (PUT_BACK, time));
        simulation.crash(node, how(&mut random));
        let found = look(&mut simulation, node, &world);
        assert_eq!(found, KEYS as usize, "seed {seed}");
    }
}
