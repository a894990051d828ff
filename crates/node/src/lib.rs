//! A node: the sessions of its clients, the coordinator, the replica with its shards, metadata,
//! and the system keyspaces.

pub mod metrics;
pub mod system;
