//! Keeps `system.compaction_history`: each shard writes down what its compactions did.

use std::rc::Rc;

use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::start::StartError;
use crate::system::{PastCompaction, history_mutation, past_compaction};

/// Writes down what compactions of this shard did, for as long as the shard lives.
pub(crate) async fn keep(shard: Rc<Shard>) {
    loop {
        for record in shard.store.compactions_done().await {
            // Writing it down makes the next one due, some day.
            if (&*record.keyspace, &*record.table) == ("system", "compaction_history") {
                continue;
            }
            let schema = shard.metadata().schema.clone();
            let random = shard.env.random_u64();
            let Some(mutation) = history_mutation(&schema, &record, random) else {
                continue;
            };
            // Nothing depends on it: a node that takes no writes goes without.
            if let Err(error) = replica::apply(&shard, mutation).await {
                tracing::debug!("a compaction is not written down: {error}");
            }
        }
    }
}

/// What is written down, the latest first.
pub(crate) async fn read(shard: &Rc<Shard>) -> Result<Vec<PastCompaction>, StartError> {
    let schema = shard.metadata().schema.clone();
    let table = own_table(&schema, "system", "compaction_history")?;
    let partitions = read_whole(shard, table.clone(), None).await?;
    let mut all: Vec<PastCompaction> = partitions
        .iter()
        .filter_map(|partition| past_compaction(&table, partition))
        .collect();
    all.sort_by_key(|past| std::cmp::Reverse(past.at));
    Ok(all)
}
