//! Comparing a view with its table.
