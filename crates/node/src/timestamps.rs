//! Timestamps of writes whose client gave none.

use std::cell::Cell;

use io::Env;
use model::Partition;

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

    /// Timestamps from now on are later than all that is live in the rows of these partitions, whatever the clock
    /// says now.
    pub(crate) fn pass_rows(&self, partitions: &[Partition]) {
        for row in partitions.iter().flat_map(|partition| &partition.rows) {
            self.pass(row.liveness.timestamp);
            row.cells.iter().for_each(|cell| self.pass(cell.timestamp));
        }
    }
}
