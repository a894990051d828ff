//! A few threads for calls that block: metadata of files, and whatever a driver cannot do without.
//!
//! Threads start when there is work and nobody free, and end after idling for a while, so a node
//! that has nothing to do has none. Every job has a task that awaits it, or a file that it closes,
//! which is what bounds the queue.

use std::any::Any;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::scheduling;

/// How long a thread waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The threads, shared by all shards of a runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    max_threads: usize,
    name: String,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// What a job leaves for who awaits it.
struct Outcome<T> {
    result: Option<Result<T, Box<dyn Any + Send>>>,
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of up to `max_threads` threads.
    pub(crate) fn new(name: &str, max_threads: usize) -> Pool {
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                work: Condvar::new(),
                max_threads: max_threads.max(1),
                name: format!("{name}-pool"),
            }),
        }
    }

    /// Runs `job` on one of the threads. It runs even if nobody awaits it to the end; if it panics,
    /// so does who awaits it.
    pub(crate) fn run<T, J>(&self, job: J) -> impl Future<Output = T> + use<T, J>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static,
    {
        let outcome = Arc::new(Mutex::new(Outcome {
            result: None,
            waker: None,
        }));
        let promise = outcome.clone();
        self.push(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(job));
            let waker = {
                let mut outcome = lock(&promise);
                outcome.result = Some(result);
                outcome.waker.take()
            };
            drop(promise);
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        poll_fn(move |context| {
            let mut outcome = lock(&outcome);
            match outcome.result.take() {
                Some(Ok(value)) => Poll::Ready(value),
                Some(Err(panic)) => {
                    drop(outcome);
                    resume_unwind(panic)
                }
                None => {
                    outcome.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// As [`Pool::run`], for what nobody waits for.
    pub(crate) fn run_alone(&self, job: impl FnOnce() + Send + 'static) {
        self.push(Box::new(move || {
            // A panic has been printed, and there is nobody to pass it on to.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }));
    }

    fn push(&self, job: Job) {
        let mut state = lock(&self.shared.state);
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        if state.threads >= self.shared.max_threads {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(shared.name.clone());
        if let Err(error) = thread.spawn(move || shared.work_on()) {
            let mut state = lock(&self.shared.state);
            state.threads -= 1;
            if state.threads == 0 {
                // Nobody else would ever do it.
                let jobs = std::mem::take(&mut state.jobs);
                drop(state);
                tracing::warn!("no thread for file operations ({error}); doing them in place");
                jobs.into_iter().for_each(|job| job());
            }
        }
    }
}

impl Shared {
    /// The life of a thread.
    fn work_on(&self) {
        // A shard made it, but calls that block are short work.
        scheduling::take_usual_turns();
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = lock(&self.state);
                continue;
            }
            state.idle += 1;
            let (back, waited) = self
                .work
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
