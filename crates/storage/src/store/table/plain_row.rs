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

impl TableStore {
    /// What `show` makes of a row, or of there being none; `None` where it takes a read to know. `columns` are those
    /// that are asked for, sorted: regular ones, each of one cell and no counter.
    pub(crate) fn with_plain_row<T>(
        &self,
        place: (&DecoratedKey, &Clustering),
        columns: &[ColumnId],
        wall_seconds: impl FnOnce() -> u32,
        show: impl FnOnce(Option<PlainRow<'_>>) -> T,
    ) -> Option<T> {
        // Memtables may have cells of columns that are gone.
        if !self.schema.borrow().dropped.is_empty() {
            return None;
        }
        let (active, flushing) = (self.active.borrow(), self.flushing.borrow());
        let mut known = std::iter::once(&*active)
            .chain(flushing.iter())
            .filter_map(|memtable| memtable.get(place.0));
        match (known.next(), known.next()) {
            (Some(partition), None) => return self.in_memtable(&partition, place, show),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
        let cached = self.cached.borrow();
        let wanted = (columns, self.number.get());
        let mut show = Some(show);
        let found = cached.as_ref().and_then(|cached| {
            cached.with_plain(place, wanted, wall_seconds, |row| {
                let row = PlainRow(Lies::InCache(row?, place.1));
                self.count_plain(true, true);
                show.take().map(|show| show(Some(row)))
            })
        });
        if let Some(shown) = found {
            return shown;
        }
        if self.may_be_in_sstables(place.0) {
            return None;
        }
        // Nobody knows of it.
        self.count_plain(false, false);
        show.map(|show| show(None))
    }

    /// Of a partition that one memtable knows of.
    fn in_memtable<T>(
        &self,
        partition: &MemPartition,
        (key, clustering): (&DecoratedKey, &Clustering),
        show: impl FnOnce(Option<PlainRow<'_>>) -> T,
    ) -> Option<T> {
        let table = self.schema.borrow();
        let row = partition.plain_row(table.comparator(), clustering)?;
        if self.may_be_in_sstables(key) {
            return None;
        }
        self.count_plain(row.is_some(), false);
        Some(show(row.map(|row| PlainRow(Lies::InMemtable(row)))))
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
