//! Ring, replication and quorums as sans-I/O cores.
