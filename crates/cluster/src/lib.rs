//! Which nodes a request needs: consistency levels, replication, the ring, and quorums.
//!
//! Nothing here sends anything or knows what time it is. Who asks gets replicas and
//! requirements; what comes back from replicas goes in as events, and the outcome comes out.
//! A single node is a ring of one, and takes the same way.

mod consistency;
mod quorum;
mod replication;
mod ring;
mod tokens;

pub use consistency::{Consistency, ConsistencyError, UnknownConsistency};
pub use quorum::{
    FailureReason, Outcome, ReadQuorum, Replica, Unavailable, WriteQuorum, quorum_of,
};
pub use replication::{ReplicationError, ReplicationStrategy};
pub use ring::{Node, NodeIndex, Placement, Ring};
pub use tokens::random_tokens;
