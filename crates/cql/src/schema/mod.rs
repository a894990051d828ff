//! Statements that change the schema: what they mean, checked against the schema they change.
//!
//! A change is a pure function: [`SchemaPlan::apply`] takes a schema and gives a new one, or says
//! why not. It asks neither clock nor chance; ids of tables and the time are handed in. Checks,
//! their order and their texts are those of `org.apache.cassandra.cql3.statements.schema`.

mod aggregates;
mod compaction;
mod compression;
mod copies;
mod digest;
mod dropped_types;
mod events;
mod functions;
mod indexes;
mod keyspaces;
mod masks;
mod options;
mod properties;
mod replication;
mod retry;
mod sasi;
mod storage_attached;
mod system;
mod table_changes;
mod tables;
mod types;
mod unserved;
mod user_types;
mod views;
mod warnings;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Keyspace, Schema};
use uuid::Uuid;

use crate::CqlError;
use crate::ast::{AlterTableAction, CreateTrigger, FunctionName, QualifiedName, Statement};
use crate::error::invalid;
use crate::functions::FunctionLanguage;
use crate::term::{Request, Values};

pub use aggregates::initial_condition;
pub use digest::version_of;
pub use events::events_between;
pub use masks::{is_mask_served, masks_disabled};
pub use options::is_table_option;
pub use retry::normalize as normalize_retry;
pub use system::{is_local_system_keyspace, is_system_keyspace, is_virtual_keyspace};
pub use tables::is_counter_table;
pub use types::UserTypes;
pub(crate) use unserved::is_function as is_unserved_function;

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `CREATED`
    Created,
    /// `UPDATED`
    Updated,
    /// `DROPPED`
    Dropped,
}

/// What kind of part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    /// `KEYSPACE`
    Keyspace,
    /// `TABLE`
    Table,
    /// `TYPE`
    Type,
    /// `FUNCTION`
    Function,
    /// `AGGREGATE`
    Aggregate,
}

/// What clients are told of a change (native protocol, `SCHEMA_CHANGE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// What happened.
    pub kind: ChangeKind,
    /// To what.
    pub target: ChangeTarget,
    /// In which keyspace, or to which.
    pub keyspace: String,
    /// The table, type, function or aggregate; empty for keyspaces.
    pub name: String,
    /// The types of the arguments of a function or aggregate.
    pub arguments: Vec<String>,
}

/// What a statement makes of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaChange {
    /// The new schema, its version computed.
    pub schema: Schema,
    /// What clients are told; `None` where nothing changed.
    pub event: Option<ChangeEvent>,
}

/// A statement that changes the schema, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaPlan {
    statement: Statement,
}

/// What applying a change needs besides the schema.
pub(crate) struct Surroundings<'a> {
    ids: &'a mut dyn FnMut() -> Uuid,
    now_micros: i64,
    datacenters: &'a [&'a str],
    /// Is it the node itself that changes its own keyspaces?
    trusted: bool,
    /// What functions may be written in; `None` where they are switched off.
    language: Option<&'a dyn FunctionLanguage>,
    /// With what terms are evaluated.
    evaluation: &'a Request<'a>,
    /// May materialized views be made?
    views: bool,
    /// May SASI indexes be made?
    sasi: bool,
}

/// What the configuration allows that Cassandra's does not of itself.
#[derive(Clone, Copy, Default)]
pub struct Features<'a> {
    /// What functions may be written in; `None` where they are switched off
    /// (`user_defined_functions_enabled`).
    pub language: Option<&'a dyn FunctionLanguage>,
    /// With what terms are evaluated that call functions of users. Where these may give way, so does what
    /// is applied, and it is to be applied again.
    pub evaluation: Option<&'a Request<'a>>,
    /// May materialized views be made (`materialized_views_enabled`)?
    pub views: bool,
    /// May SASI indexes be made (`sasi_indexes_enabled`)?
    pub sasi: bool,
}

