//! Answers to what other nodes ask the leading shard: questions of forming and deciding, messages of
//! Raft, gossip.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{
    ClusterMetadata, EntryRefused, MemberState, MetadataEntry, Node, Standing, Transformation,
};
use model::TableId;
use wire::internode::Verb;

use super::group::Proposed;
use super::question::{self, Question, Reply};
use super::{ClusterService, ProposeError, heartbeat};
use crate::raft::{Call, within};
use crate::report;
use crate::truncate;

/// How long a node may take to know an epoch before whoever asked is told that it does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers a message of this verb; the failure is in words.
pub(crate) async fn answer(
    service: Rc<ClusterService>,
    verb: Verb,
    body: Bytes,
) -> Result<Vec<u8>, Vec<u8>> {
    let answered = match verb {
        Verb::Membership => match question::decode(&body) {
            Ok(question) => reply(&service, question)
                .await
                .map(|reply| question::encode(&reply)),
            Err(reason) => Err(reason),
        },
        Verb::Metadata => of_raft(&service, &body).await,
        Verb::Gossip => heartbeat::receive(&service, &body).map(|()| Vec::new()),
        _ => Err("not asked of a leading shard".to_owned()),
    };
    answered.map_err(String::into_bytes)
}

async fn of_raft(service: &ClusterService, body: &[u8]) -> Result<Vec<u8>, String> {
    let call = Call::decode(body).map_err(|error| error.to_string())?;
    let group = service
        .group()
        .ok_or("this node has no part in the group yet")?;
    let answered = within(group.env(), call.answer(group.raft())).await;
    answered.map_err(|error| error.to_string())
}

async fn reply(service: &Rc<ClusterService>, question: Question) -> Result<Reply, String> {
    match question {
        Question::Standing(from, standing) => {
            service.hear(from, standing);
            Ok(Reply::Standing(standing_of(service)?))
        }
        Question::Introduce(node) => introduce(service, node).await,
        Question::Propose(entry) => {
            let group = service
                .group()
                .ok_or("this node has no part in the group")?;
            Ok(match group.propose(entry).await? {
                Proposed::Decided(epoch, result) => Reply::Decided(epoch, result),
                Proposed::NotLeader(leader) => Reply::NotLeader(leader),
            })
        }
        Question::Decided => {
            let group = service
                .group()
                .ok_or("this node has no part in the group")?;
            match group.decided().await {
                Some(epoch) => Ok(Reply::Decided(epoch, Ok(()))),
                None => Ok(Reply::NotLeader(group.leader().await)),
            }
        }
        Question::Reach(epoch) => {
            let reached = service.env.timeout(PATIENCE, service.reach(epoch)).await;
            reached.map_err(|_| format!("epoch {epoch} is not known here"))?;
            Ok(Reply::Done)
        }
        Question::Truncate(table) => {
            let shard = service.shard()?;
            let truncated = truncate::here(&shard, TableId::from_bytes(table.into_bytes())).await;
            Ok(match truncated {
                Ok(()) => Reply::Done,
                Err(reason) => Reply::Refused(reason),
            })
        }
        Question::Report => Ok(Reply::Report(report::own(&service.shard()?).await?)),
    }
}

/// How this node stands: a member once it owns tokens, as before that nothing can be decided for sure.
fn standing_of(service: &ClusterService) -> Result<Standing, String> {
    let local = service.shard()?.local();
    let joined = service.metadata();
    if joined.is_some_and(|metadata| super::has_joined(&metadata, local.host_id)) {
        return Ok(Standing::Member);
    }
    let looking = service.discovery.borrow();
    Ok(match &*looking {
        Some((discovery, _)) => discovery.standing(),
        // It begins one, or is about to join one.
        None => Standing::Looking {
            creator: local.storage_address(),
        },
    })
}

/// A node wants to be one of the cluster.
async fn introduce(service: &ClusterService, node: Node) -> Result<Reply, String> {
    let metadata = service.metadata().ok_or("this node is in no cluster yet")?;
    if let Some(known) = registered(&metadata, &node)? {
        return Ok(known);
    }
    let keyspaces = metadata.keyspaces();
    if keyspaces > 0 {
        return Ok(Reply::Refused(
            EntryRefused::HoldsData { keyspaces }.to_string(),
        ));
    }
    let register = MetadataEntry::Topology(Transformation::Register(node.clone()));
    let decided = service.propose(register).await;
    let metadata = service
        .metadata()
        .ok_or("this node is in no cluster any more")?;
    if let Some(known) = registered(&metadata, &node)? {
        return Ok(known);
    }
    match decided {
        Err(ProposeError::Refused(_, refused)) => Ok(Reply::Refused(refused.to_string())),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it was registered, and is not known here yet".to_owned()),
    }
}

/// What a node is told that is registered: its answer was lost, or it lost what it knew.
fn registered(metadata: &ClusterMetadata, node: &Node) -> Result<Option<Reply>, String> {
    let topology = metadata.topology();
    let Some(id) = topology.id_of(node.host_id) else {
        return Ok(None);
    };
    let known = topology.member(id).ok_or("a member without an entry")?;
    let identity = metadata.identity().ok_or("there is no cluster yet")?;
    match known.state {
        MemberState::Registered if known.node.address == node.address => {
            Ok(Some(Reply::Introduced(id, identity.clone())))
        }
        MemberState::Registered => Ok(None),
        MemberState::Joined => Ok(Some(Reply::Refused(format!(
            "the node {} at {} is a member already: a data folder must not be copied to another node. If \
             it is this node, and its folder `metadata` was lost, remove it from the cluster and let it \
             join anew with an empty data folder",
            node.host_id, known.node.address
        )))),
        MemberState::Left => {
            let left = cluster::Rejected::Left(node.host_id);
            Ok(Some(Reply::Refused(left.to_string())))
        }
    }
}
