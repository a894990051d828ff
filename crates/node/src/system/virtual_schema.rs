//! The tables of `system_virtual_schema`: the definitions of the virtual keyspaces.

use model::{Column, ColumnKind, Order, Schema};

use super::rows::{VirtualRows, int, text};

/// Fills `keyspaces`, `tables` or `columns`.
pub(super) fn fill(rows: &mut VirtualRows, table: &str, schema: &Schema) {
    let keyspaces = schema.keyspaces.values();
    for keyspace in keyspaces.filter(|keyspace| keyspace.is_virtual) {
        if table == "keyspaces" {
            rows.add(&[text(&keyspace.name)], |_| {});
            continue;
        }
        for found in keyspace.tables.values() {
            let key = [text(&keyspace.name), text(&found.name)];
            if table == "tables" {
                rows.add(&key, |row| {
                    row.set("comment", text(&found.options.comment));
                });
                continue;
            }
            for column in found.columns() {
                let [keyspace, table] = key.clone();
                rows.add(&[keyspace, table, text(&column.name)], |row| {
                    let (kind, position) = kind_and_position(column);
                    row.set("clustering_order", text(order(column)))
                        .set("column_name_bytes", text(&column.name))
                        .set("kind", text(kind))
                        .set("position", int(position))
                        .set("type", text(&column.ty.to_string()));
                });
            }
        }
    }
}

/// As `system_schema.columns` shows it.
pub(super) fn kind_and_position(column: &Column) -> (&'static str, i32) {
    match column.kind {
        ColumnKind::PartitionKey => ("partition_key", column.position as i32),
        ColumnKind::Clustering => ("clustering", column.position as i32),
        ColumnKind::Static => ("static", -1),
        ColumnKind::Regular => ("regular", -1),
    }
}

/// As `system_schema.columns` shows it.
pub(super) fn order(column: &Column) -> &'static str {
    match (column.kind, column.order) {
        (ColumnKind::Clustering, Order::Ascending) => "asc",
        (ColumnKind::Clustering, Order::Descending) => "desc",
        _ => "none",
    }
}
