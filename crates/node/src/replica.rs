//! The replica: a command finds the shard that owns its data. The same shard is a plain call,
//! another one a message and its reply.

use std::rc::Rc;

use model::{Mutation, PartitionSelection, ReadCommand, ReadPage, VersionPage};
use storage::{ReadError, WriteError};

use crate::message::{ShardReply, ShardRequest};
use crate::scan::{Sweep, Window};
use crate::shard::Shard;
use crate::virtual_tables;

/// Writes; returns when the write is as durable as the configuration says, and visible.
pub(crate) async fn apply(shard: &Shard, mutation: Mutation) -> Result<(), WriteError> {
    let owner = shard.owner(mutation.key().token());
    if owner == shard.index() {
        return shard.store.apply(mutation).await;
    }
    match shard.ask(owner, ShardRequest::Apply(mutation)).await {
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

/// Says all that this node knows of a partition, for a coordinator that asks several replicas.
pub(crate) async fn read_versions(
    shard: &Rc<Shard>,
    command: &ReadCommand,
) -> Result<VersionPage, ReadError> {
    let PartitionSelection::Key(key) = &command.partitions else {
        return shard.store.read_versions(command).await;
    };
    let owner = shard.owner(key.token());
    if owner == shard.index() {
        return shard.store.read_versions(command).await;
    }
    let request = ShardRequest::ReadVersions(Box::new(command.clone()));
    match shard.ask(owner, request).await {
        Ok(ShardReply::Versions(result)) => result,
        _ => Err(ReadError::Closed),
    }
}

async fn ask(shard: &Shard, owner: u16, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let request = ShardRequest::Read(Box::new(command.clone()));
    match shard.ask(owner, request).await {
        Ok(ShardReply::Read(result)) => result,
        _ => Err(ReadError::Closed),
    }
}

/// Reads a range: window by window, of the shards that own slices of it.
async fn scan(shard: &Shard, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let sharder = shard.sharder;
    if sharder.shards() == 1 {
        return shard.store.read(command).await;
    }
    let partitions = shard.store.partitions(command.table.id) * u64::from(sharder.shards());
    let mut sweep = Sweep::new(sharder, command, partitions);
    while let Some(window) = sweep.next_window() {
        let pages = read_window(shard, &window).await?;
        sweep.take(pages);
    }
    Ok(sweep.finish())
}

/// Asks the shards of a window, all at once.
async fn read_window(shard: &Shard, window: &Window) -> Result<Vec<ReadPage>, ReadError> {
    let mut pending = Vec::new();
    for owner in window.owners().filter(|owner| *owner != shard.index()) {
        let request = ShardRequest::Read(Box::new(window.command.clone()));
        pending.push(shard.send(owner, request).await);
    }
    let mut pages = Vec::with_capacity(pending.len() + 1);
    if window.owners().any(|owner| owner == shard.index()) {
        pages.push(shard.store.read(&window.command).await?);
    }
    for reply in pending {
        match reply.reply().await {
            Ok(ShardReply::Read(page)) => pages.push(page?),
            _ => return Err(ReadError::Closed),
        }
    }
    Ok(pages)
}
