//! Anything that may be written, for tests of laws.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, ComplexDeletion, CqlType,
    DecoratedKey, DeletionTime, Liveness, NO_DELETION_TIME, NO_TTL, Order, PartitionUpdate,
    RangeTombstone, Row, Slice, Table, TableOptions,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Keys `k`, clustering `a` ascending and `b` descending, static `s`, regular `v`, and a set `w`.
pub(crate) fn table() -> Arc<Table> {
    let column = |id, name: &str, ty, kind, position, order| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position,
        order,
    };
    let set = CqlType::Set {
        element: Box::new(CqlType::Int),
        frozen: false,
    };
    use {ColumnKind::*, Order::*};
    Arc::new(Table::new(
        uuid::Uuid::nil(),
        "ks",
        "t",
        vec![
            column(0, "k", CqlType::Int, PartitionKey, 0, Ascending),
            column(1, "a", CqlType::Int, Clustering, 0, Ascending),
            column(2, "b", CqlType::Tinyint, Clustering, 1, Descending),
            column(3, "s", CqlType::Int, Static, 0, Ascending),
            column(4, "v", CqlType::Blob, Regular, 0, Ascending),
            column(5, "w", set, Regular, 0, Ascending),
        ],
        TableOptions::default(),
    ))
}

// Few distinct times and values, so that ties and overlaps are common.
fn timestamp() -> impl Strategy<Value = i64> {
    0..4i64
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    (timestamp(), 0..3u32).prop_map(|(timestamp, local_deletion_time)| DeletionTime {
        timestamp,
        local_deletion_time,
    })
}

fn maybe_deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![3 => Just(DeletionTime::LIVE), 1 => deletion()]
}

/// ttl and local deletion time: for ever, expiring, deleted.
fn end() -> impl Strategy<Value = (i32, u32)> {
    prop_oneof![
        Just((NO_TTL, NO_DELETION_TIME)),
        (1..3i32, 0..3u32),
        (Just(NO_TTL), 0..3u32)
    ]
}

fn liveness() -> impl Strategy<Value = Liveness> {
    let marker = (timestamp(), end()).prop_map(|(timestamp, (ttl, end))| Liveness {
        timestamp,
        ttl,
        expires_at: if ttl == NO_TTL { NO_DELETION_TIME } else { end },
    });
    prop_oneof![Just(Liveness::NONE), marker]
}

fn cell(column: u32, path: Option<i32>) -> impl Strategy<Value = Cell> {
    (timestamp(), end(), 0..2u8).prop_map(move |(timestamp, (ttl, end), value)| {
        let deleted = ttl == NO_TTL && end != NO_DELETION_TIME;
        Cell {
            column: ColumnId(column),
            path: path.map(|p| Bytes::copy_from_slice(&p.to_be_bytes())),
            timestamp,
            ttl,
            local_deletion_time: end,
            value: if deleted || path.is_some() {
                Bytes::new()
            } else {
                Bytes::copy_from_slice(&[value])
            },
        }
    })
}

fn row(clustering: Clustering, column: u32) -> impl Strategy<Value = Row> {
    let set = vec((-1..2i32).prop_flat_map(|path| cell(5, Some(path))), 0..3);
    let parts = (liveness(), maybe_deletion(), maybe_deletion());
    (parts, vec(cell(column, None), 0..2), set).prop_map(
        move |((liveness, deletion, complex), simple, set)| {
            let table = table();
            let mut row = Row::new(clustering.clone());
            row.liveness = liveness;
            row.deletion = deletion;
            if column == 4 && !complex.is_live() {
                row.complex_deletions = vec![ComplexDeletion {
                    column: ColumnId(5),
                    deletion: complex,
                }];
            }
            for cell in simple.into_iter().chain(set) {
                if column == 4 || cell.column == ColumnId(column) {
                    row.add_cell(cell, &table);
                }
            }
            row
        },
    )
}

pub(crate) fn clustering() -> impl Strategy<Value = Clustering> {
    (0..3i32, 0..3i8).prop_map(|(a, b)| {
        Clustering(
            [
                Bytes::copy_from_slice(&a.to_be_bytes()),
                Bytes::copy_from_slice(&b.to_be_bytes()),
            ]
            .into_iter()
            .collect(),
        )
    })
}

pub(crate) fn bound(start: bool) -> impl Strategy<Value = Bound> {
    (clustering(), 0..3usize, any::<bool>()).prop_map(move |(mut prefix, len, inclusive)| {
        prefix.0.truncate(len);
        let kind = match (start, inclusive || len == 0) {
            (true, true) => BoundKind::InclusiveStart,
            (true, false) => BoundKind::ExclusiveStart,
            (false, true) => BoundKind::InclusiveEnd,
            (false, false) => BoundKind::ExclusiveEnd,
        };
        Bound { prefix, kind }
    })
}

pub(crate) fn range_tombstone() -> impl Strategy<Value = RangeTombstone> {
    (bound(true), bound(false), deletion()).prop_map(|(start, end, deletion)| RangeTombstone {
        slice: Slice { start, end },
        deletion,
    })
}

pub(crate) fn update() -> impl Strategy<Value = PartitionUpdate> {
    let rows = vec(clustering().prop_flat_map(|c| row(c, 4)), 0..5);
    let statics = proptest::option::of(row(Clustering::EMPTY, 3));
    let ranges = vec(range_tombstone(), 0..4);
    (maybe_deletion(), statics, rows, ranges).prop_map(|(deletion, statics, rows, ranges)| {
        let table = table();
        let mut update = PartitionUpdate::new(
            table.clone(),
            DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1])),
        );
        update.deletion = deletion;
        update.static_row = statics;
        for row in rows {
            update.row_mut(&row.clustering.clone()).merge(row, &table);
        }
        for range in ranges {
            update.add_range_tombstone(range);
        }
        update.drop_shadowed();
        update
    })
}
