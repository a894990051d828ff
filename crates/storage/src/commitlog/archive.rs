//! Full segments that are copied elsewhere before they go.
//!
//! Shards say which segments are full; whoever runs the process has them copied, away from the
//! shards, and says when. Until then a segment is neither used again nor removed
//! (`CommitLogArchiver.maybeWaitForArchiving`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The segments of all shards that wait to be copied, or were.
#[derive(Debug, Default)]
pub struct Archive {
    enabled: bool,
    /// By file: was it copied?
    segments: Mutex<BTreeMap<PathBuf, bool>>,
}

impl Archive {
    /// Segments are copied before they go, if `enabled`.
    pub fn new(enabled: bool) -> Archive {
        Archive {
            enabled,
            ..Archive::default()
        }
    }

    /// Are segments copied?
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A segment is full, on the drive, and does not change any more.
    pub(crate) fn is_full(&self, path: &Path) {
        if self.enabled {
            self.with(|segments| {
                segments.entry(path.to_owned()).or_insert(false);
            });
        }
    }

    /// An earlier run left a segment, or it was brought back from where it had been copied to. Whoever
    /// runs the process has seen to it before the start.
    pub(crate) fn was_found(&self, path: &Path) {
        if self.enabled {
            self.with(|segments| segments.insert(path.to_owned(), true));
        }
    }

    /// May a segment go?
    pub(crate) fn may_go(&self, path: &Path) -> bool {
        !self.enabled || self.with(|segments| segments.get(path) == Some(&true))
    }

    /// A segment went.
    pub(crate) fn went(&self, path: &Path) {
        if self.enabled {
            self.with(|segments| segments.remove(path));
        }
    }

    /// The segments to copy now, the oldest names first.
    pub fn waiting(&self) -> Vec<PathBuf> {
        self.with(|segments| {
            let waiting = segments.iter().filter(|(_, copied)| !**copied);
            waiting.map(|(path, _)| path.clone()).collect()
        })
    }

    /// A segment was copied.
    pub fn is_copied(&self, path: &Path) {
        self.with(|segments| {
            if let Some(copied) = segments.get_mut(path) {
                *copied = true;
            }
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<PathBuf, bool>) -> T) -> T {
        act(&mut self.segments.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Is this the name of a commit log's file, ours or Cassandra's?
pub fn is_commitlog_file(name: &str) -> bool {
    super::SegmentName::parse(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_goes_once_it_is_copied() {
        let path = Path::new("/d/helenus-0of1-000000000001.log");
        let none = Archive::default();
        none.is_full(path);
        assert!(none.may_go(path) && none.waiting().is_empty());
        let archive = Archive::new(true);
        assert!(!archive.may_go(path), "nobody has seen it full");
        archive.is_full(path);
        assert_eq!(archive.waiting(), [path]);
        archive.is_copied(path);
        archive.is_full(path);
        assert!(archive.may_go(path) && archive.waiting().is_empty());
        archive.went(path);
        archive.is_copied(path);
        assert!(archive.waiting().is_empty());
        archive.was_found(path);
        assert!(archive.may_go(path) && archive.waiting().is_empty());
    }
}
