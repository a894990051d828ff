//! CREATE and DROP TABLE, and what every table must fulfil.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnKind, ColumnMask, CompactForm, CqlType, Keyspace, Order, Schema, Table,
    TableId,
};

use super::masks::{self, MaskedColumn};
use super::properties::Properties;
use super::{
    ChangeKind, ChangeTarget, SchemaChange, Surroundings, changed, keyspace_of, options, unchanged,
    unserved, views, with_keyspace,
};
use crate::CqlError;
use crate::ast::{ColumnDefinition, CreateTable, DataType, Drop, PrimaryKey, QualifiedName};

/// With the id behind it, the name of a table is the name of a folder of at most 255 bytes.
const MAX_NAME: usize = 222;

pub(super) fn invalid<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Invalid(message))
}

/// Checks what needs no schema: columns are declared once, there is one primary key, and one order of
/// each column, and options have possible values. `table`: its name as it is written.
pub(super) fn check_form(create: &CreateTable, table: &QualifiedName) -> Result<(), CqlError> {
    let properties = Properties::collect(&create.properties)?;
    let mut declared = BTreeSet::new();
    for column in &create.columns {
        if !declared.insert(column.name.as_str()) {
            return invalid(format!(
                "Duplicate column '{}' declaration for table '{table}'",
                column.name
            ));
        }
    }
    match create.primary_keys.as_slice() {
        [] => {
            return invalid(format!(
                "No PRIMARY KEY specifed for table '{table}' (exactly one required)"
            ));
        }
        [_] => {}
        _ => {
            return invalid(format!(
                "Multiple PRIMARY KEY specified for table '{table}' (exactly one required)"
            ));
        }
    }
    let mut ordered = BTreeSet::new();
    for (name, _) in &create.clustering_order {
        if !ordered.insert(name) {
            return invalid(format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
            ));
        }
    }
    options::check_form(&properties)
}

pub(super) fn create(
    schema: &Schema,
    statement: &CreateTable,
    with: Surroundings<'_>,
) -> Result<SchemaChange, CqlError> {
    options::check_memtable(schema, &Properties::collect(&statement.properties)?)?;
    let name = statement.table.name.as_str();
    let Some(keyspace) = schema.keyspaces.get(keyspace_of(&statement.table)) else {
        return invalid(format!(
            "Keyspace '{}' doesn't exist",
            keyspace_of(&statement.table)
        ));
    };
    if keyspace.tables.contains_key(name) {
        if statement.if_not_exists {
            return Ok(unchanged(schema));
        }
        return Err(CqlError::AlreadyExists {
            keyspace: keyspace.name.to_string(),
            table: name.to_owned(),
        });
    }
    unserved::check_new_table(keyspace, name)?;
    let mut table = build(keyspace, statement, || (with.ids)())?;
    validate(&table)?;
    mask_columns(schema, keyspace, &mut table, &statement.columns)?;
    check_id(schema, table.id)?;
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.insert(table.name.clone(), Arc::new(table));
    let keyspace_name = keyspace.name.clone();
    Ok(changed(
        with_keyspace(schema, keyspace),
        ChangeKind::Created,
        ChangeTarget::Table,
        &keyspace_name,
        name,
    ))
}

/// Gives columns the masks that are declared with them.
fn mask_columns(
    schema: &Schema,
    keyspace: &Keyspace,
    table: &mut Table,
    columns: &[ColumnDefinition],
) -> Result<(), CqlError> {
    let mut declared = BTreeMap::new();
    for definition in columns {
        let Some(column) = table.column_named(&definition.name) else {
            continue;
        };
        let mask = declared_mask(schema, keyspace, &table.name, definition, &column.ty)?;
        declared.extend(mask.map(|mask| (column.name.clone(), mask)));
    }
    table.masks = declared;
    Ok(())
}

/// The mask that is declared with a column of type `ty`, if one is.
pub(super) fn declared_mask(
    schema: &Schema,
    keyspace: &Keyspace,
    table: &str,
    column: &ColumnDefinition,
    ty: &CqlType,
) -> Result<Option<ColumnMask>, CqlError> {
    let Some(mask) = &column.mask else {
        return Ok(None);
    };
    let masked = MaskedColumn {
        table,
        name: &column.name,
        ty,
        order: Order::Ascending,
    };
    masks::prepare(schema, keyspace, masked, mask).map(Some)
}

/// What is stored is found by the id of its table: two with the same one would share it.
pub(super) fn check_id(schema: &Schema, id: TableId) -> Result<(), CqlError> {
    let served = schema.table_by_id(id);
    let user = served.map(|table| format!("{}.{}", table.keyspace, table.name));
    match user.or_else(|| unserved::user_of_id(schema, id)) {
        Some(user) => Err(CqlError::Config(format!(
            "Table id {id} is already used by {user}: leave the id out to get another one"
        ))),
        None => Ok(()),
    }
}

