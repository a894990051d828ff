//! From values of CQL to values of Lua.
//!
//! | CQL | Lua |
//! |---|---|
//! | null, and an empty value of a type that has no use for one | `nil` |
//! | `tinyint`, `smallint`, `int`, `bigint`, `counter` | integer |
//! | `float`, `double` | number |
//! | `varint`, `decimal` | an exact number ([`Decimal`]) |
//! | `boolean` | boolean |
//! | `ascii`, `text`, `blob` | string of their bytes |
//! | `uuid`, `timeuuid`, `inet` | string of their text |
//! | `date` | integer: days since 1970, and 2³¹ |
//! | `time` | integer: nanoseconds since midnight |
//! | `timestamp` | integer: milliseconds since 1970 |
//! | `duration` | `{months = …, days = …, nanoseconds = …}` |
//! | `list`, `tuple`, `vector` | `{a, b, …}` |
//! | `set` | `{[a] = true, …}` |
//! | `map` | `{[key] = value, …}` |
//! | user type | `{field = value, …}` |

use mlua::{Lua, Value};
use model::duration::Duration;
use model::number::{check_digits, decode_decimal, decode_varint};
use model::{CqlType, collection};

use crate::decimal::made;

fn malformed(error: model::ValueError) -> mlua::Error {
    mlua::Error::runtime(error.to_string())
}

fn fixed<const N: usize>(value: &[u8]) -> mlua::Result<[u8; N]> {
    let wrong = || mlua::Error::runtime(format!("a value has {} bytes, not {N}", value.len()));
    value.try_into().map_err(|_| wrong())
}

/// The value; `None` is null. Errors: bytes that are no value of the type, too little memory.
pub(crate) fn to_lua(lua: &Lua, ty: &CqlType, value: Option<&[u8]>) -> mlua::Result<Value> {
    let Some(value) = value else {
        return Ok(Value::Nil);
    };
    if value.is_empty() && ty.is_empty_meaningless() {
        return Ok(Value::Nil);
    }
    Ok(match ty {
        CqlType::Tinyint => Value::Integer(i8::from_be_bytes(fixed(value)?).into()),
        CqlType::Smallint => Value::Integer(i16::from_be_bytes(fixed(value)?).into()),
        CqlType::Int => Value::Integer(i32::from_be_bytes(fixed(value)?).into()),
        CqlType::Date => Value::Integer(u32::from_be_bytes(fixed(value)?).into()),
        CqlType::Bigint | CqlType::Counter | CqlType::Time | CqlType::Timestamp => {
            Value::Integer(i64::from_be_bytes(fixed(value)?))
        }
        CqlType::Float => Value::Number(f32::from_be_bytes(fixed(value)?).into()),
        CqlType::Double => Value::Number(f64::from_be_bytes(fixed(value)?)),
        CqlType::Varint => {
            check_digits(ty, value).map_err(malformed)?;
            exact(lua, decode_varint(value).into())?
        }
        CqlType::Decimal => {
            check_digits(ty, value).map_err(malformed)?;
            exact(lua, decode_decimal(value).map_err(malformed)?)?
        }
        CqlType::Boolean => Value::Boolean(value != [0]),
        CqlType::Uuid | CqlType::Timeuuid | CqlType::Inet => {
            Value::String(lua.create_string(ty.format_string(value))?)
        }
        CqlType::Duration => duration(lua, value)?,
        CqlType::List { element, .. } => {
            let elements = collection::elements(value).map_err(malformed)?;
            sequence(lua, elements.into_iter().map(|e| (&**element, Some(e))))?
        }
        CqlType::Vector { element, dimension } => {
            let elements = collection::vector_elements(value, element, *dimension);
            let elements = elements.map_err(malformed)?.into_iter();
            sequence(lua, elements.map(|e| (&**element, Some(e))))?
        }
        CqlType::Tuple(types) => {
            let parts = collection::components(value, types.len()).map_err(malformed)?;
            sequence(lua, types.iter().zip(parts))?
        }
        CqlType::Set { element, .. } => {
            let table = lua.create_table()?;
            for key in collection::elements(value).map_err(malformed)? {
                table.raw_set(to_lua(lua, element, Some(key))?, true)?;
            }
            Value::Table(table)
        }
        CqlType::Map { key, value: of, .. } => {
            let table = lua.create_table()?;
            for (k, v) in collection::entries(value).map_err(malformed)? {
                table.raw_set(to_lua(lua, key, Some(k))?, to_lua(lua, of, Some(v))?)?;
            }
            Value::Table(table)
        }
        CqlType::Udt { definition, .. } => {
            let fields = &definition.fields;
            let parts = collection::components(value, fields.len()).map_err(malformed)?;
            let table = lua.create_table()?;
            for ((name, ty), part) in fields.iter().zip(parts) {
                table.raw_set(&**name, to_lua(lua, ty, part)?)?;
            }
            Value::Table(table)
        }
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Empty
        | CqlType::Composite(_)
        | CqlType::Custom(_) => Value::String(lua.create_string(value)?),
    })
}

fn exact(lua: &Lua, number: bigdecimal::BigDecimal) -> mlua::Result<Value> {
    made(lua, number)
}

fn duration(lua: &Lua, value: &[u8]) -> mlua::Result<Value> {
    let duration = Duration::decode(value).map_err(malformed)?;
    let table = lua.create_table()?;
    table.raw_set("months", duration.months)?;
    table.raw_set("days", duration.days)?;
    table.raw_set("nanoseconds", duration.nanoseconds)?;
    Ok(Value::Table(table))
}

fn sequence<'v>(
    lua: &Lua,
    parts: impl Iterator<Item = (&'v CqlType, Option<&'v [u8]>)>,
) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for (i, (ty, part)) in (1i64..).zip(parts) {
        table.raw_set(i, to_lua(lua, ty, part)?)?;
    }
    Ok(Value::Table(table))
}
