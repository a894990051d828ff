//! How much of a shard's time, and of the drive, flushes get.
//!
//! As long as there is memory for what is written meanwhile, a flush has time, and requests do not wait for it: it has
//! [`LEAST`] shares of the shard's time. From where the largest memtable is flushed for its size, half of what memtables may
//! take, they grow with what memtables take, and are [`MOST`], as many as the requests of clients have, half-way from there to
//! where writers begin to be slowed (`inflow`):
//!
//! ```text
//! shares = LEAST + (MOST - LEAST) × (used - half) / (all - half)
//! ```
//!
//! Who writes faster than memtables are flushed so fills memory until the shares that follow from it are enough for both, and
//! does not notice where the shard has time to spare: what requests leave a flush always has. (Scylla's `flush_controller`
//! is a function of the memory that memtables take, too.)

use io::TaskGroup;

use super::Inner;

/// Shares while there is memory enough; the requests of clients have 1000.
const LEAST: u64 = 100;
/// The most shares there are.
const MOST: u64 = 1000;

/// The shares of flushes where memtables take `used` bytes, which should be `half`; from `all` on they are the most.
fn shares(used: usize, half: usize, all: usize) -> u64 {
    let over = used.saturating_sub(half) as f64;
    let part = (over / all.saturating_sub(half).max(1) as f64).min(1.0);
    LEAST + ((MOST - LEAST) as f64 * part) as u64
}

impl Inner {
    /// Gives flushes the shares that what is left of memory asks for.
    pub(super) fn set_flush_pace(&self) {
        let memory = &self.memory;
        let log_is_full = self.log.total_bytes() > self.config.commitlog.total_bytes;
        let shares = match log_is_full || memory.waiting.get() > 0 {
            true => MOST,
            false => {
                let half_way = memory.flush_at.midpoint(memory.slowed_at());
                shares(memory.committed(), memory.flush_at, half_way)
            }
        };
        self.env.set_shares(TaskGroup::Flush, shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 30;

    fn shares_at(used: f64) -> u64 {
        shares((LIMIT as f64 * used) as usize, LIMIT / 2, LIMIT / 8 * 5)
    }

    #[test]
    fn shares_grow_with_what_memtables_take() {
        let used = [0.0, 0.5, 0.5625, 0.625, 1.0];
        assert_eq!(used.map(shares_at), [100, 100, 550, 1000, 1000]);
        assert_eq!(shares(1, 0, 0), MOST, "there is no memory at all");
    }

    /// Writers fill a memtable while another one is flushed: so much of memory in a second of the shard's time, of which the
    /// requests take what shares leave them; a flush writes so much in one. What memtables take at most.
    fn fills(written: f64, flushed: f64) -> f64 {
        const TICK: f64 = 0.001;
        let (mut active, mut flushing, mut left, mut most) = (0.5, 0.0, 0.0, 0.0);
        for _ in 0..1_000_000 {
            if left <= 0.0 {
                // Memory comes back at the end of a flush.
                flushing = 0.0;
                if active >= 0.5 {
                    (flushing, left, active) = (active, active, 0.0);
                }
            }
            let used: f64 = active + flushing;
            most = f64::max(most, used);
            let own = match left > 0.0 {
                true => shares_at(used) as f64,
                false => 0.0,
            };
            let part = own / (own + 1000.0);
            active += (1.0 - part) * written * TICK;
            left -= part * flushed * TICK;
        }
        most
    }

    #[test]
    fn memory_lasts_where_a_flush_is_faster_than_writers() {
        for (ratio, least, bound) in [(2.0, 0.75, 0.9), (4.0, 0.6, 0.75), (20.0, 0.5, 0.6)] {
            let most = fills(0.02, 0.02 * ratio);
            assert!((least..bound).contains(&most), "{ratio}: {most}");
        }
    }
}
