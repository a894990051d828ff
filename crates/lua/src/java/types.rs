//! Java's types, as far as a translation needs them.

use std::fmt;
use std::sync::Arc;

use model::{CqlType, UserType};

use super::exception;

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Boolean,
    Byte,
    Short,
    Char,
    Int,
    Long,
    Float,
    Double,
    Text,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// An entry of a map.
    Entry(Box<Type>, Box<Type>),
    /// An array, and whether what it holds are objects: those of `Integer[]` are, those of `int[]` are none.
    Array(Box<Type>, bool),
    /// What is thrown; it is named without its package.
    Exception(&'static str),
    /// A tuple; which one is not known where only its class is named.
    Tuple(Option<Vec<CqlType>>),
    /// A user type, as for tuples.
    User(Option<Arc<UserType>>),
    Builder,
    Optional(Box<Type>),
    /// A regular expression; a text of it.
    Pattern,
    Matcher,
    /// How a number is rounded; a text of its name.
    Rounding,
    /// A value that is handed through.
    Other(CqlType),
    /// It may be anything.
    Object,
    Null,
    /// What a statement is.
    Void,
}

impl Type {
    pub(super) fn of(ty: &CqlType) -> Type {
        let of = |ty: &CqlType| Box::new(Type::of(ty));
        match ty {
            CqlType::Boolean => Type::Boolean,
            CqlType::Tinyint => Type::Byte,
            CqlType::Smallint => Type::Short,
            CqlType::Int => Type::Int,
            CqlType::Bigint | CqlType::Counter | CqlType::Time => Type::Long,
            CqlType::Float => Type::Float,
            CqlType::Double => Type::Double,
            CqlType::Ascii | CqlType::Text => Type::Text,
            CqlType::List { element, .. } | CqlType::Vector { element, .. } => {
                Type::List(of(element))
            }
            CqlType::Set { element, .. } => Type::Set(of(element)),
            CqlType::Map { key, value, .. } => Type::Map(of(key), of(value)),
            CqlType::Tuple(types) => Type::Tuple(Some(types.clone())),
            CqlType::Udt { definition, .. } => Type::User(Some(definition.clone())),
            // To Java a composite is what its bytes are.
            CqlType::Composite(_) => Type::Other(CqlType::Blob),
            other => Type::Other(other.clone()),
        }
    }

