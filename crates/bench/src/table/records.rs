//! YCSB's table, as its `cassandra-cql` binding has it: records of so many fields, each a partition.

use scylla::statement::prepared::PreparedStatement;

use super::{Statements, Task};
use crate::connection::{Connection, DatabaseError};
use crate::options::{Common, Lengths};

pub(super) fn definition(options: &Common) -> String {
    let fields: Vec<String> = (0..options.fields)
        .map(|i| format!("field{i} varchar"))
        .collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {}.usertable (y_id varchar PRIMARY KEY, {})",
        options.keyspace,
        fields.join(", "),
    )
}

pub(crate) struct Records {
    read: PreparedStatement,
    /// One for each field.
    updates: Vec<PreparedStatement>,
    insert: PreparedStatement,
    scan: PreparedStatement,
    lengths: Lengths,
}

impl Records {
    pub(super) async fn open(
        connection: &Connection,
        options: &Common,
    ) -> Result<Records, DatabaseError> {
        let table = format!("{}.usertable", options.keyspace);
        let names: Vec<String> = (0..options.fields).map(|i| format!("field{i}")).collect();
        let mut updates = Vec::new();
        for name in &names {
            let update = format!("UPDATE {table} SET {name} = ? WHERE y_id = ?");
            updates.push(connection.prepare(update).await?);
        }
        let insert = format!(
            "INSERT INTO {table} (y_id, {}) VALUES (?{})",
            names.join(", "),
            ", ?".repeat(names.len())
        );
        let read = format!("SELECT * FROM {table} WHERE y_id = ?");
        let scan = format!("SELECT * FROM {table} WHERE token(y_id) >= token(?) LIMIT ?");
        Ok(Records {
            read: connection.prepare(read).await?,
            updates,
            insert: connection.prepare(insert).await?,
            scan: connection.prepare(scan).await?,
            lengths: options.field_length,
        })
    }
}

impl Statements for Records {
    async fn read(&self, task: &Task<'_>) -> Result<bool, String> {
        let values = (&task.buffers.key,);
        Ok(task.connection.run(&self.read, values).await? > 0)
    }

    async fn scan(&self, task: &Task<'_>, length: i32) -> Result<bool, String> {
        let values = (&task.buffers.key, length);
        Ok(task.connection.run(&self.scan, values).await? > 0)
    }

    async fn update(&self, task: &mut Task<'_>) -> Result<bool, String> {
        let statement = &self.updates[task.random.below(self.updates.len() as u64) as usize];
        task.draw_fields(1, self.lengths);
        let values = (&task.buffers.fields[0], &task.buffers.key);
        task.connection.run(statement, values).await?;
        Ok(true)
    }

    async fn insert(&self, task: &mut Task<'_>) -> Result<bool, String> {
        task.draw_fields(self.updates.len(), self.lengths);
        let values: Vec<&str> = std::iter::once(&*task.buffers.key)
            .chain(task.buffers.fields.iter().map(String::as_str))
            .collect();
        task.connection.run(&self.insert, values).await?;
        Ok(true)
    }
}
