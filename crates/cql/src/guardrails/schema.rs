//! What guardrails say of statements that change the schema.

use std::borrow::Cow;

use model::Schema;
use uuid::Uuid;

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
    ///
    /// Cassandra looks at some of it before it looks at what there is (`validate`), and at the rest (`apply`)
    /// once it has found what is to be changed, or nothing in its way: where that is not so, nothing is
    /// said of the rest, and whoever executes the statement says what is wrong.
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
            Statement::CreateView(create) if may_create_view(create, schema).is_some() => {
                self.properties(&create.properties, warnings)?
            }
            Statement::AlterView(alter) if table_of(schema, &alter.view).is_some() => {
                self.properties(&alter.properties, warnings)?
            }
            Statement::AlterTable(AlterTable {
                action: AlterTableAction::With(properties),
                ..
            }) => self.properties(properties, warnings)?,
            _ => Vec::new(),
        };
        if !ignored.is_empty() {
            plan = Cow::Owned(plan.without_properties(&ignored));
        }
        self.check_statement(&plan, schema, warnings)?;
        Ok(plan)
    }

    fn check_statement(
        &self,
        plan: &SchemaPlan,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match plan.statement() {
            Statement::CreateKeyspace(create) => {
                let count = user_keyspaces(schema).count() + 1;
                self.guard(Limit::Keyspaces, &create.name, count as u64, warnings)?;
                self.check_strategy(&create.properties, warnings)?;
                if schema.keyspaces.contains_key(create.name.as_str()) {
                    return Ok(());
                }
                self.check_factors(&create.name, &create.properties, schema, warnings)
            }
            Statement::AlterKeyspace(alter) => {
                if !schema.keyspaces.contains_key(alter.name.as_str()) {
                    return Ok(());
                }
                self.check_strategy(&alter.properties, warnings)?;
                self.check_factors(&alter.name, &alter.properties, schema, warnings)
            }
            Statement::DropKeyspace { .. } => self.ensure(Switch::DropKeyspace, None, warnings),
            Statement::CreateTable(create) => {
                self.check_create_table((plan, create), schema, warnings)
            }
            Statement::CopyTable(copy) => self.check_tables(&copy.table, schema, warnings),
            Statement::AlterTable(alter) => self.check_alter_table((plan, alter), schema, warnings),
            Statement::DropTable(_) => self.ensure(Switch::DropTruncateTable, None, warnings),
            Statement::CreateType(create) => {
                let count = create.fields.len() as u64;
                self.guard(Limit::FieldsPerUdt, &create.name.name, count, warnings)?;
                for (field, ty) in &create.fields {
                    self.check_type(&format!("Field {field}"), ty, warnings)?;
                }
                Ok(())
            }
            Statement::AlterType(alter) => self.check_alter_type((plan, alter), schema, warnings),
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
        let options = options.filter(|options| {
            let class = options.get("class").map_or("", String::as_str);
            let class = class.rsplit('.').next().unwrap_or(class);
            matches!(class, "SimpleStrategy" | "NetworkTopologyStrategy")
        });
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
        (plan, create): (&SchemaPlan, &CreateTable),
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let count = create.columns.len() as u64;
        self.guard(Limit::ColumnsPerTable, &create.table.name, count, warnings)?;
        self.check_tables(&create.table, schema, warnings)?;
        if create.compact_storage {
            self.ensure(Switch::CompactTables, None, warnings)?;
        }
        self.check_ttl_in_windows(&create.properties, warnings)?;
        self.check_columns(&create.columns, warnings)?;
        if table_of(schema, &create.table).is_none() {
            self.check_compression(plan, &create.properties, schema, warnings)?;
        }
        Ok(())
    }

    /// Tables in time windows whose rows live for ever, as far as the statement itself tells
    /// (`AlterSchemaStatement.validateDefaultTimeToLive`).
    fn check_ttl_in_windows(
        &self,
        properties: &[Property],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let class = map(properties, "compaction", "class").unwrap_or_default();
        let in_windows = class.rsplit('.').next() == Some("TimeWindowCompactionStrategy");
        let ttl = properties.iter().find(|p| p.name == DEFAULT_TTL);
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

    /// Cassandra asks once it has made the table, so not of statements that are wrong.
    fn check_compression(
        &self,
        plan: &SchemaPlan,
        properties: &[Property],
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let enabled = map(properties, "compression", "enabled");
        let class = map(properties, "compression", "sstable_compression")
            .or_else(|| map(properties, "compression", "class"));
        let off = enabled.is_some_and(|enabled| enabled.eq_ignore_ascii_case("false"))
            || class.is_some_and(str::is_empty);
        match off && !self.enabled(Switch::UncompressedTables) && after(plan, schema).is_some() {
            true => self.ensure(Switch::UncompressedTables, None, warnings),
            false => Ok(()),
        }
    }

    fn check_alter_table(
        &self,
        (plan, alter): (&SchemaPlan, &AlterTable),
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        match &alter.action {
            AlterTableAction::Add { columns, .. } => self.check_columns(columns, warnings)?,
            AlterTableAction::With(properties) => {
                self.check_ttl_in_windows(properties, warnings)?
            }
            _ => {}
        }
        if table_of(schema, &alter.table).is_none_or(|table| table.view.is_some()) {
            return Ok(());
        }
        let changing = Some("ALTER TABLE changing columns");
        match &alter.action {
            AlterTableAction::Add { .. } => {
                self.ensure(Switch::AlterTable, changing, warnings)?;
                if !self.limits(Limit::ColumnsPerTable) {
                    return Ok(());
                }
                let after = after(plan, schema);
                let table = after
                    .as_ref()
                    .and_then(|after| table_of(after, &alter.table));
                let count = table.map_or(0, |table| table.columns().count() as u64);
                self.guard(Limit::ColumnsPerTable, &alter.table.name, count, warnings)
            }
            AlterTableAction::Drop { .. } | AlterTableAction::Rename { .. } => {
                self.ensure(Switch::AlterTable, changing, warnings)
            }
            AlterTableAction::With(properties) => {
                self.check_compression(plan, properties, schema, warnings)
            }
            _ => Ok(()),
        }
    }

    /// A field that there is not yet, if it can be added.
    fn check_alter_type(
        &self,
        (plan, alter): (&SchemaPlan, &AlterType),
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let AlterTypeAction::Add { field, ty, .. } = &alter.action else {
            return Ok(());
        };
        let fields = |schema: &Schema| {
            let keyspace = alter.name.keyspace.as_deref().unwrap_or_default();
            let keyspace = schema.keyspaces.get(keyspace)?;
            let known = keyspace.types.get(alter.name.name.as_str())?;
            Some(known.fields.len() as u64)
        };
        let count = after(plan, schema).and_then(|after| fields(&after));
        match count {
            Some(count) if fields(schema) != Some(count) => {
                self.guard(Limit::FieldsPerUdt, &alter.name.name, count, warnings)?;
                self.check_type(&format!("Field {field}"), ty, warnings)
            }
            _ => Ok(()),
        }
    }

    fn check_index(
        &self,
        create: &CreateIndex,
        schema: &Schema,
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let creating = Some("Creating secondary indexes");
        self.ensure(Switch::SecondaryIndexes, creating, warnings)?;
        let Some(table) = table_of(schema, &create.table) else {
            return Ok(());
        };
        let name = create.name.as_deref();
        let keyspace = schema.keyspaces.get(&*table.keyspace);
        let tables = keyspace
            .into_iter()
            .flat_map(|keyspace| keyspace.tables.values());
        let mut indexes = tables.flat_map(|table| &table.indexes);
        if name.is_some_and(|name| indexes.any(|index| &*index.name == name)) {
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
        let Some(base) = may_create_view(create, schema) else {
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

/// The table of a new view, if that is there and nothing has the name of the view.
fn may_create_view<'s>(create: &CreateView, schema: &'s Schema) -> Option<&'s model::Table> {
    let base = table_of(schema, &create.base)?;
    table_of(schema, &create.view).is_none().then_some(base)
}

/// The schema after a statement; `None` if it cannot be executed.
fn after(plan: &SchemaPlan, schema: &Schema) -> Option<Schema> {
    // Ids and times are of no account here, nor are data centers, as no keyspace is looked at.
    let changed = plan.apply(schema, Uuid::nil, 0, &[]);
    changed.ok().map(|change| change.schema)
}

fn user_keyspaces(schema: &Schema) -> impl Iterator<Item = &model::Keyspace> {
    let keyspaces = schema.keyspaces.values().map(|keyspace| &**keyspace);
    keyspaces.filter(|keyspace| !is_system_keyspace(&keyspace.name))
}

fn table_of<'s>(schema: &'s Schema, name: &QualifiedName) -> Option<&'s model::Table> {
    let table = schema.table(name.keyspace.as_deref()?, &name.name);
    table.map(|table| &**table)
}
