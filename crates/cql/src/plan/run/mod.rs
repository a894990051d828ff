//! One execution of a SELECT: which reads it needs, and the rows it makes of their answers.
//!
//! The caller asks for [`SelectRun::reads`], executes them (at the same time, if it likes), and
//! gives each answer to [`SelectRun::absorb`] in the order of the commands, until there are no
//! more reads; then it calls [`SelectRun::finish`]. Rows go to a sink as soon as they are known,
//! each as slices that are valid for the call only.
//!
//! Three shapes of results: rows as they come, cut into pages; rows of several partitions that
//! must be sorted together (ORDER BY with IN), which are kept until the end; and aggregates, whose
//! groups end where the next one begins. The position after each row or group is where the next
//! page goes on.

mod groups;
mod sorted;

use bytes::Bytes;
use model::{
    Clustering, ClusteringSelection, DataLimits, DecoratedKey, PackedRow, Partition,
    PartitionSelection, ReadCommand, ReadPage, Resume, Row, RowFilter, Slice,
};

use crate::CqlError;
use crate::error::invalid;
use crate::term::Request;

use super::fetch::{PlainSlots, Slots};
use super::index_values::check_filters;
use super::keys::check_keys;
use super::nearest::Nearest;
use super::position::Position;
use super::select::SelectPlan;
use groups::Group;
pub(crate) use sorted::Kept;

/// Takes the cells of a row of the result: `None` is null.
pub type RowSink<'s> = dyn FnMut(&[Option<&[u8]>]) + 's;

/// How many bytes one read, and one page, may come to: pages end after the row with which they
/// reach it.
const PAGE_BYTES: u32 = 1 << 20;
/// How many rows are read at once for aggregates and sorting.
const INTERNAL_ROWS: u32 = 10_000;
/// How many partitions are read at the same time.
const PARALLEL_READS: usize = 16;

/// What the client wants of the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paging<'s> {
    /// Rows of a page; `None`: all at once.
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub state: Option<&'s [u8]>,
}

/// What is to be read yet.
#[derive(Debug)]
enum Source {
    /// These partitions, from this index on.
    Keys(Vec<DecoratedKey>, usize),
    /// A range of the ring.
    Range(PartitionSelection),
    /// Nothing more.
    Done,
}

/// A SELECT while it is executed.
#[derive(Debug)]
pub struct SelectRun<'p> {
    plan: &'p SelectPlan,
    request: &'p Request<'p>,
    source: Source,
    slices: Vec<Slice>,
    filters: Vec<RowFilter>,
    /// Where the next read goes on.
    resume: Option<Resume>,
    /// How many reads were asked for and not yet answered, and how many of these answers are of
    /// no use any more.
    pending: usize,
    /// Rows of the result that LIMIT still allows, and those that the page still takes.
    remaining: u32,
    page_remaining: u32,
    page_bytes: u32,
    paged: bool,
    /// What PER PARTITION LIMIT allows in each partition.
    per_partition: u32,
    /// The partition of the last row, and what is still allowed in it.
    partition: Option<(Bytes, u32)>,
    /// The position of the last row, once the page is full.
    last: Option<Position>,
    /// The page is full, but there may be more.
    full: bool,
    /// Boxed: few group, and all have room for it.
    group: Option<Box<Group>>,
    sorted: Vec<Kept>,
    /// To what the nearest rows are wanted, if so.
    nearest: Option<Nearest>,
    taken: Taken,
}

/// How much of a page, or of the sorted rows, was taken in when a function gave way.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    partitions: usize,
    /// Of the partition after those.
    rows: usize,
    /// Was that partition the one of the row before, when it was begun?
    same: Option<bool>,
}

/// A row of an answer.
#[derive(Clone, Copy)]
enum Found<'p> {
    Row(&'p Row),
    Packed(&'p PackedRow),
}

impl Found<'_> {
    fn clustering(self) -> Clustering {
        match self {
            Found::Row(row) => row.clustering.clone(),
            Found::Packed(row) => row.to_clustering(),
        }
    }
}

