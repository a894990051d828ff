//! Who may use the drive, and when: the foreground at once, the background when it disturbs nobody.
//!
//! Drives differ by a factor of a thousand, and one of a cloud with itself a minute ago: it has a
//! burst, and then 3,000 operations and 125 MB a second. A request in a drive's queue cannot be
//! overtaken, so reads of clients and the commit log wait behind what compactions and flushes have under
//! way. Nothing is known of the drive but how the foreground fares: what its reads and its synced writes
//! take on average, ten times a second. Slow is more than 2 ms (and 1 ms more for each 64 KiB), and half as
//! much again as without the background where the drive is slower than that by itself (`verdict`).
//! All requests of the groups Flush, Compaction and Maintenance, of all shards of the process, then have
//! two bounds:
//!
//! * What is *under way* (`window`). Most drives are a queue, and how long a read waits in it is how much
//!   there is before it. The window is halved down to one piece of 256 KiB when the foreground is slow,
//!   and doubles, later grows by a piece at a time, when it is not. Larger requests are cut into pieces.
//!   Within it the background has all that the foreground leaves, whatever the drive becomes. It is no
//!   larger than what the drive does in 10 ms: where it stands still all at once, reads wait behind no more.
//! * What is moved *in a second* (`pace`), if the foreground is slow even so, or if a few of its operations
//!   take very long. Limits that a hypervisor or the kernel keeps are no queue: within a tenth of a second the
//!   drive does all it may at once, and then it stands still, however little was under way. What was moved
//!   when that happened is kept away from: the less there is to do, judged by the shares, the farther (0.6 to
//!   0.9 of it), and the more slowly is it tried, after twenty seconds, after forty, whether more is possible
//!   by now: TCP CUBIC's plateau (RFC 9438). It tells nothing of a foreground that does less than then.
//!
//! Nobody starves. Each group may always have one piece under way, and bytes in proportion to those of
//! the foreground: a flush as many, compaction by its shares, which grow with the backlog. As drives
//! serve all alike, that is their part of what a busy drive does. And each has a rate that it is promised:
//! compaction 5 MB/s without a backlog and up to 100 MB/s, a flush what the foreground writes; one that
//! writers wait for waits for nothing but the window ([`Env::set_hurry`]). With the foreground away for a
//! second the rate means nothing, and the window grows until the background's own requests take 20 ms.
//!
//! The window is TCP's, and that of LEDBAT (RFC 6817), which keeps a file transfer out of the way of a
//! telephone call; below one packet Google's Swift paces, too. Seastar's I/O queues want to know what the
//! drive can do, measured ahead (`iotune`), and a cloud's drive does that for half an hour. RocksDB's
//! `GenericRateLimiter` with `auto_tuned` follows how often the background asks, not what the
//! foreground suffers. Cassandra has `compaction_throughput`, 64 MiB/s: too much for some drives, too little
//! for most.
//!
//! One for the process: where commit log and data lie on two drives, a slow log slows compaction.

mod pace;
#[cfg(test)]
mod tests;
mod verdict;
mod window;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::env::{Backend, Env, Sleep};
use crate::group::TaskGroup;
use crate::instant::Instant;
use crate::sim::SharedWorld;
use crate::sync::Waiters;
use pace::{Pace, Period};
use verdict::{Seen, Tally, Usual};
use window::Window;

/// Who is served first of those who wait.
const IN_TURN: [TaskGroup; 3] = [
    TaskGroup::Flush,
    TaskGroup::Compaction,
    TaskGroup::Maintenance,
];

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// The drive of a process, as all of its shards see it.
#[derive(Default)]
pub(crate) struct Drive {
    state: Mutex<State>,
    foreground: Foreground,
}

struct State {
    core: Core,
    waiting: [Waiters<Request>; TaskGroup::ALL.len()],
}

/// A request of the background.
#[derive(Clone, Copy)]
struct Request {
    group: TaskGroup,
    bytes: u64,
    shares: u64,
    /// Does somebody wait for it who cannot wait?
    hurried: bool,
}

/// How often it is looked at how the foreground fares.
const PERIOD: Duration = Duration::from_millis(100);

/// What decides. No I/O, no clock.
struct Core {
    usual: Usual,
    window: Window,
    pace: Pace,
    looked_at: Instant,
}

impl Core {
    fn new() -> Core {
        Core {
            usual: Usual::new(),
            window: Window::new(),
            pace: Pace::new(),
            looked_at: Instant::from_nanos(0),
        }
    }

    /// Judges how the foreground fared, if it is time to.
    fn look(&mut self, now: Instant, seen: impl FnOnce() -> Seen) {
        if now < self.looked_at + PERIOD {
            return;
        }
        let time = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        let seen = seen();
        let moved = self.pace.moved(time);
        let verdict = self.usual.judge(&seen, moved, now);
        let period = Period {
            time,
            verdict,
            // First there is to be less under way.
            cuts: self.window.is_least(),
            stalls: seen.stalls(&self.usual) && self.window.is_short(),
            is_busy: self.window.under_way() > 0,
            done: seen.reads.count + seen.writes.count,
            written: seen.written,
        };
        self.window.look(verdict, moved);
        self.pace.look(&period, now);
    }

