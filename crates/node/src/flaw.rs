//! Mistakes that a node can be made with, to prove that the simulator finds such.

use cluster::Consistency;
use model::{Cell, DeletionTime, PartitionUpdate, Row};

/// A known-bad variant of a node. No server has one: only [`crate::NodeShards::with_flaw`] makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    #[default]
    None,
    /// A write at QUORUM waits for one of three.
    QuorumOffByOne,
    /// What is agreed upon is not committed, and the client told so.
    NoCommit,
    /// What a read tells a replica that lacks it leaves out what was deleted.
    RepairDropsTombstones,
    /// A hint is forgotten once it was sent, whether the node has taken it or not.
    HintsForget,
}

impl Flaw {
    /// The level that a write waits for.
    pub(crate) fn level(self, consistency: Consistency) -> Consistency {
        match (self, consistency) {
            (Flaw::QuorumOffByOne, Consistency::Quorum) => Consistency::One,
            (_, consistency) => consistency,
        }
    }

    /// What a replica is told of an update that it lacks.
    pub(crate) fn repair(self, mut update: PartitionUpdate) -> PartitionUpdate {
        if self == Flaw::RepairDropsTombstones {
            update.deletion = DeletionTime::LIVE;
            update.range_tombstones.clear();
            update
                .static_row
                .iter_mut()
                .chain(&mut update.rows)
                .for_each(drop_tombstones);
            update.rows.retain(|row| !row.is_empty());
        }
        update
    }
}

fn drop_tombstones(row: &mut Row) {
    row.deletion = DeletionTime::LIVE;
    row.complex_deletions.clear();
    row.cells.retain(|cell: &Cell| !cell.is_tombstone());
}
