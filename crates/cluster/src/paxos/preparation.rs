//! The first half of a round: promises are collected, and with them what there is to know and to read
//! (`PaxosPrepare`).
//!
//! Two things must come together: a quorum that has promised (or permits to read), and a quorum that has
//! the last commit. Where the first is there and the second is not, the commit is sent to those
//! that missed it, and what they answer counts for the second (`PaxosPrepareRefresh`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Ballot, Participants, Permitted, Proposal};
use crate::NodeId;
use crate::quorum::FailureReason;

/// What has come of asking for promises (`PaxosPrepare.Status`).
#[derive(Debug)]
pub(super) enum Outcome<R> {
    /// What was read may be used, and if nothing has come in the way, something may be proposed.
    Permitted {
        /// Of a quorum; one of them at least has the last commit.
        reads: Vec<(NodeId, R)>,
        /// Is what was read as good as agreed upon?
        linearizable: bool,
        /// `None`: a quorum has promised. A ballot: that has come in the way, nothing may be
        /// proposed; what was read is linearizable then.
        superseded_by: Option<Ballot>,
    },
    /// This ballot has come in the way of everything.
    Superseded(Ballot),
    /// This was accepted, and nobody knows whether by a quorum: it must be proposed again.
    FoundAccepted(Proposal),
    /// This was committed, and no replica that was read from has it: everything begins again, with
    /// the commit going ahead.
    FoundCommitted(Proposal),
    /// Too many replicas failed.
    Failed,
}

/// What an answer leads to.
#[derive(Debug)]
pub(super) struct Progress<R> {
    /// These are to get [`Preparation::last_commit`], and to say whether their promise still holds.
    pub(super) refresh: Vec<NodeId>,
    /// `None`: not over yet.
    pub(super) outcome: Option<Outcome<R>>,
}

impl<R> Progress<R> {
    fn none() -> Progress<R> {
        Progress {
            refresh: Vec::new(),
            outcome: None,
        }
    }

    fn over(outcome: Outcome<R>) -> Progress<R> {
        Progress {
            refresh: Vec::new(),
            outcome: Some(outcome),
        }
    }
}

/// Promises under way.
#[derive(Debug)]
pub(super) struct Preparation<R> {
    pub(super) ballot: Ballot,
    voters: BTreeSet<NodeId>,
    votes: u32,
    /// Is it a read, to which a permission is enough?
    takes_permission: bool,
    answered: BTreeSet<NodeId>,
    failures: BTreeMap<NodeId, FailureReason>,
    reads: Vec<(NodeId, R)>,
    /// The last that anybody has accepted, and by how many.
    accepted: Option<(Proposal, u32)>,
    /// The last that anybody has committed.
    committed: Proposal,
    /// Those that have it; of a quorum of permissions, and of those refreshed.
    with_latest: BTreeSet<NodeId>,
    /// Those that do not, and were not refreshed yet.
    stale: BTreeSet<NodeId>,
    /// Was it there when one of them was read from?
    read_with_latest: bool,
    has_quorum: bool,
    /// All that were read from say that no update is under way.
    stable: bool,
    /// The ballot that made somebody permit a read, and promise nothing.
    superseded_by: Option<Ballot>,
}

impl<R> Preparation<R> {
    pub(super) fn new(
        ballot: Ballot,
        participants: &Participants,
        takes_permission: bool,
    ) -> Preparation<R> {
        Preparation {
            ballot,
            voters: participants.voters.iter().map(|voter| voter.node).collect(),
            votes: participants.votes,
            takes_permission,
            answered: BTreeSet::new(),
            failures: BTreeMap::new(),
            reads: Vec::new(),
            accepted: None,
            committed: Proposal::NONE,
            with_latest: BTreeSet::new(),
            stale: BTreeSet::new(),
            read_with_latest: false,
            has_quorum: false,
            stable: true,
            superseded_by: None,
        }
    }

    /// What was committed last.
    pub(super) fn last_commit(&self) -> &Proposal {
        &self.committed
    }

    /// How many have promised, and have the last commit.
    pub(super) fn received(&self) -> u32 {
        self.with_latest.len() as u32
    }

    pub(super) fn failures(&self) -> &BTreeMap<NodeId, FailureReason> {
        &self.failures
    }

    /// A replica has answered, to a prepare or to a refresh.
    pub(super) fn answer(&mut self, from: NodeId, answer: Answer<R>) -> Progress<R> {
        match answer {
            _ if !self.voters.contains(&from) => Progress::none(),
            Answer::Refreshed(superseded_by) => self.refreshed(from, superseded_by),
            // The first one counts.
            _ if !self.answered.insert(from) => Progress::none(),
            Answer::Rejected(by) => Progress::over(Outcome::Superseded(by)),
            Answer::Permitted(permitted) => self.permitted(from, permitted),
            Answer::Voted(_) | Answer::Committed => Progress::none(),
        }
    }

