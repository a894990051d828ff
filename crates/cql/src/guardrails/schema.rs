//! What guardrails say of statements that change the schema.

use std::borrow::Cow;

use model::Schema;

use crate::CqlError;
use crate::ast::{
    AlterTable, AlterTableAction, AlterType, AlterTypeAction, ColumnDefinition, CreateIndex,
    CreateTable, CreateView, DataType, Property, PropertyValue, QualifiedName, Statement,
};
use crate::schema::{SchemaPlan, is_system_keyspace};

use super::{Guardrails, Limit, Switch, Values};

/// The option of tables whose rows live for so many seconds.
const DEFAULT_TTL: &str = "default_time_to_live";

impl Guardrails {
    /// Checks a statement on the schema it is to change (`AlterSchemaStatement` and its kinds). What is
    /// to be executed: properties that are ignored are left out.
    pub fn check_schema<'p>(
        &self,
        plan: &'p SchemaPlan,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<Cow<'p, SchemaPlan>, CqlError> {
        let mut plan = Cow::Borrowed(plan);
        let ignored = match plan.statement() {
            Statement::CreateTable(create) => self.properties(&create.properties, warnings)?,
            Statement::CopyTable(copy) => self.properties(&copy.properties, warnings)?,
            Statement::CreateView(create) => self.properties(&create.properties, warnings)?,
            Statement::AlterView(alter) => self.properties(&alter.properties, warnings)?,
            Statement::AlterTable(AlterTable {
                action: AlterTableAction::With(properties),
                ..
            }) => self.properties(properties, warnings)?,
            _ => Vec::new(),
        };
        if !ignored.is_empty() {
            plan = Cow::Owned(plan.without_properties(&ignored));
        }
        self.check_statement(plan.statement(), schema, warnings)?;
        Ok(plan)
    }

    fn check_statement(
        &self,
        statement: &Statement,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match statement {
            Statement::CreateKeyspace(create) => {
                self.check_strategy(&create.properties, warnings)?;
                let count = user_keyspaces(schema).count() + 1;
                self.guard(Limit::Keyspaces, &create.name, count as u64, warnings)?;
                if schema.keyspaces.contains_key(create.name.as_str()) {
                    return Ok(());
                }
                self.check_factors(&create.name, &create.properties, schema, warnings)
            }
            Statement::AlterKeyspace(alter) => {
                self.check_strategy(&alter.properties, warnings)?;
                self.check_factors(&alter.name, &alter.properties, schema, warnings)
            }
            Statement::DropKeyspace { .. } => self.ensure(Switch::DropKeyspace, None, warnings),
            Statement::CreateTable(create) => self.check_create_table(create, schema, warnings),
            Statement::CopyTable(copy) => self.check_tables(&copy.table, schema, warnings),
            Statement::AlterTable(alter) => self.check_alter_table(alter, schema, warnings),
            Statement::DropTable(_) => self.ensure(Switch::DropTruncateTable, None, warnings),
            Statement::CreateType(create) => {
                for (field, ty) in &create.fields {
                    self.check_type(&format!("Field {field}"), ty, warnings)?;
                }
                let count = create.fields.len() as u64;
                self.guard(Limit::FieldsPerUdt, &create.name.name, count, warnings)
            }
            Statement::AlterType(alter) => self.check_alter_type(alter, schema, warnings),
            Statement::CreateIndex(create) => self.check_index(create, schema, warnings),
            Statement::CreateView(create) => self.check_view(create, schema, warnings),
            _ => Ok(()),
        }
    }

    /// The properties that are to be left out.
    fn properties(
        &self,
        properties: &[Property],
        warnings: &mut Vec<String>,
    ) -> Result<Vec<String>, CqlError> {
        let names: Vec<&str> = properties.iter().map(|p| p.name.as_str()).collect();
        self.guard_values(Values::TableProperties, &names, warnings)
    }

    fn check_strategy(
        &self,
        properties: &[Property],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let class = map(properties, "replication", "class");
        if class.is_some_and(|class| class == "SimpleStrategy") {
            self.ensure(Switch::SimpleStrategy, None, warnings)?;
        }
        Ok(())
    }

    /// Each factor that is given; of an ALTER without any, those that there are.
    fn check_factors(
        &self,
        keyspace: &str,
        properties: &[Property],
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        if is_system_keyspace(keyspace) {
            return Ok(());
        }
        let given = properties.iter().find(|p| p.name == "replication");
        let options = match given.map(|property| &property.value) {
            Some(PropertyValue::Map(options)) => Some(options),
            _ => schema
                .keyspaces
                .get(keyspace)
                .map(|known| &known.replication),
        };
        for (name, factor) in options.into_iter().flatten() {
            if let (true, Ok(factor)) = (name != "class", factor.parse()) {
                self.guard(Limit::MinimumReplicationFactor, keyspace, factor, warnings)?;
                self.guard(Limit::MaximumReplicationFactor, keyspace, factor, warnings)?;
            }
        }
        Ok(())
    }

    fn check_create_table(
        &self,
        create: &CreateTable,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let count = create.columns.len() as u64;
        self.guard(Limit::ColumnsPerTable, &create.table.name, count, warnings)?;
        if create.compact_storage {
            self.ensure(Switch::CompactTables, None, warnings)?;
        }
        self.check_tables(&create.table, schema, warnings)?;
        self.check_columns(&create.columns, warnings)?;
        self.check_compression(&create.properties, warnings)?;
        let class = map(&create.properties, "compaction", "class").unwrap_or_default();
        let in_windows = class.rsplit('.').next() == Some("TimeWindowCompactionStrategy");
        let ttl = create.properties.iter().find(|p| p.name == DEFAULT_TTL);
        if in_windows && ttl.is_none_or(|ttl| ttl.value == PropertyValue::Text("0".to_owned())) {
            self.ensure(Switch::ZeroTtlOnTwcs, None, warnings)?;
        }
        Ok(())
    }

