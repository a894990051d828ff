//! Opening an sstable: which components there are, which must be, and what is made anew of those that
//! are missing or damaged.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use io::Env;
use model::{DecoratedKey, Table};

use super::big::summary::Summary;
use super::big::{BigIndex, Rebuilt};
use super::bti::BtiIndex;
use super::bti::partitions::PartitionIndex;
use super::chunk_cache::{ChunkCache, KeptChunks};
use super::chunked_file::{self, Checksums, ChunkedFile, Encoding};
use super::compression::CompressionInfo;
use super::descriptor::{Component, Descriptor, decode_toc};
use super::error::SSTableError;
use super::filter::BloomFilter;
use super::index::{Index, LostIndex};
use super::input::Input;
use super::inspect;
use super::layout::Layout;
use super::reader::SSTable;
use super::seal::Seal;
use super::statistics::{PARTITIONER, Statistics};
use super::version::Format;

/// The largest component that is read as a whole; a larger one is damaged or not of this world.
const MAX_COMPONENT: u64 = 4 << 30;

impl SSTable {
    /// Opens an sstable of a table: reads what must be in memory and checks that what must be
    /// there is there. A summary or bloom filter that is missing or damaged is made anew from the
    /// index, in memory only.
    pub async fn open(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        cache: &ChunkCache,
    ) -> Result<SSTable, SSTableError> {
        let statistics = inspect::read_statistics(env, descriptor).await?;
        check_partitioner(descriptor, &statistics)?;
        SSTable::open_with(env, descriptor, table, (cache, None), statistics).await
    }

    /// The same of one of whose data `cache` has chunks already ([`super::Writer::keep_in`]).
    pub(crate) async fn open_kept(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        (cache, kept): (&ChunkCache, KeptChunks),
    ) -> Result<SSTable, SSTableError> {
        let statistics = inspect::read_statistics(env, descriptor).await?;
        check_partitioner(descriptor, &statistics)?;
        SSTable::open_with(env, descriptor, table, (cache, Some(kept)), statistics).await
    }

    /// Opens an sstable whatever partitioner its partitions are ordered by. Only scans from the
    /// first to the last partition may be made of it: keys are not found, nor are ranges.
    pub async fn open_in_any_order(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        cache: &ChunkCache,
    ) -> Result<SSTable, SSTableError> {
        let statistics = inspect::read_statistics(env, descriptor).await?;
        SSTable::open_with(env, descriptor, table, (cache, None), statistics).await
    }

    async fn open_with(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        (cache, kept): (&ChunkCache, Option<KeptChunks>),
        statistics: Statistics,
    ) -> Result<SSTable, SSTableError> {
        let parts = Parts::open(env, descriptor, (cache, kept), statistics).await?;
        let index = open_indexes(env, descriptor, cache, &parts).await?;
        parts.assemble(env, descriptor, table, index)
    }

    /// Opens an sstable even if its index is missing or damaged, which is told then: to read its
    /// data from the beginning ([`super::salvage`]), for nothing can be found in it.
    pub(super) async fn open_without_index(
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        cache: &ChunkCache,
    ) -> Result<(SSTable, Option<SSTableError>), SSTableError> {
        let statistics = inspect::read_statistics(env, descriptor).await?;
        check_partitioner(descriptor, &statistics)?;
        let parts = Parts::open(env, descriptor, (cache, None), statistics).await?;
        let (index, damage) = match open_indexes(env, descriptor, cache, &parts).await {
            Ok(opened) => (opened, None),
            Err(damage @ (SSTableError::Corrupt { .. } | SSTableError::Missing { .. })) => {
                let component = match descriptor.version.format() {
                    Format::Big => Component::Index,
                    Format::Bti => Component::Partitions,
                };
                let seal = parts.seal.as_ref();
                let entries = open_index(env, descriptor, component, seal, cache).await;
                let is_big = component == Component::Index;
                let lost = LostIndex {
                    path: descriptor.path(component),
                    data: parts.data.clone(),
                    entries: entries.ok().filter(|_| is_big),
                    nowhere: DecoratedKey::new(Bytes::new()),
                };
                let lost = (Index::Lost(lost), BloomFilter::ALWAYS_PRESENT);
                (lost, Some(damage))
            }
            Err(error) => return Err(error),
        };
        let sstable = parts.assemble(env, descriptor, table, index)?;
        Ok((sstable, damage))
    }
}

/// What an sstable consists of beside its index.
pub(super) struct Parts {
    pub(super) statistics: Statistics,
    pub(super) seal: Option<Seal>,
    pub(super) data: Rc<ChunkedFile>,
    /// The length of the data file, in bytes.
    pub(super) data_size: u64,
}

impl Parts {
    async fn open(
        env: &Env,
        descriptor: &Descriptor,
        (cache, kept): (&ChunkCache, Option<KeptChunks>),
        statistics: Statistics,
    ) -> Result<Parts, SSTableError> {
        let seal = read_seal(env, descriptor).await?;
        let encoding = data_encoding(env, descriptor, &statistics, seal.as_ref()).await?;
        let path = descriptor.path(Component::Data);
        let file = chunked_file::open_direct(env, &path).await?;
        let data_size = file.1;
        let file = ChunkedFile::new(file, path, encoding, cache.clone())?;
        Ok(Parts {
            statistics,
            seal,
            data_size,
            data: Rc::new(match kept {
                Some(kept) => file.with_kept(kept),
                None => file,
            }),
        })
    }

