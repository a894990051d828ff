//! What becomes a record of the log.

use std::sync::Arc;

use model::{Mutation, RowUpdate, Table};
use smallvec::SmallVec;

use super::record;
use super::state::Segment;

/// What is written at once.
#[derive(Clone, Copy)]
pub(crate) enum Logged<'m> {
    /// Whatever can be.
    Mutation(&'m Mutation),
    /// A row by itself, which is laid out already.
    Row(&'m RowUpdate),
}

impl Logged<'_> {
    /// Appends its record; `number` gives the schema numbers of its tables, and declares those that have none before it
    /// in `out`. Gives where behind what is declared the record begins.
    pub(super) fn write(
        self,
        out: &mut Vec<u8>,
        mut number: impl FnMut(&mut Vec<u8>, &Arc<Table>) -> u32,
    ) -> usize {
        match self {
            Logged::Mutation(mutation) => {
                let updates = mutation.updates.iter();
                let numbers = updates.map(|update| number(out, &update.table));
                let numbers: SmallVec<[u32; 4]> = numbers.collect();
                let begin = out.len();
                record::write_mutation(out, mutation, &numbers);
                begin
            }
            Logged::Row(update) => {
                let number = number(out, &update.table);
                let begin = out.len();
                record::write_row_update(out, update, number);
                begin
            }
        }
    }

    /// Counts it as not flushed.
    pub(super) fn count(self, segment: &mut Segment) {
        match self {
            Logged::Mutation(mutation) => {
                for update in &mutation.updates {
                    segment.count(update);
                }
            }
            Logged::Row(update) => {
                segment.count_of(update.table.id, update.least_times().timestamp)
            }
        }
    }
}

impl<'m> From<&'m Mutation> for Logged<'m> {
    fn from(mutation: &'m Mutation) -> Logged<'m> {
        Logged::Mutation(mutation)
    }
}

impl<'m> From<&'m RowUpdate> for Logged<'m> {
    fn from(update: &'m RowUpdate) -> Logged<'m> {
        Logged::Row(update)
    }
}
