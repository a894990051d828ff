//! Types as Java class names: how `org.apache.cassandra.db.marshal` types are written in sstables
//! and in some system tables (`TypeParser`, `AbstractType.toString`).

use std::sync::Arc;

use crate::value::{from_hex, to_hex};
use crate::{ComponentType, Composite, CqlType, MAX_BRACKETS, MAX_NESTING, Order, UserType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// A class name that names no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no type class: {reason} at character {at}")]
pub struct MarshalError {
    text: String,
    reason: &'static str,
    at: usize,
}

/// The simple types and their classes.
const SIMPLE: [(&str, CqlType); 21] = [
    ("AsciiType", CqlType::Ascii),
    ("LongType", CqlType::Bigint),
    ("BytesType", CqlType::Blob),
    ("BooleanType", CqlType::Boolean),
    ("CounterColumnType", CqlType::Counter),
    ("SimpleDateType", CqlType::Date),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("DurationType", CqlType::Duration),
    ("EmptyType", CqlType::Empty),
    ("FloatType", CqlType::Float),
    ("InetAddressType", CqlType::Inet),
    ("Int32Type", CqlType::Int),
    ("ShortType", CqlType::Smallint),
    ("UTF8Type", CqlType::Text),
    ("TimeType", CqlType::Time),
    ("TimestampType", CqlType::Timestamp),
    ("TimeUUIDType", CqlType::Timeuuid),
    ("ByteType", CqlType::Tinyint),
    ("UUIDType", CqlType::Uuid),
    ("IntegerType", CqlType::Varint),
];

impl CqlType {
    /// The type a Java class string names, with or without package. `ReversedType` is seen
    /// through: see [`CqlType::from_marshal_ordered`]. Classes that are no CQL type become
    /// [`CqlType::Custom`].
    pub fn from_marshal(text: &str) -> Result<CqlType, MarshalError> {
        CqlType::from_marshal_ordered(text).map(|(ty, _)| ty)
    }

    /// As [`CqlType::from_marshal`], and whether it was in a `ReversedType`, as the types of
    /// descending clustering columns are.
    pub fn from_marshal_ordered(text: &str) -> Result<(CqlType, Order), MarshalError> {
        let mut parser = Parser { text, at: 0 };
        let ComponentType { ty, order } = parser.component(0)?;
        parser.expect_end()?;
        Ok((ty, order))
    }

    /// The type that a component of a dynamic composite names. As to Cassandra, what begins with no
    /// name is a blob, and what follows a type does not matter. Classes that are not known are
    /// refused, and so are dynamic composites, as there would be no end to those in each other.
    pub(crate) fn component_from_marshal(text: &str) -> Result<ComponentType, MarshalError> {
        let mut parser = Parser { text, at: 0 };
        parser.skip_blank();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-+._&$".contains(c);
        if !parser.text[parser.at..].starts_with(is_name) {
            return Ok(ComponentType {
                ty: CqlType::Blob,
                order: Order::Ascending,
            });
        }
        let component = parser.component(0)?;
        let cannot_be_named = |ty: &CqlType| match ty {
            CqlType::Composite(composite) => matches!(**composite, Composite::Dynamic(_)),
            ty => !ty.has_known_order(),
        };
        if component.ty.any(&cannot_be_named) || component.ty.nesting() > MAX_NESTING {
            return parser.error("no component may be of such a type");
        }
        Ok(component)
    }

    /// The types of the columns of a partition key: a `CompositeType` has several.
    pub fn key_types_from_marshal(text: &str) -> Result<Vec<CqlType>, MarshalError> {
        let mut parser = Parser { text, at: 0 };
        if parser.name() != "CompositeType" {
            return CqlType::from_marshal(text).map(|ty| vec![ty]);
        }
        let types = parser.types(0)?;
        parser.expect_end()?;
        Ok(types)
    }

    /// The Java class string of this type, as Cassandra prints it.
    pub fn to_marshal(&self) -> String {
        let mut out = String::new();
        self.write_marshal(&mut out, false);
        out
    }

    /// The class of a partition key of columns of these types.
    pub fn key_types_to_marshal<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> String {
        let mut names: Vec<String> = types.into_iter().map(CqlType::to_marshal).collect();
        match names.len() {
            1 => names.remove(0),
            _ => format!("{PACKAGE}CompositeType({})", names.join(",")),
        }
    }

    /// The name of its class, without the package if that is Cassandra's, and without what is in it
    /// or around it.
    pub fn class_name(&self) -> &str {
        match self {
            CqlType::List { .. } => "ListType",
            CqlType::Set { .. } => "SetType",
            CqlType::Map { .. } => "MapType",
            CqlType::Tuple(_) => "TupleType",
            CqlType::Vector { .. } => "VectorType",
            CqlType::Udt { .. } => "UserType",
            CqlType::Composite(composite) => match **composite {
                Composite::Fixed(_) => "CompositeType",
                Composite::Dynamic(_) => "DynamicCompositeType",
            },
            CqlType::Custom(class) => {
                let name = class.split('(').next().unwrap_or_default();
                name.strip_prefix(PACKAGE).unwrap_or(name)
            }
            simple => {
                let class = SIMPLE.iter().find(|(_, ty)| ty == simple);
                class.expect("all other types are simple").0
            }
        }
    }

    /// The name of its class with the package: one that is named without is one of Cassandra's.
    pub(crate) fn full_class_name(&self) -> String {
        let name = self.class_name();
        match name.contains('.') {
            true => name.to_owned(),
            false => format!("{PACKAGE}{name}"),
        }
    }

    /// Within a frozen type, `FrozenType` is not repeated.
    fn write_marshal(&self, out: &mut String, in_frozen: bool) {
        let frozen = match self {
            CqlType::List { frozen, .. }
            | CqlType::Set { frozen, .. }
            | CqlType::Map { frozen, .. }
            | CqlType::Udt { frozen, .. } => *frozen,
            _ => false,
        };
        let marked = frozen && !in_frozen;
        if marked {
            out.push_str(PACKAGE);
            out.push_str("FrozenType(");
        }
        self.write_class(out, in_frozen || frozen);
        if marked {
            out.push(')');
        }
    }

    fn write_class(&self, out: &mut String, in_frozen: bool) {
        out.push_str(&self.full_class_name());
        match self {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                write_parts(out, [&**element], in_frozen);
            }
            CqlType::Map { key, value, .. } => write_parts(out, [&**key, &**value], in_frozen),
            CqlType::Tuple(types) => write_parts(out, types, true),
            CqlType::Vector { element, dimension } => {
                out.push('(');
                element.write_marshal(out, in_frozen);
                out.push_str(&format!(" , {dimension})"));
            }
            CqlType::Udt { definition, .. } => {
                out.push('(');
                out.push_str(&definition.keyspace);
                out.push(',');
                out.push_str(&to_hex(definition.name.as_bytes()));
                for (name, ty) in &definition.fields {
                    out.push(',');
                    out.push_str(&to_hex(name.as_bytes()));
                    out.push(':');
                    ty.write_marshal(out, in_frozen);
                }
                out.push(')');
            }
            CqlType::Composite(composite) => write_composite(out, composite),
            CqlType::Custom(class) => {
                let name = class.split('(').next().unwrap_or_default();
                out.push_str(&class[name.len()..]);
            }
            _ => {}
        }
    }
}

