//! `DESCRIBE`: the schema as CQL statements, byte for byte as Cassandra 5.0 writes them
//! (`DescribeStatement`, `SchemaElement`).

mod element;
mod paging;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use model::{CqlType, Keyspace, Schema, Table, collection, quote_identifier};

use crate::CqlError;
use crate::ast::{Describe, DescribeTarget, QualifiedName};
use crate::schema::is_system_keyspace;

pub use paging::{DescribePosition, SCHEMA_CHANGED};
pub use text::{
    create_aggregate, create_function, create_keyspace, create_table, create_type, create_view,
};

use element::Element;

/// What DESCRIBE CLUSTER tells of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its name.
    pub name: String,
    /// The partitioner, without its package.
    pub partitioner: String,
    /// The snitch, without its package.
    pub snitch: String,
    /// For each range of the ring, named by its end, the nodes that own it (`/127.0.0.1:7000`) in
    /// the keyspace in use.
    pub range_ownership: Vec<(String, Vec<String>)>,
}

/// A DESCRIBE statement, ready to be executed against any schema.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribePlan {
    statement: Describe,
    keyspace: Option<String>,
}

/// A row of the result.
pub type DescribeRow = Vec<Option<Bytes>>;

/// The columns of the keyspace and table that the result's columns claim to be of.
pub const RESULT_TABLE: (&str, &str) = ("system", "describe");

impl DescribePlan {
    /// With the keyspace in use.
    pub fn new(statement: &Describe, keyspace: Option<&str>) -> DescribePlan {
        DescribePlan {
            statement: statement.clone(),
            keyspace: keyspace.map(str::to_owned),
        }
    }

    /// Names and types of the result's columns.
    pub fn columns(&self) -> Vec<(&'static str, CqlType)> {
        let texts = |names: &[&'static str]| {
            let each = names.iter();
            each.map(|name| (*name, CqlType::Text)).collect::<Vec<_>>()
        };
        match self.statement.target {
            DescribeTarget::Cluster => {
                let mut columns = texts(&["cluster", "partitioner", "snitch"]);
                if self.shows_ownership() {
                    columns.push(("range_ownership", ownership_type()));
                }
                columns
            }
            DescribeTarget::Keyspaces
            | DescribeTarget::Tables
            | DescribeTarget::Types
            | DescribeTarget::Functions
            | DescribeTarget::Aggregates => texts(&["keyspace_name", "type", "name"]),
            _ => texts(&["keyspace_name", "type", "name", "create_statement"]),
        }
    }

    /// All rows of the result, in order; pages are cut of them by [`DescribePosition`].
    pub fn rows(
        &self,
        schema: &Schema,
        cluster: &ClusterDescription,
    ) -> Result<Vec<DescribeRow>, CqlError> {
        let name = |name: &str| Some(Bytes::from(name.to_owned()));
        if self.statement.target == DescribeTarget::Cluster {
            let mut row = vec![
                name(&cluster.name),
                name(&cluster.partitioner),
                name(&cluster.snitch),
            ];
            if self.shows_ownership() {
                row.push(Some(ownership(cluster)));
            }
            return Ok(vec![row]);
        }
        let with_statement = self.columns().len() == 4;
        let elements = self.elements(schema)?;
        Ok(elements
            .iter()
            .map(|element| {
                let mut row = vec![
                    name(&quote_identifier(element.keyspace())),
                    name(element.kind()),
                    name(&element.listed_name()),
                ];
                if with_statement {
                    row.push(name(&element.statement(self.statement.with_internals)));
                }
                row
            })
            .collect())
    }

    /// Ranges are only shown for keyspaces that are not the system's.
    fn shows_ownership(&self) -> bool {
        self.keyspace
            .as_deref()
            .is_some_and(|keyspace| !is_system_keyspace(keyspace))
    }

