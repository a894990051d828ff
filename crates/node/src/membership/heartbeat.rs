//! Gossip between the leading shards of nodes: who is up ([`cluster::Gossip`]).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use cluster::{ApplicationState, Gossip, News, NodeId};
use cql::guardrails::DiskUsage;
use io::TaskGroup;
use wire::internode::Verb;

use super::question::{Question, Reply};
use super::{ClusterService, events, set_disk_usage_everywhere, set_up_everywhere};
use crate::shard::Shard;

/// How long a message may be on its way: news that is older says nothing.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// How often a node that is up is asked whether it takes clients, and how many times.
const SERVES: Duration = Duration::from_millis(200);
const SERVES_TRIES: u32 = 1500;
/// How long the last messages of a node that goes may take.
const FAREWELL: Duration = Duration::from_millis(200);

/// Gossips for as long as the node runs. It is up for the others from now on.
pub(crate) async fn beat(service: Rc<ClusterService>, shard: Rc<Shard>) {
    let own = shard.metadata().own();
    let started = u64::try_from(shard.env.wall_micros()).unwrap_or(0);
    let gossip = Gossip::new(own, started, shard.env.random_u64());
    *service.gossip.borrow_mut() = Some(gossip);
    service.gossips.set(true);
    loop {
        if !service.gossips() {
            if service.gossip.borrow().is_none() {
                return;
            }
            service.gossip_wake.notified().await;
            continue;
        }
        meet_members(&service, &shard, own);
        let now = service.gossip_time();
        let (messages, news, next) = match &mut *service.gossip.borrow_mut() {
            Some(gossip) => {
                gossip.advance(now);
                let messages: Vec<_> = std::iter::from_fn(|| gossip.next_message()).collect();
                let news: Vec<_> = std::iter::from_fn(|| gossip.next_news()).collect();
                (messages, news, gossip.next_due())
            }
            None => return,
        };
        for (to, message) in messages {
            send(&service, to, message.to_vec());
        }
        if !news.is_empty() {
            tell(&service, &shard, &news).await;
        }
        let wait = next.saturating_sub(now).max(Duration::from_millis(1));
        // Woken by a message of another node, too.
        let _ = shard
            .env
            .timeout(wait, service.gossip_wake.notified())
            .await;
    }
}

/// Gossip knows who the members are from the topology.
fn meet_members(service: &ClusterService, shard: &Shard, own: NodeId) {
    let metadata = shard.metadata();
    let Some(membership) = metadata.membership() else {
        return;
    };
    let now = service.gossip_time();
    if let Some(gossip) = &mut *service.gossip.borrow_mut() {
        let joined = membership.cluster.topology().joined().map(|(id, _)| id);
        let joined: BTreeSet<NodeId> = joined.filter(|id| *id != own).collect();
        gossip.set_members(&joined, now);
    }
}

fn send(service: &Rc<ClusterService>, to: NodeId, message: Vec<u8>) {
    let Some(peer) = service.peer_of(to) else {
        return;
    };
    let sending = async move {
        // Gossip finds out by itself who does not answer.
        let _ = peer.ask(Verb::Gossip, 0, ON_ITS_WAY, message).await;
    };
    service.env.spawn(TaskGroup::Foreground, sending).detach();
}

async fn tell(service: &Rc<ClusterService>, shard: &Rc<Shard>, news: &[News]) {
    let is_of_disks = |news: &News| matches!(news, News::Told(_, ApplicationState::DiskUsage));
    if news.iter().any(is_of_disks) {
        set_disk_usage_everywhere(shard, service.disk_usages(shard)).await;
    }
    if news.iter().all(is_of_disks) {
        return;
    }
    let up: BTreeSet<NodeId> = {
        let metadata = shard.metadata();
        let gossip = service.gossip.borrow();
        let is_up = |id: &NodeId| gossip.as_ref().is_some_and(|gossip| gossip.is_up(*id));
        metadata.others().filter(is_up).collect()
    };
    set_up_everywhere(shard, up).await;
    for change in news {
        let (node, is_up) = match change {
            News::Up(node) => (*node, true),
            News::Down(node) => (*node, false),
            News::Told(..) => continue,
        };
        let address = shard
            .metadata()
            .node(node)
            .map(|node| node.address.ip().to_string());
        let name = address.unwrap_or_else(|| format!("node {}", node.0));
        tracing::info!("{name} is {}", if is_up { "up" } else { "down" });
        match is_up {
            true => tell_when_it_serves(service, shard, node),
            false => events::tell_of_status(shard, node, false).await,
        }
    }
}

