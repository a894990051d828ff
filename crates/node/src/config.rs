//! What a node is told before it starts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use io::DriverChoice;

use crate::internode::Encryption;

/// Everything a node needs to know. The server makes it from the command line, the configuration
/// file and what it sees of the machine.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where everything is kept. Only this process has it open: the caller sees to that.
    pub data: PathBuf,
    /// The folder of the keyspaces with their sstables.
    pub sstables: PathBuf,
    /// The folder of the commit log.
    pub commitlog_dir: PathBuf,
    /// The address clients connect to.
    pub address: IpAddr,
    /// The port of the native protocol.
    pub port: u16,
    /// The port on which a client chooses its shard by its own port; `None`: there is none.
    pub shard_aware_port: Option<u16>,
    /// How many shards: one a core.
    pub shards: u16,
    /// The CPU that each shard is pinned to; those beyond the list float.
    pub cpus: Vec<usize>,
    /// How shards reach the kernel.
    pub driver: DriverChoice,
    /// What all shards together may use, in bytes.
    pub memory: u64,
    /// The format of the sstables that are written.
    pub sstable_format: storage::sstable::Format,
    /// How the commit log is kept; its `total_bytes` are a shard's share of
    /// [`NodeConfig::commitlog_total_space`].
    pub commitlog: storage::CommitLogConfig,
    /// Bytes that the commit logs of all shards may take; `None`: by the free space of the drive.
    pub commitlog_total_space: Option<u64>,
    /// Are full segments of the commit log copied elsewhere before they go?
    pub archives: bool,
    /// What a drive that fails does to the node.
    pub failure_policies: storage::FailurePolicies,
    /// Is a table kept as a snapshot before it is truncated or dropped?
    pub auto_snapshot: bool,
    /// How long a user-defined function may run; `None`: there are none.
    pub user_functions: Option<Duration>,
    /// May materialized views be made?
    pub materialized_views: bool,
    /// May SASI indexes be made (`sasi_indexes_enabled`)?
    pub sasi_indexes: bool,
    /// May columns be given masks (`dynamic_data_masking_enabled`)?
    pub dynamic_data_masking: bool,
    /// Are new sstables linked into the backups from the start on?
    pub incremental_backups: bool,
    /// Where batches are warned about and refused.
    pub batch_limits: cql::BatchLimits,
    /// What clients may do; `None`: whatever they can.
    pub guardrails: Option<Arc<cql::guardrails::Guardrails>>,
    /// How many tombstones a read may meet.
    pub tombstones: TombstoneLimits,
    /// The name of the cluster; `None`: the one it had before.
    pub cluster_name: Option<String>,
    /// The data centre this node is in; `None`: the one it was in before.
    pub data_center: Option<String>,
    /// The rack this node is in; `None`: the one it was in before.
    pub rack: Option<String>,
    /// The port of other nodes.
    pub storage_port: u16,
    /// Where to ask for a cluster, before the node is one of one; itself may be among them. None: it
    /// begins one.
    pub seeds: Vec<SocketAddr>,
    /// Which connections to and from other nodes are under TLS; `None`: none are. Whoever made it replaces
    /// the certificates in it.
    pub encryption: Option<Arc<Encryption>>,
    /// How many tokens a new node takes.
    pub num_tokens: u16,
    /// How the group is kept that decides on the cluster's metadata.
    pub metadata: MetadataConfig,
}

/// How many tombstones a read of one page may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// With more the client is warned (`tombstone_warn_threshold`).
    pub warn: u64,
    /// With more the read fails (`tombstone_failure_threshold`).
    pub fail: u64,
}

impl Default for TombstoneLimits {
    /// Those of `cassandra.yaml`.
    fn default() -> TombstoneLimits {
        TombstoneLimits {
            warn: 1_000,
            fail: 100_000,
        }
    }
}

/// How the group is kept that decides on the cluster's metadata.
#[derive(Clone, Copy, Debug)]
pub struct MetadataConfig {
    /// After how many entries of its log a snapshot is made.
    pub snapshot_after: u64,
    /// How many of the entries in a snapshot stay in the log, for members that are a little behind: who is
    /// further behind gets the snapshot.
    pub kept: u64,
    /// For how long a member that votes may be silent before another one votes in its place.
    pub voter_silence: Duration,
}

impl Default for MetadataConfig {
    /// A node is back after an update and a start of its machine within five minutes, and a second one that
    /// fails in the meantime is rare (CockroachDB, too, gives a node as long: `server.time_until_store_dead`).
    fn default() -> MetadataConfig {
        MetadataConfig {
            snapshot_after: 1000,
            kept: 200,
            voter_silence: Duration::from_secs(5 * 60),
        }
    }
}
