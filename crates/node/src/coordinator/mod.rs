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

use cluster::{Consistency, FailureReason, Outcome, Placement, ReadQuorum, WriteQuorum};
use io::TaskGroup;
use model::{Mutation, PartitionSelection, PartitionUpdate, ReadCommand, ReadPage, Token};
use smallvec::SmallVec;
use storage::{ReadError, WriteError};
use wire::WriteType;

use crate::error::RequestError;
use crate::execute::Owners;
use crate::metadata::Metadata;
use crate::replica;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
use crate::trace::Traced;
pub(crate) use ask::ask_naming;
pub(crate) use batch::{complete, write_logged};
pub(crate) use counter::{CounterLocks, add, lead, lead_for};
pub(crate) use observed::Observed;
pub(crate) use relay::{Relays, apply_relayed, relay, relayed};
pub(crate) use serial::{Conditional, SerialTurns, update as update_if};
pub(crate) use write::deliver;

use replicas::{all_are_here, are_here, failures, replicas_of};

/// Writes each mutation to its replicas; returns when all of them are done. `time`: in place of the usual
/// one. What happens is told to `trace`, here and below.
pub(crate) async fn write(
    shard: &Rc<Shard>,
    mut mutations: Vec<Mutation>,
    (consistency, write_type): (Consistency, WriteType),
    time: Option<Duration>,
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let Some(last) = mutations.pop() else {
        return Ok(());
    };
    let mut others = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let (shard_of_task, trace) = (shard.clone(), trace.cloned());
        let level = (consistency, write_type);
        let write = async move {
            let trace = trace.as_ref();
            write_one(&shard_of_task, mutation, level, time, trace).await
        };
        others.push(shard.env.spawn(TaskGroup::Foreground, write));
    }
    let mut result = write_one(shard, last, (consistency, write_type), time, trace).await;
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
    trace: Traced<'_>,
) -> Result<(), RequestError> {
    let time = time.unwrap_or_else(|| shard.timeouts.write());
    let metadata = shard.metadata();
    let placement = metadata.placement(&mutation.updates[0].table.keyspace);
    if !are_here(placement.replicas(mutation.key().token()), &metadata) {
        // Boxed: where all is here, the state of a request has no room for what others are asked.
        let level = (consistency, write_type);
        return Box::pin(write::write(shard, mutation, level, time, trace)).await;
    }
    let place = Place {
        metadata: &metadata,
        placement,
        token: mutation.key().token(),
    };
    if consistency.block_for(placement.strategy(), &shard.local().data_center) != 1 {
        // Refused: there are not as many.
        place.quorum(shard, consistency)?;
    }
    if let Some(trace) = trace {
        trace.applying(&mutation);
    }
    let applied = match time.is_zero() {
        true => Err(io::Elapsed),
        false => {
            let applying = replica::apply(shard, mutation);
            shard.env.timeout(time, applying).await
        }
    };
    place.written(shard, (consistency, write_type), applied)
}

/// Where a write goes of which this node has the only replica: its answer is all that there can be, and answers are
/// counted only where it does not come.
struct Place<'m> {
    metadata: &'m Metadata,
    placement: &'m Placement,
    token: Token,
}

impl Place<'_> {
    fn quorum(&self, shard: &Shard, consistency: Consistency) -> Result<WriteQuorum, RequestError> {
        let replicas = replicas_of(shard, self.metadata, self.placement, self.token);
        let (strategy, data_center) = (self.placement.strategy(), &shard.local().data_center);
        Ok(WriteQuorum::new(
            consistency,
            strategy,
            data_center,
            &replicas,
        )?)
    }

    /// What a client is told of the write.
    fn written(
        &self,
        shard: &Shard,
        (consistency, write_type): (Consistency, WriteType),
        applied: Result<Result<(), WriteError>, io::Elapsed>,
    ) -> Result<(), RequestError> {
        let outcome = match applied {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => {
                let reason = write_failure(error)?;
                let mut quorum = self.quorum(shard, consistency)?;
                quorum.fail(self.metadata.own(), reason)
            }
            Err(_) => self.quorum(shard, consistency)?.time_out(),
        };
        Err(outcome.map_or_else(
            || RequestError::Server("a write ended without an outcome".to_owned()),
            |outcome| RequestError::Write {
                consistency,
                write_type,
                failures: failures(&outcome, self.metadata),
                outcome,
            },
        ))
    }
}

/// What a client is told of a write of a keyspace of which this node has the only replica.
pub(crate) fn written_here(
    shard: &Shard,
    (keyspace, token): (&str, Token),
    level: (Consistency, WriteType),
    applied: Result<Result<(), WriteError>, io::Elapsed>,
) -> Result<(), RequestError> {
    let metadata = shard.metadata();
    let place = Place {
        metadata: &metadata,
        placement: metadata.placement(keyspace),
        token,
    };
    place.written(shard, level, applied)
}

