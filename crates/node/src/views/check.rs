//! Comparing a view with its table, and mending it.
//!
//! A view follows its table as long as each replica of the table tells its replica of the view. What may part them
//! is what parts replicas of a table, too, and what Cassandra leaves to whoever notices: a node that was away for
//! longer than hints are kept, files that were lost or brought back, replicas of a view whose partner has changed.
//!
//! Both are read from all replicas, once along the table and once along the view. What differs is looked at again
//! after a while, as a write may have been on its way. What the view lacks is written there with the times of
//! the table, and what it has too much is taken away as of its own time, so that nothing that the table says later
//! is hidden.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::Consistency;
use model::{
    Cell, Clustering, ClusteringSelection, Column, ColumnKind, DataLimits, DecoratedKey,
    EXPIRED_TTL, Liveness, Mutation, NO_TIMESTAMP, NO_TTL, Partition, PartitionBound,
    PartitionSelection, PartitionUpdate, ReadCommand, Row, Slice, Table, TableId, decode_key,
    encode_key,
};
use storage::{ViewRule, ViewUpdates};
use wire::WriteType;

use crate::coordinator;
use crate::error::RequestError;
use crate::shard::Shard;

/// How many rows are read at once, and how many bytes of them.
const ROWS: u32 = 500;
const BYTES: u32 = 1 << 20;
/// How long a write may be on its way from a table to its view, for which a difference is looked at again.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// How often.
const LOOKS: u32 = 6;

/// What a comparison has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewCheck {
    /// Rows of the table.
    pub rows: u64,
    /// Rows that the view should have, but lacks, or has with other values.
    pub lacking: u64,
    /// Rows that the view has and should not have.
    pub excess: u64,
    /// Of both, how many are right now, having been mended.
    pub mended: u64,
}

/// A comparison.
struct Check<'s> {
    shard: &'s Rc<Shard>,
    rules: Rc<[ViewRule]>,
    at: usize,
    mends: bool,
    found: ViewCheck,
}

/// Compares a view with its table; `mend`: makes it right.
///
/// # Errors
/// There is no such view; or not all replicas answer, in words.
pub(crate) async fn check(
    shard: &Rc<Shard>,
    view: TableId,
    mend: bool,
) -> Result<ViewCheck, String> {
    let (rules, at) = super::build::rule_of(shard, view).ok_or("there is no such view")?;
    let mut check = Check {
        shard,
        rules,
        at,
        mends: mend,
        found: ViewCheck::default(),
    };
    let gone_through = async {
        check.along_table().await?;
        check.along_view().await
    };
    gone_through
        .await
        .map_err(|error: RequestError| format!("{error:?}"))?;
    Ok(check.found)
}

