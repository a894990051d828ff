//! Which sstables to compact together: Cassandra's `SizeTieredCompactionStrategy`.
//!
//! Files of similar size form a bucket: a file joins the first bucket whose average size is within
//! `bucket_low` and `bucket_high` of its own, or any bucket of small files if it is itself below
//! `min_sstable_size`. A bucket of at least `min_threshold` files is worth compacting, at most
//! `max_threshold` of them, the smallest first. Of several such buckets the one with the most
//! reads would win; as hotness is not measured yet, the one of the smallest average size does.
//! (Cassandra means to take the smallest of equally cold buckets too, but its comparator puts the
//! small ones first and `Collections.max` takes the last.) Where no bucket is worth it, the largest
//! file with enough droppable tombstones may be rewritten alone.

use super::candidate::{Candidate, Situation};
use super::options::{CommonOptions, Map, option};
use super::tombstones::worth_dropping;

/// The options of the strategy, which Leveled and TimeWindow have too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizeTieredOptions {
    /// `bucket_low`: a file joins a bucket if it is larger than this share of its average.
    pub(crate) bucket_low: f64,
    /// `bucket_high`: …and smaller than this share.
    pub(crate) bucket_high: f64,
    /// `min_sstable_size`, in bytes: files below it share one bucket.
    pub(crate) min_sstable_size: u64,
}

impl SizeTieredOptions {
    pub(crate) fn of(map: &Map) -> SizeTieredOptions {
        SizeTieredOptions {
            bucket_low: option(map, "bucket_low", 0.5),
            bucket_high: option(map, "bucket_high", 1.5),
            min_sstable_size: option(map, "min_sstable_size", 50 << 20),
        }
    }
}

/// The files to compact together next, or none.
pub(crate) fn next(
    situation: &Situation<'_>,
    common: &CommonOptions,
    options: &SizeTieredOptions,
) -> Vec<usize> {
    let bucket = most_interesting(situation.free(), common, options);
    if !bucket.is_empty() {
        return bucket;
    }
    situation
        .free()
        .filter(|file| worth_dropping(file, situation, common))
        .max_by_key(|file| (file.size, file.id))
        .map(|file| vec![file.id])
        .unwrap_or_default()
}

/// The bucket that is most worth compacting, if one is (`mostInterestingBucket`).
pub(crate) fn most_interesting<'c>(
    files: impl IntoIterator<Item = &'c Candidate>,
    common: &CommonOptions,
    options: &SizeTieredOptions,
) -> Vec<usize> {
    let worthy = buckets(files, options)
        .into_iter()
        .filter(|bucket| bucket.len() >= common.min_threshold)
        .map(|mut bucket| {
            bucket.truncate(common.max_threshold);
            bucket
        })
        .min_by(|a, b| average(a).total_cmp(&average(b)));
    worthy
        .map(|bucket| bucket.iter().map(|file| file.id).collect())
        .unwrap_or_default()
}

/// How many compactions there are to do (`getEstimatedCompactionsByTasks`).
pub(crate) fn pending<'c>(
    files: impl IntoIterator<Item = &'c Candidate>,
    common: &CommonOptions,
    options: &SizeTieredOptions,
) -> usize {
    buckets(files, options)
        .iter()
        .filter(|bucket| bucket.len() >= common.min_threshold)
        .map(|bucket| bucket.len().div_ceil(common.max_threshold))
        .sum()
}

/// The files in buckets of similar size, each sorted from small to large
/// (`SizeTieredCompactionStrategy.getBuckets`).
fn buckets<'c>(
    files: impl IntoIterator<Item = &'c Candidate>,
    options: &SizeTieredOptions,
) -> Vec<Vec<&'c Candidate>> {
    let mut sorted: Vec<&Candidate> = files.into_iter().collect();
    sorted.sort_by_key(|file| (file.size, file.id));
    let mut buckets: Vec<Vec<&Candidate>> = Vec::new();
    for file in sorted {
        let size = file.size as f64;
        let found = buckets.iter_mut().find(|bucket| {
            let average = average(bucket);
            (size > average * options.bucket_low && size < average * options.bucket_high)
                || (file.size < options.min_sstable_size
                    && average < options.min_sstable_size as f64)
        });
        match found {
            Some(bucket) => bucket.push(file),
            None => buckets.push(vec![file]),
        }
    }
    buckets
}

