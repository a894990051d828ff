//! The tables that are worked on: what they look like, and what an operation on them is in CQL.

mod metrics;
mod partitions;
mod records;

use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::{Common, TableName};
use crate::workload::Operation;
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
        connection: &Connection,
        operation: &Operation,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        match self {
            Table::Records(table) => table.execute(connection, operation, random, buffers).await,
            Table::Partitions(table) => table.execute(connection, operation, random, buffers).await,
            Table::Metrics(table) => table.execute(connection, operation, random, buffers).await,
        }
    }
}
