//! What scans read of files, and what they leave in the cache of chunks.

use std::sync::Arc;

use bytes::Bytes;
use io::{Env, TaskGroup};
use model::{
    Cell, Clustering, ColumnId, ColumnKind, CqlType, DecoratedKey, DeletionTime, NO_DELETION_TIME,
    NO_TTL, Order, PartitionBound, Row, Table,
};

use super::support::{Partition, options_for, read_all, table_of, write_all};
use crate::sstable::*;
use crate::testing::{TempDir, run};
use crate::{PartitionHead, Unfiltered};

/// Bytes of a value, and how many partitions there are: a chunk has fifteen of them.
const VALUE: usize = 1000;
const COUNT: u32 = 2000;

fn table() -> Arc<Table> {
    let column = |name: &str, ty, kind| (name.to_owned(), ty, kind, Order::Ascending);
    Arc::new(table_of(vec![
        column("k", CqlType::Int, ColumnKind::PartitionKey),
        column("v", CqlType::Blob, ColumnKind::Regular),
    ]))
}

/// Partitions of one row each, in the order of the ring.
fn partitions() -> Vec<Partition> {
    let partition = |number: u32| {
        let mut row = Row::new(Clustering::EMPTY);
        row.cells.push(Cell {
            column: ColumnId(1),
            path: None,
            timestamp: 100,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: vec![number as u8; VALUE].into(),
        });
        let head = PartitionHead {
            key: DecoratedKey::new(Bytes::copy_from_slice(&number.to_be_bytes())),
            deletion: DeletionTime::LIVE,
            static_row: None,
        };
        (head, vec![Unfiltered::Row(row)])
    };
    let mut partitions: Vec<Partition> = (0..COUNT).map(partition).collect();
    partitions.sort_by(|a, b| a.0.key.cmp(&b.0.key));
    partitions
}

/// An sstable of partitions, with nothing of it read yet but its head.
async fn sstable_of(
    env: &Env,
    dir: &TempDir,
    written: &[Partition],
    (format, cache): (Format, &ChunkCache),
) -> SSTable {
    let (table, options) = (table(), (format, options_for(written)));
    let descriptor = write_all(env, &dir.0, &table, written, options).await;
    let descriptor = descriptor.expect("writes");
    let sstable = SSTable::open(env, &descriptor, &table, cache).await;
    sstable.expect("opens")
}

/// So many partitions from this one on.
async fn scan(
    sstable: &SSTable,
    written: &[Partition],
    (from, count): (usize, usize),
    group: TaskGroup,
) {
    let options = ScanOptions {
        start: PartitionBound::KeyInclusive(written[from].0.key.clone()),
        group,
        ..ScanOptions::default()
    };
    let mut scanner = sstable.scan(options);
    for expected in &written[from..from + count] {
        let head = scanner.next_partition().await.expect("reads");
        assert_eq!(head.as_ref(), Some(&expected.0));
        let item = scanner.next().await.expect("reads");
        assert_eq!(item.as_ref(), expected.1.first());
    }
}

#[test]
fn short_scans_find_what_others_read() {
    for format in [Format::Big, Format::Bti] {
        run(move |env| async move {
            let (dir, cache, written) = (TempDir::new(), ChunkCache::new(64 << 20), partitions());
            let sstable = sstable_of(&env, &dir, &written, (format, &cache)).await;
            let read = || cache.stats().read_chunks;
            // Three chunks and a bit.
            let short = |from| scan(&sstable, &written, (from, 50), TaskGroup::Foreground);
            short(100).await;
            let first = read();
            short(100).await;
            assert_eq!(read(), first, "all of it is in the cache");

            // A scan of all leaves no more there than the beginning.
            let before = cache.stats().chunks;
            let all = read_all(&sstable, ScanOptions::default()).await;
            assert_eq!(all.expect("reads"), written);
            let more = cache.stats().chunks - before;
            assert!(more <= 2 * 7, "{more} chunks of data and index");

            // What a compaction reads is of no use to others.
            let before = cache.stats().chunks;
            scan(&sstable, &written, (1000, 500), TaskGroup::Compaction).await;
            let more = cache.stats().chunks - before;
            assert!(more <= 2, "{more} chunks of data and index");
        });
    }
}

#[test]
fn a_scan_begins_anywhere_and_reads_on() {
    for format in [Format::Big, Format::Bti] {
        run(move |env| async move {
            let (dir, cache, written) = (TempDir::new(), ChunkCache::new(64 << 20), partitions());
            let sstable = sstable_of(&env, &dir, &written, (format, &cache)).await;
            for from in (0..COUNT as usize).step_by(97) {
                let count = (COUNT as usize - from).min(300);
                scan(&sstable, &written, (from, count), TaskGroup::Foreground).await;
            }
        });
    }
}
