//! What a compaction does for the cache of rows: what the cache knows of the inputs, it is to know of the output.
//!
//! An output has the number of its newest input ([`TableStore::replace_sstables`]), and what a cached row covers may be less:
//! the row of a key that only an older input has was cached before the newer ones came, and their filters have always said that
//! they know nothing of it. That of the output says that it does. So who asks for such a row next would have to read it
//! from the output, to find what he knows already; and that would be most rows there are, all at the same time. While inputs
//! are merged it is known which of them have a partition: a cached row that covers the newest of those covers the output.

use model::{Clustering, DecoratedKey};

use super::{TableStore, is_same};
use crate::sstable::SSTable;

/// A compaction, and the cache that is told of it.
pub(crate) struct CarryOver<'t> {
    store: &'t TableStore,
    inputs: &'t [SSTable],
    /// That of the output.
    number: u64,
}

impl<'t> CarryOver<'t> {
    /// Of a compaction of `inputs`, all of which are read; `None` if nothing of the table is cached.
    pub(crate) fn new(store: &'t TableStore, inputs: &'t [SSTable]) -> Option<CarryOver<'t>> {
        store.cached.borrow().as_ref()?;
        Some(CarryOver {
            store,
            inputs,
            number: inputs.iter().filter_map(SSTable::number).max()?,
        })
    }

    /// Are there rows of a partition to be told of, of which the newest input that has it has this number? Whatever covers that
    /// one where it is the newest of all covers the output anyway.
    pub(crate) fn is_worth_it(&self, newest: u64) -> bool {
        newest < self.number
    }

    /// A row is merged, of a partition of which the newest input that has it has the number `newest`.
    pub(crate) fn row(
        &self,
        place: (&DecoratedKey, &Clustering),
        newest: u64,
        wall_seconds: impl FnOnce() -> u32,
    ) {
        let knows_up_to = |covers: u64| covers >= newest && self.is_all_between(covers, place.0);
        if let Some(cached) = self.store.cached.borrow().as_ref() {
            cached.covers_from_now_on(place, self.number, knows_up_to, wall_seconds);
        }
    }

    /// Does nothing but the inputs, of what came behind the number `covers` and is no newer than the output, know of a partition?
    fn is_all_between(&self, covers: u64, key: &DecoratedKey) -> bool {
        let is_between = |number: Option<u64>| {
            number.is_none_or(|number| covers < number && number <= self.number)
        };
        let flushing = self.store.flushing.borrow();
        let mut between = flushing.iter().filter(|m| is_between(m.number()));
        if between.any(|memtable| memtable.get(key).is_some()) {
            return false;
        }
        let is_input = |sstable: &SSTable| {
            let mut inputs = self.inputs.iter();
            inputs.any(|input| is_same(input.descriptor(), sstable.descriptor()))
        };
        let sstables = self.store.sstables.borrow();
        let between = sstables.iter().filter(|s| is_between(s.number()));
        !SSTable::any_may_contain(between.filter(|s| !is_input(s)), key)
    }
}
