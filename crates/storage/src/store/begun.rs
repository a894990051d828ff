//! Writes that wait for nothing but the commit log. They are begun where they are made, several in a row, and one task
//! waits for all of them: a write that had a task of its own, and the state of all that it might have had to wait for,
//! would cost twice as much.

use std::collections::VecDeque;
use std::rc::Rc;

use io::Instant;
use model::Mutation;

use super::memory::most_growth_with;
use super::table::TableStore;
use super::{Inner, Store};
use crate::commitlog::Ticket;
use crate::error::WriteError;
use crate::sstable::check_fits;

/// Writes between the log and the memtables, in the order in which they were begun. Who drops them gives up those that
/// are left: they are not visible, but may be after a restart.
pub struct BegunWrites {
    inner: Rc<Inner>,
    began: Instant,
    writes: VecDeque<Begun>,
}

struct Begun {
    table: Rc<TableStore>,
    mutation: Mutation,
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
        }
    }
}

impl BegunWrites {
    /// Begins a write of one partition; `Err`, with the write, if it has to wait for anything but the log, or to be
    /// told why it cannot be: [`Store::apply`] does both.
    pub fn begin(&mut self, mutation: Mutation) -> Result<(), Mutation> {
        match self.try_begin(&mutation) {
            Some((table, ticket, reserved)) => {
                self.writes.push_back(Begun {
                    table,
                    mutation,
                    ticket,
                    reserved,
                });
                Ok(())
            }
            None => Err(mutation),
        }
    }

    fn try_begin(&self, mutation: &Mutation) -> Option<(Rc<TableStore>, Option<Ticket>, usize)> {
        let inner = &*self.inner;
        let [update] = &mutation.updates[..] else {
            return None;
        };
        let table = inner.table(update.table.id)?;
        if inner.closed.get() || table.is_blocked() || check_fits(update).is_err() {
            return None;
        }
        let has_indexes = !table.indexes.borrow().is_empty();
        let entries = has_indexes.then(|| inner.entries_of(mutation)).flatten();
        let bytes = most_growth_with(mutation, entries.as_ref());
        if !inner.memory.is_plentiful(bytes) {
            return None;
        }
        let ticket = match table.durable.get() {
            true => Some(inner.log.append(mutation).ok()?),
            false => None,
        };
        inner.memory.set_aside(bytes);
        table.enter();
        Some((table, ticket, bytes))
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
        let acknowledged = match self.writes.front()?.ticket {
            Some(ticket) => inner.log.acknowledge(ticket).await,
            None => Ok(()),
        };
        let write = self.writes.pop_front()?;
        if let Err(error) = acknowledged {
            write.give_up(inner);
            return Some(Err(error.into()));
        }
        let latency = inner.env.now() - self.began;
        write
            .table
            .counters
            .write_latency
            .add(latency.as_micros() as u64);
        write.finish(inner);
        Some(Ok(()))
    }
}

impl Begun {
    fn finish(self, inner: &Inner) {
        for update in self.mutation.updates {
            inner.enter_memtable(&self.table, update, self.ticket);
        }
        inner.memory.give_back(self.reserved);
        inner.relieve();
    }

    fn give_up(self, inner: &Inner) {
        inner.give_up(&self.table, self.ticket);
        inner.memory.give_back(self.reserved);
    }
}

impl Drop for BegunWrites {
    fn drop(&mut self) {
        for write in self.writes.drain(..) {
            write.give_up(&self.inner);
        }
    }
}
