//! Logged batches (`StorageProxy.mutateAtomically`): kept by others before anything of them is written,
//! and forgotten there once all of it is.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{
    BatchCandidate, Consistency, NodeId, Outcome, Replica, ReplicationStrategy, Unavailable,
    WriteQuorum, batch_holders,
};
use io::{Instant, TaskGroup};
use model::Mutation;
use model::record::message::{Batch, encode_batch};
use smallvec::{SmallVec, smallvec};
use uuid::Uuid;
use wire::WriteType;
use wire::internode::Verb;

use super::ask::{Unwritten, ask_once, unwritten};
use super::replicas::{failures, replicas_of};
use super::together::Together;
use super::{write, write::complete as complete_one};
use crate::batch_log::{self, UnderWay};
use crate::error::RequestError;
use crate::metadata::Metadata;
use crate::remote::Refusal;
use crate::shard::Shard;
use crate::trace::Traced;

/// How many mutations of a batch are completed at once.
const AT_ONCE: usize = 16;

type Holders = SmallVec<[NodeId; 2]>;

/// Writes all of a batch of several partitions, or nothing: once it is kept, all of it will be written, by
/// others if this node does not come to it.
pub(crate) async fn write_logged(
    shard: &Rc<Shard>,
    mutations: Vec<Mutation>,
    consistency: Consistency,
    time: Option<Duration>,
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let metadata = shard.metadata();
    let holders = holders(shard, &metadata, consistency).map_err(RequestError::NoBatchLog)?;
    check(shard, &metadata, &mutations, consistency)?;
    let batch = batch_log::batch_of(shard, &mutations);
    let id = batch.id;
    let keeping = time.unwrap_or_else(|| shard.timeouts.write());
    if let Some(trace) = trace {
        trace.keeping(&holders);
    }
    store(shard, &metadata, &holders, batch, keeping).await?;
    shard.metrics.logged_batches.add(1);
    // What fails is left to those who keep the batch: nobody knows how much of it is applied.
    let level = (consistency, WriteType::Batch);
    write(shard, mutations, level, time, trace).await?;
    forget_soon(shard, holders, id);
    Ok(())
}

/// Who keeps a batch (`ReplicaPlans.forBatchlogWrite`).
fn holders(
    shard: &Shard,
    metadata: &Metadata,
    consistency: Consistency,
) -> Result<Holders, Unavailable> {
    let own = metadata.own();
    let local = shard.local();
    let members = metadata.membership().into_iter();
    let members = members.flat_map(|member| member.cluster.topology().joined());
    let here = members.filter(|(_, member)| member.node.place.datacenter == local.data_center);
    let candidates: SmallVec<[BatchCandidate<'_>; 8]> = here
        .map(|(node, member)| BatchCandidate {
            node,
            rack: &member.node.place.rack,
            alive: node == own || shard.peers.is_up(node),
        })
        .collect();
    // A node that is none of a cluster yet keeps what it has for itself.
    if candidates.is_empty() {
        return Ok(smallvec![own]);
    }
    let random = |below: usize| (shard.env.random_u64() % below.max(1) as u64) as usize;
    let chosen = batch_holders((own, &local.rack), &candidates, random);
    match (chosen.is_empty(), consistency) {
        (false, _) => Ok(chosen.into()),
        (true, Consistency::Any) => Ok(smallvec![own]),
        (true, _) => Err(Unavailable {
            consistency: Consistency::Two,
            required: 2,
            alive: 0,
        }),
    }
}

/// Fails where a batch cannot be written now or ever, before anything is.
fn check(
    shard: &Shard,
    metadata: &Metadata,
    mutations: &[Mutation],
    consistency: Consistency,
) -> Result<(), RequestError> {
    let data_center = &shard.local().data_center;
    let mut checked = None;
    for mutation in mutations {
        for update in &mutation.updates {
            let fits = storage::check_fits(update);
            fits.map_err(|misfit| RequestError::invalid(misfit.to_string()))?;
        }
        let keyspace = &mutation.updates[0].table.keyspace;
        let placement = metadata.placement(keyspace);
        let token = mutation.key().token();
        // Partitions that have the same replicas need to be asked about once.
        let place = (keyspace, &placement.replicas(token).natural);
        let is_moving = !placement.replicas(token).pending.is_empty();
        if checked.replace(place) == Some(place) && !is_moving {
            continue;
        }
        let replicas = replicas_of(shard, metadata, placement, token);
        WriteQuorum::new(consistency, placement.strategy(), data_center, &replicas)?;
    }
    Ok(())
}

/// Has a batch kept by all of those (`StorageProxy.syncWriteToBatchlog`).
async fn store(
    shard: &Rc<Shard>,
    metadata: &Metadata,
    holders: &[NodeId],
    batch: Batch,
    time: Duration,
) -> Result<(), RequestError> {
    let consistency = match holders.len() {
        1 => Consistency::One,
        _ => Consistency::Two,
    };
    let data_center = &shard.local().data_center;
    let replica = |node: &NodeId| Replica {
        node: *node,
        datacenter: data_center,
        // Who is not will not answer in time, which the client is told then.
        alive: true,
        pending: false,
    };
    let replicas: SmallVec<[Replica<'_>; 2]> = holders.iter().map(replica).collect();
    let strategy = ReplicationStrategy::Local;
    let mut quorum = WriteQuorum::new(consistency, &strategy, data_center, &replicas)?;
    let deadline = shard.env.now() + time;
    let mut answers = keep_at(shard, holders, batch, deadline);
    let mut overloaded = 0;
    let outcome = loop {
        let left = deadline.saturating_duration_since(shard.env.now());
        let outcome = match shard.env.timeout(left, answers.next()).await {
            Ok(Some((node, Ok(())))) => quorum.respond(node),
            Ok(Some((_, Err(Unwritten::Impossible(error))))) => return Err(error),
            Ok(Some((node, Err(Unwritten::Refused(refusal))))) => {
                overloaded += usize::from(refusal == Refusal::Overloaded);
                quorum.fail(node, refusal.reason())
            }
            Ok(None) | Err(_) => Some(quorum.time_out().unwrap_or(Outcome::Done)),
        };
        if let Some(outcome) = outcome {
            break outcome;
        }
    };
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Failure { .. } if overloaded > 0 => Err(RequestError::Overloaded(
            "too many logged batches wait to be completed".to_owned(),
        )),
        outcome => Err(RequestError::Write {
            consistency,
            write_type: WriteType::BatchLog,
            failures: failures(&outcome, metadata),
            outcome,
        }),
    }
}

/// Has nodes keep a batch, all at once.
fn keep_at(
    shard: &Rc<Shard>,
    holders: &[NodeId],
    batch: Batch,
    deadline: Instant,
) -> Together<'static, (NodeId, Result<(), Unwritten>)> {
    let own = shard.metadata().own();
    let mut answers = Together::new();
    let token = batch_log::key_of(batch.id).token();
    let is_elsewhere = holders.iter().any(|holder| *holder != own);
    let message = is_elsewhere.then(|| Bytes::from(encode_batch(&batch)));
    for holder in holders.iter().filter(|holder| **holder != own) {
        let (shard, place) = (shard.clone(), (*holder, token));
        let message = message.clone().unwrap_or_default();
        answers.push(async move {
            let kept = ask_once(&shard, place, Verb::BatchStore, message, deadline).await;
            (place.0, kept.map(drop).map_err(Unwritten::Refused))
        });
    }
    if holders.contains(&own) {
        let shard = shard.clone();
        answers.push(async move {
            let kept = batch_log::keep(&shard, batch).await;
            (own, kept.map_err(unwritten))
        });
    }
    answers
}

