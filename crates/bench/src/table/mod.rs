//! The tables that are worked on: what they look like, and what an operation on them is in CQL.

mod metrics;
mod partitions;
mod records;

use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::{Common, Lengths, TableName};
use crate::workload::{Kind, Operation, key_of};
use metrics::Metrics;
use partitions::Partitions;
use records::Records;

pub(crate) use partitions::ROWS as ROWS_OF_A_PARTITION;

/// What a worker keeps from one operation to the next.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    key: String,
    fields: Vec<String>,
    points: metrics::Points,
}

/// A table, with its statements prepared.
pub(crate) enum Table {
    Records(Records),
    Partitions(Partitions),
    Metrics(Metrics),
}

impl Table {
    /// The statement that makes the table, without its options.
    pub(crate) fn definition(options: &Common) -> String {
        match options.table {
            TableName::Records => records::definition(options),
            TableName::Partitions => partitions::definition(options),
            TableName::Metrics => metrics::definition(options),
        }
    }

    /// Prepares what is needed of a table that is there.
    pub(crate) async fn open(
        connection: &Connection,
        options: &Common,
    ) -> Result<Table, DatabaseError> {
        Ok(match options.table {
            TableName::Records => Table::Records(Records::open(connection, options).await?),
            TableName::Partitions => {
                Table::Partitions(Partitions::open(connection, options).await?)
            }
            TableName::Metrics => Table::Metrics(Metrics::open(connection, options).await?),
        })
    }

    /// Does an operation. Says whether there was anything to be found.
    pub(crate) async fn execute(
        &self,
        operation: &Operation,
        mut task: Task<'_>,
    ) -> Result<bool, String> {
        key_of(operation.record, &mut task.buffers.key);
        match self {
            Table::Records(table) => perform(table, operation, &mut task).await,
            Table::Partitions(table) => perform(table, operation, &mut task).await,
            Table::Metrics(table) => perform(table, operation, &mut task).await,
        }
    }
}

/// What an operation is done with.
pub(crate) struct Task<'t> {
    pub(crate) connection: &'t Connection,
    pub(crate) random: &'t mut Random,
    pub(crate) buffers: &'t mut Buffers,
}

/// What operations are on a table; the key is in the buffers. Each says whether there was anything to be found.
trait Statements {
    async fn read(&self, task: &Task<'_>) -> Result<bool, String>;

    /// So many rows at most, from the key on.
    async fn scan(&self, task: &Task<'_>, length: i32) -> Result<bool, String>;

    async fn update(&self, task: &mut Task<'_>) -> Result<bool, String>;

    async fn insert(&self, task: &mut Task<'_>) -> Result<bool, String>;
}

async fn perform(
    table: &impl Statements,
    operation: &Operation,
    task: &mut Task<'_>,
) -> Result<bool, String> {
    match operation.kind {
        Kind::Read => table.read(task).await,
        Kind::Scan => table.scan(task, operation.length).await,
        Kind::Update => table.update(task).await,
        Kind::Insert => table.insert(task).await,
        Kind::ReadModifyWrite => {
            let found = table.read(task).await?;
            table.update(task).await?;
            Ok(found)
        }
    }
}

impl Task<'_> {
    /// Draws so many fields.
    fn draw_fields(&mut self, count: usize, lengths: Lengths) {
        self.buffers.fields.resize(count, String::new());
        for field in &mut self.buffers.fields {
            let length = lengths.draw(self.random);
            self.random.text(field, length);
        }
    }
}
