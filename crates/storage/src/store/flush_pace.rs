//! How much of a shard's time, and of the drive, flushes get.
//!
//! A flush is to be over before the next one has to begin, and no sooner: who writes all the time then finds the shard as it
//! was a minute ago, be a flush under way or not. So what is written of the memtables that are being flushed is compared with what
//! memtables have grown by since it began, of what they may grow by until the next one begins, a ninth less, as a flush has
//! an end, too. A flush has [`LEAST`] shares of the shard's time as long as it is not behind, and more the further it is, up to
//! as many as the requests of clients have, [`MOST`]:
//!
//! ```text
//! shares = LEAST + (MOST - LEAST) × min((grown / room × 9/8 - written) / BEHIND, 1)
//! ```
//!
//! Where memory is short all the same, as what is flushed cannot follow, it has [`MOST`] at once. Shares only matter
//! where a shard has no time to spare: what requests leave a flush always has. (Scylla's `flush_controller`
//! is a function of the memory that memtables take.)

use io::TaskGroup;

use super::Inner;

/// Shares while there is memory enough; the requests of clients have 1000.
const LEAST: u64 = 50;
/// The most shares there are.
const MOST: u64 = 1000;
/// So much of all that is to be written is far behind.
const BEHIND: f64 = 1.0 / 16.0;
/// A flush is to be over when memtables have grown by what they may, divided by this.
const AHEAD: f64 = 9.0 / 8.0;

/// The shares of a flush of which this part is `written`, while memtables have `grown` by this part of what they may.
fn shares(written: f64, grown: f64) -> u64 {
    let behind = (grown * AHEAD - written) / BEHIND;
    LEAST + ((MOST - LEAST) as f64 * behind.clamp(0.0, 1.0)) as u64
}

impl Inner {
    /// Gives a flush the shares that it asks for: it has written so many bytes, and began when memtables that are written to
    /// took `before`.
    pub(super) fn set_flush_pace(&self, written: usize, before: usize) {
        let memory = &self.memory;
        let log_is_full = self.log.total_bytes() > self.config.commitlog.total_bytes;
        let shares = match log_is_full || memory.cannot_wait() {
            true => MOST,
            false => {
                let part = |of: usize, all: usize| of as f64 / all.max(1) as f64;
                let grown = memory.active.get().saturating_sub(before);
                let room = memory.flush_at.saturating_sub(before);
                shares(part(written, memory.flushing.get()), part(grown, room))
            }
        };
        self.env.set_shares(TaskGroup::Flush, shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memtables are flushed when they have so much of memory, and writers are slowed when they take so much.
    const FLUSH_AT: f64 = 0.375;
    const SLOWED_AT: f64 = 0.75;

    #[test]
    fn shares_grow_as_a_flush_falls_behind() {
        let behind = [
            (0.0, 0.0),
            (0.5, 0.4),
            (0.53125, 0.5),
            (0.5, 0.5),
            (0.0, 1.0),
        ];
        let shares = behind.map(|(written, grown)| shares(written, grown));
        assert_eq!(shares, [50, 50, 525, 1000, 1000]);
    }

    #[test]
    fn a_flush_beside_which_nothing_may_grow_has_the_most() {
        // One byte where there is room for none counts as all that there may be.
        assert_eq!(shares(0.0, 1.0), MOST);
        assert_eq!(shares(1.0, f64::from(u32::MAX)), MOST);
    }

    /// What there was while writers filled a memtable as another one was flushed.
    struct Outcome {
        /// The most that memtables took of memory.
        most: f64,
        /// The least part of the shard's time that requests had while a tenth of a memtable was written, after the first few.
        requests: f64,
    }

    /// Writers write so much of memory in a second of the shard's time, of which they have what shares leave them; a flush
    /// writes so much in one.
    fn fills(written: f64, flushed: f64) -> Outcome {
        const TICK: f64 = 0.001;
        let (mut active, mut flushing, mut left) = (FLUSH_AT, 0.0, 0.0);
        let mut outcome = Outcome {
            most: 0.0,
            requests: 1.0,
        };
        let (mut flushes, mut ticks, mut had) = (0, 0.0, 0.0);
        for _ in 0..1_000_000 {
            if left <= 0.0 {
                // Memory comes back at the end of a flush.
                flushing = 0.0;
                if active >= FLUSH_AT {
                    (flushing, left, active) = (active, active, 0.0);
                    flushes += 1;
                }
            }
            outcome.most = f64::max(outcome.most, active + flushing);
            let own = match left > 0.0 {
                true => shares(1.0 - left / flushing, active / FLUSH_AT) as f64,
                false => 0.0,
            };
            let part = own / (own + 1000.0);
            active += (1.0 - part) * written * TICK;
            left -= part * flushed * TICK;
            (ticks, had) = (ticks + 1.0, had + 1.0 - part);
            if ticks * written * TICK >= FLUSH_AT / 10.0 {
                if flushes > 3 {
                    outcome.requests = f64::min(outcome.requests, had / ticks);
                }
                (ticks, had) = (0.0, 0.0);
            }
        }
        outcome
    }

    #[test]
    fn memory_lasts_where_a_flush_is_faster_than_writers() {
        for ratio in [1.2, 1.5, 2.0, 4.0, 20.0] {
            let most = fills(0.02, 0.02 * ratio).most;
            // Less would be a flush that was over long before the next one.
            assert!((0.65..SLOWED_AT).contains(&most), "{ratio}: {most}");
        }
    }

    #[test]
    fn a_flush_takes_no_more_of_requests_than_it_needs_in_the_long_run() {
        for ratio in [1.2, 1.5, 2.0, 4.0, 20.0] {
            let least = fills(0.02, 0.02 * ratio).requests;
            let in_the_long_run = ratio / (1.0 + ratio);
            assert!(least > in_the_long_run - 0.07, "{ratio}: {least}");
        }
    }
}
