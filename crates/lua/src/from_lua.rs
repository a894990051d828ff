//! From values of Lua to values of CQL.
//!
//! The types are those of [`to_lua`](crate::to_lua). Besides, as in Scylla: numbers may be strings
//! that are numbers; integers that do not fit wrap, as Java's do; whatever is not `nil` or `false` is
//! true; dates and times may be text as in CQL, and `date` and `timestamp` a table as of `os.date`
//! (`year`, `month`, `day`, and for `timestamp` `hour`, which is 12 otherwise, `min`, `sec`);
//! what a tuple or user type lacks is null.

use bigdecimal::{BigDecimal, ToPrimitive};
use bytes::Bytes;
use mlua::{Table, Value};
use model::duration::Duration;
use model::number::{check_digits, encode_decimal, encode_varint};
use model::{CqlType, collection};
use num_bigint::BigInt;

use crate::decimal::{Decimal, integer, parse, whole};

type Converted<T> = Result<T, String>;

fn fail<T>(message: impl Into<String>) -> Converted<T> {
    Err(message.into())
}

fn text_of(error: impl ToString) -> String {
    error.to_string()
}

/// A number, exact if it can be.
enum Number {
    Exact(BigDecimal),
    Real(f64),
}

/// What a value is as a number, if it is one or a text of one.
fn number(value: &Value) -> Option<Number> {
    let real = |number: f64| match whole(number) {
        Some(integer) => Number::Exact(integer.into()),
        None => Number::Real(number),
    };
    match value {
        Value::Integer(integer) => Some(Number::Exact((*integer).into())),
        Value::Number(number) => Some(real(*number)),
        Value::UserData(data) => {
            let decimal = data.borrow::<Decimal>().ok()?;
            Some(Number::Exact(decimal.0.clone()))
        }
        Value::String(text) => {
            let text = text.to_string_lossy();
            let exact = parse(&text).map(Number::Exact);
            exact.or_else(|| text.trim().parse().ok().map(real))
        }
        _ => None,
    }
}

fn varint(value: &Value) -> Converted<BigInt> {
    match number(value) {
        Some(Number::Exact(number)) => integer(&number).ok_or("value is not an integer".to_owned()),
        Some(Number::Real(_)) => fail("value is not an integer"),
        None => fail("value is not a number"),
    }
}

/// The integer, wrapped into 64 bits.
fn bigint(value: &Value) -> Converted<i64> {
    if let Value::Integer(integer) = value {
        return Ok(*integer);
    }
    let number = varint(value)?;
    Ok(match number.to_i64() {
        Some(number) => number,
        None => {
            let mut bytes = number.to_signed_bytes_le();
            let fill = if number < BigInt::ZERO { 0xFF } else { 0 };
            bytes.resize(bytes.len().max(8), fill);
            i64::from_le_bytes(bytes[..8].try_into().unwrap_or_default())
        }
    })
}

fn real(value: &Value) -> Converted<f64> {
    // Also the zero below 0 stays what it is.
    if let Value::Number(number) = value {
        return Ok(*number);
    }
    match number(value) {
        Some(Number::Exact(number)) => number.to_f64().ok_or("value is not a number".to_owned()),
        Some(Number::Real(number)) => Ok(number),
        None => fail("value is not a number"),
    }
}

fn decimal(value: &Value) -> Converted<BigDecimal> {
    match number(value) {
        Some(Number::Exact(number)) => Ok(number),
        // Its shortest text, as CQL makes a decimal of a double.
        Some(Number::Real(number)) => match number.to_string().parse() {
            Ok(number) => Ok(number),
            Err(_) => fail("value is not a decimal"),
        },
        None => fail("value is not a number"),
    }
}

/// The bytes of a text; numbers are written as text.
fn string(value: &Value) -> Converted<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(integer) => Ok(integer.to_string().into_bytes()),
        Value::Number(number) => Ok(match whole(*number) {
            Some(integer) => integer.to_string().into_bytes(),
            None => number.to_string().into_bytes(),
        }),
        Value::UserData(_) => match number(value) {
            Some(Number::Exact(number)) => Ok(number.to_plain_string().into_bytes()),
            _ => fail("unexpected value"),
        },
        _ => fail("unexpected value"),
    }
}

fn table(value: &Value) -> Converted<&Table> {
    match value {
        Value::Table(table) => Ok(table),
        _ => fail("value is not a table"),
    }
}

/// Converts values, as long as they come to no more bytes than they may.
pub(crate) struct FromLua {
    left: usize,
}

impl FromLua {
    /// Of at most so many bytes.
    pub(crate) fn new(max_bytes: usize) -> FromLua {
        FromLua { left: max_bytes }
    }

    fn spend(&mut self, value: Vec<u8>) -> Converted<Vec<u8>> {
        // What a value of no bytes costs in a collection.
        match self.left.checked_sub(value.len() + 4) {
            Some(left) => self.left = left,
            None => return fail("the value is too large"),
        }
        Ok(value)
    }

