//! Values as text: CQL literals (`AbstractType.toCQLString`), JSON (`toJSONString`), and the bare
//! text that `parse_string` reads (`getString`).
//!
//! None of them fails: what is no value of its type is shown as a blob, as are numbers of so many
//! digits that showing them would take too long ([`number::check_digits`]).

use crate::collection::{
    components, elements, entries, given_components, nullable_elements, vector_elements,
};
use crate::value::to_hex;
use crate::{CqlType, ValueError, duration, inet, number, quote_identifier, real, temporal};

/// Why a value has no text of its own.
enum NoText {
    /// It is none of its type.
    Invalid,
    /// It is a number, or has one in it, of too many digits.
    TooLong(ValueError),
    /// It is of a type, or has a value in it, that has no JSON.
    NoJson(ValueError),
}

impl From<ValueError> for NoText {
    fn from(_: ValueError) -> NoText {
        NoText::Invalid
    }
}

impl CqlType {
    /// The value as a CQL literal; `null` for an empty one where that is no text or blob.
    pub fn format_literal(&self, value: &[u8]) -> String {
        // Only this one of the old classes is a CQL type to Cassandra (`DateType.asCQL3Type`).
        if self.modern() == Some(&CqlType::Timestamp) {
            return CqlType::Timestamp.format_literal(value);
        }
        if value.is_empty() && self.empty_is_null() {
            return "null".to_owned();
        }
        self.try_literal(value)
            .unwrap_or_else(|_| format!("0x{}", to_hex(value)))
    }

    /// The value as JSON.
    pub fn to_json(&self, value: &[u8]) -> String {
        self.json(value).unwrap_or_else(|_| json_blob(value))
    }

    /// The value as JSON, as `SELECT JSON` gives it. Fails only for numbers of too many digits and for
    /// composites.
    pub fn try_json(&self, value: &[u8]) -> Result<String, ValueError> {
        self.json(value).or_else(|reason| match reason {
            NoText::TooLong(error) | NoText::NoJson(error) => Err(error),
            NoText::Invalid => Ok(json_blob(value)),
        })
    }

    fn json(&self, value: &[u8]) -> Result<String, NoText> {
        if let Some(ty) = self.modern() {
            return ty.json(value);
        }
        if value.is_empty() && self.empty_is_null() && !self.is_collection() {
            return Ok(match self {
                CqlType::Boolean => "null".to_owned(),
                _ => "\"\"".to_owned(),
            });
        }
        match self.json_of_parts(value) {
            Err(NoText::Invalid) => Ok(json_blob(value)),
            text => text,
        }
    }

    /// The value as [`CqlType::parse_string`] reads it.
    pub fn format_string(&self, value: &[u8]) -> String {
        if let Some(ty) = self.modern() {
            return ty.format_string(value);
        }
        if value.is_empty() {
            return String::new();
        }
        let parts = match self {
            CqlType::Tuple(types) => given_components(value, types.len())
                .map(|parts| join(parts.iter().zip(types).map(|(part, ty)| (ty, *part))))
                .map_err(NoText::from),
            CqlType::Udt { definition, .. } => given_components(value, definition.fields.len())
                .map(|parts| {
                    let types = definition.fields.iter().map(|(_, ty)| ty);
                    join(types.zip(parts))
                })
                .map_err(NoText::from),
            CqlType::Composite(composite) => composite.format(value).ok_or(NoText::Invalid),
            _ => self.plain(value),
        };
        parts.unwrap_or_else(|_| to_hex(value))
    }

    /// Does the empty value of the type mean nothing (`AbstractType.isEmptyValueMeaningless`)?
    pub fn is_empty_meaningless(&self) -> bool {
        self.empty_is_null() && !self.is_collection() && !matches!(self, CqlType::Vector { .. })
    }

    fn empty_is_null(&self) -> bool {
        !matches!(
            self,
            CqlType::Ascii
                | CqlType::Text
                | CqlType::Blob
                | CqlType::Tuple(_)
                | CqlType::Udt { .. }
                | CqlType::Composite(_)
                | CqlType::Custom(_)
        )
    }

