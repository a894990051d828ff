//! The law of a movement: whatever two neighbouring epochs coordinators are at, a read at QUORUM
//! meets every write at QUORUM, and what is agreed upon at SERIAL meets all that was.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use cluster::paxos::Participants;
use cluster::{
    Change, Consistency, MemberState, Node, NodeId, Phase, Place, Placement, Rejected, Replica,
    Replicas, ReplicationStrategy, Topology, Transformation, allocate_tokens, quorum_of,
};
use model::Token;
use proptest::prelude::*;
use uuid::Uuid;

fn node(number: u8, rack: u8) -> Node {
    Node {
        host_id: Uuid::from_u128(u128::from(number)),
        address: SocketAddr::from(([127, 0, 0, number], 7000)),
        native_address: SocketAddr::from(([127, 0, 0, number], 9042)),
        place: Place {
            datacenter: "dc1".to_owned(),
            rack: format!("rack{rack}"),
        },
        shards: 2,
        release: "5.0.6".to_owned(),
        protocol: 1,
    }
}

/// Registers nodes in these racks.
fn registered(racks: &[u8]) -> Topology {
    let mut topology = Topology::new();
    for (number, rack) in (1..).zip(racks) {
        let register = Transformation::Register(node(number, *rack));
        topology = topology.apply(&register).unwrap();
    }
    topology
}

/// The first `joined` of these nodes have tokens.
fn cluster(racks: &[u8], joined: usize, tokens: u16) -> Topology {
    let mut topology = registered(racks);
    for id in (0..joined as u32).map(NodeId) {
        let place = &topology.member(id).unwrap().node.place;
        let own = allocate_tokens(&topology.ring(), place, tokens);
        topology = topology.apply(&Transformation::JoinEmpty(id, own)).unwrap();
    }
    topology
}

fn strategies() -> Vec<ReplicationStrategy> {
    let topology = |factor| ReplicationStrategy::network_topology([("dc1", factor)]);
    vec![
        ReplicationStrategy::Simple { factor: 1 },
        ReplicationStrategy::Simple { factor: 3 },
        topology(2),
        topology(3),
    ]
}

/// How few of the replicas that a read at QUORUM asks can have a write that was acknowledged at
/// QUORUM, at worst.
fn least_met(read: &Placement, write: &Placement, token: Token) -> usize {
    let (read_from, written) = (read.replicas(token), write.replicas(token));
    let quorum = quorum_of(read.strategy().factor()) as usize;
    let all: BTreeSet<NodeId> = written
        .natural
        .iter()
        .chain(&written.pending)
        .copied()
        .collect();
    let needed = quorum_of(write.strategy().factor()) as usize + written.pending.len();
    if needed > all.len() || quorum > read_from.natural.len() {
        // One of the two is refused as Unavailable.
        return 1;
    }
    // The read asks those first that get no write; the write misses as many of the others as it can.
    let never = read_from.natural.iter().filter(|node| !all.contains(node));
    let asked = quorum.saturating_sub(never.count());
    asked.saturating_sub(all.len() - needed)
}

/// How many votes decide at SERIAL, and whose they may be. `None`: too few replicas.
fn electorate(placement: &Placement, token: Token) -> Option<(BTreeSet<NodeId>, usize)> {
    let Replicas { natural, pending } = placement.replicas(token);
    let of = |nodes: &[NodeId], pending| -> Vec<Replica<'static>> {
        let replica = |node: &NodeId| Replica {
            node: *node,
            datacenter: "dc1",
            alive: true,
            pending,
        };
        nodes.iter().map(replica).collect()
    };
    let all = [of(natural, false), of(pending, true)].concat();
    let found = Participants::new(Consistency::Serial, placement.strategy(), "dc1", &all);
    let participants = found.ok()?;
    let voters = participants.voters.iter().map(|voter| voter.node);
    Some((voters.collect(), participants.votes as usize))
}

/// How many replicas two quorums have in common, at worst: each takes first who has no vote in the other.
fn least_shared(one: &(BTreeSet<NodeId>, usize), other: &(BTreeSet<NodeId>, usize)) -> usize {
    let both = one.0.intersection(&other.0).count();
    let within =
        |(voters, votes): &(BTreeSet<NodeId>, usize)| votes.saturating_sub(voters.len() - both);
    (within(one) + within(other)).saturating_sub(both)
}

