//! Which sstables to compact together: Cassandra's `TimeWindowCompactionStrategy`.
//!
//! An sstable belongs to the window of its highest timestamp: so many minutes, hours or days. In
//! the newest window that was ever seen sstables are compacted by size; of an older one, all of
//! them as soon as there are two, the newest window first. Windows are never mixed, so that an
//! sstable expires as a whole. Every so often expired sstables are looked for, which go without
//! being read, whatever else is compacted.
//!
//! `unsafe_aggressive_sstable_expiration` is refused when a table is made, as it is in a Cassandra
//! that was not started with a flag for it; in a schema that has it, it has no effect.

use std::collections::BTreeMap;

use super::candidate::{Candidate, Situation};
use super::expired::fully_expired;
use super::options::{CommonOptions, Map, option};
use super::size_tiered::{self, SizeTieredOptions};
use super::tombstones::worth_dropping;

/// Each of these options asks for compactions for the sake of tombstones, unless it is `false`.
const ABOUT_TOMBSTONES: [&str; 3] = [
    "unchecked_tombstone_compaction",
    "tombstone_compaction_interval",
    "tombstone_threshold",
];

/// The options of the strategy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeWindowOptions {
    /// `compaction_window_unit` times `compaction_window_size`, in seconds.
    pub(crate) window_seconds: i64,
    /// `timestamp_resolution`: units of the timestamps of the data a second.
    pub(crate) resolution: i64,
    /// `expired_sstable_check_frequency_seconds`
    pub(crate) check_seconds: u32,
    /// Are files rewritten alone for their tombstones? Only if one of [`ABOUT_TOMBSTONES`] is set.
    pub(crate) drops_tombstones: bool,
    /// For the newest window.
    pub(crate) size_tiered: SizeTieredOptions,
}

impl TimeWindowOptions {
    pub(crate) fn of(map: &Map) -> TimeWindowOptions {
        let text = |name: &str| map.get(name).map_or("", String::as_str);
        let unit = match text("compaction_window_unit") {
            "MINUTES" => 60,
            "HOURS" => 3_600,
            _ => 86_400,
        };
        let size: i64 = option(map, "compaction_window_size", 1);
        TimeWindowOptions {
            window_seconds: size.max(1).saturating_mul(unit),
            resolution: match text("timestamp_resolution") {
                "SECONDS" => 1,
                "MILLISECONDS" => 1_000,
                "NANOSECONDS" => 1_000_000_000,
                _ => 1_000_000,
            },
            check_seconds: option(map, "expired_sstable_check_frequency_seconds", 600),
            // The constructor of the strategy compares the text as it was given.
            drops_tombstones: ABOUT_TOMBSTONES
                .iter()
                .any(|name| map.get(*name).is_some_and(|text| text != "false")),
            size_tiered: SizeTieredOptions::of(map),
        }
    }

    /// The first second of the window that a timestamp is in.
    fn window(&self, timestamp: i64) -> i64 {
        let seconds = timestamp / self.resolution;
        seconds - seconds % self.window_seconds
    }
}

/// What it remembers from one choice to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeWindowState {
    highest_window: i64,
    /// When expired sstables were looked for last, in seconds since 1970.
    last_check: u32,
}

/// The files to compact together next, or none. Expired ones are among them.
pub(crate) fn next(
    state: &mut TimeWindowState,
    situation: &Situation<'_>,
    common: &CommonOptions,
    options: &TimeWindowOptions,
) -> Vec<usize> {
    let mut expired = Vec::new();
    if situation.now_seconds.saturating_sub(state.last_check) > options.check_seconds {
        state.last_check = situation.now_seconds;
        let free: Vec<usize> = situation.free().map(|file| file.id).collect();
        expired = fully_expired(&free, situation);
    }
    let rest = || situation.free().filter(|file| !expired.contains(&file.id));
    let windows = windows(rest(), options);
    let newest = windows.keys().next_back().copied().unwrap_or(0);
    state.highest_window = state.highest_window.max(newest);
    let mut chosen = windows
        .iter()
        .rev()
        .map(|(window, files)| of_window(*window, files, state, common, options))
        .find(|chosen| !chosen.is_empty())
        .unwrap_or_default();
    if chosen.is_empty() && options.drops_tombstones {
        let worth = rest().filter(|file| worth_dropping(file, situation, common));
        let smallest = worth.min_by_key(|file| (file.size, file.id));
        chosen.extend(smallest.map(|file| file.id));
    }
    chosen.extend(expired);
    chosen
}

fn windows<'c>(
    files: impl Iterator<Item = &'c Candidate>,
    options: &TimeWindowOptions,
) -> BTreeMap<i64, Vec<&'c Candidate>> {
    let mut windows: BTreeMap<i64, Vec<&Candidate>> = BTreeMap::new();
    for file in files {
        let window = options.window(file.max_timestamp);
        windows.entry(window).or_default().push(file);
    }
    windows
}

/// What to compact of a window, if anything (`newestBucket`).
fn of_window(
    window: i64,
    files: &[&Candidate],
    state: &TimeWindowState,
    common: &CommonOptions,
    options: &TimeWindowOptions,
) -> Vec<usize> {
    if window >= state.highest_window {
        let files = files.iter().copied();
        return size_tiered::most_interesting(files, common, &options.size_tiered);
    }
    if files.len() < 2 {
        return Vec::new();
    }
    let mut sorted = files.to_vec();
    sorted.sort_by_key(|file| (file.size, file.id));
    sorted.truncate(common.max_threshold);
    sorted.iter().map(|file| file.id).collect()
}

