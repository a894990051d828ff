//! The start of a node as one of a cluster: it finds the cluster or begins it, takes part in what is
//! decided, gets its tokens, and catches up.
//!
//! Whatever is cut off in between is gone on with at the next start: each step looks at what has been
//! decided. A node has its id on its drive (`metadata/member`) before it says a word in the group.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{
    ClusterIdentity, ClusterMetadata, EntryRefused, MemberState, MetadataEntry, NodeId,
    SchemaEntry, Transformation, allocate_tokens,
};
use futures_util::future::Either;
use io::TaskGroup;
use model::Token;
use serde::{Deserialize, Serialize};
use wire::internode::Refusal;

use super::follower::Follower;
use super::forming::{self, Place};
use super::group::{self, Group};
use super::question::Question;
use super::voters::{self, Tended};
use super::{AskError, ClusterService, ProposeError, own_node, user_keyspaces};
use crate::message::ShardRequest;
use crate::metadata::random_uuid;
use crate::raft::{Dialer, Member, replace_file};
use crate::shard::Shard;
use crate::start::StartError;
use crate::system::LocalNode;

/// How long a node that was a member before waits for the others before it serves what it knows.
const CATCH_UP: Duration = Duration::from_secs(30);
/// How long somebody at a former address has to answer.
const PROBE: Duration = Duration::from_secs(2);
/// How often whoever leads looks at who takes part.
const TEND: Duration = Duration::from_millis(500);
/// How long to wait before a step is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is said why the node does not serve yet.
const SAY: Duration = Duration::from_secs(5);

/// What the node knows of itself before it knows anything else.
#[derive(Serialize, Deserialize)]
struct Remembered {
    /// Its id.
    id: NodeId,
    /// Where the others reached it.
    address: SocketAddr,
}

/// Becomes one of a cluster, or is one again; returns when the node may serve.
///
/// # Errors
/// It is not let in, or its drive fails.
pub(crate) async fn join(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
) -> Result<(), StartError> {
    let address = shard.local().storage_address();
    let own = match read_member(shard, &service.folder).await? {
        Some(Remembered {
            id,
            address: before,
        }) => {
            if before != address {
                refuse_copy(service, before).await?;
                write_member(shard, &service.folder, id).await?;
            }
            id
        }
        None => become_member(shard, service).await?,
    };
    start_group(shard, service, own).await?;
    let founds = own == FOUNDER;
    if founds {
        begin_group(shard, service, own).await?;
    }
    let keeping = keep_group(shard.clone(), service.clone(), own);
    shard.env.spawn(TaskGroup::Foreground, keeping).detach();
    let was_member = service
        .metadata()
        .is_some_and(|metadata| super::has_joined(&metadata, shard.local().host_id));
    match was_member {
        true => come_back(shard, service).await?,
        false => settle(shard, service, founds).await?,
    }
    take_tokens(shard, service).await?;
    *service.discovery.borrow_mut() = None;
    Ok(())
}

/// The node was at another address before. If somebody of its identity is there yet, this is a copy:
/// two that speak as one would break what is decided.
async fn refuse_copy(service: &ClusterService, before: SocketAddr) -> Result<(), StartError> {
    match service.ask_at(before, &Question::Decided, PROBE).await {
        Err(AskError::Refused(refusal @ Refusal::SameHostId)) => Err(StartError::NotLetIn {
            member: before,
            reason: refusal.to_string(),
        }),
        // Nobody, or another node that has the address now.
        _ => Ok(()),
    }
}

/// Who begins a cluster registers first, and so gets this id.
const FOUNDER: NodeId = NodeId(0);

async fn become_member(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
) -> Result<NodeId, StartError> {
    let id = match forming::find(service, shard).await? {
        Place::Founder => FOUNDER,
        Place::Member(id, ClusterIdentity { name, .. }) => {
            tracing::info!("joins the cluster `{name}` as node {}", id.0);
            id
        }
    };
    write_member(shard, &service.folder, id).await?;
    Ok(id)
}

fn member_path(folder: &Path) -> PathBuf {
    folder.join("metadata").join("member")
}

async fn read_member(shard: &Shard, folder: &Path) -> Result<Option<Remembered>, StartError> {
    let path = member_path(folder);
    let bytes = match shard.env.read_file(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let path = path.display();
            return Err(StartError::Metadata(format!("cannot read {path}: {error}")));
        }
    };
    match serde_json::from_slice::<Remembered>(&bytes) {
        Ok(remembered) => Ok(Some(remembered)),
        Err(error) => Err(StartError::Metadata(format!(
            "{} is damaged ({error}): restore the folder `metadata` from a backup, or remove the node \
             from the cluster and let it join anew",
            path.display()
        ))),
    }
}

