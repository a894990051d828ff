//! Closing the node to clients for a while, and what they asked for.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{Admin, AdminError, refuse_to_start};
use crate::listener;
use crate::metrics::ShardMetrics;
use crate::shard::Shard;

/// How long clients may take to finish before their connections are left to themselves.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

impl Admin {
    /// Closes the ports of clients and ends their connections, once what is under way is finished. The node
    /// stays what it is in the cluster, and has the writes of others. It holds until
    /// [`Admin::enable_clients`], or the next start.
    pub fn disable_clients(&self) -> Result<(), AdminError> {
        let _changing = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        self.lead(async |shard: Rc<Shard>| shard.client_ports.close())?;
        let sent_away = self.everywhere(async |shard: Rc<Shard>| {
            shard.clients.refuse();
            let gone = async {
                while shard.clients.len() > 0 {
                    shard.clients.left.notified().await;
                }
            };
            // Those that do not close their side are read from no more.
            let _ = shard.env.timeout(LAST_REQUESTS, gone).await;
        });
        sent_away.map(drop)
    }

    /// Opens the ports of clients, if they are not open.
    pub fn enable_clients(&self) -> Result<(), AdminError> {
        let _changing = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = self.everywhere(async |shard: Rc<Shard>| {
            shard.clients.admit();
            refuse_to_start("native transport", &shard)
        })?;
        admitted.into_iter().collect::<Result<(), AdminError>>()?;
        let opened = self.lead(async |shard: Rc<Shard>| {
            let opened = listener::open_again(&shard).await;
            opened.map_err(|error| AdminError::Failed(error.to_string()))
        })?;
        opened.map(drop)
    }

    /// What each shard counts of requests.
    pub fn requests(&self) -> Result<Vec<Arc<ShardMetrics>>, AdminError> {
        self.everywhere(async |shard: Rc<Shard>| shard.metrics.clone())
    }

    /// What this node asked others: how many messages wait to be sent, and how many were answered or given
    /// up, along all connections that there are.
    pub fn messages(&self) -> Result<(u64, u64), AdminError> {
        let counts = self.everywhere(async |shard: Rc<Shard>| shard.peers.messages())?;
        let add = |(a, b): (u64, u64), (c, d): (u64, u64)| (a + c, b + d);
        Ok(counts.into_iter().fold((0, 0), add))
    }
}
