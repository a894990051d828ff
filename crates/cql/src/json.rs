//! Values from JSON (`AbstractType.fromJSONObject`).

use bytes::Bytes;
use model::{CqlType, ValueError, collection};
use serde_json::{Map, Value};

use crate::functions::double_text;

/// How deep JSON may nest: as deep as types can.
const MAX_DEPTH: usize = 100;

/// An object as names and values: names as columns are named, in lower case unless they are in
/// quotes within the quotes (`Json.handleCaseSensitivity`). Of several names of a column the last counts; names
/// that are written as columns are come first.
pub(crate) fn columns_of(object: Map<String, Value>) -> Vec<(String, Value)> {
    let names = object.into_iter();
    let mut columns: Vec<(bool, String, Value)> = names
        .map(|(name, value)| {
            let column = column_name(&name);
            (column != name, column, value)
        })
        .collect();
    columns.sort_by_key(|(is_other, ..)| *is_other);
    columns
        .into_iter()
        .map(|(_, n, value)| (n, value))
        .collect()
}

fn column_name(name: &str) -> String {
    match name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
    {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// The first JSON value of a text, as Jackson's `ObjectMapper.readValue` has it: what comes behind
/// an object, a list or a string is not looked at.
///
/// # Errors
/// It begins with no JSON, or a number or a word does not end.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match stream.next() {
        Some(value) => value,
        // There is nothing: let it say so.
        None => serde_json::from_str(text),
    }
}

/// The value of this type that JSON stands for; `None` for null.
pub(crate) fn value_of(json: &Value, ty: &CqlType) -> Result<Option<Bytes>, ValueError> {
    value_at(json, ty, 0)
}

fn refuse<T>(message: String) -> Result<T, ValueError> {
    Err(ValueError::new(message))
}

/// What Java would call it, and its text.
fn shown(json: &Value) -> String {
    match json {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("Boolean: {value}"),
        Value::String(text) => format!("String: {text}"),
        Value::Array(_) => format!("ArrayList: {}", java_text(json)),
        Value::Object(_) => format!("LinkedHashMap: {}", java_text(json)),
        Value::Number(number) => {
            let text = number.to_string();
            let class = if text.contains(['.', 'e', 'E']) {
                "Double"
            } else if text.parse::<i32>().is_ok() {
                "Integer"
            } else if text.parse::<i64>().is_ok() {
                "Long"
            } else {
                "BigInteger"
            };
            format!("{class}: {}", number_text(number))
        }
    }
}

/// Its text in Java.
fn java_text(json: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match json {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", joined(items.iter().map(java_text).collect()))
        }
        Value::Object(entries) => {
            let entry = |(name, value)| format!("{name}={}", java_text(value));
            format!("{{{}}}", joined(entries.iter().map(entry).collect()))
        }
        Value::Number(number) => number_text(number),
        other => other.to_string(),
    }
}

fn value_at(json: &Value, ty: &CqlType, depth: usize) -> Result<Option<Bytes>, ValueError> {
    if depth > MAX_DEPTH {
        return refuse(format!("JSON values may nest {MAX_DEPTH} deep, not deeper"));
    }
    if json.is_null() {
        return Ok(None);
    }
    let bytes = match ty {
        CqlType::List { element, .. } => {
            let items = elements(json, element, "list", "a list", depth)?;
            collection::pack_elements(items).into()
        }
        CqlType::Set { element, .. } => {
            let what = "a list (representing a set)";
            let mut items = elements(json, element, "set", what, depth)?;
            items.sort_by(|a, b| element.compare(a, b));
            items.dedup_by(|a, b| element.compare(a, b).is_eq());
            collection::pack_elements(items).into()
        }
        CqlType::Map { key, value, .. } => map(json, key, value, depth)?,
        CqlType::Tuple(types) => tuple(json, types, depth)?,
        CqlType::Udt { definition, .. } => user_type(json, definition, depth)?,
        CqlType::Vector { element, dimension } => {
            let items = elements(json, element, "list", "a list", depth)?;
            if items.len() != *dimension as usize {
                return refuse(format!(
                    "List had incorrect size: expected {dimension} but given {}; {}",
                    items.len(),
                    java_text(json)
                ));
            }
            collection::pack_vector(element, items)?.into()
        }
        simple => simple_value(json, simple)?,
    };
    Ok(Some(bytes))
}