async fn write_member(shard: &Shard, folder: &Path, id: NodeId) -> Result<(), StartError> {
    let path = member_path(folder);
    let address = shard.local().storage_address();
    let content = super::question::encode(&Remembered { id, address });
    let made = shard.env.create_dir_all(&folder.join("metadata")).await;
    let made = made.and(shard.env.sync_dir(folder).await);
    made.map_err(|error| StartError::Metadata(format!("cannot make {}: {error}", path.display())))?;
    let written = replace_file(&shard.env, &path, content).await;
    written.map_err(|error| StartError::Metadata(error.to_string()))
}

async fn start_group(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    own: NodeId,
) -> Result<(), StartError> {
    let follower = Follower::new(shard, own, service.own_changes.clone());
    let of_dialer = Rc::downgrade(service);
    let dialer = Dialer::new(crate::raft::raft_id(own), move |target, member: &Member| {
        let service = of_dialer.upgrade()?;
        let known = crate::raft::node_id(target).and_then(|node| service.peer_of(node));
        known.or_else(|| service.peer_at(member.address).ok())
    });
    let settings = shard.state.config.metadata;
    let starting = Group::start(&shard.env, &service.folder, own, follower, dialer, settings);
    let group = starting.await?;
    group.lead_if_alone().await;
    *service.group.borrow_mut() = Some(group);
    Ok(())
}

/// Begins the group of a new cluster, unless that has been done.
async fn begin_group(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    own: NodeId,
) -> Result<(), StartError> {
    let Some(group) = service.group() else {
        return Ok(());
    };
    if group.is_initialized().await? {
        return Ok(());
    }
    let address = shard.local().storage_address();
    group.begin(own, Member { address }).await
}

/// Starts the group anew when its drive failed, and lets who leads do what is to be done.
async fn keep_group(shard: Rc<Shard>, service: Rc<ClusterService>, own: NodeId) {
    loop {
        let Some(group) = service.group() else { return };
        let mut tended = Tended::new(shard.state.config.metadata.voter_silence);
        let tending = async {
            loop {
                if !voters::tend(&group, &mut tended).await {
                    shard.env.sleep(TEND).await;
                }
            }
        };
        let failing = std::pin::pin!(group.failed());
        let tending = std::pin::pin!(tending);
        let reason = match futures_util::future::select(failing, tending).await {
            Either::Left((reason, _)) => reason,
            Either::Right((never, _)) => never,
        };
        if service.stops.get() {
            return;
        }
        tracing::error!("the log of the cluster's metadata stopped: {reason}; it is started anew");
        *service.group.borrow_mut() = None;
        group.stop().await;
        loop {
            shard.env.sleep(group::PAUSE).await;
            if service.stops.get() {
                return;
            }
            match start_group(&shard, &service, own).await {
                Ok(()) => break,
                Err(error) => tracing::error!("{error}"),
            }
        }
    }
}

/// A member that was away.
async fn come_back(shard: &Rc<Shard>, service: &Rc<ClusterService>) -> Result<(), StartError> {
    if !service.catch_up(CATCH_UP).await {
        tracing::warn!(
            "no majority of the nodes that decide on the schema could be reached in {} s: this node \
             serves with what it knew before",
            CATCH_UP.as_secs()
        );
        return Ok(());
    }
    let metadata = service.metadata();
    let node = own_node(shard, &shard.local());
    let topology = metadata.as_ref().map(|metadata| metadata.topology());
    let known = topology.and_then(|topology| {
        let id = topology.id_of(node.host_id)?;
        Some((id, topology.member(id)?.node.clone()))
    });
    if let Some((id, known)) = known
        && known != node
    {
        if known.address != node.address {
            refuse_copy(service, known.address).await?;
        }
        tracing::info!("tells the others that it is at {} now", node.address);
        let update = MetadataEntry::Topology(Transformation::Update(id, node));
        if let Err(error) = service.propose(update).await {
            tracing::error!("the others do not know where this node is: {error}");
        }
    }
    Ok(())
}