    /// The type of a class, with what it is a class of.
    pub(super) fn of_class(name: &str, mut parts: Vec<Type>) -> Option<Type> {
        let mut part = |at: usize| match parts.len() > at {
            true => Box::new(std::mem::replace(&mut parts[at], Type::Object)),
            false => Box::new(Type::Object),
        };
        Some(match name {
            "boolean" | "Boolean" => Type::Boolean,
            "byte" | "Byte" => Type::Byte,
            "short" | "Short" => Type::Short,
            "char" | "Character" => Type::Char,
            "int" | "Integer" => Type::Int,
            "long" | "Long" => Type::Long,
            "float" | "Float" => Type::Float,
            "double" | "Double" => Type::Double,
            "String" | "CharSequence" => Type::Text,
            "StringBuilder" | "StringBuffer" => Type::Builder,
            "List" | "ArrayList" | "LinkedList" | "Collection" | "Iterable" => Type::List(part(0)),
            "Set" | "HashSet" | "LinkedHashSet" | "TreeSet" => Type::Set(part(0)),
            "Map" | "HashMap" | "LinkedHashMap" | "TreeMap" => Type::Map(part(0), part(1)),
            "Entry" => Type::Entry(part(0), part(1)),
            "Optional" => Type::Optional(part(0)),
            "RoundingMode" => Type::Rounding,
            "Pattern" => Type::Pattern,
            "Matcher" => Type::Matcher,
            "UDTValue" => Type::User(None),
            "TupleValue" => Type::Tuple(None),
            "BigInteger" => Type::Other(CqlType::Varint),
            "BigDecimal" => Type::Other(CqlType::Decimal),
            "UUID" => Type::Other(CqlType::Uuid),
            "Date" => Type::Other(CqlType::Timestamp),
            "ByteBuffer" => Type::Other(CqlType::Blob),
            "InetAddress" => Type::Other(CqlType::Inet),
            "Object" | "Number" | "var" => Type::Object,
            name => Type::Exception(exception::known(name)?),
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        use Type::{Byte, Char, Int, Long, Short};
        matches!(self, Byte | Short | Char | Int | Long)
    }

    pub(super) fn is_real(&self) -> bool {
        matches!(self, Type::Float | Type::Double)
    }

    pub(super) fn is_number(&self) -> bool {
        self.is_whole() || self.is_real()
    }

    /// What it is called where it is no object, if there is such a one.
    fn primitive(&self) -> Option<&'static str> {
        Some(match self {
            Type::Boolean => "boolean",
            Type::Byte => "byte",
            Type::Short => "short",
            Type::Char => "char",
            Type::Int => "int",
            Type::Long => "long",
            Type::Float => "float",
            Type::Double => "double",
            _ => return None,
        })
    }

    pub(super) fn has_primitive(&self) -> bool {
        self.primitive().is_some()
    }

    pub(super) fn is_name_of_primitive(word: &str) -> bool {
        let ty = Type::of_class(word, Vec::new());
        ty.is_some_and(|ty| ty.primitive() == Some(word))
    }

    /// What it is called: of an `int` and an `Integer` the one or the other.
    pub(super) fn named(&self, is_boxed: bool) -> String {
        match self.primitive() {
            Some(name) if !is_boxed => name.to_owned(),
            _ => self.to_string(),
        }
    }

    /// Is it a collection, tuple or user type of which nothing else is known?
    pub(super) fn is_raw(&self) -> bool {
        match self {
            Type::Object | Type::Tuple(None) | Type::User(None) => true,
            Type::List(part) | Type::Set(part) => **part == Type::Object,
            Type::Map(key, value) => **key == Type::Object && **value == Type::Object,
            _ => false,
        }
    }

    /// Are they of one kind, whatever they are made of?
    pub(super) fn is_like(&self, other: &Type) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The class.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Boolean => f.write_str("Boolean"),
            Type::Byte => f.write_str("Byte"),
            Type::Short => f.write_str("Short"),
            Type::Char => f.write_str("Character"),
            Type::Int => f.write_str("Integer"),
            Type::Long => f.write_str("Long"),
            Type::Float => f.write_str("Float"),
            Type::Double => f.write_str("Double"),
            Type::Text => f.write_str("String"),
            Type::List(part) => write!(f, "List<{part}>"),
            Type::Set(part) => write!(f, "Set<{part}>"),
            Type::Map(key, value) => write!(f, "Map<{key},{value}>"),
            Type::Entry(key, value) => write!(f, "Map.Entry<{key},{value}>"),
            Type::Array(part, is_boxed) => write!(f, "{}[]", part.named(*is_boxed)),
            Type::Exception(class) => f.write_str(class),
            Type::Tuple(_) => f.write_str("TupleValue"),
            Type::User(_) => f.write_str("UDTValue"),
            Type::Optional(part) => write!(f, "Optional<{part}>"),
            Type::Rounding => f.write_str("RoundingMode"),
            Type::Pattern => f.write_str("Pattern"),
            Type::Matcher => f.write_str("Matcher"),
            Type::Builder => f.write_str("StringBuilder"),
            Type::Other(CqlType::Varint) => f.write_str("BigInteger"),
            Type::Other(CqlType::Decimal) => f.write_str("BigDecimal"),
            Type::Other(CqlType::Uuid | CqlType::Timeuuid) => f.write_str("UUID"),
            Type::Other(CqlType::Timestamp) => f.write_str("Date"),
            Type::Other(CqlType::Blob) => f.write_str("ByteBuffer"),
            Type::Other(CqlType::Inet) => f.write_str("InetAddress"),
            Type::Other(_) | Type::Object => f.write_str("Object"),
            Type::Null => f.write_str("null"),
            Type::Void => f.write_str("void"),
        }
    }
}
