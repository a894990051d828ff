//! The executor of one shard: its tasks, their queues, and what wakes them.
//!
//! A task is made by `async-task` and belongs to a [`TaskGroup`]. Woken on its own thread it goes
//! straight into its group's queue, or into that of the tasks which run at the end of a turn; woken by
//! another thread it goes into the inbox, which the shard empties every turn. Futures need not be
//! `Send`: only the shard's thread ever runs or drops one. When the executor closes it wakes every
//! task that is left and drops it, so nothing outlives it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use async_task::Runnable;
use slab::Slab;

use crate::doorbell::Doorbell;
use crate::group::{GroupQueues, GroupStats, TaskGroup};
use crate::owner::OwnerCell;
use crate::task::Task;

/// The executor of one shard.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    /// One waker of every task there is.
    live: Rc<RefCell<Slab<Waker>>>,
    panics: Rc<Cell<u64>>,
    /// The group of the task that runs.
    current: Cell<TaskGroup>,
}

/// Where a task waits that is ready to run.
#[derive(Clone, Copy)]
enum Place {
    /// In the queue of its group.
    Group(TaskGroup),
    /// Among those of the foreground that run at the end of a turn.
    Last,
}

impl Place {
    fn group(self) -> TaskGroup {
        match self {
            Place::Group(group) => group,
            Place::Last => TaskGroup::Foreground,
        }
    }

    fn put(self, queues: &mut GroupQueues<Runnable>, task: Runnable) {
        match self {
            Place::Group(group) => queues.push(group, task),
            Place::Last => queues.push_last(task),
        }
    }
}

/// What wakers hold.
struct Shared {
    /// `None` once the executor has closed.
    queues: OwnerCell<Option<GroupQueues<Runnable>>>,
    /// Tasks that other threads woke; `None` once the executor has closed.
    inbox: Mutex<Option<Vec<(Place, Runnable)>>>,
    inbox_filled: AtomicBool,
    doorbell: Arc<Doorbell>,
}

impl Shared {
    fn schedule(&self, place: Place, task: Runnable) {
        let Some(queues) = self.queues.get() else {
            return self.schedule_from_afar(place, task);
        };
        // The shard is awake if this runs.
        if let Some(queues) = &mut *queues.borrow_mut() {
            place.put(queues, task);
            return;
        }
        // Only now: dropping a future may wake another one.
        drop(task);
    }

    fn schedule_from_afar(&self, place: Place, task: Runnable) {
        {
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *inbox {
                Some(inbox) => inbox.push((place, task)),
                None => {
                    // The shard dropped all its tasks when it closed, so there is no future left
                    // in this one; but that is not provable here, and another thread must not
                    // drop what may be another's.
                    std::mem::forget(task);
                    return;
                }
            }
            self.inbox_filled.store(true, Ordering::Release);
        }
        self.doorbell.ring();
    }
}

impl Executor {
    /// An executor of the current thread.
    pub(crate) fn new(doorbell: Arc<Doorbell>) -> Executor {
        Executor {
            shared: Arc::new(Shared {
                queues: OwnerCell::new(Some(GroupQueues::new())),
                inbox: Mutex::new(Some(Vec::new())),
                inbox_filled: AtomicBool::new(false),
                doorbell,
            }),
            live: Rc::default(),
            panics: Rc::default(),
            current: Cell::new(TaskGroup::Foreground),
        }
    }