/// The clustering order speaks of clustering columns only.
fn check_order(statement: &CreateTable, clustering: &[String]) -> Result<(), CqlError> {
    let strangers: Vec<&str> = statement
        .clustering_order
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !clustering.iter().any(|column| column == name))
        .collect();
    if strangers.is_empty() {
        return Ok(());
    }
    invalid(format!(
        "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not \
         clustering columns",
        strangers.join(", ")
    ))
}

fn build(
    keyspace: &Keyspace,
    statement: &CreateTable,
    id: impl FnOnce() -> TableId,
) -> Result<Table, CqlError> {
    let properties = Properties::collect(&statement.properties)?;
    let options = options::create(&properties)?;
    let table = statement.table.name.as_str();
    let mut types = BTreeMap::new();
    for column in &statement.columns {
        let ty = column.ty.resolve(&keyspace.name, &keyspace.types)?;
        types.insert(column.name.as_bytes(), (column, ty));
    }
    for (_, ty) in types.values() {
        if has_nested_collections(ty) {
            return invalid(
                "Non-frozen UDTs with nested non-frozen collections are not supported".to_owned(),
            );
        }
    }
    let (key, in_key) = check_key(keyspace, statement, &types)?;
    check_order(statement, &key.clustering)?;
    let orders = clustering_orders(statement, &key.clustering)?;
    let mut compact = None;
    if statement.compact_storage {
        check_compact(key, &types, &in_key)?;
        compact = Some(match key.clustering.is_empty() {
            true => CompactForm::Static,
            false => CompactForm::Dense,
        });
    } else if key.clustering.is_empty() && statement.columns.iter().any(|column| column.is_static) {
        return static_without_clustering();
    }
    check_named_counters(&keyspace.name, table, &types)?;
    check_counters(&types, &in_key, options.default_time_to_live)?;

    let mut columns = Vec::new();
    let mut add = |name: &str, kind, position, order| {
        if let Some((_, ty)) = types.get(name.as_bytes()) {
            columns.push(Column {
                id: ColumnId(columns.len() as u32),
                name: Arc::from(name),
                ty: ty.clone(),
                kind,
                position,
                order,
            });
        }
    };
    for (position, name) in key.partition.iter().enumerate() {
        add(name, ColumnKind::PartitionKey, position, Order::Ascending);
    }
    for (position, (name, order)) in key.clustering.iter().zip(orders).enumerate() {
        add(name, ColumnKind::Clustering, position, order);
    }
    for (name, (column, _)) in &types {
        if !in_key.contains(name) {
            let kind = match compact {
                Some(CompactForm::Static) => ColumnKind::Static,
                _ => kind_of(column),
            };
            add(&column.name, kind, 0, Order::Ascending);
        }
    }
    if let Some(form) = compact {
        add_hidden(&mut columns, form);
    }
    let id = options::id(&properties)?.unwrap_or_else(id);
    let mut table = Table::new(id, keyspace.name.clone(), table, columns, options);
    table.is_virtual = keyspace.is_virtual;
    table.compact = compact;
    Ok(table)
}

/// What a table WITH COMPACT STORAGE must fulfil (`CreateTableStatement.validateCompactTable`).
fn check_compact(
    key: &PrimaryKey,
    types: &Types<'_>,
    in_key: &BTreeSet<&[u8]>,
) -> Result<(), CqlError> {
    let values = types.iter().filter(|(name, _)| !in_key.contains(*name));
    let values: Vec<_> = values.map(|(_, (column, ty))| (column, ty)).collect();
    if values.iter().any(|(_, ty)| ty.is_multi_cell()) {
        return invalid(
            "Non-frozen collections and UDTs are not supported with COMPACT STORAGE".to_owned(),
        );
    }
    if values.iter().any(|(column, _)| column.is_static) {
        return invalid("Static columns are not supported in COMPACT STORAGE tables".to_owned());
    }
    if key.clustering.is_empty() {
        if values.is_empty() {
            return invalid("No definition found that is not part of the PRIMARY KEY".to_owned());
        }
        return Ok(());
    }
    match values.as_slice() {
        [] | [_] => Ok(()),
        _ => {
            let names: Vec<&str> = values.iter().map(|(c, _)| c.name.as_str()).collect();
            invalid(format!(
                "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not \
                 part of the PRIMARY KEY (got: {})",
                names.join(", ")
            ))
        }
    }
}

