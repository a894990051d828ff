//! An sstable that can be read.
//!
//! A look-up of a key asks the first and last key and the bloom filter (both in memory), then the
//! index and at last the partition. What of the index and the data was read before is in the chunk
//! cache.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use io::Env;
use model::{DecoratedKey, Slice, Table, murmur3_x64_128};

use super::chunk_cache::Held;
use super::chunked_file::ChunkedFile;
use super::compression::CompressionParameters;
use super::cursor::Cursor;
use super::decode::ColumnSelection;
use super::descriptor::{Descriptor, ShardOrigin};
use super::error::SSTableError;
use super::filter::BloomFilter;
use super::header::EncodingStats;
use super::index::{Index, Location};
use super::layout::{Layout, Unkept};
use super::open::Parts;
use super::partition::{PartitionReader, Selection};
use super::scan::{ScanOptions, Scanner};
use super::statistics::{Statistics, Stats};

/// An open sstable; clones share it.
#[derive(Clone)]
pub struct SSTable {
    inner: Rc<Inner>,
}

struct Inner {
    env: Env,
    descriptor: Descriptor,
    /// The table as known now, and the columns of the file matched with it.
    schema: RefCell<Schema>,
    statistics: Statistics,
    filter: BloomFilter,
    data: Rc<ChunkedFile>,
    index: Index,
    origin: Option<ShardOrigin>,
    disk_size: u64,
    memory_size: usize,
    #[expect(dead_code, reason = "counted until it is dropped")]
    held: Held,
    /// Its number among what its table consists of; 0 until it is a part of it.
    number: Cell<u64>,
}

#[derive(Clone)]
pub(super) struct Schema {
    pub table: Arc<Table>,
    pub layout: Rc<Layout>,
}

impl SSTable {
    /// Of its parts, with the columns of the file matched with those of the table in `layout`.
    pub(super) fn assemble(
        env: &Env,
        descriptor: &Descriptor,
        parts: Parts,
        (table, layout): (&Arc<Table>, Layout),
        (index, filter): (Index, BloomFilter),
    ) -> SSTable {
        let memory_size = filter.size()
            + index.summary_size()
            + index.checksums_size()
            + parts.data.memory_size();
        SSTable {
            inner: Rc::new(Inner {
                held: parts.data.cache().hold(memory_size),
                memory_size,
                env: env.clone(),
                descriptor: descriptor.clone(),
                schema: RefCell::new(Schema {
                    table: table.clone(),
                    layout: Rc::new(layout),
                }),
                statistics: parts.statistics,
                filter,
                data: parts.data,
                disk_size: parts.data_size + index.disk_size(),
                index,
                origin: parts.seal.map(|seal| seal.origin),
                number: Cell::new(0),
            }),
        }
    }

    /// Tells it that the table was altered: from now on reads give the columns of `table`.
    pub fn set_table(&self, table: &Arc<Table>) {
        let inner = &self.inner;
        let layout = Layout::new(&inner.statistics.header, inner.descriptor.version, table);
        *inner.schema.borrow_mut() = Schema {
            table: table.clone(),
            layout: Rc::new(layout),
        };
    }

    /// From now on it is noted what is read and would be written otherwise, for tools that know no
    /// more of the table than the header tells.
    pub fn note_unkept(&self) -> Unkept {
        let unkept = Unkept::default();
        let mut schema = self.inner.schema.borrow_mut();
        let mut layout = Layout::clone(&schema.layout);
        layout.unkept = Some(unkept.clone());
        schema.layout = Rc::new(layout);
        unkept
    }

