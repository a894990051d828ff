//! What the node does with each entry of the metadata log: it has the schema changed, and all shards
//! know the cluster as it is now.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Error, Result as IoResult};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use cluster::{ClusterMetadata, MetadataEntry, NodeId};
use uuid::Uuid;

use super::schema::{self, Decided};
use super::{events, set_everywhere};
use crate::metadata::Membership;
use crate::raft::{Applied, Subscriber};
use crate::shard::Shard;

/// Follows the metadata log on shard 0.
pub(super) struct Follower {
    shard: Weak<Shard>,
    own: NodeId,
    /// The cluster as all shards know it.
    known: RefCell<Option<Arc<ClusterMetadata>>>,
    /// The changes of the schema that this node proposes at this moment: whoever proposes one has
    /// kept what it drops.
    own_changes: Rc<RefCell<BTreeSet<Uuid>>>,
    /// What was decided and is not in force yet.
    decided: RefCell<Decided>,
    /// The metadata with all that was decided, unless all shards have them.
    metadata: RefCell<Option<Rc<ClusterMetadata>>>,
}

impl Follower {
    /// For the node `own`.
    pub(super) fn new(
        shard: &Rc<Shard>,
        own: NodeId,
        own_changes: Rc<RefCell<BTreeSet<Uuid>>>,
    ) -> Follower {
        Follower {
            shard: Rc::downgrade(shard),
            own,
            known: RefCell::default(),
            own_changes,
            decided: RefCell::default(),
            metadata: RefCell::default(),
        }
    }

    fn shard(&self) -> IoResult<Rc<Shard>> {
        let gone = || Error::other("the node is about to end");
        self.shard.upgrade().ok_or_else(gone)
    }

    async fn publish(&self, shard: &Rc<Shard>, metadata: &Rc<ClusterMetadata>) -> IoResult<()> {
        let cluster = Arc::new(ClusterMetadata::clone(metadata));
        let membership = Membership {
            own: self.own,
            cluster: cluster.clone(),
        };
        let set = set_everywhere(shard, &membership).await;
        set.map_err(Error::other)?;
        let before = self.known.replace(Some(cluster.clone()));
        let before = before
            .map(|known| known.topology().clone())
            .unwrap_or_default();
        if before != *cluster.topology() {
            let saved = events::save_peers(shard).await;
            saved.map_err(Error::other)?;
            if shard
                .cluster_service()
                .is_some_and(|service| service.is_live())
            {
                events::tell_of_members(shard, &before, cluster.topology()).await;
            }
        }
        Ok(())
    }
}

impl Subscriber for Follower {
    async fn applied(&self, change: &Applied<'_>) -> IoResult<()> {
        let shard = self.shard()?;
        // A change that was proposed again is made once.
        let is_new = change.metadata.schema_epoch() == change.metadata.epoch();
        if let (MetadataEntry::Schema(entry), Ok(()), true) = (change.entry, change.result, is_new)
        {
            let proposed_here = self.own_changes.borrow().contains(&entry.id);
            if !self.decided.borrow().has_room_for(proposed_here) {
                self.settle().await?;
            }
            let mut decided = self.decided.borrow_mut();
            let added = decided.add(&shard, entry, proposed_here);
            added.map_err(Error::other)?;
        }
        self.metadata.replace(Some(change.metadata.clone()));
        Ok(())
    }

    async fn settle(&self) -> IoResult<()> {
        let shard = self.shard()?;
        let taken = self.decided.take().take(&shard).await;
        taken.map_err(Error::other)?;
        match self.metadata.take() {
            Some(metadata) => self.publish(&shard, &metadata).await,
            None => Ok(()),
        }
    }

    async fn schema_snapshot(&self) -> IoResult<Bytes> {
        schema::snapshot(&self.shard()?).await.map_err(Error::other)
    }

    async fn install_schema(&self, metadata: &Rc<ClusterMetadata>, schema: Bytes) -> IoResult<()> {
        let shard = self.shard()?;
        let installed = schema::install(&shard, schema, metadata.schema_timestamp()).await;
        installed.map_err(Error::other)?;
        self.publish(&shard, metadata).await
    }
}
