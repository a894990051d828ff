use cluster::{Node, NodeId, Place, Transformation};
use model::Token;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn node(number: u8, place: &str) -> Node {
    let (datacenter, rack) = place.split_once('.').unwrap_or(("dc", place));
    Node {
        host_id: Uuid::from_u128(number.into()),
        address: ([10, 0, 0, number], 7000).into(),
        native_address: ([10, 0, 0, number], 9042).into(),
        place: Place {
            datacenter: datacenter.to_owned(),
            rack: rack.to_owned(),
        },
        shards: 1,
        release: "5.0.6".to_owned(),
        protocol: 1,
    }
}

/// Nodes in these racks, or `datacenter.rack`, that have joined, and as many more that are only registered.
fn topology(places: &[&str], registered: u8) -> Topology {
    let mut topology = Topology::new();
    let mut change = |transformation| {
        topology = topology.apply(&transformation).expect("it fits");
    };
    for (number, place) in places.iter().enumerate() {
        change(Transformation::Register(node(number as u8, place)));
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

/// Members that are all there. The first one leads.
fn members(voters: BTreeSet<u64>, learners: BTreeSet<u64>) -> Members {
    Members {
        leader: 0,
        ready: &voters | &learners,
        voters,
        learners,
        ..Members::default()
    }
}

impl Members {
    /// These have been silent for long.
    fn without(mut self, down: &[u64]) -> Members {
        self.down.extend(down);
        self.ready.retain(|id| !down.contains(id));
        self
    }

    /// Makes the change.
    fn make(&mut self, next: Next) {
        let before = &self.voters | &self.learners;
        match next {
            Next::Finish => self.is_joint = false,
            Next::Listen(members) => self.learners.extend(members.into_keys()),
            Next::Vote(voters) => {
                assert!(voters.is_subset(&before), "who votes has listened");
                self.learners = &before - &voters;
                self.voters = voters;
            }
            Next::Forget(gone) => self.learners.retain(|id| !gone.contains(id)),
        }
        let known = &self.voters | &self.learners;
        self.ready.extend(known.difference(&(&before | &self.down)));
    }
}

/// Who votes when there is nothing more to do.
fn settled(topology: &Topology, mut members: Members) -> BTreeSet<u64> {
    for _ in 0..20 {
        match next(topology, &members) {
            None => return members.voters,
            Some(next) => members.make(next),
        }
    }
    panic!("it has no end: {members:?}");
}

#[test]
fn everybody_hears_and_as_many_vote_as_is_of_use() {
    let one = topology(&["r"], 1);
    let alone = members(ids(0..1), BTreeSet::new());
    let Some(Next::Listen(new)) = next(&one, &alone) else {
        panic!("the registered node hears nothing");
    };
    assert_eq!(new.keys().copied().collect::<Vec<_>>(), [1]);
    // Who has no tokens yet does not vote.
    assert_eq!(next(&one, &members(ids(0..1), ids(1..2))), None);
    for (nodes, votes) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (9, 5)] {
        let topology = topology(&vec!["r"; nodes], 0);
        let voters = settled(&topology, alone.clone());
        assert_eq!(voters.len(), votes, "{nodes} nodes");
    }
}

#[test]
fn who_does_not_answer_yet_does_not_vote_yet() {
    let topology = topology(&["r", "r", "r"], 0);
    let mut listening = members(ids(0..1), ids(1..3));
    listening.ready = ids(0..2);
    // With a majority of two that is one of a node that is not there, nothing could be decided.
    assert_eq!(settled(&topology, listening.clone()), ids(0..2));
    listening.ready = ids(0..1);
    assert_eq!(next(&topology, &listening), None);
    listening.ready = ids(0..3);
    assert_eq!(settled(&topology, listening), ids(0..3));
}

#[test]
fn voters_stand_in_different_places_and_stay() {
    let four = topology(&["a", "a", "b", "c"], 0);
    let voters = settled(&four, members(ids(0..1), ids(1..4)));
    assert_eq!(voters, BTreeSet::from([0, 2, 3]));
    // Also if the others came later.
    let voters = settled(&four, members(ids(0..3), ids(3..4)));
    assert_eq!(voters, BTreeSet::from([0, 2, 3]));
    let all = topology(&["a", "a", "a", "b", "c"], 0);
    assert_eq!(next(&all, &members(ids(0..5), BTreeSet::new())), None);
    let of_a_row = topology(&["a"; 7], 0);
    assert_eq!(next(&of_a_row, &members(ids(0..5), ids(5..7))), None);
    let centers = topology(&["x.a", "x.b", "x.c", "y.a", "z.a"], 0);
    let centers = settled(&centers, members(ids(0..3), ids(3..5)));
    assert_eq!(centers, ids(0..5));
    let three = ["x.a", "x.a", "x.a", "x.b", "y.a", "y.a", "z.a"];
    let voters = settled(&topology(&three, 0), members(ids(0..5), ids(5..7)));
    assert_eq!(voters, BTreeSet::from([0, 3, 4, 5, 6]));
}

#[test]
fn who_is_silent_for_long_is_replaced() {
    let four = topology(&["a"; 4], 0);
    let of_four = members(ids(0..3), ids(3..4));
    assert_eq!(next(&four, &of_four), None);
    // Not at once.
    let mut silent = of_four.clone();
    silent.ready.remove(&2);
    assert_eq!(next(&four, &silent), None);
    let silent = of_four.clone().without(&[2]);
    assert_eq!(settled(&four, silent), BTreeSet::from([0, 1, 3]));
    // Nor by one that does not answer.
    let silent = of_four.without(&[2, 3]);
    assert_eq!(next(&four, &silent), None);
    // Who comes back finds its place taken.
    let back = members(BTreeSet::from([0, 1, 3]), BTreeSet::from([2]));
    assert_eq!(next(&four, &back), None);
}

#[test]
fn one_is_replaced_after_the_other() {
    let topology = topology(&["a"; 7], 0);
    let silent = members(ids(0..5), ids(5..7)).without(&[3, 4]);
    let first = BTreeSet::from([0, 1, 2, 4, 5]);
    assert_eq!(next(&topology, &silent), Some(Next::Vote(first)));
    assert_eq!(settled(&topology, silent), BTreeSet::from([0, 1, 2, 5, 6]));
}

#[test]
fn fewer_vote_only_if_that_bears_more() {
    let five = topology(&["a"; 5], 0);
    let all = || members(ids(0..5), BTreeSet::new());
    // Four of five bear the loss of one more, as three of three do.
    assert_eq!(next(&five, &all().without(&[4])), None);
    assert_eq!(settled(&five, all().without(&[3, 4])), ids(0..3));
    let three = topology(&["a"; 3], 0);
    let two = members(ids(0..3), BTreeSet::new()).without(&[2]);
    assert_eq!(next(&three, &two), None);
    // And all again when they are back.
    assert_eq!(settled(&five, members(ids(0..3), ids(3..5))), ids(0..5));
}

#[test]
fn a_minority_takes_nothing_into_its_hands() {
    let topology = topology(&["a"; 7], 0);
    // The node that led is cut off with one more that votes, and two that listen.
    let cut_off = members(ids(0..5), ids(5..7)).without(&[2, 3, 4]);
    assert_eq!(next(&topology, &cut_off), None);
}

#[test]
fn what_a_leader_began_that_went_is_brought_to_its_end() {
    let topology = topology(&["a"; 2], 0);
    let mut half = members(ids(0..2), BTreeSet::new());
    half.is_joint = true;
    assert_eq!(next(&topology, &half), Some(Next::Finish));
}

#[test]
fn who_is_gone_hears_nothing_any_more() {
    let topology = topology(&["a", "b", "c"], 1);
    let forgotten = topology.apply(&Transformation::Forget(NodeId(3)));
    let topology = forgotten.expect("it fits");
    let gone = Next::Forget(ids(3..4));
    assert_eq!(next(&topology, &members(ids(0..3), ids(3..4))), Some(gone));
}

proptest! {
    #[test]
    fn changes_come_to_an_end_and_keep_a_majority(
        places in prop::collection::vec(0..6usize, 1..9),
        registered in 0..3u8,
        voters in prop::collection::btree_set(0..8u64, 0..5),
        down in prop::collection::btree_set(1..8u64, 0..3),
        silent in prop::collection::btree_set(1..8u64, 0..3),
    ) {
        let names = ["x.a", "x.b", "x.c", "y.a", "y.b", "z.a"];
        let places: Vec<&str> = places.into_iter().map(|place| names[place]).collect();
        let topology = topology(&places, registered);
        let all = ids(0..places.len() as u64);
        let voters = &(&voters & &all) | &ids(0..1);
        let mut state = members(voters.clone(), &all - &voters);
        state.down = &down & &all;
        state.ready = &(&state.ready - &silent) - &down;
        let alive = |members: &Members| members.voters.difference(&members.down).count();
        let had_majority = voters.intersection(&state.ready).count() >= majority(voters.len());
        for _ in 0..20 {
            let Some(next) = next(&topology, &state) else { break };
            prop_assert!(had_majority, "a minority decided");
            let before = state.clone();
            state.make(next);
            state.ready = &state.ready - &silent;
            let answer = |voters: &BTreeSet<u64>| voters.intersection(&state.ready).count();
            for voters in [&before.voters, &state.voters] {
                prop_assert!(answer(voters) >= majority(voters.len()), "{before:?} {state:?}");
            }
            let spare = |members: &Members| alive(members) - majority(members.voters.len());
            // An even number is as good as one less.
            prop_assert!(spare(&state) >= spare(&before), "{before:?} {state:?}");
        }
        prop_assert_eq!(next(&topology, &state), None);
        prop_assert!(state.voters.contains(&0), "who leads goes on");
        let able = (&(&state.voters - &state.down) | &(&state.ready & &all)).len();
        if had_majority && able >= 3 {
            prop_assert!(state.voters.len() >= 3);
        }
    }
}
