//! TRUNCATE: a table of this shard becomes empty, for good.
//!
//! Writes are held off and those under way awaited. Then the truncation is noted beside the commit
//! log; from there on it has happened, also if the machine stops: a start removes the sstables the
//! note covers and replays nothing that it covers. Then memory is emptied and the files go.

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
        let result = inner.truncate(&table).await;
        table.unblock();
        result
    }
}

impl Inner {
    async fn truncate(&self, table: &Rc<TableStore>) -> Result<(), TruncateError> {
        let id = table.table().id;
        let truncation = Truncation {
            position: self.log.position(),
            generation: table.last_generation(),
        };
        self.truncations.borrow_mut()[0].note(id, truncation);
        let saved = self.save_truncations().await;
        saved.map_err(|error| TruncateError::Io {
            path: self.config.commitlog_dir.clone(),
            error,
        })?;
        let removed = self.remove_content(table).await;
        // Of a compaction that failed half-way a start may bring back what nobody knows of here.
        if removed.is_err() || table.strays.get() {
            self.half_truncated.set(true);
        }
        Ok(removed?)
    }

    /// Writes what this shard has noted to its file, one after the other: a file that is being
    /// written must not be renamed by somebody else, and the last to write must know all.
    pub(super) async fn save_truncations(&self) -> std::io::Result<()> {
        let _one_at_a_time = self.truncations_file.acquire(1).await;
        let own = self.truncations.borrow()[0].clone();
        let dir = self.config.commitlog_dir.clone();
        own.save(&self.env, &dir).await
    }
}
