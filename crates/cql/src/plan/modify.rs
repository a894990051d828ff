//! INSERT, UPDATE and DELETE, analysed (`ModificationStatement` and its kinds).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use model::{
    Clustering, ClusteringSelection, Column, ColumnId, ColumnKind, CompactForm, DataLimits,
    DecoratedKey, Mutation, PartitionSelection, PartitionUpdate, RangeTombstone, ReadCommand,
    ReadPage, Row, Slice, Table,
};

use crate::CqlError;
use crate::ast::{
    Assignment, Conditions, Delete, Deletion, Insert, InsertJson, Modification, Relation, Update,
};
use crate::error::invalid;
use crate::schema::is_counter_table;
use crate::term::{Analysis, Bound, Expression, Receiver, Request, prepare};

use super::attributes::Attributes;
use super::json::JsonInsert;
use super::keys::KeyPlan;
use super::operation::ColumnAction;
use super::restriction::column_of;
use super::restrictions::{Restrictions, StatementKind};
use super::row_builder::{RowBuilder, WriteTime};
use super::slices::SlicePlan;

/// The longest sum of the values of all clustering columns of a row.
const MAX_CLUSTERING_BYTES: usize = 65_535;

/// A statement that writes one table, ready to be executed with values.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    table: Arc<Table>,
    kind: StatementKind,
    /// Which rows; `None` for INSERT JSON, whose text brings the key.
    place: Option<Place>,
    /// Of static columns, sorted by column.
    static_actions: Vec<ColumnAction>,
    /// Of regular columns, sorted by column.
    row_actions: Vec<ColumnAction>,
    json: Option<JsonInsert>,
    attributes: Attributes,
}

/// Which rows are written.
#[derive(Clone, Debug)]
struct Place {
    keys: KeyPlan,
    rows: SlicePlan,
    /// Are there clustering columns that the statement restricts, or none in the table?
    writes_rows: bool,
}