    fn elements<'s>(&self, schema: &'s Schema) -> Result<Vec<Element<'s>>, CqlError> {
        match &self.statement.target {
            DescribeTarget::Cluster => Ok(Vec::new()),
            DescribeTarget::Keyspaces => Ok(sorted_keyspaces(schema)
                .into_iter()
                .map(Element::Keyspace)
                .collect()),
            DescribeTarget::Tables => self.listing(schema, tables),
            DescribeTarget::Types => self.listing(schema, |keyspace| {
                let types = keyspace.types.values();
                types.map(|ty| Element::Type(keyspace, ty)).collect()
            }),
            DescribeTarget::Functions => self.listing(schema, functions),
            DescribeTarget::Aggregates => self.listing(schema, aggregates),
            DescribeTarget::Schema { full } => Ok(sorted_keyspaces(schema)
                .into_iter()
                .filter(|keyspace| *full || !is_system_keyspace(&keyspace.name))
                .flat_map(|keyspace| keyspace_elements(keyspace, false))
                .collect()),
            DescribeTarget::Keyspace { name, only } => {
                let name = name.as_deref().or(self.keyspace.as_deref());
                let keyspace = find_keyspace(schema, name.ok_or_else(no_keyspace)?)?;
                Ok(keyspace_elements(keyspace, *only))
            }
            DescribeTarget::Table(name) => {
                let keyspace = self.keyspace_of(schema, name)?;
                match keyspace.tables.get(name.name.as_str()) {
                    Some(table) if table.view.is_none() => Ok(table_elements(keyspace, table)),
                    _ => not_found(format!(
                        "Table '{}' not found in keyspace '{}'",
                        name.name, keyspace.name
                    )),
                }
            }
            DescribeTarget::Type(name) => {
                let keyspace = self.keyspace_of(schema, name)?;
                match keyspace.types.get(name.name.as_str()) {
                    Some(ty) => Ok(vec![Element::Type(keyspace, ty)]),
                    None => missing("User defined type", &name.name, keyspace),
                }
            }
            DescribeTarget::Index(name) => {
                let keyspace = self.keyspace_of(schema, name)?;
                match index(keyspace, &name.name) {
                    Some(index) => Ok(vec![index]),
                    None => missing("Table for existing index", &name.name, keyspace),
                }
            }
            DescribeTarget::View(name) => {
                let keyspace = self.keyspace_of(schema, name)?;
                match keyspace.tables.get(name.name.as_str()) {
                    Some(view) if view.view.is_some() => Ok(vec![Element::View(keyspace, view)]),
                    _ => missing("Materialized view", &name.name, keyspace),
                }
            }
            DescribeTarget::Function(name) => {
                let keyspace = self.named_keyspace(schema, name.keyspace.as_deref())?;
                let found: Vec<_> = keyspace.functions.scalars_named(&name.name).collect();
                if found.is_empty() {
                    return missing("User defined function", &name.name, keyspace);
                }
                let found = found.into_iter();
                Ok(found.map(|f| Element::Function(keyspace, f)).collect())
            }
            DescribeTarget::Aggregate(name) => {
                let keyspace = self.named_keyspace(schema, name.keyspace.as_deref())?;
                let found: Vec<_> = keyspace.functions.aggregates_named(&name.name).collect();
                if found.is_empty() {
                    return missing("User defined aggregate", &name.name, keyspace);
                }
                let found = found.into_iter();
                Ok(found.map(|f| Element::Aggregate(keyspace, f)).collect())
            }
            DescribeTarget::Generic(name) => self.generic(schema, name),
        }
    }

    /// What has this name: "keyspace or a table or an index or a materialized view (in this
    /// order)".
    fn generic<'s>(
        &self,
        schema: &'s Schema,
        name: &QualifiedName,
    ) -> Result<Vec<Element<'s>>, CqlError> {
        if name.keyspace.is_none()
            && let Some(keyspace) = schema.keyspaces.get(name.name.as_str())
        {
            return Ok(keyspace_elements(keyspace, false));
        }
        let in_keyspace = name.keyspace.as_deref().or(self.keyspace.as_deref());
        let keyspace = find_keyspace(schema, in_keyspace.unwrap_or(&name.name))?;
        match keyspace.tables.get(name.name.as_str()) {
            Some(table) if table.view.is_some() => {
                return Ok(vec![Element::View(keyspace, table)]);
            }
            Some(table) => return Ok(table_elements(keyspace, table)),
            None => {}
        }
        match index(keyspace, &name.name) {
            Some(index) => Ok(vec![index]),
            None => not_found(format!(
                "'{}' not found in keyspace '{}'",
                name.name, keyspace.name
            )),
        }
    }

    /// The elements of the keyspace in use, or of all.
    fn listing<'s>(
        &self,
        schema: &'s Schema,
        of: impl Fn(&'s Keyspace) -> Vec<Element<'s>>,
    ) -> Result<Vec<Element<'s>>, CqlError> {
        let keyspaces = match &self.keyspace {
            Some(name) => vec![find_keyspace(schema, name)?],
            None => sorted_keyspaces(schema),
        };
        Ok(keyspaces
            .into_iter()
            .flat_map(|keyspace| sorted(of(keyspace)))
            .collect())
    }

    fn keyspace_of<'s>(
        &self,
        schema: &'s Schema,
        name: &QualifiedName,
    ) -> Result<&'s Keyspace, CqlError> {
        self.named_keyspace(schema, name.keyspace.as_deref())
    }

    fn named_keyspace<'s>(
        &self,
        schema: &'s Schema,
        name: Option<&str>,
    ) -> Result<&'s Keyspace, CqlError> {
        let name = name.or(self.keyspace.as_deref()).ok_or_else(no_keyspace)?;
        find_keyspace(schema, name)
    }
}

