//! Tests of whole sstables: written and read, read from Cassandra, damaged.

mod corpus;
mod damage;
mod expiry;
mod laid_out;
mod partition_updates;
mod roundtrip;
mod scans;
mod scrub;
pub(super) mod support;
mod unkept;
mod wide;
