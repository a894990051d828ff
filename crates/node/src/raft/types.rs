//! What the group of Raft that decides on the cluster's metadata consists of.

use std::net::SocketAddr;

use cluster::{EntryRefused, MetadataEntry, NodeId};
use openraft::Config;
use openraft::impls::leader_id_std::LeaderId;
use openraft::type_config::alias::{
    EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf,
};

use super::ShardRuntime;
use super::snapshot::Contents;

openraft::declare_raft_types!(
    /// Raft over the cluster's metadata. Members are numbered by [`raft_id`]; one leads a term, as in
    /// Raft's paper.
    pub Metadata:
        D = MetadataEntry,
        R = Answer,
        NodeId = u64,
        Node = Member,
        LeaderId = LeaderId<u64, u64>,
        AsyncRuntime = ShardRuntime,
);

/// The place of an entry: the term of the leader who proposed it, and its number.
pub type LogId = LogIdOf<Metadata>;
/// For whom a member votes.
pub type Vote = VoteOf<Metadata>;
/// An entry of the log.
pub type Entry = EntryOf<Metadata>;
/// Who votes, and who listens.
pub type Membership = openraft::Membership<u64, Member>;
/// A membership and the entry that brought it.
pub type StoredMembership = StoredMembershipOf<Metadata>;
/// What a snapshot stands for.
pub type SnapshotMeta = SnapshotMetaOf<Metadata>;
/// The metadata and the schema behind an entry.
pub type Snapshot = SnapshotOf<Metadata, Contents>;

/// What every member's Raft is to keep to, whatever its times are.
pub fn config() -> Config {
    Config {
        enable_pre_vote: Some(true),
        // A leader sends entries while its own drive writes them. If it lost them with its power and led
        // on in the same term, as openraft lets it otherwise, it would give their places to others, and
        // nobody could tell (seeds 181 and 315 of the worlds that form clusters).
        enable_leader_restore: Some(false),
        ..Config::default()
    }
}

/// What a member is to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where they reach it: [`cluster::Node::address`], as it was when it became a member. Whoever
    /// finds a newer one in the metadata uses that.
    pub address: SocketAddr,
}

/// What became of an entry that was proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its number in the log: the epoch of the metadata with it.
    pub epoch: u64,
    /// Was it taken? An entry without metadata (a new leader's, a membership's) is.
    pub result: Result<(), EntryRefused>,
}

/// The id of a node in Raft: its id in the cluster. Raft demands what that promises, an id that is
/// never given to another node nor to the same with an empty log. A node has it before it is a member
/// of Raft: the entry that registers it gives it ([`cluster::Transformation::Register`]), proposed by
/// a member for it. The node that founds the cluster registers first and so is 0.
pub fn raft_id(node: NodeId) -> u64 {
    node.0.into()
}

/// The node of an id in Raft; `None` if no node can have it.
pub fn node_id(raft: u64) -> Option<NodeId> {
    u32::try_from(raft).ok().map(NodeId)
}

/// The place of the entry of this number, proposed by the leader of this term.
pub(super) fn log_id(term: u64, index: u64) -> LogId {
    LogId {
        leader_id: term.into(),
        index,
    }
}
