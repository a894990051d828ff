//! Cassandra's sstable formats.
mod compression;
mod decode;
mod descriptor;
mod encode;
mod error;
mod filter;
mod header;
mod index;
mod input;
mod layout;
mod statistics;
mod summary;
mod version;

pub use decode::ColumnSelection;
pub use descriptor::{Component, Descriptor, Generation, ShardOrigin};
pub use error::{SSTableError, WriteError};
pub use header::{EncodingStats, EncodingStatsCollector, SerializationHeader};
pub use version::Version;
