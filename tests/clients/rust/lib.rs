//! Only tests: see `tests/application.rs`.
