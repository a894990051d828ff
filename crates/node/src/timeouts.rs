//! How long things may take, as operators set it while the node runs (`nodetool settimeout`).

use std::cell::Cell;
use std::time::Duration;

/// What may take so long, in the order of Cassandra's `GetTimeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// A read of one partition (`read_request_timeout`).
    Read,
    /// A read of a range (`range_request_timeout`).
    Range,
    /// A write (`write_request_timeout`).
    Write,
    /// An addition to counters (`counter_write_request_timeout`).
    CounterWrite,
    /// A conditional update, in competition with others (`cas_contention_timeout`).
    CasContention,
    /// A TRUNCATE (`truncate_request_timeout`).
    Truncate,
    /// Connecting to another node (`internode_tcp_connect_timeout`).
    InternodeConnect,
}

impl TimeoutKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [TimeoutKind; 7] = [
        TimeoutKind::Read,
        TimeoutKind::Range,
        TimeoutKind::Write,
        TimeoutKind::CounterWrite,
        TimeoutKind::CasContention,
        TimeoutKind::Truncate,
        TimeoutKind::InternodeConnect,
    ];

    /// The name in Cassandra's nodetool.
    pub fn name(self) -> &'static str {
        match self {
            TimeoutKind::Read => "read",
            TimeoutKind::Range => "range",
            TimeoutKind::Write => "write",
            TimeoutKind::CounterWrite => "counterwrite",
            TimeoutKind::CasContention => "cascontention",
            TimeoutKind::Truncate => "truncate",
            TimeoutKind::InternodeConnect => "internodeconnect",
        }
    }

    /// What it is unless somebody sets it, as in the `cassandra.yaml` of 5.0.
    pub const fn usual(self) -> Duration {
        Duration::from_millis(match self {
            TimeoutKind::Read | TimeoutKind::CounterWrite => 5_000,
            TimeoutKind::Range => 10_000,
            TimeoutKind::Write | TimeoutKind::InternodeConnect => 2_000,
            TimeoutKind::CasContention => 1_800,
            TimeoutKind::Truncate => 60_000,
        })
    }
}

/// The timeouts of a shard.
#[derive(Debug)]
pub struct Timeouts([Cell<Duration>; TimeoutKind::ALL.len()]);

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts(TimeoutKind::ALL.map(|kind| Cell::new(kind.usual())))
    }
}

impl Timeouts {
    /// How long that may take now.
    pub fn get(&self, kind: TimeoutKind) -> Duration {
        self.0[kind as usize].get()
    }

    /// From now on it may take so long; what is under way keeps its time.
    pub fn set(&self, kind: TimeoutKind, time: Duration) {
        self.0[kind as usize].set(time);
    }

    /// How long a read of one partition may take.
    pub fn read(&self) -> Duration {
        self.get(TimeoutKind::Read)
    }

    /// How long a write may take.
    pub fn write(&self) -> Duration {
        self.get(TimeoutKind::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_time() {
        let timeouts = Timeouts::default();
        for (number, kind) in TimeoutKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(timeouts.get(kind), kind.usual());
            timeouts.set(kind, Duration::from_secs(number as u64));
        }
        for (number, kind) in TimeoutKind::ALL.into_iter().enumerate() {
            assert_eq!(timeouts.get(kind), Duration::from_secs(number as u64));
        }
    }
}
