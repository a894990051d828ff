//! A row that lies in memory as it is to be seen: what most reads ask for, found and shown where it lies.
//!
//! [`Store::read`](crate::Store::read) answers whatever a command asks, and makes a view, a row and a page on its way.
//! Here is the short cut for one row of which a single memtable, or the cache, has all that there is, with nothing in
//! it or around it that is deleted or expires. It says nothing of its own: what is not so simple it leaves to a read.

use model::{Clustering, ColumnId, DecoratedKey, PackedRow, murmur3_x64_128};

use super::TableStore;
use crate::cache;
use crate::memtable::MemPartition;

/// A row of which all is to be seen.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow<'r>(Lies<'r>);

#[derive(Clone, Copy, Debug)]
enum Lies<'r> {
    InMemtable(&'r PackedRow),
    /// With the clustering that was asked for, which is that of the row byte for byte.
    InCache(&'r cache::PackedRow, &'r Clustering),
}

/// One of two iterators over the same.
enum Either<A, B> {
    A(A),
    B(B),
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Either<A, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Either::A(items) => items.next(),
            Either::B(items) => items.next(),
        }
    }
}

impl<'r> PlainRow<'r> {
    /// The values of its clustering.
    pub fn clustering(self) -> impl Iterator<Item = &'r [u8]> {
        match self.0 {
            Lies::InMemtable(row) => Either::A(row.clustering()),
            Lies::InCache(_, clustering) => Either::B(clustering.values()),
        }
    }

    /// Its columns, in their order, and what they have: also some that nobody asked for.
    pub fn values(self) -> impl Iterator<Item = (ColumnId, &'r [u8])> {
        match self.0 {
            Lies::InMemtable(row) => Either::A(row.values()),
            Lies::InCache(row, _) => Either::B(row.values()),
        }
    }
}

/// A row: its partition, and its clustering in it.
pub(crate) type RowPlace<'p> = (&'p DecoratedKey, &'p Clustering);

impl TableStore {
    /// Lets `show` show rows, or that there are none, one after the other, as long as it takes no read to know and
    /// `show` has shown the one before. `columns` are those that are asked for, sorted: regular ones, each of one cell
    /// and no counter. Gives how many were shown.
    pub(crate) fn with_plain_rows(
        &self,
        places: &[RowPlace<'_>],
        columns: &[ColumnId],
        wall_seconds: impl Fn() -> u32,
        mut show: impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> usize {
        // Memtables may have cells of columns that are gone.
        if !self.schema.borrow().dropped.is_empty() {
            return 0;
        }
        let active = self.active.borrow();
        let keys = places.iter().map(|(key, _)| *key);
        active.with_partitions(keys, |partitions| {
            let rows = places.iter().zip(partitions);
            let shown = rows.take_while(|(place, partition)| {
                self.with_plain_row(**place, **partition, (columns, &wall_seconds), &mut show)
            });
            shown.count()
        })
    }

    /// Of the partition the active memtable knows what it is given, or nothing.
    fn with_plain_row(
        &self,
        place: RowPlace<'_>,
        known: Option<&MemPartition>,
        (columns, wall_seconds): (&[ColumnId], impl FnOnce() -> u32),
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> bool {
        let flushing = self.flushing.borrow();
        let mut flushed = flushing.iter().filter_map(|memtable| memtable.get(place.0));
        match (known, flushed.next()) {
            (Some(partition), None) => return self.in_memtable(partition, place, show),
            (None, Some(partition)) => {
                return flushed.next().is_none() && self.in_memtable(&partition, place, show);
            }
            (Some(_), Some(_)) => return false,
            (None, None) => {}
        }
        let cached = self.cached.borrow();
        let wanted = (columns, self.number.get());
        let found = cached.as_ref().and_then(|cached| {
            cached.with_plain(place, wanted, wall_seconds, |row| {
                row.is_some_and(|row| show(Some(PlainRow(Lies::InCache(row, place.1)))))
            })
        });
        if let Some(shown) = found {
            if shown {
                self.count_plain(true, true);
            }
            return shown;
        }
        // Nobody knows of it.
        let shown = !self.may_be_in_sstables(place.0) && show(None);
        if shown {
            self.count_plain(false, false);
        }
        shown
    }

    /// Of a partition that one memtable knows of.
    fn in_memtable(
        &self,
        partition: &MemPartition,
        (key, clustering): RowPlace<'_>,
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> bool {
        let table = self.schema.borrow();
        let Some(row) = partition.plain_row(table.comparator(), clustering) else {
            return false;
        };
        let in_memtable = |row| PlainRow(Lies::InMemtable(row));
        let shown = !self.may_be_in_sstables(key) && show(row.map(in_memtable));
        if shown {
            self.count_plain(row.is_some(), false);
        }
        shown
    }

    fn may_be_in_sstables(&self, key: &DecoratedKey) -> bool {
        let sstables = self.sstables.borrow();
        if sstables.is_empty() {
            return false;
        }
        let hash = murmur3_x64_128(key.key());
        sstables
            .iter()
            .any(|sstable| sstable.may_contain(key, hash))
    }

    /// Counts a read of a row, as one that went the long way would be.
    fn count_plain(&self, is_there: bool, recalled: bool) {
        let skipped = match recalled {
            true => 0,
            false => self.sstables.borrow().len() as u64,
        };
        self.reads.row_in_memory(is_there, skipped);
        if let Some(cached) = &*self.cached.borrow() {
            cached.count_recalled(recalled, &self.reads);
        }
    }
}
