//! Packed rows say what the rows say that they were made of, and merge as they do.

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Cell, Clustering, Column, ColumnId, ColumnKind, ComplexDeletion, CqlType, DeletionTime,
    EXPIRED_TTL, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, Order, PackedRow, Row, Table,
    TableId, TableOptions, counter,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::MemRow;

const TEXT: ColumnId = ColumnId(3);
const NUMBER: ColumnId = ColumnId(400);
const COUNTER: ColumnId = ColumnId(401);
const MAP: ColumnId = ColumnId(70_000);

/// Two clustering columns, a column of each kind of cell, and of ids of every length.
fn table() -> Arc<Table> {
    let column = |id: ColumnId, ty, kind, position| Column {
        id,
        name: format!("c{}", id.0).as_str().into(),
        ty,
        kind,
        position,
        order: Order::Ascending,
    };
    let map = CqlType::Map {
        key: Box::new(CqlType::Int),
        value: Box::new(CqlType::Blob),
        frozen: false,
    };
    let columns = vec![
        column(ColumnId(0), CqlType::Int, ColumnKind::PartitionKey, 0),
        column(ColumnId(1), CqlType::Int, ColumnKind::Clustering, 0),
        column(ColumnId(2), CqlType::Text, ColumnKind::Clustering, 1),
        column(TEXT, CqlType::Text, ColumnKind::Regular, 0),
        column(NUMBER, CqlType::Bigint, ColumnKind::Regular, 0),
        column(COUNTER, CqlType::Counter, ColumnKind::Regular, 0),
        column(MAP, map, ColumnKind::Regular, 0),
    ];
    let id = TableId::from_u128(1);
    Arc::new(Table::new(id, "ks", "t", columns, TableOptions::default()))
}

/// Mostly few, so that ties are common; far apart, too.
fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..5i64, 1 => any::<i64>().prop_map(|t| t.max(i64::MIN + 1))]
}

fn seconds() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4u32, 1 => 0..NO_DELETION_TIME]
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    let some = (timestamp(), seconds()).prop_map(|(timestamp, local_deletion_time)| DeletionTime {
        timestamp,
        local_deletion_time,
    });
    prop_oneof![3 => Just(DeletionTime::LIVE), 1 => some]
}

fn liveness() -> impl Strategy<Value = Liveness> {
    let expiring = prop_oneof![1..4i32, Just(EXPIRED_TTL)];
    prop_oneof![
        Just(Liveness::NONE),
        timestamp().prop_map(|timestamp| Liveness {
            timestamp,
            ..Liveness::NONE
        }),
        (timestamp(), expiring, seconds()).prop_map(|(timestamp, ttl, expires_at)| Liveness {
            timestamp,
            ttl,
            expires_at
        }),
    ]
}

