//! Additions to counters (`StorageProxy.mutateCounter`, `CounterMutation`).
//!
//! An addition is no write that could be made twice. So one replica leads it: it adds to what it holds
//! itself, under a lock, which gives a shard of the counter that only it writes, with a clock that rises;
//! that is a write like others, and goes to the other replicas as one. Whoever coordinates sends the
//! addition to the nearest replica that is up, once: if there is no answer nobody knows whether it was
//! done.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Consistency, FailureReason, NodeId, Outcome, WriteQuorum};
use io::{Semaphore, TaskGroup};
use model::CounterMutation;
use model::record::message::{decode_mutation, encode_mutation};
use serde::{Deserialize, Serialize};
use storage::WriteError;
use wire::WriteType;
use wire::internode::{MessageHead, Verb};

use super::replicas::{are_here, failures, preferred, replicas_of};
use super::write_failure;
use crate::error::RequestError;
use crate::internode::PeerError;
use crate::message::{ShardReply, ShardRequest};
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
use crate::trace::Traced;

/// How many locks a shard has for its counters; those of two partitions may be one.
const LOCKS: usize = 256;

/// The locks of the counters that a shard leads.
pub(crate) struct CounterLocks(Vec<Semaphore>);

impl Default for CounterLocks {
    fn default() -> CounterLocks {
        CounterLocks((0..LOCKS).map(|_| Semaphore::new(1)).collect())
    }
}

impl CounterLocks {
    fn of(&self, mutation: &CounterMutation) -> &Semaphore {
        let token = mutation.key().token().0.cast_unsigned();
        &self.0[(token % LOCKS as u64) as usize]
    }
}

/// Adds; returns when all additions are done.
pub(crate) async fn add(
    shard: &Rc<Shard>,
    additions: Vec<CounterMutation>,
    consistency: Consistency,
    time: Option<Duration>,
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let tasks: Vec<_> = additions
        .into_iter()
        .map(|addition| {
            let (of_task, trace) = (shard.clone(), trace.cloned());
            let adding = async move {
                let trace = trace.as_ref();
                add_one(&of_task, addition, consistency, time, trace).await
            };
            shard.env.spawn(TaskGroup::Foreground, adding)
        })
        .collect();
    let mut result = Ok(());
    for task in tasks {
        result = result.and(task.await);
    }
    result
}

async fn add_one(
    shard: &Rc<Shard>,
    addition: CounterMutation,
    consistency: Consistency,
    time: Option<Duration>,
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let addition = match addition.into_deletions() {
        Ok(deletions) => {
            let deletions = vec![deletions];
            let level = (consistency, WriteType::Counter);
            return super::write(shard, deletions, level, time, trace).await;
        }
        Err(addition) => addition,
    };
    let metadata = shard.metadata();
    let placement = metadata.placement(&addition.unled().updates[0].table.keyspace);
    let token = addition.key().token();
    let replicas = replicas_of(shard, &metadata, placement, token);
    let data_center = &shard.local().data_center;
    // Refuses where too few are up.
    let quorum = WriteQuorum::new(consistency, placement.strategy(), data_center, &replicas)?;
    let preferred = preferred(shard, &metadata, placement, token);
    let leader = preferred.iter().find(|replica| replica.alive);
    let time = time.unwrap_or_else(|| shard.timeouts.get(TimeoutKind::CounterWrite));
    let answer = match leader.map(|replica| replica.node) {
        _ if time.is_zero() => None,
        Some(node) if node == metadata.own() => {
            if let Some(trace) = trace {
                trace.leading(addition.unled());
            }
            let leading = lead_here(shard, addition, consistency);
            shard.env.timeout(time, leading).await.ok()
        }
        Some(node) => {
            if let Some(trace) = trace {
                trace.sending("COUNTER_MUTATION_REQ", node);
            }
            ask_leader(shard, node, &addition, consistency, time).await
        }
        None => None,
    };
    answer.unwrap_or_else(|| Err(late(consistency, quorum)))
}

/// Leads an addition, on the shard of this node that owns its token.
async fn lead_here(
    shard: &Rc<Shard>,
    addition: CounterMutation,
    consistency: Consistency,
) -> Result<(), RequestError> {
    let owner = shard.owner(addition.key().token());
    if owner == shard.index() {
        return lead(shard, addition, consistency).await;
    }
    let request = ShardRequest::LeadCounter(addition, consistency);
    match shard.ask(owner, request).await {
        Ok(ShardReply::Written(result)) => result,
        _ => Err(RequestError::Server("the node is about to end".to_owned())),
    }
}

/// Nobody knows what has become of it.
fn late(consistency: Consistency, mut quorum: WriteQuorum) -> RequestError {
    let nothing = Outcome::Timeout {
        received: 0,
        block_for: 1,
    };
    RequestError::Write {
        consistency,
        write_type: WriteType::Counter,
        outcome: quorum.time_out().unwrap_or(nothing),
        failures: Vec::new(),
    }
}

/// Leads an addition: on the shard that owns its token, of a node that is a replica.
pub(crate) async fn lead(
    shard: &Rc<Shard>,
    addition: CounterMutation,
    consistency: Consistency,
) -> Result<(), RequestError> {
    let metadata = shard.metadata();
    let leader = shard.local().host_id.into_bytes();
    let led = {
        let _lock = shard.counter_locks.of(&addition).acquire(1).await;
        let now = shard.env.wall_micros();
        let seconds = u32::try_from(now / 1_000_000).unwrap_or(0);
        let mut current = Vec::new();
        for read in addition.reads(seconds) {
            let page = shard.store.read(&read).await;
            current.push(page.map_err(|error| RequestError::Server(error.to_string()))?);
        }
        let led = addition.lead(leader, now, &current);
        let led = led.map_err(|error| RequestError::Server(error.to_string()))?;
        // The next addition has to find it.
        let applied = shard.store.apply(led.clone()).await;
        applied.map_err(|error| unwritten(consistency, error))?;
        led
    };
    let placement = metadata.placement(&led.updates[0].table.keyspace);
    if are_here(placement.replicas(led.key().token()), &metadata) {
        return Ok(());
    }
    // That this replica gets it twice changes nothing.
    let level = (consistency, WriteType::Counter);
    super::write(shard, vec![led], level, None, None).await
}

