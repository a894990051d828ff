//! What caches give back when the process has more memory than was counted.
//!
//! Budgets count what is asked of the allocator. It keeps more than that: pages of which some pieces are
//! still in use, huge pages for the sake of a few small ones, what other threads have freed; and there is
//! what nobody counts, buffers of requests and the program itself. How much that is depends on what the
//! node does, and only looking tells. So it is looked, once a second, and caches give back what is over:
//! half of it at once, as the allocator needs a moment to hand pages back; and they take it again, a
//! sixteenth of it at a time, once there is room. No I/O, no clock.

/// Caches give back this part of what is over, and take this part of what is free.
const GIVE: usize = 2;
const TAKE: usize = 16;
/// They take nothing before this part of all is free.
const SPARE: usize = 32;
/// The largest part of the budget that they give back: what then is still over is not theirs.
const MOST: usize = 2;

/// Bytes of a budget that are held back.
#[derive(Debug)]
pub(super) struct Pressure {
    held_back: usize,
    most: usize,
}

impl Pressure {
    pub(super) fn new(budget: usize) -> Pressure {
        Pressure {
            held_back: 0,
            most: budget / MOST,
        }
    }

    pub(super) fn held_back(&self) -> usize {
        self.held_back
    }

    /// Of `granted` bytes the process has `resident`; both are this shard's part.
    pub(super) fn look(&mut self, resident: usize, granted: usize) {
        let over = resident.saturating_sub(granted);
        let free = granted.saturating_sub(resident);
        if over > 0 {
            self.held_back = (self.held_back + over.div_ceil(GIVE)).min(self.most);
        } else if free > granted / SPARE {
            self.held_back = self.held_back.saturating_sub(free.div_ceil(TAKE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A process that takes `beside` whatever caches do, and `waste` per cent of what they hold, handing
    /// back a part of what they gave `slowness` seconds late; what it has after so many seconds.
    fn resident_after(
        (beside, waste, slowness): (usize, usize, usize),
        granted: usize,
        seconds: usize,
    ) -> (Pressure, usize) {
        let budget = granted / 16 * 9;
        let mut pressure = Pressure::new(budget);
        let mut resident = 0;
        for _ in 0..seconds {
            let cached = budget - pressure.held_back();
            let wanted = beside + cached * (100 + waste) / 100;
            resident = match resident > wanted {
                true => resident - (resident - wanted).div_ceil(slowness),
                false => wanted,
            };
            pressure.look(resident, granted);
        }
        (pressure, resident)
    }

    proptest! {
        #[test]
        fn what_is_over_is_given_back_if_caches_have_it(
            beside in 0usize..500,
            waste in 0usize..60,
            slowness in 1usize..8,
        ) {
            const GRANTED: usize = 1000 << 20;
            let (pressure, resident) = resident_after((beside << 20, waste, slowness), GRANTED, 120);
            let budget = GRANTED / 16 * 9;
            let least = (beside << 20) + budget / 2 * (100 + waste) / 100;
            prop_assert!(resident <= GRANTED.max(least) + GRANTED / 100, "{pressure:?} {resident}");
            let unhurt = (beside << 20) + budget * (100 + waste) / 100 <= GRANTED;
            prop_assert!(!unhurt || pressure.held_back() == 0, "{pressure:?} {resident}");
            // No more than has to be.
            prop_assert!(unhurt || resident >= GRANTED / 10 * 9, "{pressure:?} {resident}");
        }
    }

    #[test]
    fn what_was_given_back_is_taken_again_when_there_is_room() {
        let mut pressure = Pressure::new(1000);
        (0..20).for_each(|_| pressure.look(2300, 2000));
        assert_eq!(pressure.held_back(), 500, "never more than half");
        pressure.look(1990, 2000);
        assert_eq!(pressure.held_back(), 500, "this is no room");
        (0..20).for_each(|_| pressure.look(1500, 2000));
        assert_eq!(pressure.held_back(), 0);
    }
}
