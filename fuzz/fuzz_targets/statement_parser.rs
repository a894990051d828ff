//! Texts of statements.
#![no_main]

#[path = "../exercises/statement_parser.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
