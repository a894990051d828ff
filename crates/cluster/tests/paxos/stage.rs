//! What the tests play on: replicas, and a coordinator that is told of what the test wishes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cluster::paxos::{
    Acceptor, Action, Answer, Ballot, Decision, Failure, Latencies, Lifetime, Moment, Operation,
    Participants, Prepared, Proposal, Proposer, Request, RequestId, Row, Step, Timing, Update,
    Verdict,
};
use cluster::{Consistency, FailureReason, NodeId, Replica, ReplicationStrategy};

/// What a replica reads: the timestamps of the updates that it has.
pub(crate) type Read = Vec<i64>;

pub(crate) const A: NodeId = NodeId(0);
pub(crate) const B: NodeId = NodeId(1);
pub(crate) const C: NodeId = NodeId(2);
pub(crate) const READ: Operation = Operation::Read;
pub(crate) const UPDATE: Operation = Operation::Update {
    commit: Consistency::Quorum,
};
pub(crate) const THREE: [&str; 3] = ["dc1+", "dc1+", "dc1+"];

/// Replicas whose drives take no time.
pub(crate) struct Replicas(pub(crate) Vec<(Acceptor, Read)>);

impl Replicas {
    pub(crate) fn new(count: usize) -> Replicas {
        Replicas(vec![(Acceptor::load(Row::default()), Read::new()); count])
    }

    pub(crate) fn serve(&mut self, node: NodeId, request: &Request) -> Answer<Read> {
        let (acceptor, data) = &mut self.0[node.0 as usize];
        let lifetime = Lifetime::new(1_000, 0);
        let mut commit = |acceptor: &mut Acceptor, proposal: &Proposal| {
            data.extend(proposal.update.iter().map(|update| update.timestamp));
            data.sort_unstable();
            data.dedup();
            acceptor.committed(proposal.clone(), lifetime);
        };
        match request {
            Request::Prepare {
                ballot,
                for_write,
                read,
                commit: first,
            } => {
                first.iter().for_each(|first| commit(acceptor, first));
                match acceptor.prepare(*ballot, *for_write, lifetime).answer {
                    Prepared::Rejected(by) => Answer::Rejected(by),
                    Prepared::Permitted(permission) => {
                        acceptor.answer(permission, read.then(|| data.clone()))
                    }
                }
            }
            Request::Refresh {
                ballot,
                commit: missed,
            } => {
                commit(acceptor, missed);
                Answer::Refreshed(acceptor.confirm(*ballot))
            }
            Request::Propose(proposal) => {
                Answer::Voted(acceptor.propose(proposal.clone(), lifetime).answer)
            }
            Request::Commit(proposal) | Request::Apply(proposal) => {
                commit(acceptor, proposal);
                Answer::Committed
            }
        }
    }
}

