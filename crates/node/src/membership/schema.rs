//! Changes of the schema, in the metadata log and out of it.
//!
//! A change is made of the schema as this node knows it, and proposed as mutations of
//! `system_schema`. If another one came first it is made anew. Every node applies what was decided to
//! its own `system_schema` and has its shards go over to what that says: also when it starts and hears
//! of what it had applied before, as a mutation that comes again changes nothing.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{EntryRefused, MetadataEntry, SchemaEntry};
use cql::schema::{Features, SchemaPlan, events_between, masks_disabled};
use io::TaskGroup;
use model::{DecoratedKey, Mutation, PartitionUpdate, Schema};
use wire::{Event, SchemaChange};

use super::{ClusterService, ProposeError, column_ids, encoding, events, missing};
use crate::auto_snapshot;
use crate::error::RequestError;
use crate::functions::give_way;
use crate::metadata::{self, random_uuid, wire_change};
use crate::own_tables::{own_table, read_keyspaces, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::start::local_row;
use crate::system::{SCHEMA_TABLES, schema_to_mutations};
use crate::views;

/// How often a change is made anew before whoever wants it is told that too many others do too.
const TRIES: usize = 20;
/// How long the other nodes may take until they know of a change. A node that takes longer has its
/// clients see the old schema for as long.
const AGREEMENT: Duration = Duration::from_secs(5);
/// How many mutations that were decided wait to be gone over to at once.
const DECIDED: usize = 1000;
/// How many mutations are written at once.
const WRITES: usize = 64;

/// Why a change was not made. Whether it will be, nobody knows where there was no answer.
fn not_made(reason: impl ToString) -> RequestError {
    RequestError::Server(format!("schema change: {}", reason.to_string()))
}

/// Changes the schema. On shard 0. What clients are told; `None` where nothing changed.
pub(crate) async fn change(
    shard: &Rc<Shard>,
    plan: &SchemaPlan,
) -> Result<Option<SchemaChange>, RequestError> {
    if plan.gives_mask() && !shard.state.config.dynamic_data_masking {
        return Err(masks_disabled().into());
    }
    let _one_at_a_time = shard.schema_change.acquire(1).await;
    let service = shard
        .cluster_service()
        .ok_or_else(|| not_made("the node is starting"))?;
    for _ in 0..TRIES {
        let Some(base) = service.metadata() else {
            return Err(not_made("the node is starting"));
        };
        let old = shard.metadata().schema.clone();
        let local = shard.local();
        let now = shard.schema_timestamps.next(&shard.env);
        let datacenters = datacenters(base.topology(), &local.data_center);
        let datacenters: Vec<&str> = datacenters.iter().map(String::as_str).collect();
        let change = applied(shard, plan, &old, now, &datacenters).await?;
        let Some(event) = change.event else {
            return Ok(None);
        };
        let event = wire_change(event);
        let mutations = schema_to_mutations(&old, &change.schema, now);
        // What is decided every node must be able to write: a name may be too long for that.
        let misfit = updates_of(&mutations).try_for_each(storage::check_fits);
        misfit.map_err(|misfit| RequestError::invalid(misfit.to_string()))?;
        let entry = SchemaEntry {
            id: random_uuid(shard),
            base: base.schema_epoch(),
            mutations: mutations.iter().map(encoding::encode).collect(),
            timestamp: updates_of(&mutations).filter_map(latest_of).max(),
            event: encode_event(&event),
            keyspaces: super::user_keyspaces(&change.schema),
        };
        match decide(shard, &service, entry, &old, &change.schema).await? {
            Some(epoch) => {
                service.agree(shard, epoch, AGREEMENT).await;
                return Ok(Some(event));
            }
            None => continue,
        }
    }
    Err(not_made(
        "too many others change the schema at this moment: try again",
    ))
}

/// The schema after a statement. Functions of users that it calls give way to others.
async fn applied(
    shard: &Rc<Shard>,
    plan: &SchemaPlan,
    old: &Schema,
    now: i64,
    datacenters: &[&str],
) -> Result<cql::schema::SchemaChange, RequestError> {
    let mut evaluation = cql::Request::new(cql::Values::NONE, now, shard.env.random_u64());
    if let Some(language) = &shard.functions {
        evaluation.functions.set_language(language.clone());
    }
    evaluation.functions.may_give_way(true);
    let features = Features {
        language: shard.functions.as_deref(),
        evaluation: Some(&evaluation),
        views: shard.state.config.materialized_views,
        sasi: shard.state.config.sasi_indexes,
    };
    let ids = || random_uuid(shard);
    loop {
        match plan.apply_with(old, ids, now, datacenters, features) {
            Ok(change) => return Ok(change),
            Err(error) => give_way(shard, &evaluation.functions, error).await?,
        }
    }
}

/// Proposes a change. Its epoch; `None` if another one came first, which is known here then.
async fn decide(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    entry: SchemaEntry,
    old: &Schema,
    new: &Schema,
) -> Result<Option<u64>, RequestError> {
    let kept = auto_snapshot::dropping(shard, old, new).await;
    kept.map_err(not_made)?;
    let id = entry.id;
    service.own_changes.borrow_mut().insert(id);
    let proposed = service.propose(MetadataEntry::Schema(entry)).await;
    service.own_changes.borrow_mut().remove(&id);
    match proposed {
        Ok(epoch) => Ok(Some(epoch)),
        Err(ProposeError::Refused(epoch, EntryRefused::SchemaChanged { .. })) => {
            service.reach(epoch).await;
            Ok(None)
        }
        Err(error) => Err(not_made(error)),
    }
}

/// The data centres of the cluster, this node's first.
fn datacenters(topology: &cluster::Topology, own: &str) -> Vec<String> {
    let mut datacenters = vec![own.to_owned()];
    for (_, member) in topology.joined() {
        let datacenter = &member.node.place.datacenter;
        if !datacenters.contains(datacenter) {
            datacenters.push(datacenter.clone());
        }
    }
    datacenters
}

fn encode_event(change: &SchemaChange) -> Vec<u8> {
    let mut event = Vec::new();
    Event::Schema(change.clone()).encode(&mut event);
    event
}

/// Changes that were decided and are not in force yet: one or, after a start, many, which are gone over
/// to at once.
#[derive(Debug, Default)]
pub(super) struct Decided {
    mutations: Vec<Mutation>,
    /// What clients are told of each.
    events: Vec<SchemaChange>,
    /// Were they proposed here? Then what they drop has been kept.
    proposed_here: bool,
}

impl Decided {
    /// Can another one wait with them?
    pub(super) fn has_room_for(&self, proposed_here: bool) -> bool {
        let is_of_a_kind = self.mutations.is_empty() || self.proposed_here == proposed_here;
        is_of_a_kind && self.mutations.len() < DECIDED
    }

    /// One more, behind the others.
    ///
    /// # Errors
    /// The entry was made by a newer version; in words.
    pub(super) fn add(
        &mut self,
        shard: &Shard,
        entry: &SchemaEntry,
        proposed_here: bool,
    ) -> Result<(), String> {
        let schema = shard.metadata().schema.clone();
        for bytes in &entry.mutations {
            let mutation = encoding::decode(bytes.clone().into(), &schema)?;
            self.mutations.push(mutation);
        }
        if let Ok(Event::Schema(event)) = Event::decode(&entry.event) {
            self.events.push(event);
        }
        self.proposed_here = proposed_here;
        Ok(())
    }

    /// Has the node go over to what they say.
    ///
    /// # Errors
    /// The drive fails; in words.
    pub(super) async fn take(self, shard: &Rc<Shard>) -> Result<(), String> {
        if self.mutations.is_empty() {
            return Ok(());
        }
        if let Some(mut told) = go_over(shard, self.mutations, !self.proposed_here).await? {
            // Of some changes there is nothing to be seen in the schema.
            let missing = self.events.into_iter();
            let missing: Vec<_> = missing.filter(|event| !told.contains(event)).collect();
            told.extend(missing);
            for event in told {
                events::tell(shard, Event::Schema(event)).await;
            }
        }
        Ok(())
    }
}

/// Applies mutations of `system_schema` and has all shards go over to what it says then. What has changed; `None`
/// if nothing has.
async fn go_over(
    shard: &Rc<Shard>,
    mutations: Vec<Mutation>,
    keep_dropped: bool,
) -> Result<Option<Vec<SchemaChange>>, String> {
    let old = shard.metadata().schema.clone();
    // The next change must be later than all before it, deletions too, whatever the clock says now.
    let latest = updates_of(&mutations).filter_map(latest_of).max();
    shard.schema_timestamps.pass(latest.unwrap_or(0));
    let changed = updates_of(&mutations).map(|update| update.key.clone());
    let changed: BTreeSet<DecoratedKey> = changed.collect();
    write_all(shard, mutations).await?;
    let new = read_keyspaces(shard, &shard.state.system, &old, changed).await;
    let new = new.map_err(|error| error.to_string())?;
    let new = Arc::new(column_ids::keep(&old, new));
    if new.version == old.version {
        return Ok(None);
    }
    if keep_dropped && let Err(error) = auto_snapshot::dropping(shard, &old, &new).await {
        // All nodes drop it; this one cannot say no any more.
        tracing::error!("what is dropped cannot be kept as a snapshot: {error}");
    }
    views::build::forget_dropped(shard, &old, &new).await?;
    metadata::set_everywhere(shard, &new).await?;
    if let Some(mutation) = local_row(shard) {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| format!("writing system.local: {error}"))?;
    }
    views::build::look_soon(shard);
    events::save_peers(shard).await?;
    let changes = events_between(&old, &new).into_iter();
    Ok(Some(changes.map(wire_change).collect()))
}

