//! What all clients of the storage workload share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{DecoratedKey, Sharder, Table};

use super::operation::{self, Moment};
use super::oracle::Oracle;
use super::snapshots::Snapshot;
use super::tables;
use crate::Random;

/// How far apart writes of the same time may be timestamped, in microseconds.
const SPREAD: u64 = 1_000_000;
/// How many partition keys there are.
const KEYS: u64 = 40;

/// What all clients of a simulated node share, through all its restarts.
pub(crate) struct World {
    pub(crate) oracle: RefCell<Oracle>,
    tables: RefCell<Vec<Arc<Table>>>,
    /// How often tables were altered.
    alterations: Cell<u64>,
    locked: RefCell<BTreeSet<DecoratedKey>>,
    last_timestamp: Cell<i64>,
    disk_faults: Cell<bool>,
    full: Cell<bool>,
    refusals: Cell<u64>,
    log_goes_on: Cell<bool>,
    /// The snapshots there are.
    pub(crate) snapshots: RefCell<Vec<Rc<Snapshot>>>,
    /// How many there were.
    snapshot_count: Cell<u64>,
    /// How often somebody looked into one.
    snapshots_seen: Cell<u64>,
    /// What is wrong, if anything is.
    problem: RefCell<Option<String>>,
    /// How many more steps clients may make before the run ends.
    steps: Cell<u64>,
    node_failed: Cell<bool>,
    /// Reads that caches of rows answered.
    cached: Cell<u64>,
}

impl World {
    /// A world in which nothing was written yet.
    pub(crate) fn new(random: &mut Random) -> Rc<World> {
        Rc::new(World {
            oracle: RefCell::default(),
            tables: RefCell::new(tables::tables(random)),
            alterations: Cell::new(0),
            locked: RefCell::default(),
            last_timestamp: Cell::new(0),
            disk_faults: Cell::new(false),
            full: Cell::new(false),
            refusals: Cell::new(0),
            log_goes_on: Cell::new(false),
            snapshots: RefCell::default(),
            snapshot_count: Cell::new(0),
            snapshots_seen: Cell::new(0),
            problem: RefCell::default(),
            steps: Cell::new(0),
            node_failed: Cell::new(false),
            cached: Cell::new(0),
        })
    }

