//! The coordinator's side: one conditional update, or one serial read (`Paxos.cas`, `Paxos.read`).
//!
//! ```text
//!  ┌──> Preparing ──── nothing in the way ───> Deciding ── what was read will do ──> Done
//!  │      │  │                                    │
//!  │      │  └─ an unfinished proposal ─┐         │ an update; or nothing, so that no other
//!  │      │                             v         v round can come before what was read
//!  │      │           commit it,     Proposing (someone else's, own, empty)
//!  ├──────┼──────── prepare again ──────┘ │ │ │
//!  │      │                               │ │ └─ own: agreed ──> Committing ──> Done
//!  │      v                               │ └─ empty: agreed ──> Done
//!  └── Pausing <───────── superseded ─────┘
//! ```

use std::time::Duration;

use super::commitment::Commitment;
use super::contention::pause;
use super::preparation::{self, Preparation};
use super::votes::{self, Votes};
use super::{
    Action, Answer, Ballot, Cause, Decision, Failure, Moment, Operation, Participants, Phase,
    Proposal, Request, RequestId, Step, Timing, Verdict,
};
use crate::NodeId;
use crate::quorum::FailureReason;

/// Whose proposal it is, and what follows if it is agreed upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The operation's own: it is committed.
    Own,
    /// Empty: the client gets what was read, or that its update, which changes nothing, is applied.
    Nothing { applied: bool },
    /// Someone else's, that was found unfinished: it is committed, and all begins again.
    Finish,
}

#[derive(Debug)]
enum Stage<R> {
    Pausing {
        until: Duration,
        above: Ballot,
    },
    Preparing(Preparation<R>),
    Deciding {
        ballot: Ballot,
        linearizable: bool,
        superseded_by: Option<Ballot>,
    },
    Proposing(Votes, Purpose),
    /// Also after the client was told, until all have answered.
    Committing(Commitment),
    Over,
}

/// A conditional update or a serial read under way.
///
/// [`Proposer::start`] begins it; then it is told of answers, of failures and, at
/// [`Proposer::wake_at`], of the time, until [`Proposer::is_over`]. A coordinator works on one operation
/// of a partition at a time (`PaxosOperationLock`), or its own rounds would come in each other's way.
#[derive(Debug)]
pub struct Proposer<R> {
    operation: Operation,
    participants: Participants,
    timing: Timing,
    contentions: u32,
    /// Is a permission to read enough? Not if more has to be read than one answer holds.
    takes_permission: bool,
    stage: Stage<R>,
}

impl<R> Proposer<R> {
    /// Begins.
    pub fn start(
        operation: Operation,
        participants: Participants,
        timing: Timing,
        moment: Moment,
    ) -> (Proposer<R>, Vec<Action<R>>) {
        let mut proposer = Proposer {
            operation,
            participants,
            timing,
            contentions: 0,
            takes_permission: operation == Operation::Read,
            stage: Stage::Over,
        };
        let actions = proposer.prepare(moment, None, None);
        (proposer, actions)
    }

    /// Is it a read?
    pub fn is_read(&self) -> bool {
        self.operation == Operation::Read
    }

    /// How many rounds others have kept from their end.
    pub fn contentions(&self) -> u32 {
        self.contentions
    }

    /// When [`Proposer::wake`] is to be called, unless something else happens first.
    pub fn wake_at(&self) -> Duration {
        match &self.stage {
            Stage::Pausing { until, .. } => *until,
            Stage::Committing(_) => self.timing.commit_deadline,
            _ => self.timing.deadline,
        }
    }

    /// Has the client been told, and is nothing on its way any more?
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// A replica has answered. What answers no request of now is ignored.
    pub fn answer(
        &mut self,
        moment: Moment,
        from: NodeId,
        id: RequestId,
        answer: Answer<R>,
    ) -> Vec<Action<R>> {
        match (&mut self.stage, id.step) {
            (Stage::Preparing(preparation), Step::Prepare | Step::Refresh)
                if preparation.ballot == id.ballot =>
            {
                let progress = preparation.answer(from, answer);
                self.prepared(moment, progress)
            }
            (Stage::Proposing(votes, _), Step::Propose) if votes.proposal.ballot == id.ballot => {
                let Answer::Voted(refused) = answer else {
                    return Vec::new();
                };
                let outcome = votes.vote(from, refused);
                outcome.map_or_else(Vec::new, |outcome| self.voted(moment, outcome))
            }
            (Stage::Committing(commitment), Step::Commit) if commitment.is_of(id.ballot) => {
                let actions = commitment.answer(from);
                self.committed(actions)
            }
            _ => Vec::new(),
        }
    }

