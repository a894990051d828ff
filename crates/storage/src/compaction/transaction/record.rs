//! The lines of a transaction log, and what follows from them: Cassandra's `LogRecord` and
//! `LogFile`, as functions.
//!
//! ```text
//! ADD:[/data/ks/t-1/nb-7-big-,0,9][1790867421]
//! REMOVE:[/data/ks/t-1/nb-3-big-,1767225600123,10][3051238219]
//! COMMIT:[,0,0][2613697770]
//! ```
//!
//! A line names what all components of an sstable begin with. For an sstable to be removed it says
//! when the youngest of its files but the statistics was changed last (milliseconds since 1970) and
//! how many there are; the last number is a CRC-32 of the line.

use std::fmt;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An sstable that is there if the transaction is committed.
    Add,
    /// An sstable that goes if the transaction is committed.
    Remove,
    /// It is committed.
    Commit,
    /// It is given up.
    Abort,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Add, Kind::Remove, Kind::Commit, Kind::Abort];

    fn name(self) -> &'static str {
        match self {
            Kind::Add => "ADD",
            Kind::Remove => "REMOVE",
            Kind::Commit => "COMMIT",
            Kind::Abort => "ABORT",
        }
    }

    fn is_final(self) -> bool {
        matches!(self, Kind::Commit | Kind::Abort)
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// What the paths of all components begin with, the dash included; empty for the last line.
    path: String,
    /// Milliseconds since 1970; only of an sstable to be removed.
    updated_millis: i64,
    files: i32,
}

/// What a folder has of an sstable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// When the youngest of its files was changed last, in milliseconds since 1970; 0 if there are
    /// none. Without the statistics, which are written anew when the level or the time of the repair
    /// changes.
    pub(crate) updated_millis: i64,
    /// The same with the statistics, as older versions had it.
    pub(crate) with_statistics_millis: i64,
    /// How many files there are.
    pub(crate) files: i32,
}

impl Record {
    /// A new sstable.
    pub(crate) fn add(path: String, files: i32) -> Record {
        Record {
            kind: Kind::Add,
            path,
            updated_millis: 0,
            files,
        }
    }

    /// An sstable to be removed, of which the folder has this.
    pub(crate) fn remove(path: String, on_disk: OnDisk) -> Record {
        Record {
            kind: Kind::Remove,
            path,
            updated_millis: on_disk.updated_millis,
            files: on_disk.files,
        }
    }

    /// The last line of what has happened.
    pub(crate) fn commit() -> Record {
        Record {
            kind: Kind::Commit,
            path: String::new(),
            updated_millis: 0,
            files: 0,
        }
    }

    /// What the names of all components begin with, the dash included. The folder does not count:
    /// it may have been moved since.
    pub(crate) fn prefix(&self) -> String {
        let name = self.path.rsplit('/').next().unwrap_or("");
        format!("{}-", name.trim_end_matches('-'))
    }

    /// `LogRecord.computeChecksum`
    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.path.as_bytes());
        hasher.update(self.kind.name().as_bytes());
        // The lower half of the time comes first.
        let time = self.updated_millis as u64;
        hasher.update(&(time as u32).to_be_bytes());
        hasher.update(&((time >> 32) as u32).to_be_bytes());
        hasher.update(&self.files.to_be_bytes());
        hasher.finalize()
    }

    /// `None`: it is not whole.
    fn parse(line: &str) -> Option<Record> {
        let (kind, rest) = line.split_once(":[")?;
        let kind = Kind::ALL
            .into_iter()
            .find(|k| k.name().eq_ignore_ascii_case(kind))?;
        let (content, checksum) = rest.strip_suffix(']')?.rsplit_once("][")?;
        let mut parts = content.rsplitn(3, ',');
        let files = parts.next()?.parse().ok()?;
        let updated_millis: i64 = parts.next()?.parse().ok()?;
        let path = parts.next()?.to_owned();
        let record = Record {
            updated_millis: if kind == Kind::Remove {
                updated_millis
            } else {
                0
            },
            files: if kind.is_final() { 0 } else { files },
            path: if kind.is_final() { String::new() } else { path },
            kind,
        };
        (checksum.parse() == Ok(record.checksum())).then_some(record)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record {
            kind,
            path,
            updated_millis,
            files,
        } = self;
        let (kind, checksum) = (kind.name(), self.checksum());
        write!(f, "{kind}:[{path},{updated_millis},{files}][{checksum}]")
    }
}

