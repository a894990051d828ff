//! Compaction: which sstables to rewrite as one, and replacing them in one step.

mod size_tiered;
pub(crate) mod transaction;

pub(crate) use size_tiered::{Candidate, SizeTieredOptions, next_compaction};
