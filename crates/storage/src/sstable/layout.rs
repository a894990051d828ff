//! The serialization header, matched with a table: which column stands where in the rows.

use std::cell::Cell;
use std::rc::Rc;

use model::{Column, ColumnId, ColumnKind, CompactForm, CqlType, NO_TIMESTAMP, Table};

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
    /// Are empty values at the end of a row's clustering nulls? In dense tables with COMPACT
    /// STORAGE, which need not give all of it. See [`super::encode::write_row_clustering`].
    pub null_ends: bool,
    pub statics: LayoutColumns,
    pub regulars: LayoutColumns,
    /// Where it is noted what a reader leaves out; nothing is if there is none.
    pub unkept: Option<Unkept>,
}

/// What was read of an sstable and would not be written as it was: things of tables with COMPACT
/// STORAGE and of materialized views, which have to be known to be such.
#[derive(Clone, Debug, Default)]
pub struct Unkept(Rc<Cell<Option<&'static str>>>);

impl Unkept {
    /// What it was, if there was something.
    pub fn found(&self) -> Option<&'static str> {
        self.0.get()
    }

    pub(crate) fn note(&self, what: &'static str) {
        self.0.set(Some(what));
    }
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
            null_ends: table.compact == Some(CompactForm::Dense),
            statics: LayoutColumns::new(&header.statics, ColumnKind::Static, table),
            regulars: LayoutColumns::new(&header.regulars, ColumnKind::Regular, table),
            unkept: None,
        }
    }

    /// Of a message about this table, with its static and its regular columns.
    pub(super) fn of_message(
        encoding: EncodingStats,
        unsigned_deletion_time: bool,
        [statics, regulars]: [LayoutColumns; 2],
        table: &Table,
    ) -> Layout {
        let clustering = table.clustering_key();
        Layout {
            encoding,
            unsigned_deletion_time,
            clustering: clustering.map(|c| c.ty.fixed_length()).collect(),
            null_ends: table.compact == Some(CompactForm::Dense),
            statics,
            regulars,
            unkept: None,
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
    /// Columns as the table has them, in the order of files.
    pub(super) fn of_table(columns: &[&Column]) -> LayoutColumns {
        let place = |column: &&Column| {
            let complex = column.ty.is_multi_cell();
            LayoutColumn {
                id: Some(column.id),
                complex,
                value_length: (!complex).then(|| column.ty.fixed_length()).flatten(),
                dropped_at: NO_TIMESTAMP,
            }
        };
        LayoutColumns {
            columns: columns.iter().map(place).collect(),
            sorted: columns.is_sorted_by_key(|column| column.id),
        }
    }

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
    let complex = is_complex(header, kind, table);
    let id = table
        .column_named(&header.name)
        .filter(|c| c.kind == kind && c.ty.is_multi_cell() == complex)
        .map(|c| c.id);
    // By its name alone: schemas of before Cassandra 3.11 do not say whether it was static
    // (`DeserializationHelper`).
    let dropped_at = table
        .dropped
        .iter()
        .filter(|d| *d.name == *header.name)
        .map(|d| d.dropped_at)
        .max()
        .unwrap_or(NO_TIMESTAMP);
    LayoutColumn {
        id,
        complex,
        value_length: (!complex).then(|| header.ty.fixed_length()).flatten(),
        dropped_at,
    }
}

/// Are the values of a column spread over several cells? Cassandra 3.0, whose user types were all
/// frozen, left that out of the header, so the table decides where it has a frozen one there
/// (`UnfilteredSerializer` asks the table's column; `SSTableHeaderFix.fixTypeInnerUserType`).
fn is_complex(header: &HeaderColumn, kind: ColumnKind, table: &Table) -> bool {
    let in_header = header.ty.is_multi_cell();
    if !matches!(header.ty, CqlType::Udt { .. }) {
        return in_header;
    }
    in_header && !may_be_in_one_cell(table, kind, &header.name)
}

/// Does the table have a column of this name, or had it, with a type that a user type in one cell
/// can have? What was dropped is kept as a tuple.
fn may_be_in_one_cell(table: &Table, kind: ColumnKind, name: &str) -> bool {
    let fits = |ty: &CqlType| {
        let udt_like = matches!(ty, CqlType::Udt { .. } | CqlType::Tuple(_) | CqlType::Blob);
        udt_like && !ty.is_multi_cell()
    };
    if let Some(column) = table.column_named(name).filter(|c| c.kind == kind) {
        return fits(&column.ty);
    }
    let mut dropped = table.dropped.iter();
    dropped.any(|d| *d.name == *name && fits(&d.ty))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{DroppedColumn, Order, UserType};

    use super::*;
    use crate::testing::table;

    fn user_type(frozen: bool) -> CqlType {
        CqlType::Udt {
            definition: Arc::new(UserType {
                keyspace: "ks".into(),
                name: "u".into(),
                fields: vec![("f".into(), CqlType::Int)],
            }),
            frozen,
        }
    }

    #[test]
    fn the_table_knows_whether_a_user_type_is_frozen() {
        let column = HeaderColumn {
            name: "v".to_owned(),
            ty: user_type(false),
        };
        let layout = |ty: CqlType| {
            let own = table(Order::Ascending);
            let mut columns: Vec<_> = own.columns().cloned().collect();
            let v = columns.iter_mut().find(|c| *c.name == *"v");
            v.expect("a column").ty = ty;
            let own = Table::new(own.id, "ks", "t", columns, own.options.clone());
            layout_column(&column, ColumnKind::Regular, &own)
        };
        let frozen = layout(user_type(true));
        assert!(!frozen.complex && frozen.id.is_some());
        let free = layout(user_type(false));
        assert!(free.complex && free.id.is_some());
    }

    #[test]
    fn what_was_dropped_is_known_by_its_name() {
        let mut own = Table::clone(&table(Order::Ascending));
        own.dropped.push(DroppedColumn {
            name: "s".into(),
            ty: CqlType::Int,
            // As it is read where nothing says what it was.
            is_static: false,
            dropped_at: 7,
        });
        let column = HeaderColumn {
            name: "s".to_owned(),
            ty: CqlType::Int,
        };
        let layout = layout_column(&column, ColumnKind::Static, &own);
        assert_eq!(layout.dropped_at, 7);
        assert!(layout.id.is_some(), "it was added again");
    }

    #[test]
    fn what_was_dropped_knows_it_too() {
        let column = HeaderColumn {
            name: "gone".to_owned(),
            ty: user_type(false),
        };
        let complex = |ty: CqlType| {
            let mut own = Table::clone(&table(Order::Ascending));
            own.dropped.push(DroppedColumn {
                name: "gone".into(),
                ty,
                is_static: false,
                dropped_at: 7,
            });
            layout_column(&column, ColumnKind::Regular, &own).complex
        };
        assert!(!complex(CqlType::Tuple(vec![CqlType::Int])));
        assert!(complex(user_type(false)));
    }
}
