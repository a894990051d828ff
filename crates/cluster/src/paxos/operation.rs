//! What a coordinator has done for it, and what it is told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ballot, Latencies, Proposal, Request, Update};
use crate::quorum::FailureReason;
use crate::{Consistency, NodeId};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A serial read.
    Read,
    /// A conditional update.
    Update {
        /// The level it is committed at, before the client is told that it is applied.
        commit: Consistency,
    },
}

/// When an operation is over, and how patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Until when there must be an agreement: `cas_contention_timeout` for an update,
    /// `read_request_timeout` for a read. Like [`Moment::now`].
    pub deadline: Duration,
    /// Until when the commit is waited for: `write_request_timeout`, if that is later.
    pub commit_deadline: Duration,
    /// How long such operations took of late.
    pub latencies: Latencies,
}

/// What a proposer gets of the world, each time it is told of something.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time since any moment before the operation began.
    pub now: Duration,
    /// The next timestamp of this coordinator, in microseconds since 1970: see [`Ballot::next`].
    pub micros: i64,
    /// A random number, a new one each time.
    pub random: u64,
}

/// What is to be done for a proposer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action<R> {
    /// A request is to be sent. It ends with [`super::Proposer::answer`], or with
    /// [`super::Proposer::fail`] if it cannot.
    Send {
        /// To whom, maybe to this node itself.
        to: NodeId,
        /// What.
        request: Request,
    },
    /// The replica missed a commit: a hint is to be kept for it.
    Hint {
        /// For whom.
        to: NodeId,
        /// What it missed.
        commit: Proposal,
    },
    /// What replicas have read is to be merged into one answer, the condition evaluated on it, and
    /// [`super::Proposer::decide`] called.
    Decide {
        /// The timestamp of the update is that of this ballot.
        ballot: Ballot,
        /// What was read.
        reads: Vec<(NodeId, R)>,
    },
    /// The client is to be told. The proposer is not over yet if commits are still on their way.
    Done(Verdict),
}

/// What the data that was read leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The condition holds: this is to be proposed. `None`: it changes nothing.
    Propose(Option<Update>),
    /// The condition does not hold; or it is a read. The client gets what was read.
    Answer,
}

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The update is applied.
    Applied,
    /// What the last [`Action::Decide`] brought stands: it is the answer to a read, or shows that
    /// the condition does not hold.
    AsRead,
    /// It did not work.
    Failed(Failure),
}

/// How far a failed operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of its own was accepted by anyone: it is not applied.
    Prepare,
    /// It may be applied, or become so.
    Propose,
    /// It is agreed upon; later rounds will see it.
    Commit,
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Time was up.
    Timeout,
    /// Another round came in the way after some had accepted: that may finish it, or not.
    Superseded,
    /// Too many replicas failed.
    Failures(BTreeMap<NodeId, FailureReason>),
}

/// Why there is no agreement, or none that is committed at its level.
///
/// Cassandra's v2 tells the client (`Paxos.MaybeFailure`): of a read, READ_TIMEOUT or READ_FAILURE; of
/// an update, WRITE_TIMEOUT or WRITE_FAILURE, with write type CAS in every phase. (Its v1 had write type
/// SIMPLE for the commit, and CAS_WRITE_UNKNOWN for [`Cause::Superseded`].)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How far it was.
    pub phase: Phase,
    /// Why.
    pub cause: Cause,
    /// The serial level, or that of the commit.
    pub consistency: Consistency,
    /// How many replicas have answered as was wished.
    pub received: u32,
    /// How many would have been needed.
    pub required: u32,
    /// How many attempts another round came in the way of.
    pub contentions: u32,
}
