//! Which format has room for when things expire.
//!
//! The BIG format is written in its version `nb`, whose times end in January 2038. Files of `oa` and
//! `da`, where they end in 2106, may hold later ones, which have to stay what they are when such a
//! file is written anew.

use model::NO_DELETION_TIME;

use super::reader::SSTable;
use super::statistics::Stats;
use super::version::Format;

/// The last second that versions before `oa` can hold (`Cell.MAX_DELETION_TIME_2038_LEGACY_CAP`).
pub(super) const LAST_LEGACY: u32 = i32::MAX as u32 - 1;

/// The format in which what these sstables hold is written anew: the one that is wanted, but BTI
/// where BIG would let something expire earlier than it has to. `now` is in seconds since 1970.
pub fn output_format<'s>(
    wanted: Format,
    inputs: impl IntoIterator<Item = &'s SSTable>,
    now: u32,
) -> Format {
    if wanted.written().features().v5_statistics {
        return wanted;
    }
    let has_later_times = |sstable: &&SSTable| {
        let version = sstable.descriptor().version;
        version.features().v5_statistics && may_exceed(sstable.stats(), now)
    };
    match inputs.into_iter().find(has_later_times) {
        Some(sstable) => {
            let (version, of) = (Format::Bti.written(), sstable.descriptor());
            tracing::debug!(sstable = %of, "it expires after 2038: written anew as {version}");
            Format::Bti
        }
        None => wanted,
    }
}

/// Can there be times that older versions have no room for? The latest time is only known where
/// everything expires or is deleted; else, nothing expires later than the longest time to live from
/// now.
fn may_exceed(stats: &Stats, now: u32) -> bool {
    match stats.max_local_deletion_time {
        NO_DELETION_TIME => now.saturating_add_signed(stats.max_ttl) > LAST_LEGACY,
        latest => latest > LAST_LEGACY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_after_2038_are_seen_in_the_statistics() {
        const NOW: u32 = 1_800_000_000;
        let stats = |latest, max_ttl| Stats {
            max_local_deletion_time: latest,
            max_ttl,
            ..Stats::default()
        };
        assert!(!may_exceed(&stats(LAST_LEGACY, 1), NOW));
        assert!(may_exceed(&stats(LAST_LEGACY + 1, 1), NOW));
        assert!(!may_exceed(&stats(NO_DELETION_TIME, 86_400), NOW));
        assert!(may_exceed(&stats(NO_DELETION_TIME, 630_720_000), NOW));
        assert!(!may_exceed(&stats(NO_DELETION_TIME, 0), NOW));
    }
}
