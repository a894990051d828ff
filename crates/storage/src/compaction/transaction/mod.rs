//! Replacing sstables by others, atomically through a crash: Cassandra's transaction logs
//! (`org.apache.cassandra.db.lifecycle.LogTransaction`).
//!
//! A file `nb_txn_<operation>_<time uuid>.log` beside the sstables names the new ones before the
//! first byte of them is written, then the old ones and that the transaction is committed, and
//! goes when the old ones are gone. Whoever finds one at start removes the old files of what is
//! committed and the new files of what is not; Cassandra and its tools do the same with a log of
//! ours, and we with one of theirs. So a crash leaves either all of the old files or all of the new
//! ones: a part of the inputs must never be there alone, as it could hold what a deletion in the
//! others covered.
//!
//! Cassandra appends line by line. Here each version of the log is written under another name and
//! takes the place of the one before, so that it is never torn.
//!
//! **Whose it is.** Shards open a table at different times, and some are at work in its folder when
//! others begin. The clock sequence of the log's id tells which shard wrote it, and so which one
//! has to see to it; the others leave the files it dooms alone as well.

mod former;
mod record;

pub(crate) use former::{finish as finish_former, interrupted};

use std::path::{Path, PathBuf};

use io::{DirEntry, Env};
use uuid::Uuid;

use crate::sstable::{self, Component, Descriptor, Generation};
use record::Record;
pub(crate) use record::{OnDisk, resolve};

const SUFFIX: &str = ".log";
const TEMPORARY_SUFFIX: &str = ".log.tmp";

/// Why the sstables are rewritten, as far as the name of the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A compaction that a strategy chose.
    Compaction,
    /// A compaction that somebody asked for.
    Major,
    /// Dropping what belongs to other nodes.
    Cleanup,
    /// Writing the present version.
    Upgrade,
    /// Dropping what is deleted.
    GarbageCollect,
    /// Dropping what cannot be read.
    Scrub,
}

impl Operation {
    /// `OperationType.fileName`, which Cassandra must know to read the log.
    fn file_name(self) -> &'static str {
        match self {
            Operation::Compaction => "compaction",
            Operation::Major => "majorcompaction",
            Operation::Cleanup => "cleanup",
            Operation::Upgrade => "upgradesstables",
            Operation::GarbageCollect => "removedeleteddata",
            Operation::Scrub => "scrub",
        }
    }
}

/// The drive refused while a log was written or obeyed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub(crate) struct TransactionError {
    /// The file or folder.
    pub(crate) path: PathBuf,
    /// What the drive said.
    pub(crate) error: std::io::Error,
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> TransactionError {
    let path = path.to_owned();
    move |error| TransactionError { path, error }
}

/// A transaction under way.
pub(crate) struct Transaction {
    env: Env,
    dir: PathBuf,
    /// The folder as the log names it: Cassandra wants the path without links.
    canonical: PathBuf,
    path: PathBuf,
    records: Vec<Record>,
}

impl Transaction {
    /// Begins one in a folder. There is no file yet.
    pub(crate) async fn begin(
        env: &Env,
        dir: &Path,
        operation: Operation,
    ) -> Result<Transaction, TransactionError> {
        let canonical = env.canonical(dir).await.map_err(at(dir))?;
        let id = time_uuid(env.wall_micros(), env.shard().0, env.random_u64());
        let name = format!("nb_txn_{}_{id}{SUFFIX}", operation.file_name());
        Ok(Transaction {
            env: env.clone(),
            dir: dir.to_owned(),
            canonical,
            path: dir.join(name),
            records: Vec::new(),
        })
    }

    /// Says that an sstable is going to be written. When this returns, the drive knows.
    pub(crate) async fn add(&mut self, descriptor: &Descriptor) -> Result<(), TransactionError> {
        // How many files it will have Cassandra does not look at.
        let record = Record::add(self.record_path(descriptor), 0);
        self.records.push(record);
        self.write().await
    }

    /// Says that these sstables are to be removed in favour of the added ones: when this returns,
    /// it has happened. After an error nobody knows, and no file of either may be removed.
    pub(crate) async fn commit(&mut self, remove: &[Descriptor]) -> Result<(), TransactionError> {
        let dir = &self.dir;
        let entries = self.env.read_dir(dir).await.map_err(at(dir))?;
        for descriptor in remove {
            let found = on_disk(&entries, &format!("{}-", descriptor.prefix()));
            let record = Record::remove(self.record_path(descriptor), found);
            self.records.push(record);
        }
        self.records.push(Record::commit());
        self.write().await
    }

