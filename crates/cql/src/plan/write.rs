//! What one execution of a statement writes (`ModificationStatement.getMutations`, `addUpdateForKey`
//! of its kinds).

use std::sync::Arc;

use bytes::Bytes;
use model::{
    Clustering, ClusteringSelection, Column, ColumnId, ColumnKind, CompactForm, CounterMutation,
    DataLimits, DecoratedKey, Mutation, Partition, PartitionSelection, PartitionUpdate,
    RangeTombstone, ReadCommand, ReadPage, Row, Slice, Table,
};

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Bound, Request};

use super::index_values::check_indexed;
use super::modify::{ModifyPlan, Place};
use super::restrictions::StatementKind;
use super::row_builder::{ListClock, RowBuilder, WriteTime};
use super::virtual_tables;

/// The longest sum of the values of all clustering columns of a row.
const MAX_CLUSTERING_BYTES: usize = 65_535;

impl ModifyPlan {
    /// The reads whose answers [`ModifyPlan::mutations`] needs, in this order: only for lists whose
    /// elements are written by index or deleted by value.
    pub fn reads(&self, request: &Request<'_>) -> Result<Vec<ReadCommand>, CqlError> {
        let Some(place) = self.place.as_ref().filter(|_| self.needs_read()) else {
            return Ok(Vec::new());
        };
        let mut columns: Vec<ColumnId> = self.columns_it_needs().collect();
        columns.sort_unstable();
        columns.dedup();
        let slices: Vec<Slice> = if place.writes_rows {
            let rows = place.rows.rows(&self.table, request)?;
            rows.into_iter().map(Slice::of_prefix).collect()
        } else {
            Vec::new()
        };
        let command = |key: DecoratedKey| ReadCommand {
            table: self.table.clone(),
            partitions: PartitionSelection::Key(key),
            clustering: ClusteringSelection {
                slices: slices.clone(),
                reversed: false,
            },
            columns: columns.clone(),
            filters: Vec::new(),
            limits: DataLimits {
                rows: u32::MAX,
                rows_per_partition: u32::MAX,
                bytes: u32::MAX,
            },
            now_seconds: request.now_seconds,
            resume: None,
            bypass_cache: false,
            packed: false,
        };
        Ok(place.keys.keys(request)?.into_iter().map(command).collect())
    }

    /// The partitions that this execution writes to (`ModificationStatement.buildPartitionKeyNames`).
    pub fn written_keys(&self, request: &Request<'_>) -> Result<Vec<DecoratedKey>, CqlError> {
        match &self.place {
            Some(place) => place.keys.keys(request),
            None => {
                let updates = self.updates(request, request.timestamp_micros, &[])?;
                Ok(updates.into_iter().map(|update| update.key).collect())
            }
        }
    }

    fn needs_read(&self) -> bool {
        self.columns_it_needs().next().is_some()
    }

    /// The columns whose values say what is written to them.
    pub(crate) fn columns_it_needs(&self) -> impl Iterator<Item = ColumnId> {
        let actions = self.static_actions.iter().chain(&self.row_actions);
        let needed = actions.filter(|action| action.needs_read());
        needed.map(|action| action.column.id)
    }

