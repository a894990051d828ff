//! What a drive that fails does to the process: Cassandra's failure policies.
//!
//! Shards report what they met; the process looks now and then what is to be done about it. A
//! full drive is no failure: writes are refused while it is full.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// What to do when the drive of the commit log fails: `commit_failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitFailurePolicy {
    /// No write is acknowledged any more, and clients are sent away: the node can be looked at, but
    /// others take its place. The default, as in Cassandra.
    #[default]
    Stop,
    /// No write is acknowledged any more; reads go on.
    StopCommit,
    /// The writes that were under way fail, and later ones go to another file.
    Ignore,
    /// The process ends.
    Die,
}

/// What to do when reading or writing sstables fails: `disk_failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFailurePolicy {
    /// Clients are sent away when the drive fails. The default, as in Cassandra.
    #[default]
    Stop,
    /// Also when a single sstable is damaged.
    StopParanoid,
    /// What cannot be read is gone without: the request that meets it fails, later ones see what
    /// is left. Where nothing can be written any more clients are sent away: there is one data
    /// folder, so that none is left to write to. Damaged sstables fail the requests that meet them.
    BestEffort,
    /// The requests that meet the failure fail.
    Ignore,
    /// The process ends, also when a single sstable is damaged.
    Die,
}

/// Both policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailurePolicies {
    /// Of the commit log.
    pub commit: CommitFailurePolicy,
    /// Of everything else.
    pub disk: DiskFailurePolicy,
}

/// What went wrong with sstables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFailure {
    /// The drive or the file system refused to read (`FSReadError`).
    Reading,
    /// It refused to write, to make a name or to remove one (`FSWriteError`).
    Writing,
    /// What was read is not what was written (`CorruptSSTableException`).
    Damaged,
}

impl DiskFailure {
    /// Of an operation that writes. `None`: there is no room, or somebody else has put a file there,
    /// which is no failure of the drive.
    pub(crate) fn of_writing(error: &std::io::Error) -> Option<DiskFailure> {
        let passes = is_full(error) || error.kind() == ErrorKind::AlreadyExists;
        (!passes).then_some(DiskFailure::Writing)
    }
}

/// Is there no room? That is no failure of the drive: it passes.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// What the process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// Nothing.
    GoOn = 0,
    /// Send clients away and take no new ones.
    StopClients = 1,
    /// End.
    Die = 2,
}

/// What became of the drives, for all shards of a process.
#[derive(Debug, Default)]
pub struct Health {
    policies: FailurePolicies,
    verdict: AtomicU8,
    /// Why, the first time.
    reason: Mutex<Option<String>>,
}

impl Health {
    /// Nothing has failed yet.
    pub fn new(policies: FailurePolicies) -> Health {
        Health {
            policies,
            ..Health::default()
        }
    }

    /// What to do, and why.
    pub fn verdict(&self) -> (Verdict, Option<String>) {
        let verdict = match self.verdict.load(Ordering::Acquire) {
            0 => Verdict::GoOn,
            1 => Verdict::StopClients,
            _ => Verdict::Die,
        };
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        (verdict, reason.clone())
    }

    /// The commit log failed. May it go on in another file?
    pub(crate) fn commit_failed(&self, reason: &str) -> bool {
        let verdict = match self.policies.commit {
            CommitFailurePolicy::Stop => Verdict::StopClients,
            CommitFailurePolicy::StopCommit | CommitFailurePolicy::Ignore => Verdict::GoOn,
            CommitFailurePolicy::Die => Verdict::Die,
        };
        self.pass(verdict, reason);
        self.policies.commit == CommitFailurePolicy::Ignore
    }

    /// Reading or writing sstables failed (`DefaultFSErrorHandler`, `JVMStabilityInspector`).
    pub(crate) fn disk_failed(&self, failure: DiskFailure, reason: &str) {
        use DiskFailure::{Damaged, Reading, Writing};
        use DiskFailurePolicy::{BestEffort, Die, Ignore, Stop, StopParanoid};
        let verdict = match (self.policies.disk, failure) {
            (Die, _) => Verdict::Die,
            (StopParanoid, _) | (Stop, Reading | Writing) | (BestEffort, Writing) => {
                Verdict::StopClients
            }
            (Stop, Damaged) | (BestEffort, Reading | Damaged) | (Ignore, _) => Verdict::GoOn,
        };
        self.pass(verdict, reason);
    }

    /// Do tables go without sstables that the drive does not give?
    pub(crate) fn goes_without(&self) -> bool {
        self.policies.disk == DiskFailurePolicy::BestEffort
    }

    fn pass(&self, verdict: Verdict, reason: &str) {
        if verdict == Verdict::GoOn {
            return;
        }
        let mut first = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| reason.to_owned());
        self.verdict.fetch_max(verdict as u8, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_decide_as_in_cassandra() {
        use DiskFailure::{Damaged, Reading, Writing};
        use DiskFailurePolicy::{BestEffort, Die, Ignore, Stop, StopParanoid};
        for (disk, failure, expected) in [
            (Stop, Reading, Verdict::StopClients),
            (Stop, Writing, Verdict::StopClients),
            (Stop, Damaged, Verdict::GoOn),
            (StopParanoid, Damaged, Verdict::StopClients),
            (BestEffort, Reading, Verdict::GoOn),
            (BestEffort, Writing, Verdict::StopClients),
            (BestEffort, Damaged, Verdict::GoOn),
            (Ignore, Reading, Verdict::GoOn),
            (Ignore, Writing, Verdict::GoOn),
            (Die, Damaged, Verdict::Die),
            (Die, Reading, Verdict::Die),
        ] {
            let health = Health::new(FailurePolicies {
                disk,
                ..FailurePolicies::default()
            });
            health.disk_failed(failure, "first");
            health.disk_failed(failure, "second");
            let reason = (expected > Verdict::GoOn).then(|| "first".to_owned());
            assert_eq!(health.verdict(), (expected, reason), "{disk:?} {failure:?}");
            assert_eq!(health.goes_without(), disk == BestEffort);
        }
        for (commit, goes_on, expected) in [
            (CommitFailurePolicy::Stop, false, Verdict::StopClients),
            (CommitFailurePolicy::StopCommit, false, Verdict::GoOn),
            (CommitFailurePolicy::Ignore, true, Verdict::GoOn),
            (CommitFailurePolicy::Die, false, Verdict::Die),
        ] {
            let health = Health::new(FailurePolicies {
                commit,
                ..FailurePolicies::default()
            });
            assert_eq!(health.commit_failed("it"), goes_on);
            assert_eq!(health.verdict().0, expected);
        }
    }
}
