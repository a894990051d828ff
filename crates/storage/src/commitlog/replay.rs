//! Reading the commit log at start.
//!
//! Segments are read in the order of their numbers, groups in their order in the file. Where a
//! group should begin and none does, the writer's run ended there, torn or not, unless a group
//! that the same run wrote later vouches that this place was on the drive: then the file is
//! damaged, and replay refuses to go on. Of a segment that this number of shards wrote, only its
//! own shard reads; others are read by all shards, each taking the tokens that it owns today.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use io::{Env, OpenOptions};
use model::{Table, TableId};

use super::format::{self, BLOCK, GROUP_HEADER, HeaderError, Position, SegmentHeader, SegmentName};
use super::record::{self, Declared, RecordError, RecordedMutation};

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
}

struct EndedRun {
    shard: u16,
    shards: u16,
    run: u64,
}

struct OpenSegment {
    name: SegmentName,
    header: SegmentHeader,
    bytes: Bytes,
    offset: usize,
    declared: Vec<Option<Declared>>,
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
            if open.offset >= open.bytes.len() {
                self.read_to.insert(open.name.writer(), at);
                self.current = None;
                continue;
            }
            let Some(group) = valid_group(&open.bytes, at) else {
                let mut open = self.current.take().expect("matched above");
                match self.end_of_run(&open).await {
                    Ok(()) => {}
                    Err(error) => {
                        self.pass_over(error)?;
                        // Whatever is whole behind it counts.
                        open.offset += BLOCK;
                        self.current = Some(open);
                    }
                }
                continue;
            };
            if let Some(end) = self.read_to.get(&open.name.writer())
                && end.segment == group.durable.segment
                && *end < group.durable
            {
                let (shard, shards) = open.name.writer();
                let name = SegmentName::of_shard(end.segment, shard, shards);
                let error = ReplayError::Damaged {
                    path: self.dir.join(name.file_name()),
                    offset: end.offset.min(group.durable.offset),
                    reason: "it was longer before".to_owned(),
                };
                let writer = open.name.writer();
                self.pass_over(error)?;
                self.read_to.remove(&writer);
                continue;
            }
            let start = open.offset + GROUP_HEADER;
            let payload = open.bytes.slice(start..start + group.payload);
            open.offset += group.len_in_file();
            if group.records == 0 {
                self.current = None;
                continue;
            }
            let segment = open.name;
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

    /// Reads a segment's file; `None` if nothing in it counts.
    async fn open(&mut self, name: SegmentName) -> Result<Option<OpenSegment>, ReplayError> {
        let bytes = self.read_file(name).await?;
        let header = match SegmentHeader::decode(&bytes) {
            Ok(header) if header.segment == name.segment => header,
            Err(HeaderError::Version(version)) => {
                let path = self.dir.join(name.file_name());
                return Err(ReplayError::Version { path, version });
            }
            // The crash came before the header was on the drive, or it is damaged.
            Ok(_) | Err(HeaderError::Invalid) => {
                let checked = self.check_not_vouched(name, None, 0, Bytes::new()).await;
                if let Err(error) = checked {
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
            bytes,
            offset: BLOCK,
            declared: Vec::new(),
        }))
    }

    async fn read_file(&self, name: SegmentName) -> Result<Bytes, ReplayError> {
        let path = self.dir.join(name.file_name());
        let read = read_segment(&self.env, &path).await;
        read.map_err(|error| ReplayError::Io { path, error })
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
    async fn end_of_run(&mut self, open: &OpenSegment) -> Result<(), ReplayError> {
        let at = open.position();
        let rest = open.bytes.slice(open.offset..);
        self.check_not_vouched(open.name, Some(open.header.run), at.offset, rest)
            .await?;
        self.ended.push(EndedRun {
            shard: open.name.shard,
            shards: open.name.shards,
            run: open.header.run,
        });
        Ok(())
    }

    /// Fails if a group that the same run wrote later (in `rest`, the bytes of the file from
    /// `offset` on, or in a later segment) says that the place was on the drive. Without a run,
    /// whichever run could have written the segment counts.
    async fn check_not_vouched(
        &self,
        name: SegmentName,
        run: Option<u64>,
        offset: u64,
        rest: Bytes,
    ) -> Result<(), ReplayError> {
        let place = Position {
            segment: name.segment,
            offset,
        };
        let mut vouched = vouched_in(&rest, name.segment, offset);
        let later: Vec<SegmentName> = self
            .all
            .iter()
            .filter(|n| (n.shard, n.shards) == (name.shard, name.shards))
            .filter(|n| n.segment > name.segment)
            .copied()
            .collect();
        for later in later {
            let bytes = self.read_file(later).await?;
            let same_run = |found: u64| run.map_or(found <= name.segment, |run| run == found);
            match SegmentHeader::decode(&bytes) {
                Ok(header) if header.segment == later.segment && !same_run(header.run) => break,
                _ => {
                    let found = vouched_in(&bytes, later.segment, 0);
                    vouched = vouched.max(found);
                }
            }
        }
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

/// The furthest place that a group in these bytes vouches for; they begin at `offset` of the
/// file of `segment`.
fn vouched_in(bytes: &Bytes, segment: u64, offset: u64) -> Position {
    let end = offset + bytes.len() as u64;
    let mut vouched = Position::default();
    let mut from = 0;
    while from + BLOCK <= bytes.len() {
        let at = Position {
            segment,
            offset: offset + from as u64,
        };
        let block = &bytes[from..];
        let found = format::peek_group(block, at, end)
            .filter(|group| format::group_checks_out(&block[..GROUP_HEADER + group.payload]));
        match found {
            Some(group) => {
                vouched = vouched.max(group.durable);
                from += group.len_in_file();
            }
            None => from += BLOCK,
        }
    }
    vouched
}

/// The group that begins at a place of a file, if a valid one does.
fn valid_group(file: &Bytes, at: Position) -> Option<format::GroupHeader> {
    let from = at.offset as usize;
    let group = format::peek_group(&file[from..], at, file.len() as u64)?;
    format::group_checks_out(&file[from..from + GROUP_HEADER + group.payload]).then_some(group)
}

impl OpenSegment {
    fn position(&self) -> Position {
        Position {
            segment: self.name.segment,
            offset: self.offset as u64,
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
                record::MUTATION => {
                    mutations.push(record::read_mutation(body, &self.declared)?);
                }
                _ => return Err(RecordError::Unknown("kind of record")),
            }
        }
        Ok(mutations)
    }
}

/// What is in a segment. A process that was killed may have left there what only the kernel has
/// yet; the drive has it when this returns.
pub(in crate::commitlog) async fn read_segment(env: &Env, path: &Path) -> std::io::Result<Bytes> {
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = env.open(path, options).await?;
    file.sync_data().await?;
    let len = file.len().await?;
    file.read_exact_at(0, len as usize).await
}
