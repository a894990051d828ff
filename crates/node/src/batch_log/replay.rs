//! Completing batches that nobody has forgotten (`BatchlogManager.replayFailedBatches`).

use std::rc::Rc;
use std::time::Duration;

use io::TaskGroup;
use model::{
    ClusteringSelection, DataLimits, DecoratedKey, Mutation, Partition, PartitionBound,
    PartitionSelection, ReadCommand, Slice, Table,
};
use std::sync::Arc;
use storage::ReadError;
use uuid::Uuid;

use super::{UnderWay, forget_here, key_of};
use crate::coordinator;
use crate::message::ShardRequest;
use crate::shard::Shard;
use crate::system::{SavedBatch, saved_batch};
use crate::views;

/// How often a shard looks for batches to complete (`BatchlogManager.REPLAY_INTERVAL`).
const INTERVAL: Duration = Duration::from_secs(10);
/// How many batches are looked for at once at the start, and how many bytes of them.
const LOOK_ROWS: u32 = 128;
const LOOK_BYTES: u32 = 4 << 20;

/// Finds what all shards keep, and applies what writes of tables with views a crash has cut off: before anybody
/// else can have this node write something, or a view is built. On shard 0.
///
/// # Errors
/// In words.
pub(crate) async fn find_everywhere(shard: &Rc<Shard>) -> Result<(), String> {
    shard
        .on_all(|| ShardRequest::FindBatches, find(shard))
        .await
}

/// What a crash has left is completed before clients come if there is no other node, and later what nobody else
/// completes. On shard 0.
///
/// # Errors
/// In words.
pub(crate) async fn begin_everywhere(shard: &Rc<Shard>) -> Result<(), String> {
    shard
        .on_all(|| ShardRequest::BeginBatches, begin(shard))
        .await
}

/// Completes from now on what nobody else does of what this shard keeps.
///
/// # Errors
/// In words.
pub(crate) async fn begin(shard: &Rc<Shard>) -> Result<(), String> {
    let is_alone = shard.metadata().others().next().is_none();
    if is_alone {
        let left = replay(shard, i64::MAX, None).await;
        left.map_err(|error| format!("shard {}: {error}", shard.index()))?;
    }
    let replaying = {
        let shard = shard.clone();
        async move {
            loop {
                shard.env.sleep(INTERVAL).await;
                // A node that was drained changes no table; the next start sees to the batches.
                if shard.stopping.get() {
                    return;
                }
                if let Err(error) = replay_old(&shard).await {
                    tracing::warn!("logged batches could not be completed yet: {error}");
                }
            }
        }
    };
    shard.env.spawn(TaskGroup::Maintenance, replaying).detach();
    Ok(())
}

/// Completes the batches of this shard that are so old that whoever coordinates one sees to it no more
/// (`BatchlogManager.getBatchlogTimeout`).
///
/// # Errors
/// Some are left; why one of them is, in words.
pub(crate) async fn replay_old(shard: &Rc<Shard>) -> Result<(), String> {
    let age = 2 * shard.timeouts.write();
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    let until = shard.env.wall_micros().saturating_sub(age);
    replay(shard, until, rate(shard)).await
}

/// Bytes in a second that this shard may complete; `None`: as many as there are.
fn rate(shard: &Shard) -> Option<u64> {
    let all = shard.batch_log.throttle.get();
    let nodes = 1 + shard.metadata().others().count() as u64;
    (all > 0).then(|| (all / nodes / u64::from(shard.env.shards())).max(1))
}

/// Looks which batches this shard keeps.
///
/// # Errors
/// In words.
pub(crate) async fn find(shard: &Rc<Shard>) -> Result<(), String> {
    let found = look_for(shard).await;
    found.map_err(|error| format!("shard {}: reading system.batches: {error}", shard.index()))
}

async fn look_for(shard: &Rc<Shard>) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let Some(table) = schema.table("system", "batches").cloned() else {
        return Ok(());
    };
    let mut start = PartitionBound::Unbounded;
    loop {
        let page = PartitionSelection::Range {
            start,
            end: PartitionBound::Unbounded,
        };
        let page = read(shard, &table, page).await;
        let page = page.map_err(|error| error.to_string())?;
        for batch in page.iter().filter_map(|p| saved_batch(&table, p)) {
            let bytes = batch.mutations.iter().map(|bytes| bytes.len() as u64).sum();
            shard.batch_log.held.borrow_mut().find(batch.id, bytes);
            shard.batch_log.count(shard);
            // Whatever the clock says now, it is forgotten later than it was written.
            shard.timestamps.pass(batch.timestamp);
            recover(shard, &batch).await?;
        }
        // A page may be short of rows that were deleted: it ends where there is nothing left.
        let Some(last) = page.last() else {
            return Ok(());
        };
        start = PartitionBound::KeyExclusive(last.key.clone());
        shard.env.maybe_yield().await;
    }
}

/// Writes of tables with views that a crash cut off are applied before others come, which derive from what
/// these leave.
async fn recover(shard: &Rc<Shard>, batch: &SavedBatch) -> Result<(), String> {
    let mutations = left_of(shard, batch);
    if !views::is_of_views(&mutations) {
        return Ok(());
    }
    let is_of_table = |mutation: &Mutation| {
        mutation
            .updates
            .iter()
            .all(|update| update.table.view.is_none())
    };
    let written = mutations.into_iter().filter(is_of_table).collect();
    let applied = views::apply_tables(shard, written).await;
    applied.map_err(|error| format!("batch {}: {error}", batch.id))
}