/// Of replicas, up, down or pending: "dc1+", "dc1-", "dc1~".
pub(crate) fn participants(consistency: Consistency, members: &[&'static str]) -> Participants {
    let replica = |(i, member): (usize, &&'static str)| Replica {
        node: NodeId(i as u32),
        datacenter: &member[..3],
        alive: !member.ends_with('-'),
        pending: member.ends_with('~'),
    };
    let replicas: Vec<_> = members.iter().enumerate().map(replica).collect();
    let mut datacenters: BTreeMap<String, u32> = BTreeMap::new();
    for replica in replicas.iter().filter(|replica| !replica.pending) {
        *datacenters
            .entry(replica.datacenter.to_owned())
            .or_default() += 1;
    }
    let strategy = ReplicationStrategy::NetworkTopology { datacenters };
    Participants::new(consistency, &strategy, "dc1", &replicas).unwrap()
}

/// A proposer, and what it wants done. Its clock is its own.
pub(crate) struct Coordinator {
    pub(crate) proposer: Proposer<Read>,
    now: Duration,
    pub(crate) micros: i64,
    /// Requests that are on their way.
    pub(crate) sent: Vec<(NodeId, Request)>,
    /// For whom hints are kept.
    pub(crate) hints: Vec<NodeId>,
    /// What is to be decided on: the ballot, who was read from, and what was read.
    pub(crate) decide: Option<(Ballot, Vec<NodeId>, Read)>,
    pub(crate) verdict: Option<Verdict>,
}

impl Coordinator {
    /// `micros` is its clock, for the ballot of its first round.
    pub(crate) fn start(
        operation: Operation,
        participants: Participants,
        micros: i64,
    ) -> Coordinator {
        let timing = Timing {
            deadline: Duration::from_secs(1),
            commit_deadline: Duration::from_secs(2),
            latencies: Latencies::default(),
        };
        let moment = Moment {
            now: Duration::ZERO,
            micros,
            random: 1,
        };
        let (proposer, actions) = Proposer::start(operation, participants, timing, moment);
        let mut coordinator = Coordinator {
            proposer,
            now: Duration::ZERO,
            micros,
            sent: Vec::new(),
            hints: Vec::new(),
            decide: None,
            verdict: None,
        };
        coordinator.perform(actions);
        coordinator
    }

    pub(crate) fn perform(&mut self, actions: Vec<Action<Read>>) {
        for action in actions {
            match action {
                Action::Send { to, request } => self.sent.push((to, request)),
                Action::Hint { to, .. } => self.hints.push(to),
                Action::Decide { ballot, reads } => {
                    let from = reads.iter().map(|(node, _)| *node).collect();
                    let mut merged: Read = reads.into_iter().flat_map(|(_, read)| read).collect();
                    merged.sort_unstable();
                    merged.dedup();
                    self.decide = Some((ballot, from, merged));
                }
                Action::Done(verdict) => {
                    assert_eq!(self.verdict.replace(verdict), None, "told once");
                }
            }
        }
    }

    pub(crate) fn moment(&mut self) -> Moment {
        self.micros += 1;
        Moment {
            now: self.now,
            micros: self.micros,
            random: self.micros.cast_unsigned(),
        }
    }

    /// Takes what was sent: one kind of request at a time.
    pub(crate) fn wave(&mut self, step: Step) -> Vec<(NodeId, Request)> {
        let wave = std::mem::take(&mut self.sent);
        assert!(!wave.is_empty(), "nothing was sent");
        for (_, request) in &wave {
            assert_eq!(request.id().step, step, "{request:?}");
        }
        wave
    }

    pub(crate) fn tell(&mut self, from: NodeId, id: RequestId, answer: Answer<Read>) {
        let moment = self.moment();
        let actions = self.proposer.answer(moment, from, id, answer);
        self.perform(actions);
    }

    pub(crate) fn fail(&mut self, from: NodeId, id: RequestId) {
        let moment = self.moment();
        let reason = FailureReason::Timeout;
        let actions = self.proposer.fail(moment, from, id, reason);
        self.perform(actions);
    }

    /// One trip: these replicas get what was sent, and answer.
    pub(crate) fn trip(&mut self, step: Step, replicas: &mut Replicas, to: &[NodeId]) -> RequestId {
        let wave = self.wave(step);
        let id = wave[0].1.id();
        for (node, request) in wave {
            if to.contains(&node) {
                let answer = replicas.serve(node, &request);
                self.tell(node, id, answer);
            }
        }
        id
    }

    pub(crate) fn decide(&mut self, decision: Decision, short_read: bool) {
        assert!(self.decide.is_some(), "there is something to decide on");
        let moment = self.moment();
        let actions = self.proposer.decide(moment, decision, short_read);
        self.perform(actions);
    }

    /// The condition holds: an update with the timestamp of the ballot.
    pub(crate) fn apply(&mut self) -> i64 {
        let (ballot, ..) = self.decide.as_ref().unwrap();
        let timestamp = ballot.micros();
        let update = Update {
            timestamp,
            version: 1,
            bytes: Bytes::new(),
        };
        self.decide(Decision::Propose(Some(update)), false);
        timestamp
    }

    pub(crate) fn read(&self) -> &Read {
        &self.decide.as_ref().unwrap().2
    }

    /// Time goes on until it must be woken.
    pub(crate) fn sleep(&mut self) {
        self.now = self.proposer.wake_at();
        let moment = self.moment();
        let actions = self.proposer.wake(moment);
        self.perform(actions);
    }

    pub(crate) fn failure(&self) -> &Failure {
        match &self.verdict {
            Some(Verdict::Failed(failure)) => failure,
            other => panic!("{other:?} is no failure"),
        }
    }
}
