//! What a read of one row takes from the cache of rows and leaves there.

use std::rc::Rc;

use model::{
    Clustering, ColumnId, DecoratedKey, DeletionTime, NO_TIMESTAMP, PackedRow, Row, Table,
};

use super::single_row::Known;
use super::{ReadCounters, Reading, View};
use crate::cache::{CachedRow, PlaceOf, RowCache};
use crate::memtable::Memtable;
use crate::sstable::SSTable;

/// The rows of a table in the cache.
#[derive(Clone)]
pub(crate) struct CachedTable {
    rows: Rc<RowCache>,
    /// The number of its content.
    number: u64,
    /// Deletions up to this number may be forgotten, with all that they covered: what covers less
    /// may be from before one of them.
    pub(crate) forgotten: u64,
}

/// A row that the cache knows and that is behind.
pub(crate) struct Behind {
    known: Known,
    columns: Rc<[ColumnId]>,
    covers: u64,
}

impl CachedTable {
    /// The rows of a table whose content has not been cached yet; `None` if `caching` wants none of
    /// it in memory: neither keys nor rows. Cassandra's default is to cache keys and no rows; there
    /// the hot rows are kept, as the memory for it is bounded whatever is in it.
    pub(crate) fn of(table: &Table, rows: &Rc<RowCache>) -> Option<CachedTable> {
        let caching = &table.options.caching;
        let is_none = |option: &str| caching.get(option).is_some_and(|value| value == "NONE");
        (!is_none("keys") || !is_none("rows_per_partition")).then(|| CachedTable {
            rows: rows.clone(),
            number: rows.register_table(),
            forgotten: 0,
        })
    }

    fn place<'p>(&self, key: &'p DecoratedKey, clustering: &'p Clustering) -> PlaceOf<'p> {
        PlaceOf {
            table: self.number,
            key,
            clustering,
        }
    }

    /// May an entry still be used?
    fn believes(&self, cached: &CachedRow, wall_seconds: impl FnOnce() -> u32) -> bool {
        cached.covers.get() >= self.forgotten && cached.is_current(wall_seconds)
    }

    /// What an entry covers, if that is less than `number`, and it may still be used.
    fn covers_less(
        &self,
        cached: &CachedRow,
        number: u64,
        wall_seconds: impl FnOnce() -> u32,
    ) -> Option<u64> {
        let covers = cached.covers.get();
        (covers < number && self.believes(cached, wall_seconds)).then_some(covers)
    }

    /// What `with` makes of a row that is known with all of `columns`, if all of it is to be seen: it and nothing around
    /// it is deleted, or will be before something of it expires, and nothing that was left out could change that. It is
    /// given `None` if the entry is not such a one; without an entry there is nothing. `known_up_to` is told up to which
    /// number the entry knows all of the row, and says up to which one that is so now, or that it does not.
    pub(crate) fn with_plain<T>(
        &self,
        (key, clustering): (&DecoratedKey, &Clustering),
        columns: &[ColumnId],
        known_up_to: impl FnOnce(u64) -> Option<u64>,
        wall_seconds: impl FnOnce() -> u32,
        with: impl FnOnce(Option<&PackedRow>) -> T,
    ) -> Option<T> {
        let has = |cached: &CachedRow, column| cached.columns.binary_search(column).is_ok();
        let is_plain = |cached: &CachedRow| {
            cached.is_plain
                && (*cached.columns == *columns || columns.iter().all(|column| has(cached, column)))
                && self.believes(cached, wall_seconds)
        };
        self.rows.get(self.place(key, clustering), |cached| {
            let covers = match is_plain(cached) {
                true => known_up_to(cached.covers.get()),
                false => None,
            };
            with(covers.map(|covers| {
                cached.covers.set(covers);
                &cached.row
            }))
        })
    }

    /// So many reads of a row were answered by the cache, or not.
    pub(crate) fn count_recalled(&self, recalled: bool, times: u64, counters: &ReadCounters) {
        self.rows.count(recalled, times);
        let counter = match recalled {
            true => &counters.cached,
            false => &counters.uncached,
        };
        counter.set(counter.get() + times);
    }

    /// What the cache has of a row, if that may still be used, does not cover `number`, and `is_wanted` with what it does cover.
    pub(crate) fn behind(
        &self,
        (key, clustering): (&DecoratedKey, &Clustering),
        number: u64,
        is_wanted: impl FnOnce(u64) -> bool,
        wall_seconds: impl FnOnce() -> u32,
    ) -> Option<Behind> {
        let behind = |cached: &CachedRow| {
            let covers = self.covers_less(cached, number, wall_seconds)?;
            // It is not copied in vain.
            is_wanted(covers).then(|| Behind {
                known: Known::of(cached, |_| true),
                columns: cached.columns.clone(),
                covers,
            })
        };
        self.rows.peek(self.place(key, clustering), behind)?
    }

