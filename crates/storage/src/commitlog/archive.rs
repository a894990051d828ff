//! Full segments that are copied elsewhere before they go.
//!
//! Shards say which segments are full; whoever runs the process has them copied, away from the
//! shards, and says when. Until then a segment is neither used again nor removed
//! (`CommitLogArchiver.maybeWaitForArchiving`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::format::{HeaderError, SegmentHeader, SegmentName};
use super::{SPARE_EXTENSION, Truncations, cassandra};

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
    SegmentName::parse(name).is_some()
}

/// How many of its first bytes say which segment a file is.
pub const SEGMENT_HEAD: usize = 1 << 17;

/// The name that a file has in the commit log, whatever it is called elsewhere: its first bytes say
/// it, as Cassandra has it (`CommitLogArchiver.maybeRestoreArchive`). `None` if it lies beside
/// segments, but is none. Errors: why nobody knows.
pub fn segment_name(called: &str, head: &[u8]) -> Result<Option<String>, String> {
    let named = SegmentName::parse(called);
    let found = match SegmentHeader::decode(head) {
        Ok(header) => Ok(Some(header.name())),
        Err(HeaderError::Version(version)) => Err(format!(
            "is of commit-log version {version}, which this Helenus does not know"
        )),
        Err(HeaderError::Invalid) => cassandra::name_in(head),
    };
    match (named, found) {
        (None, _) if is_beside_segments(called) => Ok(None),
        (Some(named), Ok(Some(found))) if named != found => {
            Err(format!("is {} by its content", found.file_name()))
        }
        // What brings it back may decompress it; and a crash leaves segments that have no head yet. In
        // the log it is judged again.
        (Some(named), _) => Ok(Some(named.file_name())),
        (None, Ok(Some(found))) => Ok(Some(found.file_name())),
        (None, Ok(None)) => Err("is no segment by its name, nor by its content".to_owned()),
        (None, Err(what)) => Err(what),
    }
}

/// Is it one of the other files in the folder of a commit log: a note on truncations, or a segment
/// whose content is not needed any more?
fn is_beside_segments(called: &str) -> bool {
    let note = called.strip_suffix(".tmp").unwrap_or(called);
    let spare = called.strip_suffix(SPARE_EXTENSION);
    let spare = spare.and_then(|name| SegmentName::parse(name.trim_end_matches('.')));
    spare.is_some() || Truncations::parse_file_name(note).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::format::BLOCK;
    use model::Sharder;

    #[test]
    fn a_file_is_the_segment_that_its_head_says() {
        let header = SegmentHeader {
            shard: 0,
            sharder: Sharder::new(2),
            segment: 9,
            run: 7,
        };
        let mut ours = vec![0; BLOCK];
        header.encode(&mut ours);
        let cassandras = include_bytes!("cassandra/segments/uncompressed-7.log");
        let of = |name: &str, head: &[u8]| segment_name(name, head);
        for (head, name) in [
            (&ours[..], "helenus-0of2-000000000009.log"),
            (cassandras, "CommitLog-7-1795259799189.log"),
        ] {
            for called in [name, "monday", "helenus-0of2-9.log"] {
                assert_eq!(of(called, head), Ok(Some(name.to_owned())), "{called}");
            }
            // A crash left it so, or it is compressed.
            assert_eq!(of(name, &[0; 99]), Ok(Some(name.to_owned())));
            let error = of("CommitLog-7-1.log", head).expect_err("it is another one");
            assert!(error.contains(name), "{error}");
        }
        for other in [
            "CommitLog-7-1.log.gz",
            "",
            "helenus-0of2-000000000009.log.1",
        ] {
            assert!(of(other, b"\x1f\x8b").is_err(), "{other}");
        }
        for version in 1..=3 {
            ours[8] = version;
            let crc = crc32fast::hash(&ours[..32]);
            ours[32..36].copy_from_slice(&crc.to_le_bytes());
            let found = of("monday", &ours);
            if version <= 2 {
                found.expect("it is known");
                continue;
            }
            let error = found.expect_err("it is of a later version");
            assert!(error.contains("version 3"), "{error}");
        }
        for beside in ["truncated-0of2", "helenus-0of2-000000000009.log.spare"] {
            assert_eq!(of(beside, b""), Ok(None));
            assert_eq!(of(beside, cassandras), Ok(None));
        }
    }

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
