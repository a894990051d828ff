//! The folder a node keeps everything in, and the lock that keeps a second node out of it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the lock file. The kernel lets go of the lock when its process ends, however.
const LOCK_FILE: &str = "helenus.lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataFolderError {
    /// It cannot be made or written to.
    #[error("cannot use the data folder {path}: {source}", path = .path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another node has it.
    #[error(
        "the data folder {path} is locked by another node ({holder}): stop that one, or choose \
         another folder with --data",
        path = .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Which process holds it, as it says.
        holder: String,
    },
}

/// A data folder that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if need be, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<DataFolder, DataFolderError> {
        let unusable = |source| DataFolderError::Unusable {
            path: path.to_owned(),
            source,
        };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        let file = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&file)
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(&file).unwrap_or_default();
                return Err(DataFolderError::Locked {
                    path,
                    holder: match holder.trim() {
                        "" => "process unknown".to_owned(),
                        id => format!("process {id}"),
                    },
                });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        lock.set_len(0).map_err(unusable)?;
        writeln!(lock, "{}", std::process::id()).map_err(unusable)?;
        Ok(DataFolder { path, _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_once() {
        let path = std::env::temp_dir().join(format!("helenus-folder-{}", std::process::id()));
        let first = DataFolder::lock(&path.join("deep/er")).expect("it is free");
        let second = DataFolder::lock(&path.join("deep/er")).expect_err("it is taken");
        let expected = format!("locked by another node (process {})", std::process::id());
        assert!(second.to_string().contains(&expected), "{second}");
        drop(first);
        DataFolder::lock(&path.join("deep/er")).expect("it is free again");
        std::fs::remove_dir_all(&path).expect("it can be removed");
    }

    #[test]
    fn a_file_in_its_place_is_an_error_that_names_it() {
        let path = std::env::temp_dir().join(format!("helenus-file-{}", std::process::id()));
        std::fs::write(&path, "x").expect("it can be written");
        let error = DataFolder::lock(&path).expect_err("it is no folder");
        assert!(error.to_string().contains("helenus-file-"), "{error}");
        std::fs::remove_file(&path).expect("it can be removed");
    }
}
