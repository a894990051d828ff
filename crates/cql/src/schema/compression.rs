//! The options of `compression` (`CompressionParams`).

use std::collections::BTreeMap;

use crate::CqlError;
use crate::functions::double_text;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
const CHUNK_LENGTH: &str = "chunk_length_in_kb";
const MIN_RATIO: &str = "min_compress_ratio";

fn refuse<T>(message: impl Into<String>) -> Result<T, CqlError> {
    Err(CqlError::Config(message.into()))
}

/// The full form of the option as `system_schema.tables` keeps it: full class name, chunk length
/// filled in.
pub(super) fn normalize(
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, CqlError> {
    let mut options = given.clone();
    let enabled = options
        .remove("enabled")
        .is_none_or(|text| text.eq_ignore_ascii_case("true"));
    if !enabled || given.is_empty() {
        if !options.is_empty() {
            return refuse(
                "If the 'enabled' option is set to false no other options must be specified",
            );
        }
        return Ok(BTreeMap::from([("enabled".to_owned(), "false".to_owned())]));
    }
    let Some(class) = options.remove("class") else {
        return refuse("Missing sub-option 'class' for the 'compression' option.");
    };
    if class.is_empty() {
        return refuse(
            "The 'class' option must not be empty. To disable compression use 'enabled' : false",
        );
    }
    let chunk_length = chunk_length(options.remove(CHUNK_LENGTH))?;
    let min_ratio = min_ratio(options.remove(MIN_RATIO))?;
    let class = if class.contains('.') {
        class
    } else {
        format!("{PACKAGE}{class}")
    };
    check_compressor(&class, &options)?;
    if chunk_length <= 0 {
        return refuse(format!("Invalid negative or null {CHUNK_LENGTH}"));
    }
    if chunk_length & (chunk_length - 1) != 0 {
        return refuse(format!("{CHUNK_LENGTH} must be a power of 2"));
    }
    if min_ratio < 0.0 {
        return refuse(format!("Invalid negative {MIN_RATIO}"));
    }
    if min_ratio > 0.0 && min_ratio < 1.0 {
        return refuse(format!(
            "{MIN_RATIO} can either be 0 or greater than or equal to 1"
        ));
    }
    if min_ratio != 0.0 {
        options.insert(MIN_RATIO.to_owned(), double_text(min_ratio));
    }
    options.insert(CHUNK_LENGTH.to_owned(), chunk_length.to_string());
    options.insert("class".to_owned(), class);
    Ok(options)
}

fn chunk_length(text: Option<String>) -> Result<i32, CqlError> {
    const DEFAULT: i32 = 16;
    let Some(text) = text else {
        return Ok(DEFAULT);
    };
    match text.parse::<i32>() {
        Ok(number) if number > i32::MAX / 1024 => {
            refuse(format!("Value of {CHUNK_LENGTH} is too large ({number})"))
        }
        Ok(number) => Ok(number),
        Err(_) => refuse(format!("Invalid value for {CHUNK_LENGTH}")),
    }
}

fn min_ratio(text: Option<String>) -> Result<f64, CqlError> {
    match text {
        None => Ok(0.0),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| CqlError::Config(format!("Invalid value {text} for {MIN_RATIO}"))),
    }
}

fn check_compressor(class: &str, options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    let supported: &[&str] = match class.strip_prefix(PACKAGE) {
        Some("LZ4Compressor") => {
            check_lz4(options)?;
            &["lz4_compressor_type", "lz4_high_compressor_level"]
        }
        Some("ZstdCompressor") => {
            check_zstd(options)?;
            &["compression_level"]
        }
        Some("SnappyCompressor" | "DeflateCompressor" | "NoopCompressor") => &[],
        _ => {
            return refuse(format!("Could not create Compression for type {class}"));
        }
    };
    match options.keys().find(|k| !supported.contains(&k.as_str())) {
        Some(unknown) => refuse(format!("Unknown compression options {unknown}")),
        None => Ok(()),
    }
}

fn check_lz4(options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    match options.get("lz4_compressor_type") {
        Some(kind) if kind != "fast" && kind != "high" => {
            return refuse(format!(
                "Invalid compressor type '{kind}' specified for LZ4 parameter \
                 'lz4_compressor_type'. Valid options are [high, fast]."
            ));
        }
        _ => {}
    }
    match options.get("lz4_high_compressor_level") {
        Some(level) if !level.parse().is_ok_and(|n: i32| (1..=17).contains(&n)) => refuse(format!(
            "Invalid value [{level}] for parameter 'lz4_high_compressor_level'. Value must be \
             between 1 and 17."
        )),
        _ => Ok(()),
    }
}

fn check_zstd(options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    const LEVELS: std::ops::RangeInclusive<i32> = -131_072..=22;
    let failed = |reason: String| {
        refuse(format!(
            "ZstdCompressor.create() threw an error: java.lang.{reason}"
        ))
    };
    match options.get("compression_level").map(|t| (t, t.parse())) {
        Some((text, Err(_))) => failed(format!(
            "NumberFormatException For input string: \"{text}\""
        )),
        Some((_, Ok(level))) if !LEVELS.contains(&level) => failed(format!(
            "IllegalArgumentException compression_level={level} is invalid"
        )),
        _ => Ok(()),
    }
}