fn check_neighbours(before: &Topology, after: &Topology) {
    let strategies = strategies();
    let of = |topology: &Topology| topology.placements(&strategies, NodeId(0));
    for (before, after) in of(before).iter().zip(&of(after)) {
        let ends = before.ranges().chain(after.ranges());
        for token in ends.map(|(end, _)| end).collect::<BTreeSet<_>>() {
            if let (Some(one), Some(other)) = (electorate(before, token), electorate(after, token))
            {
                assert!(
                    least_shared(&one, &other) > 0,
                    "{:?} at {token:?}: {one:?} and {other:?} agree without each other",
                    before.strategy(),
                );
            }
            for (read, write) in [
                (before, after),
                (after, before),
                (before, before),
                (after, after),
            ] {
                assert!(
                    least_met(read, write, token) > 0,
                    "{:?} at {token:?}: read from {:?}, written to {:?}",
                    read.strategy(),
                    read.replicas(token),
                    write.replicas(token),
                );
            }
        }
    }
}

/// A movement of some of eight nodes, the first six of which have joined.
fn changes() -> impl Strategy<Value = Vec<(u32, u8)>> {
    proptest::collection::vec((0u32..8, 0u8..4), 1..4)
}

/// As far as they fit the topology.
fn as_changes(topology: &Topology, wishes: &[(u32, u8)]) -> BTreeMap<NodeId, Change> {
    let mut changes = BTreeMap::new();
    let mut ring = topology.ring();
    for (id, kind) in wishes {
        let id = NodeId(*id);
        let member = topology.member(id).unwrap();
        let tokens = allocate_tokens(&ring, &member.node.place, 4);
        let change = match (member.state, kind) {
            (MemberState::Registered, 0) => Change::Replace(NodeId(u32::from(kind + 1))),
            (MemberState::Registered, _) => Change::Join(tokens.clone()),
            (_, 1) => Change::Move(tokens.clone()),
            _ => Change::Leave,
        };
        if matches!(change, Change::Join(_) | Change::Move(_)) {
            ring.insert(id, &member.node.place, &tokens);
        }
        changes.insert(id, change);
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Through all its phases, and back from any of them.
    #[test]
    fn a_quorum_read_meets_every_quorum_write(
        racks in proptest::collection::vec(0u8..4, 8),
        wishes in changes(),
        steps in proptest::collection::vec(any::<bool>(), 8),
    ) {
        let mut topology = cluster(&racks, 6, 4);
        let changes = as_changes(&topology, &wishes);
        let Ok(prepared) = topology.apply(&Transformation::Prepare(changes)) else {
            return Ok(());
        };
        check_neighbours(&topology, &prepared);
        topology = prepared;
        for forward in steps {
            let Some(from) = topology.movement().map(|movement| movement.phase) else {
                break;
            };
            let step = match forward {
                true => Transformation::Advance { from },
                false => Transformation::Cancel { from },
            };
            let next = topology.apply(&step).unwrap();
            check_neighbours(&topology, &next);
            topology = next;
        }
    }
}

#[test]
fn a_movement_that_is_over_leaves_the_ring_that_was_announced() {
    let before = cluster(&[0, 0, 0, 0, 0], 4, 4);
    let place = &before.member(NodeId(4)).unwrap().node.place;
    let tokens = allocate_tokens(&before.ring(), place, 4);
    let changes = BTreeMap::from([
        (NodeId(4), Change::Join(tokens.clone())),
        (NodeId(0), Change::Leave),
    ]);
    let mut topology = before
        .apply(&Transformation::Prepare(changes.clone()))
        .unwrap();
    let announced = topology.next_ring().unwrap();
    let again = topology.apply(&Transformation::Prepare(changes));
    assert_eq!(again, Err(Rejected::MovementUnderWay));
    for from in [Phase::Prepared, Phase::Writing, Phase::Reading] {
        let early = Phase::Reading;
        if from != early {
            let skipped = topology.apply(&Transformation::Advance { from: early });
            assert_eq!(skipped, Err(Rejected::NoSuchMovement));
        }
        topology = topology.apply(&Transformation::Advance { from }).unwrap();
    }
    assert_eq!(topology.ring(), announced);
    assert_eq!(topology.member(NodeId(4)).unwrap().tokens, tokens);
    assert_eq!(topology.member(NodeId(0)).unwrap().state, MemberState::Left);
    let again = topology.apply(&Transformation::Register(node(1, 0)));
    assert_eq!(again, Err(Rejected::Left(Uuid::from_u128(1))));
    let forgotten = topology.apply(&Transformation::Forget(NodeId(0))).unwrap();
    let anew = forgotten
        .apply(&Transformation::Register(node(1, 0)))
        .unwrap();
    assert_eq!(
        anew.id_of(Uuid::from_u128(1)),
        Some(NodeId(5)),
        "ids are not given twice"
    );
}

#[test]
fn a_movement_that_is_given_up_leaves_all_as_it_was() {
    let before = cluster(&[0, 0, 0, 0], 4, 4);
    let leave = Transformation::Prepare(BTreeMap::from([(NodeId(1), Change::Leave)]));
    let mut topology = before.apply(&leave).unwrap();
    for from in [Phase::Prepared, Phase::Writing] {
        topology = topology.apply(&Transformation::Advance { from }).unwrap();
    }
    for from in [Phase::Reading, Phase::Writing] {
        topology = topology.apply(&Transformation::Cancel { from }).unwrap();
    }
    assert_eq!(topology, before);
}

#[test]
fn nodes_are_who_they_were_and_where_they_were() {
    let topology = cluster(&[0, 1], 2, 4);
    let update = |node: Node| topology.apply(&Transformation::Update(NodeId(0), node));
    let moved = Node {
        address: SocketAddr::from(([127, 0, 0, 9], 7000)),
        native_address: SocketAddr::from(([127, 0, 0, 9], 9042)),
        ..node(1, 0)
    };
    let elsewhere = update(moved).unwrap();
    assert_eq!(elsewhere.id_of(Uuid::from_u128(1)), Some(NodeId(0)));
    assert_eq!(elsewhere.ring(), topology.ring());
    assert!(matches!(
        update(node(1, 7)),
        Err(Rejected::OtherPlace { .. })
    ));
    assert!(matches!(
        update(node(3, 0)),
        Err(Rejected::HostIdTaken { .. })
    ));
    let at_another = Node {
        address: node(2, 0).address,
        ..node(1, 0)
    };
    assert!(matches!(update(at_another), Err(Rejected::AddressTaken(_))));
    let copy = topology.apply(&Transformation::Register(Node {
        address: SocketAddr::from(([127, 0, 0, 9], 7000)),
        ..node(1, 0)
    }));
    let said = copy.unwrap_err().to_string();
    assert!(
        said.contains("127.0.0.1:7000: a data folder must not be copied"),
        "{said}"
    );
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let topology = cluster(&[0, 0, 0], 2, 4);
    let prepare = |changes: &[(u32, Change)]| {
        let changes = changes
            .iter()
            .map(|(id, change)| (NodeId(*id), change.clone()));
        topology.apply(&Transformation::Prepare(changes.collect()))
    };
    let taken = *topology.member(NodeId(0)).unwrap().tokens.first().unwrap();
    let join = |tokens: &[Token]| Change::Join(tokens.iter().copied().collect());
    assert_eq!(
        prepare(&[(2, join(&[taken]))]),
        Err(Rejected::TokenTaken(taken))
    );
    assert_eq!(prepare(&[(2, join(&[]))]), Err(Rejected::NoTokens));
    assert_eq!(
        prepare(&[(9, Change::Leave)]),
        Err(Rejected::Unknown(NodeId(9)))
    );
    assert_eq!(
        prepare(&[(0, Change::Leave), (1, Change::Leave)]),
        Err(Rejected::NobodyLeft)
    );
    for wrong in [
        (0, join(&[Token(5)])),
        (2, Change::Leave),
        (2, Change::Replace(NodeId(2))),
    ] {
        assert!(matches!(
            prepare(&[wrong]),
            Err(Rejected::WrongState { .. })
        ));
    }
    let twice = prepare(&[(2, Change::Replace(NodeId(0))), (0, Change::Leave)]);
    assert!(matches!(twice, Err(Rejected::WrongState { .. })));
}
