//! Where a row of the cache lies: its table, its partition, its clustering.

use std::hash::{BuildHasher, Hash, Hasher};

use model::{Clustering, DecoratedKey, Token};
use quick_cache::Equivalent;

use crate::memtable::allocated;

/// Where a row lies.
pub(super) struct Place {
    table: u64,
    token: Token,
    key_length: u32,
    /// The key, and each value of the clustering behind its length, so that different places are written differently.
    bytes: Box<[u8]>,
}

/// The same, to look for.
#[derive(Clone, Copy)]
pub(crate) struct PlaceOf<'p> {
    /// The table's number.
    pub(crate) table: u64,
    /// The partition.
    pub(crate) key: &'p DecoratedKey,
    /// The row; recognised by its bytes, even where others are equal in the order of the table.
    pub(crate) clustering: &'p Clustering,
}

impl Place {
    /// Bytes of memory that it takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        allocated(self.bytes.len())
    }
}

impl PlaceOf<'_> {
    /// How many bytes say it.
    pub(super) fn length(&self) -> usize {
        let values = self.clustering.values().map(|value| 4 + value.len());
        self.key.key().len() + values.sum::<usize>()
    }

    /// The same, to keep.
    pub(super) fn kept(&self) -> Place {
        let mut bytes = Vec::with_capacity(self.length());
        bytes.extend_from_slice(self.key.key());
        for value in self.clustering.values() {
            bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
            bytes.extend_from_slice(value);
        }
        Place {
            table: self.table,
            token: self.key.token(),
            key_length: self.key.key().len() as u32,
            bytes: bytes.into(),
        }
    }

    fn is(&self, place: &Place) -> bool {
        let key = self.key.key();
        place.table == self.table
            && place.token == self.key.token()
            && place.key_length as usize == key.len()
            && place.bytes.strip_prefix(&key[..]).is_some_and(|rest| {
                let values = self.clustering.values();
                values_of(rest).eq(values)
            })
    }
}

/// The values of a clustering behind a key.
fn values_of(mut written: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = written.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        written = rest;
        Some(value)
    })
}

impl Equivalent<Place> for PlaceOf<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.is(place)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        (self.table, self.token, self.key_length) == (other.table, other.token, other.key_length)
            && self.bytes == other.bytes
    }
}

impl Eq for Place {}

/// The token is a good hash of the key.
fn hash_partition(table: u64, token: Token, hasher: &mut impl Hasher) {
    hasher.write_u64(table ^ token.0 as u64);
}

fn hash_value(value: &[u8], hasher: &mut impl Hasher) {
    hasher.write_u64(value.len() as u64);
    hasher.write(value);
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hash_partition(self.table, self.token, hasher);
        let clustering = &self.bytes[self.key_length as usize..];
        values_of(clustering).for_each(|value| hash_value(value, hasher));
    }
}

impl Hash for PlaceOf<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hash_partition(self.table, self.key.token(), hasher);
        let values = self.clustering.values();
        values.for_each(|value| hash_value(value, hasher));
    }
}

/// Begins with a number that nobody outside knows, so that nobody can choose clusterings that
/// collide.
#[derive(Clone, Copy)]
pub(super) struct Seed(pub(super) u64);

impl BuildHasher for Seed {
    type Hasher = PlaceHasher;

    fn build_hasher(&self) -> PlaceHasher {
        PlaceHasher(self.0)
    }
}

/// Multiplies and folds, a word at a time.
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last));
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
