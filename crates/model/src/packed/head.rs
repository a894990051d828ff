//! What a packed row has beside its clustering and its cells.

use crate::merge::{complex_deletion, cover_head, merge_complex_deletions};
use crate::{CellRef, Clustering, ComplexDeletion, DeletionTime, Liveness, Row};

/// Marker and deletions of a row, as [`Row`] has them.
#[derive(PartialEq)]
pub(super) struct Head {
    pub(super) liveness: Liveness,
    pub(super) deletion: DeletionTime,
    pub(super) complex_deletions: Vec<ComplexDeletion>,
}

/// The same of somebody else.
#[derive(Clone, Copy)]
pub(super) struct HeadRef<'h> {
    pub(super) liveness: Liveness,
    pub(super) deletion: DeletionTime,
    pub(super) complex_deletions: &'h [ComplexDeletion],
}

impl Head {
    /// Of a row with this marker that nothing deletes.
    pub(super) fn of_marker(liveness: Liveness) -> Head {
        Head {
            liveness,
            deletion: DeletionTime::LIVE,
            complex_deletions: Vec::new(),
        }
    }

    /// The row of a clustering that has this head, and no cells.
    pub(super) fn into_row(self, clustering: Clustering) -> Row {
        Row {
            liveness: self.liveness,
            deletion: self.deletion,
            complex_deletions: self.complex_deletions,
            ..Row::new(clustering)
        }
    }

    /// Takes in that of another version of the row, as [`Row::merge`] does.
    pub(super) fn merge(&mut self, other: HeadRef<'_>) {
        self.liveness = self.liveness.merge(other.liveness);
        self.deletion = self.deletion.merge(other.deletion);
        let theirs = other.complex_deletions.iter().copied();
        merge_complex_deletions(&mut self.complex_deletions, theirs);
        if !self.deletion.is_live() {
            let complex = &mut self.complex_deletions;
            cover_head((&mut self.liveness, complex), self.deletion);
        }
    }

    /// Does one of its deletions cover a cell?
    pub(super) fn deletes(&self, cell: &CellRef<'_>) -> bool {
        let complex = &self.complex_deletions;
        self.deletion.deletes(cell.timestamp)
            || !complex.is_empty() && complex_deletion(complex, cell.column).deletes(cell.timestamp)
    }

    pub(super) fn borrowed(&self) -> HeadRef<'_> {
        HeadRef {
            liveness: self.liveness,
            deletion: self.deletion,
            complex_deletions: &self.complex_deletions,
        }
    }
}

impl<'h> From<&'h Row> for HeadRef<'h> {
    fn from(row: &'h Row) -> HeadRef<'h> {
        HeadRef {
            liveness: row.liveness,
            deletion: row.deletion,
            complex_deletions: &row.complex_deletions,
        }
    }
}
