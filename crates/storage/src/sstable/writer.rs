//! Writing an sstable.
//!
//! Partitions come in ring order, their items in the order of the table. Data and index are
//! written as they come; everything else is kept in memory and written at the end. The data file
//! has a temporary name until all components are durable; the rename is the moment at which the
//! sstable comes into existence. What a crash leaves behind is removed by
//! [`super::folder::recover`].

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use io::Env;
use model::{
    CellRef, DecoratedKey, DeletionTime, PackedRow, PartitionUpdate, Row, Table, murmur3_x64_128,
};
use uuid::Uuid;

use super::chunk_cache::{ChunkCache, KeptChunks};
use super::chunk_writer::ChunkWriter;
use super::compression::CompressionParameters;
use super::descriptor::{Component, Descriptor, ShardOrigin, encode_toc};
use super::encode::{EncodeError, Encoder};
use super::error::WriteError;
use super::filter::BloomFilter;
use super::header::{EncodingStats, SerializationHeader};
use super::index_writer::IndexesWriter;
use super::layout::Layout;
use super::misfit;
use super::output::Output;
use super::partition_limits::PartitionLimits;
use super::seal::Seal;
use super::statistics::{Collector, PARTITIONER, Statistics};
use super::version::Format;
use crate::unfiltered::ItemPlace;
use crate::{PartitionHead, RangeTombstoneMarker, Unfiltered};

/// How much is gathered before it is written, in bytes.
const FLUSH_LENGTH: usize = 256 * 1024;

/// Components without checksums of their own that nobody rewrites but to damage them, or that can
/// be made anew.
const SEALED: [Component; 4] = [
    Component::CompressionInfo,
    Component::Crc,
    Component::Filter,
    Component::Summary,
];

/// How an sstable is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// About how many partitions there will be: the bloom filter is made for so many.
    pub estimated_partitions: u64,
    /// Lower bounds of the times there will be. The ttl must not be above any that comes; the
    /// others cost space where they are.
    pub encoding: EncodingStats,
    /// The shard that writes.
    pub origin: ShardOrigin,
    /// The level in leveled compaction.
    pub level: u32,
    /// When the data was repaired, in milliseconds since 1970; 0 if never.
    pub repaired_at: i64,
    /// This node.
    pub host: Option<Uuid>,
    /// Blocks of wide partitions, in bytes; `None`: what is usual for the format.
    pub column_index_size: Option<u64>,
    /// From where on the log tells of a partition.
    pub partition_limits: PartitionLimits,
}

impl WriterOptions {
    /// The usual options.
    pub fn new(estimated_partitions: u64, encoding: EncodingStats, origin: ShardOrigin) -> Self {
        WriterOptions {
            estimated_partitions,
            encoding,
            origin,
            level: 0,
            repaired_at: 0,
            host: None,
            column_index_size: None,
            partition_limits: PartitionLimits::default(),
        }
    }
}

/// Writes an sstable, of version `nb` or `da`.
pub struct Writer {
    env: Env,
    descriptor: Descriptor,
    table: Arc<Table>,
    options: WriterOptions,
    header: SerializationHeader,
    encoder: Encoder,
    collector: Collector,
    filter: BloomFilter,
    partitions: u64,
    first: Option<DecoratedKey>,
    last: Option<DecoratedKey>,
    data: ChunkWriter,
    /// Where chunks are kept that are wanted, and the number that the data has there.
    kept_in: Option<(ChunkCache, u64)>,
    data_file: Output,
    indexes: IndexesWriter,
    /// An item before it goes to the data.
    item: Vec<u8>,
    partition: Option<OpenPartition>,
}

/// The partition that is being written.
struct OpenPartition {
    key: DecoratedKey,
    deletion: DeletionTime,
    start: u64,
    /// Where the item before starts, from the start of the partition.
    previous: u64,
}

