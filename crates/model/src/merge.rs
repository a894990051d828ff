//! How two versions of the same thing become one (`Cells.reconcile`, `Row.Merger`,
//! `PartitionUpdate.merge`).
//!
//! The rules make merging commutative, associative and idempotent, so that replicas which see
//! the same writes in any order, any number of times, hold the same:
//!
//! 1. Of two deletions, or two row markers, the one that supersedes the other stays.
//! 2. Of two cells of one column and path, the one with the higher timestamp stays; see
//!    [`Cell::reconcile`] for equal timestamps.
//! 3. Whatever a deletion around it covers is dropped: a partition's deletion covers range
//!    tombstones and rows, a range tombstone rows, a row's deletion its marker and columns, and
//!    the deletion of a collection its cells. A deletion that is covered itself is dropped too.
//!
//! Counters (rule 2) add up instead: see [`crate::counter`].

use std::cmp::Ordering;

use bytes::Bytes;

use crate::{
    Cell, CellRef, Clustering, ClusteringComparator, ColumnId, ComplexDeletion, CqlType,
    DeletionTime, Liveness, PartitionUpdate, RangeTombstoneList, Row, Table, counter,
};

impl Cell {
    /// Which of two cells of one column and path stays (`Cells.resolveRegular`).
    ///
    /// For equal timestamps: what is deleted or will expire wins over what lives for ever, a
    /// tombstone over an expiring cell, then the later deletion or expiry, then the shorter time
    /// to live (it was written later), then the greater value. Nothing here asks what time it is
    /// now, so that the outcome is the same on every replica.
    pub fn reconcile(self, other: Cell) -> Cell {
        if other.borrowed().wins_over(&self.borrowed()) {
            other
        } else {
            self
        }
    }
}

impl CellRef<'_> {
    /// Does this cell of the same column and path win over `other`, as [`Cell::reconcile`] says?
    /// For all columns but counters.
    pub fn wins_over(&self, other: &CellRef<'_>) -> bool {
        self.precedence(other) == Ordering::Greater
    }

    fn precedence(&self, other: &CellRef<'_>) -> Ordering {
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| self.ends().cmp(&other.ends()))
            .then_with(|| self.is_tombstone().cmp(&other.is_tombstone()))
            .then_with(|| {
                if self.ends() {
                    self.local_deletion_time.cmp(&other.local_deletion_time)
                } else {
                    Ordering::Equal
                }
            })
            .then_with(|| other.ttl.cmp(&self.ttl))
            .then_with(|| self.value.cmp(other.value))
            // Paths that are equal in their order may differ in their bytes.
            .then_with(|| self.path.cmp(&other.path))
    }

    /// Deleted, or expiring some time?
    fn ends(&self) -> bool {
        self.local_deletion_time != crate::NO_DELETION_TIME
    }
}

impl Liveness {
    /// The stronger of two row markers.
    pub fn merge(self, other: Liveness) -> Liveness {
        if other.supersedes(&self) { other } else { self }
    }
}

/// The order of cells in a row: by column, then by path in the order of the column's path type.
pub fn compare_cells(table: &Table, a: &Cell, b: &Cell) -> Ordering {
    compare_cell_refs(table, &a.borrowed(), &b.borrowed())
}

/// The order of cells in a row, of cells that own nothing.
pub fn compare_cell_refs(table: &Table, a: &CellRef<'_>, b: &CellRef<'_>) -> Ordering {
    a.column.cmp(&b.column).then_with(|| {
        let (Some(x), Some(y)) = (a.path, b.path) else {
            return a.path.is_some().cmp(&b.path.is_some());
        };
        match table.column(a.column).and_then(|c| c.ty.path_type()) {
            Some(ty) => ty.compare(x, y),
            None => x.cmp(y),
        }
    })
}

impl Row {
    /// Takes in another version of the same row. What a deletion in either of them covers is
    /// dropped.
    pub fn merge(&mut self, other: Row, table: &Table) {
        self.liveness = self.liveness.merge(other.liveness);
        self.deletion = self.deletion.merge(other.deletion);
        merge_complex_deletions(&mut self.complex_deletions, other.complex_deletions);
        self.cells = merge_cells(std::mem::take(&mut self.cells), other.cells, table);
        self.drop_shadowed();
    }

    /// Drops what a deletion of something around the row (its partition, a range) covers.
    pub fn shadow_by(&mut self, deletion: DeletionTime) {
        if deletion.is_live() {
            return;
        }
        // The row's own deletion may be the stronger one; then it covers all of this as well.
        if !self.deletion.supersedes(&deletion) {
            self.deletion = DeletionTime::LIVE;
        }
        self.drop_covered_by(deletion);
    }

