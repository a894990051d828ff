//! What can be wrong with an sstable.

use std::path::{Path, PathBuf};

/// Why bytes do not decode. Knows nothing of files: [`SSTableError`] says which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The input ends before the thing does. Where more input may come, try again with more.
    #[error("it ends too early")]
    Incomplete,
    /// The bytes cannot be what they should be.
    #[error("{0}")]
    Invalid(&'static str),
}

/// An sstable cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum SSTableError {
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// How.
        source: std::io::Error,
    },
    /// A component without which the sstable cannot be read is not there.
    #[error("{} is missing; restore it from a backup or remove the other files of this sstable", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{} is damaged at offset {offset}: {what}", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where in the file (for compressed data: where the chunk starts).
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The file is of a kind that cannot be read.
    #[error("{} cannot be read: {what}", path.display())]
    Unsupported {
        /// Which file.
        path: PathBuf,
        /// What it has that is not known.
        what: String,
    },
}

impl SSTableError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> SSTableError {
        if source.kind() == std::io::ErrorKind::NotFound {
            return SSTableError::Missing {
                path: path.to_owned(),
            };
        }
        SSTableError::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> SSTableError {
        SSTableError::Corrupt {
            path: path.to_owned(),
            offset,
            what: what.into(),
        }
    }

    /// The file that it speaks of.
    pub fn path(&self) -> &Path {
        match self {
            SSTableError::Io { path, .. }
            | SSTableError::Missing { path }
            | SSTableError::Corrupt { path, .. }
            | SSTableError::Unsupported { path, .. } => path,
        }
    }

    /// Is it about the content of the file, so that trying again is of no use?
    pub fn is_corruption(&self) -> bool {
        matches!(self, SSTableError::Corrupt { .. })
    }
}

/// An sstable cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// How.
        source: std::io::Error,
    },
    /// What was appended cannot be written: the writer's caller broke a rule.
    #[error("{}: {what}", path.display())]
    Invalid {
        /// Which sstable.
        path: PathBuf,
        /// Which rule.
        what: String,
    },
}
