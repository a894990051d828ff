//! Which sstables to compact together: Cassandra's `LeveledCompactionStrategy` (`LeveledManifest`,
//! `LeveledGenerations`).
//!
//! sstables of level 0 come from flushes and overlap. Those of a higher level are of about
//! `sstable_size_in_mb`, do not overlap each other, and level n holds `fanout_size`ⁿ of them; so
//! most partitions lie in one file of a level. In order:
//!
//! 1. The highest level that is too full gives one sstable, in turn by token, to the next one: it
//!    is compacted with those there that it overlaps. Unless level 0 has more than
//!    [`MANY_IN_L0`]: then the sstables of level 0 are first compacted among themselves by size.
//! 2. Level 0: the oldest sstables and those they overlap, up to `max_threshold`. If they are
//!    larger than one sstable should be, those of level 1 that they overlap join, and the output
//!    is of level 1; otherwise it stays in level 0.
//! 3. A file with many droppable tombstones is rewritten alone, of the highest levels first.
//!
//! If a level has not been compacted for [`STARVED`] compactions of levels above 0, one of its
//! sstables that lies within what one of those compacts into a lower level joins, so that data does
//! not stay up for ever when there is little of it.
//!
//! `single_sstable_uplevel` lets Cassandra move a file that overlaps nothing in the next level by
//! changing its statistics. Here it is rewritten like any other.
//!
//! The level of a file stands in its statistics. A file that overlaps others of its level, as
//! after a change of the strategy, or when Cassandra's files are shared by several shards, counts
//! as one of level 0.

use model::Token;

use super::candidate::{Candidate, Situation, span, total_size};
use super::cut::{Cut, HIGHEST_LEVEL};
use super::options::{CommonOptions, Map, option};
use super::size_tiered::{self, SizeTieredOptions};
use super::strategy::Choice;
use super::tombstones::worth_dropping;

/// From so many files on level 0 is compacted by size first (`MAX_COMPACTING_L0`).
const MANY_IN_L0: usize = 32;
/// So many compactions may pass a level by (`NO_COMPACTION_LIMIT`).
const STARVED: u32 = 25;

const MIB: f64 = 1024.0 * 1024.0;

/// The options of the strategy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeveledOptions {
    /// `sstable_size_in_mb`, in bytes.
    pub(crate) sstable_size: u64,
    /// `fanout_size`: how many times more each level holds than the one before.
    pub(crate) fanout: u64,
    /// For level 0 when it has too much.
    pub(crate) size_tiered: SizeTieredOptions,
}

impl LeveledOptions {
    pub(crate) fn of(map: &Map) -> LeveledOptions {
        LeveledOptions {
            // Whole ones as far as statements go.
            sstable_size: (option(map, "sstable_size_in_mb", 160.0) * MIB).max(1.0) as u64,
            fanout: option::<u64>(map, "fanout_size", 10).max(1),
            size_tiered: SizeTieredOptions::of(map),
        }
    }

    fn max_bytes(&self, level: usize) -> u64 {
        match level {
            0 => self.sstable_size.saturating_mul(4),
            _ => self
                .sstable_size
                .saturating_mul(self.fanout.saturating_pow(level as u32)),
        }
    }

    fn is_too_full(&self, level: usize, bytes: u64) -> bool {
        bytes as f64 / self.max_bytes(level) as f64 > 1.001
    }
}

/// What it remembers from one choice to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeveledState {
    /// By level: the last token of what was compacted out of it last.
    last_compacted: [Option<Token>; LEVELS],
    /// By level: compactions since the last one into it.
    passed_by: [u32; LEVELS],
}

const LEVELS: usize = HIGHEST_LEVEL as usize + 1;

/// The sstables by level.
type Levels<'c> = [Vec<&'c Candidate>; LEVELS];

