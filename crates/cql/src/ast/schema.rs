//! Statements that change the schema.

use std::collections::BTreeMap;
use std::fmt;

use model::Order;

use super::{DataType, FunctionName, QualifiedName, Relation, SelectClause, Term};

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant, without its quotes.
    Text(String),
    /// A map of constants.
    Map(BTreeMap<String, String>),
}

/// `name = value` of `WITH`. Whether a property is given twice is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: PropertyValue,
}

/// `CREATE KEYSPACE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// Its name.
    pub name: String,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH`
    pub properties: Vec<Property>,
}

/// `ALTER KEYSPACE`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    /// Its name.
    pub name: String,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH`
    pub properties: Vec<Property>,
}

/// `MASKED WITH function(arguments)`
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// The masking function; `system.mask_default` for `MASKED WITH DEFAULT`.
    pub function: FunctionName,
    /// Its arguments after the column.
    pub arguments: Vec<Term>,
}

/// As messages name it.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.function, arguments.join(", "))
    }
}

/// `name type [STATIC] [MASKED WITH …]`
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// The column.
    pub name: String,
    /// Its type.
    pub ty: DataType,
    /// `STATIC`
    pub is_static: bool,
    /// `MASKED WITH`
    pub mask: Option<Mask>,
}

/// `PRIMARY KEY ((partition), clustering)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The columns of the partition key.
    pub partition: Vec<String>,
    /// The clustering columns.
    pub clustering: Vec<String>,
}

/// `CREATE TABLE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub table: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Its columns, as written: a name may come twice.
    pub columns: Vec<ColumnDefinition>,
    /// One for each `PRIMARY KEY`, also of a column's definition: exactly one is right.
    pub primary_keys: Vec<PrimaryKey>,
    /// `WITH CLUSTERING ORDER BY`
    pub clustering_order: Vec<(String, Order)>,
    /// `WITH COMPACT STORAGE`
    pub compact_storage: bool,
    /// The other properties of `WITH`.
    pub properties: Vec<Property>,
}

/// `CREATE TABLE … LIKE …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTable {
    /// Its name.
    pub table: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The table it is to be like.
    pub source: QualifiedName,
    /// `WITH`: what it is to have otherwise.
    pub properties: Vec<Property>,
}

/// `ALTER TABLE`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// Its name.
    pub table: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// What changes.
    pub action: AlterTableAction,
}

/// What `ALTER TABLE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableAction {
    /// `ALTER column TYPE type`
    AlterType {
        /// The column.
        column: String,
        /// Its new type.
        ty: DataType,
    },
    /// `ALTER [IF EXISTS] column MASKED WITH …` or `DROP MASKED`
    Mask {
        /// The column.
        column: String,
        /// `IF EXISTS`
        if_exists: bool,
        /// The new mask, or none.
        mask: Option<Mask>,
    },
    /// `ADD [IF NOT EXISTS] …`
    Add {
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP [IF EXISTS] … [USING TIMESTAMP t]`
    Drop {
        /// `IF EXISTS`
        if_exists: bool,
        /// The columns.
        columns: Vec<String>,
        /// Microseconds since 1970.
        timestamp: Option<i64>,
    },
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename {
        /// `IF EXISTS`
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(String, String)>,
    },
    /// `DROP COMPACT STORAGE`
    DropCompactStorage,
    /// `WITH …`
    With(Vec<Property>),
}

/// `CREATE TYPE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    /// Its name.
    pub name: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Names and types of its fields.
    pub fields: Vec<(String, DataType)>,
}

/// `ALTER TYPE`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    /// Its name.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// What changes.
    pub action: AlterTypeAction,
}

/// What `ALTER TYPE` does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTypeAction {
    /// `ALTER field TYPE type`
    AlterField {
        /// The field.
        field: String,
        /// Its new type.
        ty: DataType,
    },
    /// `ADD [IF NOT EXISTS] field type`
    Add {
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// The field.
        field: String,
        /// Its type.
        ty: DataType,
    },
    /// `RENAME [IF EXISTS] a TO b AND …`
    Rename {
        /// `IF EXISTS`
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(String, String)>,
    },
}

/// `DROP TABLE`, `TYPE`, `INDEX` or `MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drop {
    /// What.
    pub name: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// Which part of a column an index is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// `column`
    Simple,
    /// `VALUES(column)`
    Values,
    /// `KEYS(column)`
    Keys,
    /// `ENTRIES(column)`
    Entries,
    /// `FULL(column)`
    Full,
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    /// Which part of it.
    pub kind: IndexTargetKind,
    /// The column.
    pub column: String,
}

/// `CREATE [CUSTOM] INDEX`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Its name, if given.
    pub name: Option<String>,
    /// The table.
    pub table: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// What is indexed.
    pub targets: Vec<IndexTarget>,
    /// `CUSTOM`
    pub custom: bool,
    /// `USING 'class'`
    pub using: Option<String>,
    /// `WITH`
    pub properties: Vec<Property>,
}

/// `CREATE MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Its name.
    pub view: QualifiedName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The table it is a view of.
    pub base: QualifiedName,
    /// `SELECT`
    pub selection: SelectClause,
    /// `WHERE`
    pub relations: Vec<Relation>,
    /// `PRIMARY KEY`
    pub primary_key: PrimaryKey,
    /// `WITH CLUSTERING ORDER BY`
    pub clustering_order: Vec<(String, Order)>,
    /// The other properties of `WITH`.
    pub properties: Vec<Property>,
    /// Are there bind markers in it?
    pub has_markers: bool,
}

/// `ALTER MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct AlterView {
    /// Its name.
    pub view: QualifiedName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH`
    pub properties: Vec<Property>,
}

/// `CREATE FUNCTION`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// Its name.
    pub name: FunctionName,
    /// `OR REPLACE`
    pub or_replace: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Names and types of its arguments.
    pub arguments: Vec<(String, DataType)>,
    /// `CALLED ON NULL INPUT` (else `RETURNS NULL ON NULL INPUT`)
    pub called_on_null_input: bool,
    /// `RETURNS`
    pub returns: DataType,
    /// `LANGUAGE`, in lower case
    pub language: String,
    /// `AS`
    pub body: String,
}

/// `CREATE AGGREGATE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    /// Its name.
    pub name: FunctionName,
    /// `OR REPLACE`
    pub or_replace: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The types of its arguments.
    pub arguments: Vec<DataType>,
    /// `SFUNC`
    pub state_function: String,
    /// `STYPE`
    pub state_type: DataType,
    /// `FINALFUNC`
    pub final_function: Option<String>,
    /// `INITCOND`
    pub initial_condition: Option<Term>,
}

/// `DROP FUNCTION`, `DROP AGGREGATE`
#[derive(Clone, Debug, PartialEq)]
pub struct DropFunction {
    /// Its name.
    pub name: FunctionName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The types of its arguments, if given.
    pub arguments: Option<Vec<DataType>>,
}

/// `CREATE TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    /// Its name.
    pub name: String,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The table.
    pub table: QualifiedName,
    /// `USING`
    pub class: String,
}

/// `DROP TRIGGER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTrigger {
    /// Its name.
    pub name: String,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The table.
    pub table: QualifiedName,
}
