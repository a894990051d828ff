//! Building views that are new from what their tables have (`ViewBuilder`).
//!
//! Each node builds from what it has, and tells the replicas of the view that it tells of writes, too. Shard 0
//! goes through the whole ring once for each view, in its order, and notes how far it is; a build that was cut off goes
//! on from there. It begins when no write is under way that does not know of the view: from then on writes
//! derive what the view is to have, and what is built meets what they derive in any order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::Consistency;
use io::TaskGroup;
use model::{
    Partition, PartitionBound, PartitionSelection, PartitionVersion, Schema, Slice, Table, TableId,
};
use storage::{Now, ViewRule, ViewUpdates};
use wire::WriteType;

use super::deliver::{tell_surely, told};
use super::{known, time};
use crate::coordinator;
use crate::message::ShardRequest;
use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::system::{
    BuildProgress, SstableTask, build_status_mutation, builds_in_progress, built_mutation,
    built_views, forget_view_mutation, progress_mutation, time_uuid,
};
use uuid::Uuid;

/// How long a build that failed waits before it is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The views that are being built here, by their ids, with the identity of the build and how far it is (shard 0).
#[derive(Default)]
pub(super) struct Builders(RefCell<BTreeMap<TableId, (Uuid, BuildProgress)>>);

/// Into how many parts the ring is thought to be cut when it is told how far a build is.
const PARTS: u64 = 1000;

/// The builds that are under way, as `system_views.sstable_tasks` shows them
/// (`ViewBuilderTask.getCompactionInfo`).
pub(crate) fn under_way(shard: &Shard) -> Vec<SstableTask> {
    let metadata = shard.metadata();
    let builders = shard.views.builders.0.borrow();
    let tasks = builders.iter().filter_map(|(view, (id, progress))| {
        let view = metadata.schema.table_by_id(*view)?;
        let passed = progress.last.map_or(0, |last| last.0.abs_diff(i64::MIN));
        let parts = u128::from(passed) * u128::from(PARTS) / u128::from(u64::MAX);
        Some(SstableTask {
            keyspace: view.keyspace.to_string(),
            table: view.view.as_ref()?.base_name.to_string(),
            id: *id,
            kind: "view build".to_owned(),
            sstables: 0,
            progress: u64::try_from(parts).unwrap_or(PARTS),
            total: PARTS,
            unit: "token range parts".to_owned(),
        })
    });
    tasks.collect()
}

/// Looks whether there is anything to build, without anybody waiting. On shard 0.
pub(crate) fn look_soon(shard: &Rc<Shard>) {
    let of_task = shard.clone();
    let looking = async move {
        while let Err(error) = look(&of_task).await {
            tracing::warn!("views are not built yet: {error}");
            of_task.env.sleep(AGAIN).await;
            if of_task.stopping.get() {
                return;
            }
        }
    };
    shard.env.spawn(TaskGroup::Maintenance, looking).detach();
}

/// Begins to build what is not built, and forgets what is said of views that are gone. On shard 0, whenever
/// the schema has changed, and when the node has begun.
///
/// # Errors
/// What is built is not known; in words.
pub(crate) async fn look(shard: &Rc<Shard>) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let read = |name| {
        let schema = schema.clone();
        async move {
            let table = own_table(&schema, "system", name).map_err(|e| e.to_string())?;
            let rows = read_whole(shard, table.clone(), None).await;
            rows.map(|rows| (table, rows)).map_err(|e| e.to_string())
        }
    };
    let (_, built) = read("built_views").await?;
    let built = built_views(&built);
    let (table, begun) = read("view_builds_in_progress").await?;
    let begun: BTreeMap<_, _> = builds_in_progress(&table, &begun).into_iter().collect();
    for (keyspace, name) in built.iter().chain(begun.keys()) {
        let is_view = |table: &Arc<Table>| table.view.is_some();
        if !schema.table(keyspace, name).is_some_and(is_view) {
            forget(shard, (keyspace, name)).await?;
        }
    }
    for keyspace in schema.keyspaces.values() {
        let views = keyspace
            .tables
            .values()
            .filter(|table| table.view.is_some());
        for view in views {
            let names = (keyspace.name.to_string(), view.name.to_string());
            if built.contains(&names) {
                continue;
            }
            let progress = begun.get(&names).copied().unwrap_or_default();
            let mut builders = shard.views.builders.0.borrow_mut();
            if let Entry::Vacant(free) = builders.entry(view.id) {
                let now = shard.env.wall_micros();
                free.insert((time_uuid(now, 0, shard.env.random_u64()), progress));
                let building = build(shard.clone(), view.id, progress);
                shard.env.spawn(TaskGroup::Maintenance, building).detach();
            }
        }
    }
    Ok(())
}

