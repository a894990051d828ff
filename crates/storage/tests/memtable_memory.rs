//! What the rows of a memtable really take, beside what the memtable believes: the memory budget
//! of a node rests on it. `cargo test --release -p storage --test memtable_memory -- --nocapture`
//! prints the figures.

#[allow(
    dead_code,
    reason = "benches and the test of the memory each use a part of it"
)]
#[path = "../benches/shapes/mod.rs"]
mod shapes;

use shapes::Shape;
use storage::MeasuredMemtable;

// The allocator of the server: what it rounds up to is part of what rows take.
#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

/// Data of a memtable that is measured, in bytes. What is resident grows by huge pages of 2 MiB, which has to be little
/// beside what is let pass.
const DATA: usize = 50_000_000;

/// Resident memory of this process, in bytes (`proc_pid_statm(5)`).
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm
        .split(' ')
        .nth(1)
        .expect("a field")
        .parse()
        .expect("a number");
    pages * 4096
}

#[test]
fn a_memtable_knows_what_it_takes() {
    // All are kept, so that none takes memory that another gave back.
    let mut kept = Vec::new();
    for mut shape in Shape::all() {
        shape.rows = shape.rows * DATA as u64 / shape.data_bytes() as u64;
        for overwritten in [false, true] {
            let before = resident();
            let memtable = MeasuredMemtable::default();
            for row in 0..shape.rows {
                memtable.apply(shape.insert(row));
            }
            for row in 0..if overwritten { shape.rows } else { 0 } {
                memtable.apply(shape.overwrite(row, 2));
            }
            let taken = resident() - before;
            let (believed, data) = (memtable.bytes(), shape.data_bytes());
            let a_row = |bytes: usize| bytes as f64 / shape.rows as f64;
            println!(
                "{} overwritten: {overwritten}; bytes a row: data {:.0}, taken {:.0}, believed {:.0}",
                shape.name,
                a_row(data),
                a_row(taken),
                a_row(believed),
            );
            let overhead = (taken - data) / shape.rows as usize;
            kept.push((shape.name, overwritten, (taken, believed), overhead));
            std::mem::forget(memtable);
        }
    }
    for (name, overwritten, (taken, believed), overhead) in kept {
        let ratio = believed as f64 / taken as f64;
        assert!(
            (0.94..=1.06).contains(&ratio),
            "{name}, overwritten: {overwritten}: believes {believed} bytes, takes {taken}"
        );
        let most = match name {
            "narrow" => 200,
            "ycsb" => 450,
            _ => 110,
        };
        assert!(
            overhead <= most,
            "{name}, overwritten: {overwritten}: {overhead} bytes of overhead a row"
        );
    }
}
