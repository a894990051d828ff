//! YCSB's table, as its `cassandra-cql` binding has it: records of so many fields, each a partition.

use scylla::statement::prepared::PreparedStatement;

use super::Buffers;
use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::{Common, Lengths};
use crate::workload::{Kind, Operation, key_of};

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

    pub(super) async fn execute(
        &self,
        connection: &Connection,
        operation: &Operation,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        key_of(operation.record, &mut buffers.key);
        match operation.kind {
            Kind::Read => self.read(connection, buffers).await,
            Kind::Update => self.update(connection, random, buffers).await,
            Kind::Insert => self.insert(connection, random, buffers).await,
            Kind::Scan => {
                let values = (&buffers.key, operation.length);
                Ok(connection.rows(&self.scan, values).await? > 0)
            }
            Kind::ReadModifyWrite => {
                let found = self.read(connection, buffers).await?;
                self.update(connection, random, buffers).await?;
                Ok(found)
            }
        }
    }

    async fn read(&self, connection: &Connection, buffers: &Buffers) -> Result<bool, String> {
        Ok(connection.rows(&self.read, (&buffers.key,)).await? > 0)
    }

    async fn update(
        &self,
        connection: &Connection,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        let statement = &self.updates[random.below(self.updates.len() as u64) as usize];
        buffers.fields.resize(self.updates.len(), String::new());
        let length = self.lengths.draw(random);
        random.text(&mut buffers.fields[0], length);
        let values = (&buffers.fields[0], &buffers.key);
        connection.run(statement, values).await?;
        Ok(true)
    }

    async fn insert(
        &self,
        connection: &Connection,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        buffers.fields.resize(self.updates.len(), String::new());
        for field in &mut buffers.fields {
            let length = self.lengths.draw(random);
            random.text(field, length);
        }
        let values: Vec<&str> = std::iter::once(&*buffers.key)
            .chain(buffers.fields.iter().map(String::as_str))
            .collect();
        connection.run(&self.insert, values).await?;
        Ok(true)
    }
}
