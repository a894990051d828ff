//! The options of `helenus start`, from the command line or the configuration file: both give
//! text, and the same functions understand it.

pub(crate) mod values;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cql::guardrails::Guardrails;
use io::DriverChoice;
use storage::sstable::Format;
use storage::{CommitFailurePolicy, DiskFailurePolicy};

use crate::encryption::EncryptionOptions;
use crate::size;

/// The options, by the names they have in a configuration file; on the command line `_` is `-`.
pub(crate) const NAMES: [&str; 39] = [
    "data",
    "address",
    "port",
    "shard_aware_port",
    "storage_port",
    "seeds",
    "metrics_port",
    "api_port",
    "api_address",
    "shards",
    "memory",
    "sstable_format",
    "commitlog_sync",
    "commitlog_sync_period",
    "commitlog_sync_group_window",
    "periodic_commitlog_sync_lag_block",
    "commitlog_segment_size",
    "commitlog_total_space",
    "commitlog_disk_access_mode",
    "commitlog_archiving",
    "commitlog_ignore_replay_errors",
    "commit_failure_policy",
    "disk_failure_policy",
    "auto_snapshot",
    "user_defined_functions_enabled",
    "user_defined_functions_fail_timeout",
    "materialized_views_enabled",
    "sasi_indexes_enabled",
    "dynamic_data_masking_enabled",
    "incremental_backups",
    "batch_size_warn_threshold",
    "batch_size_fail_threshold",
    "unlogged_batch_across_partitions_warn_threshold",
    "tombstone_warn_threshold",
    "tombstone_failure_threshold",
    "driver",
    "cluster_name",
    "data_center",
    "rack",
];

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncMode {
    /// When the drive has it; waiting writes go together.
    Group,
    /// When the operating system has it; the drive has it a little later.
    Periodic,
    /// When the drive has it.
    Batch,
}

/// Does the commit log go through the page cache?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// Where the system is to have a write before the drive.
    Auto,
    /// Not where the file system can do without.
    Direct,
    /// It does.
    Standard,
}

