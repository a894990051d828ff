//! Counters, which clients add to.
//!
//! A value that is read has all that was acknowledged before the read began, and of everything else that
//! was tried before it ended any part: what is under way, and what nobody knows of, which may be done, later
//! or never, but not twice. So the value less what it must have is a sum of some of the others. And as nothing
//! is ever taken away, no value is less than one that was read before.

use std::cell::RefCell;

use cluster::Consistency;

use super::super::session::Session;
use super::readers::{Known, Rows};
use super::{Shared, numbers};
use crate::Random;

/// How many there are.
const KEYS: u64 = 3;
/// The most that is added at once, plus 1.
const MOST: u64 = 100;
/// How long a client rests between two requests, at most, in milliseconds.
const REST: u64 = 120;

/// What is known of one.
#[derive(Clone, Default)]
struct Counter {
    /// All that was acknowledged, together.
    acknowledged: i64,
    /// What was tried, and whether it was acknowledged.
    tried: Vec<(i64, bool)>,
    /// The greatest value that was read.
    seen: i64,
}

/// What a read must and may have, as far as is known when it begins.
pub(super) struct Before {
    acknowledged: i64,
    open: Vec<i64>,
    tried: usize,
    seen: i64,
}

impl Counter {
    /// Somebody tries to add; its place.
    fn adding(&mut self, amount: i64) -> usize {
        self.tried.push((amount, false));
        self.tried.len() - 1
    }

    fn added(&mut self, place: usize) {
        let (amount, is_acknowledged) = &mut self.tried[place];
        *is_acknowledged = true;
        self.acknowledged += *amount;
    }

    fn before(&self) -> Before {
        let open = self.tried.iter().filter(|(_, known)| !known);
        Before {
            acknowledged: self.acknowledged,
            open: open.map(|(amount, _)| *amount).collect(),
            tried: self.tried.len(),
            seen: self.seen,
        }
    }

    fn check(&mut self, before: &Before, value: i64) -> Result<(), String> {
        let later = self.tried[before.tried..].iter();
        let mut open = before.open.clone();
        open.extend(later.map(|(amount, _)| *amount));
        if !is_sum_of(&open, value - before.acknowledged) {
            return Err(format!(
                "{value} was read, where {} had been acknowledged; there is no explanation by what was \
                 under way or without an answer: {open:?}",
                before.acknowledged
            ));
        }
        if value < before.seen {
            return Err(format!("{value} was read after {}", before.seen));
        }
        self.seen = self.seen.max(value);
        Ok(())
    }
}

/// Do some of these make this?
fn is_sum_of(amounts: &[i64], wanted: i64) -> bool {
    let most: i64 = amounts.iter().sum();
    if wanted < 0 || wanted > most {
        return false;
    }
    let mut sums = vec![false; wanted as usize + 1];
    sums[0] = true;
    for amount in amounts {
        let amount = *amount as usize;
        for sum in (amount..sums.len()).rev() {
            sums[sum] |= sums[sum - amount];
        }
    }
    sums[wanted as usize]
}

/// All of them.
pub(super) struct Counters(RefCell<Vec<Counter>>);

impl Counters {
    pub(super) fn new() -> Counters {
        Counters(RefCell::new(vec![Counter::default(); KEYS as usize]))
    }

    /// The places of all of them.
    pub(super) fn places() -> std::ops::Range<usize> {
        0..KEYS as usize
    }
}

impl Known for Counters {
    type Place = usize;
    type Before = Before;
    const REST: u64 = REST;

    fn of(shared: &Shared) -> &Counters {
        &shared.counters
    }

    fn choose(random: &mut Random) -> usize {
        random.below(KEYS) as usize
    }

    fn question(key: usize) -> String {
        format!("SELECT value FROM k.counters WHERE key = {key}")
    }

    fn before(&self, key: usize) -> Before {
        self.0.borrow()[key].before()
    }

    fn check(&self, key: usize, before: &Before, rows: Rows) -> Result<(), String> {
        // Where there is no row, nothing was added.
        let value = numbers(rows).first().copied().unwrap_or(0);
        let checked = self.0.borrow_mut()[key].check(before, value);
        checked.map_err(|problem| format!("counter {key}: {problem}"))
    }
}

/// The table that they are in.
pub(super) const TABLE: &str = "CREATE TABLE k.counters (key bigint PRIMARY KEY, value counter)";

pub(super) async fn add(shared: &Shared, mut session: Session) {
    let counters = &shared.counters;
    while !shared.clients.shall_end() {
        let key = session.random().below(KEYS) as usize;
        let amount = 1 + session.random().below(MOST) as i64;
        let place = counters.0.borrow_mut()[key].adding(amount);
        let text = format!("UPDATE k.counters SET value = value + {amount} WHERE key = {key}");
        // Nobody tries again: it may have been added.
        match session.run(&text, Consistency::Quorum).await {
            Ok(_) => {
                counters.0.borrow_mut()[key].added(place);
                shared.report.borrow_mut().added += 1;
            }
            Err(failure) => shared.unknown(&failure),
        }
        session.rest(REST).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_was_acknowledged_and_some_of_the_others() {
        let mut counter = Counter::default();
        for amount in [7, 11, 30] {
            counter.adding(amount);
        }
        counter.added(0);
        let before = counter.before();
        for wrong in [0, 6, 8, 14, 30, 49] {
            assert!(counter.check(&before, wrong).is_err(), "{wrong}");
        }
        for right in [7, 18, 37, 48] {
            assert_eq!(counter.check(&before, right), Ok(()));
        }
        // Nothing is taken away.
        let before = counter.before();
        assert!(counter.check(&before, 37).is_err());
        // What is tried while a read is under way may be in it.
        counter.adding(5);
        assert_eq!(counter.check(&before, 53), Ok(()));
    }
}
