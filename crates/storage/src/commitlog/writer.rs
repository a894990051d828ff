//! The task that brings groups to the drive.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use io::{File, Instant, Notify, Task, TaskGroup};

use super::CommitlogSync;
use super::format::{self, BLOCK, GROUP_HEADER, Position};
use super::log::{Inner, MAX_GROUP};
use super::segment_file::{SegmentFile, ZEROED, create_segment};
use super::state::Group;
use crate::health;

/// How long the writer waits before it tries again on a full drive.
const RETRY: Duration = Duration::from_secs(1);

/// How many buffers of groups are kept to be used again.
const BUFFERS: usize = 2;

/// After how long what only the system has is brought to the drive at the latest, whatever the period:
/// the less there is, the shorter is the sync that somebody has to wait for.
const SOON: Duration = Duration::from_secs(1);

/// How much only the system has, in bytes, before it is brought to the drive sooner than that. The kernel does so in
/// one go, on the core of the shard if it has no other: 20 MiB took 10 ms.
const MUCH: u64 = 4 << 20;

/// The writer of a log: the only one who touches the files of the run.
pub(super) struct Writer {
    inner: Rc<Inner>,
    /// The segment being written.
    open: Option<(u64, SegmentFile)>,
    /// Where the writes that are not synced yet end, and how many appends they hold.
    unsynced: Option<(Position, u64)>,
    /// How many bytes were written since the last sync was begun.
    unsynced_bytes: u64,
    /// The segment before the open one, and where it ends, as long as the drive may not have all of it: whoever
    /// waits for no drive does not wait for it between two segments either.
    finished: Option<(Position, File)>,
    /// The sync beside which groups go on being written.
    syncing: Option<Syncing>,
    synced_at: Instant,
    next: Rc<Next>,
}

/// A sync that is under way.
struct Syncing {
    /// What the drive will have, as in `unsynced`.
    end: Position,
    sequence: u64,
    begun: Instant,
    done: Task<Result<(), Unsynced>>,
}

/// Up to where a segment could not be synced.
struct Unsynced {
    end: Position,
    error: std::io::Error,
}

/// The file of the next segment, made ahead of need.
#[derive(Default)]
struct Next {
    state: RefCell<NextState>,
    changed: Notify,
    /// Does the writer wait for it? Then it is good enough as it is.
    wanted: Cell<bool>,
}

#[derive(Default)]
enum NextState {
    #[default]
    Absent,
    UnderWay,
    Ready(u64, SegmentFile),
}

/// Why the writer cannot go on.
enum Stop {
    /// The drive failed.
    Failed(String),
    /// The log is closed while its drive is full. Nobody was told that what still waits is written.
    ClosedFull(String),
}

impl Writer {
    pub(super) fn new(inner: Rc<Inner>) -> Writer {
        Writer {
            open: None,
            unsynced: None,
            unsynced_bytes: 0,
            finished: None,
            syncing: None,
            synced_at: inner.env.now(),
            next: Rc::default(),
            inner,
        }
    }

    /// Writes groups until the log is closed or fails.
    pub(super) async fn run(mut self) {
        loop {
            let rest = self.rest();
            if !rest.is_zero() {
                self.inner.env.sleep(rest).await;
            }
            let group = self.inner.state.borrow_mut().take_group();
            let result = match group {
                Some(group) => self.write_group(group).await,
                None if self.sync_due() => self.sync().await,
                None if self.has_synced() => self.end_sync().await,
                None if self.begins_sync() => Ok(()),
                None if self.inner.closing.get() => return,
                None => {
                    self.wait().await;
                    Ok(())
                }
            };
            let reason = match result {
                Ok(()) => continue,
                Err(Stop::Failed(reason)) if self.goes_on(&reason) => continue,
                Err(Stop::Failed(reason) | Stop::ClosedFull(reason)) => reason,
            };
            self.inner.has_room();
            self.inner.state.borrow_mut().fail(reason);
            self.inner.written.notify_all();
            return;
        }
    }

