//! Rows and groups that are kept until there are no more, and then sorted: of several partitions with ORDER BY, and the
//! nearest ones.

use bytes::Bytes;
use model::Order;

use crate::CqlError;

use super::super::fetch::{Slots, owned};
use super::{RowSink, SelectRun};

/// Of so many rows those are kept that are the nearest: twice as many as may be asked for.
const MOST_KEPT: usize = 2000;

/// A row, or a group by its first row and the results of its aggregates, until all are sorted.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) slots: Slots<'static>,
    pub(super) results: Vec<Option<Bytes>>,
}

impl SelectRun<'_> {
    /// Keeps a row.
    pub(super) fn keep(&mut self, slots: &Slots<'_>) {
        self.sorted.push(Kept {
            slots: owned(slots),
            results: Vec::new(),
        });
        if self.sorted.len() >= MOST_KEPT {
            self.keep_nearest();
        }
    }

    /// Of the rows that were kept, no more than are wanted, the nearest first.
    fn keep_nearest(&mut self) {
        if let Some(nearest) = &self.nearest {
            nearest.sort(&mut self.sorted, self.remaining as usize);
        }
    }

    /// Gives to the sink what was kept, in order, as far as LIMIT allows.
    pub(super) fn emit_sorted(&mut self, sink: &mut RowSink<'_>) -> Result<(), CqlError> {
        self.keep_nearest();
        let (keys, reversed) = (&self.plan.sort, self.plan.reversed);
        self.sorted.sort_by(|a, b| {
            keys.iter()
                .map(|key| {
                    let (x, y) = (a.slots[key.slot].as_deref(), b.slots[key.slot].as_deref());
                    match (x, y) {
                        (Some(x), Some(y)) if key.order == Order::Ascending => key.ty.compare(x, y),
                        (Some(x), Some(y)) => key.ty.compare(y, x),
                        // Rows without a clustering, of partitions with static columns only, come
                        // first in the order of the table, and last against it.
                        (x, y) if reversed => y.is_some().cmp(&x.is_some()),
                        (x, y) => x.is_some().cmp(&y.is_some()),
                    }
                })
                .find(|ordering| ordering.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        // Rows beyond the limit are evaluated, too, as they are in Cassandra before it sorts: one of them may fail, unless
        // columns are shown as they are.
        let wanted = self.remaining as usize;
        let selection = &self.plan.selection;
        let evaluated = match selection.is_plain() {
            true => wanted,
            false => usize::MAX,
        };
        let kept = self.sorted.iter().take(evaluated);
        for Kept { slots, results } in kept.skip(self.taken.rows) {
            let mut nowhere = |_: &[Option<&[u8]>]| {};
            let sink: &mut RowSink<'_> = match self.taken.rows < wanted {
                true => sink,
                false => &mut nowhere,
            };
            selection.emit(slots, results, self.request, sink)?;
            self.taken.rows += 1;
            self.request.functions.next_step();
        }
        Ok(())
    }
}
