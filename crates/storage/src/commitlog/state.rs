//! What the commit log of a shard holds in memory: the groups that wait for the drive, and what is
//! known of the segments.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use io::Instant;
use model::{NO_TIMESTAMP, PartitionUpdate, Row, Table, TableId};

use super::format::{BLOCK, GROUP_HEADER, Position, SegmentName};
use super::logged::Logged;
use super::{AppendError, LogStats, record};

/// How often the log may give up what was under way, with `commit_failure_policy: ignore`.
const MAX_LOST: usize = 1024;

/// What a new group has room for, in bytes. It grows by doubling: memory of a power of two begins at a page's address with
/// mimalloc, and what does is not copied to be written past the page cache.
const FIRST_ROOM: usize = 64 << 10;

/// All of it.
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
    /// The lowest timestamp of what each table has flushed, as long as that is not noted beside the
    /// log: until then a replay brings it back.
    pub(super) unnoted: BTreeMap<TableId, i64>,
    /// How many records were appended; how many of them the system has, so that they outlive the
    /// process; how many the drive has.
    pub(super) appended: u64,
    pub(super) written: u64,
    pub(super) durable: u64,
    pub(super) durable_to: Position,
    /// Who waits for which append.
    pub(super) waiters: Vec<(u64, Reach, Waker)>,
    pub(super) failed: Option<Arc<str>>,
    /// Appends that were given up, from and to, and why.
    pub(super) lost: Vec<(u64, u64, Arc<str>)>,
    /// Since when there is something that the drive does not have (periodic mode only).
    pub(super) behind_since: Option<Instant>,
    /// Why the drive does not take what is written next, as long as it is full.
    pub(super) stalled: Option<Arc<str>>,
    pub(super) replaying: bool,
    /// Up to which append somebody waits for a sync that the mode alone would not do now.
    pub(super) sync_wanted: u64,
    /// Memory of groups that were written, to be used again.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Files whose segments went, to be used again.
    pub(super) spares: Vec<PathBuf>,
    pub(super) stats: LogStats,
}

/// Who is to have a record before its writer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The operating system: the record outlives the process.
    System,
    /// The drive: it outlives the power.
    Drive,
}

/// What the log knows of a segment.
#[derive(Default)]
pub(super) struct Segment {
    /// Mutations of each table that are in no sstable yet.
    pub(super) dirty: BTreeMap<TableId, u64>,
    /// The lowest timestamp of what each table has in it, but for what is noted as flushed.
    pub(super) oldest: BTreeMap<TableId, i64>,
    pub(super) bytes: u64,
    /// Will nothing be written to it any more?
    pub(super) sealed: bool,
    /// Has this shard let go of it, though the file waits for others?
    pub(super) let_go: bool,
    /// Was this shard the last one to let go, so that it removes the file?
    pub(super) last: bool,
    /// Was the log given up before there was a file of it?
    pub(super) without_file: bool,
    /// From which offset on it holds what was given up: the drive may have some of it, and whoever
    /// wrote it was told that nobody knows.
    pub(super) given_up_from: Option<u64>,
}

impl Segment {
    /// Is nothing in it that is not in an sstable, and does nothing come?
    pub(super) fn is_free(&self) -> bool {
        self.sealed && self.dirty.is_empty()
    }

    /// Counts an update that is not flushed yet.
    pub(super) fn count(&mut self, update: &PartitionUpdate) {
        self.count_of(update.table.id, min_timestamp(update));
    }

