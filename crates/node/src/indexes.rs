//! Keeps `system."IndexInfo"`: the indexes that all shards of the node have built. On shard 0.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::Schema;
use storage::IndexState;

use crate::message::{ShardReply, ShardRequest};
use crate::replica;
use crate::shard::Shard;
use crate::system::{IndexName, built_mutations, unbuilt_mutations};

/// How often it is looked after indexes that are not built yet, and after new ones.
const AGAIN: Duration = Duration::from_millis(100);

/// Writes down what is built, for as long as the shard lives.
pub(crate) async fn keep(shard: Rc<Shard>) {
    let mut seen: Option<Arc<Schema>> = None;
    let mut written = BTreeSet::new();
    while !shard.stopping.get() {
        let schema = shard.metadata().schema.clone();
        let is_new = seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &schema));
        let there = names(&schema);
        if is_new || there != written {
            // Nothing depends on it: a node that takes no writes goes without.
            match refresh(&shard, &schema, &there, &mut written).await {
                Ok(()) => seen = Some(schema),
                Err(error) => tracing::debug!("built indexes are not written down: {error}"),
            }
        }
        shard.env.sleep(AGAIN).await;
    }
}

/// Takes all of it back, as the node stops: Cassandra would believe it, and not build its own.
pub(crate) async fn forget(shard: &Rc<Shard>) -> Result<(), String> {
    let schema = shard.metadata().schema.clone();
    let now = shard.timestamps.next(&shard.env);
    for mutation in unbuilt_mutations(&schema, now) {
        let forgotten = replica::apply(shard, mutation).await;
        forgotten.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// All indexes of a schema that are kept.
fn names(schema: &Schema) -> BTreeSet<IndexName> {
    let tables = schema.keyspaces.values().flat_map(|k| k.tables.values());
    let indexes = tables.flat_map(|table| {
        let indexes = table.indexes.iter();
        indexes.map(|index| (table.keyspace.clone(), index.name.clone()))
    });
    indexes.collect()
}

/// Those that have no entries, and so nothing to be built.
fn without_entries(schema: &Schema) -> BTreeSet<IndexName> {
    let tables = schema.keyspaces.values().flat_map(|k| k.tables.values());
    let indexes = tables.flat_map(|table| {
        let indexes = table.indexes.iter().filter(|index| {
            let column = index.column_of(table);
            column.is_none_or(|column| !index.has_entries(column))
        });
        indexes.map(|index| (table.keyspace.clone(), index.name.clone()))
    });
    indexes.collect()
}

async fn refresh(
    shard: &Rc<Shard>,
    schema: &Schema,
    there: &BTreeSet<IndexName>,
    written: &mut BTreeSet<IndexName>,
) -> Result<(), String> {
    let built = built(shard, schema, there).await?;
    let now = shard.timestamps.next(&shard.env);
    for mutation in built_mutations(schema, written, &built, now) {
        let applied = replica::apply(shard, mutation).await;
        applied.map_err(|error| error.to_string())?;
    }
    *written = built;
    Ok(())
}

/// Which of these indexes all shards have built.
async fn built(
    shard: &Rc<Shard>,
    schema: &Schema,
    there: &BTreeSet<IndexName>,
) -> Result<BTreeSet<IndexName>, String> {
    let mut built = there.clone();
    let without = without_entries(schema);
    for states in everywhere(shard).await? {
        let known = states.into_iter().filter(|state| state.built);
        let known: BTreeSet<IndexName> = known.map(|s| (s.keyspace, s.name)).collect();
        built.retain(|name| known.contains(name) || without.contains(name));
    }
    Ok(built)
}

/// Which indexes all shards have built; none if they cannot be asked.
pub(crate) async fn all_built(shard: &Rc<Shard>) -> BTreeSet<IndexName> {
    let schema = shard.metadata().schema.clone();
    let built = built(shard, &schema, &names(&schema)).await;
    built.unwrap_or_default()
}

/// What each shard has of them.
async fn everywhere(shard: &Rc<Shard>) -> Result<Vec<Vec<IndexState>>, String> {
    let mut all = vec![shard.store.indexes()];
    for other in shard.others() {
        match shard.ask(other, ShardRequest::Indexes).await {
            Ok(ShardReply::Indexes(states)) => all.push(states),
            Ok(_) => return Err("an answer to another question".to_owned()),
            Err(gone) => return Err(gone.to_string()),
        }
    }
    Ok(all)
}