    fn try_literal(&self, value: &[u8]) -> Result<String, NoText> {
        let list = |element: &CqlType, values: Vec<&[u8]>| {
            let texts: Vec<_> = values.iter().map(|v| element.format_literal(v)).collect();
            texts.join(", ")
        };
        let or_null = |ty: &CqlType, part: &Option<&[u8]>| match part {
            Some(part) => ty.format_literal(part),
            None => "null".to_owned(),
        };
        Ok(match self {
            CqlType::List { element, .. } => {
                let values = nullable_elements(value)?;
                let texts: Vec<_> = values.iter().map(|value| or_null(element, value)).collect();
                format!("[{}]", texts.join(", "))
            }
            CqlType::Set { element, .. } => format!("{{{}}}", list(element, elements(value)?)),
            CqlType::Vector { element, dimension } => {
                let values = vector_elements(value, element, *dimension)?;
                format!("[{}]", list(element, values))
            }
            CqlType::Map {
                key, value: values, ..
            } => {
                let texts: Vec<_> = entries(value)?
                    .iter()
                    .map(|(k, v)| {
                        format!("{}: {}", key.format_literal(k), values.format_literal(v))
                    })
                    .collect();
                format!("{{{}}}", texts.join(", "))
            }
            CqlType::Tuple(types) => {
                let parts = given_components(value, types.len())?;
                let texts: Vec<_> = types
                    .iter()
                    .zip(&parts)
                    .map(|(t, p)| or_null(t, p))
                    .collect();
                format!("({})", texts.join(", "))
            }
            CqlType::Udt { definition, .. } => {
                let parts = given_components(value, definition.fields.len())?;
                let texts: Vec<_> = definition
                    .fields
                    .iter()
                    .zip(&parts)
                    .map(|((name, ty), part)| {
                        format!("{}: {}", quote_identifier(name), or_null(ty, part))
                    })
                    .collect();
                format!("{{{}}}", texts.join(", "))
            }
            CqlType::Blob | CqlType::Composite(_) | CqlType::Custom(_) => {
                format!("0x{}", to_hex(value))
            }
            _ => {
                let text = self.plain(value)?;
                if self.is_quoted() {
                    format!("'{}'", text.replace('\'', "''"))
                } else {
                    text
                }
            }
        })
    }

    /// Is a constant of this type written in quotes?
    fn is_quoted(&self) -> bool {
        matches!(
            self,
            CqlType::Ascii
                | CqlType::Text
                | CqlType::Date
                | CqlType::Time
                | CqlType::Timestamp
                | CqlType::Inet
        )
    }

    fn json_of_parts(&self, value: &[u8]) -> Result<String, NoText> {
        let list = |element: &CqlType, values: Vec<&[u8]>| {
            let texts = values.iter().map(|v| element.json(v));
            let texts: Vec<_> = texts.collect::<Result<_, NoText>>()?;
            Ok::<_, NoText>(format!("[{}]", texts.join(", ")))
        };
        let or_null = |ty: &CqlType, part: &Option<&[u8]>| match part {
            Some(part) => ty.json(part),
            None => Ok("null".to_owned()),
        };
        Ok(match self {
            CqlType::List { element, .. } => {
                let values = nullable_elements(value)?;
                let texts = values.iter().map(|value| element.json_of_element(*value));
                let texts: Vec<_> = texts.collect::<Result<_, NoText>>()?;
                format!("[{}]", texts.join(", "))
            }
            CqlType::Set { element, .. } => list(element, elements(value)?)?,
            CqlType::Vector { element, dimension } => {
                list(element, vector_elements(value, element, *dimension)?)?
            }
            CqlType::Map {
                key, value: values, ..
            } => {
                let texts: Vec<_> = entries(value)?
                    .iter()
                    .map(|(k, v)| Ok(format!("{}: {}", json_key(key.json(k)?), values.json(v)?)))
                    .collect::<Result<_, NoText>>()?;
                format!("{{{}}}", texts.join(", "))
            }
            CqlType::Tuple(types) => {
                let parts = components(value, types.len())?;
                let texts: Vec<_> = types
                    .iter()
                    .zip(&parts)
                    .map(|(t, p)| or_null(t, p))
                    .collect::<Result<_, NoText>>()?;
                format!("[{}]", texts.join(", "))
            }
            CqlType::Udt { definition, .. } => {
                let parts = components(value, definition.fields.len())?;
                let texts: Vec<_> = definition
                    .fields
                    .iter()
                    .zip(&parts)
                    .map(|((name, ty), part)| {
                        let name = json_string(&json_name(name));
                        Ok(format!("{name}: {}", or_null(ty, part)?))
                    })
                    .collect::<Result<_, NoText>>()?;
                format!("{{{}}}", texts.join(", "))
            }
            CqlType::Blob | CqlType::Custom(_) => json_blob(value),
            CqlType::Composite(_) => {
                let reason = format!("There is no JSON of values of type {self}");
                return Err(NoText::NoJson(ValueError::new(reason)));
            }
            CqlType::Timestamp => match value.as_array() {
                Some(value) => {
                    let text = temporal::timestamp_to_text(i64::from_be_bytes(*value), ' ');
                    json_string(&text)
                }
                None => return Err(NoText::Invalid),
            },
            _ => {
                let text = self.plain(value)?;
                self.json_constant(text)
            }
        })
    }

