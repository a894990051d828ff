//! What several replicas know becomes one answer (`DataResolver`, `ShortReadProtection`,
//! `ReplicaFilteringProtection`).
//!
//! Each replica says what it knows up to some place ([`VersionPage`]). Up to the first of these places
//! all of them have said everything, so that far their rows can be merged, and only merged rows go to
//! the page of the client: what one replica shows another may have deleted. If that page has room
//! left, those who were first to stop are asked to go on from there; the others wait with what they
//! said already. So limits may go along to replicas, and an answer is never short of rows that some of
//! them had left out.
//!
//! What rows must fulfil besides their place is looked at only when they are merged: a replica that
//! missed a write would give a row for what it had been, or leave out one for it. What keys alone
//! decide is the same on all replicas, and goes along.
//!
//! Where the table wants it (`read_repair`), whoever lacked something of what the client gets to know
//! is told, deletions too: see [`difference`].

mod candidates;
mod difference;
mod part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use model::{
    Bound, ClusteringComparator, ClusteringSelection, ColumnId, DataLimits, DecoratedKey,
    Partition, PartitionBound, PartitionSelection, PartitionUpdate, PartitionVersion, ReadCommand,
    ReadPage, Resume, Row, RowFilter, Slice, VersionPage,
};

use super::filter::is_range_of_addresses;
use super::page::{Flow, PageBuilder};
use super::versions::{bound_after, end_of};
use crate::PartitionHead;
pub use candidates::{Candidates, Named, Window};
use part::{Part, first_end};

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Ask these replicas, given by their numbers, and give each answer to
    /// [`Reconciliation::answer`].
    Ask(Vec<(usize, Rc<ReadCommand>)>),
    /// There is more to be merged: give way to others, and ask again.
    Working,
    /// The answer is complete.
    Done,
}

/// The answer to a command.
#[derive(Debug)]
pub struct Reconciled {
    /// For the client.
    pub page: ReadPage,
    /// For each replica what it lacks: updates of different partitions.
    pub repairs: Vec<Vec<PartitionUpdate>>,
}

/// A read that several replicas answer.
pub struct Reconciliation<'c> {
    command: &'c ReadCommand,
    /// What replicas are asked.
    asked: Rc<ReadCommand>,
    sources: Vec<Source>,
    /// The partition whose rows are merged, and whether the page has begun with it.
    current: Option<(DecoratedKey, bool)>,
    page: PageBuilder<'c>,
    /// So many times the rows of the limits are asked for, as it turned out that these were too few.
    widened: u32,
    /// What each replica lacks, if it is to be told.
    repairs: Option<Vec<BTreeMap<DecoratedKey, PartitionUpdate>>>,
    /// Is the page complete, and is there more behind it?
    finished: Option<bool>,
}

/// A replica.
#[derive(Clone, Debug, Default)]
struct Source {
    /// What it said of partitions whose turn has not come.
    waiting: VecDeque<PartitionVersion>,
    /// The last partition that it spoke of.
    last: Option<DecoratedKey>,
    /// Has it nothing behind that?
    exhausted: bool,
    /// What it said of the current partition and was not merged yet.
    part: Part,
}

/// The command that replicas are asked for the sake of this one. All that they send is merged before
/// anything is left out of it.
pub fn command_for_replicas(command: &ReadCommand) -> ReadCommand {
    let table = &command.table;
    let has_cells = |column: &ColumnId| {
        let column = table.column(*column);
        column.is_some_and(|column| !column.kind.is_key())
    };
    let of_merged = |filter: &mut RowFilter| {
        let column = table.column(filter.column);
        column.is_some_and(|column| !column.kind.is_key() || is_range_of_addresses(column, filter))
    };
    let mut asked = command.clone();
    let merged: Vec<RowFilter> = asked.filters.extract_if(.., of_merged).collect();
    if merged.is_empty() {
        return asked;
    }
    let filtered = merged.iter().map(|filter| filter.column);
    let filtered = filtered.filter(has_cells);
    // How many rows are left of those that are read nobody knows: only bytes are a limit.
    asked.columns.extend(filtered);
    asked.columns.sort_unstable();
    asked.columns.dedup();
    asked.limits = DataLimits {
        rows: u32::MAX,
        rows_per_partition: u32::MAX,
        ..command.limits
    };
    if let Some(resume) = &mut asked.resume
        && resume.remaining_in_partition > 0
    {
        resume.remaining_in_partition = u32::MAX;
    }
    asked
}