/// The columns of a table WITH COMPACT STORAGE that nobody declares, under names that are free
/// (`CreateTableStatement.fixupCompactTable`).
fn add_hidden(columns: &mut Vec<Column>, form: CompactForm) {
    let numbered = (1..).map(|i: u32| format!("value{i}"));
    let value_names = std::iter::once("value".to_owned()).chain(numbered);
    match form {
        CompactForm::Static => {
            let is_counter = columns.iter().any(|column| column.ty.is_counter());
            let value = match is_counter {
                true => CqlType::Counter,
                false => CqlType::Blob,
            };
            let names = (1..).map(|i: u32| format!("column{i}"));
            add_under(columns, names, CqlType::Text, ColumnKind::Clustering);
            add_under(columns, value_names, value, ColumnKind::Regular);
        }
        CompactForm::Dense => {
            let has_value = columns.iter().any(|c| c.kind == ColumnKind::Regular);
            if !has_value {
                add_under(columns, value_names, CqlType::Empty, ColumnKind::Regular);
            }
        }
    }
}

/// Adds a column under the first of the names that is free.
fn add_under(
    columns: &mut Vec<Column>,
    mut names: impl Iterator<Item = String>,
    ty: CqlType,
    kind: ColumnKind,
) {
    let is_free = |name: &String| columns.iter().all(|column| *column.name != **name);
    if let Some(name) = names.find(is_free) {
        columns.push(Column {
            id: ColumnId(columns.len() as u32),
            name: Arc::from(name),
            ty,
            kind,
            position: 0,
            order: Order::Ascending,
        });
    }
}

/// The columns of a statement by name, with their types.
type Types<'s> = BTreeMap<&'s [u8], (&'s ColumnDefinition, CqlType)>;

/// The primary key, and the names of all its columns.
fn check_key<'s>(
    keyspace: &Keyspace,
    statement: &'s CreateTable,
    types: &Types<'s>,
) -> Result<(&'s PrimaryKey, BTreeSet<&'s [u8]>), CqlError> {
    let table = statement.table.name.as_str();
    let [key] = statement.primary_keys.as_slice() else {
        return invalid(format!("Table '{table}' needs exactly one PRIMARY KEY"));
    };
    let mut in_key = BTreeSet::new();
    for name in key.partition.iter().chain(&key.clustering) {
        let Some((column, ty)) = types.get(name.as_bytes()) else {
            return invalid(format!(
                "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
            ));
        };
        if !in_key.insert(name.as_bytes()) {
            return invalid(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
            ));
        }
        check_key_column(&keyspace.name, column, ty)?;
    }
    Ok((key, in_key))
}

pub(super) fn kind_of(column: &ColumnDefinition) -> ColumnKind {
    if column.is_static {
        ColumnKind::Static
    } else {
        ColumnKind::Regular
    }
}

pub(super) fn static_without_clustering<T>() -> Result<T, CqlError> {
    invalid(
        "Static columns are only useful (and thus allowed) if the table has at least one \
         clustering column"
            .to_owned(),
    )
}

/// A non-frozen user type with fields that are themselves spread over cells.
pub(super) fn has_nested_collections(ty: &CqlType) -> bool {
    match ty {
        CqlType::Udt {
            definition,
            frozen: false,
        } => definition.fields.iter().any(|(_, ty)| ty.is_multi_cell()),
        _ => false,
    }
}

fn check_key_column(
    keyspace: &str,
    column: &ColumnDefinition,
    ty: &CqlType,
) -> Result<(), CqlError> {
    let name = &column.name;
    if ty.is_multi_cell() {
        if let CqlType::Udt { definition, .. } = ty {
            return invalid(format!(
                "Invalid non-frozen user-defined type \"{keyspace}.{}\" for PRIMARY KEY column \
                 '{name}'",
                definition.name
            ));
        }
        return invalid(format!(
            "Invalid non-frozen collection type {ty} for PRIMARY KEY column '{name}'"
        ));
    }
    for (kind, text) in [
        (CqlType::Counter, "counter"),
        (CqlType::Duration, "duration"),
    ] {
        if ty.has(&kind) {
            return invalid(format!(
                "{text} type is not supported for PRIMARY KEY column '{name}'"
            ));
        }
    }
    if column.is_static {
        return invalid(format!(
            "Static column '{name}' cannot be part of the PRIMARY KEY"
        ));
    }
    Ok(())
}

/// Is the column of a type that is written backwards, `'ReversedType(Int32Type)'`? It descends then, whatever
/// the order says.
fn is_reversed(statement: &CreateTable, column: &str) -> bool {
    let mut columns = statement.columns.iter();
    columns.any(|definition| match &definition.ty {
        DataType::Custom(class) if definition.name == column => {
            matches!(
                CqlType::from_marshal_ordered(class),
                Ok((_, Order::Descending))
            )
        }
        _ => false,
    })
}

