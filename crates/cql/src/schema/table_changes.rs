//! ALTER TABLE.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnKind, ColumnMask, CqlType, DroppedColumn, Keyspace, Order, Schema,
    Table, TableId, TableOptions,
};

use super::dropped_types::reads_dropped;
use super::masks::{self, MaskedColumn};
use super::properties::Properties;
use super::tables::{self, invalid};
use super::{
    ChangeKind, ChangeTarget, SchemaChange, Surroundings, changed, keyspace_of, options, unchanged,
    unserved, views, with_keyspace,
};
use crate::CqlError;
use crate::ast::{AlterTable, AlterTableAction, ColumnDefinition, Mask};

pub(super) fn alter(
    schema: &Schema,
    statement: &AlterTable,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&statement.table), statement.table.name.as_str());
    let keyspace = schema.keyspaces.get(keyspace_name);
    if let Some(keyspace) = keyspace {
        unserved::check_alter_table(keyspace, name)?;
    }
    let found = keyspace.and_then(|k| k.tables.get(name).map(|table| (k, table)));
    let Some((keyspace, table)) = found else {
        if statement.if_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!("Table '{keyspace_name}.{name}' doesn't exist"));
    };
    views::check_alter_table(table)?;
    let altered = match &statement.action {
        AlterTableAction::AlterType { .. } => {
            return invalid("Altering column types is no longer supported".to_owned());
        }
        AlterTableAction::DropCompactStorage => {
            // As there, where nobody has allowed it.
            return invalid(
                "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.".to_owned(),
            );
        }
        AlterTableAction::Mask {
            column,
            if_exists,
            mask,
        } => {
            return alter_mask(schema, keyspace, table, (column, *if_exists), mask.as_ref());
        }
        AlterTableAction::Add {
            if_not_exists,
            columns,
        } => add_columns(schema, keyspace, table, columns, *if_not_exists)?,
        AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        } => {
            // system_schema keeps milliseconds: what was written in this one must not come back
            // when the schema is read again.
            let dropped_at = timestamp.unwrap_or_else(|| next_millisecond(with.now_micros));
            drop_columns(keyspace, table, columns, *if_exists, dropped_at)?
        }
        AlterTableAction::Rename { renames, .. } => rename_columns(keyspace, table, renames)?,
        AlterTableAction::With(properties) => {
            let properties = Properties::collect(properties)?;
            options::check_memtable(schema, &properties)?;
            let options = options::alter(&table.options, &properties)?;
            if tables::is_counter_table(table) && options.default_time_to_live > 0 {
                return tables::ttl_of_counters();
            }
            unserved::check_gc_grace(keyspace, table, options.gc_grace_seconds)?;
            Parts::of(table).with_options(options)
        }
    };
    let altered = altered.build(table);
    let renames = match &statement.action {
        AlterTableAction::Rename { renames, .. } => renames.as_slice(),
        _ => &[],
    };
    let mut keyspace = Keyspace::clone(keyspace);
    unserved::forget_masks(&mut keyspace, table, &altered);
    views::follow(&mut keyspace, table, &altered, renames)?;
    keyspace
        .tables
        .insert(altered.name.clone(), Arc::new(altered));
    Ok(updated(schema, keyspace, name))
}

fn updated(schema: &Schema, keyspace: Keyspace, table: &str) -> SchemaChange {
    let name = keyspace.name.clone();
    changed(
        with_keyspace(schema, keyspace),
        ChangeKind::Updated,
        ChangeTarget::Table,
        &name,
        table,
    )
}

/// What is wrong with the statement whatever the table.
pub(super) fn check_form(alter: &AlterTable) -> Result<(), CqlError> {
    if let AlterTableAction::With(properties) = &alter.action {
        options::check_form(&Properties::collect(properties)?)?;
    }
    Ok(())
}

fn next_millisecond(micros: i64) -> i64 {
    (micros.div_euclid(1000) + i64::from(micros.rem_euclid(1000) > 0)) * 1000
}

/// Gives a column another mask, or none. `if_exists` speaks of the column.
fn alter_mask(
    schema: &Schema,
    keyspace: &Keyspace,
    table: &Table,
    (column, if_exists): (&str, bool),
    mask: Option<&Mask>,
) -> Result<SchemaChange, CqlError> {
    let Some(found) = table.column_named(column) else {
        if if_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!(
            "Column with name '{column}' doesn't exist on table '{}'",
            table.name
        ));
    };
    let mut altered = table.clone();
    match mask {
        None => {
            altered.masks.remove(column);
        }
        Some(mask) => {
            let masked = MaskedColumn {
                table: &table.name,
                name: column,
                ty: &found.ty,
                order: found.order,
            };
            let mask = masks::prepare(schema, keyspace, masked, mask)?;
            altered.masks.insert(found.name.clone(), mask);
        }
    }
    // Also one that Cassandra left, of a function that is not served.
    let mut keyspace = unserved::without_mask(keyspace, table, column);
    let tables = &mut keyspace.tables;
    tables.insert(table.name.clone(), Arc::new(altered));
    Ok(updated(schema, keyspace, &table.name))
}