/// How many compactions there are to do.
pub(crate) fn pending(
    state: &TimeWindowState,
    situation: &Situation<'_>,
    common: &CommonOptions,
    options: &TimeWindowOptions,
) -> usize {
    windows(situation.free(), options)
        .iter()
        .filter(|(window, files)| !of_window(**window, files, state, common, options).is_empty())
        .map(|(_, files)| files.len().div_ceil(common.max_threshold))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{file, situation};
    use super::super::options::testing::options;
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000_000;

    struct Chooser {
        state: TimeWindowState,
        common: CommonOptions,
        options: TimeWindowOptions,
    }

    impl Chooser {
        fn new(pairs: &[(&str, &str)]) -> Chooser {
            let mut all = vec![("compaction_window_unit", "HOURS")];
            all.extend(pairs);
            let options = options("TimeWindowCompactionStrategy", &all);
            Chooser {
                state: TimeWindowState::default(),
                common: CommonOptions::of(&options),
                options: TimeWindowOptions::of(&options.compaction),
            }
        }

        fn next(&mut self, files: &[Candidate]) -> Vec<usize> {
            next(
                &mut self.state,
                &situation(files),
                &self.common,
                &self.options,
            )
        }
    }

    fn at(id: usize, hour: i64, size: u64) -> Candidate {
        Candidate {
            min_timestamp: hour * HOUR,
            max_timestamp: hour * HOUR + 5,
            ..file(id, size)
        }
    }

    #[test]
    fn windows_have_lengths_and_resolutions() {
        let window =
            |pairs: &[(&str, &str)], timestamp| Chooser::new(pairs).options.window(timestamp);
        assert_eq!(window(&[], 5 * HOUR + 1), 5 * 3600);
        assert_eq!(
            window(&[("compaction_window_size", "4")], 7 * HOUR),
            4 * 3600
        );
        let seconds = [("timestamp_resolution", "SECONDS")];
        assert_eq!(window(&seconds, 7201), 7200);
        let days = [("compaction_window_unit", "DAYS")];
        assert_eq!(window(&days, 49 * HOUR), 48 * 3600);
    }

    #[test]
    fn old_windows_become_one_file_each() {
        let files = [
            at(1, 3, 10),
            at(2, 3, 9_000_000_000),
            at(3, 5, 10),
            at(4, 5, 10),
        ];
        let mut chooser = Chooser::new(&[]);
        assert_eq!(chooser.next(&files), [1, 2], "the newest window needs four");
        assert!(chooser.next(&files[2..]).is_empty());
        // The newest window is the newest that there ever was.
        assert_eq!(chooser.next(&files[..2]), [1, 2]);
        let five = [
            at(1, 5, 10),
            at(2, 5, 10),
            at(3, 5, 10),
            at(4, 5, 10),
            at(5, 4, 1),
        ];
        assert_eq!(chooser.next(&five), [1, 2, 3, 4]);
    }

    #[test]
    fn expired_files_join_whatever_is_compacted() {
        let mut files = [at(1, 1, 10), at(2, 3, 10), at(3, 3, 10), at(4, 5, 10)];
        files[0].max_local_deletion_time = 1;
        let mut chooser = Chooser::new(&[]);
        assert_eq!(chooser.next(&files), [2, 3, 1]);
        assert_eq!(
            chooser.next(&files),
            [2, 3],
            "it was looked for not long ago"
        );
        let mut often = Chooser::new(&[("expired_sstable_check_frequency_seconds", "0")]);
        often.state.last_check = 999_999;
        assert_eq!(often.next(&[files[0].clone(), files[3].clone()]), [1]);
    }

    #[test]
    fn tombstones_are_dropped_if_asked_for() {
        let mut old = at(1, 1, 10);
        old.droppable_ratio = 0.9;
        old.age_seconds = 100_000;
        let files = [old];
        assert!(Chooser::new(&[]).next(&files).is_empty());
        let mut asked = Chooser::new(&[("tombstone_threshold", "0.5")]);
        assert_eq!(asked.next(&files), [1]);
        let unchecked = |text| [("unchecked_tombstone_compaction", text)];
        assert_eq!(Chooser::new(&unchecked("true")).next(&files), [1]);
        assert!(Chooser::new(&unchecked("false")).next(&files).is_empty());
        let interval = [("tombstone_compaction_interval", "10")];
        assert_eq!(Chooser::new(&interval).next(&files), [1]);
    }

    proptest! {
        /// It comes to an end, with one file in every window but the newest, and never mixes
        /// windows.
        #[test]
        fn it_comes_to_an_end(given in prop::collection::vec((0..8i64, 1..1000u64), 0..80)) {
            let mut files: Vec<Candidate> = given
                .into_iter()
                .enumerate()
                .map(|(id, (hour, size))| at(id, hour, size))
                .collect();
            let mut chooser = Chooser::new(&[]);
            for round in 0.. {
                let chosen = chooser.next(&files);
                if chosen.is_empty() {
                    break;
                }
                prop_assert!(round < 100);
                let (inputs, rest): (Vec<Candidate>, Vec<Candidate>) =
                    files.into_iter().partition(|file| chosen.contains(&file.id));
                prop_assert_eq!(inputs.len(), chosen.len());
                let window = chooser.options.window(inputs[0].max_timestamp);
                prop_assert!(inputs.iter().all(|f| chooser.options.window(f.max_timestamp) == window));
                files = rest;
                let size = inputs.iter().map(|file| file.size).sum();
                files.push(Candidate { size, id: 1000 + round, ..inputs[0].clone() });
            }
            let newest = files.iter().map(|file| file.max_timestamp).max();
            for file in &files {
                let same = files.iter().filter(|f| f.max_timestamp == file.max_timestamp).count();
                prop_assert!(same == 1 || Some(file.max_timestamp) == newest && same < 4);
            }
        }
    }
}
