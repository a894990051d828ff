//! Bringing what a Cassandra's commit log has, and its sstables do not, to the tables.
//!
//! An sstable says which intervals of the log of which node it holds; a truncation says up to
//! where a table's mutations are gone (`CommitLogReplayer.persistedIntervals`). All other
//! mutations are replayed; a second time does no harm. Every shard reads all files and takes the
//! keys that it owns today, with a [`window`](crate::commitlog::window) of one file in memory.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use io::Env;
use model::{Table, TableId, Token};

use super::descriptor::{DescriptorError, HEAD};
use super::segment::{Damage, Entry, Pause, SegmentReader};
use crate::commitlog::format::{Position, SegmentName};
use crate::commitlog::record::RecordedMutation;
use crate::commitlog::replay::{ReplayError, ReplayedGroup, io_error};
use crate::commitlog::window::{LogFile, WINDOW};
use crate::sstable::{CommitLogPosition, MessageMutation};

/// How many bytes of mutations are given away at once, about.
const GROUP_BYTES: usize = 64 << 10;

/// Which parts of the log need no replay, by table.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    intervals: BTreeMap<TableId, Vec<(CommitLogPosition, CommitLogPosition)>>,
}

impl Covered {
    /// The mutations of a table in an interval, its ends included, are in an sstable or gone.
    pub(crate) fn add(&mut self, table: TableId, from: CommitLogPosition, to: CommitLogPosition) {
        self.intervals.entry(table).or_default().push((from, to));
    }

    fn contains(&self, table: TableId, position: CommitLogPosition) -> bool {
        let of_table = self.intervals.get(&table);
        let mut intervals = of_table.into_iter().flatten();
        intervals.any(|(from, to)| (*from..=*to).contains(&position))
    }
}

/// A reading of all segments that a Cassandra left, from the oldest to the youngest.
pub(crate) struct CassandraReplay {
    env: Env,
    dir: PathBuf,
    names: VecDeque<SegmentName>,
    covered: Covered,
    /// Is damage passed over?
    ignore_errors: bool,
    current: Option<OpenSegment>,
    /// How many mutations there were of tables that are not known.
    unknown: BTreeMap<TableId, u64>,
    /// How many updates were taken, and how many of them needed no replay.
    taken: u64,
    covered_updates: u64,
}

struct OpenSegment {
    name: SegmentName,
    file: LogFile,
    reader: SegmentReader,
}

impl CassandraReplay {
    /// Reads the segments of these names in `dir`.
    pub(crate) fn new(
        env: Env,
        dir: &Path,
        mut names: Vec<SegmentName>,
        covered: Covered,
        ignore_errors: bool,
    ) -> CassandraReplay {
        names.sort();
        CassandraReplay {
            env,
            dir: dir.to_owned(),
            names: names.into(),
            covered,
            ignore_errors,
            current: None,
            unknown: BTreeMap::new(),
            taken: 0,
            covered_updates: 0,
        }
    }

