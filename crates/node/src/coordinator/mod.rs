//! The coordinator: a command goes to the replicas of its token, and is done when as many have
//! answered as its consistency level asks for. The decisions are those of the cores of [`cluster`] and
//! `storage`; this drives them.
//!
//! Where this node is the only replica, a command is a call. Else a write goes to all replicas at once
//! ([`write`](self::write::write)), and a read to as many as have to answer: of a [`partition`] one says
//! what it knows and the others give digests, of a [`range`] all say it, piece by piece of the ring. Each
//! is a [`round`] of questions. What they know is reconciled where it differs, and who lacks something is
//! told ([`repair`]). What is to be agreed upon, and read as it was, is [`serial`]. [`replicas`] says who they
//! are, and in which order they are preferred by what was [`observed`] of them; [`ask`] asks one.

mod ask;
mod batch;
mod counter;
mod missed;
mod observed;
mod partition;
mod range;
mod relay;
mod repair;
mod replicas;
mod round;
mod serial;
#[cfg(test)]
mod tests;
mod together;
mod write;

use std::rc::Rc;
use std::time::Duration;

use cluster::{Consistency, FailureReason, Outcome, ReadQuorum, WriteQuorum};
use io::TaskGroup;
use model::{Mutation, PartitionSelection, ReadCommand, ReadPage, Token};
use smallvec::SmallVec;
use storage::{ReadError, WriteError};
use wire::WriteType;

use crate::error::RequestError;
use crate::replica;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
pub(crate) use ask::ask_naming;
pub(crate) use batch::{complete, write_logged};
pub(crate) use counter::{CounterLocks, add, lead, lead_for};
pub(crate) use observed::Observed;
pub(crate) use relay::{Relays, apply_relayed, relay, relayed};
pub(crate) use serial::{Conditional, SerialTurns, update as update_if};
pub(crate) use write::deliver;

use replicas::{all_are_here, are_here, failures, replicas_of};

/// Writes each mutation to its replicas; returns when all of them are done. `time`: in place of the usual
/// one.
pub(crate) async fn write(
    shard: &Rc<Shard>,
    mut mutations: Vec<Mutation>,
    consistency: Consistency,
    write_type: WriteType,
    time: Option<Duration>,
) -> Result<(), RequestError> {
    let Some(last) = mutations.pop() else {
        return Ok(());
    };
    let mut others = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let shard_of_task = shard.clone();
        let level = (consistency, write_type);
        let write = async move { write_one(&shard_of_task, mutation, level, time).await };
        others.push(shard.env.spawn(TaskGroup::Foreground, write));
    }
    let mut result = write_one(shard, last, (consistency, write_type), time).await;
    for other in others {
        result = result.and(other.await);
    }
    result
}

async fn write_one(
    shard: &Rc<Shard>,
    mutation: Mutation,
    (consistency, write_type): (Consistency, WriteType),
    time: Option<Duration>,
) -> Result<(), RequestError> {
    let time = time.unwrap_or_else(|| shard.timeouts.write());
    let metadata = shard.metadata();
    let placement = metadata.placement(&mutation.updates[0].table.keyspace);
    if !are_here(placement.replicas(mutation.key().token()), &metadata) {
        // Boxed: where all is here, the state of a request has no room for what others are asked.
        let level = (consistency, write_type);
        return Box::pin(write::write(shard, mutation, level, time)).await;
    }
    let local = shard.local();
    let replicas = replicas_of(shard, &metadata, placement, mutation.key().token());
    let mut quorum = WriteQuorum::new(
        consistency,
        placement.strategy(),
        &local.data_center,
        &replicas,
    )?;
    let refused = |outcome| RequestError::Write {
        consistency,
        write_type,
        failures: failures(&outcome, &metadata),
        outcome,
    };
    if time.is_zero()
        && let Some(outcome) = quorum.time_out()
    {
        return Err(refused(outcome));
    }
    let applied = shard.env.timeout(time, replica::apply(shard, mutation));
    let outcome = match applied.await {
        Ok(Ok(())) => quorum.respond(metadata.own()),
        Ok(Err(error)) => {
            let reason = write_failure(error)?;
            quorum.fail(metadata.own(), reason)
        }
        Err(_) => quorum.time_out(),
    };
    match outcome {
        Some(Outcome::Done) => Ok(()),
        Some(outcome) => Err(refused(outcome)),
        // More answers are needed than there are replicas to give them.
        None => Err(quorum.time_out().map_or_else(
            || RequestError::Server("a write ended without an outcome".to_owned()),
            refused,
        )),
    }
}

