//! YCSB's core workloads (`CoreWorkload`): which operation comes next, on which record.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::generator::{Random, ScrambledZipfian, Zipfian, fnv_hash};
use crate::options::{Distribution, WorkloadName};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// The longest scan, in records.
const MAX_SCAN: u64 = 100;

/// What is shared by all who work on one table.
#[derive(Debug)]
pub(crate) struct Workload {
    /// Of a hundred operations: kinds and their number.
    mix: &'static [(Kind, u64)],
    /// Which records are asked for. Made once: ζ of all records takes a second for every few dozen
    /// millions.
    chooser: Chooser,
    inserts: Inserts,
}

impl Workload {
    /// One of YCSB's, on a table of `records`; `operations` is how many will be done, as far as
    /// one knows.
    pub(crate) fn new(
        name: WorkloadName,
        distribution: Option<Distribution>,
        records: u64,
        operations: u64,
    ) -> Workload {
        use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
        let (mix, usual): (&[(Kind, u64)], _) = match name {
            WorkloadName::A => (&[(Read, 50), (Update, 50)], Distribution::Zipfian),
            WorkloadName::B => (&[(Read, 95), (Update, 5)], Distribution::Zipfian),
            WorkloadName::C => (&[(Read, 100)], Distribution::Zipfian),
            WorkloadName::D => (&[(Read, 95), (Insert, 5)], Distribution::Latest),
            WorkloadName::E => (&[(Scan, 95), (Insert, 5)], Distribution::Zipfian),
            WorkloadName::F => (&[(Read, 50), (ReadModifyWrite, 50)], Distribution::Zipfian),
            WorkloadName::W => (&[(Update, 100)], Distribution::Zipfian),
            WorkloadName::I => (&[(Insert, 100)], Distribution::Uniform),
        };
        let inserts = mix.iter().find(|(kind, _)| *kind == Insert);
        let inserts = inserts.map_or(0, |(_, percent)| *percent);
        // Twice as many as expected: what is not there yet is drawn again.
        let expected = records + operations / 100 * inserts * 2;
        let chooser = match distribution.unwrap_or(usual) {
            Distribution::Uniform => Chooser::Uniform(records),
            Distribution::Zipfian => Chooser::Zipfian(ScrambledZipfian::new(expected.max(1))),
            Distribution::Latest => Chooser::Latest(Zipfian::new(records.max(1))),
        };
        Workload {
            mix,
            chooser,
            inserts: Inserts::new(records),
        }
    }

    /// The insertion of all records, in order.
    pub(crate) fn load() -> Workload {
        Workload {
            mix: &[(Kind::Insert, 100)],
            chooser: Chooser::Uniform(0),
            inserts: Inserts::new(0),
        }
    }

    /// What one worker does: its own random numbers, and the shared sequence of inserts.
    pub(crate) fn worker(&self, seed: u64) -> Worker<'_> {
        Worker {
            workload: self,
            random: Random::new(seed),
            chooser: self.chooser.clone(),
        }
    }

    /// To be called when a record is there.
    pub(crate) fn inserted(&self, record: u64) {
        self.inserts.acknowledge(record);
    }
}

/// An operation to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    /// The number of the record.
    pub(crate) record: u64,
    /// Records to read, for a scan.
    pub(crate) length: i32,
}

/// Who chooses operations.
#[derive(Debug)]
pub(crate) struct Worker<'w> {
    workload: &'w Workload,
    pub(crate) random: Random,
    chooser: Chooser,
}

#[derive(Clone, Debug)]
enum Chooser {
    Uniform(u64),
    Zipfian(ScrambledZipfian),
    Latest(Zipfian),
}

impl Worker<'_> {
    pub(crate) fn next(&mut self) -> Operation {
        let mut percent = self.random.below(100);
        let mix = self.workload.mix;
        let kind = mix.iter().find(|(_, share)| {
            let found = percent < *share;
            percent = percent.wrapping_sub(*share);
            found
        });
        let kind = kind.map_or(mix[0].0, |(kind, _)| *kind);
        Operation {
            kind,
            record: match kind {
                Kind::Insert => self.workload.inserts.next(),
                _ => self.existing_record(),
            },
            length: 1 + self.random.below(MAX_SCAN) as i32,
        }
    }

    fn existing_record(&mut self) -> u64 {
        let last = self.workload.inserts.last();
        loop {
            let record = match &mut self.chooser {
                Chooser::Uniform(records) => self.random.below(*records),
                Chooser::Zipfian(zipfian) => zipfian.next(&mut self.random),
                Chooser::Latest(zipfian) => {
                    last - zipfian.next_of(last.max(1), &mut self.random).min(last)
                }
            };
            if record <= last {
                return record;
            }
        }
    }
}