/// Those of the higher levels are sorted by token and do not overlap.
fn levels<'c>(files: impl IntoIterator<Item = &'c Candidate>) -> Levels<'c> {
    let mut levels: Levels<'c> = Default::default();
    let mut sorted: Vec<&Candidate> = files.into_iter().collect();
    sorted.sort_by_key(|file| (file.first, file.last, file.id));
    for file in sorted {
        let level = &mut levels[file.level.min(HIGHEST_LEVEL) as usize];
        let overlaps = level.last().is_some_and(|last| last.last >= file.first);
        match overlaps && file.level > 0 {
            true => levels[0].push(file),
            false => level.push(file),
        }
    }
    levels
}

/// The compaction that comes next, if there is one to do.
pub(crate) fn next(
    state: &mut LeveledState,
    situation: &Situation<'_>,
    common: &CommonOptions,
    options: &LeveledOptions,
) -> Option<Choice> {
    let levels = levels(situation.own());
    let by_size = || {
        (levels[0].len() > MANY_IN_L0)
            .then(|| {
                let free = levels[0].iter().copied().filter(|file| file.is_free);
                size_tiered::most_interesting(free, common, &options.size_tiered)
            })
            .filter(|chosen| !chosen.is_empty())
            .map(|chosen| Choice::new(chosen, 0, Cut::Never))
    };
    for level in (1..LEVELS - 1).rev() {
        let free = levels[level].iter().copied().filter(|file| file.is_free);
        if !options.is_too_full(level, total_size(free)) {
            continue;
        }
        if let Some(choice) = by_size() {
            return Some(choice);
        }
        let chosen = candidates_of(&levels, level, state.last_compacted[level]);
        if let Some(chosen) = chosen {
            state.last_compacted[level] = Some(chosen[0].last);
            return Some(with_starved(state, &levels, chosen, level + 1, options));
        }
    }
    let lowest = candidates_of_level_0(&levels, common, options)
        .map(|(chosen, level)| of_level_0(&chosen, level, options))
        .or_else(by_size);
    lowest.or_else(|| {
        let file = full_of_tombstones(&levels, situation, common)?;
        Some(rewrite(file, options))
    })
}

/// How one file is rewritten alone: it keeps its level.
pub(crate) fn rewrite(file: &Candidate, options: &LeveledOptions) -> Choice {
    let cut = match file.level {
        0 => Cut::Never,
        _ => Cut::Size(options.sstable_size),
    };
    Choice::new(vec![file.id], file.level, cut)
}

/// The first file of a level behind the one compacted last that is free together with those of the
/// next level that it overlaps; it comes first.
fn candidates_of<'c>(
    levels: &Levels<'c>,
    level: usize,
    last: Option<Token>,
) -> Option<Vec<&'c Candidate>> {
    let files = &levels[level];
    let start = last.map_or(0, |last| files.partition_point(|file| file.first <= last));
    let in_turn = files[start..].iter().chain(&files[..start]);
    in_turn.copied().find_map(|file| {
        let mut chosen = vec![file];
        let next = levels[level + 1].iter().copied();
        chosen.extend(next.filter(|next| next.overlaps(file)));
        chosen.iter().all(|file| file.is_free).then_some(chosen)
    })
}

