//! A row that lies in memory as it is to be seen: what most reads ask for, found and shown where it lies.
//!
//! [`Store::read`](crate::Store::read) answers whatever a command asks, and makes a view, a row and a page on its way.
//! Here is the short cut for one row of which a single memtable, or the cache, or both together, have all that there is,
//! with nothing in it or around it that is deleted or has expired. It says nothing of its own: what is not so simple it
//! leaves to a read.

use std::iter::Peekable;
use std::rc::Rc;

use model::{CellRef, Clustering, ColumnId, DecoratedKey, NO_DELETION_TIME, PackedRow};

use super::TableStore;
use crate::memtable::MemPartition;
use crate::sstable::SSTable;

/// A row of which all is to be seen.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow<'r> {
    row: &'r PackedRow,
    /// What was known of it before that, the later first: in a memtable that is flushed, and in the cache, where it lies
    /// under the clustering that was asked for byte for byte.
    before: [Option<&'r PackedRow>; 2],
    /// Until when ([`PackedRow::plain_until`]).
    until: u32,
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

/// The cells of two versions of a row of which nothing is deleted and nothing has expired, as one: of a column that both
/// have the one that wins.
struct Merged<A: Iterator, B: Iterator>(Peekable<A>, Peekable<B>);

impl<'r, A, B> Iterator for Merged<A, B>
where
    A: Iterator<Item = CellRef<'r>>,
    B: Iterator<Item = CellRef<'r>>,
{
    type Item = CellRef<'r>;

    fn next(&mut self) -> Option<CellRef<'r>> {
        let Merged(ours, theirs) = self;
        match (ours.peek(), theirs.peek()) {
            (Some(our), Some(their)) if our.column == their.column => {
                let (our, their) = (ours.next()?, theirs.next()?);
                Some(if their.wins_over(&our) { their } else { our })
            }
            (Some(our), Some(their)) if our.column > their.column => theirs.next(),
            (Some(_), _) => ours.next(),
            (None, _) => theirs.next(),
        }
    }
}

impl<'r> From<&'r PackedRow> for PlainRow<'r> {
    fn from(row: &'r PackedRow) -> PlainRow<'r> {
        PlainRow {
            row,
            before: [None; 2],
            until: row.plain_until(),
        }
    }
}

impl<'r> PlainRow<'r> {
    /// With what was known before all that it has.
    fn since(self, earlier: &'r PackedRow) -> PlainRow<'r> {
        let before = match self.before {
            [None, _] => [Some(earlier), None],
            [later, _] => [later, Some(earlier)],
        };
        PlainRow {
            before,
            until: self.until.min(earlier.plain_until()),
            ..self
        }
    }

    /// Has nothing of it expired? Mostly nothing ever does, whatever the time.
    fn is_whole(self, now_seconds: impl Fn() -> u32) -> bool {
        self.until == NO_DELETION_TIME || now_seconds() < self.until
    }

    /// The values of its clustering.
    pub fn clustering(self) -> impl Iterator<Item = &'r [u8]> {
        let [first, second] = self.before;
        second.or(first).unwrap_or(self.row).clustering()
    }

    /// Its columns, in their order, and what they have: also some that nobody asked for.
    pub fn values(self) -> impl Iterator<Item = (ColumnId, &'r [u8])> {
        let cells = |row: &'r PackedRow| row.cell_refs().peekable();
        let merged = match self.before {
            [None, _] => return Either::A(self.row.values()),
            [Some(before), None] => Either::A(Merged(cells(self.row), cells(before))),
            [Some(before), Some(first)] => {
                let later = Merged(cells(self.row), cells(before));
                Either::B(Merged(later.peekable(), cells(first)))
            }
        };
        Either::B(merged.map(|cell| (cell.column, cell.value)))
    }
}

/// Where a row that was shown was found.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// In a memtable.
    There,
    /// Nowhere: there is none.
    Absent,
    /// In the cache.
    Recalled,
}

