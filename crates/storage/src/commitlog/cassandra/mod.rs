//! Reading the commit log that a stopped Cassandra left: versions 6 (3.x), 7 (4.x, and 5.0 as it
//! comes) and 8 (5.0 with `storage_compatibility_mode: NONE`).
//!
//! [`segment`] takes a file apart, [`descriptor`] its beginning, [`replay`] brings what its sstables
//! do not have yet to the tables. The files stay until it is flushed, as ours do, and go before any
//! of ours.

mod descriptor;
mod replay;
mod segment;

pub(crate) use replay::{CassandraReplay, Covered};
pub use segment::count_mutations;

#[cfg(test)]
mod tests;
