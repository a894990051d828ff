//! Who of the nodes decides on metadata: whoever leads sees to it that every node hears what is
//! decided, and that up to five of them vote.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{MemberState, NodeId, Topology};
use openraft::ChangeMembers;

use super::group::Group;
use crate::raft::{Member, node_id, raft_id, within};

/// How many nodes vote at most. Two of five may fail; more would make each decision slower.
const MOST: usize = 5;

/// What to change next; `None` if all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// These are to hear what is decided.
    Listen(BTreeMap<u64, Member>),
    /// These are to vote, and nobody else.
    Vote(BTreeSet<u64>),
    /// These are gone.
    Forget(BTreeSet<u64>),
}

/// Does the next thing that is to be done, if this node leads. Is there more to be done?
pub(super) async fn tend(group: &Group) -> bool {
    let env = group.env();
    let tending = async {
        let raft = group.raft();
        if !raft.is_leader() {
            return false;
        }
        let voters: BTreeSet<u64> = raft.voter_ids().collect();
        let learners: BTreeSet<u64> = raft.learner_ids().collect();
        let Some(next) = next(group.metadata().topology(), &voters, &learners) else {
            return false;
        };
        tracing::debug!("the group that decides on metadata changes: {next:?}");
        let (change, retain) = match next {
            Next::Listen(members) => (ChangeMembers::AddNodes(members), true),
            Next::Vote(voters) => (ChangeMembers::ReplaceAllVoters(voters), true),
            Next::Forget(gone) => (ChangeMembers::RemoveNodes(gone), false),
        };
        match raft.change_membership(change, retain).await {
            Ok(_) => true,
            // Another leader does it, or this one a little later.
            Err(error) => {
                tracing::debug!("changing who decides on metadata: {error}");
                false
            }
        }
    };
    within(env, tending).await
}

fn next(topology: &Topology, voters: &BTreeSet<u64>, learners: &BTreeSet<u64>) -> Option<Next> {
    let is_there = |id: &u64| {
        let member = node_id(*id).and_then(|id| topology.member(id));
        member.is_some_and(|member| member.state != MemberState::Left)
    };
    let unknown = topology.members().iter().filter(|(id, member)| {
        let id = raft_id(**id);
        member.state != MemberState::Left && !voters.contains(&id) && !learners.contains(&id)
    });
    let unknown: BTreeMap<u64, Member> = unknown
        .map(|(id, member)| {
            let address = member.node.address;
            (raft_id(*id), Member { address })
        })
        .collect();
    if !unknown.is_empty() {
        return Some(Next::Listen(unknown));
    }
    let wanted = wanted_voters(topology, voters);
    // Nobody is there yet at the very beginning.
    if !wanted.is_empty() && wanted != *voters {
        return Some(Next::Vote(wanted));
    }
    let gone: BTreeSet<u64> = learners
        .iter()
        .filter(|id| !is_there(id))
        .copied()
        .collect();
    (!gone.is_empty()).then_some(Next::Forget(gone))
}

/// How many of so many nodes vote: an even number would bear no more failures than one less, but two
/// are better than a single drive.
fn wanted_count(nodes: usize) -> usize {
    match nodes.min(MOST) {
        4 => 3,
        count => count,
    }
}

/// Those that vote and may go on; then nodes that stand where fewest of the chosen ones do.
fn wanted_voters(topology: &Topology, voters: &BTreeSet<u64>) -> BTreeSet<u64> {
    let joined: Vec<NodeId> = topology.joined().map(|(id, _)| id).collect();
    let count = wanted_count(joined.len());
    let mut chosen: Vec<NodeId> = Vec::with_capacity(count);
    let place = |id: NodeId| topology.member(id).map(|member| &member.node.place);
    while chosen.len() < count {
        let crowd = |id: &NodeId| {
            let same_place = chosen.iter().filter(|other| place(**other) == place(*id));
            let center = |id| place(id).map(|place| &place.datacenter);
            let same_center = chosen.iter().filter(|other| center(**other) == center(*id));
            let votes = voters.contains(&raft_id(*id));
            (!votes, same_center.count(), same_place.count(), *id)
        };
        let free = joined.iter().filter(|id| !chosen.contains(id));
        let Some(best) = free.min_by_key(|id| crowd(id)) else {
            break;
        };
        chosen.push(*best);
    }
    chosen.into_iter().map(raft_id).collect()
}

