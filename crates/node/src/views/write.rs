//! A write of a table that may have views, on the shard that owns its partition.

use std::rc::Rc;

use io::{TaskGroup, oneshot};
use model::{DecoratedKey, Mutation, PartitionUpdate};
use storage::{Now, ViewRule, ViewUpdates, WriteError, slices_touched};

use super::deliver::Delivery;
use super::{UnderWay, known, time};
use crate::batch_log;
use crate::shard::Shard;

/// Applies a write, and has the views follow. `written_at`, if it was written before, in microseconds since 1970:
/// what was truncated since is left out.
pub(crate) async fn apply(
    shard: &Rc<Shard>,
    mut mutation: Mutation,
    written_at: Option<i64>,
) -> Result<(), WriteError> {
    let _under_way = UnderWay::begin(&**shard);
    // A truncation that is noted only now waits for this write, and removes it.
    if let Some(at) = written_at
        && !shard.truncations.retain(&mut mutation, at)
    {
        return Ok(());
    }
    let metadata = shard.metadata();
    let has_views = |update: &PartitionUpdate| metadata.views_of(update.table.id).is_some();
    if !mutation.updates.iter().any(has_views) {
        return shard.store.apply(mutation).await;
    }
    // Who waits may give up, and must not take with it what has been begun.
    let (told, applied) = oneshot();
    let of_task = shard.clone();
    let applying = async move {
        let under_way = UnderWay::begin(&*of_task);
        let result = apply_with_views(&of_task, mutation).await;
        drop(under_way);
        let _ = told.send(result);
    };
    shard.env.spawn(TaskGroup::Foreground, applying).detach();
    applied.await.unwrap_or(Err(WriteError::Closed))
}

async fn apply_with_views(shard: &Rc<Shard>, mutation: Mutation) -> Result<(), WriteError> {
    mutation.updates.iter().try_for_each(storage::check_fits)?;
    let _write = shard.views.writes.acquire(1).await;
    let delivering = {
        let _alone = shard.views.lock(mutation.key()).acquire(1).await;
        let Derived { updates, is_all } = derive(shard, &mutation).await?;
        if !is_all {
            return apply_large(shard, mutation).await;
        }
        if updates.is_empty() {
            return shard.store.apply(mutation).await;
        }
        keep_and_apply(shard, mutation, updates).await?
    };
    if let Some(delivery) = delivering {
        delivery.finish(shard).await;
    }
    Ok(())
}

/// Has the write and what follows from it in the batch log, then the write in its table.
async fn keep_and_apply(
    shard: &Rc<Shard>,
    mut mutation: Mutation,
    updates: Vec<Mutation>,
) -> Result<Option<Delivery>, WriteError> {
    let base = mutation.key().clone();
    let mut all = vec![mutation.clone()];
    all.extend(updates);
    let batch = batch_log::own_batch_of(shard, &all);
    let delivery = Delivery::new(shard, (base, batch.id), all.split_off(1));
    batch_log::keep_here(shard, batch).await?;
    let applied = match shard.truncations.retain(&mut mutation, delivery.begun_at()) {
        true => shard.store.apply(mutation).await,
        // Truncated while it was on its way: the views are, too.
        false => {
            delivery.forget(shard);
            return Ok(None);
        }
    };
    if let Err(error) = applied {
        // Or the next start would apply it, when others have been applied that did not know of it.
        delivery.forget(shard);
        return Err(error);
    }
    Ok(Some(delivery))
}

/// What is to be written to views.
struct Derived {
    updates: Vec<Mutation>,
    /// Is that all? Not, if the write touches more rows than are looked at at once.
    is_all: bool,
}