/// What of level 0 is to be compacted, with what of level 1 it overlaps if it is enough; and the
/// level of the output.
fn candidates_of_level_0<'c>(
    levels: &Levels<'c>,
    common: &CommonOptions,
    options: &LeveledOptions,
) -> Option<(Vec<&'c Candidate>, usize)> {
    let busy = levels[0].iter().copied().filter(|file| file.is_busy());
    let busy: Vec<&Candidate> = busy.collect();
    let busy_span = span(busy.iter().copied());
    let is_busy = |file: &Candidate| busy_span.is_some_and(|span| file.overlaps_range(span));
    let mut remaining: Vec<&Candidate> = levels[0].iter().copied().filter(|f| f.is_free).collect();
    remaining.sort_by_key(|file| (file.max_timestamp, file.id));
    let by_age = remaining.clone();
    let mut chosen: Vec<&Candidate> = Vec::new();
    for file in by_age {
        if chosen.iter().any(|c| c.id == file.id) || busy.iter().any(|b| b.overlaps(file)) {
            continue;
        }
        let (overlapping, rest): (Vec<&Candidate>, Vec<&Candidate>) = remaining
            .into_iter()
            .partition(|other| other.overlaps(file));
        remaining = rest;
        chosen.extend(overlapping.into_iter().filter(|file| !is_busy(file)));
        if chosen.len() > common.max_threshold {
            chosen.sort_by_key(|file| (file.max_timestamp, file.id));
            chosen.truncate(common.max_threshold);
            break;
        }
    }
    let mut level = 0;
    if total_size(chosen.iter().copied()) > options.sstable_size {
        level = 1;
        let span = span(chosen.iter().copied())?;
        let below = levels[1].iter().copied();
        let below: Vec<&Candidate> = below.filter(|file| file.overlaps_range(span)).collect();
        if below.iter().any(|file| !file.is_free) || is_busy_within(&busy, span) {
            return None;
        }
        chosen.extend(below);
    }
    (chosen.len() >= 2).then_some((chosen, level))
}

fn is_busy_within(busy: &[&Candidate], span: (Token, Token)) -> bool {
    busy.iter().any(|file| file.overlaps_range(span))
}

/// No file of a higher level joins what comes out of level 0: only what is compacted out of the
/// levels above looks for starved ones, and only that counts for them.
fn of_level_0(chosen: &[&Candidate], level: usize, options: &LeveledOptions) -> Choice {
    let cut = match level {
        0 => Cut::Never,
        _ => Cut::Size(options.sstable_size),
    };
    Choice::new(ids(chosen), level as u32, cut)
}

/// Adds a file of a level that has been passed by for long, if one lies within the others
/// (`getOverlappingStarvedSSTables`).
fn with_starved<'c>(
    state: &mut LeveledState,
    levels: &Levels<'c>,
    mut chosen: Vec<&'c Candidate>,
    level: usize,
    options: &LeveledOptions,
) -> Choice {
    for passed_by in &mut state.passed_by[1..] {
        *passed_by += 1;
    }
    state.passed_by[level] = 0;
    let highest = (1..LEVELS).rev().find(|level| !levels[*level].is_empty());
    let starved = highest.filter(|highest| *highest > level && state.passed_by[*highest] > STARVED);
    if let (Some(highest), Some((first, last))) = (starved, span(chosen.iter().copied())) {
        let lies_within = |file: &&&Candidate| {
            file.is_free && first <= file.first && file.last <= last && first < last
        };
        chosen.extend(levels[highest].iter().find(lies_within).copied());
    }
    Choice::new(ids(&chosen), level as u32, Cut::Size(options.sstable_size))
}

fn ids(files: &[&Candidate]) -> Vec<usize> {
    files.iter().map(|file| file.id).collect()
}

fn full_of_tombstones<'c>(
    levels: &Levels<'c>,
    situation: &Situation<'_>,
    common: &CommonOptions,
) -> Option<&'c Candidate> {
    levels.iter().rev().find_map(|level| {
        let free = level.iter().copied().filter(|file| file.is_free);
        free.filter(|file| worth_dropping(file, situation, common))
            .max_by(|a, b| {
                a.droppable_ratio
                    .total_cmp(&b.droppable_ratio)
                    .then(b.id.cmp(&a.id))
            })
    })
}