    /// May the log go on after this failure? Then it does so in another segment.
    fn goes_on(&mut self, reason: &str) -> bool {
        if !self.inner.shared.health.commit_failed(reason) {
            return false;
        }
        self.inner.has_room();
        let (inner, bytes) = (&self.inner, self.inner.config.segment_bytes);
        let open = self.open.as_ref().map(|(segment, _)| *segment);
        let without_file = open.map_or(inner.run.get(), |segment| segment + 1);
        let mut state = inner.state.borrow_mut();
        let acknowledged_to = match self.unsynced {
            Some((end, _)) if !inner.config.sync.syncs_each_group() => end,
            _ => state.durable_to,
        };
        // Of the open segment all, if nothing in it was acknowledged.
        let given_up = open.map(|segment| acknowledged_to.max(Position { segment, offset: 0 }));
        if !state.begin_anew(reason, bytes, without_file, given_up, |s| inner.name(s)) {
            return false;
        }
        inner.run.set(state.active);
        drop(state);
        inner.written.notify_all();
        let finished = self.finished.take().map(|(end, _)| end.segment);
        let damaged = self.open.take().map(|(segment, _)| segment);
        for segment in finished.into_iter().chain(damaged) {
            inner.shared.archive.is_full(&inner.path(segment));
        }
        (self.unsynced, self.syncing, self.unsynced_bytes) = (None, None, 0);
        self.inner.release.notify_one();
        true
    }

    /// How long the drive is to rest before the next group.
    fn rest(&self) -> Duration {
        let config = &self.inner.config;
        if config.sync != CommitlogSync::Group
            || config.group_window.is_zero()
            || self.inner.closing.get()
        {
            return Duration::ZERO;
        }
        let due = self.synced_at + config.group_window;
        due.saturating_duration_since(self.inner.env.now())
    }

    async fn wait(&self) {
        let inner = &*self.inner;
        match (inner.config.sync, self.unsynced) {
            (CommitlogSync::Periodic { every, .. }, Some(_)) if self.syncing.is_none() => {
                let due = self.synced_at + every.min(SOON);
                let left = due.saturating_duration_since(inner.env.now());
                // Whether the time is up or there is work, the loop looks again.
                let _ = inner.env.timeout(left, inner.work.notified()).await;
            }
            _ => inner.work.notified().await,
        }
    }

    /// Must the drive have what is written before anything else is?
    fn sync_due(&self) -> bool {
        match self.inner.config.sync {
            CommitlogSync::Group | CommitlogSync::Batch => self.unsynced.is_some(),
            CommitlogSync::Periodic { .. } => self.unsynced.is_some() && self.inner.closing.get(),
        }
    }

    /// Begins a sync beside which groups go on being written, if it is time for one.
    fn begins_sync(&mut self) -> bool {
        let CommitlogSync::Periodic { every, .. } = self.inner.config.sync else {
            return false;
        };
        let (Some((end, sequence)), None) = (self.unsynced, &self.syncing) else {
            return false;
        };
        let begun = self.inner.env.now();
        let state = self.inner.state.borrow();
        let is_early = begun < self.synced_at + every.min(SOON)
            && self.unsynced_bytes < MUCH
            && self.finished.is_none();
        if is_early && state.sync_wanted <= state.durable {
            return false;
        }
        drop(state);
        let (inner, files) = (self.inner.clone(), self.unsynced_files(end));
        let sync = async move {
            let result = sync_all(files).await;
            inner.work.notify_one();
            result
        };
        self.unsynced_bytes = 0;
        let done = self.inner.env.spawn(TaskGroup::Foreground, sync);
        self.syncing = Some(Syncing {
            end,
            sequence,
            begun,
            done,
        });
        true
    }

    /// Is the sync over that was begun?
    fn has_synced(&self) -> bool {
        let syncing = self.syncing.as_ref();
        syncing.is_some_and(|syncing| syncing.done.is_finished())
    }

    /// Waits for the sync that was begun.
    async fn end_sync(&mut self) -> Result<(), Stop> {
        let Some(syncing) = self.syncing.take() else {
            return Ok(());
        };
        let result = syncing.done.await;
        result.map_err(|unsynced| self.could_not_sync(unsynced))?;
        self.is_durable(syncing.end, syncing.sequence, syncing.begun);
        Ok(())
    }

    /// The files that the drive may not have all of up to `end`, and up to where, in the order in which it is to
    /// have them: that a segment is on the drive says so of all before it.
    fn unsynced_files(&self, end: Position) -> Vec<(Position, File)> {
        let open = self.open.iter();
        let open = open.filter(|(segment, _)| *segment == end.segment);
        let finished = self.finished.iter().cloned();
        finished
            .chain(open.map(|(_, open)| (end, open.file.clone())))
            .collect()
    }

    fn could_not_sync(&self, Unsynced { end, error }: Unsynced) -> Stop {
        self.describe("syncing", end, &error)
    }

