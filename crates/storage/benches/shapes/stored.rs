//! A store of one shard with rows of a shape on its drive, to measure reads of single rows.

use std::path::PathBuf;
use std::sync::Arc;

use io::Env;
use model::{
    ClusteringSelection, DataLimits, Keyspace, Mutation, PartitionSelection, ReadCommand, Schema,
    Sharder, Slice, Table,
};
use storage::{CommitLogConfig, SharedFiles, Store, StoreConfig};

use crate::shapes::Shape;

fn schema(table: &Arc<Table>) -> Schema {
    let keyspace = Keyspace {
        name: table.keyspace.clone(),
        replication: Default::default(),
        durable_writes: false,
        tables: [(table.name.clone(), table.clone())].into(),
        types: Default::default(),
        functions: Default::default(),
        is_virtual: false,
        unserved: Default::default(),
    };
    Schema {
        keyspaces: [(table.keyspace.clone(), Arc::new(keyspace))].into(),
        ..Schema::default()
    }
}

/// Opens a store in `dir` with so many bytes of memory; writes the first `rows` of the shape and
/// flushes and compacts them, unless they are there already.
pub(crate) async fn open(env: &Env, dir: PathBuf, memory: u64, shape: &Shape, rows: u64) -> Store {
    let table = &shape.table;
    let config = StoreConfig {
        sstables: dir.join("data"),
        commitlog_dir: dir.join("commitlog"),
        sstable_format: storage::sstable::Format::Big,
        sharder: Sharder::new(1),
        memory,
        commitlog: CommitLogConfig::default(),
        incremental_backups: false,
        most_tombstones: u64::MAX,
        index_sstables: storage::IndexSSTables::UNLIMITED,
        partition_limits: storage::sstable::PartitionLimits::default(),
        shared: Arc::new(SharedFiles::default()),
    };
    let store = Store::open(env.clone(), config, &schema(table)).await;
    let store = store.expect("the store opens");
    store.replay().await.expect("there is nothing to replay");
    let there: u64 = store.stats().tables.iter().map(|t| t.sstables).sum();
    if there == 0 {
        for row in 0..rows {
            let updates = vec![shape.insert(row)];
            store
                .apply(Mutation { updates })
                .await
                .expect("there is room");
            env.maybe_yield().await;
        }
        store.flush(None).await.expect("it is flushed");
        store.compact(table.id).await.expect("it is compacted");
    }
    store
}

/// A read of all columns of one row, as `SELECT` makes it.
pub(crate) fn command(shape: &Shape, row: u64) -> ReadCommand {
    let table = &shape.table;
    let regular = table
        .columns()
        .filter(|c| c.kind == model::ColumnKind::Regular);
    ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Key(shape.key(row)),
        clustering: ClusteringSelection {
            slices: vec![Slice::of_prefix(shape.clustering(row))],
            reversed: false,
        },
        columns: regular.map(|column| column.id).collect(),
        filters: Vec::new(),
        limits: DataLimits {
            rows: u32::MAX,
            rows_per_partition: u32::MAX,
            bytes: 1 << 20,
        },
        now_seconds: 1,
        resume: None,
        bypass_cache: false,
        packed: false,
    }
}