impl<'c> Reconciliation<'c> {
    /// Of the answers of so many replicas, which are told what they lack if `repair` says so.
    pub fn new(command: &'c ReadCommand, replicas: usize, repair: bool) -> Reconciliation<'c> {
        let page = PageBuilder::new(command, &command.table);
        let finished = page.is_full().then_some(false);
        Reconciliation {
            asked: Rc::new(command_for_replicas(command)),
            sources: vec![Source::default(); replicas],
            current: None,
            page,
            widened: 1,
            repairs: repair.then(|| vec![BTreeMap::new(); replicas]),
            finished,
            command,
        }
    }

    /// From here on each of `replicas` speaks for itself; so far one spoke for all, as they knew the
    /// same. What is asked for at this moment is asked of each of them.
    pub fn split(&mut self, replicas: usize) {
        debug_assert_eq!(self.sources.len(), 1, "they are apart already");
        if let Some(joint) = self.sources.first().cloned() {
            self.sources = vec![joint; replicas];
        }
        if let Some(repairs) = &mut self.repairs {
            *repairs = vec![BTreeMap::new(); replicas];
        }
    }

    /// From here on it is noted, too, what a replica lacks that knows nothing of what is read: behind
    /// what the others lack.
    pub fn add_stranger(&mut self) {
        let Some(repairs) = &mut self.repairs else {
            return;
        };
        repairs.push(BTreeMap::new());
        self.sources.push(Source {
            exhausted: true,
            ..Source::default()
        });
    }

    /// What to do next. After [`Step::Ask`] all answers are to be given before it is asked again.
    pub fn step(&mut self) -> Step {
        match (&self.finished, &self.current) {
            (Some(_), _) => Step::Done,
            (None, None) => self.begin(),
            (None, Some(_)) => self.go_on(),
        }
    }

    /// Takes the answer of a replica.
    pub fn answer(&mut self, replica: usize, page: VersionPage) {
        let reversed = self.command.clustering.reversed;
        let source = &mut self.sources[replica];
        if let Some((key, _)) = &self.current {
            let mut versions = page.partitions.into_iter();
            let version = versions.find(|version| version.partition.key == *key);
            let comparator = self.command.table.comparator();
            source.part.extend(version, reversed, comparator);
            return;
        }
        let mut versions = page.partitions;
        let wanted = |version: &PartitionVersion| match &self.command.partitions {
            PartitionSelection::Key(key) => version.partition.key == *key,
            PartitionSelection::Range { .. } => {
                let last = source.last.as_ref();
                last.is_none_or(|last| version.partition.key > *last)
            }
        };
        versions.retain(wanted);
        let is_range = matches!(self.command.partitions, PartitionSelection::Range { .. });
        source.exhausted = !(is_range && page.more) || versions.is_empty();
        if let Some(last) = versions.last() {
            source.last = Some(last.partition.key.clone());
        }
        source.waiting.extend(versions);
    }

    /// The answer, and what replicas lack.
    pub fn finish(self) -> Reconciled {
        let repairs = self.repairs.unwrap_or_default().into_iter();
        Reconciled {
            page: self.page.finish(self.finished.unwrap_or(false)),
            repairs: repairs.map(|of| of.into_values().collect()).collect(),
        }
    }

    /// Begins the next partition, once all have said which theirs is.
    fn begin(&mut self) -> Step {
        let silent = |source: &Source| source.waiting.is_empty() && !source.exhausted;
        let silent: Vec<usize> = (0..self.sources.len())
            .filter(|number| silent(&self.sources[*number]))
            .collect();
        if !silent.is_empty() {
            return Step::Ask(self.commands_behind(&silent));
        }
        if let Some(partition) = self.said_whole() {
            return self.take_whole(partition);
        }
        let heads = self.sources.iter().filter_map(|s| s.waiting.front());
        let Some(key) = heads.map(|head| &head.partition.key).min().cloned() else {
            self.finished = Some(false);
            return Step::Done;
        };
        let reversed = self.command.clustering.reversed;
        for source in &mut self.sources {
            let speaks = |head: &&PartitionVersion| head.partition.key == key;
            source.part = match source.waiting.front().filter(speaks) {
                Some(_) => Part::of(source.waiting.pop_front(), reversed),
                None => Part::of(None, reversed),
            };
        }
        self.current = Some((key, false));
        self.settle_ends();
        Step::Working
    }

    /// The next partition, if one speaks for all and has said all of it.
    fn said_whole(&mut self) -> Option<Partition> {
        let [source] = &mut self.sources[..] else {
            return None;
        };
        let whole = source.waiting.pop_front_if(|version| version.end.is_none());
        whole.map(|version| version.partition)
    }

    /// Takes a partition of which there is nothing to merge: the usual way of a read whose digests agree.
    fn take_whole(&mut self, partition: Partition) -> Step {
        let head = PartitionHead {
            key: partition.key,
            deletion: partition.deletion,
            static_row: partition.static_row,
        };
        let resumed = resumed_rows(self.command, &head.key);
        let mut flow = Flow::More;
        let mut rows = partition.rows.into_iter();
        if self.page.begin(&head, resumed, &self.command.table) {
            while flow == Flow::More
                && let Some(row) = rows.next()
            {
                flow = self.page.row(row);
            }
        }
        match flow {
            Flow::PageDone => {
                let now = self.command.now_seconds;
                let more = self.page.partition_may_go_on()
                    && rows.any(|row| self.command.table.shows(&row, now));
                self.end_page(more);
                Step::Done
            }
            Flow::More | Flow::PartitionDone => self.end_partition(),
        }
    }

    /// The commands for the partitions behind those that replicas spoke of.
    fn commands_behind(&mut self, replicas: &[usize]) -> Vec<(usize, Rc<ReadCommand>)> {
        let again = replicas.iter().any(|r| self.sources[*r].last.is_some());
        let wider = again.then(|| self.wider());
        let command = |replica: &usize| {
            let mut command = self.asked.clone();
            if let PartitionSelection::Range { end, .. } = &self.asked.partitions
                && let Some(last) = &self.sources[*replica].last
            {
                let command = Rc::make_mut(&mut command);
                command.partitions = PartitionSelection::Range {
                    start: PartitionBound::KeyExclusive(last.clone()),
                    end: end.clone(),
                };
                command.resume = None;
                command.limits = wider.unwrap_or(command.limits);
            }
            (*replica, command)
        };
        replicas.iter().map(command).collect()
    }

    /// The limits, for those who have to be asked again.
    fn wider(&mut self) -> DataLimits {
        self.widened = self.widened.saturating_mul(2);
        let limits = self.asked.limits;
        DataLimits {
            rows: limits.rows.saturating_mul(self.widened),
            rows_per_partition: limits.rows_per_partition.saturating_mul(self.widened),
            bytes: limits.bytes,
        }
    }

    /// Where nothing that was asked for lies behind the place up to which a replica has said all, it
    /// has said all.
    fn settle_ends(&mut self) {
        let (slices, reversed) = {
            let ClusteringSelection { slices, reversed } = &self.command.clustering;
            (slices, *reversed)
        };
        let comparator = self.command.table.comparator();
        for source in &mut self.sources {
            let nothing_behind =
                |end: &mut Bound| slices_behind(slices, end, reversed, comparator).is_empty();
            source.part.end.take_if(nothing_behind);
        }
    }

    /// Merges what all have said of the current partition.
    fn go_on(&mut self) -> Step {
        if let Some(asked) = self.follow_ups() {
            return Step::Ask(asked);
        }
        let Some((key, begun)) = self.current.clone() else {
            return Step::Working;
        };
        let (table, reversed) = (&self.command.table, self.command.clustering.reversed);
        let comparator = table.comparator();
        let ends = self.sources.iter().map(|source| source.part.end.as_ref());
        let end = first_end(ends, reversed, comparator).cloned();
        let parts = self.sources.iter_mut();
        let segments: Vec<PartitionUpdate> = parts
            .map(|s| s.part.take_until(end.as_ref(), (table, &key), reversed))
            .collect();
        let keep = self.repairs.is_some() && segments.len() > 1;
        let versions = if keep { segments.clone() } else { Vec::new() };
        let mut merged: Option<PartitionUpdate> = None;
        for segment in segments {
            match &mut merged {
                Some(merged) => merged.merge(segment),
                None => merged = Some(segment),
            }
        }
        let Some(mut merged) = merged else {
            self.finished = Some(false);
            return Step::Done;
        };
        let rows = match keep {
            true => merged.rows.clone(),
            false => std::mem::take(&mut merged.rows),
        };
        let wanted = begun || {
            let head = PartitionHead {
                key: key.clone(),
                deletion: merged.deletion,
                static_row: merged.static_row.clone(),
            };
            let resumed = resumed_rows(self.command, &key);
            self.page.begin(&head, resumed, table)
        };
        self.current = Some((key.clone(), true));
        let mut shown = Shown::all(if wanted { rows } else { Vec::new() });
        shown.feed(&mut self.page, reversed);
        let seen = shown.end(reversed).or(end.clone());
        self.note_repairs(&key, &merged, &versions, seen.as_ref());
        let behind_segment = wanted
            && (shown.is_more(&self.command.table, self.command.now_seconds) || end.is_some());
        match shown.flow {
            Flow::PageDone => {
                let more = self.page.partition_may_go_on() && behind_segment;
                self.end_page(more);
                Step::Done
            }
            Flow::More if wanted && end.is_some() => {
                for source in &mut self.sources {
                    source.part.wait_behind(end.as_ref(), comparator);
                }
                Step::Working
            }
            Flow::More | Flow::PartitionDone => self.end_partition(),
        }
    }

    /// What to ask those who have to go on within the partition.
    fn follow_ups(&mut self) -> Option<Vec<(usize, Rc<ReadCommand>)>> {
        let waiting = |source: &Source| source.part.is_waiting;
        if !self.sources.iter().any(waiting) {
            return None;
        }
        let (key, _) = self.current.clone()?;
        let limits = self.wider();
        let ClusteringSelection { slices, reversed } = &self.asked.clustering;
        let comparator = self.command.table.comparator();
        let numbered = self.sources.iter().enumerate();
        let asked = numbered.filter(|(_, source)| waiting(source));
        let asked = asked.filter_map(|(number, source)| {
            let end = source.part.end.as_ref()?;
            let command = ReadCommand {
                partitions: PartitionSelection::Key(key.clone()),
                clustering: ClusteringSelection {
                    slices: slices_behind(slices, end, *reversed, comparator),
                    reversed: *reversed,
                },
                limits,
                resume: None,
                ..ReadCommand::clone(&self.asked)
            };
            Some((number, Rc::new(command)))
        });
        Some(asked.collect())
    }

    fn end_partition(&mut self) -> Step {
        self.current = None;
        if self.page.end() {
            self.end_page(false);
            return Step::Done;
        }
        Step::Working
    }

    /// The page is full; `more`, if there is more of its last partition.
    fn end_page(&mut self, more: bool) {
        let speaks_on = |source: &Source| !source.waiting.is_empty() || !source.exhausted;
        self.finished = Some(more || self.sources.iter().any(speaks_on));
    }

    /// Notes what each replica lacks of what was merged up to a place.
    fn note_repairs(
        &mut self,
        key: &DecoratedKey,
        merged: &PartitionUpdate,
        versions: &[PartitionUpdate],
        end: Option<&Bound>,
    ) {
        let Some(repairs) = &mut self.repairs else {
            return;
        };
        let reversed = self.command.clustering.reversed;
        for (repairs, version) in repairs.iter_mut().zip(versions) {
            let lacking =
                difference::difference(merged, version, &self.asked.columns, (end, reversed));
            let Some(lacking) = lacking else { continue };
            match repairs.get_mut(key) {
                Some(known) => known.merge(lacking),
                None => drop(repairs.insert(key.clone(), lacking)),
            }
        }
    }
}

/// How many rows the partition that the page before ended in may still give.
fn resumed_rows(command: &ReadCommand, key: &DecoratedKey) -> Option<u32> {
    let resume = command.resume.as_ref();
    let resume: Option<&Resume> = resume.filter(|resume| resume.key == *key);
    resume.map(|resume| resume.remaining_in_partition)
}

/// Merged rows, in the order of the table, on their way to the page.
struct Shown {
    rows: Vec<Row>,
    /// The last row that the page took, if it did not take all.
    last: Option<Row>,
    flow: Flow,
}

impl Shown {
    fn all(rows: Vec<Row>) -> Shown {
        Shown {
            rows,
            last: None,
            flow: Flow::More,
        }
    }