/// The name of a record: `user` and the hash of its number.
pub(crate) fn key_of(record: u64, key: &mut String) {
    use std::fmt::Write;
    key.clear();
    write!(key, "user{}", fnv_hash(record)).expect("a String takes all text");
}

/// Numbers for new records, and up to which all are there (`AcknowledgedCounterGenerator`).
#[derive(Debug)]
struct Inserts {
    next: AtomicU64,
    /// All records before this one are there.
    present: AtomicU64,
    /// Records that are there, but not all before them.
    early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    fn new(records: u64) -> Inserts {
        Inserts {
            next: AtomicU64::new(records),
            present: AtomicU64::new(records),
            early: Mutex::new(BTreeSet::new()),
        }
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The last record up to which all are there.
    fn last(&self) -> u64 {
        self.present.load(Ordering::Acquire).saturating_sub(1)
    }

    fn acknowledge(&self, record: u64) {
        let mut early = self.early.lock().expect("nobody panics while holding it");
        early.insert(record);
        let mut present = self.present.load(Ordering::Relaxed);
        while early.remove(&present) {
            present += 1;
        }
        self.present.store(present, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(name: WorkloadName) -> Vec<(Kind, u64)> {
        use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
        let workload = Workload::new(name, None, 1000, 100_000);
        let mut worker = workload.worker(1);
        let kinds = [Read, Update, Insert, Scan, ReadModifyWrite];
        let mut counts = kinds.map(|kind| (kind, 0));
        for _ in 0..10_000 {
            let operation = worker.next();
            assert!((1..=100).contains(&operation.length));
            if operation.kind == Kind::Insert {
                workload.inserted(operation.record);
            } else {
                assert!(operation.record <= workload.inserts.last());
            }
            for (kind, count) in &mut counts {
                *count += u64::from(*kind == operation.kind);
            }
        }
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn mixes_are_those_of_ycsb() {
        use Kind::*;
        for (name, expected) in [
            (WorkloadName::A, vec![(Read, 50), (Update, 50)]),
            (WorkloadName::B, vec![(Read, 95), (Update, 5)]),
            (WorkloadName::C, vec![(Read, 100)]),
            (WorkloadName::D, vec![(Read, 95), (Insert, 5)]),
            (WorkloadName::E, vec![(Insert, 5), (Scan, 95)]),
            (WorkloadName::F, vec![(Read, 50), (ReadModifyWrite, 50)]),
            (WorkloadName::W, vec![(Update, 100)]),
            (WorkloadName::I, vec![(Insert, 100)]),
        ] {
            let found = shares(name);
            assert_eq!(found.len(), expected.len(), "{name:?} {found:?}");
            for ((kind, count), (expected, percent)) in found.iter().zip(expected) {
                assert_eq!(*kind, expected);
                assert!(
                    count.abs_diff(percent * 100) < 150,
                    "{name:?} {kind:?} {count}"
                );
            }
        }
    }

    #[test]
    fn the_latest_are_read_most() {
        let workload = Workload::new(WorkloadName::D, None, 1000, 0);
        let mut worker = workload.worker(1);
        let (mut late, mut reads) = (0, 0);
        for _ in 0..10_000 {
            let operation = worker.next();
            if operation.kind == Kind::Read {
                reads += 1;
                late += u32::from(operation.record >= 990);
            }
        }
        // The first ten of a thousand have 38 % of a zipfian distribution.
        assert!(late * 100 > reads * 30, "{late} of {reads}");
    }

    #[test]
    fn a_load_inserts_each_record_once() {
        let workload = Workload::load();
        let mut worker = workload.worker(1);
        let records: Vec<u64> = (0..100).map(|_| worker.next().record).collect();
        assert_eq!(records, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn only_what_is_there_is_read() {
        let inserts = Inserts::new(10);
        let (a, b, c) = (inserts.next(), inserts.next(), inserts.next());
        assert_eq!((a, inserts.last()), (10, 9));
        inserts.acknowledge(c);
        assert_eq!(inserts.last(), 9);
        inserts.acknowledge(a);
        assert_eq!(inserts.last(), 10);
        inserts.acknowledge(b);
        assert_eq!(inserts.last(), 12);
    }

    #[test]
    fn records_are_named_as_ycsb_does() {
        let mut key = String::new();
        key_of(0, &mut key);
        assert_eq!(key, "user6284781860667377211");
    }
}
