//! Which batches a shard keeps, the oldest first.

use std::collections::BTreeMap;
use std::ops::Bound;

use uuid::Uuid;

use crate::system::time_of;

/// How many batches a shard keeps at most.
pub(super) const MAX_BATCHES: usize = 1 << 16;
/// How many bytes of them.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// How many are completed at once, and how many bytes of them, but for one (Cassandra's
/// `calculatePageSize`, of which 128 are under way).
const PAGE: usize = 32;
const PAGE_BYTES: u64 = 4 << 20;

/// Where a batch stands: when it was begun, in microseconds since 1970, and its id.
pub(super) type Place = (i64, Uuid);

/// The batches that a shard keeps: what they say is in `system.batches`.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// With their bytes.
    batches: BTreeMap<Place, u64>,
    bytes: u64,
}

/// There is no room for more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Where the batch of an id stands; one that says no time, and is none of ours, comes first.
fn place(id: Uuid) -> Place {
    (time_of(id).unwrap_or(i64::MIN), id)
}

impl Held {
    /// One more is to be kept.
    pub(super) fn add(&mut self, id: Uuid, bytes: u64) -> Result<(), Full> {
        let is_full = self.batches.len() >= MAX_BATCHES || self.bytes + bytes > MAX_BYTES;
        // One of any size fits where there is no other.
        if is_full && !self.batches.is_empty() {
            return Err(Full);
        }
        self.find(id, bytes);
        Ok(())
    }

    /// One is there, however many there are.
    pub(super) fn find(&mut self, id: Uuid, bytes: u64) {
        self.remove(id);
        self.batches.insert(place(id), bytes);
        self.bytes += bytes;
    }

    /// One is there no more.
    pub(super) fn remove(&mut self, id: Uuid) {
        if let Some(bytes) = self.batches.remove(&place(id)) {
            self.bytes -= bytes;
        }
    }

    /// The next to be completed of those that were begun until then, with their bytes: those behind
    /// `after`.
    pub(super) fn due(&self, after: Option<Place>, until: i64) -> Vec<(Place, u64)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let until = Bound::Included((until, Uuid::max()));
        if let (Bound::Excluded(from), Bound::Included(until)) = (&from, &until)
            && from >= until
        {
            return Vec::new();
        }
        let due = self.batches.range((from, until));
        let mut left = PAGE_BYTES;
        let page = due.take(PAGE).take_while(|(_, bytes)| {
            let is_room = left > 0;
            left = left.saturating_sub(**bytes);
            is_room
        });
        page.map(|(place, bytes)| (*place, *bytes)).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::time_uuid;

    fn id(micros: i64) -> Uuid {
        time_uuid(micros, 0, 7)
    }

    fn times(due: &[(Place, u64)]) -> Vec<i64> {
        due.iter().map(|((begun, _), _)| *begun).collect()
    }

    #[test]
    fn the_oldest_are_due_first_and_page_by_page() {
        let mut held = Held::default();
        for micros in (0..100).rev() {
            held.add(id(micros), 10).expect("there is room");
        }
        let first = held.due(None, 60);
        assert_eq!(times(&first), (0..32).collect::<Vec<_>>());
        let second = held.due(Some(first[31].0), 60);
        assert_eq!(times(&second), (32..61).collect::<Vec<_>>());
        assert_eq!(held.due(Some(second[28].0), 60), []);
        assert_eq!(held.due(Some((70, id(70))), 60), []);
        held.remove(id(0));
        held.remove(id(0));
        assert_eq!(times(&held.due(None, 1)), [1]);
        assert_eq!((held.len(), held.bytes), (99, 990));
    }

    #[test]
    fn a_page_has_a_bound_in_bytes_but_for_one_batch() {
        let mut held = Held::default();
        for (micros, bytes) in [(1, PAGE_BYTES * 2), (2, 1), (3, PAGE_BYTES), (4, 1)] {
            held.add(id(micros), bytes).expect("there is room");
        }
        assert_eq!(times(&held.due(None, 9)), [1]);
        assert_eq!(times(&held.due(Some((1, id(1))), 9)), [2, 3]);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut held = Held::default();
        held.add(id(1), 2 * MAX_BYTES).expect("it is the only one");
        assert_eq!(held.add(id(2), 1), Err(Full));
        held.remove(id(1));
        for micros in 0..MAX_BATCHES as i64 {
            held.add(id(micros), 1).expect("there is room");
        }
        assert_eq!(held.add(id(-1), 1), Err(Full));
        held.find(id(-1), 1);
        assert_eq!(held.len(), MAX_BATCHES + 1);
        held.remove(id(-1));
        held.remove(id(5));
        assert_eq!(held.add(id(-1), 1), Ok(()));
    }
}
