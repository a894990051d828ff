//! The second half of a round: votes for a proposal are counted (`PaxosPropose`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Ballot, Participants, Proposal};
use crate::NodeId;
use crate::quorum::FailureReason;

/// What has come of a proposal (`PaxosPropose.Status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A quorum has accepted it: it is agreed upon.
    Accepted,
    /// A higher ballot came in the way.
    Superseded {
        /// It.
        by: Ballot,
        /// May anybody have accepted it? Then others may yet finish it.
        maybe_accepted: bool,
    },
    /// Too many replicas failed.
    Failed,
}

/// Votes under way.
#[derive(Debug)]
pub(super) struct Votes {
    pub(super) proposal: Proposal,
    votes: u32,
    /// Would another attempt be no harm? Then a single refusal ends this one. If not, it is waited
    /// for as long as it can succeed, and then, as long as that may be, for the certainty that nobody
    /// has accepted it.
    may_try_again: bool,
    unanswered: BTreeSet<NodeId>,
    accepted: u32,
    /// The highest ballot that it was refused because of.
    superseded_by: Option<Ballot>,
    failures: BTreeMap<NodeId, FailureReason>,
}

impl Votes {
    pub(super) fn new(
        proposal: Proposal,
        participants: &Participants,
        may_try_again: bool,
    ) -> Votes {
        Votes {
            proposal,
            votes: participants.votes,
            may_try_again,
            unanswered: participants.voters.iter().map(|voter| voter.node).collect(),
            accepted: 0,
            superseded_by: None,
            failures: BTreeMap::new(),
        }
    }

    /// How many have accepted.
    pub(super) fn received(&self) -> u32 {
        self.accepted
    }

    pub(super) fn failures(&self) -> &BTreeMap<NodeId, FailureReason> {
        &self.failures
    }

    /// A replica has accepted, or has refused because of a ballot.
    pub(super) fn vote(&mut self, from: NodeId, refused: Option<Ballot>) -> Option<Outcome> {
        if !self.unanswered.remove(&from) {
            return None;
        }
        match refused {
            None => self.accepted += 1,
            Some(by) => {
                let known = self.superseded_by;
                self.superseded_by = Some(known.map_or(by, |known| known.latest(by)));
            }
        }
        self.outcome()
    }

    /// A replica could not answer; it may have accepted.
    pub(super) fn fail(&mut self, from: NodeId, reason: FailureReason) -> Option<Outcome> {
        if !self.unanswered.remove(&from) {
            return None;
        }
        self.failures.insert(from, reason);
        self.outcome()
    }

    /// How it stands when time is up: `None` if it still could succeed.
    pub(super) fn at_last(&self) -> Option<Outcome> {
        self.superseded().filter(|_| !self.can_succeed())
    }

    fn outcome(&self) -> Option<Outcome> {
        if self.accepted >= self.votes {
            return Some(Outcome::Accepted);
        }
        let Some(superseded) = self.superseded() else {
            return (!self.can_succeed()).then_some(Outcome::Failed);
        };
        // More answers make it no clearer.
        let clear = self.is_touched() || self.unanswered.is_empty();
        (self.may_try_again || !self.can_succeed() && clear).then_some(superseded)
    }

    fn superseded(&self) -> Option<Outcome> {
        Some(Outcome::Superseded {
            by: self.superseded_by?,
            maybe_accepted: self.is_touched() || !self.unanswered.is_empty(),
        })
    }

    fn can_succeed(&self) -> bool {
        self.accepted + self.unanswered.len() as u32 >= self.votes
    }

    /// Has anybody accepted it, or cannot say?
    fn is_touched(&self) -> bool {
        self.accepted > 0 || !self.failures.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::Scope;
    use crate::quorum::Replica;
    use crate::{Consistency, ReplicationStrategy};

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    fn votes(may_try_again: bool) -> Votes {
        let replicas: Vec<_> = (0..3)
            .map(|node| Replica {
                node: NodeId(node),
                datacenter: "dc1",
                alive: true,
                pending: false,
            })
            .collect();
        let strategy = ReplicationStrategy::Simple { factor: 3 };
        let participants =
            Participants::new(Consistency::Serial, &strategy, "dc1", &replicas).unwrap();
        Votes::new(Proposal::NONE, &participants, may_try_again)
    }

    fn ballot(micros: i64) -> Ballot {
        Ballot::at(micros, Scope::Global, 1)
    }

    fn superseded(by: i64, maybe_accepted: bool) -> Option<Outcome> {
        let by = ballot(by);
        Some(Outcome::Superseded { by, maybe_accepted })
    }

    #[test]
    fn a_quorum_accepts_whatever_the_others_say() {
        let mut votes = votes(false);
        assert_eq!(votes.vote(A, Some(ballot(9))), None);
        assert_eq!(votes.vote(B, None), None);
        assert_eq!(votes.vote(B, None), None, "one vote a replica");
        assert_eq!(votes.vote(C, None), Some(Outcome::Accepted));
    }

    #[test]
    fn what_all_refuse_nobody_has_accepted() {
        let mut votes = votes(false);
        assert_eq!(votes.vote(A, Some(ballot(8))), None);
        assert_eq!(votes.vote(B, Some(ballot(9))), None);
        assert_eq!(votes.at_last(), superseded(9, true));
        assert_eq!(votes.vote(C, Some(ballot(7))), superseded(9, false));
    }

    #[test]
    fn what_one_has_accepted_may_yet_be_finished() {
        let mut one = votes(false);
        assert_eq!(one.vote(A, None), None);
        assert_eq!(one.vote(B, Some(ballot(9))), None);
        assert_eq!(one.at_last(), None, "the third may accept");
        assert_eq!(one.vote(C, Some(ballot(8))), superseded(9, true));

        let mut silent = votes(false);
        assert_eq!(silent.vote(A, Some(ballot(9))), None);
        assert_eq!(silent.fail(B, FailureReason::Timeout), superseded(9, true));
    }

    #[test]
    fn what_can_be_tried_again_ends_with_the_first_refusal() {
        assert_eq!(votes(true).vote(A, Some(ballot(9))), superseded(9, true));
    }

    #[test]
    fn too_many_failures_are_one() {
        let mut votes = votes(false);
        assert_eq!(votes.fail(A, FailureReason::NodeDown), None);
        let failed = Some(Outcome::Failed);
        assert_eq!(votes.fail(B, FailureReason::NodeDown), failed);
        assert_eq!(votes.failures().len(), 2);
    }
}
