//! Journals, entries and snapshots of the cluster's metadata.
#![no_main]

#[path = "../exercises/metadata_log.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