impl SchemaPlan {
    /// Fills in the keyspace in use and checks what needs no schema. `None` if the statement does
    /// not change the schema.
    pub fn new(
        statement: &Statement,
        keyspace: Option<&str>,
    ) -> Result<Option<SchemaPlan>, CqlError> {
        let mut statement = statement.clone();
        match &mut statement {
            Statement::CreateKeyspace(_)
            | Statement::AlterKeyspace(_)
            | Statement::DropKeyspace { .. } => {}
            Statement::CreateTable(create) => {
                // Messages name it as it is written.
                let written = create.table.clone();
                qualify(&mut create.table, keyspace)?;
                tables::check_form(create, &written)?;
            }
            Statement::CopyTable(copy) => {
                qualify(&mut copy.table, keyspace)?;
                qualify(&mut copy.source, keyspace)?;
                copies::check_form(copy)?;
            }
            Statement::AlterTable(alter) => {
                qualify(&mut alter.table, keyspace)?;
                table_changes::check_form(alter)?;
            }
            Statement::DropTable(drop)
            | Statement::DropType(drop)
            | Statement::DropIndex(drop)
            | Statement::DropView(drop) => qualify(&mut drop.name, keyspace)?,
            Statement::CreateIndex(create) => {
                indexes::check_form(create)?;
                qualify(&mut create.table, keyspace)?;
            }
            Statement::CreateView(create) => views::check_form(create, keyspace)?,
            Statement::AlterView(alter) => qualify(&mut alter.view, keyspace)?,
            Statement::CreateType(create) => qualify(&mut create.name, keyspace)?,
            Statement::AlterType(alter) => qualify(&mut alter.name, keyspace)?,
            Statement::CreateTrigger(create) => qualify(&mut create.table, keyspace)?,
            Statement::DropTrigger(drop) => qualify(&mut drop.table, keyspace)?,
            Statement::DropFunction(drop) | Statement::DropAggregate(drop) => {
                qualify_function(&mut drop.name, keyspace)?;
            }
            Statement::CreateFunction(create) => qualify_function(&mut create.name, keyspace)?,
            Statement::CreateAggregate(create) => qualify_function(&mut create.name, keyspace)?,
            _ => return Ok(None),
        }
        Ok(Some(SchemaPlan { statement }))
    }

    /// The keyspace the statement changes.
    pub fn keyspace(&self) -> &str {
        match &self.statement {
            Statement::CreateKeyspace(create) => &create.name,
            Statement::AlterKeyspace(alter) => &alter.name,
            Statement::DropKeyspace { name, .. } => name,
            Statement::CreateTable(create) => keyspace_of(&create.table),
            Statement::CopyTable(copy) => keyspace_of(&copy.table),
            Statement::AlterTable(alter) => keyspace_of(&alter.table),
            Statement::DropTable(drop)
            | Statement::DropType(drop)
            | Statement::DropIndex(drop)
            | Statement::DropView(drop) => keyspace_of(&drop.name),
            Statement::CreateIndex(create) => keyspace_of(&create.table),
            Statement::CreateView(create) => keyspace_of(&create.view),
            Statement::AlterView(alter) => keyspace_of(&alter.view),
            Statement::CreateType(create) => keyspace_of(&create.name),
            Statement::AlterType(alter) => keyspace_of(&alter.name),
            Statement::CreateTrigger(create) => keyspace_of(&create.table),
            Statement::DropTrigger(drop) => keyspace_of(&drop.table),
            Statement::DropFunction(drop) | Statement::DropAggregate(drop) => {
                keyspace_of_function(&drop.name)
            }
            Statement::CreateFunction(create) => keyspace_of_function(&create.name),
            Statement::CreateAggregate(create) => keyspace_of_function(&create.name),
            _ => "",
        }
    }

    /// The statement, its names qualified.
    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The same without some of its properties.
    pub(crate) fn without_properties(&self, names: &[String]) -> SchemaPlan {
        let mut plan = self.clone();
        let properties = match &mut plan.statement {
            Statement::CreateTable(create) => Some(&mut create.properties),
            Statement::CopyTable(copy) => Some(&mut copy.properties),
            Statement::CreateView(create) => Some(&mut create.properties),
            Statement::AlterView(alter) => Some(&mut alter.properties),
            Statement::AlterTable(alter) => match &mut alter.action {
                AlterTableAction::With(properties) => Some(properties),
                _ => None,
            },
            _ => None,
        };
        if let Some(properties) = properties {
            properties.retain(|property| !names.contains(&property.name));
        }
        plan
    }

