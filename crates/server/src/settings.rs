//! What a start is made of: the options given, and for those not given what the machine and the
//! field's habits suggest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cql::BatchLimits;
use cql::guardrails::{Guardrails, ThresholdsCross};
use io::DriverChoice;
use node::TombstoneLimits;
use storage::sstable::Format;
use storage::{CommitLogConfig, CommitlogSync, FailurePolicies};

use crate::encryption::EncryptionOptions;
use crate::machine::Machine;
use crate::options::{AccessMode, Seeds, StartOptions, SyncMode};
use crate::size;

/// How long a user-defined function may run, as in Cassandra.
const DEFAULT_FUNCTION_TIMEOUT: Duration = Duration::from_millis(1500);
/// Less memory than this does not carry a shard, in bytes.
const MIN_MEMORY_PER_SHARD: u64 = 32 << 20;

/// Everything a start needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The folder that everything is kept in.
    pub(crate) data: PathBuf,
    /// The address clients connect to.
    pub(crate) address: IpAddr,
    /// The port of CQL.
    pub(crate) port: u16,
    /// The port where drivers choose their shard.
    pub(crate) shard_aware_port: Option<u16>,
    /// The port of other nodes.
    pub(crate) storage_port: u16,
    /// Where to ask for a cluster.
    pub(crate) seeds: Vec<SocketAddr>,
    /// The port of HTTP.
    pub(crate) metrics_port: Option<u16>,
    /// Where the REST API listens.
    pub(crate) api: Option<SocketAddr>,
    /// How many shards.
    pub(crate) shards: u16,
    /// What all of them may use, in bytes.
    pub(crate) memory: u64,
    /// The format of new sstables.
    pub(crate) sstable_format: Format,
    /// How the commit log is kept.
    pub(crate) commitlog: CommitLogConfig,
    /// What the commit log of all shards may take, in bytes.
    pub(crate) commitlog_total_space: Option<u64>,
    /// The file that says how segments are archived.
    pub(crate) commitlog_archiving: Option<PathBuf>,
    /// What a drive that fails does.
    pub(crate) failure_policies: FailurePolicies,
    /// Is a table kept as a snapshot before it is truncated or dropped?
    pub(crate) auto_snapshot: bool,
    /// How long a user-defined function may run; `None`: they are switched off.
    pub(crate) user_functions: Option<Duration>,
    /// May materialized views be made?
    pub(crate) materialized_views: bool,
    /// May SASI indexes be made?
    pub(crate) sasi_indexes: bool,
    /// May columns be given masks?
    pub(crate) dynamic_data_masking: bool,
    /// Are new sstables linked into the backups from the start on?
    pub(crate) incremental_backups: bool,
    /// Where batches are warned about and refused.
    pub(crate) batch_limits: BatchLimits,
    /// What clients may do, if anything is said of it.
    pub(crate) guardrails: Option<Arc<Guardrails>>,
    /// How many tombstones a read may meet.
    pub(crate) tombstones: TombstoneLimits,
    /// How to talk to the kernel.
    pub(crate) driver: DriverChoice,
    /// The name of the cluster.
    pub(crate) cluster_name: Option<String>,
    /// The data centre of this node.
    pub(crate) data_center: Option<String>,
    /// The rack of this node.
    pub(crate) rack: Option<String>,
    /// TLS between nodes.
    pub(crate) encryption: EncryptionOptions,
}

