//! Conditional updates and serial reads (`Paxos.cas`, `Paxos.read`).
//!
//! What is asked of whom, and what follows from the answers, [`cluster::paxos::Proposer`] says; this
//! sends it, merges what replicas have read, and has the condition evaluated. When the client has its
//! answer, commits may be on their way to replicas that are slow: they are waited for in the background,
//! and who does not answer has [`missed`] one.

mod turns;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use cluster::paxos::{
    Action, Answer, Ballot, Cause, Decision, Failure, Moment, Operation, Participants, Phase,
    Proposal, Proposer, Request, RequestId, Step as PaxosStep, Timing, Verdict,
};
use cluster::{
    Consistency, FailureReason, NodeId, Outcome, ReadQuorum, Replica, ReplicationStrategy,
    Unavailable, WriteQuorum,
};
use io::{Instant, TaskGroup};
use model::{
    DecoratedKey, Mutation, PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, VersionPage,
};
use storage::{Reconciliation, Step, decode_partition_update};

use super::ask::{Answer as ReadAnswer, Asked, Read};
use super::missed::missed;
use super::replicas::{failures, replicas_of};
use super::together::Together;
use crate::error::RequestError;
use crate::flaw::Flaw;
use crate::paxos::{Ask, answer_here, ask_other, encode_update};
use crate::remote::Refusal;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
use crate::trace::{Trace, Traced};
pub(crate) use turns::SerialTurns;

/// What has become of a conditional update.
pub(crate) enum Conditional {
    /// It is done.
    Applied,
    /// Its conditions do not hold for this, which was read.
    Refused(ReadPage),
}

/// Updates a partition on conditions. `read` is what they need; `decide` gets what that has found and the
/// timestamp of the update, and gives the update, or `None` if they do not hold.
pub(crate) async fn update(
    shard: &Rc<Shard>,
    read: ReadCommand,
    (serial, commit): (Consistency, Consistency),
    time: Option<Duration>,
    trace: Traced<'_>,
    mut decide: impl FnMut(&ReadPage, Ballot) -> Result<Option<PartitionUpdate>, RequestError>,
) -> Result<Conditional, RequestError> {
    let began = shard.env.now();
    let contention = shard.timeouts.get(TimeoutKind::CasContention);
    let commit_deadline = time.unwrap_or_else(|| contention.max(shard.timeouts.write()));
    let timing = Timing {
        deadline: time.unwrap_or(contention),
        commit_deadline,
        latencies: shard.observed.serial_latencies(began),
    };
    let operation = Operation::Update { commit };
    let running = Running::start(
        shard,
        Rc::new(read),
        (operation, serial),
        (began, timing),
        trace,
    );
    let decide = |ballot: Ballot, page: &ReadPage| {
        let Some(update) = decide(page, ballot)? else {
            return Ok(Decision::Answer);
        };
        let misfit = |misfit: storage::Misfit| RequestError::invalid(misfit.to_string());
        storage::check_fits(&update).map_err(misfit)?;
        let update = encode_update(&update).map_err(misfit)?;
        Ok(Decision::Propose(update))
    };
    match running.await?.run(decide).await? {
        (Verdict::Applied, _) => Ok(Conditional::Applied),
        (Verdict::AsRead, page) => Ok(Conditional::Refused(page)),
        (Verdict::Failed(failure), _) => Err(failed(shard, operation, failure)),
    }
}

/// Reads a partition, after all updates of it that were agreed upon.
pub(super) async fn read(
    shard: &Rc<Shard>,
    command: &ReadCommand,
    consistency: Consistency,
    timeout: Duration,
    trace: Traced<'_>,
) -> Result<ReadPage, RequestError> {
    let began = shard.env.now();
    let timing = Timing {
        deadline: timeout,
        commit_deadline: timeout,
        latencies: shard.observed.serial_latencies(began),
    };
    let (operation, command) = (Operation::Read, Rc::new(command.clone()));
    let level = (operation, consistency);
    let running = Running::start(shard, command, level, (began, timing), trace);
    match running.await?.run(|_, _| Ok(Decision::Answer)).await? {
        (Verdict::Failed(failure), _) => Err(failed(shard, operation, failure)),
        (_, page) => Ok(page),
    }
}

