//! A whole sstable.
#![no_main]

#[path = "../exercises/sstable_open.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
