//! A read of a row that the cache knows allocates its answer and nothing else, and waits for
//! nothing. One that is shown where it lies allocates nothing at all.

#[allow(dead_code, reason = "benches and tests each use a part of it")]
#[path = "../benches/shapes/mod.rs"]
mod shapes;
#[path = "../benches/shapes/stored.rs"]
mod stored;

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use allocation_counter::{AllocationInfo, measure};
use io::Env;
use model::{Mutation, ReadCommand, ReadPage};
use shapes::Shape;
use storage::Store;

/// Reads without giving way; panics if it would have to.
fn read_at_once(store: &Store, command: &ReadCommand) -> (ReadPage, AllocationInfo) {
    let mut page = None;
    let allocations = measure(|| {
        let mut reading = pin!(store.read(command));
        let polled = reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(read) = polled else {
            panic!("a cached read waits for something");
        };
        page = Some(read.expect("it reads"));
    });
    (page.expect("it was read"), allocations)
}

/// The write of the row's first column, later than all that was written before.
fn overwrite(shape: &Shape, row: u64) -> Mutation {
    Mutation {
        updates: vec![shape.overwrite(row, 2)],
    }
}

/// How many cells a row has that is shown where it lies, in the cache, in the memtable or in both.
fn shown_at_once(env: &Env, store: &Store, shape: &Shape, row: u64) -> (Option<usize>, u64) {
    let (key, clustering) = (shape.key(row), shape.clustering(row));
    let command = stored::command(shape, row);
    let (table, columns) = (shape.table.id, &command.columns);
    let mut cells = None;
    let allocations = measure(|| {
        let places = [(&key, &clustering)];
        let when = (env.now(), || command.now_seconds);
        store.with_plain_rows(table, &places, columns, when, |row| {
            cells = row.map(|row| row.values().count());
            true
        });
    });
    (cells, allocations.count_total)
}

async fn check(env: Env, dir: std::path::PathBuf) {
    // A row of ten columns with a partition of its own, and one of a partition of many.
    for (shape, folder) in Shape::all().iter().skip(1).zip(["ycsb", "wide"]) {
        let store = stored::open(&env, dir.join(folder), 64 << 20, shape, 100).await;
        let command = stored::command(shape, 7);
        let first = store.read(&command).await.expect("it reads");
        // It comes in when it is asked for again.
        assert_eq!(store.read(&command).await.expect("it reads"), first);
        assert_eq!(store.stats().row_cache.hits, 0);
        let (again, allocations) = read_at_once(&store, &command);
        assert_eq!(store.stats().row_cache.hits, 1);
        assert_eq!(again, first);
        assert_eq!(
            again.partitions[0].rows[0].cells.len(),
            command.columns.len()
        );
        // The answer: a list of partitions, in it a list of rows, in it one of cells. Values are
        // parts of the entry, which is shared with the cache: the fourth says how many do.
        assert_eq!(allocations.count_total, 4, "{folder}");
        assert_eq!(
            allocations.count_current, 4,
            "{folder}: all of it is the answer"
        );
        let cells = Some(command.columns.len());
        assert_eq!(shown_at_once(&env, &store, shape, 7), (cells, 0));
        // With something in the memtable, of another partition, it is the same.
        let written = store.apply(overwrite(shape, 50)).await;
        written.expect("there is room");
        if folder == "ycsb" {
            let (again, allocations) = read_at_once(&store, &command);
            assert_eq!((again, allocations.count_total), (first, 4));
            assert_eq!(shown_at_once(&env, &store, shape, 7), (cells, 0));
        }
        // And with a part of the row there.
        let written = store.apply(overwrite(shape, 7)).await;
        written.expect("there is room");
        assert_eq!(shown_at_once(&env, &store, shape, 7), (cells, 0));
        store.drain().await.expect("it is drained");
    }
}

#[test]
fn a_cached_read_allocates_nothing_but_its_answer() {
    let dir = std::env::temp_dir().join(format!("helenus-cached-read-{}", std::process::id()));
    let given = Mutex::new(Some(dir.clone()));
    let main = move |env| {
        let dir = given.lock().expect("nobody panicked").take();
        check(env, dir.expect("there is one shard"))
    };
    let runtime = io::Runtime::start(io::RuntimeConfig::default(), main).expect("a runtime");
    let ended = runtime.join();
    let removed = std::fs::remove_dir_all(&dir);
    ended.expect("nothing is wrong");
    removed.expect("the folder is there");
}
