//! How much CPU time processes took, and which of their threads (`/proc/PID/stat`); and how much a hypervisor
//! did not give the machine (`/proc/stat`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

/// CPU time up to one moment, in clock ticks: of the processes together, and of each of their threads by
/// number, with the thread's name.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    processes: u64,
    threads: BTreeMap<u32, (String, u64)>,
}

/// CPU time of both sides up to one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    /// If its processes are known.
    server: Option<Snapshot>,
    client: Snapshot,
    machine: MachineTime,
}

impl Snapshots {
    /// Reads the counters of the server's processes, if there are any, and of this one.
    ///
    /// # Errors
    ///
    /// One of them is not there; in words.
    pub(crate) fn take(server: &[u32]) -> Result<Snapshots, String> {
        let take = |pids: &[u32]| Snapshot::take(pids).map_err(|error| error.to_string());
        let processes = (!server.is_empty()).then(|| take(server));
        Ok(Snapshots {
            server: processes.transpose()?,
            client: take(&[std::process::id()])?,
            machine: MachineTime::take(),
        })
    }

    /// The share of the machine's time from `self` to `later` that it had none ([`MachineTime`]).
    pub(crate) fn stolen_until(&self, later: &Snapshots) -> f64 {
        self.machine.stolen_until(later.machine)
    }

    /// What server and client used from `self` to `later`.
    pub(crate) fn usage_until(&self, later: &Snapshots) -> (Option<Usage>, Usage) {
        let server = self.server.as_ref().zip(later.server.as_ref());
        (
            server.map(|(before, after)| before.usage_until(after)),
            self.client.usage_until(&later.client),
        )
    }
}

/// What all cores of the machine did up to one moment, in clock ticks. Where they are a hypervisor's it may let
/// others have them, or keep a limit: nothing runs then, and whoever waits waits for that. A machine that does not
/// say so has nothing stolen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineTime {
    all: u64,
    stolen: u64,
}

impl MachineTime {
    /// Reads the counters.
    pub(crate) fn take() -> MachineTime {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        MachineTime::parse(&stat).unwrap_or_default()
    }

    /// `proc_stat(5)`: of the first line the eighth number is what was stolen; those behind it are parts of others.
    fn parse(stat: &str) -> Option<MachineTime> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?;
        let numbers = numbers.split_whitespace().take(8).map(str::parse);
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        Some(MachineTime {
            all: numbers.iter().sum(),
            stolen: *numbers.get(7)?,
        })
    }

    /// The share of the time from `self` to `later` that was stolen.
    pub(crate) fn stolen_until(self, later: MachineTime) -> f64 {
        let all = later.all.saturating_sub(self.all);
        later.stolen.saturating_sub(self.stolen) as f64 / all.max(1) as f64
    }
}

/// CPU time between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// Of all threads, in seconds.
    pub(crate) seconds: f64,
    /// Of the threads of each name (digits left out), in seconds; those that ended are missing.
    pub(crate) threads: BTreeMap<String, f64>,
}

impl Snapshot {
    /// Reads the counters of some processes.
    ///
    /// # Errors
    ///
    /// One of them is not there.
    pub(crate) fn take(pids: &[u32]) -> io::Result<Snapshot> {
        let mut snapshot = Snapshot {
            processes: 0,
            threads: BTreeMap::new(),
        };
        for pid in pids {
            let added = snapshot.add(*pid);
            added.map_err(|error| {
                let message = format!("the CPU time of process {pid}: {error}");
                io::Error::new(error.kind(), message)
            })?;
        }
        Ok(snapshot)
    }

    fn add(&mut self, pid: u32) -> io::Result<()> {
        let folder = Path::new("/proc").join(pid.to_string());
        let (_, process) = read(&folder.join("stat"))?;
        self.processes += process;
        for entry in fs::read_dir(folder.join("task"))? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread may end while we look at the others.
            if let Ok(stat) = read(&entry.path().join("stat")) {
                self.threads.insert(number, stat);
            }
        }
        Ok(())
    }

    /// What was used from `self` to `later`.
    pub(crate) fn usage_until(&self, later: &Snapshot) -> Usage {
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let mut threads: BTreeMap<String, f64> = BTreeMap::new();
        for (number, (name, ticks)) in &later.threads {
            let before = self.threads.get(number).map_or(0, |(_, ticks)| *ticks);
            let used = ticks.saturating_sub(before);
            if used > 0 {
                *threads.entry(group_of(name)).or_default() += used as f64 * tick;
            }
        }
        Usage {
            seconds: later.processes.saturating_sub(self.processes) as f64 * tick,
            threads,
        }
    }
}

/// The cores this process may use.
pub(crate) fn cores() -> usize {
    let affinity = rustix::thread::sched_getaffinity(None);
    affinity.map_or(1, |set| (set.count() as usize).max(1))
}

/// A name without its numbers: `shard-3` is one of `shard`.
fn group_of(name: &str) -> String {
    let group: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    let group = group.trim_matches(|c: char| !c.is_alphanumeric());
    if group.is_empty() { name } else { group }.to_owned()
}

/// Name, and user and system time together.
fn read(path: &Path) -> io::Result<(String, u64)> {
    parse(&fs::read_to_string(path)?)
        .ok_or_else(|| io::Error::other(format!("{} has an unknown form", path.display())))
}

/// `proc_pid_stat(5)`: the name is in brackets and may hold anything, brackets too.
fn parse(stat: &str) -> Option<(String, u64)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // Behind the name come the fields from the third on.
    let mut fields = after.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_taken_apart() {
        let stat = "42 (a) b(c)) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20 0 1";
        assert_eq!(parse(stat), Some(("a) b(c)".to_owned(), 123)));
        assert_eq!(parse("42 (x) S 1"), None);
    }

    #[test]
    fn what_is_stolen_is_a_part_of_all() {
        let at = |stat| MachineTime::parse(stat).unwrap();
        let before = at("cpu  10 0 5 80 3 0 1 1 7 0\ncpu0 1 2 3\n");
        let later = at("cpu  50 0 10 120 3 0 2 15 9 0\n");
        assert_eq!(before.stolen_until(later), 0.14);
        assert_eq!(later.stolen_until(later), 0.0);
        assert!(MachineTime::parse("cpu  1 2 3").is_none());
        assert!(MachineTime::take().all > 0);
    }

    #[test]
    fn our_own_time_is_counted() {
        let before = Snapshot::take(&[std::process::id()]).unwrap();
        let mut sum = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 200 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let usage = before.usage_until(&Snapshot::take(&[std::process::id()]).unwrap());
        assert!(usage.seconds > 0.05, "{usage:?}");
        assert!(!usage.threads.is_empty());
    }

    #[test]
    fn processes_are_counted_together() {
        let own = std::process::id();
        let twice = Snapshot::take(&[own, own]).unwrap();
        let once = Snapshot::take(&[own]).unwrap();
        assert!(twice.processes >= once.processes, "{twice:?} {once:?}");
        assert_eq!(Snapshot::take(&[]).unwrap().processes, 0);
        let error = Snapshot::take(&[own, u32::MAX]).unwrap_err().to_string();
        assert!(error.contains(&u32::MAX.to_string()), "{error}");
    }

    #[test]
    fn threads_are_grouped_by_name() {
        assert_eq!(group_of("shard-13"), "shard");
        assert_eq!(group_of("GC Thread#0"), "GC Thread");
        assert_eq!(group_of("7"), "7");
    }
}
