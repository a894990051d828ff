//! Compactions and scrubs of files whose rows are there twice, or not in order.

use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{
    Cell, Clustering, ColumnId, DecoratedKey, DeletionTime, NO_DELETION_TIME, NO_TTL, Table,
};

use super::super::Store;
use super::super::tests::{config, schema};
use super::ScrubOptions;
use super::tests::{int, sstables, table};
use crate::sstable::{Descriptor, Format, ScanOptions, Writer, WriterOptions};
use crate::testing::{TempDir, run};
use crate::{PartitionHead, Unfiltered};

/// The test table, with a column for large values.
fn with_blobs() -> Arc<Table> {
    let table = table("SizeTieredCompactionStrategy", &[("enabled", "false")]);
    let mut columns: Vec<model::Column> = table.columns().cloned().collect();
    columns[3].ty = model::CqlType::Blob;
    let (id, options) = (table.id, table.options.clone());
    Arc::new(Table::new(id, "ks", "t", columns, options))
}

/// Opens a store of tries on an sstable of one partition with these rows, written as they come:
/// `b` and a timestamp. Each is larger than a block.
async fn with_rows(env: &Env, dir: std::path::PathBuf, rows: &[(u32, i64)]) -> (Store, Arc<Table>) {
    let table = with_blobs();
    let mut config = config(dir);
    config.sstable_format = Format::Bti;
    let store = Store::open(env.clone(), config.clone(), &schema(&table)).await;
    let store = store.expect("it opens");
    store.replay().await.expect("there is nothing to replay");
    let known = store.inner.table(table.id).expect("it is known");
    let descriptor = Descriptor::new(known.dir.clone(), Format::Big, 1000);
    let options = WriterOptions::new(1, Default::default(), store.inner.origin());
    let writer = Writer::create(env, descriptor, &table, options).await;
    let mut writer = writer.expect("it is created");
    let head = PartitionHead {
        key: DecoratedKey::new(int(1)),
        deletion: DeletionTime::LIVE,
        static_row: None,
    };
    writer.begin_partition(&head).await.expect("it is written");
    for (b, timestamp) in rows {
        let clustering = Clustering([int(1), int(*b)].into_iter().collect());
        let mut row = model::Row::new(clustering);
        row.cells.push(Cell {
            column: ColumnId(3),
            path: None,
            timestamp: *timestamp,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            value: vec![*timestamp as u8; 20_000].into(),
        });
        let written = writer.append(&Unfiltered::Row(row)).await;
        written.expect("it is written");
    }
    writer.end_partition().await.expect("it is written");
    writer.finish().await.expect("it is written");
    store.drain().await.expect("it is drained");
    config.shared = Arc::default();
    let store = Store::open(env.clone(), config, &schema(&table)).await;
    let store = store.expect("it opens");
    store.replay().await.expect("there is nothing to replay");
    (store, table)
}

/// What is left of them, with their timestamps.
async fn rows_left(store: &Store, table: &Arc<Table>) -> Vec<(Bytes, i64)> {
    let mut left = Vec::new();
    for sstable in sstables(store, table).iter() {
        let mut scanner = sstable.scan(ScanOptions::default());
        while scanner.next_partition().await.expect("readable").is_some() {
            while let Some(item) = scanner.next().await.expect("readable") {
                if let Unfiltered::Row(row) = item {
                    left.push((row.clustering.0[1].clone(), row.cells[0].timestamp));
                }
            }
        }
    }
    left
}

/// Cassandras with bugs have written such (CASSANDRA-12144).
#[test]
fn rows_that_a_file_has_twice_become_one() {
    for scrubs in [false, true] {
        let folder = TempDir::new();
        let dir = folder.0.clone();
        run(move |env| async move {
            let rows = [(1, 5), (2, 5), (2, 7), (2, 6), (3, 5), (4, 5), (4, 6)];
            let (store, table) = with_rows(&env, dir, &rows).await;
            if scrubs {
                let scrubbed = store.scrub(table.id, ScrubOptions::default()).await;
                let report = scrubbed.expect("it is scrubbed").report;
                assert!(report.kept == 1 && !report.is_loss(), "{report}");
            } else {
                store.compact(table.id).await.expect("it is compacted");
            }
            let files = sstables(&store, &table);
            assert_eq!(files[0].descriptor().version.format(), Format::Bti);
            let expected = [(1, 5), (2, 7), (3, 5), (4, 6)];
            let left = rows_left(&store, &table).await;
            assert_eq!(left, expected.map(|(b, at)| (int(b), at)));
        });
    }
}

#[test]
fn a_file_whose_rows_are_not_in_order_is_left_alone_until_it_is_scrubbed() {
    let folder = TempDir::new();
    let dir = folder.0.clone();
    run(move |env| async move {
        let rows = [(1, 5), (2, 5), (4, 5), (3, 5), (5, 5)];
        let (store, table) = with_rows(&env, dir, &rows).await;
        let error = store.compact(table.id).await.expect_err("it cannot be");
        assert!(error.to_string().contains("not in order"), "{error}");
        assert_eq!(store.stats().tables[0].suspect_sstables, 1);
        let scrubbed = store.scrub(table.id, ScrubOptions::default()).await;
        assert_eq!(scrubbed.expect("it is scrubbed").report.cut, 1);
        store.compact(table.id).await.expect("it is compacted");
        let left = rows_left(&store, &table).await;
        assert_eq!(left, [1, 2, 4].map(|b| (int(b), 5)));
    });
}
