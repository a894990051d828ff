//! The shards of a process: one thread each, one loop each.
//!
//! A turn of the loop looks at what other threads left (inbox, mesh), runs tasks until none is
//! ready or the turn's time is up, then those that gather what the others made, rings the bells of
//! the shards it sent something, fires timers, and goes to the kernel once: to submit and reap, and
//! to sleep there if nothing is left to do.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::doorbell::Doorbell;
use crate::drive::Drive;
use crate::driver::pool::Pool;
use crate::driver::{Driver, DriverChoice, DriverReport};
use crate::env::{Backend, Env, EnvParts};
use crate::group::TaskGroup;
use crate::instant::Instant;
use crate::mesh::IMPATIENCE;
use crate::random::mix;
use crate::scheduling;
use crate::task::Task;

/// How many tasks run before the loop looks at the kernel again, however short they are.
const TASKS_PER_TURN: u32 = 256;
/// Bytes of a shard's stack. What a client may nest (terms, types, operators) is walked through by
/// recursion: the deepest of it takes a third of this even where nothing is optimized. Pages that are
/// never touched take no memory.
const STACK: usize = 16 << 20;

/// What [`Runtime::start`] needs to know.
#[derive(Clone, Debug)]
pub struct RuntimeConfig {
    /// How many shards, and so threads, to start. At least one.
    pub shards: u16,
    /// The driver.
    pub driver: DriverChoice,
    /// The CPU that each shard is pinned to. If there are fewer than shards, the rest floats.
    pub cpus: Vec<usize>,
    /// What the names of the threads begin with.
    pub name: String,
}

impl Default for RuntimeConfig {
    fn default() -> RuntimeConfig {
        RuntimeConfig {
            shards: 1,
            driver: DriverChoice::Auto,
            cpus: Vec::new(),
            name: "shard".to_owned(),
        }
    }
}

/// Why a runtime did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There must be a shard.
    #[error("a runtime needs at least one shard")]
    NoShards,
    /// The system gave no thread.
    #[error("no thread could be started for shard {shard}: {source}")]
    Thread {
        /// Which shard.
        shard: u16,
        /// Why.
        source: std::io::Error,
    },
    /// The driver did not start.
    #[error("shard {shard} could not set up its I/O: {source}")]
    Driver {
        /// Which shard.
        shard: u16,
        /// Why.
        source: std::io::Error,
    },
}

/// A shard that ended otherwise than by finishing its work.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// Its main task panicked.
    #[error("shard {shard} panicked: {message}")]
    Panicked {
        /// Which shard.
        shard: u16,
        /// What the panic said.
        message: String,
    },
    /// The kernel refused to go on.
    #[error("shard {shard} lost its I/O driver: {source}")]
    Driver {
        /// Which shard.
        shard: u16,
        /// Why.
        source: std::io::Error,
    },
}

/// Shards that are running.
pub struct Runtime {
    threads: Vec<JoinHandle<Result<(), std::io::Error>>>,
    driver: DriverReport,
}

/// A real shard's part of [`Env`].
pub(crate) struct RealShard {
    pub(crate) clock: Clock,
    pub(crate) driver: Driver,
    pub(crate) pool: Pool,
}

impl Runtime {
    /// Starts the shards. Each runs the future that `main` makes of its [`Env`] and ends with it;
    /// tasks that are left then are dropped. Returns when all drivers have started, or none runs.
    pub fn start<F>(
        config: RuntimeConfig,
        main: impl Fn(Env) -> F + Send + Sync + 'static,
    ) -> Result<Runtime, StartError>
    where
        F: Future<Output = ()> + 'static,
    {
        if config.shards == 0 {
            return Err(StartError::NoShards);
        }
        let threads = (usize::from(config.shards) * 2).clamp(4, 32);
        let pool = Pool::new(&config.name, threads);
        let (clock, drive) = (Clock::new(), Arc::new(Drive::default()));
        let main = Arc::new(main);
        let (started, starts) = mpsc::channel();
        let gate = Arc::new(Mutex::new(None));
        // Holds the shards back until all have started.
        let mut waiting = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut runtime = Runtime {
            threads: Vec::new(),
            driver: DriverReport {
                name: "none",
                reason: None,
            },
        };
        let mut result = Ok(());
        for shard in 0..config.shards {
            let begin = ShardStart {
                shard,
                config: config.clone(),
                pool: pool.clone(),
                clock,
                drive: drive.clone(),
                started: started.clone(),
                gate: gate.clone(),
            };
            let main = main.clone();
            let name = format!("{}-{shard}", config.name);
            let thread = std::thread::Builder::new().name(name).stack_size(STACK);
            match thread.spawn(move || begin.run(&*main)) {
                Ok(thread) => runtime.threads.push(thread),
                Err(source) => {
                    result = Err(StartError::Thread { shard, source });
                    break;
                }
            }
        }
        drop(started);
        for (shard, start) in starts {
            match start {
                Ok(report) => runtime.driver = report,
                Err(source) => result = Err(StartError::Driver { shard, source }),
            }
        }
        *waiting = Some(result.is_ok());
        drop(waiting);
        match result {
            Ok(()) => Ok(runtime),
            Err(error) => {
                let _ = runtime.join();
                Err(error)
            }
        }
    }

