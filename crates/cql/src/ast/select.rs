//! `SELECT` and the relations of `WHERE`.

use model::{CqlType, Order};

use super::{ArithmeticOperator, DataType, FunctionName, Marker, QualifiedName, Term};

/// `SELECT … FROM …`
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Where from.
    pub table: QualifiedName,
    /// `JSON`
    pub json: bool,
    /// `DISTINCT`
    pub distinct: bool,
    /// What.
    pub selection: SelectClause,
    /// `WHERE`: all must hold.
    pub relations: Vec<Relation>,
    /// `GROUP BY`
    pub group_by: Vec<Selector>,
    /// `ORDER BY`
    pub order_by: Vec<Ordering>,
    /// `PER PARTITION LIMIT`
    pub per_partition_limit: Option<Term>,
    /// `LIMIT`
    pub limit: Option<Term>,
    /// `ALLOW FILTERING`
    pub allow_filtering: bool,
    /// `BYPASS CACHE`: ScyllaDB's, for reads whose rows nobody will ask for again.
    pub bypass_cache: bool,
    /// `USING TIMEOUT`: ScyllaDB's (`docs/cql/cql-extensions.md`), as its drivers send it with
    /// their own queries to servers that have shards.
    pub timeout: Option<Term>,
}

/// What is selected.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectClause {
    /// `*`
    Wildcard,
    /// One or more selectors.
    Items(Vec<SelectItem>),
}

/// `selector [AS alias]`
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// What.
    pub selector: Selector,
    /// Under which name.
    pub alias: Option<String>,
}

/// Which time of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteTimeKind {
    /// `WRITETIME`
    WriteTime,
    /// `MAXWRITETIME`
    MaxWriteTime,
    /// `MINWRITETIME`: of Cassandra after 5.0
    MinWriteTime,
    /// `TTL`
    Ttl,
}

/// An expression of the select clause (`Selectable.Raw`).
#[derive(Clone, Debug, PartialEq)]
pub enum Selector {
    /// A column.
    Column(String),
    /// A constant, `NULL` or a bind marker.
    Term(Term),
    /// `(type) selector`
    TypeHint(DataType, Box<Selector>),
    /// `(selector)`, or a tuple of several.
    Parentheses(Vec<Selector>),
    /// `[a, b]`: a list or a vector
    List(Vec<Selector>),
    /// `{a, b}`, `{}`
    Set(Vec<Selector>),
    /// `{a: b}`: a map or a user type
    Map(Vec<(Selector, Selector)>),
    /// `COUNT(*)`
    CountRows,
    /// `WRITETIME(column…)` and its sisters; the selector is a column, or an element, slice or
    /// field of one.
    WriteTime(WriteTimeKind, Box<Selector>),
    /// `CAST(selector AS type)`
    Cast(Box<Selector>, CqlType),
    /// `f(a, b)`
    Function {
        /// Which function.
        name: FunctionName,
        /// Its arguments.
        arguments: Vec<Selector>,
    },
    /// `a + b`
    Operation {
        /// How they are combined.
        operator: ArithmeticOperator,
        /// The left operand.
        left: Box<Selector>,
        /// The right operand.
        right: Box<Selector>,
    },
    /// `-a`
    Negation(Box<Selector>),
    /// `selector.field`
    Field(Box<Selector>, String),
    /// `selector[key]`
    Element(Box<Selector>, Box<Term>),
    /// `selector[from..to]`
    Slice(Box<Selector>, Option<Box<Term>>, Option<Box<Term>>),
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordering {
    /// The column.
    pub column: String,
    /// `ANN OF vector`
    pub ann: Option<Term>,
    /// `ASC` or `DESC`
    pub order: Order,
}

/// How a relation or a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IN`
    In,
    /// `BETWEEN` two values, both included: of Cassandra after 5.0
    Between,
    /// `CONTAINS`
    Contains,
    /// `CONTAINS KEY`
    ContainsKey,
    /// `LIKE`
    Like,
    /// `IS NOT` (NULL)
    IsNot,
}

impl WriteTimeKind {
    /// Is it one time of all cells of a column?
    pub fn is_of_all(self) -> bool {
        matches!(
            self,
            WriteTimeKind::MaxWriteTime | WriteTimeKind::MinWriteTime
        )
    }
}

impl Comparison {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::In => "IN",
            Comparison::Between => "BETWEEN",
            Comparison::Contains => "CONTAINS",
            Comparison::ContainsKey => "CONTAINS KEY",
            Comparison::Like => "LIKE",
            Comparison::IsNot => "IS NOT",
        }
    }
}

/// What a relation is about.
#[derive(Clone, Debug, PartialEq)]
pub enum RelationTarget {
    /// `column`
    Column(String),
    /// `column[key]`
    Element(String, Term),
    /// `(c1, c2)`
    Columns(Vec<String>),
    /// `token(c1, c2)`
    Token(Vec<String>),
    /// `expr(index, …)`: a custom expression of an index
    Expression(QualifiedName),
}

/// The values of `IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `(a, b)`
    Terms(Vec<Term>),
    /// `?`: one value, a list
    Marker(Marker),
}

/// What a relation compares with.
#[derive(Clone, Debug, PartialEq)]
pub enum RelationValue {
    /// One term; `NULL` for `IS NOT NULL`.
    Term(Term),
    /// The values of `IN`.
    In(InValues),
    /// The lowest and the highest of `BETWEEN`.
    Between(Box<(Term, Term)>),
}

/// One relation of `WHERE`. For [`RelationTarget::Expression`] the operator is without meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// What is compared.
    pub target: RelationTarget,
    /// How.
    pub comparison: Comparison,
    /// With what.
    pub value: RelationValue,
}