    /// Gives rows to the page until it wants no more; those that it has not seen are left.
    fn feed(&mut self, page: &mut PageBuilder<'_>, reversed: bool) {
        if !reversed {
            self.rows.reverse();
        }
        while self.flow == Flow::More
            && let Some(row) = self.rows.pop()
        {
            let place = Row::new(row.clustering.clone());
            self.flow = page.row(row);
            if self.flow != Flow::More {
                self.last = Some(place);
            }
        }
    }

    /// Up to where the page has seen rows, if not all.
    fn end(&self, reversed: bool) -> Option<Bound> {
        let last = self.last.as_ref()?;
        Some(bound_after(&last.clustering, reversed))
    }

    /// Are there live rows that the page has not seen?
    fn is_more(&self, table: &model::Table, now_seconds: u32) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| table.shows(row, now_seconds))
    }
}

/// What of `slices` lies behind a place in the direction of reading.
fn slices_behind(
    slices: &[Slice],
    place: &Bound,
    reversed: bool,
    comparator: &ClusteringComparator,
) -> Vec<Slice> {
    let edge = end_of(place.clone(), reversed).inverted();
    let cut = |slice: &Slice| {
        let mut slice = slice.clone();
        match reversed {
            true if comparator.compare_bounds(&edge, &slice.end).is_lt() => {
                slice.end = edge.clone()
            }
            false if comparator.compare_bounds(&edge, &slice.start).is_gt() => {
                slice.start = edge.clone();
            }
            _ => {}
        }
        slice
    };
    let cut = slices.iter().map(cut);
    cut.filter(|slice| !slice.is_empty(comparator)).collect()
}