    /// What clients are warned of who executed it: it made the schema `after` from `before`, in a
    /// cluster with so many nodes in each data centre.
    pub fn warnings(
        &self,
        before: &Schema,
        after: &Schema,
        nodes: &BTreeMap<&str, usize>,
    ) -> Vec<String> {
        warnings::of(&self.statement, before, after, nodes)
    }

    /// Does it give a column a mask? That is for whoever has `dynamic_data_masking_enabled`; others are
    /// told [`masks_disabled`].
    pub fn gives_mask(&self) -> bool {
        masks::gives_mask(&self.statement)
    }

    /// The schema after the statement. `ids` gives ids to new tables, `now_micros` is when columns
    /// are dropped (microseconds since 1970), `datacenters` are those that replication may name.
    /// Functions and views are switched off.
    pub fn apply(
        &self,
        schema: &Schema,
        ids: impl FnMut() -> Uuid,
        now_micros: i64,
        datacenters: &[&str],
    ) -> Result<SchemaChange, CqlError> {
        self.apply_with(schema, ids, now_micros, datacenters, Features::default())
    }

    /// As [`SchemaPlan::apply`], with what else is allowed.
    pub fn apply_with(
        &self,
        schema: &Schema,
        mut ids: impl FnMut() -> Uuid,
        now_micros: i64,
        datacenters: &[&str],
        features: Features<'_>,
    ) -> Result<SchemaChange, CqlError> {
        system::authorize(&self.statement, self.keyspace())?;
        keyspaces::check_name(self.keyspace())?;
        let alone = Request::new(Values::NONE, now_micros, 0);
        let surroundings = Surroundings {
            ids: &mut ids,
            now_micros,
            datacenters,
            trusted: false,
            language: features.language,
            evaluation: features.evaluation.unwrap_or(&alone),
            views: features.views,
            sasi: features.sasi,
        };
        let mut changed = self.change(schema, surroundings)?;
        if changed.schema.keyspaces == schema.keyspaces {
            return Ok(SchemaChange {
                schema: schema.clone(),
                event: None,
            });
        }
        changed.schema.version = version_of(&changed.schema);
        Ok(changed)
    }

    /// The schema after the statement, if the node itself defines its keyspaces by it: no user
    /// may, and the strategy that is the node's own is allowed. Tables get their ids by `WITH id`.
    /// The version is left as it is.
    pub fn define_system(&self, schema: &Schema) -> Result<Schema, CqlError> {
        let mut ids = Uuid::nil;
        let alone = Request::new(Values::NONE, 0, 0);
        let surroundings = Surroundings {
            ids: &mut ids,
            now_micros: 0,
            datacenters: &[],
            trusted: true,
            language: None,
            evaluation: &alone,
            views: false,
            sasi: false,
        };
        Ok(self.change(schema, surroundings)?.schema)
    }

    fn change(&self, schema: &Schema, with: Surroundings<'_>) -> Result<SchemaChange, CqlError> {
        match &self.statement {
            Statement::CreateKeyspace(create) => keyspaces::create(schema, create, with),
            Statement::AlterKeyspace(alter) => keyspaces::alter(schema, alter, with),
            Statement::DropKeyspace { name, if_exists } => {
                keyspaces::drop(schema, name, *if_exists)
            }
            Statement::CreateTable(create) => tables::create(schema, create, with),
            Statement::CopyTable(copy) => copies::create(schema, copy, with),
            Statement::AlterTable(alter) => table_changes::alter(schema, alter, with),
            Statement::DropTable(drop) => tables::drop(schema, drop),
            Statement::CreateIndex(create) => indexes::create(schema, create, with.sasi),
            Statement::CreateView(create) => views::create(schema, create, with),
            Statement::AlterView(alter) => views::alter(schema, alter),
            Statement::DropView(drop) => views::drop(schema, drop),
            Statement::DropIndex(drop) => indexes::drop(schema, drop),
            Statement::CreateType(create) => user_types::create(schema, create),
            Statement::AlterType(alter) => user_types::alter(schema, alter),
            Statement::DropType(drop) => user_types::drop(schema, drop),
            Statement::CreateFunction(create) => functions::create(schema, create, with.language),
            Statement::DropFunction(drop) => functions::drop(schema, drop),
            Statement::CreateAggregate(create) => {
                aggregates::create(schema, create, with.evaluation)
            }
            Statement::DropAggregate(drop) => aggregates::drop(schema, drop),
            Statement::CreateTrigger(create) => create_trigger(schema, create),
            other => drop_unsupported(schema, other),
        }
    }
}