impl SelectPlan {
    /// Begins an execution.
    pub fn start<'p>(
        &'p self,
        request: &'p Request<'p>,
        paging: Paging<'_>,
    ) -> Result<SelectRun<'p>, CqlError> {
        let (limit, mut per_partition) = self.limits(request)?;
        self.selection.check_parts(request)?;
        if self.distinct {
            per_partition = 1;
        }
        // What is refused first is as in Cassandra: filters, keys, clusterings, and keys that are empty.
        let filters = self.filters.filters(request)?;
        check_filters(&self.table, filters.as_deref().unwrap_or_default())?;
        let keys = self.keys.named(request)?;
        let names_none = keys.as_ref().is_some_and(Vec::is_empty);
        let slices = match names_none {
            true => Vec::new(),
            false => self.slices.slices(&self.table, request)?,
        };
        // Cassandra looks at keys also where no row can be found, as if there were slices.
        let are_slices = !slices.is_empty()
            || self.looks_at_key
            || !names_none && self.slices.are_before_null(&self.table, request)?;
        let reads = are_slices && filters.is_some();
        let source = match keys {
            Some(keys) => {
                if reads {
                    check_keys(&keys)?;
                }
                Source::Keys(keys, 0)
            }
            None => match self.keys.range(request)? {
                Some((start, end)) => Source::Range(PartitionSelection::Range { start, end }),
                None => Source::Done,
            },
        };
        let source = match slices.is_empty() || filters.is_none() {
            true => Source::Done,
            false => source,
        };
        let page_size = paging.page_size.filter(|size| *size > 0);
        let paged = page_size.is_some_and(|size| size < limit) && self.nearest.is_none();
        let nearest = self.nearest.as_ref();
        let nearest = nearest.map(|plan| plan.start(request, limit)).transpose()?;
        // Whatever LIMIT says: all rows have to be sorted before any can be left out.
        let in_pages = page_size.is_some_and(|size| size < i32::MAX as u32);
        // Where no row can be meant, nothing is sorted; but what is put together is always paged.
        let is_empty = names_none || !are_slices;
        let sorts = !self.sort.is_empty() && (!is_empty || self.is_aggregate());
        if sorts && in_pages {
            return invalid!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; \
                 you must either remove the ORDER BY or the IN and sort client side, or disable \
                 paging for this query"
            );
        }
        let mut run = SelectRun {
            plan: self,
            request,
            source,
            slices: if self.only_partitions {
                Vec::new()
            } else {
                slices
            },
            filters: filters.unwrap_or_default(),
            resume: None,
            pending: 0,
            remaining: limit,
            page_remaining: page_size.unwrap_or(u32::MAX),
            page_bytes: 0,
            paged,
            per_partition,
            partition: None,
            last: None,
            full: false,
            group: None,
            sorted: Vec::new(),
            nearest,
            taken: Taken::default(),
        };
        if let Some(state) = paging.state {
            run.go_on(Position::decode(state, &self.table)?);
        }
        Ok(run)
    }
}

