//! Materialized views: a replica that applies a write of a table writes what it means for the views.
//!
//! Writes of a partition that has views are applied one after the other, on the shard that owns it: each reads what
//! there is of the rows that it touches, derives what the views are to get ([`storage::ViewUpdates`]), has all of it
//! in the batch log of this shard, and is applied ([`write`]). Then the views get theirs, each from one replica of
//! the table ([`pairs`]); what cannot be told now is left as a hint, and what a crash has left is in the batch
//! log, and delivered when the node comes back ([`recover`]). A view that is new is built from what there is
//! ([`build`]), and one can be compared with its table and mended ([`check`]).

pub(crate) mod build;
pub(crate) mod check;
mod deliver;
mod known;
mod pairs;
mod recover;
pub(crate) mod time;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use io::{Notify, Permit, Semaphore};
use model::{DecoratedKey, Schema, Table, TableId};
use storage::ViewRule;

use crate::message::ShardRequest;
use crate::shard::Shard;
pub use check::ViewCheck;
pub(crate) use deliver::{complete, is_of_views};
pub(crate) use recover::apply_tables;
pub(crate) use write::apply;

/// Partitions share so many locks.
const LOCKS: usize = 1024;

/// How many writes of tables with views may be under way at once.
const WRITES: usize = 1 << 20;

/// What a shard knows of views.
pub(crate) struct Views {
    /// Held while a write of a partition with views reads what there is and is applied.
    locks: Vec<Semaphore>,
    /// Each write of a table with views takes one, a truncation of such a table all.
    writes: Semaphore,
    /// What a truncation has taken of them.
    held: RefCell<Option<Permit>>,
    /// Held by who truncates.
    truncating: Semaphore,
    /// Held by each write under way, the one of when it began.
    epoch: RefCell<Rc<()>>,
    ended: Notify,
    builders: build::Builders,
    time: time::MarkerTime,
    /// What of it all shards have been given (shard 0).
    taken: Cell<time::Span>,
}

impl Default for Views {
    fn default() -> Views {
        Views {
            locks: (0..LOCKS).map(|_| Semaphore::new(1)).collect(),
            writes: Semaphore::new(WRITES),
            held: RefCell::default(),
            truncating: Semaphore::new(1),
            epoch: RefCell::default(),
            ended: Notify::new(),
            builders: build::Builders::default(),
            time: time::MarkerTime::default(),
            taken: Cell::default(),
        }
    }
}

impl Views {
    fn lock(&self, key: &DecoratedKey) -> &Semaphore {
        let token = key.token().0.cast_unsigned();
        &self.locks[(token % LOCKS as u64) as usize]
    }
}

/// A write under way, until this is dropped: it may not know of a view that was made since it began.
pub(crate) struct UnderWay<S: Deref<Target = Shard>> {
    shard: S,
    epoch: Option<Rc<()>>,
}

impl<S: Deref<Target = Shard>> UnderWay<S> {
    pub(crate) fn begin(shard: S) -> UnderWay<S> {
        let epoch = Some(shard.views.epoch.borrow().clone());
        UnderWay { shard, epoch }
    }
}

impl<S: Deref<Target = Shard>> Drop for UnderWay<S> {
    fn drop(&mut self) {
        self.epoch = None;
        self.shard.views.ended.notify_all();
    }
}

/// Returns when no write is under way on this shard that may not know of all views there are now.
pub(crate) async fn settle(shard: &Shard) {
    let views = &shard.views;
    let before = views.epoch.replace(Rc::new(()));
    while Rc::strong_count(&before) > 1 {
        views.ended.notified().await;
    }
}

/// Has all shards hold back writes of tables with views, once those under way are done, while something is done:
/// a table and its views are truncated one after the other, and a write in between would be in one of them.
pub(crate) async fn while_held<T>(
    shard: &Rc<Shard>,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let _alone = shard.views.truncating.acquire(1).await;
    let held = shard
        .on_all(|| ShardRequest::HoldViewWrites, hold(shard))
        .await;
    let worked = match held {
        Ok(()) => work.await,
        Err(error) => Err(error),
    };
    let released = async {
        release(shard);
        Ok(())
    };
    shard
        .on_all(|| ShardRequest::ReleaseViewWrites, released)
        .await?;
    worked
}

/// Holds back writes of tables with views on this shard.
///
/// # Errors
/// None; as shards are asked.
pub(crate) async fn hold(shard: &Shard) -> Result<(), String> {
    let held = shard.views.writes.acquire(WRITES).await;
    *shard.views.held.borrow_mut() = Some(held);
    Ok(())
}

/// Lets them go on.
pub(crate) fn release(shard: &Shard) {
    let held = shard.views.held.take();
    drop(held);
}

/// The views of each table that has any.
pub(crate) type Rules = BTreeMap<TableId, Rc<[ViewRule]>>;

/// The rules of all views of a schema. One that cannot be understood is not kept, which is said: reading the schema
/// has found it in order before.
pub(crate) fn rules_of(schema: &Schema) -> Rules {
    let mut rules: BTreeMap<TableId, Vec<ViewRule>> = BTreeMap::new();
    for keyspace in schema.keyspaces.values() {
        for view in keyspace.tables.values() {
            let Some(definition) = &view.view else {
                continue;
            };
            let mut tables = keyspace.tables.values();
            let Some(base) = tables.find(|table| table.id == definition.base) else {
                continue;
            };
            let rows = cql::view_rows(base, &keyspace.types, &definition.where_clause);
            match rows.map(|rows| ViewRule::new(base, view, rows)) {
                Ok(Some(rule)) => rules.entry(base.id).or_default().push(rule),
                Ok(None) => tracing::error!("view {}.{} is not kept", view.keyspace, view.name),
                Err(error) => {
                    tracing::error!("view {}.{} is not kept: {error}", view.keyspace, view.name);
                }
            }
        }
    }
    let shared = rules.into_iter().map(|(id, rules)| (id, rules.into()));
    shared.collect()
}

/// The table that a view shows.
pub(crate) fn base_of<'s>(schema: &'s Schema, view: &Table) -> Option<&'s std::sync::Arc<Table>> {
    let definition = view.view.as_ref()?;
    let tables = &schema.keyspaces.get(&view.keyspace)?.tables;
    tables.values().find(|table| table.id == definition.base)
}
