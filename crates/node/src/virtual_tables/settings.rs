//! `system_views.settings`: what is set, under Cassandra's names and in its notation.

use std::collections::BTreeMap;
use std::time::Duration;

use cql::guardrails::{Guardrails, Setting, Unit};
use storage::{CommitFailurePolicy, CommitlogSync, DiskFailurePolicy};

use crate::hints;
use crate::internode::Encryption;
use crate::shard::Shard;
use crate::timeouts::TimeoutKind;

/// The settings that hold now, by name.
pub(super) fn shown(shard: &Shard) -> BTreeMap<String, Option<String>> {
    let config = &shard.state.config;
    let limits = &config.batch_limits;
    let mut settings: BTreeMap<String, String> = [
        ("auto_snapshot", config.auto_snapshot.to_string()),
        (
            "incremental_backups",
            shard.store.incremental_backups().to_string(),
        ),
        (
            "hinted_handoff_enabled",
            shard.hints.is_enabled().to_string(),
        ),
        ("max_hint_window", hint_window(shard.hints.window())),
        ("batch_size_warn_threshold", kibibytes(limits.warn_bytes)),
        ("batch_size_fail_threshold", kibibytes(limits.fail_bytes)),
        (
            "unlogged_batch_across_partitions_warn_threshold",
            limits.unlogged_partitions.to_string(),
        ),
        (
            "tombstone_warn_threshold",
            config.tombstones.warn.to_string(),
        ),
        (
            "tombstone_failure_threshold",
            config.tombstones.fail.to_string(),
        ),
        (
            "user_defined_functions_enabled",
            config.user_functions.is_some().to_string(),
        ),
        (
            "materialized_views_enabled",
            config.materialized_views.to_string(),
        ),
        ("sasi_indexes_enabled", config.sasi_indexes.to_string()),
        (
            "dynamic_data_masking_enabled",
            config.dynamic_data_masking.to_string(),
        ),
        (
            "commit_failure_policy",
            commit_policy(config.failure_policies.commit).to_owned(),
        ),
        (
            "disk_failure_policy",
            disk_policy(config.failure_policies.disk).to_owned(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(timeout) = config.user_functions {
        let name = "user_defined_functions_fail_timeout".to_owned();
        settings.insert(name, milliseconds(timeout));
    }
    for kind in TimeoutKind::ALL {
        let time = milliseconds(shard.timeouts.get(kind));
        settings.insert(name_of(kind).to_owned(), time);
    }
    settings.extend(of_the_log(shard));
    settings.extend(of_the_node(shard));
    let always = ALWAYS.iter();
    settings.extend(always.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut settings: BTreeMap<String, Option<String>> = settings
        .into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect();
    settings.extend(NEVER.iter().map(|name| ((*name).to_owned(), None)));
    let guardrails = config.guardrails.as_deref().cloned().unwrap_or_default();
    for setting in Setting::all() {
        settings.insert(setting.name(), guardrail(&guardrails, setting));
    }
    for (name, older) in OLDER_NAMES {
        if let Some(Some(value)) = settings.get(name) {
            settings.insert(older.to_owned(), Some(without_unit(value)));
        }
    }
    settings
}

/// What nobody can set, as Helenus is so, whatever Cassandra may be set to.
const ALWAYS: [(&str, &str); 37] = [
    ("audit_logging_options.enabled", "false"),
    ("authenticator.class_name", "AllowAllAuthenticator"),
    ("authenticator.parameters", "{}"),
    ("authorizer.class_name", "AllowAllAuthorizer"),
    ("authorizer.parameters", "{}"),
    ("auto_bootstrap", "true"),
    ("cdc_enabled", "false"),
    ("client_encryption_options.enabled", "false"),
    ("client_encryption_options.optional", "false"),
    ("counter_cache_size", "0MiB"),
    ("cross_node_timeout", "true"),
    ("default_keyspace_rf", "1"),
    ("diagnostic_events_enabled", "false"),
    ("dynamic_snitch", "true"),
    ("endpoint_snitch", "GossipingPropertyFileSnitch"),
    ("internode_compression", "dc"),
    ("key_cache_size", "0MiB"),
    ("native_transport_allow_older_protocols", "true"),
    ("native_transport_max_concurrent_connections", "-1"),
    ("native_transport_max_concurrent_connections_per_ip", "-1"),
    ("native_transport_max_frame_size", "16MiB"),
    ("native_transport_rate_limiting_enabled", "false"),
    ("native_transport_throw_on_overload", "false"),
    ("native_transport_timeout", "12s"),
    ("partition_denylist_enabled", "false"),
    ("role_manager.class_name", "CassandraRoleManager"),
    ("role_manager.parameters", "{}"),
    ("rpc_keepalive", "true"),
    ("scripted_user_defined_functions_enabled", "false"),
    ("start_native_transport", "true"),
    ("stream_entire_sstables", "true"),
    ("storage_compatibility_mode", "CASSANDRA_4"),
    ("trace_type_query_ttl", "1d"),
    ("transient_replication_enabled", "false"),
    ("transparent_data_encryption_options.enabled", "false"),
    ("use_deterministic_table_id", "false"),
    ("uuid_sstable_identifiers_enabled", "false"),
];

/// What is not set, as in a Cassandra that was told nothing of it.
const NEVER: [&str; 10] = [
    "auto_snapshot_ttl",
    "broadcast_address",
    "broadcast_rpc_address",
    "commitlog_compression.class_name",
    "ideal_consistency_level",
    "initial_token",
    "listen_interface",
    "native_transport_port_ssl",
    "paxos_cache_size",
    "rpc_interface",
];

/// How the commit log is kept.
fn of_the_log(shard: &Shard) -> Vec<(String, String)> {
    let log = &shard.state.config.commitlog;
    let mut settings = vec![
        ("commitlog_segment_size", mebibytes(log.segment_bytes)),
        ("max_mutation_size", kibibytes(log.segment_bytes / 2)),
        (
            "commitlog_disk_access_mode",
            if log.direct { "direct" } else { "standard" }.to_owned(),
        ),
        (
            "commitlog_sync_group_window",
            milliseconds(log.group_window),
        ),
    ];
    if let Some(bytes) = shard.state.config.commitlog_total_space {
        settings.push(("commitlog_total_space", mebibytes(bytes)));
    }
    let sync = match log.sync {
        CommitlogSync::Group => "group",
        CommitlogSync::Batch => "batch",
        CommitlogSync::Periodic { every, .. } => {
            settings.push(("commitlog_sync_period", milliseconds(every)));
            "periodic"
        }
    };
    settings.push(("commitlog_sync", sync.to_owned()));
    let owned = settings.into_iter();
    owned
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Where the node keeps what it has, and in which form.
fn of_the_node(shard: &Shard) -> Vec<(String, String)> {
    let config = &shard.state.config;
    let seeds: Vec<String> = config.seeds.iter().map(ToString::to_string).collect();
    let encryption = config.encryption.as_deref();
    let between = encryption.map_or("none", Encryption::name);
    [
        (
            "commitlog_directory",
            config.commitlog_dir.display().to_string(),
        ),
        (
            "data_file_directories",
            format!("[{}]", config.sstables.display()),
        ),
        (
            "hints_directory",
            config.data.join("hints").display().to_string(),
        ),
        (
            "seed_provider.parameters",
            format!("{{seeds={}}}", seeds.join(",")),
        ),
        (
            "server_encryption_options.internode_encryption",
            between.to_owned(),
        ),
        (
            "sstable.selected_format",
            config.sstable_format.name().to_owned(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Names that settings had before Cassandra 4.1, under which they are shown, too (`Config`'s `@Replaces`).
const OLDER_NAMES: [(&str, &str); 24] = [
    (
        "batch_size_fail_threshold",
        "batch_size_fail_threshold_in_kb",
    ),
    (
        "batch_size_warn_threshold",
        "batch_size_warn_threshold_in_kb",
    ),
    ("cas_contention_timeout", "cas_contention_timeout_in_ms"),
    (
        "counter_write_request_timeout",
        "counter_write_request_timeout_in_ms",
    ),
    (
        "internode_tcp_connect_timeout",
        "internode_tcp_connect_timeout_in_ms",
    ),
    ("materialized_views_enabled", "enable_materialized_views"),
    ("range_request_timeout", "range_request_timeout_in_ms"),
    ("read_request_timeout", "read_request_timeout_in_ms"),
    ("sasi_indexes_enabled", "enable_sasi_indexes"),
    ("truncate_request_timeout", "truncate_request_timeout_in_ms"),
    (
        "user_defined_functions_enabled",
        "enable_user_defined_functions",
    ),
    (
        "user_defined_functions_fail_timeout",
        "user_defined_function_fail_timeout",
    ),
    ("write_request_timeout", "write_request_timeout_in_ms"),
    (
        "audit_logging_options.enabled",
        "audit_logging_options_enabled",
    ),
    ("commitlog_segment_size", "commitlog_segment_size_in_mb"),
    ("commitlog_sync_period", "commitlog_sync_period_in_ms"),
    ("commitlog_total_space", "commitlog_total_space_in_mb"),
    ("counter_cache_size", "counter_cache_size_in_mb"),
    ("key_cache_size", "key_cache_size_in_mb"),
    ("max_mutation_size", "max_mutation_size_in_kb"),
    (
        "native_transport_max_frame_size",
        "native_transport_max_frame_size_in_mb",
    ),
    (
        "scripted_user_defined_functions_enabled",
        "enable_scripted_user_defined_functions",
    ),
    (
        "server_encryption_options.internode_encryption",
        "server_encryption_options_internode_encryption",
    ),
    (
        "transient_replication_enabled",
        "enable_transient_replication",
    ),
];

/// The number of a setting whose older name has the unit.
fn without_unit(value: &str) -> String {
    let number = value
        .strip_suffix("ms")
        .or_else(|| value.strip_suffix("KiB"))
        .or_else(|| value.strip_suffix("MiB"));
    match (number, value.strip_suffix('B').map(str::parse::<u64>)) {
        (Some(number), _) => number.to_owned(),
        (None, Some(Ok(bytes))) => (bytes / 1024).to_string(),
        _ => value.to_owned(),
    }
}

/// What a guardrail is set to, as Cassandra shows it.
fn guardrail(guardrails: &Guardrails, setting: Setting) -> Option<String> {
    let threshold = guardrails.threshold(setting);
    match setting {
        Setting::Warn(limit) | Setting::Fail(limit) => match limit.unit() {
            Unit::Count | Unit::Percentage => {
                Some(threshold.map_or_else(|| "-1".to_owned(), |t| t.to_string()))
            }
            Unit::Size => threshold.map(kibibytes),
            Unit::Time => threshold.map(|micros| match micros % 1000 {
                0 => milliseconds(Duration::from_micros(micros)),
                _ => format!("{micros}us"),
            }),
        },
        Setting::Enabled(switch) => Some(guardrails.enabled(switch).to_string()),
        Setting::Warned(switch) => Some(guardrails.warned(switch).to_string()),
        Setting::Listed(values, level) => {
            Some(format!("[{}]", guardrails.values(values, level).join(", ")))
        }
        Setting::MaxDiskSize => guardrails.max_disk_size().map(mebibytes),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// In hours as in the file of settings, or in milliseconds as operators set it.
fn hint_window(window: Duration) -> String {
    match window {
        hints::WINDOW => "3h".to_owned(),
        other => milliseconds(other),
    }
}

fn mebibytes(bytes: u64) -> String {
    match bytes % (1024 * 1024) {
        0 => format!("{}MiB", bytes / (1024 * 1024)),
        _ => kibibytes(bytes),
    }
}

fn kibibytes(bytes: u64) -> String {
    match bytes % 1024 {
        0 => format!("{}KiB", bytes / 1024),
        _ => format!("{bytes}B"),
    }
}

fn name_of(kind: TimeoutKind) -> &'static str {
    match kind {
        TimeoutKind::Read => "read_request_timeout",
        TimeoutKind::Range => "range_request_timeout",
        TimeoutKind::Write => "write_request_timeout",
        TimeoutKind::CounterWrite => "counter_write_request_timeout",
        TimeoutKind::CasContention => "cas_contention_timeout",
        TimeoutKind::Truncate => "truncate_request_timeout",
        TimeoutKind::InternodeConnect => "internode_tcp_connect_timeout",
    }
}

fn commit_policy(policy: CommitFailurePolicy) -> &'static str {
    match policy {
        CommitFailurePolicy::Stop => "stop",
        CommitFailurePolicy::StopCommit => "stop_commit",
        CommitFailurePolicy::Ignore => "ignore",
        CommitFailurePolicy::Die => "die",
    }
}

fn disk_policy(policy: DiskFailurePolicy) -> &'static str {
    match policy {
        DiskFailurePolicy::Stop => "stop",
        DiskFailurePolicy::StopParanoid => "stop_paranoid",
        DiskFailurePolicy::BestEffort => "best_effort",
        DiskFailurePolicy::Ignore => "ignore",
        DiskFailurePolicy::Die => "die",
    }
}
