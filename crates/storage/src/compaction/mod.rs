//! Compaction: which sstables to rewrite as which, and replacing them in one step.
//!
//! * The strategies, as functions over descriptions of sstables ([`Candidate`]): [`size_tiered`],
//!   [`leveled`], [`time_window`], [`unified`], behind one [`Strategy`]. What they have in common:
//!   sstables of which nothing is needed any more ([`expired`]) and sstables that are worth being
//!   rewritten alone for the tombstones in them ([`tombstones`]).
//! * Where an output ends and the next begins: [`cut`].
//! * Replacing inputs by outputs so that a crash leaves either: [`transaction`].
//!
//! What does the work is [`crate::store`].

mod candidate;
mod cut;
mod expired;
mod leveled;
mod options;
mod size_tiered;
mod strategy;
mod time_window;
mod tombstones;
pub(crate) mod transaction;
mod unified;

#[cfg(test)]
pub(crate) use candidate::testing;
pub(crate) use candidate::{Candidate, Situation};
pub(crate) use cut::{Cut, Cutter};
pub(crate) use expired::fully_expired;
pub(crate) use options::CommonOptions;
pub use options::Granularity;
pub(crate) use strategy::{Choice, Strategy};