/// The content of a log.
pub(crate) fn encode(records: &[Record]) -> Vec<u8> {
    let lines = records.iter().map(|record| format!("{record}\n"));
    lines.collect::<String>().into_bytes()
}

/// What follows from a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Has it happened?
    pub(crate) committed: bool,
    /// What the names of all files that have to go begin with.
    pub(crate) remove: Vec<String>,
}

/// Decides what a log means for a folder that has of an sstable what `on_disk` says of a prefix
/// (`LogFile.verify`, `LogReplicaSet.readRecords`). The last line may be damaged, as a crash while
/// it was written leaves it; then all files of the others must be there. Anything else that does
/// not fit means that the log does not belong to these files, and nothing may be removed.
pub(crate) fn resolve(bytes: &[u8], on_disk: impl Fn(&str) -> OnDisk) -> Result<Outcome, String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let mut records: Vec<Record> = Vec::new();
    let mut damaged = None;
    for (at, line) in lines.iter().enumerate() {
        let number = at + 1;
        let is_last = number == lines.len();
        match Record::parse(line) {
            Some(record) if records.contains(&record) => {
                return Err(format!("line {number} repeats an earlier one"));
            }
            Some(record) if record.kind.is_final() && !is_last => {
                return Err(format!("line {number} should be the last one"));
            }
            Some(record) if !record.fits(&on_disk) && !is_last => {
                return Err(format!(
                    "line {number} does not fit the files: they were changed since"
                ));
            }
            Some(record) if record.fits(&on_disk) => records.push(record),
            _ if !is_last => return Err(format!("line {number} is damaged")),
            _ => damaged = Some(number),
        }
    }
    if let Some(number) = damaged {
        let incomplete = |record: &&Record| {
            record.kind == Kind::Remove && on_disk(&record.prefix()).files < record.files
        };
        if let Some(record) = records.iter().find(incomplete) {
            return Err(format!(
                "line {number} is damaged, and files of {}* are missing",
                record.prefix()
            ));
        }
    }
    let committed = damaged.is_none() && records.last().is_some_and(|r| r.kind == Kind::Commit);
    let gone = if committed { Kind::Remove } else { Kind::Add };
    let remove = records.iter().filter(|record| record.kind == gone);
    Ok(Outcome {
        committed,
        remove: remove.map(Record::prefix).collect(),
    })
}