    /// Of an element of a list. A null that is a decimal is what no bytes are (`DecimalSerializer.deserialize`); of other
    /// types Cassandra fails.
    fn json_of_element(&self, value: Option<&[u8]>) -> Result<String, NoText> {
        match (self, value) {
            (_, Some(value)) => self.json(value),
            (CqlType::Decimal, None) => self.json(&[]),
            (_, None) => Ok("null".to_owned()),
        }
    }

    fn json_constant(&self, text: String) -> String {
        match self {
            // JSON has no such numbers.
            CqlType::Float | CqlType::Double if text.ends_with(['N', 'y']) => "null".to_owned(),
            CqlType::Boolean
            | CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Varint
            | CqlType::Decimal
            | CqlType::Float
            | CqlType::Double => text,
            _ => json_string(&text),
        }
    }

    /// The bare text of a simple value.
    fn plain(&self, value: &[u8]) -> Result<String, NoText> {
        number::check_digits(self, value).map_err(NoText::TooLong)?;
        self.simple_text(value).ok_or(NoText::Invalid)
    }

    /// `None` if it is none of its type.
    fn simple_text(&self, value: &[u8]) -> Option<String> {
        Some(match self {
            CqlType::Ascii | CqlType::Text => String::from_utf8_lossy(value).into_owned(),
            CqlType::Boolean => (*value.as_array::<1>()? != [0]).to_string(),
            CqlType::Tinyint => i8::from_be_bytes(*value.as_array()?).to_string(),
            CqlType::Smallint => i16::from_be_bytes(*value.as_array()?).to_string(),
            CqlType::Int => i32::from_be_bytes(*value.as_array()?).to_string(),
            CqlType::Bigint | CqlType::Counter => {
                i64::from_be_bytes(*value.as_array()?).to_string()
            }
            CqlType::Varint => number::decode_varint(value).to_string(),
            CqlType::Decimal => number::decimal_to_text(value)?,
            CqlType::Float => real::float_to_text(f32::from_be_bytes(*value.as_array()?)),
            CqlType::Double => real::double_to_text(f64::from_be_bytes(*value.as_array()?)),
            CqlType::Date => temporal::date_to_text(u32::from_be_bytes(*value.as_array()?)),
            CqlType::Time => temporal::time_to_text(i64::from_be_bytes(*value.as_array()?)),
            CqlType::Timestamp => {
                temporal::timestamp_to_text(i64::from_be_bytes(*value.as_array()?), 'T')
            }
            CqlType::Duration => duration::Duration::decode(value).ok()?.to_string(),
            CqlType::Inet => inet::to_text(value)?,
            CqlType::Uuid | CqlType::Timeuuid => {
                uuid::Uuid::from_bytes(*value.as_array()?).to_string()
            }
            _ => return None,
        })
    }
}

/// What has no other JSON.
fn json_blob(value: &[u8]) -> String {
    format!("\"0x{}\"", to_hex(value))
}

/// As `a:b:@`.
fn join<'t>(parts: impl Iterator<Item = (&'t CqlType, Option<&'t [u8]>)>) -> String {
    let texts: Vec<_> = parts
        .map(|(ty, part)| match part {
            None => "@".to_owned(),
            Some(part) => {
                let text = ty.format_string(part);
                text.replace(':', "\\:").replace('@', "\\@")
            }
        })
        .collect();
    texts.join(":")
}

/// The keys of a JSON object are strings: what is none is put into quotes.
fn json_key(json: String) -> String {
    if json.starts_with('"') {
        return json;
    }
    json_string(&json)
}

/// A name as JSON shows it: in (CQL's) quotes if its case matters.
pub fn json_name(name: &str) -> String {
    if name == name.to_lowercase() {
        return name.to_owned();
    }
    format!("\"{name}\"")
}

/// A JSON string, with no more escaped than must be.
pub fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_old_classes_are_readable() {
        let date = CqlType::from_marshal("org.apache.cassandra.db.marshal.DateType");
        let date = date.expect("a type");
        let second = 1000i64.to_be_bytes();
        assert_eq!(date.to_json(&second), CqlType::Timestamp.to_json(&second));
        let literal = date.format_literal(&second);
        assert_eq!(literal, CqlType::Timestamp.format_literal(&second));
        let text = date.format_string(&second);
        assert_eq!(date.parse_string(&text).expect("a value"), second[..]);
        assert_eq!(date.fixed_length(), Some(8));

        let lexical = CqlType::from_marshal("LexicalUUIDType").expect("a type");
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
        let value = lexical.parse_string(text).expect("a value");
        assert_eq!(lexical.format_string(&value), text);
        assert_eq!(lexical.to_json(&value), format!("\"{text}\""));
        // To Cassandra it is a custom type, whose literals are blobs.
        let literal = lexical.format_literal(&value);
        assert_eq!(literal, "0x0102030405060708090a0b0c0d0e0f10");
        assert_eq!(lexical.fixed_length(), Some(16));
    }
}
