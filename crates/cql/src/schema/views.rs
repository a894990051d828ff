//! CREATE, ALTER and DROP MATERIALIZED VIEW (`CreateViewStatement`, `AlterViewStatement`,
//! `DropViewStatement`), and what a change of a table means for its views (`AlterTableStatement`).
//!
//! A view is a table of its keyspace that says what it is a view of.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, CqlType, Keyspace, Order, Schema, Table, View};

use super::properties::Properties;
use super::tables::invalid;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, Surroundings, changed, keyspace_of, options, tables,
    unchanged, unserved, with_keyspace,
};
use crate::CqlError;
use crate::ast::{
    AlterView, CreateView, Drop, QualifiedName, Relation, RelationTarget, SelectClause, Selector,
};
use crate::plan::{ViewRelations, column_of, parse_where};
use crate::term::Analysis;

/// What clients are told who make one (`View.USAGE_WARNING`).
pub(super) const USAGE_WARNING: &str =
    "Materialized views are experimental and are not recommended for production use.";

/// Fills in the keyspace and checks what needs no schema (`CreateViewStatement.Raw.prepare`).
pub(super) fn check_form(create: &mut CreateView, keyspace: Option<&str>) -> Result<(), CqlError> {
    super::qualify(&mut create.view, keyspace)?;
    match &create.base.keyspace {
        Some(of_base) if *of_base != keyspace_of(&create.view) => {
            return invalid(
                "Cannot create a materialized view on a table in a different keyspace".to_owned(),
            );
        }
        _ => create.base.keyspace = create.view.keyspace.clone(),
    }
    if create.has_markers {
        return invalid(
            "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements".to_owned(),
        );
    }
    Ok(())
}

pub(super) fn create(
    schema: &Schema,
    statement: &CreateView,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    if !with.views {
        return invalid(
            "Materialized views are disabled. Enable in cassandra.yaml to use.".to_owned(),
        );
    }
    let name = statement.view.name.as_str();
    let Some(keyspace) = schema.keyspaces.get(keyspace_of(&statement.view)) else {
        let name = keyspace_of(&statement.view);
        return invalid(format!("Keyspace '{name}' doesn't exist"));
    };
    let base = served_base(keyspace, &statement.base)?;
    if let Some(known) = keyspace.tables.get(name) {
        if known.view.is_none() {
            return invalid(format!(
                "Cannot create materialized view '{name}' - a table with the same name already \
                 exists"
            ));
        }
        if statement.if_not_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::AlreadyExists {
            keyspace: keyspace.name.to_string(),
            table: name.to_owned(),
        });
    }
    unserved::check_new_table(keyspace, name)?;
    check_base(base, name)?;
    let table = build(schema, base, statement, with)?;
    tables::validate(&table)?;
    tables::check_id(schema, table.id)?;
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.insert(table.name.clone(), Arc::new(table));
    Ok(view_changed(schema, keyspace, ChangeKind::Created, name))
}

fn view_changed(schema: &Schema, keyspace: Keyspace, kind: ChangeKind, view: &str) -> SchemaChange {
    let name = keyspace.name.clone();
    let schema = with_keyspace(schema, keyspace);
    changed(schema, kind, ChangeTarget::Table, &name, view)
}

/// The table that is to have a view. A view is none: it is looked for among tables alone.
fn served_base<'k>(keyspace: &'k Keyspace, base: &QualifiedName) -> Result<&'k Table, CqlError> {
    let found = keyspace.tables.get(base.name.as_str());
    match found.filter(|table| table.view.is_none()) {
        Some(table) => Ok(table),
        None => {
            unserved::check_table(keyspace, &base.name)?;
            invalid(format!("Base table '{}' doesn't exist", base.name))
        }
    }
}

fn check_base(base: &Table, view: &str) -> Result<(), CqlError> {
    if tables::is_counter_table(base) {
        return invalid("Materialized views are not supported on counter tables".to_owned());
    }
    if base.options.gc_grace_seconds == 0 {
        return invalid(format!(
            "Cannot create materialized view '{view}' for base table '{}' with gc_grace_seconds of \
             0, since this value is used to TTL undelivered updates. Setting gc_grace_seconds too \
             low might cause undelivered updates to expire before being replayed.",
            base.name
        ));
    }
    Ok(())
}

