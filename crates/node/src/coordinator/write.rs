//! Writing to replicas on other nodes (`StorageProxy.mutate`, `AbstractWriteResponseHandler`).
//!
//! All replicas that are up get the write at once. The client is told when as many have it as its level
//! asks for; the others are waited for in the background, until the time of a write is up. Whoever does
//! not have it then, or is down, has [`missed`] it.

use std::rc::Rc;
use std::time::Duration;

use cluster::{Consistency, FailureReason, NodeId, Outcome, WriteQuorum};
use io::{Instant, TaskGroup, oneshot};
use model::Mutation;
use wire::WriteType;

use super::ask::{Unwritten, Write};
use super::missed::missed;
use super::relay::{self, Relay};
use super::replicas::{failures, replicas_of};
use super::together::Together;
use crate::error::RequestError;
use crate::hints::{self, Kept};
use crate::metadata::Metadata;
use crate::remote::Refusal;
use crate::shard::Shard;
use crate::trace::{Trace, Traced};

/// Writes to all replicas; returns when as many have it as the level asks for, or the time is up.
pub(super) async fn write(
    shard: &Rc<Shard>,
    mutation: Mutation,
    (consistency, write_type): (Consistency, WriteType),
    time: Duration,
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let misfit = mutation.updates.iter().map(storage::check_fits);
    let misfit = misfit.collect::<Result<(), _>>();
    misfit.map_err(|misfit| RequestError::invalid(misfit.to_string()))?;
    let metadata = shard.metadata();
    let placement = metadata.placement(&mutation.updates[0].table.keyspace);
    let replicas = replicas_of(shard, &metadata, placement, mutation.key().token());
    let data_center = &shard.local().data_center;
    let level = shard.state.flaw.level(consistency);
    let quorum = WriteQuorum::new(level, placement.strategy(), data_center, &replicas)?;
    let (told, outcome) = oneshot();
    let writing = Writing {
        shard: shard.clone(),
        metadata: metadata.clone(),
        write: Rc::new(Write::new(mutation).traced(trace)),
        quorum,
        began: shard.env.now(),
        deadline: shard.env.now() + time,
        level: (consistency, write_type),
        refusals: Refusals::default(),
        told: Some(told),
        trace: trace.cloned(),
    };
    shard
        .env
        .spawn(TaskGroup::Foreground, writing.run())
        .detach();
    let ended = || RequestError::Server("a write ended without an outcome".to_owned());
    outcome.await.unwrap_or_else(|_| Err(ended()))
}

/// Has all replicas take a write that may have been promised: who does not is left a hint. Returns when each
/// of them has it, or the drive a hint for it. `written_at`: when it was, in microseconds since 1970.
///
/// # Errors
/// This node is a replica and does not have it, or nobody has it and there is no hint.
pub(super) async fn complete(
    shard: &Rc<Shard>,
    mutation: Mutation,
    written_at: i64,
) -> Result<(), RequestError> {
    let missed = |node, write: &Write| missed(shard, node, &write.mutation, written_at);
    let metadata = shard.metadata();
    let placement = metadata.placement(&mutation.updates[0].table.keyspace);
    let replicas = replicas_of(shard, &metadata, placement, mutation.key().token());
    let write = Write::late(mutation, written_at);
    let deadline = shard.env.now() + shard.timeouts.write();
    let (mut has_it, mut kept) = (false, None);
    let mut answers = Together::new();
    for replica in &replicas {
        match replica.alive {
            true => answers.push({
                let (write, node) = (&write, replica.node);
                async move {
                    let applying = write.apply_at(shard, node, deadline);
                    let late = || Unwritten::Refused(Refusal::Failed(FailureReason::Timeout));
                    let applied = shard.env.timeout(shard.timeouts.write(), applying).await;
                    (node, applied.unwrap_or_else(|_| Err(late())))
                }
            }),
            false => kept = missed(replica.node, &write).or(kept),
        }
    }
    let mut result = Ok(());
    while let Some((node, applied)) = answers.next().await {
        match applied {
            Ok(()) => has_it = true,
            Err(Unwritten::Impossible(error)) => return Err(error),
            Err(Unwritten::Refused(refusal)) if node == metadata.own() => {
                result = Err(RequestError::Server(format!(
                    "not applied here: {refusal:?}"
                )));
            }
            Err(Unwritten::Refused(_)) => kept = missed(node, &write).or(kept),
        }
    }
    match kept {
        Some(kept) => hints::written(shard, kept).await,
        None if has_it => {}
        None => result = result.and(Err(RequestError::Server("no replica has it".to_owned()))),
    }
    result
}

/// Has a node take a write that it missed, which others have since then, in microseconds since 1970; has it?
pub(crate) async fn deliver(
    shard: &Rc<Shard>,
    node: NodeId,
    (mutation, written_at): (Mutation, i64),
    time: Duration,
) -> bool {
    let deadline = shard.env.now() + time;
    let applied = Write::late(mutation, written_at)
        .apply_at(shard, node, deadline)
        .await;
    applied.is_ok()
}

/// How replicas refused.
#[derive(Default)]
struct Refusals {
    overloaded: usize,
    others: usize,
}

