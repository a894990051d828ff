//! The BIG format: an index of all keys and a sample of it in memory
//! (`org.apache.cassandra.io.sstable.format.big`).

pub(super) mod blocks;
pub(super) mod index;
pub(super) mod summary;

use std::rc::Rc;

use bytes::Bytes;
use io::Env;
use model::{DecoratedKey, PartitionBound, ShardId, Sharder, Token, murmur3_x64_128};

use super::chunked_file::ChunkedFile;
use super::cursor::Cursor;
use super::error::{DecodeError, SSTableError};
use super::filter::BloomFilter;
use super::index::{Location, starts_behind};
use super::statistics::Statistics;
use index::IndexEntry;
use summary::{BASE_SAMPLING_LEVEL, Summary};

/// How many keys are passed over between two looks at the time.
const KEYS_A_LOOK: u32 = 16;

/// The index of a BIG sstable.
pub(super) struct BigIndex {
    file: Rc<ChunkedFile>,
    summary: Summary,
}

impl BigIndex {
    pub(super) fn new(file: Rc<ChunkedFile>, summary: Summary) -> BigIndex {
        BigIndex { file, summary }
    }

    pub(super) fn file(&self) -> &Rc<ChunkedFile> {
        &self.file
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Finds a key.
    pub(super) async fn locate(
        &self,
        key: &DecoratedKey,
    ) -> Result<Option<Location>, SSTableError> {
        let Some((from, to)) = self.summary.range_of(key) else {
            return Ok(None);
        };
        let end = to.unwrap_or(self.file.length());
        let mut cursor = Cursor::new(self.file.clone(), from);
        while cursor.position() < end {
            let found = next_entry(&mut cursor, |entry| entry.key == &key.key()[..]).await?;
            if let (true, location) = found {
                return Ok(Some(location));
            }
        }
        Ok(None)
    }

    /// Where in the index a range begins.
    pub(super) fn start_position(&self, start: &PartitionBound) -> u64 {
        match start {
            PartitionBound::Unbounded => 0,
            PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => {
                self.summary.position_before(*token)
            }
            PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => {
                self.summary.position_before(key.token())
            }
        }
    }
}

/// Goes through the index.
pub(super) struct BigKeys {
    pub(super) cursor: Cursor,
    pub(super) env: Env,
    pub(super) start: PartitionBound,
    pub(super) owner: Option<(Sharder, ShardId)>,
}

impl BigKeys {
    /// The next key of the range and the shard, or behind it; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<(DecoratedKey, Location)>, SSTableError> {
        let mut passed = 0u32;
        while self.cursor.position() < self.cursor.length() {
            let (start, owner) = (&self.start, self.owner);
            // Nothing is copied of the keys between a sample and where the range begins.
            let copy = |entry: &IndexEntry<'_>| {
                let token = Token::of(entry.key);
                let of_shard =
                    |(sharder, shard): (Sharder, ShardId)| sharder.shard_of(token) == shard;
                (owner.is_none_or(of_shard) && !starts_behind(start, token, entry.key))
                    .then(|| Bytes::copy_from_slice(entry.key))
            };
            let (key, location) = next_entry(&mut self.cursor, copy).await?;
            if let Some(key) = key {
                return Ok(Some((DecoratedKey::new(key), location)));
            }
            passed += 1;
            if passed.is_multiple_of(KEYS_A_LOOK) {
                self.env.maybe_yield().await;
            }
        }
        Ok(None)
    }
}

/// Takes an entry of the index, promoted index included, and what `see` made of it.
pub(super) async fn next_entry<T>(
    cursor: &mut Cursor,
    see: impl Fn(&IndexEntry<'_>) -> T,
) -> Result<(T, Location), SSTableError> {
    loop {
        let mut input = cursor.input();
        match IndexEntry::decode(&mut input) {
            Ok(entry) => {
                let seen = see(&entry);
                let promoted = cursor.position() + input.position() as u64;
                let location = Location {
                    data: entry.position,
                    blocks: (promoted, entry.promoted_length as u64),
                };
                let end = promoted.saturating_add(entry.promoted_length as u64);
                if end > cursor.length() {
                    return Err(cursor.corrupt("an entry exceeds the file"));
                }
                cursor.seek(end);
                return Ok((seen, location));
            }
            Err(DecodeError::Incomplete) => cursor.extend().await?,
            Err(error) => return Err(cursor.failed(error)),
        }
    }
}

/// What can be made from the index.
pub(super) struct Rebuilt {
    pub(super) summary: Summary,
    pub(super) filter: BloomFilter,
}

impl Rebuilt {
    pub(super) async fn from_index(
        env: &Env,
        index: Rc<ChunkedFile>,
        statistics: &Statistics,
    ) -> Result<Rebuilt, SSTableError> {
        // No entry takes less than three bytes, whatever damaged statistics say.
        let keys = (statistics.stats.partition_sizes.count().max(0) as u64)
            .min(index.length() / 3)
            .max(1);
        let mut filter = BloomFilter::new(keys, statistics.bloom_filter_fp_chance);
        let mut samples = Vec::new();
        let mut last: Option<DecoratedKey> = None;
        let mut count = 0u32;
        let mut cursor = Cursor::new(index, 0);
        while cursor.position() < cursor.length() {
            let position = cursor.position();
            let copy = |entry: &IndexEntry<'_>| Bytes::copy_from_slice(entry.key);
            let (key, _) = next_entry(&mut cursor, copy).await?;
            let key = DecoratedKey::new(key);
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(cursor.corrupt("the keys are not in order"));
            }
            filter.add(murmur3_x64_128(key.key()));
            if count.is_multiple_of(BASE_SAMPLING_LEVEL) {
                samples.push((key.clone(), position));
            }
            count += 1;
            last = Some(key);
            env.maybe_yield().await;
        }
        let (Some((first, _)), Some(last)) = (samples.first().cloned(), last) else {
            return Err(cursor.corrupt("it has no entries"));
        };
        Ok(Rebuilt {
            summary: Summary::new(samples, first, last),
            filter,
        })
    }
}
