//! A replica's state as it is on the drive: a row of `system.paxos` (`SystemKeyspace`, `PaxosRows`).

use super::{Ballot, Proposal};

/// The least time that state is kept, in seconds.
const MIN_TTL: u32 = 3 * 60 * 60;

/// For how long what is written is kept: until nobody touched the partition for as long as its
/// table keeps tombstones (`paxos_state_purging: legacy`, `SystemKeyspace.legacyPaxosTtlSec`). What was
/// accepted and was not committed by then is lost, with commit level ANY also if a client was told that
/// it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    now: i64,
    ttl: u32,
}

impl Lifetime {
    /// Of what is written at `now`, in seconds since 1970, for a table with these grace seconds.
    pub fn new(now: i64, gc_grace_seconds: u32) -> Lifetime {
        Lifetime {
            now,
            ttl: gc_grace_seconds.max(MIN_TTL),
        }
    }

    /// The second it is.
    pub(super) fn now(self) -> i64 {
        self.now
    }

    /// When what is written now is forgotten.
    pub(super) fn expires(self) -> i64 {
        self.now.saturating_add(i64::from(self.ttl))
    }

    /// What a round writes.
    pub(super) fn write(self, ballot: Ballot, columns: Columns) -> Write {
        Write {
            timestamp: ballot.micros(),
            ttl: self.ttl,
            expires: self.expires(),
            columns,
        }
    }
}

/// A proposal that is kept for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// It.
    pub proposal: Proposal,
    /// When it is forgotten, in seconds since 1970 (the expiry of its cells); `None`: never.
    pub expires: Option<i64>,
}

impl Kept {
    /// It, at this second.
    pub(super) fn unexpired(&self, now: i64) -> Option<&Proposal> {
        let expired = self.expires.is_some_and(|expires| now >= expires);
        (!expired).then_some(&self.proposal)
    }
}

/// A row of `system.paxos`, as it is read. What expired may be in it or not: read without regard to
/// the time (as of second 0), it makes no difference whether a compaction came by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The column `in_progress_ballot`: the last promise to an update.
    pub in_progress_ballot: Option<Ballot>,
    /// The column `in_progress_read_ballot`: the last promise to a read.
    pub in_progress_read_ballot: Option<Ballot>,
    /// The columns `proposal_ballot`, `proposal` and `proposal_version`: what was accepted last.
    pub proposal: Option<Kept>,
    /// The columns `most_recent_commit_at`, `most_recent_commit` and `most_recent_commit_version`.
    pub most_recent_commit: Option<Kept>,
}

/// What is written to a row of `system.paxos`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of its cells, in microseconds: the time of the ballot. So what is written out of order falls
    /// into order.
    pub timestamp: i64,
    /// Of its cells, in seconds.
    pub ttl: u32,
    /// When its cells expire, in seconds since 1970.
    pub expires: i64,
    /// Its cells.
    pub columns: Columns,
}

/// The columns of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// `in_progress_ballot`.
    WritePromise(Ballot),
    /// `in_progress_read_ballot`.
    ReadPromise(Ballot),
    /// `proposal_ballot`, `proposal` and `proposal_version`.
    Accepted(Proposal),
    /// `most_recent_commit_at`, `most_recent_commit` and `most_recent_commit_version`; those of
    /// [`Columns::Accepted`] are deleted, with the same timestamp and without a TTL. The update itself
    /// is applied before, or with this in one write.
    Committed(Proposal),
}
