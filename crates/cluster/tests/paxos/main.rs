//! What a proposer does in one situation after the other. (That the answers are right whatever happens
//! is the business of the worlds in crate `sim`.)

#![allow(clippy::unwrap_used)] // tests, with their helpers

mod stage;

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::paxos::{
    Acceptor, Answer, Ballot, Cause, Decision, Failure, Operation, Participants, Phase, Proposal,
    Request, RequestId, Row, Scope, Step, Verdict,
};
use cluster::{Consistency, FailureReason, NodeId, Replica, ReplicationStrategy};

use stage::{A, B, C, Coordinator, READ, Read, Replicas, THREE, UPDATE, participants};

/// An update that all replicas hear of.
fn update(replicas: &mut Replicas, micros: i64) -> i64 {
    let mut coordinator =
        Coordinator::start(UPDATE, participants(Consistency::Serial, &THREE), micros);
    coordinator.trip(Step::Prepare, replicas, &[A, B, C]);
    let timestamp = coordinator.apply();
    coordinator.trip(Step::Propose, replicas, &[A, B, C]);
    coordinator.trip(Step::Commit, replicas, &[A, B, C]);
    assert_eq!(coordinator.verdict, Some(Verdict::Applied));
    timestamp
}

fn three(operation: Operation, micros: i64) -> Coordinator {
    Coordinator::start(operation, participants(Consistency::Serial, &THREE), micros)
}

#[test]
fn an_update_takes_two_trips_and_its_commit() {
    let mut replicas = Replicas::new(3);
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    let timestamp = coordinator.apply();
    assert_eq!(timestamp, 100, "the time of its ballot");
    coordinator.trip(Step::Propose, &mut replicas, &[B, C]);
    assert_eq!(coordinator.verdict, None, "it is committed at QUORUM first");
    coordinator.trip(Step::Commit, &mut replicas, &[A, C]);
    assert_eq!(coordinator.verdict, Some(Verdict::Applied));
    assert!(
        !coordinator.proposer.is_over(),
        "the third has not answered"
    );
    coordinator.sleep();
    assert_eq!(coordinator.hints, [B]);
    assert!(coordinator.proposer.is_over());
}

#[test]
fn a_read_takes_one_trip() {
    let mut replicas = Replicas::new(3);
    let timestamp = update(&mut replicas, 100);
    // A second one does not mind the first, even where that has a higher ballot.
    for micros in [300, 200] {
        let mut coordinator = three(READ, micros);
        coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
        assert_eq!(coordinator.read(), &[timestamp]);
        coordinator.decide(Decision::Answer, false);
        assert_eq!(coordinator.verdict, Some(Verdict::AsRead));
        assert!(coordinator.proposer.is_over());
    }
    // Nor does an update whose condition does not hold need more.
    let mut coordinator = three(UPDATE, 400);
    coordinator.trip(Step::Prepare, &mut replicas, &[B, C]);
    coordinator.decide(Decision::Answer, false);
    assert_eq!(coordinator.verdict, Some(Verdict::AsRead));
}

#[test]
fn what_somebody_has_accepted_is_finished_first() {
    let mut replicas = Replicas::new(3);
    let mut dying = three(UPDATE, 100);
    dying.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    let timestamp = dying.apply();
    dying.trip(Step::Propose, &mut replicas, &[A]);

    let mut coordinator = three(READ, 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    assert_eq!(coordinator.decide, None);
    let found = coordinator.sent[0].1.clone();
    assert!(
        matches!(&found, Request::Propose(Proposal { update: Some(update), ballot })
            if update.timestamp == timestamp && ballot.micros() == 200)
    );
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    // The commit goes ahead of the next prepare.
    coordinator.trip(Step::Prepare, &mut replicas, &[B, C]);
    assert_eq!(coordinator.read(), &[timestamp]);
    coordinator.decide(Decision::Answer, false);
    assert_eq!(coordinator.verdict, Some(Verdict::AsRead));
}

#[test]
fn what_replicas_missed_they_get_before_anything_is_proposed() {
    let mut replicas = Replicas::new(3);
    let mut first = three(UPDATE, 100);
    first.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    let timestamp = first.apply();
    first.trip(Step::Propose, &mut replicas, &[A, B]);
    first.trip(Step::Commit, &mut replicas, &[A]);

    let mut coordinator = three(UPDATE, 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, C]);
    assert_eq!(coordinator.decide, None);
    coordinator.trip(Step::Refresh, &mut replicas, &[C]);
    assert_eq!(coordinator.read(), &[timestamp]);
    assert_eq!(replicas.0[2].1, [timestamp]);

    // A read does not wait for it.
    let mut replicas = Replicas::new(3);
    let mut first = three(UPDATE, 100);
    first.trip(Step::Prepare, &mut replicas, &[A, B]);
    let timestamp = first.apply();
    first.trip(Step::Propose, &mut replicas, &[A, B]);
    first.trip(Step::Commit, &mut replicas, &[A]);
    let mut coordinator = three(READ, 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, C]);
    assert_eq!(coordinator.read(), &[timestamp]);
    coordinator.trip(Step::Refresh, &mut replicas, &[C]);
}

