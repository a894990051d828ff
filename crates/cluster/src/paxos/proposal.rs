//! What is proposed, accepted and committed (`Commit`).

use bytes::Bytes;

use super::Ballot;

/// The change of a partition that a round proposes. This crate does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The smallest timestamp in it, in microseconds. What is proposed first bears the time of its
    /// ballot; proposed again, under a higher ballot, it keeps that: by this it is known again.
    pub timestamp: i64,
    /// Of the encoding of `bytes`: the columns `proposal_version` and `most_recent_commit_version`.
    pub version: i32,
    /// Itself: the columns `proposal` and `most_recent_commit`.
    pub bytes: Bytes,
}

/// An update under a ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Of the round that proposes it, not always that which proposed it first.
    pub ballot: Ballot,
    /// `None`: it changes nothing. Such a proposal is made so that none with a lower ballot can be
    /// agreed upon any more.
    pub update: Option<Update>,
}
