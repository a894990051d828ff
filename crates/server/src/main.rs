//! The binary `helenus`.
fn main() {}
