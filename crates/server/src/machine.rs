//! What of the machine this process may use.

mod cgroup;

use std::num::NonZero;
use std::path::Path;

/// What this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Cores, by affinity and by cgroup quota.
    pub(crate) cores: u16,
    /// Memory in bytes, by machine and by cgroup limit.
    pub(crate) memory: u64,
}

impl Machine {
    /// Looks.
    pub(crate) fn inspect() -> Machine {
        // Counts affinity and the quotas of cgroup versions 1 and 2.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let system = rustix::system::sysinfo();
        let installed = system.totalram.saturating_mul(system.mem_unit.into());
        let limit = cgroup::memory_limit(Path::new("/"));
        Machine {
            cores: u16::try_from(cores).unwrap_or(u16::MAX),
            memory: limit.map_or(installed, |limit| limit.min(installed)),
        }
    }
}

/// The CPU of each of `shards` shards: where there is one for each that this process may use. With
/// more CPUs than shards, they float.
pub(crate) fn cpus_of(shards: u16) -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    let cpus: Vec<usize> = all.filter(|cpu| allowed.is_set(*cpu)).collect();
    if cpus.len() == usize::from(shards) {
        cpus
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something() {
        let machine = Machine::inspect();
        assert!(machine.cores > 0);
        assert!(machine.memory > 1 << 20);
    }
}
