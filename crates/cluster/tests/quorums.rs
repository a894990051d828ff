//! Requests against replicas that answer, fail, or keep silent.

#![allow(clippy::unwrap_used)] // tests, with their helpers

use std::collections::BTreeMap;

use cluster::{
    Consistency, FailureReason, NodeId, Outcome, ReadQuorum, Replica, ReplicationStrategy,
    Unavailable, WriteQuorum, quorum_of,
};

/// `a` and `b` are replicas that are up, in the data centres `a` and `b`; capitals are down.
fn replicas(places: &str) -> Vec<Replica<'static>> {
    let replica = |(i, place): (usize, char)| Replica {
        node: NodeId(i as u32),
        datacenter: if place.eq_ignore_ascii_case(&'a') {
            "a"
        } else {
            "b"
        },
        alive: place.is_lowercase(),
        pending: false,
    };
    places.chars().enumerate().map(replica).collect()
}

const SIMPLE: ReplicationStrategy = ReplicationStrategy::Simple { factor: 3 };

/// The answers of one Cassandra 5.0.6 node for a keyspace of three replicas.
#[test]
fn one_node_of_three() {
    let here = replicas("a");
    for strategy in [SIMPLE, ReplicationStrategy::network_topology([("a", 3)])] {
        use Consistency::*;
        for consistency in [Any, One, LocalOne] {
            let write = WriteQuorum::new(consistency, &strategy, "a", &here);
            assert!(write.is_ok(), "{consistency}");
        }
        for (consistency, required) in [
            (Two, 2),
            (Three, 3),
            (Quorum, 2),
            (All, 3),
            (LocalQuorum, 2),
            (EachQuorum, 2),
            (Serial, 2),
            (LocalSerial, 2),
        ] {
            let unavailable = Unavailable {
                consistency,
                required,
                alive: 1,
            };
            let write = WriteQuorum::new(consistency, &strategy, "a", &here);
            assert_eq!(write, Err(unavailable));
            let read = ReadQuorum::new(consistency, &strategy, "a", &here);
            assert_eq!(read, Err(unavailable));
        }
    }
    let none = ReplicationStrategy::Simple { factor: 0 };
    for consistency in [Consistency::One, Consistency::Quorum, Consistency::LocalOne] {
        let error = ReadQuorum::new(consistency, &none, "a", &[]).unwrap_err();
        assert_eq!((error.required, error.alive), (1, 0));
    }
}

#[test]
fn a_quorum_is_more_than_half() {
    for (factor, quorum) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
        assert_eq!(quorum_of(factor), quorum);
    }
    let two = ReplicationStrategy::network_topology([("a", 3), ("b", 2)]);
    assert_eq!(Consistency::Quorum.block_for(&two, "a"), 3);
    assert_eq!(Consistency::LocalQuorum.block_for(&two, "b"), 2);
    assert_eq!(Consistency::EachQuorum.block_for(&two, "a"), 4);
    assert_eq!(Consistency::All.block_for(&two, "a"), 5);
}

#[test]
fn a_write_is_done_with_enough_responses() {
    let mut write = WriteQuorum::new(Consistency::Quorum, &SIMPLE, "a", &replicas("aaA")).unwrap();
    assert_eq!(write.contacts(), [NodeId(0), NodeId(1)]);
    assert_eq!(write.hints(), [NodeId(2)]);
    assert_eq!(write.respond(NodeId(0)), None);
    assert_eq!(write.respond(NodeId(0)), None, "said twice");
    assert_eq!(write.respond(NodeId(1)), Some(Outcome::Done));
    assert_eq!(write.time_out(), None, "it is over");
}

#[test]
fn a_write_fails_when_no_quorum_is_left() {
    let mut write = WriteQuorum::new(Consistency::Quorum, &SIMPLE, "a", &replicas("aaa")).unwrap();
    assert_eq!(write.fail(NodeId(0), FailureReason::Unknown), None);
    assert_eq!(write.respond(NodeId(1)), None);
    let failures = BTreeMap::from([
        (NodeId(0), FailureReason::Unknown),
        (NodeId(2), FailureReason::NodeDown),
    ]);
    let failure = Outcome::Failure {
        received: 1,
        block_for: 2,
        failures,
    };
    assert_eq!(
        write.fail(NodeId(2), FailureReason::NodeDown),
        Some(failure)
    );
}

#[test]
fn a_replica_that_is_down_may_still_come_back() {
    let mut write = WriteQuorum::new(Consistency::Quorum, &SIMPLE, "a", &replicas("aaA")).unwrap();
    assert_eq!(write.respond(NodeId(0)), None);
    assert_eq!(write.fail(NodeId(1), FailureReason::Unknown), None);
    assert_eq!(write.open().count(), 0);
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 2,
    };
    assert_eq!(write.time_out(), Some(timeout));
}

#[test]
fn replicas_that_are_late_are_no_failure() {
    let mut write = WriteQuorum::new(Consistency::Quorum, &SIMPLE, "a", &replicas("aaa")).unwrap();
    assert_eq!(write.fail(NodeId(0), FailureReason::Timeout), None);
    let timeout = Outcome::Timeout {
        received: 0,
        block_for: 2,
    };
    assert_eq!(
        write.fail(NodeId(1), FailureReason::Timeout),
        Some(timeout.clone())
    );
    let mut read = ReadQuorum::new(Consistency::Quorum, &SIMPLE, "a", &replicas("aaa")).unwrap();
    assert_eq!(read.fail(NodeId(0), FailureReason::Timeout), Some(timeout));
}

