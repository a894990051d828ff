//! What may stand in a commit log: segments of Cassandra's, and records of ours.
#![no_main]

#[path = "../exercises/commit_log.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
