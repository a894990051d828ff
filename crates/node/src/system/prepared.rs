//! `system.prepared_statements` (`SystemKeyspace.writePreparedStatement`).

use bytes::Bytes;
use model::{Clustering, DecoratedKey, Mutation, Partition, PartitionUpdate, Schema, Table};

use super::rows::{RowReader, RowWriter, WriteTime, text};

/// A prepared statement as it is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedStatement {
    /// The id under which clients execute it.
    pub(crate) id: Bytes,
    /// The keyspace of its unqualified names.
    pub(crate) keyspace: Option<String>,
    /// What was prepared.
    pub(crate) text: String,
}

/// Notes a statement, at a time in microseconds since 1970. `None` if the schema has no such table.
pub(crate) fn prepared_mutation(
    schema: &Schema,
    statement: &SavedStatement,
    now: i64,
) -> Option<Mutation> {
    let table = schema.table("system", "prepared_statements")?;
    let key = DecoratedKey::new(statement.id.clone());
    let mut update = PartitionUpdate::new(table.clone(), key);
    let row = update.row_mut(&Clustering::EMPTY);
    let mut row = RowWriter::insert(table, row, WriteTime::at(now));
    row.set("query_string", text(&statement.text));
    if let Some(keyspace) = &statement.keyspace {
        row.set("logged_keyspace", text(keyspace));
    }
    Some(Mutation {
        updates: vec![update],
    })
}

/// Forgets one.
pub(crate) fn unprepared_mutation(schema: &Schema, id: Bytes, now: i64) -> Option<Mutation> {
    let table = schema.table("system", "prepared_statements")?;
    let mut update = PartitionUpdate::new(table.clone(), DecoratedKey::new(id));
    update.deletion = WriteTime::at(now).deletion();
    Some(Mutation {
        updates: vec![update],
    })
}

/// What was noted in a partition.
pub(crate) fn saved_statement(table: &Table, partition: &Partition) -> Option<SavedStatement> {
    let row = RowReader::new(table, partition.rows.first()?);
    Some(SavedStatement {
        id: partition.key.key().clone(),
        keyspace: row.text("logged_keyspace").map(str::to_owned),
        text: row.text("query_string")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::system_keyspaces;

    #[test]
    fn statements_are_read_as_noted() {
        let schema = system_keyspaces();
        let table = schema.table("system", "prepared_statements").unwrap();
        for keyspace in [None, Some("ks".to_owned())] {
            let statement = SavedStatement {
                id: Bytes::from_static(&[7; 16]),
                keyspace,
                text: "SELECT v FROM t".to_owned(),
            };
            let mutation = prepared_mutation(&schema, &statement, 1_000_000).unwrap();
            let update = &mutation.updates[0];
            let partition = Partition {
                key: update.key.clone(),
                deletion: update.deletion,
                static_row: None,
                rows: update.rows.clone(),
                packed: Vec::new(),
                range_tombstones: Vec::new(),
            };
            assert_eq!(saved_statement(table, &partition), Some(statement));
        }
    }
}
