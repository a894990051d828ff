//! A table that hashes choose slots of, and that grows with what is in it.
//!
//! It grows by a segment at a time (linear hashing, Litwin, 1980), from one to as many as it may have: a node of many GiB
//! with little data takes little. Where memory comes in pages of 2 MiB, a large table of zeros would be all there as soon
//! as a few hundred hashes have chosen slots of it.

/// Slots of `T`, of which the default is an empty one.
pub(crate) struct GrowingTable<T> {
    /// All of the same length.
    segments: Vec<Box<[T]>>,
    most_segments: usize,
    taken: usize,
    /// It grows when more than one of so many slots is taken.
    spare: usize,
}

impl<T: Clone + Default> GrowingTable<T> {
    /// Bytes of a segment: what is gone through at a time.
    const SEGMENT: usize = 256 << 10;

    /// For at most about so many slots, of which one of `spare` is taken before there are more than a segment.
    pub(crate) fn new(slots: usize, spare: usize) -> GrowingTable<T> {
        let length = slots.min(Self::SEGMENT / size_of::<T>());
        let first = (length > 0).then(|| vec![T::default(); length].into_boxed_slice());
        GrowingTable {
            segments: first.into_iter().collect(),
            most_segments: slots.checked_div(length).unwrap_or(0),
            taken: 0,
            spare,
        }
    }

    /// The segment that has the slots of a hash, in which [`set_of`] says where; `None` of a table without slots.
    pub(crate) fn segment(&self, hash: u64) -> Option<&[T]> {
        let count = self.segments.len();
        (count > 0).then(|| &*self.segments[segment_of(hash, count)])
    }

    /// The same, to write to it.
    pub(crate) fn segment_mut(&mut self, hash: u64) -> Option<&mut [T]> {
        let count = self.segments.len();
        (count > 0).then(|| &mut *self.segments[segment_of(hash, count)])
    }

    /// An empty slot was taken: there may be another segment. `hash_of` says whose a slot is, so that it goes with its
    /// segment; where nobody knows, it stays and is in the new one, too.
    pub(crate) fn take(&mut self, hash_of: impl Fn(&T) -> Option<u64>) {
        self.taken += 1;
        let (count, length) = (self.segments.len(), self.segments[0].len());
        if count == self.most_segments || self.taken * self.spare <= count * length {
            return;
        }
        let old = &mut self.segments[count - (1 << count.ilog2())];
        let mut new = old.clone();
        for (old, new) in old.iter_mut().zip(&mut new) {
            match hash_of(old).map(|hash| segment_of(hash, count + 1) == count) {
                Some(true) => *old = T::default(),
                Some(false) => *new = T::default(),
                None => (),
            }
        }
        self.segments.push(new);
    }

    /// Slots that there are by now.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.len()).sum()
    }
}

/// Where in so many sets of slots a hash belongs: by its high bits, of which the upper half of a product takes any number
/// evenly.
pub(crate) fn set_of(hash: u64, sets: usize) -> usize {
    ((u128::from(hash) * sets as u128) >> 64) as usize
}

/// Which of so many segments a hash belongs to: by its low bits.
fn segment_of(hash: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let at = hash as usize & mask;
    match at < count {
        true => at,
        false => at & (mask >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        model::murmur3_x64_128(&number.to_be_bytes())[0] as u64
    }

    #[test]
    fn a_new_segment_takes_from_one_other() {
        for count in 1..40 {
            for number in 0..1000 {
                let hash = hash(number);
                let (before, after) = (segment_of(hash, count), segment_of(hash, count + 1));
                assert!(before < count && after <= count);
                let giving = count - (1 << count.ilog2());
                assert!(before == after || (before, after) == (giving, count));
            }
        }
    }

    #[test]
    fn it_grows_as_slots_are_taken_up_to_its_most() {
        let length = GrowingTable::<u64>::SEGMENT / size_of::<u64>();
        let mut table = GrowingTable::<u64>::new(3 * length + 7, 2);
        let mut lengths = Vec::new();
        for taken in 0..2 * length {
            let segment = table.segment_mut(hash(taken as u64));
            assert_eq!(segment.map(|segment| segment.len()), Some(length));
            table.take(|_| None);
            if lengths.last() != Some(&table.len()) {
                lengths.push(table.len());
            }
        }
        assert_eq!(lengths, [length, 2 * length, 3 * length]);
    }

    #[test]
    fn what_is_in_it_goes_with_its_segment() {
        let mut table = GrowingTable::<u64>::new(1 << 20, 2);
        let slot = |hash: u64, table: &GrowingTable<u64>| {
            let segment = table.segment(hash).expect("it has slots");
            segment[set_of(hash, segment.len())]
        };
        let mut known = Vec::new();
        for hash in (0..100_000).map(hash) {
            let segment = table.segment_mut(hash).expect("it has slots");
            let slot = &mut segment[set_of(hash, segment.len())];
            if *slot == 0 {
                *slot = hash;
                known.push(hash);
                table.take(|hash| Some(*hash));
            }
        }
        assert!(known.len() > 50_000 && table.len() > 2 * known.len() - 40_000);
        assert!(known.iter().all(|hash| slot(*hash, &table) == *hash));
        let taken = table.segments.iter().flatten().filter(|slot| **slot != 0);
        assert_eq!(taken.count(), known.len());
    }

    #[test]
    fn a_small_one_has_a_segment_and_one_of_nothing_none() {
        let table = GrowingTable::<u8>::new(100, 8);
        assert_eq!(
            (table.len(), table.segment(7).map(<[u8]>::len)),
            (100, Some(100))
        );
        let mut none = GrowingTable::<u8>::new(0, 8);
        assert_eq!((none.len(), none.segment(7)), (0, None));
        assert_eq!(none.segment_mut(7), None);
    }
}
