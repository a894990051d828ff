//! What is done to files by name: folders, renaming, removing, locks.

use std::io;
use std::path::{Path, PathBuf};

use crate::driver::file::real;
use crate::driver::removal;
use crate::env::{Backend, Env};
use crate::sim::{SimLock, on_disk};

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name within the folder.
    pub name: String,
    /// Is it a folder itself?
    pub is_dir: bool,
    /// Its length in bytes if it is a file.
    pub len: u64,
    /// When its content was changed last, in microseconds since 1970; 0 for folders and where the
    /// file system does not know.
    pub modified_micros: i64,
}

/// A file that this process alone has locked. Dropping it, or the end of the process, unlocks it.
#[derive(Debug)]
pub struct FileLock {
    _kind: LockKind,
}

#[derive(Debug)]
enum LockKind {
    Real { _file: std::fs::File },
    Sim { _lock: SimLock },
}

/// The bytes of a file system.
struct Space {
    /// That can still be written.
    available: u64,
    total: u64,
}

impl Env {
    async fn blocking<T: Send + 'static>(
        &self,
        path: &Path,
        job: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = path.to_owned();
        real(self).pool.run(move || job(&path)).await
    }

    /// Makes a folder and all above it that are missing. A folder that is there is no error.
    pub async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => {
                self.blocking(path, |path| std::fs::create_dir_all(path))
                    .await
            }
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.create_dir_all(path)).await,
        }
    }

    /// What is in a folder, sorted by name. Names that are not UTF-8 are left out.
    pub async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, read_dir_blocking).await,
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.read_dir(path)).await,
        }
    }

    /// Gives a file or folder another name, replacing the file that has it. What is seen by that
    /// name is at any time the old or the new one; which of them after a crash is certain only once
    /// [`Env::sync_dir`] of both folders has returned.
    pub async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => {
                let to = to.to_owned();
                self.blocking(from, move |from| std::fs::rename(from, to))
                    .await
            }
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.rename(from, to)).await,
        }
    }

    /// Removes a file's name. The file goes with its last name and its last handle, a piece at a time.
    pub async fn remove_file(&self, path: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, removal::remove_file).await,
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.remove_file(path)).await,
        }
    }

    /// The same, if there is such a file.
    pub async fn remove_file_if_there(&self, path: &Path) -> io::Result<()> {
        match self.remove_file(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Removes a folder and all that is in it.
    pub async fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, removal::remove_dir_all).await,
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.remove_dir_all(path)).await,
        }
    }

    /// Waits until the drive has the names in a folder: those that were made, changed, removed.
    pub async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => {
                let sync = |path: &Path| std::fs::File::open(path)?.sync_all();
                self.blocking(path, sync).await
            }
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.sync_dir(path)).await,
        }
    }

    /// Is there a file or folder of this name?
    pub async fn exists(&self, path: &Path) -> io::Result<bool> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, Path::try_exists).await,
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| Ok(disk.exists(path))).await,
        }
    }

    /// May this process list a folder, make files in it and remove them?
    pub async fn may_write_dir(&self, path: &Path) -> io::Result<bool> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, may_write_dir_blocking).await,
            // Nobody else uses a simulated disk.
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| Ok(disk.exists(path))).await,
        }
    }

    /// The absolute path of a file or folder that is there, without links on the way.
    pub async fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        match &self.inner.backend {
            Backend::Real(_) => self.blocking(path, |path| path.canonicalize()).await,
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.canonical(path)).await,
        }
    }

    /// Gives a file one more name.
    pub async fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.inner.backend {
            Backend::Real(_) => {
                let to = to.to_owned();
                self.blocking(from, move |from| std::fs::hard_link(from, to))
                    .await
            }
            Backend::Sim(sim) => on_disk(self, sim, |disk, _| disk.hard_link(from, to)).await,
        }
    }

    /// How many bytes can still be written to the file system that holds `path`.
    pub async fn available_space(&self, path: &Path) -> io::Result<u64> {
        Ok(self.space(path).await?.available)
    }

    /// How many bytes the file system that holds `path` has, used or not.
    pub async fn total_space(&self, path: &Path) -> io::Result<u64> {
        Ok(self.space(path).await?.total)
    }

    async fn space(&self, path: &Path) -> io::Result<Space> {
        match &self.inner.backend {
            Backend::Real(_) => {
                self.blocking(path, |path| {
                    let stat = rustix::fs::statvfs(path)?;
                    Ok(Space {
                        available: stat.f_bavail.saturating_mul(stat.f_frsize),
                        total: stat.f_blocks.saturating_mul(stat.f_frsize),
                    })
                })
                .await
            }
            Backend::Sim(sim) => {
                on_disk(self, sim, |disk, _| {
                    Ok(Space {
                        available: disk.available(),
                        total: disk.capacity,
                    })
                })
                .await
            }
        }
    }

    /// Locks a file for this process, making it if need be. An error of kind `WouldBlock` if another
    /// has it.
    pub async fn lock_file(&self, path: &Path) -> io::Result<FileLock> {
        let kind = match &self.inner.backend {
            Backend::Real(_) => LockKind::Real {
                _file: self.blocking(path, lock_blocking).await?,
            },
            Backend::Sim(sim) => {
                on_disk(self, sim, |disk, _| disk.lock(path)).await?;
                LockKind::Sim {
                    _lock: SimLock::new(sim, path),
                }
            }
        };
        Ok(FileLock { _kind: kind })
    }
}

fn may_write_dir_blocking(path: &Path) -> io::Result<bool> {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    match access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read_dir_blocking(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Followed, because people link data folders to other drives.
        let metadata = match std::fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            // Gone since, or a link to nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_dir = metadata.is_dir();
        let len = if is_dir { 0 } else { metadata.len() };
        entries.push(DirEntry {
            name,
            is_dir,
            len,
            modified_micros: if is_dir {
                0
            } else {
                modified_micros(&metadata)
            },
        });
    }
    entries.sort();
    Ok(entries)
}

fn modified_micros(metadata: &std::fs::Metadata) -> i64 {
    use std::os::unix::fs::MetadataExt;
    metadata.mtime().saturating_mul(1_000_000) + metadata.mtime_nsec() / 1_000
}

fn lock_blocking(path: &Path) -> io::Result<std::fs::File> {
    use rustix::fs::{FlockOperation, flock};
    let mut open = std::fs::OpenOptions::new();
    let file = open
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
