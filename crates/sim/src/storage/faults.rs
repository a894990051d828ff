//! Drives that refuse to read one sstable, or to write at all, and what the failure policies make
//! of it, whoever meets it.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::Env;
use io::sim::{Crash, DiskFaults, SimConfig, SimNode, Simulation};
use model::{PartitionSelection, Slice, Table};
use storage::{
    CompactionError, DiskFailurePolicy, FailurePolicies, SharedFiles, Store, StoreConfig, Verdict,
};

use super::client::{command, shown};
use super::operation::{self, Moment};
use super::oracle::Shown;
use super::run::{LIMIT, config};
use super::tables;
use crate::Random;

/// A node of one shard with a table of two sstables, each of another key, and what became of it.
struct World {
    table: Arc<Table>,
    files: Arc<SharedFiles>,
    store: RefCell<Option<Store>>,
    /// The data files of the sstables of keys 0 and 1.
    data: RefCell<Vec<PathBuf>>,
    /// How many times the drive's faults were to change.
    stage: Cell<u32>,
}

impl World {
    fn new(disk: DiskFailurePolicy) -> Rc<World> {
        let policies = FailurePolicies {
            disk,
            ..FailurePolicies::default()
        };
        let mut table = Table::clone(&tables::tables(&mut Random::new(0))[0]);
        let pairs = [
            ("class", "SizeTieredCompactionStrategy"),
            ("min_threshold", "2"),
        ];
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        table.options.compaction = pairs.collect();
        Rc::new(World {
            table: Arc::new(table),
            files: Arc::new(SharedFiles::new(policies, false)),
            store: RefCell::default(),
            data: RefCell::default(),
            stage: Cell::new(0),
        })
    }

    fn store(&self) -> Store {
        self.store.borrow().clone().expect("it is open")
    }

    fn verdict(&self) -> Verdict {
        self.files.health.verdict().0
    }

    /// Opens the store.
    async fn open(&self, env: &Env) {
        let config = StoreConfig {
            shared: self.files.clone(),
            ..config(env, &self.files, 0)
        };
        let schema = tables::schema(std::slice::from_ref(&self.table));
        let store = Store::open(env.clone(), config, &schema).await;
        let store = store.expect("the store opens");
        store.replay().await.expect("the log is replayed");
        *self.store.borrow_mut() = Some(store);
    }

    /// Opens it and writes the two sstables; none is compacted by itself.
    async fn fill(&self, env: &Env) {
        self.open(env).await;
        let store = self.store();
        store.set_auto_compaction(self.table.id, false);
        for number in 0..2 {
            self.write(env, number).await.expect("it is written");
            store.flush(None).await.expect("it is flushed");
            let known = self.data.borrow().clone();
            let new = self.sstables().into_iter().find(|d| !known.contains(d));
            self.data.borrow_mut().extend(new);
        }
    }

    fn sstables(&self) -> Vec<PathBuf> {
        let details = self.store().table_details(self.table.id);
        let sstables = details.expect("it is known").sstables.into_iter();
        sstables.map(|sstable| sstable.data).collect()
    }

    async fn write(&self, env: &Env, number: u32) -> Result<(), storage::WriteError> {
        let moment = Moment {
            timestamp: env.wall_micros(),
            seconds: 1,
        };
        let tables = std::slice::from_ref(&self.table);
        let key = operation::key(number);
        let row = operation::mutation(&mut Random::new(4), &key, tables, moment);
        self.store().apply(row).await
    }

    async fn read(&self, number: u32) -> Result<Shown, storage::ReadError> {
        let key = PartitionSelection::Key(operation::key(number));
        let command = command(&self.table, key, &Slice::ALL, false, 10);
        let page = self.store().read(&command).await;
        page.map(|page| shown(page, false))
    }

    async fn stage(&self, env: &Env) {
        self.stage.set(self.stage.get() + 1);
        env.sleep(Duration::from_millis(1)).await;
    }

