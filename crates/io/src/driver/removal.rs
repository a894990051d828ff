//! Removing large files so that nobody else on the drive has to wait for it.
//!
//! With its last name and its last handle a file's blocks go back to the file system, all at once, and
//! where that is mounted with `discard` the drive is told of all of them, too. As long as that takes (20 ms for
//! 128 MiB and 200 ms for a gigabyte on a virtual drive) the commit log's writes wait behind it, and everybody
//! behind those. So a large file first loses its name and then its end, a piece at a time, and what
//! others want of the drive comes in between: `DeleteScheduler` of RocksDB, which does it for the same
//! reason, without its rate. What a crash leaves of a file without a name the file system removes itself.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// How much goes at once, in bytes: a millisecond of a drive that takes 200 for a gigabyte, twice over.
const PIECE: u64 = 2 << 20;
/// Which signal tells of a lease (`linux/fcntl.h`; libc does not have it).
const F_SETSIG: libc::c_int = 10;

/// Removes a file's name, and the file if it has no other one and nobody has it open. Blocks.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    let kept_open = open_large(path);
    std::fs::remove_file(path)?;
    kept_open.into_iter().for_each(close);
    Ok(())
}

/// Removes a folder and all that is in it. Blocks.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    remove_files(path);
    std::fs::remove_dir_all(path)
}

/// Closes a file, which is removed by that if it has no name any more and nobody else has it open. Blocks.
pub(crate) fn close(file: File) {
    if let Some((file, len)) = last_handle(file) {
        // What could not be cut off goes with the handle.
        let _ = cut(&file, len);
    }
}

/// Takes all away from a file of that length, the end first.
fn cut(file: &File, mut len: u64) -> io::Result<()> {
    while len > 0 {
        len = (len - 1) / PIECE * PIECE;
        file.set_len(len)?;
    }
    Ok(())
}

/// Removes the files below a folder, as far as that can be done: what is left is for another to say.
fn remove_files(path: &Path) {
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_files(&entry.path()),
            Ok(kind) if kind.is_file() => {
                let _ = remove_file(&entry.path());
            }
            _ => {}
        }
    }
}

/// Opens what is too large to go at once. Whatever is in the way: then it goes at once all the same.
fn open_large(path: &Path) -> Option<File> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() <= PIECE {
        return None;
    }
    let mut open = OpenOptions::new();
    let open = open.read(true).custom_flags(libc::O_NOFOLLOW);
    open.open(path).ok()
}

/// The file, to be written to, and its length, if it is large, without a name, and this handle is the only one.
fn last_handle(file: File) -> Option<(File, u64)> {
    let metadata = file.metadata().ok()?;
    if metadata.nlink() > 0 || metadata.len() <= PIECE {
        return None;
    }
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let writable = OpenOptions::new().write(true).open(itself).ok()?;
    drop(file);
    is_only_handle(&writable).then_some((writable, metadata.len()))
}

/// Has nobody else, in no process, the file open? A backup may still read what has lost its name.
///
/// The kernel grants a lease to write to nobody else (`fcntl(2)`).
fn is_only_handle(file: &File) -> bool {
    let control = |command, argument: libc::c_int| {
        // SAFETY: the descriptor is open, and these commands take an integer.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) == 0 }
    };
    // Who opens the file while the lease is held has the kernel send a signal, by default one that kills.
    control(F_SETSIG, libc::SIGURG)
        && control(libc::F_SETLEASE, libc::F_WRLCK)
        && control(libc::F_SETLEASE, libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of its own, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("helenus-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("a folder can be made");
            Scratch(dir)
        }

        fn file(&self, name: &str, len: u64) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, vec![7; len as usize]).expect("a file can be written");
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const LARGE: u64 = 2 * PIECE + 17;

    fn open(path: &Path) -> File {
        File::open(path).expect("it can be opened")
    }

    fn len(file: &File) -> u64 {
        file.metadata().expect("it is open").len()
    }

    #[test]
    fn a_large_file_that_nobody_else_has_is_cut() {
        let scratch = Scratch::new("cut");
        let path = scratch.file("a", LARGE);
        let file = open(&path);
        std::fs::remove_file(&path).unwrap();
        let (file, before) = last_handle(file).expect("it is alone");
        assert_eq!(before, LARGE);
        let other = open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())));
        assert!(!is_only_handle(&file));
        drop(other);
        assert!(is_only_handle(&file));
        cut(&file, before).unwrap();
        assert_eq!(len(&file), 0);
    }

    #[test]
    fn what_is_small_or_has_a_name_or_another_handle_is_left_whole() {
        let scratch = Scratch::new("whole");
        let small = scratch.file("small", PIECE);
        let file = open(&small);
        std::fs::remove_file(&small).unwrap();
        assert!(last_handle(file).is_none());

        let path = scratch.file("linked", LARGE);
        let link = scratch.0.join("link");
        std::fs::hard_link(&path, &link).unwrap();
        let file = open(&path);
        remove_file(&path).unwrap();
        close(file);
        assert_eq!(len(&open(&link)), LARGE);

        let reader = open(&link);
        remove_file(&link).unwrap();
        assert!(!link.exists());
        assert_eq!(len(&reader), LARGE);
    }

    #[test]
    fn files_and_folders_go_and_what_they_link_to_stays() {
        let scratch = Scratch::new("folders");
        let outside = scratch.file("outside", LARGE);
        let dir = scratch.0.join("dir");
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::os::unix::fs::symlink(&outside, dir.join("link")).unwrap();
        scratch.file("dir/a", LARGE);
        scratch.file("dir/below/b", LARGE);
        remove_dir_all(&dir).unwrap();
        assert!(!dir.exists());
        assert_eq!(len(&open(&outside)), LARGE);
        let missing = remove_file(&dir).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let missing = remove_dir_all(&dir).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
