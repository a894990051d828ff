//! The values of options, as they stand on the command line or in the configuration file. What is refused says what is expected.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use io::DriverChoice;
use storage::sstable::Format;
use storage::{CommitFailurePolicy, DiskFailurePolicy};

use super::{AccessMode, Seeds, SyncMode};
use crate::size;

/// A folder.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("a folder is expected".to_owned());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no IP address; one looks like 10.0.0.5 or ::1"))
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is no port: 1 to 65535")),
        Ok(port) => Ok(port),
    }
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

pub(super) fn seeds(text: &str) -> Result<Seeds, String> {
    let hosts = text
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    let seeds: Vec<_> = hosts.map(seed).collect::<Result<_, _>>()?;
    if seeds.is_empty() {
        return Err(
            "the names or addresses of nodes are expected, as 10.0.0.5,10.0.0.6".to_owned(),
        );
    }
    Ok(Seeds(seeds))
}

/// `host`, `host:port`, `::1` or `[::1]:port`.
fn seed(text: &str) -> Result<(String, Option<u16>), String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address.to_string(), None));
    }
    match text.rsplit_once(':') {
        None => Ok((text.to_owned(), None)),
        Some((host, number)) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Ok((host.to_owned(), Some(port(number)?)))
        }
    }
}

pub(super) fn port_or_none(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no port: 1 to 65535, or 0 for none"))
}

pub(super) fn shards(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(shards @ 1..=1024) => Ok(shards),
        _ => Err(format!("`{text}` is no number of shards: 1 to 1024")),
    }
}

pub(super) fn sstable_format(text: &str) -> Result<Format, String> {
    match text {
        "big" => Ok(Format::Big),
        "bti" => Ok(Format::Bti),
        _ => Err(format!("`{text}` is none of big, bti")),
    }
}

pub(super) fn sync_mode(text: &str) -> Result<SyncMode, String> {
    match text {
        "group" => Ok(SyncMode::Group),
        "periodic" => Ok(SyncMode::Periodic),
        "batch" => Ok(SyncMode::Batch),
        _ => Err(format!("`{text}` is none of group, periodic, batch")),
    }
}

pub(crate) fn truth(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is neither true nor false"))
}

pub(super) fn driver(text: &str) -> Result<DriverChoice, String> {
    match text {
        "io_uring" => Ok(DriverChoice::IoUring),
        "epoll" => Ok(DriverChoice::Epoll),
        _ => Err(format!("`{text}` is none of io_uring, epoll")),
    }
}

/// Cassandra's segments are 1 MiB at least, and their offsets fit in an `int`.
pub(super) fn segment_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ 0x10_0000..=0x7fff_f000 => Ok(bytes / 4096 * 4096),
        _ => Err(format!("`{text}` is no size of a segment: 1MiB to 2047MiB")),
    }
}

pub(super) fn access_mode(text: &str) -> Result<AccessMode, String> {
    match text {
        "auto" => Ok(AccessMode::Auto),
        "direct" => Ok(AccessMode::Direct),
        "standard" => Ok(AccessMode::Standard),
        _ => Err(format!("`{text}` is none of auto, direct, standard")),
    }
}

pub(super) fn commit_policy(text: &str) -> Result<CommitFailurePolicy, String> {
    match text {
        "stop" => Ok(CommitFailurePolicy::Stop),
        "stop_commit" => Ok(CommitFailurePolicy::StopCommit),
        "ignore" => Ok(CommitFailurePolicy::Ignore),
        "die" => Ok(CommitFailurePolicy::Die),
        _ => Err(format!(
            "`{text}` is none of stop, stop_commit, ignore, die"
        )),
    }
}

pub(super) fn disk_policy(text: &str) -> Result<DiskFailurePolicy, String> {
    match text {
        "stop" => Ok(DiskFailurePolicy::Stop),
        "stop_paranoid" => Ok(DiskFailurePolicy::StopParanoid),
        "best_effort" => Ok(DiskFailurePolicy::BestEffort),
        "ignore" => Ok(DiskFailurePolicy::Ignore),
        "die" => Ok(DiskFailurePolicy::Die),
        _ => Err(format!(
            "`{text}` is none of stop, stop_paranoid, best_effort, ignore, die"
        )),
    }
}

/// A duration, or none at all.
pub(super) fn duration_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0ms" | "0s" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// As Cassandra writes durations: `10s`, `500ms`, `1m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    let number: Option<u32> = digits.parse().ok();
    let duration = match (number, unit.trim()) {
        (Some(n), "ms") => Duration::from_millis(n.into()),
        (Some(n), "s") => Duration::from_secs(n.into()),
        (Some(n), "m") => Duration::from_secs(u64::from(n) * 60),
        (Some(n), "h") => Duration::from_secs(u64::from(n) * 3600),
        (Some(n), "d") => Duration::from_secs(u64::from(n) * 86_400),
        _ => return Err(format!("`{text}` is no time; one looks like 10s or 500ms")),
    };
    if duration.is_zero() {
        return Err(format!("`{text}`: more than nothing is expected"));
    }
    Ok(duration)
}

pub(super) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("`{text}` is no name"));
    }
    Ok(text.to_owned())
}
