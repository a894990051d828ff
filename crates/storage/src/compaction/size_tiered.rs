//! Which sstables to compact together: Cassandra's `SizeTieredCompactionStrategy`.
//!
//! Files of similar size form a bucket: a file joins the first bucket whose average size is within
//! `bucket_low` and `bucket_high` of its own, or any bucket of small files if it is itself below
//! `min_sstable_size`. A bucket of at least `min_threshold` files is worth compacting, at most
//! `max_threshold` of them, the smallest first. Of several such buckets the one with the most
//! reads would win; as hotness is not measured yet, the one of the smallest average size does,
//! which is how Cassandra orders equally cold buckets. Where no bucket is worth it, one file with
//! enough droppable tombstones may be rewritten alone.

use std::collections::BTreeMap;

use model::TableOptions;

/// The options of the strategy, as `compaction = {…}` gives them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizeTieredOptions {
    /// `enabled`: may the table be compacted by itself?
    pub(crate) enabled: bool,
    /// `min_threshold`: how many files make a bucket worth compacting.
    pub(crate) min_threshold: usize,
    /// `max_threshold`: how many files are compacted at once at most.
    pub(crate) max_threshold: usize,
    /// `bucket_low`: a file joins a bucket if it is larger than this share of its average.
    pub(crate) bucket_low: f64,
    /// `bucket_high`: …and smaller than this share.
    pub(crate) bucket_high: f64,
    /// `min_sstable_size`, in bytes: files below it share one bucket.
    pub(crate) min_sstable_size: u64,
    /// `tombstone_threshold`: from this share of droppable tombstones a file is rewritten alone.
    pub(crate) tombstone_threshold: f64,
    /// `tombstone_compaction_interval`, in seconds: a file must be this old for that.
    pub(crate) tombstone_compaction_interval: u64,
    /// `only_purge_repaired_tombstones`, which forbids purging as nothing is ever repaired yet.
    pub(crate) only_purge_repaired_tombstones: bool,
}

impl SizeTieredOptions {
    /// What the options of a table say; absent and unreadable ones have Cassandra's defaults (the
    /// statement that sets them checks them).
    pub(crate) fn of(options: &TableOptions) -> SizeTieredOptions {
        let map = &options.compaction;
        SizeTieredOptions {
            enabled: option(map, "enabled", true),
            min_threshold: option::<usize>(map, "min_threshold", 4).max(2),
            max_threshold: option::<usize>(map, "max_threshold", 32).max(2),
            bucket_low: option(map, "bucket_low", 0.5),
            bucket_high: option(map, "bucket_high", 1.5),
            min_sstable_size: option(map, "min_sstable_size", 50 << 20),
            tombstone_threshold: option(map, "tombstone_threshold", 0.2),
            tombstone_compaction_interval: option(map, "tombstone_compaction_interval", 86_400),
            only_purge_repaired_tombstones: option(map, "only_purge_repaired_tombstones", false),
        }
    }
}

fn option<T: std::str::FromStr>(map: &BTreeMap<String, String>, name: &str, default: T) -> T {
    map.get(name)
        .and_then(|text| text.trim().to_ascii_lowercase().parse().ok())
        .unwrap_or(default)
}

/// What the strategy knows of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// Its generation, by which the caller knows it.
    pub(crate) generation: u64,
    /// Bytes on disk.
    pub(crate) size: u64,
    /// The share of its cells and deletions that are tombstones whose grace has passed.
    pub(crate) droppable_ratio: f64,
    /// Seconds since it was written.
    pub(crate) age_seconds: u64,
}