/// A write under way.
struct Writing {
    shard: Rc<Shard>,
    metadata: Rc<Metadata>,
    write: Rc<Write>,
    quorum: WriteQuorum,
    deadline: Instant,
    level: (Consistency, WriteType),
    refusals: Refusals,
    began: Instant,
    /// Who waits, until told.
    told: Option<oneshot::Sender<Result<(), RequestError>>>,
    trace: Option<Rc<Trace>>,
}

impl Writing {
    async fn run(mut self) {
        let _held = self.shard.hints.held_by_write();
        let mut kept = None;
        for node in self.quorum.hints() {
            kept = self.missed(*node).or(kept);
        }
        self.tell_of_hint(kept).await;
        let mut answers = self.begin();
        loop {
            let left = self
                .deadline
                .saturating_duration_since(self.shard.env.now());
            match self.shard.env.timeout(left, answers.next()).await {
                Ok(Some((node, Ok(())))) => {
                    if let Some(trace) = &self.trace
                        && node != self.metadata.own()
                    {
                        trace.received("MUTATION_RSP", node);
                    }
                    let outcome = self.quorum.respond(node);
                    self.tell(outcome);
                }
                Ok(Some((_, Err(Unwritten::Impossible(error))))) => {
                    if let Some(told) = self.told.take() {
                        let _ = told.send(Err(error));
                    }
                    return;
                }
                Ok(Some((node, Err(Unwritten::Refused(refusal))))) => self.refused(node, refusal),
                Ok(None) | Err(_) => break,
            }
        }
        let mut kept = None;
        for node in self.quorum.open() {
            kept = self.missed(node).or(kept);
        }
        self.tell_of_hint(kept).await;
        let outcome = self.quorum.time_out();
        self.tell(outcome);
    }

    /// A hint is as old as its write: a truncation between them leaves it out.
    fn missed(&self, node: NodeId) -> Option<Kept> {
        let env = &self.shard.env;
        let age = env.now().saturating_duration_since(self.began);
        let written_at = env.wall_micros() - age.as_micros() as i64;
        missed(&self.shard, node, &self.write.mutation, written_at)
    }

    /// At ANY a hint that the drive has is as good as a replica.
    async fn tell_of_hint(&mut self, kept: Option<Kept>) {
        if self.level.0 == Consistency::Any
            && let Some(kept) = kept
        {
            hints::written(&self.shard, kept).await;
            self.tell(Some(Outcome::Done));
        }
    }

    /// Sends it to all replicas that are up, to another data centre once. This node comes first: what it finds
    /// impossible is not sent to the others.
    fn begin(&self) -> Together<'static, (NodeId, Result<(), Unwritten>)> {
        let own = self.metadata.own();
        let contacts = self.quorum.contacts();
        let (mut direct, far) = relay::groups(&self.shard, &self.metadata, contacts);
        direct.sort_by_key(|node| *node != own);
        let mut answers = Together::new();
        for node in direct {
            self.note_sending(node);
            let (shard, write, deadline) = (self.shard.clone(), self.write.clone(), self.deadline);
            answers.push(async move { (node, write.apply_at(&shard, node, deadline).await) });
        }
        for nodes in far {
            nodes
                .first()
                .into_iter()
                .for_each(|node| self.note_sending(*node));
            let relay = Relay::new(&self.shard, &self.write, self.deadline);
            if let Some((first, others)) = relay.begin(&nodes) {
                answers.push(first);
                others.into_iter().for_each(|other| answers.push(other));
            }
        }
        answers
    }

    /// Tells the trace of who is to write.
    fn note_sending(&self, node: NodeId) {
        match &self.trace {
            Some(trace) if node == self.metadata.own() => trace.applying(&self.write.mutation),
            Some(trace) => trace.sending("MUTATION_REQ", node),
            None => {}
        }
    }

    fn refused(&mut self, node: NodeId, refusal: Refusal) {
        let _ = self.missed(node);
        let reason = match refusal {
            Refusal::Overloaded => {
                self.refusals.overloaded += 1;
                FailureReason::Unknown
            }
            Refusal::Failed(reason) => {
                self.refusals.others += 1;
                reason
            }
            Refusal::OtherColumns => {
                self.refusals.others += 1;
                FailureReason::IncompatibleSchema
            }
        };
        let outcome = self.quorum.fail(node, reason);
        self.tell(outcome);
    }

    /// Tells who waits what has become of the write, if that is known now.
    fn tell(&mut self, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        let Some(told) = self.told.take() else { return };
        let (consistency, write_type) = self.level;
        let now = self.shard.env.now();
        let took = now.saturating_duration_since(self.began);
        for update in &self.write.mutation.updates {
            self.shard.observed.have_written(update.table.id, took, now);
        }
        let result = match &outcome {
            Outcome::Done => Ok(()),
            // Nobody has it, and nobody would not have had it in a quieter moment.
            Outcome::Failure { received: 0, .. } if self.refusals.others == 0 => Err(
                RequestError::Overloaded("the replicas have too much to do".to_owned()),
            ),
            Outcome::Failure { .. } | Outcome::Timeout { .. } => Err(RequestError::Write {
                consistency,
                write_type,
                failures: failures(&outcome, &self.metadata),
                outcome,
            }),
        };
        // The client may have gone.
        let _ = told.send(result);
    }
}
