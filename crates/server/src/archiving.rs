//! `commitlog_archiving.properties`, as Cassandra has it (`CommitLogArchiver`): full segments of
//! the commit log are copied by a command before they go, and brought back by another one at
//! start. Commands run on a thread of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use storage::SharedFiles;
use storage::sstable::CommitLogPosition;

/// How often to look for segments to copy.
const LOOK: Duration = Duration::from_millis(250);
/// How long to wait with a segment whose command failed.
const RETRY: Duration = Duration::from_secs(10);

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archiving {
    /// Copies a segment: `%path` is the file, `%name` its name.
    pub(crate) archive_command: Option<Vec<String>>,
    /// Brings one back: `%from` and `%to` are files.
    restore_command: Option<Vec<String>>,
    /// Where they are brought back from.
    restore_directories: Vec<PathBuf>,
    /// The highest timestamp of mutations that are replayed, in their own unit.
    pub(crate) restore_until: Option<i64>,
    /// The same point in time in microseconds since 1970.
    pub(crate) restore_point: Option<i64>,
    /// Up to where the sstables have what is in a Cassandra's segments.
    pub(crate) snapshot_position: Option<CommitLogPosition>,
}

/// Why segments cannot be archived or brought back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchivingError {
    /// The file cannot be read, or a folder listed.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of the file is no good.
    #[error("{path}: {name}: {reason}", path = .path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The property.
        name: String,
        /// Why.
        reason: String,
    },
    /// A folder that segments are brought back from cannot be made.
    #[error("restore_directories: cannot make {path}: {source}", path = .path.display())]
    NoFolder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file in one of those folders is none that can be brought back.
    #[error(
        "{file} {reason}: it cannot be restored, and what it holds would be missing; unpack it, \
         or move it out of restore_directories",
        file = .file.display()
    )]
    NoSegment {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A command that brings a segment back failed.
    #[error(
        "restoring {file} failed: {reason}; correct restore_command or restore_directories, or \
         start without them",
        file = .file.display()
    )]
    Restore {
        /// The segment.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Archiving {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Archiving, ArchivingError> {
        let text = std::fs::read_to_string(path).map_err(|source| ArchivingError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Archiving::parse(&text).map_err(|(name, reason)| ArchivingError::BadValue {
            path: path.to_owned(),
            name,
            reason,
        })
    }

    /// Understands the lines `name = value`; those that begin with `#` or `!` are comments. An
    /// error is the name of a property and what is wrong with it.
    fn parse(text: &str) -> Result<Archiving, (String, String)> {
        let mut archiving = Archiving::default();
        let (mut until, mut micros_per_unit) = (None, 1);
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|l| !l.is_empty() && !l.starts_with(['#', '!'])) {
            let (name, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
            let (name, value) = (name.trim(), value.trim());
            let bad = |reason: String| (name.to_owned(), reason);
            let command = || {
                let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                (!words.is_empty()).then_some(words)
            };
            match name {
                "archive_command" => archiving.archive_command = command(),
                "restore_command" => archiving.restore_command = command(),
                "restore_directories" => {
                    let folders = value.split(',').map(str::trim).filter(|f| !f.is_empty());
                    archiving.restore_directories = folders.map(PathBuf::from).collect();
                }
                "restore_point_in_time" if value.is_empty() => {}
                "restore_point_in_time" => until = Some(point_in_time(value).map_err(bad)?),
                "precision" if value.is_empty() => {}
                "precision" => {
                    micros_per_unit = match value.to_ascii_uppercase().as_str() {
                        "MICROSECONDS" => 1,
                        "MILLISECONDS" => 1_000,
                        "SECONDS" => 1_000_000,
                        _ => {
                            let units = "MICROSECONDS, MILLISECONDS, SECONDS";
                            return Err(bad(format!("`{value}` is none of {units}")));
                        }
                    }
                }
                "snapshot_commitlog_position" if value.is_empty() => {}
                "snapshot_commitlog_position" => {
                    archiving.snapshot_position = Some(position(value).map_err(bad)?);
                }
                _ => return Err(bad("there is no such property".to_owned())),
            }
        }
        archiving.restore_point = until;
        archiving.restore_until = until.map(|until: i64| until.div_euclid(micros_per_unit));
        Ok(archiving)
    }

    /// Copies the segments that earlier runs left, before others are brought back: those came from
    /// the archive. Some may have been copied by the run that left them, and many commands refuse to do
    /// it again, so one that fails is not tried again (`CommitLog.recoverSegmentsOnDisk`).
    pub(crate) fn archive_found(&self, commitlog: &Path) -> Result<(), ArchivingError> {
        let Some(command) = &self.archive_command else {
            return Ok(());
        };
        let names = match names(commitlog) {
            Err(ArchivingError::Unreadable { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(());
            }
            names => names?,
        };
        let is_segment = |name: &&OsString| name.to_str().is_some_and(storage::is_commitlog_file);
        for name in names.iter().filter(is_segment) {
            let path = commitlog.join(name);
            if let Err(reason) = copy(command, &path) {
                let path = path.display();
                tracing::warn!(
                    "archiving {path} failed, it may have been archived before: {reason}"
                );
            }
        }
        Ok(())
    }

    /// Brings segments back into the folder of the commit log, before anybody reads it.
    pub(crate) fn restore(&self, commitlog: &Path) -> Result<(), ArchivingError> {
        if self.restore_directories.is_empty() {
            return Ok(());
        }
        std::fs::create_dir_all(commitlog).map_err(unreadable(commitlog))?;
        for folder in &self.restore_directories {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|source| ArchivingError::NoFolder {
                path: folder.clone(),
                source,
            })?;
            for name in names(folder)? {
                self.restore_file(&folder.join(name), commitlog)?;
            }
        }
        Ok(())
    }

    /// Brings one file back under its true name, unless it is there already.
    fn restore_file(&self, from: &Path, commitlog: &Path) -> Result<(), ArchivingError> {
        if from.is_dir() {
            tracing::warn!(
                "nothing is restored from {}: it is a folder",
                from.display()
            );
            return Ok(());
        }
        let called = from.file_name().unwrap_or_default().to_string_lossy();
        let head = head(from).map_err(unreadable(from))?;
        let name = storage::segment_name(&called, &head);
        let name = name.map_err(|reason| ArchivingError::NoSegment {
            file: from.to_owned(),
            reason,
        })?;
        let to = match name.map(|name| commitlog.join(name)) {
            Some(to) if !to.exists() => to,
            _ => return Ok(()),
        };
        let command = self.restore_command.as_deref().unwrap_or_default();
        let paths = [("%from", from), ("%to", to.as_path())];
        run(command, &paths).map_err(|reason| ArchivingError::Restore {
            file: from.to_owned(),
            reason,
        })?;
        tracing::info!("restored {}", to.display());
        Ok(())
    }

    /// Copies segments as they become full, until the process ends.
    pub(crate) fn start(&self, files: Arc<SharedFiles>) -> std::io::Result<()> {
        let Some(command) = self.archive_command.clone() else {
            return Ok(());
        };
        let work = move || {
            let mut failed = BTreeMap::new();
            loop {
                let waiting = files.archive.waiting();
                copy_waiting(&command, waiting, &mut failed, |path| {
                    files.archive.is_copied(path);
                });
                // This thread is none of the shards'.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("archiver".to_owned());
        thread.spawn(work).map(drop)
    }
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> ArchivingError {
    let path = path.to_owned();
    move |source| ArchivingError::Unreadable { path, source }
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<OsString>, ArchivingError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        names.push(entry.map_err(unreadable(folder))?.file_name());
    }
    names.sort();
    Ok(names)
}

/// What stands at the beginning of a file.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(storage::SEGMENT_HEAD as u64)
        .read_to_end(&mut head)?;
    Ok(head)
}

/// Copies those that wait, and says of which it succeeded. One that has `failed` holds back no other,
/// and is tried again later.
fn copy_waiting(
    command: &[String],
    waiting: Vec<PathBuf>,
    failed: &mut BTreeMap<PathBuf, Instant>,
    is_copied: impl Fn(&Path),
) {
    failed.retain(|path, since| waiting.contains(path) && since.elapsed() < RETRY);
    for path in waiting {
        if failed.contains_key(&path) {
            continue;
        }
        match copy(command, &path) {
            Ok(()) => is_copied(&path),
            Err(reason) => {
                let shown = path.display();
                tracing::error!("archiving {shown} failed: {reason}; it stays, trying again");
                // This thread is none of the shards'.
                #[allow(clippy::disallowed_methods)]
                failed.insert(path, Instant::now());
            }
        }
    }
}

/// Copies a segment.
fn copy(command: &[String], path: &Path) -> Result<(), String> {
    let name = path.file_name().map(Path::new).unwrap_or(path);
    run(command, &[("%path", path), ("%name", name)])
}

/// Runs a command with these words replaced, without a shell, as Cassandra does.
fn run(command: &[String], words: &[(&str, &Path)]) -> Result<(), String> {
    let mut filled = command.iter().map(|word| {
        let mut word = word.clone();
        for (name, path) in words {
            word = word.replace(name, &path.to_string_lossy());
        }
        word
    });
    let program = filled.next().ok_or("the command is empty")?;
    let output = Command::new(&program).args(filled).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default();
    Err(format!("{program}: {}: {said}", output.status))
}

/// A place in a Cassandra's commit log, as `1795258768842, 4711`: segment and offset
/// (`CommitLogPositionSerializer.fromString`).
fn position(text: &str) -> Result<CommitLogPosition, String> {
    let parsed = text.split_once(',').and_then(|(segment, position)| {
        Some(CommitLogPosition {
            segment: segment.trim().parse().ok()?,
            position: position.trim().parse().ok()?,
        })
    });
    parsed.ok_or_else(|| format!("`{text}` is no position; one looks like 1795258768842,4711"))
}

/// A time as `2026:11:21 12:35:00` or with a fraction of a second, UTC, in microseconds since
/// 1970.
fn point_in_time(text: &str) -> Result<i64, String> {
    let expected = || format!("`{text}` is no time; one looks like 2026:11:21 12:35:00, in GMT");
    let (date, time) = text.split_once(' ').ok_or_else(expected)?;
    let iso = format!("{}T{time}", date.replace(':', "-"));
    let time: DateTime = iso.parse().map_err(|_| expected())?;
    let zoned = time.to_zoned(TimeZone::UTC).map_err(|_| expected())?;
    Ok(zoned.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_cassandra_is_understood() {
        let shipped = "# commitlog archiving configuration\narchive_command=\nrestore_command=\n\
                       restore_directories=\nrestore_point_in_time=\nprecision=MICROSECONDS\n";
        assert_eq!(Archiving::parse(shipped), Ok(Archiving::default()));
        let archiving = Archiving::parse(
            "archive_command=/bin/ln %path /backup/%name\nrestore_command = /bin/cp -f %from %to\n\
             restore_directories=/backup, /older\nrestore_point_in_time=1970:01:02 00:00:01\n\
             precision=MILLISECONDS\nsnapshot_commitlog_position=1795258768842, 4711\n",
        )
        .expect("it is good");
        let words = ["/bin/ln", "%path", "/backup/%name"].map(str::to_owned);
        assert_eq!(archiving.archive_command, Some(words.to_vec()));
        assert_eq!(archiving.restore_directories.len(), 2);
        let place = archiving.snapshot_position.map(|p| (p.segment, p.position));
        assert_eq!(place, Some((1_795_258_768_842, 4711)));
        assert_eq!(archiving.restore_until, Some(86_401_000));
        assert_eq!(archiving.restore_point, Some(86_401_000_000));
        assert_eq!(point_in_time("1970:01:01 00:00:00.000005"), Ok(5));
        for bad in [
            "archive_comand=x",
            "precision=DAYS",
            "restore_point_in_time=now",
            "snapshot_commitlog_position=1795258768842",
            "snapshot_commitlog_position=1795258768842,0,0",
        ] {
            assert!(Archiving::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn segments_are_copied_and_brought_back() {
        let base = std::env::temp_dir().join(format!("helenus-archiving-{}", std::process::id()));
        let (log, backup) = (base.join("commitlog"), base.join("backup"));
        for folder in [&log, &backup] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let segment = log.join("helenus-0of1-000000000001.log");
        std::fs::write(&segment, "content").expect("a file");
        let text = format!(
            "archive_command=/bin/cp %path {0}/%name\nrestore_command=/bin/cp %from %to\n\
             restore_directories={0},{0}/not-yet",
            backup.display()
        );
        let archiving = Archiving::parse(&text).expect("it is good");
        let command = archiving.archive_command.clone().expect("a command");
        let name = [
            ("%path", segment.as_path()),
            ("%name", Path::new("helenus-0of1-000000000001.log")),
        ];
        run(&command, &name).expect("it is copied");
        std::fs::write(backup.join("truncated-0of1"), "x").expect("a file");
        std::fs::remove_file(&segment).expect("it can be removed");
        archiving.restore(&log).expect("it is brought back");
        assert_eq!(std::fs::read_to_string(&segment).expect("text"), "content");
        assert!(!log.join("truncated-0of1").exists());
        let failing = [
            "/bin/cp".to_owned(),
            "/nowhere/%name".to_owned(),
            "/x".to_owned(),
        ];
        let error = run(&failing, &name).expect_err("there is no such file");
        assert!(error.contains("/bin/cp"), "{error}");
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }

    /// Files in a folder of their own, and what it is.
    fn folder(name: &str, files: &[&str]) -> PathBuf {
        let base = format!("helenus-archiving-{name}-{}", std::process::id());
        let base = std::env::temp_dir().join(base);
        for folder in ["commitlog", "backup"] {
            std::fs::create_dir_all(base.join(folder)).expect("a folder");
        }
        for file in files {
            std::fs::write(base.join(file), *file).expect("a file");
        }
        base
    }

    fn linking(base: &Path) -> Archiving {
        let text = "archive_command=/bin/ln %path BASE/backup/%name\n\
                    restore_command=/bin/cp %from %to\nrestore_directories=BASE/backup";
        let text = text.replace("BASE", &base.to_string_lossy());
        Archiving::parse(&text).expect("it is good")
    }

    #[test]
    fn what_is_found_at_start_is_archived_before_the_rest_is_restored() {
        let first = "commitlog/helenus-0of1-000000000001.log";
        let second = "commitlog/helenus-0of1-000000000002.log";
        let before = "backup/helenus-0of1-000000000001.log";
        let other = "backup/helenus-0of1-000000000007.log";
        let base = folder("found", &[first, second, before, other]);
        let archiving = linking(&base);
        let log = base.join("commitlog");
        archiving.archive_found(&log).expect("it goes on");
        archiving.restore(&log).expect("they are brought back");
        let text = |file: &str| std::fs::read_to_string(base.join(file)).expect("a file");
        assert_eq!(text(before), before, "ln does not replace it");
        assert_eq!(text("backup/helenus-0of1-000000000002.log"), second);
        assert_eq!(text("commitlog/helenus-0of1-000000000007.log"), other);
        let none = archiving.archive_found(&base.join("nowhere"));
        none.expect("there is nothing to archive");
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }

    #[test]
    fn what_is_no_segment_refuses_the_start() {
        let other = "backup/CommitLog-7-1795258768842.log.gz";
        let base = folder("other", &[other]);
        let restored = linking(&base).restore(&base.join("commitlog"));
        let said = restored.expect_err("it is no segment").to_string();
        for part in [other, "restore_directories"] {
            assert!(said.contains(part), "{said}");
        }
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }

    #[test]
    fn one_that_cannot_be_copied_holds_back_no_other() {
        let [first, second] = ["commitlog/1", "commitlog/2"];
        let base = folder("failing", &[first, second, "backup/1"]);
        let archiving = linking(&base);
        let command = archiving.archive_command.expect("a command");
        let waiting = vec![base.join(first), base.join(second)];
        let (mut failed, copied) = (BTreeMap::new(), std::cell::RefCell::new(Vec::new()));
        let mut look = || {
            copy_waiting(&command, waiting.clone(), &mut failed, |path| {
                copied.borrow_mut().push(path.to_owned());
            });
            failed.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(look(), [base.join(first)]);
        assert_eq!(copied.take(), [base.join(second)]);
        std::fs::remove_file(base.join("backup/1")).expect("it can be removed");
        std::fs::remove_file(base.join("backup/2")).expect("it can be removed");
        assert_eq!(look(), [base.join(first)], "it is not tried at once");
        assert_eq!(copied.take(), [base.join(second)]);
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }
}
