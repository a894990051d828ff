//! What a step costs: time, memory at its peak, reads of files.

use std::time::Duration;

use io::Env;
use storage::Store;

/// What a step did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    /// Seconds of CPU.
    pub(crate) cpu: f64,
    /// The most memory that the process had, in bytes (`VmHWM`).
    pub(crate) peak: u64,
    /// Chunks of sstables that were read from files, and their bytes there.
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

/// Measures a step, and prints what it cost.
pub(crate) struct Step {
    name: String,
    begun: io::Instant,
    cpu: f64,
    read: (u64, u64),
}

impl Step {
    /// It begins now; memory is measured anew.
    pub(crate) fn begin(name: &str, env: &Env, store: &Store) -> Step {
        // 5: the high-water mark falls to what is resident now (`Documentation/filesystems/proc.rst`).
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux resets it");
        Step {
            name: name.to_owned(),
            begun: env.now(),
            cpu: cpu(),
            read: read(store),
        }
    }

    /// It is over; `rows` were read or written.
    pub(crate) fn end(self, rows: u64, env: &Env, store: &Store) -> Cost {
        let (chunks, bytes) = read(store);
        let cost = Cost {
            time: env.now() - self.begun,
            cpu: cpu() - self.cpu,
            peak: peak(),
            chunks: chunks - self.read.0,
            bytes: bytes - self.read.1,
        };
        let row = format!(
            "{:<38} {:>8.3} s, {:>6.2} of CPU {:>11} rows {:>8} chunks {:>9.3} MB read {:>5} MiB at its peak",
            self.name,
            cost.time.as_secs_f64(),
            cost.cpu,
            rows,
            cost.chunks,
            cost.bytes as f64 / 1e6,
            cost.peak >> 20
        );
        println!("{row}");
        cost
    }
}

fn read(store: &Store) -> (u64, u64) {
    let cache = store.stats().chunk_cache;
    (cache.read_chunks, cache.read_bytes)
}

/// `VmHWM` of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        << 10
}

/// Seconds of CPU that this process has used so far (`/proc/self/stat`, hundredths of a second).
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let behind_name = stat.rsplit(')').next().expect("a name in brackets");
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number") / 100.0;
    ticks(11) + ticks(12)
}
