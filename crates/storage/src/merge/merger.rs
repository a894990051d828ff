//! What comes next, of the next items of several sources.

use std::cmp::Ordering;
use std::sync::Arc;

use model::{ClusteringComparator, DeletionTime, PackedRow, Row, Table};

use crate::{RangeTombstoneMarker, Unfiltered};

/// The next item of a source.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Next {
    /// Not asked for yet.
    #[default]
    Unknown,
    /// This.
    Item(Unfiltered),
    /// A row of which all is to be seen, if nothing deletes it and no other source knows of it.
    Plain(PackedRow),
    /// No more.
    End,
}

impl Next {
    /// The order of two items, as [`Unfiltered::compare`]; `None` if one of them is none.
    fn compare(&self, other: &Next, comparator: &ClusteringComparator) -> Option<Ordering> {
        Some(match (self, other) {
            (Next::Item(a), Next::Item(b)) => a.compare(b, comparator),
            (Next::Plain(a), Next::Plain(b)) => {
                comparator.compare_rows(a.clustering(), b.clustering())
            }
            (Next::Plain(a), Next::Item(Unfiltered::Row(b))) => {
                comparator.compare_values(a.clustering(), &b.clustering)
            }
            (Next::Plain(a), Next::Item(Unfiltered::Marker(b))) => {
                comparator.compare_values_to_bound(a.clustering(), &b.bound)
            }
            (Next::Item(_), Next::Plain(_)) => other.compare(self, comparator)?.reverse(),
            (Next::Unknown | Next::End, _) | (_, Next::Unknown | Next::End) => return None,
        })
    }
}

/// What comes first.
struct First {
    /// The first source, in order, that has something there,
    at: usize,
    /// and has another one?
    shared: bool,
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
        let First { at: first, shared } = self.first(next)?;
        let taken = take(&mut next[first])?;
        // Whoever else is at this place comes later in `next`.
        let later = match shared {
            true => first + 1..next.len(),
            false => 0..0,
        };
        match taken {
            Unfiltered::Row(mut row) => {
                for other in &mut next[later] {
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
                for at in later {
                    if self.same_place(&next[at], &marker)
                        && let Some(Unfiltered::Marker(other)) = take(&mut next[at])
                    {
                        self.open[at] = other.in_force_after(self.reversed);
                    }
                }
                self.marker_at(marker)
            }
        }
    }

    /// Takes what comes first out of `next` (none of them unknown) where nothing is deleted, if it is a plain row and
    /// the only one at its place.
    pub(super) fn step_plain(&self, next: &mut [Next]) -> Option<PackedRow> {
        debug_assert!(self.deletes_nothing());
        let First { at, shared } = self.first(next)?;
        match std::mem::take(&mut next[at]) {
            Next::Plain(row) if !shared => Some(row),
            other => {
                next[at] = other;
                None
            }
        }
    }

    /// What comes first of `next`; `None` if that is nothing.
    fn first(&self, next: &[Next]) -> Option<First> {
        let mut first: Option<First> = None;
        for (at, candidate) in next.iter().enumerate() {
            debug_assert_ne!(*candidate, Next::Unknown);
            if *candidate == Next::End {
                continue;
            }
            let here = First { at, shared: false };
            let Some(known) = &mut first else {
                first = Some(here);
                continue;
            };
            let order = candidate.compare(&next[known.at], self.table.comparator());
            match order {
                Some(Ordering::Equal) => known.shared = true,
                _ if order == Some(self.forward()) => *known = here,
                _ => {}
            }
        }
        first
    }

    /// How what comes first in the stream compares with what comes later.
    fn forward(&self) -> Ordering {
        match self.reversed {
            false => Ordering::Less,
            true => Ordering::Greater,
        }
    }

    fn same_row(&self, next: &Next, row: &Row) -> bool {
        let comparator = self.table.comparator();
        let order = match next {
            Next::Item(Unfiltered::Row(other)) => {
                comparator.compare(&other.clustering, &row.clustering)
            }
            Next::Plain(other) => comparator.compare_values(other.clustering(), &row.clustering),
            _ => return false,
        };
        order == Ordering::Equal
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
        Next::Plain(row) => Some(Unfiltered::Row(row.unpack())),
        other => {
            *next = other;
            None
        }
    }
}
