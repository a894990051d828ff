//! Delivering hints to a node that is up again.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use io::TaskGroup;
use model::record::message::{MessageError, decode_mutation};
use model::{Mutation, PartitionUpdate};
use uuid::Uuid;

use super::records::{self, Hint};
use crate::coordinator;
use crate::flaw::Flaw;
use crate::shard::Shard;

/// How often to look who is up.
const LOOK: Duration = Duration::from_secs(1);
/// How long a node rests that did not take a hint.
const REST: Duration = Duration::from_secs(10);
/// How many hints are on their way to a node at once: it has just come back.
const AT_ONCE: usize = 32;
/// How long one may take.
const TIME: Duration = Duration::from_secs(10);

/// Delivers for as long as the shard lives.
pub(super) async fn run(shard: Rc<Shard>) {
    loop {
        shard.env.sleep(LOOK).await;
        for (host_id, node) in due(&shard) {
            shard.hints.delivering.borrow_mut().insert(host_id);
            let shard = shard.clone();
            let env = shard.env.clone();
            let delivering = async move {
                if !deliver(&shard, host_id, node).await {
                    shard.env.sleep(REST).await;
                }
                shard.hints.delivering.borrow_mut().remove(&host_id);
            };
            env.spawn(TaskGroup::Maintenance, delivering).detach();
        }
    }
}

/// The nodes that are up and for which there are hints. This node is one where its own drive was late for a
/// write that others have: it is no peer, and up as long as it can ask.
fn due(shard: &Shard) -> Vec<(Uuid, NodeId)> {
    let metadata = shard.metadata();
    let Some(membership) = metadata.membership() else {
        return Vec::new();
    };
    if shard.hints.rests() {
        return Vec::new();
    }
    let topology = membership.cluster.topology();
    let files = shard.hints.files.borrow();
    let delivering = shard.hints.delivering.borrow();
    let nodes = files.keys().filter(|host_id| !delivering.contains(host_id));
    let nodes = nodes.filter_map(|host_id| Some((*host_id, topology.id_of(*host_id)?)));
    let is_up = |node: NodeId| node == metadata.own() || shard.peers.is_up(node);
    nodes.filter(|(_, node)| is_up(*node)).collect()
}

/// Delivers all files for a node. Has it taken them?
async fn deliver(shard: &Rc<Shard>, host_id: Uuid, node: NodeId) -> bool {
    // What comes meanwhile goes into another file.
    let files = {
        let _turn = shard.hints.turn.0.acquire(1).await;
        shard.hints.open.borrow_mut().remove(&host_id);
        shard.hints.files.borrow().get(&host_id).cloned()
    };
    let mut delivered = 0;
    for path in files.unwrap_or_default() {
        match deliver_file(shard, host_id, node, &path).await {
            Some(count) => delivered += count,
            None => return false,
        }
        forget(shard, host_id, &path).await;
    }
    if delivered > 0 {
        tracing::info!("{delivered} hints were delivered to {host_id}");
    }
    true
}

/// A file is none of those that are to be delivered any more.
fn leave_out(shard: &Shard, host_id: Uuid, path: &Path) {
    let mut files = shard.hints.files.borrow_mut();
    if let Some(of_node) = files.get_mut(&host_id) {
        of_node.remove(path);
        if of_node.is_empty() {
            files.remove(&host_id);
        }
    }
}

async fn forget(shard: &Shard, host_id: Uuid, path: &Path) {
    leave_out(shard, host_id, path);
    if let Err(error) = shard.env.remove_file_if_there(path).await {
        // It is delivered again after the next start, which changes nothing.
        tracing::warn!("{} cannot be removed: {error}", path.display());
    }
}

/// Delivers a file; how many hints it had, `None` if the node has not taken all of them.
async fn deliver_file(
    shard: &Rc<Shard>,
    host_id: Uuid,
    node: NodeId,
    path: &Path,
) -> Option<usize> {
    let mut file = match shard.env.read_file(path).await {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) => {
            tracing::error!("hints of {}: {error}", path.display());
            return None;
        }
    };
    if records::read_head(&mut file) != Some(host_id) {
        tracing::error!(
            "{} has no hints for {host_id}: it is left alone",
            path.display()
        );
        leave_out(shard, host_id, path);
        return None;
    }
    let mut delivered = 0;
    loop {
        let hints: Vec<Hint> = std::iter::from_fn(|| records::next_hint(&mut file))
            .take(AT_ONCE)
            .collect();
        if hints.is_empty() {
            break;
        }
        delivered += hints.len();
        let sent: Vec<_> = hints
            .into_iter()
            .filter_map(|hint| {
                let written_at = hint.made_at.saturating_mul(1000);
                Some((deliverable(shard, hint)?, written_at))
            })
            .map(|write| {
                let shard = shard.clone();
                let env = shard.env.clone();
                let sending = async move { coordinator::deliver(&shard, node, write, TIME).await };
                env.spawn(TaskGroup::Maintenance, sending)
            })
            .collect();
        let mut all = true;
        for sent in sent {
            all &= sent.await;
        }
        let all = all || shard.state.flaw == Flaw::HintsForget;
        if !all || shard.hints.rests() {
            return None;
        }
    }
    if !file.is_empty() {
        tracing::debug!("{} ends in the middle of a hint", path.display());
    }
    Some(delivered)
}

/// What of a hint is still to be said; `None` if nothing is: its tables are gone, were truncated since,
/// or may have forgotten deletions of what it says.
fn deliverable(shard: &Shard, hint: Hint) -> Option<Mutation> {
    let schema = shard.metadata().schema.clone();
    let decoded = decode_mutation(hint.mutation, |id| schema.table_by_id(id).cloned());
    let mut mutation = match decoded {
        Ok(mutation) => mutation,
        Err(MessageError::UnknownTable(_)) => return None,
        Err(error) => {
            tracing::error!("a hint that cannot be read: {error}");
            return None;
        }
    };
    let age = shard.env.wall_micros() / 1000 - hint.made_at;
    let stays = |seconds: i64| age < seconds.saturating_mul(1000);
    let graces = |update: &PartitionUpdate| i64::from(update.table.options.gc_grace_seconds);
    mutation.updates.retain(|update| stays(graces(update)));
    let written_at = hint.made_at.saturating_mul(1000);
    let is_left = shard.truncations.retain(&mut mutation, written_at);
    is_left.then_some(mutation)
}