fn build(
    schema: &Schema,
    base: &Table,
    statement: &CreateView,
    with: Surroundings<'_>,
) -> Result<Table, CqlError> {
    let view = statement.view.name.as_str();
    let selected = selected_columns(base, statement)?;
    let key = key_columns(base, statement, &selected)?;
    check_relations(schema, base, statement, &key)?;
    let properties = Properties::collect(&statement.properties)?;
    options::check_form(&properties)?;
    options::check_memtable(schema, &properties)?;
    let options = options::create(&properties)?;
    if options.default_time_to_live > 0 {
        return invalid(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view \
             always expire at the same time than the corresponding data in the parent table."
                .to_owned(),
        );
    }
    let mut columns: Vec<Column> = Vec::new();
    let partition = statement.primary_key.partition.len();
    for (at, column) in key.iter().enumerate() {
        let mut column = Column {
            id: ColumnId(columns.len() as u32),
            kind: ColumnKind::PartitionKey,
            position: at,
            order: Order::Ascending,
            ..(*column).clone()
        };
        if at >= partition {
            let base_order = key[at].order;
            let given = statement.clustering_order.iter();
            let given = given.clone().find(|(name, _)| **name == *column.name);
            column.kind = ColumnKind::Clustering;
            column.position = at - partition;
            column.order = given.map_or(base_order, |(_, order)| *order);
        }
        columns.push(column);
    }
    for column in selected {
        if !key.iter().any(|of_key| of_key.id == column.id) {
            columns.push(shown_column(column, ColumnId(columns.len() as u32)));
        }
    }
    let is_of_values = |column: &&Column| column.kind == ColumnKind::Regular;
    let relations = statement.relations.iter();
    let relations: Vec<String> = relations.map(|relation| format!("{relation:#}")).collect();
    let definition = View {
        base: base.id,
        base_name: base.name.clone(),
        includes_all: statement.selection == SelectClause::Wildcard,
        where_clause: relations.join(" AND "),
        strict_liveness: key.iter().any(is_of_values),
    };
    let id = options::id(&properties)?.unwrap_or_else(|| (with.ids)());
    let mut table = Table::new(id, base.keyspace.clone(), view, columns, options);
    table.view = Some(Arc::new(definition));
    Ok(table)
}

/// A column of a table as one of the values of its view.
fn shown_column(column: &Column, id: ColumnId) -> Column {
    Column {
        id,
        kind: ColumnKind::Regular,
        position: 0,
        order: Order::Ascending,
        ..column.clone()
    }
}

/// The columns that the view shows, by name.
fn selected_columns<'b>(
    base: &'b Table,
    statement: &CreateView,
) -> Result<Vec<&'b Column>, CqlError> {
    let mut selected: Vec<&Column> = Vec::new();
    match &statement.selection {
        SelectClause::Wildcard => selected.extend(base.columns().filter(|c| !base.hides(c))),
        SelectClause::Items(items) => {
            for item in items {
                if item.alias.is_some() {
                    return invalid(format!(
                        "Cannot use aliases when defining a materialized view (got {})",
                        item.selector
                    ));
                }
                let Selector::Column(name) = &item.selector else {
                    return invalid(format!(
                        "Can only select columns by name when defining a materialized view (got {})",
                        item.selector
                    ));
                };
                selected.push(column_of(base, name)?);
            }
        }
    }
    selected.sort_by(|a, b| Column::compare_names(&a.name, &b.name));
    selected.dedup_by_key(|column| column.id);
    match selected.iter().find(|c| c.kind == ColumnKind::Static) {
        Some(column) => invalid(format!(
            "Cannot include static column '{}' in materialized view '{}'",
            column.name, statement.view.name
        )),
        None => Ok(selected),
    }
}

/// The columns of the key, in order.
fn key_columns<'b>(
    base: &'b Table,
    statement: &CreateView,
    selected: &[&'b Column],
) -> Result<Vec<&'b Column>, CqlError> {
    let view = statement.view.name.as_str();
    let key = &statement.primary_key;
    let mut columns: Vec<&Column> = Vec::new();
    for name in key.partition.iter().chain(&key.clustering) {
        let Some(column) = selected.iter().find(|column| *column.name == **name) else {
            return invalid(format!(
                "Unknown column '{}' referenced in PRIMARY KEY for materialized view '{view}'",
                name
            ));
        };
        if columns.iter().any(|known| known.id == column.id) {
            return invalid(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
            ));
        }
        check_key_column(column)?;
        columns.push(column);
    }
    let ordered = statement.clustering_order.iter().map(|(name, _)| name);
    if !statement.clustering_order.is_empty() && !key.clustering.iter().eq(ordered) {
        return invalid(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"
                .to_owned(),
        );
    }
    let is_in_key = |column: &&Column| columns.iter().any(|known| known.id == column.id);
    let of_base = base.partition_key().chain(base.clustering_key());
    let missing = names(of_base.filter(|column| !is_in_key(column)));
    if !missing.is_empty() {
        return invalid(format!(
            "Cannot create materialized view '{view}' without primary key columns {missing} from \
             base table '{}'",
            base.name
        ));
    }
    let values = columns.iter().copied();
    let values: Vec<&Column> = values.filter(|c| c.kind == ColumnKind::Regular).collect();
    if values.len() > 1 {
        let mut values = values;
        values.sort_by(|a, b| a.name.cmp(&b.name));
        return invalid(format!(
            "Cannot include more than one non-primary key column in materialized view primary key \
             (got {})",
            names(values.into_iter())
        ));
    }
    Ok(columns)
}

