//! A simulated shard's side of [`Env`]: what it shares with the world.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::drive::Way;
use crate::env::{Backend, Env};
use crate::file::OpenOptions;
use crate::instant::Instant;
use crate::random::Random;

use super::disk::{Disk, DiskFaults, InodeId};
use super::network::{EndId, Network, NetworkEvent};
use super::trace::Trace;

/// Seconds since 1970 when a simulation begins: 2026-01-01.
const WALL_SECONDS: i64 = 1_767_225_600;

/// How long an operation on a drive takes, in nanoseconds: from, and up to.
const OPERATION: std::ops::Range<u64> = 5_000..80_000;
/// How long a sync takes, in nanoseconds.
const SYNC: std::ops::Range<u64> = 50_000..1_000_000;

/// All that there is besides the tasks.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) random: Random,
    pub(crate) disks: Vec<Disk>,
    /// How far each node's clock is ahead of the true time, in microseconds.
    pub(crate) clocks: Vec<i64>,
    pub(crate) network: Network,
    /// What will happen on the network, in order.
    events: BTreeMap<(Instant, u64), NetworkEvent>,
    sequence: u64,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(random: Random, network: Network) -> World {
        World {
            now: Instant::from_nanos(0),
            random,
            disks: Vec::new(),
            clocks: Vec::new(),
            network,
            events: BTreeMap::new(),
            sequence: 0,
            trace: Trace::default(),
        }
    }

    /// Takes in what the network wants to happen later.
    fn collect_events(&mut self) {
        for (at, event) in std::mem::take(&mut self.network.events) {
            self.sequence += 1;
            self.events.insert((at, self.sequence), event);
        }
    }

    /// When something happens next on the network.
    pub(crate) fn next_event(&mut self) -> Option<Instant> {
        self.collect_events();
        self.events.keys().next().map(|(at, _)| *at)
    }

    /// Lets happen what is due.
    pub(crate) fn happen(&mut self) {
        while self.next_event().is_some_and(|at| at <= self.now) {
            if let Some(((at, _), event)) = self.events.pop_first() {
                self.trace.number(at.as_nanos());
                self.network.happens(event, self.now);
            }
        }
    }
}

/// The world, as all shards of a simulation share it.
pub(crate) type SharedWorld = Rc<RefCell<World>>;

/// A simulated shard's part of [`Env`].
pub(crate) struct SimShard {
    pub(crate) world: SharedWorld,
    pub(crate) node: usize,
}

impl SimShard {
    pub(crate) fn now(&self) -> Instant {
        self.world.borrow().now
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        let world = self.world.borrow();
        let true_micros = WALL_SECONDS * 1_000_000 + (world.now.as_nanos() / 1_000) as i64;
        true_micros + world.clocks[self.node]
    }

    /// Time stands still while a task runs, so chance decides when its slice is over.
    pub(crate) fn slice_is_over(&self) -> bool {
        self.world.borrow_mut().random.chance(0.05)
    }

    fn duration(&self, range: std::ops::Range<u64>) -> Duration {
        let world = &mut *self.world.borrow_mut();
        let nanos = range.start + world.random.below(range.end - range.start);
        let slow = world.random.chance(world.disks[self.node].faults.slow);
        Duration::from_nanos(nanos) * if slow { DiskFaults::SLOW } else { 1 }
    }

    fn with_disk<T>(
        &self,
        act: impl FnOnce(&mut Disk, &mut Random) -> io::Result<T>,
    ) -> io::Result<T> {
        let now_micros = self.wall_micros();
        let world = &mut *self.world.borrow_mut();
        world.disks[self.node].now_micros = now_micros;
        let result = act(&mut world.disks[self.node], &mut world.random);
        world.trace.number(u64::from(result.is_ok()));
        result
    }
}

/// Does something with the drive. It happens now and is told later, or the other way round: a crash
/// in between shows the difference.
pub(crate) async fn on_disk<T>(
    env: &Env,
    sim: &SimShard,
    act: impl FnOnce(&mut Disk, &mut Random) -> io::Result<T>,
) -> io::Result<T> {
    let duration = sim.duration(OPERATION);
    let first = sim.world.borrow_mut().random.chance(0.5);
    if first {
        let result = sim.with_disk(act);
        env.sleep(duration).await;
        return result;
    }
    env.sleep(duration).await;
    sim.with_disk(act)
}