    async fn write_group(&mut self, mut group: Group) -> Result<(), Stop> {
        let file = self.segment_file(group.segment).await?;
        let at = Position {
            segment: group.segment,
            offset: group.offset,
        };
        let payload = group.bytes.len() - GROUP_HEADER;
        let durable = self.inner.state.borrow().durable_to;
        format::seal_group(&mut group.bytes, at, durable, group.records);
        let len = group.bytes.len().next_multiple_of(BLOCK);
        group.bytes.resize(len, 0);
        let begun = self.inner.env.now();
        // Nothing but the group is on its way then, so that the drive has all when it has that.
        let synced = self.unsynced.is_none() && self.inner.config.sync.syncs_each_group();
        if synced {
            self.fill_ahead(at.offset + len as u64).await;
        }
        let buffer = self.write_bytes(&file, at, group.bytes, synced).await?;
        {
            let mut state = self.inner.state.borrow_mut();
            state.written = group.last_sequence;
            state.pending_bytes = state.pending_bytes.saturating_sub(payload);
            if state.buffers.len() < BUFFERS && buffer.capacity() <= 2 * MAX_GROUP {
                state.buffers.push(buffer);
            }
            self.inner.written.notify_all();
            state.stats.groups += 1;
            state.stats.written_bytes += len as u64;
        }
        let end = Position {
            offset: at.offset + len as u64,
            ..at
        };
        if synced {
            let now = self.inner.env.now();
            self.is_durable(end, group.last_sequence, now);
        } else {
            self.unsynced = Some((end, group.last_sequence));
            self.unsynced_bytes += len as u64;
            self.inner.state.borrow_mut().wake();
        }
        if synced || self.sync_due() {
            self.sync().await?;
            let took = self.inner.env.now().saturating_duration_since(begun);
            self.inner.state.borrow_mut().stats.group_latency.add(took);
        }
        if self.has_synced() {
            self.end_sync().await?;
        }
        self.begins_sync();
        Ok(())
    }

    /// Has zeros where a group is to be written, and behind it, so that only few groups come to where
    /// nothing was written before. If that cannot be done the group is slower, and no worse.
    async fn fill_ahead(&mut self, end: u64) {
        let segment = self.inner.config.segment_bytes;
        if let Some((_, open)) = &mut self.open
            && end > open.blank_from
        {
            let _ = open.fill((end + ZEROED).min(segment)).await;
            open.blank_from = open.blank_from.max(end);
        }
    }

    /// Writes the bytes of a group, however long a full drive takes to have room for them: with file
    /// systems that never write in place, or quotas, also what was allocated needs room. Nothing was
    /// written behind them before.
    async fn write_bytes(
        &self,
        file: &File,
        at: Position,
        mut bytes: Vec<u8>,
        synced: bool,
    ) -> Result<Vec<u8>, Stop> {
        loop {
            let (result, buffer) = match synced {
                true => file.write_all_synced_at(bytes, at.offset).await,
                false => file.write_all_at(bytes, at.offset).await,
            };
            match result {
                Ok(()) => {
                    self.inner.has_room();
                    return Ok(buffer);
                }
                Err(error) if health::is_full(&error) => {
                    self.wait_for_room("write", at.segment, &error).await?;
                    bytes = buffer;
                }
                Err(error) => return Err(self.describe("writing", at, &error)),
            }
        }
    }

    /// Has all that is written on the drive before anything else is done.
    async fn sync(&mut self) -> Result<(), Stop> {
        self.end_sync().await?;
        let Some((end, sequence)) = self.unsynced else {
            return Ok(());
        };
        self.unsynced_bytes = 0;
        let result = sync_all(self.unsynced_files(end)).await;
        result.map_err(|unsynced| self.could_not_sync(unsynced))?;
        let now = self.inner.env.now();
        self.is_durable(end, sequence, now);
        Ok(())
    }

    /// The drive has all up to `end`, and so all records up to `sequence`; what came after `since` it may
    /// not have.
    fn is_durable(&mut self, end: Position, sequence: u64, since: Instant) {
        self.unsynced.take_if(|(written, _)| *written <= end);
        if let Some((finished, _)) = self.finished.take_if(|(finished, _)| *finished <= end) {
            self.seal(finished.segment);
        }
        self.synced_at = since;
        let mut state = self.inner.state.borrow_mut();
        state.stats.syncs += 1;
        state.durable = sequence;
        state.durable_to = end;
        let all = state.appended == sequence;
        state.behind_since = (!all).then_some(since);
        state.wake();
    }

    fn describe(&self, what: &str, at: Position, error: &std::io::Error) -> Stop {
        let path = self.inner.path(at.segment);
        Stop::Failed(format!(
            "{what} {} at offset {} failed: {error}; no write is acknowledged until the node is \
             started again",
            path.display(),
            at.offset
        ))
    }

