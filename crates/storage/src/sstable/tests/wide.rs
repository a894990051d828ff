//! Partitions whose blocks or indexes are larger than usual: what is read of them is what a whole
//! read gives, whatever way it is read.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Bound, BoundKind, Cell, Clustering, ColumnId, ColumnKind, CqlType, DecoratedKey, DeletionTime,
    NO_DELETION_TIME, NO_TTL, Order, Row, Slice, Table,
};
use smallvec::smallvec;

use super::support::{Partition, hashed, options_for, table_of, write_all};
use crate::sstable::*;
use crate::testing::{TempDir, run};
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// A table of one text clustering column in this order, and a blob.
fn table(order: Order) -> Arc<Table> {
    let column = |name: &str, ty, kind| (name.to_owned(), ty, kind, Order::Ascending);
    Arc::new(table_of(vec![
        column("k", CqlType::Int, ColumnKind::PartitionKey),
        ("c".into(), CqlType::Text, ColumnKind::Clustering, order),
        column("v", CqlType::Blob, ColumnKind::Regular),
    ]))
}

fn key() -> DecoratedKey {
    DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]))
}

/// A number at the front of so many bytes.
fn clustering(number: usize, length: usize) -> Clustering {
    let mut text = format!("{number:08}").into_bytes();
    text.resize(length.max(text.len()), b'.');
    Clustering(smallvec![Bytes::from(text)])
}

/// A partition of so many rows with clusterings and values of these lengths. Of every hundred rows,
/// ten lie in a deleted range.
fn partition(rows: usize, clustering_length: usize, value: usize) -> Partition {
    let deletion = DeletionTime {
        timestamp: 50,
        local_deletion_time: 1_700_000_000,
    };
    let mut items = Vec::new();
    for number in 0..rows {
        let place = clustering(number, clustering_length);
        let bound = |kind| Bound {
            prefix: place.clone(),
            kind,
        };
        if number % 100 == 40 {
            let marker = RangeTombstoneMarker::open(bound(BoundKind::InclusiveStart), deletion);
            items.push(Unfiltered::Marker(marker));
        }
        let mut row = Row::new(place.clone());
        row.cells.push(Cell {
            column: ColumnId(2),
            path: None,
            timestamp: 100,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: vec![number as u8; value].into(),
        });
        items.push(Unfiltered::Row(row));
        if number % 100 == 49 || (number % 100 > 40 && number + 1 == rows) {
            let marker = RangeTombstoneMarker::close(bound(BoundKind::InclusiveEnd), deletion);
            items.push(Unfiltered::Marker(marker));
        }
    }
    let head = PartitionHead {
        key: key(),
        deletion: DeletionTime::LIVE,
        static_row: None,
    };
    (head, items)
}

async fn read(sstable: &SSTable, slice: Slice, reversed: bool) -> Vec<Unfiltered> {
    let (key, columns) = (key(), ColumnSelection::All);
    let got = sstable.get(hashed(&key), Rc::new([slice]), reversed, &columns);
    let mut reader = got.await.expect("reads").expect("is there");
    let mut items = Vec::new();
    while let Some(item) = reader.next().await.expect("reads") {
        items.push(item);
    }
    items
}

fn rows(items: &[Unfiltered]) -> Vec<Clustering> {
    let rows = items.iter().filter_map(|item| match item {
        Unfiltered::Row(row) => Some(row.clustering.clone()),
        Unfiltered::Marker(_) => None,
    });
    rows.collect()
}

/// Slices from and to these rows, or everything; each is read in both directions.
async fn check(sstable: &SSTable, items: &[Unfiltered], length: usize, ends: &[(usize, usize)]) {
    let mut whole = read(sstable, Slice::ALL, true).await;
    whole.reverse();
    assert_eq!(whole, items, "reversed");
    assert_eq!(read(sstable, Slice::ALL, false).await, items);
    for (from, to) in ends {
        let slice = Slice {
            start: Bound {
                prefix: clustering(*from, length),
                kind: BoundKind::InclusiveStart,
            },
            end: Bound {
                prefix: clustering(*to, length),
                kind: BoundKind::ExclusiveEnd,
            },
        };
        let forward = read(sstable, slice.clone(), false).await;
        let expected: Vec<_> = (*from..*to).map(|n| clustering(n, length)).collect();
        assert_eq!(rows(&forward), expected, "from {from} to {to}");
        let mut backward = read(sstable, slice, true).await;
        backward.reverse();
        assert_eq!(backward, forward, "from {from} to {to}, reversed");
    }
}

#[test]
fn a_block_that_is_too_large_is_read_in_parts() {
    // All in one block, the last one so large that parts have parts.
    for (count, value) in [(1000, 1000), (5, 300_000), (70_000, 1000)] {
        for format in [Format::Big, Format::Bti] {
            run(move |env| async move {
                let (dir, table) = (TempDir::new(), table(Order::Ascending));
                let written = [partition(count, 8, value)];
                let mut options = options_for(&written);
                options.column_index_size = Some(u64::MAX);
                let descriptor = write_all(&env, &dir.0, &table, &written, (format, options));
                let descriptor = descriptor.await.expect("writes");
                let cache = ChunkCache::new(1 << 20);
                let sstable = SSTable::open(&env, &descriptor, &table, &cache);
                let sstable = sstable.await.expect("opens");
                let ends = [(0, 1), (count / 2, count), (1, 3), (count / 3, count / 2)];
                check(&sstable, &written[0].1, 8, &ends).await;
            });
        }
    }
}

#[test]
fn an_index_that_would_be_too_large_is_thinned() {
    const LENGTH: usize = 60_000;
    const COUNT: usize = 600;
    for format in [Format::Big, Format::Bti] {
        run(move |env| async move {
            let (dir, table) = (TempDir::new(), table(Order::Ascending));
            let written = [partition(COUNT, LENGTH, 10)];
            let options = options_for(&written);
            let descriptor = write_all(&env, &dir.0, &table, &written, (format, options));
            let descriptor = descriptor.await.expect("writes");
            if format == Format::Big {
                // Unthinned, it has both ends of each two rows.
                let index = std::fs::metadata(descriptor.path(Component::Index));
                let length = index.expect("is there").len() as usize;
                assert!((8 << 20..16 << 20).contains(&length), "{length} bytes");
                assert!(length < COUNT * LENGTH / 2);
            }
            let cache = ChunkCache::new(1 << 20);
            let sstable = SSTable::open(&env, &descriptor, &table, &cache);
            let sstable = sstable.await.expect("opens");
            let ends = [(0, 1), (COUNT - 1, COUNT), (44, 46), (130, 310)];
            check(&sstable, &written[0].1, LENGTH, &ends).await;
        });
    }
}
