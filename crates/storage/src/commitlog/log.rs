//! The commit log of one shard: appending, group commit, and letting go of segments.
//!
//! **Group commit.** Records are appended to the open group in memory. Whenever the drive is free,
//! the writer task takes the group, seals and writes it, waits until the drive has it, wakes all
//! whose records it held, and takes what has gathered meanwhile. So one write is in flight, the
//! groups grow with the load, and a lone writer waits for nobody.
//!
//! **Letting go.** Every append counts, for its segment and table, one mutation that is not in an
//! sstable yet. Who flushes a memtable gives the counts back. Segments go in the order in which
//! they were written, the oldest first, when nothing is counted in them: replaying a write without
//! a later deletion, which compaction may have purged already, would bring the write back.
//!
//! **Failure.** When the drive refuses a write or a sync, nobody can say what it has. The log then
//! fails for good: no write is acknowledged until the node has been started again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use io::{Env, Notify, Semaphore, TaskGroup};
use model::{PartitionUpdate, Sharder, TableId};

use super::format::{Position, SegmentName};
use super::logged::Logged;
use super::state::{Reach, Segment, State};
use super::writer::Writer;
use super::{AppendError, CommitLogConfig, CommitlogSync, LogStats};
use crate::SharedFiles;

/// A group that reaches this size is closed, so that no write to the drive takes too long.
pub(super) const MAX_GROUP: usize = 1 << 20;

/// How long a write waits for a drive that is behind before it is refused.
const ROOM_WAIT: Duration = Duration::from_secs(1);
/// How many writes may wait for it at once.
const MAX_WAITING: usize = 1024;

/// Counts one who waits, as long as it lives.
struct Waiting<'c>(&'c Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The commit log of one shard. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CommitLog {
    inner: Rc<Inner>,
}

/// Where a record went: what to wait for, and what to give back when it is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The segment that holds it.
    pub(crate) segment: SegmentName,
    /// Which append it was.
    sequence: u64,
}

pub(super) struct Inner {
    pub(super) env: Env,
    pub(super) dir: PathBuf,
    pub(super) config: CommitLogConfig,
    pub(super) shard: u16,
    pub(super) sharder: Sharder,
    /// The first segment of what is vouched for together.
    pub(super) run: Cell<u64>,
    pub(super) state: RefCell<State>,
    /// Wakes the writer.
    pub(super) work: Notify,
    /// Wakes the task that removes segments.
    pub(super) release: Notify,
    /// Held while segments are removed.
    pub(super) releasing: Semaphore,
    pub(super) closing: Cell<bool>,
    /// Wakes who can flush what holds segments, when this log or another one on the drive has no room.
    pub(super) make_room: Notify,
    /// Wakes those who wait for room.
    pub(super) written: Notify,
    waiting: Cell<usize>,
    pub(super) shared: Arc<SharedFiles>,
}

impl CommitLog {
    /// Begins a new run with segment number `first`; `old` are the segments of earlier runs that
    /// are still there, with their lengths.
    pub(crate) fn start(
        env: Env,
        dir: PathBuf,
        config: CommitLogConfig,
        sharder: Sharder,
        first: u64,
        old: Vec<(SegmentName, u64)>,
        shared: Arc<SharedFiles>,
    ) -> CommitLog {
        let mut segments = BTreeMap::new();
        for (name, bytes) in old {
            shared.archive.was_found(&dir.join(name.file_name()));
            let segment = Segment {
                bytes,
                sealed: true,
                ..Segment::default()
            };
            segments.insert(name, segment);
        }
        let shard = env.shard().0;
        let inner = Rc::new(Inner {
            dir,
            shard,
            sharder,
            run: Cell::new(first),
            state: RefCell::new(State::new(first, segments)),
            work: Notify::new(),
            release: Notify::new(),
            releasing: Semaphore::new(1),
            closing: Cell::new(false),
            make_room: Notify::new(),
            written: Notify::new(),
            waiting: Cell::new(0),
            shared,
            config,
            env: env.clone(),
        });
        let name = inner.name(first);
        inner.state.borrow_mut().segments.insert(
            name,
            Segment {
                bytes: inner.config.segment_bytes,
                ..Segment::default()
            },
        );
        let writer = Writer::new(inner.clone());
        drop(env.spawn(TaskGroup::Foreground, writer.run()));
        let releaser = inner.clone();
        drop(env.spawn(TaskGroup::Maintenance, async move {
            releaser.run_releases().await
        }));
        CommitLog { inner }
    }

