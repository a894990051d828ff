//! One large partition, from its writes to its last row: `wide DIR [SIZE] [big|bti] [MEMORY]`
//! writes a partition of SIZE bytes (such as `10G`; before compression) to a store of one shard
//! with MEMORY, in many flushes, with updates, deletions of rows and ranges and of the partition
//! before; reads it in all ways, compacts it, reads it again. Every row is held against what was
//! written, and each step's time, memory and reads of files are printed and held to their bounds:
//! memory does not grow with the partition, and a read of a few rows takes an index walk.

mod content;
mod measure;
mod reads;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use io::{Env, RuntimeConfig, TaskGroup};
use model::{Mutation, Sharder, Slice, Table};
use storage::sstable::Format;
use storage::{CommitLogConfig, CommitlogSync, SharedFiles, Store, StoreConfig, WriteError};

use measure::{Cost, Step};
use reads::Wanted;

#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// Writers at once.
const WRITERS: usize = 64;
/// Rows that are read out of the middle.
const SOME: u64 = 100;
/// Rows that are read by their clusterings at once.
const MANY: u64 = 1000;
/// What a process takes besides its store's memory: the code, buffers of I/O, the allocator's
/// reserves.
const BESIDES: u64 = 32 << 20;
/// Chunks that a read of few rows may take of each sstable: the partition's head, a walk through
/// the index, a block.
const FEW_CHUNKS: u64 = 32;

#[derive(Clone)]
struct Options {
    dir: PathBuf,
    rows: u64,
    format: Format,
    memory: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, usual: &str| {
        let given = arguments.get(at).cloned();
        given.unwrap_or_else(|| usual.to_owned())
    };
    let size = bytes(&argument(1, "256M"));
    let options = Options {
        dir: argument(0, "wide").into(),
        rows: size / content::VALUE,
        format: match argument(2, "big").as_str() {
            "bti" => Format::Bti,
            _ => Format::Big,
        },
        memory: bytes(&argument(3, "256M")),
    };
    println!(
        "{} rows of {} bytes, {:?}, {} MiB of memory",
        options.rows,
        content::VALUE,
        options.format,
        options.memory >> 20
    );
    let options = Mutex::new(Some(options));
    let main = move |env| {
        let options = options.lock().expect("nobody panicked").take();
        run(env, options.expect("there is one shard"))
    };
    let runtime = io::Runtime::start(RuntimeConfig::default(), main).expect("a runtime");
    runtime.join().expect("it ends well");
}

/// A number with K, M or G behind it.
fn bytes(text: &str) -> u64 {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number
        .parse::<u64>()
        .expect("a number, or one with K, M or G")
        << shift
}

/// The partition and where it is kept.
struct Partition {
    env: Env,
    options: Options,
    table: Arc<Table>,
}

async fn run(env: Env, options: Options) {
    let partition = Partition {
        env,
        options,
        table: content::table(),
    };
    partition.write().await;
    partition.read("").await;
    partition.compact().await;
    partition.read("compacted: ").await;
}

impl Partition {
    /// Opens the store, with nothing in its caches.
    async fn open(&self, compacting: bool) -> Store {
        let options = &self.options;
        let every = Duration::from_secs(10);
        let config = StoreConfig {
            sstables: options.dir.join("data"),
            commitlog_dir: options.dir.join("commitlog"),
            sstable_format: options.format,
            sharder: Sharder::new(1),
            memory: options.memory,
            commitlog: CommitLogConfig {
                sync: CommitlogSync::Periodic {
                    every,
                    lag_block: every * 3 / 2,
                },
                total_bytes: 256 << 20,
                ..CommitLogConfig::default()
            },
            incremental_backups: false,
            most_tombstones: u64::MAX,
            index_sstables: storage::IndexSSTables::UNLIMITED,
            partition_limits: storage::sstable::PartitionLimits::default(),
            shared: Arc::new(SharedFiles::default()),
        };
        let store = Store::open(self.env.clone(), config, &content::schema(&self.table)).await;
        let store = store.expect("the store opens");
        store.set_auto_compaction(self.table.id, compacting);
        store.replay().await.expect("the log is replayed");
        store
    }

    fn begin(&self, name: &str, store: &Store) -> Step {
        Step::begin(name, &self.env, store)
    }

    /// Ends a step: memory must not have grown beyond its bound.
    fn end(&self, step: Step, rows: u64, store: &Store) -> Cost {
        let cost = step.end(rows, &self.env, store);
        let most = self.options.memory + BESIDES;
        assert!(cost.peak <= most, "more than {} MiB of memory", most >> 20);
        cost
    }

    fn sstables(&self, store: &Store) -> u64 {
        store.stats().tables[0].sstables
    }

    async fn write(&self) {
        let store = self.open(true).await;
        let step = self.begin("written", &store);
        let now = self.env.wall_seconds();
        let mut count = 0;
        for phase in content::phases(self.options.rows, self.table.clone(), now) {
            count += self.write_phase(&store, phase).await;
        }
        store.flush(None).await.expect("it is flushed");
        self.end(step, count, &store);
        let step = self.begin("compacted by the strategy", &store);
        while !store.compactions().is_empty() || self.pending(&store) > 0 {
            self.env.sleep(Duration::from_millis(100)).await;
        }
        self.end(step, 0, &store);
        self.print_size(&store);
        store.drain().await.expect("it is drained");
    }

    fn pending(&self, store: &Store) -> usize {
        let pending = store.pending_compactions();
        pending.iter().map(|(_, count)| count).sum()
    }

