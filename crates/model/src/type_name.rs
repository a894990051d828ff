//! Types as CQL text: `list<frozen<set<int>>>`, printed as Cassandra's `CQL3Type.toString` does
//! and read back as `system_schema` holds it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{CqlType, MAX_BRACKETS, MAX_NESTING, UserType};

const TOO_DEEP: &str = "types lie too deep in each other";

/// The names of the simple types. `varchar` is another name of `text`.
const SIMPLE: [(&str, CqlType); 22] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("blob", CqlType::Blob),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::Smallint),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::Timeuuid),
    ("tinyint", CqlType::Tinyint),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::Varint),
    ("varchar", CqlType::Text),
];

/// A text that names no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeNameError {
    /// It does not have the form of a type.
    #[error("`{text}` is no type: {reason}")]
    Syntax {
        /// All of it.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It names a user type that the keyspace does not have.
    #[error("Unknown type {name}")]
    Unknown {
        /// The name.
        name: String,
    },
}

/// `name` as CQL shows it: in quotes unless it is an unquoted identifier in lower case that is
/// no reserved word (`ColumnIdentifier.maybeQuote`).
pub fn quote_identifier(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && RESERVED.binary_search(&name).is_err();
    if plain {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Words that name nothing unless quoted (`reserved_keywords.txt`), sorted.
#[rustfmt::skip]
pub const RESERVED: [&str; 57] = [
    "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch",
    "begin", "by", "columnfamily", "create", "delete", "desc", "describe", "drop",
    "entries", "execute", "from", "full", "grant", "if", "in", "index",
    "infinity", "insert", "into", "is", "keyspace", "limit", "materialized", "modify",
    "nan", "norecursive", "not", "null", "of", "on", "or", "order",
    "primary", "rename", "revoke", "schema", "select", "set", "table", "to",
    "token", "truncate", "unlogged", "update", "use", "using", "view", "where",
    "with",
];

impl CqlType {
    /// The simple type of this name, in any case.
    pub fn simple_named(name: &str) -> Option<CqlType> {
        SIMPLE
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known))
            .map(|(_, ty)| ty.clone())
    }

    /// Reads what [`CqlType`]'s `Display` writes, as `system_schema.columns.type` holds it;
    /// `types` are the user types of `keyspace`. (CQL statements have their own parser.)
    pub fn from_cql(
        text: &str,
        types: &BTreeMap<Arc<str>, Arc<UserType>>,
    ) -> Result<CqlType, TypeNameError> {
        let mut parser = Parser {
            text,
            rest: text,
            types,
        };
        let ty = parser.ty(0)?;
        if !parser.rest.is_empty() {
            return parser.error("more text after the type");
        }
        if ty.nesting() > MAX_NESTING {
            return parser.error(TOO_DEEP);
        }
        Ok(ty)
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frozen = match self {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen,
            CqlType::Tuple(_) => true,
            _ => false,
        };
        if frozen {
            f.write_str("frozen<")?;
        }
        match self {
            CqlType::List { element, .. } => write!(f, "list<{element}>")?,
            CqlType::Set { element, .. } => write!(f, "set<{element}>")?,
            CqlType::Map { key, value, .. } => write!(f, "map<{key}, {value}>")?,
            CqlType::Tuple(types) => {
                for (i, ty) in types.iter().enumerate() {
                    write!(f, "{}{ty}", if i == 0 { "tuple<" } else { ", " })?;
                }
                f.write_str(">")?;
            }
            CqlType::Udt { definition, .. } => f.write_str(&quote_identifier(&definition.name))?,
            CqlType::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>")?,
            CqlType::Composite(_) => write!(f, "'{}'", self.to_marshal())?,
            CqlType::Custom(class) => write!(f, "'{class}'")?,
            simple => {
                let named = SIMPLE.iter().find(|(_, ty)| ty == simple);
                f.write_str(named.expect("all other types are simple").0)?;
            }
        }
        if frozen {
            f.write_str(">")?;
        }
        Ok(())
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    types: &'t BTreeMap<Arc<str>, Arc<UserType>>,
}

impl<'t> Parser<'t> {
    fn ty(&mut self, depth: usize) -> Result<CqlType, TypeNameError> {
        if depth > MAX_BRACKETS {
            return self.error(TOO_DEEP);
        }
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let Some((class, rest)) = rest.split_once('\'') else {
                return self.error("a quote is not closed");
            };
            self.rest = rest;
            return CqlType::from_marshal(class).or_else(|_| self.error("no such class"));
        }
        if self.rest.starts_with('"') {
            let name = self.quoted_name()?;
            return self.user_type(&name);
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let name = name.to_ascii_lowercase();
        if !self.take("<") {
            return match CqlType::simple_named(&name) {
                Some(ty) => Ok(ty),
                None => self.user_type(&name),
            };
        }
        let ty = self.parameters(&name, depth + 1)?;
        self.close()?;
        Ok(ty)
    }

    /// What is between the angle brackets.
    fn parameters(&mut self, name: &str, depth: usize) -> Result<CqlType, TypeNameError> {
        match name {
            "frozen" => Ok(self.ty(depth)?.freeze()),
            "list" => Ok(CqlType::List {
                element: self.ty(depth)?.into(),
                frozen: false,
            }),
            "set" => Ok(CqlType::Set {
                element: self.ty(depth)?.into(),
                frozen: false,
            }),
            "map" => {
                let key = self.ty(depth)?.into();
                if !self.take(",") {
                    return self.error("a map has two types");
                }
                Ok(CqlType::Map {
                    key,
                    value: self.ty(depth)?.into(),
                    frozen: false,
                })
            }
            "tuple" => {
                let mut types = vec![self.ty(depth)?];
                while self.take(",") {
                    types.push(self.ty(depth)?);
                }
                Ok(CqlType::Tuple(types))
            }
            "vector" => {
                let element = self.ty(depth)?.into();
                if !self.take(",") {
                    return self.error("a vector has a dimension");
                }
                let end = self.rest.find('>').unwrap_or(self.rest.len());
                let (digits, rest) = self.rest.split_at(end);
                self.rest = rest;
                match digits.trim().parse() {
                    Ok(dimension) => Ok(CqlType::Vector { element, dimension }),
                    Err(_) => self.error("the dimension of a vector is no number"),
                }
            }
            _ => self.error("no type of this name has parameters"),
        }
    }

    fn user_type(&self, name: &str) -> Result<CqlType, TypeNameError> {
        match self.types.get(name) {
            Some(definition) => Ok(CqlType::Udt {
                definition: definition.clone(),
                frozen: false,
            }),
            None => Err(TypeNameError::Unknown {
                name: name.to_owned(),
            }),
        }
    }

    fn quoted_name(&mut self) -> Result<String, TypeNameError> {
        let mut name = String::new();
        let mut rest = &self.rest[1..];
        loop {
            let Some((part, after)) = rest.split_once('"') else {
                return self.error("a quote is not closed");
            };
            name.push_str(part);
            rest = after;
            match rest.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None => break,
            }
        }
        self.rest = rest;
        Ok(name)
    }

    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn close(&mut self) -> Result<(), TypeNameError> {
        if self.take(">") {
            return Ok(());
        }
        self.error("expected >")
    }

    fn error<T>(&self, reason: &'static str) -> Result<T, TypeNameError> {
        Err(TypeNameError::Syntax {
            text: self.text.to_owned(),
            reason,
        })
    }
}