/// How many rows were found where.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    there: u64,
    absent: u64,
    recalled: u64,
}

impl Shown {
    fn count(&mut self, found: Found) {
        match found {
            Found::There => self.there += 1,
            Found::Absent => self.absent += 1,
            Found::Recalled => self.recalled += 1,
        }
    }
}

/// A row: its partition, and its clustering in it.
pub(crate) type RowPlace<'p> = (&'p DecoratedKey, &'p Clustering);

/// What is asked for of rows, and when. Mostly nobody has to know what time it is.
#[derive(Clone, Copy)]
pub(crate) struct PlainAsked<'a> {
    /// Those that are asked for, sorted: regular ones, each of one cell and no counter.
    pub(crate) columns: &'a [ColumnId],
    /// What expires up to then is not to be seen, in seconds since 1970.
    pub(crate) now_seconds: &'a dyn Fn() -> u32,
    /// What time it is here, in seconds since 1970.
    pub(crate) wall_seconds: &'a dyn Fn() -> u32,
}

impl TableStore {
    /// Lets `show` show rows, or that there are none, one after the other, as long as it takes no read to know and
    /// `show` has shown the one before. Gives how many were shown.
    pub(crate) fn with_plain_rows(
        &self,
        places: &[RowPlace<'_>],
        asked: PlainAsked<'_>,
        mut show: impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> usize {
        // Memtables may have cells of columns that are gone.
        if !self.schema.borrow().dropped.is_empty() {
            return 0;
        }
        let active = self.active.borrow();
        let keys = places.iter().map(|(key, _)| *key);
        let shown = active.with_partitions(keys, |partitions| {
            let rows = places.iter().zip(partitions);
            let found = rows.map_while(|(place, partition)| {
                self.with_plain_row(*place, *partition, asked, &mut show)
            });
            let mut shown = Shown::default();
            found.for_each(|found| shown.count(found));
            shown
        });
        self.count_plain(&shown);
        (shown.there + shown.absent + shown.recalled) as usize
    }

    /// Of the partition the active memtable knows what it is given, or nothing. `None` if the row was not shown.
    fn with_plain_row(
        &self,
        place: RowPlace<'_>,
        active: Option<&MemPartition>,
        asked: PlainAsked<'_>,
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> Option<Found> {
        let flushed = self.flushed_once(place.0)?;
        match [active, flushed.as_deref()] {
            [None, None] => self.beside_memtables(place, asked, show),
            known => self.in_memtables(known, place, asked, show),
        }
    }

    /// What `with` makes of a partition that one memtable knows of at most: that of the active one, which is given, or of
    /// one that is flushed. `None` if several do.
    pub(super) fn known_once<T>(
        &self,
        key: &DecoratedKey,
        active: Option<&MemPartition>,
        with: impl FnOnce(Option<&MemPartition>) -> T,
    ) -> Option<T> {
        match (active, self.flushed_once(key)?) {
            (active, None) => Some(with(active)),
            (None, Some(partition)) => Some(with(Some(&partition))),
            (Some(_), Some(_)) => None,
        }
    }

    /// What memtables that are flushed know of a partition, if one of them does. `None` if several do.
    fn flushed_once(&self, key: &DecoratedKey) -> Option<Option<Rc<MemPartition>>> {
        let flushing = self.flushing.borrow();
        let mut flushed = flushing.iter().filter_map(|memtable| memtable.get(key));
        let (one, another) = (flushed.next(), flushed.next());
        another.is_none().then_some(one)
    }

    /// Of a partition that no memtable knows of.
    fn beside_memtables(
        &self,
        place: RowPlace<'_>,
        asked: PlainAsked<'_>,
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> Option<Found> {
        if let Some(shown) = self.recalled(None, place, asked, show) {
            return shown.then_some(Found::Recalled);
        }
        // Nobody knows of it.
        let shown = !self.may_be_in_sstables(place.0) && show(None);
        shown.then_some(Found::Absent)
    }

    /// Of a partition that two memtables know of at most, the later first.
    fn in_memtables(
        &self,
        known: [Option<&MemPartition>; 2],
        place: RowPlace<'_>,
        asked: PlainAsked<'_>,
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> Option<Found> {
        let table = self.schema.borrow();
        let mut row: Option<PlainRow<'_>> = None;
        for partition in known.into_iter().flatten() {
            let Some(earlier) = partition.plain_row(table.comparator(), place.1)? else {
                continue;
            };
            row = Some(match row {
                None => PlainRow::from(earlier),
                // Rows that are equal in the order of their table may differ in their bytes.
                Some(row) if row.clustering().eq(earlier.clustering()) => row.since(earlier),
                Some(_) => return None,
            });
        }
        if self.may_be_in_sstables(place.0) {
            let shown = self.recalled(row, place, asked, show)?;
            return shown.then_some(Found::Recalled);
        }
        if row.is_some_and(|row| !row.is_whole(asked.now_seconds)) {
            return None;
        }
        let shown = show(row);
        let found = match row {
            Some(_) => Found::There,
            None => Found::Absent,
        };
        for partition in known.into_iter().flatten() {
            partition.note_asked();
        }
        shown.then_some(found)
    }

    /// Of a row of which the memtables have this, or nothing, and the cache may have all the rest. Was it shown? `None`:
    /// the cache has nothing of it.
    fn recalled(
        &self,
        known: Option<PlainRow<'_>>,
        place: RowPlace<'_>,
        asked: PlainAsked<'_>,
        show: &mut impl FnMut(Option<PlainRow<'_>>) -> bool,
    ) -> Option<bool> {
        let cached = self.cached.borrow();
        let cached = cached.as_ref()?;
        // What memtables know is shown with it.
        let known_up_to = |covers| self.known_up_to(covers, place.0);
        let (columns, wall_seconds) = (asked.columns, asked.wall_seconds);
        cached.with_plain(place, columns, known_up_to, wall_seconds, |cached| {
            let Some(cached) = cached else { return false };
            let row = match known {
                Some(known) => known.since(cached),
                None => PlainRow::from(cached),
            };
            row.is_whole(asked.now_seconds) && show(Some(row))
        })
    }

    /// Of a partition all is known up to the number `covers`, but for what memtables have. Up to which one, if the sstables
    /// that came since know nothing of it? `None` if they may.
    fn known_up_to(&self, covers: u64, key: &DecoratedKey) -> Option<u64> {
        if covers >= self.number.get() {
            return Some(covers);
        }
        let sstables = self.sstables.borrow();
        let is_later = |sstable: &&SSTable| sstable.number().is_none_or(|number| number > covers);
        let may_be_there = SSTable::any_may_contain(sstables.iter().filter(is_later), key);
        (!may_be_there).then(|| covers.max(self.settled()))
    }

    /// All that has this number or a lower one lies in sstables.
    fn settled(&self) -> u64 {
        let flushing = self.flushing.borrow();
        let first = flushing
            .iter()
            .filter_map(|memtable| memtable.number())
            .min();
        first.map_or(self.number.get(), |first| first - 1)
    }

    pub(super) fn may_be_in_sstables(&self, key: &DecoratedKey) -> bool {
        SSTable::any_may_contain(self.sstables.borrow().iter(), key)
    }

    /// Counts reads of rows, as if they had gone the long way.
    fn count_plain(&self, shown: &Shown) {
        let looked_for = shown.there + shown.absent;
        let skipped = looked_for * self.sstables.borrow().len() as u64;
        let there = shown.there + shown.recalled;
        self.reads.rows_in_memory(there, shown.absent, skipped);
        if let Some(cached) = &*self.cached.borrow() {
            cached.count_recalled(true, shown.recalled, &self.reads);
            cached.count_recalled(false, looked_for, &self.reads);
        }
    }
}
