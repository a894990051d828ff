//! What a node tells of itself to those who operate another one: nobody decides on it, and nobody keeps it.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use storage::StoreStats;
use uuid::Uuid;

use crate::message::{ShardReply, ShardRequest};
use crate::shard::Shard;
use crate::virtual_tables::Asked;

/// A node at one moment, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Bytes of its sstables. One that several shards have a part of counts with each of them, until it is
    /// compacted.
    pub load: u64,
    /// The version of the schema that it serves.
    pub schema_version: Uuid,
    /// Seconds since 1970 of its start.
    pub generation: i32,
    /// Does it take clients?
    pub serves_clients: bool,
}

/// What this node tells. On shard 0.
///
/// # Errors
/// It is about to end; in words.
pub(crate) async fn own(shard: &Rc<Shard>) -> Result<NodeReport, String> {
    let stores = stores(shard).await?;
    let tables = stores.iter().flat_map(|store| &store.tables);
    Ok(NodeReport {
        load: tables.map(|table| table.sstable_bytes).sum(),
        schema_version: shard.metadata().schema.version,
        generation: shard.local().gossip_generation,
        serves_clients: serves_clients(shard),
    })
}

/// What all shards have. On shard 0.
///
/// # Errors
/// The node is about to end; in words.
pub(crate) async fn stores(shard: &Rc<Shard>) -> Result<Vec<StoreStats>, String> {
    let mut stores = vec![shard.store.stats()];
    for other in shard.others() {
        match shard
            .ask(other, ShardRequest::Inform(Asked::default()))
            .await
        {
            Ok(ShardReply::Information(information)) => stores.push(information.store),
            Ok(_) => return Err("an answer to another question".to_owned()),
            Err(gone) => return Err(gone.to_string()),
        }
    }
    Ok(stores)
}

/// Does the node take clients? On shard 0.
pub(crate) fn serves_clients(shard: &Shard) -> bool {
    !shard.stopping.get() && shard.client_ports.are_open()
}