fn average(bucket: &[&Candidate]) -> f64 {
    let total: u64 = bucket.iter().map(|file| file.size).sum();
    total as f64 / bucket.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{files, situation};
    use super::super::options::testing::options;
    use super::*;
    use proptest::prelude::*;

    fn chosen(files: &[Candidate], pairs: &[(&str, &str)]) -> Vec<usize> {
        let options = options("SizeTieredCompactionStrategy", pairs);
        let own = SizeTieredOptions::of(&options.compaction);
        next(&situation(files), &CommonOptions::of(&options), &own)
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn four_small_files_are_compacted_whatever_their_sizes() {
        let sizes = [1, 1000, 10 * MIB, 40 * MIB];
        assert_eq!(chosen(&files(&sizes), &[]), [1, 2, 3, 4]);
        assert!(chosen(&files(&sizes[..3]), &[]).is_empty());
    }

    #[test]
    fn files_of_different_sizes_stay_apart() {
        let sizes = [100 * MIB, 110 * MIB, 500 * MIB, 520 * MIB, 2000 * MIB];
        assert!(chosen(&files(&sizes), &[]).is_empty());
        let sizes = [100 * MIB, 120 * MIB, 510 * MIB, 90 * MIB, 95 * MIB];
        assert_eq!(chosen(&files(&sizes), &[]), [4, 5, 1, 2], "smallest first");
    }

    #[test]
    fn options_of_the_table_count() {
        let files = files(&[60 * MIB, 61 * MIB, 62 * MIB, 63 * MIB]);
        let two = [("min_threshold", "2"), ("max_threshold", "2")];
        assert_eq!(chosen(&files, &two), [1, 2]);
        assert!(chosen(&files, &[("bucket_high", "1.01"), ("bucket_low", "0.99")]).is_empty());
    }

    #[test]
    fn the_largest_file_full_of_tombstones_is_rewritten_alone() {
        let mut files = files(&[100 * MIB, 1000 * MIB, 400 * MIB]);
        for (file, ratio) in files.iter_mut().zip([0.9, 0.3, 0.1]) {
            file.droppable_ratio = ratio;
            file.age_seconds = 100_000;
        }
        let unchecked = [("unchecked_tombstone_compaction", "true")];
        assert_eq!(chosen(&files, &unchecked), [2]);
        files[1].is_free = false;
        assert_eq!(chosen(&files, &unchecked), [1]);
    }

    #[test]
    fn pending_counts_the_compactions_of_full_buckets() {
        let files = files(&[1; 70]);
        let options = options("SizeTieredCompactionStrategy", &[]);
        let own = SizeTieredOptions::of(&options.compaction);
        assert_eq!(pending(&files, &CommonOptions::of(&options), &own), 3);
    }

    proptest! {
        /// Replacing what is chosen by one file of its size comes to an end, and nothing is chosen
        /// twice.
        #[test]
        fn it_comes_to_an_end(sizes in prop::collection::vec(1..10_000u64, 0..60)) {
            let sizes: Vec<u64> = sizes.into_iter().map(|size| size * MIB / 10).collect();
            let mut files = files(&sizes);
            for round in 0.. {
                let chosen = chosen(&files, &[]);
                if chosen.is_empty() {
                    break;
                }
                prop_assert!(round < 60);
                let before = files.len();
                let (inputs, rest): (Vec<Candidate>, Vec<Candidate>) =
                    files.into_iter().partition(|file| chosen.contains(&file.id));
                prop_assert_eq!(inputs.len(), chosen.len());
                files = rest;
                let size = inputs.iter().map(|file| file.size).sum();
                files.push(Candidate { size, id: 1000 + round, ..inputs[0].clone() });
                prop_assert!(files.len() < before);
            }
        }
    }
}