    fn print_size(&self, store: &Store) {
        let stats = &store.stats().tables[0];
        println!(
            "    {} sstables of {} MB; {} flushes, {} MB; {} compactions, {} MB",
            stats.sstables,
            stats.sstable_bytes / 1_000_000,
            stats.flushes,
            stats.flushed_bytes / 1_000_000,
            stats.compactions,
            stats.compacted_bytes / 1_000_000
        );
    }

    /// Makes the writes of a phase, some at once. Gives how many rows were written or deleted.
    async fn write_phase(&self, store: &Store, phase: Box<dyn Iterator<Item = Mutation>>) -> u64 {
        let phase = Rc::new(std::cell::RefCell::new(phase));
        let writers = (0..WRITERS).map(|_| {
            let (env, store, phase) = (self.env.clone(), store.clone(), phase.clone());
            self.env.spawn(TaskGroup::Foreground, async move {
                let mut count = 0;
                loop {
                    let mutation = phase.borrow_mut().next();
                    let Some(mutation) = mutation else {
                        return count;
                    };
                    count += mutation.updates[0].rows.len() as u64;
                    write(&env, &store, mutation).await;
                    env.maybe_yield().await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut count = 0;
        for writer in writers {
            count += writer.await;
        }
        count
    }

    async fn compact(&self) {
        let store = self.open(false).await;
        let step = self.begin("compacted into one", &store);
        store.compact(self.table.id).await.expect("it is compacted");
        self.end(step, 0, &store);
        assert_eq!(self.sstables(&store), 1);
        self.print_size(&store);
        store.drain().await.expect("it is drained");
    }

    /// Reads it in all ways.
    async fn read(&self, what: &str) {
        let rows = self.options.rows;
        let middle = rows / 2 - rows / 2 % 4096;
        let all = || Wanted::of(vec![Slice::ALL]);
        let some = || Wanted::of(vec![content::slice(middle, middle + SOME)]);
        let one = |row| Wanted::of(vec![single(row)]);
        let many = Wanted::of((0..MANY).map(|i| single(i * (rows / MANY) + 1)).collect());
        let few = [
            ("first row", all().limit(1)),
            ("last row", all().reversed().limit(1)),
            ("a row", one(middle + 1)),
            ("a row that is not there", one(rows + 1)),
            ("a row that is deleted", one(middle + 5)),
            ("100 rows", some()),
            ("100 rows reversed", some().reversed()),
            ("the last 100 behind a row", {
                let slices = vec![content::slice(0, middle)];
                Wanted::of(slices).reversed().limit(SOME)
            }),
            ("a deleted range", {
                Wanted::of(vec![content::slice(middle + 1000, middle + 1100)])
            }),
        ];
        for (name, wanted) in few {
            let cost = self.read_step(&format!("{what}{name}"), wanted).await;
            let most = FEW_CHUNKS * cost.1;
            assert!(
                cost.0.chunks <= most,
                "{} chunks, not {most}",
                cost.0.chunks
            );
        }
        let store = self.open(false).await;
        let step = self.begin(&format!("{what}static row"), &store);
        reads::check_static(&store, &self.table).await;
        let cost = self.end(step, 0, &store);
        assert!(cost.chunks <= FEW_CHUNKS * self.sstables(&store));
        store.drain().await.expect("it is drained");
        self.read_step(&format!("{what}{MANY} rows by IN"), many)
            .await;
        self.read_step(&format!("{what}all rows counted"), all().counted())
            .await;
        self.read_step(&format!("{what}all rows in pages"), all())
            .await;
        self.read_step(&format!("{what}all rows reversed"), all().reversed())
            .await;
    }

    /// One read, with nothing in the caches. Gives the cost and the number of sstables.
    async fn read_step(&self, name: &str, wanted: Wanted) -> (Cost, u64) {
        let store = self.open(false).await;
        let expected = expected(&wanted, self.options.rows);
        let step = self.begin(name, &store);
        let count = reads::check(&store, &self.env, &self.table, &wanted, expected).await;
        let cost = self.end(step, count, &store);
        let sstables = self.sstables(&store);
        store.drain().await.expect("it is drained");
        (cost, sstables)
    }
}

/// The slice of one row.
fn single(row: u64) -> Slice {
    let mut slice = content::slice(row, row);
    slice.end.kind = model::BoundKind::InclusiveEnd;
    slice
}

/// The rows that a read gives, in its order.
fn expected(wanted: &Wanted, rows: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |prefix: &model::Clustering, usual: u64| match prefix.0.is_empty() {
        true => usual,
        false => content::number(prefix),
    };
    let range = move |slice: &Slice| {
        let inclusive = slice.end.kind == model::BoundKind::InclusiveEnd;
        let end = number(&slice.end.prefix, rows - 1) + u64::from(inclusive);
        (number(&slice.start.prefix, 0), end.min(rows))
    };
    let slices = wanted.slices.clone();
    let there = |row: &u64| content::version(*row).is_some();
    match wanted.reversed {
        false => Box::new(
            slices
                .into_iter()
                .flat_map(move |slice| {
                    let (from, to) = range(&slice);
                    from..to
                })
                .filter(there),
        ),
        true => Box::new(
            slices
                .into_iter()
                .rev()
                .flat_map(move |slice| {
                    let (from, to) = range(&slice);
                    (from..to).rev()
                })
                .filter(there),
        ),
    }
}

/// Writes, as often as it takes: a store that cannot follow refuses.
async fn write(env: &Env, store: &Store, mutation: Mutation) {
    loop {
        match store.apply(mutation.clone()).await {
            Ok(()) => return,
            Err(WriteError::Overloaded(_)) => env.sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("a write fails: {error}"),
        }
    }
}