/// Writes many at once: their timestamps say which is the later one.
async fn write_all(shard: &Rc<Shard>, mutations: Vec<Mutation>) -> Result<(), String> {
    let mut mutations = mutations.into_iter().peekable();
    while mutations.peek().is_some() {
        let begin = |mutation| {
            let writer = shard.clone();
            let writing = async move { replica::apply(&writer, mutation).await };
            shard.env.spawn(TaskGroup::Foreground, writing)
        };
        let writes: Vec<_> = mutations.by_ref().take(WRITES).map(begin).collect();
        for write in writes {
            let written = write.await;
            written.map_err(|error| format!("writing system_schema: {error}"))?;
        }
    }
    Ok(())
}

fn updates_of(mutations: &[Mutation]) -> impl Iterator<Item = &PartitionUpdate> {
    mutations.iter().flat_map(|mutation| &mutation.updates)
}

/// The latest timestamp of anything that an update says, in microseconds since 1970.
fn latest_of(update: &PartitionUpdate) -> Option<i64> {
    let (written, deleted) = update.latest_times();
    written.max(deleted)
}

/// All of `system_schema`, for a node that has missed too much.
///
/// # Errors
/// The drive fails; in words.
pub(super) async fn snapshot(shard: &Rc<Shard>) -> Result<Bytes, String> {
    let mut mutations = Vec::new();
    for update in schema_rows(shard).await? {
        let updates = vec![update];
        mutations.push(encoding::encode(&Mutation { updates }));
    }
    Ok(encoding::join(&mutations))
}

