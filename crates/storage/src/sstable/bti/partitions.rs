//! `Partitions.db`: for each key, where its partition lies
//! (`org.apache.cassandra.io.sstable.format.bti.PartitionIndex`).
//!
//! A trie of the keys, each of them cut after the byte that tells it from both its neighbours.
//! The payload is one byte of the key's hash, which refuses most keys that are not there, and a
//! place: not negative, it is one in `Rows.db`; otherwise its complement is one in the data.
//! Behind the trie are the first and the last key whole, and three numbers: where those are, how
//! many keys there are, and where the root is.

use std::rc::Rc;

use bytes::Bytes;
use model::{DecoratedKey, PartitionBound, ShardId, Sharder, Token};

use super::trie_writer::{Paged, Payload, TrieWriter};
use super::walk::{Found, Walk};
use super::{read_sized, sized_length, write_sized};
use crate::sstable::chunked_file::ChunkedFile;
use crate::sstable::cursor::Cursor;
use crate::sstable::error::SSTableError;
use crate::sstable::input::{Input, write_short_bytes};

/// The three numbers at the end.
const FOOTER: u64 = 24;
/// The flag of a payload that begins with a byte of the hash.
const WITH_HASH: u8 = 8;

/// Where a partition is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sstable) enum Place {
    /// In the data.
    Data(u64),
    /// Its entry in `Rows.db`.
    Rows(u64),
}

impl Place {
    fn encode(self) -> i64 {
        match self {
            Place::Data(position) => !(position as i64),
            Place::Rows(position) => position as i64,
        }
    }

    fn decode(number: i64) -> Place {
        match u64::try_from(number) {
            Ok(position) => Place::Rows(position),
            Err(_) => Place::Data(!number as u64),
        }
    }
}

/// An open index.
#[derive(Clone)]
pub(in crate::sstable) struct PartitionIndex {
    file: Rc<ChunkedFile>,
    root: u64,
    /// How many keys it has.
    pub(in crate::sstable) count: u64,
    /// The first key.
    pub(in crate::sstable) first: DecoratedKey,
    /// The last key.
    pub(in crate::sstable) last: DecoratedKey,
}

impl PartitionIndex {
    /// Reads what is behind the trie.
    pub(in crate::sstable) async fn open(
        file: Rc<ChunkedFile>,
    ) -> Result<PartitionIndex, SSTableError> {
        let length = file.length();
        let Some(footer) = length.checked_sub(FOOTER) else {
            return Err(file.corrupt(length, "it is too short"));
        };
        let mut cursor = Cursor::new(file.clone(), footer);
        cursor.require(FOOTER as usize).await?;
        let mut input = cursor.input();
        let numbers = [input.u64(), input.u64(), input.u64()];
        let [Ok(keys), Ok(count), Ok(root)] = numbers else {
            return Err(file.corrupt(footer, "it is too short"));
        };
        if keys >= footer || root >= keys || count == 0 {
            return Err(file.corrupt(footer, "its end does not fit the rest of it"));
        }
        cursor.seek(keys);
        cursor.require((footer - keys) as usize).await?;
        let mut input = cursor.input();
        let (first, last) = match (input.short_bytes(), input.short_bytes()) {
            (Ok(first), Ok(last)) => (key(first), key(last)),
            _ => return Err(file.corrupt(keys, "first and last key exceed it")),
        };
        if first > last {
            return Err(file.corrupt(keys, "first and last key do not fit"));
        }
        Ok(PartitionIndex {
            file,
            root,
            count,
            first,
            last,
        })
    }

    /// Its file.
    pub(in crate::sstable) fn file(&self) -> &Rc<ChunkedFile> {
        &self.file
    }

    /// Where the partition of a key lies if it is there at all: what lies there may be another
    /// one. `hash` is the key's [`model::murmur3_x64_128`].
    pub(in crate::sstable) async fn candidate(
        &self,
        key: &DecoratedKey,
        hash: [i64; 2],
    ) -> Result<Option<Place>, SSTableError> {
        let mut walk = Walk::new(self.file.clone(), self.root);
        let Some(found) = walk.candidate(&key.byte_comparable()).await? else {
            return Ok(None);
        };
        let (hashed, place) = decode(&found).map_err(|what| walk.corrupt(what))?;
        let fits = hashed.is_none_or(|byte| byte == hash_byte(hash));
        Ok(fits.then_some(place))
    }

    /// The places of the partitions from `start` on, in ring order; the first few may lie before.
    pub(in crate::sstable) fn places(&self, start: &PartitionBound) -> Places {
        let start = match start {
            PartitionBound::Unbounded => Vec::new(),
            PartitionBound::TokenInclusive(token) | PartitionBound::TokenExclusive(token) => {
                token.byte_comparable_prefix().to_vec()
            }
            PartitionBound::KeyInclusive(key) | PartitionBound::KeyExclusive(key) => {
                key.byte_comparable()
            }
        };
        Places {
            walk: Walk::new(self.file.clone(), self.root),
            start: Some(start),
        }
    }
}