/// Reads of as many replicas as the level asks for. `timeout`: in place of the usual one.
pub(crate) async fn read(
    shard: &Rc<Shard>,
    command: &ReadCommand,
    consistency: Consistency,
    timeout: Option<Duration>,
) -> Result<ReadPage, RequestError> {
    let metadata = shard.metadata();
    let placement = metadata.placement(&command.table.keyspace);
    let (token, usual) = match &command.partitions {
        PartitionSelection::Key(key) => (key.token(), TimeoutKind::Read),
        PartitionSelection::Range { .. } => (Token::MIN, TimeoutKind::Range),
    };
    let timeout = timeout.unwrap_or_else(|| shard.timeouts.get(usual));
    match &command.partitions {
        PartitionSelection::Key(_) if consistency.is_serial() => {
            return Box::pin(serial::read(shard, command, consistency, timeout)).await;
        }
        PartitionSelection::Key(_) if !are_here(placement.replicas(token), &metadata) => {
            let place = (command, token);
            return Box::pin(partition::read(shard, place, consistency, timeout)).await;
        }
        PartitionSelection::Range { .. } if !all_are_here(placement, &metadata) => {
            return Box::pin(range::read(shard, command, consistency, timeout)).await;
        }
        _ => {}
    }
    let local = shard.local();
    let replicas = replicas_of(shard, &metadata, placement, token);
    let mut quorum = ReadQuorum::new(
        consistency,
        placement.strategy(),
        &local.data_center,
        &replicas,
    )?;
    let mut data = None;
    let reading = shard.env.timeout(timeout, replica::read(shard, command));
    let read = match timeout.is_zero() {
        true => Err(io::Elapsed),
        false => reading.await,
    };
    let outcome = match read {
        Ok(Ok(page)) => {
            data = Some(page);
            quorum.respond(metadata.own())
        }
        Ok(Err(error)) => {
            let reason = read_failure(command, &error);
            quorum.fail(metadata.own(), reason)
        }
        Err(_) => quorum.time_out(),
    };
    let outcome = outcome.or_else(|| quorum.time_out());
    match (outcome, data) {
        (Some(Outcome::Done), Some(page)) => Ok(page),
        (outcome, _) => {
            let outcome = outcome.unwrap_or(Outcome::Done);
            Err(RequestError::Read {
                consistency,
                failures: failures(&outcome, &metadata),
                data_present: quorum.data_present(),
                outcome,
            })
        }
    }
}

/// Executes several reads at the same time; the answers come in their order, each with what was asked.
pub(crate) async fn read_all(
    shard: &Rc<Shard>,
    mut commands: Vec<ReadCommand>,
    consistency: Consistency,
    timeout: Option<Duration>,
) -> Result<SmallVec<[(ReadCommand, ReadPage); 1]>, RequestError> {
    if consistency.is_serial() && commands.len() > 1 {
        return Err(RequestError::invalid(
            "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time",
        ));
    }
    if commands.len() == 1
        && let Some(command) = commands.pop()
    {
        let page = read(shard, &command, consistency, timeout).await?;
        return Ok(SmallVec::from_buf([(command, page)]));
    }
    let mut pages = SmallVec::new();
    let tasks: Vec<_> = commands
        .into_iter()
        .map(|command| {
            let shard_of_task = shard.clone();
            let read = async move {
                let page = read(&shard_of_task, &command, consistency, timeout).await?;
                Ok((command, page))
            };
            shard.env.spawn(TaskGroup::Foreground, read)
        })
        .collect();
    let mut first_error = None;
    for task in tasks {
        match task.await {
            Ok(page) => pages.push(page),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(pages), Err)
}

/// The reason that a replica gives for a failed write; an error where nothing was written because
/// of the request itself or of too much to do.
pub(crate) fn write_failure(error: WriteError) -> Result<FailureReason, RequestError> {
    match error {
        WriteError::Overloaded(_) | WriteError::Closed => {
            Err(RequestError::Overloaded(error.to_string()))
        }
        WriteError::TooLarge { .. } | WriteError::Misfit(_) => {
            Err(RequestError::invalid(error.to_string()))
        }
        WriteError::UnknownTable(_) => Ok(FailureReason::IncompatibleSchema),
        WriteError::CommitLog(_) | WriteError::Unread(_) => {
            tracing::error!("{error}");
            Ok(FailureReason::Unknown)
        }
    }
}

/// The reason that a replica gives for a failed read.
pub(crate) fn read_failure(command: &ReadCommand, error: &ReadError) -> FailureReason {
    let table = &command.table;
    tracing::error!("reading {}.{}: {error}", table.keyspace, table.name);
    match error {
        ReadError::UnknownTable(_) => FailureReason::IncompatibleSchema,
        ReadError::SSTable(_) | ReadError::LeftOut(_) => FailureReason::Unknown,
        ReadError::TooManyTombstones(_) => FailureReason::ReadTooManyTombstones,
        ReadError::IndexNotAvailable(_) => FailureReason::IndexNotAvailable,
        ReadError::Closed => FailureReason::NodeDown,
    }
}
