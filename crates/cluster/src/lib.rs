//! Which nodes a request needs: consistency levels, replication, the ring, and quorums; and who the
//! nodes are, and how that changes; and how replicas agree on a change of a partition ([`paxos`]).
//!
//! Nothing here sends anything or knows what time it is. Who asks gets replicas and
//! requirements; what comes back from replicas goes in as events, and the outcome comes out.
//! A single node is a ring of one, and takes the same way.

mod allocation;
mod batch_holders;
mod consistency;
mod discovery;
mod gossip;
mod metadata;
pub mod paxos;
mod placement;
mod quorum;
mod replication;
mod ring;
mod topology;

pub use allocation::allocate_tokens;
pub use batch_holders::{BatchCandidate, batch_holders};
pub use consistency::{Consistency, ConsistencyError, UnknownConsistency};
pub use discovery::{Discovered, Discovery, Standing};
pub use gossip::{ApplicationState, Gossip, GossipError, News};
pub use metadata::{
    ClusterIdentity, ClusterMetadata, EntryRefused, MetadataEntry, MetadataError, SchemaEntry,
};
pub use placement::{Placement, Replicas};
pub use quorum::{
    FailureReason, Outcome, ReadQuorum, Replica, Unavailable, WriteQuorum, quorum_of,
};
pub use replication::{ReplicationError, ReplicationStrategy};
pub use ring::{NodeId, Place, Ring};
pub use topology::{
    Change, Member, MemberState, Movement, Node, Phase, Rejected, Topology, Transformation,
};
