//! Writes that wait for nothing but the commit log. They are begun where they are made, several in a row, and one task
//! waits for all of them: a write that had a task of its own, and the state of all that it might have had to wait for,
//! would cost twice as much.

use std::collections::VecDeque;
use std::rc::Rc;

use io::Instant;
use model::{DecoratedKey, Mutation, RowUpdate, TableId};

use super::memory::most_growth_with;
use super::table::TableStore;
use super::{Inner, Store};
use crate::commitlog::{AppendError, Ticket};
use crate::error::WriteError;
use crate::memtable::{TOGETHER, most_growth_of_row};
use crate::sstable::{check_fits, holds};

/// Writes between the log and the memtables, in the order in which they were begun. Who drops them gives up those that
/// are left: they are not visible, but may be after a restart.
pub struct BegunWrites {
    inner: Rc<Inner>,
    began: Instant,
    writes: VecDeque<Begun>,
    /// How many of the first ones have their places in memtables near.
    near: usize,
}

struct Begun {
    write: Write,
    entered: Entered,
}

/// What is written.
enum Write {
    Mutation(Mutation),
    Row(RowUpdate),
}

/// What a write has that is begun.
struct Entered {
    table: Rc<TableStore>,
    ticket: Option<Ticket>,
    /// What it may come to take of memory, in bytes.
    reserved: usize,
}

impl Store {
    /// No writes yet, with room for so many, which begin now.
    pub fn begin_writes(&self, count: usize, now: Instant) -> BegunWrites {
        BegunWrites {
            inner: self.inner.clone(),
            began: now,
            writes: VecDeque::with_capacity(count),
            near: 0,
        }
    }
}

impl BegunWrites {
    /// Begins a write of one partition; `Err`, with the write, if it has to wait for anything but the log, or to be
    /// told why it cannot be: [`Store::apply`] does both.
    pub fn begin(&mut self, mutation: Mutation) -> Result<(), Mutation> {
        match self.try_begin(&mutation) {
            Some(entered) => {
                let write = Write::Mutation(mutation);
                self.writes.push_back(Begun { write, entered });
                Ok(())
            }
            None => Err(mutation),
        }
    }

    /// The same, of one row that is laid out already.
    pub fn begin_row(&mut self, update: RowUpdate) -> Result<(), RowUpdate> {
        match self.try_begin_row(&update) {
            Some(entered) => {
                let write = Write::Row(update);
                self.writes.push_back(Begun { write, entered });
                Ok(())
            }
            None => Err(update),
        }
    }

    fn try_begin(&self, mutation: &Mutation) -> Option<Entered> {
        let [update] = &mutation.updates[..] else {
            return None;
        };
        let table = self.free_table(update.table.id)?;
        if check_fits(update).is_err() {
            return None;
        }
        let inner = &*self.inner;
        let has_indexes = !table.indexes.borrow().is_empty();
        let entries = has_indexes.then(|| inner.entries_of(mutation)).flatten();
        let bytes = most_growth_with(mutation, entries.as_ref());
        self.enter(table, bytes, || inner.log.append(mutation))
    }

    fn try_begin_row(&self, update: &RowUpdate) -> Option<Entered> {
        let table = self.free_table(update.table.id)?;
        // Rows that do not lie in one piece, and entries of indexes, are made of the usual form.
        if !update.row.suits_whole() || !table.indexes.borrow().is_empty() || !holds(update) {
            return None;
        }
        let bytes = most_growth_of_row(update);
        self.enter(table, bytes, || self.inner.log.append(update))
    }

    /// The table of an id, if nobody has to wait for it.
    fn free_table(&self, id: TableId) -> Option<Rc<TableStore>> {
        // Most are of one table: that of the write before.
        let last = self.writes.back().map(|begun| &begun.entered.table);
        let same = last.filter(|table| table.id() == id && !table.dropped.get());
        let table = same.cloned().or_else(|| self.inner.table(id))?;
        (!self.inner.closed.get() && !table.is_blocked()).then_some(table)
    }

    /// Enters a table with a write that may come to take so many bytes of memory.
    fn enter(
        &self,
        table: Rc<TableStore>,
        bytes: usize,
        append: impl FnOnce() -> Result<Ticket, AppendError>,
    ) -> Option<Entered> {
        let memory = &self.inner.memory;
        if !memory.lets_in(bytes, || self.inner.env.now()) {
            return None;
        }
        let ticket = match table.durable.get() {
            true => Some(append().ok()?),
            false => None,
        };
        memory.set_aside(bytes);
        table.enter();
        Some(Entered {
            table,
            ticket,
            reserved: bytes,
        })
    }

    /// Asks for the memory that the first ones are to be put into, side by side, as each would wait for it several times
    /// by itself; how many, one at least, or `None` if there are none.
    fn bring_near(&self) -> Option<usize> {
        let table = &self.writes.front()?.entered.table;
        // What is asked for too early is gone again when its turn comes.
        let nearest = self.writes.iter().take(TOGETHER);
        let keys = nearest.map_while(|begun| begun.key_of_row_in(table));
        let count = keys.clone().count();
        if count > 1 {
            table.active().bring_near(keys);
        }
        Some(count.max(1))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Waits until the next one is as durable as the configuration says, and makes it visible; `None` if there are no
    /// more. Nothing is lost if who waits gives up waiting and comes back.
    ///
    /// # Errors
    /// The commit log failed. The write is given up then.
    pub async fn next(&mut self) -> Option<Result<(), WriteError>> {
        let inner = &*self.inner;
        let acknowledged = match self.writes.front()?.entered.ticket {
            Some(ticket) => inner.log.acknowledge(ticket).await,
            None => Ok(()),
        };
        if self.near == 0 {
            self.near = self.bring_near()?;
        }
        self.near -= 1;
        let write = self.writes.pop_front()?;
        if let Err(error) = acknowledged {
            write.entered.give_up(inner);
            return Some(Err(error.into()));
        }
        let latency = inner.env.now() - self.began;
        let counters = &write.entered.table.counters;
        counters.write_latency.add(latency.as_micros() as u64);
        write.finish(inner);
        Some(Ok(()))
    }
}

impl Begun {
    /// The key of its partition, if it is a row of this table.
    fn key_of_row_in(&self, table: &Rc<TableStore>) -> Option<&DecoratedKey> {
        match &self.write {
            Write::Row(update) if Rc::ptr_eq(&self.entered.table, table) => Some(&update.key),
            _ => None,
        }
    }

    fn finish(self, inner: &Inner) {
        let Entered {
            table,
            ticket,
            reserved,
        } = self.entered;
        match self.write {
            Write::Mutation(mutation) => {
                for update in mutation.updates {
                    inner.enter_memtable(&table, update, ticket);
                }
            }
            Write::Row(update) => inner.enter_row(&table, update, ticket),
        }
        inner.memory.give_back(reserved);
        inner.relieve();
    }
}

impl Entered {
    fn give_up(self, inner: &Inner) {
        inner.give_up(&self.table, self.ticket);
        inner.memory.give_back(self.reserved);
    }
}

impl Drop for BegunWrites {
    fn drop(&mut self) {
        for write in self.writes.drain(..) {
            write.entered.give_up(&self.inner);
        }
    }
}
