//! `commitlog_archiving.properties`, as Cassandra has it (`CommitLogArchiver`): full segments of
//! the commit log are copied by a command before they go, and brought back by another one at
//! start. Commands run on a thread of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use storage::SharedFiles;

/// How often to look for segments to copy.
const LOOK: Duration = Duration::from_millis(250);
/// How long to wait after a command that failed.
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
                // Of Cassandra's other versions.
                "snapshot_commitlog_position" => {}
                _ => return Err(bad("there is no such property".to_owned())),
            }
        }
        archiving.restore_point = until;
        archiving.restore_until = until.map(|until: i64| until.div_euclid(micros_per_unit));
        Ok(archiving)
    }

    /// Brings segments back into the folder of the commit log, before anybody reads it.
    pub(crate) fn restore(&self, commitlog: &Path) -> Result<(), ArchivingError> {
        let Some(command) = &self.restore_command else {
            return Ok(());
        };
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| ArchivingError::Unreadable { path, source }
        };
        std::fs::create_dir_all(commitlog).map_err(unreadable(commitlog))?;
        for folder in &self.restore_directories {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
                names.push(entry.map_err(unreadable(folder))?.file_name());
            }
            names.sort();
            for name in names {
                let (from, to) = (folder.join(&name), commitlog.join(&name));
                let is_segment = name.to_str().is_some_and(storage::is_commitlog_file);
                if !is_segment || to.exists() {
                    continue;
                }
                let paths = [("%from", from.as_path()), ("%to", to.as_path())];
                run(command, &paths).map_err(|reason| ArchivingError::Restore {
                    file: from.clone(),
                    reason,
                })?;
                tracing::info!("restored {}", to.display());
            }
        }
        Ok(())
    }

    /// Copies segments as they become full, until the process ends.
    pub(crate) fn start(&self, files: Arc<SharedFiles>) -> std::io::Result<()> {
        let Some(command) = self.archive_command.clone() else {
            return Ok(());
        };
        let work = move || {
            loop {
                let pause = match copy_waiting(&command, &files) {
                    Ok(()) => LOOK,
                    Err((path, reason)) => {
                        let path = path.display();
                        tracing::error!(
                            "archiving {path} failed: {reason}; it stays, trying again"
                        );
                        RETRY
                    }
                };
                // This thread is none of the shards'.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(pause);
            }
        };
        let thread = std::thread::Builder::new().name("archiver".to_owned());
        thread.spawn(work).map(drop)
    }
}

fn copy_waiting(command: &[String], files: &SharedFiles) -> Result<(), (PathBuf, String)> {
    for path in files.archive.waiting() {
        let name = path.file_name().map(Path::new).unwrap_or(&path);
        let words = [("%path", path.as_path()), ("%name", name)];
        run(command, &words).map_err(|reason| (path.clone(), reason))?;
        files.archive.is_copied(&path);
    }
    Ok(())
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
             precision=MILLISECONDS\n",
        )
        .expect("it is good");
        let words = ["/bin/ln", "%path", "/backup/%name"].map(str::to_owned);
        assert_eq!(archiving.archive_command, Some(words.to_vec()));
        assert_eq!(archiving.restore_directories.len(), 2);
        assert_eq!(archiving.restore_until, Some(86_401_000));
        assert_eq!(archiving.restore_point, Some(86_401_000_000));
        assert_eq!(point_in_time("1970:01:01 00:00:00.000005"), Ok(5));
        for bad in [
            "archive_comand=x",
            "precision=DAYS",
            "restore_point_in_time=now",
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
             restore_directories={0}",
            backup.display()
        );
        let archiving = Archiving::parse(&text).expect("it is good");
        let command = archiving.archive_command.clone().expect("a command");
        let name = [
            ("%path", segment.as_path()),
            ("%name", Path::new("helenus-0of1-000000000001.log")),
        ];
        run(&command, &name).expect("it is copied");
        std::fs::write(backup.join("other"), "x").expect("a file");
        std::fs::remove_file(&segment).expect("it can be removed");
        archiving.restore(&log).expect("it is brought back");
        assert_eq!(std::fs::read_to_string(&segment).expect("text"), "content");
        assert!(!log.join("other").exists());
        let failing = [
            "/bin/cp".to_owned(),
            "/nowhere/%name".to_owned(),
            "/x".to_owned(),
        ];
        let error = run(&failing, &name).expect_err("there is no such file");
        assert!(error.contains("/bin/cp"), "{error}");
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }
}
