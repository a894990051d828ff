//! Partition keys.

use std::cmp::Ordering;

use bytes::{BufMut, Bytes, BytesMut};

use crate::value::refuse;
use crate::{Composite, CqlType, Token, ValueError};

/// The longest partition key, and the longest column of a composite one (`FBUtilities.
/// MAX_UNSIGNED_SHORT`).
pub const MAX_KEY_LENGTH: usize = 0xffff;

/// A serialized partition key: the value itself for a single column, otherwise each component as
/// `u16 length, bytes, 0x00` (Cassandra's `CompositeType`). Bytes are what tokens, sstables and
/// the commit log are made of, so this is the key's only form.
pub type PartitionKey = Bytes;

/// The partition key of these column values (`CompositeType.build` where there are several).
pub fn encode_key<V: AsRef<[u8]>>(columns: &[V]) -> Result<PartitionKey, ValueError> {
    let key = match columns {
        [only] => Bytes::copy_from_slice(only.as_ref()),
        _ => {
            // Cassandra looks at the values first, then at what they are put together to.
            check_length(columns.iter().map(|column| column.as_ref().len()).sum())?;
            let mut key = BytesMut::new();
            for column in columns {
                let column = column.as_ref();
                key.put_u16(column.len() as u16);
                key.put_slice(column);
                key.put_u8(0);
            }
            key.freeze()
        }
    };
    check_length(key.len())?;
    Ok(key)
}

fn check_length(len: usize) -> Result<(), ValueError> {
    if len > MAX_KEY_LENGTH {
        return refuse!("Key length of {len} is longer than maximum of {MAX_KEY_LENGTH}");
    }
    Ok(())
}

/// The values of the `count` columns of a partition key; they share its bytes.
pub fn decode_key(key: &PartitionKey, count: usize) -> Result<Vec<Bytes>, ValueError> {
    if count == 1 {
        return Ok(vec![key.clone()]);
    }
    let mut columns = Vec::with_capacity(count);
    let mut at = 0;
    for i in 0..count {
        let column = key.get(at..).and_then(|rest| {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            let len = usize::from(u16::from_be_bytes(*len));
            // The byte behind it is 0: other values are for bounds only.
            (rest.len() > len).then(|| key.slice(at + 2..at + 2 + len))
        });
        let Some(column) = column else {
            return refuse!("Not enough bytes to read value of component {i}");
        };
        at += column.len() + 3;
        columns.push(column);
    }
    if at < key.len() {
        return refuse!("Invalid remaining data after end of a composite partition key");
    }
    Ok(columns)
}

/// The partition key of a text as `nodetool getendpoints` takes it: the values of several
/// columns have colons between them (`CompositeType.fromString`).
pub fn key_from_text(text: &str, types: &[&CqlType]) -> Result<PartitionKey, ValueError> {
    if let [only] = types {
        return only.parse_string(text);
    }
    let texts = split(text);
    if texts.len() != types.len() {
        return refuse!(
            "the partition key has {} columns, but '{text}' has {}",
            types.len(),
            texts.len()
        );
    }
    let values: Vec<Bytes> = texts
        .iter()
        .zip(types)
        .map(|(text, ty)| ty.parse_string(&unescape(text)))
        .collect::<Result<_, _>>()?;
    encode_key(&values)
}

/// The text that [`key_from_text`] reads; hexadecimal digits if it is no key of these types.
pub fn key_to_text(key: &PartitionKey, types: &[&CqlType]) -> String {
    match types {
        [only] => only.format_string(key),
        _ => Composite::of_key(types)
            .format(key)
            .unwrap_or_else(|| crate::value::to_hex(key)),
    }
}

/// The text of a column as it stands between colons (`AbstractCompositeType.escape`): a backslash
/// is none of an escape but before a colon, so one at the end must not come to stand there.
pub(crate) fn escape(text: &str) -> String {
    let mut out = text.replace(':', "\\:");
    if out.ends_with(['\\', '!']) {
        out.push('!');
    }
    out
}

/// What was escaped (`AbstractCompositeType.unescape`).
pub(crate) fn unescape(text: &str) -> String {
    let mut out = text.replace("\\:", ":");
    if out.ends_with('!') {
        out.pop();
    }
    out
}

/// The texts between colons that have no backslash before them (`AbstractCompositeType.split`).
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A partition key with its token; ordered as on the ring: by token, then by bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    token: Token,
    key: PartitionKey,
}

impl DecoratedKey {
    /// Hashes the key.
    pub fn new(key: PartitionKey) -> DecoratedKey {
        DecoratedKey {
            token: Token::of(&key),
            key,
        }
    }

    /// The key's place on the ring.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The serialized key.
    pub fn key(&self) -> &PartitionKey {
        &self.key
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token
            .cmp(&other.token)
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(columns: &[&str]) -> PartitionKey {
        encode_key(columns).expect("a key")
    }

    #[test]
    fn keys_of_several_columns_are_written_as_cassandra_writes_them() {
        let types = [&CqlType::Text, &CqlType::Text];
        for (columns, text) in [
            (["a", "b"], "a:b"),
            (["a:b", "c@d"], "a\\:b:c@d"),
            (["a\\", "b"], "a\\!:b"),
            (["!", "a!"], "!!:a!!"),
            (["a\\:b", ""], "a\\\\:b:"),
        ] {
            assert_eq!(key_to_text(&key(&columns), &types), text);
            assert_eq!(key_from_text(text, &types).expect("a key"), key(&columns));
        }
    }

    proptest! {
        #[test]
        fn keys_are_read_as_they_were_written(columns in ["[ab:!@\\\\_]{0,6}", "[ab:!@\\\\_]{0,6}"]) {
            let types = [&CqlType::Text, &CqlType::Text];
            let key = encode_key(&columns).expect("a key");
            let text = key_to_text(&key, &types);
            prop_assert_eq!(key_from_text(&text, &types).expect("a key"), key, "{}", text);
        }
    }
}
