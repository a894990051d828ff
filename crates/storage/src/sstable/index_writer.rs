//! Writing the indexes of an sstable beside its data, in either format.

use io::Env;
use model::{DecoratedKey, DeletionTime, Table};

use super::big::index::IndexWriter;
use super::big::summary::{BASE_SAMPLING_LEVEL, Summary};
use super::bti::partitions::{PartitionIndexWriter, Place};
use super::bti::rows::RowIndexWriter;
use super::descriptor::{Component, Descriptor};
use super::encode::EncodeError;
use super::error::WriteError;
use super::layout::Layout;
use super::output::Output;
use super::seal::Pieces;
use super::version::Format;
use crate::unfiltered::ItemPlace;

/// How much is gathered before it is written, in bytes.
const FLUSH_LENGTH: usize = 256 * 1024;

/// A file of an index that is being written, with its checksums.
struct IndexFile {
    component: Component,
    output: Output,
    sums: Pieces,
}

impl IndexFile {
    async fn create(
        env: &Env,
        descriptor: &Descriptor,
        component: Component,
    ) -> Result<IndexFile, WriteError> {
        Ok(IndexFile {
            component,
            output: Output::create(env, descriptor.path(component)).await?,
            sums: Pieces::default(),
        })
    }

    async fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sums.append(bytes);
        self.output.append(bytes).await
    }

    async fn finish(mut self, bytes: &[u8]) -> Result<(Component, Pieces), WriteError> {
        self.append(bytes).await?;
        self.output.finish().await?;
        Ok((self.component, self.sums))
    }
}

/// Writes the indexes.
pub(super) enum IndexesWriter {
    /// `Index.db`, and `Summary.db` at the end.
    Big(Box<BigWriter>),
    /// `Partitions.db` and `Rows.db`.
    Bti(Box<BtiWriter>),
}

pub(super) struct BigWriter {
    writer: IndexWriter,
    bytes: Vec<u8>,
    file: IndexFile,
    samples: Vec<(DecoratedKey, u64)>,
    partitions: u64,
    /// Every how many partitions the summary has one.
    interval: u64,
}

pub(super) struct BtiWriter {
    partitions: PartitionIndexWriter,
    partitions_file: IndexFile,
    rows: RowIndexWriter,
    rows_file: IndexFile,
}

/// What is known of the indexes when they are written: their checksums, and the summary if there
/// is one.
pub(super) struct Finished {
    pub(super) sums: Vec<(Component, Pieces)>,
    pub(super) summary: Option<Vec<u8>>,
}

impl IndexesWriter {
    /// Blocks of wide partitions end with the item with which they reach `block_size` bytes.
    pub(super) async fn create(
        env: &Env,
        descriptor: &Descriptor,
        table: &Table,
        block_size: u64,
    ) -> Result<IndexesWriter, WriteError> {
        match descriptor.version.format() {
            Format::Big => Ok(IndexesWriter::Big(Box::new(BigWriter {
                writer: IndexWriter::new(block_size),
                bytes: Vec::new(),
                file: IndexFile::create(env, descriptor, Component::Index).await?,
                samples: Vec::new(),
                partitions: 0,
                // The base of Cassandra's sampling.
                interval: u64::try_from(table.options.min_index_interval)
                    .ok()
                    .filter(|interval| *interval > 0)
                    .unwrap_or(BASE_SAMPLING_LEVEL.into()),
            }))),
            Format::Bti => Ok(IndexesWriter::Bti(Box::new(BtiWriter {
                partitions: PartitionIndexWriter::new(),
                partitions_file: IndexFile::create(env, descriptor, Component::Partitions).await?,
                rows: RowIndexWriter::new(table.comparator().clone(), block_size),
                rows_file: IndexFile::create(env, descriptor, Component::Rows).await?,
            }))),
        }
    }

    /// A partition begins, its head takes so many bytes.
    pub(super) fn begin(&mut self, header_length: u64) {
        match self {
            IndexesWriter::Big(big) => big.writer.begin(header_length),
            IndexesWriter::Bti(bti) => bti.rows.begin(),
        }
    }

    /// An item was written between these places of the partition.
    pub(super) fn item(
        &mut self,
        item: ItemPlace<'_>,
        from: u64,
        to: u64,
        layout: &Layout,
    ) -> Result<(), EncodeError> {
        match self {
            IndexesWriter::Big(big) => big.writer.item(item, from, to, layout),
            IndexesWriter::Bti(bti) => bti.rows.item(item, from, to),
        }
    }

    /// The partition that starts at `position` ended after `length` bytes, of which the last one
    /// says so. `hash` is that of its key.
    pub(super) fn end(
        &mut self,
        (key, hash): (&DecoratedKey, [i64; 2]),
        deletion: &DeletionTime,
        (position, length): (u64, u64),
        layout: &Layout,
    ) -> Result<(), EncodeError> {
        match self {
            IndexesWriter::Big(big) => {
                if big.partitions.is_multiple_of(big.interval) {
                    let entry = big.file.output.position + big.bytes.len() as u64;
                    big.samples.push((key.clone(), entry));
                }
                big.partitions += 1;
                let place = (position, length);
                big.writer.end(&mut big.bytes, key, deletion, place, layout);
            }
            IndexesWriter::Bti(bti) => {
                let rows = bti.rows.end(key, deletion, (position, length - 1))?;
                let place = rows.map_or(Place::Data(position), Place::Rows);
                bti.partitions.add(key, hash, place);
            }
        }
        Ok(())
    }

    /// Writes what has gathered, if it is enough.
    pub(super) async fn flush(&mut self, layout: &Layout, env: &Env) -> Result<(), WriteError> {
        match self {
            IndexesWriter::Big(big) => {
                if big.writer.is_too_large() {
                    // Boxed, as the state of a write that has nothing to do should be small.
                    Box::pin(big.writer.thin(layout, env)).await;
                }
                if big.bytes.len() >= FLUSH_LENGTH {
                    big.file.append(&big.bytes).await?;
                    big.bytes.clear();
                    // What a large partition took is not needed for those behind it.
                    big.bytes.shrink_to(2 * FLUSH_LENGTH);
                }
            }
            IndexesWriter::Bti(bti) => {
                if bti.partitions.ready() >= FLUSH_LENGTH {
                    bti.partitions_file.append(&bti.partitions.take()).await?;
                }
                if bti.rows.ready() >= FLUSH_LENGTH {
                    bti.rows_file.append(&bti.rows.take()).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes the rest, durably.
    pub(super) async fn finish(
        self,
        (first, last): (DecoratedKey, DecoratedKey),
    ) -> Result<Finished, WriteError> {
        match self {
            IndexesWriter::Big(big) => {
                let summary = Summary::new(big.samples, first, last);
                Ok(Finished {
                    sums: vec![big.file.finish(&big.bytes).await?],
                    summary: Some(summary.encode(big.interval as u32)),
                })
            }
            IndexesWriter::Bti(mut bti) => {
                let partitions = bti.partitions.finish(&first, &last);
                let rows = bti.rows.take();
                Ok(Finished {
                    sums: vec![
                        bti.partitions_file.finish(&partitions).await?,
                        bti.rows_file.finish(&rows).await?,
                    ],
                    summary: None,
                })
            }
        }
    }

    /// The files that are being written.
    pub(super) fn outputs(&self) -> Vec<&Output> {
        match self {
            IndexesWriter::Big(big) => vec![&big.file.output],
            IndexesWriter::Bti(bti) => vec![&bti.partitions_file.output, &bti.rows_file.output],
        }
    }
}