impl ModifyPlan {
    /// Analyses a statement on its table.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        statement: &Modification,
    ) -> Result<ModifyPlan, CqlError> {
        if table.is_virtual {
            return invalid!(
                "Modification is not supported by table {}.{}",
                table.keyspace,
                table.name
            );
        }
        match statement {
            Modification::Insert(insert) => ModifyPlan::insert(analysis, table, insert),
            Modification::InsertJson(insert) => ModifyPlan::insert_json(analysis, table, insert),
            Modification::Update(update) => ModifyPlan::update(analysis, table, update),
            Modification::Delete(delete) => ModifyPlan::delete(analysis, table, delete),
        }
    }

    fn insert(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        insert: &Insert,
    ) -> Result<ModifyPlan, CqlError> {
        if is_counter_table(&table) {
            return invalid!(
                "INSERT statements are not allowed on counter tables, use UPDATE instead"
            );
        }
        if insert.columns.len() != insert.values.len() {
            return invalid!("Unmatched column names/values");
        }
        let names: BTreeSet<&String> = insert.columns.iter().collect();
        if names.len() < insert.columns.len() {
            return invalid!("The column names contains duplicates");
        }
        let mut keys: Vec<(ColumnId, Expression)> = Vec::new();
        let mut actions = Vec::new();
        let mut has_clustering = false;
        for (name, term) in insert.columns.iter().zip(&insert.values) {
            let column = column_of(&table, name)?;
            has_clustering |= column.kind == ColumnKind::Clustering;
            if matches!(
                column.kind,
                ColumnKind::PartitionKey | ColumnKind::Clustering
            ) {
                keys.push((column.id, prepare(analysis, term, &Receiver::of(column))?));
            } else {
                actions.push(ColumnAction::set(analysis, column, term)?);
            }
        }
        refuse_conditions(insert.if_not_exists)?;
        let attributes = Attributes::new(analysis, &insert.attributes)?;
        let only_static = !has_clustering && only_static(&actions);
        let restrictions = Restrictions::of_values(&table, keys, only_static)?;
        let place = Place::new(&table, restrictions);
        Ok(ModifyPlan::of(
            table,
            StatementKind::Insert,
            Some(place),
            actions,
            attributes,
        ))
    }

    fn insert_json(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        insert: &InsertJson,
    ) -> Result<ModifyPlan, CqlError> {
        if is_counter_table(&table) {
            return invalid!(
                "INSERT statements are not allowed on counter tables, use UPDATE instead"
            );
        }
        let json = JsonInsert::new(analysis, &table, insert)?;
        refuse_conditions(insert.if_not_exists)?;
        let attributes = Attributes::new(analysis, &insert.attributes)?;
        let mut plan = ModifyPlan::of(table, StatementKind::Insert, None, Vec::new(), attributes);
        plan.json = Some(json);
        Ok(plan)
    }

    fn update(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        update: &Update,
    ) -> Result<ModifyPlan, CqlError> {
        let attributes = Attributes::new(analysis, &update.attributes)?;
        let actions: Result<Vec<ColumnAction>, CqlError> = update
            .assignments
            .iter()
            .map(|Assignment { column, operation }| {
                ColumnAction::update(analysis, &table, column, operation)
            })
            .collect();
        let actions = actions?;
        let place = Place::of_relations(
            analysis,
            &table,
            &update.relations,
            StatementKind::Update,
            only_static(&actions),
        )?;
        check_conditions(analysis, &table, &update.conditions)?;
        Ok(ModifyPlan::of(
            table,
            StatementKind::Update,
            Some(place),
            actions,
            attributes,
        ))
    }

    fn delete(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        delete: &Delete,
    ) -> Result<ModifyPlan, CqlError> {
        let actions: Result<Vec<ColumnAction>, CqlError> = delete
            .deletions
            .iter()
            .map(|deletion: &Deletion| ColumnAction::delete(analysis, &table, deletion))
            .collect();
        let actions = actions?;
        let attributes = Attributes::new(analysis, &delete.attributes)?;
        let place = Place::of_relations(
            analysis,
            &table,
            &delete.relations,
            StatementKind::Delete,
            only_static(&actions),
        )?;
        let regular = actions
            .iter()
            .any(|action| action.column.kind == ColumnKind::Regular);
        if regular && !place.rows.selects_rows() {
            return invalid!("Range deletions are not supported for specific columns");
        }
        check_conditions(analysis, &table, &delete.conditions)?;
        Ok(ModifyPlan::of(
            table,
            StatementKind::Delete,
            Some(place),
            actions,
            attributes,
        ))
    }

    fn of(
        table: Arc<Table>,
        kind: StatementKind,
        place: Option<Place>,
        actions: Vec<ColumnAction>,
        attributes: Attributes,
    ) -> ModifyPlan {
        let (mut static_actions, mut row_actions): (Vec<ColumnAction>, Vec<ColumnAction>) = actions
            .into_iter()
            .partition(|action| action.column.kind == ColumnKind::Static);
        static_actions.sort_by_key(|action| action.column.id);
        row_actions.sort_by_key(|action| action.column.id);
        ModifyPlan {
            table,
            kind,
            place,
            static_actions,
            row_actions,
            json: None,
            attributes,
        }
    }

    /// The table that is written.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Does the statement itself say when it happens?
    pub fn has_timestamp(&self) -> bool {
        self.attributes.has_timestamp()
    }

    /// The reads whose answers [`ModifyPlan::mutations`] needs, in this order: only for lists whose
    /// elements are written by index or deleted by value.
    pub fn reads(&self, request: &Request<'_>) -> Result<Vec<ReadCommand>, CqlError> {
        let Some(place) = self.place.as_ref().filter(|_| self.needs_read()) else {
            return Ok(Vec::new());
        };
        let actions = self.static_actions.iter().chain(&self.row_actions);
        let mut columns: Vec<ColumnId> = actions
            .filter(|action| action.needs_read())
            .map(|action| action.column.id)
            .collect();
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
        };
        Ok(place.keys.keys(request)?.into_iter().map(command).collect())
    }

    fn needs_read(&self) -> bool {
        self.static_actions
            .iter()
            .chain(&self.row_actions)
            .any(ColumnAction::needs_read)
    }

    /// What this execution writes. `known`: the answers to [`ModifyPlan::reads`].
    pub fn mutations(
        &self,
        request: &Request<'_>,
        known: &[ReadPage],
    ) -> Result<Vec<Mutation>, CqlError> {
        let updates = self.updates(request, request.timestamp_micros, known)?;
        Ok(updates
            .into_iter()
            .map(|update| Mutation {
                updates: vec![update],
            })
            .collect())
    }

    /// As [`ModifyPlan::mutations`], with another timestamp for what says none: of a batch.
    pub(crate) fn updates(
        &self,
        request: &Request<'_>,
        default_timestamp: i64,
        known: &[ReadPage],
    ) -> Result<Vec<PartitionUpdate>, CqlError> {
        let time = WriteTime {
            timestamp: self.attributes.timestamp(default_timestamp, request)?,
            ttl: self.attributes.ttl(&self.table, request)?,
            now_seconds: request.now_seconds,
        };
        let Some(place) = &self.place else {
            return match &self.json {
                Some(json) => json.updates(&self.table, request, time),
                None => Ok(Vec::new()),
            };
        };
        let keys = place.keys.keys(request)?;
        let mut updates = Vec::with_capacity(keys.len());
        for (i, key) in keys.into_iter().enumerate() {
            let known = known.get(i);
            if let Some(update) = self.update_of(place, key, request, time, known)? {
                updates.push(update);
            }
        }
        Ok(updates)
    }

    /// What is written to one partition.
    fn update_of(
        &self,
        place: &Place,
        key: DecoratedKey,
        request: &Request<'_>,
        time: WriteTime,
        known: Option<&ReadPage>,
    ) -> Result<Option<PartitionUpdate>, CqlError> {
        let known = known.and_then(|page| page.partitions.first());
        let mut update = PartitionUpdate::new(self.table.clone(), key);
        let whole = self.static_actions.is_empty() && self.row_actions.is_empty();
        if self.kind == StatementKind::Delete && whole {
            return self.delete_rows(place, update, request, time);
        }
        if place.writes_rows && !self.is_only_static() {
            for mut clustering in place.rows.rows(&self.table, request)? {
                check_clustering(&self.table, &clustering)?;
                // What a row of a dense table does not give of it is null, which is kept as empty.
                let full = self.table.clustering_key().len();
                clustering.0.resize(full, Bytes::new());
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
            let mut row = self.static_row(request, time, before, 0)?;
            // As often as there are rows: what is added to a list is added for each of them
            // (`ModificationStatement.addUpdates`).
            for again in 1..update.rows.len() {
                row.merge(self.static_row(request, time, before, again)?, &self.table);
            }
            update.static_row = (!row.is_empty()).then_some(row);
        }
        update.rows.retain(|row| !row.is_empty());
        Ok((!update.is_empty()).then_some(update))
    }

    fn static_row(
        &self,
        request: &Request<'_>,
        time: WriteTime,
        before: Option<&Row>,
        again: usize,
    ) -> Result<Row, CqlError> {
        let mut row =
            RowBuilder::new(&self.table, request, time, before, Clustering::EMPTY).again(again);
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
            for slice in place.rows.slices(&self.table, request)? {
                update.add_range_tombstone(RangeTombstone {
                    slice,
                    deletion: time.deletion(),
                });
            }
        }
        Ok((!update.is_empty()).then_some(update))
    }
}