/// Has all of a view built again.
///
/// # Errors
/// It cannot be noted that it is not built; in words.
pub(crate) async fn again(shard: &Rc<Shard>, view: &Table) -> Result<(), String> {
    forget(shard, (&view.keyspace, &view.name)).await?;
    look(shard).await
}

/// Forgets that views are built which are dropped by a change of the schema: others may have their names.
///
/// # Errors
/// It cannot be noted; in words.
pub(crate) async fn forget_dropped(
    shard: &Rc<Shard>,
    old: &Schema,
    new: &Schema,
) -> Result<(), String> {
    for keyspace in old.keyspaces.values() {
        let views = keyspace
            .tables
            .values()
            .filter(|table| table.view.is_some());
        for view in views {
            let after = new.table(&keyspace.name, &view.name);
            if after.is_none_or(|after| after.id != view.id) {
                forget(shard, (&keyspace.name, &view.name)).await?;
            }
        }
    }
    Ok(())
}

async fn forget(shard: &Rc<Shard>, names: (&str, &str)) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    if let Some(mutation) = forget_view_mutation(&schema, names, now) {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| error.to_string())?;
    }
    tell_cluster(shard, names, None).await;
    Ok(())
}

/// Says in `system_distributed` what becomes of the build here. Nothing depends on it.
async fn tell_cluster(shard: &Rc<Shard>, names: (&str, &str), status: Option<&str>) {
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    let host_id = shard.local().host_id;
    if let Some(mutation) = build_status_mutation(&schema, names, host_id, status, now) {
        let (level, kind) = (Consistency::One, WriteType::Simple);
        let writing = coordinator::write(shard, vec![mutation], (level, kind), None, None);
        if let Err(error) = writing.await {
            tracing::debug!("system_distributed.view_build_status is not written: {error}");
        }
    }
}

/// Builds a view until it is built or gone.
async fn build(shard: Rc<Shard>, view: TableId, mut progress: BuildProgress) {
    loop {
        // A node that is about to stop goes on at its next start.
        if shard.stopping.get() {
            break;
        }
        match build_from(&shard, view, &mut progress).await {
            Ok(()) => break,
            Err(error) => tracing::warn!("the building of a view is tried again: {error}"),
        }
        shard.env.sleep(AGAIN).await;
    }
    shard.views.builders.0.borrow_mut().remove(&view);
}

/// The view and its rule, as they are now.
pub(super) fn rule_of(shard: &Shard, view: TableId) -> Option<(Rc<[ViewRule]>, usize)> {
    let metadata = shard.metadata();
    let view = metadata.schema.table_by_id(view)?;
    let base = super::base_of(&metadata.schema, view)?;
    let rules = metadata.views_of(base.id)?;
    let at = rules.iter().position(|rule| rule.view().id == view.id)?;
    Some((rules, at))
}

