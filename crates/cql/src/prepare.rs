//! From a statement to its plan and to what clients are told of it.

use std::sync::Arc;

use model::{Keyspace, Schema, Table};

use crate::CqlError;
use crate::ast::{self, QualifiedName, RoleOptions, Statement};
use crate::describe::{DescribePlan, RESULT_TABLE};
use crate::error::invalid;
use crate::functions::Function;
use crate::plan::{Attributes, BatchPlan, ModifyPlan, Plan, SelectPlan, TruncatePlan};
use crate::schema::SchemaPlan;
use crate::term::{Analysis, ColumnSpec, MarkerSpec, Value, Values};

/// What a statement is analysed against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// All tables and types.
    pub schema: &'a Schema,
    /// The keyspace of names that say none.
    pub keyspace: Option<&'a str>,
}

/// A statement, ready to be executed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What it does.
    pub plan: Plan,
    /// The keyspace it works on: for routing and permissions.
    pub keyspace: Option<String>,
    /// Names and types of its bind markers.
    pub bind_variables: Vec<ColumnSpec>,
    /// For each column of the partition key, the bind marker that brings it; empty where that is
    /// not so for each of them.
    pub partition_key_indexes: Vec<u16>,
    /// Names and types of the columns of its result; `None` if it has none.
    pub result_columns: Option<Vec<ColumnSpec>>,
    /// The functions of users that it calls.
    functions: Vec<Function>,
}

/// Parses and analyses a statement.
pub fn prepare(text: &str, context: &Context<'_>) -> Result<Prepared, CqlError> {
    prepare_statement(&crate::parse(text)?, context)
}

/// As [`prepare`], of several statements that may have [`MAX_TOKENS`](crate::MAX_TOKENS) together;
/// so many are `left`.
pub fn prepare_within(
    text: &str,
    context: &Context<'_>,
    left: &mut usize,
) -> Result<Prepared, CqlError> {
    prepare_statement(&crate::parse_within(text, left)?, context)
}

/// Analyses a statement. Errors: what the schema does not allow, and statements that are not
/// supported yet.
pub fn prepare_statement(
    statement: &Statement,
    context: &Context<'_>,
) -> Result<Prepared, CqlError> {
    match statement {
        Statement::Select(select) => {
            let (keyspace, table) = table_of(context, &select.table)?;
            let analysis = Analysis::new(&table, Some(&keyspace.types)).in_schema(context.schema);
            let plan = SelectPlan::new(&analysis, table.clone(), select)?;
            let columns = plan.columns().to_vec();
            let functions = analysis.used_functions();
            let mut prepared = Prepared::of_table(
                Plan::Select(Box::new(plan)),
                &table,
                analysis.into_markers(),
            )?;
            prepared.result_columns = Some(columns);
            prepared.functions = functions;
            Ok(prepared)
        }
        Statement::Modification(modification) => prepare_modification(modification, context),
        Statement::Batch(batch) => prepare_batch(batch, context),
        Statement::Truncate(truncate) => {
            let (_, table) = table_of(context, &truncate.table)?;
            let analysis = Analysis::new(&table, None);
            let plan = TruncatePlan::new(&analysis, table.clone(), truncate)?;
            let plan = Plan::Truncate(Box::new(plan));
            Prepared::of_table(plan, &table, analysis.into_markers())
        }
        Statement::Use(keyspace) => Ok(Prepared::simple(
            Plan::Use(keyspace.clone()),
            Some(keyspace.clone()),
        )),
        Statement::Describe(describe) => {
            let plan = DescribePlan::new(describe, context.keyspace);
            let spec = |(name, ty): (&str, model::CqlType)| ColumnSpec {
                keyspace: RESULT_TABLE.0.into(),
                table: RESULT_TABLE.1.into(),
                name: name.into(),
                ty,
            };
            let columns = plan.columns().into_iter().map(spec).collect();
            let mut prepared = Prepared::simple(
                Plan::Describe(Box::new(plan)),
                context.keyspace.map(str::to_owned),
            );
            prepared.result_columns = Some(columns);
            Ok(prepared)
        }
        other => match SchemaPlan::new(other, context.keyspace)? {
            Some(plan) => {
                let keyspace = plan.keyspace().to_owned();
                Ok(Prepared::simple(
                    Plan::Schema(Box::new(plan)),
                    Some(keyspace),
                ))
            }
            None => refuse_roles(other),
        },
    }
}

