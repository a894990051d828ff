//! Operations at a fixed rate: each is due at its own moment, whether or not those before it have
//! been answered, and its latency counts from then. So a server that stalls is not spared the
//! operations that would have come in the meantime ("coordinated omission").
//!
//! A task of each client thread sleeps until the next moment and lets an operation go, by a timer of
//! the kernel: those of tokio count in milliseconds, which is longer than most operations take. It is
//! no thread of its own, as that would wait for the client's time slice to end where both have one core,
//! and so be milliseconds late, which would count as the server's.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Operations that are due within so short a time go together, up to so much late: to wake up for each of
/// 100,000 a second would take half a core.
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// Rare operations must not keep the end waiting.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The moments at which the operations of one client thread are due.
#[derive(Debug)]
pub(crate) struct Pacing {
    start: Instant,
    /// Nanoseconds from one operation to the next.
    period: f64,
    /// The next operation that nobody has taken.
    next: AtomicU64,
    /// The first operation that is not due yet.
    released: AtomicU64,
    due: Semaphore,
}

impl Pacing {
    /// `rate` operations a second, the first one at `start`.
    pub(crate) fn new(start: Instant, rate: f64) -> Pacing {
        Pacing {
            start,
            period: 1e9 / rate,
            next: AtomicU64::new(0),
            released: AtomicU64::new(0),
            due: Semaphore::new(0),
        }
    }

    /// Waits until an operation is due that nobody else has taken, and says since when it is;
    /// `None` when there will be none any more.
    pub(crate) async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        Some(self.moment(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn moment(&self, index: u64) -> Instant {
        self.start + Duration::from_nanos((index as f64 * self.period) as u64)
    }

    /// Lets all operations go that are due by now. Returns when the next one is.
    fn release(&self, now: Instant) -> Instant {
        let released = self.released.load(Ordering::Relaxed);
        let passed = now.checked_duration_since(self.start);
        let due = passed.map_or(0, |passed| {
            (passed.as_nanos() as f64 / self.period) as u64 + 1
        });
        if due > released {
            self.due.add_permits((due - released) as usize);
            self.released.store(due, Ordering::Relaxed);
        }
        self.moment(due.max(released))
    }

    /// Lets operations go when they are due, until told to stop; then nobody waits any longer. For a
    /// task of the thread that does them.
    ///
    /// # Errors
    ///
    /// The kernel has no timer for it. Nobody waits any longer then, either.
    pub(crate) async fn drive(&self, stop: &AtomicBool) -> io::Result<()> {
        let driven = self.release_until(stop).await;
        self.due.close();
        driven
    }

    async fn release_until(&self, stop: &AtomicBool) -> io::Result<()> {
        let timer = Timer::new()?;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let next = self.release(now).saturating_duration_since(now);
            timer
                .sleep(next.clamp(SHORTEST_SLEEP, LONGEST_SLEEP))
                .await?;
        }
        Ok(())
    }
}

/// A timer of the kernel, as exact as that can be.
struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "what came in its place is unsafe code; the descriptor of the timer stays as it is while it is owned"
        )]
        let registered = AsyncFd::with_interest(timer, Interest::READABLE);
        registered.map(Timer)
    }

    async fn sleep(&self, time: Duration) -> io::Result<()> {
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let once = Itimerspec {
            it_interval: none,
            it_value: Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: time.subsec_nanos().into(),
            },
        };
        // This makes it unreadable, too, so that nothing needs to be read.
        timerfd_settime(self.0.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

/// The pacings of `count` threads that together do `rate` operations a second, the first one at `start`:
/// each thread has its share of the rate, and its moments between those of the others.
pub(crate) fn shares(start: Instant, rate: u64, count: usize) -> Vec<Arc<Pacing>> {
    let offset = |i| Duration::from_nanos(i as u64 * 1_000_000_000 / rate);
    let pacing = |i| Pacing::new(start + offset(i), rate as f64 / count as f64);
    (0..count).map(|i| Arc::new(pacing(i))).collect()
}

/// What a task that drove says of its end.
pub(crate) fn ended(task: Result<io::Result<()>, JoinError>) -> Result<(), String> {
    match task {
        Ok(driven) => driven.map_err(|error| format!("no timer for --rate: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_go_when_they_are_due() {
        let start = Instant::now() + Duration::from_millis(5);
        let pacing = Arc::new(Pacing::new(start, 2000.0));
        let stop = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (driven, stopped) = (pacing.clone(), stop.clone());
            let driver = tokio::spawn(async move { driven.drive(&stopped).await });
            for i in 0..100u32 {
                let due = pacing.next().await.unwrap();
                assert_eq!(due - start, Duration::from_micros(500) * i);
                assert!(Instant::now() >= due);
            }
            // Slow as the machine may be: not much later than the last one was due.
            assert!(start.elapsed() < Duration::from_secs(5));
            stop.store(true, Ordering::Relaxed);
            while pacing.next().await.is_some() {}
            driver.await.unwrap().unwrap();
        });
    }
}
