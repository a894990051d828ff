//! The rows of a partition in memory: sorted chunks that readers share and writers copy.
//!
//! A reader takes the whole container as it is (a reference count), so that it sees a partition
//! at one moment however long it reads. A writer that meets a shared container copies the list
//! of chunks and the one chunk it changes; rows themselves are shared too. So a write to a
//! partition of n rows costs O(log n) comparisons, and while a reader holds it one copy of
//! n / [`CHUNK`] pointers.

use std::cmp::Ordering;
use std::rc::Rc;

use model::Row;
use smallvec::SmallVec;

/// A chunk that grows beyond this many rows is cut in two.
const CHUNK: usize = 64;

type Chunk = SmallVec<[Rc<Row>; 1]>;

/// The rows of a partition, sorted by whatever order the searches use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// None of them empty.
    chunks: SmallVec<[Rc<Chunk>; 1]>,
    len: usize,
}

/// Between which rows something is: before row `index` of chunk `chunk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    chunk: usize,
    index: usize,
}

impl Rows {
    /// Bytes that the container itself takes, without what its rows hold.
    pub(crate) fn container_bytes(&self) -> usize {
        // A chunk with its list entry, its counts, and its rows' pointers, half empty in the mean.
        self.chunks.len() * (size_of::<Chunk>() + 3 * size_of::<usize>())
            + if self.len > 1 {
                self.len * size_of::<usize>() * 3 / 2
            } else {
                0
            }
    }

    /// The first row.
    pub(crate) fn start(&self) -> Place {
        Place { chunk: 0, index: 0 }
    }

    /// Behind the last row.
    #[cfg(test)]
    fn end(&self) -> Place {
        Place {
            chunk: self.chunks.len(),
            index: 0,
        }
    }

    /// The first row for which `order` does not say `Less`, and whether it says `Equal` there.
    pub(crate) fn search(&self, order: impl Fn(&Row) -> Ordering) -> (Place, bool) {
        // The last chunk whose first row is not behind what is searched.
        let after = self
            .chunks
            .partition_point(|chunk| order(&chunk[0]) != Ordering::Greater);
        let Some(chunk) = after.checked_sub(1) else {
            return (self.start(), false);
        };
        let rows = &self.chunks[chunk];
        let index = rows.partition_point(|row| order(row) == Ordering::Less);
        if index == rows.len() {
            return (
                Place {
                    chunk: chunk + 1,
                    index: 0,
                },
                false,
            );
        }
        let found = order(&rows[index]) == Ordering::Equal;
        (Place { chunk, index }, found)
    }

    /// The row at a place, unless it is the end.
    pub(crate) fn get(&self, place: Place) -> Option<&Rc<Row>> {
        self.chunks.get(place.chunk)?.get(place.index)
    }

    /// The next place.
    pub(crate) fn after(&self, place: Place) -> Place {
        if self
            .chunks
            .get(place.chunk)
            .is_some_and(|chunk| place.index + 1 < chunk.len())
        {
            Place {
                index: place.index + 1,
                ..place
            }
        } else {
            Place {
                chunk: place.chunk + 1,
                index: 0,
            }
        }
    }

    /// The place before, unless this is the first.
    pub(crate) fn before(&self, place: Place) -> Option<Place> {
        if let Some(index) = place.index.checked_sub(1) {
            return Some(Place { index, ..place });
        }
        let chunk = place.chunk.checked_sub(1)?;
        Some(Place {
            chunk,
            index: self.chunks[chunk].len() - 1,
        })
    }

    /// The row at a place where there is one, for changing.
    pub(crate) fn row_mut(&mut self, place: Place) -> &mut Row {
        let chunk = Rc::make_mut(&mut self.chunks[place.chunk]);
        Rc::make_mut(&mut chunk[place.index])
    }

    /// Puts a row before `place` (which a search gave).
    pub(crate) fn insert(&mut self, place: Place, row: Row) {
        self.len += 1;
        let row = Rc::new(row);
        // What belongs before the first row of a chunk joins the end of the chunk before.
        let (at, index) = match place.chunk.checked_sub(1) {
            Some(previous) if place.index == 0 => (previous, self.chunks[previous].len()),
            _ => (place.chunk, place.index),
        };
        let Some(chunk) = self.chunks.get_mut(at) else {
            let mut chunk = Chunk::new();
            chunk.push(row);
            self.chunks.push(Rc::new(chunk));
            return;
        };
        let chunk = Rc::make_mut(chunk);
        chunk.insert(index, row);
        if chunk.len() > CHUNK {
            // Rows mostly arrive in order: then full chunks stay behind.
            let cut = if index == CHUNK { CHUNK } else { CHUNK / 2 };
            let tail: Chunk = chunk.drain(cut..).collect();
            self.chunks.insert(at + 1, Rc::new(tail));
        }
    }

    /// All rows, in order.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &Rc<Row>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use model::Clustering;
    use proptest::prelude::*;

    fn row(n: u16) -> Row {
        let value = Bytes::copy_from_slice(&n.to_be_bytes());
        Row::new(Clustering(SmallVec::from_iter([value])))
    }

    fn number(row: &Row) -> u16 {
        u16::from_be_bytes([row.clustering.0[0][0], row.clustering.0[0][1]])
    }

    fn put(rows: &mut Rows, n: u16) {
        let (place, found) = rows.search(|r| number(r).cmp(&n));
        if found {
            rows.row_mut(place).liveness.timestamp = 1;
        } else {
            rows.insert(place, row(n));
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_set(numbers in proptest::collection::vec(0u16..400, 0..600)) {
            let mut rows = Rows::default();
            let mut expected = std::collections::BTreeSet::new();
            for n in numbers {
                put(&mut rows, n);
                expected.insert(n);
            }
            let forward: Vec<u16> = rows.iter().map(|r| number(r)).collect();
            prop_assert_eq!(&forward, &expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(rows.len, expected.len());
            let mut backward = Vec::new();
            let mut place = rows.end();
            while let Some(before) = rows.before(place) {
                backward.push(number(rows.get(before).unwrap()));
                place = before;
            }
            prop_assert_eq!(backward, expected.iter().rev().copied().collect::<Vec<_>>());
            for n in 0..400 {
                let (place, found) = rows.search(|r| number(r).cmp(&n));
                prop_assert_eq!(found, expected.contains(&n));
                prop_assert_eq!(
                    rows.get(place).map(|r| number(r)),
                    expected.range(n..).next().copied()
                );
            }
        }
    }

    #[test]
    fn a_reader_keeps_what_it_saw() {
        let mut rows = Rows::default();
        for n in 0..200 {
            put(&mut rows, n * 2);
        }
        let seen = rows.clone();
        for n in 0..200 {
            put(&mut rows, n * 2 + 1);
            put(&mut rows, n * 2);
        }
        assert_eq!(seen.iter().count(), 200);
        assert!(seen.iter().all(|r| r.liveness.is_empty()));
        assert_eq!(rows.iter().count(), 400);
    }
}
