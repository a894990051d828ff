//! What operators do with hints.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use uuid::Uuid;

use super::{Admin, AdminError};
use crate::hints::{self, PendingHints};
use crate::shard::Shard;

impl Admin {
    /// Are hints kept for nodes that are down?
    pub fn hints_enabled(&self) -> Result<bool, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.hints.is_enabled())
    }

    /// Keeps hints, or none, until the next start.
    pub fn enable_hints(&self, enabled: bool) -> Result<(), AdminError> {
        let enable = move |shard: Rc<Shard>| async move { shard.hints.enable(enabled) };
        self.everywhere(enable).map(drop)
    }

    /// Delivers no hints, or does again, until the next start.
    pub fn pause_hints(&self, paused: bool) -> Result<(), AdminError> {
        let pause = move |shard: Rc<Shard>| async move { shard.hints.pause(paused) };
        self.everywhere(pause).map(drop)
    }

    /// After how long nothing more is kept for a node that is down.
    pub fn hint_window(&self) -> Result<Duration, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.hints.window())
    }

    /// Sets [`Admin::hint_window`] until the next start.
    pub fn set_hint_window(&self, window: Duration) -> Result<(), AdminError> {
        let set = move |shard: Rc<Shard>| async move { shard.hints.set_window(window) };
        self.everywhere(set).map(drop)
    }

    /// The hints that wait for each node, on all shards together.
    pub fn pending_hints(&self) -> Result<Vec<PendingHints>, AdminError> {
        let look = |shard: Rc<Shard>| async move { hints::pending(&shard).await };
        let parts = self.try_everywhere(look)?;
        Ok(together(parts.into_iter().flatten()))
    }

    /// Forgets all hints for the node at an address, or for all nodes.
    pub fn truncate_hints(&self, address: Option<IpAddr>) -> Result<(), AdminError> {
        let host_id = match address {
            Some(address) => Some(self.host_at(address)?),
            None => None,
        };
        let forget = move |shard: Rc<Shard>| async move { hints::truncate(&shard, host_id).await };
        self.try_everywhere(forget).map(drop)
    }

    fn host_at(&self, address: IpAddr) -> Result<Uuid, AdminError> {
        let found = self.lead(async move |shard: Rc<Shard>| {
            let metadata = shard.metadata();
            let membership = metadata.membership()?;
            let members = membership.cluster.topology().members();
            let mut nodes = members.values().map(|member| &member.node);
            let node = nodes.find(|node| node.address.ip() == address)?;
            Some(node.host_id)
        })?;
        let port = self.lead(async |shard: Rc<Shard>| shard.state.config.storage_port)?;
        let place = SocketAddr::new(address, port);
        let unknown =
            || AdminError::Refused(format!("Can't delete hints for unknown address /{place}"));
        found.ok_or_else(unknown)
    }
}

/// What several shards have, by node.
fn together(parts: impl Iterator<Item = PendingHints>) -> Vec<PendingHints> {
    let mut nodes: BTreeMap<Uuid, PendingHints> = BTreeMap::new();
    for part in parts {
        match nodes.get_mut(&part.host_id) {
            Some(all) => {
                all.files += part.files;
                all.oldest = all.oldest.min(part.oldest);
                all.newest = all.newest.max(part.newest);
            }
            None => {
                nodes.insert(part.host_id, part);
            }
        }
    }
    nodes.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_of_all_shards_are_told_of_together() {
        let part = |host_id: u128, files, oldest, newest| PendingHints {
            host_id: Uuid::from_u128(host_id),
            files,
            oldest,
            newest,
        };
        let parts = [part(2, 1, 7, 7), part(1, 2, 3, 5), part(2, 3, 6, 9)];
        assert_eq!(
            together(parts.into_iter()),
            [part(1, 2, 3, 5), part(2, 4, 6, 9)]
        );
    }
}
