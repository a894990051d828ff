//! Cassandra's sstable formats.
