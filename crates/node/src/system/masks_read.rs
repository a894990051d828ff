//! Rows of `system_schema.column_masks`: masks whose functions are there.

use std::sync::Arc;

use cql::schema::is_mask_served;
use model::{ColumnMask, CqlType, Keyspace, collection};

use super::rows::RowReader;

/// Gives the columns of the tables that are served their masks; functions must have been read.
pub(super) fn read(keyspace: &mut Keyspace, rows: &[RowReader<'_>]) {
    for row in rows {
        let Some((table, column, mask)) = masked(keyspace, row) else {
            continue;
        };
        let table = keyspace.tables.get_mut(table).map(Arc::make_mut);
        if let Some(table) = table {
            table.masks.insert(column, mask);
        }
    }
}

/// A mask that can be served: its table, its column and itself.
fn masked<'r>(keyspace: &Keyspace, row: &RowReader<'r>) -> Option<(&'r str, Arc<str>, ColumnMask)> {
    let name = row.text("table_name")?;
    let column = keyspace
        .tables
        .get(name)?
        .column_named(row.text("column_name")?)?;
    let mask = ColumnMask {
        keyspace: Arc::from(row.text("function_keyspace")?),
        function: Arc::from(row.text("function_name")?),
        arguments: arguments(keyspace, row)?,
    };
    is_mask_served(keyspace, &mask, &column.ty).then(|| (name, column.name.clone(), mask))
}

/// `None` if one cannot be read.
fn arguments(
    keyspace: &Keyspace,
    row: &RowReader<'_>,
) -> Option<Vec<(CqlType, Option<bytes::Bytes>)>> {
    let types = row.texts("function_argument_types")?;
    let values = row.texts("function_argument_values")?;
    let nulls = collection::elements(row.get("function_argument_nulls")?).ok()?;
    if types.len() != values.len() || types.len() != nulls.len() {
        return None;
    }
    let each = types.iter().zip(values).zip(nulls);
    each.map(|((ty, value), is_null)| {
        let ty = CqlType::from_cql(ty, &keyspace.types).ok()?;
        let value = match is_null {
            [0] => Some(ty.parse_string(value).ok()?),
            _ => None,
        };
        Some((ty, value))
    })
    .collect()
}