impl Check<'_> {
    fn rule(&self) -> &ViewRule {
        &self.rules[self.at]
    }

    /// The next rows of a table; `from` is where to go on behind them, nowhere at its end.
    async fn page(
        &self,
        table: &Arc<Table>,
        from: &mut Option<model::Resume>,
    ) -> Result<Vec<Partition>, RequestError> {
        let mut command = command(self.shard, table, whole_ring(), vec![Slice::ALL]);
        command.resume = from.take();
        let page = read(self.shard, &command).await?;
        if page.more {
            let last = page.partitions.last();
            *from = last.map(|last| model::Resume {
                key: last.key.clone(),
                clustering: last.rows.last().map(|row| row.clustering.clone()),
                remaining_in_partition: u32::MAX,
            });
        }
        Ok(page.partitions)
    }

    /// Has the view each row that it should have?
    async fn along_table(&mut self) -> Result<(), RequestError> {
        let table = self.rule().base().clone();
        let mut from = None;
        loop {
            let partitions = self.page(&table, &mut from).await?;
            for partition in &partitions {
                self.found.rows += partition.rows.len() as u64;
                for row in &partition.rows {
                    if !self.is_there(&partition.key, row).await? {
                        self.look_again_at_table(&partition.key, row).await?;
                    }
                }
                self.shard.env.maybe_yield().await;
            }
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// What the view should have of a row of the table.
    async fn expected(
        &self,
        key: &DecoratedKey,
        row: &Row,
    ) -> Result<Option<(DecoratedKey, Row)>, RequestError> {
        let rule = &self.rules[self.at..=self.at];
        let now = super::write::now(self.shard, rule).await;
        let now = now.map_err(|error| RequestError::Server(error.to_string()))?;
        let mut views = ViewUpdates::new(rule, key, now);
        views.add_row(None, row.clone());
        let mut updates = views.finish().into_iter().flat_map(|m| m.updates);
        Ok(updates.next().and_then(|mut update| {
            let row = update.rows.pop()?;
            Some((update.key, row))
        }))
    }

    async fn is_there(&self, key: &DecoratedKey, row: &Row) -> Result<bool, RequestError> {
        let Some((place, expected)) = self.expected(key, row).await? else {
            return Ok(true);
        };
        let view = self.rule().view().clone();
        let there = row_of(self.shard, &view, place, expected.clustering.clone()).await?;
        Ok(there.is_some_and(|there| is_same(&view, &expected, &there)))
    }

    async fn look_again_at_table(
        &mut self,
        key: &DecoratedKey,
        row: &Row,
    ) -> Result<(), RequestError> {
        let table = self.rule().base().clone();
        for _ in 0..LOOKS {
            self.shard.env.sleep(ON_ITS_WAY).await;
            let now = row_of(self.shard, &table, key.clone(), row.clustering.clone()).await?;
            let Some(now) = now else {
                return Ok(());
            };
            if self.is_there(key, &now).await? {
                return Ok(());
            }
        }
        self.found.lacking += 1;
        let now = row_of(self.shard, &table, key.clone(), row.clustering.clone()).await?;
        let expected = match &now {
            Some(now) => self.expected(key, now).await?,
            None => None,
        };
        if let (true, Some(now), Some((place, expected))) = (self.mends, now, expected) {
            self.write(place, expected).await?;
            self.found.mended += u64::from(self.is_there(key, &now).await?);
        }
        Ok(())
    }

    /// Has the view only rows that it should have?
    async fn along_view(&mut self) -> Result<(), RequestError> {
        let view = self.rule().view().clone();
        let mut from = None;
        loop {
            let partitions = self.page(&view, &mut from).await?;
            for partition in &partitions {
                for row in &partition.rows {
                    if !self.is_wanted(&partition.key, row).await? {
                        self.look_again_at_view(&partition.key, row).await?;
                    }
                }
                self.shard.env.maybe_yield().await;
            }
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Does the table say that the view has this row?
    async fn is_wanted(&self, key: &DecoratedKey, row: &Row) -> Result<bool, RequestError> {
        let Some((of_table, _)) = place_in_table(self.rule(), key, row) else {
            return Ok(false);
        };
        let there = self.in_table(key, row).await?;
        let expected = match there {
            Some(there) => self.expected(&of_table, &there).await?,
            None => None,
        };
        Ok(expected.is_some_and(|(place, expected)| {
            place == *key && expected.clustering == row.clustering
        }))
    }

    /// The row of the table that a row of the view shows, if it is there.
    async fn in_table(&self, key: &DecoratedKey, row: &Row) -> Result<Option<Row>, RequestError> {
        match place_in_table(self.rule(), key, row) {
            Some((key, clustering)) => {
                let table = self.rule().base().clone();
                row_of(self.shard, &table, key, clustering).await
            }
            None => Ok(None),
        }
    }

    async fn look_again_at_view(
        &mut self,
        key: &DecoratedKey,
        row: &Row,
    ) -> Result<(), RequestError> {
        let view = self.rule().view().clone();
        let mut there = row.clone();
        for _ in 0..LOOKS {
            self.shard.env.sleep(ON_ITS_WAY).await;
            let place = row.clustering.clone();
            match row_of(self.shard, &view, key.clone(), place).await? {
                Some(now) => there = now,
                None => return Ok(()),
            }
            if self.is_wanted(key, &there).await? {
                return Ok(());
            }
        }
        self.found.excess += 1;
        if self.mends {
            let clustering = there.clustering.clone();
            let in_table = self.in_table(key, &there).await?;
            let away = taken_away(
                self.rule(),
                there,
                in_table.as_ref(),
                self.shard.env.wall_seconds(),
            );
            self.write(key.clone(), away).await?;
            let left = row_of(self.shard, &view, key.clone(), clustering).await?;
            self.found.mended += u64::from(left.is_none());
        }
        Ok(())
    }

    /// Writes a row of the view to all its replicas.
    async fn write(&self, key: DecoratedKey, row: Row) -> Result<(), RequestError> {
        let mut update = PartitionUpdate::new(self.rule().view().clone(), key);
        update.rows.push(row);
        let mutation = Mutation {
            updates: vec![update],
        };
        let (level, kind) = (Consistency::All, WriteType::Simple);
        coordinator::write(self.shard, vec![mutation], (level, kind), None, None).await
    }
}

fn whole_ring() -> PartitionSelection {
    PartitionSelection::Range {
        start: PartitionBound::Unbounded,
        end: PartitionBound::Unbounded,
    }
}

/// A read of live rows.
fn command(
    shard: &Shard,
    table: &Arc<Table>,
    partitions: PartitionSelection,
    slices: Vec<Slice>,
) -> ReadCommand {
    ReadCommand {
        columns: table.regular_ids(),
        partitions,
        clustering: ClusteringSelection {
            slices,
            reversed: false,
        },
        filters: Vec::new(),
        limits: DataLimits {
            rows: ROWS,
            rows_per_partition: u32::MAX,
            bytes: BYTES,
        },
        now_seconds: shard.env.wall_seconds(),
        resume: None,
        bypass_cache: false,
        packed: false,
        table: table.clone(),
    }
}

/// Reads of all replicas.
async fn read(shard: &Rc<Shard>, command: &ReadCommand) -> Result<model::ReadPage, RequestError> {
    coordinator::read(shard, command, Consistency::All, None, None).await
}

/// A row, if it is there.
async fn row_of(
    shard: &Rc<Shard>,
    table: &Arc<Table>,
    key: DecoratedKey,
    clustering: Clustering,
) -> Result<Option<Row>, RequestError> {
    let slice = Slice::of_prefix(clustering);
    let command = command(shard, table, PartitionSelection::Key(key), vec![slice]);
    let mut page = read(shard, &command).await?;
    Ok(page.partitions.pop().and_then(|mut found| found.rows.pop()))
}

/// Does the view say of a row what it should? Where a row lives by its marker alone, that counts, too.
fn is_same(view: &Table, expected: &Row, there: &Row) -> bool {
    let live = |row: &Row| -> Vec<model::Cell> {
        let cells = row.cells.iter();
        cells.filter(|cell| !cell.is_tombstone()).cloned().collect()
    };
    let same_marker =
        !view.has_strict_liveness() || expected.liveness.timestamp == there.liveness.timestamp;
    same_marker && live(expected) == live(there)
}

/// Where a row of a view is in its table.
fn place_in_table(
    rule: &ViewRule,
    key: &DecoratedKey,
    row: &Row,
) -> Option<(DecoratedKey, Clustering)> {
    let (table, view) = (rule.base(), rule.view());
    let of_key = decode_key(key.key(), view.partition_key().len()).ok()?;
    let value = |column: &Column| -> Option<Bytes> {
        let column = view.column_named(&column.name)?;
        match column.kind {
            ColumnKind::PartitionKey => of_key.get(column.position).cloned(),
            _ => row.clustering.0.get(column.position).cloned(),
        }
    };
    let partition: Vec<Bytes> = table.partition_key().map(value).collect::<Option<_>>()?;
    let clustering = table.clustering_key().map(value).collect::<Option<_>>()?;
    let key = DecoratedKey::new(encode_key(&partition).ok()?);
    Some((key, Clustering(clustering)))
}

/// What takes a row of a view away, as of its own time. Of one that lives by its marker alone, cells that the table
/// has stay: they may be shown again, with a later marker.
fn taken_away(rule: &ViewRule, there: Row, in_table: Option<&Row>, now_seconds: u32) -> Row {
    let mut away = Row::new(there.clustering.clone());
    if !rule.view().has_strict_liveness() {
        let cells = there.cells.iter().map(|cell| cell.timestamp);
        let latest = cells.chain([there.liveness.timestamp]).max();
        away.deletion = model::DeletionTime {
            timestamp: latest.unwrap_or(NO_TIMESTAMP),
            local_deletion_time: now_seconds,
        };
        return away;
    }
    away.liveness = Liveness {
        timestamp: there.liveness.timestamp,
        ttl: EXPIRED_TTL,
        expires_at: now_seconds,
    };
    let known = in_table.map(|row| rule.values_of(row)).unwrap_or_default();
    let strangers = there.cells.into_iter().filter(|cell| !known.contains(cell));
    let deleted = strangers.map(|cell| Cell {
        ttl: NO_TTL,
        local_deletion_time: now_seconds,
        value: Bytes::new(),
        ..cell
    });
    away.cells = deleted.collect();
    away
}