    fn suspects(&self) -> (u64, u64) {
        let stats = self.store().stats();
        let table = &stats.tables[0];
        (table.suspect_sstables, table.unreadable_sstables)
    }
}

/// A simulation with one node.
fn node() -> (Simulation, SimNode) {
    let mut simulation = Simulation::new(7, SimConfig::default());
    let node = simulation.add_node([10, 0, 0, 1].into(), 1, 1 << 32);
    (simulation, node)
}

/// Runs a body that fills the table first, lets the drive change by `fault`, and goes on.
fn run<F>(world: &Rc<World>, fault: impl Fn(&mut Simulation, SimNode, &World), body: F)
where
    F: AsyncFn(&Env, &World) + Clone + 'static,
{
    let (mut simulation, node) = node();
    let begun = world.clone();
    simulation.start(node, move |env| {
        let (world, body) = (begun.clone(), body.clone());
        async move {
            world.fill(&env).await;
            world.stage(&env).await;
            body(&env, &world).await;
            world.stage.set(9);
        }
    });
    let staged = |stage: u32| {
        let world = world.clone();
        move |_: &Simulation| world.stage.get() == stage
    };
    assert!(simulation.run_until(LIMIT, staged(1)), "it is filled");
    fault(&mut simulation, node, world);
    assert!(
        simulation.run_until(LIMIT, staged(9)),
        "it comes to its end"
    );
}

/// The first sstable cannot be read any more, none of its files.
fn bad_sectors(simulation: &mut Simulation, node: SimNode, world: &World) {
    let data = world.data.borrow()[0].clone();
    for (path, _) in simulation.files(node) {
        if is_of(&path, &data) {
            let marked = simulation.set_unreadable(node, &path, true);
            marked.expect("it is there");
        }
    }
}

/// A bit in the middle of the first sstable's data has changed.
fn rotten(simulation: &mut Simulation, node: SimNode, world: &World) {
    let data = world.data.borrow()[0].clone();
    let flipped = simulation.flip_bit(node, &data, 20, 3);
    flipped.expect("it is there");
}

/// Nothing can be written any more.
fn read_only(simulation: &mut Simulation, node: SimNode, _: &World) {
    let faults = DiskFaults {
        write_error: 1.0,
        sync_error: 1.0,
        ..DiskFaults::NONE
    };
    simulation.set_disk_faults(node, faults);
}

fn is_of(path: &Path, data: &Path) -> bool {
    let sstable = data.to_string_lossy();
    let sstable = sstable.trim_end_matches("Data.db");
    path.to_string_lossy().starts_with(sstable)
}

const READING: [(DiskFailurePolicy, Verdict); 5] = [
    (DiskFailurePolicy::Stop, Verdict::StopClients),
    (DiskFailurePolicy::StopParanoid, Verdict::StopClients),
    (DiskFailurePolicy::BestEffort, Verdict::GoOn),
    (DiskFailurePolicy::Ignore, Verdict::GoOn),
    (DiskFailurePolicy::Die, Verdict::Die),
];

const WRITING: [(DiskFailurePolicy, Verdict); 5] = [
    (DiskFailurePolicy::Stop, Verdict::StopClients),
    (DiskFailurePolicy::StopParanoid, Verdict::StopClients),
    (DiskFailurePolicy::BestEffort, Verdict::StopClients),
    (DiskFailurePolicy::Ignore, Verdict::GoOn),
    (DiskFailurePolicy::Die, Verdict::Die),
];

const DAMAGE: [(DiskFailurePolicy, Verdict); 5] = [
    (DiskFailurePolicy::Stop, Verdict::GoOn),
    (DiskFailurePolicy::StopParanoid, Verdict::StopClients),
    (DiskFailurePolicy::BestEffort, Verdict::GoOn),
    (DiskFailurePolicy::Ignore, Verdict::GoOn),
    (DiskFailurePolicy::Die, Verdict::Die),
];

