//! Incremental backups: each sstable that comes into existence by a flush or an import is linked
//! into the folder `backups` of its table, where it stays when compaction removes it from the table
//! (Cassandra's `Tracker.maybeIncrementallyBackup`). What a compaction writes holds nothing new.

use std::rc::Rc;

use super::table::TableStore;
use super::{Inner, Store};
use crate::sstable::SSTable;

/// The folder of backups in that of a table.
pub(super) const BACKUPS: &str = "backups";

impl Store {
    /// Are sstables that come into existence linked into the backups from now on?
    pub fn set_incremental_backups(&self, on: bool) {
        self.inner.incremental_backups.set(on);
    }

    /// Are they now?
    pub fn incremental_backups(&self) -> bool {
        self.inner.incremental_backups.get()
    }
}

impl Inner {
    /// Links a new sstable into the backups, if that is wanted of the node and of the table. Where
    /// it fails that is said: the data itself is safe.
    pub(super) async fn back_up(&self, table: &Rc<TableStore>, sstables: &[SSTable]) {
        if !self.incremental_backups.get() || !table.table().options.incremental_backups {
            return;
        }
        let dir = table.dir.join(BACKUPS);
        let sstables: Vec<_> = sstables.iter().map(|s| s.descriptor().clone()).collect();
        if let Err(error) = self.link_sstables(table, &sstables, &dir).await {
            tracing::error!("a new sstable is missing in the incremental backups: {error}");
        }
    }
}
