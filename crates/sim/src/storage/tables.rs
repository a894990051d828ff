//! The tables that the storage workload writes to.

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnKind, CqlType, Keyspace, Order, Schema, Table, TableId, TableOptions,
};

/// The columns that every table of the workload has, by what they are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// `text`, static.
    pub(crate) fixed: ColumnId,
    /// `int`.
    pub(crate) number: ColumnId,
    /// `blob`.
    pub(crate) blob: ColumnId,
    /// `set<int>`.
    pub(crate) set: ColumnId,
}

/// Where the columns are in all tables.
pub(crate) const COLUMNS: Columns = Columns {
    fixed: ColumnId(2),
    number: ColumnId(3),
    blob: ColumnId(4),
    set: ColumnId(5),
};

/// All regular and static columns.
pub(crate) fn all_columns() -> Vec<ColumnId> {
    vec![COLUMNS.fixed, COLUMNS.number, COLUMNS.blob, COLUMNS.set]
}

/// A table with a partition key, one clustering column, a static column, and columns of one and of
/// many cells.
fn table(name: &str, id: u128, order: Order, gc_grace_seconds: i32) -> Arc<Table> {
    let column = |id: u32, name: &str, ty: CqlType, kind: ColumnKind| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: match kind {
            ColumnKind::Clustering => order,
            _ => Order::Ascending,
        },
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    let columns = vec![
        column(0, "k", CqlType::Int, ColumnKind::PartitionKey),
        column(1, "c", CqlType::Int, ColumnKind::Clustering),
        column(2, "fixed", CqlType::Text, ColumnKind::Static),
        column(3, "number", CqlType::Int, ColumnKind::Regular),
        column(4, "blob", CqlType::Blob, ColumnKind::Regular),
        column(5, "set", set, ColumnKind::Regular),
    ];
    let options = TableOptions {
        gc_grace_seconds,
        ..TableOptions::default()
    };
    Arc::new(Table::new(
        TableId::from_u128(id),
        "sim",
        name,
        columns,
        options,
    ))
}

/// The tables: two that are written together, and one whose deletions are purged at once.
pub(crate) fn tables() -> Vec<Arc<Table>> {
    vec![
        table("up", 0xa1, Order::Ascending, 864_000),
        table("down", 0xa2, Order::Descending, 864_000),
        table("purged", 0xa3, Order::Ascending, 0),
    ]
}

/// A schema of these tables.
pub(crate) fn schema(tables: &[Arc<Table>]) -> Arc<Schema> {
    let keyspace = Keyspace {
        name: "sim".into(),
        replication: Default::default(),
        durable_writes: true,
        tables: tables
            .iter()
            .map(|table| (table.name.clone(), table.clone()))
            .collect(),
        types: Default::default(),
        is_virtual: false,
    };
    let mut schema = Schema::default();
    schema
        .keyspaces
        .insert(keyspace.name.clone(), Arc::new(keyspace));
    Arc::new(schema)
}
