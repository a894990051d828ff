//! Values that are too long to be indexed (`CassandraIndex.validateIndexedValue`,
//! `RowFilter.Expression.validateForIndexing`).

use model::{
    Cell, Column, ColumnKind, FilterOperator, Index, Indexed, PartitionUpdate, Row, RowFilter,
    Table,
};

use crate::CqlError;
use crate::error::invalid;

/// What is indexed has fewer bytes than this, though Cassandra calls it the most.
const LONGEST: usize = u16::MAX as usize;

/// Refuses updates that write what an index of their table cannot hold. Storage-attached indexes pass
/// over it.
pub(crate) fn check_indexed(table: &Table, updates: &[PartitionUpdate]) -> Result<(), CqlError> {
    let indexes = table.indexes.iter();
    for index in indexes.filter(|index| !index.is_storage_attached() && !index.is_sasi()) {
        let Some(column) = index.column_of(table) else {
            continue;
        };
        if !matches!(column.kind, ColumnKind::Static | ColumnKind::Regular) {
            // Keys are no longer than that.
            continue;
        }
        let rows = updates.iter();
        let rows = rows.flat_map(|update| update.static_row.iter().chain(&update.rows));
        for cell in rows.flat_map(|row: &Row| row.cells_of(column.id)) {
            let length = indexed_length(index, column, cell);
            if length >= LONGEST {
                return invalid!(
                    "Cannot index value of size {length} for index {} on {}.{}({}) (maximum \
                     allowed size={LONGEST})",
                    index.name,
                    table.keyspace,
                    table.name,
                    column.name
                );
            }
        }
    }
    Ok(())
}

fn indexed_length(index: &Index, column: &Column, cell: &Cell) -> usize {
    match index.part_of(column, cell) {
        Some(Indexed::Value(value)) => value.len(),
        // Two components with their lengths and ends (`CompositeType.build`).
        Some(Indexed::Entry(key, value)) => key.len() + value.len() + 2 * 3,
        None => 0,
    }
}

/// Refuses to look for what an index cannot hold, or cannot be asked for.
pub(crate) fn check_filters(table: &Table, filters: &[RowFilter]) -> Result<(), CqlError> {
    for filter in filters {
        check_like(table, filter)?;
    }
    let is_long = |filter: &RowFilter| filter.values.iter().any(|value| value.len() > LONGEST);
    let asked = |filter: &RowFilter| {
        let column = table.column(filter.column);
        column.is_some_and(|column| {
            let mut indexes = table.indexes.iter();
            indexes.any(|index| index.supports(table, column, filter.operator))
        })
    };
    match filters.iter().any(asked) && filters.iter().any(is_long) {
        true => invalid!("Index expression values may not be larger than 64K"),
        false => Ok(()),
    }
}

/// `LikeRestriction.addToRowFilter`
fn check_like(table: &Table, filter: &RowFilter) -> Result<(), CqlError> {
    let pattern = match filter.operator {
        FilterOperator::LikePrefix => "<term>%",
        FilterOperator::LikeSuffix => "%<term>",
        FilterOperator::LikeContains => "%<term>%",
        FilterOperator::LikeMatches => "<term>",
        _ => return Ok(()),
    };
    let Some(column) = table.column(filter.column) else {
        return Ok(());
    };
    let mut indexes = table.indexes.iter();
    if indexes.any(|index| index.supports(table, column, filter.operator)) {
        return Ok(());
    }
    let wanted = filter
        .values
        .first()
        .map(|value| String::from_utf8_lossy(value));
    invalid!(
        "{} LIKE '{pattern}' {} is only supported on properly indexed columns",
        column.name,
        wanted.unwrap_or_default()
    )
}
