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
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use io::{Env, Instant, Notify, Semaphore, TaskGroup};
use model::{Mutation, NO_TIMESTAMP, PartitionUpdate, Row, Sharder, Table, TableId};

use super::format::{BLOCK, GROUP_HEADER, Position, SegmentName};
use super::record;
use super::writer::Writer;
use super::{AppendError, CommitLogConfig, CommitlogSync, LogStats};
use crate::SharedFiles;

/// A group that reaches this size is closed, so that no write to the drive takes too long.
pub(super) const MAX_GROUP: usize = 1 << 20;

/// How often the log may give up what was under way, with `commit_failure_policy: ignore`.
const MAX_LOST: usize = 1024;

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
    /// Wakes those who wait for room.
    pub(super) written: Notify,
    waiting: Cell<usize>,
    pub(super) shared: Arc<SharedFiles>,
}

pub(super) struct State {
    pub(super) groups: VecDeque<Group>,
    /// Bytes of all groups that are not on the drive yet.
    pub(super) pending_bytes: usize,
    /// The segment that appends go to.
    pub(super) active: u64,
    /// Where the next group of the active segment will begin once the open one is closed.
    pub(super) next_offset: u64,
    /// The table versions that the active segment declares, and their numbers.
    pub(super) declared: BTreeMap<TableId, (u32, Arc<Table>)>,
    pub(super) next_number: u32,
    pub(super) segments: BTreeMap<SegmentName, Segment>,
    /// How many records were appended; how many of them the drive has.
    pub(super) appended: u64,
    pub(super) durable: u64,
    pub(super) durable_to: Position,
    /// Who waits for which append.
    pub(super) waiters: Vec<(u64, Waker)>,
    pub(super) failed: Option<Arc<str>>,
    /// Appends that were given up, from and to, and why.
    pub(super) lost: Vec<(u64, u64, Arc<str>)>,
    /// Since when there is something that the drive does not have (periodic mode only).
    pub(super) behind_since: Option<Instant>,
    /// Why the next segment cannot be made, as long as that is so.
    pub(super) stalled: Option<Arc<str>>,
    pub(super) replaying: bool,
    /// Does somebody wait for a sync that the mode alone would not do now?
    pub(super) sync_wanted: bool,
    /// Memory of groups that were written, to be used again.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Files whose segments went, to be used again.
    pub(super) spares: Vec<PathBuf>,
    pub(super) stats: LogStats,
}

/// What the log knows of a segment.
#[derive(Default)]
pub(super) struct Segment {
    /// Mutations of each table that are in no sstable yet.
    pub(super) dirty: BTreeMap<TableId, u64>,
    /// The lowest timestamp of what each table has in it, flushed or not.
    pub(super) oldest: BTreeMap<TableId, i64>,
    pub(super) bytes: u64,
    /// Will nothing be written to it any more?
    pub(super) sealed: bool,
    /// Has this shard let go of it, though the file waits for others?
    pub(super) let_go: bool,
    /// Was this shard the last one to let go, so that it removes the file?
    pub(super) last: bool,
}

impl Segment {
    /// Is nothing in it that is not in an sstable, and does nothing come?
    pub(super) fn is_free(&self) -> bool {
        self.sealed && self.dirty.is_empty()
    }

    /// Counts an update that is not flushed yet.
    fn count(&mut self, update: &PartitionUpdate) {
        *self.dirty.entry(update.table.id).or_default() += 1;
        let timestamp = min_timestamp(update);
        let oldest = self.oldest.entry(update.table.id).or_insert(timestamp);
        *oldest = timestamp.min(*oldest);
    }
}

/// The lowest timestamp of anything in an update.
fn min_timestamp(update: &PartitionUpdate) -> i64 {
    timestamps(update).min().unwrap_or(i64::MAX)
}

/// The highest timestamp of anything in an update (`PartitionUpdate.maxTimestamp`).
pub(crate) fn max_timestamp(update: &PartitionUpdate) -> i64 {
    timestamps(update).max().unwrap_or(i64::MIN)
}

fn timestamps(update: &PartitionUpdate) -> impl Iterator<Item = i64> {
    let of_row = |row: &'_ Row| {
        let own = [row.liveness.timestamp, row.deletion.timestamp];
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let cells = row.cells.iter().map(|cell| cell.timestamp);
        let complex = row.complex_deletions.iter().map(|c| c.deletion.timestamp);
        for timestamp in own.into_iter().chain(cells).chain(complex) {
            if timestamp != NO_TIMESTAMP {
                (low, high) = (low.min(timestamp), high.max(timestamp));
            }
        }
        [low, high].into_iter().filter(move |_| low <= high)
    };
    let rows = update
        .static_row
        .iter()
        .chain(&update.rows)
        .flat_map(of_row);
    let ranges = update.range_tombstones.iter().map(|r| r.deletion.timestamp);
    let deletion = Some(update.deletion.timestamp).filter(|t| *t != NO_TIMESTAMP);
    rows.chain(ranges).chain(deletion)
}