#[cfg(test)]
mod tests {
    use cluster::{Node, Place, Transformation};
    use model::Token;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn node(number: u8, rack: &str) -> Node {
        Node {
            host_id: Uuid::from_u128(number.into()),
            address: ([10, 0, 0, number], 7000).into(),
            native_address: ([10, 0, 0, number], 9042).into(),
            place: Place {
                datacenter: "dc".to_owned(),
                rack: rack.to_owned(),
            },
            shards: 1,
            release: "5.0.6".to_owned(),
            protocol: 1,
        }
    }

    /// Nodes in these racks that have joined, and as many more that are only registered.
    fn topology(racks: &[&str], registered: u8) -> Topology {
        let mut topology = Topology::new();
        let mut change = |transformation| {
            topology = topology.apply(&transformation).expect("it fits");
        };
        for (number, rack) in racks.iter().enumerate() {
            change(Transformation::Register(node(number as u8, rack)));
            let tokens = [Token(number as i64)].into();
            change(Transformation::JoinEmpty(NodeId(number as u32), tokens));
        }
        for number in 0..registered {
            change(Transformation::Register(node(100 + number, "r")));
        }
        topology
    }

    fn ids(range: std::ops::Range<u64>) -> BTreeSet<u64> {
        range.collect()
    }

    #[test]
    fn everybody_hears_and_as_many_vote_as_is_of_use() {
        let one = topology(&["r"], 1);
        let Some(Next::Listen(members)) = next(&one, &ids(0..1), &BTreeSet::new()) else {
            panic!("the registered node hears nothing");
        };
        assert_eq!(members.keys().copied().collect::<Vec<_>>(), [1]);
        // Who has no tokens yet does not vote.
        assert_eq!(next(&one, &ids(0..1), &ids(1..2)), None);
        for (nodes, votes) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (9, 5)] {
            let topology = topology(&vec!["r"; nodes], 0);
            let voters = wanted_voters(&topology, &ids(0..1));
            assert_eq!(voters.len(), votes, "{nodes} nodes");
        }
    }

    #[test]
    fn voters_stand_in_different_racks_and_stay() {
        let topology = topology(&["a", "a", "a", "b", "c"], 0);
        let of_four = wanted_voters(&self::topology(&["a", "a", "b", "c"], 0), &ids(0..1));
        assert_eq!(of_four, BTreeSet::from([0, 2, 3]));
        let voters = ids(0..5);
        assert_eq!(next(&topology, &voters, &BTreeSet::new()), None);
    }

    #[test]
    fn who_is_gone_hears_nothing_any_more() {
        let topology = topology(&["a", "b", "c"], 1);
        let forgotten = topology.apply(&Transformation::Forget(NodeId(3)));
        let topology = forgotten.expect("it fits");
        let gone = Next::Forget(ids(3..4));
        assert_eq!(next(&topology, &ids(0..3), &ids(3..4)), Some(gone));
    }

    proptest! {
        #[test]
        fn changes_come_to_an_end(
            racks in prop::collection::vec(0..3usize, 1..9),
            registered in 0..3u8,
        ) {
            let names = ["a", "b", "c"];
            let racks: Vec<&str> = racks.into_iter().map(|rack| names[rack]).collect();
            let topology = topology(&racks, registered);
            let (mut voters, mut learners) = (ids(0..1), BTreeSet::new());
            for _ in 0..4 {
                match next(&topology, &voters, &learners) {
                    None => break,
                    Some(Next::Listen(members)) => learners.extend(members.into_keys()),
                    Some(Next::Vote(chosen)) => {
                        let before: BTreeSet<u64> = voters.union(&learners).copied().collect();
                        prop_assert!(chosen.is_subset(&before), "who votes has listened");
                        learners = before.difference(&chosen).copied().collect();
                        voters = chosen;
                    }
                    Some(Next::Forget(gone)) => learners.retain(|id| !gone.contains(id)),
                }
            }
            prop_assert_eq!(next(&topology, &voters, &learners), None);
        }
    }
}