impl Place {
    fn new(table: &Table, mut restrictions: Restrictions) -> Place {
        let restricted = restrictions.restricts_clustering;
        Place {
            keys: KeyPlan::new(table, &mut restrictions),
            rows: SlicePlan::new(table, restrictions.slices),
            writes_rows: restricted || table.clustering_key().len() == 0,
        }
    }

    fn of_relations(
        analysis: &Analysis<'_>,
        table: &Table,
        relations: &[Relation],
        kind: StatementKind,
        only_static: bool,
    ) -> Result<Place, CqlError> {
        let restrictions = Restrictions::new(analysis, table, relations, kind, only_static)?;
        if only_static && restrictions.restricts_clustering {
            let kind = if kind == StatementKind::Update {
                "UPDATE"
            } else {
                "DELETE"
            };
            return invalid!(
                "Invalid restrictions on clustering columns since the {kind} statement modifies \
                 only static columns"
            );
        }
        Ok(Place::new(table, restrictions))
    }
}

/// Does a statement with these actions write static columns only?
fn only_static(actions: &[ColumnAction]) -> bool {
    !actions.is_empty()
        && actions
            .iter()
            .all(|action| action.column.kind == ColumnKind::Static)
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
        return invalid!(
            "The sum of all clustering columns is too long ({bytes} > {MAX_CLUSTERING_BYTES})"
        );
    }
    Ok(())
}

/// Where conditional writes are refused, until there is Paxos.
fn refuse_conditions(conditional: bool) -> Result<(), CqlError> {
    if conditional {
        return invalid!("Conditional updates (IF) are not supported yet");
    }
    Ok(())
}

/// Checks the columns that conditions name, then refuses.
fn check_conditions(
    analysis: &Analysis<'_>,
    table: &Table,
    conditions: &Conditions,
) -> Result<(), CqlError> {
    if let Conditions::All(all) = conditions {
        for condition in all {
            let column: &Column = column_of(table, &condition.column)?;
            if matches!(
                column.kind,
                ColumnKind::PartitionKey | ColumnKind::Clustering
            ) {
                return invalid!(
                    "PRIMARY KEY column '{}' cannot have IF conditions",
                    column.name
                );
            }
        }
    }
    let _ = analysis;
    refuse_conditions(*conditions != Conditions::None)
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
