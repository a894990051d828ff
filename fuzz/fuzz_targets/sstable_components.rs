//! A component of an sstable, a chunk of its data, or the log of a compaction.
#![no_main]

#[path = "../exercises/sstable_components.rs"]
mod exercise;
#[path = "../exercises/sstable_checksums.rs"]
mod sstable_checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
