//! Requests and answers of Paxos, of another node.
#![no_main]

#[path = "../exercises/paxos_messages.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