    fn assemble(
        self,
        env: &Env,
        descriptor: &Descriptor,
        table: &Arc<Table>,
        index: (Index, BloomFilter),
    ) -> Result<SSTable, SSTableError> {
        let layout = Layout::new(&self.statistics.header, descriptor.version, table);
        check_clustering(descriptor, &layout, table)?;
        let table = (table, layout);
        Ok(SSTable::assemble(env, descriptor, self, table, index))
    }
}

/// Opens what finds partitions; what of it is not there and can be made from the rest is.
async fn open_indexes(
    env: &Env,
    descriptor: &Descriptor,
    cache: &ChunkCache,
    parts: &Parts,
) -> Result<(Index, BloomFilter), SSTableError> {
    let (statistics, seal) = (&parts.statistics, parts.seal.as_ref());
    let filter = or_rebuilt(read_filter(env, descriptor, statistics, seal).await)?;
    match descriptor.version.format() {
        Format::Big => {
            let opened = open_big(env, descriptor, seal, cache, filter, statistics);
            let (index, filter) = opened.await?;
            Ok((Index::Big(index), filter))
        }
        Format::Bti => {
            let index = open_bti(env, descriptor, seal, cache).await?;
            let filter = match filter {
                Some(filter) => filter,
                None => {
                    tracing::warn!(sstable = %descriptor, "filter made anew from the keys");
                    let chance = statistics.bloom_filter_fp_chance;
                    index.rebuild_filter(env, &parts.data, chance).await?
                }
            };
            Ok((Index::Bti(index), filter))
        }
    }
}

/// The rows must have as many clustering columns as the table.
fn check_clustering(
    descriptor: &Descriptor,
    layout: &Layout,
    table: &Table,
) -> Result<(), SSTableError> {
    let (file, schema) = (layout.clustering.len(), table.clustering_key().len());
    if file == schema {
        return Ok(());
    }
    Err(SSTableError::Unsupported {
        path: descriptor.path(Component::Statistics),
        what: format!(
            "it has {file} clustering columns, table {}.{} has {schema}; was it copied from \
             another table?",
            table.keyspace, table.name
        ),
    })
}