    /// A replica cannot answer, or has not done so in the time that requests have.
    pub fn fail(
        &mut self,
        moment: Moment,
        from: NodeId,
        id: RequestId,
        reason: FailureReason,
    ) -> Vec<Action<R>> {
        match (&mut self.stage, id.step) {
            (Stage::Preparing(preparation), Step::Prepare | Step::Refresh)
                if preparation.ballot == id.ballot =>
            {
                let progress = preparation.fail(from, reason);
                self.prepared(moment, progress)
            }
            (Stage::Proposing(votes, _), Step::Propose) if votes.proposal.ballot == id.ballot => {
                let outcome = votes.fail(from, reason);
                outcome.map_or_else(Vec::new, |outcome| self.voted(moment, outcome))
            }
            (Stage::Committing(commitment), Step::Commit) if commitment.is_of(id.ballot) => {
                let actions = commitment.fail(from, reason);
                self.committed(actions)
            }
            _ => Vec::new(),
        }
    }

    /// The time has come that [`Proposer::wake_at`] gave. (Earlier, it does nothing.)
    pub fn wake(&mut self, moment: Moment) -> Vec<Action<R>> {
        if moment.now < self.wake_at() {
            return Vec::new();
        }
        match &mut self.stage {
            Stage::Pausing { above, .. } => {
                let above = *above;
                self.prepare(moment, Some(above), None)
            }
            Stage::Preparing(preparation) => {
                let received = preparation.received();
                self.failed(Phase::Prepare, Cause::Timeout, received)
            }
            Stage::Deciding { .. } => self.failed(Phase::Prepare, Cause::Timeout, 0),
            Stage::Proposing(votes, _) => match votes.at_last() {
                Some(outcome) => self.voted(moment, outcome),
                None => {
                    let received = votes.received();
                    self.failed(self.phase(), Cause::Timeout, received)
                }
            },
            Stage::Committing(commitment) => {
                let actions = commitment.time_out();
                self.committed(actions)
            }
            Stage::Over => Vec::new(),
        }
    }

    /// What the data of [`Action::Decide`] leads to. `short_read`: some replicas cut their answers off where
    /// others had more, and more had to be read than they gave (`DataResolver`'s short reads); that was
    /// at another time, and only a round of its own can tell that nothing happened in between.
    pub fn decide(
        &mut self,
        moment: Moment,
        decision: Decision,
        short_read: bool,
    ) -> Vec<Action<R>> {
        let Stage::Deciding {
            ballot,
            linearizable,
            superseded_by,
        } = self.stage
        else {
            return Vec::new();
        };
        match (decision, superseded_by) {
            (_, Some(by)) if short_read => {
                self.takes_permission = false;
                self.superseded(moment, by)
            }
            // It was only permitted to read.
            (Decision::Propose(_), Some(by)) => self.prepare(moment, Some(by), None),
            (Decision::Propose(update), None) => {
                let purpose = match update {
                    Some(_) => Purpose::Own,
                    None => Purpose::Nothing { applied: true },
                };
                self.propose(Proposal { ballot, update }, purpose)
            }
            (Decision::Answer, _) if linearizable && !short_read => self.done(Verdict::AsRead),
            (Decision::Answer, _) => {
                let nothing = Proposal {
                    ballot,
                    update: None,
                };
                self.propose(nothing, Purpose::Nothing { applied: false })
            }
        }
    }

    /// The replicas of the partition have changed: a round that nothing was proposed in begins again with
    /// those of now (`PaxosPrepare.Status.ELECTORATE_MISMATCH`).
    pub fn regroup(&mut self, moment: Moment, participants: Participants) -> Vec<Action<R>> {
        match self.stage {
            Stage::Preparing(_) | Stage::Deciding { .. } | Stage::Pausing { .. } => {
                self.participants = participants;
                self.prepare(moment, None, None)
            }
            _ => Vec::new(),
        }
    }

    /// Begins a round, with something to be committed first, if there is (`PaxosCommitAndPrepare`).
    fn prepare(
        &mut self,
        moment: Moment,
        above: Option<Ballot>,
        commit: Option<Proposal>,
    ) -> Vec<Action<R>> {
        let scope = self.participants.scope();
        let ballot = Ballot::next(moment.micros, above, scope, moment.random);
        let preparation = Preparation::new(ballot, &self.participants, self.takes_permission);
        self.stage = Stage::Preparing(preparation);
        let voters = self.participants.voters.iter();
        let prepare = voters.map(|voter| Action::Send {
            to: voter.node,
            request: Request::Prepare {
                ballot,
                for_write: self.operation != Operation::Read,
                read: voter.reads,
                commit: commit.clone(),
            },
        });
        prepare.collect()
    }