/// Goes through the places of partitions.
pub(in crate::sstable) struct Places {
    walk: Walk,
    /// Where to begin, before the first.
    start: Option<Vec<u8>>,
}

impl Places {
    /// The next one; `None` at the end.
    pub(in crate::sstable) async fn next(&mut self) -> Result<Option<Place>, SSTableError> {
        let found = match self.start.take() {
            Some(start) => self.walk.ceiling(&start).await?,
            None => self.walk.next().await?,
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let (_, place) = decode(&found).map_err(|what| self.walk.corrupt(what))?;
        Ok(Some(place))
    }

    /// Must the last one be of another shard, as far as the index knows its token?
    pub(in crate::sstable) fn is_of_another(&self, (sharder, shard): (Sharder, ShardId)) -> bool {
        let known = self.walk.key().get(1..).unwrap_or_default();
        let token = |fill: u8| {
            let mut bytes = [fill; 8];
            let known = &known[..known.len().min(8)];
            bytes[..known.len()].copy_from_slice(known);
            Token(i64::from_be_bytes(bytes) ^ i64::MIN)
        };
        let (low, high) = (token(0), token(0xff));
        // Tokens that have the ignored bits in common are dealt out in order.
        known.len() * 8 >= usize::from(sharder.ignored_bits())
            && sharder.shard_of(low) == sharder.shard_of(high)
            && sharder.shard_of(low) != shard
    }
}

fn key(bytes: &[u8]) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(bytes))
}

/// The byte of the hash that the index keeps (`DecoratedKey.filterHashLowerBits`).
fn hash_byte(hash: [i64; 2]) -> u8 {
    hash[1] as u8
}

/// Takes a payload apart.
fn decode((flags, bytes): &Found) -> Result<(Option<u8>, Place), &'static str> {
    const SHORT: &str = "a place in the index exceeds its page";
    let mut input = Input::new(bytes);
    let (hash, length) = match flags.checked_sub(WITH_HASH) {
        Some(length) => (Some(input.u8().map_err(|_| SHORT)?), length + 1),
        None => (None, *flags),
    };
    let number = input.take(length.into()).map_err(|_| SHORT)?;
    Ok((hash, Place::decode(read_sized(number))))
}

/// What the trie says of a key.
struct Entry {
    hash: u8,
    place: i64,
}

impl Payload for Entry {
    fn measure(&self) -> (u8, usize) {
        let length = sized_length(self.place);
        (WITH_HASH + (length - 1) as u8, 1 + length)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.hash);
        write_sized(out, self.place, sized_length(self.place));
    }
}

/// Writes the index, key by key (`PartitionIndexBuilder`).
pub(in crate::sstable) struct PartitionIndexWriter {
    trie: TrieWriter<Entry>,
    out: Paged,
    /// The key that came last, and how many bytes of it tell it from the one before.
    last: Option<(Vec<u8>, Entry, usize)>,
}

impl PartitionIndexWriter {
    pub(in crate::sstable) fn new() -> PartitionIndexWriter {
        PartitionIndexWriter {
            trie: TrieWriter::new(),
            out: Paged::default(),
            last: None,
        }
    }

    /// The next partition, whose key has this hash ([`model::murmur3_x64_128`]).
    pub(in crate::sstable) fn add(&mut self, key: &DecoratedKey, hash: [i64; 2], place: Place) {
        let entry = Entry {
            hash: hash_byte(hash),
            place: place.encode(),
        };
        let key = key.byte_comparable();
        let mut needed = 0;
        if let Some((last, entry, before)) = self.last.take() {
            let common = last.iter().zip(&key).take_while(|(a, b)| a == b).count();
            needed = common + 1;
            self.trie
                .add(&mut self.out, &last[..needed.max(before)], entry);
        }
        self.last = Some((key, entry, needed));
    }

    /// The bytes that are to be written next.
    pub(in crate::sstable) fn ready(&self) -> usize {
        self.out.bytes.len()
    }

    /// Takes those bytes.
    pub(in crate::sstable) fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    /// Ends the index; gives the rest of its bytes.
    pub(in crate::sstable) fn finish(
        mut self,
        first: &DecoratedKey,
        last: &DecoratedKey,
    ) -> Vec<u8> {
        if let Some((key, entry, needed)) = self.last.take() {
            self.trie.add(&mut self.out, &key[..needed], entry);
        }
        let count = self.trie.count();
        let root = self.trie.finish(&mut self.out);
        let keys = self.out.position();
        let out = &mut self.out.bytes;
        write_short_bytes(out, first.key());
        write_short_bytes(out, last.key());
        for number in [keys, count, root] {
            out.extend(number.to_be_bytes());
        }
        self.out.take()
    }
}
