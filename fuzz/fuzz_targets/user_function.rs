//! Bodies of user-defined functions.
#![no_main]

#[path = "../exercises/user_function.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::run(data));
