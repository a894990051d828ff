//! INSERT, UPDATE and DELETE, analysed (`ModificationStatement` and its kinds).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, Table};

use crate::CqlError;
use crate::ast::{
    Assignment, Conditions, Delete, Deletion, Insert, InsertJson, Modification, Relation, Update,
};
use crate::error::invalid;
use crate::schema::is_counter_table;
use crate::term::{Analysis, Expression, Receiver, prepare};

use super::attributes::Attributes;
use super::json::JsonInsert;
use super::keys::KeyPlan;
use super::operation::ColumnAction;
use super::restriction::column_of;
use super::restrictions::{Restrictions, StatementKind};
use super::slices::SlicePlan;

/// A statement that writes one table, ready to be executed with values.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) kind: StatementKind,
    /// Which rows; `None` for INSERT JSON, whose text brings the key.
    pub(crate) place: Option<Place>,
    /// Of static columns, sorted by column.
    pub(crate) static_actions: Vec<ColumnAction>,
    /// Of regular columns, sorted by column.
    pub(crate) row_actions: Vec<ColumnAction>,
    pub(crate) json: Option<JsonInsert>,
    pub(crate) attributes: Attributes,
    is_counter: bool,
}

/// Which rows are written.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) keys: KeyPlan,
    pub(crate) rows: SlicePlan,
    /// Are there clustering columns that the statement restricts, or none in the table?
    pub(crate) writes_rows: bool,
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
        let attributes = Attributes::new(analysis, &insert.attributes)?;
        refuse_insert_of_counters(&table)?;
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
        let attributes = Attributes::new(analysis, &insert.attributes)?;
        refuse_insert_of_counters(&table)?;
        let json = JsonInsert::new(analysis, &table, insert)?;
        refuse_conditions(insert.if_not_exists)?;
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
        let attributes = Attributes::new(analysis, &delete.attributes)?;
        let actions: Result<Vec<ColumnAction>, CqlError> = delete
            .deletions
            .iter()
            .map(|deletion: &Deletion| ColumnAction::delete(analysis, &table, deletion))
            .collect();
        let actions = actions?;
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
            is_counter: is_counter_table(&table),
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

    /// Does it write a table of counters? Then [`ModifyPlan::counter_mutations`] says what.
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    /// What is asked of a statement when all else of it is known, that of a batch after what is
    /// asked of the batch (`ModificationStatement.validate`).
    pub(crate) fn validate(&self) -> Result<(), CqlError> {
        if self.is_counter && self.attributes.has_timestamp() {
            return invalid!("Cannot provide custom timestamp for counter updates");
        }
        if self.is_counter && self.attributes.has_ttl() {
            return invalid!("Cannot provide custom TTL for counter updates");
        }
        Ok(())
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

/// Counters are not set, not even to nothing.
fn refuse_insert_of_counters(table: &Table) -> Result<(), CqlError> {
    if is_counter_table(table) {
        return invalid!("INSERT statements are not allowed on counter tables, use UPDATE instead");
    }
    Ok(())
}

/// Does a statement with these actions write static columns only?
fn only_static(actions: &[ColumnAction]) -> bool {
    !actions.is_empty()
        && actions
            .iter()
            .all(|action| action.column.kind == ColumnKind::Static)
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
