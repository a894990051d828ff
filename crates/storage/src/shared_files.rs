//! Files that all shards of a process read and only the last of them may remove.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use crate::commitlog::Archive;
use crate::health::{FailurePolicies, Health};
use crate::space::Space;

/// Who has let go of which file. One for all shards of a process, given to each store.
///
/// A commit-log segment or an sstable that was written for another number of shards belongs to
/// all shards of today. Each lets go of it when it needs it no more; the last one removes it.
/// Nothing of this is kept on disk: after a restart all shards open the file again and let go of
/// it again. What it holds twice does no harm, because as long as the file is there no deletion is
/// purged that shadows anything in it, and no younger segment of the log is removed.
///
/// A path tells which file is meant because no name is given twice in a folder as long as its table
/// lives; with the table all that is known of its folder is forgotten, for another life of it begins
/// to count anew.
#[derive(Debug, Default)]
pub struct SharedFiles {
    files: Mutex<BTreeMap<PathBuf, File>>,
    /// What became of the drives.
    pub health: Health,
    /// Segments of the commit log that are copied before they go.
    pub archive: Archive,
    /// Room on the drive that compactions were promised.
    pub(crate) space: Space,
    /// How many shards have a commit log that the drive has no room for.
    pub(crate) starved_logs: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
struct File {
    let_go: u64,
    gone: bool,
}

impl SharedFiles {
    /// Nothing is shared yet; what fails is judged by these policies, and segments are copied
    /// before they go if `archives`.
    pub fn new(policies: FailurePolicies, archives: bool) -> SharedFiles {
        SharedFiles {
            health: Health::new(policies),
            archive: Archive::new(archives),
            ..SharedFiles::default()
        }
    }

    /// One more shard of `shards` lets go of `path`, each at most once. Is it the last one, which
    /// has to remove the file?
    #[must_use]
    pub fn let_go(&self, path: &Path, shards: u16) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.entry(path.to_owned()).or_default();
        file.let_go += 1;
        file.let_go >= u64::from(shards)
    }

    /// The last shard has removed the file.
    pub fn removed(&self, path: &Path) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(path.to_owned()).or_default().gone = true;
    }

    /// The last shard has dropped the table of this folder: whatever has such paths from now on is
    /// something else.
    pub fn forget_folder(&self, dir: &Path) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|path, _| !path.starts_with(dir));
    }

    /// Has the last shard removed the file?
    pub fn is_gone(&self, path: &Path) -> bool {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).is_some_and(|file| file.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_forgotten_with_all_that_is_in_it() {
        let shared = SharedFiles::default();
        let paths = [
            "/d/ks/t-1",
            "/d/ks/t-1/nb-2-big-Data.db",
            "/d/ks/t-11/nb-2-big-Data.db",
        ];
        for path in paths.map(Path::new) {
            assert!(!shared.let_go(path, 2));
            assert!(shared.let_go(path, 2));
            shared.removed(path);
        }
        shared.forget_folder(Path::new("/d/ks/t-1"));
        assert_eq!(
            paths.map(|path| shared.is_gone(Path::new(path))),
            [false, false, true]
        );
        for path in &paths[..2] {
            assert!(!shared.let_go(Path::new(path), 2), "it begins anew");
        }
    }
}
