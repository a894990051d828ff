//! The options of `compaction`, checked as each strategy of Cassandra checks its own
//! (`CompactionParams`, `validateOptions` of the strategies).

use std::collections::BTreeMap;

use crate::CqlError;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const MIN_THRESHOLD: &str = "min_threshold";
const MAX_THRESHOLD: &str = "max_threshold";
const DEFAULT_MIN_THRESHOLD: &str = "4";
const DEFAULT_MAX_THRESHOLD: &str = "32";

type Options = BTreeMap<String, String>;

const OVERLAPPING_TOMBSTONES: &str = "provide_overlapping_tombstones";

fn refuse<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Config(message))
}

/// The full form of the option as `system_schema.tables` keeps it: full class name, thresholds
/// filled in.
pub(super) fn normalize(given: &Options) -> Result<Options, CqlError> {
    let mut options = given.clone();
    let Some(name) = options.remove("class") else {
        return refuse("Missing sub-option 'class' for the 'compaction' option".to_owned());
    };
    let class = if name.contains('.') {
        name
    } else {
        format!("{PACKAGE}{name}")
    };
    let strategy = class.strip_prefix(PACKAGE).unwrap_or("");
    check_overlapping_tombstones(&options)?;
    match strategy {
        "SizeTieredCompactionStrategy" => {
            fill_thresholds(&mut options);
            check(strategy, &options, &[base, size_tiered], THRESHOLDS)?;
        }
        "LeveledCompactionStrategy" => {
            fill_thresholds(&mut options);
            check(
                strategy,
                &options,
                &[base, leveled, size_tiered],
                THRESHOLDS,
            )?;
        }
        "TimeWindowCompactionStrategy" => {
            fill_thresholds(&mut options);
            check(
                strategy,
                &options,
                &[base, time_window, size_tiered],
                THRESHOLDS,
            )?;
        }
        "UnifiedCompactionStrategy" => check(strategy, &options, &[base, unified], &[])?,
        _ => {
            return refuse(format!(
                "Unable to find compaction strategy class '{class}'"
            ));
        }
    }
    options.insert("class".to_owned(), class);
    Ok(options)
}

/// The same of the class alone, and of what Cassandra checks together with it.
pub(super) fn class_of(given: &Options) -> Result<Options, CqlError> {
    let mut alone = given.clone();
    alone.retain(|name, _| name == "class" || name == OVERLAPPING_TOMBSTONES);
    normalize(&alone)
}

/// Is this the class that has another default bloom filter?
pub(super) fn is_leveled(options: &Options) -> bool {
    options
        .get("class")
        .is_some_and(|class| class.ends_with(".LeveledCompactionStrategy"))
}

const THRESHOLDS: &[&str] = &[MIN_THRESHOLD, MAX_THRESHOLD];

fn fill_thresholds(options: &mut Options) {
    for (name, value) in [
        (MIN_THRESHOLD, DEFAULT_MIN_THRESHOLD),
        (MAX_THRESHOLD, DEFAULT_MAX_THRESHOLD),
    ] {
        options
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
}

/// A group of options: checks them and says which names it understands.
type Group = fn(&Options) -> Result<&'static [&'static str], CqlError>;

fn check(
    strategy: &str,
    options: &Options,
    groups: &[Group],
    thresholds: &[&str],
) -> Result<(), CqlError> {
    let mut known = thresholds.to_vec();
    for group in groups {
        known.extend_from_slice(group(options)?);
    }
    let unknown: Vec<&str> = options
        .keys()
        .map(String::as_str)
        .filter(|name| !known.contains(name))
        .collect();
    if !unknown.is_empty() {
        return refuse(format!(
            "Properties specified [{}] are not understood by {strategy}",
            unknown.join(", ")
        ));
    }
    if thresholds.is_empty() {
        return Ok(());
    }
    check_thresholds(options)
}

fn check_thresholds(options: &Options) -> Result<(), CqlError> {
    let threshold = |name: &str| -> Result<i32, CqlError> {
        let text = options.get(name).map_or("", String::as_str);
        match text.parse() {
            Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(number),
            _ => refuse(format!(
                "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
            )),
        }
    };
    let (min, max) = (threshold(MIN_THRESHOLD)?, threshold(MAX_THRESHOLD)?);
    if min <= 0 || max <= 0 {
        return refuse(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the \
             compaction option 'enabled' to false instead."
                .to_owned(),
        );
    }
    if min <= 1 {
        return refuse(format!(
            "Min compaction threshold cannot be less than 2 (got {min})"
        ));
    }
    if min > max {
        return refuse(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold \
             (got {max})"
        ));
    }
    Ok(())
}