/// What the tables of `system_schema` hold.
async fn schema_rows(shard: &Rc<Shard>) -> Result<Vec<PartitionUpdate>, String> {
    let schema = shard.metadata().schema.clone();
    let mut updates = Vec::new();
    for name in SCHEMA_TABLES {
        let table = own_table(&schema, "system_schema", name).map_err(|e| e.to_string())?;
        let read = read_whole(shard, table.clone(), None).await;
        for partition in read.map_err(|error| error.to_string())? {
            updates.push(PartitionUpdate {
                table: table.clone(),
                key: partition.key,
                deletion: partition.deletion,
                static_row: partition.static_row,
                rows: partition.rows,
                range_tombstones: partition.range_tombstones,
            });
        }
    }
    Ok(updates)
}

/// The schema is as in a snapshot from now on: another node's, or this one's when it starts. `timestamp`
/// is the latest of the changes behind it ([`cluster::ClusterMetadata::schema_timestamp`]).
///
/// # Errors
/// It cannot be read, or the drive fails; in words.
pub(super) async fn install(
    shard: &Rc<Shard>,
    bytes: Bytes,
    timestamp: Option<i64>,
) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let mut arriving = Vec::new();
    for bytes in encoding::split(bytes)? {
        arriving.extend(encoding::decode(bytes, &schema)?.updates);
    }
    let own = schema_rows(shard).await?;
    let latest = latest_behind(&arriving, timestamp);
    // It may be that of a deletion, of which the rows say nothing.
    shard.schema_timestamps.pass(latest.unwrap_or(0));
    let mut mutations = gone(&own, &arriving, latest);
    mutations.extend(arriving.into_iter().map(|update| Mutation {
        updates: vec![update],
    }));
    go_over(shard, mutations, true).await.map(drop)
}