    /// Lays what the memtable of that number has of a row, and what the cache has of it, into one, as [`CachedRow::with`], if all
    /// of `columns` are cached and `is_wanted` with what it covers. `None` if it is not cached, else whether that was done.
    pub(crate) fn lay_over(
        &self,
        (key, row): (&DecoratedKey, &PackedRow),
        (table, columns): (&Table, &[ColumnId]),
        number: u64,
        is_wanted: impl FnOnce(u64) -> bool,
        wall_seconds: impl FnOnce() -> u32,
    ) -> Option<bool> {
        let clustering = row.to_clustering();
        let place = self.place(key, &clustering);
        let over = |cached: &CachedRow| {
            let covers = self.covers_less(cached, number, wall_seconds)?;
            let suits = *cached.columns == *columns && is_wanted(covers);
            let with = || cached.with(&self.rows, place, (row, table), number);
            suits.then(with).flatten()
        };
        let over = self.rows.peek(place, over)?;
        let is_done = over.is_some();
        if let Some(cached) = over {
            self.rows.put(place, cached);
        }
        Some(is_done)
    }

    /// What the cache has of a row covers `number` from now on, if `knows_up_to` says so of what it covers and it may still be
    /// used.
    pub(crate) fn covers_from_now_on(
        &self,
        (key, clustering): (&DecoratedKey, &Clustering),
        number: u64,
        knows_up_to: impl FnOnce(u64) -> bool,
        wall_seconds: impl FnOnce() -> u32,
    ) {
        self.rows.peek(self.place(key, clustering), |cached| {
            let covers = self.covers_less(cached, number, wall_seconds);
            if covers.is_some_and(knows_up_to) {
                cached.covers.set(number);
            }
        });
    }

    /// Keeps what is known of a row, which is all up to the number `covers`.
    fn keep(
        &self,
        (key, known): (&DecoratedKey, &Known),
        columns: &[ColumnId],
        covers: u64,
        (table, wall_seconds): (&Table, impl FnOnce() -> u32),
    ) {
        let (row, around) = (&known.row, known.around());
        let gc_grace = table.options.gc_grace_seconds.max(0) as u32;
        let place = self.place(key, &row.clustering);
        let cached = CachedRow::new(&self.rows, place, (row, around), columns, covers, gc_grace);
        let Some(mut cached) = cached else { return };
        cached.leaves_out(known.unread, known.has_others);
        if cached.is_current(wall_seconds) {
            self.rows.put(place, cached);
        }
    }

    /// Shares a row with a memtable, as [`CachedRow::shared`].
    pub(crate) fn share(
        &self,
        (key, row): (&DecoratedKey, &PackedRow),
        columns: &[ColumnId],
        covers: u64,
    ) {
        let clustering = row.to_clustering();
        let place = self.place(key, &clustering);
        let cached = CachedRow::shared(&self.rows, place, row, columns, covers);
        if let Some(cached) = cached {
            self.rows.put(place, cached);
        }
    }
}

/// What a read begins with.
pub(super) struct Start {
    pub(super) known: Known,
    /// What came to the table up to this number is known already.
    pub(super) covered: u64,
    /// What it has to read, if that is more than it was asked for.
    pub(super) columns: Option<Rc<[ColumnId]>>,
}

impl Start {
    fn nothing(clustering: Clustering) -> Start {
        Start {
            known: Known::new(clustering),
            covered: 0,
            columns: None,
        }
    }
}

impl View {
    /// Does what is known up to a number cover this memtable?
    pub(super) fn is_covered(memtable: &Memtable, covered: u64) -> bool {
        memtable.number().is_some_and(|number| number <= covered)
    }

    /// Brings what the cache has of a row, which is behind, up to the memtable of that number: no sstable knows of the row what
    /// the cache does not.
    pub(crate) fn refresh(
        &self,
        key: &DecoratedKey,
        behind: Behind,
        number: u64,
        wall_seconds: impl FnOnce() -> u32,
    ) {
        let Some(cached) = &self.cached else { return };
        let is_between = |source: Option<u64>| {
            source.is_some_and(|source| behind.covers < source && source <= number)
        };
        let mut known = behind.known;
        for memtable in self.memtables.iter().filter(|m| is_between(m.number())) {
            if let Some(partition) = memtable.get(key) {
                known.add_memory(&partition, &self.table);
            }
        }
        let around = known.around();
        known.row.shadow_by(around);
        let table = (&*self.table, wall_seconds);
        cached.keep((key, &known), &behind.columns, number, table);
    }

    /// Does it cover this sstable?
    pub(super) fn is_file_covered(sstable: &SSTable, covered: u64) -> bool {
        sstable.number().is_some_and(|number| number <= covered)
    }
}

