//! The serialization header, matched with a table: which column stands where in the rows.

use model::{ColumnId, ColumnKind, CqlType, NO_TIMESTAMP, Table};

use super::header::{EncodingStats, HeaderColumn, SerializationHeader};
use super::version::Version;

/// A column at its place in the rows of an sstable.
#[derive(Clone, Debug)]
pub(crate) struct LayoutColumn {
    /// The column of the table; `None` if it was dropped: its cells are passed over.
    pub id: Option<ColumnId>,
    /// Are its values spread over several cells?
    pub complex: bool,
    /// The length of its values where they are written without one.
    pub value_length: Option<usize>,
    /// Cells up to this timestamp belong to a column of the same name that was dropped.
    pub dropped_at: i64,
}

/// The columns of static rows, or of regular ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayoutColumns {
    pub columns: Vec<LayoutColumn>,
    /// Are the columns in the order of their ids, so that cells need no sorting?
    pub sorted: bool,
}

/// All that is needed to encode and decode partitions.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub encoding: EncodingStats,
    /// Deletion times are unsigned (since `oa`).
    pub unsigned_deletion_time: bool,
    /// The lengths of the values of each clustering column, where they are written without one.
    pub clustering: Vec<Option<usize>>,
    /// Are empty values at the end of a row's clustering nulls? In tables with COMPACT STORAGE,
    /// which need not give all of it. See [`super::encode::write_row_clustering`].
    pub null_ends: bool,
    pub statics: LayoutColumns,
    pub regulars: LayoutColumns,
}

impl Layout {
    pub(crate) fn new(header: &SerializationHeader, version: Version, table: &Table) -> Layout {
        Layout {
            encoding: header.encoding,
            unsigned_deletion_time: version.features().v5_statistics,
            clustering: header
                .clustering
                .iter()
                .map(|(ty, _)| ty.fixed_length())
                .collect(),
            null_ends: table.is_compact,
            statics: LayoutColumns::new(&header.statics, ColumnKind::Static, table),
            regulars: LayoutColumns::new(&header.regulars, ColumnKind::Regular, table),
        }
    }

    pub(crate) fn columns(&self, of_static_row: bool) -> &LayoutColumns {
        if of_static_row {
            &self.statics
        } else {
            &self.regulars
        }
    }
}

impl LayoutColumns {
    pub(super) fn new(header: &[HeaderColumn], kind: ColumnKind, table: &Table) -> LayoutColumns {
        let columns: Vec<LayoutColumn> = header
            .iter()
            .map(|column| layout_column(column, kind, table))
            .collect();
        let sorted = columns
            .iter()
            .filter_map(|c| c.id)
            .is_sorted_by(|a, b| a < b);
        LayoutColumns { columns, sorted }
    }
}

fn layout_column(header: &HeaderColumn, kind: ColumnKind, table: &Table) -> LayoutColumn {
    let complex = header.ty.is_multi_cell();
    let id = table
        .column_named(&header.name)
        .filter(|c| c.kind == kind && c.ty.is_multi_cell() == complex)
        .map(|c| c.id);
    let dropped_at = table
        .dropped
        .iter()
        .filter(|d| *d.name == *header.name && d.is_static == (kind == ColumnKind::Static))
        .map(|d| d.dropped_at)
        .max()
        .unwrap_or(NO_TIMESTAMP);
    LayoutColumn {
        id,
        complex,
        value_length: value_length(&header.ty),
        dropped_at,
    }
}

/// The cells of multi-cell values always have lengths.
fn value_length(ty: &CqlType) -> Option<usize> {
    if ty.is_multi_cell() {
        None
    } else {
        ty.fixed_length()
    }
}
