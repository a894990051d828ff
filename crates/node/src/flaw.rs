//! Mistakes that a node can be made with, to prove that the simulator finds such.

use cluster::Consistency;

/// A known-bad variant of a node. No server has one: only [`crate::NodeShards::with_flaw`] makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// None.
    #[default]
    None,
    /// A write at QUORUM waits for one of three.
    QuorumOffByOne,
    /// What is agreed upon is not committed, and the client told so.
    NoCommit,
}

impl Flaw {
    /// The level that a write waits for.
    pub(crate) fn level(self, consistency: Consistency) -> Consistency {
        match (self, consistency) {
            (Flaw::QuorumOffByOne, Consistency::Quorum) => Consistency::One,
            (_, consistency) => consistency,
        }
    }
}
