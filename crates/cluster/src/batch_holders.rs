//! Which nodes keep a logged batch (`ReplicaPlans.filterBatchlogEndpointsRandom`, the strategy
//! `random_remote`).

use std::collections::BTreeMap;

use crate::NodeId;

/// How many nodes keep a batch, where there are as many.
const HOLDERS: usize = 2;

/// A member of the coordinator's data centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCandidate<'m> {
    /// The node.
    pub node: NodeId,
    /// Its rack.
    pub rack: &'m str,
    /// Is it believed to be up?
    pub alive: bool,
}

/// The nodes that keep a batch: two that are up, other than the coordinator, in other racks than its own
/// and each other's if there are such. `candidates` are all members of the data centre, the coordinator
/// among them; where they are two or one, it is those, as they are. `random` gives a number below
/// another.
///
/// None at all if the data centre has three members or more and no other of them is up.
pub fn batch_holders(
    (own, own_rack): (NodeId, &str),
    candidates: &[BatchCandidate<'_>],
    mut random: impl FnMut(usize) -> usize,
) -> Vec<NodeId> {
    if candidates.len() <= HOLDERS {
        return candidates.iter().map(|candidate| candidate.node).collect();
    }
    let mut racks: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
    for candidate in candidates {
        if candidate.alive && candidate.node != own {
            let rack = racks.entry(candidate.rack).or_default();
            rack.push(candidate.node);
        }
    }
    let all: usize = racks.values().map(Vec::len).sum();
    if all <= HOLDERS {
        return racks.into_values().flatten().collect();
    }
    let beside_it = racks.get(own_rack).map_or(0, Vec::len);
    if all - beside_it >= HOLDERS {
        racks.remove(own_rack);
    }
    let mut racks: Vec<Vec<NodeId>> = racks.into_values().collect();
    let mut take = |from: &mut Vec<NodeId>| from.swap_remove(random(from.len()));
    if let [rack] = &mut racks[..] {
        return (0..HOLDERS).map(|_| take(rack)).collect();
    }
    // One of each of two racks.
    (0..HOLDERS)
        .map(|_| {
            let mut rack = racks.swap_remove(random(racks.len()));
            rack.swap_remove(random(rack.len()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const OWN: NodeId = NodeId(0);

    /// A data centre of racks with so many nodes each; this node is the first of the first rack. All are
    /// up but those of `down`.
    fn members(racks: &[usize], down: &[u32]) -> Vec<BatchCandidate<'static>> {
        const NAMES: [&str; 4] = ["r0", "r1", "r2", "r3"];
        let racks = racks.iter().zip(NAMES);
        let places = racks.flat_map(|(count, name)| std::iter::repeat_n(name, *count));
        let members = (0..).zip(places).map(|(number, rack)| BatchCandidate {
            node: NodeId(number),
            rack,
            alive: !down.contains(&number),
        });
        members.collect()
    }

    /// Those that are ever chosen.
    fn chosen(racks: &[usize], down: &[u32]) -> BTreeSet<Vec<u32>> {
        let members = members(racks, down);
        let mut chosen = BTreeSet::new();
        for first in 0..12 {
            for second in 0..12 {
                for third in 0..12 {
                    for fourth in 0..12 {
                        let mut numbers = [first, second, third, fourth].into_iter();
                        let mut random = |below: usize| numbers.next().unwrap_or(0) % below;
                        let nodes = batch_holders((OWN, "r0"), &members, &mut random);
                        let mut nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
                        nodes.sort_unstable();
                        chosen.insert(nodes);
                    }
                }
            }
        }
        chosen
    }

    fn sets<const N: usize>(sets: [&[u32]; N]) -> BTreeSet<Vec<u32>> {
        sets.into_iter().map(<[u32]>::to_vec).collect()
    }

    #[test]
    fn one_or_two_members_keep_it_themselves() {
        assert_eq!(chosen(&[1], &[]), sets([&[0]]));
        assert_eq!(chosen(&[2], &[]), sets([&[0, 1]]));
        // As Cassandra has it: the batch waits for the one that is down, in vain.
        assert_eq!(chosen(&[1, 1], &[1]), sets([&[0, 1]]));
    }

    #[test]
    fn others_that_are_up_keep_it() {
        assert_eq!(chosen(&[3], &[]), sets([&[1, 2]]));
        assert_eq!(chosen(&[3], &[1]), sets([&[2]]));
        assert_eq!(chosen(&[2, 2], &[1, 2, 3]), sets([&[]]));
        assert_eq!(chosen(&[4], &[]), sets([&[1, 2], &[1, 3], &[2, 3]]));
    }

    #[test]
    fn other_racks_come_first() {
        assert_eq!(chosen(&[3, 2], &[]), sets([&[3, 4]]));
        assert_eq!(
            chosen(&[3, 3], &[]),
            sets([&[3, 4], &[3, 5], &[4, 5]]),
            "the only other rack"
        );
        assert_eq!(
            chosen(&[2, 2, 2], &[]),
            sets([&[2, 4], &[2, 5], &[3, 4], &[3, 5]]),
            "different ones"
        );
        assert_eq!(
            chosen(&[1, 1, 1, 1], &[]),
            sets([&[1, 2], &[1, 3], &[2, 3]])
        );
        // One of the own rack where the others do not suffice.
        assert_eq!(chosen(&[3, 2], &[4]), sets([&[1, 3], &[2, 3]]));
    }

    proptest! {
        #[test]
        fn two_others_wherever_there_are_two(
            racks in prop::collection::vec(0usize..4, 1..5),
            down in prop::collection::vec(1u32..16, 0..6),
            numbers in prop::collection::vec(any::<usize>(), 4),
        ) {
            let racks: Vec<usize> = racks.iter().enumerate().map(|(at, n)| n + usize::from(at == 0)).collect();
            let members = members(&racks, &down);
            prop_assume!(members.len() > 2);
            let mut numbers = numbers.into_iter();
            let random = |below: usize| numbers.next().unwrap_or(0) % below;
            let chosen = batch_holders((OWN, "r0"), &members, random);
            let others: Vec<_> = members.iter().filter(|m| m.alive && m.node != OWN).collect();
            prop_assert_eq!(chosen.len(), others.len().min(2));
            let distinct: BTreeSet<_> = chosen.iter().collect();
            prop_assert_eq!(distinct.len(), chosen.len());
            prop_assert!(chosen.iter().all(|node| others.iter().any(|other| other.node == *node)));
            let rack = |node: &NodeId| members[node.0 as usize].rack;
            let elsewhere: BTreeSet<_> = others.iter().map(|o| o.rack).filter(|r| *r != "r0").collect();
            if elsewhere.len() > 1 {
                let racks: BTreeSet<_> = chosen.iter().map(rack).collect();
                prop_assert!(racks.len() == 2 && !racks.contains("r0"));
            }
        }
    }
}
