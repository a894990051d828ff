//! What is proposed, accepted and committed (`Commit`).

use std::cmp::Ordering;

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

impl Proposal {
    /// What is committed where nothing is (`Committed.none`).
    pub(super) const NONE: Proposal = Proposal {
        ballot: Ballot::NONE,
        update: None,
    };

    /// Is it the update of `older`, which was proposed again? (`Commit.isReproposalOf`; that compares
    /// microseconds with the timestamps of UUIDs, and so its first two questions are always
    /// answered with no. Here they are asked as they are meant.)
    pub(super) fn is_reproposal_of(&self, older: &Proposal) -> bool {
        let (Some(update), Some(first)) = (&self.update, &older.update) else {
            return false;
        };
        let is_new = update.timestamp == self.ballot.micros();
        let same = update.timestamp == first.timestamp;
        !is_new && (same || update.timestamp == older.ballot.micros())
    }

    /// Which of two committed proposals came later; equal is also one update that was proposed under
    /// two ballots (`Commit.compareWith`).
    pub(super) fn order(&self, other: &Proposal) -> Ordering {
        if self.ballot > other.ballot && !self.is_reproposal_of(other) {
            return Ordering::Greater;
        }
        if other.ballot > self.ballot && !other.is_reproposal_of(self) {
            return Ordering::Less;
        }
        Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::Scope;

    fn proposal(ballot: i64, first_proposed: i64) -> Proposal {
        Proposal {
            ballot: Ballot::at(ballot, Scope::Global, ballot.cast_unsigned()),
            update: Some(Update {
                timestamp: first_proposed,
                version: 0,
                bytes: Bytes::new(),
            }),
        }
    }

    #[test]
    fn an_update_is_known_again_under_another_ballot() {
        let (first, again, third) = (proposal(10, 10), proposal(20, 10), proposal(30, 10));
        assert!(again.is_reproposal_of(&first));
        assert!(third.is_reproposal_of(&again));
        assert!(!first.is_reproposal_of(&first));
        assert_eq!(again.order(&first), Ordering::Equal);
        assert_eq!(first.order(&third), Ordering::Equal);
        // Deletions are one microsecond older than what comes with them.
        assert!(proposal(20, 9).is_reproposal_of(&proposal(10, 9)));

        let other = proposal(20, 20);
        assert!(!other.is_reproposal_of(&first));
        assert_eq!(other.order(&first), Ordering::Greater);
        assert_eq!(first.order(&other), Ordering::Less);
        assert_eq!(first.order(&Proposal::NONE), Ordering::Greater);
        assert_eq!(Proposal::NONE.order(&Proposal::NONE), Ordering::Equal);
    }

    #[test]
    fn what_changes_nothing_is_nothing_proposed_again() {
        let empty = Proposal {
            ballot: Ballot::at(20, Scope::Global, 1),
            update: None,
        };
        assert!(!empty.is_reproposal_of(&Proposal::NONE));
        assert!(!empty.is_reproposal_of(&proposal(10, 10)));
    }
}