    /// The value, a valid one of the type; `None` is null.
    pub(crate) fn convert(&mut self, ty: &CqlType, value: &Value) -> Converted<Option<Bytes>> {
        if value.is_nil() {
            return Ok(None);
        }
        let bytes = self.bytes(ty, value)?;
        ty.validate(&bytes).map_err(text_of)?;
        Ok(Some(bytes.into()))
    }

    /// One that is not null.
    fn required(&mut self, ty: &CqlType, value: &Value) -> Converted<Vec<u8>> {
        match value.is_nil() {
            true => fail("null is not supported inside collections"),
            false => self.bytes(ty, value),
        }
    }

    fn bytes(&mut self, ty: &CqlType, value: &Value) -> Converted<Vec<u8>> {
        let bytes = match ty {
            CqlType::Tinyint => (bigint(value)? as i8).to_be_bytes().to_vec(),
            CqlType::Smallint => (bigint(value)? as i16).to_be_bytes().to_vec(),
            CqlType::Int => (bigint(value)? as i32).to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Counter => bigint(value)?.to_be_bytes().to_vec(),
            CqlType::Varint => {
                let bytes = encode_varint(&varint(value)?);
                check_digits(ty, &bytes).map_err(text_of)?;
                bytes
            }
            CqlType::Decimal => {
                let bytes = encode_decimal(&decimal(value)?).map_err(text_of)?;
                check_digits(ty, &bytes).map_err(text_of)?;
                bytes
            }
            CqlType::Float => (real(value)? as f32).to_be_bytes().to_vec(),
            CqlType::Double => real(value)?.to_be_bytes().to_vec(),
            CqlType::Boolean => vec![u8::from(!matches!(value, Value::Boolean(false)))],
            CqlType::Ascii | CqlType::Text | CqlType::Blob => string(value)?,
            CqlType::Composite(_) => {
                let bytes = string(value)?;
                ty.validate(&bytes).map_err(text_of)?;
                bytes
            }
            CqlType::Uuid | CqlType::Timeuuid | CqlType::Inet => parsed(ty, &string(value)?)?,
            CqlType::Date | CqlType::Time | CqlType::Timestamp => moment(ty, value)?,
            CqlType::Duration => duration(value)?,
            CqlType::List { element, .. } => self.list(element, table(value)?)?,
            CqlType::Vector { element, dimension } => {
                self.vector(element, *dimension, table(value)?)?
            }
            CqlType::Set { element, .. } => self.set(element, table(value)?)?,
            CqlType::Map { key, value: of, .. } => self.map(key, of, table(value)?)?,
            CqlType::Tuple(types) => self.tuple(types, table(value)?)?,
            CqlType::Udt { definition, .. } => self.user_type(definition, table(value)?)?,
            CqlType::Empty | CqlType::Custom(_) => return fail(format!("{ty} has no values")),
        };
        self.spend(bytes)
    }

    /// The elements of a sequence, which must be of 1, 2, ….
    fn sequence(&mut self, element: &CqlType, table: &Table) -> Converted<Vec<Vec<u8>>> {
        let mut found: Vec<(BigInt, Vec<u8>)> = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(text_of)?;
            found.push((varint(&key)?, self.required(element, &value)?));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let in_order = found
            .iter()
            .zip(1u64..)
            .all(|((key, _), i)| *key == i.into());
        match in_order {
            true => Ok(found.into_iter().map(|(_, value)| value).collect()),
            false => fail("table is not a sequence"),
        }
    }

    fn list(&mut self, element: &CqlType, table: &Table) -> Converted<Vec<u8>> {
        Ok(collection::pack_elements(self.sequence(element, table)?))
    }

    fn vector(&mut self, element: &CqlType, dimension: u32, table: &Table) -> Converted<Vec<u8>> {
        let elements = self.sequence(element, table)?;
        if elements.len() != dimension as usize {
            return fail(format!(
                "the sequence has {} elements, not {dimension}",
                elements.len()
            ));
        }
        collection::pack_vector(element, elements).map_err(text_of)
    }

