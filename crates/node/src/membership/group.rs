//! This node's part in the group that decides on metadata: it starts, proposes, and is started anew
//! when its drive failed.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{EntryRefused, MetadataEntry, NodeId};
use io::Env;
use openraft::errors::{ClientWriteError, InitializeError, RaftError};
use openraft::{Config, Raft, RaftMetrics, ReadPolicy, SnapshotPolicy};

use super::follower::Follower;
use crate::config::MetadataConfig;
use crate::raft::{self, Dialer, Log, Machine, Member, Metadata, node_id, open, raft_id, within};
use crate::start::StartError;

/// How often who leads says so, and after how long without a word another one is chosen, in
/// milliseconds. A new leader is rare; one that is chosen because of a busy moment is a nuisance.
const HEARTBEAT: u64 = 250;
const ELECTION: (u64, u64) = (1000, 2000);
/// Messages within openraft that may wait.
const CHANNEL: u64 = 512;

/// Raft over the cluster's metadata.
pub(super) type RaftOfMetadata = Raft<Metadata, Machine<Follower>>;

/// What Raft tells of itself.
pub(super) type MetricsOfMetadata = RaftMetrics<Metadata>;

/// This node as a member of the group.
#[derive(Clone)]
pub(super) struct Group {
    env: Env,
    raft: RaftOfMetadata,
    machine: Machine<Follower>,
    log: Log,
}

/// What became of an entry that was proposed here.
pub(super) enum Proposed {
    /// It was decided, as this epoch; and was it taken?
    Decided(u64, Result<(), EntryRefused>),
    /// This member does not lead; who does, if that is known. Nobody knows what becomes of the entry
    /// if it led a moment ago.
    NotLeader(Option<NodeId>),
}

impl Group {
    /// Takes part as the member `own`, with what the drive has.
    pub(super) async fn start(
        env: &Env,
        folder: &std::path::Path,
        own: NodeId,
        follower: Follower,
        dialer: Dialer,
        settings: MetadataConfig,
    ) -> Result<Group, StartError> {
        let (log, machine) = open(env, folder, follower).await?;
        let config = Config {
            cluster_name: "metadata".to_owned(),
            heartbeat_interval: HEARTBEAT,
            election_timeout_min: ELECTION.0,
            election_timeout_max: ELECTION.1,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_after),
            max_in_snapshot_log_to_keep: settings.kept,
            api_channel_size: Some(CHANNEL),
            notification_channel_size: Some(CHANNEL),
            state_machine_channel_size: Some(CHANNEL),
            ..raft::config()
        };
        let config = config.validate().map_err(|error| failed(&error))?;
        let starting = Raft::new(
            raft_id(own),
            Arc::new(config),
            dialer,
            log.clone(),
            machine.clone(),
        );
        let raft = within(env, starting)
            .await
            .map_err(|error| failed(&error))?;
        Ok(Group {
            env: env.clone(),
            raft,
            machine,
            log,
        })
    }

    /// Has this member ever been one of a group?
    pub(super) async fn is_initialized(&self) -> Result<bool, StartError> {
        let asked = within(&self.env, self.raft.is_initialized()).await;
        asked.map_err(|error| failed(&error))
    }

    /// Begins a group of this member alone.
    pub(super) async fn begin(&self, own: NodeId, member: Member) -> Result<(), StartError> {
        let members = std::collections::BTreeMap::from([(raft_id(own), member)]);
        match within(&self.env, self.raft.initialize(members)).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// If this member is alone in the group it need not wait whether another one leads.
    pub(super) async fn lead_if_alone(&self) {
        let electing = async {
            let voters: Vec<u64> = self.raft.voter_ids().collect();
            if voters == [*self.raft.node_id()] && !self.raft.is_leader() {
                // If it does not work, the group's own time does.
                let _ = self.raft.trigger().elect(false).await;
            }
        };
        within(&self.env, electing).await;
    }

    /// What has been decided, as far as it is known here.
    pub(super) fn metadata(&self) -> Rc<cluster::ClusterMetadata> {
        self.machine.metadata()
    }

    /// Raft itself. To be called [`within`] the shard.
    pub(super) fn raft(&self) -> &RaftOfMetadata {
        &self.raft
    }

    /// The shard.
    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// Who leads, if that is known.
    pub(super) async fn leader(&self) -> Option<NodeId> {
        within(&self.env, self.raft.current_leader())
            .await
            .and_then(node_id)
    }

    /// Who votes, as far as it is known here.
    pub(super) async fn voters(&self) -> BTreeSet<NodeId> {
        let asking = async { self.raft.voter_ids().filter_map(node_id).collect() };
        within(&self.env, asking).await
    }

    /// Has an entry decided, if this member leads. Waits as long as that takes.
    ///
    /// # Errors
    /// This member does not take part any more; in words.
    pub(super) async fn propose(&self, entry: MetadataEntry) -> Result<Proposed, String> {
        match within(&self.env, self.raft.client_write(entry)).await {
            Ok(written) => {
                let answer = written.data;
                Ok(Proposed::Decided(answer.epoch, answer.result))
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Ok(Proposed::NotLeader(to.leader_id.and_then(node_id)))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The epoch that has all that is decided by now; `None` if this member does not lead.
    pub(super) async fn decided(&self) -> Option<u64> {
        let reading = async {
            let read = self
                .raft
                .get_read_linearizer(ReadPolicy::ReadIndex)
                .await
                .ok()?;
            Some(read.read_log_id().log_id().index)
        };
        within(&self.env, reading).await
    }

    /// Waits until entry `epoch` has been applied here, be it an entry of metadata or not.
    pub(super) async fn reach(&self, epoch: u64) {
        let waiting = async {
            let wait = self.raft.wait(None);
            let _ = wait.applied_index_at_least(Some(epoch), "an epoch").await;
        };
        within(&self.env, waiting).await;
    }

    /// Takes no part any more. Its files may be opened again then.
    pub(super) async fn stop(&self) {
        // If it does not stop it has stopped.
        let _ = within(&self.env, self.raft.shutdown()).await;
        self.log.close().await;
        self.machine.close().await;
    }

    /// Waits until the group does not work here any more; why.
    pub(super) async fn failed(&self) -> String {
        let watching = async {
            let mut metrics = self.raft.metrics();
            loop {
                let state = openraft::async_runtime::WatchReceiver::borrow_watched(&metrics)
                    .running_state
                    .clone();
                if let Err(fatal) = state {
                    return fatal.to_string();
                }
                let changed = openraft::async_runtime::WatchReceiver::changed(&mut metrics).await;
                if changed.is_err() {
                    return "it has ended".to_owned();
                }
            }
        };
        within(&self.env, watching).await
    }
}

/// How long to wait before a group whose drive failed is started anew.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

fn failed(error: &dyn std::fmt::Display) -> StartError {
    StartError::Metadata(error.to_string())
}