/// Statements about roles and permissions, as Cassandra answers them where nobody logs in.
fn refuse_roles(statement: &Statement) -> Result<Prepared, CqlError> {
    match statement {
        Statement::CreateRole(create) => {
            refuse_superuser(
                create.options.superuser == Some(true),
                "Only superusers can create a role with superuser status",
            )?;
            refuse_options(&create.options)?;
        }
        Statement::AlterRole(alter) => {
            refuse_superuser(
                alter.options.superuser.is_some(),
                "Only superusers are allowed to alter superuser status",
            )?;
            refuse_superuser(
                alter.options.data_centers.is_some(),
                "Only superusers are allowed to alter access to datacenters.",
            )?;
            refuse_superuser(
                alter.options.cidrs.is_some(),
                "Only superusers are allowed to alter access from CIDR groups.",
            )?;
            refuse_options(&alter.options)?;
            if alter.options == RoleOptions::default() {
                return invalid!("ALTER [ROLE|USER] can't be empty");
            }
        }
        _ => {}
    }
    match statement {
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::DropRole { .. }
        | Statement::GrantRole { .. }
        | Statement::RevokeRole { .. }
        | Statement::GrantPermissions(_)
        | Statement::RevokePermissions(_)
        | Statement::AddIdentity { .. }
        | Statement::DropIdentity { .. }
        | Statement::ListPermissions(_)
        | Statement::ListRoles { .. }
        | Statement::ListUsers => Err(CqlError::Unauthorized(
            "You have to be logged in and not anonymous to perform this request".to_owned(),
        )),
        _ => invalid!("this statement is not supported yet"),
    }
}

/// Where nobody logs in nobody is a superuser, who alone may make others that.
fn refuse_superuser(refused: bool, message: &str) -> Result<(), CqlError> {
    match refused {
        true => Err(CqlError::Unauthorized(message.to_owned())),
        false => Ok(()),
    }
}

/// Where nobody logs in the manager of the roles knows two options, `SUPERUSER` and `LOGIN`
/// (Cassandra's `CassandraRoleManager.supportedOptions`).
fn refuse_options(options: &RoleOptions) -> Result<(), CqlError> {
    let unknown = if options.password.is_some() {
        "PASSWORD"
    } else if options.hashed_password.is_some() {
        "HASHED_PASSWORD"
    } else if options.options.is_some() {
        "OPTIONS"
    } else {
        return Ok(());
    };
    invalid!("org.apache.cassandra.auth.CassandraRoleManager doesn't support {unknown}")
}

/// The table of a name, and its keyspace.
fn table_of<'a>(
    context: &Context<'a>,
    name: &QualifiedName,
) -> Result<(&'a Arc<Keyspace>, Arc<Table>), CqlError> {
    let Some(keyspace) = name.keyspace.as_deref().or(context.keyspace) else {
        return invalid!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename"
        );
    };
    let Some(found) = context.schema.keyspaces.get(keyspace) else {
        return invalid!("keyspace {keyspace} does not exist");
    };
    match found.tables.get(name.name.as_str()) {
        Some(table) => Ok((found, table.clone())),
        None if name.name.is_empty() => invalid!("table name must not be empty"),
        None => invalid!("table {} does not exist", name.name),
    }
}

fn prepare_modification(
    modification: &ast::Modification,
    context: &Context<'_>,
) -> Result<Prepared, CqlError> {
    let (keyspace, table) = table_of(context, modification.table())?;
    let analysis = Analysis::new(&table, Some(&keyspace.types)).in_schema(context.schema);
    let plan = ModifyPlan::new(&analysis, table.clone(), modification)?;
    plan.validate()?;
    let plan = Plan::Modify(Box::new(plan));
    let functions = analysis.used_functions();
    let mut prepared = Prepared::of_table(plan, &table, analysis.into_markers())?;
    prepared.functions = functions;
    Ok(prepared)
}

fn prepare_batch(batch: &ast::Batch, context: &Context<'_>) -> Result<Prepared, CqlError> {
    let analysis = Analysis::of_batch();
    let attributes = Attributes::new(&analysis, &batch.attributes)?;
    let mut markers = analysis.into_markers();
    let mut functions = Vec::new();
    let mut statements = Vec::with_capacity(batch.statements.len());
    for statement in &batch.statements {
        let (keyspace, table) = table_of(context, statement.table())?;
        let analysis = Analysis::new(&table, Some(&keyspace.types)).in_schema(context.schema);
        statements.push(ModifyPlan::new(&analysis, table.clone(), statement)?);
        functions.extend(analysis.used_functions());
        for (i, marker) in analysis.into_markers().into_iter().enumerate() {
            if markers.len() <= i {
                markers.resize(i + 1, None);
            }
            if marker.is_some() {
                markers[i] = marker;
            }
        }
    }
    let plan = BatchPlan::new(batch.kind, attributes, statements)?;
    let first = plan.statements().first().map(|first| first.table().clone());
    let keyspace = first.as_ref().map(|table| table.keyspace.to_string());
    // Clients route by the key of the only table there is; the protocol has no place for it where
    // markers belong to several, or to the batch itself.
    let is_of = |table: &Table, marker: &MarkerSpec| {
        *marker.spec.table == *table.name && *marker.spec.keyspace == *table.keyspace
    };
    let only = first.filter(|first| {
        plan.statements().iter().all(|s| s.table().id == first.id)
            && markers.iter().flatten().all(|marker| is_of(first, marker))
    });
    let mut prepared = Prepared::simple(Plan::Batch(Box::new(plan)), keyspace);
    prepared.partition_key_indexes = only.map_or(Vec::new(), |table| key_indexes(&table, &markers));
    prepared.bind_variables = specs(markers)?;
    prepared.functions = functions;
    Ok(prepared)
}

