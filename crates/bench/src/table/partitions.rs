//! Partitions of a hundred rows with one value each: a record is a partition, which is read whole.

use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::Buffers;
use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::{Common, Lengths};
use crate::workload::{Kind, Operation, key_of};

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
            Kind::Scan => {
                let values = (&buffers.key, operation.length);
                Ok(connection.rows(&self.scan, values).await? > 0)
            }
            Kind::Update => self.update(connection, random, buffers).await,
            Kind::Insert => self.insert(connection, random, buffers).await,
            Kind::ReadModifyWrite => {
                let found = self.read(connection, buffers).await?;
                self.update(connection, random, buffers).await?;
                Ok(found)
            }
        }
    }

    async fn read(&self, connection: &Connection, buffers: &Buffers) -> Result<bool, String> {
        let rows = connection.rows(&self.read, (&buffers.key,)).await?;
        Ok(rows == ROWS as usize)
    }

    /// One row of it.
    async fn update(
        &self,
        connection: &Connection,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        let row = random.below(ROWS as u64) as i32;
        self.fill(random, buffers, 1);
        let values = (&buffers.key, row, &buffers.fields[0]);
        connection.run(&self.insert, values).await?;
        Ok(true)
    }

    async fn insert(
        &self,
        connection: &Connection,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        self.fill(random, buffers, ROWS as usize);
        let rows = (0..ROWS).zip(&buffers.fields);
        let values: Vec<_> = rows
            .map(|(row, value)| (&buffers.key, row, value))
            .collect();
        connection.run_batch(&self.inserts, values).await?;
        Ok(true)
    }

    fn fill(&self, random: &mut Random, buffers: &mut Buffers, fields: usize) {
        buffers.fields.resize(fields, String::new());
        for field in &mut buffers.fields {
            let length = self.lengths.draw(random);
            random.text(field, length);
        }
    }
}
