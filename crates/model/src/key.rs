//! Partition keys.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::Token;

/// A serialized partition key: the value itself for a single column, otherwise each component as
/// `u16 length, bytes, 0x00` (Cassandra's `CompositeType`). Bytes are what tokens, sstables and
/// the commit log are made of, so this is the key's only form.
pub type PartitionKey = Bytes;

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
