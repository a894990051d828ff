//! What a shard has to wake at which time.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::instant::Instant;

/// The timers of one shard, ordered by time and, at the same time, by when they were set.
#[derive(Default)]
pub(crate) struct Timers {
    wakers: BTreeMap<TimerKey, Waker>,
    set: u64,
}

/// Names a timer that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    at: Instant,
    sequence: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, waker: Waker) -> TimerKey {
        self.set += 1;
        let key = TimerKey {
            at,
            sequence: self.set,
        };
        self.wakers.insert(key, waker);
        key
    }

    /// Replaces whom a timer wakes.
    pub(crate) fn update(&mut self, key: TimerKey, waker: &Waker) {
        if let Some(old) = self.wakers.get_mut(&key) {
            old.clone_from(waker);
        }
    }

    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wakers.first_key_value().map(|(key, _)| key.at)
    }

    /// Takes the next timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        let entry = self.wakers.first_entry()?;
        (entry.key().at <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_the_order_of_their_times_and_not_when_cancelled() {
        let mut timers = Timers::default();
        let at = Instant::from_nanos;
        timers.set(at(30), Waker::noop().clone());
        let cancelled = timers.set(at(10), Waker::noop().clone());
        timers.set(at(20), Waker::noop().clone());
        assert!(timers.cancel(cancelled).is_some());
        assert_eq!(timers.next(), Some(at(20)));
        assert!(timers.pop_due(at(19)).is_none());
        assert!(timers.pop_due(at(25)).is_some());
        assert!(timers.pop_due(at(25)).is_none());
        assert_eq!(timers.next(), Some(at(30)));
    }
}