fn check_overlapping_tombstones(options: &Options) -> Result<(), CqlError> {
    match options.get(OVERLAPPING_TOMBSTONES) {
        Some(text) if !["NONE", "ROW", "CELL"].contains(&text.to_uppercase().as_str()) => {
            refuse(format!(
                "Invalid value {} for 'provide_overlapping_tombstones' compaction sub-option - \
                 must be one of the following [NONE, ROW, CELL].",
                text.to_uppercase()
            ))
        }
        _ => Ok(()),
    }
}

fn not_an_int<T>(text: &str, name: &str) -> Result<T, CqlError> {
    refuse(format!("{text} is not a parsable int (base10) for {name}"))
}

fn parse_long(options: &Options, name: &str) -> Result<Option<i64>, CqlError> {
    match options.get(name) {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => not_an_int(text, name),
        },
    }
}

fn parse_int(options: &Options, name: &str) -> Result<Option<i32>, CqlError> {
    match parse_long(options, name)? {
        None => Ok(None),
        Some(number) => match i32::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => not_an_int(&number.to_string(), name),
        },
    }
}

fn parse_double(options: &Options, name: &str, default: f64) -> Result<f64, CqlError> {
    match options.get(name) {
        None => Ok(default),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| CqlError::Config(format!("{text} is not a parsable float for {name}"))),
    }
}

fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

/// What all strategies understand (`AbstractCompactionStrategy.validateOptions`).
fn base(options: &Options) -> Result<&'static [&'static str], CqlError> {
    const THRESHOLD: &str = "tombstone_threshold";
    const INTERVAL: &str = "tombstone_compaction_interval";
    if let Some(text) = options.get(THRESHOLD) {
        match text.trim().parse::<f32>() {
            Ok(number) if number < 0.0 => {
                return refuse(format!(
                    "{THRESHOLD} must be greater than 0, but was {number:.6}"
                ));
            }
            Ok(_) => {}
            Err(_) => return not_an_int(text, THRESHOLD),
        }
    }
    if let Some(number) = parse_long(options, INTERVAL)?
        && number < 0
    {
        return refuse(format!(
            "{INTERVAL} must be greater than 0, but was {number}"
        ));
    }
    match options.get("unchecked_tombstone_compaction") {
        Some(text) if !is_boolean(text) => {
            return refuse(format!(
                "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'"
            ));
        }
        _ => {}
    }
    match options.get("log_all") {
        Some(text) if !is_boolean(text) => {
            return refuse(format!(
                "'log_all' should either be 'true' or 'false', not {text}"
            ));
        }
        _ => {}
    }
    match options.get("enabled") {
        Some(text) if !is_boolean(text) => {
            return refuse(format!(
                "enabled should either be 'true' or 'false', not {text}"
            ));
        }
        _ => {}
    }
    Ok(&[
        THRESHOLD,
        INTERVAL,
        "unchecked_tombstone_compaction",
        "log_all",
        "enabled",
        "only_purge_repaired_tombstones",
        OVERLAPPING_TOMBSTONES,
    ])
}

/// `SizeTieredCompactionStrategyOptions.validateOptions`
fn size_tiered(options: &Options) -> Result<&'static [&'static str], CqlError> {
    const MIN_SIZE: &str = "min_sstable_size";
    if let Some(number) = parse_long(options, MIN_SIZE)?
        && number < 0
    {
        return refuse(format!("{MIN_SIZE} must be non negative: {number}"));
    }
    let low = parse_double(options, "bucket_low", 0.5)?;
    let high = parse_double(options, "bucket_high", 1.5)?;
    if high <= low {
        return refuse(format!(
            "bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})"
        ));
    }
    Ok(&[MIN_SIZE, "bucket_low", "bucket_high"])
}

/// `LeveledCompactionStrategy.validateOptions`
fn leveled(options: &Options) -> Result<&'static [&'static str], CqlError> {
    const SIZE: &str = "sstable_size_in_mb";
    const FANOUT: &str = "fanout_size";
    if let Some(number) = parse_int(options, SIZE)?
        && number < 1
    {
        return refuse(format!("{SIZE} must be larger than 0, but was {number}"));
    }
    match options.get(FANOUT).map(|text| text.parse::<i32>()) {
        Some(Ok(number)) if number < 1 => {
            return refuse(format!("{FANOUT} must be larger than 0, but was {number}"));
        }
        // Cassandra names the size here, not the fan-out.
        Some(Err(_)) => return not_an_int(options.get(SIZE).map_or("1", String::as_str), FANOUT),
        _ => {}
    }
    Ok(&[SIZE, FANOUT, "single_sstable_uplevel"])
}

