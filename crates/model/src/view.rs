//! Materialized views: tables whose rows follow from those of another one.

use std::sync::Arc;

use crate::{DecoratedKey, RowFilter, Slice, TableId};

/// What a table that is a view is a view of (`ViewMetadata`). Its columns have the names and types of those
/// that they show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The table that it shows.
    pub base: TableId,
    /// The name of that table.
    pub base_name: Arc<str>,
    /// Made by `SELECT *`: columns that the table gets later join it.
    pub includes_all: bool,
    /// Which rows it shows: the relations of `WHERE`, as CQL.
    pub where_clause: String,
    /// Is a column in its key that is none of its table's key? Then a row lives by its marker alone, which
    /// stands for that column, whatever its cells say (CASSANDRA-11500).
    pub strict_liveness: bool,
}

/// Which rows of its table a view shows: its `WHERE` as a read says it. All three must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewRows {
    /// Those of these partitions; `None`: of all.
    pub keys: Option<Vec<DecoratedKey>>,
    /// In these slices, sorted in the order of the table; none where no row can be meant.
    pub slices: Vec<Slice>,
    /// That pass these filters.
    pub filters: Vec<RowFilter>,
}