#[test]
fn a_compaction_that_cannot_read_asks_the_policy() {
    for (policy, verdict) in READING {
        let world = World::new(policy);
        run(&world, bad_sectors, async |_, world| {
            let compacted = world.store().compact(world.table.id).await;
            assert!(matches!(compacted, Err(CompactionError::Read(_))));
        });
        assert_eq!(world.verdict(), verdict, "{policy:?}");
    }
    for (policy, verdict) in DAMAGE {
        let world = World::new(policy);
        run(&world, rotten, async |_, world| {
            let compacted = world.store().compact(world.table.id).await;
            assert!(matches!(compacted, Err(CompactionError::Read(_))));
        });
        assert_eq!(world.verdict(), verdict, "{policy:?}");
    }
}

#[test]
fn what_cannot_be_written_asks_the_policy() {
    for (policy, verdict) in WRITING {
        let world = World::new(policy);
        run(&world, read_only, async |_, world| {
            let compacted = world.store().compact(world.table.id).await;
            assert!(compacted.is_err());
        });
        assert_eq!(world.verdict(), verdict, "a compaction, {policy:?}");
        // What is in memory has to be flushed now, and cannot.
        let world = World::new(policy);
        let (mut simulation, node) = node();
        let begun = world.clone();
        simulation.start(node, move |env| {
            let world = begun.clone();
            async move {
                world.open(&env).await;
                world.write(&env, 0).await.expect("it is written");
                world.stage(&env).await;
                assert!(world.store().flush(None).await.is_err());
                world.stage.set(9);
            }
        });
        let at = world.clone();
        assert!(simulation.run_until(LIMIT, |_| at.stage.get() == 1));
        read_only(&mut simulation, node, &world);
        assert!(simulation.run_until(LIMIT, |_| at.stage.get() == 9));
        assert_eq!(world.verdict(), verdict, "a flush, {policy:?}");
    }
}

#[test]
fn looking_at_all_there_is_asks_the_policy_of_damage_if_it_should() {
    for (policy, verdict) in DAMAGE {
        for by_policy in [false, true] {
            let world = World::new(policy);
            run(&world, rotten, async move |_, world| {
                let data = world.data.borrow()[0].clone();
                let verified = world
                    .store()
                    .verify(world.table.id, &data, verified_by(by_policy))
                    .await;
                assert!(verified.is_err());
                assert_eq!(world.suspects(), (1, 0));
            });
            let expected = if by_policy { verdict } else { Verdict::GoOn };
            assert_eq!(world.verdict(), expected, "{policy:?} {by_policy}");
        }
    }
    let world = World::new(DiskFailurePolicy::Stop);
    run(&world, bad_sectors, async |_, world| {
        let data = world.data.borrow()[0].clone();
        let verified = world
            .store()
            .verify(world.table.id, &data, verified_by(false))
            .await;
        assert!(verified.is_err());
    });
    assert_eq!(world.verdict(), Verdict::StopClients);
}

#[test]
fn an_import_asks_the_policy_if_the_files_are_in_the_data_folder() {
    for (policy, verdict) in READING {
        let world = World::new(policy);
        run(&world, bad_sectors, async |_, world| {
            let (store, table) = (world.store(), world.table.id);
            let found = store.find_sstables(table, None).await;
            let found = found.expect("they are found");
            let mut checked = Vec::new();
            for descriptor in &found {
                checked.push(store.check_import(table, descriptor, true).await.is_err());
            }
            checked.sort();
            assert_eq!(checked, [false, true]);
            assert!(store.open_arrivals(table, &found).await.is_err());
        });
        assert_eq!(world.verdict(), verdict, "{policy:?}");
    }
}

