//! Terms: values as they are written, before a type is known for them.

use std::fmt;

use model::{CqlType, quote_identifier};

/// What a constant looks like (`Constants.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'text'` or `$$text$$`
    String,
    /// `-12`
    Integer,
    /// `1.5e3`, `NaN`, `-Infinity`
    Float,
    /// `true`
    Boolean,
    /// `1y2mo`, `P1Y2M`
    Duration,
    /// `01234567-89ab-cdef-0123-456789abcdef`
    Uuid,
    /// `0xcafe`
    Hex,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    /// Its form.
    pub kind: LiteralKind,
    /// As written; strings without their quotes, NaN and infinities as `NaN`, `Infinity` and
    /// `-Infinity`.
    pub text: String,
}

/// A bind marker, `?` or `:name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Its number within the statement, from 0.
    pub index: usize,
    /// The name of `:name`.
    pub name: Option<String>,
}

/// The name of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// The keyspace, if the statement names one.
    pub keyspace: Option<String>,
    /// The name within the keyspace.
    pub name: String,
}

/// An operator of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl ArithmeticOperator {
    /// As it is written.
    pub fn symbol(self) -> char {
        match self {
            ArithmeticOperator::Add => '+',
            ArithmeticOperator::Subtract => '-',
            ArithmeticOperator::Multiply => '*',
            ArithmeticOperator::Divide => '/',
            ArithmeticOperator::Modulo => '%',
        }
    }

    const ALL: [ArithmeticOperator; 5] = [
        ArithmeticOperator::Add,
        ArithmeticOperator::Subtract,
        ArithmeticOperator::Multiply,
        ArithmeticOperator::Divide,
        ArithmeticOperator::Modulo,
    ];

    /// The name of the functions of `system` that it calls (`OperationFcts.OPERATION`).
    pub fn function(self) -> &'static str {
        match self {
            ArithmeticOperator::Add => "_add",
            ArithmeticOperator::Subtract => "_substract",
            ArithmeticOperator::Multiply => "_multiply",
            ArithmeticOperator::Divide => "_divide",
            ArithmeticOperator::Modulo => "_modulo",
        }
    }

    /// The operator that calls functions of this name.
    pub fn of_function(name: &str) -> Option<ArithmeticOperator> {
        let mut all = ArithmeticOperator::ALL.into_iter();
        all.find(|operator| operator.function() == name)
    }
}

/// The name of the functions of `system` that `-x` calls.
pub const NEGATION: &str = "_negate";

/// A type as written (`CQL3Type.Raw`): names of user types are not resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One of the types without parameters.
    Native(CqlType),
    /// `varchar`, another name of `text`, which names of columns and messages keep.
    Varchar,
    /// `list<element>`
    List(Box<DataType>),
    /// `set<element>`
    Set(Box<DataType>),
    /// `map<key, value>`
    Map(Box<DataType>, Box<DataType>),
    /// `tuple<…>`
    Tuple(Vec<DataType>),
    /// `vector<element, dimension>`; the dimension is not checked yet.
    Vector(Box<DataType>, i32),
    /// `frozen<type>`
    Frozen(Box<DataType>),
    /// The name of a user type.
    User {
        /// The keyspace, if named.
        keyspace: Option<String>,
        /// The type's name.
        name: String,
    },
    /// `'java.class.Name'`
    Custom(String),
}

/// A value as it is written (`Term.Raw`).
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A constant.
    Literal(Literal),
    /// `NULL`
    Null,
    /// `?` or `:name`
    Marker(Marker),
    /// `[a, b]`: a list or a vector
    List(Vec<Term>),
    /// `{a, b}`; `{}` may also be an empty map.
    Set(Vec<Term>),
    /// `{a: b}`
    Map(Vec<(Term, Term)>),
    /// `{field: b}`
    User(Vec<(String, Term)>),
    /// `(a, b)`
    Tuple(Vec<Term>),
    /// `f(a, b)`
    Function {
        /// Which function.
        name: FunctionName,
        /// Its arguments.
        arguments: Vec<Term>,
    },
    /// `a + b`
    Operation {
        /// How they are combined.
        operator: ArithmeticOperator,
        /// The left operand.
        left: Box<Term>,
        /// The right operand.
        right: Box<Term>,
    },
    /// `-a`
    Negation(Box<Term>),
    /// `(type) a`: says what type a term has, converts nothing.
    TypeHint(DataType, Box<Term>),
    /// `CAST(a AS type)`: converts.
    Cast(Box<Term>, CqlType),
}

/// As Cassandra shows the name in messages: `keyspace.name`.
impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// In CQL.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Native(ty) => write!(f, "{ty}"),
            DataType::Varchar => write!(f, "varchar"),
            DataType::List(element) => write!(f, "list<{element}>"),
            DataType::Set(element) => write!(f, "set<{element}>"),
            DataType::Map(key, value) => write!(f, "map<{key}, {value}>"),
            DataType::Tuple(types) => {
                f.write_str("tuple<")?;
                for (i, ty) in types.iter().enumerate() {
                    write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(">")
            }
            DataType::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            DataType::Frozen(ty) => write!(f, "frozen<{ty}>"),
            DataType::User { keyspace, name } => {
                if let Some(keyspace) = keyspace {
                    write!(f, "{}.", quote_identifier(keyspace))?;
                }
                write!(f, "{}", quote_identifier(name))
            }
            DataType::Custom(class) => match CqlType::from_marshal(class) {
                Ok(ty) => write!(f, "'{}'", ty.to_marshal()),
                Err(_) => write!(f, "'{}'", class.replace('\'', "''")),
            },
        }
    }
}