/// Reads a small component whole; `None` if it is not there.
pub(super) async fn read_component(env: &Env, path: &Path) -> Result<Option<Bytes>, SSTableError> {
    let (file, length) = match chunked_file::open(env, path).await {
        Ok(opened) => opened,
        Err(SSTableError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_COMPONENT {
        return Err(SSTableError::corrupt(path, 0, "it is too large"));
    }
    let read = file.read_exact_at(0, length as usize).await;
    read.map(Some).map_err(|e| SSTableError::io(path, e))
}

fn missing(path: PathBuf) -> SSTableError {
    SSTableError::Missing { path }
}

/// `None`: Cassandra wrote the sstable, or what Helenus noted is damaged, which is said.
pub(super) async fn read_seal(
    env: &Env,
    descriptor: &Descriptor,
) -> Result<Option<Seal>, SSTableError> {
    let path = descriptor.path(Component::Helenus);
    let Some(bytes) = read_component(env, &path).await? else {
        return Ok(None);
    };
    let seal = Seal::decode(&bytes);
    if seal.is_none() {
        tracing::warn!(
            "{} is damaged: the index is read without checksums",
            path.display()
        );
    }
    Ok(seal)
}

/// A component that has to have the content it was written with.
fn check_seal(
    seal: Option<&Seal>,
    component: Component,
    (path, content): (&Path, &[u8]),
) -> Result<(), SSTableError> {
    if seal.is_none_or(|seal| seal.fits(component, content)) {
        return Ok(());
    }
    let what = "its checksum is not the one in Helenus.db";
    Err(SSTableError::corrupt(path, 0, what))
}

fn check_partitioner(descriptor: &Descriptor, statistics: &Statistics) -> Result<(), SSTableError> {
    if statistics.partitioner == PARTITIONER {
        return Ok(());
    }
    let what = format!(
        "its partitions are in the order of {}; only Murmur3Partitioner is supported",
        statistics.partitioner
    );
    let path = descriptor.path(Component::Statistics);
    Err(SSTableError::Unsupported { path, what })
}

/// How the data is kept. That it is compressed is known from the statistics too, so a missing
/// `CompressionInfo.db` does not pass unnoticed.
async fn data_encoding(
    env: &Env,
    descriptor: &Descriptor,
    statistics: &Statistics,
    seal: Option<&Seal>,
) -> Result<Encoding, SSTableError> {
    let path = descriptor.path(Component::CompressionInfo);
    if let Some(bytes) = read_component(env, &path).await? {
        check_seal(seal, Component::CompressionInfo, (&path, &bytes))?;
        let mut input = Input::new(&bytes);
        return match CompressionInfo::decode(&mut input, descriptor.version) {
            Ok(Ok(info)) => Ok(Encoding::Compressed(info)),
            Ok(Err(what)) => Err(SSTableError::Unsupported { path, what }),
            Err(error) => {
                let offset = input.position() as u64;
                Err(SSTableError::corrupt(&path, offset, error.to_string()))
            }
        };
    }
    let listed = read_component(env, &descriptor.path(Component::Toc))
        .await?
        .and_then(|toc| decode_toc(&toc).ok())
        .unwrap_or_default();
    let compressed = statistics.stats.compression_ratio >= 0.0
        || listed
            .iter()
            .any(|c| c == Component::CompressionInfo.name());
    if compressed {
        return Err(missing(path));
    }
    let path = descriptor.path(Component::Crc);
    match read_component(env, &path).await? {
        None => Ok(Encoding::Plain),
        Some(bytes) => {
            check_seal(seal, Component::Crc, (&path, &bytes))?;
            Checksums::decode(&bytes)
                .map(Encoding::Checksummed)
                .map_err(|e| SSTableError::corrupt(&path, 0, e.to_string()))
        }
    }
}

/// `None`: there is none.
pub(super) async fn read_summary(
    env: &Env,
    descriptor: &Descriptor,
    index_length: u64,
    seal: Option<&Seal>,
) -> Result<Option<Summary>, SSTableError> {
    let path = descriptor.path(Component::Summary);
    let Some(bytes) = read_component(env, &path).await? else {
        return Ok(None);
    };
    check_seal(seal, Component::Summary, (&path, &bytes))?;
    let decoded = Summary::decode(&bytes, index_length);
    decoded
        .map(Some)
        .map_err(|error| SSTableError::corrupt(&path, 0, error.to_string()))
}

/// `None`: there is none, and should be.
pub(super) async fn read_filter(
    env: &Env,
    descriptor: &Descriptor,
    statistics: &Statistics,
    seal: Option<&Seal>,
) -> Result<Option<BloomFilter>, SSTableError> {
    if statistics.bloom_filter_fp_chance >= 1.0 {
        return Ok(Some(BloomFilter::ALWAYS_PRESENT));
    }
    let path = descriptor.path(Component::Filter);
    let Some(bytes) = read_component(env, &path).await? else {
        return Ok(None);
    };
    check_seal(seal, Component::Filter, (&path, &bytes))?;
    let decoded = BloomFilter::decode(bytes, descriptor.version);
    decoded
        .map(Some)
        .map_err(|error| SSTableError::corrupt(&path, 0, error.to_string()))
}

/// What can be made anew is, if it is damaged.
fn or_rebuilt<T>(read: Result<Option<T>, SSTableError>) -> Result<Option<T>, SSTableError> {
    match read {
        Err(SSTableError::Corrupt { .. }) => Ok(None),
        read => read,
    }
}

/// Opens an index of an sstable, with the checksums that Helenus noted if it wrote it.
async fn open_index(
    env: &Env,
    descriptor: &Descriptor,
    component: Component,
    seal: Option<&Seal>,
    cache: &ChunkCache,
) -> Result<Rc<ChunkedFile>, SSTableError> {
    let path = descriptor.path(component);
    let file = chunked_file::open_direct(env, &path).await?;
    let encoding = match seal.and_then(|seal| seal.pieces(component)) {
        Some(checksums) => Encoding::Sealed(checksums),
        None => Encoding::Plain,
    };
    ChunkedFile::new(file, path, encoding, cache.clone()).map(Rc::new)
}

/// Opens the index of a BIG sstable; a summary or filter that is not there is made anew from it.
async fn open_big(
    env: &Env,
    descriptor: &Descriptor,
    seal: Option<&Seal>,
    cache: &ChunkCache,
    filter: Option<BloomFilter>,
    statistics: &Statistics,
) -> Result<(BigIndex, BloomFilter), SSTableError> {
    let file = open_index(env, descriptor, Component::Index, seal, cache).await?;
    let summary = or_rebuilt(read_summary(env, descriptor, file.length(), seal).await)?;
    let (summary, filter) = match (summary, filter) {
        (Some(summary), Some(filter)) => (summary, filter),
        (summary, filter) => {
            tracing::warn!(sstable = %descriptor, "summary or filter made anew from the index");
            let rebuilt = Rebuilt::from_index(env, file.clone(), statistics).await?;
            let summary = summary.unwrap_or(rebuilt.summary);
            (summary, filter.unwrap_or(rebuilt.filter))
        }
    };
    Ok((BigIndex::new(file, summary), filter))
}

/// Opens the indexes of a BTI sstable.
async fn open_bti(
    env: &Env,
    descriptor: &Descriptor,
    seal: Option<&Seal>,
    cache: &ChunkCache,
) -> Result<BtiIndex, SSTableError> {
    let partitions = open_index(env, descriptor, Component::Partitions, seal, cache).await?;
    Ok(BtiIndex {
        partitions: PartitionIndex::open(partitions).await?,
        rows: open_index(env, descriptor, Component::Rows, seal, cache).await?,
    })
}
