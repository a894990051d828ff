//! Worlds of nodes under virtual time: faults, workloads, oracles.
