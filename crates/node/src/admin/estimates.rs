//! `system.size_estimates`: how many partitions each range has, and how large they are.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use cluster::{NodeId, Placement, ReplicationStrategy};
use model::{Table, Token};
use storage::TableDetails;

use super::{Admin, AdminError};
use crate::metadata::Metadata;
use crate::replica;
use crate::shard::Shard;
use crate::start::{own_table, read_whole};
use crate::system::{KeyspaceEstimates, RangeEstimate, estimates_mutations};

/// What a node has of a table.
struct Held {
    table: Arc<Table>,
    partitions: u64,
    mean_partition_size: u64,
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

impl Admin {
    /// Estimates anew how much each range has of each table, and writes it down
    /// (`SizeEstimatesRecorder.run`): of what sstables know, taken to lie evenly over what the node has.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn refresh_size_estimates(&self) -> Result<(), AdminError> {
        let tables = self.tables(None, &[])?;
        let details = self.table_details(&tables)?;
        let held: Vec<Held> = tables
            .into_iter()
            .zip(&details)
            .map(|(table, shards)| held(table, shards))
            .collect();
        self.lead(async move |shard: Rc<Shard>| write(&shard, &held).await)?
            .map_err(AdminError::Failed)
    }
}

fn held(table: Arc<Table>, shards: &[TableDetails]) -> Held {
    let sstables = shards.iter().flat_map(|shard| &shard.sstables);
    let counts = sstables.map(|sstable| {
        let sizes = &sstable.partition_sizes;
        let count = u64::try_from(sizes.count()).unwrap_or(0);
        let mean = u64::try_from(sizes.mean()).unwrap_or(0);
        (count, u128::from(count) * u128::from(mean))
    });
    let add =
        |(count, bytes): (u64, u128), (more, larger): (u64, u128)| (count + more, bytes + larger);
    let (partitions, bytes) = counts.fold((0, 0), add);
    let mean = bytes.checked_div(u128::from(partitions)).unwrap_or(0);
    Held {
        table,
        partitions,
        mean_partition_size: u64::try_from(mean).unwrap_or(u64::MAX),
    }
}

/// Writes it down, and takes away what is said of keyspaces that are gone.
async fn write(shard: &Rc<Shard>, held: &[Held]) -> Result<(), String> {
    let metadata = shard.metadata();
    let now = shard.timestamps.next(&shard.env);
    let nothing = KeyspaceEstimates::new();
    let mut mutations = Vec::new();
    for gone in spoken_of(shard).await? {
        if !metadata.schema.keyspaces.contains_key(&*gone) {
            let none = [&nothing, &nothing];
            mutations.extend(estimates_mutations(&metadata.schema, &gone, none, now));
        }
    }
    for (name, keyspace) in &metadata.schema.keyspaces {
        let placement = metadata.placement(name);
        if keyspace.is_virtual || matches!(placement.strategy(), ReplicationStrategy::Local) {
            continue;
        }
        let ranges = ranges(placement, &metadata, shard);
        let of_tables = |parts: &[(Token, Token)]| -> KeyspaceEstimates {
            let held = held.iter().filter(|held| held.table.keyspace == *name);
            held.map(|held| {
                let estimates = parts
                    .iter()
                    .map(|part| estimate(held, *part, ranges.tokens));
                (held.table.name.to_string(), estimates.collect())
            })
            .collect()
        };
        let (here, all) = (of_tables(&ranges.first_here), of_tables(&ranges.first));
        mutations.extend(estimates_mutations(
            &metadata.schema,
            name,
            [&here, &all],
            now,
        ));
    }
    for mutation in mutations {
        let written = replica::apply(shard, mutation).await;
        written.map_err(|error| format!("system.size_estimates: {error}"))?;
    }
    Ok(())
}

/// The keyspaces that there are estimates of.
async fn spoken_of(shard: &Rc<Shard>) -> Result<BTreeSet<String>, String> {
    let schema = shard.metadata().schema.clone();
    let mut names = BTreeSet::new();
    for table in ["size_estimates", "table_estimates"] {
        let unread = |error: crate::start::StartError| error.to_string();
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
    for (start, end, replicas) in super::cluster::ranges(placement) {
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

fn estimate(held: &Held, (start, end): (Token, Token), tokens: u128) -> RangeEstimate {
    let share = u128::from(held.partitions) * width((start, end));
    let partitions = share.checked_div(tokens).unwrap_or(0);
    RangeEstimate {
        start,
        end,
        mean_partition_size: held.mean_partition_size,
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