/// What the client is told.
fn failed(shard: &Shard, operation: Operation, failure: Failure) -> RequestError {
    let outcome = match &failure.cause {
        Cause::Timeout | Cause::Superseded => Outcome::Timeout {
            received: failure.received,
            block_for: failure.required,
        },
        Cause::Failures(failures) => Outcome::Failure {
            received: failure.received,
            block_for: failure.required,
            failures: failures.clone(),
        },
    };
    RequestError::Serial {
        is_read: operation == Operation::Read,
        consistency: failure.consistency,
        contentions: failure.contentions,
        failures: failures(&outcome, &shard.metadata()),
        outcome,
    }
}

/// Can it be committed at this level, if all nodes were up? If some are not, it is found out as it is done.
fn check_commit(
    commit: Consistency,
    strategy: &ReplicationStrategy,
    data_center: &str,
    replicas: &[Replica<'_>],
) -> Result<(), Unavailable> {
    let up = |replica: &Replica<'_>| replica.alive;
    match replicas.iter().all(up) {
        true => WriteQuorum::new(commit, strategy, data_center, replicas).map(drop),
        false => Ok(()),
    }
}

type Answered = (
    NodeId,
    RequestId,
    Result<Answer<VersionPage>, FailureReason>,
);

/// An operation under way.
struct Running {
    shard: Rc<Shard>,
    key: DecoratedKey,
    /// What the client wants to be read.
    command: Rc<ReadCommand>,
    consistency: Consistency,
    began: Instant,
    timing: Timing,
    proposer: Proposer<VersionPage>,
    actions: VecDeque<Action<VersionPage>>,
    pending: Together<'static, Answered>,
    /// As long as it is held, this shard works on no other operation of the partition.
    turn: Option<turns::Turn>,
    trace: Option<Rc<Trace>>,
    /// The round whose beginning was told last.
    traced_round: Option<Ballot>,
}

impl Running {
    async fn start(
        shard: &Rc<Shard>,
        command: Rc<ReadCommand>,
        (operation, consistency): (Operation, Consistency),
        (began, timing): (Instant, Timing),
        trace: Traced<'_>,
    ) -> Result<Running, RequestError> {
        let PartitionSelection::Key(key) = command.partitions.clone() else {
            return Err(RequestError::invalid(
                "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time",
            ));
        };
        let participants = {
            let metadata = shard.metadata();
            let placement = metadata.placement(&command.table.keyspace);
            let replicas = replicas_of(shard, &metadata, placement, key.token());
            let data_center = &shard.local().data_center;
            let strategy = placement.strategy();
            let participants = Participants::new(consistency, strategy, data_center, &replicas)?;
            // Where there are not as many nodes as there are to be replicas, those that vote may be too few to
            // read from and to commit to.
            let counterpart = match consistency {
                Consistency::LocalSerial => Consistency::LocalQuorum,
                _ => Consistency::Quorum,
            };
            ReadQuorum::new(counterpart, strategy, data_center, &replicas)?;
            if let Operation::Update { commit } = operation {
                check_commit(commit, strategy, data_center, &replicas)?;
            }
            participants
        };
        let taking = turns::take(shard, command.table.id, key.key());
        let turn = shard.env.timeout(timing.deadline, taking).await;
        let late = || Failure {
            phase: Phase::Prepare,
            cause: Cause::Timeout,
            consistency,
            received: 0,
            required: participants.votes,
            contentions: 0,
        };
        let turn = turn.map_err(|_| failed(shard, operation, late()))?;
        let moment = moment(shard, began);
        let (proposer, actions) = Proposer::start(operation, participants, timing, moment);
        Ok(Running {
            shard: shard.clone(),
            key,
            command,
            consistency,
            began,
            timing,
            proposer,
            actions: actions.into(),
            pending: Together::new(),
            turn: Some(turn),
            trace: trace.cloned(),
            traced_round: None,
        })
    }

    /// Runs until the client can be told; what is left then is done in the background.
    async fn run(
        mut self,
        mut decide: impl FnMut(Ballot, &ReadPage) -> Result<Decision, RequestError>,
    ) -> Result<(Verdict, ReadPage), RequestError> {
        let mut last = ReadPage::default();
        loop {
            let mut verdict = None;
            while let Some(action) = self.actions.pop_front() {
                match action {
                    Action::Send { to, request } => self.send(to, request),
                    Action::Hint { to, commit } => self.hint(to, &commit),
                    Action::Decide { ballot, reads } => {
                        let (page, short_read) = self.merge(reads).await?;
                        let decision = decide(ballot, &page)?;
                        last = page;
                        let moment = moment(&self.shard, self.began);
                        let actions = self.proposer.decide(moment, decision, short_read);
                        self.actions.extend(actions);
                    }
                    Action::Done(told) => verdict = Some(told),
                }
            }
            if let Some(verdict) = verdict {
                self.end();
                return Ok((verdict, last));
            }
            self.step().await;
        }
    }

    /// The client is told.
    fn end(mut self) {
        let now = self.shard.env.now();
        let took = now.saturating_duration_since(self.began);
        self.shard.observed.have_agreed(took, now);
        let metrics = &self.shard.metrics;
        let contended = match self.proposer.is_read() {
            true => &metrics.contended_reads,
            false => &metrics.contended_updates,
        };
        contended.add(u64::from(self.proposer.contentions()));
        self.turn = None;
        if !self.proposer.is_over() {
            let env = self.shard.env.clone();
            env.spawn(TaskGroup::Foreground, self.finish()).detach();
        }
    }

    /// Waits for commits that are still on their way.
    async fn finish(mut self) {
        let _held = self.shard.hints.held_by_write();
        while !self.proposer.is_over() {
            self.step().await;
            while let Some(action) = self.actions.pop_front() {
                match action {
                    Action::Send { to, request } => self.send(to, request),
                    Action::Hint { to, commit } => self.hint(to, &commit),
                    Action::Decide { .. } | Action::Done(_) => {
                        debug_assert!(false, "the client was told before");
                    }
                }
            }
        }
    }

    /// Waits for the next thing to happen.
    async fn step(&mut self) {
        let now = self.shard.env.now().saturating_duration_since(self.began);
        let left = self.proposer.wake_at().saturating_sub(now);
        let pending = &mut self.pending;
        let next = async move {
            match pending.next().await {
                Some(answered) => answered,
                // There is nothing to wait for but the time.
                None => std::future::pending().await,
            }
        };
        let happened = self.shard.env.timeout(left, next).await;
        if let (Some(trace), Ok((node, id, Ok(answer)))) = (&self.trace, &happened) {
            trace.answered(*node, *id, answer);
        }
        let moment = moment(&self.shard, self.began);
        self.actions.extend(match happened {
            Ok((node, id, Ok(answer))) => self.proposer.answer(moment, node, id, answer),
            // As long as it has: the proposer knows when time is up for all.
            Ok((_, id, Err(FailureReason::Timeout))) if id.step != PaxosStep::Commit => Vec::new(),
            Ok((node, id, Err(reason))) => self.proposer.fail(moment, node, id, reason),
            Err(_) => self.proposer.wake(moment),
        });
    }

    /// Sends a request, once: who has accepted a proposal would refuse it, asked again.
    fn send(&mut self, to: NodeId, request: Request) {
        if let Some(trace) = &self.trace {
            let RequestId { ballot, step } = request.id();
            if step == PaxosStep::Prepare && self.traced_round.replace(ballot) != Some(ballot) {
                trace.preparing(ballot);
            }
            trace.asking(&request, &self.command.table, to);
        }
        let reads = matches!(request, Request::Prepare { read: true, .. });
        let read = reads.then(|| storage::command_for_replicas(&self.command));
        let limit = match &request {
            Request::Commit(_) | Request::Apply(_) => self.timing.commit_deadline,
            _ => self.timing.deadline,
        };
        let ask = Ask {
            table: self.command.table.clone(),
            key: self.key.clone(),
            request,
            read,
        };
        let (shard, deadline) = (self.shard.clone(), self.began + limit);
        let not_at_all = self.shard.state.flaw == Flaw::NoCommit
            && matches!(ask.request, Request::Commit(_) | Request::Apply(_));
        self.pending.push(async move {
            let id = ask.request.id();
            if not_at_all {
                return (to, id, Ok(Answer::Committed));
            }
            (to, id, ask_one(&shard, to, ask, deadline).await)
        });
    }

    /// A commit that a replica missed goes there later, as an ordinary write.
    fn hint(&self, to: NodeId, commit: &Proposal) {
        let Some(update) = &commit.update else { return };
        let find = |id| self.shard.store.table(id);
        match decode_partition_update(&update.bytes, update.version, &find) {
            Ok(update) => {
                let updates = vec![update];
                let written_at = commit.ballot.micros();
                missed(&self.shard, to, &Mutation { updates }, written_at);
            }
            Err(error) => tracing::error!("no hint of a commit for node {to}: {error}"),
        }
    }

    /// Merges what replicas have read; and whether some had to say more than they had said.
    async fn merge(
        &self,
        reads: Vec<(NodeId, VersionPage)>,
    ) -> Result<(ReadPage, bool), RequestError> {
        let nodes: Vec<NodeId> = reads.iter().map(|(node, _)| *node).collect();
        let mut reconciliation = Reconciliation::new(&self.command, nodes.len(), false);
        let mut first = Some(reads);
        let mut short_read = false;
        loop {
            match reconciliation.step() {
                Step::Done => return Ok((reconciliation.finish().page, short_read)),
                Step::Working => self.shard.env.maybe_yield().await,
                Step::Ask(asked) => match first.take() {
                    Some(reads) => {
                        debug_assert_eq!(asked.len(), reads.len(), "all are asked at first");
                        for (number, (_, page)) in reads.into_iter().enumerate() {
                            reconciliation.answer(number, page);
                        }
                    }
                    None => {
                        short_read = true;
                        for (number, page) in self.read_on(&nodes, asked).await? {
                            reconciliation.answer(number, page);
                        }
                    }
                },
            }
        }
    }

    /// Has replicas say more than they have said.
    async fn read_on(
        &self,
        nodes: &[NodeId],
        asked: Vec<(usize, Rc<ReadCommand>)>,
    ) -> Result<Vec<(usize, VersionPage)>, RequestError> {
        let (shard, deadline) = (&self.shard, self.began + self.timing.deadline);
        let asked = asked.into_iter();
        let reads: Vec<(usize, Read)> = asked.map(|(n, command)| (n, Read::new(command))).collect();
        let mut pending = Together::new();
        for (number, read) in &reads {
            let node = nodes[*number];
            pending.push(async move {
                let asking = read.ask(shard, node, Asked::Versions, deadline);
                (
                    *number,
                    shard.env.timeout(self.timing.deadline, asking).await,
                )
            });
        }
        let mut pages = Vec::new();
        while let Some((number, answer)) = pending.next().await {
            let reason = match answer {
                Ok(Ok(ReadAnswer::Versions(page))) => {
                    pages.push((number, page));
                    continue;
                }
                Ok(Ok(_)) => FailureReason::Unknown,
                Ok(Err(reason)) => reason,
                Err(_) => FailureReason::Timeout,
            };
            let (received, required) = (pages.len() as u32, nodes.len() as u32);
            let failure = Failure {
                phase: Phase::Prepare,
                cause: match reason {
                    FailureReason::Timeout => Cause::Timeout,
                    reason => Cause::Failures([(nodes[number], reason)].into()),
                },
                consistency: self.consistency,
                received,
                required,
                contentions: 0,
            };
            return Err(failed(shard, Operation::Read, failure));
        }
        Ok(pages)
    }
}

fn moment(shard: &Shard, began: Instant) -> Moment {
    Moment {
        now: shard.env.now().saturating_duration_since(began),
        micros: shard.timestamps.next(&shard.env),
        random: shard.env.random_u64(),
    }
}

/// Asks a replica, this node or another.
async fn ask_one(
    shard: &Rc<Shard>,
    node: NodeId,
    ask: Ask,
    deadline: Instant,
) -> Result<Answer<VersionPage>, FailureReason> {
    let answer = if node == shard.metadata().own() {
        let left = deadline.saturating_duration_since(shard.env.now());
        let answer = shard.env.timeout(left, answer_here(shard, ask)).await;
        answer.map_err(|_| FailureReason::Timeout)?
    } else {
        ask_other(shard, node, &ask, deadline).await
    };
    answer.map_err(Refusal::reason)
}
