//! What comes next, of the next items of several sources.

use std::cmp::Ordering;
use std::sync::Arc;

use model::{DeletionTime, Row, Table};

use crate::{RangeTombstoneMarker, Unfiltered};

/// The next item of a source.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Next {
    /// Not asked for yet.
    #[default]
    Unknown,
    /// This.
    Item(Unfiltered),
    /// No more.
    End,
}

/// Decides what comes next.
pub(crate) struct Merger {
    table: Arc<Table>,
    reversed: bool,
    /// The deletion of the partition, from all sources.
    partition: DeletionTime,
    /// The deleted range that each source is in.
    open: Vec<Option<DeletionTime>>,
    /// The deleted range that the output is in.
    in_force: Option<DeletionTime>,
}

impl Merger {
    /// For so many sources of a partition whose deletion, from all of them, is `partition`.
    pub(crate) fn new(
        table: Arc<Table>,
        sources: usize,
        partition: DeletionTime,
        reversed: bool,
    ) -> Merger {
        Merger {
            table,
            reversed,
            partition,
            open: vec![None; sources],
            in_force: None,
        }
    }

    /// Goes on with another partition, of so many sources.
    pub(super) fn restart(&mut self, sources: usize, partition: DeletionTime) {
        self.partition = partition;
        self.open.clear();
        self.open.resize(sources, None);
        self.in_force = None;
    }

    /// How many sources there are.
    pub(super) fn sources(&self) -> usize {
        self.open.len()
    }

    /// Is nothing deleted here, neither the partition nor a range?
    pub(super) fn deletes_nothing(&self) -> bool {
        self.partition.is_live() && self.in_force.is_none()
    }

    /// Takes what comes first out of `next` (none of them unknown), leaving `Unknown` there.
    /// `None` where nothing is left of it.
    pub(crate) fn step(&mut self, next: &mut [Next]) -> Option<Unfiltered> {
        let first = self.first(next)?;
        let taken = take(&mut next[first])?;
        match taken {
            Unfiltered::Row(mut row) => {
                for other in &mut next[first + 1..] {
                    if self.same_row(other, &row)
                        && let Some(Unfiltered::Row(version)) = take(other)
                    {
                        row.merge(version, &self.table);
                    }
                }
                let range = self.in_force.unwrap_or(DeletionTime::LIVE);
                row.shadow_by(self.partition.merge(range));
                (!row.is_empty()).then_some(Unfiltered::Row(row))
            }
            Unfiltered::Marker(marker) => {
                self.open[first] = marker.in_force_after(self.reversed);
                for (at, other) in next.iter_mut().enumerate().skip(first + 1) {
                    if self.same_place(other, &marker)
                        && let Some(Unfiltered::Marker(other)) = take(other)
                    {
                        self.open[at] = other.in_force_after(self.reversed);
                    }
                }
                self.marker_at(marker)
            }
        }
    }

    /// The first source, in order, of those whose item comes first.
    fn first(&self, next: &[Next]) -> Option<usize> {
        let mut first: Option<(usize, &Unfiltered)> = None;
        for (at, candidate) in next.iter().enumerate() {
            debug_assert_ne!(*candidate, Next::Unknown);
            let Next::Item(item) = candidate else {
                continue;
            };
            let before = first.is_none_or(|(_, known)| {
                let order = item.compare(known, self.table.comparator());
                order == self.forward()
            });
            if before {
                first = Some((at, item));
            }
        }
        first.map(|(at, _)| at)
    }

    /// How what comes first in the stream compares with what comes later.
    fn forward(&self) -> Ordering {
        match self.reversed {
            false => Ordering::Less,
            true => Ordering::Greater,
        }
    }

    fn same_row(&self, next: &Next, row: &Row) -> bool {
        let Next::Item(Unfiltered::Row(other)) = next else {
            return false;
        };
        let comparator = self.table.comparator();
        comparator.compare(&other.clustering, &row.clustering) == Ordering::Equal
    }

    fn same_place(&self, next: &Next, marker: &RangeTombstoneMarker) -> bool {
        let Next::Item(Unfiltered::Marker(other)) = next else {
            return false;
        };
        let comparator = self.table.comparator();
        comparator.compare_bounds(&other.bound, &marker.bound) == Ordering::Equal
    }

    fn marker_at(&mut self, marker: RangeTombstoneMarker) -> Option<Unfiltered> {
        let strongest = self
            .open
            .iter()
            .flatten()
            .fold(DeletionTime::LIVE, |a, b| a.merge(*b));
        let after = strongest.supersedes(&self.partition).then_some(strongest);
        let before = std::mem::replace(&mut self.in_force, after);
        let (closes, opens) = match self.reversed {
            false => (before, after),
            true => (after, before),
        };
        RangeTombstoneMarker::between(marker.bound, closes, opens).map(Unfiltered::Marker)
    }
}

fn take(next: &mut Next) -> Option<Unfiltered> {
    match std::mem::take(next) {
        Next::Item(item) => Some(item),
        other => {
            *next = other;
            None
        }
    }
}
