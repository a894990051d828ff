//! The workloads people judge by.
fn main() {}
