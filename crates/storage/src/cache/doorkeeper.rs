//! Who asks for the second time: a table of tags, one byte a slot, that the hash of a row chooses.
//!
//! A row leaves its tag, and with it whoever had that slot is forgotten; so what was asked for longer
//! ago than the table has slots is hardly remembered, without anybody clearing it. One row in 255 is
//! taken for the one before it in its slot and comes in early. (The doorkeeper of TinyLFU, Einziger,
//! Friedman and Manes, 2017, is a bloom filter for the same end, which has to be emptied.)

use std::cell::RefCell;

use crate::growing_table::{GrowingTable, set_of};

/// Slots for each row that the cache may hold, and for each that was asked for.
const SLOTS_A_ROW: usize = 8;

pub(super) struct Doorkeeper {
    /// 0: nobody was here.
    tags: RefCell<GrowingTable<u8>>,
}

impl Doorkeeper {
    /// For a cache of so many rows.
    pub(super) fn new(rows: usize) -> Doorkeeper {
        let slots = rows.max(1) * SLOTS_A_ROW;
        Doorkeeper {
            tags: RefCell::new(GrowingTable::new(slots, SLOTS_A_ROW)),
        }
    }

    /// Was this hash here, and no other one in its slot since? From now on it is the one.
    pub(super) fn is_asked_again(&self, hash: u64) -> bool {
        let mut tags = self.tags.borrow_mut();
        let Some(slots) = tags.segment_mut(hash) else {
            return false;
        };
        let tag = (hash % 255) as u8 + 1;
        let before = std::mem::replace(&mut slots[set_of(hash, slots.len())], tag);
        if before == 0 {
            // A tag does not say whose it is.
            tags.take(|_| None);
        }
        before == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        model::murmur3_x64_128(&number.to_be_bytes())[0] as u64
    }

    #[test]
    fn knows_who_comes_again_and_forgets_who_does_not() {
        let door = Doorkeeper::new(1000);
        let first = (0..1000).filter(|n| door.is_asked_again(hash(*n))).count();
        assert!(first < 10, "{first} were taken for others");
        let again = (0..1000).filter(|n| door.is_asked_again(hash(*n))).count();
        assert!(again > 850, "{again} of 1000 were known again");
        (1000..100_000).for_each(|n| {
            door.is_asked_again(hash(n));
        });
        let later = (0..1000).filter(|n| door.is_asked_again(hash(*n))).count();
        assert!(later < 20, "{later} were remembered for ever");
    }

    #[test]
    fn grows_with_those_who_ask() {
        let door = Doorkeeper::new(400_000);
        let slots = || door.tags.borrow().len();
        let ask = |n: u64| (0..n).filter(|n| door.is_asked_again(hash(*n))).count();
        ask(10_000);
        assert!(ask(10_000) > 9_000 && slots() < 300_000);
        ask(300_000);
        // Tags that stayed behind where a segment was shared out take slots that nobody counts.
        assert!((1_500_000..2_700_000).contains(&slots()), "{}", slots());
        let again = ask(300_000);
        assert!(again > 240_000, "{again} of 300,000 were known again");
    }
}
