//! The cluster, as the node that is asked knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use cluster::{
    ApplicationState, Change, Member, MemberState, Node, NodeId, Placement, Replicas,
    ReplicationStrategy, Topology,
};
use model::Token;
use uuid::Uuid;

use super::{Admin, AdminError};
use crate::metadata::Metadata;
use crate::report::{self, NodeReport};
use crate::shard::Shard;

/// How long other nodes may take to tell of themselves.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whose ownership is shown where users have no keyspaces (`StorageService.effectiveOwnership`).
const USUAL_KEYSPACE: &str = "system_traces";

/// The cluster at one moment.
#[derive(Clone, Debug)]
pub struct ClusterInformation {
    /// Its name.
    pub name: String,
    /// The node that was asked.
    pub own: NodeId,
    /// How many entries of the metadata log it knows.
    pub epoch: u64,
    /// The version of the schema that it serves.
    pub schema_version: Uuid,
    /// The nodes that vote on what is in that log.
    pub voters: BTreeSet<NodeId>,
    /// All nodes but those that have left.
    pub nodes: BTreeMap<NodeId, NodeStatus>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    /// What it says of itself to all.
    pub node: Node,
    /// The tokens it owns.
    pub tokens: BTreeSet<Token>,
    /// What it does.
    pub state: NodeState,
    /// Is it up? `None`: nobody watches it, as it has no tokens yet.
    pub is_up: Option<bool>,
    /// What it says of itself now; `None` if it does not answer.
    pub report: Option<NodeReport>,
    /// How full its drive is, as it has told all by gossip.
    pub disk_usage: Option<String>,
}

/// What a node does in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It stays.
    Normal,
    /// It gets its tokens.
    Joining,
    /// It gives its tokens to others.
    Leaving,
    /// It changes its tokens.
    Moving,
}

impl NodeState {
    /// As `nodetool` puts it.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Normal => "Normal",
            NodeState::Joining => "Joining",
            NodeState::Leaving => "Leaving",
            NodeState::Moving => "Moving",
        }
    }
}

/// What a member does; `None` if it is gone.
fn state(topology: &Topology, id: NodeId, member: &Member) -> Option<NodeState> {
    let change = topology
        .movement()
        .and_then(|movement| movement.changes.get(&id));
    match (member.state, change) {
        (MemberState::Left, _) => None,
        (MemberState::Registered, _) | (_, Some(Change::Join(_) | Change::Replace(_))) => {
            Some(NodeState::Joining)
        }
        (MemberState::Joined, None) => Some(NodeState::Normal),
        (MemberState::Joined, Some(Change::Leave)) => Some(NodeState::Leaving),
        (MemberState::Joined, Some(Change::Move(_))) => Some(NodeState::Moving),
    }
}

/// What this node does; `None` if it is no member.
pub(super) fn own_state(shard: &Shard) -> Option<NodeState> {
    let metadata = shard.metadata();
    let membership = metadata.membership()?;
    let topology = membership.cluster.topology();
    state(topology, membership.own, topology.member(membership.own)?)
}

/// The nodes of a topology, before they were asked anything.
fn nodes(
    topology: &Topology,
    own: NodeId,
    is_up: impl Fn(NodeId) -> bool,
) -> BTreeMap<NodeId, NodeStatus> {
    let members = topology.members().iter();
    let nodes = members.filter_map(|(id, member)| {
        let watched = member.state == MemberState::Joined;
        let status = NodeStatus {
            node: member.node.clone(),
            tokens: member.tokens.clone(),
            state: state(topology, *id, member)?,
            is_up: watched.then(|| *id == own || is_up(*id)),
            report: None,
            disk_usage: None,
        };
        Some((*id, status))
    });
    nodes.collect()
}

/// A part of the ring and who has its data: from behind the first token up to the second.
pub type RangeReplicas = (Token, Token, Vec<NodeId>);

