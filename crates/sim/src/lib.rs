//! Worlds of nodes under virtual time: faults, workloads, oracles. Empty until `io` has its
//! simulator.
