//! What the commit log costs a write: `log_cost DIR [WRITERS] [SECONDS] [group|periodic]
//! [direct|standard] [VALUE BYTES]` writes rows to a store of one shard in DIR, so many at once,
//! and prints CPU time and syncs a write. `strace -c -f` beside it counts system calls.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use io::{Env, RuntimeConfig, TaskGroup};
use model::{
    Column, ColumnId, ColumnKind, CqlType, DecoratedKey, Keyspace, Liveness, Mutation, NO_TTL,
    Order, PartitionUpdate, Row, Schema, Sharder, Table, TableId, TableOptions,
};
use storage::{CommitLogConfig, CommitlogSync, SharedFiles, Store, StoreConfig};

#[derive(Clone)]
struct Options {
    dir: PathBuf,
    writers: usize,
    time: Duration,
    log: CommitLogConfig,
    value: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, usual: &str| {
        let given = arguments.get(at).cloned();
        given.unwrap_or_else(|| usual.to_owned())
    };
    let number = |at, usual: &str| argument(at, usual).parse::<u64>().expect("a number");
    let every = Duration::from_secs(10);
    let options = Options {
        dir: argument(0, "log-cost").into(),
        writers: number(1, "64") as usize,
        time: Duration::from_secs(number(2, "10")),
        log: CommitLogConfig {
            sync: match argument(3, "group").as_str() {
                "periodic" => CommitlogSync::Periodic {
                    every,
                    lag_block: every * 3 / 2,
                },
                _ => CommitlogSync::Group,
            },
            direct: argument(4, "direct") == "direct",
            total_bytes: 128 << 20,
            ..CommitLogConfig::default()
        },
        value: number(5, "100") as usize,
    };
    let options = Mutex::new(Some(options));
    let main = move |env| {
        let options = options.lock().expect("nobody panicked").take();
        run(env, options.expect("there is one shard"))
    };
    let runtime = io::Runtime::start(RuntimeConfig::default(), main).expect("a runtime");
    runtime.join().expect("it ends well");
}

fn table() -> Arc<Table> {
    let column = |id: u32, name: &str, ty, kind| Column {
        id: ColumnId(id),
        name: name.into(),
        ty,
        kind,
        position: 0,
        order: Order::Ascending,
    };
    let columns = vec![
        column(0, "k", CqlType::Blob, ColumnKind::PartitionKey),
        column(1, "v", CqlType::Blob, ColumnKind::Regular),
    ];
    let id = TableId::from_u128(1);
    Arc::new(Table::new(id, "ks", "t", columns, TableOptions::default()))
}

fn schema(table: &Arc<Table>) -> Schema {
    let keyspace = Keyspace {
        name: table.keyspace.clone(),
        replication: Default::default(),
        durable_writes: true,
        tables: [(table.name.clone(), table.clone())].into(),
        types: Default::default(),
        is_virtual: false,
        functions: Default::default(),
        unserved: Default::default(),
    };
    Schema {
        keyspaces: [(table.keyspace.clone(), Arc::new(keyspace))].into(),
        ..Schema::default()
    }
}

async fn run(env: Env, options: Options) {
    let table = table();
    let config = StoreConfig {
        sstables: options.dir.join("data"),
        commitlog_dir: options.dir.join("commitlog"),
        sstable_format: storage::sstable::Format::Big,
        sharder: Sharder::new(1),
        memory: 512 << 20,
        commitlog: options.log,
        incremental_backups: false,
        most_tombstones: u64::MAX,
        index_sstables: storage::IndexSSTables::UNLIMITED,
        partition_limits: storage::sstable::PartitionLimits::default(),
        shared: Arc::new(SharedFiles::default()),
    };
    let store = Store::open(env.clone(), config, &schema(&table)).await;
    let store = store.expect("the store opens");
    store.replay().await.expect("the log is replayed");
    let (begun, cpu) = (env.now(), cpu_time());
    let end = begun + options.time;
    let writers: Vec<_> = (0..options.writers as u64)
        .map(|writer| {
            let (at, store, table) = (env.clone(), store.clone(), table.clone());
            let value = Bytes::from(vec![7; options.value]);
            env.spawn(TaskGroup::Foreground, async move {
                let mut count = 0;
                while at.now() < end {
                    let key = (count % 2_000) << 16 | writer;
                    let written = store.apply(mutation(&table, key, count as i64, &value));
                    written.await.expect("the drive takes it");
                    count += 1;
                    at.maybe_yield().await;
                }
                count
            })
        })
        .collect();
    let mut writes = 0;
    for writer in writers {
        writes += writer.await;
    }
    let seconds = (env.now() - begun).as_secs_f64();
    let cpu = cpu_time() - cpu;
    let log = store.stats().commitlog;
    let per = |total: f64| total / writes.max(1) as f64;
    println!(
        "{writes} writes, {:.0}/s; {:.2} us of CPU each ({:.2} user, {:.2} system); {:.1} writes \
         a group; {:.0} us a group on average, {:.1} ms at most; {:.0} bytes on the drive a write",
        writes as f64 / seconds,
        per(cpu.total() * 1e6),
        per(cpu.user * 1e6),
        per(cpu.system * 1e6),
        writes as f64 / log.groups.max(1) as f64,
        log.group_latency.sum.as_secs_f64() * 1e6 / log.group_latency.count.max(1) as f64,
        log.group_latency.max.as_secs_f64() * 1e3,
        per(log.written_bytes as f64),
    );
    store.drain().await.expect("it is drained");
}

fn mutation(table: &Arc<Table>, key: u64, timestamp: i64, value: &Bytes) -> Mutation {
    let key = DecoratedKey::new(Bytes::copy_from_slice(&key.to_be_bytes()));
    let mut row = Row::new(model::Clustering::EMPTY);
    row.liveness = Liveness {
        timestamp,
        ..row.liveness
    };
    row.cells.push(model::Cell {
        column: ColumnId(1),
        path: None,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: model::NO_DELETION_TIME,
        value: value.clone(),
    });
    let update = PartitionUpdate {
        rows: vec![row],
        ..PartitionUpdate::new(table.clone(), key)
    };
    Mutation {
        updates: vec![update],
    }
}

/// Seconds of CPU.
#[derive(Clone, Copy)]
struct Cpu {
    user: f64,
    system: f64,
}

impl Cpu {
    fn total(self) -> f64 {
        self.user + self.system
    }
}

impl std::ops::Sub for Cpu {
    type Output = Cpu;

    fn sub(self, before: Cpu) -> Cpu {
        Cpu {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

/// What this process has used so far, by `/proc/self/stat` in hundredths of a second.
fn cpu_time() -> Cpu {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let behind_name = stat.rsplit(')').next().expect("a name in brackets");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number") / 100.0;
    Cpu {
        user: ticks(11),
        system: ticks(12),
    }
}
