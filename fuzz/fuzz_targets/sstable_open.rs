//! A whole sstable.
#![no_main]

#[path = "../exercises/sstable_open.rs"]
mod exercise;
#[path = "../exercises/sstable_checksums.rs"]
mod sstable_checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
