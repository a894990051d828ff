//! Reading the commit log at start.
//!
//! Segments are read in the order of their numbers, groups in their order in the file. Where a
//! group should begin and none does, the writer's run ended there, torn or not, unless a group
//! that the same run wrote later vouches that this place was on the drive: then the file is
//! damaged, and replay refuses to go on. Of a segment that this number of shards wrote, only its
//! own shard reads; others are read by all shards, each taking the tokens that it owns today.
//!
//! All shards read at once, so that of a segment only a [`window`](super::window) is in memory, and
//! no more than a group if that is larger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{Table, TableId};

use super::format::{
    self, BLOCK, GROUP_HEADER, GroupCheck, GroupHeader, HeaderError, Position, SegmentHeader,
    SegmentName,
};
use super::record::{self, Declared, RecordError, RecordedMutation};
use super::window::{LogFile, WINDOW};

/// Why the commit log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The drive refused.
    #[error("reading {path} failed: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the drive said.
        error: std::io::Error,
    },
    /// Bytes that were on the drive before are not what they were.
    #[error(
        "{path} is damaged at offset {offset}: {reason}; acknowledged writes may be lost. Restore \
         the file, or start once with --commitlog-ignore-replay-errors true to go without what \
         cannot be read"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins, in bytes.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A segment in the middle is not there.
    #[error(
        "{path} is missing, though segments before and after it are there; acknowledged writes \
         may be lost. Restore the file, or move the older ones away to start without their writes"
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file of Cassandra's that cannot be read.
    #[error(
        "{path} {what}. It is a Cassandra's commit log, and what it holds may be in no sstable: \
         without it writes may be lost"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What about it, and what to do.
        what: String,
    },
    /// A format that a later Helenus writes.
    #[error("{path} is of commit-log version {version}, which this Helenus does not know")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
    },
}

/// The mutations of one group.
#[derive(Debug)]
pub(crate) struct ReplayedGroup {
    /// The segment.
    pub(crate) segment: SegmentName,
    /// Where in it the group begins.
    pub(crate) position: Position,
    /// What it holds, updates of unknown tables left out.
    pub(crate) mutations: Vec<RecordedMutation>,
}

/// A reading of all old segments, from the oldest to the youngest.
pub(crate) struct Replay {
    env: Env,
    dir: PathBuf,
    /// Those still to be read, youngest first.
    names: Vec<SegmentName>,
    all: Vec<SegmentName>,
    current: Option<OpenSegment>,
    /// Writers whose run ended in a torn tail: what else the run wrote does not count.
    ended: Vec<EndedRun>,
    /// Is damage passed over?
    ignore_errors: bool,
    /// Where the last segment of a writer that was read to the end of its file ended.
    read_to: BTreeMap<(u16, u16), Position>,
    /// How much of a file is read at once.
    at_once: usize,
}

struct EndedRun {
    shard: u16,
    shards: u16,
    run: u64,
}

struct OpenSegment {
    name: SegmentName,
    header: SegmentHeader,
    file: LogFile,
    offset: u64,
    declared: Vec<Option<Declared>>,
    /// Up to where later groups vouch for the log, once that had to be known.
    vouched: Option<Position>,
}

impl Replay {
    /// Reads the segments of these names in `dir`; with `ignore_errors` without what cannot be read.
    pub(crate) fn new(
        env: Env,
        dir: &Path,
        mut names: Vec<SegmentName>,
        ignore_errors: bool,
    ) -> Replay {
        names.sort();
        Replay {
            env,
            dir: dir.to_owned(),
            all: names.clone(),
            names: names.into_iter().rev().collect(),
            current: None,
            ended: Vec::new(),
            ignore_errors,
            read_to: BTreeMap::new(),
            at_once: WINDOW,
        }
    }

