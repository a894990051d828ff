//! How nodes that belong to no cluster yet find one, or make one together.
//!
//! A node knows its seeds. It asks them all, again and again, and says which of them is to create the
//! cluster in its eyes: the first of its seeds, as everybody's lists should be equal. Where they are
//! not, the smallest address of those that are named wins, which everybody learns as all tell each
//! other. That one creates the cluster once every other seed has agreed, or has not been heard for
//! ten seconds (as Cassandra's seeds start alone, and as those rely on that start one node after the
//! other); all others join it. Who answers that it is a member of a cluster already is joined at once.
//!
//! Two clusters may come into being only where a seed hears nothing of another for so long and their
//! lists differ, or where a seed has lost its data and cannot reach its cluster. Each cluster has an
//! identity of its own, by which they then refuse each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long the node that is to create the cluster waits for other seeds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a node says of itself to one that looks for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It belongs to a cluster.
    Member,
    /// It looks for one too.
    Looking {
        /// Who is to create it.
        creator: SocketAddr,
    },
}

/// What a node that looked for a cluster is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovered {
    /// There is one: this node is a member.
    Cluster(SocketAddr),
    /// There is none: create it.
    Nothing,
}

/// A node that looks for a cluster.
#[derive(Clone, Debug)]
pub struct Discovery {
    own: SocketAddr,
    /// The other seeds.
    seeds: Vec<SocketAddr>,
    creator: SocketAddr,
    /// What others said last, and how long this node had looked then.
    heard: BTreeMap<SocketAddr, (Standing, Duration)>,
}

impl Discovery {
    /// The node at `own`, which was told of these seeds; itself may be one. Without any it is alone.
    pub fn new(own: SocketAddr, seeds: &[SocketAddr]) -> Discovery {
        let mut others = seeds.to_vec();
        others.retain(|seed| *seed != own);
        Discovery {
            own,
            seeds: others,
            creator: seeds.first().copied().unwrap_or(own),
            heard: BTreeMap::new(),
        }
    }

    /// What it says of itself.
    pub fn standing(&self) -> Standing {
        Standing::Looking {
            creator: self.creator,
        }
    }

    /// Whom to ask.
    pub fn to_ask(&self) -> Vec<SocketAddr> {
        let mut asked = self.seeds.clone();
        if self.creator != self.own && !asked.contains(&self.creator) {
            asked.push(self.creator);
        }
        asked
    }

    /// Another node has answered, or asked, after this one had looked for so long.
    pub fn hear(&mut self, from: SocketAddr, standing: Standing, looked: Duration) {
        if let Standing::Looking { creator } = standing {
            self.creator = self.creator.min(creator);
        }
        self.heard.insert(from, (standing, looked));
    }

    /// What is known after looking for so long; `None`: go on.
    pub fn outcome(&self, looked: Duration) -> Option<Discovered> {
        let mut heard = self.heard.iter();
        if let Some((member, _)) = heard.find(|(_, (standing, _))| *standing == Standing::Member) {
            return Some(Discovered::Cluster(*member));
        }
        let creates = self.creator == self.own && self.waits_for(looked).is_empty();
        creates.then_some(Discovered::Nothing)
    }