    /// Removes what a committed log dooms, or the new files of one that is not, and then the log.
    pub(crate) async fn finish(self) -> Result<(), TransactionError> {
        if self.records.is_empty() {
            return Ok(());
        }
        remove_if_there(&self.env, &self.temporary_path()).await?;
        let committed = self.records.last() == Some(&Record::commit());
        let doomed = |record: &&Record| match committed {
            true => record.kind == record::Kind::Remove,
            false => record.kind == record::Kind::Add,
        };
        let leftover = Leftover {
            path: self.path,
            owner: 0,
            remove: self
                .records
                .iter()
                .filter(doomed)
                .map(Record::prefix)
                .collect(),
        };
        leftover.clean(&self.env, &self.dir).await
    }

    fn record_path(&self, descriptor: &Descriptor) -> String {
        let path = self.canonical.join(format!("{}-", descriptor.prefix()));
        path.to_string_lossy().into_owned()
    }

    fn temporary_path(&self) -> PathBuf {
        self.path.with_extension("log.tmp")
    }

    async fn write(&self) -> Result<(), TransactionError> {
        let temporary = self.temporary_path();
        let content = record::encode(&self.records);
        let write = async {
            self.env.write_file(&temporary, content).await?;
            self.env.rename(&temporary, &self.path).await?;
            self.env.sync_dir(&self.dir).await
        };
        write.await.map_err(at(&self.path))
    }
}

/// A time-based UUID of this moment (microseconds since 1970), whose clock sequence is the shard.
fn time_uuid(wall_micros: i64, shard: u16, random: u64) -> Uuid {
    /// From the beginning of the Gregorian calendar to that of 1970, in units of 100 ns.
    const GREGORIAN: u64 = 0x01b2_1dd2_1381_4000;
    let time = GREGORIAN.wrapping_add((wall_micros as u64).wrapping_mul(10));
    // Not the address of a network card.
    let node = (random | 1 << 40).to_be_bytes();
    Uuid::from_fields(
        time as u32,
        (time >> 32) as u16,
        (time >> 48) as u16 & 0x0fff | 0x1000,
        &[
            (shard >> 8) as u8 & 0x3f | 0x80,
            shard as u8,
            node[2],
            node[3],
            node[4],
            node[5],
            node[6],
            node[7],
        ],
    )
}

/// What a log that was found dooms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    path: PathBuf,
    owner: u16,
    /// What the names of the files that have to go begin with.
    remove: Vec<String>,
}

