//! What may stand in `system.paxos`: an update as Cassandra writes it.
#![no_main]

#[path = "../exercises/partition_updates.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