    /// Drops what the row's own deletions cover.
    pub fn drop_shadowed(&mut self) {
        if !self.deletion.is_live() {
            self.drop_covered_by(self.deletion);
        }
        if !self.complex_deletions.is_empty() {
            let deletions = &self.complex_deletions;
            self.cells
                .retain(|cell| !complex_deletion(deletions, cell.column).deletes(cell.timestamp));
        }
    }

    fn drop_covered_by(&mut self, deletion: DeletionTime) {
        let complex = &mut self.complex_deletions;
        cover_head((&mut self.liveness, complex), deletion);
        self.cells.retain(|cell| !deletion.deletes(cell.timestamp));
    }

    /// The deletion of one multi-cell column.
    pub fn complex_deletion(&self, column: ColumnId) -> DeletionTime {
        complex_deletion(&self.complex_deletions, column)
    }

    /// Puts a cell into its place; one that is there already is reconciled with it.
    pub fn add_cell(&mut self, cell: Cell, table: &Table) {
        let found = self
            .cells
            .binary_search_by(|known| compare_cells(table, known, &cell));
        match found {
            Ok(i) => reconcile_into(&mut self.cells[i], cell, table),
            Err(i) => self.cells.insert(i, cell),
        }
    }

    /// Records the deletion of a multi-cell column; of two, the stronger one stays.
    pub fn add_complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) {
        merge_complex_deletions(
            &mut self.complex_deletions,
            [ComplexDeletion { column, deletion }],
        );
    }
}

/// Drops of the marker and the deletions of a row what a deletion around them covers.
pub(crate) fn cover_head(
    (liveness, complex_deletions): (&mut Liveness, &mut Vec<ComplexDeletion>),
    deletion: DeletionTime,
) {
    if deletion.deletes(liveness.timestamp) {
        *liveness = Liveness::NONE;
    }
    complex_deletions.retain(|complex| complex.deletion.supersedes(&deletion));
}

pub(crate) fn complex_deletion(deletions: &[ComplexDeletion], column: ColumnId) -> DeletionTime {
    match deletions.binary_search_by_key(&column, |complex| complex.column) {
        Ok(i) => deletions[i].deletion,
        Err(_) => DeletionTime::LIVE,
    }
}

pub(crate) fn merge_complex_deletions(
    into: &mut Vec<ComplexDeletion>,
    other: impl IntoIterator<Item = ComplexDeletion>,
) {
    for complex in other {
        match into.binary_search_by_key(&complex.column, |known| known.column) {
            Ok(i) => into[i].deletion = into[i].deletion.merge(complex.deletion),
            Err(i) => into.insert(i, complex),
        }
    }
}

/// Which of two cells of one column and path of a row stays, or for a counter what they add up to.
pub fn reconcile_cells(a: Cell, b: Cell, table: &Table) -> Cell {
    match table.column(a.column).map(|column| &column.ty) {
        Some(CqlType::Counter) => counter::reconcile(a, b),
        _ => a.reconcile(b),
    }
}

/// Leaves of `known` and `cell`, both of one column and path, the one that stays.
fn reconcile_into(known: &mut Cell, cell: Cell, table: &Table) {
    let nothing = Cell {
        path: None,
        value: Bytes::new(),
        ..*known
    };
    let before = std::mem::replace(known, nothing);
    *known = reconcile_cells(before, cell, table);
}

/// Up to so many cells are put into their places among others; more are merged with them.
const FEW: usize = 4;

/// Two sorted lists into one.
fn merge_cells(mut left: Vec<Cell>, mut right: Vec<Cell>, table: &Table) -> Vec<Cell> {
    let (Some(last), Some(first)) = (left.last(), right.first()) else {
        return if left.is_empty() { right } else { left };
    };
    if compare_cells(table, last, first) == Ordering::Less {
        left.append(&mut right);
        return left;
    }
    if right.len() <= FEW {
        for cell in right {
            match left.binary_search_by(|known| compare_cells(table, known, &cell)) {
                Ok(i) => reconcile_into(&mut left[i], cell, table),
                Err(i) => left.insert(i, cell),
            }
        }
        return left;
    }
    let same = |(a, b): (&Cell, &Cell)| a.column == b.column && a.path == b.path;
    if left.len() == right.len() && left.iter().zip(&right).all(same) {
        // The same columns written again, which is the usual case.
        let pairs = left.into_iter().zip(right);
        return pairs.map(|(a, b)| reconcile_cells(a, b, table)).collect();
    }
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match compare_cells(table, a, b) {
            Ordering::Less => merged.extend(left.next()),
            Ordering::Greater => merged.extend(right.next()),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (left.next(), right.next()) {
                    merged.push(reconcile_cells(a, b, table));
                }
            }
        }
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