/// For each column of the partition key, the last marker that brings it; empty where that is not
/// so for each of them (`VariableSpecifications.getPartitionKeyBindVariableIndexes`).
fn key_indexes(table: &Table, markers: &[Option<MarkerSpec>]) -> Vec<u16> {
    let mut indexes: Vec<Option<u16>> = vec![None; table.partition_key().len()];
    for (i, marker) in markers.iter().enumerate() {
        let position = marker.as_ref().and_then(|marker| marker.key_position);
        if let Some(index) = position.and_then(|position| indexes.get_mut(position)) {
            *index = u16::try_from(i).ok();
        }
    }
    let indexes: Option<Vec<u16>> = indexes.into_iter().collect();
    indexes.unwrap_or_default()
}

/// The specifications of all markers: each must have been given a meaning.
fn specs(markers: Vec<Option<MarkerSpec>>) -> Result<Vec<ColumnSpec>, CqlError> {
    if markers.len() > usize::from(u16::MAX) {
        return invalid!(
            "a statement may have {} bind markers, not {}",
            u16::MAX,
            markers.len()
        );
    }
    markers
        .into_iter()
        .map(|marker| match marker {
            Some(marker) => Ok(marker.spec),
            None => invalid!("a bind marker of the statement has no meaning"),
        })
        .collect()
}

impl Prepared {
    fn simple(plan: Plan, keyspace: Option<String>) -> Prepared {
        Prepared {
            plan,
            keyspace,
            bind_variables: Vec::new(),
            partition_key_indexes: Vec::new(),
            result_columns: None,
            functions: Vec::new(),
        }
    }

    fn of_table(
        plan: Plan,
        table: &Table,
        markers: Vec<Option<MarkerSpec>>,
    ) -> Result<Prepared, CqlError> {
        Ok(Prepared {
            partition_key_indexes: key_indexes(table, &markers),
            bind_variables: specs(markers)?,
            ..Prepared::simple(plan, Some(table.keyspace.to_string()))
        })
    }

    /// Does it call functions that users defined?
    pub fn calls_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Does it still mean the same in this schema? Tables and functions must be the very ones it was
    /// made with.
    pub fn is_valid_in(&self, schema: &Schema) -> bool {
        let mut functions = self.functions.iter();
        self.plan.is_valid_in(schema) && functions.all(|function| function.is_valid_in(schema))
    }

    /// For how many of the bind markers there is a value in a request that has `count` values, with
    /// these names or none; without names it is `count` itself.
    pub fn values_for_markers(&self, count: usize, names: &[&str]) -> usize {
        if names.is_empty() {
            return count;
        }
        let markers = self.bind_variables.iter();
        markers.filter(|m| names.contains(&&*m.name)).count()
    }

    /// Puts the values of a request in the order of the bind markers. `names`: those the values
    /// come with, as many, or none where they go by position. A name may serve several markers.
    pub fn bind<'v>(
        &self,
        values: &'v [Value<'v>],
        names: &[&str],
    ) -> Result<Values<'v>, CqlError> {
        let markers = self.bind_variables.len();
        if names.is_empty() {
            if values.len() != markers {
                return invalid!(
                    "there were {markers} markers(?) in CQL but {} bound variables",
                    values.len()
                );
            }
            return Ok(Values::borrowed(values));
        }
        let mut ordered = Vec::with_capacity(markers);
        for marker in &self.bind_variables {
            let found = names.iter().position(|name| **name == *marker.name);
            ordered.extend(found.and_then(|at| values.get(at)).copied());
        }
        if ordered.len() != markers {
            return invalid!(
                "there were {markers} markers(?) in CQL but {} bound variables",
                ordered.len()
            );
        }
        Ok(Values::owned(ordered))
    }
}
