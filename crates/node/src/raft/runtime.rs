//! The shard as openraft's runtime.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn, ready};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io::sim::{Crash, SimConfig, SimNode, Simulation};
use io::{Elapsed, Env, Sleep, TaskGroup};
use openraft::AsyncRuntime;

use super::current::{current, within};
use super::instant::Instant;
use super::join::{JoinError, JoinHandle};
use super::mpsc::ShardMpsc;
use super::mutex::Mutex;
use super::oneshot::ShardOneshot;
use super::random::ShardRandom;
use super::timeout::Timeout;
use super::watch::ShardWatch;

/// The seed of the simulations that [`ShardRuntime::new`] makes.
const SEED: u64 = 1;
/// How much virtual time [`ShardRuntime::block_on`] gives a future.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Openraft's runtime: the shard whose future is being polled, real or simulated.
///
/// Nobody needs a value of it but tests that ask openraft to run something by itself, as its own
/// test suites do. Such a value is a simulation of one node with one shard.
pub struct ShardRuntime {
    simulation: Simulation,
    node: SimNode,
    /// Its only shard.
    env: Env,
    /// The shard's main task.
    bell: Rc<Bell>,
}

impl Drop for ShardRuntime {
    /// Tasks hold their shard and the shard its tasks, until the node ends.
    fn drop(&mut self) {
        self.simulation.crash(self.node, Crash::Process);
    }
}

impl AsyncRuntime for ShardRuntime {
    type JoinError = JoinError;
    type JoinHandle<T: 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = Elapsed;
    type Timeout<R, F: Future<Output = R>> = Timeout<F>;
    type ThreadLocalRng = ShardRandom;
    type Mpsc = ShardMpsc;
    type Watch = ShardWatch;
    type Oneshot = ShardOneshot;
    type Mutex<T: 'static> = Mutex<T>;

    /// Clients wait for what Raft decides, so its tasks are in the foreground.
    fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let env = current();
        JoinHandle::new(env.spawn(TaskGroup::Foreground, within(&env, future)))
    }

    fn sleep(duration: Duration) -> Sleep {
        current().sleep(duration)
    }

    fn sleep_until(at: Instant) -> Sleep {
        current().sleep_until(at.0)
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Timeout<F> {
        Timeout::new(future, Self::sleep(duration))
    }

    fn timeout_at<R, F: Future<Output = R>>(at: Instant, future: F) -> Timeout<F> {
        Timeout::new(future, Self::sleep_until(at))
    }

    /// No task of openraft is cancelled, so nothing else makes one end without a result.
    fn is_panic(_error: &JoinError) -> bool {
        true
    }

    fn thread_rng() -> ShardRandom {
        ShardRandom::new(current())
    }

    /// Does the work at once. Openraft itself never asks for it, and the thread that the trait would
    /// start is nothing that a seed could repeat.
    fn spawn_blocking<F, T>(work: F) -> impl Future<Output = std::io::Result<T>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        ready(Ok(work()))
    }

    /// A simulated shard, for tests. It is one thread, whatever is asked for.
    fn new(_threads: usize) -> ShardRuntime {
        let mut simulation = Simulation::new(SEED, SimConfig::default());
        let disk_capacity = SimConfig::default().disk_capacity;
        let node = simulation.add_node(Ipv4Addr::LOCALHOST.into(), 1, disk_capacity);
        let (started, bell) = (RefCell::new(None), Rc::new(Bell::default()));
        simulation.start(node, |env| {
            started.replace(Some(env));
            bell.clone().hang()
        });
        let hangs = simulation.run_until(PATIENCE, |_| bell.rung.take());
        assert!(hangs, "a node that was started runs");
        let env = started.take().expect("a node that was started has a shard");
        ShardRuntime {
            simulation,
            node,
            env,
            bell,
        }
    }

    /// Lets the simulation run until the future is done.
    ///
    /// # Panics
    /// If it is not after a day of virtual time.
    fn block_on<F: Future<Output = T>, T>(&mut self, future: F) -> T {
        let mut future = within(&self.env, future);
        let waker = self.bell.waker.borrow().clone();
        let context = &mut Context::from_waker(&waker);
        loop {
            if let Poll::Ready(value) = Pin::new(&mut future).poll(context) {
                return value;
            }
            let bell = &self.bell.rung;
            let woken = self.simulation.run_until(PATIENCE, |_| bell.take());
            assert!(woken, "what is waited for does not come");
        }
    }
}

impl std::fmt::Debug for ShardRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardRuntime({:?})", self.env)
    }
}

/// A task of the simulation that tells what is outside of it when something in it wakes that.
struct Bell {
    /// Was the task run?
    rung: Cell<bool>,
    /// Wakes the task.
    waker: RefCell<Waker>,
}

impl Bell {
    /// The task.
    async fn hang(self: Rc<Bell>) {
        poll_fn(|context| {
            self.waker.borrow_mut().clone_from(context.waker());
            self.rung.set(true);
            Poll::Pending
        })
        .await
    }
}

impl Default for Bell {
    fn default() -> Bell {
        Bell {
            rung: Cell::new(false),
            waker: RefCell::new(Waker::noop().clone()),
        }
    }
}