impl Reading<'_> {
    /// What the cache knows of a row. No time may pass between taking the view and this: what an
    /// entry covers may otherwise be more than the view has, and the page a mixture of both.
    pub(super) fn recall(&self, key: &DecoratedKey, clustering: &Clustering) -> Start {
        let Some(cached) = &self.view.cached else {
            return Start::nothing(clustering.clone());
        };
        let place = cached.place(key, clustering);
        let remember = |row: &CachedRow| {
            let usable = cached.believes(row, || self.env.wall_seconds());
            usable.then(|| self.remember(row, clustering))
        };
        let found = cached.rows.get(place, remember);
        match found {
            None => Start::nothing(clustering.clone()),
            Some(Some(start)) => start,
            Some(None) => {
                cached.rows.remove(place);
                Start::nothing(clustering.clone())
            }
        }
    }

    /// What an entry says.
    fn remember(&self, cached: &CachedRow, clustering: &Clustering) -> Start {
        let asked = &self.columns[..];
        let has = |column: &ColumnId| cached.columns.binary_search(column).is_ok();
        if *cached.columns != *asked && !asked.iter().all(has) {
            // From now on both: who asks for these and for those in turn finds all of them.
            let mut columns = [asked, &cached.columns].concat();
            columns.sort();
            columns.dedup();
            return Start {
                columns: Some(columns.into()),
                ..Start::nothing(clustering.clone())
            };
        }
        let is_behind = cached.covers.get() < self.view.number;
        // Other columns may be what the row lives by.
        let all = is_behind || !cached.row.marker().is_live(self.command.now_seconds);
        let wanted = |column| all || asked.binary_search(&column).is_ok();
        let has_others = cached.has_others || (!all && cached.columns.len() > asked.len());
        Start {
            known: Known {
                has_others,
                ..Known::of(cached, wanted)
            },
            covered: cached.covers.get(),
            columns: all.then(|| cached.columns.clone()),
        }
    }

    /// Leaves what was read of a row in the cache: all of the view, for these columns. One that is
    /// not there comes in if it was asked for before.
    pub(super) fn keep(
        &self,
        key: &DecoratedKey,
        (known, recalled): (&Known, bool),
        columns: &[ColumnId],
    ) {
        let Some(table) = &self.view.cached else {
            return;
        };
        let place = table.place(key, &known.row.clustering);
        if !recalled && !table.rows.is_asked_again(place) {
            return;
        }
        let schema = (&*self.view.table, || self.env.wall_seconds());
        table.keep((key, known), columns, self.view.number, schema);
    }

    /// A read of a row was answered by the cache, or not.
    pub(super) fn count_recalled(&self, recalled: bool) {
        if let Some(cached) = &self.view.cached {
            cached.count_recalled(recalled, 1, self.counters);
        }
    }
}

impl Known {
    /// What the cache has of a row, with the columns that are wanted.
    fn of(cached: &CachedRow, wanted: impl Fn(ColumnId) -> bool) -> Known {
        let mut row = cached.row.unpack();
        row.cells.retain(|cell| wanted(cell.column));
        Known {
            row,
            partition: cached.around,
            range: DeletionTime::LIVE,
            found: true,
            unread: cached.unread,
            has_others: cached.has_others,
        }
    }

    /// Of a row that the cache knew: is what is known all that a reader of `columns` needs, so that
    /// nothing which the entry leaves out could change it?
    ///
    /// It leaves out sources with nothing later than `unread`: they need not be read if what is known
    /// is later, which a marker that has expired since no longer is. And it leaves out other columns,
    /// which matter only if the row lives by nothing else.
    pub(super) fn stands(&self, columns: &[ColumnId], now_seconds: u32) -> bool {
        let is_read =
            self.unread == NO_TIMESTAMP || self.is_settled(self.unread, columns, now_seconds);
        is_read && (!self.has_others || self.lives_by(columns, now_seconds))
    }

    /// Is the row alive by its marker or by one of these columns?
    fn lives_by(&self, columns: &[ColumnId], now_seconds: u32) -> bool {
        let around = self.around();
        let (row, marker) = (&self.row, &self.row.liveness);
        let is_live = |cell: &model::Cell| {
            cell.is_live(now_seconds)
                && !around.deletes(cell.timestamp)
                && columns.binary_search(&cell.column).is_ok()
        };
        (marker.is_live(now_seconds) && !around.deletes(marker.timestamp))
            || row.cells.iter().any(is_live)
    }
}

/// Is a row kept under the bytes of this clustering? Rows that are equal in the order of their table
/// may differ in them, and an entry gives back those that were asked for.
pub(super) fn is_same_place(row: &Row, asked: &Clustering) -> bool {
    row.clustering == *asked
}
