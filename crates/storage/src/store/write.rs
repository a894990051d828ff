//! The way of a write: memory, the commit log, the memtable.

use std::rc::Rc;
use std::sync::Arc;

use model::{Mutation, PartitionUpdate, RowUpdate, Table};
use smallvec::SmallVec;

use super::table::{TableStore, add};
use super::{Inner, Store};
use crate::commitlog::{AppendError, Ticket};
use crate::error::WriteError;
use crate::sstable::check_fits;

impl Store {
    /// Writes. When this returns, the write is as durable as `commitlog_sync` says, and visible.
    /// After an error of the commit log nobody knows whether it is; after the others it is not.
    pub async fn apply(&self, mutation: Mutation) -> Result<(), WriteError> {
        let inner = &*self.inner;
        let begun = inner.env.now();
        mutation.updates.iter().try_for_each(check_fits)?;
        let _memory = inner.admit(&mutation).await?;
        let write = Write::begin(inner, &mutation).await?;
        if let Some(ticket) = write.ticket {
            inner.log.acknowledge(ticket).await?;
        }
        let micros = (inner.env.now() - begun).as_micros() as u64;
        for table in &write.tables {
            table.counters.write_latency.add(micros);
        }
        write.finish(mutation);
        Ok(())
    }

    /// Writes. When this returns, the write is on the drive whatever `commitlog_sync` says, and visible: for what a
    /// node must know of itself after its power has failed. Errors are those of [`Store::apply`].
    pub async fn apply_to_drive(&self, mutation: Mutation) -> Result<(), WriteError> {
        self.apply(mutation).await?;
        if !self.inner.config.commitlog.sync.syncs_each_group() {
            self.inner.log.sync().await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Takes an update that is in the log, and has entered its table, into the memtable.
    pub(super) fn enter_memtable(
        &self,
        table: &TableStore,
        update: PartitionUpdate,
        ticket: Option<Ticket>,
    ) {
        let Some(schema) = self.arrive(table, ticket) else {
            return;
        };
        let segment = ticket.map(|ticket| ticket.segment);
        for index in table.indexes.borrow().iter() {
            self.add_entries(index, &update, segment);
        }
        let grown = table.active().apply(update, &schema, segment);
        self.memory.grow_active(grown);
    }

    /// The same, of a row that is laid out already.
    pub(super) fn enter_row(&self, table: &TableStore, update: RowUpdate, ticket: Option<Ticket>) {
        if !table.indexes.borrow().is_empty() {
            // There were none when it began.
            return self.enter_memtable(table, update.unpack(), ticket);
        }
        let Some(schema) = self.arrive(table, ticket) else {
            return;
        };
        let segment = ticket.map(|ticket| ticket.segment);
        let grown = table.active().apply_row(update, &schema, segment);
        self.memory.grow_active(grown);
    }

    /// Has an update that had entered its table arrive there; `None` if that was dropped since.
    fn arrive(&self, table: &TableStore, ticket: Option<Ticket>) -> Option<Arc<Table>> {
        if table.dropped.get() {
            self.give_up(table, ticket);
            return None;
        }
        table.leave();
        add(&table.counters.writes, 1);
        Some(table.table())
    }

    /// Has an update leave its table that had entered it, and gives back what it counted in the log.
    pub(super) fn give_up(&self, table: &TableStore, ticket: Option<Ticket>) {
        table.leave();
        if let Some(ticket) = ticket {
            let id = table.id();
            self.log.give_back(ticket.segment, id, 1);
        }
    }
}

/// A write between the log and the memtables. If its caller gives up before it is through, what
/// it counted is given back.
struct Write<'s> {
    inner: &'s Inner,
    tables: SmallVec<[Rc<TableStore>; 2]>,
    ticket: Option<Ticket>,
}

impl<'s> Write<'s> {
    /// Appends to the log.
    async fn begin(inner: &'s Inner, mutation: &Mutation) -> Result<Write<'s>, WriteError> {
        let mut write = Write {
            inner,
            tables: SmallVec::new(),
            ticket: None,
        };
        'again: loop {
            let mut tables: SmallVec<[Rc<TableStore>; 2]> = SmallVec::new();
            for update in &mutation.updates {
                let id = update.table.id;
                let table = inner.table(id).ok_or(WriteError::UnknownTable(id))?;
                if table.is_blocked() {
                    table.entrance().await;
                    continue 'again;
                }
                tables.push(table);
            }
            if inner.closed.get() {
                return Err(WriteError::Closed);
            }
            // Nothing gives way from here until all are entered.
            if tables.iter().any(|table| table.durable.get()) {
                let refused = |error: AppendError| {
                    add(&inner.counters.refused, 1);
                    WriteError::from(error)
                };
                match inner.log.append(mutation) {
                    Ok(ticket) => write.ticket = Some(ticket),
                    Err(AppendError::Overloaded) => {
                        // Boxed, as the state of a write that need not wait should be small.
                        Box::pin(inner.log.room()).await.map_err(refused)?;
                        continue 'again;
                    }
                    Err(error) => return Err(refused(error)),
                }
            }
            for table in &tables {
                table.enter();
            }
            write.tables = tables;
            return Ok(write);
        }
    }

    /// Takes the write into the memtables.
    fn finish(mut self, mutation: Mutation) {
        let ticket = self.ticket.take();
        for (update, table) in mutation.updates.into_iter().zip(&self.tables) {
            self.inner.enter_memtable(table, update, ticket);
        }
        self.tables.clear();
        self.inner.relieve();
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        for table in self.tables.drain(..) {
            self.inner.give_up(&table, self.ticket);
        }
    }
}