/// What was given; what was not is chosen in `settings`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct StartOptions {
    /// Folder that everything is kept in; made if it does not exist [default: ./data]
    #[arg(long, value_name = "DIR", value_parser = values::path)]
    pub(crate) data: Option<PathBuf>,

    /// Address that clients connect to [default: 127.0.0.1]
    #[arg(long, value_name = "IP", value_parser = values::address)]
    pub(crate) address: Option<IpAddr>,

    /// Port of CQL [default: 9042]
    #[arg(long, value_name = "N", value_parser = values::port)]
    pub(crate) port: Option<u16>,

    /// Port on which shard-aware drivers choose their shard; 0: none [default: 19042]
    #[arg(long, value_name = "N", value_parser = values::port_or_none)]
    pub(crate) shard_aware_port: Option<u16>,

    /// Port on which nodes talk to each other [default: 7000]
    #[arg(long, value_name = "N", value_parser = values::port)]
    pub(crate) storage_port: Option<u16>,

    /// Nodes of the cluster to join, as 10.0.0.5,10.0.0.6 (with :PORT if it is not this node's storage
    /// port); the first of them begins it. Of use at the first start only [default: a cluster of its own]
    #[arg(long, value_name = "HOST[,HOST...]", value_parser = values::seeds)]
    pub(crate) seeds: Option<Seeds>,

    /// Port of HTTP with /metrics, /health and /ready; 0: none [default: 9180]
    #[arg(long, value_name = "N", value_parser = values::port_or_none)]
    pub(crate) metrics_port: Option<u16>,

    /// Port of the REST API that `helenus nodetool` speaks to; 0: none [default: 10000]
    #[arg(long, value_name = "N", value_parser = values::port_or_none)]
    pub(crate) api_port: Option<u16>,

    /// Address of the REST API; who reaches it can drop everything [default: the node's own address
    /// if that is a loopback one, else 127.0.0.1]
    #[arg(long, value_name = "IP", value_parser = values::address)]
    pub(crate) api_address: Option<IpAddr>,

    /// Number of shards [default: the cores it may use, by affinity and cgroup quota]
    #[arg(long, value_name = "N", value_parser = values::shards)]
    pub(crate) shards: Option<u16>,

    /// Memory to use, as 512M or 11.5GiB [default: three quarters of what it may use, by machine and cgroup]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,

    /// Format of the sstables that are written; both can be read, whatever this is [default: big]
    #[arg(long, value_name = "big|bti", value_parser = values::sstable_format)]
    pub(crate) sstable_format: Option<Format>,

    /// When a write is acknowledged: group or batch: when the drive has it; periodic: when the
    /// operating system has it [default: group]
    #[arg(long, value_name = "group|periodic|batch", value_parser = values::sync_mode)]
    pub(crate) commitlog_sync: Option<SyncMode>,

    /// With --commitlog-sync periodic: after how long the drive has a write [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) commitlog_sync_period: Option<Duration>,

    /// With --commitlog-sync group: how long the drive rests between two groups [default: 0ms, which
    /// is fastest: groups grow while the drive is busy]
    #[arg(long, value_name = "TIME", value_parser = values::duration_or_none)]
    pub(crate) commitlog_sync_group_window: Option<Duration>,

    /// With --commitlog-sync periodic: writes wait when the drive is this far behind [default: one
    /// and a half periods]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) periodic_commitlog_sync_lag_block: Option<Duration>,

    /// Size of a file of the commit log; half of it is the largest mutation [default: 32MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::segment_size)]
    pub(crate) commitlog_segment_size: Option<u64>,

    /// What the commit log may take before memtables are flushed to free some [default: a quarter
    /// of the drive's free space, at most 8GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) commitlog_total_space: Option<u64>,

    /// Does the commit log bypass the page cache? direct: where the file system can; auto: as
    /// direct, but not with --commitlog-sync periodic [default: auto]
    #[arg(long, value_name = "auto|direct|standard", value_parser = values::access_mode)]
    pub(crate) commitlog_disk_access_mode: Option<AccessMode>,

    /// Cassandra's commitlog_archiving.properties: commands that copy and bring back segments
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    pub(crate) commitlog_archiving: Option<PathBuf>,

    /// Start although the commit log is damaged, without what cannot be read [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) commitlog_ignore_replay_errors: Option<bool>,

    /// What to do when the commit log's drive fails [default: stop]
    #[arg(long, value_name = "stop|stop_commit|ignore|die", value_parser = values::commit_policy)]
    pub(crate) commit_failure_policy: Option<CommitFailurePolicy>,

    /// What to do when reading or writing sstables fails [default: stop]
    #[arg(
        long,
        value_name = "stop|stop_paranoid|best_effort|ignore|die",
        value_parser = values::disk_policy
    )]
    pub(crate) disk_failure_policy: Option<DiskFailurePolicy>,

    /// Keep a table as a snapshot before it is truncated or dropped [default: true]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) auto_snapshot: Option<bool>,

    /// Can users define functions, in Lua? [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) user_defined_functions_enabled: Option<bool>,

    /// How long a user-defined function may run before it is broken off [default: 1500ms]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) user_defined_functions_fail_timeout: Option<Duration>,

    /// Can materialized views be made? [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) materialized_views_enabled: Option<bool>,

    /// Can SASI indexes, which find texts by LIKE, be made? [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) sasi_indexes_enabled: Option<bool>,

    /// May columns be MASKED WITH a function? [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) dynamic_data_masking_enabled: Option<bool>,

    /// Link new sstables into the folder `backups` of their tables [default: false]
    #[arg(long, value_name = "true|false", value_parser = values::truth)]
    pub(crate) incremental_backups: Option<bool>,

    /// Warn clients of batches of several partitions with more bytes than this [default: 5KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) batch_size_warn_threshold: Option<u64>,

    /// Refuse batches of several partitions with more bytes than this [default: 50KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) batch_size_fail_threshold: Option<u64>,

    /// Warn clients of batches that are not logged with more partitions than this [default: 10]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) unlogged_batch_across_partitions_warn_threshold: Option<u64>,

    /// Warn clients of reads that meet more tombstones than this [default: 1000]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) tombstone_warn_threshold: Option<u64>,

    /// Let reads fail that meet more tombstones than this [default: 100000]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) tombstone_failure_threshold: Option<u64>,

    /// How to talk to the kernel [default: io_uring where it is allowed, else epoll]
    #[arg(long, value_name = "io_uring|epoll", value_parser = values::driver)]
    pub(crate) driver: Option<DriverChoice>,

    /// Name of the cluster [default: the one of the data folder, or Helenus]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) cluster_name: Option<String>,

    /// Data centre this node is in [default: the one of the data folder, or datacenter1]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) data_center: Option<String>,

    /// Rack this node is in [default: the one of the data folder, or rack1]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) rack: Option<String>,

    /// TLS between nodes; in the configuration file alone
    #[arg(skip)]
    pub(crate) server_encryption_options: Option<EncryptionOptions>,

    /// What clients may do; in the configuration file alone
    #[arg(skip)]
    pub(crate) guardrails: Guardrails,

    /// YAML file with options, under the names they have here
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl StartOptions {
    /// Sets the option of this name, one of [`NAMES`].
    pub(crate) fn set(&mut self, option: &str, text: &str) -> Result<(), String> {
        match option {
            "data" => self.data = Some(values::path(text)?),
            "address" => self.address = Some(values::address(text)?),
            "port" => self.port = Some(values::port(text)?),
            "shard_aware_port" => self.shard_aware_port = Some(values::port_or_none(text)?),
            "storage_port" => self.storage_port = Some(values::port(text)?),
            "seeds" => self.seeds = Some(values::seeds(text)?),
            "metrics_port" => self.metrics_port = Some(values::port_or_none(text)?),
            "api_port" => self.api_port = Some(values::port_or_none(text)?),
            "api_address" => self.api_address = Some(values::address(text)?),
            "shards" => self.shards = Some(values::shards(text)?),
            "memory" => self.memory = Some(size::parse(text)?),
            "sstable_format" => self.sstable_format = Some(values::sstable_format(text)?),
            "commitlog_sync" => self.commitlog_sync = Some(values::sync_mode(text)?),
            "commitlog_sync_period" => self.commitlog_sync_period = Some(values::duration(text)?),
            "commitlog_sync_group_window" => {
                self.commitlog_sync_group_window = Some(values::duration_or_none(text)?);
            }
            "periodic_commitlog_sync_lag_block" => {
                self.periodic_commitlog_sync_lag_block = Some(values::duration(text)?);
            }
            "commitlog_segment_size" => {
                self.commitlog_segment_size = Some(values::segment_size(text)?)
            }
            "commitlog_total_space" => self.commitlog_total_space = Some(size::parse(text)?),
            "commitlog_disk_access_mode" => {
                self.commitlog_disk_access_mode = Some(values::access_mode(text)?);
            }
            "commitlog_archiving" => self.commitlog_archiving = Some(values::path(text)?),
            "commitlog_ignore_replay_errors" => {
                self.commitlog_ignore_replay_errors = Some(values::truth(text)?);
            }
            "commit_failure_policy" => {
                self.commit_failure_policy = Some(values::commit_policy(text)?)
            }
            "disk_failure_policy" => self.disk_failure_policy = Some(values::disk_policy(text)?),
            "auto_snapshot" => self.auto_snapshot = Some(values::truth(text)?),
            "user_defined_functions_enabled" => {
                self.user_defined_functions_enabled = Some(values::truth(text)?);
            }
            "user_defined_functions_fail_timeout" => {
                self.user_defined_functions_fail_timeout = Some(values::duration(text)?);
            }
            "materialized_views_enabled" => {
                self.materialized_views_enabled = Some(values::truth(text)?)
            }
            "sasi_indexes_enabled" => self.sasi_indexes_enabled = Some(values::truth(text)?),
            "dynamic_data_masking_enabled" => {
                self.dynamic_data_masking_enabled = Some(values::truth(text)?);
            }
            "incremental_backups" => self.incremental_backups = Some(values::truth(text)?),
            "batch_size_warn_threshold" => {
                self.batch_size_warn_threshold = Some(size::parse(text)?);
            }
            "batch_size_fail_threshold" => {
                self.batch_size_fail_threshold = Some(size::parse(text)?);
            }
            "unlogged_batch_across_partitions_warn_threshold" => {
                self.unlogged_batch_across_partitions_warn_threshold = Some(values::count(text)?);
            }
            "tombstone_warn_threshold" => {
                self.tombstone_warn_threshold = Some(values::count(text)?)
            }
            "tombstone_failure_threshold" => {
                self.tombstone_failure_threshold = Some(values::count(text)?)
            }
            "driver" => self.driver = Some(values::driver(text)?),
            "cluster_name" => self.cluster_name = Some(values::name(text)?),
            "data_center" => self.data_center = Some(values::name(text)?),
            "rack" => self.rack = Some(values::name(text)?),
            _ => return Err(format!("there is no option `{option}`")),
        }
        Ok(())
    }

    /// These, and from `other` what is not among them.
    pub(crate) fn or(self, other: StartOptions) -> StartOptions {
        StartOptions {
            data: self.data.or(other.data),
            address: self.address.or(other.address),
            port: self.port.or(other.port),
            shard_aware_port: self.shard_aware_port.or(other.shard_aware_port),
            storage_port: self.storage_port.or(other.storage_port),
            seeds: self.seeds.or(other.seeds),
            metrics_port: self.metrics_port.or(other.metrics_port),
            api_port: self.api_port.or(other.api_port),
            api_address: self.api_address.or(other.api_address),
            shards: self.shards.or(other.shards),
            memory: self.memory.or(other.memory),
            sstable_format: self.sstable_format.or(other.sstable_format),
            commitlog_sync: self.commitlog_sync.or(other.commitlog_sync),
            commitlog_sync_period: self.commitlog_sync_period.or(other.commitlog_sync_period),
            commitlog_sync_group_window: self
                .commitlog_sync_group_window
                .or(other.commitlog_sync_group_window),
            periodic_commitlog_sync_lag_block: self
                .periodic_commitlog_sync_lag_block
                .or(other.periodic_commitlog_sync_lag_block),
            commitlog_segment_size: self.commitlog_segment_size.or(other.commitlog_segment_size),
            commitlog_total_space: self.commitlog_total_space.or(other.commitlog_total_space),
            commitlog_disk_access_mode: self
                .commitlog_disk_access_mode
                .or(other.commitlog_disk_access_mode),
            commitlog_archiving: self.commitlog_archiving.or(other.commitlog_archiving),
            commitlog_ignore_replay_errors: self
                .commitlog_ignore_replay_errors
                .or(other.commitlog_ignore_replay_errors),
            commit_failure_policy: self.commit_failure_policy.or(other.commit_failure_policy),
            disk_failure_policy: self.disk_failure_policy.or(other.disk_failure_policy),
            auto_snapshot: self.auto_snapshot.or(other.auto_snapshot),
            user_defined_functions_enabled: self
                .user_defined_functions_enabled
                .or(other.user_defined_functions_enabled),
            user_defined_functions_fail_timeout: self
                .user_defined_functions_fail_timeout
                .or(other.user_defined_functions_fail_timeout),
            materialized_views_enabled: self
                .materialized_views_enabled
                .or(other.materialized_views_enabled),
            sasi_indexes_enabled: self.sasi_indexes_enabled.or(other.sasi_indexes_enabled),
            dynamic_data_masking_enabled: self
                .dynamic_data_masking_enabled
                .or(other.dynamic_data_masking_enabled),
            incremental_backups: self.incremental_backups.or(other.incremental_backups),
            batch_size_warn_threshold: self
                .batch_size_warn_threshold
                .or(other.batch_size_warn_threshold),
            batch_size_fail_threshold: self
                .batch_size_fail_threshold
                .or(other.batch_size_fail_threshold),
            unlogged_batch_across_partitions_warn_threshold: self
                .unlogged_batch_across_partitions_warn_threshold
                .or(other.unlogged_batch_across_partitions_warn_threshold),
            tombstone_warn_threshold: self
                .tombstone_warn_threshold
                .or(other.tombstone_warn_threshold),
            tombstone_failure_threshold: self
                .tombstone_failure_threshold
                .or(other.tombstone_failure_threshold),
            driver: self.driver.or(other.driver),
            cluster_name: self.cluster_name.or(other.cluster_name),
            data_center: self.data_center.or(other.data_center),
            rack: self.rack.or(other.rack),
            server_encryption_options: self
                .server_encryption_options
                .or(other.server_encryption_options),
            guardrails: if self.guardrails.is_set() {
                self.guardrails
            } else {
                other.guardrails
            },
            config: self.config.or(other.config),
        }
    }
}

