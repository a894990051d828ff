//! How much of a shard's time, and of the drive, compaction gets.
//!
//! The backlog is the number of compactions that the strategies of all tables have to do, with
//! those that run. With none, compaction has [`LEAST`] shares of the shard's time; they grow with the
//! square of the backlog, until it has as many as the requests of clients, [`MOST`]:
//!
//! ```text
//! shares = min(LEAST × (1 + backlog²), MOST)
//! ```
//!
//! Shares only matter when there is not enough time for all ([`io::TaskGroup`]), or when the drive keeps
//! the foreground waiting ([`io::Env::background_window`]); what the foreground
//! leaves compaction always has. So a backlog grows until compaction, with the shares that follow
//! from it, does as much as is flushed meanwhile, and stays there: writers who write faster than
//! that are slowed by the same shares, at most to half of the shard. One compaction has time, and the
//! foreground does not notice it: a flush may be beside it, and where requests need four fifths of a shard
//! a sixth for both of them is a queue that grows until they are over. (Scylla's compaction controller is a function of the backlog
//! too, which it takes in bytes; compactions are what the strategies of Cassandra count.)

use std::time::Duration;

use io::TaskGroup;

use super::super::Inner;

/// Shares without a backlog; the requests of clients have 1000.
const LEAST: u64 = 20;
/// The most shares there are: as many as the requests of clients.
const MOST: u64 = 1000;

/// How often to look at the backlog at most.
const PAUSE: Duration = Duration::from_secs(1);

/// The shares for a backlog.
fn shares(backlog: usize) -> u64 {
    let squared = (backlog as u64).saturating_mul(backlog as u64);
    LEAST.saturating_mul(squared.saturating_add(1)).min(MOST)
}

impl Inner {
    /// Gives compaction the shares that the backlog asks for.
    pub(super) fn set_pace(&self) {
        let now = self.env.now();
        let last = self.compactions.paced_at.get();
        if last.is_some_and(|last| now < last + PAUSE) {
            return;
        }
        self.compactions.paced_at.set(Some(now));
        let tables = self.all_tables();
        let waiting: usize = tables.iter().map(|table| self.pending_of(table)).sum();
        let backlog = waiting.saturating_add(self.compactions.count() as usize);
        let shares = shares(backlog);
        if self.compactions.shares.replace(shares) != shares {
            self.env.set_shares(TaskGroup::Compaction, shares);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shard on which clients write as fast as they may: each unit of time that they get makes a
    /// number of sstables, each compaction takes a number of units. The backlog after long.
    fn settles(flushes: f64, cost: f64) -> f64 {
        let mut backlog = 0.0;
        for _ in 0..100_000 {
            let own = shares(backlog as usize) as f64;
            let part = if backlog >= 1.0 {
                own / (own + 1000.0)
            } else {
                0.0
            };
            backlog += (1.0 - part) * flushes / 4.0 - part / cost;
            backlog = f64::max(backlog, 0.0);
        }
        backlog
    }

    #[test]
    fn shares_grow_with_the_backlog() {
        assert_eq!(
            [0, 1, 2, 4, 7, 10, usize::MAX].map(shares),
            [20, 40, 100, 340, 1000, 1000, 1000]
        );
    }

    #[test]
    fn the_backlog_stays_where_both_are_in_step() {
        // Four sstables cost a compaction: from little to as much as writing them.
        for cost in [0.1, 0.5, 0.9] {
            let backlog = settles(4.0 * 0.9, cost);
            assert!(backlog < 20.0, "{cost}: {backlog}");
        }
        assert!(settles(0.4, 0.5) < 3.0, "little is written");
    }
}