/// `TimeWindowCompactionStrategyOptions.validateOptions`
fn time_window(options: &Options) -> Result<&'static [&'static str], CqlError> {
    const SIZE: &str = "compaction_window_size";
    const CHECK: &str = "expired_sstable_check_frequency_seconds";
    let one_of = |name: &str, units: &[&str]| match options.get(name) {
        Some(text) if !units.contains(&text.as_str()) => {
            refuse(format!("{text} is not valid for {name}"))
        }
        _ => Ok(()),
    };
    one_of(
        "timestamp_resolution",
        &["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"],
    )?;
    one_of("compaction_window_unit", &["MINUTES", "HOURS", "DAYS"])?;
    if let Some(number) = parse_int(options, SIZE)?
        && number < 1
    {
        return refuse(format!("{number} must be greater than 1 for {SIZE}"));
    }
    if let Some(number) = parse_long(options, CHECK)?
        && number < 0
    {
        return refuse(format!("{CHECK} must not be negative, but was {number}"));
    }
    check_aggressive_expiration(options)?;
    Ok(&[
        "timestamp_resolution",
        "compaction_window_unit",
        SIZE,
        CHECK,
        AGGRESSIVE_EXPIRATION,
    ])
}

const AGGRESSIVE_EXPIRATION: &str = "unsafe_aggressive_sstable_expiration";

fn check_aggressive_expiration(options: &Options) -> Result<(), CqlError> {
    match options.get(AGGRESSIVE_EXPIRATION) {
        Some(text) if !is_boolean(text) => refuse(format!(
            "{AGGRESSIVE_EXPIRATION} is not 'true' or 'false' ({text})"
        )),
        Some(text) if text.eq_ignore_ascii_case("true") => refuse(format!(
            "{AGGRESSIVE_EXPIRATION} is requested but not allowed, restart cassandra with \
             -Dcassandra.allow_{AGGRESSIVE_EXPIRATION}=true to allow it"
        )),
        _ => Ok(()),
    }
}

/// `Controller.validateOptions` of the unified strategy, in its order.
fn unified(options: &Options) -> Result<&'static [&'static str], CqlError> {
    const CHECK: &str = "expired_sstable_check_frequency_seconds";
    if let Some(text) = options.get("scaling_parameters") {
        for parameter in split_as_java(text) {
            check_scaling_parameter(parameter.trim())?;
        }
    }
    if let Some(number) = parse_int(options, "base_shard_count")?
        && number <= 0
    {
        return refuse(format!(
            "Invalid configuration, base_shard_count should be positive: {number}"
        ));
    }
    let target = match options.get("target_sstable_size") {
        Some(text) => parse_target_size(text)?,
        None => DEFAULT_TARGET_SIZE,
    };
    if let Some(text) = options.get("flush_size_override") {
        check_flush_size(text)?;
    }
    parse_int(options, "max_sstables_to_compact")?;
    match options.get(CHECK).map(|text| (text, text.parse::<i64>())) {
        Some((_, Ok(number))) if number <= 0 => {
            return refuse(format!(
                "Invalid configuration, {CHECK} should be positive: {number}"
            ));
        }
        Some((text, Err(_))) => {
            return refuse(format!(
                "{text} is not a parsable long (base10) for {CHECK}"
            ));
        }
        _ => {}
    }
    // Unlike TimeWindow it does not say that `true` has no effect.
    match options.get(AGGRESSIVE_EXPIRATION) {
        Some(text) if !is_boolean(text) => {
            return refuse(format!(
                "{AGGRESSIVE_EXPIRATION} should either be 'true' or 'false', not {text}"
            ));
        }
        _ => {}
    }
    match options.get("overlap_inclusion_method") {
        Some(text) if !["NONE", "SINGLE", "TRANSITIVE"].contains(&text.to_uppercase().as_str()) => {
            return refuse(format!(
                "Invalid overlap inclusion method {text}. The valid options are [NONE, SINGLE, \
                 TRANSITIVE]."
            ));
        }
        _ => {}
    }
    if let Some(text) = options.get("min_sstable_size") {
        check_min_size(text, target)?;
    }
    check_growth(options)?;
    Ok(&[
        "scaling_parameters",
        "target_sstable_size",
        "flush_size_override",
        "base_shard_count",
        CHECK,
        AGGRESSIVE_EXPIRATION,
        "min_sstable_size",
        "overlap_inclusion_method",
        "sstable_growth",
        "max_sstables_to_compact",
    ])
}

