//! How a node stops, or is drained, in three steps that each end on all shards before the next begins:
//! clients are sent away, what others have to know is kept, memtables are flushed
//! (`StorageService.drain`).

use std::rc::Rc;
use std::time::Duration;

use crate::hints;
use crate::indexes;
use crate::peers::LEADING_SHARD;
use crate::shard::Shard;

/// How long the clients of a node that stops may take to finish.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// Tells the other nodes that this one goes, takes no more requests, and finishes those under way.
pub(crate) async fn stop_clients(shard: &Rc<Shard>) -> Result<(), String> {
    if let Some(service) = shard.cluster_service() {
        service.say_farewell().await;
    }
    shard.stopping.set(true);
    shard.clients.end_all();
    let gone = async {
        while shard.clients.len() > 0 {
            shard.clients.left.notified().await;
        }
    };
    // Those that do not close their side are cut off when the shard ends.
    let _ = shard.env.timeout(LAST_REQUESTS, gone).await;
    Ok(())
}

/// Writes down what replicas missed, and takes no part in decisions any more: they change tables.
pub(crate) async fn settle(shard: &Rc<Shard>) -> Result<(), String> {
    let kept = hints::close(shard).await;
    if shard.index() == LEADING_SHARD
        && let Err(error) = indexes::forget(shard).await
    {
        tracing::warn!("what is noted of built indexes stays: {error}");
    }
    if let Some(service) = shard.cluster_service() {
        service.stop().await;
    }
    kept
}

/// Flushes everything; nothing is written from then on.
pub(crate) async fn flush(shard: &Rc<Shard>) -> Result<(), String> {
    let drained = shard.store.drain().await;
    drained.map_err(|error| error.to_string())
}
