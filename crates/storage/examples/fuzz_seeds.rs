//! Inputs for the fuzz target `sstable_open`: `fuzz_seeds DIR` writes small sstables with indexes of
//! rows to it, in both formats: blocks of a few rows, a static row, deleted ranges that end where
//! others begin and reach over blocks, clusterings in either order.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use io::{Env, RuntimeConfig};
use model::{
    Bound, BoundKind, Cell, Clustering, Column, ColumnId, ColumnKind, CqlType, DecoratedKey,
    DeletionTime, NO_DELETION_TIME, NO_TTL, Order, PartitionUpdate, RangeTombstone, Slice, Table,
    TableId, TableOptions,
};
use storage::sstable::{
    Component, Descriptor, EncodingStatsCollector, Format, ShardOrigin, Version, Writer,
    WriterOptions,
};

/// What stands before each component of an input, with a byte behind it that says which one it is.
const MARK: [u8; 3] = [0xf5, 0x1e, 0x57];
/// What an input holds: the rest is made from it or not needed, and checksums of the indexes would
/// keep what is changed in them from being read.
const COMPONENTS: [Component; 8] = [
    Component::Data,
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::Summary,
    Component::Filter,
    Component::Statistics,
    Component::Crc,
];
/// Rows of a partition.
const ROWS: u32 = 24;
/// Bytes of a block: two or three rows.
const BLOCK: u64 = 64;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    let folder = Mutex::new(Some(PathBuf::from(folder)));
    let main = move |env| {
        let folder = folder.lock().expect("nobody panicked").take();
        write_all(env, folder.expect("there is one shard"))
    };
    let runtime = io::Runtime::start(RuntimeConfig::default(), main).expect("a runtime");
    runtime.join().expect("it ends well");
}

async fn write_all(env: Env, folder: PathBuf) {
    let scratch = std::env::temp_dir().join(format!("fuzz-seeds-{}", std::process::id()));
    for format in [Format::Big, Format::Bti] {
        for order in [Order::Ascending, Order::Descending] {
            std::fs::create_dir_all(&scratch).expect("a folder");
            let written = write(&env, &scratch, format, &table(order)).await;
            let name = format!("wide-{}-{order:?}", format.name()).to_lowercase();
            std::fs::write(folder.join(name), input(&written)).expect("it can be written");
            std::fs::remove_dir_all(&scratch).expect("it can be removed");
        }
    }
}

fn table(order: Order) -> Arc<Table> {
    let column = |id: u32, name: &str, ty, kind, order| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order,
    };
    let ascending = Order::Ascending;
    let columns = vec![
        column(0, "k", CqlType::Blob, ColumnKind::PartitionKey, ascending),
        column(1, "c", CqlType::Blob, ColumnKind::Clustering, order),
        column(2, "v", CqlType::Blob, ColumnKind::Regular, ascending),
        column(3, "s", CqlType::Blob, ColumnKind::Static, ascending),
    ];
    let options = TableOptions {
        compression: [("enabled".to_owned(), "false".to_owned())].into(),
        ..TableOptions::default()
    };
    Arc::new(Table::new(TableId::nil(), "k", "t", columns, options))
}

/// Two partitions, with and without a deletion.
fn partitions(table: &Arc<Table>) -> Vec<PartitionUpdate> {
    let mut keys = [&b"one"[..], b"two"].map(|key| DecoratedKey::new(Bytes::from_static(key)));
    keys.sort();
    let [one, two] = keys.map(|key| partition(table, key));
    let deletion = deletion(10);
    vec![one, PartitionUpdate { deletion, ..two }]
}

fn partition(table: &Arc<Table>, key: DecoratedKey) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(table.clone(), key);
    update.static_row_mut().add_cell(cell(3, 7), table);
    for row in 0..ROWS {
        update
            .row_mut(&clustering(row))
            .add_cell(cell(2, row), table);
    }
    update.row_mut(&clustering(3)).deletion = deletion(40);
    // Of these the first two meet, the third reaches over many blocks.
    for (from, to, timestamp) in [(2, 5, 20), (5, 6, 21), (9, 20, 22)] {
        update.add_range_tombstone(range(table, (from, to), timestamp));
    }
    update
}

/// From one row to before another one, in the order of the table.
fn range(table: &Table, (from, to): (u32, u32), timestamp: i64) -> RangeTombstone {
    let bound = |row, kind| Bound {
        prefix: clustering(row),
        kind,
    };
    let column = table.clustering_key().next().expect("it has one");
    let slice = match column.order {
        Order::Ascending => Slice {
            start: bound(from, BoundKind::InclusiveStart),
            end: bound(to, BoundKind::ExclusiveEnd),
        },
        Order::Descending => Slice {
            start: bound(to, BoundKind::ExclusiveStart),
            end: bound(from, BoundKind::InclusiveEnd),
        },
    };
    RangeTombstone {
        slice,
        deletion: deletion(timestamp),
    }
}

fn clustering(row: u32) -> Clustering {
    Clustering([Bytes::from(format!("row {row:02}"))].into_iter().collect())
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime {
        timestamp,
        local_deletion_time: 1_700_000_000,
    }
}

fn cell(column: u32, value: u32) -> Cell {
    Cell {
        column: ColumnId(column),
        path: None,
        timestamp: 50,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
        value: Bytes::copy_from_slice(&value.to_be_bytes()),
    }
}

async fn write(env: &Env, dir: &Path, format: Format, table: &Arc<Table>) -> Descriptor {
    let origin = ShardOrigin {
        shard: 0,
        shards: 1,
    };
    let encoding = EncodingStatsCollector::default().finish();
    let mut options = WriterOptions::new(2, encoding, origin);
    options.column_index_size = Some(BLOCK);
    let descriptor = Descriptor::new(dir, format, 1);
    let writer = Writer::create(env, descriptor, table, options).await;
    let mut writer = writer.expect("it is created");
    for partition in partitions(table) {
        writer
            .append_partition(&partition)
            .await
            .expect("it is written");
    }
    let written = writer.finish().await.expect("it is finished");
    written.expect("there are partitions")
}

/// The files of an sstable as one input.
fn input(descriptor: &Descriptor) -> Vec<u8> {
    let version = |known: &Version| *known == descriptor.version;
    let version = Version::ALL.iter().position(version);
    let mut input = vec![version.expect("it is known") as u8];
    for component in COMPONENTS {
        let Ok(content) = std::fs::read(descriptor.path(component)) else {
            continue;
        };
        let tag = Component::ALL.iter().position(|known| *known == component);
        input.extend(MARK);
        input.push(tag.expect("it is known") as u8);
        input.extend(content);
    }
    input
}