    /// The tables.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.borrow().clone()
    }

    /// Gives one of the tables another compaction strategy.
    pub(crate) fn alter(&self, random: &mut Random) {
        let mut tables = self.tables.borrow_mut();
        let at = random.below(tables.len() as u64) as usize;
        tables[at] = tables::altered(&tables[at], random);
        self.alterations.set(self.alterations.get() + 1);
    }

    /// How often tables were altered.
    pub(crate) fn alterations(&self) -> u64 {
        self.alterations.get()
    }

    /// A new run of the node begins, with so many steps to make.
    pub(crate) fn begin_run(&self, steps: u64, disk_faults: bool) {
        self.locked.borrow_mut().clear();
        self.steps.set(steps);
        self.disk_faults.set(disk_faults);
        self.full.set(false);
        self.node_failed.set(false);
    }

    /// Takes a step, if there is one left and nothing is wrong.
    pub(crate) fn goes_on(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0 && self.problem.borrow().is_none() && !self.node_failed.get()
    }

    /// Something is wrong; the first time counts.
    pub(crate) fn fail(&self, problem: String) {
        self.problem.borrow_mut().get_or_insert(problem);
    }

    /// What is wrong, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// May the disk fail?
    pub(crate) fn has_disk_faults(&self) -> bool {
        self.disk_faults.get()
    }

    /// The drive runs full in this run: what needs room may fail, and writes may be refused.
    pub(crate) fn drive_runs_full(&self) {
        self.full.set(true);
    }

    /// Does it?
    pub(crate) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// So many reads were answered by a cache of rows.
    pub(crate) fn count_cached(&self, reads: u64) {
        self.cached.set(self.cached.get() + reads);
    }

    /// How many were.
    pub(crate) fn cached(&self) -> u64 {
        self.cached.get()
    }

    /// A write was refused.
    pub(crate) fn refused(&self) {
        self.refusals.set(self.refusals.get() + 1);
    }

    /// How many writes were refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.get()
    }

    /// May what writes fail, be it for faults or for want of room?
    pub(crate) fn may_writing_fail(&self) -> bool {
        self.disk_faults.get() || self.full.get()
    }

    /// Does a commit log that failed go on in another segment, in this run?
    pub(crate) fn log_goes_on(&self, does: bool) {
        self.log_goes_on.set(does);
    }

    /// Does it?
    pub(crate) fn does_log_go_on(&self) -> bool {
        self.log_goes_on.get()
    }

    /// The node takes no more writes: it has to be started again.
    pub(crate) fn node_failed(&self) {
        self.node_failed.set(!self.log_goes_on.get());
    }

    /// Has it to be started again?
    pub(crate) fn is_node_failed(&self) -> bool {
        self.node_failed.get()
    }

    /// A key of this shard that nobody has for himself.
    pub(crate) fn pick_key(&self, env: &Env, random: &mut Random) -> Option<DecoratedKey> {
        let sharder = Sharder::new(env.shards());
        (0..8)
            .map(|_| operation::key(random.below(KEYS) as u32))
            .find(|key| {
                sharder.shard_of(key.token()) == env.shard().0
                    && !self.locked.borrow().contains(key)
            })
    }

    /// The keys of this shard that were ever written to.
    pub(crate) fn keys_of(&self, env: &Env) -> Vec<DecoratedKey> {
        let sharder = Sharder::new(env.shards());
        let mut keys = self.oracle.borrow().keys();
        keys.retain(|key| sharder.shard_of(key.token()) == env.shard().0);
        keys
    }

    /// A number that no snapshot has.
    pub(crate) fn next_snapshot(&self) -> u64 {
        self.snapshot_count.set(self.snapshot_count.get() + 1);
        self.snapshot_count.get()
    }

    /// Somebody looked into a snapshot.
    pub(crate) fn saw_snapshot(&self) {
        self.snapshots_seen.set(self.snapshots_seen.get() + 1);
    }

    /// How often somebody did.
    pub(crate) fn snapshots_seen(&self) -> u64 {
        self.snapshots_seen.get()
    }

    /// Takes one of the snapshots, if there is one.
    pub(crate) fn take_snapshot(&self, random: &mut Random) -> Option<Rc<Snapshot>> {
        let mut all = self.snapshots.borrow_mut();
        let count = all.len() as u64;
        (count > 0).then(|| all.swap_remove(random.below(count.max(1)) as usize))
    }

    /// May somebody have the key for himself, knowing what is written to it?
    pub(crate) fn may_lock(&self, key: &DecoratedKey) -> bool {
        let oracle = self.oracle.borrow();
        !self.locked.borrow().contains(key) && !oracle.is_undecided(key)
    }

    /// Has a key for oneself.
    pub(crate) fn lock(&self, key: &DecoratedKey) {
        self.locked.borrow_mut().insert(key.clone());
    }

    /// Gives it back.
    pub(crate) fn unlock(&self, key: &DecoratedKey) {
        self.locked.borrow_mut().remove(key);
    }

    /// A moment behind all before.
    pub(crate) fn next_moment(&self, env: &Env) -> Moment {
        let timestamp = env.wall_micros().max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(timestamp);
        Moment {
            timestamp,
            seconds: env.wall_seconds(),
        }
    }

    /// A moment behind all before and behind all that [`World::some_moment`] gave so far.
    pub(crate) fn far_moment(&self, env: &Env) -> Moment {
        let far = env.wall_micros() + 2 * SPREAD as i64;
        self.last_timestamp.set(self.last_timestamp.get().max(far));
        self.next_moment(env)
    }

    /// A moment not long ago or soon, sometimes the same as another one.
    pub(crate) fn some_moment(&self, env: &Env, random: &mut Random) -> Moment {
        let spread = if random.chance(20) { 3 } else { SPREAD };
        Moment {
            timestamp: env.wall_micros() + random.below(spread) as i64,
            seconds: env.wall_seconds(),
        }
    }
}
