//! The replica: a command finds the shard that owns its data. The same shard is a plain call,
//! another one a message and its reply.

use std::rc::Rc;

use model::{
    Mutation, Page, Partition, PartitionSelection, PartitionVersion, ReadCommand, ReadPage,
    VersionPage,
};
use storage::{ReadError, WriteError};

use crate::message::{ShardReply, ShardRequest};
use crate::scan::{Paged, Sweep, Window};
use crate::shard::{PendingReply, Shard};
use crate::views;
use crate::virtual_tables;

/// Writes; returns when the write is as durable as the configuration says, and visible.
pub(crate) async fn apply(shard: &Rc<Shard>, mutation: Mutation) -> Result<(), WriteError> {
    let owner = shard.owner(mutation.key().token());
    if owner == shard.index() {
        return views::apply(shard, mutation, None).await;
    }
    have_applied(shard, owner, ShardRequest::Apply(mutation)).await
}

/// Writes something that must be on the drive, however writes are acknowledged. No view follows from it.
pub(crate) async fn apply_to_drive(shard: &Shard, mutation: Mutation) -> Result<(), WriteError> {
    let owner = shard.owner(mutation.key().token());
    if owner == shard.index() {
        return shard.store.apply_to_drive(mutation).await;
    }
    have_applied(shard, owner, ShardRequest::ApplyToDrive(mutation)).await
}

/// Writes what was written before, at that time in microseconds since 1970: but for what was truncated
/// since.
pub(crate) async fn apply_late(
    shard: &Rc<Shard>,
    mutation: Mutation,
    written_at: i64,
) -> Result<(), WriteError> {
    let owner = shard.owner(mutation.key().token());
    if owner == shard.index() {
        return views::apply(shard, mutation, Some(written_at)).await;
    }
    let request = ShardRequest::ApplyLate(mutation, written_at);
    have_applied(shard, owner, request).await
}

/// Has another shard write what it owns.
async fn have_applied(shard: &Shard, owner: u16, request: ShardRequest) -> Result<(), WriteError> {
    match shard.ask(owner, request).await {
        Ok(ShardReply::Applied(result)) => result,
        _ => Err(WriteError::Closed),
    }
}

/// Reads.
pub(crate) async fn read(shard: &Rc<Shard>, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    // Boxed: the state of every request would have room for what only few of them do.
    if command.table.is_virtual {
        return Box::pin(virtual_tables::read(shard, command)).await;
    }
    let PartitionSelection::Key(key) = &command.partitions else {
        return Box::pin(scan(shard, command)).await;
    };
    let owner = shard.owner(key.token());
    if owner == shard.index() {
        return shard.store.read(command).await;
    }
    ask(shard, owner, command).await
}

/// Says all that this node knows, for a coordinator that asks several replicas.
pub(crate) async fn read_versions(
    shard: &Rc<Shard>,
    command: &ReadCommand,
) -> Result<VersionPage, ReadError> {
    let PartitionSelection::Key(key) = &command.partitions else {
        return scan(shard, command).await;
    };
    let owner = shard.owner(key.token());
    if owner == shard.index() {
        return shard.store.read_versions(command).await;
    }
    ask(shard, owner, command).await
}

/// Asks another shard, and waits for its answer.
async fn ask<P: Sharded>(
    shard: &Shard,
    owner: u16,
    command: &ReadCommand,
) -> Result<Page<P>, ReadError> {
    let pending = P::send(shard, owner, command.clone()).await;
    P::receive(pending).await
}

/// What shards say of one partition after the other.
trait Sharded: Paged + Sized {
    /// Reads what this shard has.
    async fn read(shard: &Shard, command: &ReadCommand) -> Result<Page<Self>, ReadError>;

    /// Asks another shard.
    async fn send(shard: &Shard, owner: u16, command: ReadCommand) -> PendingReply<'_>;

    /// Waits for its answer.
    async fn receive(pending: PendingReply<'_>) -> Result<Page<Self>, ReadError>;
}

impl Sharded for Partition {
    async fn read(shard: &Shard, command: &ReadCommand) -> Result<ReadPage, ReadError> {
        shard.store.read(command).await
    }

    async fn send(shard: &Shard, owner: u16, command: ReadCommand) -> PendingReply<'_> {
        let request = ShardRequest::Read(Box::new(command));
        shard.send(owner, request).await
    }

    async fn receive(pending: PendingReply<'_>) -> Result<ReadPage, ReadError> {
        match pending.reply().await {
            Ok(ShardReply::Read(result)) => result,
            _ => Err(ReadError::Closed),
        }
    }
}

impl Sharded for PartitionVersion {
    async fn read(shard: &Shard, command: &ReadCommand) -> Result<VersionPage, ReadError> {
        shard.store.read_versions(command).await
    }

    async fn send(shard: &Shard, owner: u16, command: ReadCommand) -> PendingReply<'_> {
        let request = ShardRequest::ReadVersions(Box::new(command));
        shard.send(owner, request).await
    }

    async fn receive(pending: PendingReply<'_>) -> Result<VersionPage, ReadError> {
        match pending.reply().await {
            Ok(ShardReply::Versions(result)) => result,
            _ => Err(ReadError::Closed),
        }
    }
}

/// Reads a range: window by window, of the shards that own slices of it.
async fn scan<P: Sharded>(shard: &Shard, command: &ReadCommand) -> Result<Page<P>, ReadError> {
    let sharder = shard.sharder;
    if sharder.shards() == 1 {
        return P::read(shard, command).await;
    }
    let partitions = shard.store.partitions(command.table.id) * u64::from(sharder.shards());
    let mut sweep: Sweep<'_, P> = Sweep::new(sharder, command, partitions);
    while let Some(window) = sweep.next_window() {
        let pages = read_window(shard, &window).await?;
        sweep.take(pages);
    }
    Ok(sweep.finish())
}

/// Asks the shards of a window, all at once.
async fn read_window<P: Sharded>(
    shard: &Shard,
    window: &Window,
) -> Result<Vec<Page<P>>, ReadError> {
    let mut pending = Vec::new();
    for owner in window.owners().filter(|owner| *owner != shard.index()) {
        pending.push(P::send(shard, owner, window.command.clone()).await);
    }
    let mut pages = Vec::with_capacity(pending.len() + 1);
    if window.owners().any(|owner| owner == shard.index()) {
        pages.push(P::read(shard, &window.command).await?);
    }
    for reply in pending {
        pages.push(P::receive(reply).await?);
    }
    Ok(pages)
}
