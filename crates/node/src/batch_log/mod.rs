//! The batch log (`BatchlogManager`): a logged batch of several partitions is written down before
//! any of it is applied, so that all of it will be, whatever happens in between.
//!
//! Who coordinates it chooses two other nodes of its data centre that keep it in `system.batches`
//! ([`crate::coordinator`]), or keeps it itself where there are no others. Once all of it is applied it is
//! told to forget it. A batch that nobody has forgotten after a while is completed by whoever keeps it
//! ([`replay`]).
//!
//! Each shard keeps those whose ids it owns. How many it keeps has a bound, beyond which it refuses more:
//! there are few as long as the replicas answer.

mod held;
mod replay;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use io::Notify;
use model::record::message::Batch;
use model::{DecoratedKey, Mutation, TableId};
use storage::WriteError;
use uuid::Uuid;

use self::held::{Full, Held};
use crate::message::{ShardReply, ShardRequest};
use crate::shard::Shard;
use crate::system::{batch_mutation, forget_mutation, time_uuid};
pub(crate) use replay::{begin, begin_everywhere, find, find_everywhere, replay_old};

/// What a shard knows of batches.
pub(crate) struct BatchLog {
    /// Those that it keeps.
    held: RefCell<Held>,
    /// Held by each batch that is being forgotten or completed, the one of when that began.
    epoch: RefCell<Rc<()>>,
    ended: Notify,
    /// Bytes of batches that all nodes together complete in a second; 0: as many as there are.
    pub(crate) throttle: Cell<u64>,
}

/// `batchlog_replay_throttle`
const THROTTLE: u64 = 1 << 20;

impl Default for BatchLog {
    fn default() -> BatchLog {
        BatchLog {
            held: RefCell::default(),
            epoch: RefCell::default(),
            ended: Notify::new(),
            throttle: Cell::new(THROTTLE),
        }
    }
}

impl BatchLog {
    /// Shows how many batches the shard keeps.
    fn count(&self, shard: &Shard) {
        let count = self.held.borrow().len();
        shard.metrics.held_batches.set(count as u64);
    }

    /// How many batches the shard keeps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.held.borrow().len()
    }

    /// As if it kept as much as it may.
    #[cfg(test)]
    pub(crate) fn fill(&self) {
        let id = Uuid::max();
        self.held.borrow_mut().find(id, held::MAX_BYTES);
    }
}

/// A batch is being forgotten or completed, until this is dropped.
pub(crate) struct UnderWay {
    shard: Rc<Shard>,
    epoch: Option<Rc<()>>,
}

impl UnderWay {
    pub(crate) fn begin(shard: &Rc<Shard>) -> UnderWay {
        UnderWay {
            epoch: Some(shard.batch_log.epoch.borrow().clone()),
            shard: shard.clone(),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.epoch = None;
        self.shard.batch_log.ended.notify_all();
    }
}

/// A batch of these mutations, begun now.
pub(crate) fn batch_of(shard: &Shard, mutations: &[Mutation]) -> Batch {
    let now = shard.timestamps.next(&shard.env);
    let encoded = mutations.iter().map(storage::encode_mutation);
    Batch {
        id: time_uuid(now, 0, shard.env.random_u64()),
        mutations: encoded.map(Bytes::from).collect(),
    }
}

/// The same, of which this shard owns the id: what it keeps it keeps beside its writes.
pub(crate) fn own_batch_of(shard: &Shard, mutations: &[Mutation]) -> Batch {
    let mut batch = batch_of(shard, mutations);
    while shard.owner(key_of(batch.id).token()) != shard.index() {
        let now = shard.timestamps.next(&shard.env);
        batch.id = time_uuid(now, 0, shard.env.random_u64());
    }
    batch
}

/// The partition of `system.batches` that has a batch.
pub(crate) fn key_of(id: Uuid) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()))
}

/// Keeps a batch on this node: it is as durable as any write when this returns.
pub(crate) async fn keep(shard: &Shard, batch: Batch) -> Result<(), WriteError> {
    let owner = shard.owner(key_of(batch.id).token());
    if owner == shard.index() {
        return keep_here(shard, batch).await;
    }
    applied(shard.ask(owner, ShardRequest::KeepBatch(batch)).await)
}

/// Forgets a batch that is done.
pub(crate) async fn forget(shard: &Shard, id: Uuid) -> Result<(), WriteError> {
    let owner = shard.owner(key_of(id).token());
    if owner == shard.index() {
        return forget_here(shard, id).await;
    }
    applied(shard.ask(owner, ShardRequest::ForgetBatch(id)).await)
}

fn applied<E>(reply: Result<ShardReply, E>) -> Result<(), WriteError> {
    match reply {
        Ok(ShardReply::Applied(result)) => result,
        _ => Err(WriteError::Closed),
    }
}

/// Keeps a batch on this shard, which owns its id.
pub(crate) async fn keep_here(shard: &Shard, batch: Batch) -> Result<(), WriteError> {
    let id = batch.id;
    let bytes = batch.mutations.iter().map(|bytes| bytes.len() as u64).sum();
    let added = shard.batch_log.held.borrow_mut().add(id, bytes);
    shard.batch_log.count(shard);
    added.map_err(|Full| {
        WriteError::Overloaded("too many logged batches wait to be completed".into())
    })?;
    let now = shard.timestamps.next(&shard.env);
    let schema = shard.metadata().schema.clone();
    let mutation = batch_mutation(&schema, id, now, batch.mutations);
    let kept = match mutation {
        Some(mutation) => shard.store.apply(mutation).await,
        None => Err(WriteError::UnknownTable(TableId::nil())),
    };
    // After an error of the log it may be there or not: whoever completes it looks.
    if kept.is_err() && !matches!(kept, Err(WriteError::CommitLog(_))) {
        shard.batch_log.held.borrow_mut().remove(id);
        shard.batch_log.count(shard);
    }
    kept
}

/// Forgets a batch on this shard, which owns its id.
pub(crate) async fn forget_here(shard: &Shard, id: Uuid) -> Result<(), WriteError> {
    // No clock makes it earlier than the batch, which this shard wrote too.
    let now = shard.timestamps.next(&shard.env);
    let mutation = forget_mutation(&shard.metadata().schema, id, now);
    let mutation = mutation.ok_or(WriteError::UnknownTable(TableId::nil()))?;
    shard.store.apply(mutation).await?;
    shard.batch_log.held.borrow_mut().remove(id);
    shard.batch_log.count(shard);
    Ok(())
}

/// A table was truncated: what was acknowledged of it before must not come back with a batch that
/// was about to be forgotten or completed, whatever the clocks say. Returns when none of those is left.
pub(crate) async fn truncated(shard: &Shard) {
    let log = &shard.batch_log;
    let before = log.epoch.replace(Rc::new(()));
    while Rc::strong_count(&before) > 1 {
        log.ended.notified().await;
    }
}