    /// The next group, its tables resolved by `find`; `None` at the end.
    pub(crate) async fn next(
        &mut self,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Option<ReplayedGroup>, ReplayError> {
        loop {
            let Some(open) = &mut self.current else {
                let Some(name) = self.names.pop() else {
                    return Ok(None);
                };
                self.current = self.open(name).await?;
                continue;
            };
            let at = open.position();
            if open.offset >= open.file.len() {
                self.read_to.insert(open.name.writer(), at);
                self.current = None;
                continue;
            }
            let segment = open.name;
            let found = valid_group(&mut open.file, at).await;
            let found = found.map_err(|error| io_error(&self.dir, segment, error))?;
            let Some((group, payload)) = found else {
                let mut open = self.current.take().expect("matched above");
                match self.end_of_run(&mut open).await {
                    Ok(()) => {}
                    Err(error) => {
                        self.pass_over(error)?;
                        // Whatever is whole behind it counts.
                        open.offset += BLOCK as u64;
                        self.current = Some(open);
                    }
                }
                continue;
            };
            if let Some(end) = self.read_to.get(&segment.writer())
                && end.segment == group.durable.segment
                && *end < group.durable
            {
                let (shard, shards) = segment.writer();
                let name = SegmentName::of_shard(end.segment, shard, shards);
                let error = ReplayError::Damaged {
                    path: self.dir.join(name.file_name()),
                    offset: end.offset.min(group.durable.offset),
                    reason: "it was longer before".to_owned(),
                };
                self.pass_over(error)?;
                self.read_to.remove(&segment.writer());
                continue;
            }
            open.offset += group.len_in_file() as u64;
            if group.records == 0 {
                self.current = None;
                continue;
            }
            match open.read_records(payload, find) {
                Ok(mutations) => {
                    return Ok(Some(ReplayedGroup {
                        segment,
                        position: at,
                        mutations,
                    }));
                }
                Err(error) => self.pass_over(ReplayError::Damaged {
                    path: self.dir.join(segment.file_name()),
                    offset: at.offset,
                    reason: error.to_string(),
                })?,
            }
        }
    }

    /// Damage is an error, unless it is to be ignored.
    fn pass_over(&self, error: ReplayError) -> Result<(), ReplayError> {
        let damage = matches!(
            error,
            ReplayError::Damaged { .. } | ReplayError::Missing { .. }
        );
        if !self.ignore_errors || !damage {
            return Err(error);
        }
        tracing::error!("ignored, as asked: {error}");
        Ok(())
    }

    /// Opens a segment's file; `None` if nothing in it counts.
    async fn open(&mut self, name: SegmentName) -> Result<Option<OpenSegment>, ReplayError> {
        let (file, header) = self.open_file(name).await?;
        let header = match header {
            Ok(header) if header.segment == name.segment => header,
            Err(HeaderError::Version(version)) => {
                let path = self.dir.join(name.file_name());
                return Err(ReplayError::Version { path, version });
            }
            // The crash came before the header was on the drive, or it is damaged.
            Ok(_) | Err(HeaderError::Invalid) => {
                let vouched = self.vouched_behind(name, None).await?;
                if let Err(error) = self.check_not_vouched(name, 0, vouched) {
                    self.pass_over(error)?;
                }
                return Ok(None);
            }
        };
        if let Err(error) = self.check_no_gap(name, &header) {
            self.pass_over(error)?;
        }
        let torn = |ended: &EndedRun| {
            (ended.shard, ended.shards, ended.run) == (name.shard, name.shards, header.run)
        };
        if self.ended.iter().any(torn) {
            return Ok(None);
        }
        Ok(Some(OpenSegment {
            name,
            header,
            file,
            offset: BLOCK as u64,
            declared: Vec::new(),
            vouched: None,
        }))
    }

    /// A segment's file, and what its first block says.
    async fn open_file(
        &self,
        name: SegmentName,
    ) -> Result<(LogFile, Result<SegmentHeader, HeaderError>), ReplayError> {
        let path = self.dir.join(name.file_name());
        let opened = async {
            let mut file = LogFile::open(&self.env, &path, self.at_once).await?;
            let block = file.at(0, BLOCK).await?;
            Ok((file, SegmentHeader::decode(&block)))
        };
        let opened = opened.await;
        opened.map_err(|error| io_error(&self.dir, name, error))
    }

    /// Segments of one run are numbered without gaps, and go in order.
    fn check_no_gap(&self, name: SegmentName, header: &SegmentHeader) -> Result<(), ReplayError> {
        let before = self
            .all
            .iter()
            .filter(|other| (other.shard, other.shards) == (name.shard, name.shards))
            .take_while(|other| other.segment < name.segment)
            .last();
        match before {
            Some(before) if header.run <= before.segment && before.segment + 1 < name.segment => {
                let missing = SegmentName::of_shard(before.segment + 1, name.shard, name.shards);
                Err(ReplayError::Missing {
                    path: self.dir.join(missing.file_name()),
                })
            }
            _ => Ok(()),
        }
    }

    /// No group begins where one should: a torn tail, or damage?
    async fn end_of_run(&mut self, open: &mut OpenSegment) -> Result<(), ReplayError> {
        let (name, at) = (open.name, open.position());
        let vouched = match open.vouched {
            Some(vouched) => vouched,
            None => {
                let here = vouched_in(&self.env, &mut open.file, at).await;
                let here = here.map_err(|error| io_error(&self.dir, name, error))?;
                let behind = self.vouched_behind(name, Some(open.header.run)).await?;
                *open.vouched.insert(here.max(behind))
            }
        };
        self.check_not_vouched(name, at.offset, vouched)?;
        self.ended.push(EndedRun {
            shard: name.shard,
            shards: name.shards,
            run: open.header.run,
        });
        Ok(())
    }

    /// The furthest place that the segments behind this one vouch for, as far as the same run wrote
    /// them. Without a run, whichever could have written this segment counts.
    async fn vouched_behind(
        &self,
        name: SegmentName,
        run: Option<u64>,
    ) -> Result<Position, ReplayError> {
        let mut vouched = Position::default();
        let of_writer = self.all.iter().filter(|n| n.writer() == name.writer());
        for later in of_writer.filter(|n| n.segment > name.segment) {
            let (mut file, header) = self.open_file(*later).await?;
            let same_run = |found: u64| run.map_or(found <= name.segment, |run| run == found);
            match header {
                Ok(header) if header.segment == later.segment && !same_run(header.run) => break,
                // What it vouches for cannot be told.
                Err(HeaderError::Version(version)) => {
                    let path = self.dir.join(later.file_name());
                    return Err(ReplayError::Version { path, version });
                }
                _ => {}
            }
            let from = Position {
                segment: later.segment,
                offset: 0,
            };
            let found = vouched_in(&self.env, &mut file, from).await;
            vouched = vouched.max(found.map_err(|error| io_error(&self.dir, *later, error))?);
        }
        Ok(vouched)
    }

    /// Fails if a group that was written later says that this place was on the drive.
    fn check_not_vouched(
        &self,
        name: SegmentName,
        offset: u64,
        vouched: Position,
    ) -> Result<(), ReplayError> {
        let place = Position {
            segment: name.segment,
            offset,
        };
        if vouched > place {
            return Err(ReplayError::Damaged {
                path: self.dir.join(name.file_name()),
                offset,
                reason: "what stands here does not check out, but was on the drive before"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

/// What the drive said of a segment's file.
pub(super) fn io_error(dir: &Path, name: SegmentName, error: std::io::Error) -> ReplayError {
    let path = dir.join(name.file_name());
    ReplayError::Io { path, error }
}

/// The furthest place that a group in this file vouches for, from `at` on.
async fn vouched_in(env: &Env, file: &mut LogFile, mut at: Position) -> std::io::Result<Position> {
    let mut vouched = Position::default();
    while at.offset + BLOCK as u64 <= file.len() {
        match group_at(file, at).await? {
            Some(group) => {
                vouched = vouched.max(group.durable);
                at.offset += group.len_in_file() as u64;
            }
            None => at.offset += BLOCK as u64,
        }
        env.maybe_yield().await;
    }
    Ok(vouched)
}

/// The group that begins at a place of a file and its payload, if a valid one does.
async fn valid_group(
    file: &mut LogFile,
    at: Position,
) -> std::io::Result<Option<(GroupHeader, Bytes)>> {
    let Some(group) = group_at(file, at).await? else {
        return Ok(None);
    };
    let whole = file.at(at.offset, group.len()).await?;
    // What is larger than the window was read twice.
    let valid = group.len() <= file.at_once() || format::group_checks_out(&whole);
    Ok(valid.then(|| (group, whole.slice(GROUP_HEADER..))))
}

/// What stands before the payload of the group at a place of a file, if a valid one begins there.
/// Until that is known nothing is taken into memory because the header says so: what is larger
/// than the window goes through it.
async fn group_at(file: &mut LogFile, at: Position) -> std::io::Result<Option<GroupHeader>> {
    let header = file.at(at.offset, GROUP_HEADER).await?;
    let Some(group) = format::peek_group(&header, at, file.len()) else {
        return Ok(None);
    };
    if group.len() <= file.at_once() {
        let whole = file.at(at.offset, group.len()).await?;
        return Ok(format::group_checks_out(&whole).then_some(group));
    }
    let mut check = match header.first_chunk() {
        Some(header) => GroupCheck::begin(header),
        None => return Ok(None),
    };
    drop(header);
    let mut from = GROUP_HEADER;
    while from < group.len() {
        let len = (group.len() - from).min(file.at_once());
        check.add(&file.at(at.offset + from as u64, len).await?);
        from += len;
    }
    Ok(check.holds().then_some(group))
}

impl OpenSegment {
    fn position(&self) -> Position {
        Position {
            segment: self.name.segment,
            offset: self.offset,
        }
    }

    fn read_records(
        &mut self,
        mut payload: Bytes,
        find: &dyn Fn(TableId) -> Option<Arc<Table>>,
    ) -> Result<Vec<RecordedMutation>, RecordError> {
        let mut mutations = Vec::new();
        while !payload.is_empty() {
            let (kind, body) = record::split_record(&mut payload)?;
            match kind {
                record::SCHEMA => {
                    let (number, declared) = record::read_schema(body, find)?;
                    let slot = number as usize;
                    // Numbers are given in turn.
                    if slot > self.declared.len() {
                        return Err(RecordError::Unknown("table number"));
                    }
                    self.declared
                        .resize(self.declared.len().max(slot + 1), None);
                    self.declared[slot] = Some(declared);
                }
                _ => mutations.push(record::read_written(kind, body, &self.declared)?),
            }
        }
        Ok(mutations)
    }
}

#[cfg(test)]
mod tests;