/// What a write means for the views of its tables, as far as it touches few rows.
async fn derive(shard: &Rc<Shard>, mutation: &Mutation) -> Result<Derived, WriteError> {
    let metadata = shard.metadata();
    let mut derived = Derived {
        updates: Vec::new(),
        is_all: true,
    };
    for update in &mutation.updates {
        let Some(rules) = metadata.views_of(update.table.id) else {
            continue;
        };
        let slices = slices_touched(&rules, update);
        if slices.is_empty() {
            continue;
        }
        let read = known::rows_of(shard, &update.table, &update.key, slices).await;
        let (before, end) = read.map_err(known::unread)?;
        if end.is_some() {
            derived.is_all = false;
            return Ok(derived);
        }
        let mut views = updates_on(shard, &rules, &update.key).await?;
        views.add(update, &before);
        time::pass(shard, views.latest_marker()).await?;
        derived.updates.extend(views.finish());
    }
    check(&derived.updates)?;
    Ok(derived)
}

async fn updates_on<'r>(
    shard: &Rc<Shard>,
    rules: &'r [ViewRule],
    key: &DecoratedKey,
) -> Result<ViewUpdates<'r>, WriteError> {
    let now = now(shard, rules).await?;
    Ok(ViewUpdates::new(rules, key, now))
}

/// When what is derived now is written.
pub(super) async fn now(shard: &Rc<Shard>, rules: &[ViewRule]) -> Result<Now, WriteError> {
    let micros = match rules.iter().any(ViewRule::has_late_markers) {
        true => time::next(shard).await?,
        false => 0,
    };
    Ok(Now {
        seconds: shard.env.wall_seconds(),
        micros,
    })
}

/// What no view could hold is refused before anything is written.
fn check(updates: &[Mutation]) -> Result<(), WriteError> {
    let updates = updates.iter().flat_map(|mutation| &mutation.updates);
    for update in updates {
        storage::check_fits(update)?;
    }
    Ok(())
}

/// A write that touches more rows than are looked at at once, as the deletion of a large partition does. It is kept,
/// the views get what follows from it page by page, and then it is applied. Whatever of that a crash leaves
/// undone is done again from the start: what the views have by then is the same.
async fn apply_large(shard: &Rc<Shard>, mutation: Mutation) -> Result<(), WriteError> {
    let batch = batch_log::own_batch_of(shard, std::slice::from_ref(&mutation));
    let kept = Delivery::new(shard, (mutation.key().clone(), batch.id), Vec::new());
    batch_log::keep_here(shard, batch).await?;
    let followed = follow_large(shard, &mutation, &kept).await;
    let applied = match followed {
        Ok(()) => shard.store.apply(mutation).await,
        Err(error) => Err(error),
    };
    match &applied {
        Ok(()) => kept.forget(shard),
        // Views may be ahead of their table: the batch log completes it.
        Err(error) => tracing::warn!("a write of many rows is left to the batch log: {error}"),
    }
    applied
}

async fn follow_large(
    shard: &Rc<Shard>,
    mutation: &Mutation,
    kept: &Delivery,
) -> Result<(), WriteError> {
    let metadata = shard.metadata();
    for update in &mutation.updates {
        let Some(rules) = metadata.views_of(update.table.id) else {
            continue;
        };
        let mut slices = slices_touched(&rules, update);
        while !slices.is_empty() {
            let read = known::rows_of(shard, &update.table, &update.key, slices.clone()).await;
            let (before, end) = read.map_err(known::unread)?;
            let comparator = update.table.comparator();
            let mut part = update.clone();
            part.rows.retain(|row| {
                let place = &row.clustering;
                slices.iter().any(|slice| slice.contains(comparator, place))
                    && end
                        .as_ref()
                        .is_none_or(|end| comparator.compare_to_bound(place, end).is_lt())
            });
            let mut views = updates_on(shard, &rules, &update.key).await?;
            views.add(&part, &before);
            time::pass(shard, views.latest_marker()).await?;
            let updates = views.finish();
            check(&updates)?;
            kept.tell(shard, updates).await;
            slices = match &end {
                Some(end) => known::slices_from(&update.table, &slices, end),
                None => Vec::new(),
            };
        }
    }
    Ok(())
}
