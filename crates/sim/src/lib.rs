//! Worlds of nodes under virtual time: faults, workloads, oracles.

pub mod cluster;
pub mod linearizability;
mod random;
pub mod storage;

pub use random::Random;
