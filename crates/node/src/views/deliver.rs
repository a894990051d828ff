//! Telling the replicas of views what they are to have.

use std::rc::Rc;

use cluster::NodeId;
use io::TaskGroup;
use model::{DecoratedKey, Mutation};
use uuid::Uuid;

use super::pairs::{Told, told_by};
use crate::batch_log::{self, UnderWay};
use crate::coordinator;
use crate::error::RequestError;
use crate::hints;
use crate::replica;
use crate::shard::Shard;
use crate::system::time_of;

/// How many mutations are on their way at once, of one write.
const AT_ONCE: usize = 16;

/// What follows from one write of a table, which is in the batch log.
pub(super) struct Delivery {
    /// The partition of the table.
    base: DecoratedKey,
    /// The batch that has it.
    batch: Uuid,
    updates: Vec<Mutation>,
    /// A truncation of the table waits for it.
    under_way: UnderWay,
}

impl Delivery {
    pub(super) fn new(
        shard: &Rc<Shard>,
        (base, batch): (DecoratedKey, Uuid),
        updates: Vec<Mutation>,
    ) -> Delivery {
        Delivery {
            base,
            batch,
            updates,
            under_way: UnderWay::begin(shard),
        }
    }

    /// When the write began, in microseconds since 1970.
    pub(super) fn begun_at(&self) -> i64 {
        time_of(self.batch).unwrap_or(i64::MIN)
    }

    /// Delivers. Returns when all that this node itself has is there; the others get theirs, or hints, without
    /// anybody waiting.
    pub(super) async fn finish(mut self, shard: &Rc<Shard>) {
        let updates = std::mem::take(&mut self.updates);
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        let own = shard.metadata().own();
        for update in updates {
            for node in told(shard, &self.base, &update) {
                match node == own {
                    true => here.push((node, update.clone())),
                    false => elsewhere.push((node, update.clone())),
                }
            }
        }
        let begun_at = self.begun_at();
        let mut all = tell(shard, here, begun_at).await;
        if elsewhere.is_empty() {
            if all {
                self.forget(shard);
            }
            return;
        }
        let of_task = shard.clone();
        let telling = async move {
            all &= tell(&of_task, elsewhere, begun_at).await;
            if all {
                self.forget(&of_task);
            }
        };
        shard.env.spawn(TaskGroup::Foreground, telling).detach();
    }

    /// Delivers this as well, and returns when it is there, or hints are.
    pub(super) async fn tell(&self, shard: &Rc<Shard>, updates: Vec<Mutation>) {
        let told = updates.into_iter().flat_map(|update| {
            let nodes = told(shard, &self.base, &update);
            nodes.into_iter().map(move |node| (node, update.clone()))
        });
        tell(shard, told.collect(), self.begun_at()).await;
    }

    /// All of it is done: has the batch forgotten, without anybody waiting.
    pub(super) fn forget(self, shard: &Rc<Shard>) {
        let of_task = shard.clone();
        let forgetting = async move {
            if let Err(error) = batch_log::forget_here(&of_task, self.batch).await {
                // It is done once more, which changes nothing.
                tracing::debug!("batch {} could not be forgotten: {error}", self.batch);
            }
            drop(self.under_way);
        };
        shard.env.spawn(TaskGroup::Foreground, forgetting).detach();
    }
}

/// Who is to be told of an update of a view.
pub(super) fn told(shard: &Shard, base: &DecoratedKey, update: &Mutation) -> Told {
    let metadata = shard.metadata();
    let placement = metadata.placement(&update.updates[0].table.keyspace);
    let tokens = (base.token(), update.key().token());
    let data_center = |node| {
        let place = &metadata.node(node)?.place;
        Some(place.datacenter.clone())
    };
    told_by(metadata.own(), placement, tokens, data_center)
}

/// Tells each node its update. Does each have it, or the drive a hint for it?
pub(super) async fn tell(
    shard: &Rc<Shard>,
    mut updates: Vec<(NodeId, Mutation)>,
    begun_at: i64,
) -> bool {
    let mut all = true;
    if updates.len() == 1
        && let Some((node, update)) = updates.pop()
    {
        return tell_one(shard, node, update, begun_at).await;
    }
    let mut updates = updates.into_iter();
    loop {
        let telling: Vec<_> = updates
            .by_ref()
            .take(AT_ONCE)
            .map(|(node, update)| {
                let of_task = shard.clone();
                let telling = async move { tell_one(&of_task, node, update, begun_at).await };
                shard.env.spawn(TaskGroup::Foreground, telling)
            })
            .collect();
        if telling.is_empty() {
            return all;
        }
        for told in telling {
            all &= told.await;
        }
    }
}

async fn tell_one(shard: &Rc<Shard>, node: NodeId, update: Mutation, begun_at: i64) -> bool {
    if node == shard.metadata().own() {
        let applied = replica::apply_late(shard, update, begun_at).await;
        if let Err(error) = &applied {
            tracing::warn!("a view does not have an update yet: {error}");
        }
        return applied.is_ok();
    }
    let time = shard.timeouts.write();
    let is_up = shard.peers.is_up(node);
    if is_up && coordinator::deliver(shard, node, (update.clone(), begun_at), time).await {
        return true;
    }
    shard.metrics.missed_writes.add(1);
    // Without one, as of a table: who was away for longer than hints are kept has to be repaired.
    if let Some(kept) = hints::keep(shard, node, &update, begun_at) {
        hints::written(shard, kept).await;
    }
    true
}

/// Has a node take an update, as of that time in microseconds since 1970.
///
/// # Errors
/// It does not have it, as far as is known; in words.
pub(super) async fn tell_surely(
    shard: &Rc<Shard>,
    node: NodeId,
    update: Mutation,
    written_at: i64,
) -> Result<(), String> {
    if node == shard.metadata().own() {
        let applied = replica::apply_late(shard, update, written_at).await;
        return applied.map_err(|error| error.to_string());
    }
    let time = shard.timeouts.write();
    match coordinator::deliver(shard, node, (update, written_at), time).await {
        true => Ok(()),
        false => Err(format!("node {node} does not answer")),
    }
}

/// Is it what a write of a table means for its views, with that write?
pub(crate) fn is_of_views(mutations: &[Mutation]) -> bool {
    let mut updates = mutations.iter().flat_map(|mutation| &mutation.updates);
    updates.any(|update| update.table.view.is_some())
}

/// Completes what a crash has left in the batch log: the table has its write ([`super::apply_tables`]), the views
/// get what follows from it. Begun at that time, in microseconds since 1970.
///
/// # Errors
/// This node has not all of it.
pub(crate) async fn complete(
    shard: &Rc<Shard>,
    mutations: Vec<Mutation>,
    begun_at: i64,
) -> Result<(), RequestError> {
    let is_of_view = |mutation: &Mutation| {
        let mut updates = mutation.updates.iter();
        updates.any(|update| update.table.view.is_some())
    };
    let (updates, written): (Vec<_>, Vec<_>) = mutations.into_iter().partition(is_of_view);
    // Without it the table was truncated or is gone, and its views with it.
    let Some(base) = written.first().map(|mutation| mutation.key().clone()) else {
        return Ok(());
    };
    super::apply_tables(shard, written).await?;
    let told = updates.into_iter().flat_map(|update| {
        let nodes = told(shard, &base, &update);
        nodes.into_iter().map(move |node| (node, update.clone()))
    });
    match tell(shard, told.collect(), begun_at).await {
        true => Ok(()),
        false => Err(RequestError::Server("a view does not have it".to_owned())),
    }
}
