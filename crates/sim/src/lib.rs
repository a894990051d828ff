//! Worlds of nodes under virtual time: faults, workloads, oracles.

mod random;
pub mod storage;

pub use random::Random;