impl PartitionUpdate {
    /// Takes in another update of the same partition of the same table (in the version of the
    /// table that this one has).
    pub fn merge(&mut self, other: PartitionUpdate) {
        debug_assert_eq!(self.key, other.key);
        debug_assert_eq!(self.table.id, other.table.id);
        let table = self.table.clone();
        self.deletion = self.deletion.merge(other.deletion);
        match (&mut self.static_row, other.static_row) {
            (Some(row), Some(other)) => row.merge(other, &table),
            (known @ None, other) => *known = other,
            (Some(_), None) => {}
        }
        let mut ranges = RangeTombstoneList::from(std::mem::take(&mut self.range_tombstones));
        ranges.merge(table.comparator(), other.range_tombstones);
        self.range_tombstones = ranges.into();
        self.rows = merge_rows(std::mem::take(&mut self.rows), other.rows, &table);
        self.drop_shadowed();
    }

    /// Several updates of one partition of one table, as one; `None` of none. Neighbours are merged, and then what
    /// has come of them: each merge goes over all rows, and there are few of them that way.
    pub fn merge_all(mut updates: Vec<PartitionUpdate>) -> Option<PartitionUpdate> {
        while updates.len() > 1 {
            let mut left = updates.into_iter();
            updates = Vec::with_capacity(left.len().div_ceil(2));
            while let Some(mut update) = left.next() {
                if let Some(next) = left.next() {
                    update.merge(next);
                }
                updates.push(update);
            }
        }
        updates.pop()
    }

    /// Drops what deletions in this update cover, and rows of which nothing is left.
    pub fn drop_shadowed(&mut self) {
        let deletion = self.deletion;
        let comparator = self.table.comparator();
        let mut ranges = RangeTombstoneList::from(std::mem::take(&mut self.range_tombstones));
        ranges.shadow_by(deletion);
        if let Some(row) = &mut self.static_row {
            row.drop_shadowed();
            row.shadow_by(deletion);
        }
        self.static_row.take_if(|row| row.is_empty());
        for row in &mut self.rows {
            row.drop_shadowed();
            row.shadow_by(deletion.merge(ranges.covering(comparator, &row.clustering)));
        }
        self.rows.retain(|row| !row.is_empty());
        self.range_tombstones = ranges.into();
    }

    /// What covers a row of this partition: the deletion of the partition or of a range.
    pub fn deletion_of(&self, clustering: &Clustering) -> DeletionTime {
        let range = crate::covering(&self.range_tombstones, self.table.comparator(), clustering);
        self.deletion.merge(range)
    }

    /// The row of this clustering, if anything is said of it.
    pub fn row(&self, clustering: &Clustering) -> Option<&Row> {
        let found = find_row(&self.rows, self.table.comparator(), clustering);
        found.ok().map(|i| &self.rows[i])
    }

    /// The row of this clustering, to add to; made if there is none.
    pub fn row_mut(&mut self, clustering: &Clustering) -> &mut Row {
        let i = match find_row(&self.rows, self.table.comparator(), clustering) {
            Ok(i) => i,
            Err(i) => {
                self.rows.insert(i, Row::new(clustering.clone()));
                i
            }
        };
        &mut self.rows[i]
    }

    /// The static row, to add to; made if there is none.
    pub fn static_row_mut(&mut self) -> &mut Row {
        self.static_row
            .get_or_insert_with(|| Row::new(Clustering::EMPTY))
    }

    /// Adds the deletion of a range of rows.
    pub fn add_range_tombstone(&mut self, tombstone: crate::RangeTombstone) {
        let mut ranges = RangeTombstoneList::from(std::mem::take(&mut self.range_tombstones));
        ranges.add(self.table.comparator(), tombstone);
        self.range_tombstones = ranges.into();
    }
}

fn find_row(
    rows: &[Row],
    comparator: &ClusteringComparator,
    clustering: &Clustering,
) -> Result<usize, usize> {
    rows.binary_search_by(|row| comparator.compare(&row.clustering, clustering))
}

fn merge_rows(mut left: Vec<Row>, mut right: Vec<Row>, table: &Table) -> Vec<Row> {
    let comparator = table.comparator();
    let (Some(last), Some(first)) = (left.last(), right.first()) else {
        return if left.is_empty() { right } else { left };
    };
    if comparator.compare(&last.clustering, &first.clustering) == Ordering::Less {
        left.append(&mut right);
        return left;
    }
    let mut merged: Vec<Row> = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match comparator.compare(&a.clustering, &b.clustering) {
            Ordering::Less => merged.extend(left.next()),
            Ordering::Greater => merged.extend(right.next()),
            Ordering::Equal => {
                if let (Some(mut a), Some(b)) = (left.next(), right.next()) {
                    // Clusterings that are equal in their order may differ in their bytes.
                    a.clustering = a.clustering.clone().max_bytes(b.clustering.clone());
                    a.merge(b, table);
                    merged.push(a);
                }
            }
        }
    }
    merged.extend(left);
    merged.extend(right);
    merged
}
