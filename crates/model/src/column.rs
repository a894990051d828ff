//! Columns of tables, those that are there and those that were.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::CqlType;

/// The identity of a column within the life of its table object in this process. Never reused
/// after a DROP. Not kept on disk: files name columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// The direction of a clustering column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// `ASC`
    #[default]
    Ascending,
    /// `DESC`
    Descending,
}

/// The part a column plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the clustering key.
    Clustering,
    /// One value a partition.
    Static,
    /// One value a row.
    Regular,
}

impl ColumnKind {
    /// Is it part of the primary key? Of all others there are cells.
    pub fn is_key(self) -> bool {
        matches!(self, ColumnKind::PartitionKey | ColumnKind::Clustering)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its number.
    pub id: ColumnId,
    /// Its name, as in quotes (case kept).
    pub name: Arc<str>,
    /// Its type.
    pub ty: CqlType,
    /// Its part.
    pub kind: ColumnKind,
    /// Its position within the key, 0 for static and regular columns.
    pub position: usize,
    /// Its direction (clustering columns).
    pub order: Order,
}

impl Column {
    /// The order of columns by name, in files and in what `SELECT *` shows: that of their bytes, but names that do not
    /// begin with ASCII come first (`ColumnMetadata.comparisonOrder`, where the flipped sign of
    /// `ColumnIdentifier.prefixComparison` is shifted away).
    pub fn compare_names(a: &str, b: &str) -> Ordering {
        let first = |name: &str| name.as_bytes().first().map_or(0, |byte| byte ^ 0x80);
        let by_first = first(a).cmp(&first(b));
        by_first.then_with(|| a.as_bytes().cmp(b.as_bytes()))
    }
}

/// A column that was dropped: cells written up to then must not come back.
#[derive(Clone, Debug, PartialEq)]
pub struct DroppedColumn {
    /// Its name.
    pub name: Arc<str>,
    /// Its type, user types expanded to tuples.
    pub ty: CqlType,
    /// Was it static (else regular)?
    pub is_static: bool,
    /// Microseconds since 1970: cells with this or an earlier timestamp are gone.
    pub dropped_at: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a Cassandra 5.0.6 orders them.
    #[test]
    fn names_that_do_not_begin_with_ascii_come_first() {
        let mut names = ["~", "p", "é", "z", "中", "éa", "A", "€", "aé", "az"];
        names.sort_by(|a, b| Column::compare_names(a, b));
        let sorted = ["é", "éa", "€", "中", "A", "az", "aé", "p", "z", "~"];
        assert_eq!(names, sorted);
    }
}