/// When the last change behind a snapshot was made, in microseconds since 1970: as it says, or when the
/// last of its rows was written where it says nothing, or less: an older version made it, or changes behind it.
fn latest_behind(arriving: &[PartitionUpdate], timestamp: Option<i64>) -> Option<i64> {
    timestamp.max(arriving.iter().filter_map(latest_of).max())
}

/// Deletes what is there and is not in a snapshot, as of the last change behind that: what is later stays,
/// for a node begins with its own snapshot when it starts, and has the changes after it on its drive.
fn gone(
    own: &[PartitionUpdate],
    arriving: &[PartitionUpdate],
    latest: Option<i64>,
) -> Vec<Mutation> {
    let Some(latest) = latest else {
        return Vec::new();
    };
    let own = own.iter();
    let gone = own.filter_map(|own| missing::deletion(own, arriving, latest));
    gone.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    /// The system keyspaces, and those with a keyspace of a client.
    fn schemas() -> (Schema, Schema) {
        let system = system_keyspaces();
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let text = format!("CREATE KEYSPACE k WITH replication = {replication}");
        let context = cql::Context {
            schema: &system,
            keyspace: None,
        };
        let prepared = cql::prepare(&text, &context).expect("it is right");
        let cql::Plan::Schema(plan) = prepared.plan else {
            panic!("{text} changes no schema");
        };
        let change = plan.apply(&system, || uuid::Uuid::from_u128(7), 1, &["dc"]);
        let filled = change.expect("it fits").schema;
        (system, filled)
    }

    #[test]
    fn a_deletion_is_as_late_as_what_is_written() {
        let (system, filled) = schemas();
        for (old, new) in [(&system, &filled), (&filled, &system)] {
            let mutations = schema_to_mutations(old, new, 77);
            let latest = updates_of(&mutations);
            assert_eq!(latest.filter_map(latest_of).max(), Some(77));
        }
    }

    /// A node that starts installs its own snapshot, and what came after that is on its drive already.
    #[test]
    fn a_snapshot_takes_nothing_away_that_is_later() {
        let (system, filled) = schemas();
        let arriving: Vec<PartitionUpdate> = rows(&system, &filled, 50)
            .into_iter()
            .map(|update| PartitionUpdate {
                key: model::DecoratedKey::new(Bytes::from_static(b"other")),
                ..update
            })
            .collect();
        let own = rows(&system, &filled, 77);
        for timestamp in [None, Some(50), Some(60)] {
            let deletions = gone(&own, &arriving, latest_behind(&arriving, timestamp));
            assert!(updates_of(&deletions).count() > 0, "what is older would go");
            assert!(updates_of(&deletions).all(|update| latest_of(update) < Some(77)));
        }
    }

    /// What is left is older than what a node has that missed it.
    #[test]
    fn a_snapshot_takes_away_what_was_dropped_last() {
        let (system, filled) = schemas();
        let own = rows(&system, &filled, 50);
        let arriving = rows(&Schema::default(), &system, 1);
        let deletions = gone(&own, &arriving, latest_behind(&arriving, Some(60)));
        let deleted = |own: &PartitionUpdate| {
            let of_it = |update: &&PartitionUpdate| {
                update.table.id == own.table.id && update.key == own.key
            };
            let deletion = updates_of(&deletions).find(of_it);
            deletion.is_some_and(|update| update.deletion.timestamp == 60)
        };
        assert!(!own.is_empty() && own.iter().all(deleted));
    }

    /// Nodes of the version before send such.
    #[test]
    fn a_snapshot_that_does_not_say_is_as_late_as_its_rows() {
        let (system, filled) = schemas();
        let arriving = rows(&system, &filled, 50);
        assert_eq!(latest_behind(&arriving, None), Some(50));
        assert_eq!(latest_behind(&arriving, Some(20)), Some(50));
        assert_eq!(latest_behind(&arriving, Some(60)), Some(60));
    }

    /// What turns the rows of one schema into those of another.
    fn rows(old: &Schema, new: &Schema, timestamp: i64) -> Vec<PartitionUpdate> {
        let mutations = schema_to_mutations(old, new, timestamp).into_iter();
        mutations.flat_map(|mutation| mutation.updates).collect()
    }
}