/// The ranges of a placement, each with who is read from.
pub(crate) fn ranges(placement: &Placement) -> Vec<RangeReplicas> {
    let ranges: Vec<(Token, &Replicas)> = placement.ranges().collect();
    let starts = ranges.last().into_iter().chain(&ranges);
    let pairs = starts.zip(&ranges);
    pairs
        .map(|((start, _), (end, replicas))| (*start, *end, replicas.natural.clone()))
        .collect()
}

/// The placement of the keyspaces of users, if all have the same; that of a keyspace of all nodes if there
/// are none.
fn common_placement(metadata: &Metadata) -> Result<&Placement, AdminError> {
    let names = metadata.schema.keyspaces.keys();
    let own = names.filter(|name| !cql::schema::is_system_keyspace(name));
    let mut placements = own.map(|name| metadata.placement(name));
    let Some(first) = placements.next() else {
        return Ok(metadata.placement(USUAL_KEYSPACE));
    };
    match placements.all(|placement| placement.strategy() == first.strategy()) {
        true => Ok(first),
        false => Err(AdminError::Refused(
            "Non-system keyspaces don't have the same replication settings, effective ownership \
             information is meaningless"
                .to_owned(),
        )),
    }
}

/// The placement of a keyspace that nodes have together.
fn placement<'m>(
    metadata: &'m Metadata,
    keyspace: &str,
    local: impl Fn() -> String,
) -> Result<&'m Placement, AdminError> {
    let found = metadata.schema.keyspaces.get(keyspace);
    if found.is_none_or(|found| found.is_virtual) {
        return Err(AdminError::UnknownKeyspace(keyspace.to_owned()));
    }
    let placement = metadata.placement(keyspace);
    match placement.strategy() {
        ReplicationStrategy::Local => Err(AdminError::Refused(local())),
        _ => Ok(placement),
    }
}

impl Admin {
    /// The cluster. Nodes that are up are asked for what only they know.
    pub fn cluster(&self) -> Result<ClusterInformation, AdminError> {
        let look = async |shard: Rc<Shard>| {
            let metadata = shard.metadata();
            let (membership, local) = (metadata.membership()?, shard.local_if_known()?);
            let topology = membership.cluster.topology();
            let own = membership.own;
            let mut nodes = nodes(topology, own, |id| shard.peers.is_up(id));
            let (mut reports, voters) = match shard.cluster_service() {
                Some(service) => (
                    service.reports(&shard, PATIENCE).await,
                    service.voters().await,
                ),
                None => Default::default(),
            };
            if let Ok(report) = report::own(&shard).await {
                reports.insert(own, report);
            }
            if let Some(service) = shard.cluster_service() {
                for (id, status) in &mut nodes {
                    status.disk_usage = service.told(*id, ApplicationState::DiskUsage);
                }
            }
            for (id, report) in reports {
                if let Some(status) = nodes.get_mut(&id) {
                    status.report = Some(report);
                }
            }
            Some(ClusterInformation {
                name: local.cluster_name.clone(),
                own,
                epoch: membership.cluster.epoch(),
                schema_version: metadata.schema.version,
                voters,
                nodes,
            })
        };
        self.lead(look)?.ok_or(AdminError::Closed)
    }

    /// The share of the data that each node has (1: all of it): of a keyspace, or of those of users if
    /// all are replicated in the same way.
    pub fn ownership(&self, keyspace: Option<&str>) -> Result<BTreeMap<NodeId, f64>, AdminError> {
        let keyspace = keyspace.map(str::to_owned);
        self.lead(async move |shard: Rc<Shard>| {
            let metadata = shard.metadata();
            let meaningless =
                || "Ownership values for keyspaces with LocalStrategy are meaningless".to_owned();
            let placement = match &keyspace {
                Some(keyspace) => placement(&metadata, keyspace, meaningless),
                None => common_placement(&metadata),
            };
            placement.map(Placement::ownership)
        })?
    }

