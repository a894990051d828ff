//! CQL types on the wire: `[option]` (`native_protocol_v5.spec`, section 4.2.5.2).

use std::sync::Arc;

use model::{CqlType, UserType};

use crate::Version;
use crate::notation::{BodyReader, BodyWriter, DecodeError};

const CUSTOM: u16 = 0x0000;
const LIST: u16 = 0x0020;
const MAP: u16 = 0x0021;
const SET: u16 = 0x0022;
const UDT: u16 = 0x0030;
const TUPLE: u16 = 0x0031;

/// How deep types read from the wire may be nested.
const MAX_DEPTH: usize = 64;

/// The types without parameters: id, the first version that knows it, the type.
const NATIVE: [(u16, Version, CqlType); 20] = [
    (0x0001, Version::V3, CqlType::Ascii),
    (0x0002, Version::V3, CqlType::Bigint),
    (0x0003, Version::V3, CqlType::Blob),
    (0x0004, Version::V3, CqlType::Boolean),
    (0x0005, Version::V3, CqlType::Counter),
    (0x0006, Version::V3, CqlType::Decimal),
    (0x0007, Version::V3, CqlType::Double),
    (0x0008, Version::V3, CqlType::Float),
    (0x0009, Version::V3, CqlType::Int),
    (0x000B, Version::V3, CqlType::Timestamp),
    (0x000C, Version::V3, CqlType::Uuid),
    (0x000D, Version::V3, CqlType::Text),
    (0x000E, Version::V3, CqlType::Varint),
    (0x000F, Version::V3, CqlType::Timeuuid),
    (0x0010, Version::V3, CqlType::Inet),
    (0x0011, Version::V4, CqlType::Date),
    (0x0012, Version::V4, CqlType::Time),
    (0x0013, Version::V4, CqlType::Smallint),
    (0x0014, Version::V4, CqlType::Tinyint),
    (0x0015, Version::V5, CqlType::Duration),
];

/// Appends a type. What `version` has no id for goes as a custom type with the name of its Java
/// class, as do vectors and composites in all versions (Cassandra's `DataType.fromType`).
pub fn put_type(ty: &CqlType, version: Version, out: &mut Vec<u8>) {
    match ty {
        CqlType::List { element, .. } => {
            out.put_short(LIST);
            put_type(element, version, out);
        }
        CqlType::Set { element, .. } => {
            out.put_short(SET);
            put_type(element, version, out);
        }
        CqlType::Map { key, value, .. } => {
            out.put_short(MAP);
            put_type(key, version, out);
            put_type(value, version, out);
        }
        CqlType::Tuple(types) => {
            out.put_short(TUPLE);
            out.put_short(types.len() as u16);
            for ty in types {
                put_type(ty, version, out);
            }
        }
        CqlType::Udt { definition, .. } => {
            out.put_short(UDT);
            out.put_string(&definition.keyspace);
            out.put_string(&definition.name);
            out.put_short(definition.fields.len() as u16);
            for (name, ty) in &definition.fields {
                out.put_string(name);
                put_type(ty, version, out);
            }
        }
        CqlType::Custom(class) => put_custom(class, out),
        native => match NATIVE.iter().find(|(_, _, known)| known == native) {
            Some((id, since, _)) if version >= *since => out.put_short(*id),
            _ => put_custom(&native.to_marshal(), out),
        },
    }
}

fn put_custom(class: &str, out: &mut Vec<u8>) {
    out.put_short(CUSTOM);
    out.put_string(class);
}

/// Reads a type. Whether collections and user types are frozen is not on the wire: here they are
/// not.
pub fn read_type(body: &mut BodyReader<'_>) -> Result<CqlType, DecodeError> {
    read_nested(body, MAX_DEPTH)
}

fn read_nested(body: &mut BodyReader<'_>, depth: usize) -> Result<CqlType, DecodeError> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(DecodeError::new(format!(
            "A type is nested deeper than {MAX_DEPTH}"
        )));
    };
    match body.short()? {
        CUSTOM => {
            let class = body.string()?;
            Ok(CqlType::from_marshal(class).unwrap_or_else(|_| CqlType::Custom(class.into())))
        }
        LIST => Ok(CqlType::List {
            element: Box::new(read_nested(body, deeper)?),
            frozen: false,
        }),
        SET => Ok(CqlType::Set {
            element: Box::new(read_nested(body, deeper)?),
            frozen: false,
        }),
        MAP => Ok(CqlType::Map {
            key: Box::new(read_nested(body, deeper)?),
            value: Box::new(read_nested(body, deeper)?),
            frozen: false,
        }),
        TUPLE => {
            let count = body.short()?;
            let types = (0..count).map(|_| read_nested(body, deeper));
            types.collect::<Result<_, _>>().map(CqlType::Tuple)
        }
        UDT => {
            let keyspace = body.string()?.into();
            let name = body.string()?.into();
            let count = body.short()?;
            let fields =
                (0..count).map(|_| Ok((body.string()?.into(), read_nested(body, deeper)?)));
            let fields = fields.collect::<Result<_, DecodeError>>()?;
            let definition = UserType {
                keyspace,
                name,
                fields,
            };
            Ok(CqlType::Udt {
                definition: Arc::new(definition),
                frozen: false,
            })
        }
        // 10 was text; servers send varchar (13) since version 3.
        0x000A => Ok(CqlType::Text),
        id => match NATIVE.iter().find(|(known, _, _)| *known == id) {
            Some((_, _, ty)) => Ok(ty.clone()),
            None => Err(DecodeError::new(format!("Unknown type option {id:#06x}"))),
        },
    }
}
