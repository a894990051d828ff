//! What a proposer asks replicas, and what they answer.

use super::{Ballot, Proposal};

/// What a replica is asked. The table, the key and the command to read with are the same for all of
/// one [`super::Proposer`]: who sends them adds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Promise to accept nothing below this ballot, say what was accepted and committed, and read
    /// (`PaxosPrepare`; with `commit` `PaxosCommitAndPrepare`).
    Prepare {
        /// Of the round that begins.
        ballot: Ballot,
        /// Is it the round of an update?
        for_write: bool,
        /// Is data read? Not by replicas that are only becoming one.
        read: bool,
        /// What is to be committed first.
        commit: Option<Proposal>,
    },
    /// Commit what was missed, and say whether the promise still holds (`PaxosPrepareRefresh`).
    Refresh {
        /// That was promised.
        ballot: Ballot,
        /// What was missed.
        commit: Proposal,
    },
    /// Accept (`PaxosPropose`).
    Propose(Proposal),
    /// It is agreed upon: apply it, and note that (`PaxosCommit`).
    Commit(Proposal),
    /// The same where the replica had no vote, in another data centre at LOCAL_SERIAL: an ordinary write
    /// (`PAXOS2_COMMIT_REMOTE_REQ`).
    Apply(Proposal),
}

/// Which request an answer is to, so that an answer that comes late is not taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Of the round.
    pub ballot: Ballot,
    /// Which of its requests.
    pub step: Step,
}

/// Each round asks a replica for each of them at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Request::Prepare`].
    Prepare,
    /// [`Request::Refresh`].
    Refresh,
    /// [`Request::Propose`].
    Propose,
    /// [`Request::Commit`] and [`Request::Apply`].
    Commit,
}

impl Request {
    /// What its answer has to name.
    pub fn id(&self) -> RequestId {
        let (ballot, step) = match self {
            Request::Prepare { ballot, .. } => (*ballot, Step::Prepare),
            Request::Refresh { ballot, .. } => (*ballot, Step::Refresh),
            Request::Propose(proposal) => (proposal.ballot, Step::Propose),
            Request::Commit(proposal) | Request::Apply(proposal) => (proposal.ballot, Step::Commit),
        };
        RequestId { ballot, step }
    }
}

/// What a replica answers; `R` is what it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    /// To [`Request::Prepare`]: no, this ballot was promised, accepted or committed before.
    Rejected(Ballot),
    /// To [`Request::Prepare`].
    Permitted(Permitted<R>),
    /// To [`Request::Refresh`]: done; if a ballot is named, the promise has been overtaken by it.
    Refreshed(Option<Ballot>),
    /// To [`Request::Propose`]: accepted; or not, because of the ballot that is named.
    Voted(Option<Ballot>),
    /// To [`Request::Commit`] and [`Request::Apply`].
    Committed,
}

/// The yes to [`Request::Prepare`] (`PaxosPrepare.Permitted`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted<R> {
    /// `None`: it is promised. A ballot: this one was promised before, to a read; nothing may be
    /// proposed, but what was read may be used.
    pub superseded_by: Option<Ballot>,
    /// What was accepted last, if it was not committed.
    pub accepted: Option<Proposal>,
    /// What was committed last.
    pub committed: Option<Proposal>,
    /// Could no update be agreed upon that this answer knows nothing of? Then what was read is as good
    /// as agreed upon.
    pub stable: bool,
    /// What was read, if that was asked for.
    pub read: Option<R>,
}
