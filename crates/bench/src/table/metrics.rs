//! Points of metrics, many to a row, as Mogujie keeps them: a map from the second to the sum, the
//! number, the latest, the least and the greatest of what was measured in it.

use scylla::statement::prepared::PreparedStatement;
use std::collections::BTreeMap;

use super::Buffers;
use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::Common;
use crate::workload::{Kind, Operation, key_of};

/// What a row has.
pub(super) type Points = BTreeMap<i32, (f64, i64, i64, f64, f64)>;

pub(super) fn definition(options: &Common) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {}.metrics (metric varchar PRIMARY KEY, \
         points map<int, frozen<tuple<double, bigint, bigint, double, double>>>)",
        options.keyspace
    )
}

pub(crate) struct Metrics {
    read: PreparedStatement,
    insert: PreparedStatement,
    update: PreparedStatement,
    points: usize,
}

impl Metrics {
    pub(super) async fn open(
        connection: &Connection,
        options: &Common,
    ) -> Result<Metrics, DatabaseError> {
        let table = format!("{}.metrics", options.keyspace);
        let read = format!("SELECT * FROM {table} WHERE metric = ?");
        let insert = format!("INSERT INTO {table} (points, metric) VALUES (?, ?)");
        let update = format!("UPDATE {table} SET points = points + ? WHERE metric = ?");
        Ok(Metrics {
            read: connection.prepare(read).await?,
            insert: connection.prepare(insert).await?,
            update: connection.prepare(update).await?,
            points: options.points,
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
            Kind::Read | Kind::Scan => self.read(connection, buffers).await,
            Kind::Update => self.write(&self.update, connection, random, buffers).await,
            Kind::Insert => self.write(&self.insert, connection, random, buffers).await,
            Kind::ReadModifyWrite => {
                let found = self.read(connection, buffers).await?;
                self.write(&self.update, connection, random, buffers)
                    .await?;
                Ok(found)
            }
        }
    }

    async fn read(&self, connection: &Connection, buffers: &Buffers) -> Result<bool, String> {
        Ok(connection.rows(&self.read, (&buffers.key,)).await? > 0)
    }

    async fn write(
        &self,
        statement: &PreparedStatement,
        connection: &Connection,
        random: &mut Random,
        buffers: &mut Buffers,
    ) -> Result<bool, String> {
        fill(&mut buffers.points, self.points, random);
        let values = (&buffers.points, &buffers.key);
        connection.run(statement, values).await?;
        Ok(true)
    }
}

/// The points of as many seconds one after the other. Drawing each would be what the client does most of the
/// time, so all but the first differ from what was there by what one draw gives.
fn fill(points: &mut Points, count: usize, random: &mut Random) {
    let shift = random.below(1 << 20) as i64;
    if points.len() != count {
        *points = (0..count as i32)
            .map(|second| (second, (0.0, 0, 0, 0.0, 0.0)))
            .collect();
    }
    for (second, (sum, number, latest, least, greatest)) in points {
        *number = shift + i64::from(*second);
        *latest = *number ^ 0x55;
        *sum = *number as f64 * 1.5;
        *least = *number as f64;
        *greatest = *number as f64 * 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_as_many_as_asked_for_and_change() {
        let (mut points, mut random) = (Points::default(), Random::new(1));
        fill(&mut points, 60, &mut random);
        let before = points.clone();
        fill(&mut points, 60, &mut random);
        assert_eq!(points.len(), 60);
        assert!(
            points
                .iter()
                .all(|(second, point)| before[second] != *point)
        );
    }
}
