//! The shapes of data that memtables are measured with, by benches and by the test of their memory.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Order, PartitionUpdate, RangeTombstone, Row,
    Slice, Table, TableId, TableOptions,
};

/// Bytes of a value.
pub(crate) const VALUE: usize = 100;
const FIRST_COLUMN: u32 = 2;

/// Rows of one kind.
pub(crate) struct Shape {
    /// What it is called.
    pub(crate) name: &'static str,
    /// The table they are of.
    pub(crate) table: Arc<Table>,
    /// How many there are.
    pub(crate) rows: u64,
    wide: bool,
    columns: u32,
}

impl Shape {
    /// All that are measured: narrow rows, those of YCSB, and one wide partition.
    pub(crate) fn all() -> [Shape; 3] {
        [
            Shape::new("narrow", false, 1, 100_000),
            Shape::new("ycsb", false, 10, 50_000),
            Shape::new("wide", true, 1, 100_000),
        ]
    }

    /// One partition of very many rows.
    pub(crate) fn large() -> Shape {
        Shape::new("large", true, 1, 1_000_000)
    }

    fn new(name: &'static str, wide: bool, columns: u32, rows: u64) -> Shape {
        let column = |id: u32, name: String, ty, kind, position| Column {
            id: ColumnId(id),
            name: name.as_str().into(),
            ty,
            kind,
            position,
            order: Order::Ascending,
        };
        let key = ColumnKind::PartitionKey;
        let mut all = vec![column(0, "k".to_owned(), CqlType::Text, key, 0)];
        if wide {
            let kind = ColumnKind::Clustering;
            all.push(column(1, "c".to_owned(), CqlType::Bigint, kind, 0));
        }
        all.extend((0..columns).map(|n| {
            let id = FIRST_COLUMN + n;
            column(id, format!("v{n}"), CqlType::Text, ColumnKind::Regular, 0)
        }));
        let id = TableId::from_u128(1);
        let table = Arc::new(Table::new(id, "ks", "t", all, TableOptions::default()));
        Shape {
            name,
            table,
            rows,
            wide,
            columns,
        }
    }

    /// The key of a row's partition; 23 bytes, as YCSB's.
    pub(crate) fn key(&self, row: u64) -> DecoratedKey {
        let row = if self.wide { 0 } else { row };
        let text = format!("user{:019}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1);
        DecoratedKey::new(Bytes::from(text))
    }

    /// The clustering of a row.
    pub(crate) fn clustering(&self, row: u64) -> Clustering {
        let mut clustering = Clustering::EMPTY;
        if self.wide {
            clustering
                .0
                .push(Bytes::copy_from_slice(&row.to_be_bytes()));
        }
        clustering
    }

    /// The write of a whole new row. Its values are parts of one buffer, as those of a request are.
    pub(crate) fn insert(&self, row: u64) -> PartitionUpdate {
        self.write(row, self.columns, 1)
    }

    /// The overwrite of the first column.
    pub(crate) fn overwrite(&self, row: u64, timestamp: i64) -> PartitionUpdate {
        self.write(row, 1, timestamp)
    }

    /// The deletion of the rows from this one to before the next one, of a wide partition.
    pub(crate) fn delete(&self, row: u64) -> PartitionUpdate {
        let bound = |row, kind| Bound {
            prefix: self.clustering(row),
            kind,
        };
        let mut update = PartitionUpdate::new(self.table.clone(), self.key(row));
        update.range_tombstones.push(RangeTombstone {
            slice: Slice {
                start: bound(row, BoundKind::InclusiveStart),
                end: bound(row + 1, BoundKind::ExclusiveEnd),
            },
            // Ranges of one deletion that touch would be one.
            deletion: DeletionTime {
                timestamp: row as i64,
                local_deletion_time: 1,
            },
        });
        update
    }

    fn write(&self, number: u64, columns: u32, timestamp: i64) -> PartitionUpdate {
        let buffer = Bytes::from(vec![b'x'; VALUE * columns as usize]);
        let mut row = Row::new(self.clustering(number));
        row.liveness = Liveness {
            timestamp,
            ..Liveness::NONE
        };
        row.cells = (0..columns)
            .map(|n| Cell {
                column: ColumnId(FIRST_COLUMN + n),
                path: None,
                timestamp,
                ttl: NO_TTL,
                local_deletion_time: NO_DELETION_TIME,
                value: buffer.slice(VALUE * n as usize..VALUE * (n as usize + 1)),
            })
            .collect();
        let mut update = PartitionUpdate::new(self.table.clone(), self.key(number));
        update.rows.push(row);
        update
    }

    /// Bytes of all keys, clusterings and values: what is not overhead.
    pub(crate) fn data_bytes(&self) -> usize {
        let keys = if self.wide { 23 } else { 23 * self.rows };
        let clusterings = if self.wide { 8 * self.rows } else { 0 };
        (keys + clusterings + self.rows * u64::from(self.columns) * VALUE as u64) as usize
    }
}