/// Records under way to the drive together.
pub(super) struct Group {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// Room for the header, then the payload.
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
    /// The number of appends once this group is through.
    pub(super) last_sequence: u64,
    pub(super) closed: bool,
}

impl Group {
    pub(super) fn len_in_file(&self) -> u64 {
        self.bytes.len().next_multiple_of(BLOCK) as u64
    }
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
            shared.archive.is_full(&dir.join(name.file_name()));
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
            state: RefCell::new(State {
                groups: VecDeque::new(),
                pending_bytes: 0,
                active: first,
                next_offset: BLOCK as u64,
                declared: BTreeMap::new(),
                next_number: 0,
                segments,
                appended: 0,
                durable: 0,
                durable_to: Position::default(),
                waiters: Vec::new(),
                failed: None,
                lost: Vec::new(),
                behind_since: None,
                stalled: None,
                replaying: true,
                sync_wanted: false,
                buffers: Vec::new(),
                spares: Vec::new(),
                stats: LogStats::default(),
            }),
            work: Notify::new(),
            release: Notify::new(),
            releasing: Semaphore::new(1),
            closing: Cell::new(false),
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

    /// Appends a mutation to the log in memory and counts it as not flushed. Never waits; refuses
    /// when too much is under way to the drive.
    pub(crate) fn append(&self, mutation: &Mutation) -> Result<Ticket, AppendError> {
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
        state.write_record(mutation, inner.config.segment_bytes)?;
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
        let entry = state.segments.entry(segment).or_insert_with(|| Segment {
            bytes: inner.config.segment_bytes,
            ..Segment::default()
        });
        for update in &mutation.updates {
            entry.count(update);
        }
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
                    return Ok(());
                }
                self.inner.work.notify_one();
                self.durable(ticket.sequence).await
            }
            CommitlogSync::Group | CommitlogSync::Batch => self.durable(ticket.sequence).await,
        }
    }

    /// Waits until the drive has all that has been appended so far.
    pub(crate) async fn sync(&self) -> Result<(), AppendError> {
        let appended = self.inner.state.borrow().appended;
        self.inner.work.notify_one();
        if matches!(self.inner.config.sync, CommitlogSync::Periodic { .. }) {
            self.inner.state.borrow_mut().sync_wanted = true;
        }
        self.durable(appended).await
    }

    async fn durable(&self, sequence: u64) -> Result<(), AppendError> {
        poll_fn(|context| {
            let mut state = self.inner.state.borrow_mut();
            let mut lost = state.lost.iter();
            if let Some((.., reason)) = lost.find(|(from, to, _)| (*from..=*to).contains(&sequence))
            {
                return Poll::Ready(Err(AppendError::Failed(reason.clone())));
            }
            if state.durable >= sequence {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &state.failed {
                return Poll::Ready(Err(AppendError::Failed(reason.clone())));
            }
            state.waiters.push((sequence, context.waker().clone()));
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
        let oldest = segments.filter_map(|segment| segment.oldest.get(&table).copied());
        oldest.min().unwrap_or(i64::MAX)
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

    /// Is the log larger than it may be? Then the tables whose writes hold its oldest segment.
    pub(crate) fn tables_to_flush(&self) -> Vec<TableId> {
        let state = self.inner.state.borrow();
        let total: u64 = state.segments.values().map(|s| s.bytes).sum();
        if total <= self.inner.config.total_bytes {
            return Vec::new();
        }
        state
            .segments
            .values()
            .find(|segment| !segment.dirty.is_empty())
            .filter(|segment| segment.sealed)
            .map(|segment| segment.dirty.keys().copied().collect())
            .unwrap_or_default()
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
    /// that the next start has nothing to replay; says whether they did.
    pub(crate) async fn close(&self) -> Result<bool, AppendError> {
        let result = self.sync().await;
        self.inner.closing.set(true);
        self.inner.work.notify_one();
        self.inner.release.notify_one();
        result?;
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

    /// The file of a segment of this run.
    pub(super) fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(self.name(segment).file_name())
    }
}

impl State {
    /// Writes the record of a mutation into the open group, with the schema records it needs
    /// before it; begins a new group or segment where it does not fit.
    fn write_record(&mut self, mutation: &Mutation, segment_bytes: u64) -> Result<(), AppendError> {
        self.open_group();
        let declared_before = self.next_number;
        let start = self.encode(mutation);
        let group = self.groups.back_mut().expect("opened above");
        if group.offset + group.len_in_file() <= segment_bytes {
            self.pending_bytes += group.bytes.len() - start;
            return Ok(());
        }
        let needed = (GROUP_HEADER + group.bytes.len() - start).next_multiple_of(BLOCK);
        group.bytes.truncate(start);
        self.next_number = declared_before;
        self.declared
            .retain(|_, (number, _)| *number < declared_before);
        // As in Cassandra, half a segment is the most that one mutation may take.
        if needed as u64 > segment_bytes / 2 {
            return Err(AppendError::TooLarge {
                bytes: needed as u64,
                limit: segment_bytes / 2,
            });
        }
        self.begin_segment(segment_bytes);
        self.open_group();
        let start = self.encode(mutation);
        let group = self.groups.back().expect("opened above");
        self.pending_bytes += group.bytes.len() - start;
        Ok(())
    }

    /// Encodes into the open group; gives where that began.
    fn encode(&mut self, mutation: &Mutation) -> usize {
        let group = self.groups.back_mut().expect("a group is open");
        let start = group.bytes.len();
        let mut numbers: smallvec::SmallVec<[u32; 4]> = smallvec::SmallVec::new();
        for update in &mutation.updates {
            let table = &update.table;
            let known = self
                .declared
                .get(&table.id)
                .filter(|(_, declared)| Arc::ptr_eq(declared, table))
                .map(|(number, _)| *number);
            let number = known.unwrap_or_else(|| {
                let number = self.next_number;
                self.next_number += 1;
                self.declared.insert(table.id, (number, table.clone()));
                record::write_schema(&mut group.bytes, number, table);
                number
            });
            numbers.push(number);
        }
        record::write_mutation(&mut group.bytes, mutation, &numbers);
        start
    }

    /// Makes sure that the last group takes records.
    fn open_group(&mut self) {
        if self.groups.back().is_some_and(|group| !group.closed) {
            return;
        }
        let mut bytes = self.buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(GROUP_HEADER, 0);
        self.groups.push_back(Group {
            segment: self.active,
            offset: self.next_offset,
            bytes,
            records: 0,
            last_sequence: self.appended,
            closed: false,
        });
    }

    /// No more records into the last group.
    fn close_group(&mut self) {
        if let Some(group) = self.groups.back_mut().filter(|group| !group.closed) {
            group.closed = true;
            self.next_offset = group.offset + group.len_in_file();
        }
    }

    fn begin_segment(&mut self, segment_bytes: u64) {
        if self.groups.back().is_some_and(|group| group.records == 0) {
            self.groups.pop_back();
        }
        self.close_group();
        if self.next_offset + BLOCK as u64 <= segment_bytes {
            // An empty group says that the segment ends here.
            self.open_group();
            self.close_group();
        }
        self.active += 1;
        self.next_offset = BLOCK as u64;
        self.declared.clear();
        self.next_number = 0;
    }

    /// Is there something that the drive should have had for so long? Then it is asked for.
    fn lags(&mut self, now: Instant, lag_block: Duration) -> bool {
        let since = *self.behind_since.get_or_insert(now);
        let lags = now.saturating_duration_since(since) > lag_block;
        self.sync_wanted |= lags;
        lags
    }

    /// The oldest group, closed.
    pub(super) fn take_group(&mut self) -> Option<Group> {
        let front = self.groups.front()?;
        if !front.closed && front.records == 0 {
            return None;
        }
        if self.groups.len() == 1 {
            self.close_group();
        }
        self.groups.pop_front()
    }

    pub(super) fn fail(&mut self, reason: String) {
        tracing::error!("commit log: {reason}");
        self.failed = Some(reason.into());
        self.wake();
    }

    /// Gives up all that the drive does not have for certain, and goes on in another segment, as
    /// if the node had been started again. Says whether it can.
    pub(super) fn begin_anew(
        &mut self,
        reason: &str,
        segment_bytes: u64,
        name: impl Fn(u64) -> SegmentName,
    ) -> bool {
        if self.lost.len() >= MAX_LOST {
            return false;
        }
        tracing::error!("commit log: {reason}; going on in another segment, as asked");
        self.lost
            .push((self.durable + 1, self.appended, reason.into()));
        for segment in self.segments.values_mut() {
            segment.sealed = true;
        }
        self.groups.clear();
        self.pending_bytes = 0;
        self.durable = self.appended;
        self.durable_to = Position::default();
        self.behind_since = None;
        self.sync_wanted = false;
        // The next number may have been given to a file that was made ahead.
        self.active += 2;
        self.next_offset = BLOCK as u64;
        self.declared.clear();
        self.next_number = 0;
        let fresh = Segment {
            bytes: segment_bytes,
            ..Segment::default()
        };
        self.segments.insert(name(self.active), fresh);
        self.wake();
        true
    }

    pub(super) fn wake(&mut self) {
        let (durable, failed) = (self.durable, self.failed.is_some());
        self.waiters.retain(|(sequence, waker)| {
            let done = failed || *sequence <= durable;
            if done {
                waker.wake_by_ref();
            }
            !done
        });
    }
}
