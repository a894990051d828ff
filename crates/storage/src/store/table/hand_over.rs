//! What a flush does for the cache of rows: it tells it what it writes.
//!
//! A row of a memtable is read where it lies, and costs little; once it is flushed, whoever asks for it reads it from the
//! drive, takes it out of its chunk, and only who asks for the second time finds it in the cache. After a flush of all
//! that is asked for, that would be all reads at once. So rows that were asked for more than once go over to the cache as
//! they lie when they are flushed, if nothing but the memtable knows of them (as all of a memtable does in ScyllaDB,
//! `row_cache::update`). Of the others the cache has what it knew, and is told what is new.

use std::ops::RangeBounds;
use std::rc::Rc;
use std::sync::Arc;

use model::{Clustering, ColumnId, DecoratedKey, PackedRow, Table};

use super::TableStore;
use crate::memtable::{MemPartition, MemRow, Memtable};
use crate::read::CachedTable;

/// Of partitions with more rows it is not known which of them were asked for.
const FEW_ROWS: usize = 8;

/// A memtable that is being flushed, and the cache that is told of it.
pub(crate) struct HandOver<'t> {
    store: &'t TableStore,
    memtable: &'t Rc<Memtable>,
    /// The number of the memtable among what the table consists of.
    number: u64,
    /// What the table is as long as this is true of it.
    table: Arc<Table>,
    /// All columns that its rows have something in, sorted; `None` if rows do not go over as they are.
    columns: Option<Vec<ColumnId>>,
}

impl<'t> HandOver<'t> {
    /// Of a memtable with rows of `table`; `None` if nothing of the table is cached.
    pub(crate) fn new(
        store: &'t TableStore,
        memtable: &'t Rc<Memtable>,
        table: Arc<Table>,
    ) -> Option<HandOver<'t>> {
        store.cached.borrow().as_ref()?;
        // Rows may have cells of columns that are gone.
        let is_whole = table.has_single_cells() && table.dropped.is_empty();
        Some(HandOver {
            number: memtable.number()?,
            store,
            memtable,
            columns: is_whole.then(|| table.regular_ids()),
            table,
        })
    }

    /// A partition is to be written: rows that were asked for go over.
    pub(crate) fn partition(&self, key: &DecoratedKey, partition: &MemPartition) {
        let is_wanted =
            partition.is_asked_again() && partition.has_only_rows() && partition.len() <= FEW_ROWS;
        let (true, Some(columns)) = (is_wanted, &self.columns) else {
            return;
        };
        let cached = self.store.cached.borrow();
        let Some(cached) = cached.as_ref().filter(|_| self.has_all_of(key)) else {
            return;
        };
        for row in (0..partition.len()).filter_map(|at| partition.row_at(at)) {
            if let MemRow::Packed(row) = row
                && row.is_plain_for_a_time()
            {
                cached.share((key, row), columns, self.number);
            }
        }
    }

    /// A row is written, of a partition that has nothing but rows: what the cache has of it is to know that too.
    pub(crate) fn packed_row(
        &self,
        key: &DecoratedKey,
        row: &PackedRow,
        wall_seconds: impl Fn() -> u32,
    ) {
        let is_wanted = |covers: u64| !self.may_be_elsewhere(key, covers + 1..self.number);
        if let Some(columns) = &self.columns {
            let lay_over = |cached: &CachedTable| {
                let of = (&*self.table, &columns[..]);
                cached.lay_over((key, row), of, self.number, is_wanted, &wall_seconds)
            };
            let done = self.store.cached.borrow().as_ref().and_then(lay_over);
            if done != Some(false) {
                return;
            }
        }
        self.row((key, &row.to_clustering()), wall_seconds);
    }

    /// A row is written: what the cache has of it is to know that too.
    pub(crate) fn row(&self, place: (&DecoratedKey, &Clustering), wall_seconds: impl Fn() -> u32) {
        let key = place.0;
        let is_wanted = |covers: u64| {
            let since = covers + 1..self.number;
            !self.store.may_be_in_numbered(key, &since, &[])
        };
        let of = |cached: &CachedTable| cached.behind(place, self.number, is_wanted, &wall_seconds);
        let behind = self.store.cached.borrow().as_ref().and_then(of);
        if let Some(behind) = behind {
            let view = self.store.view();
            view.refresh(key, behind, self.number, wall_seconds);
        }
    }

    /// Does nothing that came to the table before the memtable know of a partition, and is the memtable still a part of
    /// the table, and that what it was?
    fn has_all_of(&self, key: &DecoratedKey) -> bool {
        let store = self.store;
        let is_same = Arc::ptr_eq(&store.schema.borrow(), &self.table);
        if !is_same || !store.holds(self.memtable) {
            return false;
        }
        !self.may_be_elsewhere(key, ..self.number)
    }

    /// May anything that has one of these numbers know of a partition?
    fn may_be_elsewhere(&self, key: &DecoratedKey, numbers: impl RangeBounds<u64>) -> bool {
        self.store.is_in_flushing(key, &numbers)
            || self.store.may_be_in_numbered(key, &numbers, &[])
    }
}
