//! Bytes of a client, and of a server, in every version and compression.
#![no_main]

#[path = "../exercises/frame_decoder.rs"]
mod exercise;
#[path = "../exercises/segments.rs"]
mod segments;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
