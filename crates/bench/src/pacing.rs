//! Operations at a fixed rate: each is due at its own moment, whether or not those before it have
//! been answered, and its latency counts from then. So a server that stalls is not spared the
//! operations that would have come in the meantime ("coordinated omission").
//!
//! A thread of its own sleeps until the next moment and lets an operation go: timers of tokio
//! count in milliseconds, which is longer than most operations take.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

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
}

/// The pacings of `count` threads that together do `rate` operations a second, the first one at `start`:
/// each thread has its share of the rate, and its moments between those of the others.
pub(crate) fn shares(start: Instant, rate: u64, count: usize) -> Vec<Arc<Pacing>> {
    let offset = |i| Duration::from_nanos(i as u64 * 1_000_000_000 / rate);
    let pacing = |i| Pacing::new(start + offset(i), rate as f64 / count as f64);
    (0..count).map(|i| Arc::new(pacing(i))).collect()
}

/// Lets the operations of all client threads go when they are due, until told to stop; then
/// nobody waits any longer. Blocks its thread.
pub(crate) fn drive(pacings: &[Arc<Pacing>], stop: &AtomicBool) {
    // Sleep as exactly as the kernel can. If it will not: it is late by a few microseconds more.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let next = pacings.iter().map(|pacing| pacing.release(now)).min();
        // Rare operations must not keep the end waiting.
        let longest = now + Duration::from_millis(100);
        let next = next.map_or(longest, |next| next.min(longest));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    for pacing in pacings {
        pacing.due.close();
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
        let (driven, stopped) = (pacing.clone(), stop.clone());
        let driver = std::thread::spawn(move || drive(&[driven], &stopped));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            for i in 0..100u32 {
                let due = pacing.next().await.unwrap();
                assert_eq!(due - start, Duration::from_micros(500) * i);
                assert!(Instant::now() >= due);
            }
            // Slow as the machine may be: not much later than the last one was due.
            assert!(start.elapsed() < Duration::from_secs(5));
            stop.store(true, Ordering::Relaxed);
            while pacing.next().await.is_some() {}
        });
        driver.join().unwrap();
    }
}
