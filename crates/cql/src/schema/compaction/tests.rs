//! What a real Cassandra 5.0.6 answers to `ALTER TABLE … WITH compaction = {…}`.

use super::*;

/// Strategy (without the end of its name), options, and the error; none if they are accepted.
type Answer = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

const ANSWERS: &[Answer] = &[
    (
        "Unified",
        &[("min_sstable_size", "800MiB")],
        "Invalid configuration, min_sstable_size (800.000MiB) should be less than 70% of the targetSSTableSize (1.000GiB)",
    ),
    ("Unified", &[("min_sstable_size", "724MiB")], ""),
    (
        "Unified",
        &[("min_sstable_size", "725MiB")],
        "Invalid configuration, min_sstable_size (725.000MiB) should be less than 70% of the targetSSTableSize (1.000GiB)",
    ),
    (
        "Unified",
        &[
            ("min_sstable_size", "1MiB"),
            ("target_sstable_size", "1MiB"),
        ],
        "Invalid configuration, min_sstable_size (1.000MiB) should be less than 70% of the targetSSTableSize (1.000MiB)",
    ),
    (
        "Unified",
        &[
            ("min_sstable_size", "100MiB"),
            ("target_sstable_size", "100MiB"),
        ],
        "Invalid configuration, min_sstable_size (100.000MiB) should be less than 70% of the targetSSTableSize (100.000MiB)",
    ),
    ("Unified", &[("target_sstable_size", "100MiB")], ""),
    (
        "Unified",
        &[
            ("target_sstable_size", "1.5MiB"),
            ("min_sstable_size", "0B"),
        ],
        "",
    ),
    (
        "Unified",
        &[("min_sstable_size", "-1B")],
        "Invalid configuration, min_sstable_size should be greater than or equal to 0 (zero)",
    ),
    (
        "Unified",
        &[("min_sstable_size", "x")],
        "x is not a valid size in bytes for min_sstable_size",
    ),
    (
        "Unified",
        &[("base_shard_count", "x")],
        "x is not a parsable int (base10) for base_shard_count",
    ),
    (
        "Unified",
        &[("base_shard_count", "0")],
        "Invalid configuration, base_shard_count should be positive: 0",
    ),
    (
        "Unified",
        &[("base_shard_count", "99999999999")],
        "99999999999 is not a parsable int (base10) for base_shard_count",
    ),
    (
        "Unified",
        &[("max_sstables_to_compact", "x")],
        "x is not a parsable int (base10) for max_sstables_to_compact",
    ),
    ("Unified", &[("max_sstables_to_compact", "-3")], ""),
    (
        "Unified",
        &[("expired_sstable_check_frequency_seconds", "x")],
        "x is not a parsable long (base10) for expired_sstable_check_frequency_seconds",
    ),
    (
        "Unified",
        &[("expired_sstable_check_frequency_seconds", "0")],
        "Invalid configuration, expired_sstable_check_frequency_seconds should be positive: 0",
    ),
    (
        "Unified",
        &[("unsafe_aggressive_sstable_expiration", "x")],
        "unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not x",
    ),
    (
        "Unified",
        &[("unsafe_aggressive_sstable_expiration", "true")],
        "",
    ),
    (
        "Unified",
        &[("unsafe_aggressive_sstable_expiration", "false")],
        "",
    ),
    (
        "Unified",
        &[("sstable_growth", "2")],
        "sstable_growth 2 must be between 0 and 1",
    ),
    (
        "Unified",
        &[("sstable_growth", "x")],
        "sstable_growth is not a valid number between 0 and 1: For input string: \"x\"",
    ),
    ("Unified", &[("sstable_growth", "50%")], ""),
    (
        "Unified",
        &[("sstable_growth", "-1")],
        "sstable_growth -1 must be between 0 and 1",
    ),
    (
        "Unified",
        &[("target_sstable_size", "1KiB")],
        "target_sstable_size 1KiB is not acceptable, size must be at least 1.000MiB",
    ),
    (
        "Unified",
        &[("target_sstable_size", "x")],
        "target_sstable_size x is not a valid size in bytes: x does not end in unit B",
    ),
    (
        "Unified",
        &[("target_sstable_size", "99999999999GiB")],
        "target_sstable_size 99999999999GiB is out of range of Long.",
    ),
    ("Unified", &[("target_sstable_size", "1GB")], ""),
    ("Unified", &[("target_sstable_size", "1*2^30 B")], ""),
    (
        "Unified",
        &[("target_sstable_size", "1MB")],
        "target_sstable_size 1MB is not acceptable, size must be at least 1.000MiB",
    ),
    (
        "Unified",
        &[("target_sstable_size", " 1GiB")],
        "target_sstable_size  1GiB is not a valid size in bytes: null",
    ),
    (
        "Unified",
        &[("target_sstable_size", "1GiB ")],
        "target_sstable_size 1GiB  is not a valid size in bytes: 1GiB  does not end in unit B",
    ),
    (
        "Unified",
        &[("flush_size_override", "1xB")],
        "flush_size_override 1xB is not a valid size in bytes: Unexpected characters between pos 1 and 2 in 1xB",
    ),
    ("Unified", &[("flush_size_override", "99999999999GiB")], ""),
    (
        "Unified",
        &[("flush_size_override", "1KiB")],
        "flush_size_override 1KiB is not acceptable, size must be at least 1.000MiB",
    ),
    (
        "Unified",
        &[("flush_size_override", "x")],
        "flush_size_override x is not a valid size in bytes: x does not end in unit B",
    ),
    (
        "Unified",
        &[("overlap_inclusion_method", "x")],
        "Invalid overlap inclusion method x. The valid options are [NONE, SINGLE, TRANSITIVE].",
    ),
    ("Unified", &[("overlap_inclusion_method", "single")], ""),
    (
        "Unified",
        &[("scaling_parameters", "T1")],
        "Fan factor cannot be lower than 2 in T1",
    ),
    (
        "Unified",
        &[("scaling_parameters", "Q4")],
        "Scaling parameter Q4 must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
    ),
    ("Unified", &[("scaling_parameters", "T4, L4 ,N,-3")], ""),
    ("Unified", &[("scaling_parameters", "T4,")], ""),
    (
        "Unified",
        &[("scaling_parameters", "T4,,N")],
        "Scaling parameter  must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
    ),
    (
        "Unified",
        &[("scaling_parameters", "t4")],
        "Scaling parameter t4 must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
    ),
    (
        "Unified",
        &[("scaling_parameters", "n")],
        "Scaling parameter n must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
    ),
    (
        "Unified",
        &[("scaling_parameters", "")],
        "Scaling parameter  must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+",
    ),
    (
        "Unified",
        &[("min_threshold", "2")],
        "Properties specified [min_threshold] are not understood by UnifiedCompactionStrategy",
    ),
    (
        "Leveled",
        &[("sstable_size_in_mb", "0")],
        "sstable_size_in_mb must be larger than 0, but was 0",
    ),
    (
        "Leveled",
        &[("sstable_size_in_mb", "x")],
        "x is not a parsable int (base10) for sstable_size_in_mb",
    ),
    ("Leveled", &[("sstable_size_in_mb", "99999999")], ""),
    (
        "Leveled",
        &[("fanout_size", "0")],
        "fanout_size must be larger than 0, but was 0",
    ),
    (
        "Leveled",
        &[("fanout_size", "x")],
        "1 is not a parsable int (base10) for fanout_size",
    ),
    ("Leveled", &[("fanout_size", "100000")], ""),
    ("Leveled", &[("single_sstable_uplevel", "x")], ""),
    (
        "Leveled",
        &[("fanout_size", "4"), ("sstable_size_in_mb", "1048576")],
        "",
    ),
    (
        "TimeWindow",
        &[("compaction_window_unit", "WEEKS")],
        "WEEKS is not valid for compaction_window_unit",
    ),
    (
        "TimeWindow",
        &[("compaction_window_size", "0")],
        "0 must be greater than 1 for compaction_window_size",
    ),
    (
        "TimeWindow",
        &[("compaction_window_size", "x")],
        "x is not a parsable int (base10) for compaction_window_size",
    ),
    (
        "TimeWindow",
        &[("timestamp_resolution", "HOURS")],
        "HOURS is not valid for timestamp_resolution",
    ),
    (
        "TimeWindow",
        &[("expired_sstable_check_frequency_seconds", "-1")],
        "expired_sstable_check_frequency_seconds must not be negative, but was -1",
    ),
    (
        "TimeWindow",
        &[("expired_sstable_check_frequency_seconds", "x")],
        "x is not a parsable int (base10) for expired_sstable_check_frequency_seconds",
    ),
    (
        "TimeWindow",
        &[("unsafe_aggressive_sstable_expiration", "true")],
        "unsafe_aggressive_sstable_expiration is requested but not allowed, restart cassandra with -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it",
    ),
    (
        "TimeWindow",
        &[("unsafe_aggressive_sstable_expiration", "x")],
        "unsafe_aggressive_sstable_expiration is not 'true' or 'false' (x)",
    ),
    (
        "SizeTiered",
        &[("bucket_low", "2")],
        "bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)",
    ),
    (
        "SizeTiered",
        &[("bucket_low", "x")],
        "x is not a parsable float for bucket_low",
    ),
    (
        "SizeTiered",
        &[("min_sstable_size", "-1")],
        "min_sstable_size must be non negative: -1",
    ),
    (
        "SizeTiered",
        &[("min_sstable_size", "x")],
        "x is not a parsable int (base10) for min_sstable_size",
    ),
    (
        "SizeTiered",
        &[("min_threshold", "1")],
        "Min compaction threshold cannot be less than 2 (got 1)",
    ),
    (
        "SizeTiered",
        &[("max_threshold", "1")],
        "Min compaction threshold (got 4) cannot be greater than max compaction threshold (got 1)",
    ),
    (
        "SizeTiered",
        &[("max_threshold", "x")],
        "Invalid value x for 'max_threshold' compaction sub-option - must be an integer",
    ),
    (
        "SizeTiered",
        &[("tombstone_threshold", "x")],
        "x is not a parsable int (base10) for tombstone_threshold",
    ),
    (
        "SizeTiered",
        &[("tombstone_threshold", "-1")],
        "tombstone_threshold must be greater than 0, but was -1.000000",
    ),
    (
        "SizeTiered",
        &[("tombstone_compaction_interval", "-1")],
        "tombstone_compaction_interval must be greater than 0, but was -1",
    ),
    (
        "SizeTiered",
        &[("tombstone_compaction_interval", "x")],
        "x is not a parsable int (base10) for tombstone_compaction_interval",
    ),
    (
        "SizeTiered",
        &[("unchecked_tombstone_compaction", "x")],
        "'unchecked_tombstone_compaction' should be either 'true' or 'false', not 'x'",
    ),
    ("SizeTiered", &[("only_purge_repaired_tombstones", "x")], ""),
    (
        "SizeTiered",
        &[("enabled", "x")],
        "enabled should either be 'true' or 'false', not x",
    ),
    (
        "SizeTiered",
        &[("log_all", "x")],
        "'log_all' should either be 'true' or 'false', not x",
    ),
    (
        "SizeTiered",
        &[("provide_overlapping_tombstones", "x")],
        "Invalid value X for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL].",
    ),
    (
        "SizeTiered",
        &[("provide_overlapping_tombstones", "row")],
        "",
    ),
    (
        "SizeTiered",
        &[("foo", "1"), ("bar", "2")],
        "Properties specified [bar, foo] are not understood by SizeTieredCompactionStrategy",
    ),
];

#[test]
fn options_are_answered_as_by_cassandra() {
    for (strategy, pairs, expected) in ANSWERS {
        let mut options: Options = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        options.insert("class".to_owned(), format!("{strategy}CompactionStrategy"));
        let answer = match normalize(&options) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(answer, *expected, "{strategy} {pairs:?}");
    }
}