/// Drivers connect to a node when they are told that it is up, so they are told when it takes clients.
fn tell_when_it_serves(service: &Rc<ClusterService>, shard: &Rc<Shard>, node: NodeId) {
    let (service, shard) = (service.clone(), shard.clone());
    let env = shard.env.clone();
    let telling = async move {
        for _ in 0..SERVES_TRIES {
            match service.ask(node, &Question::Report, SERVES).await {
                Ok(Reply::Report(report)) if !report.serves_clients => {}
                Ok(_) => return events::tell_of_status(&shard, node, true).await,
                Err(_) if !shard.peers.is_up(node) => return,
                Err(_) => {}
            }
            shard.env.sleep(SERVES).await;
        }
    };
    env.spawn(TaskGroup::Foreground, telling).detach();
}

/// A message of another node has come.
///
/// # Errors
/// It is none, or this node does not gossip yet or any more; in words.
pub(super) fn receive(service: &ClusterService, message: &[u8]) -> Result<(), String> {
    if !service.gossips() {
        return Err("this node does not gossip now".to_owned());
    }
    let now = service.gossip_time();
    let mut gossip = service.gossip.borrow_mut();
    let gossip = gossip.as_mut().ok_or("this node is about to end")?;
    let received = gossip.receive(message, now);
    service.gossip_wake.notify_one();
    received.map_err(|error| error.to_string())
}

impl ClusterService {
    /// Time, as gossip counts it.
    fn gossip_time(&self) -> Duration {
        self.env.now().saturating_duration_since(self.begun)
    }

    /// Does this node tell others that it is there, and learn who else is?
    pub(crate) fn gossips(&self) -> bool {
        self.gossips.get()
    }

    /// For how long each of the other members has given no answer ([`Gossip::silences`]).
    pub(crate) fn silences(&self) -> BTreeMap<NodeId, Option<Duration>> {
        let now = self.gossip_time();
        let gossip = self.gossip.borrow();
        let silences = gossip.as_ref().map(|gossip| gossip.silences(now));
        silences.into_iter().flatten().collect()
    }

    /// Tells the others something of this node. Before it has begun to gossip nobody is told.
    pub(crate) fn tell(&self, state: ApplicationState, value: &str) {
        if let Some(gossip) = &mut *self.gossip.borrow_mut() {
            gossip.tell(state, value);
            self.gossip_wake.notify_one();
        }
    }

    /// What a node tells of itself, if it tells it.
    pub(crate) fn told(&self, node: NodeId, state: ApplicationState) -> Option<String> {
        let gossip = self.gossip.borrow();
        gossip.as_ref()?.told(node, state)
    }

    /// The nodes whose drives have not much room.
    fn disk_usages(&self, shard: &Shard) -> BTreeMap<NodeId, DiskUsage> {
        let metadata = shard.metadata();
        let nodes = metadata.others().chain([metadata.own()]);
        let told = nodes.filter_map(|node| {
            let value = self.told(node, ApplicationState::DiskUsage)?;
            let usage = DiskUsage::named(&value);
            if usage.is_none() {
                tracing::warn!("Found unknown DiskUsageState: {value} of node {}", node.0);
            }
            Some((node, usage?))
        });
        told.filter(|(_, usage)| *usage != DiskUsage::Spacious)
            .collect()
    }

    /// Tells the others that this node goes, for good; they need not find out.
    pub(crate) async fn say_farewell(self: &Rc<Self>) {
        self.fall_silent().await;
        let gossip = self.gossip.take();
        drop(gossip);
        self.gossip_wake.notify_one();
    }

    /// Tells the others that this node goes, and learns nothing of them until [`ClusterService::speak_again`]:
    /// those that are up stay so for it. It serves as before (`Gossiper.stop`).
    pub(crate) async fn fall_silent(self: &Rc<Self>) {
        if !self.gossips.replace(false) {
            return;
        }
        let now = self.gossip_time();
        let messages: Vec<_> = match &mut *self.gossip.borrow_mut() {
            Some(gossip) => {
                gossip.leave(now);
                std::iter::from_fn(|| gossip.next_message()).collect()
            }
            None => return,
        };
        let sent: Vec<_> = messages
            .into_iter()
            .filter_map(|(to, message)| {
                let peer = self.peer_of(to)?;
                let sending =
                    async move { peer.ask(Verb::Gossip, 0, FAREWELL, message.to_vec()).await };
                Some(self.env.spawn(TaskGroup::Foreground, sending))
            })
            .collect();
        for sent in sent {
            // Those who have not heard it find out.
            let _ = sent.await;
        }
    }

    /// Tells the others that this node is there, and asks who else is. False: it has begun to stop, or never
    /// spoke.
    pub(crate) fn speak_again(&self) -> bool {
        let at = u64::try_from(self.env.wall_micros()).unwrap_or(0);
        let now = self.gossip_time();
        let mut gossip = self.gossip.borrow_mut();
        let Some(gossip) = gossip.as_mut() else {
            return false;
        };
        if !self.gossips.replace(true) {
            gossip.come_back(at, now);
            self.gossip_wake.notify_one();
        }
        true
    }
}
