//! What a compaction does for the cache of rows: what the cache knows of the inputs, it is to know of the output.
//!
//! An output has the number of its newest input ([`TableStore::replace_sstables`]), and what a cached row covers may be less:
//! the row of a key that only an older input has was cached before the newer ones came, and their filters have always said that
//! they know nothing of it. That of the output says that it does. So who asks for such a row next would have to read it
//! from the output, to find what he knows already; and that would be most rows there are, all at the same time. While inputs
//! are merged it is known which of them have a partition: a cached row that covers the newest of those covers the output.

use model::{Clustering, DecoratedKey};

use super::TableStore;
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
        // Nothing but the inputs may know of it, of what came since and is no newer than the output.
        let knows_up_to = |covers: u64| {
            let (key, since) = (place.0, covers + 1..=self.number);
            covers >= newest
                && !self.store.is_in_flushing(key, &since)
                && !self.store.may_be_in_numbered(key, &since, self.inputs)
        };
        if let Some(cached) = self.store.cached.borrow().as_ref() {
            cached.covers_from_now_on(place, self.number, knows_up_to, wall_seconds);
        }
    }
}