    /// Makes a task of `future`, ready to run.
    pub(crate) fn spawn<T: 'static>(
        &self,
        group: TaskGroup,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        self.spawn_at(Place::Group(group), future)
    }

    /// Makes a task of the foreground, ready to run at the end of a turn.
    pub(crate) fn spawn_last<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        self.spawn_at(Place::Last, future)
    }

    fn spawn_at<T: 'static>(
        &self,
        place: Place,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let group = place.group();
        let shared = self.shared.clone();
        let live = Live {
            key: self.live.borrow_mut().insert(Waker::noop().clone()),
            group,
            shared: shared.clone(),
            live: self.live.clone(),
            panics: self.panics.clone(),
        };
        let key = live.key;
        self.with_queues(|queues| queues.task_begins(group));
        let future = Counted { future, live };
        let schedule = move |task| shared.schedule(place, task);
        let builder = async_task::Builder::new().propagate_panic(true);
        // SAFETY: the future is not `Send`, so it must be run and dropped on this thread alone.
        // `schedule` is the only way a runnable goes: on this thread into the queue, on another one
        // into the inbox, which this thread empties, or, when the executor has closed, nowhere
        // (leaked). The task handle is not `Send` either. The future and `schedule` are 'static;
        // `schedule` is Send and Sync because `Arc<Shared>` is.
        let (runnable, task) = unsafe { builder.spawn_unchecked(move |()| future, schedule) };
        if let Some(waker) = self.live.borrow_mut().get_mut(key) {
            *waker = runnable.waker();
        }
        runnable.schedule();
        Task::new(task)
    }

    fn with_queues<R: Default>(&self, act: impl FnOnce(&mut GroupQueues<Runnable>) -> R) -> R {
        self.shared.with_queues(act)
    }

    /// Takes in what other threads woke.
    pub(crate) fn empty_inbox(&self) {
        if !self.shared.inbox_filled.load(Ordering::Acquire) {
            return;
        }
        let mut inbox = self.lock_inbox();
        self.shared.inbox_filled.store(false, Ordering::Relaxed);
        let woken = inbox.as_mut().map(std::mem::take).unwrap_or_default();
        drop(inbox);
        self.with_queues(|queues| {
            for (place, task) in woken {
                place.put(queues, task);
            }
        });
    }

    fn lock_inbox(&self) -> std::sync::MutexGuard<'_, Option<Vec<(Place, Runnable)>>> {
        self.shared
            .inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Is there something to run, here or in the inbox?
    pub(crate) fn has_work(&self) -> bool {
        self.with_queues(|queues| queues.len() > 0)
            || self.shared.inbox_filled.load(Ordering::Acquire)
    }

    /// The task whose turn it is.
    pub(crate) fn next(&self) -> Option<(TaskGroup, Runnable)> {
        self.with_queues(GroupQueues::pop)
    }

    /// The next task to run at the end of this turn.
    pub(crate) fn next_last(&self) -> Option<(TaskGroup, Runnable)> {
        let task = self.with_queues(GroupQueues::pop_last)?;
        Some((TaskGroup::Foreground, task))
    }

    /// How many tasks are to run at the end of this turn.
    pub(crate) fn last_len(&self) -> usize {
        self.with_queues(|queues| queues.last_len())
    }

    /// Runs a task of `group`.
    pub(crate) fn run(&self, group: TaskGroup, task: Runnable) {
        self.current.set(group);
        task.run();
        self.current.set(TaskGroup::Foreground);
    }

    /// The group of the task that runs; what is done outside of tasks is of the foreground.
    pub(crate) fn current(&self) -> TaskGroup {
        self.current.get()
    }

    /// A task of `group` ran so long.
    pub(crate) fn charge(&self, group: TaskGroup, nanos: u64) {
        self.with_queues(|queues| queues.charge(group, nanos));
    }

    pub(crate) fn shares(&self, group: TaskGroup) -> u64 {
        self.with_queues(|queues| queues.shares(group))
    }

    pub(crate) fn set_shares(&self, group: TaskGroup, shares: u64) {
        self.with_queues(|queues| queues.set_shares(group, shares));
    }

    pub(crate) fn stats(&self) -> Vec<GroupStats> {
        self.with_queues(|queues| queues.stats())
    }

    /// How many tasks have panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Drops all tasks; whatever is spawned or woken from now on is dropped at once.
    pub(crate) fn close(&self) {
        loop {
            // Waking a task that waits puts it into the queue; taking it from there and dropping
            // it drops its future.
            let wakers: Vec<Waker> = {
                let mut live = self.live.borrow_mut();
                live.iter_mut()
                    .map(|(_, waker)| std::mem::replace(waker, Waker::noop().clone()))
                    .collect()
            };
            for waker in wakers {
                waker.wake();
            }
            self.empty_inbox();
            let mut dropped = 0;
            while let Some((_, task)) = self.next().or_else(|| self.next_last()) {
                drop(task);
                dropped += 1;
            }
            if dropped == 0 {
                break;
            }
        }
        let left = self.lock_inbox().take();
        drop(left);
        let queues = self.shared.queues.get().and_then(|q| q.borrow_mut().take());
        drop(queues);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn with_queues<R: Default>(&self, act: impl FnOnce(&mut GroupQueues<Runnable>) -> R) -> R {
        let Some(queues) = self.queues.get() else {
            return R::default();
        };
        queues.borrow_mut().as_mut().map(act).unwrap_or_default()
    }
}

/// The future of a task. An `async` block around it would keep it twice: as what it captured, and as what it
/// awaits.
struct Counted<F> {
    future: F,
    /// Dropped after the future.
    live: Live,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned as long as the whole is: nothing moves it out of this reference or gives
        // one to it that is not pinned, `Counted` has no `Drop` of its own, and it is `Unpin` only if the
        // future is, as that is derived from the fields.
        let (future, live) = unsafe {
            let Counted { future, live } = self.get_unchecked_mut();
            (Pin::new_unchecked(future), live)
        };
        let _watch = PanicWatch(&live.panics);
        future.poll(context)
    }
}

/// Counts a panic that unwinds through it. `async-task` drops the future only once it has caught that.
struct PanicWatch<'a>(&'a Cell<u64>);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set(self.0.get() + 1);
        }
    }
}

/// The part of a task that knows when its future is dropped.
struct Live {
    key: usize,
    group: TaskGroup,
    shared: Arc<Shared>,
    live: Rc<RefCell<Slab<Waker>>>,
    panics: Rc<Cell<u64>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        let waker = self.live.borrow_mut().try_remove(self.key);
        self.shared
            .with_queues(|queues| queues.task_ends(self.group));
        drop(waker);
    }
}

/// Gives way to the other tasks that are ready, once.
pub(crate) struct YieldNow {
    pub(crate) yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
