//! The batch log (`BatchlogManager`): a logged batch of several partitions is written down before
//! any of it is applied, so that all of it will be, whatever happens in between.
//!
//! Once all of it is applied it is forgotten. What a crash leaves is applied at the next start,
//! before clients come; what fails meanwhile is tried again.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use io::{Notify, TaskGroup};
use model::{DecoratedKey, Mutation, TableId};
use uuid::Uuid;
use wire::{Consistency, WriteType};

use crate::coordinator;
use crate::error::RequestError;
use crate::replica;
use crate::shard::Shard;
use crate::start::{own_table, read_whole};
use crate::system::{SavedBatch, batch_mutation, forget_mutation, saved_batch, time_uuid};

/// After how long a batch that failed is tried again (`BatchlogManager.REPLAY_INTERVAL`).
const RETRY: Duration = Duration::from_secs(10);
/// How many batches of a shard may be tried again; what is beyond waits for the next start.
const MAX_RETRIES: usize = 1024;

/// What a shard knows of the batches that it coordinates.
#[derive(Default)]
pub(crate) struct BatchLog {
    /// Held by each batch that is being forgotten, the one of when that began.
    epoch: RefCell<Rc<()>>,
    forgotten: Notify,
    /// Held by each batch that is tried again.
    retries: Rc<()>,
    /// When tables were truncated, in microseconds since 1970: a batch from before stays out.
    truncated: RefCell<HashMap<TableId, i64>>,
}

impl BatchLog {
    /// When a table was truncated since the node started, in microseconds since 1970.
    pub(crate) fn truncated_at(&self, table: TableId) -> Option<i64> {
        self.truncated.borrow().get(&table).copied()
    }

    /// When tables were truncated since the node started, in microseconds since 1970.
    pub(crate) fn truncations(&self) -> HashMap<TableId, i64> {
        self.truncated.borrow().clone()
    }
}

/// Writes a batch down. Its mutations may be applied when this returns.
pub(crate) async fn record(
    shard: &Rc<Shard>,
    mutations: &[Mutation],
) -> Result<Uuid, RequestError> {
    let now = shard.timestamps.next(&shard.env);
    let id = time_uuid(now, 0, shard.env.random_u64());
    let encoded = mutations.iter().map(storage::encode_mutation);
    let metadata = shard.metadata();
    let mutation = batch_mutation(&metadata.schema, id, now, encoded)
        .ok_or_else(|| RequestError::Server("there is no table system.batches".to_owned()))?;
    coordinator::write(shard, vec![mutation], Consistency::One, WriteType::BatchLog).await?;
    Ok(id)
}

/// All of a batch is applied: forgets it, without anybody waiting.
pub(crate) fn forget_soon(shard: &Rc<Shard>, id: Uuid) {
    let epoch = shard.batch_log.epoch.borrow().clone();
    let forgetting = {
        let shard = shard.clone();
        async move {
            if let Err(error) = forget(&shard, id).await {
                // It is applied once more at the next start, which changes nothing.
                tracing::warn!("batch {id} could not be forgotten: {error}");
            }
            drop(epoch);
            shard.batch_log.forgotten.notify_all();
        }
    };
    shard.env.spawn(TaskGroup::Foreground, forgetting).detach();
}

async fn forget(shard: &Shard, id: Uuid) -> Result<(), String> {
    let now = shard.timestamps.next(&shard.env);
    let mutation = forget_mutation(&shard.metadata().schema, id, now);
    let mutation = mutation.ok_or("there is no table system.batches")?;
    let applied = replica::apply(shard, mutation).await;
    applied.map_err(|error| error.to_string())
}

/// A batch failed: nobody knows how much of it is applied, so it is tried again until all is.
pub(crate) fn retry_later(shard: &Rc<Shard>, id: Uuid) {
    let held = shard.batch_log.retries.clone();
    if Rc::strong_count(&held) > MAX_RETRIES {
        return;
    }
    let retrying = {
        let shard = shard.clone();
        async move {
            loop {
                shard.env.sleep(RETRY).await;
                match retry(&shard, id).await {
                    Ok(()) => break,
                    Err(error) => tracing::warn!("batch {id} failed again: {error}"),
                }
            }
            drop(held);
        }
    };
    shard.env.spawn(TaskGroup::Maintenance, retrying).detach();
}

async fn retry(shard: &Rc<Shard>, id: Uuid) -> Result<(), String> {
    let key = DecoratedKey::new(Bytes::copy_from_slice(id.as_bytes()));
    for batch in saved(shard, Some(key)).await? {
        apply(shard, &batch).await?;
    }
    Ok(())
}

/// Applies all that a crash left. To be called before clients come.
pub(crate) async fn replay(shard: &Rc<Shard>) -> Result<(), String> {
    let batches = saved(shard, None).await?;
    let count = batches.len();
    for batch in batches {
        apply(shard, &batch).await?;
        shard.env.maybe_yield().await;
    }
    if count > 0 {
        tracing::info!("{count} logged batches that may not have been finished were applied");
    }
    Ok(())
}

async fn saved(shard: &Rc<Shard>, key: Option<DecoratedKey>) -> Result<Vec<SavedBatch>, String> {
    let schema = shard.metadata().schema.clone();
    let table = own_table(&schema, "system", "batches").map_err(|error| error.to_string())?;
    let partitions = read_whole(shard, table.clone(), key).await;
    let partitions = partitions.map_err(|error| error.to_string())?;
    let batches = partitions.iter().filter_map(|p| saved_batch(&table, p));
    Ok(batches.collect())
}

/// Applies a batch, then forgets it.
async fn apply(shard: &Rc<Shard>, batch: &SavedBatch) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let find = |id| schema.table_by_id(id).cloned();
    for bytes in &batch.mutations {
        match batch.decode(bytes, &find) {
            Ok(Some(mutation)) => apply_one(shard, mutation, batch.written_at).await?,
            // Its tables are gone.
            Ok(None) => {}
            Err(error) => return Err(format!("a mutation of it is damaged: {error}")),
        }
    }
    // Whatever the clock says now, this is later than the batch.
    shard.timestamps.pass(batch.written_at);
    forget(shard, batch.id).await
}

/// Replicas that are down get hints, so that no batch waits for them.
async fn apply_one(
    shard: &Rc<Shard>,
    mut mutation: Mutation,
    written_at: i64,
) -> Result<(), String> {
    {
        let truncated = shard.batch_log.truncated.borrow();
        let stays = |id| truncated.get(&id).is_none_or(|at| written_at > *at);
        mutation.updates.retain(|update| stays(update.table.id));
    }
    if mutation.updates.is_empty() {
        return Ok(());
    }
    let (level, write_type) = (Consistency::Any, WriteType::Batch);
    match coordinator::write(shard, vec![mutation], level, write_type).await {
        // It never will be written, and must not keep the others from it.
        Err(RequestError::Cql(misfit)) => {
            tracing::error!("left out of a logged batch: {misfit}");
            Ok(())
        }
        applied => applied.map_err(|error| error.to_string()),
    }
}

/// A table was truncated: what was acknowledged of it before must not come back with a batch that
/// was about to be forgotten. Returns when none of those is left in the log.
pub(crate) async fn truncated(shard: &Shard, table: TableId) {
    let log = &shard.batch_log;
    let now = shard.env.wall_micros();
    log.truncated.borrow_mut().insert(table, now);
    let before = log.epoch.replace(Rc::new(()));
    while Rc::strong_count(&before) > 1 {
        log.forgotten.notified().await;
    }
}
