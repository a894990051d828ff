//! Points of metrics, many to a row, as Mogujie keeps them: a map from the second to the sum, the
//! number, the latest, the least and the greatest of what was measured in it.

use std::collections::BTreeMap;

use scylla::statement::prepared::PreparedStatement;

use super::{Statements, Task};
use crate::connection::{Connection, DatabaseError};
use crate::generator::Random;
use crate::options::Common;

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

    async fn write(
        &self,
        statement: &PreparedStatement,
        task: &mut Task<'_>,
    ) -> Result<bool, String> {
        fill(&mut task.buffers.points, self.points, task.random);
        let values = (&task.buffers.points, &task.buffers.key);
        task.connection.run(statement, values).await?;
        Ok(true)
    }
}

impl Statements for Metrics {
    async fn read(&self, task: &Task<'_>) -> Result<bool, String> {
        let values = (&task.buffers.key,);
        Ok(task.connection.run(&self.read, values).await? > 0)
    }

    /// A row has all points: there is no more to it.
    async fn scan(&self, task: &Task<'_>, _length: i32) -> Result<bool, String> {
        self.read(task).await
    }

    async fn update(&self, task: &mut Task<'_>) -> Result<bool, String> {
        self.write(&self.update, task).await
    }

    async fn insert(&self, task: &mut Task<'_>) -> Result<bool, String> {
        self.write(&self.insert, task).await
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
