//! Are these bytes a value of the type? (`AbstractType.validate` and the `TypeSerializer`s; the
//! messages are theirs.)

mod plain;

use plain::{is_plain_collection, is_plain_tuple};

use crate::collection::{Component, Components, refuse_negative_count};
use crate::value::{refuse, to_hex};
use crate::{CqlType, ValueError, duration};

impl CqlType {
    /// Refuses bytes that are no value of this type. Empty bytes are a value of most types.
    pub fn validate(&self, value: &[u8]) -> Result<(), ValueError> {
        let len = value.len();
        match self {
            CqlType::Blob | CqlType::Varint => Ok(()),
            // Of classes that are not known nobody knows what their values are.
            CqlType::Custom(_) => self.modern().map_or(Ok(()), |ty| ty.validate(value)),
            CqlType::Ascii => match value.iter().find(|byte| !byte.is_ascii()) {
                Some(byte) => refuse!("Invalid byte for ascii: {}", *byte as i8),
                None => Ok(()),
            },
            CqlType::Text => validate_text(value),
            CqlType::Boolean if len > 1 => refuse!("Expected 1 or 0 byte value ({len})"),
            CqlType::Tinyint if len != 1 => refuse!("Expected 1 byte for a tinyint ({len})"),
            CqlType::Smallint if len != 2 => refuse!("Expected 2 bytes for a smallint ({len})"),
            CqlType::Int if len != 0 && len != 4 => refuse!("Expected 4 or 0 byte int ({len})"),
            CqlType::Bigint | CqlType::Counter if len != 0 && len != 8 => {
                refuse!("Expected 8 or 0 byte long ({len})")
            }
            CqlType::Float if len != 0 && len != 4 => {
                refuse!("Expected 4 or 0 byte value for a float ({len})")
            }
            CqlType::Double if len != 0 && len != 8 => {
                refuse!("Expected 8 or 0 byte value for a double ({len})")
            }
            CqlType::Timestamp if len != 0 && len != 8 => {
                refuse!("Expected 8 or 0 byte long for date ({len})")
            }
            CqlType::Date if len != 4 => refuse!("Expected 4 byte long for date ({len})"),
            CqlType::Time if len != 8 => refuse!("Expected 8 byte long for time ({len})"),
            CqlType::Decimal if len != 0 && len < 4 => {
                refuse!("Expected 0 or at least 4 bytes ({len})")
            }
            CqlType::Empty if len != 0 => refuse!("EmptyType only accept empty values"),
            CqlType::Inet if !matches!(len, 0 | 4 | 16) => {
                refuse!("Expected 4 or 16 byte inetaddress; got {}", to_hex(value))
            }
            CqlType::Uuid | CqlType::Timeuuid if len != 0 && len != 16 => {
                refuse!("UUID should be 16 or 0 bytes ({len})")
            }
            CqlType::Timeuuid if len == 16 && value[6] >> 4 != 1 => {
                // Cassandra shows the first digit of the value, not the version.
                refuse!("Invalid version for TimeUUID type: 0x{:x}", value[0] >> 4)
            }
            CqlType::Duration => duration::Duration::decode(value).map(drop),
            CqlType::List { element, .. } => validate_elements(value, element, "list"),
            CqlType::Set { element, .. } => validate_elements(value, element, "set"),
            CqlType::Map {
                key, value: values, ..
            } => validate_entries(value, key, values),
            CqlType::Tuple(types) => validate_tuple(value, types),
            CqlType::Udt { .. } => self.validate_user_value(value),
            CqlType::Composite(composite) => composite.validate(value),
            CqlType::Vector { element, dimension } => {
                crate::collection::vector_elements(value, element, *dimension)?
                    .into_iter()
                    .try_for_each(|value| element.validate(value))
            }
            _ => Ok(()),
        }
    }

    /// As [`CqlType::validate`], of what a client has bound: Cassandra deserializes that, and then
    /// refuses collections of less than nothing (`CollectionSerializer.deserialize`), but lets nulls be among the
    /// elements of a list that is one value, which drivers make of theirs.
    pub fn validate_bound(&self, value: &[u8]) -> Result<(), ValueError> {
        match self {
            CqlType::List {
                element,
                frozen: true,
            } => validate_with_nulls(value, element)?,
            _ => self.validate(value)?,
        }
        self.refuse_negative_counts(value)
    }

    fn refuse_negative_counts(&self, value: &[u8]) -> Result<(), ValueError> {
        match self {
            CqlType::List { element, .. } => refuse_negative_counts(value, "list", &[element]),
            CqlType::Set { element, .. } => refuse_negative_counts(value, "set", &[element]),
            CqlType::Map {
                key, value: values, ..
            } => refuse_negative_counts(value, "map", &[key, values]),
            _ => Ok(()),
        }
    }