    /// Appends to the log in memory and counts what is appended as not flushed. Never waits; refuses
    /// when too much is under way to the drive.
    pub(crate) fn append<'m>(&self, logged: impl Into<Logged<'m>>) -> Result<Ticket, AppendError> {
        let logged = logged.into();
        let inner = &*self.inner;
        let mut state = inner.state.borrow_mut();
        if let Some(reason) = &state.failed {
            return Err(AppendError::Failed(reason.clone()));
        }
        if let Some(reason) = &state.stalled {
            return Err(AppendError::Full(reason.clone()));
        }
        if state.pending_bytes > inner.config.pending_bytes {
            return Err(AppendError::Overloaded);
        }
        state.write_record(logged, inner.config.segment_bytes)?;
        state.appended += 1;
        state.stats.records += 1;
        let sequence = state.appended;
        let segment = inner.name(state.active);
        let group = state.groups.back_mut().expect("a record was just written");
        group.records += 1;
        group.last_sequence = sequence;
        if group.bytes.len() >= MAX_GROUP {
            state.close_group();
        }
        let entry = segment.entry_in(&mut state.segments, || Segment {
            bytes: inner.config.segment_bytes,
            ..Segment::default()
        });
        logged.count(entry);
        drop(state);
        inner.work.notify_one();
        Ok(Ticket { segment, sequence })
    }

    /// Waits until less is under way to the drive, but not long, and with not too many others.
    pub(crate) async fn room(&self) -> Result<(), AppendError> {
        let inner = &*self.inner;
        let under_way = || inner.state.borrow().pending_bytes > inner.config.pending_bytes;
        if inner.waiting.get() >= MAX_WAITING {
            return Err(AppendError::Overloaded);
        }
        inner.waiting.set(inner.waiting.get() + 1);
        let _waiting = Waiting(&inner.waiting);
        let room = async {
            while under_way() && self.failure().is_none() {
                inner.written.notified().await;
            }
        };
        let waited = inner.env.timeout(ROOM_WAIT, room).await;
        waited.map_err(|_| AppendError::Overloaded)
    }

    /// Waits until the write may be acknowledged, as `commitlog_sync` says.
    pub(crate) async fn acknowledge(&self, ticket: Ticket) -> Result<(), AppendError> {
        match self.inner.config.sync {
            CommitlogSync::Periodic { lag_block, .. } => {
                let now = self.inner.env.now();
                if !self.inner.state.borrow_mut().lags(now, lag_block) {
                    return self.reached(ticket.sequence, Reach::System).await;
                }
                self.inner.work.notify_one();
                self.reached(ticket.sequence, Reach::Drive).await
            }
            CommitlogSync::Group | CommitlogSync::Batch => {
                self.reached(ticket.sequence, Reach::Drive).await
            }
        }
    }

    /// Waits until the drive has all that has been appended so far.
    pub(crate) async fn sync(&self) -> Result<(), AppendError> {
        let appended = self.inner.state.borrow().appended;
        self.inner.work.notify_one();
        if matches!(self.inner.config.sync, CommitlogSync::Periodic { .. }) {
            self.inner.state.borrow_mut().sync_wanted = appended;
        }
        self.reached(appended, Reach::Drive).await
    }

    async fn reached(&self, sequence: u64, reach: Reach) -> Result<(), AppendError> {
        poll_fn(|context| {
            let mut state = self.inner.state.borrow_mut();
            let mut lost = state.lost.iter();
            if let Some((.., reason)) = lost.find(|(from, to, _)| (*from..=*to).contains(&sequence))
            {
                return Poll::Ready(Err(AppendError::Failed(reason.clone())));
            }
            if state.reached(reach) >= sequence {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &state.failed {
                return Poll::Ready(Err(AppendError::Failed(reason.clone())));
            }
            let waker = context.waker().clone();
            state.waiters.push((sequence, reach, waker));
            Poll::Pending
        })
        .await
    }

    /// Counts an update that replay took from an old segment.
    pub(crate) fn count(&self, segment: SegmentName, update: &PartitionUpdate) {
        let mut state = self.inner.state.borrow_mut();
        if let Some(segment) = state.segments.get_mut(&segment) {
            segment.count(update);
        }
    }

    /// The lowest timestamp of what a replay could bring back to a table: no deletion that is as
    /// late may be forgotten.
    pub(crate) fn oldest_timestamp(&self, table: TableId) -> i64 {
        let state = self.inner.state.borrow();
        let segments = state.segments.values();
        let oldest = segments.filter_map(|segment| segment.oldest.get(&table));
        let unnoted = state.unnoted.get(&table);
        oldest.chain(unnoted).copied().min().unwrap_or(i64::MAX)
    }

    /// A place before which all of a table is in sstables: behind all records so far, if none of the
    /// table's is anywhere else. When it is noted where a replay sees it, the log is to be told
    /// ([`CommitLog::is_noted`]). `None` also if there is nothing to note.
    pub(crate) fn flushed_to(&self, table: TableId) -> Option<Position> {
        {
            let mut state = self.inner.state.borrow_mut();
            let dirty = |segment: &Segment| segment.dirty.contains_key(&table);
            if state.replaying || state.segments.values().any(dirty) {
                return None;
            }
            // What a Cassandra left is replayed whole, for as long as it is there.
            let ours = state.segments.iter_mut();
            let ours = ours.filter(|(name, _)| !name.is_cassandra());
            let oldest = ours.filter_map(|(_, segment)| segment.oldest.remove(&table));
            let oldest = oldest.min()?;
            let unnoted = state.unnoted.entry(table).or_insert(oldest);
            *unnoted = oldest.min(*unnoted);
        }
        Some(self.position())
    }

    /// Behind which places segments hold what was given up. What is noted beside the log is noted with
    /// them: a replay of such a mutation, some of whose tables are noted as flushed since, would bring
    /// back the others alone.
    pub(crate) fn given_up(&self) -> Vec<Position> {
        let state = self.inner.state.borrow();
        let segments = state.segments.iter();
        let given_up = segments.filter_map(|(name, segment)| {
            Some(Position {
                segment: name.segment,
                offset: segment.given_up_from?,
            })
        });
        given_up.collect()
    }

    /// No replay brings back any more what [`CommitLog::flushed_to`] said to be flushed.
    pub(crate) fn is_noted(&self, table: TableId) {
        self.inner.state.borrow_mut().unnoted.remove(&table);
    }

    /// Gives back `count` mutations of a table in a segment: they are in an sstable, or nobody
    /// needs them any more.
    pub(crate) fn give_back(&self, segment: SegmentName, table: TableId, count: u64) {
        let mut state = self.inner.state.borrow_mut();
        let Some(segment) = state.segments.get_mut(&segment) else {
            debug_assert!(false, "a segment went before its counts");
            return;
        };
        if let Some(dirty) = segment.dirty.get_mut(&table) {
            debug_assert!(*dirty >= count);
            *dirty = dirty.saturating_sub(count);
            if *dirty == 0 {
                segment.dirty.remove(&table);
            }
        }
        if segment.dirty.is_empty() {
            drop(state);
            self.inner.release.notify_one();
        }
    }

    /// Replay is through: from now on segments may go.
    pub(crate) fn replayed(&self) {
        self.inner.state.borrow_mut().replaying = false;
        self.inner.release.notify_one();
    }

    /// A place behind all records so far, and before all that come.
    pub(crate) fn position(&self) -> Position {
        let mut state = self.inner.state.borrow_mut();
        if state.groups.back().is_some_and(|group| group.records > 0) {
            state.close_group();
        }
        Position {
            segment: state.active,
            offset: state.next_offset,
        }
    }

    /// The segment that appends go to.
    pub(crate) fn active_segment(&self) -> u64 {
        self.inner.state.borrow().active
    }

    /// Bytes of all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        let state = self.inner.state.borrow();
        state.segments.values().map(|s| s.bytes).sum()
    }

    /// The tables whose writes hold the oldest segment, if it is full.
    pub(crate) fn holders_of_oldest(&self) -> Vec<TableId> {
        let state = self.inner.state.borrow();
        state
            .segments
            .values()
            .find(|segment| !segment.dirty.is_empty())
            .filter(|segment| segment.sealed)
            .map(|segment| segment.dirty.keys().copied().collect())
            .unwrap_or_default()
    }

    /// Waits until the drive has no room for this log or that of another shard: what holds segments
    /// ([`CommitLog::holders`]) is to be flushed then. `false`: the log was closed.
    pub(crate) async fn needs_room(&self) -> bool {
        if !self.inner.closing.get() {
            self.inner.make_room.notified().await;
        }
        !self.inner.closing.get()
    }

    /// The tables whose writes hold any segment that is full.
    pub(crate) fn holders(&self) -> BTreeSet<TableId> {
        let state = self.inner.state.borrow();
        let full = state.segments.values().filter(|segment| segment.sealed);
        full.flat_map(|segment| segment.dirty.keys().copied())
            .collect()
    }

    /// The oldest segment that is still there: truncations before it are over.
    pub(crate) fn oldest_segment(&self) -> u64 {
        let state = self.inner.state.borrow();
        state
            .segments
            .keys()
            .next()
            .map_or(state.active, |name| match name.is_cassandra() {
                true => 0,
                false => name.segment,
            })
    }

    /// Why the log takes no more writes, if so.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.inner.state.borrow().failed.clone()
    }

    /// Counters for metrics.
    pub(crate) fn stats(&self) -> LogStats {
        let state = self.inner.state.borrow();
        LogStats {
            segments: state.segments.len() as u64,
            bytes: state.segments.values().map(|s| s.bytes).sum(),
            pending_records: state.appended - state.durable,
            pending_bytes: state.pending_bytes as u64,
            ..state.stats.clone()
        }
    }

    /// Writes out what is pending and stops the log's tasks. If all is flushed, the files go, so
    /// that the next start has nothing to replay; says whether they did. Where the drive is full it
    /// does not wait for room: nobody was told that what is pending is written.
    pub(crate) async fn close(&self) -> Result<bool, AppendError> {
        self.inner.closing.set(true);
        self.inner.release.notify_one();
        self.inner.make_room.notify_one();
        self.sync().await?;
        // Files that all shards read go with the last one that comes here.
        self.inner.release_free().await;
        let (flushed, alone) = {
            let state = self.inner.state.borrow();
            let ours = |name: &SegmentName| name.shards == self.inner.sharder.shards();
            let flushed = state.segments.values().all(|s| s.dirty.is_empty());
            (flushed && !state.replaying, state.segments.keys().all(ours))
        };
        if flushed && self.inner.shared.archive.is_enabled() {
            // They are copied at the next start, and replayed in vain.
            return Ok(false);
        }
        if flushed && let Err(error) = self.inner.remove_all().await {
            // What is left is replayed in vain.
            tracing::warn!("commit log: removing what is flushed: {error}");
            return Ok(false);
        }
        Ok(flushed && alone)
    }
}

impl Inner {
    /// The name of a segment of this run.
    pub(super) fn name(&self, segment: u64) -> SegmentName {
        SegmentName::of_shard(segment, self.shard, self.sharder.shards())
    }

    /// The drive is full: appends are refused for this reason until it has room again, and all shards
    /// give up what they can do without.
    pub(super) fn has_no_room(&self, reason: String) {
        {
            let stalled = &mut self.state.borrow_mut().stalled;
            if stalled.as_deref() != Some(&reason) {
                tracing::error!("{reason}");
                if stalled.replace(reason.into()).is_none() {
                    self.shared.starved_logs.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.make_room.notify_one();
        self.release.notify_one();
    }

    /// The drive has taken what it had no room for.
    pub(super) fn has_room(&self) {
        if self.state.borrow_mut().stalled.take().is_some() {
            self.shared.starved_logs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The file of a segment of this run.
    pub(super) fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(self.name(segment).file_name())
    }
}