fn no_keyspace() -> CqlError {
    CqlError::Invalid("No keyspace specified and no current keyspace".to_owned())
}

fn not_found<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Invalid(message))
}

fn missing<T>(what: &str, name: &str, keyspace: &Keyspace) -> Result<T, CqlError> {
    not_found(format!("{what} '{name}' not found in '{}'", keyspace.name))
}

fn find_keyspace<'s>(schema: &'s Schema, name: &str) -> Result<&'s Keyspace, CqlError> {
    match schema.keyspaces.get(name) {
        Some(keyspace) => Ok(keyspace),
        None => not_found(format!("'{name}' not found in keyspaces")),
    }
}

/// Names are listed without regard to case.
fn sorted<'s>(mut elements: Vec<Element<'s>>) -> Vec<Element<'s>> {
    elements.sort_by_key(|element| element.name().to_lowercase());
    elements
}

fn sorted_keyspaces(schema: &Schema) -> Vec<&Keyspace> {
    let mut keyspaces: Vec<&Keyspace> = schema.keyspaces.values().map(Arc::as_ref).collect();
    keyspaces.sort_by_key(|keyspace| keyspace.name.to_lowercase());
    keyspaces
}

fn tables(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let all = keyspace.tables.values();
    let all = all.filter(|table| table.view.is_none());
    all.map(|table: &Arc<Table>| Element::Table(keyspace, table))
        .collect()
}

/// A table, its indexes and its views.
fn table_elements<'s>(keyspace: &'s Keyspace, table: &'s Table) -> Vec<Element<'s>> {
    let indexes = table.indexes.iter();
    let indexes = indexes.map(|index| Element::Index(keyspace, table, index));
    let indexes = sorted(indexes.collect());
    let views = keyspace.views_of(table.id);
    let views = sorted(views.map(|view| Element::View(keyspace, view)).collect());
    std::iter::once(Element::Table(keyspace, table))
        .chain(indexes)
        .chain(views)
        .collect()
}

fn index<'s>(keyspace: &'s Keyspace, name: &str) -> Option<Element<'s>> {
    let mut tables = keyspace.tables.values();
    tables.find_map(|table| Some(Element::Index(keyspace, table, table.index(name)?)))
}

fn functions(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let all = keyspace.functions.scalars.values();
    all.map(|function| Element::Function(keyspace, function))
        .collect()
}

fn aggregates(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let all = keyspace.functions.aggregates.values();
    all.map(|aggregate| Element::Aggregate(keyspace, aggregate))
        .collect()
}

/// A keyspace, and unless `only` that is wanted its types, functions, aggregates and tables.
fn keyspace_elements(keyspace: &Keyspace, only: bool) -> Vec<Element<'_>> {
    let mut elements = vec![Element::Keyspace(keyspace)];
    if !only {
        let types = element::types_in_order(keyspace);
        elements.extend(types.into_iter().map(|ty| Element::Type(keyspace, ty)));
        elements.extend(sorted(functions(keyspace)));
        elements.extend(sorted(aggregates(keyspace)));
        for table in sorted(tables(keyspace)) {
            if let Element::Table(keyspace, table) = table {
                elements.extend(table_elements(keyspace, table));
            }
        }
    }
    elements
}

fn ownership_type() -> CqlType {
    CqlType::Map {
        key: CqlType::Text.into(),
        value: Box::new(CqlType::List {
            element: CqlType::Text.into(),
            frozen: false,
        }),
        frozen: false,
    }
}

fn ownership(cluster: &ClusterDescription) -> Bytes {
    let mut ranges = cluster.range_ownership.clone();
    ranges.sort();
    let entries = ranges
        .into_iter()
        .map(|(end, nodes)| (end, collection::pack_elements(nodes)));
    collection::pack_entries(entries).into()
}