fn unwritten(consistency: Consistency, error: WriteError) -> RequestError {
    let outcome = |_| RequestError::Write {
        consistency,
        write_type: WriteType::Counter,
        failures: Vec::new(),
        outcome: Outcome::Failure {
            received: 0,
            block_for: 1,
            failures: std::collections::BTreeMap::new(),
        },
    };
    match write_failure(error) {
        Ok(reason) => outcome(reason),
        Err(error) => error,
    }
}

/// What a leader answers that could not do it.
#[derive(Debug, Serialize, Deserialize)]
enum Unled {
    Unavailable {
        required: u32,
        alive: u32,
    },
    TimedOut {
        received: u32,
        block_for: u32,
    },
    Failed {
        received: u32,
        block_for: u32,
        /// By the codes of reasons.
        failures: Vec<(NodeId, u16)>,
    },
    Overloaded(String),
    Other(String),
}

/// Has another node lead; `None` if there is no answer.
async fn ask_leader(
    shard: &Rc<Shard>,
    node: NodeId,
    addition: &CounterMutation,
    consistency: Consistency,
    time: Duration,
) -> Option<Result<(), RequestError>> {
    let peer = shard.peer(node, addition.key().token())?;
    let epoch = shard.metadata().epoch();
    let mut body = consistency.code().to_be_bytes().to_vec();
    body.extend(encode_mutation(addition.unled(), true));
    match peer.ask(Verb::Counter, epoch, time, body).await {
        Ok(_) => Some(Ok(())),
        Err(PeerError::Failed(words)) => {
            let unled = serde_json::from_slice(&words);
            let unled = unled.unwrap_or_else(|error| Unled::Other(error.to_string()));
            Some(Err(unled.into_error(shard, consistency)))
        }
        Err(_) => None,
    }
}

impl Unled {
    fn of(error: RequestError) -> Unled {
        match error {
            RequestError::Unavailable(error) => Unled::Unavailable {
                required: error.required,
                alive: error.alive,
            },
            RequestError::Write { outcome, .. } => match outcome {
                Outcome::Timeout {
                    received,
                    block_for,
                } => Unled::TimedOut {
                    received,
                    block_for,
                },
                Outcome::Failure {
                    received,
                    block_for,
                    failures,
                } => Unled::Failed {
                    received,
                    block_for,
                    failures: failures
                        .into_iter()
                        .map(|(id, why)| (id, why as u16))
                        .collect(),
                },
                Outcome::Done => Unled::Other("it was done".to_owned()),
            },
            RequestError::Overloaded(reason) => Unled::Overloaded(reason),
            other => Unled::Other(other.to_string()),
        }
    }

    fn into_error(self, shard: &Shard, consistency: Consistency) -> RequestError {
        let outcome = match self {
            Unled::Unavailable { required, alive } => {
                return RequestError::Unavailable(cluster::Unavailable {
                    consistency,
                    required,
                    alive,
                });
            }
            Unled::Overloaded(reason) => return RequestError::Overloaded(reason),
            Unled::Other(reason) => return RequestError::Server(reason),
            Unled::TimedOut {
                received,
                block_for,
            } => Outcome::Timeout {
                received,
                block_for,
            },
            Unled::Failed {
                received,
                block_for,
                failures,
            } => Outcome::Failure {
                received,
                block_for,
                failures: failures
                    .into_iter()
                    .map(|(id, code)| (id, FailureReason::from_code(code)))
                    .collect(),
            },
        };
        RequestError::Write {
            consistency,
            write_type: WriteType::Counter,
            failures: failures(&outcome, &shard.metadata()),
            outcome,
        }
    }
}

/// Leads an addition that another node sent: the body of the answer, or of the failure.
pub(crate) async fn lead_for(
    shard: &Rc<Shard>,
    head: MessageHead,
    mut body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let leading = async {
        shard.metadata_reached(head.epoch).await;
        let code = body
            .first_chunk::<2>()
            .map(|code| u16::from_be_bytes(*code));
        let consistency = code.and_then(Consistency::from_code);
        let consistency = consistency.ok_or_else(|| Unled::Other("an unknown level".to_owned()))?;
        let schema = shard.metadata().schema.clone();
        let decoded = decode_mutation(body.split_off(2), |id| schema.table_by_id(id).cloned());
        let mutation = decoded.map_err(|error| Unled::Other(error.to_string()))?;
        let led = lead_here(shard, CounterMutation::new(mutation), consistency).await;
        led.map_err(Unled::of)
    };
    let usual = || shard.timeouts.get(TimeoutKind::CounterWrite);
    let time = head.time_left.unwrap_or_else(usual);
    match shard.env.timeout(time, leading).await {
        Ok(Ok(())) => Ok(Vec::new()),
        Ok(Err(unled)) => Err(encode(&unled)),
        Err(_) => Err(encode(&Unled::TimedOut {
            received: 0,
            block_for: 1,
        })),
    }
}

fn encode(unled: &Unled) -> Vec<u8> {
    // Nothing in it has keys that are no texts, and nothing else can fail.
    serde_json::to_vec(unled).expect("a refusal that JSON can say")
}
