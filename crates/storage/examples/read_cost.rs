//! What reads of single rows cost: `read_cost DIR [ROWS] [MEBIBYTES] [SECONDS]
//! [cached|uncached] [zipfian|uniform]` reads rows of YCSB's shape from a store of one shard in DIR
//! with so much memory, and prints time, CPU and hits. `strace -c -f` beside it counts system calls.

#[allow(dead_code, reason = "benches and tests each use a part of it")]
#[path = "../benches/shapes/mod.rs"]
mod shapes;
#[path = "../benches/shapes/stored.rs"]
mod stored;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use io::{Env, RuntimeConfig};
use model::Table;
use shapes::Shape;

#[global_allocator]
static ALLOCATOR: io::Allocator = io::Allocator;

#[derive(Clone)]
struct Options {
    dir: PathBuf,
    rows: u64,
    memory: u64,
    time: Duration,
    cached: bool,
    zipfian: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, usual: &str| {
        let given = arguments.get(at).cloned();
        given.unwrap_or_else(|| usual.to_owned())
    };
    let number = |at, usual: &str| argument(at, usual).parse::<u64>().expect("a number");
    let options = Options {
        dir: argument(0, "read-cost").into(),
        rows: number(1, "400000"),
        memory: number(2, "256") << 20,
        time: Duration::from_secs(number(3, "5")),
        cached: argument(4, "cached") == "cached",
        zipfian: argument(5, "zipfian") == "zipfian",
    };
    let main = Mutex::new(Some(options));
    let main = move |env| {
        let options = main.lock().expect("nobody panicked").take();
        run(env, options.expect("there is one shard"))
    };
    let runtime = io::Runtime::start(RuntimeConfig::default(), main).expect("a runtime");
    runtime.join().expect("it ends well");
}

async fn run(env: Env, options: Options) {
    let [_, mut shape, _] = Shape::all();
    if !options.cached {
        let mut table = Table::clone(&shape.table);
        let none = |name: &str| (name.to_owned(), "NONE".to_owned());
        table.options.caching = ["keys", "rows_per_partition"].map(none).into();
        shape.table = Arc::new(table);
    }
    let Options { memory, rows, .. } = options;
    let store = stored::open(&env, options.dir.clone(), memory, &shape, rows).await;
    let pick = |random: u64| match options.zipfian {
        // Inverse of the distribution with exponent 1, as YCSB's 0.99 nearly is; then scattered.
        true => {
            let part = (random >> 11) as f64 / (1u64 << 53) as f64;
            let rank = (rows as f64).powf(part) as u64;
            rank.wrapping_mul(2_654_435_761) % rows
        }
        false => random % rows,
    };
    // Warm for as long as it is measured.
    for measured in [false, true] {
        let (before, begun, cpu) = (store.stats().row_cache, env.now(), cpu_time());
        let mut reads = 0u64;
        while env.now() - begun < options.time {
            for _ in 0..64 {
                let command = stored::command(&shape, pick(env.random_u64()));
                let page = store.read(&command).await.expect("it reads");
                assert_eq!(page.partitions.len(), 1);
                reads += 1;
            }
            env.maybe_yield().await;
        }
        let wall = (env.now() - begun).as_secs_f64();
        let (cpu, after) = (cpu_time() - cpu, store.stats().row_cache);
        if measured {
            println!(
                "{reads} reads; {:.0} ns and {:.0} ns of CPU each, the command included; {:.1} % \
                 of them cached, {} rows in {} of {} bytes",
                wall * 1e9 / reads as f64,
                cpu * 1e9 / reads as f64,
                (after.hits - before.hits) as f64 * 100.0 / reads as f64,
                after.entries,
                after.size,
                after.capacity,
            );
        }
    }
    store.drain().await.expect("it is drained");
}

/// Seconds of CPU of this process so far, by `/proc/self/stat` in hundredths.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let behind_name = stat.rsplit(')').next().expect("a name in brackets");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number") / 100.0;
    ticks(11) + ticks(12)
}