/// All of a batch is applied: has it forgotten by those who keep it, without anybody waiting
/// (`StorageProxy.asyncRemoveFromBatchlog`).
fn forget_soon(shard: &Rc<Shard>, holders: Holders, id: Uuid) {
    let under_way = UnderWay::begin(shard);
    let forgetting = {
        let shard = shard.clone();
        async move {
            let own = shard.metadata().own();
            let place = |holder| (holder, batch_log::key_of(id).token());
            let message = Bytes::copy_from_slice(id.as_bytes());
            let deadline = shard.env.now() + shard.timeouts.write();
            let mut answers = Together::new();
            for holder in holders {
                let (shard, message) = (&shard, message.clone());
                answers.push(async move {
                    if holder == own {
                        let forgotten = batch_log::forget(shard, id).await;
                        return forgotten.map_err(|error| error.to_string());
                    }
                    let verb = Verb::BatchRemove;
                    let asked = ask_once(shard, place(holder), verb, message, deadline).await;
                    asked.map(drop).map_err(|refusal| format!("{refusal:?}"))
                });
            }
            while let Some(forgotten) = answers.next().await {
                if let Err(error) = forgotten {
                    // It is applied once more, which changes nothing.
                    tracing::debug!("batch {id} could not be forgotten: {error}");
                }
            }
            drop(under_way);
        }
    };
    shard.env.spawn(TaskGroup::Foreground, forgetting).detach();
}

/// Has the replicas of what is left of a batch have it, if need be by hints; it was begun at that time, in
/// microseconds since 1970. All of it is done when this succeeds.
pub(crate) async fn complete(
    shard: &Rc<Shard>,
    mutations: Vec<Mutation>,
    begun_at: i64,
) -> Result<(), RequestError> {
    let mut mutations = mutations.into_iter();
    let mut result = Ok(());
    loop {
        let completing: SmallVec<[_; AT_ONCE]> = mutations
            .by_ref()
            .take(AT_ONCE)
            .map(|mutation| {
                let shard = shard.clone();
                let env = shard.env.clone();
                env.spawn(TaskGroup::Maintenance, async move {
                    complete_one(&shard, mutation, begun_at).await
                })
            })
            .collect();
        if completing.is_empty() {
            return result;
        }
        for completing in completing {
            match completing.await {
                // It never will be written, and must not keep the others from it.
                Err(RequestError::Cql(misfit)) => {
                    tracing::error!("left out of a logged batch: {misfit}");
                }
                completed => result = result.and(completed),
            }
        }
    }
}