fn write_composite(out: &mut String, composite: &Composite) {
    out.push('(');
    match composite {
        Composite::Fixed(types) => {
            for (i, ty) in types.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                write_component(out, ty);
            }
        }
        Composite::Dynamic(aliases) => {
            for (i, (alias, ty)) in aliases.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                out.push(char::from(*alias));
                out.push_str("=>");
                write_component(out, ty);
            }
        }
    }
    out.push(')');
}

fn write_component(out: &mut String, component: &ComponentType) {
    let reversed = component.order == Order::Descending;
    if reversed {
        out.push_str(PACKAGE);
        out.push_str("ReversedType(");
    }
    component.ty.write_marshal(out, false);
    if reversed {
        out.push(')');
    }
}

fn write_parts<'t>(
    out: &mut String,
    parts: impl IntoIterator<Item = &'t CqlType>,
    in_frozen: bool,
) {
    for (i, part) in parts.into_iter().enumerate() {
        out.push(if i == 0 { '(' } else { ',' });
        part.write_marshal(out, in_frozen);
    }
    out.push(')');
}

/// Within a frozen type the fields of user types are printed without their own `FrozenType`.
fn freeze_fields(ty: CqlType) -> CqlType {
    let boxed = |part: Box<CqlType>| Box::new(freeze_fields(*part));
    match ty {
        CqlType::List { element, frozen } => CqlType::List {
            element: boxed(element),
            frozen,
        },
        CqlType::Set { element, frozen } => CqlType::Set {
            element: boxed(element),
            frozen,
        },
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: boxed(key),
            value: boxed(value),
            frozen,
        },
        CqlType::Vector { element, dimension } => CqlType::Vector {
            element: boxed(element),
            dimension,
        },
        CqlType::Tuple(types) => CqlType::Tuple(types.into_iter().map(freeze_fields).collect()),
        CqlType::Udt { definition, frozen } => {
            let mut definition = UserType::clone(&definition);
            for (_, ty) in &mut definition.fields {
                *ty = freeze_fields(std::mem::replace(ty, CqlType::Empty)).freeze();
            }
            CqlType::Udt {
                definition: Arc::new(definition),
                frozen,
            }
        }
        simple => simple,
    }
}