/// An open file of a simulated drive. Closed when dropped.
pub(crate) struct SimFile {
    env: Env,
    inode: InodeId,
    direct: bool,
    readable: bool,
    writable: bool,
}

/// The simulated shard of `env`.
fn sim(env: &Env) -> &SimShard {
    match &env.inner.backend {
        Backend::Sim(sim) => sim,
        Backend::Real(_) => unreachable!("a simulated file is of a simulated shard"),
    }
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

impl SimFile {
    pub(crate) async fn open(env: &Env, path: &Path, options: OpenOptions) -> io::Result<SimFile> {
        let path: PathBuf = path.to_owned();
        let open = |disk: &mut Disk, _: &mut Random| disk.open(&path, options);
        let inode = on_disk(env, sim(env), open).await?;
        Ok(SimFile {
            env: env.clone(),
            inode,
            direct: options.direct,
            readable: options.read,
            writable: options.write,
        })
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    async fn act<T>(
        &self,
        act: impl FnOnce(&mut Disk, &mut Random) -> io::Result<T>,
    ) -> io::Result<T> {
        on_disk(&self.env, sim(&self.env), act).await
    }

    pub(crate) async fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        if !self.readable {
            return Err(refused());
        }
        let _passage = match self.direct {
            true => Some(self.env.pass_whole(Way::Read, len).await),
            false => None,
        };
        let inode = self.inode;
        self.act(|disk, random| disk.read(inode, offset, len as u64, random))
            .await
    }

    /// Writes; with `synced` it is done when the drive has it.
    pub(crate) async fn write(&self, bytes: &[u8], offset: u64, synced: bool) -> io::Result<()> {
        if !self.writable {
            return Err(refused());
        }
        let _passage = match self.direct || synced {
            true => Some(self.env.pass_whole(Way::Write, bytes.len()).await),
            false => None,
        };
        let inode = self.inode;
        self.act(|disk, random| disk.write(inode, offset, bytes, random))
            .await?;
        match synced {
            true => self.sync().await,
            false => Ok(()),
        }
    }

    pub(crate) async fn sync(&self) -> io::Result<()> {
        let shard = sim(&self.env);
        let under_way = shard.with_disk(|disk, _| disk.begin_sync(self.inode))?;
        self.env.sleep(shard.duration(SYNC)).await;
        shard.with_disk(|disk, random| disk.end_sync(under_way, random))
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        sim(&self.env).with_disk(|disk, _| disk.len(self.inode))
    }

    pub(crate) async fn set_len(&self, len: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let inode = self.inode;
        self.act(|disk, _| disk.set_len(inode, len)).await
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        let inode = self.inode;
        self.act(|disk, _| disk.allocate(inode, len)).await
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let shard = sim(&self.env);
        shard.world.borrow_mut().disks[shard.node].close(self.inode);
    }
}

/// A lock on a file of a simulated drive.
pub(crate) struct SimLock {
    world: SharedWorld,
    node: usize,
    path: PathBuf,
}

impl SimLock {
    pub(crate) fn new(shard: &SimShard, path: &Path) -> SimLock {
        SimLock {
            world: shard.world.clone(),
            node: shard.node,
            path: path.to_owned(),
        }
    }
}

impl std::fmt::Debug for SimLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimLock({})", self.path.display())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.world.borrow_mut().disks[self.node].unlock(&self.path);
    }
}

/// One end of a simulated connection. Closed when dropped, unless it went to another shard.
pub(crate) struct SimEnd {
    pub(crate) world: SharedWorld,
    pub(crate) id: EndId,
    pub(crate) keep: bool,
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        if !self.keep {
            let world = &mut *self.world.borrow_mut();
            world.network.close(self.id, world.now);
        }
    }
}

/// A simulated listener. Closed when dropped.
pub(crate) struct SimListener {
    pub(crate) world: SharedWorld,
    pub(crate) id: u64,
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let world = &mut *self.world.borrow_mut();
        world.network.close_listener(self.id, world.now);
    }
}

/// An attempt to connect. Given up when dropped.
pub(crate) struct SimAttempt {
    pub(crate) world: SharedWorld,
    pub(crate) id: u64,
}

impl Drop for SimAttempt {
    fn drop(&mut self) {
        let world = &mut *self.world.borrow_mut();
        world.network.abandon_connect(self.id, world.now);
    }
}
