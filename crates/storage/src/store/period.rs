//! `memtable_flush_period_in_ms`: memtables are flushed after a while, however little is in them.
//!
//! As in Cassandra the time begins when a memtable takes the place of another one, and anew when
//! ALTER TABLE gives another period. One that is empty when its time is over has as much again, so
//! that nothing written is longer in memory than the period. One task sleeps until the first of all
//! tables is due; those without a period are not known to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use io::{Instant, Notify};
use model::{Table, TableId};

use super::Inner;
use super::table::TableStore;

/// When memtables are to be flushed at the latest.
#[derive(Default)]
pub(super) struct FlushPeriods {
    pub(super) due: RefCell<BTreeMap<TableId, Instant>>,
    /// Wakes the task that waits for them.
    pub(super) changed: Notify,
}

impl Inner {
    /// The memtable of a table is a new one, or the table's period is.
    pub(super) fn begin_period(&self, table: &TableStore) {
        let schema = table.table();
        let period = period_of(&schema).filter(|_| !table.dropped.get());
        let due = &mut *self.periods.due.borrow_mut();
        let Some(period) = period else {
            due.remove(&schema.id);
            return;
        };
        due.insert(schema.id, self.env.now() + period);
        self.periods.changed.notify_one();
    }

    /// Has memtables flushed when their time is over, until the store is closed.
    pub(super) async fn run_periods(self: Rc<Inner>) {
        while !self.closed.get() {
            // Before replay is through a table may not have what it had.
            let next = match self.ready.get() {
                true => self.flush_what_is_due(),
                false => None,
            };
            let changed = self.periods.changed.notified();
            let Some(at) = next else {
                changed.await;
                continue;
            };
            let _ = self.env.timeout(at - self.env.now(), changed).await;
        }
    }

    /// Gives when the next one is due.
    fn flush_what_is_due(&self) -> Option<Instant> {
        let now = self.env.now();
        let is_due = |(_, at): &(&TableId, &Instant)| **at <= now;
        let due: Vec<TableId> = {
            let due = self.periods.due.borrow();
            due.iter().filter(is_due).map(|(id, _)| *id).collect()
        };
        for id in due {
            let Some(table) = self.table(id) else {
                self.periods.due.borrow_mut().remove(&id);
                continue;
            };
            self.begin_period(&table);
            // With a drive that is slower than the period, memtables must not become more and more.
            if !table.is_blocked() && !table.is_flushing() {
                self.begin_flush(&table);
            }
        }
        self.periods.due.borrow().values().min().copied()
    }
}

fn period_of(table: &Table) -> Option<Duration> {
    let millis = u64::try_from(table.options.memtable_flush_period_in_ms).ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}
