//! Which sstables to compact together: Cassandra's `UnifiedCompactionStrategy`, described in its
//! `UnifiedCompactionStrategy.md`.
//!
//! What counts is an sstable's density: its size by the share of the token space that it spans.
//! Levels are ranges of density, each with a scaling parameter W from which follow its fan-out F,
//! by which it is wider than the one before, and its threshold T:
//!
//! ```text
//! W < 0 (levelled):  F = 2 - W, T = 2
//! W ≥ 0 (tiered):    F = 2 + W, T = 2 + W
//! ```
//!
//! Within a level T sstables that overlap at one token are compacted; with them, as
//! `overlap_inclusion_method` says, those that they overlap. The level in which most overlap comes
//! first. Outputs are cut at fixed boundaries of the token space, the more the denser they are, so
//! that sstables stay near `target_sstable_size`, or grow as `sstable_growth` says.
//!
//! The token space here is that of one shard of the node. Its slices of the ring are dealt out in
//! turn, so shares of it are shares of the ring.

use std::collections::BTreeSet;

use model::Token;

use super::candidate::{Candidate, Situation, span, total_size};
use super::cut::Cut;
use super::expired::fully_expired;
use super::options::{Map, bytes, option};
use super::strategy::Choice;

/// A smaller span is that of a single partition, and says nothing (`MINIMUM_TOKEN_COVERAGE`).
const SMALLEST_SPAN: f64 = 1.0 / (1u64 << 48) as f64;
/// The number of boundaries is the base count times at most two to this (`MAX_SHARD_SHIFT`).
const MOST_SHIFT: u32 = 20;

/// The options of the strategy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnifiedOptions {
    /// `scaling_parameters`, by level; the last one is for all behind it too.
    pub(crate) scaling: Vec<i32>,
    /// `target_sstable_size`, in bytes.
    pub(crate) target_size: u64,
    /// `min_sstable_size`, in bytes: no more boundaries than leave sstables so large.
    pub(crate) min_size: u64,
    /// `base_shard_count`
    pub(crate) base_shards: u32,
    /// `sstable_growth`, from 0 to 1.
    pub(crate) growth: f64,
    /// `max_sstables_to_compact`: of those that overlap.
    pub(crate) max_files: usize,
    /// `flush_size_override`, in bytes; 0 if sstables are flushed as they are.
    pub(crate) flush_size: u64,
    /// `expired_sstable_check_frequency_seconds`
    pub(crate) check_seconds: u32,
    /// `overlap_inclusion_method`
    pub(crate) inclusion: Inclusion,
}

/// Which sstables are compacted with those that overlap at one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inclusion {
    /// No others.
    None,
    /// Those that overlap one of them.
    Single,
    /// And those that overlap one of those, and so on.
    Transitive,
}

impl UnifiedOptions {
    pub(crate) fn of(map: &Map) -> UnifiedOptions {
        let scaling = map.get("scaling_parameters").map_or("T4", String::as_str);
        let scaling: Vec<i32> = scaling.split(',').filter_map(scaling_parameter).collect();
        let growth = map.get("sstable_growth").map_or("0.333", String::as_str);
        let growth = match growth.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
            None => growth.trim().parse(),
        };
        let inclusion = map.get("overlap_inclusion_method");
        let most: i64 = option(map, "max_sstables_to_compact", 0);
        UnifiedOptions {
            scaling: if scaling.is_empty() { vec![2] } else { scaling },
            target_size: bytes(map, "target_sstable_size", 1 << 30).max(1),
            min_size: bytes(map, "min_sstable_size", 100 << 20),
            base_shards: option::<u32>(map, "base_shard_count", 4).max(1),
            growth: growth.unwrap_or(0.333).clamp(0.0, 1.0),
            max_files: usize::try_from(most)
                .ok()
                .filter(|n| *n > 0)
                .unwrap_or(usize::MAX),
            flush_size: bytes(map, "flush_size_override", 0),
            check_seconds: option(map, "expired_sstable_check_frequency_seconds", 600),
            inclusion: match inclusion.map(|text| text.to_uppercase()).as_deref() {
                Some("NONE") => Inclusion::None,
                Some("SINGLE") => Inclusion::Single,
                _ => Inclusion::Transitive,
            },
        }
    }

    fn scaling(&self, level: usize) -> i32 {
        let last = self.scaling.last().copied().unwrap_or(2);
        self.scaling.get(level).copied().unwrap_or(last)
    }

    fn fanout(&self, level: usize) -> usize {
        2usize.saturating_add(self.scaling(level).unsigned_abs() as usize)
    }

    fn threshold(&self, level: usize) -> usize {
        2usize.saturating_add(self.scaling(level).max(0) as usize)
    }

    /// How many parts the token space has for sstables of this density (`getNumShards`).
    fn shards(&self, density: f64) -> u64 {
        let base = u64::from(self.base_shards);
        if self.min_size > 0 {
            let count = density / self.min_size as f64;
            if count < base as f64 {
                // A power of two that divides the base, so that the boundaries are among those of
                // higher densities.
                let power = 1 << (count as u64 | 1).ilog2();
                return power.min(base & base.wrapping_neg());
            }
        }
        let count = density / (self.target_size as f64 * base as f64);
        if self.growth >= 1.0 || count <= 0.0 {
            return base;
        }
        let shift = match self.growth == 0.0 {
            true => (count * std::f64::consts::SQRT_2).log2(),
            false => count.log2() * (1.0 - self.growth) + 0.5,
        };
        base << (shift.max(0.0) as u32).min(MOST_SHIFT)
    }
}

