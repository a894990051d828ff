//! Commit log, memtable, sstables, compaction and the table that merges them.

pub mod sstable;
mod unfiltered;

pub use unfiltered::{PartitionHead, RangeTombstoneMarker, Unfiltered, is_start, opposite};
