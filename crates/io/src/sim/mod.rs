//! A simulated world: nodes with their shards, drives and a network, under virtual time, on one
//! thread. The same seed gives the same run, down to the [`Simulation::trace_hash`].
//!
//! One task runs at a time, of a shard that chance chooses among those that have one ready; it
//! takes a moment of virtual time. When no task is ready anywhere, time jumps to the next timer or
//! the next thing to happen on the network.

mod disk;
mod network;
mod shard;
mod trace;

use std::cell::RefCell;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::doorbell::Doorbell;
use crate::drive::Drive;
use crate::env::{Backend, Env, EnvParts};
use crate::group::TaskGroup;
use crate::instant::Instant;
use crate::random::Random;
use crate::task::Task;

pub use disk::DiskFaults;
pub use network::LinkConfig;

pub(crate) use network::EndId;
use network::Network;
use shard::World;
pub(crate) use shard::{
    SharedWorld, SimAttempt, SimEnd, SimFile, SimListener, SimLock, SimShard, on_disk,
};

/// How long a sender waits for a node that does not answer.
const GIVE_UP: Duration = Duration::from_secs(20);
/// How long a task's turn takes, in nanoseconds: up to.
const TURN: u64 = 20_000;

/// What a simulation is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimConfig {
    /// How nodes reach each other, where nothing else is said.
    pub link: LinkConfig,
    /// Bytes that the files of each node may take.
    pub disk_capacity: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            link: LinkConfig::HEALTHY,
            disk_capacity: 1 << 40,
        }
    }
}

/// A node of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimNode(usize);

/// How a node's processes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: what it wrote is in the kernel and will be on the drive.
    Process,
    /// The power fails: what was not synced may be lost, torn or whole.
    Power,
}

struct Shards {
    count: u16,
    /// Each with its main task until that has ended.
    running: Vec<(Env, Option<Task<()>>)>,
}

/// A world that runs as its seed says.
pub struct Simulation {
    world: SharedWorld,
    nodes: Vec<Shards>,
    random: Random,
}

impl Simulation {
    /// A world without nodes.
    pub fn new(seed: u64, config: SimConfig) -> Simulation {
        let mut random = Random::new(seed);
        let network = Network::new(random.split(), config.link, GIVE_UP);
        let mut world = World::new(random.split(), network);
        world.trace.number(seed);
        Simulation {
            world: Rc::new(RefCell::new(world)),
            nodes: Vec::new(),
            random,
        }
    }

    /// One more node, without power yet.
    pub fn add_node(&mut self, address: IpAddr, shards: u16, disk_capacity: u64) -> SimNode {
        assert!(shards > 0, "a node has a shard");
        let world = &mut *self.world.borrow_mut();
        world.network.add_station(address);
        world.disks.push(disk::Disk::new(disk_capacity));
        world.clocks.push(0);
        self.nodes.push(Shards {
            count: shards,
            running: Vec::new(),
        });
        SimNode(self.nodes.len() - 1)
    }

    /// From its next start on, a node has so many shards.
    ///
    /// # Panics
    /// If it runs.
    pub fn set_shards(&mut self, node: SimNode, shards: u16) {
        assert!(shards > 0, "a node has a shard");
        let node = &mut self.nodes[node.0];
        assert!(node.running.is_empty(), "the node runs");
        node.count = shards;
    }

    /// Starts a node: each shard runs the future that `main` makes of its [`Env`].
    ///
    /// # Panics
    /// If it runs already, or the system gives no event descriptors.
    pub fn start<F>(&mut self, node: SimNode, main: impl Fn(Env) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let shards = &mut self.nodes[node.0];
        assert!(shards.running.is_empty(), "the node runs already");
        self.world.borrow_mut().network.start(node.0);
        let drive = Arc::new(Drive::default());
        for shard in 0..shards.count {
            let env = Env::new(EnvParts {
                shard,
                shards: shards.count,
                seed: self.random.next_u64(),
                doorbell: Arc::new(Doorbell::real().expect("an event descriptor")),
                drive: drive.clone(),
                backend: Backend::Sim(SimShard {
                    world: self.world.clone(),
                    node: node.0,
                }),
            });
            let main = env.spawn(TaskGroup::Foreground, main(env.clone()));
            shards.running.push((env, Some(main)));
        }
    }

    /// Have all shards of the node come to the end of their main future?
    pub fn has_ended(&self, node: SimNode) -> bool {
        let running = &self.nodes[node.0].running;
        running.iter().all(|(_, main)| main.is_none())
    }

    /// Ends a node's processes now, wherever they are. It can be started again.
    pub fn crash(&mut self, node: SimNode, how: Crash) {
        {
            let world = &mut *self.world.borrow_mut();
            let power = how == Crash::Process;
            world.network.stop(node.0, power, world.now);
        }
        // Dropping tasks closes files, which borrows the world.
        for (env, main) in self.nodes[node.0].running.drain(..) {
            env.inner.executor.close();
            drop(main);
        }
        let world = &mut *self.world.borrow_mut();
        let disk = &mut world.disks[node.0];
        disk.process_ends();
        if how == Crash::Power {
            disk.power_fails(&mut world.random);
        }
        world.trace.number(node.0 as u64);
    }

