//! What was agreed upon is committed: at the replicas that are up, and as a hint for the others
//! (`PaxosCommit`).

use std::collections::BTreeSet;

use super::{Action, Ballot, Cause, Failure, Participants, Phase, Proposal, Request, Verdict};
use crate::quorum::{FailureReason, Outcome, WriteQuorum};
use crate::{Consistency, NodeId};

/// A commit under way.
#[derive(Debug)]
pub(super) struct Commitment {
    proposal: Proposal,
    consistency: Consistency,
    quorum: WriteQuorum,
    unanswered: BTreeSet<NodeId>,
    /// Has the client been told?
    told: bool,
    /// Of the operation: the client is told.
    contentions: u32,
}

impl Commitment {
    /// Starts it. Gives what is to be sent, and the verdict if too few replicas are up.
    pub(super) fn new<R>(
        proposal: Proposal,
        consistency: Consistency,
        participants: &Participants,
        contentions: u32,
    ) -> (Commitment, Vec<Action<R>>) {
        let (quorum, outcome) = participants.commit(consistency);
        let send = |to: &NodeId| Action::Send {
            to: *to,
            request: match participants.takes_part(*to) {
                true => Request::Commit(proposal.clone()),
                false => Request::Apply(proposal.clone()),
            },
        };
        let mut actions: Vec<Action<R>> = quorum.contacts().iter().map(send).collect();
        let mut commitment = Commitment {
            told: false,
            unanswered: quorum.contacts().iter().copied().collect(),
            proposal,
            consistency,
            quorum,
            contentions,
        };
        let down = commitment.quorum.hints().iter();
        actions.extend(down.map(|to| commitment.hint::<R>(*to)));
        actions.extend(commitment.verdict(outcome));
        (commitment, actions)
    }

    /// Is it that of this ballot?
    pub(super) fn is_of(&self, ballot: Ballot) -> bool {
        self.proposal.ballot == ballot
    }

    /// Has everybody answered, and the client been told? The one may be long after the other.
    pub(super) fn is_over(&self) -> bool {
        self.told && self.unanswered.is_empty()
    }

    /// A replica has committed it.
    pub(super) fn answer<R>(&mut self, from: NodeId) -> Vec<Action<R>> {
        self.unanswered.remove(&from);
        let outcome = self.quorum.respond(from);
        self.verdict(outcome).into_iter().collect()
    }

    /// A replica could not.
    pub(super) fn fail<R>(&mut self, from: NodeId, reason: FailureReason) -> Vec<Action<R>> {
        if !self.unanswered.remove(&from) {
            return Vec::new();
        }
        let outcome = self.quorum.fail(from, reason);
        let hint = self.hint(from);
        [hint].into_iter().chain(self.verdict(outcome)).collect()
    }

    /// Time is up: those that have not answered have failed.
    pub(super) fn time_out<R>(&mut self) -> Vec<Action<R>> {
        let unanswered = std::mem::take(&mut self.unanswered);
        let outcome = self.quorum.time_out();
        let hints = unanswered.into_iter().map(|to| self.hint(to));
        let mut actions: Vec<Action<R>> = hints.collect();
        actions.extend(self.verdict(outcome));
        actions
    }

    fn hint<R>(&self, to: NodeId) -> Action<R> {
        Action::Hint {
            to,
            commit: self.proposal.clone(),
        }
    }

    /// What the client is told, once.
    fn verdict<R>(&mut self, outcome: Option<Outcome>) -> Option<Action<R>> {
        let outcome = outcome?;
        self.told = true;
        let (cause, received, required) = match outcome {
            Outcome::Done => return Some(Action::Done(Verdict::Applied)),
            Outcome::Timeout {
                received,
                block_for,
            } => (Cause::Timeout, received, block_for),
            Outcome::Failure {
                received,
                block_for,
                failures,
            } => (Cause::Failures(failures), received, block_for),
        };
        Some(Action::Done(Verdict::Failed(Failure {
            phase: Phase::Commit,
            cause,
            consistency: self.consistency,
            received,
            required,
            contentions: self.contentions,
        })))
    }
}
