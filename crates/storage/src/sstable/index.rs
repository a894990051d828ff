//! Finding partitions in an sstable and blocks in a partition, whatever the format of the index.

use std::path::PathBuf;
use std::rc::Rc;

use io::{Env, TaskGroup};
use model::{DecoratedKey, PartitionBound, ShardId, Sharder, Token};

use super::big::blocks::PromotedIndex;
use super::big::{BigIndex, BigKeys};
use super::blocks::Blocks;
use super::bti::rows::RowIndex;
use super::bti::{BtiIndex, BtiKeys};
use super::chunked_file::ChunkedFile;
use super::cursor::Cursor;
use super::error::SSTableError;
use super::layout::Layout;

/// Where a partition lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// In the data.
    pub(super) data: u64,
    /// The index of its blocks: of a BIG sstable where it is in `Index.db` and how many bytes it
    /// has; of a BTI sstable where its root is in `Rows.db` and how many blocks it has. The second
    /// number is 0 if it has none.
    pub(super) blocks: (u64, u64),
}

/// The index of an sstable.
pub(super) enum Index {
    /// Of a BIG sstable.
    Big(BigIndex),
    /// Of a BTI sstable.
    Bti(BtiIndex),
    /// None that can be used.
    Lost(LostIndex),
}

/// What is left where an index is missing or damaged.
pub(super) struct LostIndex {
    /// Where it should be.
    pub(super) path: PathBuf,
    /// The data, by which the caches know the sstable then.
    pub(super) data: Rc<ChunkedFile>,
    /// `Index.db`, if it is there: its entries can be tried one after the other.
    pub(super) entries: Option<Rc<ChunkedFile>>,
    /// No key in particular.
    pub(super) nowhere: DecoratedKey,
}

impl LostIndex {
    fn error(&self) -> SSTableError {
        SSTableError::Missing {
            path: self.path.clone(),
        }
    }
}

impl Index {
    /// The first key.
    pub(super) fn first(&self) -> &DecoratedKey {
        match self {
            Index::Big(index) => &index.summary().first,
            Index::Bti(index) => &index.partitions.first,
            Index::Lost(lost) => &lost.nowhere,
        }
    }

    /// The last key.
    pub(super) fn last(&self) -> &DecoratedKey {
        match self {
            Index::Big(index) => &index.summary().last,
            Index::Bti(index) => &index.partitions.last,
            Index::Lost(lost) => &lost.nowhere,
        }
    }

    /// The file by which the caches know it.
    pub(super) fn file(&self) -> &Rc<ChunkedFile> {
        match self {
            Index::Big(index) => index.file(),
            Index::Bti(index) => index.partitions.file(),
            Index::Lost(lost) => &lost.data,
        }
    }

    /// Bytes on disk.
    pub(super) fn disk_size(&self) -> u64 {
        match self {
            Index::Big(index) => index.file().length(),
            Index::Bti(index) => index.partitions.file().length() + index.rows.length(),
            Index::Lost(_) => 0,
        }
    }

    /// What its summary takes in memory, roughly, in bytes.
    pub(super) fn summary_size(&self) -> usize {
        match self {
            Index::Big(index) => index.summary().size(),
            Index::Bti(_) | Index::Lost(_) => 0,
        }
    }

    /// What the checksums of its files take in memory, in bytes.
    pub(super) fn checksums_size(&self) -> usize {
        match self {
            Index::Big(index) => index.file().memory_size(),
            Index::Bti(index) => index.partitions.file().memory_size() + index.rows.memory_size(),
            Index::Lost(_) => 0,
        }
    }

    /// Finds a key; `hash` is its [`model::murmur3_x64_128`].
    pub(super) async fn locate(
        &self,
        (key, hash): (&DecoratedKey, [i64; 2]),
        data: &Rc<ChunkedFile>,
    ) -> Result<Option<Location>, SSTableError> {
        match self {
            Index::Big(index) => index.locate(key).await,
            Index::Bti(index) => index.locate(key, hash, data).await,
            Index::Lost(lost) => Err(lost.error()),
        }
    }

    /// The index of the blocks of a partition, if it has one.
    pub(super) async fn blocks(
        &self,
        layout: &Layout,
        location: Location,
    ) -> Result<Option<Blocks>, SSTableError> {
        let (position, length) = location.blocks;
        if length == 0 {
            return Ok(None);
        }
        Ok(Some(match self {
            Index::Big(index) => {
                let file = index.file().clone();
                Blocks::Big(PromotedIndex::open(file, layout, (position, length)).await?)
            }
            Index::Bti(index) => Blocks::Bti(RowIndex::new(index.rows.clone(), position)),
            Index::Lost(lost) => return Err(lost.error()),
        }))
    }

    /// Goes through the keys of a shard from `start` on.
    pub(super) fn keys(
        &self,
        env: &Env,
        start: &PartitionBound,
        owner: Option<(Sharder, ShardId)>,
        (read_ahead, group): (u64, TaskGroup),
    ) -> Keys {
        match self {
            Index::Big(index) => {
                let position = index.start_position(start);
                let file = index.file().clone();
                Keys::Big(BigKeys {
                    cursor: Cursor::with_read_ahead(file, position, read_ahead, env, group),
                    env: env.clone(),
                    start: start.clone(),
                    owner,
                })
            }
            Index::Bti(index) => Keys::Bti(BtiKeys {
                places: index.partitions.places(start),
                rows: index.rows.clone(),
                env: env.clone(),
                start: start.clone(),
                owner,
            }),
            Index::Lost(lost) => Keys::Lost(lost.path.clone()),
        }
    }
}

/// Goes through the keys of an sstable.
pub(super) enum Keys {
    /// Of a BIG sstable.
    Big(BigKeys),
    /// Of a BTI sstable.
    Bti(BtiKeys),
    /// Of one whose index is lost.
    Lost(PathBuf),
}

impl Keys {
    /// The next key of the range and the shard, or behind it; `None` at the end. `data` may be
    /// moved to where its partition is.
    pub(super) async fn next(
        &mut self,
        data: &mut Cursor,
    ) -> Result<Option<(DecoratedKey, Location)>, SSTableError> {
        match self {
            Keys::Big(keys) => keys.next().await,
            Keys::Bti(keys) => keys.next(data).await,
            Keys::Lost(path) => Err(SSTableError::Missing { path: path.clone() }),
        }
    }
}

/// Is a key, whose token this is, before this lower end?
pub(super) fn starts_behind(start: &PartitionBound, token: Token, key: &[u8]) -> bool {
    match start {
        PartitionBound::Unbounded => false,
        PartitionBound::TokenInclusive(start) => token < *start,
        PartitionBound::TokenExclusive(start) => token <= *start,
        PartitionBound::KeyInclusive(start) => (token, key) < (start.token(), &start.key()[..]),
        PartitionBound::KeyExclusive(start) => (token, key) <= (start.token(), &start.key()[..]),
    }
}