/// A log that was found cannot be obeyed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeftoverError {
    /// The drive refused.
    #[error(transparent)]
    Io(#[from] TransactionError),
    /// It does not fit the files beside it.
    #[error("{}: {reason}", path.display())]
    Unclear {
        /// The log.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

impl Leftover {
    /// Has this shard to see to it?
    pub(crate) fn is_mine(&self, shard: u16, shards: u16) -> bool {
        self.owner % shards == shard
    }

    /// Is the file of this name to be taken for gone?
    pub(crate) fn dooms(&self, name: &str) -> bool {
        self.remove.iter().any(|prefix| name.starts_with(prefix))
    }

    /// The highest generation of what it dooms.
    pub(crate) fn last_generation(&self) -> u64 {
        let generation = |prefix: &String| prefix.split('-').nth(1)?.parse().ok();
        let generations = self.remove.iter().filter_map(generation);
        generations.max().unwrap_or(0)
    }

    /// Removes what it dooms, then itself.
    pub(crate) async fn clean(&self, env: &Env, dir: &Path) -> Result<(), TransactionError> {
        // Files that were removed before the crash must be gone for certain, and for certain
        // before the log is.
        env.sync_dir(dir).await.map_err(at(dir))?;
        let entries = env.read_dir(dir).await.map_err(at(dir))?;
        // Of each sstable the youngest file stays until the others are gone for certain: it tells
        // that these are the files that were meant. The statistics tell nothing.
        let mut last = Vec::new();
        for prefix in &self.remove {
            let of_this = |entry: &&DirEntry| !entry.is_dir && entry.name.starts_with(prefix);
            let mut files: Vec<&DirEntry> = entries.iter().filter(of_this).collect();
            files.sort_by_key(|entry| (!is_statistics(&entry.name), entry.modified_micros));
            last.extend(files.pop());
            for entry in files {
                remove_if_there(env, &dir.join(&entry.name)).await?;
            }
        }
        env.sync_dir(dir).await.map_err(at(dir))?;
        for entry in last {
            remove_if_there(env, &dir.join(&entry.name)).await?;
        }
        env.sync_dir(dir).await.map_err(at(dir))?;
        remove_if_there(env, &self.path).await?;
        env.sync_dir(dir).await.map_err(at(dir))
    }
}

async fn remove_if_there(env: &Env, path: &Path) -> Result<(), TransactionError> {
    env.remove_file_if_there(path).await.map_err(at(path))
}

/// What the logs in a folder doom. `None`: one of them went while it was looked at, or one that is
/// not among those that `is_certain` names does not fit the files, which somebody may be removing
/// just now; so the folder has to be listed anew.
pub(crate) async fn leftovers(
    env: &Env,
    dir: &Path,
    entries: &[DirEntry],
    is_certain: impl Fn(u16) -> bool,
) -> Result<Option<Vec<Leftover>>, LeftoverError> {
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let Some(owner) = owner_of(&entry.name) else {
            continue;
        };
        let path = dir.join(&entry.name);
        if entry.name.ends_with(TEMPORARY_SUFFIX) {
            let remove = Vec::new();
            found.push(Leftover {
                path,
                owner,
                remove,
            });
            continue;
        }
        let bytes = match env.read_file(&path).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error).into()),
        };
        let outcome = record::resolve(&bytes, |prefix| on_disk(entries, prefix));
        if outcome.is_err() && !is_certain(owner) {
            return Ok(None);
        }
        let outcome = outcome.map_err(|reason| LeftoverError::Unclear {
            path: path.clone(),
            reason,
        })?;
        found.push(Leftover {
            path,
            owner,
            remove: outcome.remove,
        });
    }
    Ok(Some(found))
}

/// The number by which shards know whose a log of this name is; `None` if it is none.
fn owner_of(name: &str) -> Option<u16> {
    let stem = name
        .strip_suffix(SUFFIX)
        .or_else(|| name.strip_suffix(TEMPORARY_SUFFIX))?;
    let (_, id) = behind_version(stem)?.rsplit_once('_')?;
    let id = Uuid::parse_str(id).ok()?;
    let bytes = id.as_bytes();
    Some(u16::from_be_bytes([bytes[8] & 0x3f, bytes[9]]))
}

/// `<operation>_<id>` of a log's name. Cassandra puts the version that it writes before it, with the
/// format if that is not BIG (`bti-da_txn_`), and does not look at it when it reads
/// (`LogFile.FILE_REGEX`).
fn behind_version(stem: &str) -> Option<&str> {
    if let Some(rest) = stem.strip_prefix("txn_") {
        return Some(rest);
    }
    let (version, rest) = stem.split_once("_txn_")?;
    let is_format = |format: &str| {
        !format.is_empty() && format.bytes().all(|letter| letter.is_ascii_lowercase())
    };
    let letters = match version.split_once('-') {
        Some((format, letters)) if is_format(format) => letters,
        _ => version,
    };
    (letters.chars().count() == 2).then_some(rest)
}

fn is_statistics(name: &str) -> bool {
    name.ends_with(Component::Statistics.name())
}

/// What a folder has of the sstable whose files begin like this (`LogRecord.make`).
fn on_disk(entries: &[DirEntry], prefix: &str) -> OnDisk {
    let files = entries.iter().filter(|entry| {
        let is_whole = !entry.name.ends_with(sstable::TEMPORARY_SUFFIX);
        !entry.is_dir && is_whole && entry.name.starts_with(prefix)
    });
    files.fold(OnDisk::default(), |found, entry| {
        let updated = entry.modified_micros / 1000;
        OnDisk {
            updated_millis: match is_statistics(&entry.name) {
                true => found.updated_millis,
                false => found.updated_millis.max(updated),
            },
            with_statistics_millis: found.with_statistics_millis.max(updated),
            files: found.files.saturating_add(1),
        }
    })
}

/// The number of a generation, 0 for one of Cassandra's time-based ids.
pub(crate) fn number(generation: &Generation) -> u64 {
    match generation {
        Generation::Number(number) => *number,
        Generation::Time(_) => 0,
    }
}

#[cfg(test)]
mod tests;
