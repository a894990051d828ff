//! Keeps `system.size_estimates` and `system.table_estimates`: how many partitions each range has, and how large
//! they are, of what sstables know, taken to lie evenly over what the node has (`SizeEstimatesRecorder`). On
//! shard 0.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeId, Placement, ReplicationStrategy};
use model::{Table, TableId, Token};
use storage::PartitionEstimate;

use crate::admin::ranges as ranges_of;
use crate::message::{ShardReply, ShardRequest};
use crate::metadata::Metadata;
use crate::own_tables::{own_table, read_whole};
use crate::replica;
use crate::shard::Shard;
use crate::start::StartError;
use crate::system::{KeyspaceEstimates, RangeEstimate, estimates_mutations};

/// When it is estimated first, and how often then (`CassandraDaemon`, `cassandra.size_recorder_interval`).
const FIRST: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(300);

/// What is said of a keyspace: of ranges of which the node is the first replica in its data centre, and of those
/// of which it is the first of all.
type Said = [KeyspaceEstimates; 2];

/// What a node has of a table.
struct Held {
    table: Arc<Table>,
    estimate: PartitionEstimate,
}

/// The parts of the ring that a node has of a keyspace, without those that go over its end.
#[derive(Default)]
struct Ranges {
    /// Tokens in all of them.
    tokens: u128,
    /// Those whose first replica it is.
    first: Vec<(Token, Token)>,
    /// Those of which it is the first replica in its data centre.
    first_here: Vec<(Token, Token)>,
}

/// Estimates anew every few minutes, for as long as the shard lives, and writes down what has changed.
pub(crate) async fn keep(shard: Rc<Shard>) {
    let mut written = BTreeMap::new();
    shard.env.sleep(FIRST).await;
    loop {
        // Nothing depends on it: a node that takes no writes goes without.
        if let Err(error) = refresh(&shard, &mut written).await {
            tracing::debug!("how much ranges have is not written down: {error}");
        }
        shard.env.sleep(AGAIN).await;
    }
}

/// Estimates anew and writes down what is not in `written` already, which then is what there is. Takes away
/// what is said of keyspaces that are gone.
///
/// # Errors
/// It cannot be written; in words.
pub(crate) async fn refresh(
    shard: &Rc<Shard>,
    written: &mut BTreeMap<String, Said>,
) -> Result<(), String> {
    let metadata = shard.metadata();
    let held = held(shard, &metadata).await?;
    let mut now = BTreeMap::new();
    for (name, keyspace) in &metadata.schema.keyspaces {
        let placement = metadata.placement(name);
        if keyspace.is_virtual || matches!(placement.strategy(), ReplicationStrategy::Local) {
            continue;
        }
        now.insert(
            name.to_string(),
            said(name, placement, &held, &metadata, shard),
        );
    }
    let at = shard.timestamps.next(&shard.env);
    let nothing = Said::default();
    let gone = spoken_of(shard).await?;
    let gone = gone.iter().filter(|name| !now.contains_key(*name));
    let changed = now
        .iter()
        .filter(|(name, said)| written.get(*name) != Some(*said));
    let all = gone.map(|name| (name, &nothing)).chain(changed);
    for (name, [here, all]) in all {
        for mutation in estimates_mutations(&metadata.schema, name, [here, all], at) {
            let applied = replica::apply(shard, mutation).await;
            applied.map_err(|error| format!("system.size_estimates: {error}"))?;
        }
    }
    *written = now;
    Ok(())
}

/// What all shards have of the tables of clients.
async fn held(shard: &Rc<Shard>, metadata: &Metadata) -> Result<Vec<Held>, String> {
    let keyspaces = metadata.schema.keyspaces.values();
    let stored = keyspaces.filter(|keyspace| !keyspace.is_virtual);
    let tables = stored.flat_map(|keyspace| keyspace.tables.values());
    let mut held: Vec<Held> = tables
        .map(|table| Held {
            table: table.clone(),
            estimate: PartitionEstimate::default(),
        })
        .collect();
    let ids: Arc<[TableId]> = held.iter().map(|held| held.table.id).collect();
    let mut add = |estimates: Vec<PartitionEstimate>| {
        for (held, of_shard) in held.iter_mut().zip(estimates) {
            held.estimate = held.estimate.plus(of_shard);
        }
    };
    add(of_shard(shard, &ids));
    for other in shard.others() {
        match shard
            .ask(other, ShardRequest::EstimatePartitions(ids.clone()))
            .await
        {
            Ok(ShardReply::PartitionEstimates(estimates)) => add(estimates),
            Ok(_) => return Err("an answer to another question".to_owned()),
            Err(gone) => return Err(gone.to_string()),
        }
    }
    Ok(held)
}

