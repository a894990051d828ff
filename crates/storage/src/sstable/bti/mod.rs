//! The BTI format: indexes that are tries (`org.apache.cassandra.io.sstable.format.bti`).
//!
//! Data and statistics are as in BIG sstables of the same release. `Partitions.db` maps to each
//! key, cut after the byte that tells it from its neighbours, where its partition lies: in the
//! data, or, for a wide one, in `Rows.db`, where a trie of its own says where its blocks lie.
//!
//! * [`node`]: the sixteen forms of a node;
//! * [`trie_writer`]: a trie in pages, written from its leaves up while keys come in order;
//! * [`walk`]: going through a trie that was written, page by page;
//! * [`partitions`], [`rows`]: what the leaves of the two indexes say, and their ends.

mod node;
pub(super) mod partitions;
pub(super) mod rows;
mod trie_writer;
mod walk;

use std::rc::Rc;

use bytes::Bytes;
use io::Env;
use model::{DecoratedKey, PartitionBound, ShardId, Sharder, murmur3_x64_128};

use super::chunked_file::ChunkedFile;
use super::cursor::Cursor;
use super::error::{DecodeError, SSTableError};
use super::filter::BloomFilter;
use super::index::{Location, starts_behind};
use partitions::{PartitionIndex, Place, Places};
use rows::RowsEntry;

/// The index of a BTI sstable.
pub(super) struct BtiIndex {
    pub(super) partitions: PartitionIndex,
    /// `Rows.db`.
    pub(super) rows: Rc<ChunkedFile>,
}

impl BtiIndex {
    /// Finds a key; `hash` is its [`model::murmur3_x64_128`].
    pub(super) async fn locate(
        &self,
        key: &DecoratedKey,
        hash: [i64; 2],
        data: &Rc<ChunkedFile>,
    ) -> Result<Option<Location>, SSTableError> {
        match self.partitions.candidate(key, hash).await? {
            None => Ok(None),
            Some(Place::Rows(position)) => {
                let entry = RowsEntry::read(&self.rows, position).await?;
                Ok((entry.key == key.key()[..]).then(|| entry.location()))
            }
            Some(Place::Data(position)) => {
                let mut cursor = Cursor::new(data.clone(), position);
                let found = read_key(&mut cursor, |found| *found == key.key()[..]).await?;
                Ok(found.then_some(Location {
                    data: position,
                    blocks: (0, 0),
                }))
            }
        }
    }

    /// A bloom filter of its keys, for one that is missing. All keys are read.
    pub(super) async fn rebuild_filter(
        &self,
        env: &Env,
        data: &Rc<ChunkedFile>,
        false_positive_chance: f64,
    ) -> Result<BloomFilter, SSTableError> {
        // An entry takes two bytes at least, whatever a damaged index says.
        let most = self.partitions.file().length() / 2;
        let mut filter = BloomFilter::new(self.partitions.count.min(most), false_positive_chance);
        let mut keys = BtiKeys {
            places: self.partitions.places(&PartitionBound::Unbounded),
            rows: self.rows.clone(),
            env: env.clone(),
            start: PartitionBound::Unbounded,
            owner: None,
        };
        let mut cursor = Cursor::new(data.clone(), 0);
        while let Some((key, _)) = keys.next(&mut cursor).await? {
            filter.add(murmur3_x64_128(key.key()));
        }
        Ok(filter)
    }
}

impl RowsEntry {
    fn location(&self) -> Location {
        Location {
            data: self.data,
            blocks: (self.root, self.blocks),
        }
    }
}

/// Goes through the keys of the index.
pub(super) struct BtiKeys {
    pub(super) places: Places,
    pub(super) rows: Rc<ChunkedFile>,
    pub(super) env: Env,
    pub(super) start: PartitionBound,
    pub(super) owner: Option<(Sharder, ShardId)>,
}

impl BtiKeys {
    /// The next key of the range and the shard, or behind it; `None` at the end. Keys whose tokens
    /// the index knows well enough to be of another shard are not read.
    pub(super) async fn next(
        &mut self,
        data: &mut Cursor,
    ) -> Result<Option<(DecoratedKey, Location)>, SSTableError> {
        while let Some(place) = self.places.next().await? {
            self.env.maybe_yield().await;
            if self
                .owner
                .is_some_and(|owner| self.places.is_of_another(owner))
            {
                continue;
            }
            let (key, location) = match place {
                Place::Rows(position) => {
                    let entry = RowsEntry::read(&self.rows, position).await?;
                    let location = entry.location();
                    (Bytes::from(entry.key), location)
                }
                Place::Data(position) => {
                    data.seek(position);
                    let key = read_key(data, Bytes::copy_from_slice).await?;
                    let location = Location {
                        data: position,
                        blocks: (0, 0),
                    };
                    (key, location)
                }
            };
            let key = DecoratedKey::new(key);
            let of_shard =
                |(sharder, shard): (Sharder, ShardId)| sharder.shard_of(key.token()) == shard;
            let is_before = starts_behind(&self.start, key.token(), key.key());
            if self.owner.is_none_or(of_shard) && !is_before {
                return Ok(Some((key, location)));
            }
        }
        Ok(None)
    }
}

/// The key of the partition at the cursor, which stays there.
pub(super) async fn read_key<T>(
    cursor: &mut Cursor,
    see: impl Fn(&[u8]) -> T,
) -> Result<T, SSTableError> {
    loop {
        match cursor.input().short_bytes() {
            Ok(key) => return Ok(see(key)),
            Err(DecodeError::Incomplete) => cursor.extend().await?,
            Err(error) => return Err(cursor.failed(error)),
        }
    }
}

/// Nodes lie within pages of so many bytes (`PageAware.PAGE_SIZE`).
const PAGE: u64 = 4096;

/// The bytes of the shortest signed big-endian number that holds `value`; at least one
/// (`SizedInts.nonZeroSize`).
fn sized_length(value: i64) -> usize {
    let magnitude = if value < 0 { !value } else { value };
    (64 - magnitude.leading_zeros() as usize) / 8 + 1
}

/// Appends the lowest `length` bytes of a number, big-endian (`SizedInts.write`).
fn write_sized(out: &mut Vec<u8>, value: i64, length: usize) {
    out.extend(&value.to_be_bytes()[8 - length..]);
}

/// The signed big-endian number that these up to eight bytes are (`SizedInts.read`).
fn read_sized(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let start = if negative { -1 } else { 0 };
    bytes
        .iter()
        .fold(start, |value, byte| value << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sized_numbers_read_as_written(value: i64, shift in 0..64u32) {
            let value = value >> shift;
            let length = sized_length(value);
            let mut out = Vec::new();
            write_sized(&mut out, value, length);
            prop_assert_eq!(read_sized(&out), value);
            if length > 1 {
                prop_assert_ne!(read_sized(&out[1..]), value);
            }
        }
    }
}