impl Record {
    /// Are the files that are to be removed the ones that were meant? Somebody may have restored
    /// them from a backup. Files are removed from the oldest to the youngest, so that the youngest
    /// one tells as long as there is any. By the second, as not every file system and not every copy
    /// of a folder keeps more (`LogFile.truncateMillis`).
    fn fits(&self, on_disk: &impl Fn(&str) -> OnDisk) -> bool {
        if self.kind != Kind::Remove {
            return true;
        }
        let found = on_disk(&self.prefix());
        let is_meant = |millis: i64| millis / 1000 == self.updated_millis / 1000;
        found.updated_millis <= 0
            || is_meant(found.updated_millis)
            || is_meant(found.with_statistics_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOUND: OnDisk = OnDisk {
        updated_millis: 1_767_225_600_123,
        with_statistics_millis: 1_767_225_600_456,
        files: 10,
    };

    fn path(number: u32) -> String {
        format!("/data/ks/t-1/nb-{number}-big-")
    }

    fn log() -> Vec<Record> {
        vec![
            Record::add(path(7), 0),
            Record::add(path(8), 0),
            Record::remove(path(3), FOUND),
            Record::remove(path(4), FOUND),
            Record::commit(),
        ]
    }

    fn all_there(prefix: &str) -> OnDisk {
        match prefix {
            "nb-3-big-" | "nb-4-big-" => FOUND,
            _ => OnDisk::default(),
        }
    }

    #[test]
    fn lines_are_those_of_cassandra() {
        assert_eq!(Record::commit().to_string(), "COMMIT:[,0,0][2613697770]");
        // Cassandra 3.11 left out the dash at the end.
        let mut removed = Record::remove("/data/ks/t-1/md-2-big".to_owned(), FOUND);
        assert_eq!(removed.prefix(), "md-2-big-");
        let line = removed.to_string();
        assert!(line.starts_with("REMOVE:[/data/ks/t-1/md-2-big,1767225600123,10]["));
        assert_eq!(Record::parse(&line), Some(removed.clone()));
        assert_eq!(Record::parse(&line.to_lowercase()), Some(removed.clone()));
        removed.files += 1;
        let changed = removed.to_string();
        let checksum = changed.rsplit_once('[').expect("it has one").1;
        assert!(!line.ends_with(checksum));
        for other in [
            "",
            "ADD",
            "ADD:[]",
            "ADD:[a,0,0]",
            "ADD:[a,0,0][]",
            "COMMIT:[,0,0][1]",
        ] {
            assert_eq!(Record::parse(other), None, "{other}");
        }
    }

    #[test]
    fn every_cut_leaves_the_old_or_the_new_files() {
        let bytes = encode(&log());
        let (old, new) = (["nb-3-big-", "nb-4-big-"], ["nb-7-big-", "nb-8-big-"]);
        for len in 0..=bytes.len() {
            let outcome = resolve(&bytes[..len], all_there).expect("all files are there");
            let whole = len + 1 >= bytes.len();
            assert_eq!(outcome.committed, whole, "cut at {len}");
            let named = if whole { old } else { new };
            assert!(
                outcome
                    .remove
                    .iter()
                    .all(|prefix| named.contains(&&prefix[..]))
            );
            assert!(!whole || outcome.remove.len() == 2);
        }
        // Cut in the last line, when some of the files are gone already: nobody knows.
        let gone = |_: &str| OnDisk::default();
        assert!(resolve(&bytes[..bytes.len() - 5], gone).is_err());
        assert!(resolve(&bytes, gone).expect("it is committed").committed);
    }

    #[test]
    fn files_that_were_restored_are_not_removed() {
        let restored = |prefix: &str| match prefix {
            "nb-3-big-" => OnDisk {
                updated_millis: 5,
                with_statistics_millis: 5,
                files: 10,
            },
            prefix => all_there(prefix),
        };
        assert!(resolve(&encode(&log()), restored).is_err());
    }

    /// `LogFile.verifyRecord`, `LogRecord.make`
    #[test]
    fn times_are_compared_by_the_second_and_without_statistics() {
        let now = FOUND.updated_millis;
        for (found, with_statistics, fits) in [
            (now - 123, now - 123, true),
            (now + 876, now + 876, true),
            (now - 124, now - 124, false),
            (now + 877, now + 877, false),
            // Somebody changed the level, or marked it as repaired.
            (now, now + 3_600_000, true),
            // Logged by a version that looked at the statistics too.
            (now - 5_000, now, true),
            (now - 5_000, now + 5_000, false),
            // All others are removed already.
            (0, now + 5_000, true),
        ] {
            let found = |prefix: &str| match prefix {
                "nb-3-big-" => OnDisk {
                    updated_millis: found,
                    with_statistics_millis: with_statistics,
                    files: 10,
                },
                prefix => all_there(prefix),
            };
            let outcome = resolve(&encode(&log()), found);
            assert_eq!(outcome.is_ok(), fits, "{outcome:?}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let with = |change: fn(&mut Vec<Record>)| {
            let mut records = log();
            change(&mut records);
            resolve(&encode(&records), all_there)
        };
        assert!(with(|r| r.swap(0, 4)).is_err(), "lines behind the last");
        assert!(with(|r| r[1] = r[0].clone()).is_err(), "a line twice");
        assert!(with(|r| r[4].kind = Kind::Abort).is_ok_and(|o| !o.committed));
        assert!(with(Vec::clear).is_ok_and(|o| o.remove.is_empty()));
    }

    proptest! {
        #[test]
        fn damage_never_removes_old_and_new(bit in any::<prop::sample::Index>()) {
            let mut bytes = encode(&log());
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(outcome) = resolve(&bytes, all_there) {
                let old = outcome.remove.iter().any(|p| p == "nb-3-big-" || p == "nb-4-big-");
                prop_assert_eq!(old, outcome.committed);
            }
        }

        #[test]
        fn anything_is_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = resolve(&bytes, all_there);
        }
    }
}
