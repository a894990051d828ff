//! Time of the operations of a memtable: `cargo bench -p storage`. What rows take in memory is
//! measured by `tests/memtable_memory.rs`. Inserts and overwrites include the making of the update,
//! which is measured alone as `update`.

#[allow(
    dead_code,
    reason = "benches and the test of the memory each use a part of it"
)]
mod shapes;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use model::Slice;
use shapes::Shape;
use storage::MeasuredMemtable;

// The allocator of the server.
#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// Numbers of rows, spread over a shape without order; the step shares no factor with the counts.
fn spread(shape: &Shape) -> impl FnMut() -> u64 + use<> {
    let (rows, mut at) = (shape.rows, 0);
    move || {
        at = (at + 61_803) % rows;
        at
    }
}

fn filled(shape: &Shape) -> MeasuredMemtable {
    let memtable = MeasuredMemtable::default();
    let mut next = spread(shape);
    for _ in 0..shape.rows {
        memtable.apply(shape.insert(next()));
    }
    memtable
}

fn writes(criterion: &mut Criterion) {
    for shape in Shape::all() {
        let mut group = criterion.benchmark_group(shape.name);
        group.bench_function("update", |bencher| {
            let mut next = spread(&shape);
            bencher.iter(|| shape.insert(next()));
        });
        // A whole memtable at a time, as the price of an insert depends on what is there.
        group
            .sample_size(10)
            .throughput(Throughput::Elements(shape.rows));
        group.bench_function(BenchmarkId::new("insert", shape.rows), |bencher| {
            bencher.iter_with_large_drop(|| filled(&shape));
        });
        group.finish();

        let mut group = criterion.benchmark_group(shape.name);
        let memtable = filled(&shape);
        group.bench_function("overwrite", |bencher| {
            let (mut next, mut timestamp) = (spread(&shape), 1);
            bencher.iter(|| {
                timestamp += 1;
                memtable.apply(shape.overwrite(next(), timestamp));
            });
        });
        group.finish();
    }
}

fn reads(criterion: &mut Criterion) {
    for shape in Shape::all() {
        let memtable = filled(&shape);
        let mut group = criterion.benchmark_group(shape.name);
        for (name, offset) in [("hit", 0), ("miss", shape.rows)] {
            group.bench_function(name, |bencher| {
                let mut next = spread(&shape);
                bencher.iter_batched(
                    || {
                        let row = next() + offset;
                        (shape.key(row), Slice::of_prefix(shape.clustering(row)))
                    },
                    |(key, slice)| {
                        memtable.read(&key, &shape.table, slice, &mut |row| drop(black_box(row)));
                    },
                    criterion::BatchSize::SmallInput,
                );
            });
        }
        group.bench_function("shown", |bencher| {
            let mut next = spread(&shape);
            let mut place = || {
                let row = next();
                (shape.key(row), shape.clustering(row))
            };
            bencher.iter_batched(
                &mut place,
                |(key, clustering)| {
                    let mut seen = |_, value: &[u8]| {
                        black_box(value.first());
                    };
                    assert!(memtable.show(&key, &shape.table, &clustering, &mut seen));
                },
                criterion::BatchSize::SmallInput,
            );
        });
        group
            .sample_size(10)
            .throughput(Throughput::Elements(shape.rows));
        group.bench_function(BenchmarkId::new("scan", shape.rows), |bencher| {
            bencher.iter(|| memtable.scan(&shape.table, &mut |row| drop(black_box(row))));
        });
        group.finish();
    }
}

/// One partition of a million rows, or of so many deleted ranges. As `held`, somebody begins to read
/// the partition before each write, and reads it yet.
fn large(criterion: &mut Criterion) {
    const RANGES: u64 = 100_000;
    let shape = Shape::large();
    let mut group = criterion.benchmark_group(shape.name);
    let key = shape.key(0);
    group
        .sample_size(10)
        .throughput(Throughput::Elements(shape.rows));
    group.bench_function(BenchmarkId::new("insert", shape.rows), |bencher| {
        bencher.iter_with_large_drop(|| filled(&shape));
    });
    let deleted = || {
        let memtable = MeasuredMemtable::default();
        let mut next = spread(&shape);
        for _ in 0..RANGES {
            memtable.apply(shape.delete(next() % RANGES * 2));
        }
        memtable
    };
    group.throughput(Throughput::Elements(RANGES));
    group.bench_function(BenchmarkId::new("delete", RANGES), |bencher| {
        bencher.iter_with_large_drop(deleted);
    });
    group.finish();

    let mut group = criterion.benchmark_group(shape.name);
    let (rows, ranges) = (filled(&shape), deleted());
    let mut number = 0;
    for held in [false, true] {
        let id = |name| BenchmarkId::new(name, if held { "held" } else { "alone" });
        group.bench_function(id("overwrite"), |bencher| {
            let mut next = spread(&shape);
            bencher.iter(|| {
                number += 1;
                let reader = held.then(|| rows.hold(&key));
                rows.apply(shape.overwrite(next(), number));
                drop(reader);
            });
        });
        group.bench_function(id("delete again"), |bencher| {
            let mut next = spread(&shape);
            bencher.iter(|| {
                let reader = held.then(|| ranges.hold(&key));
                ranges.apply(shape.delete(next() % RANGES * 2));
                drop(reader);
            });
        });
    }
    group.finish();
}

criterion_group!(memtable, writes, reads, large);
criterion_main!(memtable);