/// The parts of a table that can change.
pub(super) struct Parts {
    columns: Vec<Column>,
    dropped: Vec<DroppedColumn>,
    masks: BTreeMap<Arc<str>, ColumnMask>,
    options: TableOptions,
    next: ColumnId,
}

impl Parts {
    pub(super) fn of(table: &Table) -> Parts {
        Parts {
            columns: table.columns().cloned().collect(),
            dropped: table.dropped.clone(),
            masks: table.masks.clone(),
            options: table.options.clone(),
            next: table.next_column_id(),
        }
    }

    pub(super) fn with_options(mut self, options: TableOptions) -> Parts {
        self.options = options;
        self
    }

    /// With all types of columns replaced.
    pub(super) fn map_types(mut self, map: impl Fn(&CqlType) -> CqlType) -> Parts {
        for column in &mut self.columns {
            column.ty = map(&column.ty);
        }
        for mask in self.masks.values_mut() {
            for (ty, _) in &mut mask.arguments {
                *ty = map(ty);
            }
        }
        self
    }

    fn column(&mut self, name: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|c| &*c.name == name)
    }

    /// Another table, in the form of `like`: its columns are numbered anew, what was dropped is forgotten.
    pub(super) fn build_new(
        mut self,
        like: &Table,
        id: TableId,
        keyspace: &Keyspace,
        name: &str,
    ) -> Table {
        for (number, column) in (0..).zip(&mut self.columns) {
            column.id = ColumnId(number);
        }
        let keyspace = keyspace.name.clone();
        let mut built = Table::new(id, keyspace, name, self.columns, self.options);
        built.masks = self.masks;
        built.compact = like.compact;
        built
    }

    /// The changed table; ids of dropped columns stay taken.
    pub(super) fn build(self, table: &Table) -> Table {
        let mut built = Table::new(
            table.id,
            table.keyspace.clone(),
            table.name.clone(),
            self.columns,
            self.options,
        );
        built.dropped = self.dropped;
        built.masks = self.masks;
        built.is_virtual = table.is_virtual;
        built.compact = table.compact;
        built.view = table.view.clone();
        built.indexes = table.indexes.clone();
        built.reserve_column_ids(self.next);
        built
    }
}

fn add_columns(
    schema: &Schema,
    keyspace: &Keyspace,
    table: &Table,
    columns: &[ColumnDefinition],
    if_not_exists: bool,
) -> Result<Parts, CqlError> {
    let mut parts = Parts::of(table);
    let was_counter = tables::is_counter_table(table);
    for column in columns {
        let name = &column.name;
        let ty = column.ty.resolve(&keyspace.name, &keyspace.types)?;
        let mask = tables::declared_mask(schema, keyspace, &table.name, column, &ty)?;
        if table.compact.is_some() && parts.column(name).is_none() {
            return invalid("Cannot add new column to a COMPACT STORAGE table".to_owned());
        }
        if parts.column(name).is_some() {
            if if_not_exists {
                continue;
            }
            return invalid(format!("Column with name '{name}' already exists"));
        }
        if column.is_static && table.clustering_key().len() == 0 {
            return tables::static_without_clustering();
        }
        if tables::has_nested_collections(&ty) {
            return invalid(format!(
                "Non-frozen UDTs with nested non-frozen collections are not supported for column \
                 {name}"
            ));
        }
        check_re_added(table, column, &ty, was_counter)?;
        if ty.is_counter() && !was_counter {
            return tables::counter_among_others(&table.keyspace, &table.name, name);
        }
        parts.columns.push(Column {
            id: parts.next,
            name: Arc::from(name.as_str()),
            ty,
            kind: tables::kind_of(column),
            position: 0,
            order: Order::Ascending,
        });
        parts.next = ColumnId(parts.next.0 + 1);
        parts
            .masks
            .extend(mask.map(|mask| (Arc::from(name.as_str()), mask)));
    }
    let (columns, dropped) = (parts.columns.clone(), parts.dropped.clone());
    let options = parts.options.clone();
    let built = parts.build(table);
    tables::validate(&built)?;
    Ok(Parts {
        columns,
        dropped,
        masks: built.masks.clone(),
        options,
        next: built.next_column_id(),
    })
}