/// JSON within a text, as Cassandra takes it for collections.
fn inner(json: &Value) -> Value {
    match json {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json.clone()),
        other => other.clone(),
    }
}

fn elements(
    json: &Value,
    ty: &CqlType,
    collection: &str,
    expected: &str,
    depth: usize,
) -> Result<Vec<Bytes>, ValueError> {
    let Value::Array(items) = inner(json) else {
        return refuse(format!("Expected {expected}, but got a {}", shown(json)));
    };
    items
        .iter()
        .map(|item| match value_at(item, ty, depth + 1)? {
            Some(value) => Ok(value),
            None => refuse(format!("Invalid null element in {collection}")),
        })
        .collect()
}

fn map(json: &Value, key: &CqlType, value: &CqlType, depth: usize) -> Result<Bytes, ValueError> {
    let Value::Object(entries) = inner(json) else {
        return refuse(format!("Expected a map, but got a {}", shown(json)));
    };
    let mut pairs = Vec::with_capacity(entries.len());
    for (k, v) in entries {
        let Some(v) = value_at(&v, value, depth + 1)? else {
            return refuse("Invalid null value in map".to_owned());
        };
        let Some(k) = value_at(&Value::String(k), key, depth + 1)? else {
            return refuse("Invalid null key in map".to_owned());
        };
        pairs.push((k, v));
    }
    pairs.sort_by(|(a, _), (b, _)| key.compare(a, b));
    pairs.dedup_by(|(a, _), (b, _)| key.compare(a, b).is_eq());
    Ok(collection::pack_entries(pairs).into())
}

fn tuple(json: &Value, types: &[CqlType], depth: usize) -> Result<Bytes, ValueError> {
    let decoded = inner(json);
    let Value::Array(items) = &decoded else {
        return refuse(format!(
            "Expected a list representation of a tuple, but got a {}",
            shown(json)
        ));
    };
    if items.len() > types.len() {
        return refuse(format!(
            "Tuple contains extra items (expected {}): {}",
            types.len(),
            java_text(&decoded)
        ));
    }
    if items.len() < types.len() {
        return refuse(format!(
            "Tuple is missing items (expected {}): {}",
            types.len(),
            java_text(&decoded)
        ));
    }
    let components: Result<Vec<Option<Bytes>>, ValueError> = items
        .iter()
        .zip(types)
        .map(|(item, ty)| value_at(item, ty, depth + 1))
        .collect();
    Ok(collection::pack_tuple(components?).into())
}

fn user_type(
    json: &Value,
    definition: &model::UserType,
    depth: usize,
) -> Result<Bytes, ValueError> {
    let Value::Object(object) = inner(json) else {
        return refuse(format!("Expected a map, but got a {}", shown(json)));
    };
    let mut fields: Vec<Option<Bytes>> = vec![None; definition.fields.len()];
    for (name, value) in columns_of(object) {
        let Some(index) = definition
            .fields
            .iter()
            .position(|(field, _)| **field == *name)
        else {
            return refuse(format!(
                "Unknown field '{name}' in value of user defined type {}",
                definition.name
            ));
        };
        fields[index] = value_at(&value, &definition.fields[index].1, depth + 1)?;
    }
    Ok(collection::pack_tuple(fields).into())
}

/// A number's text. What is no whole number is a double before it is anything else, as Jackson has
/// it.
fn number_text(number: &serde_json::Number) -> String {
    let text = number.to_string();
    if !text.contains(['.', 'e', 'E']) {
        return text;
    }
    match text.parse() {
        Ok(number) => double_text(number),
        Err(_) => text,
    }
}

/// Texts of so many bytes or fewer are told to be no number; of longer ones what is wrong with them.
const SHOWN: usize = 1000;