/// Reads what this shard has of `system.batches`, some of it.
async fn read(
    shard: &Shard,
    table: &Arc<Table>,
    partitions: PartitionSelection,
) -> Result<Vec<Partition>, ReadError> {
    let command = ReadCommand {
        columns: table.regular_ids(),
        partitions,
        clustering: ClusteringSelection {
            slices: vec![Slice::ALL],
            reversed: false,
        },
        filters: Vec::new(),
        limits: DataLimits {
            rows: LOOK_ROWS,
            rows_per_partition: u32::MAX,
            bytes: LOOK_BYTES,
        },
        now_seconds: shard.env.wall_seconds(),
        resume: None,
        table: table.clone(),
        bypass_cache: false,
        packed: false,
    };
    Ok(shard.store.read(&command).await?.partitions)
}

/// Completes the batches of this shard that were begun until then, the oldest first; `rate`: so many bytes
/// in a second.
///
/// # Errors
/// Some are left; why one of them is, in words.
async fn replay(shard: &Rc<Shard>, until: i64, rate: Option<u64>) -> Result<(), String> {
    let (mut after, mut completed, mut result) = (None, 0, Ok(()));
    loop {
        let page = shard.batch_log.held.borrow().due(after, until);
        let Some((last, _)) = page.last() else {
            break;
        };
        after = Some(*last);
        let bytes: u64 = page.iter().map(|(_, bytes)| bytes).sum();
        let completing: Vec<_> = page
            .into_iter()
            .map(|((_, id), _)| {
                let shard = shard.clone();
                let env = shard.env.clone();
                env.spawn(
                    TaskGroup::Maintenance,
                    async move { complete(&shard, id).await },
                )
            })
            .collect();
        for completing in completing {
            match completing.await {
                Ok(is_there) => completed += u64::from(is_there),
                Err(error) => result = Err(error),
            }
        }
        match rate {
            Some(rate) => {
                let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
                shard.env.sleep(time).await;
            }
            None => shard.env.maybe_yield().await,
        }
    }
    shard.metrics.replayed_batches.add(completed);
    if completed > 0 {
        tracing::info!("{completed} logged batches that may not have been finished were applied");
    }
    result
}

/// Applies all of a batch, then forgets it. Was it there?
async fn complete(shard: &Rc<Shard>, id: Uuid) -> Result<bool, String> {
    let _under_way = UnderWay::begin(shard);
    let failed = |error: &dyn std::fmt::Display| format!("batch {id}: {error}");
    let Some(batch) = saved(shard, key_of(id))
        .await
        .map_err(|error| failed(&error))?
    else {
        shard.batch_log.held.borrow_mut().remove(id);
        shard.batch_log.count(shard);
        return Ok(false);
    };
    let mutations = left_of(shard, &batch);
    let completed = match views::is_of_views(&mutations) {
        true => views::complete(shard, mutations, batch.begun_at).await,
        false => coordinator::complete(shard, mutations, batch.begun_at).await,
    };
    completed.map_err(|error| failed(&error))?;
    let forgotten = forget_here(shard, id).await;
    forgotten.map_err(|error| failed(&error))?;
    Ok(true)
}

async fn saved(shard: &Shard, key: DecoratedKey) -> Result<Option<SavedBatch>, ReadError> {
    let schema = shard.metadata().schema.clone();
    let Some(table) = schema.table("system", "batches") else {
        return Ok(None);
    };
    let partitions = read(shard, table, PartitionSelection::Key(key)).await?;
    let batches = partitions.iter().filter_map(|p| saved_batch(table, p));
    Ok({ batches }.next())
}

/// What of a batch is still to be applied: nothing of tables that are gone or were truncated since, and
/// nothing at all where a deletion of what it says may be forgotten
/// (`BatchlogManager.ReplayingBatch.gcgs`).
fn left_of(shard: &Shard, batch: &SavedBatch) -> Vec<Mutation> {
    let schema = shard.metadata().schema.clone();
    let find = |id| schema.table_by_id(id).cloned();
    let mut mutations = Vec::with_capacity(batch.mutations.len());
    for bytes in &batch.mutations {
        match batch.decode(bytes, &find) {
            Ok(decoded) => mutations.extend(decoded),
            // As Cassandra does: nobody could ever apply it.
            Err(error) => {
                tracing::error!(
                    "batch {}: a mutation of it is damaged and left out: {error}",
                    batch.id
                );
            }
        }
    }
    mutations.retain_mut(|mutation| shard.truncations.retain(mutation, batch.begun_at));
    let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
    let grace = updates.map(|update| i64::from(update.table.options.gc_grace_seconds));
    let age = (shard.env.wall_micros() - batch.begun_at) / 1_000_000;
    if grace.min().is_some_and(|grace| grace <= age) {
        tracing::warn!(
            "batch {} is left out: it is older than gc_grace_seconds of its tables",
            batch.id
        );
        return Vec::new();
    }
    mutations
}