    /// The next mutations of keys that are ours; `None` at the end.
    pub(crate) async fn next(
        &mut self,
        owns: &dyn Fn(Token) -> bool,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Option<ReplayedGroup>, ReplayError> {
        loop {
            if self.current.is_none() {
                let Some(name) = self.names.pop_front() else {
                    return Ok(None);
                };
                self.current = self.open(name).await?;
                continue;
            }
            if let Some(group) = self.group(owns, find).await? {
                return Ok(Some(group));
            }
            self.current = None;
        }
    }

    /// What was passed over, for the log; `None` if nothing was.
    pub(crate) fn summary(&self) -> String {
        let unknown: u64 = self.unknown.values().sum();
        format!(
            "{} updates of a Cassandra's commit log replayed, {} were in its sstables already, {} \
             mutations of {} tables that do not exist here passed over",
            self.taken,
            self.covered_updates,
            unknown,
            self.unknown.len()
        )
    }

    async fn open(&self, name: SegmentName) -> Result<Option<OpenSegment>, ReplayError> {
        let (file, reader) = self.open_file(name).await?;
        let reason = match reader {
            Ok(reader) if reader.descriptor().id as u64 == name.segment => {
                return Ok(Some(OpenSegment { name, file, reader }));
            }
            Ok(_) => "its head names another segment",
            Err(DescriptorError::Unsupported(what)) => {
                let path = self.dir.join(name.file_name());
                return Err(ReplayError::Foreign { path, what });
            }
            // The crash came before anything was in it.
            Err(DescriptorError::Empty) if self.is_last().await? => return Ok(None),
            Err(DescriptorError::Empty | DescriptorError::Invalid) => "its head does not check out",
        };
        let damage = Damage {
            offset: 0,
            what: reason,
            in_last_section: false,
        };
        self.damaged(name, damage).await.map(|()| None)
    }

    async fn open_file(
        &self,
        name: SegmentName,
    ) -> Result<(LogFile, Result<SegmentReader, DescriptorError>), ReplayError> {
        let path = self.dir.join(name.file_name());
        let opened = async {
            let mut file = LogFile::open(&self.env, &path, WINDOW).await?;
            let head = file.at(0, HEAD).await?;
            let reader = SegmentReader::new(&head, file.len());
            Ok((file, reader))
        };
        let opened = opened.await;
        opened.map_err(|error| io_error(&self.dir, name, error))
    }

    /// Is there nothing in the files that are still to be read? A Cassandra makes segments before
    /// it needs them, so that the file that it wrote to last is seldom the last one
    /// (`CommitLogReader.filterCommitLogFiles`). What a power failure left of a new one may be
    /// less than its head.
    async fn is_last(&self) -> Result<bool, ReplayError> {
        for name in self.names.iter().rev() {
            let (file, reader) = self.open_file(*name).await?;
            let empty = match reader {
                Ok(reader) => {
                    let named = reader.descriptor().id as u64 == name.segment;
                    named && reader.is_empty(file.window())
                }
                Err(error) => error == DescriptorError::Empty,
            };
            if !empty {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What to do about damage: nothing, if a crash explains it or the operator wants it so.
    async fn damaged(&self, name: SegmentName, damage: Damage) -> Result<(), ReplayError> {
        let path = self.dir.join(name.file_name());
        let Damage { offset, what, .. } = damage;
        if damage.in_last_section && self.is_last().await? {
            let path = path.display();
            tracing::warn!("{path}: {what} at offset {offset}: the end that a crash tore");
            return Ok(());
        }
        if self.ignore_errors {
            tracing::error!(
                "{} is damaged at offset {offset}: {what}; ignored, as asked",
                path.display()
            );
            return Ok(());
        }
        Err(ReplayError::Damaged {
            path,
            offset,
            reason: what.to_owned(),
        })
    }

    /// Some mutations of the open segment; `None` at its end.
    async fn group(
        &mut self,
        owns: &dyn Fn(Token) -> bool,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Option<ReplayedGroup>, ReplayError> {
        let Some(mut open) = self.current.take() else {
            return Ok(None);
        };
        let name = open.name;
        let unsigned = open.reader.descriptor().unsigned_deletion_time();
        let (mut mutations, mut bytes, mut ended) = (Vec::new(), 0, false);
        while bytes < GROUP_BYTES {
            match open.reader.next(open.file.window()) {
                Ok(Some(entry)) => {
                    bytes += entry.body.len();
                    mutations.extend(self.decode(name, &entry, unsigned, owns, find)?);
                }
                Ok(None) => {
                    ended = true;
                    break;
                }
                Err(Pause::Damaged(damage)) => self.damaged(name, damage).await?,
                // These keep the window that they were in.
                Err(Pause::Absent(_)) if !mutations.is_empty() => break,
                Err(Pause::Absent(absent)) => {
                    let loaded = open.file.load(absent).await;
                    loaded.map_err(|error| io_error(&self.dir, name, error))?;
                }
            }
        }
        if !ended || !mutations.is_empty() {
            self.current = Some(open);
            return Ok(Some(ReplayedGroup {
                segment: name,
                // Before all that is ours.
                position: Position::default(),
                mutations,
            }));
        }
        Ok(None)
    }

    fn decode(
        &mut self,
        name: SegmentName,
        entry: &Entry,
        unsigned: bool,
        owns: &dyn Fn(Token) -> bool,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Option<RecordedMutation>, ReplayError> {
        let decoded = match MessageMutation::key(&entry.body) {
            Ok(key) if !owns(key.token()) => return Ok(None),
            Ok(key) => MessageMutation::decode(&entry.body, unsigned, find).map(|m| (key, m)),
            Err(error) => Err(error.into()),
        };
        let (key, mutation) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                let path = self.dir.join(name.file_name());
                if self.ignore_errors {
                    let (path, offset) = (path.display(), entry.offset);
                    tracing::error!("{path}: the mutation at offset {offset}: {error}; ignored");
                    return Ok(None);
                }
                return Err(ReplayError::Damaged {
                    path,
                    offset: entry.offset,
                    reason: error.to_string(),
                });
            }
        };
        if let Some(table) = mutation.unknown {
            *self.unknown.entry(table).or_default() += 1;
        }
        let mut updates = mutation.updates;
        let before = updates.len();
        updates.retain(|update| !self.covered.contains(update.table.id, entry.end));
        self.taken += updates.len() as u64;
        self.covered_updates += (before - updates.len()) as u64;
        Ok(Some(RecordedMutation {
            key,
            updates,
            skipped: mutation.unknown.is_some(),
        }))
    }
}