impl Writer {
    /// Begins a new sstable. `descriptor` must be of the version that is written and must not
    /// exist.
    pub async fn create(
        env: &Env,
        descriptor: Descriptor,
        table: &Arc<Table>,
        options: WriterOptions,
    ) -> Result<Writer, WriteError> {
        let invalid = |what: String| WriteError::Invalid {
            path: descriptor.path(Component::Data),
            what,
        };
        let format = descriptor.version.format();
        if descriptor.version != format.written() {
            return Err(invalid(format!(
                "version {} is not written",
                descriptor.version
            )));
        }
        let compression =
            CompressionParameters::from_options(&table.options.compression, &mut |_| {});
        let header = SerializationHeader::of_table(table, options.encoding);
        let layout = Layout::new(&header, descriptor.version, table);
        let data_file = Output::create(env, descriptor.temporary_path(Component::Data)).await?;
        let block_size = options.column_index_size.unwrap_or(block_size(format));
        let indexes = IndexesWriter::create(env, &descriptor, table, block_size).await?;
        let data = ChunkWriter::new(compression).map_err(|e| data_file.failed(e))?;
        let now = env.wall_seconds();
        Ok(Writer {
            env: env.clone(),
            table: table.clone(),
            header,
            encoder: Encoder::new(layout),
            collector: Collector::new(table.comparator().clone(), now),
            filter: BloomFilter::new(
                options.estimated_partitions.max(1),
                table.options.bloom_filter_fp_chance,
            ),
            partitions: 0,
            first: None,
            last: None,
            data,
            kept_in: None,
            data_file,
            indexes,
            item: Vec::new(),
            partition: None,
            descriptor,
            options,
        })
    }

    /// Has chunks of data kept in `cache` that are said to be wanted ([`Writer::keep`]). Gives what the file is to be
    /// opened with, so that they are found.
    pub(crate) fn keep_in(&mut self, cache: &ChunkCache) -> KeptChunks {
        let file = cache.register_file();
        self.kept_in = Some((cache.clone(), file));
        let length = self.data.chunk_length() as u64;
        KeptChunks { file, length }
    }

    /// Is what comes next wanted, so that it is not to be read again when the file takes the place of others?
    pub(crate) fn keep(&mut self, is_wanted: bool) {
        self.data.keep(is_wanted && self.kept_in.is_some());
    }

    /// Where it is going to be.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The bytes of data so far, before compression.
    pub fn data_length(&self) -> u64 {
        self.data.position()
    }

    /// The bytes of the data file so far.
    pub fn disk_length(&self) -> u64 {
        self.data.file_length()
    }

    /// The partitions so far.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Writes a whole partition.
    pub async fn append_partition(&mut self, update: &PartitionUpdate) -> Result<(), WriteError> {
        let head = PartitionHead {
            key: update.key.clone(),
            deletion: update.deletion,
            static_row: update.static_row.clone(),
        };
        self.begin_partition(&head).await?;
        for item in super::stream::items(update) {
            self.append(&item).await?;
        }
        self.end_partition().await
    }

    /// Begins a partition; its key must be behind that of the one before.
    pub async fn begin_partition(&mut self, head: &PartitionHead) -> Result<(), WriteError> {
        if self.partition.is_some() {
            return Err(self.invalid("a partition begins within another"));
        }
        if self.last.as_ref().is_some_and(|last| *last >= head.key) {
            return Err(self.invalid("the partitions are not in order"));
        }
        if head.key.key().len() > usize::from(u16::MAX) {
            return Err(self.invalid("a key is longer than 65535 bytes"));
        }
        let start = self.data.position();
        self.item.clear();
        let encoded = self.encoder.head(&mut self.item, head);
        encoded
            .map_err(|error| {
                misfit::locate(&self.table, &head.key, head.static_row.as_ref(), &error)
            })
            .map_err(|misfit| self.invalid(&misfit.to_string()))?;
        self.write_item()?;
        self.indexes.begin(self.item.len() as u64);
        self.collector.begin_partition(head);
        self.partition = Some(OpenPartition {
            key: head.key.clone(),
            deletion: head.deletion,
            start,
            previous: 0,
        });
        self.flush().await
    }

    /// Writes a row or marker; it must be behind the one before.
    pub async fn append(&mut self, item: &Unfiltered) -> Result<(), WriteError> {
        match item {
            Unfiltered::Row(row) => self.append_row(row).await,
            Unfiltered::Marker(marker) => self.append_marker(marker).await,
        }
    }

    async fn append_marker(&mut self, marker: &RangeTombstoneMarker) -> Result<(), WriteError> {
        let (position, previous) = self.begin_item()?;
        self.collector.marker(marker);
        let encoded = self.encoder.marker(&mut self.item, marker, Some(previous));
        let indexed = encoded.and_then(|()| self.index_item(ItemPlace::Marker(marker), position));
        indexed.map_err(|error| self.misfit(None, &error))?;
        self.write_item()?;
        self.flush().await
    }

