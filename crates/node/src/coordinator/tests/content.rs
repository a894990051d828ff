//! What is written and read in these tests.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Cell, Clustering, ClusteringSelection, ColumnId, DataLimits, DecoratedKey, NO_DELETION_TIME,
    NO_TTL, Partition, PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, Row, Slice,
    Table,
};

pub(super) fn int(n: i32) -> Bytes {
    Bytes::copy_from_slice(&n.to_be_bytes())
}

pub(super) fn decorated(key: i32) -> DecoratedKey {
    DecoratedKey::new(int(key))
}

pub(super) fn clustering(c: i32) -> Clustering {
    Clustering([int(c)].into_iter().collect())
}

/// Reads of these partitions all there is.
pub(super) fn command(table: &Arc<Table>, partitions: PartitionSelection) -> ReadCommand {
    ReadCommand {
        table: table.clone(),
        partitions,
        clustering: ClusteringSelection {
            slices: vec![Slice::ALL],
            reversed: false,
        },
        columns: vec![ColumnId(2), ColumnId(3), ColumnId(4)],
        filters: Vec::new(),
        limits: DataLimits {
            rows: 1000,
            rows_per_partition: u32::MAX,
            bytes: 1 << 20,
        },
        now_seconds: 100,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}

/// An update that says nothing yet.
pub(super) fn update(table: &Arc<Table>, key: i32) -> PartitionUpdate {
    PartitionUpdate::new(table.clone(), decorated(key))
}

/// An update of one row: `v` has this value since then.
pub(super) fn set(table: &Arc<Table>, (key, c): (i32, i32), v: i32, at: i64) -> PartitionUpdate {
    let mut update = update(table, key);
    update
        .row_mut(&clustering(c))
        .add_cell(cell(2, v, at), table);
    update
}

/// An update that deletes a row.
pub(super) fn delete(table: &Arc<Table>, (key, c): (i32, i32), at: i64) -> PartitionUpdate {
    let mut update = update(table, key);
    update.row_mut(&clustering(c)).deletion = model::DeletionTime {
        timestamp: at,
        local_deletion_time: 100,
    };
    update
}

pub(super) fn cell(column: u32, value: i32, timestamp: i64) -> Cell {
    Cell {
        column: ColumnId(column),
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: int(value),
    }
}

/// The rows of a page: `c` and `v` (-1 if it has none).
pub(super) fn rows(page: &ReadPage) -> Vec<(i32, i32)> {
    let partitions = page.partitions.iter();
    partitions.flat_map(rows_of).collect()
}

/// The rows of a partition: `c` and `v` (-1 if it has none).
pub(super) fn rows_of(partition: &Partition) -> Vec<(i32, i32)> {
    let number = |bytes: &Bytes| {
        let bytes = bytes.as_array().expect("an int");
        i32::from_be_bytes(*bytes)
    };
    let row = |row: &Row| {
        let v = row.cells_of(ColumnId(2)).first();
        (
            number(&row.clustering.0[0]),
            v.map_or(-1, |v| number(&v.value)),
        )
    };
    partition.rows.iter().map(row).collect()
}