    fn check_tables(
        &self,
        table: &QualifiedName,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let tables: usize = user_keyspaces(schema)
            .map(|keyspace| keyspace.tables.len())
            .sum();
        self.guard(Limit::Tables, &table.name, tables as u64 + 1, warnings)
    }

    fn check_columns(
        &self,
        columns: &[ColumnDefinition],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        for column in columns {
            self.check_type(&format!("Column {}", column.name), &column.ty, warnings)?;
        }
        Ok(())
    }

    /// The vectors in a type (`CQL3Type.Raw.validate`).
    fn check_type(
        &self,
        what: &str,
        ty: &DataType,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match ty {
            DataType::Vector(element, dimension) => {
                self.ensure(Switch::VectorType, Some(what), warnings)?;
                let dimension = u64::try_from(*dimension).unwrap_or(0);
                self.guard(Limit::VectorDimensions, what, dimension, warnings)?;
                self.check_type(what, element, warnings)
            }
            DataType::List(inner) | DataType::Set(inner) | DataType::Frozen(inner) => {
                self.check_type(what, inner, warnings)
            }
            DataType::Map(key, value) => {
                self.check_type(what, key, warnings)?;
                self.check_type(what, value, warnings)
            }
            DataType::Tuple(components) => components
                .iter()
                .try_for_each(|component| self.check_type(what, component, warnings)),
            _ => Ok(()),
        }
    }

    fn check_compression(
        &self,
        properties: &[Property],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let enabled = map(properties, "compression", "enabled");
        let class = map(properties, "compression", "sstable_compression")
            .or_else(|| map(properties, "compression", "class"));
        let off = enabled.is_some_and(|enabled| enabled.eq_ignore_ascii_case("false"))
            || class.is_some_and(str::is_empty);
        match off {
            true => self.ensure(Switch::UncompressedTables, None, warnings),
            false => Ok(()),
        }
    }

    fn check_alter_table(
        &self,
        alter: &AlterTable,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let changing = Some("ALTER TABLE changing columns");
        match &alter.action {
            AlterTableAction::Add { columns, .. } => {
                self.ensure(Switch::AlterTable, changing, warnings)?;
                self.check_columns(columns, warnings)?;
                let table = table_of(schema, &alter.table);
                let known = table.map_or(0, |table| table.columns().count());
                let count = (known + columns.len()) as u64;
                self.guard(Limit::ColumnsPerTable, &alter.table.name, count, warnings)
            }
            AlterTableAction::Drop { .. } | AlterTableAction::Rename { .. } => {
                self.ensure(Switch::AlterTable, changing, warnings)
            }
            AlterTableAction::With(properties) => self.check_compression(properties, warnings),
            _ => Ok(()),
        }
    }

    fn check_alter_type(
        &self,
        alter: &AlterType,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let AlterTypeAction::Add { field, ty, .. } = &alter.action else {
            return Ok(());
        };
        self.check_type(&format!("Field {field}"), ty, warnings)?;
        let keyspace = alter.name.keyspace.as_deref().unwrap_or_default();
        let keyspace = schema.keyspaces.get(keyspace);
        let known = keyspace.and_then(|keyspace| keyspace.types.get(alter.name.name.as_str()));
        let Some(known) = known else {
            return Ok(());
        };
        let count = known.fields.len() as u64 + 1;
        self.guard(Limit::FieldsPerUdt, &alter.name.name, count, warnings)
    }

    fn check_index(
        &self,
        create: &CreateIndex,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        self.ensure(Switch::SecondaryIndexes, None, warnings)?;
        let Some(table) = table_of(schema, &create.table) else {
            return Ok(());
        };
        let name = create.name.as_deref();
        if name.is_some_and(|name| table.indexes.iter().any(|index| &*index.name == name)) {
            return Ok(());
        }
        let what = match name {
            Some(name) => format!("{name} on table {}", table.name),
            None => format!("on table {}", table.name),
        };
        let count = table.indexes.len() as u64 + 1;
        self.guard(Limit::SecondaryIndexesPerTable, &what, count, warnings)
    }

    fn check_view(
        &self,
        create: &CreateView,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let Some(base) = table_of(schema, &create.base) else {
            return Ok(());
        };
        let count = schema.views_of(base).count() as u64 + 1;
        let what = format!("{} on table {}", create.view.name, base.name);
        self.guard(Limit::MaterializedViewsPerTable, &what, count, warnings)
    }
}

/// An entry of a property that is a map.
fn map<'p>(properties: &'p [Property], name: &str, key: &str) -> Option<&'p str> {
    let property = properties.iter().find(|property| property.name == name)?;
    match &property.value {
        PropertyValue::Map(entries) => entries.get(key).map(String::as_str),
        PropertyValue::Text(_) => None,
    }
}

fn user_keyspaces(schema: &Schema) -> impl Iterator<Item = &model::Keyspace> {
    let keyspaces = schema.keyspaces.values().map(|keyspace| &**keyspace);
    keyspaces.filter(|keyspace| !is_system_keyspace(&keyspace.name))
}

fn table_of<'s>(schema: &'s Schema, name: &QualifiedName) -> Option<&'s model::Table> {
    let keyspace = schema.keyspaces.get(name.keyspace.as_deref()?)?;
    keyspace
        .tables
        .get(name.name.as_str())
        .map(|table| &**table)
}