    /// Its number among what its table consists of, see [`crate::cache`]; `None` until it is a part
    /// of it.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.inner.number.get()).filter(|number| *number > 0)
    }

    /// It becomes part of its table.
    pub(crate) fn set_number(&self, number: u64) {
        self.inner.number.set(number);
    }

    /// The table as it knows it.
    pub fn table(&self) -> Arc<Table> {
        self.inner.schema.borrow().table.clone()
    }

    /// Where it lies.
    pub fn descriptor(&self) -> &Descriptor {
        &self.inner.descriptor
    }

    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        self.inner.index.first()
    }

    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        self.inner.index.last()
    }

    /// What it holds.
    pub fn stats(&self) -> &Stats {
        &self.inner.statistics.stats
    }

    /// All that is said about it.
    pub fn statistics(&self) -> &Statistics {
        &self.inner.statistics
    }

    /// Lower bounds of the times in it: what a compaction starts from.
    pub fn encoding_stats(&self) -> EncodingStats {
        self.inner.statistics.header.encoding
    }

    /// How many partitions it holds.
    pub fn partitions(&self) -> u64 {
        let count = self.stats().partition_sizes.count();
        u64::try_from(count).unwrap_or(0)
    }

    /// How its data is compressed, if it is.
    pub fn compression(&self) -> Option<&CompressionParameters> {
        self.inner.data.compression()
    }

    /// The length of its data before compression, in bytes.
    pub fn data_length(&self) -> u64 {
        self.inner.data.length()
    }

    /// What data and index take on disk, in bytes.
    pub fn disk_size(&self) -> u64 {
        self.inner.disk_size
    }

    /// What it keeps in memory as long as it is open, roughly, in bytes.
    pub fn memory_size(&self) -> usize {
        self.inner.memory_size
    }

    /// What its summary takes in memory, in bytes.
    pub fn summary_size(&self) -> usize {
        self.inner.index.summary_size()
    }

    /// What says where the chunks of its data are takes in memory, in bytes.
    pub fn offsets_size(&self) -> usize {
        self.inner.data.memory_size()
    }

    /// What its bloom filter takes in memory, in bytes.
    pub fn filter_size(&self) -> usize {
        self.inner.filter.size()
    }

    /// Has it this partition? It may be nothing but a deletion.
    pub async fn has(&self, key: &DecoratedKey) -> Result<bool, SSTableError> {
        let hash = model::murmur3_x64_128(key.key());
        let found = self.inner.index.locate((key, hash), &self.inner.data);
        Ok(found.await?.is_some())
    }

    /// Which shard of how many wrote it; `None` if Cassandra did.
    pub fn origin(&self) -> Option<ShardOrigin> {
        self.inner.origin
    }

    /// Can any of these hold something of a key? It is hashed if there are some at all.
    pub(crate) fn any_may_contain<'s>(
        sstables: impl Iterator<Item = &'s SSTable>,
        key: &DecoratedKey,
    ) -> bool {
        let mut sstables = sstables.peekable();
        sstables.peek().is_some() && {
            let hash = murmur3_x64_128(key.key());
            sstables.any(|sstable| sstable.may_contain(key, hash))
        }
    }

    /// Can it hold something of the key whose hash ([`murmur3_x64_128`]) this is? Never wrong if
    /// it says no.
    pub fn may_contain(&self, key: &DecoratedKey, hash: [i64; 2]) -> bool {
        let inner = &self.inner;
        let is_lost = matches!(inner.index, Index::Lost(_));
        let in_range = is_lost || (inner.index.first()..=inner.index.last()).contains(&key);
        in_range && inner.filter.may_contain(hash)
    }

    /// Can it hold something that a read of these slices of a partition needs? Never wrong if it
    /// says no: neither rows nor deletions of rows nor a static row nor the deletion of a
    /// partition.
    pub fn may_contain_slices(&self, slices: &[Slice]) -> bool {
        let stats = self.stats();
        let Some(covered) = &stats.covered else {
            return true;
        };
        let header = &self.inner.statistics.header;
        if stats.has_partition_deletions || !header.statics.is_empty() {
            return true;
        }
        let schema = self.inner.schema.borrow();
        let comparator = schema.table.comparator();
        slices.iter().any(|slice| {
            comparator
                .compare_bounds(&slice.start, &covered.end)
                .is_lt()
                && comparator
                    .compare_bounds(&covered.start, &slice.end)
                    .is_lt()
        })
    }

    /// Reads a partition, if it is here: the rows in `slices` (sorted, not overlapping), from the
    /// last to the first if `reversed`. A deletion that reaches beyond a slice is cut at its ends.
    /// `hash` is that of the key; ask [`SSTable::may_contain`] before, which is cheap.
    pub async fn get(
        &self,
        (key, hash): (&DecoratedKey, [i64; 2]),
        slices: Rc<[Slice]>,
        reversed: bool,
        columns: &ColumnSelection,
    ) -> Result<Option<PartitionReader>, SSTableError> {
        let index = &self.inner.index;
        let (keys, id) = (index.file().cache().keys(), index.file().id());
        let selection = (slices, reversed, columns.clone());
        if let Some(location) = keys.get(id, hash) {
            let opened = self.open_partition(key, location, selection.clone()).await;
            match opened {
                // Another key with this hash, or damage: the index knows.
                Err(SSTableError::Corrupt { .. }) => {}
                opened => return opened.map(Some),
            }
        }
        let Some(location) = index.locate((key, hash), &self.inner.data).await? else {
            return Ok(None);
        };
        keys.insert(id, hash, location);
        self.open_partition(key, location, selection)
            .await
            .map(Some)
    }

    async fn open_partition(
        &self,
        key: &DecoratedKey,
        location: Location,
        selection: Selection,
    ) -> Result<PartitionReader, SSTableError> {
        let cursor = Cursor::new(self.inner.data.clone(), location.data);
        PartitionReader::open(self.clone(), cursor, location, key, selection).await
    }

    /// Reads the partitions of a range, in ring order.
    pub fn scan(&self, options: ScanOptions) -> Scanner {
        Scanner::new(self.clone(), options)
    }

    pub(super) fn schema(&self) -> Schema {
        self.inner.schema.borrow().clone()
    }

    pub(super) fn env(&self) -> &Env {
        &self.inner.env
    }

    pub(super) fn data(&self) -> &Rc<ChunkedFile> {
        &self.inner.data
    }

    pub(super) fn filter(&self) -> &BloomFilter {
        &self.inner.filter
    }

    pub(super) fn index(&self) -> &Index {
        &self.inner.index
    }
}