fn names<'c>(columns: impl Iterator<Item = &'c Column>) -> String {
    let names: Vec<&str> = columns.map(|column| &*column.name).collect();
    names.join(", ")
}

fn check_key_column(column: &Column) -> Result<(), CqlError> {
    let (name, ty) = (&column.name, &column.ty);
    if ty.is_multi_cell() {
        let what = match ty.is_collection() {
            true => "collection",
            false => "user-defined",
        };
        return invalid(format!(
            "Invalid non-frozen {what} type '{}' for PRIMARY KEY column '{name}'",
            ty.to_marshal()
        ));
    }
    if ty.has(&CqlType::Duration) {
        return invalid(format!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        ));
    }
    Ok(())
}

fn check_relations(
    schema: &Schema,
    base: &Table,
    statement: &CreateView,
    key: &[&Column],
) -> Result<(), CqlError> {
    let relations = &statement.relations;
    if relations
        .iter()
        .any(|r| matches!(r.target, RelationTarget::Token(_)))
    {
        return invalid("Cannot use token relation when defining a materialized view".to_owned());
    }
    if relations
        .iter()
        .any(|r| matches!(r.target, RelationTarget::Expression(_)))
    {
        return invalid(format!(
            "WHERE clause for materialized view '{}' cannot contain custom index expressions",
            statement.view.name
        ));
    }
    let types = schema.keyspaces.get(&base.keyspace).map(|k| &k.types);
    let analysis = Analysis::new(base, types);
    let relations = ViewRelations::new(&analysis, base, relations)?;
    let mut free: Vec<&Column> = key
        .iter()
        .copied()
        .filter(|c| !relations.names(c))
        .collect();
    if !free.is_empty() {
        free.sort_by(|a, b| a.name.cmp(&b.name));
        return invalid(format!(
            "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
            names(free.into_iter())
        ));
    }
    if !relations.restricted_values.is_empty() {
        return invalid(format!(
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted \
             illegally)",
            relations.restricted_values.join(",")
        ));
    }
    // Whoever reads the schema has to make sense of it: what no key can be is refused while there is
    // somebody to tell.
    relations.rows(base).map(|_| ())
}

pub(super) fn alter(schema: &Schema, statement: &AlterView) -> Result<SchemaChange, CqlError> {
    let Some((keyspace, view)) = find(schema, &statement.view)? else {
        return missing(schema, &statement.view, statement.if_exists);
    };
    let properties = Properties::collect(&statement.properties)?;
    options::check_memtable(schema, &properties)?;
    let options = options::alter(&view.options, &properties)?;
    if options.gc_grace_seconds == 0 {
        return invalid(
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to \
             TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered \
             updates to expire before being replayed."
                .to_owned(),
        );
    }
    if options.default_time_to_live > 0 {
        return invalid(
            "Forbidden default_time_to_live detected for a materialized view. Data in a \
             materialized view always expire at the same time than the corresponding data in the \
             parent table. default_time_to_live must be set to zero, see CASSANDRA-12868 for more \
             information"
                .to_owned(),
        );
    }
    let mut altered = Table::clone(view);
    altered.options = options;
    let name = altered.name.clone();
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.insert(name.clone(), Arc::new(altered));
    Ok(view_changed(schema, keyspace, ChangeKind::Updated, &name))
}

pub(super) fn drop(schema: &Schema, statement: &Drop) -> Result<SchemaChange, CqlError> {
    let Some((keyspace, view)) = find(schema, &statement.name)? else {
        return missing(schema, &statement.name, statement.if_exists);
    };
    let name = view.name.clone();
    let mut rest = Keyspace::clone(keyspace);
    rest.tables.remove(&name);
    rest.unserved.masks.retain(|(table, _)| *table != name);
    Ok(view_changed(schema, rest, ChangeKind::Dropped, &name))
}

