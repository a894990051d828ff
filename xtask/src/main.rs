//! Checks of the house itself.
fn main() {}