/// Goes through what makes a member of this node, until it is one.
async fn settle(
    shard: &Rc<Shard>,
    service: &Rc<ClusterService>,
    founds: bool,
) -> Result<(), StartError> {
    let mut said = shard.env.now();
    loop {
        let metadata = service.metadata().unwrap_or_default();
        let Some(step) = next_step(shard, &metadata, founds) else {
            return Ok(());
        };
        let problem = match step {
            Step::Propose(entry) => match service.propose(entry).await {
                Ok(_) => continue,
                // Somebody was quicker: tokens are chosen anew, and what is done is not done again.
                Err(ProposeError::Refused(epoch, refused)) => {
                    service.reach(epoch).await;
                    match is_final(&refused) {
                        true => return Err(StartError::Refused(refused)),
                        false => refused.to_string(),
                    }
                }
                Err(error) => error.to_string(),
            },
            Step::Wait => "the others do not tell what was decided".to_owned(),
        };
        let now = shard.env.now();
        if now.saturating_duration_since(said) >= SAY {
            said = now;
            tracing::info!("waiting to become one of the cluster: {problem}");
        }
        shard.env.sleep(PAUSE).await;
    }
}

fn is_final(refused: &EntryRefused) -> bool {
    use cluster::Rejected;
    match refused {
        EntryRefused::HoldsData { .. } => true,
        EntryRefused::Topology(rejected) => matches!(
            rejected,
            Rejected::HostIdTaken { .. } | Rejected::AddressTaken(_) | Rejected::Left(_)
        ),
        _ => false,
    }
}

/// What is to be done next.
enum Step {
    Propose(MetadataEntry),
    Wait,
}

fn next_step(shard: &Rc<Shard>, metadata: &ClusterMetadata, founds: bool) -> Option<Step> {
    let local = shard.local();
    let topology = metadata.topology();
    let node = own_node(shard, &local);
    if metadata.identity().is_none() {
        let identity = ClusterIdentity {
            id: random_uuid(shard),
            name: local.cluster_name.clone(),
        };
        return Some(match founds {
            true => Step::Propose(MetadataEntry::Create(identity)),
            false => Step::Wait,
        });
    }
    let keyspaces = user_keyspaces(&shard.metadata().schema);
    if founds && keyspaces != metadata.keyspaces() && metadata.schema_epoch() == 0 {
        // What its folder holds is what the cluster begins with.
        return Some(Step::Propose(MetadataEntry::Schema(SchemaEntry {
            id: random_uuid(shard),
            base: 0,
            mutations: Vec::new(),
            timestamp: None,
            event: Vec::new(),
            keyspaces,
        })));
    }
    let Some(id) = topology.id_of(local.host_id) else {
        return Some(match founds {
            true => Step::Propose(MetadataEntry::Topology(Transformation::Register(node))),
            false => Step::Wait,
        });
    };
    let member = topology.member(id)?;
    if member.node != node {
        let update = Transformation::Update(id, node);
        return Some(Step::Propose(MetadataEntry::Topology(update)));
    }
    if member.state == MemberState::Joined {
        return None;
    }
    let tokens = own_tokens(shard, &local, metadata);
    let join = Transformation::JoinEmpty(id, tokens);
    Some(Step::Propose(MetadataEntry::Topology(join)))
}

/// The tokens that the node had before, or some that share the ring evenly.
fn own_tokens(shard: &Shard, local: &LocalNode, metadata: &ClusterMetadata) -> BTreeSet<Token> {
    if !local.tokens.is_empty() {
        return local.tokens.iter().copied().collect();
    }
    let ring = metadata.topology().ring();
    let count = shard.state.config.num_tokens;
    allocate_tokens(&ring, &local.place(), count)
        .into_iter()
        .collect()
}

/// All shards learn which tokens are this node's.
async fn take_tokens(shard: &Rc<Shard>, service: &Rc<ClusterService>) -> Result<(), StartError> {
    let local = shard.local();
    let metadata = service.metadata().unwrap_or_default();
    let topology = metadata.topology();
    let member = topology
        .id_of(local.host_id)
        .and_then(|id| topology.member(id));
    let tokens = member.map(|member| member.tokens.iter().copied().collect());
    let local = Arc::new(LocalNode {
        tokens: tokens.unwrap_or_default(),
        ..LocalNode::clone(&local)
    });
    let request = || ShardRequest::SetLocal(local.clone());
    let here = async {
        shard.set_local(local.clone());
        Ok(())
    };
    let learned = shard.on_all(request, here).await;
    learned.map_err(StartError::System)
}