/// Reads of as many replicas as the level asks for. `timeout`: in place of the usual one.
pub(crate) async fn read(
    shard: &Rc<Shard>,
    command: &ReadCommand,
    consistency: Consistency,
    timeout: Option<Duration>,
    trace: Traced<'_>,
) -> Result<ReadPage, RequestError> {
    // What the node makes on the fly is here, whatever level is asked for.
    let consistency = match command.table.is_virtual && !consistency.is_serial() {
        true => Consistency::One,
        false => consistency,
    };
    let metadata = shard.metadata();
    let placement = metadata.placement(&command.table.keyspace);
    let (token, usual) = match &command.partitions {
        PartitionSelection::Key(key) => (key.token(), TimeoutKind::Read),
        PartitionSelection::Range { .. } => (Token::MIN, TimeoutKind::Range),
    };
    let timeout = timeout.unwrap_or_else(|| shard.timeouts.get(usual));
    if let Some(trace) = trace {
        let ranges = match all_are_here(placement, &metadata) {
            true => 1,
            false => placement.ranges().count(),
        };
        let shards = u64::from(shard.sharder.shards());
        let partitions = shard.store.partitions(command.table.id) * shards;
        trace.querying(command, ranges, partitions);
    }
    match &command.partitions {
        PartitionSelection::Key(_) if consistency.is_serial() => {
            if let Some(trace) = trace {
                trace.reading(command);
            }
            let page = Box::pin(serial::read(shard, command, consistency, timeout, trace)).await;
            if let (Some(trace), Ok(page)) = (trace, &page) {
                trace.have_read(command, page.scanned);
            }
            return page;
        }
        PartitionSelection::Key(_) if !are_here(placement.replicas(token), &metadata) => {
            let place = (command, token);
            return Box::pin(partition::read(shard, place, consistency, timeout, trace)).await;
        }
        PartitionSelection::Range { .. } if !all_are_here(placement, &metadata) => {
            return Box::pin(range::read(shard, command, consistency, timeout, trace)).await;
        }
        _ => {}
    }
    let local = shard.local();
    let (strategy, data_center) = (placement.strategy(), &local.data_center);
    // As for writes.
    let quorum = || {
        let replicas = replicas_of(shard, &metadata, placement, token);
        ReadQuorum::new(consistency, strategy, data_center, &replicas)
    };
    if consistency.block_for(strategy, data_center) != 1 {
        quorum()?;
    }
    if let Some(trace) = trace {
        trace.reading(command);
    }
    let reading = shard.env.timeout(timeout, replica::read(shard, command));
    let read = match timeout.is_zero() {
        true => Err(io::Elapsed),
        false => reading.await,
    };
    let outcome = match read {
        Ok(Ok(mut page)) => {
            if let Some(trace) = trace {
                trace.have_read(command, page.scanned);
            }
            page.scanned.index_nodes = u64::from(page.scanned.index_sstables > 0);
            return Ok(page);
        }
        Ok(Err(error)) => {
            let reason = read_failure(command, &error);
            quorum()?.fail(metadata.own(), reason)
        }
        Err(_) => quorum()?.time_out(),
    };
    Err(outcome.map_or_else(
        || RequestError::Server("a read ended without an outcome".to_owned()),
        |outcome| RequestError::Read {
            consistency,
            failures: failures(&outcome, &metadata),
            data_present: false,
            outcome,
        },
    ))
}

/// Which shards of this node have all that is needed of reads or writes of a keyspace at their level, so that their
/// answers are all that there is: of each, from the first on as long as that is so.
pub(crate) fn answering_shards(
    shard: &Shard,
    keyspace: &str,
    requests: impl Iterator<Item = (Token, Consistency)>,
) -> Owners {
    shard.with_metadata(|metadata, local| {
        let placement = metadata.placement(keyspace);
        let needs_one =
            |level: Consistency| level.block_for(placement.strategy(), &local.data_center) == 1;
        let owner = |(token, level): (Token, Consistency)| {
            let is_here = are_here(placement.replicas(token), metadata) && needs_one(level);
            is_here.then(|| shard.owner(token))
        };
        requests.map_while(owner).collect()
    })
}

/// Executes several reads at the same time; the answers come in their order.
pub(crate) async fn read_all(
    shard: &Rc<Shard>,
    commands: &[ReadCommand],
    consistency: Consistency,
    timeout: Option<Duration>,
    trace: Traced<'_>,
) -> Result<SmallVec<[ReadPage; 1]>, RequestError> {
    if let [command] = commands {
        let page = read(shard, command, consistency, timeout, trace).await?;
        return Ok(SmallVec::from_buf([page]));
    }
    let mut tasks = Vec::with_capacity(commands.len());
    for command in commands {
        let (shard_of_task, command) = (shard.clone(), command.clone());
        let trace = trace.cloned();
        let read = async move {
            let trace = trace.as_ref();
            read(&shard_of_task, &command, consistency, timeout, trace).await
        };
        tasks.push(shard.env.spawn(TaskGroup::Foreground, read));
    }
    let mut pages = SmallVec::new();
    let mut first_error = None;
    for task in tasks {
        match task.await {
            Ok(page) => pages.push(page),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(pages), Err)
}

/// What a client is told of an update that each of its replicas would refuse. Nothing is sent to them.
pub(crate) fn unwritable(
    shard: &Shard,
    update: &PartitionUpdate,
    (consistency, write_type): (Consistency, WriteType),
    why: String,
) -> RequestError {
    let metadata = shard.metadata();
    let placement = metadata.placement(&update.table.keyspace);
    let data_center = &shard.local().data_center;
    let replicas = placement.replicas(update.key.token()).natural.iter();
    let refusals = replicas.map(|node| (*node, FailureReason::Unknown));
    let outcome = Outcome::Failure {
        received: 0,
        block_for: consistency.block_for(placement.strategy(), data_center),
        failures: refusals.collect(),
    };
    RequestError::Unwritable {
        why,
        consistency,
        write_type,
        failures: failures(&outcome, &metadata),
        outcome,
    }
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
        ReadError::TooManyIndexes { .. } => FailureReason::ReadTooManyIndexes,
        ReadError::IndexNotAvailable(_) => FailureReason::IndexNotAvailable,
        ReadError::Closed => FailureReason::NodeDown,
    }
}