    /// Does it write rows, be they named or all of a range?
    pub(crate) fn writes_rows(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.writes_rows)
    }

    /// Does it write static columns?
    pub(crate) fn writes_statics(&self) -> bool {
        !self.static_actions.is_empty() || (self.json.is_some() && self.table.statics().len() > 0)
    }

    /// Does it delete ranges of rows, or a whole partition?
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.deletes_rows() && self.place.as_ref().is_some_and(|p| !p.rows.selects_rows())
    }

    fn deletes_rows(&self) -> bool {
        let whole = self.static_actions.is_empty() && self.row_actions.is_empty();
        self.kind == StatementKind::Delete && whole
    }

    /// What this execution writes. `known`: the answers to [`ModifyPlan::reads`].
    ///
    /// Errors: besides what values can be wrong about, that the statement does not write rows just
    /// so: see [`ModifyPlan::is_counter`] and [`ModifyPlan::is_conditional`].
    pub fn mutations(
        &self,
        request: &Request<'_>,
        known: &[ReadPage],
    ) -> Result<Vec<Mutation>, CqlError> {
        check_plain(self.is_counter(), self.is_conditional())?;
        let updates = self.updates(request, request.timestamp_micros, known)?;
        Ok(updates.into_iter().map(mutation_of).collect())
    }

    /// What this execution writes to a table of counters: to be led, not applied.
    pub fn counter_mutations(
        &self,
        request: &Request<'_>,
    ) -> Result<Vec<CounterMutation>, CqlError> {
        let updates = self.updates(request, request.timestamp_micros, &[])?;
        let mutations = updates.into_iter().map(mutation_of);
        Ok(mutations.map(CounterMutation::new).collect())
    }

    /// As [`ModifyPlan::mutations`], with another timestamp for what says none: of a batch.
    pub(crate) fn updates(
        &self,
        request: &Request<'_>,
        default_timestamp: i64,
        known: &[ReadPage],
    ) -> Result<Vec<PartitionUpdate>, CqlError> {
        let updates = self.unchecked_updates(request, default_timestamp, known)?;
        if self.table.is_virtual {
            virtual_tables::check_write(&self.table, self.kind)?;
            return Ok(Vec::new());
        }
        check_indexed(&self.table, &updates)?;
        Ok(updates)
    }

    fn unchecked_updates(
        &self,
        request: &Request<'_>,
        default_timestamp: i64,
        known: &[ReadPage],
    ) -> Result<Vec<PartitionUpdate>, CqlError> {
        let time = WriteTime {
            timestamp: self.attributes.timestamp(default_timestamp, request)?,
            ttl: self.attributes.ttl(&self.table, request)?,
            now_seconds: request.now_seconds,
            lists: ListClock::Request,
        };
        let Some(place) = &self.place else {
            return match &self.json {
                Some(json) => json.updates(&self.table, request, time),
                None => Ok(Vec::new()),
            };
        };
        let keys = place.keys.keys(request)?;
        if keys.is_empty() && place.rows.selects_rows() {
            // What cannot be a clustering is refused, whether it is written or not.
            place.rows.rows(&self.table, request)?;
        }
        let mut updates = Vec::with_capacity(keys.len());
        for (i, key) in keys.into_iter().enumerate() {
            let known = known.get(i).and_then(|page| page.partitions.first());
            if let Some(update) = self.update_of(place, key, request, time, known)? {
                updates.push(update);
            }
        }
        Ok(updates)
    }

    /// What is written to the one partition of a conditional write, which holds `known`.
    pub(crate) fn update_at(
        &self,
        key: &DecoratedKey,
        request: &Request<'_>,
        time: WriteTime,
        known: Option<&Partition>,
    ) -> Result<Option<PartitionUpdate>, CqlError> {
        match (&self.place, &self.json) {
            (Some(place), _) => self.update_of(place, key.clone(), request, time, known),
            (None, Some(json)) => Ok(json.updates(&self.table, request, time)?.pop()),
            (None, None) => Ok(None),
        }
    }

    /// What is written to one partition.
    fn update_of(
        &self,
        place: &Place,
        key: DecoratedKey,
        request: &Request<'_>,
        time: WriteTime,
        known: Option<&Partition>,
    ) -> Result<Option<PartitionUpdate>, CqlError> {
        let mut update = PartitionUpdate::new(self.table.clone(), key);
        if self.deletes_rows() {
            return self.delete_rows(place, update, request, time);
        }
        if self.kind == StatementKind::Delete
            && !self.row_actions.is_empty()
            && !place.rows.selects_rows()
        {
            return self.refuse_ranges(place, request);
        }
        if place.writes_rows && !self.is_only_static() {
            for clustering in place.rows.rows(&self.table, request)? {
                check_clustering(&self.table, &clustering)?;
                let clustering = self.whole_clustering(clustering);
                let before = known.and_then(|partition| {
                    partition
                        .rows
                        .iter()
                        .find(|row| row.clustering == clustering)
                });
                let row = self.row(clustering, request, time, before)?;
                update.rows.push(row);
            }
            if update.rows.is_empty() {
                return Ok(None);
            }
        }
        if !self.static_actions.is_empty() {
            let before = known.and_then(|partition| partition.static_row.as_ref());
            let mut row = self.static_row(request, time, before)?;
            // As often as there are rows: what is added to a list is added for each of them
            // (`ModificationStatement.addUpdates`).
            for _ in 1..update.rows.len() {
                row.merge(self.static_row(request, time, before)?, &self.table);
            }
            update.static_row = (!row.is_empty()).then_some(row);
        }
        update.rows.retain(|row| !row.is_empty());
        Ok((!update.is_empty()).then_some(update))
    }

    /// What a row of a dense table does not give of its clustering is null, which is kept as empty.
    pub(crate) fn whole_clustering(&self, mut clustering: Clustering) -> Clustering {
        let full = self.table.clustering_key().len();
        clustering.0.resize(full, Bytes::new());
        clustering
    }

    fn static_row(
        &self,
        request: &Request<'_>,
        time: WriteTime,
        before: Option<&Row>,
    ) -> Result<Row, CqlError> {
        let mut row = RowBuilder::new(&self.table, request, time, before, Clustering::EMPTY);
        for action in &self.static_actions {
            row.apply(action)?;
        }
        Ok(row.finish())
    }

    /// Does it write static columns, and no row?
    fn is_only_static(&self) -> bool {
        self.kind != StatementKind::Insert
            && self.row_actions.is_empty()
            && !self.static_actions.is_empty()
    }

    fn row(
        &self,
        clustering: Clustering,
        request: &Request<'_>,
        time: WriteTime,
        before: Option<&Row>,
    ) -> Result<Row, CqlError> {
        let mut row = RowBuilder::new(&self.table, request, time, before, clustering)
            .with_capacity(self.row_actions.len());
        if self.table.compact.is_some() && self.row_actions.is_empty() {
            let value = hidden_value(&self.table)?;
            row.set_value(value, Bound::Value(Bytes::new()))?;
        }
        if self.kind == StatementKind::Insert {
            row = row.with_marker();
        }
        for action in &self.row_actions {
            row.apply(action)?;
        }
        Ok(row.finish())
    }

    /// DELETE of a partition, of rows, or of ranges of rows.
    fn delete_rows(
        &self,
        place: &Place,
        mut update: PartitionUpdate,
        request: &Request<'_>,
        time: WriteTime,
    ) -> Result<Option<PartitionUpdate>, CqlError> {
        if place.rows.is_all() {
            update.deletion = time.deletion();
            return Ok(Some(update));
        }
        if place.rows.selects_rows() {
            for clustering in place.rows.rows(&self.table, request)? {
                check_clustering(&self.table, &clustering)?;
                let row = RowBuilder::new(&self.table, request, time, None, clustering);
                update.rows.push(row.deleted().finish());
            }
        } else {
            place.rows.refuse_null(request)?;
            for slice in place.rows.slices(&self.table, request)? {
                update.add_range_tombstone(RangeTombstone {
                    slice,
                    deletion: time.deletion(),
                });
            }
        }
        Ok((!update.is_empty()).then_some(update))
    }

    /// Columns are deleted of rows that are named: of ranges only where there are none, which is known no sooner than
    /// now (`DeleteStatement.addUpdateForKey`).
    fn refuse_ranges(
        &self,
        place: &Place,
        request: &Request<'_>,
    ) -> Result<Option<PartitionUpdate>, CqlError> {
        if !place.rows.is_all() {
            place.rows.refuse_null(request)?;
            if place.rows.slices(&self.table, request)?.is_empty() {
                return Ok(None);
            }
        }
        invalid!("Range deletions are not supported for specific columns")
    }
}