/// Why options do not fit together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// So many shards need more memory.
    #[error(
        "{have} of memory are too little for {shards} shards, which need {need}: give more with \
         --memory, or ask for fewer --shards"
    )]
    TooLittleMemory {
        /// What there is.
        have: String,
        /// How many shards.
        shards: u16,
        /// What they need.
        need: String,
    },
    /// A seed has no address.
    #[error("--seeds: {host} has no address: {source}")]
    UnknownSeed {
        /// Its name.
        host: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A guardrail would never warn.
    #[error(transparent)]
    Guardrails(#[from] ThresholdsCross),
    /// Two services want the same port.
    #[error("--{first} and --{second} are both {port}")]
    SamePort {
        /// One option.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The port.
        port: u16,
    },
}

impl Settings {
    /// Fills in what was not given.
    pub(crate) fn resolve(
        options: StartOptions,
        machine: Machine,
    ) -> Result<Settings, SettingsError> {
        let port = |given: Option<u16>, usual: u16| match given.unwrap_or(usual) {
            0 => None,
            port => Some(port),
        };
        let address = options.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        // Whoever reaches the API can operate the node: nobody from outside, unless it is said.
        let near = match address.is_loopback() {
            true => address,
            false => Ipv4Addr::LOCALHOST.into(),
        };
        let api_address = options.api_address.unwrap_or(near);
        let api = port(options.api_port, 10000).map(|port| SocketAddr::new(api_address, port));
        let commitlog = commitlog(&options);
        let storage_port = options.storage_port.unwrap_or(7000);
        let usual = BatchLimits::default();
        let batch_limits = BatchLimits {
            warn_bytes: options
                .batch_size_warn_threshold
                .unwrap_or(usual.warn_bytes),
            fail_bytes: options
                .batch_size_fail_threshold
                .unwrap_or(usual.fail_bytes),
            unlogged_partitions: options
                .unlogged_batch_across_partitions_warn_threshold
                .unwrap_or(usual.unlogged_partitions),
        };
        let tombstones = TombstoneLimits::default();
        let settings = Settings {
            data: options.data.unwrap_or_else(|| PathBuf::from("./data")),
            address,
            port: options.port.unwrap_or(9042),
            shard_aware_port: port(options.shard_aware_port, 19042),
            storage_port,
            seeds: resolve_seeds(options.seeds.unwrap_or_default(), storage_port)?,
            metrics_port: port(options.metrics_port, 9180),
            api,
            shards: options.shards.unwrap_or(machine.cores.clamp(1, 1024)),
            memory: options.memory.unwrap_or(machine.memory / 4 * 3),
            sstable_format: options.sstable_format.unwrap_or(Format::Big),
            commitlog,
            commitlog_total_space: options.commitlog_total_space,
            commitlog_archiving: options.commitlog_archiving,
            failure_policies: FailurePolicies {
                commit: options.commit_failure_policy.unwrap_or_default(),
                disk: options.disk_failure_policy.unwrap_or_default(),
            },
            auto_snapshot: options.auto_snapshot.unwrap_or(true),
            user_functions: options
                .user_defined_functions_enabled
                .unwrap_or(false)
                .then(|| {
                    let timeout = options.user_defined_functions_fail_timeout;
                    timeout.unwrap_or(DEFAULT_FUNCTION_TIMEOUT)
                }),
            materialized_views: options.materialized_views_enabled.unwrap_or(false),
            sasi_indexes: options.sasi_indexes_enabled.unwrap_or(false),
            dynamic_data_masking: options.dynamic_data_masking_enabled.unwrap_or(false),
            incremental_backups: options.incremental_backups.unwrap_or(false),
            batch_limits,
            guardrails: (options.guardrails.is_set()).then(|| Arc::new(options.guardrails)),
            tombstones: TombstoneLimits {
                warn: options.tombstone_warn_threshold.unwrap_or(tombstones.warn),
                fail: options
                    .tombstone_failure_threshold
                    .unwrap_or(tombstones.fail),
            },
            driver: options.driver.unwrap_or(DriverChoice::Auto),
            cluster_name: options.cluster_name,
            data_center: options.data_center,
            rack: options.rack,
            encryption: options.server_encryption_options.unwrap_or_default(),
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        self.guardrails
            .as_ref()
            .map_or(Ok(()), |guardrails| guardrails.check())?;
        let need = MIN_MEMORY_PER_SHARD * u64::from(self.shards);
        if self.memory < need {
            return Err(SettingsError::TooLittleMemory {
                have: size::display(self.memory),
                shards: self.shards,
                need: size::display(need),
            });
        }
        let ports = [
            ("port", Some(self.port)),
            ("shard-aware-port", self.shard_aware_port),
            ("storage-port", Some(self.storage_port)),
            ("metrics-port", self.metrics_port),
            (
                "api-port",
                self.api
                    .filter(|api| api.ip() == self.address)
                    .map(|api| api.port()),
            ),
        ];
        for (at, (first, port)) in ports.iter().enumerate() {
            let same = |(_, other): &&(&str, Option<u16>)| other.is_some() && other == port;
            let Some((second, Some(port))) = ports[at + 1..].iter().find(same) else {
                continue;
            };
            return Err(SettingsError::SamePort {
                first,
                second,
                port: *port,
            });
        }
        Ok(())
    }

    /// Where clients connect.
    pub(crate) fn cql(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// The addresses of seeds. A name with several is taken to be several seeds.
fn resolve_seeds(seeds: Seeds, usual_port: u16) -> Result<Vec<SocketAddr>, SettingsError> {
    let mut addresses = Vec::new();
    for (host, port) in seeds.0 {
        let found = (host.as_str(), port.unwrap_or(usual_port)).to_socket_addrs();
        let found = found.map_err(|source| SettingsError::UnknownSeed { host, source })?;
        addresses.extend(found);
    }
    Ok(addresses)
}

/// The commit log that options ask for, with Cassandra's defaults but for the mode.
fn commitlog(options: &StartOptions) -> CommitLogConfig {
    let every = options.commitlog_sync_period;
    let every = every.unwrap_or(Duration::from_secs(10));
    let lag_block = options.periodic_commitlog_sync_lag_block;
    let defaults = CommitLogConfig::default();
    let mode = options.commitlog_sync.unwrap_or(SyncMode::Group);
    CommitLogConfig {
        sync: match mode {
            SyncMode::Group => CommitlogSync::Group,
            SyncMode::Batch => CommitlogSync::Batch,
            SyncMode::Periodic => CommitlogSync::Periodic {
                every,
                lag_block: lag_block.unwrap_or(every * 3 / 2),
            },
        },
        group_window: options.commitlog_sync_group_window.unwrap_or_default(),
        segment_bytes: options
            .commitlog_segment_size
            .unwrap_or(defaults.segment_bytes),
        ignore_replay_errors: options.commitlog_ignore_replay_errors.unwrap_or_default(),
        direct: match options.commitlog_disk_access_mode {
            None | Some(AccessMode::Auto) => mode != SyncMode::Periodic,
            Some(access) => access == AccessMode::Direct,
        },
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        cores: 4,
        memory: 23 << 30,
    };

    fn resolve(options: &[(&str, &str)]) -> Result<Settings, String> {
        let mut given = StartOptions::default();
        for (name, text) in options {
            given.set(name, text)?;
        }
        Settings::resolve(given, MACHINE).map_err(|error| error.to_string())
    }

    #[test]
    fn the_machine_and_habit_decide_what_is_not_given() {
        let settings = resolve(&[]).expect("nothing is wrong");
        assert_eq!(settings.cql().to_string(), "127.0.0.1:9042");
        assert_eq!(settings.data, PathBuf::from("./data"));
        assert_eq!((settings.shards, settings.memory), (4, (23 << 28) * 3));
        assert_eq!(settings.shard_aware_port, Some(19042));
        assert_eq!(settings.metrics_port, Some(9180));
        assert_eq!(settings.commitlog, CommitLogConfig::default());
        let api = |options: &[(&str, &str)]| {
            let settings = resolve(options).expect("nothing is wrong");
            settings.api.map(|api| api.to_string())
        };
        assert_eq!(api(&[]).as_deref(), Some("127.0.0.1:10000"));
        let near = api(&[("address", "127.1.2.3"), ("api_port", "11")]);
        assert_eq!(near.as_deref(), Some("127.1.2.3:11"));
        let far = api(&[("address", "10.0.0.5")]);
        assert_eq!(far.as_deref(), Some("127.0.0.1:10000"));
        let told = api(&[("api_address", "10.0.0.5")]);
        assert_eq!(told.as_deref(), Some("10.0.0.5:10000"));
        assert_eq!(api(&[("api_port", "0")]), None);
    }

    #[test]
    fn what_is_given_holds() {
        let settings = resolve(&[
            ("shards", "2"),
            ("memory", "1G"),
            ("metrics_port", "0"),
            ("shard_aware_port", "0"),
            ("commitlog_sync", "periodic"),
            ("commitlog_sync_period", "1s"),
        ])
        .expect("nothing is wrong");
        assert_eq!((settings.shards, settings.memory), (2, 1 << 30));
        assert_eq!(
            (settings.metrics_port, settings.shard_aware_port),
            (None, None)
        );
        let every = Duration::from_secs(1);
        let lag_block = Duration::from_millis(1500);
        let periodic = CommitlogSync::Periodic { every, lag_block };
        assert_eq!(settings.commitlog.sync, periodic);
        assert!(
            !settings.commitlog.direct,
            "the system is to have writes at once"
        );
        let direct = resolve(&[
            ("commitlog_sync", "periodic"),
            ("commitlog_disk_access_mode", "direct"),
        ]);
        assert!(direct.expect("nothing is wrong").commitlog.direct);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let error = resolve(&[("shards", "8"), ("memory", "128M")]).expect_err("too little");
        assert!(error.starts_with("128 MiB of memory are too little for 8 shards"));
        assert_eq!(
            resolve(&[("port", "9180")]).expect_err("the same"),
            "--port and --metrics-port are both 9180"
        );
        assert!(resolve(&[("port", "19042"), ("shard_aware_port", "0")]).is_ok());
    }
}