/// The direction of each clustering column: those not named ascend.
fn clustering_orders(
    statement: &CreateTable,
    clustering: &[String],
) -> Result<Vec<Order>, CqlError> {
    let given = &statement.clustering_order;
    for ((name, _), column) in given.iter().zip(clustering) {
        if name == column {
            continue;
        }
        if given.iter().any(|(name, _)| name == column) {
            return invalid(format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the \
                 clustering columns ({column} must appear before {name})"
            ));
        }
        return invalid(format!("Missing CLUSTERING ORDER for column {column}"));
    }
    let order_of = |column: &String| {
        if is_reversed(statement, column) {
            return Order::Descending;
        }
        let found = given.iter().find(|(name, _)| name == column);
        found.map_or(Order::Ascending, |(_, order)| *order)
    };
    Ok(clustering.iter().map(order_of).collect())
}

/// A counter that is named by its class makes no table one of counters, as Cassandra sees it
/// (`TableMetadata.validate`).
fn check_named_counters(keyspace: &str, table: &str, types: &Types<'_>) -> Result<(), CqlError> {
    let mut counters = types.values().filter(|(_, ty)| ty.is_counter());
    let Some((first, _)) = counters.clone().next() else {
        return Ok(());
    };
    match counters.all(|(column, _)| matches!(column.ty, DataType::Custom(_))) {
        true => counter_among_others(keyspace, table, &first.name),
        false => Ok(()),
    }
}

pub(super) fn counter_among_others<T>(
    keyspace: &str,
    table: &str,
    column: &str,
) -> Result<T, CqlError> {
    Err(CqlError::Config(format!(
        "{keyspace}.{table}: Cannot have a counter column (\"{column}\") in a non counter table"
    )))
}

fn check_counters(
    types: &Types<'_>,
    in_key: &BTreeSet<&[u8]>,
    default_time_to_live: i32,
) -> Result<(), CqlError> {
    let mut values = types
        .iter()
        .filter(|(name, _)| !in_key.contains(*name))
        .map(|(_, (_, ty))| ty);
    if !values.clone().any(CqlType::is_counter) {
        return Ok(());
    }
    if !values.all(CqlType::is_counter) {
        return invalid("Cannot mix counter and non counter columns in the same table".to_owned());
    }
    if default_time_to_live > 0 {
        return ttl_of_counters();
    }
    Ok(())
}

pub(super) fn ttl_of_counters<T>() -> Result<T, CqlError> {
    invalid("Cannot set default_time_to_live on a table with counters".to_owned())
}

/// Is this a table of counters, or was it one?
pub fn is_counter_table(table: &Table) -> bool {
    table.columns().any(|column| column.ty.is_counter())
        || table.dropped.iter().any(|column| column.ty.is_counter())
}

/// What every table must fulfil, however it was made (`TableMetadata.validate`).
pub(super) fn validate(table: &Table) -> Result<(), CqlError> {
    let name = &table.name;
    let refuse = |reason: String| {
        Err(CqlError::Config(format!(
            "{}.{name}: {reason}",
            table.keyspace
        )))
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return refuse(format!(
            "Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"{name}\")"
        ));
    }
    if name.len() > MAX_NAME {
        return refuse(format!(
            "Table name must not be more than {MAX_NAME} characters long (got {} characters for \
             \"{name}\")",
            name.len()
        ));
    }
    let is_counter = is_counter_table(table);
    for column in table.statics().chain(table.regulars()) {
        let name = &column.name;
        if is_counter && !column.ty.is_counter() {
            return refuse(format!(
                "Cannot have a non counter column (\"{name}\") in a counter table"
            ));
        }
    }
    Ok(())
}

pub(super) fn drop(schema: &Schema, statement: &Drop) -> Result<SchemaChange, CqlError> {
    let (keyspace, name) = (keyspace_of(&statement.name), statement.name.name.as_str());
    let found = schema.keyspaces.get(keyspace);
    if let Some(found) = found {
        unserved::check_drop_table(found, name)?;
    }
    let Some(found) = found.filter(|k| k.tables.contains_key(name)) else {
        if statement.if_exists {
            return Ok(unchanged(schema));
        }
        return invalid(format!("Table '{keyspace}.{name}' doesn't exist"));
    };
    if let Some(table) = found.tables.get(name) {
        views::check_drop_table(found, table)?;
    }
    let mut rest = Keyspace::clone(found);
    rest.tables.remove(name);
    // Their rows go with those of the table.
    rest.unserved.indexes.retain(|index| *index.table != *name);
    rest.unserved.masks.retain(|(table, _)| **table != *name);
    Ok(changed(
        with_keyspace(schema, rest),
        ChangeKind::Dropped,
        ChangeTarget::Table,
        keyspace,
        name,
    ))
}