/// `N`, `L4`, `T4` or a number; case counts.
fn scaling_parameter(text: &str) -> Option<i32> {
    let text = text.trim();
    let fan = |digits: &str| digits.parse::<i32>().ok().filter(|fan| *fan >= 2);
    match text.split_at_checked(1)? {
        ("N", "") => Some(0),
        ("L", digits) => Some(2 - fan(digits)?),
        ("T", digits) => Some(fan(digits)? - 2),
        _ => text.parse().ok(),
    }
}

/// What it remembers from one choice to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnifiedState {
    /// When expired sstables were looked for last, in seconds since 1970.
    last_check: u32,
    /// The size of flushed sstables that levels are made for, in bytes.
    flush_size: u64,
}

/// The compaction that comes next, if there is one to do. Expired files are among its inputs.
pub(crate) fn next(
    state: &mut UnifiedState,
    situation: &Situation<'_>,
    options: &UnifiedOptions,
) -> Option<Choice> {
    let mut expired = Vec::new();
    if situation.now_seconds.saturating_sub(state.last_check) > options.check_seconds {
        state.last_check = situation.now_seconds;
        let free: Vec<usize> = situation.free().map(|file| file.id).collect();
        expired = fully_expired(&free, situation);
    }
    let flush = situation.flush_size as f64;
    // Levels move only when the size has changed for good.
    if state.flush_size == 0 || (1.0 - state.flush_size as f64 / flush).abs() > 0.5 {
        state.flush_size = situation.flush_size.next_multiple_of(1 << 20);
    }
    let rest = situation.free().filter(|file| !expired.contains(&file.id));
    let mut best: Option<(usize, Vec<&Candidate>)> = None;
    for (level, files) in levels(rest, base_size(state, options), options) {
        let overlaps = overlaps(&files);
        let most = overlaps.iter().map(Vec::len).max().unwrap_or(0);
        let worse = best.as_ref().is_some_and(|(before, _)| *before >= most);
        if most < options.threshold(level) || worse {
            continue;
        }
        let pick = pick(level, &overlaps, most, options);
        best = Some((most, pick));
    }
    let chosen = match best {
        Some((_, chosen)) => chosen,
        None if expired.is_empty() => return None,
        None => Vec::new(),
    };
    let mut choice = compaction_of(&chosen, options);
    choice.inputs.extend(expired);
    Some(choice)
}

/// Outputs of the first level are not smaller than this (`getBaseSstableSize`).
fn base_size(state: &UnifiedState, options: &UnifiedOptions) -> f64 {
    let flush = match options.flush_size {
        0 => state.flush_size,
        size => size,
    };
    flush.max(1 << 20) as f64 * (1.0 - 0.9 / options.fanout(0) as f64)
}