/// The generations to compact together next, or none.
pub(crate) fn next_compaction(candidates: &[Candidate], options: &SizeTieredOptions) -> Vec<u64> {
    if !options.enabled {
        return Vec::new();
    }
    let worthy = buckets(candidates, options)
        .into_iter()
        .filter(|bucket| bucket.len() >= options.min_threshold)
        .map(|mut bucket| {
            bucket.truncate(options.max_threshold);
            bucket
        })
        .min_by(|a, b| average(a).total_cmp(&average(b)));
    if let Some(bucket) = worthy {
        return bucket.iter().map(|c| c.generation).collect();
    }
    candidates
        .iter()
        .filter(|c| {
            c.droppable_ratio > options.tombstone_threshold
                && c.age_seconds > options.tombstone_compaction_interval
                && !options.only_purge_repaired_tombstones
        })
        .max_by(|a, b| {
            a.droppable_ratio
                .total_cmp(&b.droppable_ratio)
                .then(b.generation.cmp(&a.generation))
        })
        .map(|c| vec![c.generation])
        .unwrap_or_default()
}

/// The files in buckets of similar size, each sorted from small to large
/// (`SizeTieredCompactionStrategy.getBuckets`).
fn buckets(candidates: &[Candidate], options: &SizeTieredOptions) -> Vec<Vec<Candidate>> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|c| (c.size, c.generation));
    let mut buckets: Vec<Vec<Candidate>> = Vec::new();
    for candidate in sorted {
        let size = candidate.size as f64;
        let found = buckets.iter_mut().find(|bucket| {
            let average = average(bucket);
            (size > average * options.bucket_low && size < average * options.bucket_high)
                || (candidate.size < options.min_sstable_size
                    && average < options.min_sstable_size as f64)
        });
        match found {
            Some(bucket) => bucket.push(candidate),
            None => buckets.push(vec![candidate]),
        }
    }
    buckets
}

fn average(bucket: &[Candidate]) -> f64 {
    let total: u64 = bucket.iter().map(|c| c.size).sum();
    total as f64 / bucket.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[u64]) -> Vec<Candidate> {
        sizes
            .iter()
            .enumerate()
            .map(|(i, size)| Candidate {
                generation: i as u64 + 1,
                size: *size,
                droppable_ratio: 0.0,
                age_seconds: 0,
            })
            .collect()
    }

    fn options(pairs: &[(&str, &str)]) -> SizeTieredOptions {
        let mut table = TableOptions::default();
        for (name, value) in pairs {
            table
                .compaction
                .insert((*name).to_owned(), (*value).to_owned());
        }
        SizeTieredOptions::of(&table)
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn four_small_files_are_compacted_whatever_their_sizes() {
        let chosen = next_compaction(&files(&[1, 1000, 10 * MIB, 40 * MIB]), &options(&[]));
        assert_eq!(chosen, [1, 2, 3, 4]);
        assert!(next_compaction(&files(&[1, 1000, 10 * MIB]), &options(&[])).is_empty());
    }

    #[test]
    fn files_of_different_sizes_stay_apart() {
        let sizes = [100 * MIB, 110 * MIB, 500 * MIB, 520 * MIB, 2000 * MIB];
        assert!(next_compaction(&files(&sizes), &options(&[])).is_empty());
        let sizes = [100 * MIB, 120 * MIB, 510 * MIB, 90 * MIB, 95 * MIB];
        assert_eq!(
            next_compaction(&files(&sizes), &options(&[])),
            [4, 5, 1, 2],
            "smallest first"
        );
    }

    #[test]
    fn options_of_the_table_count() {
        let sizes = [60 * MIB, 61 * MIB, 62 * MIB, 63 * MIB];
        let two = options(&[("min_threshold", "2"), ("max_threshold", "2")]);
        assert_eq!(next_compaction(&files(&sizes), &two), [1, 2]);
        let off = options(&[("enabled", "false")]);
        assert!(next_compaction(&files(&sizes), &off).is_empty());
    }

    #[test]
    fn a_file_full_of_tombstones_is_rewritten_alone_when_old_enough() {
        let mut files = files(&[100 * MIB, 1000 * MIB]);
        files[1].droppable_ratio = 0.5;
        assert!(next_compaction(&files, &options(&[])).is_empty());
        files[1].age_seconds = 100_000;
        assert_eq!(next_compaction(&files, &options(&[])), [2]);
    }
}