    /// The ranges of a keyspace, in the order of the ring, each with the nodes that have its data.
    pub fn ranges(&self, keyspace: &str) -> Result<Vec<RangeReplicas>, AdminError> {
        let keyspace = keyspace.to_owned();
        self.lead(async move |shard: Rc<Shard>| {
            let metadata = shard.metadata();
            let no_ring = || format!("There is no ring for the keyspace: {keyspace}");
            placement(&metadata, &keyspace, no_ring).map(ranges)
        })?
    }

    /// The nodes that have a partition, the first in the ring first. The key is a text, with colons between
    /// the values of several columns.
    pub fn natural_endpoints(
        &self,
        keyspace: &str,
        table: &str,
        key: &str,
    ) -> Result<Vec<NodeId>, AdminError> {
        let tables = self.tables(Some(keyspace), &[table.to_owned()])?;
        let token = self.key_of(&tables[0], key, false)?.token();
        let keyspace = keyspace.to_owned();
        self.lead(async move |shard: Rc<Shard>| {
            let metadata = shard.metadata();
            metadata
                .placement(&keyspace)
                .replicas(token)
                .natural
                .clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Movement, Phase, Place, Transformation};

    use super::*;

    fn node(number: u8) -> Node {
        let address = |port| ([127, 0, 0, number], port).into();
        Node {
            host_id: Uuid::from_u128(number.into()),
            address: address(7000),
            native_address: address(9042),
            place: Place {
                datacenter: "datacenter1".to_owned(),
                rack: "rack1".to_owned(),
            },
            shards: 2,
            release: "5.0.6".to_owned(),
            protocol: 1,
        }
    }

    fn tokens(token: i64) -> BTreeSet<Token> {
        BTreeSet::from([Token(token)])
    }

    /// Nodes 0 to 2 own tokens, node 3 is about to get some.
    fn topology() -> Topology {
        let mut topology = Topology::new();
        for number in 0..4 {
            let register = Transformation::Register(node(number));
            topology = topology.apply(&register).expect("it fits");
        }
        for number in 0..3 {
            let own = tokens(i64::from(number) * 100);
            let join = Transformation::JoinEmpty(NodeId(number), own);
            topology = topology.apply(&join).expect("it fits");
        }
        topology
    }

    #[test]
    fn nodes_are_in_the_state_that_the_topology_says() {
        let is_up = |id| id != NodeId(1);
        let seen = |topology: &Topology| -> Vec<_> {
            let nodes = nodes(topology, NodeId(0), is_up).into_values();
            nodes.map(|node| (node.state, node.is_up)).collect()
        };
        let (up, down) = (Some(true), Some(false));
        let joining = (NodeState::Joining, None);
        let normal = NodeState::Normal;
        assert_eq!(
            seen(&topology()),
            [(normal, up), (normal, down), (normal, up), joining]
        );
        let changes = BTreeMap::from([
            (NodeId(0), Change::Move(tokens(7))),
            (NodeId(2), Change::Leave),
            (NodeId(3), Change::Join(tokens(300))),
        ]);
        let moving = topology().apply(&Transformation::Prepare(changes));
        let moving = moving.expect("it fits");
        assert!(matches!(
            moving.movement(),
            Some(Movement {
                phase: Phase::Prepared,
                ..
            })
        ));
        assert_eq!(
            seen(&moving),
            [
                (NodeState::Moving, up),
                (normal, down),
                (NodeState::Leaving, up),
                joining
            ]
        );
    }

    #[test]
    fn ranges_begin_where_the_one_before_ends() {
        let strategy = ReplicationStrategy::Simple { factor: 2 };
        let topology = topology();
        let placements = topology.placements([&strategy], NodeId(0));
        let numbers = |(start, end, nodes): RangeReplicas| {
            let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
            (start.0, end.0, nodes)
        };
        let found: Vec<_> = ranges(&placements[0]).into_iter().map(numbers).collect();
        assert_eq!(
            found,
            [
                (200, 0, vec![0, 1]),
                (0, 100, vec![1, 2]),
                (100, 200, vec![2, 0]),
            ]
        );
    }
}
