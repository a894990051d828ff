//! What operators set while the node runs; all of it holds until the next start.

use std::rc::Rc;
use std::time::Duration;

use super::{Admin, AdminError};
use crate::batch_log;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;

impl Admin {
    /// How long something may take.
    pub fn timeout(&self, kind: TimeoutKind) -> Result<Duration, AdminError> {
        self.lead(async move |shard: Rc<Shard>| shard.timeouts.get(kind))
    }

    /// Sets [`Admin::timeout`]. What is under way keeps its time.
    pub fn set_timeout(&self, kind: TimeoutKind, time: Duration) -> Result<(), AdminError> {
        let set = move |shard: Rc<Shard>| async move { shard.timeouts.set(kind, time) };
        self.everywhere(set).map(drop)
    }

    /// The share of requests that are traced without having been asked to, of 1.
    pub fn trace_probability(&self) -> Result<f64, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.trace_probability.get())
    }

    /// Sets [`Admin::trace_probability`].
    ///
    /// # Errors
    /// It is no probability.
    pub fn set_trace_probability(&self, probability: f64) -> Result<(), AdminError> {
        if !(0.0..=1.0).contains(&probability) {
            let message = "Trace probability must be between 0 and 1".to_owned();
            return Err(AdminError::Refused(message));
        }
        let set = move |shard: Rc<Shard>| async move { shard.trace_probability.set(probability) };
        self.everywhere(set).map(drop)
    }

    /// Bytes of logged batches that all nodes together complete in a second; 0: as many as there are.
    pub fn batch_log_throttle(&self) -> Result<u64, AdminError> {
        self.lead(async |shard: Rc<Shard>| shard.batch_log.throttle.get())
    }

    /// Sets [`Admin::batch_log_throttle`] on this node.
    pub fn set_batch_log_throttle(&self, bytes: u64) -> Result<(), AdminError> {
        let set = move |shard: Rc<Shard>| async move { shard.batch_log.throttle.set(bytes) };
        self.everywhere(set).map(drop)
    }

    /// Completes the logged batches that whoever coordinates them sees to no more, without waiting for the
    /// next time (`StorageProxy.forceBatchlogReplay`).
    ///
    /// # Errors
    /// Some are left.
    pub fn replay_batch_log(&self) -> Result<(), AdminError> {
        let replay = |shard: Rc<Shard>| async move { batch_log::replay_old(&shard).await };
        self.try_everywhere(replay).map(drop)
    }

    /// The addresses at which the node asks for a cluster, but its own; in words of `getseeds`.
    pub fn other_seeds(&self) -> Result<Vec<String>, AdminError> {
        self.lead(async |shard: Rc<Shard>| {
            let own = shard.local_if_known().map(|local| local.listen_address);
            let seeds = shard.state.config.seeds.iter();
            let others = seeds.filter(|seed| Some(seed.ip()) != own);
            others.map(ToString::to_string).collect()
        })
    }
}
