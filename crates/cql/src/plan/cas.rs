//! Conditional writes, with what they look at and what they write (`CQL3CasRequest`).
//!
//! Paxos asks a [`CasRequest`] for the read that its conditions need, has it look at the answer and,
//! if they hold, takes the update from it that it proposes; [`super::CasResult`] is what the client
//! is told. Of ballots nothing is known here but their time.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{
    Clustering, ClusteringSelection, ColumnId, DataLimits, DecoratedKey, Partition,
    PartitionSelection, PartitionUpdate, RangeTombstoneList, ReadCommand, Row, Slice, Table,
};

use crate::CqlError;
use crate::error::invalid;
use crate::term::Request;

use super::bound_condition::BoundCondition;
use super::condition::{ColumnCondition, Conditions};
use super::index_values::check_indexed;
use super::modify::ModifyPlan;
use super::restrictions::StatementKind;
use super::row_builder::{ListClock, WriteTime};

/// One execution of a conditional statement, or of a batch in which there is one.
#[derive(Debug)]
pub struct CasRequest<'a> {
    pub(crate) table: Arc<Table>,
    pub(crate) key: DecoratedKey,
    writes: Vec<CasWrite<'a>>,
    /// What the static row (`None`) and rows must fulfil, in the order of the table.
    conditions: Vec<(Option<Clustering>, RowCondition<'a>)>,
    /// The regular and static columns that are read, sorted.
    columns: Vec<ColumnId>,
    /// Which columns a client is shown if the conditions do not hold; `None`: all.
    pub(crate) shown: Option<Vec<ColumnId>>,
    /// That of the first statement.
    pub(crate) request: &'a Request<'a>,
}

/// A statement of the request, which writes if all conditions hold.
#[derive(Debug)]
struct CasWrite<'a> {
    plan: &'a ModifyPlan,
    request: &'a Request<'a>,
    /// Seconds; validated before anything is proposed.
    ttl: i32,
}

/// What a row must fulfil.
#[derive(Debug)]
enum RowCondition<'a> {
    NotExists,
    Exists,
    Columns(Vec<BoundCondition<'a>>),
}

/// Where a statement writes.
pub(crate) enum CasTarget {
    /// The static row.
    Static,
    /// A row.
    Row(Clustering),
    /// Ranges of rows, or the whole partition, are deleted.
    Ranges,
}

impl ModifyPlan {
    /// One execution of a conditional statement. Errors: bound values that are none, or can be
    /// compared with nothing, and places that are not one row.
    pub fn cas<'a>(&'a self, request: &'a Request<'a>) -> Result<CasRequest<'a>, CqlError> {
        if !self.is_conditional() {
            return invalid!("the statement has no conditions");
        }
        let (key, target) = self.cas_place(request, false)?;
        let mut cas = CasRequest::new(self, key, request);
        cas.shown = self.conditions.columns();
        cas.add(self, request, target)?;
        cas.finish()
    }

    /// The partition, and where in it.
    pub(crate) fn cas_place(
        &self,
        request: &Request<'_>,
        is_batch: bool,
    ) -> Result<(DecoratedKey, CasTarget), CqlError> {
        let Some(place) = &self.place else {
            return match &self.json {
                Some(json) => {
                    let (key, clustering) = json.place(&self.table, request)?;
                    Ok((key, CasTarget::Row(clustering)))
                }
                None => invalid!("the statement says nowhere to write to"),
            };
        };
        let kind = match self.kind {
            StatementKind::Update => "updates",
            _ => "deletions",
        };
        let mut keys = place.keys.keys(request)?;
        if place.keys.has_in() {
            if is_batch {
                return invalid!(
                    "Batch with conditions cannot span multiple partitions (you cannot use IN on \
                     the partition key)"
                );
            }
            return invalid!("IN on the partition key is not supported with conditional {kind}");
        }
        let Some(key) = keys.pop() else {
            return invalid!("the statement says no partition to write to");
        };
        if place.rows.has_in() {
            return invalid!(
                "IN on the clustering key columns is not supported with conditional {kind}"
            );
        }
        let target = if self.deletes_ranges() {
            CasTarget::Ranges
        } else if !place.writes_rows {
            CasTarget::Static
        } else {
            match place.rows.rows(&self.table, request)?.pop() {
                Some(clustering) => CasTarget::Row(self.whole_clustering(clustering)),
                None => return invalid!("the statement says no row to write to"),
            }
        };
        Ok((key, target))
    }
}

