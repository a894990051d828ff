//! Timestamps of writes whose client gave none.

use std::cell::Cell;

use io::Env;

/// Gives each write of a shard a later timestamp than the one before, by the wall clock where that
/// is possible (`ClientState.getTimestamp`).
#[derive(Debug, Default)]
pub(crate) struct Timestamps {
    last: Cell<i64>,
}

impl Timestamps {
    /// Microseconds since 1970.
    pub(crate) fn next(&self, env: &Env) -> i64 {
        let next = env.wall_micros().max(self.last.get() + 1);
        self.last.set(next);
        next
    }

    /// Timestamps from now on are later than this one.
    pub(crate) fn pass(&self, micros: i64) {
        self.last.set(self.last.get().max(micros));
    }
}
