//! A node that is not one of a cluster yet finds one, or begins one.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cluster::{ClusterIdentity, Discovered, Discovery, NodeId, Standing};
use io::TaskGroup;

use super::question::{Question, Reply};
use super::{AskError, ClusterService, own_node};
use crate::shard::Shard;
use crate::start::StartError;

/// How often the seeds are asked.
const ROUND: Duration = Duration::from_millis(250);
/// How long one of them may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a member may take to have a node registered.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// How often it is said whom the node waits for.
const SAY: Duration = Duration::from_secs(5);

/// What the node is to be.
pub(super) enum Place {
    /// The first of a cluster that it begins.
    Founder,
    /// This one of a cluster that is there.
    Member(NodeId, ClusterIdentity),
}

/// Finds a cluster by the seeds, or finds out that this node is to begin one.
///
/// # Errors
/// The cluster does not let this node in.
pub(super) async fn find(
    service: &Rc<ClusterService>,
    shard: &Rc<Shard>,
) -> Result<Place, StartError> {
    let local = shard.local();
    let own = local.storage_address();
    let begun = shard.env.now();
    let discovery = Discovery::new(own, &shard.state.config.seeds);
    *service.discovery.borrow_mut() = Some((discovery, begun));
    let mut said = begun;
    loop {
        let looked = shard.env.now().saturating_duration_since(begun);
        let outcome = service.with_discovery(|discovery| discovery.outcome(looked));
        match outcome.flatten() {
            Some(Discovered::Nothing) => return Ok(Place::Founder),
            Some(Discovered::Cluster(member)) => {
                if let Some(place) = introduce(service, shard, member).await? {
                    return Ok(place);
                }
                // It was no member after all, or cannot have anything decided now.
                service.forget(member);
            }
            None => {}
        }
        ask_round(service, shard, own).await?;
        let now = shard.env.now();
        if now.saturating_duration_since(said) >= SAY {
            said = now;
            let looked = now.saturating_duration_since(begun);
            let waits_for = service.with_discovery(|discovery| discovery.waits_for(looked));
            let waits_for = waits_for.unwrap_or_default();
            let names: Vec<String> = waits_for.iter().map(SocketAddr::to_string).collect();
            tracing::info!("looking for a cluster: waiting for {}", names.join(", "));
        }
        shard.env.sleep(ROUND).await;
    }
}

/// Asks all seeds at once.
///
/// # Errors
/// One of them does not talk to this node: its seeds are another cluster's, or its folder was copied.
async fn ask_round(
    service: &Rc<ClusterService>,
    shard: &Rc<Shard>,
    own: SocketAddr,
) -> Result<(), StartError> {
    let known = service.with_discovery(|discovery| (discovery.to_ask(), discovery.standing()));
    let Some((to_ask, standing)) = known else {
        return Ok(());
    };
    let asked: Vec<_> = to_ask
        .into_iter()
        .map(|seed| {
            let (service, question) = (service.clone(), Question::Standing(own, standing));
            shard.env.spawn(TaskGroup::Foreground, async move {
                match service.ask_at(seed, &question, PATIENCE).await {
                    Ok(Reply::Standing(standing)) => service.hear(seed, standing),
                    Ok(_) => {}
                    Err(AskError::Refused(refusal)) => return Some((seed, refusal)),
                    Err(AskError::NoAnswer(reason)) => service.note_silence(seed, &reason),
                }
                None
            })
        })
        .collect();
    let mut refused = None;
    for answered in asked {
        refused = refused.or(answered.await);
    }
    match refused {
        Some((seed, refusal)) => Err(StartError::NotLetIn {
            member: seed,
            reason: refusal.to_string(),
        }),
        None => Ok(()),
    }
}

/// Asks a member to have this node registered; `None`: try again.
async fn introduce(
    service: &Rc<ClusterService>,
    shard: &Rc<Shard>,
    member: SocketAddr,
) -> Result<Option<Place>, StartError> {
    refuse_own_keyspaces(shard)?;
    let node = own_node(shard, &shard.local());
    let question = Question::Introduce(node);
    match service.ask_at(member, &question, INTRODUCTION).await {
        Ok(Reply::Introduced(id, identity)) => Ok(Some(Place::Member(id, identity))),
        Ok(Reply::Refused(reason)) => Err(StartError::NotLetIn { member, reason }),
        Ok(_) => Ok(None),
        Err(AskError::Refused(refusal)) => Err(StartError::NotLetIn {
            member,
            reason: refusal.to_string(),
        }),
        Err(AskError::NoAnswer(reason)) => {
            service.note_silence(member, &reason);
            Ok(None)
        }
    }
}

/// What the folder holds would be hidden by, or mixed up with, what the cluster has.
fn refuse_own_keyspaces(shard: &Shard) -> Result<(), StartError> {
    let keyspaces = super::user_keyspaces(&shard.metadata().schema);
    match keyspaces {
        0 => Ok(()),
        keyspaces => Err(StartError::OwnKeyspaces {
            data: shard.state.config.data.clone(),
            keyspaces,
        }),
    }
}

impl ClusterService {
    fn with_discovery<T>(&self, read: impl FnOnce(&Discovery) -> T) -> Option<T> {
        self.discovery
            .borrow()
            .as_ref()
            .map(|(discovery, _)| read(discovery))
    }

    /// Another node has said how it stands.
    pub(super) fn hear(&self, from: SocketAddr, standing: Standing) {
        if let Some((discovery, begun)) = &mut *self.discovery.borrow_mut() {
            let looked = self.env.now().saturating_duration_since(*begun);
            discovery.hear(from, standing, looked);
        }
    }

    /// It does not know more than this node, whatever it said before.
    fn forget(&self, member: SocketAddr) {
        let standing = self.with_discovery(Discovery::standing);
        if let Some(standing) = standing {
            self.hear(member, standing);
        }
    }
}
