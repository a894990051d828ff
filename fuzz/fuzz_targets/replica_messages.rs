//! Mutations, reads and pages of another node.
#![no_main]

#[path = "../exercises/replica_messages.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