fn simple_value(json: &Value, ty: &CqlType) -> Result<Bytes, ValueError> {
    let no_number = |shown: &str| {
        refuse(format!(
            "Value '{shown}' is not a valid representation of a {ty} value"
        ))
    };
    let unexpected = |what: &str| refuse(format!("Expected {what}, but got a {}", shown(json)));
    match (ty, json) {
        (CqlType::Blob, Value::String(text)) => match text.strip_prefix("0x") {
            Some(digits) => CqlType::Blob.parse_string(digits).map_err(|error| {
                ValueError::new(format!(
                    "Value '{text}' is not a valid blob representation: {error}"
                ))
            }),
            None => refuse(format!(
                "Value '{text}' is not a valid blob representation: String representation of blob \
                 is missing 0x prefix: {text}"
            )),
        },
        (CqlType::Varint | CqlType::Decimal, Value::String(text)) => match ty.parse_string(text) {
            Ok(value) if *ty == CqlType::Decimal || !text.is_empty() => Ok(value),
            Err(error) if text.len() > SHOWN => Err(error),
            _ => no_number(text),
        },
        (CqlType::Varint, Value::Number(number)) => {
            let text = number_text(number);
            match ty.parse_string(&text) {
                Err(_) if text.len() <= SHOWN => no_number(&text),
                parsed => parsed,
            }
        }
        (CqlType::Composite(_), _) => refuse(format!("There is no JSON of values of type {ty}")),
        (_, Value::String(text)) => ty.parse_string(text),
        (CqlType::Boolean, Value::Bool(value)) => ty.parse_string(&value.to_string()),
        (CqlType::Decimal | CqlType::Float | CqlType::Double, Value::Number(number)) => {
            ty.parse_string(&number_text(number))
        }
        (CqlType::Blob, _) => refuse(format!(
            "Value '{}' is not a valid blob representation: it is no string",
            java_text(json)
        )),
        (CqlType::Smallint | CqlType::Tinyint, Value::Number(number)) => {
            ty.parse_string(&number_text(number))
        }
        (CqlType::Int, Value::Number(number)) if number.to_string().parse::<i32>().is_ok() => {
            ty.parse_string(&number.to_string())
        }
        (CqlType::Bigint | CqlType::Counter, Value::Number(number))
            if number.to_string().parse::<i64>().is_ok() =>
        {
            ty.parse_string(&number.to_string())
        }
        // As in Cassandra, a number that Java takes for an int is no timestamp.
        (CqlType::Timestamp, Value::Number(number))
            if number.to_string().parse::<i64>().is_ok()
                && number.to_string().parse::<i32>().is_err() =>
        {
            ty.parse_string(&number.to_string())
        }
        (CqlType::Int, _) => unexpected("an int value"),
        (CqlType::Bigint, _) => unexpected("a bigint value"),
        (CqlType::Smallint, _) => unexpected("a short value"),
        (CqlType::Tinyint, _) => unexpected("a byte value"),
        (CqlType::Float, _) => unexpected("a float value"),
        (CqlType::Double, _) => unexpected("a double value"),
        (CqlType::Boolean, _) => unexpected("a boolean value"),
        (CqlType::Empty, _) => refuse(format!(
            "Expected an empty string, but got: {}",
            java_text(json)
        )),
        (CqlType::Text, _) => unexpected("a UTF-8 string"),
        (CqlType::Ascii, _) => unexpected("an ascii string"),
        (CqlType::Timestamp, _) => {
            unexpected("a long or a datestring representation of a timestamp value")
        }
        (CqlType::Varint | CqlType::Decimal, _) => no_number(&json.to_string()),
        (CqlType::Uuid | CqlType::Timeuuid, _) => {
            unexpected(&format!("a string representation of a {ty}"))
        }
        (CqlType::Duration, _) => unexpected("a string representation of a duration"),
        (CqlType::Inet, _) => unexpected("a string representation of an inet value"),
        _ => unexpected(&format!("a string representation of a {ty} value")),
    }
}