/// What this shard has of tables; nothing of those that are gone.
pub(crate) fn of_shard(shard: &Shard, tables: &[TableId]) -> Vec<PartitionEstimate> {
    let estimate = |table: &TableId| shard.store.partition_estimate(*table);
    tables.iter().map(estimate).collect()
}

fn said(
    keyspace: &str,
    placement: &Placement,
    held: &[Held],
    metadata: &Metadata,
    shard: &Shard,
) -> Said {
    let ranges = ranges(placement, metadata, shard);
    let of_tables = |parts: &[(Token, Token)]| -> KeyspaceEstimates {
        let held = held.iter().filter(|held| *held.table.keyspace == *keyspace);
        held.map(|held| {
            let estimates = parts
                .iter()
                .map(|part| estimate(held.estimate, *part, ranges.tokens));
            (held.table.name.to_string(), estimates.collect())
        })
        .collect()
    };
    [of_tables(&ranges.first_here), of_tables(&ranges.first)]
}

/// The keyspaces that there are estimates of.
async fn spoken_of(shard: &Rc<Shard>) -> Result<BTreeSet<String>, String> {
    let schema = shard.metadata().schema.clone();
    let mut names = BTreeSet::new();
    for table in ["size_estimates", "table_estimates"] {
        let unread = |error: StartError| error.to_string();
        let table = own_table(&schema, "system", table).map_err(unread)?;
        let partitions = read_whole(shard, table, None).await.map_err(unread)?;
        let keys = partitions.iter().map(|partition| partition.key.key());
        names.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
    }
    Ok(names)
}

fn ranges(placement: &Placement, metadata: &Metadata, shard: &Shard) -> Ranges {
    let own = metadata.own();
    let local = shard.local();
    let is_here = |node: &NodeId| {
        let membership = metadata.membership();
        let member = membership.and_then(|m| m.cluster.topology().member(*node));
        member.is_some_and(|member| member.node.place.datacenter == local.data_center)
    };
    let mut ranges = Ranges::default();
    for (start, end, replicas) in ranges_of(placement) {
        if !replicas.contains(&own) {
            continue;
        }
        for part in unwrapped(start, end) {
            ranges.tokens += width(part);
            if replicas.first() == Some(&own) {
                ranges.first.push(part);
            }
            if replicas.iter().find(|node| is_here(node)) == Some(&own) {
                ranges.first_here.push(part);
            }
        }
    }
    ranges
}

/// A range that goes over the end of the ring is two.
fn unwrapped(start: Token, end: Token) -> Vec<(Token, Token)> {
    // Cassandra calls both ends of the ring by its smallest token.
    match start < end || end == Token::MIN {
        true => vec![(start, end)],
        false => vec![(start, Token::MIN), (Token::MIN, end)],
    }
}

/// How many tokens a range has that does not go over the end.
fn width((start, end): (Token, Token)) -> u128 {
    let end = if end == Token::MIN { i64::MAX } else { end.0 };
    u128::from(end.abs_diff(start.0))
}

fn estimate(held: PartitionEstimate, (start, end): (Token, Token), tokens: u128) -> RangeEstimate {
    let share = u128::from(held.partitions) * width((start, end));
    let partitions = share.checked_div(tokens).unwrap_or(0);
    RangeEstimate {
        start,
        end,
        mean_partition_size: held.mean_size(),
        partitions: u64::try_from(partitions).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_the_end_are_two() {
        let (a, b) = (Token(-5), Token(7));
        assert_eq!(unwrapped(a, b), [(a, b)]);
        assert_eq!(unwrapped(b, a), [(b, Token::MIN), (Token::MIN, a)]);
        assert_eq!(unwrapped(b, b), [(b, Token::MIN), (Token::MIN, b)]);
        assert_eq!(unwrapped(b, Token::MIN), [(b, Token::MIN)]);
        let all: u128 = unwrapped(b, b).into_iter().map(width).sum();
        assert_eq!(all, u128::from(u64::MAX));
        assert_eq!(width((a, b)), 12);
    }
}
