//! INSERT, UPDATE and DELETE, analysed (`ModificationStatement` and its kinds).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::{ColumnId, ColumnKind, Table};

use crate::CqlError;
use crate::ast::{
    Assignment, Delete, Deletion, Insert, InsertJson, Modification, Relation, Update,
};
use crate::error::invalid;
use crate::schema::is_counter_table;
use crate::term::{Analysis, Expression, Receiver, Request, prepare};

use super::attributes::Attributes;
use super::condition::{Conditions, refuse_timestamp};
use super::json::JsonInsert;
use super::keys::KeyPlan;
use super::operation::ColumnAction;
use super::point_write::PointWrite;
use super::restriction::column_of;
use super::restrictions::{Restrictions, StatementKind};
use super::slices::SlicePlan;
use super::virtual_tables;

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
    pub(crate) conditions: Conditions,
    /// If it gives columns of one row values, and does nothing else.
    pub(super) point: Option<PointWrite>,
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
            virtual_tables::check_statement(statement)?;
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
        let mut key_terms = Vec::new();
        let mut actions = Vec::new();
        for (name, term) in insert.columns.iter().zip(&insert.values) {
            let column = column_of(&table, name)?;
            match column.kind.is_key() {
                true => key_terms.push((column, term)),
                false => actions.push(ColumnAction::set(analysis, column, term)?),
            }
        }
        // Values of keys are looked at when all columns are known.
        let mut keys: Vec<(ColumnId, Expression)> = Vec::new();
        let mut has_clustering = false;
        for (column, term) in key_terms {
            has_clustering |= column.kind == ColumnKind::Clustering;
            keys.push((column.id, prepare(analysis, term, &Receiver::of(column))?));
        }
        let conditions = Conditions::of_insert(insert.if_not_exists);
        let kind = StatementKind::Insert;
        let only_static = !has_clustering && only_static(kind, &actions, &conditions);
        let restrictions = Restrictions::of_values(&table, keys, only_static)?;
        let place = Place::new(&table, restrictions);
        ModifyPlan::of(table, kind, Some(place), actions, attributes, conditions)
    }

    fn insert_json(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        insert: &InsertJson,
    ) -> Result<ModifyPlan, CqlError> {
        let attributes = Attributes::new(analysis, &insert.attributes)?;
        refuse_insert_of_counters(&table)?;
        let json = JsonInsert::new(analysis, &table, insert)?;
        let conditions = Conditions::of_insert(insert.if_not_exists);
        let kind = StatementKind::Insert;
        let mut plan = ModifyPlan::of(table, kind, None, Vec::new(), attributes, conditions)?;
        plan.json = Some(json);
        Ok(plan)
    }

    fn update(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        update: &Update,
    ) -> Result<ModifyPlan, CqlError> {
        let attributes = Attributes::new(analysis, &update.attributes)?;
        let has_timestamp = attributes.has_timestamp();
        let conditions = Conditions::new(analysis, &table, &update.conditions, has_timestamp)?;
        let is_conditional = !conditions.is_none();
        let actions: Result<Vec<ColumnAction>, CqlError> = update
            .assignments
            .iter()
            .map(|Assignment { column, operation }| {
                ColumnAction::update(analysis, &table, column, operation, is_conditional)
            })
            .collect();
        let actions = actions?;
        let kind = StatementKind::Update;
        let only_static = only_static(kind, &actions, &conditions);
        let place = Place::of_relations(analysis, &table, &update.relations, kind, only_static)?;
        ModifyPlan::of(table, kind, Some(place), actions, attributes, conditions)
    }

    fn delete(
        analysis: &Analysis<'_>,
        table: Arc<Table>,
        delete: &Delete,
    ) -> Result<ModifyPlan, CqlError> {
        let attributes = Attributes::new(analysis, &delete.attributes)?;
        let has_timestamp = attributes.has_timestamp();
        let conditions = Conditions::new(analysis, &table, &delete.conditions, has_timestamp)?;
        let actions: Result<Vec<ColumnAction>, CqlError> = delete
            .deletions
            .iter()
            .map(|deletion: &Deletion| ColumnAction::delete(analysis, &table, deletion))
            .collect();
        let actions = actions?;
        let kind = StatementKind::Delete;
        let only_static = only_static(kind, &actions, &conditions);
        let place = Place::of_relations(analysis, &table, &delete.relations, kind, only_static)?;
        let regular = actions
            .iter()
            .any(|action| action.column.kind == ColumnKind::Regular);
        let selects_rows = place.rows.selects_rows();
        let plan = ModifyPlan::of(table, kind, Some(place), actions, attributes, conditions)?;
        if plan.is_conditional() && !selects_rows {
            plan.check_conditional_delete(regular)?;
        }
        Ok(plan)
    }

    /// Of a conditional DELETE that does not name one row: it may be about static columns only.
    fn check_conditional_delete(&self, regular: bool) -> Result<(), CqlError> {
        let purpose = if regular || self.static_actions.is_empty() {
            "delete"
        } else if self.conditions.look_at_regulars() {
            "use IF condition on"
        } else {
            return Ok(());
        };
        invalid!(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
             order to {purpose} non static columns"
        )
    }

    /// How long this execution may take, if the statement says so (`USING TIMEOUT`).
    pub fn timeout(&self, request: &Request<'_>) -> Result<Option<Duration>, CqlError> {
        self.attributes.timeout(request)
    }

    fn of(
        table: Arc<Table>,
        kind: StatementKind,
        place: Option<Place>,
        actions: Vec<ColumnAction>,
        attributes: Attributes,
        conditions: Conditions,
    ) -> Result<ModifyPlan, CqlError> {
        let is_counter = is_counter_table(&table);
        if !conditions.is_none() {
            if is_counter {
                return invalid!("Conditional updates are not supported on counter tables");
            }
            refuse_timestamp(attributes.has_timestamp())?;
        }
        let (mut static_actions, mut row_actions): (Vec<ColumnAction>, Vec<ColumnAction>) = actions
            .into_iter()
            .partition(|action| action.column.kind == ColumnKind::Static);
        static_actions.sort_by_key(|action| action.column.id);
        row_actions.sort_by_key(|action| action.column.id);
        let mut plan = ModifyPlan {
            table,
            kind,
            place,
            static_actions,
            row_actions,
            json: None,
            attributes,
            conditions,
            point: None,
            is_counter,
        };
        plan.point = PointWrite::of(&plan);
        Ok(plan)
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

    /// Does it write only if conditions hold (`IF`)? Then see [`ModifyPlan::cas`].
    pub fn is_conditional(&self) -> bool {
        !self.conditions.is_none()
    }

    /// What is asked of a statement when all else of it is known, that of a batch after what is
    /// asked of the batch (`ModificationStatement.validate`).
    pub(crate) fn validate(&self) -> Result<(), CqlError> {
        if self.table.view.is_some() {
            return invalid!("Cannot directly modify a materialized view");
        }
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

/// Does a statement with these actions and conditions write and look at static columns only?
/// (`ModificationStatement.appliesOnlyToStaticColumns`)
fn only_static(kind: StatementKind, actions: &[ColumnAction], conditions: &Conditions) -> bool {
    let is_static = |action: &ColumnAction| action.column.kind == ColumnKind::Static;
    let whole_rows = kind == StatementKind::Delete && actions.is_empty();
    !whole_rows
        && !conditions.look_at_regulars()
        && actions.iter().all(is_static)
        && (!actions.is_empty() || conditions.look_at_statics())
}