    fn prepared(&mut self, moment: Moment, progress: preparation::Progress<R>) -> Vec<Action<R>> {
        let Stage::Preparing(preparation) = &self.stage else {
            return Vec::new();
        };
        let ballot = preparation.ballot;
        let refresh = progress.refresh.into_iter().map(|to| Action::Send {
            to,
            request: Request::Refresh {
                ballot,
                commit: preparation.last_commit().clone(),
            },
        });
        let mut actions: Vec<Action<R>> = refresh.collect();
        actions.extend(match progress.outcome {
            None => return actions,
            Some(preparation::Outcome::Permitted {
                reads,
                linearizable,
                superseded_by,
            }) => {
                self.stage = Stage::Deciding {
                    ballot,
                    linearizable,
                    superseded_by,
                };
                vec![Action::Decide { ballot, reads }]
            }
            Some(preparation::Outcome::Superseded(by)) => self.superseded(moment, by),
            Some(preparation::Outcome::FoundAccepted(Proposal { update, .. })) => {
                // Its timestamp stays what it was: it is the same update, and others know it by that.
                self.propose(Proposal { ballot, update }, Purpose::Finish)
            }
            Some(preparation::Outcome::FoundCommitted(commit)) => {
                self.prepare(moment, Some(commit.ballot), Some(commit))
            }
            Some(preparation::Outcome::Failed) => {
                let cause = Cause::Failures(preparation.failures().clone());
                self.failed(Phase::Prepare, cause, preparation.received())
            }
        });
        actions
    }

    /// Another round came in the way: it gets time to finish.
    fn superseded(&mut self, moment: Moment, by: Ballot) -> Vec<Action<R>> {
        self.contentions += 1;
        let until = moment.now + pause(self.contentions, self.timing.latencies, moment.random);
        if until >= self.timing.deadline {
            return self.failed(Phase::Prepare, Cause::Timeout, 0);
        }
        self.stage = Stage::Pausing { until, above: by };
        Vec::new()
    }

    fn propose(&mut self, proposal: Proposal, purpose: Purpose) -> Vec<Action<R>> {
        let may_try_again = purpose != Purpose::Own;
        let votes = Votes::new(proposal.clone(), &self.participants, may_try_again);
        self.stage = Stage::Proposing(votes, purpose);
        let voters = self.participants.voters.iter();
        let propose = voters.map(|voter| Action::Send {
            to: voter.node,
            request: Request::Propose(proposal.clone()),
        });
        propose.collect()
    }

    fn voted(&mut self, moment: Moment, outcome: votes::Outcome) -> Vec<Action<R>> {
        let Stage::Proposing(votes, purpose) = &self.stage else {
            return Vec::new();
        };
        match (outcome, *purpose) {
            (votes::Outcome::Accepted, Purpose::Own) => {
                let proposal = votes.proposal.clone();
                self.commit(proposal)
            }
            (votes::Outcome::Accepted, Purpose::Nothing { applied: true }) => {
                self.done(Verdict::Applied)
            }
            (votes::Outcome::Accepted, Purpose::Nothing { applied: false }) => {
                self.done(Verdict::AsRead)
            }
            (votes::Outcome::Accepted, Purpose::Finish) => {
                let commit = votes.proposal.clone();
                self.prepare(moment, Some(commit.ballot), Some(commit))
            }
            (votes::Outcome::Superseded { maybe_accepted, .. }, Purpose::Own) if maybe_accepted => {
                self.failed(Phase::Propose, Cause::Superseded, 0)
            }
            (votes::Outcome::Superseded { by, .. }, _) => self.superseded(moment, by),
            (votes::Outcome::Failed, _) => {
                let cause = Cause::Failures(votes.failures().clone());
                self.failed(self.phase(), cause, votes.received())
            }
        }
    }

    /// Where it fails now: whether anything of its own may be left behind.
    fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Proposing(_, Purpose::Own) => Phase::Propose,
            _ => Phase::Prepare,
        }
    }

    fn commit(&mut self, proposal: Proposal) -> Vec<Action<R>> {
        let Operation::Update { commit } = self.operation else {
            return Vec::new();
        };
        let (commitment, sends) =
            Commitment::new(proposal, commit, &self.participants, self.contentions);
        self.stage = Stage::Committing(commitment);
        sends
    }

    /// What has become of a commit.
    fn committed(&mut self, actions: Vec<Action<R>>) -> Vec<Action<R>> {
        if let Stage::Committing(commitment) = &self.stage
            && commitment.is_over()
        {
            self.stage = Stage::Over;
        }
        actions
    }

    fn failed(&mut self, phase: Phase, cause: Cause, received: u32) -> Vec<Action<R>> {
        let failure = Failure {
            phase,
            cause,
            consistency: self.participants.consistency,
            received,
            required: self.participants.votes,
            contentions: self.contentions,
        };
        self.done(Verdict::Failed(failure))
    }

    fn done(&mut self, verdict: Verdict) -> Vec<Action<R>> {
        self.stage = Stage::Over;
        vec![Action::Done(verdict)]
    }
}