    /// Who has to be heard of before this node goes on.
    pub fn waits_for(&self, looked: Duration) -> Vec<SocketAddr> {
        if self.creator != self.own {
            return vec![self.creator];
        }
        let awaited = |seed: &SocketAddr| {
            let (agrees, heard) = match self.heard.get(seed) {
                Some((standing, heard)) => (*standing == self.standing(), *heard),
                None => (false, Duration::ZERO),
            };
            !agrees && looked - heard < PATIENCE
        };
        let seeds = self.seeds.iter().copied();
        seeds.filter(awaited).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, number], 7000))
    }

    fn seeds(numbers: &[u8]) -> Vec<SocketAddr> {
        numbers.iter().copied().map(address).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_without_other_seeds_begins_at_once() {
        for seeds in [seeds(&[]), seeds(&[1])] {
            let alone = Discovery::new(address(1), &seeds);
            assert_eq!(alone.outcome(Duration::ZERO), Some(Discovered::Nothing));
        }
        let other = Discovery::new(address(2), &seeds(&[1]));
        assert_eq!(other.outcome(99 * PATIENCE), None);
        assert_eq!(other.waits_for(99 * PATIENCE), seeds(&[1]));
    }

    #[test]
    fn the_first_seed_waits_for_the_others_and_not_for_ever() {
        let mut first = Discovery::new(address(3), &seeds(&[3, 1]));
        assert_eq!(first.waits_for(SECOND), seeds(&[1]));
        assert_eq!(first.outcome(PATIENCE), Some(Discovered::Nothing));
        let creator = address(3);
        first.hear(address(1), Standing::Looking { creator }, SECOND);
        assert_eq!(first.outcome(SECOND), Some(Discovered::Nothing));
    }

    #[test]
    fn who_has_a_cluster_is_joined_whoever_was_to_create_one() {
        let mut first = Discovery::new(address(1), &seeds(&[1, 2]));
        first.hear(address(2), Standing::Member, SECOND);
        let found = Some(Discovered::Cluster(address(2)));
        assert_eq!(first.outcome(SECOND), found);
    }

    #[test]
    fn lists_that_differ_end_in_one_creator() {
        let mut one = Discovery::new(address(1), &seeds(&[1, 2]));
        let mut two = Discovery::new(address(2), &seeds(&[2, 1]));
        one.hear(address(2), two.standing(), SECOND);
        assert_eq!(
            one.outcome(SECOND),
            None,
            "the other one does not agree yet"
        );
        two.hear(address(1), one.standing(), SECOND);
        assert_eq!(two.outcome(SECOND), None);
        one.hear(address(2), two.standing(), SECOND);
        assert_eq!(one.outcome(SECOND), Some(Discovered::Nothing));
        assert_eq!(two.outcome(99 * PATIENCE), None);
    }

    /// One step of a story: after `wait` milliseconds a node that has been started asks another.
    type Ask = (u8, prop::sample::Index, bool, u64);

    /// Plays a story of `lists.len()` nodes, then lets all talk until each has found what it looks for.
    /// Gives how many clusters there are.
    fn clusters(lists: &[Vec<SocketAddr>], story: &[Ask]) -> usize {
        let mut now = Duration::ZERO;
        let mut nodes: Vec<Option<(Discovery, Duration, bool)>> = vec![None; lists.len()];
        let mut created = 0;
        let all = lists.len() as u8;
        let calm = (0..60u8).flat_map(|_| (0..all).map(|n| (n, true, 250u64)));
        let story = story.iter();
        let story = story.map(|(n, to, heard, wait)| (n % all, Some(to), *heard, *wait));
        let calm = calm.map(|(n, heard, wait)| (n, None, heard, wait));
        for (number, to, answered, wait) in story.chain(calm) {
            now += Duration::from_millis(wait);
            let at = usize::from(number);
            let own = address(number + 1);
            let started = || (Discovery::new(own, &lists[at]), now, false);
            let (mut asking, began, member) = nodes[at].take().unwrap_or_else(started);
            let whom = asking.to_ask();
            let whom = match to {
                Some(index) if !whom.is_empty() => vec![*index.get(&whom)],
                _ => whom,
            };
            let said = if member {
                Standing::Member
            } else {
                asking.standing()
            };
            for other in whom {
                let other = other.ip().to_string();
                let other: usize = other
                    .rsplit('.')
                    .next()
                    .and_then(|n| n.parse().ok())
                    .unwrap();
                let Some((asked, since, asked_member)) = &mut nodes[other - 1] else {
                    continue;
                };
                asked.hear(own, said, now - *since);
                let answer = if *asked_member {
                    Standing::Member
                } else {
                    asked.standing()
                };
                if answered {
                    asking.hear(address(other as u8), answer, now - began);
                }
            }
            let outcome = asking.outcome(now - began);
            created += usize::from(!member && outcome == Some(Discovered::Nothing));
            nodes[at] = Some((asking, began, member || outcome.is_some()));
        }
        assert!(
            nodes.iter().flatten().all(|(.., member)| *member),
            "all have found one"
        );
        created
    }

    fn stories() -> impl Strategy<Value = Vec<Ask>> {
        // Never so long that somebody loses patience: that is for those who are not there.
        let ask = (
            any::<u8>(),
            any::<prop::sample::Index>(),
            any::<bool>(),
            0u64..150,
        );
        prop::collection::vec(ask, 0..60)
    }

    proptest! {
        #[test]
        fn equal_lists_make_one_cluster(
            nodes in 1u8..7,
            order in Just(vec![1u8, 2, 3, 4, 5, 6]).prop_shuffle(),
            count in 1usize..4,
            story in stories(),
        ) {
            let list: Vec<u8> = order.into_iter().filter(|n| *n <= nodes).take(count).collect();
            let lists = vec![seeds(&list); usize::from(nodes)];
            prop_assert_eq!(clusters(&lists, &story), 1);
        }

        #[test]
        fn lists_of_the_same_seeds_make_one_cluster_in_any_order(
            orders in prop::collection::vec(Just(vec![1u8, 2, 3]).prop_shuffle(), 3..6),
            story in stories(),
        ) {
            let lists: Vec<_> = orders.iter().map(|order| seeds(order)).collect();
            prop_assert_eq!(clusters(&lists, &story), 1);
        }
    }
}
