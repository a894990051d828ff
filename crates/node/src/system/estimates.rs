//! `system.size_estimates` and `system.table_estimates`: how much each range has of each table, as connectors
//! that split whole tables among their workers read it (`SystemKeyspace.updateSizeEstimates`).

use bytes::Bytes;
use model::{
    Clustering, DecoratedKey, DeletionTime, Mutation, PartitionUpdate, Schema, Table, Token,
};
use std::sync::Arc;

use super::rows::{RowWriter, WriteTime, bigint, text};

/// What a range has of a table: about so much.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RangeEstimate {
    /// The range begins behind this token.
    pub(crate) start: Token,
    /// It ends with this one.
    pub(crate) end: Token,
    /// Bytes of a partition.
    pub(crate) mean_partition_size: u64,
    /// Partitions.
    pub(crate) partitions: u64,
}

/// The tables of a keyspace with their ranges.
pub(crate) type KeyspaceEstimates = Vec<(String, Vec<RangeEstimate>)>;

/// The words in `range_type`: ranges whose first replica this node is, of all nodes and of those of its data
/// centre.
const RANGE_TYPES: [&str; 2] = ["local_primary", "primary"];

/// Puts what is said of a keyspace in place of what was said before: `all` for ranges whose first replica this
/// node is, `local` for those of which it is the first one in its data centre. `at`: microseconds since 1970.
pub(crate) fn estimates_mutations(
    schema: &Schema,
    keyspace: &str,
    [local, all]: [&KeyspaceEstimates; 2],
    at: i64,
) -> Vec<Mutation> {
    let size = schema.table("system", "size_estimates");
    let sizes = size.map(|table| {
        let mut update = emptied(table, keyspace, at);
        for (name, ranges) in local {
            add(table, &mut update, &[name], ranges, at);
        }
        update
    });
    let table = schema.table("system", "table_estimates");
    let tables = table.map(|table| {
        let mut update = emptied(table, keyspace, at);
        for (kind, estimates) in RANGE_TYPES.into_iter().zip([local, all]) {
            for (name, ranges) in estimates {
                add(table, &mut update, &[name, kind], ranges, at);
            }
        }
        update
    });
    let updates = [sizes, tables].into_iter().flatten();
    updates
        .map(|update| Mutation {
            updates: vec![update],
        })
        .collect()
}

/// Without all that was said before.
fn emptied(table: &Arc<Table>, keyspace: &str, at: i64) -> PartitionUpdate {
    let key = DecoratedKey::new(Bytes::copy_from_slice(keyspace.as_bytes()));
    let mut update = PartitionUpdate::new(table.clone(), key);
    update.deletion = DeletionTime {
        timestamp: at - 1,
        local_deletion_time: u32::try_from(at / 1_000_000).unwrap_or(0),
    };
    update
}

fn add(
    table: &Table,
    update: &mut PartitionUpdate,
    names: &[&str],
    ranges: &[RangeEstimate],
    at: i64,
) {
    let number = |number: u64| bigint(i64::try_from(number).unwrap_or(i64::MAX));
    for range in ranges {
        let tokens = [range.start, range.end].map(|token| text(&token.0.to_string()));
        let names = names.iter().map(|name| text(name));
        let row = update.row_mut(&Clustering(names.chain(tokens).collect()));
        RowWriter::insert(table, row, WriteTime::at(at))
            .set("mean_partition_size", number(range.mean_partition_size))
            .set("partitions_count", number(range.partitions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    #[test]
    fn what_is_said_replaces_what_was() {
        let range = |start, end, partitions| RangeEstimate {
            start: Token(start),
            end: Token(end),
            mean_partition_size: 7,
            partitions,
        };
        let local = vec![("t".to_owned(), vec![range(1, 2, 3), range(5, 6, 0)])];
        let all = vec![("t".to_owned(), vec![range(1, 2, 3)])];
        let schema = system_keyspaces();
        let mutations = estimates_mutations(&schema, "ks", [&local, &all], 9_000_000);
        let rows = |mutation: &Mutation| {
            let update = &mutation.updates[0];
            assert_eq!(update.key.key().as_ref(), b"ks");
            assert_eq!(
                (
                    update.deletion.timestamp,
                    update.deletion.local_deletion_time
                ),
                (8_999_999, 9)
            );
            let names = |clustering: &Clustering| {
                let values = clustering.values().map(String::from_utf8_lossy);
                values.collect::<Vec<_>>().join(" ")
            };
            let rows = update.rows.iter();
            rows.map(|row| names(&row.clustering)).collect::<Vec<_>>()
        };
        assert_eq!(rows(&mutations[0]), ["t 1 2", "t 5 6"]);
        assert_eq!(
            rows(&mutations[1]),
            [
                "t local_primary 1 2",
                "t local_primary 5 6",
                "t primary 1 2"
            ]
        );
    }
}