const MIB: f64 = 1024.0 * 1024.0;
/// What `target_sstable_size` is if it is not given, in bytes.
const DEFAULT_TARGET_SIZE: f64 = 1024.0 * MIB;

/// The size of sstables that a compaction aims at, in bytes.
fn parse_target_size(text: &str) -> Result<f64, CqlError> {
    const NAME: &str = "target_sstable_size";
    let size = parse_bytes(NAME, text)?;
    if size >= i64::MAX as f64 {
        return refuse(format!("{NAME} {text} is out of range of Long."));
    }
    check_is_mib(NAME, text, size)?;
    Ok(size.ceil() as i64 as f64)
}

fn check_flush_size(text: &str) -> Result<(), CqlError> {
    const NAME: &str = "flush_size_override";
    check_is_mib(NAME, text, parse_whole_bytes(NAME, text)?)
}

fn check_is_mib(name: &str, text: &str, size: f64) -> Result<(), CqlError> {
    match size < MIB {
        true => refuse(format!(
            "{name} {text} is not acceptable, size must be at least 1.000MiB"
        )),
        false => Ok(()),
    }
}

fn check_min_size(text: &str, target: f64) -> Result<(), CqlError> {
    const NAME: &str = "min_sstable_size";
    let Ok(size) = parse_whole_bytes(NAME, text) else {
        return refuse(format!("{text} is not a valid size in bytes for {NAME}"));
    };
    if size < 0.0 {
        return refuse(format!(
            "Invalid configuration, {NAME} should be greater than or equal to 0 (zero)"
        ));
    }
    if size >= (target * std::f64::consts::FRAC_1_SQRT_2).ceil() {
        return refuse(format!(
            "Invalid configuration, {NAME} ({}) should be less than 70% of the targetSSTableSize \
             ({})",
            print_size(size),
            print_size(target)
        ));
    }
    Ok(())
}

/// A size as Cassandra prints it (`FBUtilities.prettyPrintMemory`).
fn print_size(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    let mut number = bytes;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{number}B"),
        _ => format!("{number:.3}{}", UNITS[unit]),
    }
}

/// The parts between commas. Empty ones at the end do not count, unless there is no comma at all
/// (`String.split`).
fn split_as_java(text: &str) -> impl Iterator<Item = &str> {
    let parts = match text.trim_end_matches(',') {
        "" if !text.is_empty() => None,
        rest => Some(rest.split(',')),
    };
    parts.into_iter().flatten()
}

fn check_scaling_parameter(text: &str) -> Result<(), CqlError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if text == "N" {
        return Ok(());
    }
    if let Some(fan) = text.strip_prefix(['L', 'T'])
        && digits(fan)
    {
        return match fan.parse::<i32>() {
            Ok(fan) if fan >= 2 => Ok(()),
            _ => refuse(format!("Fan factor cannot be lower than 2 in {text}")),
        };
    }
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits(number) && number.parse::<i32>().is_ok() {
        return Ok(());
    }
    refuse(format!(
        "Scaling parameter {text} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"
    ))
}

fn check_growth(options: &Options) -> Result<(), CqlError> {
    let Some(text) = options.get("sstable_growth") else {
        return Ok(());
    };
    let growth = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
        None => text.trim().parse::<f64>(),
    };
    match growth {
        Ok(growth) if (0.0..=1.0).contains(&growth) => Ok(()),
        Ok(_) => refuse(format!("sstable_growth {text} must be between 0 and 1")),
        Err(_) => refuse(format!(
            "sstable_growth is not a valid number between 0 and 1: For input string: \"{text}\""
        )),
    }
}

/// A size such as `1.5 GiB`, in bytes.
fn parse_bytes(name: &str, text: &str) -> Result<f64, CqlError> {
    model::parse_size(text).map_err(|reason| {
        CqlError::Config(format!(
            "{name} {text} is not a valid size in bytes: {reason}"
        ))
    })
}

/// The same as a whole number (`parseHumanReadableBytes`).
fn parse_whole_bytes(name: &str, text: &str) -> Result<f64, CqlError> {
    Ok(parse_bytes(name, text)? as i64 as f64)
}

#[cfg(test)]
mod tests;