    /// Runs until `done` says so, or this much time is over. Did it say so?
    ///
    /// # Panics
    /// If a main future panicked, with its panic.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Simulation) -> bool,
    ) -> bool {
        let deadline = self.now() + limit;
        loop {
            self.reap();
            if done(self) {
                return true;
            }
            if self.now() >= deadline {
                return false;
            }
            if !self.step() && !self.jump(deadline) {
                self.world.borrow_mut().now = deadline;
            }
        }
    }

    /// Runs for this long.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until all shards of a node have ended, or this much time is over. Have they?
    pub fn run_to_end(&mut self, node: SimNode, limit: Duration) -> bool {
        self.run_until(limit, |simulation| simulation.has_ended(node))
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.world.borrow().now
    }

    /// A fingerprint of all that has happened: equal for runs that were equal.
    pub fn trace_hash(&self) -> u64 {
        let world = self.world.borrow();
        let mut trace = world.trace;
        trace.number(world.network.trace.hash());
        trace.hash()
    }

    /// From now on a node's drive fails like this.
    pub fn set_disk_faults(&mut self, node: SimNode, faults: DiskFaults) {
        self.world.borrow_mut().disks[node.0].faults = faults;
    }

    /// From now on a node's clock is so many microseconds ahead of the true time, or behind it.
    pub fn set_clock(&mut self, node: SimNode, ahead: i64) {
        self.world.borrow_mut().clocks[node.0] = ahead;
    }

    /// From now on a node's files may take so many bytes.
    pub fn set_disk_capacity(&mut self, node: SimNode, bytes: u64) {
        self.world.borrow_mut().disks[node.0].capacity = bytes;
    }

    /// The files of a node, with their lengths in bytes, by their paths.
    pub fn files(&self, node: SimNode) -> Vec<(PathBuf, u64)> {
        self.world.borrow().disks[node.0].files()
    }

    /// All names that a file of a node has, this one among them.
    pub fn links(&self, node: SimNode, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        self.world.borrow().disks[node.0].links(path)
    }

    /// Flips a bit of a file.
    pub fn flip_bit(
        &mut self,
        node: SimNode,
        path: &Path,
        offset: u64,
        bit: u32,
    ) -> std::io::Result<()> {
        self.world.borrow_mut().disks[node.0].flip_bit(path, offset, bit)
    }

    /// From now on every read of a file fails, as where its sectors are bad, or no more.
    pub fn set_unreadable(
        &mut self,
        node: SimNode,
        path: &Path,
        unreadable: bool,
    ) -> std::io::Result<()> {
        self.world.borrow_mut().disks[node.0].set_unreadable(path, unreadable)
    }

    /// From now on packets from one node to another fare like this.
    pub fn set_link(&mut self, from: SimNode, to: SimNode, link: LinkConfig) {
        self.world.borrow_mut().network.set_link(from.0, to.0, link);
    }

    /// From now on packets between all nodes fare like this, where nothing else is said.
    pub fn set_links(&mut self, link: LinkConfig) {
        self.world.borrow_mut().network.set_default_link(link);
    }

    /// Nothing gets from one node to another any more.
    pub fn block(&mut self, from: SimNode, to: SimNode) {
        self.world.borrow_mut().network.block(from.0, to.0);
    }

    /// Everything gets through again.
    pub fn heal(&mut self) {
        self.world.borrow_mut().network.heal();
    }

    /// Resets all connections between two nodes.
    pub fn reset_between(&mut self, a: SimNode, b: SimNode) {
        self.world.borrow_mut().network.reset_between(a.0, b.0);
    }

    fn envs(&self) -> impl Iterator<Item = &Env> {
        let shards = self.nodes.iter().flat_map(|node| &node.running);
        shards.map(|(env, _)| env)
    }

    /// Runs one task, if one is ready anywhere.
    fn step(&mut self) -> bool {
        self.world.borrow_mut().happen();
        let now = self.now();
        let mut ready = Vec::new();
        for (at, env) in self.envs().enumerate() {
            env.fire_timers(now);
            env.inner.executor.empty_inbox();
            env.poll_all();
            if env.inner.executor.has_work() {
                ready.push(at);
            }
        }
        if ready.is_empty() {
            return false;
        }
        let chosen = ready[self.random.below(ready.len() as u64) as usize];
        let turn = Duration::from_nanos(1 + self.random.below(TURN));
        let Some(env) = self.envs().nth(chosen) else {
            return false;
        };
        // Where a turn ends is anybody's guess.
        let ended = match turn.as_nanos().is_multiple_of(2) {
            true => env.run_last_task(now, || now + turn),
            false => None,
        };
        ended
            .or_else(|| env.run_task(now, || now + turn))
            .or_else(|| env.run_last_task(now, || now + turn));
        env.ring_bells();
        let world = &mut *self.world.borrow_mut();
        world.now = now + turn;
        world.trace.number(chosen as u64);
        world.trace.number(world.now.as_nanos());
        true
    }

    /// Jumps to the next thing that happens, if that is before the deadline.
    fn jump(&mut self, deadline: Instant) -> bool {
        let timers = self.envs().filter_map(Env::next_timer).min();
        let event = self.world.borrow_mut().next_event();
        let next = timers.into_iter().chain(event).min();
        let Some(next) = next.filter(|next| *next < deadline) else {
            return false;
        };
        let world = &mut *self.world.borrow_mut();
        world.now = world.now.max(next);
        true
    }

    /// Ends the shards whose main task has ended, dropping what tasks are left. Looking at a main
    /// task that panicked panics.
    fn reap(&mut self) {
        let context = &mut Context::from_waker(Waker::noop());
        for (env, main) in self.nodes.iter_mut().flat_map(|node| &mut node.running) {
            if main.as_ref().is_some_and(Task::is_finished)
                && let Some(mut task) = main.take()
            {
                let _ = Pin::new(&mut task).poll(context);
                env.inner.executor.close();
            }
        }
    }
}