    /// As [`Writer::append`], of a row.
    pub(crate) async fn append_row(&mut self, row: &Row) -> Result<(), WriteError> {
        let whole = || Cow::Borrowed(row);
        self.append_parts(row, row.cell_refs(), whole).await
    }

    /// As [`Writer::append`], of a row that is laid out in memory.
    pub(crate) async fn append_packed(&mut self, row: &PackedRow) -> Result<(), WriteError> {
        let (head, cells) = row.head_and_cells();
        let whole = || Cow::Owned(row.unpack());
        self.append_parts(&head, cells, whole).await
    }

    /// Writes a row of which `head` has everything but the cells; `whole` is asked for to say what is wrong with it.
    async fn append_parts<'r>(
        &mut self,
        head: &'r Row,
        cells: impl Iterator<Item = CellRef<'r>> + Clone,
        whole: impl FnOnce() -> Cow<'r, Row>,
    ) -> Result<(), WriteError> {
        let (position, previous) = self.begin_item()?;
        let parts = self.collector.row(head, cells);
        let encoded = (self.encoder).row(&mut self.item, &parts, false, Some(previous));
        drop(parts);
        let place = ItemPlace::Row(&head.clustering);
        let indexed = encoded.and_then(|()| self.index_item(place, position));
        indexed.map_err(|error| self.misfit(Some(&whole()), &error))?;
        self.write_item()?;
        self.flush().await
    }

    /// Where the next item begins, from the start of the partition, and the length of the one before.
    fn begin_item(&mut self) -> Result<(u64, u64), WriteError> {
        self.item.clear();
        let Some(partition) = &mut self.partition else {
            return Err(self.invalid("a row outside of a partition"));
        };
        let position = self.data.position() - partition.start;
        let previous = position - partition.previous;
        partition.previous = position;
        Ok((position, previous))
    }

    /// Tells the indexes of the item that is encoded.
    fn index_item(&mut self, place: ItemPlace<'_>, position: u64) -> Result<(), EncodeError> {
        let end = position + self.item.len() as u64;
        self.indexes
            .item(place, position, end, self.encoder.layout())
    }

    /// What is wrong with an item of the partition that is written: a row, or a marker.
    fn misfit(&self, row: Option<&Row>, error: &EncodeError) -> WriteError {
        let misfit = match &self.partition {
            Some(partition) => misfit::locate(&self.table, &partition.key, row, error).to_string(),
            None => error.to_string(),
        };
        self.invalid(&misfit)
    }

    /// Ends the partition.
    pub async fn end_partition(&mut self) -> Result<(), WriteError> {
        let Some(partition) = self.partition.take() else {
            return Err(self.invalid("no partition to end"));
        };
        self.item.clear();
        self.encoder.end(&mut self.item);
        self.write_item()?;
        let length = self.data.position() - partition.start;
        let hash = murmur3_x64_128(partition.key.key());
        let indexed = self.indexes.end(
            (&partition.key, hash),
            &partition.deletion,
            (partition.start, length),
            self.encoder.layout(),
        );
        indexed.map_err(|e| self.invalid(&e.to_string()))?;
        self.filter.add(hash);
        let limits = &self.options.partition_limits;
        if *limits != PartitionLimits::default() {
            let path = self.descriptor.path(Component::Data);
            let size = (length, self.collector.tombstones_in_partition());
            let violations = limits.violations((&self.table, &partition.key), &path, size);
            violations.for_each(|violation| violation.log());
        }
        self.collector.end_partition(partition.key.key(), length);
        self.partitions += 1;
        if self.first.is_none() {
            self.first = Some(partition.key.clone());
        }
        self.last = Some(partition.key);
        self.flush().await
    }

    /// Finishes the sstable: when this returns, it exists and survives a crash. `None`, and no
    /// file, if no partition was written.
    pub async fn finish(mut self) -> Result<Option<Descriptor>, WriteError> {
        if self.partition.is_some() {
            return Err(self.invalid("a partition was not ended"));
        }
        let (Some(first), Some(last)) = (self.first.take(), self.last.take()) else {
            self.abort().await?;
            return Ok(None);
        };
        let Writer {
            env,
            descriptor,
            mut data_file,
            ..
        } = self;
        let keys = (first.clone(), last.clone());
        let indexes = self.indexes.finish(keys).await?;
        let written = self.data.finish().map_err(|e| data_file.failed(e))?;
        if let Some((cache, file)) = &self.kept_in {
            cache.insert_all(*file, written.kept);
        }
        data_file.append(&written.ready).await?;
        data_file.finish().await?;

        let (mut stats, cardinality) = self.collector.finish();
        stats.compression_ratio = written.compression_ratio;
        stats.level = self.options.level;
        stats.repaired_at = self.options.repaired_at;
        stats.originating_host = self.options.host;
        let statistics = Statistics {
            partitioner: PARTITIONER.to_owned(),
            bloom_filter_fp_chance: self.table.options.bloom_filter_fp_chance,
            cardinality: cardinality.into(),
            stats,
            header: self.header,
        };
        let statistics = statistics.encode(descriptor.version, (&first, &last));
        let contents = [
            (Component::CompressionInfo, written.info.map(|i| i.encode())),
            (Component::Crc, written.checksums),
            (Component::Filter, self.filter.encode()),
            (Component::Summary, indexes.summary),
            (Component::Statistics, Some(statistics)),
            (
                Component::Digest,
                Some(written.digest.to_string().into_bytes()),
            ),
        ];
        let sealed = contents
            .iter()
            .filter(|(component, _)| SEALED.contains(component))
            .filter_map(|(component, content)| Some((*component, content.as_deref()?)));
        let mut components = vec![Component::Data];
        components.extend(indexes.sums.iter().map(|(component, _)| *component));
        let seal = Seal::new(self.options.origin, sealed, indexes.sums).encode();
        let contents = contents
            .into_iter()
            .chain([(Component::Helenus, Some(seal))]);
        commit(&env, &descriptor, components, contents).await?;
        Ok(Some(descriptor))
    }

    /// Gives up: removes what was written.
    pub async fn abort(self) -> Result<(), WriteError> {
        for output in [&self.data_file].into_iter().chain(self.indexes.outputs()) {
            self.env
                .remove_file(&output.path)
                .await
                .map_err(|e| output.failed(e))?;
        }
        Ok(())
    }

    fn write_item(&mut self) -> Result<(), WriteError> {
        self.data
            .append(&self.item)
            .map_err(|e| self.data_file.failed(e))
    }

    /// Writes what has gathered, if it is enough.
    async fn flush(&mut self) -> Result<(), WriteError> {
        if let Some((cache, file)) = &self.kept_in {
            cache.insert_all(*file, self.data.take_kept());
        }
        if self.data.ready_len() >= FLUSH_LENGTH {
            let ready = self.data.take_ready();
            self.data_file.append(&ready).await?;
            self.data.recycle(ready);
            self.env.maybe_yield().await;
        }
        self.indexes.flush(self.encoder.layout(), &self.env).await
    }

    fn invalid(&self, what: &str) -> WriteError {
        WriteError::Invalid {
            path: self.descriptor.path(Component::Data),
            what: what.to_owned(),
        }
    }
}