/// The columns that the conditions need, and those that tell a row of nulls from none: all regular
/// ones where a row is written, all static ones where a static row is written on conditions
/// (`CQL3CasRequest.columnsToRead`).
fn columns_to_read<'a>(plans: impl IntoIterator<Item = &'a ModifyPlan>) -> Vec<ColumnId> {
    let mut columns = BTreeSet::new();
    for plan in plans {
        if plan.writes_rows() {
            columns.extend(plan.table.regulars().map(|column| column.id));
        }
        if !plan.is_conditional() {
            continue;
        }
        if plan.writes_statics() {
            columns.extend(plan.table.statics().map(|column| column.id));
        }
        columns.extend(plan.conditions.columns().unwrap_or_default());
        columns.extend(plan.columns_it_needs());
    }
    columns.into_iter().collect()
}

impl<'a> CasRequest<'a> {
    pub(crate) fn new(
        first: &ModifyPlan,
        key: DecoratedKey,
        request: &'a Request<'a>,
    ) -> CasRequest<'a> {
        CasRequest {
            table: first.table.clone(),
            key,
            writes: Vec::new(),
            conditions: Vec::new(),
            columns: Vec::new(),
            shown: None,
            request,
        }
    }

    /// Adds a statement with its conditions.
    pub(crate) fn add(
        &mut self,
        plan: &'a ModifyPlan,
        request: &'a Request<'a>,
        target: CasTarget,
    ) -> Result<(), CqlError> {
        let clustering = match target {
            CasTarget::Row(clustering) => Some(clustering),
            CasTarget::Static | CasTarget::Ranges => None,
        };
        let bind = |conditions: &'a [ColumnCondition]| {
            let bound = conditions.iter().map(|condition| condition.bind(request));
            bound
                .collect::<Result<_, CqlError>>()
                .map(RowCondition::Columns)
        };
        match &plan.conditions {
            Conditions::None => {}
            Conditions::NotExists => self.conditions.push((clustering, RowCondition::NotExists)),
            Conditions::Exists => self.conditions.push((clustering, RowCondition::Exists)),
            Conditions::Columns { regular, statics } => {
                if !regular.is_empty() {
                    self.conditions.push((clustering, bind(regular)?));
                }
                if !statics.is_empty() {
                    self.conditions.push((None, bind(statics)?));
                }
            }
        }
        self.writes.push(CasWrite {
            plan,
            request,
            ttl: plan.attributes.ttl(&self.table, request)?,
        });
        Ok(())
    }

    /// After the last statement: what is asked of one row comes together.
    pub(crate) fn finish(mut self) -> Result<CasRequest<'a>, CqlError> {
        if self.conditions.is_empty() {
            return invalid!("there are no conditions");
        }
        self.columns = columns_to_read(self.writes.iter().map(|write| write.plan));
        let mut all = std::mem::take(&mut self.conditions);
        let compare = |a: &Option<Clustering>, b: &Option<Clustering>| match (a, b) {
            (Some(a), Some(b)) => self.table.comparator().compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        all.sort_by(|(a, _), (b, _)| compare(a, b));
        for (row, condition) in all {
            match self.conditions.last_mut() {
                Some((known, conditions)) if compare(known, &row).is_eq() => {
                    conditions.join(condition)?;
                }
                _ => self.conditions.push((row, condition)),
            }
        }
        Ok(self)
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The partition that Paxos has to agree on.
    pub fn key(&self) -> &DecoratedKey {
        &self.key
    }

    /// What has to be read before it is known whether the conditions hold.
    pub fn read_command(&self) -> ReadCommand {
        let rows = self.conditions.iter().filter_map(|(row, _)| row.clone());
        let slices: Vec<Slice> = rows.map(Slice::of_prefix).collect();
        // With a condition on the static row alone, a row tells a partition without static values
        // from one that is not there.
        let (slices, rows) = if slices.is_empty() {
            (vec![Slice::ALL], 1)
        } else {
            (slices, u32::MAX)
        };
        ReadCommand {
            table: self.table.clone(),
            partitions: PartitionSelection::Key(self.key.clone()),
            clustering: ClusteringSelection {
                slices,
                reversed: false,
            },
            columns: self.columns.clone(),
            filters: Vec::new(),
            limits: DataLimits {
                rows,
                rows_per_partition: u32::MAX,
                bytes: u32::MAX,
            },
            now_seconds: self.request.now_seconds,
            resume: None,
            bypass_cache: false,
            packed: false,
        }
    }

    /// Do all conditions hold? `current`: the partition that [`CasRequest::read_command`] found.
    /// Errors: an index of a list that is none, and what is held and cannot be read.
    pub fn applies_to(&self, current: Option<&Partition>) -> Result<bool, CqlError> {
        let now = self.request.now_seconds;
        for (clustering, condition) in &self.conditions {
            let row = match clustering {
                Some(clustering) => row_of(&self.table, current, clustering),
                None => current.and_then(|partition| partition.static_row.as_ref()),
            };
            if !condition.holds(row.filter(|row| row.is_live(now)), now)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is written if the conditions hold (`CQL3CasRequest.makeUpdates`); it may say nothing.
    ///
    /// `current`: as for [`CasRequest::applies_to`]. `timestamp_micros`: the time of the ballot that
    /// it is proposed with, in microseconds since 1970. All is written at this time, but deletions
    /// at the one before, so that of a batch that deletes and writes the same what is written stays.
    /// Elements that are appended to lists have their places from it. Errors: values that are none.
    pub fn update(
        &self,
        current: Option<&Partition>,
        timestamp_micros: i64,
    ) -> Result<PartitionUpdate, CqlError> {
        let mut updates = Vec::with_capacity(self.writes.len());
        for (turn, write) in self.writes.iter().enumerate() {
            let time = WriteTime {
                timestamp: timestamp_micros,
                ttl: write.ttl,
                now_seconds: write.request.now_seconds,
                lists: ListClock::Ballot {
                    timestamp_micros,
                    first: (turn as u64) << 32,
                },
            };
            let plan = write.plan;
            updates.extend(plan.update_at(&self.key, write.request, time, current)?);
        }
        check_indexed(&self.table, &updates)?;
        let mut all = PartitionUpdate::new(self.table.clone(), self.key.clone());
        put_together(&mut all, updates);
        all.retime(timestamp_micros);
        Ok(all)
    }
}

/// Rows that several statements write are merged; what they delete of the partition and of ranges
/// of it is kept apart, for it will be older than any row.
fn put_together(all: &mut PartitionUpdate, updates: Vec<PartitionUpdate>) {
    let table = all.table.clone();
    let comparator = table.comparator();
    let (mut rows, mut ranges) = (Vec::new(), Vec::new());
    for update in updates {
        all.deletion = all.deletion.merge(update.deletion);
        if let Some(row) = update.static_row {
            all.static_row_mut().merge(row, &table);
        }
        rows.extend(update.rows);
        ranges.extend(update.range_tombstones);
    }
    // Those of one row stay in the order of their statements.
    rows.sort_by(|a, b| comparator.compare(&a.clustering, &b.clustering));
    for row in rows {
        match all.rows.last_mut() {
            Some(known)
                if comparator
                    .compare(&known.clustering, &row.clustering)
                    .is_eq() =>
            {
                known.merge(row, &table);
            }
            _ => all.rows.push(row),
        }
    }
    ranges.sort_by(|a, b| comparator.compare_bounds(&a.slice.start, &b.slice.start));
    let mut list = RangeTombstoneList::new();
    for tombstone in ranges {
        list.add(comparator, tombstone);
    }
    all.range_tombstones = list.into();
}

impl RowCondition<'_> {
    /// Takes in what a later statement asks of the row (`addExistsCondition`, `addConditions`).
    fn join(&mut self, later: Self) -> Result<(), CqlError> {
        match (self, later) {
            (RowCondition::Exists, RowCondition::Exists)
            | (RowCondition::NotExists, RowCondition::NotExists) => Ok(()),
            (RowCondition::Columns(known), RowCondition::Columns(mut later)) => {
                known.append(&mut later);
                Ok(())
            }
            (RowCondition::Columns(_), RowCondition::Exists) => {
                invalid!("Cannot mix IF conditions and IF EXISTS for the same row")
            }
            // Cassandra says so too where it was IF EXISTS before.
            (RowCondition::Columns(_), RowCondition::NotExists) | (_, RowCondition::Columns(_)) => {
                invalid!("Cannot mix IF conditions and IF NOT EXISTS for the same row")
            }
            _ => invalid!("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"),
        }
    }

    fn holds(&self, row: Option<&Row>, now_seconds: u32) -> Result<bool, CqlError> {
        match self {
            RowCondition::NotExists => Ok(row.is_none()),
            RowCondition::Exists => Ok(row.is_some()),
            RowCondition::Columns(conditions) => {
                for condition in conditions {
                    if !condition.holds(row, now_seconds)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

fn row_of<'p>(
    table: &Table,
    current: Option<&'p Partition>,
    clustering: &Clustering,
) -> Option<&'p Row> {
    let comparator = table.comparator();
    let rows = &current?.rows;
    let found = rows.binary_search_by(|row| comparator.compare(&row.clustering, clustering));
    found.ok().map(|i| &rows[i])
}
