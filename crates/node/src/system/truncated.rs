//! `truncated_at` of `system.local`: when tables were truncated (`SystemKeyspace.saveTruncationRecord`).

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Mutation, PartitionUpdate, Row, Schema, Table, TableId};

use super::rows::{RowWriter, WriteTime, text};

/// A truncation as it is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedTruncation {
    /// When, in milliseconds since 1970.
    pub(crate) at: i64,
    /// Up to where in a Cassandra's commit log the table was truncated by that, as Cassandra writes it
    /// (`CommitLogPosition.serializer`).
    position: [u8; 12],
}

impl Default for SavedTruncation {
    fn default() -> SavedTruncation {
        // `CommitLogPosition.NONE`: our truncations say nothing of a Cassandra's log.
        let mut position = [0; 12];
        position[..8].copy_from_slice(&(-1i64).to_be_bytes());
        SavedTruncation {
            at: i64::MIN,
            position,
        }
    }
}

/// Notes a truncation, and forgets those of other tables. `None` if the schema has no such table.
pub(crate) fn truncation_mutation(
    schema: &Schema,
    (truncated, noted): (TableId, SavedTruncation),
    forgotten: &[TableId],
    now_micros: i64,
) -> Option<Mutation> {
    let table = schema.table("system", "local")?;
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(text("local")));
    let row = update.row_mut(&Clustering::EMPTY);
    let mut value = noted.position.to_vec();
    value.extend_from_slice(&noted.at.to_be_bytes());
    let key = |id: &TableId| Bytes::copy_from_slice(id.as_bytes());
    RowWriter::update(table, row, WriteTime::at(now_micros))
        .add("truncated_at", [(key(&truncated), value.into())])
        .remove("truncated_at", forgotten.iter().map(key));
    Some(Mutation {
        updates: vec![update],
    })
}

/// The truncations of the row of `system.local`.
pub(crate) fn saved_truncations(
    table: &Table,
    row: &Row,
) -> impl Iterator<Item = (TableId, SavedTruncation)> {
    let column = table.column_named("truncated_at").map(|column| column.id);
    let cells = column.map(|column| row.cells_of(column)).into_iter();
    cells.flatten().filter_map(|cell| {
        let table = TableId::from_slice(cell.path.as_ref()?).ok()?;
        let (position, at) = cell.value.split_first_chunk()?;
        let noted = SavedTruncation {
            at: i64::from_be_bytes(*at.first_chunk()?),
            position: *position,
        };
        Some((table, noted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    #[test]
    fn what_is_noted_is_read_and_forgotten() {
        let schema = system_keyspaces();
        let table = schema.table("system", "local").expect("it is there");
        let (one, other) = (TableId::from_u128(1), TableId::from_u128(2));
        let noted = |at| SavedTruncation {
            at,
            ..SavedTruncation::default()
        };
        let row_of = |mutation: Option<Mutation>| {
            let mut update = mutation.expect("there is a table").updates.remove(0);
            assert_eq!(update.rows.len(), 1);
            update.rows.remove(0)
        };
        let first = row_of(truncation_mutation(&schema, (one, noted(5)), &[], 10));
        let saved: Vec<_> = saved_truncations(table, &first).collect();
        assert_eq!(saved, [(one, noted(5))]);
        let second = (other, noted(6));
        let second = row_of(truncation_mutation(&schema, second, &[one], 11));
        // The row itself is not written anew, and what is forgotten is a tombstone.
        assert_eq!(second.liveness, Row::new(Clustering::EMPTY).liveness);
        let column = table.column_named("truncated_at").expect("it is there").id;
        let dead: Vec<_> = second
            .cells_of(column)
            .iter()
            .map(|c| c.is_tombstone())
            .collect();
        assert_eq!(dead, [true, false]);
    }
}