/// How many compactions there are to do (`getEstimatedTasks`).
pub(crate) fn pending<'c>(
    files: impl IntoIterator<Item = &'c Candidate>,
    common: &CommonOptions,
    options: &LeveledOptions,
) -> usize {
    let levels = levels(files);
    let too_much: u64 = levels
        .iter()
        .enumerate()
        .map(|(level, files)| {
            let most = (options.max_bytes(level) as f64 * 1.001) as u64;
            let bytes = total_size(files.iter().copied());
            bytes.saturating_sub(most).div_ceil(options.sstable_size)
        })
        .sum();
    let many = levels[0].len() > common.max_threshold;
    let by_size = if many {
        levels[0].len() / common.max_threshold
    } else {
        0
    };
    too_much as usize + by_size
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{file, situation};
    use super::super::options::testing::options;
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn at(id: usize, level: u32, range: (i64, i64), size: u64) -> Candidate {
        Candidate {
            level,
            first: Token(range.0),
            last: Token(range.1),
            ..file(id, size)
        }
    }

    struct Chooser {
        state: LeveledState,
        common: CommonOptions,
        options: LeveledOptions,
    }

    impl Chooser {
        fn new(pairs: &[(&str, &str)]) -> Chooser {
            let mut all = vec![("sstable_size_in_mb", "1")];
            all.extend(pairs);
            let options = options("LeveledCompactionStrategy", &all);
            Chooser {
                state: LeveledState::default(),
                common: CommonOptions::of(&options),
                options: LeveledOptions::of(&options.compaction),
            }
        }

        fn next(&mut self, files: &[Candidate]) -> Option<Choice> {
            next(
                &mut self.state,
                &situation(files),
                &self.common,
                &self.options,
            )
        }
    }

    #[test]
    fn little_data_stays_in_level_0() {
        let files = [at(1, 0, (0, 10), 1000), at(2, 0, (5, 15), 1000)];
        let choice = Chooser::new(&[]).next(&files);
        assert_eq!(choice, Some(Choice::new(vec![1, 2], 0, Cut::Never)));
        assert_eq!(Chooser::new(&[]).next(&files[..1]), None);
    }

    #[test]
    fn enough_of_level_0_goes_to_level_1() {
        let files = [
            at(1, 0, (0, 10), MIB),
            at(2, 0, (5, 15), MIB),
            at(3, 1, (0, 3), MIB),
            at(4, 1, (15, 20), MIB),
            at(5, 1, (30, 40), MIB),
        ];
        let choice = Chooser::new(&[]).next(&files);
        let expected = Choice::new(vec![1, 2, 3, 4], 1, Cut::Size(MIB));
        assert_eq!(choice, Some(expected));
        let mut busy = files.clone();
        busy[3].is_free = false;
        assert_eq!(
            Chooser::new(&[]).next(&busy),
            None,
            "level 1 is being compacted"
        );
    }

    #[test]
    fn a_level_that_is_too_full_gives_its_files_in_turn() {
        let mut files: Vec<Candidate> = (0..4)
            .map(|n| at(n, 1, (n as i64 * 10, n as i64 * 10 + 5), MIB))
            .collect();
        files.push(at(9, 2, (12, 13), MIB));
        let mut chooser = Chooser::new(&[("fanout_size", "3")]);
        let mut inputs = Vec::new();
        for _ in 0..5 {
            inputs.push(chooser.next(&files).expect("level 1 is too full").inputs);
        }
        let expected: [&[usize]; 5] = [&[0], &[1, 9], &[2], &[3], &[0]];
        assert_eq!(inputs, expected);
        let choice = chooser.next(&files).expect("it still is");
        assert_eq!((choice.level, choice.cut), (2, Cut::Size(MIB)));
    }

    #[test]
    fn a_heap_in_level_0_is_compacted_by_size_first() {
        let mut files: Vec<Candidate> = (0..40).map(|n| at(n, 0, (0, 10), 2 * MIB)).collect();
        let choice = Chooser::new(&[]).next(&files).expect("there is much to do");
        assert_eq!(
            (choice.level, choice.inputs.len()),
            (1, 32),
            "level 1 has room"
        );
        files.extend((40..60).map(|n| at(n, 1, (n as i64 * 10, n as i64 * 10 + 1), MIB)));
        let choice = Chooser::new(&[]).next(&files).expect("there is much to do");
        assert_eq!((choice.level, choice.inputs.len()), (0, 32));
        assert_eq!(choice.cut, Cut::Never);
    }

    #[test]
    fn files_that_overlap_in_their_level_count_as_level_0() {
        let files = [
            at(1, 2, (0, 10), MIB),
            at(2, 2, (10, 20), MIB),
            at(3, 2, (21, 30), MIB),
        ];
        let levels = levels(&files);
        assert_eq!(ids(&levels[2]), [1, 3]);
        assert_eq!(ids(&levels[0]), [2]);
    }

    #[test]
    fn a_level_that_starves_is_drawn_in() {
        let mut chooser = Chooser::new(&[]);
        let files = [at(1, 1, (0, 10), 20 * MIB), at(3, 5, (2, 3), MIB)];
        for _ in 0..STARVED {
            assert_eq!(chooser.next(&files).expect("level 1").inputs, [1]);
        }
        assert_eq!(chooser.next(&files).expect("level 1").inputs, [1, 3]);
    }

    #[test]
    fn level_0_draws_in_no_level_that_starves() {
        let mut chooser = Chooser::new(&[]);
        let files = [
            at(1, 0, (0, 10), 2 * MIB),
            at(2, 0, (0, 10), 2 * MIB),
            at(3, 5, (2, 3), MIB),
        ];
        for _ in 0..2 * STARVED {
            assert_eq!(chooser.next(&files).expect("level 0").inputs, [1, 2]);
        }
    }

    #[test]
    fn tombstones_are_dropped_from_the_highest_level_first() {
        let mut files = [at(1, 1, (0, 1), MIB), at(2, 3, (2, 3), MIB)];
        for file in &mut files {
            file.droppable_ratio = 0.9;
            file.age_seconds = 100_000;
        }
        let choice = Chooser::new(&[]).next(&files);
        assert_eq!(choice, Some(Choice::new(vec![2], 3, Cut::Size(MIB))));
    }

    /// Replaces what was chosen by outputs as a compaction would cut them, if every key were in
    /// one input only.
    fn compact(files: &mut Vec<Candidate>, choice: &Choice, next_id: &mut usize) {
        let (inputs, rest): (Vec<Candidate>, Vec<Candidate>) = std::mem::take(files)
            .into_iter()
            .partition(|file| choice.inputs.contains(&file.id));
        assert_eq!(
            inputs.len(),
            choice.inputs.len(),
            "chosen twice or not there"
        );
        *files = rest;
        let (first, last) = span(&inputs).expect("there are some");
        let total = total_size(&inputs);
        let outputs = match choice.cut {
            Cut::Size(size) => total.div_ceil(size).min((last.0 - first.0) as u64 + 1),
            _ => 1,
        };
        let width = (last.0 - first.0 + 1) / outputs as i64;
        for output in 0..outputs as i64 {
            let start = first.0 + output * width;
            let end = if output + 1 == outputs as i64 {
                last.0
            } else {
                start + width - 1
            };
            let size = (total / outputs).max(1);
            files.push(at(*next_id, choice.level, (start, end), size));
            *next_id += 1;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// From any files it comes to a state with nothing to do, in which no level is too full
        /// and none but level 0 overlaps.
        #[test]
        fn it_comes_to_an_end(
            given in prop::collection::vec((0..4u32, 0..900i64, 0..200i64, 1..4 * MIB), 0..50),
        ) {
            let mut files: Vec<Candidate> = given
                .into_iter()
                .enumerate()
                .map(|(id, (level, first, length, size))| at(id, level, (first, first + length), size))
                .collect();
            let mut chooser = Chooser::new(&[("fanout_size", "4")]);
            let mut next_id = 1000;
            let mut rounds = 0;
            while let Some(choice) = chooser.next(&files) {
                compact(&mut files, &choice, &mut next_id);
                rounds += 1;
                prop_assert!(rounds < 5000, "{files:?}");
            }
            let levels = levels(&files);
            for (level, files) in levels.iter().enumerate().take(LEVELS - 1).skip(1) {
                let bytes = total_size(files.iter().copied());
                prop_assert!(!chooser.options.is_too_full(level, bytes));
                for pair in files.windows(2) {
                    prop_assert!(pair[0].last < pair[1].first);
                }
            }
        }
    }
}