impl<'p> SelectRun<'p> {
    /// What is executed.
    pub(crate) fn plan(&self) -> &'p SelectPlan {
        self.plan
    }

    /// May there be several pages: are there fewer rows to a page than are asked for?
    pub(crate) fn is_paged(&self) -> bool {
        self.paged
    }

    /// The table that is read.
    pub fn table(&self) -> &'p model::Table {
        &self.plan.table
    }

    /// How many partitions are read by their keys.
    pub(crate) fn keys(&self) -> usize {
        match &self.source {
            Source::Keys(keys, _) => keys.len(),
            _ => 0,
        }
    }

    /// Are several partitions read by their keys, and not one after the other, page by page?
    pub fn reads_several_at_once(&self) -> bool {
        self.keys() > 1 && !self.paged && !self.plan.is_aggregate()
    }

    /// How many rows are wanted, if they are the nearest to something.
    pub fn limit_of_nearest(&self) -> Option<u32> {
        self.nearest.as_ref().map(|_| self.remaining)
    }

    /// How many keys, and how many rows of each partition, the lists of IN come to, the same ones counted as
    /// often as they are given.
    pub(crate) fn in_products(&self) -> Result<[Option<u64>; 2], CqlError> {
        Ok([
            self.plan.keys.in_product(self.request)?,
            self.plan.slices.in_product(self.request)?,
        ])
    }

    /// Starts after a position of an earlier page. Where a single partition is read it is the place in it that
    /// counts, whichever partition that page was of (`SinglePartitionPager`); behind one that is not among several
    /// there is nothing (`MultiPartitionPager`).
    fn go_on(&mut self, mut position: Position) {
        if let Source::Keys(keys, _) = &self.source
            && let [key] = &keys[..]
        {
            position.key = key.key().clone();
        }
        self.remaining = self.remaining.min(position.remaining);
        if self.remaining == 0 {
            self.source = Source::Done;
        }
        let mut resume = position.resume();
        if self.plan.is_aggregate() {
            resume.remaining_in_partition = u32::MAX;
        }
        self.resume = Some(resume);
        if let Source::Keys(keys, next) = &mut self.source {
            let Some(at) = keys.iter().position(|key| key.key() == &position.key) else {
                self.source = Source::Done;
                return;
            };
            if position.clustering.is_none() {
                // The partition is finished.
                *next = at + 1;
                self.resume = None;
            } else {
                *next = at;
            }
        }
        self.partition = Some((position.key, position.remaining_in_partition));
    }

    /// The reads that are needed next; none when all is known.
    pub fn reads(&mut self) -> Vec<ReadCommand> {
        let commands = match &self.source {
            _ if self.full || self.remaining == 0 => Vec::new(),
            Source::Done => Vec::new(),
            Source::Range(range) => vec![self.command(range.clone(), self.resume.clone())],
            Source::Keys(keys, next) => {
                // Few rows are wanted: more partitions would be read in vain.
                let wanted = self.row_limit() as usize;
                let count = wanted.div_ceil(16).clamp(1, PARALLEL_READS);
                let end = keys.len().min(next.saturating_add(count));
                let keys = keys.get(*next..end).unwrap_or(&[]);
                keys.iter()
                    .enumerate()
                    .map(|(i, key)| {
                        let resume = self.resume.clone().filter(|_| i == 0);
                        self.command(PartitionSelection::Key(key.clone()), resume)
                    })
                    .collect()
            }
        };
        self.pending = commands.len();
        commands
    }

    /// How many rows the next reads are to give.
    fn row_limit(&self) -> u32 {
        if self.plan.is_aggregate() || self.plan.keeps_rows() {
            return INTERNAL_ROWS;
        }
        self.remaining.min(self.page_remaining)
    }

    fn command(&self, partitions: PartitionSelection, resume: Option<Resume>) -> ReadCommand {
        let aggregate = self.plan.is_aggregate();
        ReadCommand {
            table: self.plan.table.clone(),
            partitions,
            clustering: ClusteringSelection {
                slices: self.slices.clone(),
                reversed: self.plan.reversed,
            },
            columns: self.plan.columns.clone(),
            filters: self.filters.clone(),
            limits: DataLimits {
                rows: self.row_limit(),
                rows_per_partition: if aggregate && !self.plan.distinct {
                    u32::MAX
                } else {
                    self.per_partition
                },
                bytes: PAGE_BYTES,
            },
            now_seconds: self.request.now_seconds,
            resume,
            bypass_cache: self.plan.bypass_cache,
            packed: self.plan.packed,
        }
    }

    /// Takes the answer to the next of the commands that [`SelectRun::reads`] gave. After
    /// [`CqlError::GaveWay`], the same page is to be given again: it goes on in it.
    pub fn absorb(&mut self, page: &ReadPage, sink: &mut RowSink<'_>) -> Result<(), CqlError> {
        if self.pending == 0 {
            // An answer that came too late to be of use.
            return Ok(());
        }
        while let Some(partition) = page.partitions.get(self.taken.partitions) {
            self.partition_rows(partition, sink)?;
            self.taken = Taken {
                partitions: self.taken.partitions + 1,
                ..Taken::default()
            };
            if self.full || self.remaining == 0 {
                self.pending = 0;
                self.taken = Taken::default();
                return Ok(());
            }
        }
        self.taken = Taken::default();
        self.pending -= 1;
        self.advance(page);
        Ok(())
    }

    /// Moves on to what the next read is to give.
    fn advance(&mut self, page: &ReadPage) {
        let after = page.partitions.last().map(|partition| {
            let clustering = partition.last_clustering();
            let left = self.partition.as_ref().map_or(0, |(_, left)| *left);
            Resume {
                key: partition.key.clone(),
                clustering,
                remaining_in_partition: if self.plan.is_aggregate() {
                    u32::MAX
                } else {
                    left
                },
            }
        });
        match &mut self.source {
            Source::Done => {}
            Source::Range(_) if page.more && after.is_some() => self.resume = after,
            Source::Range(_) => self.source = Source::Done,
            Source::Keys(_, next) => {
                let unfinished = after.filter(|after| page.more && after.clustering.is_some());
                if unfinished.is_some() {
                    // The partitions behind it have to wait.
                    self.pending = 0;
                } else {
                    *next += 1;
                }
                self.resume = unfinished;
            }
        }
    }

    fn partition_rows(
        &mut self,
        partition: &Partition,
        sink: &mut RowSink<'_>,
    ) -> Result<(), CqlError> {
        let same = match self.taken.same {
            Some(same) => same,
            None => matches!(&self.partition, Some((key, _)) if key == partition.key.key()),
        };
        if self.taken.same.replace(same).is_none() && !same {
            self.partition = Some((partition.key.key().clone(), self.per_partition));
        }
        let fetch = &self.plan.selection.fetch;
        let mut slots = Slots::new();
        fetch.partition(&mut slots, partition, self.request)?;
        let rows = partition.row_count();
        if self.plan.distinct || rows == 0 {
            let live = |row: &Row| row.is_live(self.request.now_seconds);
            let shown = rows > 0
                || (self.plan.shows_static && partition.static_row.as_ref().is_some_and(live));
            if shown && !(same && self.resume.is_some()) {
                self.row(&slots, partition, None, sink)?;
                self.request.functions.next_step();
            }
            return Ok(());
        }
        if !partition.packed.is_empty() && self.plan.shows_packed() {
            self.packed_rows(&slots, partition, sink);
            return Ok(());
        }
        for at in self.taken.rows..rows {
            let found = match partition.packed.get(at) {
                Some(row) => Found::Packed(row),
                None => Found::Row(&partition.rows[at]),
            };
            match found {
                Found::Packed(row) => fetch.packed_row(&mut slots, row),
                Found::Row(row) => fetch.row(&mut slots, row, self.request)?,
            }
            self.row(&slots, partition, Some(found), sink)?;
            self.taken.rows += 1;
            self.request.functions.next_step();
            if self.full || self.remaining == 0 {
                break;
            }
            fetch.forget_row(&mut slots);
        }
        Ok(())
    }

    /// Shows the rows of a partition as they lie there; `shared` has the slots that all of them share.
    fn packed_rows(&mut self, shared: &Slots<'_>, partition: &Partition, sink: &mut RowSink<'_>) {
        let selection = &self.plan.selection;
        let mut slots: PlainSlots<'_> = shared.iter().map(Option::as_deref).collect();
        for row in &partition.packed {
            let allowed = match &mut self.partition {
                Some((_, left)) if *left > 0 => {
                    *left -= 1;
                    *left
                }
                _ => return,
            };
            selection.fetch.plain_values(&mut slots, row);
            selection.emit_plain(&slots, sink);
            self.count(&slots);
            if self.full {
                let clustering = Some(row.to_clustering());
                self.last = Some(self.position(partition, clustering, allowed));
            }
            if self.full || self.remaining == 0 {
                return;
            }
            selection.fetch.forget_row(&mut slots);
        }
    }

    /// A row of the table, or a partition without rows. Nothing has changed where a function gave way.
    fn row(
        &mut self,
        slots: &Slots<'_>,
        partition: &Partition,
        row: Option<Found<'_>>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), CqlError> {
        if self.plan.is_aggregate() {
            return self.aggregate(slots, partition, row, sink);
        }
        let allowed = match &self.partition {
            Some((_, allowed)) if *allowed > 0 => allowed - 1,
            _ => return Ok(()),
        };
        let sorts = self.plan.keeps_rows();
        if self
            .nearest
            .as_ref()
            .is_some_and(|nearest| !nearest.takes(slots))
        {
            return Ok(());
        }
        if !sorts {
            self.plan.selection.emit(slots, &[], self.request, sink)?;
        }
        if let Some((_, left)) = &mut self.partition {
            *left = allowed;
        }
        if sorts {
            self.keep(slots);
            return Ok(());
        }
        self.count(slots);
        if self.full {
            let clustering = row.map(Found::clustering);
            self.last = Some(self.position(partition, clustering, allowed));
        }
        Ok(())
    }

    /// Behind a row of a partition, or a partition without rows.
    fn position(
        &self,
        partition: &Partition,
        clustering: Option<Clustering>,
        remaining_in_partition: u32,
    ) -> Position {
        Position {
            key: partition.key.key().clone(),
            clustering,
            remaining_in_partition,
            remaining: self.remaining,
        }
    }

    /// Counts a row of the result.
    fn count<V: AsRef<[u8]>>(&mut self, slots: &[Option<V>]) {
        self.remaining -= 1;
        self.page_remaining = self.page_remaining.saturating_sub(1);
        let lengths = slots.iter().flatten().map(|value| value.as_ref().len());
        let bytes: usize = lengths.map(|length| length + 4).sum();
        self.page_bytes = self
            .page_bytes
            .saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.full = self.paged && (self.page_remaining == 0 || self.page_bytes >= PAGE_BYTES);
    }

    /// Gives what was kept to the sink. Returns the paging state, if there may be another page. After
    /// [`CqlError::GaveWay`] it is to be called again; otherwise once.
    pub fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Option<Vec<u8>>, CqlError> {
        if self.plan.sorts_groups() {
            self.finish_group(sink)?;
        }
        if !self.sorted.is_empty() {
            self.emit_sorted(sink)?;
            return Ok(None);
        }
        if self.plan.is_aggregate() && !self.full && self.remaining > 0 {
            if self.group.is_none() && self.plan.group_by.is_empty() {
                self.empty_group(sink)?;
                return Ok(None);
            }
            // With it the page may be full, though nothing follows: as in Cassandra, an empty page does.
            self.finish_group(sink)?;
        }
        if !self.paged || !self.full || self.remaining == 0 {
            return Ok(None);
        }
        let last = self.last.as_ref().filter(|last| !self.is_end(last));
        Ok(last.map(Position::encode))
    }

    /// Whether nothing can follow a position: of the partitions that are read by their keys it is the last,
    /// and that one has no more rows or is allowed none.
    fn is_end(&self, position: &Position) -> bool {
        let Source::Keys(keys, _) = &self.source else {
            return false;
        };
        let clustering = position.clustering.as_ref();
        let finished = clustering.is_none_or(|clustering| clustering.0.is_empty());
        keys.last().is_some_and(|key| *key.key() == position.key)
            && (finished || position.remaining_in_partition == 0)
    }
}
