//! Since when a client's requests have been waiting to be read.
//!
//! A client that sends more than is done fills the connection's buffers, and what it sends then waits there, unread and
//! unseen. Its client has given up what has waited for too long: to do it nevertheless would take the time of those who
//! still wait, and leave them waiting for too long in their turn. So it is noted now and then how much had come, and
//! when: what is read later had come by then.

use std::collections::VecDeque;
use std::time::Duration;

use io::Instant;

/// How often it is noted how much has come.
const PERIOD: Duration = Duration::from_millis(250);
/// Notes that are kept: of more time than any client waits for an answer.
const MOST_NOTES: usize = 64;

/// What has come on a connection, and when.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Bytes that were read.
    read: u64,
    /// Times, and the bytes that had come by then, of which some were not read; oldest first.
    notes: VecDeque<(Instant, u64)>,
}

impl Arrivals {
    /// `count` bytes are read `now`, and as many as `unread` says are left, which is asked for only now and then. By
    /// when had those that are read come at the latest?
    pub(super) fn read(
        &mut self,
        now: Instant,
        count: usize,
        unread: impl FnOnce() -> u64,
    ) -> Instant {
        self.read += count as u64;
        while self
            .notes
            .front()
            .is_some_and(|(_, come)| *come < self.read)
        {
            self.notes.pop_front();
        }
        let arrived = self.notes.front().map_or(now, |(time, _)| *time);
        let is_due = match self.notes.back() {
            Some((time, _)) => now.saturating_duration_since(*time) >= PERIOD,
            None => true,
        };
        if is_due && self.notes.len() < MOST_NOTES {
            let unread = unread();
            if unread > 0 {
                self.notes.push_back((now, self.read + unread));
            }
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn what_is_read_at_once_has_just_come() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(at(5), 100, || 0), at(5));
        assert_eq!(arrivals.read(at(9000), 100, || 0), at(9000));
    }

    #[test]
    fn what_was_left_unread_had_come_by_then() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.read(at(0), 100, || 200), at(0));
        assert_eq!(arrivals.read(at(7000), 100, || 500), at(0));
        // Half of it has come since: the latest is what is said.
        assert_eq!(arrivals.read(at(8000), 200, || 0), at(7000));
        assert_eq!(arrivals.read(at(9000), 200, || 0), at(7000));
        assert_eq!(arrivals.read(at(9500), 300, || 0), at(9500));
    }

    #[test]
    fn it_is_asked_now_and_then() {
        let mut arrivals = Arrivals::default();
        let mut asked = 0;
        for millisecond in 0..10_000 {
            arrivals.read(at(millisecond), 1, || {
                asked += 1;
                1 << 30
            });
        }
        assert_eq!(asked, 40);
    }

    proptest! {
        /// A client sends, and some of what has come is read: nothing is said to have come before it has, and no more
        /// notes are kept than may be.
        #[test]
        fn nothing_is_older_than_it_is(
            steps in prop::collection::vec((0u64..2000, 0u64..5000, 1usize..4000), 1..300)
        ) {
            let mut arrivals = Arrivals::default();
            // By byte, when it came: (end, time).
            let mut came: Vec<(u64, u64)> = Vec::new();
            let (mut now, mut sent, mut read) = (0, 0u64, 0u64);
            for (time, bytes, most) in steps {
                now += time;
                sent += bytes;
                came.push((sent, now));
                let count = (most as u64).min(sent - read);
                if count == 0 {
                    continue;
                }
                read += count;
                let arrived = arrivals.read(at(now), count as usize, || sent - read);
                let last = came.iter().find(|(end, _)| *end >= read).map(|(_, time)| *time);
                prop_assert!(arrived >= at(last.unwrap()), "{arrived:?} {last:?}");
                prop_assert!(arrived <= at(now));
                prop_assert!(arrivals.notes.len() <= MOST_NOTES);
            }
        }
    }
}
