//! Values from the text of a constant (`AbstractType.fromString`).

use bytes::Bytes;

use crate::collection::pack_tuple;
use crate::value::{from_hex, refuse};
use crate::{CqlType, ValueError, duration, inet, number, real, temporal};

impl CqlType {
    /// The value of the text of a constant, without its quotes (`AbstractType.fromString`).
    /// Blobs, collections and vectors are given in hexadecimal digits; tuples and user types as
    /// components with colons between them, `@` for a null.
    pub fn parse_string(&self, text: &str) -> Result<Bytes, ValueError> {
        if text.is_empty() && self.empty_text_is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(ty) = self.modern() {
            return ty.parse_string(text);
        }
        let bytes = match self {
            CqlType::Text => text.as_bytes().to_vec(),
            CqlType::Ascii if text.is_ascii() => text.as_bytes().to_vec(),
            CqlType::Ascii => {
                // How many of Java's characters the first one takes that is none of ASCII.
                let first = text.chars().find(|c| !c.is_ascii());
                return refuse!(
                    "Invalid ASCII character in string literal: \
                     java.nio.charset.UnmappableCharacterException: Input length = {}",
                    first.map_or(1, char::len_utf16)
                );
            }
            CqlType::Blob
            | CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Vector { .. }
            | CqlType::Custom(_) => from_hex(text)
                .ok_or_else(|| ValueError::new(format!("cannot parse '{text}' as hex bytes")))?,
            CqlType::Boolean => vec![parse_boolean(text)?.into()],
            CqlType::Tinyint => integer::<i8>(text, "byte")?.to_be_bytes().to_vec(),
            CqlType::Smallint => integer::<i16>(text, "short")?.to_be_bytes().to_vec(),
            CqlType::Int => integer::<i32>(text, "int")?.to_be_bytes().to_vec(),
            CqlType::Bigint | CqlType::Counter => {
                integer::<i64>(text, "long")?.to_be_bytes().to_vec()
            }
            CqlType::Varint => number::varint_from_text(text)?,
            CqlType::Decimal => number::decimal_from_text(text)?,
            CqlType::Float => match real::from_text::<f32>(text) {
                Some(value) => value.to_be_bytes().to_vec(),
                None => return refuse!("Unable to make float from '{text}'"),
            },
            CqlType::Double => match real::from_text::<f64>(text) {
                Some(value) => value.to_be_bytes().to_vec(),
                None => return refuse!("Unable to make double from '{text}'"),
            },
            CqlType::Date => temporal::date_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Time => temporal::time_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Timestamp => temporal::timestamp_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Duration => text.parse::<duration::Duration>()?.encode(),
            CqlType::Inet => inet::from_text(text).ok_or_else(|| {
                ValueError::new(format!("Unable to make inet address from '{text}'"))
            })?,
            CqlType::Uuid => match parse_uuid(text) {
                Some(uuid) => uuid,
                None => return refuse!("Unable to make UUID from '{text}'"),
            },
            CqlType::Timeuuid => match parse_uuid(text) {
                Some(uuid) if uuid[6] >> 4 == 1 => uuid,
                Some(_) => return refuse!("TimeUUID supports only version 1 UUIDs"),
                None => return refuse!("Unknown timeuuid representation: {text}"),
            },
            CqlType::Empty => return refuse!("'{text}' is not empty"),
            CqlType::Tuple(types) => self.parse_components(text, types.len(), |i| &types[i])?,
            CqlType::Udt { definition, .. } => {
                let fields = &definition.fields;
                self.parse_components(text, fields.len(), |i| &fields[i].1)?
            }
            CqlType::Composite(composite) => composite.parse(text)?,
        };
        Ok(Bytes::from(bytes))
    }

    /// `a:b:@`, in which `\:` and `\@` stand for themselves.
    fn parse_components<'t>(
        &self,
        text: &str,
        count: usize,
        type_of: impl Fn(usize) -> &'t CqlType,
    ) -> Result<Vec<u8>, ValueError> {
        let texts = split_unescaped(text);
        if texts.len() > count {
            return refuse!(
                "Invalid tuple literal: too many elements. Type {self} expects {count} but got {}",
                texts.len()
            );
        }
        let components: Vec<Option<Bytes>> = texts
            .iter()
            .enumerate()
            .map(|(i, text)| {
                if text == "@" {
                    return Ok(None);
                }
                let plain = text.replace("\\:", ":").replace("\\@", "@");
                type_of(i).parse_string(&plain).map(Some)
            })
            .collect::<Result<_, ValueError>>()?;
        Ok(pack_tuple(components))
    }

    /// Is the value of an empty text empty?
    fn empty_text_is_empty(&self) -> bool {
        !matches!(self, CqlType::Boolean | CqlType::Date | CqlType::Time)
    }
}

fn parse_boolean(text: &str) -> Result<bool, ValueError> {
    if text.eq_ignore_ascii_case("true") {
        return Ok(true);
    }
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        return Ok(false);
    }
    refuse!("Unable to make boolean from '{text}'")
}

fn integer<N: std::str::FromStr>(text: &str, kind: &str) -> Result<N, ValueError> {
    text.parse()
        .map_err(|_| ValueError::new(format!("Unable to make {kind} from '{text}'")))
}

/// Only with four hyphens in the right places.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] {
        return None;
    }
    from_hex(&groups.concat())
}

/// At colons without a backslash before them.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ':' && !escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
        escaped = c == '\\';
    }
    parts
}
