//! Statements as they were written: the whole grammar of CQL 3.4.7 (`Parser.g` of Cassandra 5.0).
//!
//! Nothing here knows a schema. Names are already folded: unquoted ones are in lower case, quoted
//! ones as they stood between the quotes. Bind markers are numbered from 0 in the order of the
//! text.

mod auth;
mod describe;
mod display;
mod modify;
mod schema;
mod select;
mod term;

pub use auth::{
    AlterRole, CreateRole, DataCenters, Grant, ListPermissions, Permission, Resource, RoleOptions,
};
pub use describe::{Describe, DescribeTarget};
pub use modify::{
    Assignment, Attributes, Batch, BatchKind, Condition, ConditionTarget, ConditionValue,
    Conditions, Delete, Deletion, Insert, InsertJson, Modification, Operation, Update,
};
pub use schema::{
    AlterKeyspace, AlterTable, AlterTableAction, AlterType, AlterTypeAction, AlterView,
    ColumnDefinition, CopyTable, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace,
    CreateTable, CreateTrigger, CreateType, CreateView, Drop, DropFunction, DropTrigger,
    IndexTarget, IndexTargetKind, Mask, PrimaryKey, Property, PropertyValue,
};
pub use select::{
    Comparison, InValues, Ordering, Relation, RelationTarget, RelationValue, Select, SelectClause,
    SelectItem, Selector, WriteTimeKind,
};
pub use term::{
    ArithmeticOperator, DataType, FunctionName, Literal, LiteralKind, Marker, NEGATION, Term,
};

/// The name of something that lives in a keyspace: a table, view, type or index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    /// The keyspace, if the statement names one.
    pub keyspace: Option<String>,
    /// The name within the keyspace.
    pub name: String,
}

/// As it is written, without quotes.
impl std::fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        f.write_str(&self.name)
    }
}

/// `TRUNCATE [TABLE] table [USING TIMEOUT duration]`
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// Which.
    pub table: QualifiedName,
    /// How long it may take: ScyllaDB's.
    pub timeout: Option<Term>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `SELECT`
    Select(Select),
    /// `INSERT`, `UPDATE` or `DELETE`
    Modification(Modification),
    /// `BEGIN BATCH … APPLY BATCH`
    Batch(Batch),
    /// `USE keyspace`
    Use(String),
    /// `TRUNCATE`
    Truncate(Truncate),
    /// `DESCRIBE …`
    Describe(Describe),

    /// `CREATE KEYSPACE`
    CreateKeyspace(CreateKeyspace),
    /// `ALTER KEYSPACE`
    AlterKeyspace(AlterKeyspace),
    /// `DROP KEYSPACE [IF EXISTS] name`
    DropKeyspace {
        /// The keyspace.
        name: String,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `CREATE TABLE`
    CreateTable(CreateTable),
    /// `CREATE TABLE … LIKE …`
    CopyTable(CopyTable),
    /// `ALTER TABLE`
    AlterTable(AlterTable),
    /// `DROP TABLE`
    DropTable(Drop),
    /// `CREATE TYPE`
    CreateType(CreateType),
    /// `ALTER TYPE`
    AlterType(AlterType),
    /// `DROP TYPE`
    DropType(Drop),
    /// `CREATE [CUSTOM] INDEX`
    CreateIndex(CreateIndex),
    /// `DROP INDEX`
    DropIndex(Drop),
    /// `CREATE MATERIALIZED VIEW`
    CreateView(CreateView),
    /// `ALTER MATERIALIZED VIEW`
    AlterView(AlterView),
    /// `DROP MATERIALIZED VIEW`
    DropView(Drop),
    /// `CREATE FUNCTION`
    CreateFunction(CreateFunction),
    /// `DROP FUNCTION`
    DropFunction(DropFunction),
    /// `CREATE AGGREGATE`
    CreateAggregate(CreateAggregate),
    /// `DROP AGGREGATE`
    DropAggregate(DropFunction),
    /// `CREATE TRIGGER`
    CreateTrigger(CreateTrigger),
    /// `DROP TRIGGER`
    DropTrigger(DropTrigger),

    /// `CREATE ROLE`, `CREATE USER`
    CreateRole(CreateRole),
    /// `ALTER ROLE`, `ALTER USER`
    AlterRole(AlterRole),
    /// `DROP ROLE`, `DROP USER`
    DropRole {
        /// The role.
        role: String,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `LIST ROLES [OF role] [NORECURSIVE]`
    ListRoles {
        /// Those granted to this role; else all.
        of: Option<String>,
        /// Without `NORECURSIVE`?
        recursive: bool,
    },
    /// `LIST USERS`
    ListUsers,
    /// `GRANT role TO role`
    GrantRole {
        /// The role that is granted.
        role: String,
        /// Who gets it.
        grantee: String,
    },
    /// `REVOKE role FROM role`
    RevokeRole {
        /// The role that was granted.
        role: String,
        /// Who loses it.
        revokee: String,
    },
    /// `GRANT permissions ON resource TO role`
    GrantPermissions(Grant),
    /// `REVOKE permissions ON resource FROM role`
    RevokePermissions(Grant),
    /// `LIST permissions`
    ListPermissions(ListPermissions),
    /// `ADD IDENTITY [IF NOT EXISTS] identity TO ROLE role`
    AddIdentity {
        /// The identity, as certificates name it.
        identity: String,
        /// The role it stands for.
        role: String,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
    },
    /// `DROP IDENTITY [IF EXISTS] identity`
    DropIdentity {
        /// The identity.
        identity: String,
        /// `IF EXISTS`
        if_exists: bool,
    },
}
