//! Who takes part in agreeing on a partition (`Paxos.Participants`, `Paxos.Electorate`).

use super::Scope;
use crate::quorum::{Outcome, Replica, Unavailable, WriteQuorum, quorum_of};
use crate::{Consistency, NodeId, ReplicationStrategy};

/// A replica that votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voter {
    /// Its node.
    pub node: NodeId,
    /// Is it read from? Not if it is only becoming a replica.
    pub reads: bool,
}

/// The replicas of a partition, and those of them whose votes count: at SERIAL all, at LOCAL_SERIAL those
/// in the coordinator's data centre.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants {
    /// SERIAL or LOCAL_SERIAL.
    pub consistency: Consistency,
    /// How many votes decide: more than half of those that are replicas, and one more for each that is
    /// only becoming one. So any two quorums have a replica in common, also those of two epochs
    /// that follow each other.
    pub votes: u32,
    /// Those that vote and are up: all are asked.
    pub voters: Vec<Voter>,
    replicas: Vec<Peer>,
    strategy: ReplicationStrategy,
    datacenter: String,
}

/// [`Replica`], owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    node: NodeId,
    datacenter: String,
    alive: bool,
    pending: bool,
}

impl Peer {
    fn new(replica: &Replica<'_>) -> Peer {
        Peer {
            node: replica.node,
            datacenter: replica.datacenter.to_owned(),
            alive: replica.alive,
            pending: replica.pending,
        }
    }

    fn borrowed(&self) -> Replica<'_> {
        Replica {
            node: self.node,
            datacenter: &self.datacenter,
            alive: self.alive,
            pending: self.pending,
        }
    }
}

impl Participants {
    /// `replicas` are those of the token, pending ones too; `datacenter` is the coordinator's.
    /// `consistency` is a serial one: any other counts as SERIAL.
    pub fn new(
        consistency: Consistency,
        strategy: &ReplicationStrategy,
        datacenter: &str,
        replicas: &[Replica<'_>],
    ) -> Result<Participants, Unavailable> {
        let local = Scope::of(consistency) == Scope::Local;
        let electorate = || {
            let all = replicas.iter();
            all.filter(|replica| !local || replica.datacenter == datacenter)
        };
        let pending = electorate().filter(|replica| replica.pending).count() as u32;
        let natural = electorate().count() as u32 - pending;
        let votes = quorum_of(natural) + pending;
        let voter = |replica: &Replica<'_>| Voter {
            node: replica.node,
            reads: !replica.pending,
        };
        let voters: Vec<Voter> = electorate().filter(|r| r.alive).map(voter).collect();
        if (voters.len() as u32) < votes {
            return Err(Unavailable {
                consistency,
                required: votes,
                alive: voters.len() as u32,
            });
        }
        Ok(Participants {
            consistency,
            votes,
            voters,
            replicas: replicas.iter().map(Peer::new).collect(),
            strategy: strategy.clone(),
            datacenter: datacenter.to_owned(),
        })
    }

    /// Among whom ballots are agreed upon.
    pub(super) fn scope(&self) -> Scope {
        Scope::of(self.consistency)
    }

    /// Does this replica's note of a commit count for later rounds? Not in another data centre at
    /// LOCAL_SERIAL: rounds there know nothing of this one.
    pub(super) fn takes_part(&self, node: NodeId) -> bool {
        let peer = self.replicas.iter().find(|peer| peer.node == node);
        let local = |peer: &Peer| peer.datacenter == self.datacenter;
        self.scope() != Scope::Local || peer.is_some_and(local)
    }

    /// The quorum that a commit at `consistency` needs, of all replicas (`Participants.requiredFor`).
    pub(super) fn commit(&self, consistency: Consistency) -> (WriteQuorum, Option<Outcome>) {
        let counterpart = match self.scope() {
            Scope::Local => Consistency::LocalQuorum,
            _ => Consistency::Quorum,
        };
        let replicas: Vec<Replica<'_>> = self.replicas.iter().map(Peer::borrowed).collect();
        let agreed = (consistency == counterpart).then_some(self.votes);
        let (strategy, datacenter) = (&self.strategy, &self.datacenter);
        WriteQuorum::commit(consistency, strategy, datacenter, &replicas, agreed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas as "dc1+ dc1- dc2~": up, down, pending and up.
    fn replicas(text: &str) -> Vec<Replica<'_>> {
        let words = text.split_whitespace().enumerate();
        words
            .map(|(i, word)| Replica {
                node: NodeId(i as u32),
                datacenter: &word[..3],
                alive: !word.ends_with('-'),
                pending: word.ends_with('~'),
            })
            .collect()
    }

    fn participants(consistency: Consistency, text: &str) -> Result<Participants, Unavailable> {
        let strategy = ReplicationStrategy::network_topology([("dc1", 3), ("dc2", 3)]);
        Participants::new(consistency, &strategy, "dc1", &replicas(text))
    }

    #[test]
    fn votes_are_those_of_all_replicas_or_of_the_data_centre() {
        let both = "dc1+ dc1+ dc1- dc2+ dc2+ dc2-";
        let serial = participants(Consistency::Serial, both).unwrap();
        assert_eq!((serial.votes, serial.voters.len()), (4, 4));
        let local = participants(Consistency::LocalSerial, both).unwrap();
        assert_eq!((local.votes, local.voters.len()), (2, 2));
        assert!(local.takes_part(NodeId(2)) && !local.takes_part(NodeId(3)));
        assert!(serial.takes_part(NodeId(3)));
    }

    #[test]
    fn each_pending_replica_needs_one_vote_more_and_is_not_read_from() {
        let joining = participants(Consistency::Serial, "dc1+ dc1+ dc1+ dc1~").unwrap();
        assert_eq!(joining.votes, 3);
        let reads: Vec<bool> = joining.voters.iter().map(|voter| voter.reads).collect();
        assert_eq!(reads, [true, true, true, false]);
    }

    #[test]
    fn too_few_that_are_up_are_refused() {
        let error = participants(Consistency::Serial, "dc1+ dc1- dc1-").unwrap_err();
        let expected = Unavailable {
            consistency: Consistency::Serial,
            required: 2,
            alive: 1,
        };
        assert_eq!(error, expected);
        let remote = participants(Consistency::LocalSerial, "dc2+ dc2+ dc2+").unwrap_err();
        assert_eq!((remote.required, remote.alive), (1, 0));
    }

    #[test]
    fn a_commit_needs_its_level_and_at_quorum_no_more_than_was_agreed_by() {
        // A cluster of one has all of a keyspace that asks for more replicas.
        let alone = participants(Consistency::Serial, "dc1+").unwrap();
        let (mut quorum, outcome) = alone.commit(Consistency::Quorum);
        assert_eq!(outcome, None);
        assert_eq!(quorum.respond(NodeId(0)), Some(Outcome::Done));

        let one_down = participants(Consistency::Serial, "dc1+ dc1+ dc1-").unwrap();
        let (quorum, outcome) = one_down.commit(Consistency::All);
        assert_eq!(quorum.hints(), [NodeId(2)]);
        assert!(matches!(
            outcome,
            Some(Outcome::Failure { block_for: 6, .. })
        ));
        let (mut quorum, outcome) = one_down.commit(Consistency::One);
        assert_eq!(outcome, None);
        assert_eq!(quorum.respond(NodeId(1)), Some(Outcome::Done));
    }
}