    /// The driver in use, and why.
    pub fn driver(&self) -> &DriverReport {
        &self.driver
    }

    /// Do all shards run still? None ends by itself unless its work is done or it failed.
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Waits until all shards have ended. The first error is returned once all have.
    pub fn join(self) -> Result<(), ShardError> {
        let mut result = Ok(());
        for (shard, thread) in self.threads.into_iter().enumerate() {
            let shard = shard as u16;
            let ended = match thread.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(source)) => Err(ShardError::Driver { shard, source }),
                Err(panic) => Err(ShardError::Panicked {
                    shard,
                    message: panic_message(&*panic),
                }),
            };
            result = result.and(ended);
        }
        result
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "something that is no text".to_owned(),
    }
}

/// What a shard's thread begins with.
struct ShardStart {
    shard: u16,
    config: RuntimeConfig,
    pool: Pool,
    clock: Clock,
    drive: Arc<Drive>,
    started: mpsc::Sender<(u16, std::io::Result<DriverReport>)>,
    gate: Arc<Mutex<Option<bool>>>,
}

impl ShardStart {
    fn run<F>(self, main: &dyn Fn(Env) -> F) -> std::io::Result<()>
    where
        F: Future<Output = ()> + 'static,
    {
        if let Some(cpu) = self.config.cpus.get(usize::from(self.shard)) {
            self.pin(*cpu);
        }
        scheduling::give_way();
        let env = match self.make_env() {
            Ok((env, report)) => {
                let _ = self.started.send((self.shard, Ok(report)));
                env
            }
            Err(error) => {
                let _ = self.started.send((self.shard, Err(error)));
                return Ok(());
            }
        };
        drop(self.started);
        let go = *self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if go != Some(true) {
            return Ok(());
        }
        let main = env.spawn(TaskGroup::Foreground, main(env.clone()));
        let result = run(&env, &main);
        // A panic of the main task ends the shard with it.
        let finished = result.is_ok().then(|| {
            let mut main = main;
            let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = std::pin::Pin::new(&mut main).poll(context);
            }))
        });
        env.inner.executor.close();
        if let Some(Err(panic)) = finished {
            std::panic::resume_unwind(panic);
        }
        result
    }

    fn pin(&self, cpu: usize) {
        let mut cpus = rustix::thread::CpuSet::new();
        let fits = cpu < rustix::thread::CpuSet::MAX_CPU;
        if fits {
            cpus.set(cpu);
        }
        let pinned = fits.then(|| rustix::thread::sched_setaffinity(None, &cpus));
        if !matches!(pinned, Some(Ok(()))) {
            let shard = self.shard;
            tracing::warn!("shard {shard} could not be pinned to CPU {cpu}; it floats");
        }
    }

    fn make_env(&self) -> std::io::Result<(Env, DriverReport)> {
        let doorbell = Arc::new(Doorbell::real()?);
        let (driver, report) = Driver::start(self.config.driver, &doorbell)?;
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let env = Env::new(EnvParts {
            shard: self.shard,
            shards: self.config.shards,
            seed: mix(u64::from_ne_bytes(seed) ^ u64::from(self.shard)),
            doorbell,
            drive: self.drive.clone(),
            backend: Backend::Real(RealShard {
                clock: self.clock,
                driver,
                pool: self.pool.clone(),
            }),
        });
        Ok((env, report))
    }
}

/// The loop of a shard, until its main task has ended.
fn run(env: &Env, main: &Task<()>) -> std::io::Result<()> {
    let real = crate::driver::file::real(env);
    loop {
        env.inner.executor.empty_inbox();
        env.poll_all();
        let now = run_tasks(env, real);
        env.ring_bells();
        if main.is_finished() {
            return Ok(());
        }
        env.fire_timers(now);
        if env.inner.executor.has_work() {
            real.driver.turn(Some(Duration::ZERO))?;
        } else {
            sleep(env, real, now)?;
        }
    }
}

/// Runs tasks until none is ready or the turn is over, and then those that run at its end; returns the time.
fn run_tasks(env: &Env, real: &RealShard) -> Instant {
    let began = real.clock.now();
    let mut now = began;
    for _ in 0..TASKS_PER_TURN {
        match env.run_task(now, || real.clock.now()) {
            Some(end) => now = end,
            None => break,
        }
        if now - began > env.inner.slice.length.get() {
            break;
        }
    }
    // One that is ready again at once has its next turn with the shard's next one.
    for _ in 0..env.inner.executor.last_len() {
        match env.run_last_task(now, || real.clock.now()) {
            Some(end) => now = end,
            None => break,
        }
    }
    now
}

/// Goes to the kernel until there is something to do.
fn sleep(env: &Env, real: &RealShard, now: Instant) -> std::io::Result<()> {
    let mut until = env.next_timer().unwrap_or(Instant::NEVER);
    if env.anything_polled_is(|polled| polled.is_impatient()) {
        until = until.min(now + IMPATIENCE);
    }
    let doorbell = &env.inner.doorbell;
    doorbell.falls_asleep();
    let ready = env.inner.executor.has_work() || env.anything_polled_is(|polled| polled.is_ready());
    let timeout = match until {
        _ if ready => Some(Duration::ZERO),
        Instant::NEVER => None,
        until => Some(until - now),
    };
    let result = real.driver.turn(timeout);
    doorbell.wakes();
    result
}