fn cell() -> impl Strategy<Value = Cell> {
    let column = prop_oneof![Just(TEXT), Just(NUMBER), Just(MAP), Just(COUNTER)];
    let end = prop_oneof![
        Just((NO_TTL, NO_DELETION_TIME)),
        (1..4i32, seconds()),
        (Just(NO_TTL), seconds()),
    ];
    // Some of them too long for a packed row to hold many.
    let value = prop_oneof![8 => vec(0..3u8, 0..4), 1 => vec(0..3u8, 3000..5000)];
    (column, 0..6i32, timestamp(), end, value).prop_map(
        |(column, path, timestamp, (ttl, local_deletion_time), value)| {
            let deleted = ttl == NO_TTL && local_deletion_time != NO_DELETION_TIME;
            let value = match column {
                COUNTER if !deleted => counter::increment([value.len() as u8; 16], 3),
                _ if deleted => Vec::new(),
                _ => value,
            };
            Cell {
                column,
                path: (column == MAP).then(|| Bytes::copy_from_slice(&path.to_be_bytes())),
                timestamp,
                ttl,
                local_deletion_time,
                value: value.into(),
            }
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let parts = (liveness(), deletion(), deletion(), ".{0,9}");
    (parts, vec(cell(), 0..8)).prop_map(|((liveness, deletion, complex, text), cells)| {
        let table = table();
        let number = Bytes::copy_from_slice(&7i32.to_be_bytes());
        let clustering = [number, Bytes::from(text)].into_iter().collect();
        let mut row = Row::new(Clustering(clustering));
        (row.liveness, row.deletion) = (liveness, deletion);
        if !complex.is_live() {
            row.complex_deletions = vec![ComplexDeletion {
                column: MAP,
                deletion: complex,
            }];
        }
        for cell in cells {
            row.add_cell(cell, &table);
        }
        row
    })
}

proptest! {
    #[test]
    fn a_row_is_read_as_it_was_laid_out(row in row()) {
        let packed = PackedRow::new(&row, &mut vec![1, 2, 3]);
        prop_assert_eq!(packed.unpack(), row.clone());
        prop_assert!(packed.clustering().eq(row.clustering.values()));
        prop_assert_eq!(packed.clustering().len(), 2);
        prop_assert_eq!(packed.to_clustering(), row.clustering.clone());
        let values = row.cells.iter().map(|cell| (cell.column, &cell.value[..]));
        prop_assert!(packed.values().eq(values));
        prop_assert_eq!(packed.cells(), row.cells.len());
        prop_assert!(packed.cell_refs().eq(row.cell_refs()));
        let mut head = row.clone();
        (head.clustering, head.cells) = (Clustering::EMPTY, Vec::new());
        prop_assert_eq!(packed.head(), head);
    }

    #[test]
    fn a_row_is_laid_out_cell_by_cell_as_at_once(row in row()) {
        let mut head = row.clone();
        head.cells.clear();
        let mut scratch = vec![1, 2, 3];
        let mut writer = PackedRow::writer_below(&head, 3, &mut scratch);
        row.cells.iter().for_each(|cell| writer.put(&cell.borrowed()));
        let is_long = writer.is_long();
        let packed = writer.into_row();
        prop_assert_eq!(packed.suits_whole(), !is_long);
        prop_assert_eq!(packed.unpack(), row);
    }

    #[test]
    fn a_row_is_plain_if_it_says_no_more_than_its_values(row in row()) {
        let packed = PackedRow::new(&row, &mut Vec::new());
        let mut plain = Row::new(row.clustering.clone());
        plain.liveness.timestamp = row.liveness.timestamp;
        for cell in &row.cells {
            let Cell { column, timestamp, value, .. } = cell.clone();
            let cell = Cell { column, path: None, timestamp, ttl: NO_TTL, local_deletion_time: NO_DELETION_TIME, value };
            plain.add_cell(cell, &table());
        }
        prop_assert_eq!(packed.is_plain(), row == plain && !row.is_empty());
        if packed.is_plain() {
            prop_assert!(row.is_live(u32::MAX));
            let wanted = |column| column == TEXT;
            let mut shown = row.clone();
            shown.retain_columns(&[TEXT]);
            prop_assert_eq!(packed.answer_bytes(wanted), shown.answer_bytes());
        }
    }

    #[test]
    fn a_row_is_plain_as_long_as_all_of_it_lives(row in row(), now in seconds()) {
        let packed = PackedRow::new(&row, &mut Vec::new());
        let lives = |cell: &Cell| cell.path.is_none() && cell.is_live(now);
        let all_lives = (row.liveness.is_empty() || row.liveness.is_live(now)) && row.cells.iter().all(lives);
        let deletes = row.deletion != DeletionTime::LIVE || !row.complex_deletions.is_empty();
        prop_assert_eq!(packed.is_plain_at(now), all_lives && !deletes && !row.is_empty());
        prop_assert!(!packed.is_plain() || packed.is_plain_for_a_time());
        if packed.is_plain_for_a_time() {
            prop_assert_eq!(packed.is_plain_at(now), now < packed.plain_until());
        }
    }

    #[test]
    fn a_row_takes_no_more_than_was_expected(row in row()) {
        let most = MemRow::most_bytes(&row);
        let taken = MemRow::new(row, &mut Vec::new()).bytes();
        prop_assert!(taken <= most, "{taken} bytes, {most} expected");
    }

    #[test]
    fn a_row_that_is_written_again_takes_the_place_of_the_one_before(row in row(), more in row()) {
        let (table, mut scratch) = (table(), Vec::new());
        let (mut row, mut more) = (row, more);
        row.cells.retain(|cell| cell.column != COUNTER);
        more.cells.retain(|cell| cell.column != COUNTER);
        let mut again = row.clone();
        again.drop_shadowed();
        again.merge(Row { clustering: row.clustering.clone(), ..more }, &table);
        again.drop_shadowed();
        let times = [&mut again.liveness.timestamp, &mut again.deletion.timestamp];
        let times = times.into_iter().chain(again.complex_deletions.iter_mut().map(|c| &mut c.deletion.timestamp));
        let times = times.chain(again.cells.iter_mut().map(|cell| &mut cell.timestamp));
        times.filter(|time| **time != NO_TIMESTAMP).for_each(|time| *time = time.saturating_add(1_000));
        let other = PackedRow::new(&again, &mut scratch);
        let mut known = PackedRow::new(&row, &mut scratch);
        known.merge_packed(other.clone(), &table, &mut scratch);
        let mut expected = row;
        expected.merge(again, &table);
        expected.drop_shadowed();
        prop_assert_eq!(known.unpack(), expected);
        prop_assert_eq!(known.memory().as_ptr(), other.memory().as_ptr());
    }

    #[test]
    fn rows_in_memory_merge_as_rows_do(rows in vec(row(), 1..6)) {
        let (table, mut scratch) = (table(), Vec::new());
        let mut rows = rows.into_iter();
        let Some(mut expected) = rows.next() else { return Ok(()) };
        let mut known = MemRow::new(expected.clone(), &mut scratch);
        let reader = (known.clone(), expected.clone());
        expected.drop_shadowed();
        for row in rows {
            let mut packed = known.clone();
            known.merge(row.clone(), &table, &mut scratch);
            if row.cells.iter().all(|cell| cell.column != COUNTER) {
                let mut other = row.clone();
                other.drop_shadowed();
                let other = PackedRow::new(&other, &mut scratch);
                packed.merge_packed(other, &table, &mut scratch);
                prop_assert_eq!(packed.to_row(), known.to_row());
            }
            expected.merge(row, &table);
            prop_assert_eq!(known.to_row(), expected.clone());
        }
        let (seen, mut before) = reader;
        before.drop_shadowed();
        prop_assert_eq!(seen.to_row(), before);
    }
}