    /// Does a request find room beside what is under way, where the foreground has so many bytes?
    fn fits(&self, request: &Request, foreground: u64) -> bool {
        let Request { group, bytes, .. } = *request;
        self.window.fits(group, bytes, request.shares, foreground)
    }

    /// When one that fits may begin.
    fn ready_at(&self, request: &Request) -> Instant {
        self.pace.ready_at(request)
    }

    fn begin(&mut self, request: &Request, now: Instant) {
        self.window.begin(request.group, request.bytes, now);
        self.pace.begin(request, now);
    }
}

/// What the foreground does.
#[derive(Default)]
struct Foreground {
    bytes: AtomicU64,
    under_way: AtomicU64,
    reads: Done,
    writes: Done,
    written: AtomicU64,
}

/// What is done since somebody looked.
#[derive(Default)]
struct Done {
    count: AtomicU64,
    score: AtomicU64,
    stalled: AtomicU64,
}

impl Default for State {
    fn default() -> State {
        State {
            core: Core::new(),
            waiting: std::array::from_fn(|_| Waiters::new()),
        }
    }
}

impl Done {
    fn add(&self, score: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.score.fetch_add(score, Ordering::Relaxed);
        let stalled = u64::from(verdict::is_stalled(score));
        self.stalled.fetch_add(stalled, Ordering::Relaxed);
    }

    fn take(&self) -> Tally {
        Tally {
            count: self.count.swap(0, Ordering::Relaxed),
            score: self.score.swap(0, Ordering::Relaxed),
            stalled: self.stalled.swap(0, Ordering::Relaxed),
        }
    }
}

impl Foreground {
    fn take(&self) -> Seen {
        Seen {
            reads: self.reads.take(),
            writes: self.writes.take(),
            written: self.written.swap(0, Ordering::Relaxed),
            under_way: self.under_way.load(Ordering::Relaxed),
        }
    }
}

impl Drive {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn foreground_bytes(&self) -> u64 {
        self.foreground.bytes.load(Ordering::Relaxed)
    }

    /// How many bytes of the background may be under way.
    pub(crate) fn limit(&self) -> u64 {
        self.state().core.window.limit()
    }

    /// Begins the request now, or puts it behind the others of its group.
    fn begin(&self, request: Request, now: Instant, waker: &Waker) -> Option<u64> {
        let mut state = self.state();
        let State { core, waiting } = &mut *state;
        core.look(now, || self.foreground.take());
        let waiting = &mut waiting[request.group.index()];
        let fits = waiting.is_empty() && core.fits(&request, self.foreground_bytes());
        if fits && core.ready_at(&request) <= now {
            core.begin(&request, now);
            return None;
        }
        Some(waiting.push(waker, request))
    }

    /// Has the request with this ticket begun meanwhile? If not, and if it is the first of its group
    /// and only waits for its time, says when that is.
    fn wait(&self, group: TaskGroup, ticket: u64, now: Instant, waker: &Waker) -> Waits {
        let mut state = self.state();
        if !state.waiting[group.index()].update(ticket, waker) {
            return Waits::NoMore;
        }
        state.core.look(now, || self.foreground.take());
        self.serve(state, now, false);
        let mut state = self.state();
        let State { core, waiting } = &mut *state;
        let waiting = &waiting[group.index()];
        if !waiting.holds(ticket) {
            return Waits::NoMore;
        }
        match waiting.first_entry() {
            Some((first, request))
                if first == ticket && core.fits(request, self.foreground_bytes()) =>
            {
                core.pace.holds(request);
                // The foreground may be gone by then.
                Waits::Until(core.ready_at(request).min(now + PERIOD))
            }
            _ => Waits::ForOthers,
        }
    }

    /// A request of the background is over; others have their turn.
    fn end(&self, group: TaskGroup, bytes: u64, took: Option<Duration>, now: Instant) {
        let mut state = self.state();
        state.core.window.end(group, bytes, took, now);
        state.core.look(now, || self.foreground.take());
        self.serve(state, now, true);
    }

