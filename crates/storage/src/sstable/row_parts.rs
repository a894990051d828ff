//! A row column by column, wherever its cells are: what is written of it.

use model::{CellRef, ColumnId, DeletionTime, Row};
use smallvec::SmallVec;

use super::layout::LayoutColumn;

/// As many columns as most rows have something in.
const FEW: usize = 16;

/// A row to be written.
pub(super) struct RowParts<'r, C> {
    /// Everything of it but its cells, which are in `columns`.
    pub head: &'r Row,
    /// Sorted.
    columns: SmallVec<[ColumnCells<C>; FEW]>,
}

/// The cells of a column, of which there is one at least.
struct ColumnCells<C> {
    id: ColumnId,
    count: usize,
    /// From the first of them on, and those of later columns behind them.
    cells: C,
}

/// What a row has in a column of a layout: cells, or a deletion of what is spread over several, or both.
pub(super) struct Present<'p, C> {
    pub column: &'p LayoutColumn,
    /// The number of the column.
    pub number: usize,
    /// Of the whole column.
    pub deletion: Option<DeletionTime>,
    cells: Option<&'p ColumnCells<C>>,
}

/// Of a row as it is.
pub(super) fn of_row(row: &Row) -> RowParts<'_, impl Iterator<Item = CellRef<'_>> + Clone> {
    RowParts::new(row, row.cell_refs(), |_| {})
}

impl<'r, C: Iterator<Item = CellRef<'r>> + Clone> RowParts<'r, C> {
    /// Of a row with these cells, which are as those of a [`Row`]; whatever cells `head` has are left out. Calls `each`
    /// with every one.
    pub(super) fn new(
        head: &'r Row,
        mut cells: C,
        mut each: impl FnMut(&CellRef<'r>),
    ) -> RowParts<'r, C> {
        let mut columns = SmallVec::<[ColumnCells<C>; FEW]>::new();
        loop {
            let from_here = cells.clone();
            let Some(cell) = cells.next() else {
                return RowParts { head, columns };
            };
            each(&cell);
            match columns.last_mut() {
                Some(last) if last.id == cell.column => last.count += 1,
                _ => columns.push(ColumnCells {
                    id: cell.column,
                    count: 1,
                    cells: from_here,
                }),
            }
        }
    }

    /// How many cells it has, and in how many columns.
    pub(super) fn counts(&self) -> (usize, usize) {
        let cells = self.columns.iter().map(|column| column.count).sum();
        (cells, self.columns.len())
    }

    /// What it has in the columns of a layout, in their order.
    pub(super) fn present<'p>(
        &'p self,
        layout: &'p [LayoutColumn],
    ) -> SmallVec<[Present<'p, C>; FEW]> {
        let mut present = SmallVec::new();
        // Mostly a layout has its columns in the order of their ids, too.
        let mut next = 0;
        for (number, column) in layout.iter().enumerate() {
            let Some(id) = column.id else { continue };
            let found = match self.columns.get(next) {
                Some(columns) if columns.id == id => Some(next),
                _ => self.columns.binary_search_by_key(&id, |c| c.id).ok(),
            };
            next = found.map_or(next, |found| found + 1);
            let deletion = column.complex.then(|| self.head.complex_deletion(id));
            let deletion = deletion.filter(|deletion| !deletion.is_live());
            let cells = found.map(|found| &self.columns[found]);
            if cells.is_some() || deletion.is_some() {
                present.push(Present {
                    column,
                    number,
                    deletion,
                    cells,
                });
            }
        }
        present
    }
}

impl<'r, C: Iterator<Item = CellRef<'r>> + Clone> Present<'_, C> {
    /// How many cells there are.
    pub(super) fn count(&self) -> usize {
        self.cells.map_or(0, |cells| cells.count)
    }

    /// The cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = CellRef<'r>> {
        let cells = self.cells.into_iter();
        cells.flat_map(|cells| cells.cells.clone().take(cells.count))
    }
}
