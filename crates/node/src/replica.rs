//! The replica: a command finds the shard that owns its data. The same shard is a plain call,
//! another one a message and its reply.

use std::rc::Rc;

use model::{Mutation, PartitionSelection, ReadCommand, ReadPage};
use storage::{ReadError, WriteError};

use crate::message::{ShardReply, ShardRequest};
use crate::scan::merge_pages;
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

async fn ask(shard: &Shard, owner: u16, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let request = ShardRequest::Read(Box::new(command.clone()));
    match shard.ask(owner, request).await {
        Ok(ShardReply::Read(result)) => result,
        _ => Err(ReadError::Closed),
    }
}

/// Reads a range: of every shard, as neighbouring tokens are on different ones.
async fn scan(shard: &Shard, command: &ReadCommand) -> Result<ReadPage, ReadError> {
    let mut pending = Vec::new();
    for other in shard.others() {
        let request = ShardRequest::Read(Box::new(command.clone()));
        pending.push(shard.send(other, request).await);
    }
    let mut pages = vec![shard.store.read(command).await?];
    for reply in pending {
        match reply.reply().await {
            Ok(ShardReply::Read(page)) => pages.push(page?),
            _ => return Err(ReadError::Closed),
        }
    }
    if let [page] = &mut pages[..] {
        return Ok(std::mem::take(page));
    }
    Ok(merge_pages(pages, &command.limits))
}
