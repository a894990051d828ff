//! `system_views.settings`: what is set, under Cassandra's names and in its notation.

use std::collections::BTreeMap;
use std::time::Duration;

use cql::guardrails::{Guardrails, Setting, Unit};
use storage::{CommitFailurePolicy, DiskFailurePolicy};

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
    let mut settings: BTreeMap<String, Option<String>> = settings
        .into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect();
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

/// Names that settings had before Cassandra 4.1, under which they are shown, too (`Config`'s `@Replaces`).
const OLDER_NAMES: [(&str, &str); 13] = [
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
];

/// The number of a setting whose older name has the unit.
fn without_unit(value: &str) -> String {
    let number = value
        .strip_suffix("ms")
        .or_else(|| value.strip_suffix("KiB"));
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
            Unit::Count => Some(threshold.map_or_else(|| "-1".to_owned(), |t| t.to_string())),
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
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
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
