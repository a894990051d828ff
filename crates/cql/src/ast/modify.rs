//! `INSERT`, `UPDATE`, `DELETE` and `BATCH`.

use super::{Comparison, InValues, Marker, QualifiedName, Relation, Term};

/// `USING TIMESTAMP t AND TTL s`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// Microseconds since 1970.
    pub timestamp: Option<Term>,
    /// Seconds.
    pub ttl: Option<Term>,
    /// `TIMEOUT`: ScyllaDB's, how long the statement may take.
    pub timeout: Option<Term>,
}

/// A statement that changes one table.
#[derive(Clone, Debug, PartialEq)]
pub enum Modification {
    /// `INSERT INTO … (…) VALUES (…)`
    Insert(Insert),
    /// `INSERT INTO … JSON …`
    InsertJson(InsertJson),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
}

impl Modification {
    /// The table.
    pub fn table(&self) -> &QualifiedName {
        match self {
            Modification::Insert(insert) => &insert.table,
            Modification::InsertJson(insert) => &insert.table,
            Modification::Update(update) => &update.table,
            Modification::Delete(delete) => &delete.table,
        }
    }
}

/// `INSERT INTO table (columns) VALUES (values) [IF NOT EXISTS] [USING …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Where to.
    pub table: QualifiedName,
    /// The columns; as many as values is not checked yet.
    pub columns: Vec<String>,
    /// Their values.
    pub values: Vec<Term>,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `USING`
    pub attributes: Attributes,
}

/// `INSERT INTO table JSON 'text' [DEFAULT NULL|UNSET] …`
#[derive(Clone, Debug, PartialEq)]
pub struct InsertJson {
    /// Where to.
    pub table: QualifiedName,
    /// The text, or the marker that brings it.
    pub json: Result<String, Marker>,
    /// `DEFAULT UNSET`: columns that the text does not name stay as they are.
    pub default_unset: bool,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `USING`
    pub attributes: Attributes,
}

/// `UPDATE table [USING …] SET … WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Where.
    pub table: QualifiedName,
    /// `USING`
    pub attributes: Attributes,
    /// `SET`
    pub assignments: Vec<Assignment>,
    /// `WHERE`
    pub relations: Vec<Relation>,
    /// `IF`
    pub conditions: Conditions,
}

/// One item of `SET`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: String,
    /// What happens to it.
    pub operation: Operation,
}

/// What `SET` does to a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// `c = v`
    Set(Term),
    /// `c[k] = v`
    SetElement(Term, Term),
    /// `c.field = v`
    SetField(String, Term),
    /// `c = c + v`, `c += v`
    Add(Term),
    /// `c = c - v`, `c -= v`
    Subtract(Term),
    /// `c = v + c`
    Prepend(Term),
}

/// `DELETE … FROM table [USING TIMESTAMP t] WHERE … [IF …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Where.
    pub table: QualifiedName,
    /// What; empty for whole rows.
    pub deletions: Vec<Deletion>,
    /// `USING`
    pub attributes: Attributes,
    /// `WHERE`
    pub relations: Vec<Relation>,
    /// `IF`
    pub conditions: Conditions,
}

/// What is deleted of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// A column.
    Column(String),
    /// `column[key]`
    Element(String, Term),
    /// `column.field`
    Field(String, String),
}

/// `IF …` of UPDATE and DELETE.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Conditions {
    /// No `IF`.
    #[default]
    None,
    /// `IF EXISTS`
    Exists,
    /// `IF a = b AND …`
    All(Vec<Condition>),
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTarget {
    /// The column.
    Column,
    /// `column[key]`
    Element(Term),
    /// `column.field`
    Field(String),
}

/// What a condition compares with.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionValue {
    /// One value.
    Term(Term),
    /// The values of `IN`.
    In(InValues),
}

/// One condition of `IF`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: String,
    /// What of it.
    pub target: ConditionTarget,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub value: ConditionValue,
}

/// The kind of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// `BEGIN BATCH`: all of it is done sooner or later, or nothing.
    #[default]
    Logged,
    /// `BEGIN UNLOGGED BATCH`
    Unlogged,
    /// `BEGIN COUNTER BATCH`
    Counter,
}

/// `BEGIN BATCH … APPLY BATCH`
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Its kind.
    pub kind: BatchKind,
    /// `USING`
    pub attributes: Attributes,
    /// Its statements.
    pub statements: Vec<Modification>,
}
