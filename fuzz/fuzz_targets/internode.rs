//! Bytes of another node.
#![no_main]

#[path = "../exercises/internode.rs"]
mod exercise;
#[path = "../exercises/segments.rs"]
mod segments;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