    /// Lets those begin who may. The first of those that only wait for their time have to know that
    /// they are: if `tells`, all of them are woken.
    fn serve(&self, mut state: MutexGuard<'_, State>, now: Instant, tells: bool) {
        let foreground = self.foreground_bytes();
        let mut woken = Vec::new();
        let State { core, waiting } = &mut *state;
        for group in IN_TURN {
            let waiting = &mut waiting[group.index()];
            let mut tells = tells;
            while let Some((_, first)) = waiting.first_entry()
                && core.fits(first, foreground)
            {
                if core.ready_at(first) > now {
                    woken.extend(waiting.first_waker().filter(|_| tells).cloned());
                    break;
                }
                let Some((_, waker, request)) = waiting.pop() else {
                    break;
                };
                core.begin(&request, now);
                woken.push(waker);
                tells = true;
            }
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Is it the turn of one that waits?
enum Waits {
    /// It has begun.
    NoMore,
    /// Until then at most.
    Until(Instant),
    /// It is woken.
    ForOthers,
}

/// Leave to use the drive, until it is dropped.
pub(crate) struct Passage {
    drive: Arc<Drive>,
    watch: Watch,
    group: TaskGroup,
    way: Way,
    bytes: u64,
    began: Instant,
}

/// What tells the time, without all that belongs to an [`Env`].
enum Watch {
    Real(Clock),
    Sim(SharedWorld),
}

impl Watch {
    fn now(&self) -> Instant {
        match self {
            Watch::Real(clock) => clock.now(),
            Watch::Sim(world) => world.borrow().now,
        }
    }
}

impl Passage {
    /// For how many bytes it is, no more than were asked for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let now = self.watch.now();
        let took = now.saturating_duration_since(self.began);
        if self.group != TaskGroup::Foreground {
            return self.drive.end(self.group, self.bytes, Some(took), now);
        }
        let foreground = &self.drive.foreground;
        foreground.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        foreground.under_way.fetch_sub(1, Ordering::Relaxed);
        let score = verdict::score(self.bytes, took);
        match self.way {
            Way::Read => foreground.reads.add(score),
            Way::Write => {
                foreground.written.fetch_add(self.bytes, Ordering::Relaxed);
                foreground.writes.add(score);
            }
        }
    }
}

impl Env {
    /// Leave to move up to `bytes` bytes to or from the drive for the task that asks: the foreground
    /// has it at once and for all of them, others when it is their turn and for a piece.
    pub(crate) async fn pass(&self, way: Way, bytes: usize) -> Passage {
        match self.inner.executor.current() {
            TaskGroup::Foreground => self.pass_at_once(way, bytes),
            group => {
                let piece = self.inner.drive.state().core.window.piece();
                Box::pin(self.pass_later(group, way, piece.min(bytes as u64))).await
            }
        }
    }

    /// As [`Env::pass`], for what cannot be cut.
    pub(crate) async fn pass_whole(&self, way: Way, bytes: usize) -> Passage {
        match self.inner.executor.current() {
            TaskGroup::Foreground => self.pass_at_once(way, bytes),
            group => Box::pin(self.pass_later(group, way, bytes as u64)).await,
        }
    }

    fn pass_at_once(&self, way: Way, bytes: usize) -> Passage {
        let foreground = &self.inner.drive.foreground;
        foreground.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        foreground.under_way.fetch_add(1, Ordering::Relaxed);
        self.passage(TaskGroup::Foreground, way, bytes as u64)
    }

    async fn pass_later(&self, group: TaskGroup, way: Way, bytes: u64) -> Passage {
        // What a flush writes the foreground has brought, and memory waits for it.
        let shares = match group {
            TaskGroup::Flush => TaskGroup::Foreground.shares(),
            _ => self.inner.executor.shares(group),
        };
        let request = Request {
            group,
            bytes,
            shares,
            hurried: group == TaskGroup::Flush && self.inner.hurries.get(),
        };
        let entering = Entering {
            env: self,
            request,
            ticket: None,
            entered: false,
            sleep: None,
        };
        entering.await;
        self.passage(group, way, bytes)
    }

    /// What begins now.
    fn passage(&self, group: TaskGroup, way: Way, bytes: u64) -> Passage {
        let watch = match &self.inner.backend {
            Backend::Real(real) => Watch::Real(real.clock),
            Backend::Sim(sim) => Watch::Sim(sim.world.clone()),
        };
        Passage {
            drive: self.inner.drive.clone(),
            watch,
            group,
            way,
            bytes,
            began: self.now(),
        }
    }
}

/// Waits for its turn.
struct Entering<'e> {
    env: &'e Env,
    request: Request,
    ticket: Option<u64>,
    entered: bool,
    sleep: Option<Sleep>,
}

impl Future for Entering<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (env, request) = (this.env, this.request);
        let drive = &env.inner.drive;
        let ticket = match this.ticket {
            Some(ticket) => ticket,
            None => match drive.begin(request, env.now(), context.waker()) {
                Some(ticket) => *this.ticket.insert(ticket),
                None => {
                    this.entered = true;
                    return Poll::Ready(());
                }
            },
        };
        loop {
            this.sleep = None;
            match drive.wait(request.group, ticket, env.now(), context.waker()) {
                Waits::NoMore => {
                    this.entered = true;
                    return Poll::Ready(());
                }
                Waits::ForOthers => return Poll::Pending,
                Waits::Until(at) => {
                    let sleep = this.sleep.insert(env.sleep_until(at));
                    std::task::ready!(Pin::new(sleep).poll(context));
                }
            }
        }
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.filter(|_| !self.entered) else {
            return;
        };
        let (drive, now) = (&self.env.inner.drive, self.env.now());
        let Request { group, bytes, .. } = self.request;
        let mut state = drive.state();
        if state.waiting[group.index()].remove(ticket) {
            // It may have stood in the way of one that asks for less.
            drive.serve(state, now, true);
        } else {
            drop(state);
            drive.end(group, bytes, None, now);
        }
    }
}