async fn build_from(
    shard: &Rc<Shard>,
    view: TableId,
    progress: &mut BuildProgress,
) -> Result<(), String> {
    let settle = super::settle(shard);
    let settled = async {
        settle.await;
        Ok(())
    };
    shard.on_all(|| ShardRequest::SettleViews, settled).await?;
    let Some((rules, at)) = rule_of(shard, view) else {
        return Ok(());
    };
    let names = {
        let view = rules[at].view();
        (view.keyspace.to_string(), view.name.to_string())
    };
    let names = (&*names.0, &*names.1);
    tracing::info!("building view {}.{}", names.0, names.1);
    tell_cluster(shard, names, Some("STARTED")).await;
    note(shard, names, *progress).await?;
    // Other partitions may have the token of the last one; what is built twice is the same.
    let mut start = match progress.last {
        Some(last) => PartitionBound::TokenInclusive(last),
        None => PartitionBound::Unbounded,
    };
    loop {
        if shard.stopping.get() {
            return Err("the node is about to stop".to_owned());
        }
        let Some((rules, at)) = rule_of(shard, view) else {
            return Ok(());
        };
        let rule = &rules[at..=at];
        let end = PartitionBound::Unbounded;
        let ring = PartitionSelection::Range { start, end };
        let command = known::command(rules[at].base(), ring, vec![Slice::ALL]);
        let read_at = moment(shard, rule).await?;
        let page = replica::read_versions(shard, &command).await;
        let page = page.map_err(|error| error.to_string())?;
        for version in &page.partitions {
            build_partition(shard, rule, version, read_at).await?;
            progress.keys += 1;
            progress.last = Some(version.partition.key.token());
            shard.env.maybe_yield().await;
        }
        if let Some(known) = shard.views.builders.0.borrow_mut().get_mut(&view) {
            known.1 = *progress;
        }
        let Some(last) = page.partitions.last().filter(|_| page.more) else {
            break;
        };
        start = PartitionBound::KeyExclusive(last.partition.key.clone());
        note(shard, names, *progress).await?;
    }
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    if let Some(mutation) = built_mutation(&schema, names, now) {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| error.to_string())?;
    }
    tell_cluster(shard, names, Some("SUCCESS")).await;
    tracing::info!(
        "view {}.{} is built: {} partitions",
        names.0,
        names.1,
        progress.keys
    );
    Ok(())
}

async fn note(
    shard: &Rc<Shard>,
    names: (&str, &str),
    progress: BuildProgress,
) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    let Some(mutation) = progress_mutation(&schema, names, progress, now) else {
        return Ok(());
    };
    let applied = replica::apply(shard, mutation).await;
    applied.map_err(|error| error.to_string())
}

/// Builds what a view has of a partition, of which this is the beginning, or all.
async fn build_partition(
    shard: &Rc<Shard>,
    rule: &[ViewRule],
    version: &PartitionVersion,
    read_at: (i64, Now),
) -> Result<(), String> {
    let table = rule[0].base();
    let key = &version.partition.key;
    write(shard, rule, &version.partition, read_at).await?;
    let mut slices = vec![Slice::ALL];
    let mut end = version.end.clone();
    while let Some(place) = end {
        slices = known::slices_from(table, &slices, &place);
        let read_at = moment(shard, rule).await?;
        let partition = PartitionSelection::Key(key.clone());
        let command = known::command(table, partition, slices.clone());
        let page = replica::read_versions(shard, &command).await;
        let mut page = page.map_err(|error| error.to_string())?;
        let Some(version) = page.partitions.pop() else {
            return Ok(());
        };
        write(shard, rule, &version.partition, read_at).await?;
        end = version.end;
    }
    Ok(())
}

/// The time before rows are read, in microseconds since 1970, and as it is for markers that are as late as they are
/// written: earlier than those of all writes that come after.
async fn moment(shard: &Rc<Shard>, rule: &[ViewRule]) -> Result<(i64, Now), String> {
    let micros = match rule.iter().any(ViewRule::has_late_markers) {
        true => time::before(shard)
            .await
            .map_err(|error| error.to_string())?,
        false => 0,
    };
    let seconds = shard.env.wall_seconds();
    Ok((shard.env.wall_micros(), Now { seconds, micros }))
}

/// Writes what a view has of these rows, which were read at that moment.
async fn write(
    shard: &Rc<Shard>,
    rule: &[ViewRule],
    partition: &Partition,
    (read_at, now): (i64, Now),
) -> Result<(), String> {
    let mut views = ViewUpdates::new(rule, &partition.key, now);
    views.add_all(rule[0].base(), partition);
    let left: Vec<_> = views
        .finish()
        .into_iter()
        .filter(|update| {
            update
                .updates
                .iter()
                .all(|update| storage::check_fits(update).is_ok())
        })
        .flat_map(|update| {
            let nodes = told(shard, &partition.key, &update);
            nodes.into_iter().map(move |node| (node, update.clone()))
        })
        .collect();
    // Each has to have it: a build is not over with hints.
    for (node, update) in left {
        tell_surely(shard, node, update, read_at).await?;
    }
    Ok(())
}
