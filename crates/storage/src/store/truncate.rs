//! TRUNCATE: a table of this shard becomes empty, for good.
//!
//! Writes are held off and those under way awaited. Then the truncation is noted beside the commit
//! log; from there on it has happened, also if the machine stops: a start removes the sstables the
//! note covers and replays nothing that it covers. Then memory is emptied and the files go. When the
//! last of them is gone that is noted too: what a start finds under their names from then on, somebody
//! has put back.

use std::rc::Rc;

use model::TableId;

use super::table::TableStore;
use super::{Inner, Store};
use crate::commitlog::Truncation;
use crate::error::TruncateError;

impl Store {
    /// Empties a table.
    pub async fn truncate(&self, table: TableId) -> Result<(), TruncateError> {
        let inner = &self.inner;
        let table = inner
            .table(table)
            .ok_or(TruncateError::UnknownTable(table))?;
        table.block().await;
        let mut result = inner.truncate(&table).await;
        // Entries without rows are stale, rows without entries would not be found: the table goes first.
        let indexes = table.indexes.borrow().clone();
        for index in indexes.iter() {
            if result.is_err() {
                break;
            }
            index.entries.block().await;
            result = inner.truncate(&index.entries).await;
            index.entries.unblock();
        }
        table.unblock();
        // A flush that ended while the indexes were emptied could not say so of a blocked table.
        if result.is_ok() {
            inner.finish_truncation(&table).await;
        }
        result
    }
}

impl Inner {
    async fn truncate(&self, table: &Rc<TableStore>) -> Result<(), TruncateError> {
        let sstables = Some(table.last_generation());
        let saved = self.note_truncation(table, sstables).await;
        saved.map_err(|error| TruncateError::Io {
            path: self.config.commitlog_dir.clone(),
            error,
        })?;
        self.remove_content(table).await?;
        self.finish_truncation(table).await;
        Ok(())
    }

    /// Notes that a blocked table has nothing of before now, and up to which generation its sstables
    /// have still to go, if they have.
    async fn note_truncation(
        &self,
        table: &TableStore,
        generation: Option<u64>,
    ) -> std::io::Result<()> {
        let truncation = Truncation {
            position: self.log.position(),
            generation: generation.unwrap_or(0),
            at: self.env.wall_micros(),
            unfinished: generation.is_some(),
        };
        self.truncations.borrow_mut()[0].note(table.id(), truncation);
        self.save_truncations().await
    }

    /// Notes that nothing of a dropped table is to be replayed: its segments may be there as long as
    /// others need them, and one with its id may come. (Cassandra has them go at once:
    /// `CommitLog.forceRecycleAllSegments`.) Of sstables the note says nothing: its folder goes.
    pub(super) async fn note_drop(&self, table: &TableStore) {
        if let Err(error) = self.note_truncation(table, None).await {
            tracing::warn!("noting beside the commit log that a table was dropped: {error}");
        }
    }

    /// May there be an sstable of before its truncation in the table's folder? A flush that began
    /// before is removed when it is through, and of what failed half-way nobody knows here.
    fn may_have_truncated(table: &TableStore) -> bool {
        table.flushing_now.get() || table.strays.get()
    }

    /// Notes that nothing is left of a table that was truncated, once nothing is.
    pub(super) async fn finish_truncation(&self, table: &TableStore) {
        if Self::may_have_truncated(table) {
            return;
        }
        let id = table.id();
        let Some(unfinished) = self.truncations.borrow_mut()[0].finish(id) else {
            return;
        };
        if let Err(error) = self.save_truncations().await {
            tracing::warn!("noting the end of a truncation beside the commit log: {error}");
            self.truncations.borrow_mut()[0].reopen(id, &unfinished);
        }
    }

    /// The same of all tables, in memory; was there something to note?
    pub(super) fn finish_truncations(&self) -> bool {
        let is_gone = |id| {
            let table = self.table(id);
            table.is_none_or(|table| !table.is_blocked() && !Self::may_have_truncated(&table))
        };
        self.truncations.borrow_mut()[0].finish_all(is_gone)
    }

    /// Writes what this shard has noted to its file, one after the other: a file that is being
    /// written must not be renamed by somebody else, and the last to write must know all.
    pub(super) async fn save_truncations(&self) -> std::io::Result<()> {
        let _one_at_a_time = self.truncations_file.acquire(1).await;
        let own = {
            let own = &mut self.truncations.borrow_mut()[0];
            own.note_given_up(self.log.given_up());
            // All of it is written each time: of who makes and drops tables all day it has those that the log knows. What
            // is archived may come back, with older segments.
            if self.ready.get() && !self.config.shared.archive.is_enabled() {
                own.forget_before(self.log.oldest_segment());
            }
            own.clone()
        };
        let dir = self.config.commitlog_dir.clone();
        own.save(&self.env, &dir).await
    }
}
