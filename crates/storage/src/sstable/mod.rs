//! Cassandra's sstable formats: files of sorted partitions that never change.
//!
//! Version `nb` of the BIG format (Cassandra 4.0) is written; it and the versions around it are
//! read, which differ only in what [`Version`] says of them. The parts:
//!
//! * names: [`Descriptor`], `folder`; checksums of what has none in Cassandra's formats: `seal`;
//! * the format as functions over bytes, bounds-checked, without I/O: `input`, `compression`,
//!   `filter`, `summary`, `index`, `statistics`, `header` and its match with a table `layout`,
//!   rows in `encode` and `decode`, what cannot be one in `misfit`, `chunk_writer`;
//! * reading: [`SSTable`] opens and looks up, [`PartitionReader`] gives the slices of a partition,
//!   [`Scanner`] a range of partitions, all of them through `cursor`s over `chunked_file`s, whose
//!   chunks the [`ChunkCache`] keeps, and with it what look-ups found (`key_cache`);
//! * writing: [`Writer`], which tells the log of partitions beyond [`PartitionLimits`].
//!
//! Nothing is believed before it was checked: chunks have checksums, and whatever a file says,
//! reading it ends with a value or an error that names the file and the place.

mod any_bytes;
mod big;
mod blocks;
mod bti;
mod chunk_cache;
mod chunk_writer;
mod chunked_file;
mod compression;
mod cursor;
mod decode;
mod descriptor;
mod encode;
mod error;
mod expiry;
mod filter;
pub mod folder;
mod header;
mod index;
mod index_writer;
mod input;
pub mod inspect;
mod items;
mod key_cache;
mod layout;
mod message;
mod misfit;
mod open;
mod output;
mod partition;
mod partition_limits;
mod place;
mod plain_row;
mod reader;
mod row_parts;
pub mod salvage;
mod scan;
pub mod scrub;
mod seal;
mod statistics;
mod stream;
mod table_match;
mod verify;
mod version;
mod writer;

pub(crate) use any_bytes::decode_component;
pub(crate) use chunk_cache::KeptChunks;
pub use chunk_cache::{ChunkCache, ChunkCacheStats};
pub(crate) use compression::Decompressor;
pub use compression::{Algorithm, CompressionParameters};
pub use decode::ColumnSelection;
pub(crate) use descriptor::TEMPORARY_SUFFIX;
pub use descriptor::{Component, Descriptor, Generation, ShardOrigin};
pub use error::{SSTableError, WriteError};
pub use expiry::output_format;
pub use header::{EncodingStats, EncodingStatsCollector, HeaderColumn, SerializationHeader};
pub use layout::Unkept;
pub(crate) use message::MessageMutation;
pub use message::{
    PartitionUpdateError, decode_cassandra_mutation, decode_partition_update,
    encode_partition_update,
};
pub use misfit::Misfit;
pub use misfit::check as check_fits;
pub(crate) use misfit::holds;
pub(crate) use misfit::take_out as take_out_misfits;
pub use partition::PartitionReader;
pub use partition_limits::{PartitionLimit, PartitionLimits};
pub(crate) use plain_row::PlainRequest;
pub use reader::SSTable;
pub use scan::{ScanOptions, Scanner};
pub(crate) use seal::Seal;
pub(crate) use statistics::mutate as mutate_statistics;
pub use statistics::{
    CommitLogPosition, EstimatedHistogram, PARTITIONER, Statistics, Stats, TombstoneHistogram,
};
pub(crate) use table_match::{check as check_table, mismatch};
pub use version::{Format, Version};
pub use writer::{Writer, WriterOptions};

#[cfg(test)]
mod tests;