fn mutation_of(update: PartitionUpdate) -> Mutation {
    Mutation {
        updates: vec![update],
    }
}

/// Increments that were applied as they are would be counted again with every repetition, and
/// conditional writes would not ask.
pub(crate) fn check_plain(is_counter: bool, is_conditional: bool) -> Result<(), CqlError> {
    if is_counter {
        return invalid!("Writes to counters have to be led by one of their replicas");
    }
    if is_conditional {
        return invalid!("Conditional writes have to be agreed upon");
    }
    Ok(())
}

/// The values of the clustering columns of a row that is written.
pub(crate) fn check_clustering(table: &Table, clustering: &Clustering) -> Result<(), CqlError> {
    if table.compact == Some(CompactForm::Dense)
        && let ([value], Some(column)) = (&*clustering.0, table.clustering_key().next())
        && table.clustering_key().len() == 1
        && value.is_empty()
    {
        return invalid!("Invalid empty or null value for column {}", column.name);
    }
    let bytes: usize = clustering.0.iter().map(Bytes::len).sum();
    if bytes > MAX_CLUSTERING_BYTES {
        return invalid!("Key length of {bytes} is longer than maximum of {MAX_CLUSTERING_BYTES}");
    }
    Ok(())
}

/// A row of a compact table exists by its value only: one that clients give, or the hidden one of
/// tables that have been declared without.
fn hidden_value(table: &Table) -> Result<&Column, CqlError> {
    match table.regulars().next() {
        Some(value) if table.hides(value) => Ok(value),
        value => {
            let name = value.map_or("", |column| &*column.name);
            invalid!("Column {name} is mandatory for this COMPACT STORAGE table")
        }
    }
}

/// The columns of a row that INSERT JSON writes.
pub(crate) struct JsonRow {
    pub(crate) key: DecoratedKey,
    pub(crate) clustering: Option<Clustering>,
    pub(crate) values: Vec<(Column, Bound)>,
}

/// The update of one row whose values are known.
pub(crate) fn update_of_values(
    table: &Arc<Table>,
    request: &Request<'_>,
    time: WriteTime,
    row: JsonRow,
) -> Result<PartitionUpdate, CqlError> {
    let mut update = PartitionUpdate::new(table.clone(), row.key);
    let (statics, regulars): (Vec<_>, Vec<_>) = row
        .values
        .into_iter()
        .partition(|(column, _)| column.kind == ColumnKind::Static);
    if let Some(clustering) = row.clustering {
        check_clustering(table, &clustering)?;
        let mut builder = RowBuilder::new(table, request, time, None, clustering).with_marker();
        for (column, value) in regulars {
            builder.set_value(&column, value)?;
        }
        update.rows.push(builder.finish());
    }
    let mut builder = RowBuilder::new(table, request, time, None, Clustering::EMPTY);
    for (column, value) in statics {
        builder.set_value(&column, value)?;
    }
    let row = builder.finish();
    update.static_row = (!row.is_empty()).then_some(row);
    Ok(update)
}
