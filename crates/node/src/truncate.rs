//! TRUNCATE: all nodes forget all rows of a table (`StorageProxy.truncateBlocking`, `TruncateVerbHandler`).
//!
//! All members have to be up: one that kept its rows would bring them back. It can be repeated where one
//! of them fails in between. Shard 0 asks the other nodes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Consistency, Unavailable};
use model::{Table, TableId};

use crate::auto_snapshot;
use crate::batch_log;
use crate::error::RequestError;
use crate::message::{ShardReply, ShardRequest};
use crate::peers::LEADING_SHARD;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;
use crate::truncations;
use crate::views;

/// Truncates a table on all nodes, in `time` or in that which operators set.
pub(crate) async fn everywhere(
    shard: &Rc<Shard>,
    table: TableId,
    time: Option<Duration>,
) -> Result<(), RequestError> {
    if shard.index() == LEADING_SHARD {
        return lead(shard, table, time).await;
    }
    let request = ShardRequest::TruncateEverywhere(table, time);
    match shard.ask(LEADING_SHARD, request).await {
        Ok(ShardReply::Written(result)) => result,
        Ok(_) => Err(failed("an answer to another question")),
        Err(gone) => Err(failed(gone)),
    }
}

fn failed(reason: impl ToString) -> RequestError {
    RequestError::Truncate(reason.to_string())
}

async fn lead(
    shard: &Rc<Shard>,
    table: TableId,
    time: Option<Duration>,
) -> Result<(), RequestError> {
    let began = shard.env.now();
    let others: Vec<_> = shard.metadata().others().collect();
    let up = others.iter().filter(|id| shard.peers.is_up(**id)).count();
    if up < others.len() {
        return Err(RequestError::Unavailable(Unavailable {
            consistency: Consistency::All,
            required: 1 + others.len() as u32,
            alive: 1 + up as u32,
        }));
    }
    let service = shard.cluster_service();
    let service = service.ok_or_else(|| failed("the node is starting"))?;
    let here = here(shard, table).await;
    let most = time.unwrap_or_else(|| shard.timeouts.get(TimeoutKind::Truncate));
    let told = service.truncate_at(&others, table, most).await;
    here.and(told).map_err(failed)?;
    // What this node does is not given up half-way; who set a time hears that it was not enough.
    match time.is_some_and(|time| shard.env.now() > began + time) {
        true => Err(failed("it took longer than its TIMEOUT")),
        false => Ok(()),
    }
}

/// Truncates a table on this node, whichever shard this is.
///
/// # Errors
/// Its rows are there yet, or some of them; in words.
pub(crate) async fn here(shard: &Rc<Shard>, table: TableId) -> Result<(), String> {
    let known: Option<Arc<Table>> = shard.metadata().schema.table_by_id(table).cloned();
    let known = known.ok_or_else(|| format!("there is no table of id {table}"))?;
    let views: Vec<_> = shard.metadata().schema.views_of(&known).cloned().collect();
    for table in std::iter::once(&known).chain(&views) {
        Box::pin(auto_snapshot::truncating(shard, table)).await?;
    }
    let tables = std::iter::once(known.id).chain(views.iter().map(|view| view.id));
    let truncating = all_of(shard, tables);
    match views.is_empty() {
        true => truncating.await?,
        false => views::while_held(shard, truncating).await?,
    }
    // What is acknowledged afterwards is not as early (Cassandra waits for the same).
    shard.env.sleep(Duration::from_millis(1)).await;
    Ok(())
}

/// Truncates a table and its views.
async fn all_of(shard: &Rc<Shard>, tables: impl Iterator<Item = TableId>) -> Result<(), String> {
    // What was acknowledged before this began is not later.
    let at = shard.env.wall_micros().div_euclid(1000);
    for table in tables {
        let request = || ShardRequest::Truncate(table, at);
        let truncated = shard.on_all(request, on_shard(shard, table, at));
        truncated.await?;
        truncations::save(shard, table).await?;
    }
    Ok(())
}

/// Truncates what this shard has of a table, as of that time in milliseconds since 1970.
///
/// # Errors
/// Its rows are there yet; in words.
pub(crate) async fn on_shard(shard: &Shard, table: TableId, at: i64) -> Result<(), String> {
    shard.truncations.note(table, at);
    let truncated = shard.store.truncate(table).await;
    batch_log::truncated(shard).await;
    truncated.map_err(|error| error.to_string())
}
