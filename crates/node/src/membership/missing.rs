//! What a node has of a table that another one has not any more, to be deleted: a snapshot says what
//! there is and not what there was.

use model::{Cell, DeletionTime, Mutation, NO_TTL, PartitionUpdate, Row};

/// Deletes what `own` has and `arriving` has not, as of `timestamp` (microseconds since 1970), which
/// all that was ever written is not later than. `None`: there is nothing.
pub(super) fn deletion(
    own: &PartitionUpdate,
    arriving: &[PartitionUpdate],
    timestamp: i64,
) -> Option<Mutation> {
    let deletion = DeletionTime {
        timestamp,
        local_deletion_time: u32::try_from(timestamp / 1_000_000).unwrap_or(0),
    };
    let mut update = PartitionUpdate::new(own.table.clone(), own.key.clone());
    let same = |other: &&PartitionUpdate| other.table.id == own.table.id && other.key == own.key;
    match arriving.iter().find(same) {
        None => update.deletion = deletion,
        Some(now) => {
            for row in &own.rows {
                let kept = now
                    .rows
                    .iter()
                    .find(|other| other.clustering == row.clustering);
                delete_from_row(&mut update, row, kept, deletion);
            }
        }
    }
    (!update.is_empty()).then(|| Mutation {
        updates: vec![update],
    })
}

fn delete_from_row(
    update: &mut PartitionUpdate,
    row: &Row,
    kept: Option<&Row>,
    deletion: DeletionTime,
) {
    let Some(kept) = kept else {
        update.row_mut(&row.clustering).deletion = deletion;
        return;
    };
    let table = update.table.clone();
    let is_kept = |cell: &Cell| {
        let mut cells = kept.cells_of(cell.column).iter();
        cells.any(|other| other.path == cell.path)
    };
    for cell in row.cells.iter().filter(|cell| !is_kept(cell)) {
        let tombstone = Cell {
            timestamp: deletion.timestamp,
            ttl: NO_TTL,
            local_deletion_time: deletion.local_deletion_time,
            value: bytes::Bytes::new(),
            ..cell.clone()
        };
        update.row_mut(&row.clustering).add_cell(tombstone, &table);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;

    use super::*;
    use crate::system::{schema_to_mutations, system_keyspaces};

    const KEYSPACE: &str =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    const TABLE: &str = "CREATE TABLE k.t (a int PRIMARY KEY, b int, c int)";
    const OTHER: &str =
        "CREATE KEYSPACE o WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

    /// The rows of a schema that these statements make, written at this time.
    fn rows(statements: &[&str], timestamp: i64) -> Vec<PartitionUpdate> {
        let system = system_keyspaces();
        let mut schema = system.clone();
        for text in statements {
            let context = cql::Context {
                schema: &schema,
                keyspace: None,
            };
            let prepared = cql::prepare(text, &context).expect("it is right");
            let cql::Plan::Schema(plan) = prepared.plan else {
                panic!("{text} changes no schema");
            };
            let id = || uuid::Uuid::from_u128(7);
            let change = plan.apply(&schema, id, timestamp, &["dc"]);
            schema = change.expect("it fits").schema;
        }
        let mutations = schema_to_mutations(&system, &schema, timestamp);
        mutations
            .into_iter()
            .flat_map(|mutation| mutation.updates)
            .collect()
    }

    type Live = BTreeSet<(Bytes, Bytes, Vec<Bytes>, u32, Option<Bytes>, Bytes)>;

    /// The live cells of all rows.
    fn live(updates: &[PartitionUpdate]) -> Live {
        let mut live = Live::new();
        for update in updates {
            let mut update = update.clone();
            update.drop_shadowed();
            let table = Bytes::copy_from_slice(update.table.name.as_bytes());
            for row in &update.rows {
                for cell in row.cells.iter().filter(|cell| !cell.is_tombstone()) {
                    live.insert((
                        table.clone(),
                        update.key.key().clone(),
                        row.clustering.0.iter().cloned().collect(),
                        cell.column.0,
                        cell.path.clone(),
                        cell.value.clone(),
                    ));
                }
            }
        }
        live
    }

    /// What a node has after it took over what `arriving` says.
    fn taken_over(own: &[PartitionUpdate], arriving: &[PartitionUpdate]) -> Vec<PartitionUpdate> {
        let mut result = own.to_vec();
        let deletions = own.iter().filter_map(|own| deletion(own, arriving, 300));
        let deletions: Vec<Mutation> = deletions.collect();
        let new = deletions.into_iter().flat_map(|mutation| mutation.updates);
        for update in new.chain(arriving.iter().cloned()) {
            let same = |other: &&mut PartitionUpdate| {
                other.table.id == update.table.id && other.key == update.key
            };
            match result.iter_mut().find(same) {
                Some(known) => known.merge(update),
                None => result.push(update),
            }
        }
        result
    }

    #[test]
    fn a_node_that_takes_over_a_snapshot_has_what_is_in_it() {
        let altered = "ALTER TABLE k.t DROP c";
        let schemas: [&[&str]; 5] = [
            &[],
            &[KEYSPACE],
            &[KEYSPACE, TABLE],
            &[KEYSPACE, TABLE, altered],
            &[OTHER],
        ];
        for own in schemas {
            for arriving in schemas {
                // The snapshot is younger, and nothing in it is younger than 300.
                let (own, arriving) = (rows(own, 100), rows(arriving, 200));
                let taken = taken_over(&own, &arriving);
                assert_eq!(live(&taken), live(&arriving));
            }
        }
    }

    #[test]
    fn nothing_is_deleted_that_is_there_yet() {
        let own = rows(&[KEYSPACE, TABLE], 100);
        let missing = own.iter().filter_map(|update| deletion(update, &own, 300));
        assert_eq!(missing.count(), 0);
    }
}
