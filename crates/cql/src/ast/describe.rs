//! `DESCRIBE`.

use super::{FunctionName, QualifiedName};

/// `DESCRIBE target [WITH INTERNALS]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// What.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`
    pub with_internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`
    Cluster,
    /// `[FULL] SCHEMA`
    Schema {
        /// `FULL`: system keyspaces too.
        full: bool,
    },
    /// `KEYSPACES`
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`
    Keyspace {
        /// The keyspace; else the one in use.
        name: Option<String>,
        /// `ONLY`: without what is in it.
        only: bool,
    },
    /// `TABLES`
    Tables,
    /// `TABLE name`
    Table(QualifiedName),
    /// `INDEX name`
    Index(QualifiedName),
    /// `MATERIALIZED VIEW name`
    View(QualifiedName),
    /// `TYPES`
    Types,
    /// `TYPE name`
    Type(QualifiedName),
    /// `FUNCTIONS`
    Functions,
    /// `FUNCTION name`
    Function(FunctionName),
    /// `AGGREGATES`
    Aggregates,
    /// `AGGREGATE name`
    Aggregate(FunctionName),
    /// `[keyspace.]name`: whatever has this name
    Generic(QualifiedName),
}
