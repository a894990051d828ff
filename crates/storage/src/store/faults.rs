//! What the store does about a drive that fails and about files that turn out to be damaged,
//! whoever meets it: a read, a flush, a compaction, an import, a look at all there is.
//!
//! The process is told ([`crate::health`]). The sstable that cannot be read is a suspect from then
//! on: no strategy chooses it until it is scrubbed or the node starts again (Cassandra's
//! `markSuspect`), or its compaction would fail again and again. With `best_effort`, and if it is
//! the drive that refuses, the table goes without the sstable: reads show what is left
//! (Cassandra's `removeUnreadableSSTables`). Its files stay as they are, and nothing of the table
//! is purged until the next start, which tries to open it again.

use std::fmt::Display;
use std::io;
use std::path::Path;

use super::Inner;
use super::import::ImportError;
use super::table::{TableStore, Unreadable};
use crate::error::CompactionError;
use crate::health::DiskFailure;
use crate::sstable::{Component, Descriptor, SSTable, SSTableError, WriteError};

impl Inner {
    /// An sstable of a table cannot be read. Will nobody meet it again by himself?
    pub(super) fn reading_failed(&self, table: &TableStore, error: &SSTableError) -> bool {
        self.tell_of(error);
        self.isolate(table, error)
    }

    /// Tells the process of what reading met.
    pub(super) fn tell_of(&self, error: &SSTableError) {
        let failure = match error {
            SSTableError::Io { .. } => DiskFailure::Reading,
            SSTableError::Missing { .. } | SSTableError::Corrupt { .. } => DiskFailure::Damaged,
            SSTableError::Unsupported { .. } => return,
        };
        let health = &self.config.shared.health;
        health.disk_failed(failure, &error.to_string());
    }

    /// Is this what a table goes without, as the policy says?
    pub(super) fn goes_without(&self, error: &SSTableError) -> bool {
        let refused = matches!(error, SSTableError::Io { .. });
        refused && self.config.shared.health.goes_without()
    }

    /// Sees to it that an sstable that cannot be read is not met again and again, if it is known
    /// which one it is.
    pub(super) fn isolate(&self, table: &TableStore, error: &SSTableError) -> bool {
        let Some(sstable) = of_table(table, error) else {
            return false;
        };
        let descriptor = sstable.descriptor().clone();
        let data = descriptor.path(Component::Data);
        let data = data.display();
        if self.goes_without(error) {
            tracing::error!("{data} is left out, what is in it is not seen: {error}");
            let gone = std::slice::from_ref(&sstable);
            table.replace_sstables(gone, Vec::new(), self.env.wall_seconds());
            table.add_unreadable(Unreadable {
                sstable: Some((descriptor, sstable.origin())),
                error: None,
            });
        } else if table.suspect(&descriptor) {
            tracing::error!(
                "{data} is not compacted until it is scrubbed or the node starts again: {error}"
            );
        }
        true
    }

    /// Something in the data folder cannot be written, made or removed.
    pub(super) fn writing_failed(&self, error: &io::Error, what: &dyn Display) {
        if let Some(failure) = DiskFailure::of_writing(error) {
            let health = &self.config.shared.health;
            health.disk_failed(failure, &what.to_string());
        }
    }

    /// A compaction failed. Will the next one not meet what this one met?
    pub(super) fn compaction_failed(&self, table: &TableStore, error: &CompactionError) -> bool {
        match error {
            CompactionError::Read(error) => return self.reading_failed(table, error),
            CompactionError::Write(WriteError::Io { source, .. })
            | CompactionError::Io { error: source, .. } => self.writing_failed(source, error),
            CompactionError::Folder(folder) => self.writing_failed(&folder.source, error),
            CompactionError::Cancelled => return true,
            _ => {}
        }
        false
    }

    /// An import failed. What is wrong with files elsewhere says nothing about the drive of the data
    /// folder.
    pub(super) fn import_failed(&self, error: &ImportError) {
        let is_ours = |path: &Path| path.starts_with(&self.config.sstables);
        match error {
            ImportError::SSTable(error) if is_ours(error.path()) => self.tell_of(error),
            ImportError::Io {
                path,
                error: source,
            } if is_ours(path) => {
                self.writing_failed(source, error);
            }
            _ => {}
        }
    }
}

/// The sstable of a table that an error speaks of, if it is still part of it.
fn of_table(table: &TableStore, error: &SSTableError) -> Option<SSTable> {
    let path = error.path();
    let name = path.file_name()?.to_str()?;
    let (descriptor, _) = Descriptor::parse(path.parent()?, name)?;
    let sstables = table.sstables();
    let mut all = sstables.iter();
    all.find(|sstable| *sstable.descriptor() == descriptor)
        .cloned()
}