    /// A replica could not answer.
    pub(super) fn fail(&mut self, from: NodeId, reason: FailureReason) -> Progress<R> {
        if self.voters.contains(&from) {
            self.failures.insert(from, reason);
        }
        let left = self.voters.len() - self.failures.len();
        match (left as u32) < self.votes {
            true => Progress::over(Outcome::Failed),
            false => Progress::none(),
        }
    }

    fn permitted(&mut self, from: NodeId, permitted: Permitted<R>) -> Progress<R> {
        self.superseded_by = self.superseded_by.or(permitted.superseded_by);
        let committed = permitted.committed.unwrap_or(Proposal::NONE);
        let order = committed.order(&self.committed);
        if self.has_quorum {
            // Only whether it has the last commit counts now. A later one says nothing of that: it may have
            // come without this one.
            match order {
                Ordering::Equal => self.with_latest.insert(from),
                _ => self.stale.insert(from),
            };
            return self.assess();
        }
        let was_read = permitted.read.is_some();
        match order {
            Ordering::Less => {
                self.stale.insert(from);
            }
            Ordering::Equal => {
                self.with_latest.insert(from);
                self.read_with_latest |= was_read;
            }
            Ordering::Greater => {
                self.stale.append(&mut self.with_latest);
                self.with_latest.insert(from);
                self.read_with_latest = was_read;
            }
        }
        if committed.ballot > self.committed.ballot {
            self.committed = committed;
        }
        if let Some(accepted) = permitted.accepted {
            match &mut self.accepted {
                Some((known, by)) if accepted.ballot == known.ballot => *by += 1,
                Some((known, _)) if known.ballot > accepted.ballot => {}
                newest => *newest = Some((accepted, 1)),
            }
        }
        if let Some(read) = permitted.read {
            self.stable &= permitted.stable;
            self.reads.push((from, read));
        }
        self.assess()
    }

    fn refreshed(&mut self, from: NodeId, superseded_by: Option<Ballot>) -> Progress<R> {
        match superseded_by {
            // What was read stands all the same: a commit that anybody has was agreed upon, so that every
            // quorum knows of it.
            Some(by) if self.is_linearizable() => {
                self.superseded_by = Some(by);
                Progress::over(self.take())
            }
            Some(by) => Progress::over(Outcome::Superseded(by)),
            None => {
                self.with_latest.insert(from);
                match self.received() >= self.votes {
                    true => Progress::over(self.take()),
                    false => Progress::none(),
                }
            }
        }
    }

    /// What is known now?
    fn assess(&mut self) -> Progress<R> {
        self.has_quorum |= (self.with_latest.len() + self.stale.len()) as u32 >= self.votes;
        // Only what a quorum says shows which proposal came last; and that comes before any commit that was
        // missed, as it is the same one, or was proposed when a quorum had that.
        if !self.has_quorum {
            return Progress::none();
        }
        if let Some(by) = self.superseded_by
            && (!self.is_linearizable() || self.unfinished().is_some())
        {
            return Progress::over(Outcome::Superseded(by));
        }
        if let Some(accepted) = self.unfinished() {
            return Progress::over(Outcome::FoundAccepted(accepted.clone()));
        }
        if self.received() >= self.votes {
            return Progress::over(self.take());
        }
        if !self.read_with_latest {
            return Progress::over(Outcome::FoundCommitted(self.committed.clone()));
        }
        let refresh = std::mem::take(&mut self.stale).into_iter().collect();
        // A read need not wait: it proposes nothing that could get in the way of what it has seen.
        let enough = self.is_linearizable() && self.takes_permission;
        Progress {
            refresh,
            outcome: enough.then(|| self.take()),
        }
    }

    /// The proposal that must be finished. One that changes nothing need not be: if it was agreed upon
    /// nothing below it can be any more, and if not, nobody has noticed it.
    fn unfinished(&self) -> Option<&Proposal> {
        let (accepted, _) = self.accepted.as_ref()?;
        let open = accepted.update.is_some()
            && accepted.ballot > self.committed.ballot
            && !accepted.is_reproposal_of(&self.committed);
        open.then_some(accepted)
    }

    /// Is what was read as good as agreed upon? Where an empty proposal has ended what was under way,
    /// a quorum must have accepted it. (Cassandra believes a single replica. Others, which have not, may
    /// yet finish what this one takes to be ended, after a read without it.)
    fn is_linearizable(&self) -> bool {
        let ended = |(accepted, by): &(Proposal, u32)| {
            accepted.update.is_some()
                || self.committed.ballot > accepted.ballot
                || *by >= self.votes
        };
        self.stable && self.accepted.as_ref().is_none_or(ended)
    }

    fn take(&mut self) -> Outcome<R> {
        // Without a quorum of the last commit there is no promise to propose anything.
        let waits = self.received() < self.votes;
        Outcome::Permitted {
            reads: std::mem::take(&mut self.reads),
            linearizable: self.is_linearizable(),
            superseded_by: self.superseded_by.or(waits.then_some(self.ballot)),
        }
    }
}
