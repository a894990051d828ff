//! Whether one more operation may begin: until a number of them has, or somebody says stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What all workers pass before each operation.
#[derive(Debug)]
pub(crate) struct Gate {
    /// No more operations. Read by who lets them go at their moments, too.
    pub(crate) stopped: AtomicBool,
    /// How many operations may be done, and have been begun.
    limit: AtomicU64,
    begun: AtomicU64,
}

impl Gate {
    /// Open, for any number of operations.
    pub(crate) fn open() -> Gate {
        Gate {
            stopped: AtomicBool::new(false),
            limit: AtomicU64::new(u64::MAX),
            begun: AtomicU64::new(0),
        }
    }

    /// From now on, only so many operations.
    pub(crate) fn limit_to(&self, operations: u64) {
        self.begun.store(0, Ordering::Relaxed);
        self.limit.store(operations, Ordering::Relaxed);
    }

    /// The end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// May one more operation begin?
    pub(crate) fn pass(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return false;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == u64::MAX || self.begun.fetch_add(1, Ordering::Relaxed) < limit {
            return true;
        }
        self.stop();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_and_no_more() {
        let gate = Gate::open();
        assert!((0..10).all(|_| gate.pass()));
        gate.limit_to(3);
        let passed = (0..10).filter(|_| gate.pass()).count();
        assert_eq!(passed, 3);
        assert!(gate.stopped.load(Ordering::Relaxed));
    }
}
