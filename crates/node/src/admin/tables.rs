//! Operations on tables.

use std::rc::Rc;
use std::sync::Arc;

use model::TableId;
use storage::FlushError;

use super::{Admin, AdminError};
use crate::shard::Shard;

impl Admin {
    /// Writes the memtables of tables to sstables: of all, of a keyspace, or of some of it.
    pub fn flush(&self, keyspace: Option<&str>, tables: &[String]) -> Result<(), AdminError> {
        let tables: Arc<[TableId]> = self.table_ids(keyspace, tables)?.into();
        self.try_everywhere(move |shard: Rc<Shard>| {
            let tables = tables.clone();
            async move {
                for table in &*tables {
                    match shard.store.flush(Some(*table)).await {
                        // It was dropped meanwhile.
                        Ok(()) | Err(FlushError::UnknownTable(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        })?;
        Ok(())
    }
}