#[test]
fn a_commit_that_only_a_pending_replica_has_goes_ahead_of_another_round() {
    let members = ["dc1+", "dc1+", "dc1+", "dc1~"];
    let pending = NodeId(3);
    let mut replicas = Replicas::new(4);
    let serial = || participants(Consistency::Serial, &members);
    let mut first = Coordinator::start(UPDATE, serial(), 100);
    first.trip(Step::Prepare, &mut replicas, &[A, B, pending]);
    let timestamp = first.apply();
    first.trip(Step::Propose, &mut replicas, &[A, B, pending]);
    assert_eq!(first.sent.len(), 4);
    first.trip(Step::Commit, &mut replicas, &[pending]);

    // What B knew has expired; C knew nothing.
    replicas.0[1] = (Acceptor::load(Row::default()), Read::new());
    let mut coordinator = Coordinator::start(READ, serial(), 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[B, C, pending]);
    let again = coordinator.sent[0].1.clone();
    assert!(matches!(
        again,
        Request::Prepare {
            commit: Some(_),
            ..
        }
    ));
    coordinator.trip(Step::Prepare, &mut replicas, &[B, C, pending]);
    let (_, from, read) = coordinator.decide.as_ref().unwrap();
    assert_eq!((&from[..], &read[..]), (&[B, C][..], &[timestamp][..]));
}

#[test]
fn a_read_beside_an_update_ends_it() {
    let mut replicas = Replicas::new(3);
    let mut slow = three(UPDATE, 100);
    slow.trip(Step::Prepare, &mut replicas, &[A, B]);
    slow.apply();

    let mut read = three(READ, 200);
    read.trip(Step::Prepare, &mut replicas, &[B, C]);
    read.decide(Decision::Answer, false);
    let empty = read.sent[0].1.clone();
    assert!(matches!(
        empty,
        Request::Propose(Proposal { update: None, .. })
    ));
    read.trip(Step::Propose, &mut replicas, &[B, C]);
    assert_eq!(read.verdict, Some(Verdict::AsRead));

    // Only one replica accepts it: others will not find it at a quorum.
    slow.trip(Step::Propose, &mut replicas, &[A, B, C]);
    let mut later = three(READ, 300);
    later.trip(Step::Prepare, &mut replicas, &[A, C]);
    assert!(later.read().is_empty());
}

/// Cassandra takes one replica's word for it that an empty proposal has ended an update. Here another
/// has accepted that update, and the next to look would finish it.
#[test]
fn an_empty_proposal_that_one_replica_has_ends_nothing() {
    let mut replicas = Replicas::new(3);
    let mut slow = three(UPDATE, 100);
    slow.trip(Step::Prepare, &mut replicas, &[A, C]);
    slow.apply();
    let mut dying = three(READ, 200);
    dying.trip(Step::Prepare, &mut replicas, &[A, B]);
    dying.decide(Decision::Answer, false);
    dying.trip(Step::Propose, &mut replicas, &[A]);
    slow.trip(Step::Propose, &mut replicas, &[A, B, C]);
    assert_eq!(slow.failure().cause, Cause::Superseded);

    let mut read = three(READ, 300);
    read.trip(Step::Prepare, &mut replicas, &[A, B]);
    read.decide(Decision::Answer, false);
    assert_eq!(read.verdict, None);
    read.trip(Step::Propose, &mut replicas, &[A, B]);
    assert_eq!(read.verdict, Some(Verdict::AsRead));
    // Now it is ended: whoever looks, at whatever quorum, finds it so.
    let mut later = three(READ, 400);
    later.trip(Step::Prepare, &mut replicas, &[B, C]);
    assert!(later.read().is_empty());
}

#[test]
fn who_is_refused_pauses_and_comes_back_with_a_higher_ballot() {
    let mut replicas = Replicas::new(3);
    let ahead = update(&mut replicas, 5_000_000);
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A]);
    assert!(coordinator.sent.is_empty());
    let pause = coordinator.proposer.wake_at();
    assert!(pause <= Duration::from_millis(10), "{pause:?}");
    coordinator.sleep();
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    // Above what it was refused by, though its clock is behind.
    assert_eq!(coordinator.apply(), ahead + 1);
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    coordinator.trip(Step::Commit, &mut replicas, &[A, B]);
    assert_eq!(coordinator.verdict, Some(Verdict::Applied));
}