#[test]
fn a_read_that_failed_somewhere_has_failed_when_time_is_up() {
    let places = replicas("aaa");
    let mut read = ReadQuorum::new(Consistency::Quorum, &SIMPLE, "a", &places).unwrap();
    read.ask(&places[2], false);
    assert_eq!(read.fail(NodeId(1), FailureReason::ReadSize), None);
    assert_eq!(read.respond(NodeId(2)), None);
    let failure = Outcome::Failure {
        received: 1,
        block_for: 2,
        failures: BTreeMap::from([(NodeId(1), FailureReason::ReadSize)]),
    };
    assert_eq!(read.time_out(), Some(failure));
}

#[test]
fn digests_alone_are_no_answer() {
    let places = replicas("aaa");
    let mut read = ReadQuorum::new(Consistency::Quorum, &SIMPLE, "a", &places).unwrap();
    read.ask(&places[2], false);
    assert_eq!(read.respond(NodeId(1)), None);
    assert_eq!(read.respond(NodeId(2)), None, "nobody has sent data");
    assert_eq!(read.respond(NodeId(0)), Some(Outcome::Done));
}

#[test]
fn a_write_times_out() {
    let mut write = WriteQuorum::new(Consistency::All, &SIMPLE, "a", &replicas("aaa")).unwrap();
    write.respond(NodeId(0));
    let timeout = Outcome::Timeout {
        received: 1,
        block_for: 3,
    };
    assert_eq!(write.time_out(), Some(timeout));
    assert_eq!(write.respond(NodeId(1)), None);
    assert_eq!(write.respond(NodeId(2)), None, "too late");
}

#[test]
fn each_datacenter_needs_its_quorum() {
    let both = ReplicationStrategy::network_topology([("a", 3), ("b", 3)]);
    let places = replicas("aaabbb");
    let mut write = WriteQuorum::new(Consistency::EachQuorum, &both, "a", &places).unwrap();
    for node in 0..4 {
        assert_eq!(write.respond(NodeId(node)), None);
    }
    let timed_out = write.clone().time_out();
    let timeout = Outcome::Timeout {
        received: 3,
        block_for: 4,
    };
    assert_eq!(timed_out, Some(timeout));
    assert_eq!(write.respond(NodeId(4)), Some(Outcome::Done));

    let error = WriteQuorum::new(Consistency::EachQuorum, &both, "a", &replicas("aaabBB"));
    let unavailable = Unavailable {
        consistency: Consistency::EachQuorum,
        required: 2,
        alive: 1,
    };
    assert_eq!(error, Err(unavailable));
}

#[test]
fn the_other_datacenter_does_not_count_locally() {
    let both = ReplicationStrategy::network_topology([("a", 3), ("b", 3)]);
    let places = replicas("aaabbb");
    let mut write = WriteQuorum::new(Consistency::LocalQuorum, &both, "a", &places).unwrap();
    assert_eq!(write.contacts().len(), 6);
    for node in 3..6 {
        assert_eq!(write.respond(NodeId(node)), None);
    }
    assert_eq!(write.respond(NodeId(0)), None);
    assert_eq!(write.respond(NodeId(1)), Some(Outcome::Done));
    let read = ReadQuorum::new(Consistency::LocalOne, &both, "b", &places).unwrap();
    assert_eq!(read.contacts(), [NodeId(3)]);
    assert!(ReadQuorum::new(Consistency::LocalOne, &both, "b", &replicas("aaaBBB")).is_err());
}

#[test]
fn a_pending_replica_raises_what_a_write_needs() {
    let mut places = replicas("aaaa");
    places[3].pending = true;
    let mut write = WriteQuorum::new(Consistency::Quorum, &SIMPLE, "a", &places).unwrap();
    assert_eq!(write.respond(NodeId(0)), None);
    assert_eq!(write.respond(NodeId(1)), None);
    assert_eq!(write.respond(NodeId(3)), Some(Outcome::Done));
    let read = ReadQuorum::new(Consistency::All, &SIMPLE, "a", &places).unwrap();
    assert_eq!(read.contacts().len(), 3);
}

#[test]
fn a_read_asks_no_more_than_it_needs() {
    let places = replicas("aaa");
    let mut read = ReadQuorum::new(Consistency::Quorum, &SIMPLE, "a", &places).unwrap();
    assert_eq!(read.contacts(), [NodeId(0), NodeId(1)]);
    assert_eq!(read.respond(NodeId(1)), None);
    assert!(!read.data_present());
    assert!(read.may_ask(&places[2]) && !read.may_ask(&places[1]));
    read.ask(&places[2], true);
    assert_eq!(read.fail(NodeId(0), FailureReason::Timeout), None);
    assert_eq!(read.respond(NodeId(2)), Some(Outcome::Done));
}

#[test]
fn any_is_content_with_a_hint() {
    let places = replicas("AAA");
    let mut write = WriteQuorum::new(Consistency::Any, &SIMPLE, "a", &places).unwrap();
    assert!(write.contacts().is_empty());
    assert_eq!(write.hint_stored(Consistency::Any), Some(Outcome::Done));
}
