//! The one handle through which the house touches the world.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_task::Runnable;

use crate::doorbell::Doorbell;
use crate::drive::Drive;
use crate::executor::{Executor, YieldNow};
use crate::group::{GroupStats, TaskGroup};
use crate::instant::Instant;
use crate::random::Random;
use crate::runtime::RealShard;
use crate::sim::SimShard;
use crate::task::Task;
use crate::timer::{TimerKey, Timers};

/// How long a task may run before [`Env::maybe_yield`] gives way.
pub const TIME_SLICE: Duration = Duration::from_micros(500);

/// How many operations on sockets a task may do without waiting before it has to give way.
const SOCKET_OPERATIONS: u32 = 128;

/// The index of a shard within its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex(pub u16);

/// A shard's clock, tasks, disk and network, real or simulated. Cheap to clone; it stays on its
/// shard.
#[derive(Clone)]
pub struct Env {
    pub(crate) inner: Rc<EnvInner>,
}

pub(crate) struct EnvInner {
    shard: ShardIndex,
    shards: u16,
    pub(crate) executor: Executor,
    pub(crate) timers: RefCell<Timers>,
    polled: RefCell<Vec<Weak<dyn Polled>>>,
    random: RefCell<Random>,
    pub(crate) doorbell: Arc<Doorbell>,
    /// One for all shards of the process.
    pub(crate) drive: Arc<Drive>,
    /// Can what this shard flushes not wait?
    pub(crate) hurries: Cell<bool>,
    /// Bells to ring at the end of this turn.
    to_ring: RefCell<Vec<Arc<Doorbell>>>,
    pub(crate) slice: Slice,
    pub(crate) backend: Backend,
}

/// What is left of the running task's turn.
pub(crate) struct Slice {
    began: Cell<Instant>,
    /// How long the task that runs may go on.
    pub(crate) length: Cell<Duration>,
    operations: Cell<u32>,
}

/// Where the shard lives.
pub(crate) enum Backend {
    Real(RealShard),
    Sim(SimShard),
}

/// Something that is looked at every turn, because nobody wakes a shard that is awake.
pub(crate) trait Polled {
    /// Wakes whoever waits for what has come. Says whether anything had.
    fn poll_now(&self) -> bool;

    /// Has anything come?
    fn is_ready(&self) -> bool;

    /// Must this be looked at again soon even if no bell rings?
    fn is_impatient(&self) -> bool;
}

/// What is needed to make an [`Env`].
pub(crate) struct EnvParts {
    pub(crate) shard: u16,
    pub(crate) shards: u16,
    pub(crate) seed: u64,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) drive: Arc<Drive>,
    pub(crate) backend: Backend,
}

impl Env {
    pub(crate) fn new(parts: EnvParts) -> Env {
        Env {
            inner: Rc::new(EnvInner {
                shard: ShardIndex(parts.shard),
                shards: parts.shards,
                executor: Executor::new(parts.doorbell.clone()),
                timers: RefCell::default(),
                polled: RefCell::default(),
                random: RefCell::new(Random::new(parts.seed)),
                doorbell: parts.doorbell,
                drive: parts.drive,
                hurries: Cell::new(false),
                to_ring: RefCell::default(),
                slice: Slice {
                    began: Cell::new(Instant::from_nanos(0)),
                    length: Cell::new(TIME_SLICE),
                    operations: Cell::new(SOCKET_OPERATIONS),
                },
                backend: parts.backend,
            }),
        }
    }

    /// The time of the shard's monotonic clock. Shards of a node share the clock.
    pub fn now(&self) -> Instant {
        match &self.inner.backend {
            Backend::Real(real) => real.clock.now(),
            Backend::Sim(sim) => sim.now(),
        }
    }

    /// The wall clock: microseconds since the beginning of 1970, UTC. It may jump, also back.
    pub fn wall_micros(&self) -> i64 {
        match &self.inner.backend {
            Backend::Real(real) => real.clock.wall_micros(),
            Backend::Sim(sim) => sim.wall_micros(),
        }
    }