    fn validate_user_value(&self, value: &[u8]) -> Result<(), ValueError> {
        let CqlType::Udt { definition, .. } = self else {
            return Ok(());
        };
        if is_plain_tuple(value, definition.fields.iter().map(|(_, ty)| ty)) {
            return Ok(());
        }
        let mut components = Components::tuple(value, definition.fields.len());
        for (i, (name, ty)) in definition.fields.iter().enumerate() {
            match components.next() {
                None => return Ok(()),
                Some(Component::Null) => {}
                Some(Component::Malformed(rest)) if rest.len() < 4 => {
                    return refuse!("Not enough bytes to read size of {i}th field {name}");
                }
                Some(Component::Malformed(_)) => {
                    return refuse!("Not enough bytes to read {i}th field {name}");
                }
                Some(Component::Value(value)) => ty.validate(value).map_err(|error| {
                    ValueError::new(format!(
                        "Failure validating the {i}th field {name}; {error}"
                    ))
                })?,
            }
        }
        components.finish_tuple("UDT")
    }
}

/// In a valid collection whose elements, or keys and values, are of these types.
fn refuse_negative_counts(value: &[u8], kind: &str, parts: &[&CqlType]) -> Result<(), ValueError> {
    refuse_negative_count(value, kind)?;
    if !parts.iter().any(|part| part.is_collection()) {
        return Ok(());
    }
    let mut components = Components::checked(value, parts.len(), kind)?;
    for part in parts.iter().cycle() {
        match components.next() {
            Some(Component::Value(value)) => part.refuse_negative_counts(value)?,
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

fn validate_with_nulls(value: &[u8], element: &CqlType) -> Result<(), ValueError> {
    if is_plain_collection(value, &[element]) {
        return Ok(());
    }
    let mut components = Components::checked(value, 1, "list")?;
    for component in components.by_ref() {
        match component {
            Component::Null => {}
            Component::Value(value) => element.validate(value)?,
            Component::Malformed(_) => return refuse!("Not enough bytes to read a list"),
        }
    }
    components.finish("list")
}

fn validate_elements(value: &[u8], element: &CqlType, kind: &str) -> Result<(), ValueError> {
    if is_plain_collection(value, &[element]) {
        return Ok(());
    }
    let mut components = Components::checked(value, 1, kind)?;
    while let Some(value) = components.next_value(kind)? {
        element.validate(value)?;
    }
    components.finish(kind)
}

fn validate_entries(value: &[u8], keys: &CqlType, values: &CqlType) -> Result<(), ValueError> {
    if is_plain_collection(value, &[keys, values]) {
        return Ok(());
    }
    let mut components = Components::checked(value, 2, "map")?;
    while let Some(key) = components.next_value("map")? {
        keys.validate(key)?;
        if let Some(value) = components.next_value("map")? {
            values.validate(value)?;
        }
    }
    components.finish("map")
}

fn validate_tuple(value: &[u8], types: &[CqlType]) -> Result<(), ValueError> {
    if is_plain_tuple(value, types) {
        return Ok(());
    }
    let mut components = Components::tuple(value, types.len());
    for (i, ty) in types.iter().enumerate() {
        match components.next() {
            None => return Ok(()),
            Some(Component::Null) => {}
            Some(Component::Malformed(rest)) if rest.len() < 4 => {
                return refuse!("Not enough bytes to read size of {i}th component");
            }
            Some(Component::Malformed(_)) => {
                return refuse!("Not enough bytes to read {i}th component");
            }
            Some(Component::Value(value)) => ty.validate(value)?,
        }
    }
    components.finish_tuple("tuple")
}

/// `UTF8Serializer`: what it lets pass besides UTF-8 (surrogates, an encoded NUL of two bytes,
/// planes above 16) may be in files that Cassandra wrote, so it passes here too.
fn validate_text(value: &[u8]) -> Result<(), ValueError> {
    // Most texts are short and of ASCII, of which nothing else has to be known.
    if value.is_ascii() || std::str::from_utf8(value).is_ok() || is_lenient_utf8(value) {
        return Ok(());
    }
    refuse!("String didn't validate.")
}

fn is_lenient_utf8(mut value: &[u8]) -> bool {
    let continues = |byte: &u8| byte & 0xc0 == 0x80;
    while let [first, rest @ ..] = value {
        let (more, second) = match first {
            0..0x80 => (0, 0x80..=0xbf),
            0xc0 => (1, 0x80..=0x80),
            0xc2..0xe0 => (1, 0x80..=0xbf),
            0xe0 => (2, 0xa0..=0xbf),
            0xe1..0xf0 => (2, 0x80..=0xbf),
            0xf0 => (3, 0x90..=0xbf),
            0xf1..0xf8 => (3, 0x80..=0xbf),
            _ => return false,
        };
        let Some((tail, after)) = rest.split_at_checked(more) else {
            return false;
        };
        if !tail.iter().all(continues) || !tail.first().is_none_or(|b| second.contains(b)) {
            return false;
        }
        value = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::plain::plain_length;
    use super::*;

    const PLAIN: [CqlType; 11] = [
        CqlType::Boolean,
        CqlType::Tinyint,
        CqlType::Smallint,
        CqlType::Int,
        CqlType::Float,
        CqlType::Date,
        CqlType::Bigint,
        CqlType::Double,
        CqlType::Timestamp,
        CqlType::Time,
        CqlType::Uuid,
    ];

    /// A component of a tuple: its type, and its bytes, mostly as many as that has.
    fn component() -> impl Strategy<Value = (CqlType, Option<Vec<u8>>)> {
        let types = prop_oneof![
            8 => prop::sample::select(PLAIN.to_vec()),
            1 => Just(CqlType::Text),
        ];
        let bytes = prop::collection::vec(any::<u8>(), 0..20);
        (types, bytes, 0..20).prop_map(|(ty, mut bytes, whole)| {
            if let (Some(length), 2..) = (plain_length(&ty), whole) {
                bytes.resize(length, 7);
            }
            (ty, (whole > 0).then_some(bytes))
        })
    }

    /// As [`validate_tuple`], each component by itself.
    fn validates(value: &[u8], types: &[CqlType]) -> bool {
        let mut components = Components::tuple(value, types.len());
        let mut pairs = types.iter().zip(components.by_ref());
        let valid = pairs.all(|(ty, component)| match component {
            Component::Null => true,
            Component::Value(value) => ty.validate(value).is_ok(),
            Component::Malformed(_) => false,
        });
        valid && components.finish_tuple("tuple").is_ok()
    }

    proptest! {
        #[test]
        fn what_is_plain_is_valid(components in prop::collection::vec(component(), 0..6), cut in 0usize..40) {
            let mut value = Vec::new();
            let (types, parts): (Vec<_>, Vec<_>) = components.into_iter().unzip();
            for part in parts {
                let len = part.as_ref().map_or(-1, |part| part.len() as i32);
                value.extend(len.to_be_bytes());
                value.extend(part.unwrap_or_default());
            }
            if cut < 20 {
                value.truncate(value.len().saturating_sub(cut));
            }
            prop_assert_eq!(validate_tuple(&value, &types).is_ok(), validates(&value, &types));
        }
    }

    /// A map of points, some of which may be of other lengths, or null.
    fn points() -> impl Strategy<Value = (CqlType, Vec<u8>)> {
        let types = prop::sample::subsequence(PLAIN.to_vec(), 1..4);
        let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2);
        (types, 1usize..40, flips).prop_map(|(types, count, flips)| {
            let component = |ty: &CqlType| {
                let len = plain_length(ty).unwrap_or(0);
                [&(len as u32).to_be_bytes()[..], &vec![0; len]].concat()
            };
            let point = types.iter().map(component).collect::<Vec<_>>().concat();
            let head = [0, 0, 0, 4, 0, 0, 0, 9];
            let entry = [&head[..], &(point.len() as u32).to_be_bytes(), &point].concat();
            let mut map = [&(count as u32).to_be_bytes()[..], &entry.repeat(count)].concat();
            for (at, byte) in flips {
                let at = at.index(map.len());
                map[at] = byte;
            }
            (CqlType::Tuple(types), map)
        })
    }

    proptest! {
        #[test]
        fn maps_are_valid_if_their_entries_are((tuple, map) in points()) {
            let mut components = Components::checked(&map, 2, "map").expect("it has a count");
            let mut parts = [&CqlType::Int, &tuple].into_iter().cycle();
            let valid = components.by_ref().all(|component| match component {
                Component::Value(value) => parts.next().is_some_and(|ty| ty.validate(value).is_ok()),
                _ => false,
            });
            let valid = valid && components.finish("map").is_ok();
            prop_assert_eq!(validate_entries(&map, &CqlType::Int, &tuple).is_ok(), valid);
        }
    }

    #[test]
    fn classes_of_cassandra_1_have_the_lengths_of_their_values() {
        let date = CqlType::Custom("org.apache.cassandra.db.marshal.DateType".into());
        assert!(date.validate(&[0; 8]).is_ok() && date.validate(&[]).is_ok());
        assert!(date.validate(&[0; 4]).is_err());
        let uuid = CqlType::Custom("LexicalUUIDType".into());
        assert!(uuid.validate(&[0; 16]).is_ok() && uuid.validate(&[0; 15]).is_err());
        let unknown = CqlType::Custom("com.example.Type".into());
        assert!(unknown.validate(&[1, 2, 3]).is_ok());
    }
}