/// How these are compacted: cut at the boundaries for their density together.
pub(crate) fn compaction_of(files: &[&Candidate], options: &UnifiedOptions) -> Choice {
    let ids = files.iter().map(|file| file.id).collect();
    let Some((first, last)) = span(files.iter().copied()) else {
        return Choice::new(ids, 0, Cut::Never);
    };
    let shards = options.shards(density(total_size(files.iter().copied()), first, last));
    let boundaries = boundaries(shards, first, last);
    let cut = match boundaries.is_empty() {
        true => Cut::Never,
        false => Cut::Tokens(boundaries),
    };
    Choice::new(ids, 0, cut)
}

/// All of them, in groups that do not overlap each other.
pub(crate) fn major(files: &[&Candidate], options: &UnifiedOptions) -> Vec<Choice> {
    let mut sorted = files.to_vec();
    sorted.sort_by_key(|file| (file.first, file.last, file.id));
    let mut groups: Vec<(Token, Vec<&Candidate>)> = Vec::new();
    for file in sorted {
        match groups.last_mut() {
            Some((end, group)) if file.first <= *end => {
                *end = (*end).max(file.last);
                group.push(file);
            }
            _ => groups.push((file.last, vec![file])),
        }
    }
    let groups = groups
        .iter()
        .map(|(_, group)| compaction_of(group, options));
    groups.collect()
}

/// How many compactions there are to do.
pub(crate) fn pending(situation: &Situation<'_>, options: &UnifiedOptions) -> usize {
    let state = UnifiedState {
        last_check: 0,
        flush_size: situation.flush_size,
    };
    let levels = levels(situation.free(), base_size(&state, options), options);
    let tasks = levels.into_iter().map(|(level, files)| {
        let overlaps = overlaps(&files);
        let threshold = options.threshold(level);
        let buckets = buckets(&overlaps, threshold, options.inclusion);
        let most = |bucket: &std::ops::Range<usize>| {
            let sizes = overlaps[bucket.clone()].iter().map(Vec::len);
            sizes.max().unwrap_or(0) / threshold
        };
        buckets.iter().map(most).sum::<usize>()
    });
    tasks.sum()
}

/// Bytes by the share of the token space.
fn density(size: u64, first: Token, last: Token) -> f64 {
    let span = (i128::from(last.0) - i128::from(first.0)) as f64 / 2f64.powi(64);
    if span >= SMALLEST_SPAN {
        size as f64 / span
    } else {
        size as f64
    }
}

/// Where `shards` equal parts of the token space end, between two tokens.
fn boundaries(shards: u64, first: Token, last: Token) -> Vec<Token> {
    let from_start = |token: Token| (token.0 as u64).wrapping_add(1 << 63);
    let part_of = |token| ((u128::from(from_start(token)) * u128::from(shards)) >> 64) as u64;
    let start_of = |part: u64| {
        let start = ((u128::from(part)) << 64).div_ceil(u128::from(shards)) as u64;
        // The part before ends with the token before.
        Token((start.wrapping_sub(1 << 63) as i64).saturating_sub(1))
    };
    (part_of(first) + 1..=part_of(last)).map(start_of).collect()
}

/// The files by level; levels without files are left out.
fn levels<'c>(
    files: impl Iterator<Item = &'c Candidate>,
    base: f64,
    options: &UnifiedOptions,
) -> Vec<(usize, Vec<&'c Candidate>)> {
    let density = |file: &Candidate| density(file.size, file.first, file.last);
    let mut sorted: Vec<&Candidate> = files.collect();
    sorted.sort_by(|a, b| density(a).total_cmp(&density(b)).then(a.id.cmp(&b.id)));
    let mut levels: Vec<(usize, Vec<&Candidate>)> = Vec::new();
    let (mut level, mut max) = (0, base * options.fanout(0) as f64);
    for file in sorted {
        while density(file) >= max {
            level += 1;
            max *= options.fanout(level) as f64;
        }
        match levels.last_mut() {
            Some((last, files)) if *last == level => files.push(file),
            _ => levels.push((level, vec![file])),
        }
    }
    levels
}