#[test]
fn what_cannot_be_read_is_compacted_no_more_and_others_are() {
    for fault in [bad_sectors, rotten] {
        let world = World::new(DiskFailurePolicy::Ignore);
        run(&world, fault, async |env, world| {
            let (store, table) = (world.store(), world.table.id);
            store.set_auto_compaction(table, true);
            env.sleep(Duration::from_secs(1)).await;
            assert_eq!(store.stats().failed_compactions, 1);
            assert_eq!(world.suspects(), (1, 0));
            // Two more can be compacted with each other and the sound one.
            for number in 2..4 {
                world.write(env, number).await.expect("it is written");
                store.flush(None).await.expect("it is flushed");
            }
            env.sleep(Duration::from_secs(1)).await;
            let damaged = world.data.borrow()[0].clone();
            let left = world.sstables();
            assert!(left.len() == 2 && left.contains(&damaged), "{left:?}");
            env.sleep(Duration::from_secs(600)).await;
            assert_eq!(store.stats().failed_compactions, 1, "it is left alone");
        });
    }
}

#[test]
fn best_effort_shows_what_is_left_and_forgets_nothing() {
    let world = World::new(DiskFailurePolicy::BestEffort);
    run(&world, bad_sectors, async |env, world| {
        let before = world.read(1).await.expect("it is readable");
        assert!(world.read(0).await.is_err(), "who meets it is told");
        assert_eq!(world.suspects(), (0, 1));
        assert_eq!(world.sstables(), world.data.borrow()[1..]);
        assert_eq!(
            world.read(0).await.expect("nothing is there"),
            Shown::default()
        );
        assert_eq!(world.read(1).await.expect("it is readable"), before);
        // Its name is known: an import from the table's own folder does not take it for a new one.
        let (_, known) = world.store().known_sstables(world.table.id);
        assert_eq!(known.len(), 2);
        world.write(env, 0).await.expect("writes go on");
        world.store().flush(None).await.expect("flushes go on");
        world
            .store()
            .compact(world.table.id)
            .await
            .expect("so do compactions");
    });
    assert_eq!(world.verdict(), Verdict::GoOn);
}

/// One life of the node: whether it shows something of keys 0 and 1; errors are `None`. The first
/// life fills the table.
fn live(
    simulation: &mut Simulation,
    node: SimNode,
    world: &Rc<World>,
    fault: impl Fn(&mut Simulation, SimNode, &World),
) -> [Option<bool>; 2] {
    let (begun, seen) = (world.clone(), Rc::new(Cell::new([None; 2])));
    let told = seen.clone();
    world.stage.set(0);
    simulation.start(node, move |env| {
        let (world, told) = (begun.clone(), told.clone());
        async move {
            let is_new = world.data.borrow().is_empty();
            match is_new {
                true => world.fill(&env).await,
                false => world.open(&env).await,
            }
            world.stage(&env).await;
            let shown = [world.read(0).await, world.read(1).await];
            told.set(shown.map(|shown| shown.ok().map(|shown| shown != Shown::default())));
            // The log would bring back what is in it.
            let drained = world.store().drain().await;
            drained.expect("it is drained");
            world.stage.set(9);
        }
    });
    assert!(simulation.run_until(LIMIT, |_| world.stage.get() == 1));
    fault(simulation, node, world);
    assert!(simulation.run_until(LIMIT, |_| world.stage.get() == 9));
    simulation.crash(node, Crash::Process);
    seen.get()
}

#[test]
fn what_best_effort_went_without_is_there_again_when_the_drive_gives_it() {
    let world = World::new(DiskFailurePolicy::BestEffort);
    let (mut simulation, node) = node();
    let first = live(&mut simulation, node, &world, bad_sectors);
    assert_eq!(first, [None, Some(true)], "who meets it is told");
    let second = live(&mut simulation, node, &world, |_, _, _| {});
    assert_eq!(second, [Some(false), Some(true)], "nor can it be opened");
    for (path, _) in simulation.files(node) {
        let healed = simulation.set_unreadable(node, &path, false);
        healed.expect("it is there");
    }
    let third = live(&mut simulation, node, &world, |_, _, _| {});
    assert_eq!(third, [Some(true), Some(true)]);
}

fn verified_by(by_policy: bool) -> storage::VerifyOptions {
    storage::VerifyOptions {
        by_policy,
        ..storage::VerifyOptions::default()
    }
}