#[test]
fn who_is_refused_until_time_is_up_is_not_applied() {
    let mut coordinator = three(UPDATE, 100);
    let mut contentions = 0;
    while coordinator.verdict.is_none() {
        let wave = coordinator.wave(Step::Prepare);
        let above = Ballot::at(coordinator.micros + 10, Scope::Global, 9);
        coordinator.tell(A, wave[0].1.id(), Answer::Rejected(above));
        contentions += 1;
        if coordinator.verdict.is_none() {
            coordinator.sleep();
        }
    }
    assert!(contentions > 10);
    let expected = Failure {
        phase: Phase::Prepare,
        cause: Cause::Timeout,
        consistency: Consistency::Serial,
        received: 0,
        required: 2,
        contentions,
    };
    assert_eq!(coordinator.failure(), &expected);
    assert!(coordinator.proposer.is_over());
}

#[test]
fn what_one_replica_has_accepted_is_not_tried_again() {
    let mut replicas = Replicas::new(3);
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    coordinator.apply();
    let mut other = three(UPDATE, 200);
    other.trip(Step::Prepare, &mut replicas, &[B, C]);
    coordinator.trip(Step::Propose, &mut replicas, &[A, B, C]);
    let failure = coordinator.failure();
    assert_eq!(failure.phase, Phase::Propose);
    assert_eq!(failure.cause, Cause::Superseded);
}

#[test]
fn what_all_have_refused_is_tried_again() {
    let mut replicas = Replicas::new(3);
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    coordinator.apply();
    let timestamp = update(&mut replicas, 200);
    coordinator.trip(Step::Propose, &mut replicas, &[A, B, C]);
    assert_eq!(coordinator.verdict, None);
    coordinator.sleep();
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    assert_eq!(coordinator.read(), &[timestamp]);
}

#[test]
fn failures_say_in_which_phase_they_were() {
    let mut replicas = Replicas::new(3);
    // Nobody answers.
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A]);
    coordinator.sleep();
    let failure = coordinator.failure();
    assert_eq!(
        (failure.phase, failure.received, failure.required),
        (Phase::Prepare, 1, 2)
    );
    // Two fail.
    let mut coordinator = three(UPDATE, 200);
    let id = coordinator.trip(Step::Prepare, &mut replicas, &[]);
    coordinator.fail(A, id);
    coordinator.fail(B, id);
    let failures = BTreeMap::from([(A, FailureReason::Timeout), (B, FailureReason::Timeout)]);
    assert_eq!(coordinator.failure().cause, Cause::Failures(failures));
    // One accepts, and then nobody answers.
    let mut coordinator = three(UPDATE, 300);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    coordinator.apply();
    coordinator.trip(Step::Propose, &mut replicas, &[A]);
    coordinator.sleep();
    let failure = coordinator.failure();
    assert_eq!(failure.cause, Cause::Timeout);
    assert_eq!(
        (failure.phase, failure.received, failure.required),
        (Phase::Propose, 1, 2)
    );
}