/// Reads `Name(part, part, …)`.
struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    /// A type, and whether it is in a `ReversedType`.
    fn component(&mut self, depth: usize) -> Result<ComponentType, MarshalError> {
        self.skip_blank();
        let start = self.at;
        let order = match self.name() {
            "ReversedType" => Order::Descending,
            _ => Order::Ascending,
        };
        self.at = start;
        let ty = self.ty(depth)?;
        Ok(ComponentType { ty, order })
    }

    fn ty(&mut self, depth: usize) -> Result<CqlType, MarshalError> {
        if depth > MAX_BRACKETS {
            return self.error("types lie too deep in each other");
        }
        self.skip_blank();
        let start = self.at;
        let name = self.name();
        if name.is_empty() {
            return self.error("expected a class name");
        }
        if let Some((_, ty)) = SIMPLE.iter().find(|(class, _)| *class == name) {
            return Ok(ty.clone());
        }
        let depth = depth + 1;
        match name {
            "FrozenType" => Ok(freeze_fields(self.only_part(depth)?).freeze()),
            "ReversedType" => self.only_part(depth),
            "ListType" => Ok(CqlType::List {
                element: Box::new(self.only_part(depth)?.freeze()),
                frozen: false,
            }),
            "SetType" => Ok(CqlType::Set {
                element: Box::new(self.only_part(depth)?.freeze()),
                frozen: false,
            }),
            "MapType" => match <[CqlType; 2]>::try_from(self.types(depth)?) {
                Ok([key, value]) => Ok(CqlType::Map {
                    key: Box::new(key.freeze()),
                    value: Box::new(value.freeze()),
                    frozen: false,
                }),
                Err(_) => self.error("a map has two types"),
            },
            "TupleType" => {
                let types = self.types(depth)?.into_iter().map(freeze_fields);
                Ok(CqlType::Tuple(types.map(|ty| ty.freeze()).collect()))
            }
            "VectorType" => self.vector(depth),
            "UserType" => self.user_type(depth),
            "CompositeType" => match self.list(|parser| parser.component(depth))? {
                types if types.is_empty() => self.error("a composite has a type"),
                types => Ok(CqlType::Composite(Arc::new(Composite::Fixed(types)))),
            },
            "DynamicCompositeType" => {
                let composite = Composite::dynamic(self.aliases(depth)?);
                Ok(CqlType::Composite(Arc::new(composite)))
            }
            _ => {
                self.skip_parts()?;
                let class = self.text[start..self.at].trim_end();
                Ok(CqlType::Custom(Arc::from(class)))
            }
        }
    }

    fn vector(&mut self, depth: usize) -> Result<CqlType, MarshalError> {
        self.expect(b'(')?;
        let element = self.ty(depth)?.freeze();
        self.expect(b',')?;
        self.skip_blank();
        let Ok(dimension) = self.word().parse() else {
            return self.error("expected the dimension of a vector");
        };
        self.expect(b')')?;
        Ok(CqlType::Vector {
            element: Box::new(element),
            dimension,
        })
    }

    fn user_type(&mut self, depth: usize) -> Result<CqlType, MarshalError> {
        self.expect(b'(')?;
        self.skip_blank();
        let keyspace = Arc::from(self.word());
        self.expect(b',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while self.take(b',') {
            let field = self.hex_name()?;
            self.expect(b':')?;
            fields.push((field, self.ty(depth)?));
        }
        self.expect(b')')?;
        Ok(CqlType::Udt {
            definition: Arc::new(UserType {
                keyspace,
                name,
                fields,
            }),
            frozen: false,
        })
    }

    /// `alias=>type, …`, if there are brackets.
    fn aliases(&mut self, depth: usize) -> Result<Vec<(u8, ComponentType)>, MarshalError> {
        self.skip_blank();
        if !self.text[self.at..].starts_with('(') {
            return Ok(Vec::new());
        }
        self.list(|parser| {
            let [alias @ 33..=127] = *parser.word().as_bytes() else {
                return parser.error("an alias is a single character");
            };
            parser.expect(b'=')?;
            parser.expect(b'>')?;
            Ok((alias, parser.component(depth)?))
        })
    }

    fn hex_name(&mut self) -> Result<Arc<str>, MarshalError> {
        self.skip_blank();
        match from_hex(self.word()).and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(name) => Ok(Arc::from(name)),
            None => self.error("expected a name in hexadecimal"),
        }
    }

    fn only_part(&mut self, depth: usize) -> Result<CqlType, MarshalError> {
        match <[CqlType; 1]>::try_from(self.types(depth)?) {
            Ok([ty]) => Ok(ty),
            Err(_) => self.error("expected one type"),
        }
    }

    fn types(&mut self, depth: usize) -> Result<Vec<CqlType>, MarshalError> {
        self.list(|parser| parser.ty(depth))
    }

    /// What is in brackets; blanks may stand for commas (`TypeParser.skipBlankAndComma`).
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, MarshalError>,
    ) -> Result<Vec<T>, MarshalError> {
        self.expect(b'(')?;
        let mut items = Vec::new();
        while !self.take(b')') {
            items.push(item(self)?);
            self.take(b',');
        }
        Ok(items)
    }

    /// Passes over the parameters of a class that is not known.
    fn skip_parts(&mut self) -> Result<(), MarshalError> {
        if !self.take(b'(') {
            return Ok(());
        }
        let mut open = 1;
        while open > 0 {
            match self.text.as_bytes().get(self.at) {
                Some(b'(') => open += 1,
                Some(b')') => open -= 1,
                Some(_) => {}
                None => return self.error("expected a closing bracket"),
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A class name without its package, if that is Cassandra's.
    fn name(&mut self) -> &'t str {
        let word = self.word();
        word.strip_prefix(PACKAGE).unwrap_or(word)
    }

    fn word(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "-+._&$".contains(c)))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn skip_blank(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let found = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), MarshalError> {
        if self.take(byte) {
            return Ok(());
        }
        self.error(match byte {
            b'(' => "expected an opening bracket",
            b')' => "expected a closing bracket",
            b':' => "expected a colon",
            b'=' | b'>' => "expected =>",
            _ => "expected a comma",
        })
    }

    fn expect_end(&mut self) -> Result<(), MarshalError> {
        self.skip_blank();
        if self.at == self.text.len() {
            return Ok(());
        }
        self.error("expected nothing more")
    }

    fn error<T>(&self, reason: &'static str) -> Result<T, MarshalError> {
        Err(MarshalError {
            text: self.text.to_owned(),
            reason,
            at: self.at,
        })
    }
}
