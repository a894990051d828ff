//! The folder a node keeps everything in, and the lock that keeps a second node out of it.
//!
//! In it are `data`, with the sstables, and `commitlog`, as Cassandra's packages lay it out. A
//! folder of a Cassandra that was laid out in another way is recognised by the `system_schema`
//! that is among its keyspaces: `--data` may name the folder of the keyspaces itself, or one that
//! has it as `sstables`. The commit log is beside it then.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The name of the lock file. The kernel lets go of the lock when its process ends, however.
pub(crate) const LOCK_FILE: &str = "helenus.lock";

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
    /// Where the keyspaces with their sstables are.
    pub(crate) sstables: PathBuf,
    /// Where the commit log is.
    pub(crate) commitlog: PathBuf,
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
        let (sstables, commitlog) = lay_out(&path);
        Ok(DataFolder {
            path,
            sstables,
            commitlog,
            _lock: lock,
        })
    }
}

/// A keyspace that every folder of sstables has.
const SCHEMA: &str = "system_schema";
const COMMITLOG: &str = "commitlog";

/// Where in a data folder the keyspaces are, and where the commit log is.
fn lay_out(path: &Path) -> (PathBuf, PathBuf) {
    let usual = path.join("data");
    let possible = [
        usual.clone(),
        path.join("sstables"),
        usual.join("sstables"),
        path.to_owned(),
    ];
    let found = possible.into_iter().find(|dir| dir.join(SCHEMA).is_dir());
    let sstables = found.unwrap_or(usual);
    let beside = sstables.with_file_name(COMMITLOG);
    // Outside of the folder nothing is made.
    let commitlog = if sstables == path && !beside.is_dir() {
        path.join(COMMITLOG)
    } else {
        beside
    };
    (sstables, commitlog)
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
        // A process that another test starts has the lock, too, until it is a program of its own.
        let mut again = (0..100).map(|_| {
            std::thread::park_timeout(std::time::Duration::from_millis(10));
            DataFolder::lock(&path.join("deep/er"))
        });
        assert!(again.any(|again| again.is_ok()), "it is free again");
        std::fs::remove_dir_all(&path).expect("it can be removed");
    }

    #[test]
    fn folders_of_cassandra_are_recognised() {
        let path = std::env::temp_dir().join(format!("helenus-layout-{}", std::process::id()));
        let expected = |at: &str, log: &str| (path.join(at), path.join(log));
        assert_eq!(lay_out(&path), expected("data", "commitlog"));
        for (schema, folder, sstables, log) in [
            ("a/data/system_schema", "a", "a/data", "a/commitlog"),
            ("b/sstables/system_schema", "b", "b/sstables", "b/commitlog"),
            (
                "c/data/sstables/system_schema",
                "c",
                "c/data/sstables",
                "c/data/commitlog",
            ),
            ("d/x/system_schema", "d/x", "d/x", "d/x/commitlog"),
            ("e/x/system_schema", "e/x", "e/x", "e/commitlog"),
        ] {
            std::fs::create_dir_all(path.join("e/commitlog")).expect("it can be made");
            std::fs::create_dir_all(path.join(schema)).expect("it can be made");
            assert_eq!(lay_out(&path.join(folder)), expected(sstables, log));
        }
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