/// Blocks of wide partitions, in bytes, as Cassandra has them if `column_index_size` is not set
/// (`BigFormatPartitionWriter`, `BtiFormatPartitionWriter`).
fn block_size(format: Format) -> u64 {
    match format {
        Format::Big => 64 << 10,
        Format::Bti => 16 << 10,
    }
}

/// Writes the components besides those that are written already, then gives the data its name.
async fn commit(
    env: &Env,
    descriptor: &Descriptor,
    mut components: Vec<Component>,
    contents: impl IntoIterator<Item = (Component, Option<Vec<u8>>)>,
) -> Result<(), WriteError> {
    for (component, content) in contents {
        if let Some(content) = content {
            write_file(env, descriptor.path(component), content).await?;
            components.push(component);
        }
    }
    components.push(Component::Toc);
    let toc = encode_toc(&components);
    write_file(env, descriptor.path(Component::Toc), toc).await?;
    sync_dir(env, &descriptor.dir).await?;
    let path = descriptor.path(Component::Data);
    env.rename(&descriptor.temporary_path(Component::Data), &path)
        .await
        .map_err(|source| WriteError::Io { path, source })?;
    sync_dir(env, &descriptor.dir).await
}

/// Writes a small file, durably.
async fn write_file(env: &Env, path: PathBuf, content: Vec<u8>) -> Result<(), WriteError> {
    let written = env.write_new_file(&path, content).await;
    written.map_err(|source| WriteError::Io { path, source })
}

async fn sync_dir(env: &Env, dir: &Path) -> Result<(), WriteError> {
    env.sync_dir(dir).await.map_err(|source| WriteError::Io {
        path: dir.to_owned(),
        source,
    })
}
