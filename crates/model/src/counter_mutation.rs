//! Writes to counters, on their way from the coordinator to the replica that leads them
//! (`CounterMutation`).
//!
//! 1. The coordinator sends a [`CounterMutation`] to one replica, its leader. Its increments are
//!    cells with an update as their value ([`counter::update`]).
//! 2. The leader keeps others from these counters and reads what it holds of them itself:
//!    [`CounterMutation::reads`].
//! 3. [`CounterMutation::lead`] makes an ordinary mutation of it, in which each increment has
//!    become the leader's shard. That is what the leader writes and sends to the other replicas; it
//!    may arrive any number of times.
//!
//! A counter mutation itself may be led only once: whoever does it again counts again.

use bytes::Bytes;

use crate::{
    Cell, Clustering, ClusteringSelection, ColumnId, DataLimits, DecoratedKey, Mutation, Partition,
    PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, Row, Slice, ValueError, counter,
};

/// What a client writes to tables of counters: increments, and deletions.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterMutation(Mutation);

impl CounterMutation {
    /// Of a mutation whose increments are updates. All of its tables are tables of counters.
    pub fn new(mutation: Mutation) -> CounterMutation {
        CounterMutation(mutation)
    }

    /// The key that all updates share.
    pub fn key(&self) -> &DecoratedKey {
        self.0.key()
    }

    /// As it travels to its leader. Not to be applied: see [`CounterMutation::lead`].
    pub fn unled(&self) -> &Mutation {
        &self.0
    }

    /// As [`CounterMutation::unled`], to be put together with others.
    pub fn into_unled(self) -> Mutation {
        self.0
    }

    /// The mutation itself, if it has no increments but only deletions, which need no leader.
    pub fn into_deletions(self) -> Result<Mutation, CounterMutation> {
        if self.0.updates.iter().any(has_increments) {
            return Err(self);
        }
        Ok(self.0)
    }

    /// What the leader has to read, of its own data alone, at this time (seconds since 1970): one
    /// command for each update with increments, in their order.
    pub fn reads(&self, now_seconds: u32) -> Vec<ReadCommand> {
        let increments = self
            .0
            .updates
            .iter()
            .filter(|update| has_increments(update));
        increments
            .map(|update| read_of(update, now_seconds))
            .collect()
    }

    /// What the leader writes. `leader`: its counter id, the host id; `now_micros`: microseconds
    /// since 1970; `current`: the answers to [`CounterMutation::reads`].
    ///
    /// Errors: what the leader holds of one of the counters cannot be read.
    pub fn lead(
        self,
        leader: [u8; 16],
        now_micros: i64,
        current: &[ReadPage],
    ) -> Result<Mutation, ValueError> {
        let mut mutation = self.0;
        let mut current = current.iter();
        for update in mutation.updates.iter_mut().filter(|u| has_increments(u)) {
            let page = current.next();
            let partition = page.and_then(|page| page.partitions.first());
            let comparator = update.table.comparator();
            let add = |row: &mut Row, known: Option<&Row>| {
                row.cells
                    .iter_mut()
                    .try_for_each(|cell| lead_cell(cell, known, leader, now_micros))
            };
            if let Some(row) = &mut update.static_row {
                add(row, partition.and_then(|p| p.static_row.as_ref()))?;
            }
            for row in &mut update.rows {
                let known = partition.and_then(|p| row_of(p, &row.clustering, comparator));
                add(row, known)?;
            }
        }
        Ok(mutation)
    }
}

fn row_of<'p>(
    partition: &'p Partition,
    clustering: &Clustering,
    comparator: &crate::ClusteringComparator,
) -> Option<&'p Row> {
    let found = partition
        .rows
        .binary_search_by(|row| comparator.compare(&row.clustering, clustering));
    found.ok().map(|i| &partition.rows[i])
}

/// An increment becomes the leader's shard; what is none stays.
fn lead_cell(
    cell: &mut Cell,
    known: Option<&Row>,
    leader: [u8; 16],
    now_micros: i64,
) -> Result<(), ValueError> {
    let Some(delta) = increment_of(cell) else {
        return Ok(());
    };
    let known = known.and_then(|row| row.cells_of(cell.column).first());
    let current = known.filter(|known| !known.is_tombstone());
    let current = current.map(|known| &*known.value);
    cell.value = Bytes::from(counter::apply(current, leader, now_micros, delta)?);
    Ok(())
}

fn increment_of(cell: &Cell) -> Option<i64> {
    counter::delta(&cell.value).filter(|_| !cell.is_tombstone())
}

fn rows_of(update: &PartitionUpdate) -> impl Iterator<Item = &Row> {
    update.static_row.iter().chain(&update.rows)
}

fn is_incremented(row: &Row) -> bool {
    row.cells.iter().any(|cell| increment_of(cell).is_some())
}

fn has_increments(update: &PartitionUpdate) -> bool {
    rows_of(update).any(is_incremented)
}

/// The read of all counters that an update adds to.
fn read_of(update: &PartitionUpdate, now_seconds: u32) -> ReadCommand {
    let incremented = update.rows.iter().filter(|row| is_incremented(row));
    let slices = incremented.map(|row| Slice::of_prefix(row.clustering.clone()));
    let mut columns: Vec<ColumnId> = rows_of(update)
        .flat_map(|row| &row.cells)
        .filter(|cell| increment_of(cell).is_some())
        .map(|cell| cell.column)
        .collect();
    columns.sort_unstable();
    columns.dedup();
    ReadCommand {
        table: update.table.clone(),
        partitions: PartitionSelection::Key(update.key.clone()),
        clustering: ClusteringSelection {
            slices: slices.collect(),
            reversed: false,
        },
        columns,
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: u32::MAX,
        },
        now_seconds,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}