/// Old cells of a dropped column lie in files under its name: a new one must be able to read
/// them.
fn check_re_added(
    table: &Table,
    column: &ColumnDefinition,
    ty: &CqlType,
    is_counter: bool,
) -> Result<(), CqlError> {
    let name = &column.name;
    let Some(dropped) = table.dropped.iter().find(|d| *d.name == **name) else {
        return Ok(());
    };
    if !reads_dropped(ty, &dropped.ty) {
        return invalid(format!(
            "Cannot re-add previously dropped column '{name}' of type {ty}, incompatible with \
             previous type {}",
            dropped.ty
        ));
    }
    if dropped.is_static != column.is_static {
        let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
        return invalid(format!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with \
             previous kind {}",
            kind(column.is_static),
            kind(dropped.is_static)
        ));
    }
    if is_counter {
        return invalid(format!(
            "Cannot re-add previously dropped counter column {name}"
        ));
    }
    Ok(())
}

fn drop_columns(
    keyspace: &Keyspace,
    table: &Table,
    columns: &[String],
    if_exists: bool,
    dropped_at: i64,
) -> Result<Parts, CqlError> {
    let mut parts = Parts::of(table);
    for name in columns {
        let Some(column) = table.column_named(name) else {
            if if_exists {
                continue;
            }
            return invalid(format!(
                "Column {name} was not found in table '{}.{}'",
                table.keyspace, table.name
            ));
        };
        if matches!(
            column.kind,
            ColumnKind::PartitionKey | ColumnKind::Clustering
        ) {
            return invalid(format!("Cannot drop PRIMARY KEY column {name}"));
        }
        if table.compact.is_some() && column.kind == ColumnKind::Regular {
            // An AssertionError in Cassandra.
            return invalid(format!(
                "Cannot drop the only value {name} of a COMPACT STORAGE table"
            ));
        }
        if matches!(column.ty, CqlType::Udt { frozen: false, .. }) {
            return invalid(format!(
                "Cannot drop non-frozen column {name} of user type {}",
                column.ty
            ));
        }
        unserved::check_drop_column(keyspace, table, column)?;
        parts.columns.retain(|c| c.id != column.id);
        parts.masks.remove(&column.name);
        parts.dropped.retain(|d| d.name != column.name);
        parts.dropped.push(DroppedColumn {
            name: column.name.clone(),
            ty: expand_user_types(&column.ty),
            is_static: column.kind == ColumnKind::Static,
            dropped_at,
        });
    }
    Ok(parts)
}

/// The type without references to user types, which may be altered or dropped later.
fn expand_user_types(ty: &CqlType) -> CqlType {
    let expand = |ty: &CqlType| Box::new(expand_user_types(ty));
    match ty {
        CqlType::Udt { definition, .. } => CqlType::Tuple(
            definition
                .fields
                .iter()
                .map(|(_, ty)| expand_user_types(&ty.freeze()))
                .collect(),
        ),
        CqlType::Tuple(parts) => CqlType::Tuple(parts.iter().map(expand_user_types).collect()),
        CqlType::List { element, frozen } => CqlType::List {
            element: expand(element),
            frozen: *frozen,
        },
        CqlType::Set { element, frozen } => CqlType::Set {
            element: expand(element),
            frozen: *frozen,
        },
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: expand(key),
            value: expand(value),
            frozen: *frozen,
        },
        CqlType::Vector { element, dimension } => CqlType::Vector {
            element: expand(element),
            dimension: *dimension,
        },
        CqlType::Composite(composite) => {
            CqlType::Composite(composite.map_types(expand_user_types).into())
        }
        simple => simple.clone(),
    }
}

fn rename_columns(
    keyspace: &Keyspace,
    table: &Table,
    renames: &[(String, String)],
) -> Result<Parts, CqlError> {
    let mut parts = Parts::of(table);
    let shown = format!("{}.{}", table.keyspace, table.name);
    for (old, new) in renames {
        let Some(column) = table.shown_column(old) else {
            // Also with IF EXISTS, as in Cassandra.
            return invalid(format!("Undefined column name {old} in table {shown}"));
        };
        if !matches!(
            column.kind,
            ColumnKind::PartitionKey | ColumnKind::Clustering
        ) {
            return invalid(format!("Cannot rename non PRIMARY KEY column {old}"));
        }
        if table.column_named(new).is_some() || parts.column(new).is_some() {
            return invalid(format!(
                "Cannot rename column {old} to {new} in table '{shown}'; another column with that \
                 name already exists"
            ));
        }
        unserved::check_rename_column(keyspace, table, column)?;
        if let Some(column) = parts.column(old) {
            column.name = Arc::from(new.as_str());
        }
        if let Some(mask) = parts.masks.remove(old.as_str()) {
            parts.masks.insert(Arc::from(new.as_str()), mask);
        }
    }
    Ok(parts)
}