fn find<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
) -> Result<Option<(&'s Keyspace, &'s Table)>, CqlError> {
    let Some(keyspace) = schema.keyspaces.get(keyspace_of(name)) else {
        return Ok(None);
    };
    unserved::check_view(keyspace, &name.name)?;
    let table = keyspace.tables.get(name.name.as_str());
    let view = table.filter(|table| table.view.is_some());
    Ok(view.map(|view| (&**keyspace, &**view)))
}

fn missing(
    schema: &Schema,
    name: &QualifiedName,
    if_exists: bool,
) -> Result<SchemaChange, CqlError> {
    match if_exists {
        true => Ok(unchanged(schema)),
        false => invalid(format!(
            "Materialized view '{}.{}' doesn't exist",
            keyspace_of(name),
            name.name
        )),
    }
}

/// Refuses to alter a view as a table.
pub(super) fn check_alter_table(table: &Table) -> Result<(), CqlError> {
    match table.view {
        Some(_) => invalid(
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"
                .to_owned(),
        ),
        None => Ok(()),
    }
}

/// Refuses to drop a view as a table, or a table that has views.
pub(super) fn check_drop_table(keyspace: &Keyspace, table: &Table) -> Result<(), CqlError> {
    if table.view.is_some() {
        return invalid(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW \
             instead."
                .to_owned(),
        );
    }
    match keyspace.views_of(table.id).next() {
        // Cassandra says the keyspace where it means the views.
        Some(_) => invalid(format!(
            "Cannot drop a table when materialized views still depend on it ({})",
            keyspace.name
        )),
        None => Ok(()),
    }
}

/// The keyspace in which the views of a table follow a change of it: columns that it got join those that show
/// all, and those of its key that were renamed are renamed there, too.
pub(super) fn follow(
    keyspace: &mut Keyspace,
    before: &Table,
    after: &Table,
    renames: &[(String, String)],
) -> Result<(), CqlError> {
    let views: Vec<Arc<Table>> = keyspace.views_of(before.id).cloned().collect();
    for view in views {
        let followed = followed(&view, before, after, renames)?;
        if followed != *view {
            keyspace
                .tables
                .insert(view.name.clone(), Arc::new(followed));
        }
    }
    Ok(())
}

fn followed(
    view: &Table,
    before: &Table,
    after: &Table,
    renames: &[(String, String)],
) -> Result<Table, CqlError> {
    let Some(definition) = &view.view else {
        return Ok(view.clone());
    };
    let mut definition = View::clone(definition);
    let mut columns: Vec<Column> = view.columns().cloned().collect();
    for (old, new) in renames {
        for column in columns.iter_mut().filter(|column| *column.name == **old) {
            column.name = Arc::from(new.as_str());
        }
    }
    if !renames.is_empty() {
        definition.where_clause = renamed(&definition.where_clause, renames)?;
    }
    let mut next = view.next_column_id();
    let known: BTreeSet<&str> = before.columns().map(|column| &*column.name).collect();
    let is_new =
        |column: &&Column| column.kind == ColumnKind::Regular && !known.contains(&*column.name);
    if definition.includes_all {
        for column in after.columns().filter(is_new) {
            columns.push(shown_column(column, next));
            next = ColumnId(next.0 + 1);
        }
    }
    let mut followed = Table::new(
        view.id,
        view.keyspace.clone(),
        view.name.clone(),
        columns,
        view.options.clone(),
    );
    followed.dropped = view.dropped.clone();
    followed.view = Some(Arc::new(definition));
    followed.reserve_column_ids(next);
    Ok(followed)
}

/// The relations with the columns renamed that they are about.
fn renamed(where_clause: &str, renames: &[(String, String)]) -> Result<String, CqlError> {
    let rename = |name: &mut String| {
        if let Some((_, new)) = renames.iter().find(|(old, _)| old == name) {
            new.clone_into(name);
        }
    };
    let mut relations = parse_where(where_clause)?;
    for Relation { target, .. } in &mut relations {
        match target {
            RelationTarget::Column(name) | RelationTarget::Element(name, _) => rename(name),
            RelationTarget::Columns(names) | RelationTarget::Token(names) => {
                names.iter_mut().for_each(rename);
            }
            RelationTarget::Expression(_) => {}
        }
    }
    let relations = relations.iter();
    let relations: Vec<String> = relations.map(|relation| format!("{relation:#}")).collect();
    Ok(relations.join(" AND "))
}