/// The largest sets of files that overlap at one token, in the order of the tokens
/// (`Overlaps.constructOverlapSets`).
fn overlaps<'c>(files: &[&'c Candidate]) -> Vec<Vec<&'c Candidate>> {
    let mut sorted = files.to_vec();
    sorted.sort_by_key(|file| (file.first, file.last, file.id));
    let mut sets: Vec<Vec<&Candidate>> = Vec::new();
    let mut active: Vec<&Candidate> = Vec::new();
    for file in sorted {
        if active.iter().any(|other| other.last < file.first) {
            sets.push(active.clone());
            active.retain(|other| other.last >= file.first);
        }
        active.push(file);
    }
    if !active.is_empty() {
        sets.push(active);
    }
    sets
}

/// Which neighbouring sets are compacted together (`Overlaps.assignOverlapsIntoBuckets`).
fn buckets(
    sets: &[Vec<&Candidate>],
    threshold: usize,
    inclusion: Inclusion,
) -> Vec<std::ops::Range<usize>> {
    let mut buckets = Vec::new();
    let mut taken = 0;
    let mut at = 0;
    while at < sets.len() {
        if sets[at].len() < threshold {
            at += 1;
            continue;
        }
        let (mut start, mut end) = (at, at + 1);
        if inclusion != Inclusion::None {
            let mut all: BTreeSet<usize> = sets[at].iter().map(|file| file.id).collect();
            let own = all.clone();
            let mut joins = |set: &[&Candidate]| {
                let target = if inclusion == Inclusion::Single {
                    &own
                } else {
                    &all
                };
                let joins = set.iter().any(|file| target.contains(&file.id));
                if joins {
                    all.extend(set.iter().map(|file| file.id));
                }
                joins
            };
            while start > taken && joins(&sets[start - 1]) {
                start -= 1;
            }
            while end < sets.len() && joins(&sets[end]) {
                end += 1;
            }
        }
        buckets.push(start..end);
        taken = end;
        at = end;
    }
    buckets
}

/// What to compact of a level in which `most` files overlap (`Level.getCompactionPick`). Of several
/// places where as many overlap it takes the first; Cassandra takes any.
fn pick<'c>(
    level: usize,
    sets: &[Vec<&'c Candidate>],
    most: usize,
    options: &UnifiedOptions,
) -> Vec<&'c Candidate> {
    let buckets = buckets(sets, options.threshold(level), options.inclusion);
    let fullest = buckets
        .into_iter()
        .find(|bucket| sets[bucket.clone()].iter().any(|set| set.len() == most));
    let sets = fullest.map_or(&[][..], |bucket| &sets[bucket]);
    let mut all: Vec<&Candidate> = sets.iter().flatten().copied().collect();
    all.sort_by_key(|file| (file.max_timestamp, file.id));
    all.dedup_by_key(|file| file.id);
    let fanout = options.fanout(level);
    let limit = options.max_files.max(fanout);
    let late = most > fanout.saturating_mul(options.fanout(level + 1)) && limit > fanout;
    let size = match (most <= fanout, late) {
        (true, _) => return all,
        (false, false) => limit,
        // Very late: what is compacted now goes to the level where it would be by now.
        (false, true) => late_size(level, limit.min(most), options),
    };
    oldest(all, sets, size)
}

/// So many overlapping files that the output gets to a level as if compaction had kept up
/// (`selectPickSize`).
fn late_size(level: usize, limit: usize, options: &UnifiedOptions) -> usize {
    let (mut size, mut above) = (options.fanout(level), level);
    loop {
        above += 1;
        let next = size.saturating_mul(options.fanout(above));
        if next > limit {
            break;
        }
        size = next;
    }
    match options.scaling(level) < 0 {
        true => size * (limit / size).max(1),
        false => size,
    }
}

/// The oldest ones, so that nowhere more than `limit` of them overlap
/// (`Overlaps.pullLastWithOverlapLimit`).
fn oldest<'c>(
    mut by_age: Vec<&'c Candidate>,
    sets: &[Vec<&Candidate>],
    limit: usize,
) -> Vec<&'c Candidate> {
    let mut chosen = vec![0; sets.len()];
    let full = by_age.iter().position(|file| {
        let mut is_full = false;
        for (set, chosen) in sets.iter().zip(&mut chosen) {
            if set.iter().any(|other| other.id == file.id) {
                *chosen += 1;
                is_full |= *chosen > limit;
            }
        }
        is_full
    });
    by_age.truncate(full.unwrap_or(by_age.len()));
    by_age
}

#[cfg(test)]
mod tests;
