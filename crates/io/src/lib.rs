//! Env: clock, tasks, disk, network and shard-to-shard channels, real and simulated, behind one handle.
