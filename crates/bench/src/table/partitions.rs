//! Partitions of a hundred rows with one value each: a record is a partition, which is read whole.

use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::{Statements, Task};
use crate::connection::{Connection, DatabaseError};
use crate::options::{Common, Lengths};

/// Rows of a partition.
pub(crate) const ROWS: i32 = 100;

pub(super) fn definition(options: &Common) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {}.partitions (k varchar, c int, v varchar, PRIMARY KEY (k, c))",
        options.keyspace
    )
}

pub(crate) struct Partitions {
    read: PreparedStatement,
    scan: PreparedStatement,
    insert: PreparedStatement,
    /// All rows of a partition, in one batch.
    inserts: Batch,
    lengths: Lengths,
}

impl Partitions {
    pub(super) async fn open(
        connection: &Connection,
        options: &Common,
    ) -> Result<Partitions, DatabaseError> {
        let table = format!("{}.partitions", options.keyspace);
        let insert = format!("INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)");
        let insert = connection.prepare(insert).await?;
        let mut inserts = Batch::new(BatchType::Unlogged);
        for _ in 0..ROWS {
            inserts.append_statement(insert.clone());
        }
        let read = format!("SELECT * FROM {table} WHERE k = ?");
        let scan = format!("SELECT * FROM {table} WHERE k = ? LIMIT ?");
        Ok(Partitions {
            read: connection.prepare(read).await?,
            scan: connection.prepare(scan).await?,
            insert,
            inserts,
            lengths: options.field_length,
        })
    }
}

impl Statements for Partitions {
    async fn read(&self, task: &Task<'_>) -> Result<bool, String> {
        let rows = task.connection.run(&self.read, (&task.buffers.key,));
        Ok(rows.await? == ROWS as usize)
    }

    async fn scan(&self, task: &Task<'_>, length: i32) -> Result<bool, String> {
        let values = (&task.buffers.key, length);
        Ok(task.connection.run(&self.scan, values).await? > 0)
    }

    /// One row of it.
    async fn update(&self, task: &mut Task<'_>) -> Result<bool, String> {
        let row = task.random.below(ROWS as u64) as i32;
        task.draw_fields(1, self.lengths);
        let values = (&task.buffers.key, row, &task.buffers.fields[0]);
        task.connection.run(&self.insert, values).await?;
        Ok(true)
    }

    async fn insert(&self, task: &mut Task<'_>) -> Result<bool, String> {
        task.draw_fields(ROWS as usize, self.lengths);
        let rows = (0..ROWS).zip(&task.buffers.fields);
        let values: Vec<_> = rows
            .map(|(row, value)| (&task.buffers.key, row, value))
            .collect();
        task.connection.run_batch(&self.inserts, values).await?;
        Ok(true)
    }
}