#[test]
fn a_commit_that_too_few_have_fails_at_its_own_level() {
    let mut replicas = Replicas::new(3);
    let all = Operation::Update {
        commit: Consistency::All,
    };
    let mut coordinator = three(all, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    coordinator.apply();
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    coordinator.trip(Step::Commit, &mut replicas, &[A, B]);
    assert_eq!(coordinator.proposer.wake_at(), Duration::from_secs(2));
    coordinator.sleep();
    let expected = Failure {
        phase: Phase::Commit,
        cause: Cause::Timeout,
        consistency: Consistency::All,
        received: 2,
        required: 3,
        contentions: 0,
    };
    assert_eq!(coordinator.failure(), &expected);
    assert_eq!(coordinator.hints, [C]);

    // Who is down has failed from the beginning, and the others get it all the same.
    let one_down = participants(Consistency::Serial, &["dc1+", "dc1+", "dc1-"]);
    let mut coordinator = Coordinator::start(all, one_down, 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    coordinator.apply();
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    let failures = BTreeMap::from([(C, FailureReason::NodeDown)]);
    assert_eq!(coordinator.failure().cause, Cause::Failures(failures));
    assert_eq!(coordinator.hints, [C]);
    coordinator.trip(Step::Commit, &mut replicas, &[A, B]);
    assert!(coordinator.proposer.is_over());
}

/// Found by a world: nobody was left to answer, and nobody told the client.
#[test]
fn a_commit_that_cannot_have_its_level_ends_with_its_time() {
    let mut replicas = Replicas::new(1);
    let replica = Replica {
        node: A,
        datacenter: "dc1",
        alive: true,
        pending: false,
    };
    let strategy = ReplicationStrategy::Simple { factor: 3 };
    let alone = Participants::new(Consistency::Serial, &strategy, "dc1", &[replica]).unwrap();
    let all = Operation::Update {
        commit: Consistency::All,
    };
    let mut coordinator = Coordinator::start(all, alone, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A]);
    coordinator.apply();
    coordinator.trip(Step::Propose, &mut replicas, &[A]);
    coordinator.trip(Step::Commit, &mut replicas, &[A]);
    assert!(!coordinator.proposer.is_over());
    coordinator.sleep();
    let failure = coordinator.failure();
    assert_eq!((failure.received, failure.required), (1, 3));
    assert!(coordinator.proposer.is_over());
}

#[test]
fn another_data_centre_gets_a_local_agreement_as_a_write() {
    let mut replicas = Replicas::new(5);
    let members = ["dc1+", "dc1+", "dc1+", "dc2+", "dc2+"];
    let local = participants(Consistency::LocalSerial, &members);
    let mut coordinator = Coordinator::start(UPDATE, local, 100);
    assert_eq!(coordinator.sent.len(), 3);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    let (ballot, ..) = coordinator.decide.clone().unwrap();
    assert_eq!(ballot.scope(), Scope::Local);
    coordinator.apply();
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    let commits = coordinator.wave(Step::Commit);
    let kinds: Vec<bool> = commits
        .iter()
        .map(|(_, request)| matches!(request, Request::Commit(_)))
        .collect();
    assert_eq!(kinds, [true, true, true, false, false]);
}

#[test]
fn a_short_read_is_confirmed_by_a_round_of_its_own() {
    let mut replicas = Replicas::new(3);
    update(&mut replicas, 100);
    let mut other = three(READ, 300);
    other.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    // Only permitted to read: another round, and this time nothing but a promise will do.
    let mut read = three(READ, 200);
    read.trip(Step::Prepare, &mut replicas, &[A, B]);
    read.decide(Decision::Answer, true);
    assert_eq!(read.verdict, None);
    read.sleep();
    read.trip(Step::Prepare, &mut replicas, &[A, B]);
    read.decide(Decision::Answer, true);
    read.trip(Step::Propose, &mut replicas, &[A, B]);
    assert_eq!(read.verdict, Some(Verdict::AsRead));
}

#[test]
fn an_update_that_was_only_permitted_to_read_comes_back_at_once() {
    let mut replicas = Replicas::new(3);
    let mut read = three(READ, 300);
    read.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    let mut coordinator = three(UPDATE, 200);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    coordinator.apply();
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    assert_eq!(coordinator.apply(), 301);
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
}

#[test]
fn an_update_that_changes_nothing_is_agreed_upon_and_not_committed() {
    let mut replicas = Replicas::new(3);
    let mut coordinator = three(UPDATE, 100);
    coordinator.trip(Step::Prepare, &mut replicas, &[A, B]);
    coordinator.decide(Decision::Propose(None), false);
    coordinator.trip(Step::Propose, &mut replicas, &[A, B]);
    assert_eq!(coordinator.verdict, Some(Verdict::Applied));
    assert!(coordinator.sent.is_empty() && coordinator.proposer.is_over());
}

#[test]
fn answers_of_other_rounds_and_second_ones_do_not_count() {
    let mut replicas = Replicas::new(3);
    let mut coordinator = three(UPDATE, 100);
    let wave = coordinator.wave(Step::Prepare);
    let id = wave[0].1.id();
    let answer = replicas.serve(A, &wave[0].1);
    coordinator.tell(A, id, answer.clone());
    coordinator.tell(A, id, answer.clone());
    assert_eq!(coordinator.decide, None);
    let other = RequestId {
        ballot: Ballot::at(99, Scope::Global, 1),
        step: Step::Prepare,
    };
    coordinator.tell(B, other, answer.clone());
    coordinator.tell(
        B,
        RequestId {
            step: Step::Propose,
            ..id
        },
        answer.clone(),
    );
    assert_eq!(coordinator.decide, None);
    coordinator.tell(B, id, answer);
    assert!(coordinator.decide.is_some());
}

#[test]
fn new_replicas_are_asked_from_the_start() {
    let mut replicas = Replicas::new(4);
    let mut coordinator = three(UPDATE, 100);
    let old = coordinator.trip(Step::Prepare, &mut replicas, &[A]);
    let members = ["dc1+", "dc1+", "dc1+", "dc1~"];
    let moment = coordinator.moment();
    let joining = participants(Consistency::Serial, &members);
    let actions = coordinator.proposer.regroup(moment, joining);
    coordinator.perform(actions);
    assert_eq!(coordinator.sent.len(), 4);
    let new = coordinator.trip(Step::Prepare, &mut replicas, &[A, B, C]);
    assert_ne!(old, new);
    coordinator.apply();
    // What was proposed is not taken back.
    coordinator.wave(Step::Propose);
    let moment = coordinator.moment();
    let three = participants(Consistency::Serial, &THREE);
    assert!(coordinator.proposer.regroup(moment, three).is_empty());
}