    /// The file of a segment; goes on to the next segment where that is asked for.
    async fn segment_file(&mut self, segment: u64) -> Result<File, Stop> {
        if let Some((number, open)) = &self.open {
            if *number == segment {
                return Ok(open.file.clone());
            }
            // A drive that is slower than what comes is waited for, here at the latest.
            if self.finished.is_some() || self.inner.config.sync.syncs_each_group() {
                self.sync().await?;
            }
        }
        let next = self.next_file(segment).await?;
        let file = next.file.clone();
        if let Some((number, finished)) = self.open.replace((segment, next)) {
            match self.unsynced {
                Some((end, _)) => {
                    assert_eq!(
                        end.segment, number,
                        "groups are written to the open segment"
                    );
                    self.finished = Some((end, finished.file));
                }
                None => self.seal(number),
            }
        }
        self.prepare(segment + 1);
        Ok(file)
    }

    /// The drive has all of a segment, and nothing comes behind it in its file.
    fn seal(&self, segment: u64) {
        let inner = &self.inner;
        inner.shared.archive.is_full(&inner.path(segment));
        let name = inner.name(segment);
        if let Some(segment) = inner.state.borrow_mut().segments.get_mut(&name) {
            segment.sealed = true;
        }
        inner.release.notify_one();
    }

    /// Takes the file made ahead, or makes it, however long the drive takes to have room for it.
    async fn next_file(&self, segment: u64) -> Result<SegmentFile, Stop> {
        loop {
            let state = self.next.state.take();
            match state {
                NextState::Ready(found, file) if found == segment => return Ok(file),
                NextState::UnderWay => {
                    self.next.state.replace(NextState::UnderWay);
                    self.next.wanted.set(true);
                    self.next.changed.notified().await;
                    continue;
                }
                // The log has begun anew since, behind it.
                NextState::Ready(unused, _) => self.inner.discard(&self.inner.path(unused)).await,
                NextState::Absent => {}
            }
            match create_segment(&self.inner, segment, self.inner.run.get()).await {
                Ok(file) => {
                    self.inner.has_room();
                    return Ok(file);
                }
                Err(error) if health::is_full(&error) => {
                    self.wait_for_room("make", segment, &error).await?;
                }
                Err(error) => {
                    let at = Position { segment, offset: 0 };
                    return Err(self.describe("making", at, &error));
                }
            }
        }
    }

    /// The drive is full: has writes refused and waits a while. What waits already is written once
    /// there is room, unless the log is closed.
    async fn wait_for_room(
        &self,
        what: &str,
        segment: u64,
        error: &std::io::Error,
    ) -> Result<(), Stop> {
        let path = self.inner.path(segment);
        let path = path.display();
        let reason =
            format!("the commit log cannot {what} {path}: {error}; no write is taken until it can");
        if self.inner.closing.get() {
            return Err(Stop::ClosedFull(reason));
        }
        self.inner.has_no_room(reason);
        // Not woken by who closes the log: it tries once more then.
        self.inner.env.sleep(RETRY).await;
        Ok(())
    }

    fn prepare(&self, segment: u64) {
        if self.inner.closing.get() {
            return;
        }
        self.next.state.replace(NextState::UnderWay);
        self.next.wanted.set(false);
        let (inner, next) = (self.inner.clone(), self.next.clone());
        // Not the run of when the task comes to it: the log may have begun anew by then, and go on
        // behind this segment.
        let run = inner.run.get();
        let make = async move {
            let made = async {
                let mut made = create_segment(&inner, segment, run).await?;
                let bytes = inner.config.segment_bytes;
                while inner.config.sync.syncs_each_group()
                    && made.blank_from < bytes
                    && !next.wanted.get()
                {
                    let end = made.blank_from + ZEROED;
                    made.fill(end.min(bytes)).await?;
                }
                Ok::<_, std::io::Error>(made)
            };
            next.state.replace(match made.await {
                Ok(file) => NextState::Ready(segment, file),
                // The writer tries again when it needs the file, and complains then.
                Err(_) => NextState::Absent,
            });
            next.changed.notify_one();
        };
        // Of what waits for the drive the groups come first, and there is time until this one is full.
        drop(self.inner.env.spawn(TaskGroup::Flush, make));
    }
}

/// Brings files to the drive, one after the other.
async fn sync_all(files: Vec<(Position, File)>) -> Result<(), Unsynced> {
    for (end, file) in files {
        let synced = file.sync_data().await;
        synced.map_err(|error| Unsynced { end, error })?;
    }
    Ok(())
}
