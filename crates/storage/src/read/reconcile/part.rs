//! What a replica has said of a partition and was not merged yet.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{
    Bound, ClusteringComparator, DecoratedKey, DeletionTime, PartitionUpdate, PartitionVersion,
    RangeTombstoneList, Row, Slice, Table,
};

use crate::read::versions::end_of;

/// What a replica has said of a partition and was not merged yet.
#[derive(Clone, Debug)]
pub(super) struct Part {
    deletion: DeletionTime,
    static_row: Option<Row>,
    /// In the direction of reading.
    rows: VecDeque<Row>,
    ranges: RangeTombstoneList,
    /// Up to where it has said all; `None`: to the end.
    pub(super) end: Option<Bound>,
    /// Has all of that been merged, so that it has to say more?
    pub(super) is_waiting: bool,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: VecDeque::new(),
            ranges: RangeTombstoneList::new(),
            end: None,
            is_waiting: false,
        }
    }
}

impl Part {
    /// What it said first; nothing if it knows nothing of the partition.
    pub(super) fn of(version: Option<PartitionVersion>, reversed: bool) -> Part {
        let Some(version) = version else {
            return Part::default();
        };
        let partition = version.partition;
        Part {
            deletion: partition.deletion,
            static_row: partition.static_row,
            rows: partition.rows.into(),
            ranges: partition.range_tombstones.into(),
            end: version.end.map(|end| end_of(end, reversed)),
            is_waiting: false,
        }
    }

    /// What it said then. The static row was merged with what it said first.
    pub(super) fn extend(
        &mut self,
        version: Option<PartitionVersion>,
        reversed: bool,
        comparator: &ClusteringComparator,
    ) {
        self.is_waiting = false;
        self.end = None;
        if let Some(version) = version {
            let partition = version.partition;
            self.deletion = self.deletion.merge(partition.deletion);
            self.rows.extend(partition.rows);
            self.ranges.merge(comparator, partition.range_tombstones);
            self.end = version.end.map(|end| end_of(end, reversed));
        }
    }

    /// If it has said nothing behind `end`, up to which all was merged, it has to say more.
    pub(super) fn wait_behind(&mut self, end: Option<&Bound>, comparator: &ClusteringComparator) {
        self.is_waiting = match (&self.end, end) {
            (Some(own), Some(end)) => comparator.compare_bounds(own, end).is_eq(),
            _ => false,
        };
    }

    /// Takes what was said up to a place, as an update in the order of the table. The deletion of the
    /// partition is in each, as it covers what comes later, too.
    pub(super) fn take_until(
        &mut self,
        end: Option<&Bound>,
        (table, key): (&Arc<Table>, &DecoratedKey),
        reversed: bool,
    ) -> PartitionUpdate {
        let comparator = table.comparator();
        let mut update = PartitionUpdate::new(table.clone(), key.clone());
        update.deletion = self.deletion;
        update.static_row = self.static_row.take();
        let before_end = |row: &Row| match end {
            None => true,
            Some(end) => comparator.compare_to_bound(&row.clustering, end).is_lt() != reversed,
        };
        let count = self.rows.partition_point(before_end);
        update.rows = self.rows.drain(..count).collect();
        if reversed {
            update.rows.reverse();
        }
        let ranges = std::mem::take(&mut self.ranges);
        match end {
            None => update.range_tombstones = ranges.into(),
            Some(end) => {
                let [before, behind] = halves(end, reversed);
                let within = |slice| ranges.within(comparator, slice).collect::<Vec<_>>();
                update.range_tombstones = within(&before);
                self.ranges = within(&behind).into();
            }
        }
        update
    }
}

/// What lies before a place in the direction of reading, and what behind.
pub(super) fn halves(place: &Bound, reversed: bool) -> [Slice; 2] {
    let end = end_of(place.clone(), reversed);
    let (lower, upper) = match reversed {
        false => (end.clone(), end.inverted()),
        true => (end.inverted(), end),
    };
    let below = Slice {
        start: Bound::BOTTOM,
        end: lower,
    };
    let above = Slice {
        start: upper,
        end: Bound::TOP,
    };
    match reversed {
        false => [below, above],
        true => [above, below],
    }
}

/// The first of some places in the direction of reading, where `None` is the end of all.
pub(super) fn first_end<'b>(
    ends: impl Iterator<Item = Option<&'b Bound>>,
    reversed: bool,
    comparator: &ClusteringComparator,
) -> Option<&'b Bound> {
    let order = |a: &&Bound, b: &&Bound| match reversed {
        false => comparator.compare_bounds(a, b),
        true => comparator.compare_bounds(b, a),
    };
    ends.flatten().min_by(|a, b| order(a, b))
}