    /// The same in seconds, by which cells expire: 0 before 1970, and from 2106 on, where 32 bits end.
    pub fn wall_seconds(&self) -> u32 {
        u32::try_from(self.wall_micros() / 1_000_000).unwrap_or(0)
    }

    /// A random number, any of 64 bits. Not for secrets.
    pub fn random_u64(&self) -> u64 {
        self.inner.random.borrow_mut().next_u64()
    }

    /// Which shard this is.
    pub fn shard(&self) -> ShardIndex {
        self.inner.shard
    }

    /// How many shards the node has.
    pub fn shards(&self) -> u16 {
        self.inner.shards
    }

    /// Runs `future` as a task of its own. Dropping the handle lets the task go on alone.
    pub fn spawn<T: 'static>(
        &self,
        group: TaskGroup,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        self.inner.executor.spawn(group, future)
    }

    /// Runs `future` as a task of the foreground that has its turns when each of the shard's ends, however much else is ready
    /// then: for what gathers what others make, as the answers of a connection. Behind the others in their queue it would
    /// wait for what they do next, and who waits for the answers with it.
    pub fn spawn_last<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        self.inner.executor.spawn_last(future)
    }

    /// What the groups of tasks have done since the shard started.
    pub fn group_stats(&self) -> Vec<GroupStats> {
        self.inner.executor.stats()
    }

    /// Gives a group another part of the shard's time and of the drive, relative to those of the others
    /// ([`TaskGroup::shares`] is what it has at first).
    pub fn set_shares(&self, group: TaskGroup, shares: u64) {
        self.inner.executor.set_shares(group, shares);
    }

    /// From now on what this shard writes in [`TaskGroup::Flush`] can wait no more for the sake of the
    /// foreground, which waits for it; or it can again.
    pub fn set_hurry(&self, hurries: bool) {
        self.inner.hurries.set(hurries);
    }

    /// How many bytes that flushes, compactions and maintenance read and write may be on their way to
    /// and from the drive at once, for all shards together: little where the foreground has to wait.
    pub fn background_window(&self) -> u64 {
        self.inner.drive.limit()
    }

    /// How many tasks of this shard have panicked.
    pub fn task_panics(&self) -> u64 {
        self.inner.executor.panics()
    }

    /// Sleeps this long.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Sleeps until then.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep {
            env: self.clone(),
            at,
            timer: None,
        }
    }

    /// Awaits `future`, but no longer than this. When the time is up the future is dropped.
    pub fn timeout<F: Future>(&self, duration: Duration, future: F) -> Timeout<'_, F> {
        Timeout {
            env: self,
            future: Some(future),
            duration,
            sleep: None,
        }
    }

    /// Gives way to the other tasks that are ready.
    pub async fn yield_now(&self) {
        YieldNow { yielded: false }.await;
    }

    /// Gives way if the task has used up its time slice ([`TIME_SLICE`], a tenth in the background). Loops over many rows call
    /// it for every one.
    pub async fn maybe_yield(&self) {
        if self.slice_is_used_up() {
            self.yield_now().await;
        }
    }

    fn slice_is_used_up(&self) -> bool {
        match &self.inner.backend {
            Backend::Real(real) => {
                real.clock.now() - self.inner.slice.began.get() > self.inner.slice.length.get()
            }
            Backend::Sim(sim) => sim.slice_is_over(),
        }
    }

    /// Counts an operation that did not have to wait; pending when the task has done so many that
    /// the others must have their turn first.
    pub(crate) fn poll_operation(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.inner.slice.operations.get().checked_sub(1) {
            Some(left) => {
                self.inner.slice.operations.set(left);
                Poll::Ready(())
            }
            None => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Runs the task whose turn it is, if there is one. `now` is the time; returns the time after.
    pub(crate) fn run_task(
        &self,
        now: Instant,
        after: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        let (group, task) = self.inner.executor.next()?;
        Some(self.run(group, task, now, after))
    }

    /// Runs the next task that is to run at the end of this turn, as [`Env::run_task`].
    pub(crate) fn run_last_task(
        &self,
        now: Instant,
        after: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        let (group, task) = self.inner.executor.next_last()?;
        Some(self.run(group, task, now, after))
    }

    fn run(
        &self,
        group: TaskGroup,
        task: Runnable,
        now: Instant,
        after: impl FnOnce() -> Instant,
    ) -> Instant {
        self.inner.slice.began.set(now);
        self.inner.slice.length.set(group.time_slice());
        self.inner.slice.operations.set(SOCKET_OPERATIONS);
        self.inner.executor.run(group, task);
        let end = after();
        let nanos = end.as_nanos().saturating_sub(now.as_nanos());
        self.inner.executor.charge(group, nanos);
        end
    }

    /// Wakes the tasks whose time has come.
    pub(crate) fn fire_timers(&self, now: Instant) {
        loop {
            let due = self.inner.timers.borrow_mut().pop_due(now);
            match due {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.inner.timers.borrow().next()
    }

    pub(crate) fn add_polled(&self, polled: Weak<dyn Polled>) {
        let mut list = self.inner.polled.borrow_mut();
        list.retain(|polled| polled.strong_count() > 0);
        list.push(polled);
    }

    /// Looks at everything that must be looked at; says whether anything had come.
    pub(crate) fn poll_all(&self) -> bool {
        let mut any = false;
        for polled in &*self.inner.polled.borrow() {
            if let Some(polled) = polled.upgrade() {
                any |= polled.poll_now();
            }
        }
        any
    }

    pub(crate) fn anything_polled_is(&self, what: impl Fn(&dyn Polled) -> bool) -> bool {
        let list = self.inner.polled.borrow();
        list.iter()
            .any(|polled| polled.upgrade().is_some_and(|polled| what(&*polled)))
    }

    /// Rings the bell at the end of this turn.
    pub(crate) fn ring_later(&self, bell: &Arc<Doorbell>) {
        let mut bells = self.inner.to_ring.borrow_mut();
        if !bells.iter().any(|b| Arc::ptr_eq(b, bell)) {
            bells.push(bell.clone());
        }
    }

    /// Rings the bells of the shards that were sent something.
    pub(crate) fn ring_bells(&self) {
        let mut bells = self.inner.to_ring.borrow_mut();
        for bell in bells.drain(..) {
            bell.ring();
        }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env(shard {} of {})", self.shard().0, self.shards())
    }
}

/// What [`Env::timeout`] gives. Not an `async fn`, whose state would hold the future twice: it is in
/// the state of every request.
#[must_use = "nothing happens until this is awaited"]
pub struct Timeout<'e, F> {
    env: &'e Env,
    /// There until it is done or the time is up. Pinned as `self` is.
    future: Option<F>,
    duration: Duration,
    /// Set once the future has to wait.
    sleep: Option<Sleep>,
}

impl<F: Future> Future for Timeout<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is moved out of nowhere: it is polled where it is, through this pin, and
        // dropped in place. The other fields are not pinned, and `Timeout` has no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        let Some(polled) = future.as_mut().as_pin_mut() else {
            return Poll::Ready(Err(Elapsed));
        };
        if let Poll::Ready(value) = polled.poll(context) {
            return Poll::Ready(Ok(value));
        }
        let sleep = this
            .sleep
            .get_or_insert_with(|| this.env.sleep(this.duration));
        std::task::ready!(Pin::new(sleep).poll(context));
        future.set(None);
        Poll::Ready(Err(Elapsed))
    }
}

/// The time given to [`Env::timeout`] was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it took too long")]
pub struct Elapsed;

/// Waits until a point in time.
#[must_use = "nothing sleeps until this is awaited"]
pub struct Sleep {
    env: Env,
    at: Instant,
    timer: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.env.now() >= self.at {
            return Poll::Ready(());
        }
        let key = {
            let mut timers = self.env.inner.timers.borrow_mut();
            match self.timer {
                Some(key) => {
                    timers.update(key, context.waker());
                    key
                }
                None => timers.set(self.at, context.waker().clone()),
            }
        };
        self.timer = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            let waker = self.env.inner.timers.borrow_mut().cancel(key);
            drop(waker);
        }
    }
}