/// The nodes to ask for a cluster, by name or address, with the port where one was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<(String, Option<u16>)>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood_or_refused() {
        let mut options = StartOptions::default();
        let good = [
            ("data", "/var/lib/helenus"),
            ("address", "::1"),
            ("port", "9042"),
            ("shard_aware_port", "0"),
            ("storage_port", "7001"),
            ("seeds", "10.0.0.5, node2:7001,[::1]:7002,::1"),
            ("metrics_port", "9180"),
            ("api_port", "10000"),
            ("api_address", "127.0.0.2"),
            ("shards", "4"),
            ("memory", "1.5 GiB"),
            ("sstable_format", "bti"),
            ("commitlog_sync", "batch"),
            ("commitlog_sync_period", "500ms"),
            ("commitlog_sync_group_window", "0ms"),
            ("periodic_commitlog_sync_lag_block", "15s"),
            ("commitlog_segment_size", "64MiB"),
            ("commitlog_total_space", "8GiB"),
            ("commitlog_disk_access_mode", "standard"),
            ("commitlog_archiving", "/etc/commitlog_archiving.properties"),
            ("commitlog_ignore_replay_errors", "true"),
            ("commit_failure_policy", "stop_commit"),
            ("disk_failure_policy", "best_effort"),
            ("auto_snapshot", "false"),
            ("user_defined_functions_enabled", "true"),
            ("user_defined_functions_fail_timeout", "250ms"),
            ("materialized_views_enabled", "true"),
            ("sasi_indexes_enabled", "true"),
            ("dynamic_data_masking_enabled", "true"),
            ("incremental_backups", "true"),
            ("batch_size_warn_threshold", "5KiB"),
            ("batch_size_fail_threshold", "50KiB"),
            ("unlogged_batch_across_partitions_warn_threshold", "0"),
            ("tombstone_warn_threshold", "1000"),
            ("tombstone_failure_threshold", "100000"),
            ("driver", "epoll"),
            ("cluster_name", "Test Cluster"),
            ("data_center", "dc1"),
            ("rack", "r1"),
        ];
        assert_eq!(good.map(|(name, _)| name), NAMES);
        for (name, text) in good {
            assert_eq!(options.set(name, text), Ok(()), "{name}");
        }
        assert_eq!(options.memory, Some(3 << 29));
        assert_eq!(
            options.commitlog_sync_period,
            Some(Duration::from_millis(500))
        );
        let seeds = [
            ("10.0.0.5", None),
            ("node2", Some(7001)),
            ("::1", Some(7002)),
            ("::1", None),
        ];
        let seeds = seeds.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(options.seeds, Some(Seeds(seeds.into())));
        let bad = [
            ("data", ""),
            ("address", "localhost"),
            ("seeds", " ,"),
            ("seeds", "node2:0"),
            ("port", "0"),
            ("port", "65536"),
            ("shard_aware_port", "-1"),
            ("shards", "0"),
            ("shards", "four"),
            ("memory", "much"),
            ("sstable_format", "nb"),
            ("commitlog_sync", "sometimes"),
            ("commitlog_sync_period", "10"),
            ("commitlog_sync_period", "0s"),
            ("commitlog_segment_size", "512KiB"),
            ("commitlog_segment_size", "2GiB"),
            ("commitlog_disk_access_mode", "mmap"),
            ("commitlog_ignore_replay_errors", "yes"),
            ("commit_failure_policy", "best_effort"),
            ("disk_failure_policy", "stop_commit"),
            ("auto_snapshot", "maybe"),
            ("incremental_backups", "on"),
            ("batch_size_warn_threshold", "-1"),
            ("unlogged_batch_across_partitions_warn_threshold", "ten"),
            ("driver", "kqueue"),
            ("cluster_name", "a\nb"),
            ("none", "1"),
        ];
        for (name, text) in bad {
            assert!(options.set(name, text).is_err(), "{name}: {text}");
        }
    }

    #[test]
    fn the_first_wins() {
        let mut one = StartOptions::default();
        let mut other = StartOptions::default();
        one.set("port", "1").expect("a port");
        for (name, text) in [("port", "2"), ("rack", "r"), ("shards", "3")] {
            other.set(name, text).expect("a value");
        }
        let both = one.or(other);
        assert_eq!((both.port, both.shards), (Some(1), Some(3)));
        assert_eq!(both.rack.as_deref(), Some("r"));
    }
}