    /// Counts an update of a table that is not flushed yet, whose lowest timestamp is this.
    pub(super) fn count_of(&mut self, table: TableId, timestamp: i64) {
        *self.dirty.entry(table).or_default() += 1;
        let oldest = self.oldest.entry(table).or_insert(timestamp);
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

impl State {
    /// Nothing was appended yet; `segments` are those of earlier runs, and `first` comes next.
    pub(super) fn new(first: u64, segments: BTreeMap<SegmentName, Segment>) -> State {
        State {
            groups: VecDeque::new(),
            pending_bytes: 0,
            active: first,
            next_offset: BLOCK as u64,
            declared: BTreeMap::new(),
            next_number: 0,
            segments,
            unnoted: BTreeMap::new(),
            appended: 0,
            written: 0,
            durable: 0,
            durable_to: Position::default(),
            waiters: Vec::new(),
            failed: None,
            lost: Vec::new(),
            behind_since: None,
            stalled: None,
            replaying: true,
            sync_wanted: 0,
            buffers: Vec::new(),
            spares: Vec::new(),
            stats: LogStats::default(),
        }
    }

    /// Writes the record of what is logged into the open group, with the schema records it needs
    /// before it; begins a new group or segment where it does not fit.
    pub(super) fn write_record(
        &mut self,
        logged: Logged<'_>,
        segment_bytes: u64,
    ) -> Result<(), AppendError> {
        // As in Cassandra, half a segment is the most that one mutation may take, wherever it comes to
        // lie (`Mutation.validateSize`).
        let limit = segment_bytes / 2;
        let too_large = |bytes: usize| AppendError::TooLarge {
            bytes: bytes as u64,
            limit,
        };
        match self.try_write(logged, segment_bytes, limit) {
            Ok(()) => return Ok(()),
            Err(bytes) if bytes as u64 > limit => return Err(too_large(bytes)),
            Err(_) => self.begin_segment(segment_bytes),
        }
        let again = self.try_write(logged, segment_bytes, limit);
        again.map_err(too_large)
    }

    /// Writes a record into the open group, if it fits and takes no more than `limit`; gives what it
    /// would take otherwise, and leaves all as it was.
    fn try_write(
        &mut self,
        logged: Logged<'_>,
        segment_bytes: u64,
        limit: u64,
    ) -> Result<(), usize> {
        self.open_group();
        let declared_before = self.next_number;
        let (start, record) = self.encode(logged);
        let group = self.groups.back_mut().expect("opened above");
        let needed = (GROUP_HEADER + group.bytes.len() - record).next_multiple_of(BLOCK);
        if needed as u64 <= limit && group.offset + group.len_in_file() <= segment_bytes {
            self.pending_bytes += group.bytes.len() - start;
            return Ok(());
        }
        group.bytes.truncate(start);
        self.next_number = declared_before;
        self.declared
            .retain(|_, (number, _)| *number < declared_before);
        Err(needed)
    }

    /// Encodes into the open group; gives where that began, and where behind the schema records that
    /// it needs the record itself does.
    fn encode(&mut self, logged: Logged<'_>) -> (usize, usize) {
        let group = self.groups.back_mut().expect("a group is open");
        let start = group.bytes.len();
        let record = logged.write(&mut group.bytes, |out, table| {
            let known = self
                .declared
                .get(&table.id)
                .filter(|(_, declared)| Arc::ptr_eq(declared, table))
                .map(|(number, _)| *number);
            known.unwrap_or_else(|| {
                let number = self.next_number;
                self.next_number += 1;
                self.declared.insert(table.id, (number, table.clone()));
                record::write_schema(out, number, table);
                number
            })
        });
        (start, record)
    }

    /// Makes sure that the last group takes records.
    pub(super) fn open_group(&mut self) {
        if self.groups.back().is_some_and(|group| !group.closed) {
            return;
        }
        let kept = self.buffers.pop();
        let mut bytes = kept.unwrap_or_else(|| Vec::with_capacity(FIRST_ROOM));
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
    pub(super) fn close_group(&mut self) {
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
    pub(super) fn lags(&mut self, now: Instant, lag_block: Duration) -> bool {
        let since = *self.behind_since.get_or_insert(now);
        let lags = now.saturating_duration_since(since) > lag_block;
        if lags {
            self.sync_wanted = self.appended;
        }
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
    /// if the node had been started again. Of this run's segments, those from `first_without_file` on
    /// have no file that was written to; in the one before, what lies behind `given_up` was not
    /// acknowledged. Says whether it can.
    pub(super) fn begin_anew(
        &mut self,
        reason: &str,
        segment_bytes: u64,
        first_without_file: u64,
        given_up: Option<Position>,
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
        if let Some(from) = given_up
            && let Some(segment) = self.segments.get_mut(&name(from.segment))
        {
            segment.given_up_from = Some(from.offset);
        }
        for number in first_without_file..=self.active {
            if let Some(segment) = self.segments.get_mut(&name(number)) {
                segment.without_file = true;
            }
        }
        self.groups.clear();
        self.pending_bytes = 0;
        self.written = self.appended;
        self.durable = self.appended;
        self.durable_to = Position::default();
        self.behind_since = None;
        self.sync_wanted = 0;
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

    /// How many records have come so far.
    pub(super) fn reached(&self, reach: Reach) -> u64 {
        match reach {
            Reach::System => self.written,
            Reach::Drive => self.durable,
        }
    }

    pub(super) fn wake(&mut self) {
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.retain(|(sequence, reach, waker)| {
            let done = self.failed.is_some() || *sequence <= self.reached(*reach);
            if done {
                waker.wake_by_ref();
            }
            !done
        });
        self.waiters = waiters;
    }
}