    fn set(&mut self, element: &CqlType, table: &Table) -> Converted<Vec<u8>> {
        let mut elements = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(text_of)?;
            if matches!(value, Value::Nil | Value::Boolean(false)) {
                return fail("sets are represented with tables with true values");
            }
            elements.push(self.required(element, &key)?);
        }
        elements.sort_by(|a, b| element.compare(a, b));
        elements.dedup_by(|a, b| element.compare(a, b).is_eq());
        Ok(collection::pack_elements(elements))
    }

    fn map(&mut self, key: &CqlType, of: &CqlType, table: &Table) -> Converted<Vec<u8>> {
        let mut entries = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (k, v) = pair.map_err(text_of)?;
            entries.push((self.required(key, &k)?, self.required(of, &v)?));
        }
        // Of keys that are one to CQL (`1` and `"1"`) which stays must not depend on chance.
        entries.sort_by(|(a, x), (b, y)| key.compare(a, b).then_with(|| x.cmp(y)));
        entries.dedup_by(|(a, _), (b, _)| key.compare(a, b).is_eq());
        Ok(collection::pack_entries(entries))
    }

    fn tuple(&mut self, types: &[CqlType], table: &Table) -> Converted<Vec<u8>> {
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; types.len()];
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(text_of)?;
            let at = varint(&key)?.to_usize().and_then(|key| key.checked_sub(1));
            let Some((at, ty)) = at.and_then(|at| Some((at, types.get(at)?))) else {
                return fail(format!(
                    "key {} is not valid for a sequence of size {}",
                    varint(&key)?,
                    types.len()
                ));
            };
            parts[at] = Some(self.required(ty, &value)?);
        }
        Ok(collection::pack_tuple(parts))
    }

    fn user_type(&mut self, ty: &model::UserType, table: &Table) -> Converted<Vec<u8>> {
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; ty.fields.len()];
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(text_of)?;
            let name = string(&key)?;
            let found = ty
                .fields
                .iter()
                .position(|(field, _)| field.as_bytes() == name);
            let Some(at) = found else {
                let name = String::from_utf8_lossy(&name);
                return fail(format!("invalid UDT field '{name}'"));
            };
            parts[at] = Some(self.required(&ty.fields[at].1, &value)?);
        }
        Ok(collection::pack_tuple(parts))
    }
}

fn parsed(ty: &CqlType, text: &[u8]) -> Converted<Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    ty.parse_string(&text).map(Into::into).map_err(text_of)
}

fn moment(ty: &CqlType, value: &Value) -> Converted<Vec<u8>> {
    match value {
        Value::Table(table) if *ty != CqlType::Time => date_table(ty, table),
        Value::String(text) if number(value).is_none() => parsed(ty, &text.as_bytes()),
        _ => {
            let number = varint(value).map_err(|_| match ty {
                CqlType::Time => "time must be a string or an integer".to_owned(),
                _ => format!("{ty} must be a string, integer or date table"),
            })?;
            match ty {
                CqlType::Date => match number.to_u32() {
                    Some(days) => Ok(days.to_be_bytes().to_vec()),
                    None => fail("date value must fit in 32 bits"),
                },
                _ => match number.to_i64() {
                    Some(number) => Ok(number.to_be_bytes().to_vec()),
                    None => fail(format!("{ty} value must fit in signed 64 bits")),
                },
            }
        }
    }
}

/// A table as of `os.date`.
fn date_table(ty: &CqlType, table: &Table) -> Converted<Vec<u8>> {
    let (mut date, mut time) = ([None; 3], [None; 3]);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(text_of)?;
        let key = string(&key)?;
        let number = varint(&value)?.to_i32();
        let Some(number) = number.filter(|number| *number >= 0) else {
            let key = String::from_utf8_lossy(&key);
            return fail(format!("{key} is too large"));
        };
        let field = match &key[..] {
            b"year" => &mut date[0],
            b"month" => &mut date[1],
            b"day" => &mut date[2],
            b"hour" => &mut time[0],
            b"min" => &mut time[1],
            b"sec" => &mut time[2],
            _ => {
                let key = String::from_utf8_lossy(&key);
                return fail(format!("invalid date table field: '{key}'"));
            }
        };
        *field = Some(number);
    }
    let [Some(year), Some(month), Some(day)] = date else {
        return fail("date table must have year, month and day");
    };
    let date = format!("{year:04}-{month:02}-{day:02}");
    if *ty == CqlType::Date {
        return match time {
            [None, None, None] => parsed(ty, date.as_bytes()),
            _ => fail("date type has no hour, minute or second"),
        };
    }
    let [hour, minute, second] = time;
    let (hour, minute, second) = (hour.unwrap_or(12), minute.unwrap_or(0), second.unwrap_or(0));
    let text = format!("{date} {hour:02}:{minute:02}:{second:02}+0000");
    parsed(ty, text.as_bytes())
}

fn duration(value: &Value) -> Converted<Vec<u8>> {
    let wrong = "a duration must be of the form { months = v1, days = v2, nanoseconds = v3 }";
    let table = match value {
        Value::String(text) => return parsed(&CqlType::Duration, &text.as_bytes()),
        Value::Table(table) => table,
        _ => return fail(wrong),
    };
    let mut duration = Duration {
        months: 0,
        days: 0,
        nanoseconds: 0,
    };
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(text_of)?;
        let (key, number) = (string(&key)?, varint(&value)?);
        let small = || {
            let key = String::from_utf8_lossy(&key);
            let too_large = format!("{number} {key} doesn't fit in a 32 bit integer");
            number.to_i32().ok_or(too_large)
        };
        match &key[..] {
            b"months" => duration.months = small()?,
            b"days" => duration.days = small()?,
            b"nanoseconds" => {
                let too_large = format!("{number} nanoseconds doesn't fit in a 64 bit integer");
                duration.nanoseconds = number.to_i64().ok_or(too_large)?;
            }
            _ => {
                let key = String::from_utf8_lossy(&key);
                return fail(format!("invalid duration field: '{key}'"));
            }
        }
    }
    Ok(duration.encode())
}