fn unchanged(schema: &Schema) -> SchemaChange {
    SchemaChange {
        schema: schema.clone(),
        event: None,
    }
}

/// The schema with one keyspace replaced or added.
fn with_keyspace(schema: &Schema, keyspace: Keyspace) -> Schema {
    let mut schema = schema.clone();
    schema
        .keyspaces
        .insert(keyspace.name.clone(), Arc::new(keyspace));
    schema
}

fn changed(
    schema: Schema,
    kind: ChangeKind,
    target: ChangeTarget,
    keyspace: &str,
    name: &str,
) -> SchemaChange {
    SchemaChange {
        schema,
        event: Some(ChangeEvent {
            kind,
            target,
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            arguments: Vec::new(),
        }),
    }
}

fn in_use(keyspace: Option<&str>) -> Result<&str, CqlError> {
    keyspace.ok_or_else(|| {
        CqlError::Invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename"
                .to_owned(),
        )
    })
}

fn qualify(name: &mut QualifiedName, keyspace: Option<&str>) -> Result<(), CqlError> {
    if name.keyspace.is_none() {
        name.keyspace = Some(in_use(keyspace)?.to_owned());
    }
    Ok(())
}

fn qualify_function(name: &mut FunctionName, keyspace: Option<&str>) -> Result<(), CqlError> {
    if name.keyspace.is_none() {
        name.keyspace = Some(in_use(keyspace)?.to_owned());
    }
    Ok(())
}

/// The keyspace of a name that is qualified.
fn keyspace_of_function(name: &FunctionName) -> &str {
    name.keyspace.as_deref().unwrap_or_default()
}

/// The keyspace of a name that is qualified.
fn keyspace_of(name: &QualifiedName) -> &str {
    name.keyspace.as_deref().unwrap_or_default()
}

/// `CREATE TRIGGER`: the class of a trigger is a Java class, and none can be loaded here.
fn create_trigger(schema: &Schema, create: &CreateTrigger) -> Result<SchemaChange, CqlError> {
    let (keyspace_name, name) = (keyspace_of(&create.table), create.table.name.as_str());
    let Some(keyspace) = schema.keyspaces.get(keyspace_name) else {
        return invalid!("Keyspace '{keyspace_name}' doesn't exist");
    };
    match keyspace.tables.get(name) {
        None => {
            unserved::check_table(keyspace, name)?;
            invalid!("Table '{name}' doesn't exist")
        }
        Some(table) if table.view.is_some() => {
            invalid!("Cannot CREATE TRIGGER for a materialized view")
        }
        Some(_) => invalid!("Trigger class '{}' couldn't be loaded", create.class),
    }
}

/// DROP of what only Cassandra can have created.
fn drop_unsupported(schema: &Schema, statement: &Statement) -> Result<SchemaChange, CqlError> {
    let qualified = |name: &QualifiedName| format!("{}.{}", keyspace_of(name), name.name);
    let (if_exists, message) = match statement {
        Statement::DropTrigger(drop) => (
            drop.if_exists,
            format!(
                "Trigger '{}' on '{}' doesn't exist",
                drop.name,
                qualified(&drop.table)
            ),
        ),
        _ => (false, "The statement does not change the schema".to_owned()),
    };
    if if_exists {
        return Ok(unchanged(schema));
    }
    Err(CqlError::Invalid(message))
}
