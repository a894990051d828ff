//! sstables that are worth being rewritten alone because many tombstones in them can be dropped:
//! `AbstractCompactionStrategy.worthDroppingTombstones`.

use model::Token;

use super::candidate::{Candidate, Situation};
use super::expired::fully_expired;
use super::options::CommonOptions;

/// Is it?
pub(crate) fn worth_dropping(
    file: &Candidate,
    situation: &Situation<'_>,
    options: &CommonOptions,
) -> bool {
    // The ratio is an estimate: without the age a file that keeps its tombstones would be
    // rewritten for ever.
    if !situation.may_purge([file])
        || situation.memory_min_timestamp == i64::MIN
        || file.age_seconds < options.tombstone_compaction_interval
        || file.droppable_ratio <= options.tombstone_threshold
    {
        return false;
    }
    if options.unchecked_tombstone_compaction {
        return true;
    }
    let overlapping: Vec<&Candidate> = situation
        .files
        .iter()
        .filter(|other| other.id != file.id && other.overlaps(file))
        .collect();
    if overlapping.is_empty() || !fully_expired(&[file.id], situation).is_empty() {
        return true;
    }
    if !file.is_informative {
        return false;
    }
    // The cells of the partitions that no other file has, if they are all of one size.
    file.droppable_ratio * alone(file, &overlapping) > options.tombstone_threshold
}

/// The share of a file's partitions that lie in none of the others, if the tokens of its
/// partitions are spread evenly. (Cassandra counts the keys of the index summary instead.)
fn alone(file: &Candidate, others: &[&Candidate]) -> f64 {
    let length = |first: Token, last: Token| (i128::from(last.0) - i128::from(first.0) + 1) as f64;
    let mut ranges: Vec<(Token, Token)> = others
        .iter()
        .map(|other| (other.first.max(file.first), other.last.min(file.last)))
        .collect();
    ranges.sort();
    let mut covered = 0.0;
    let mut end: Option<Token> = None;
    for (first, last) in ranges {
        let from = match end {
            Some(end) if end >= last => continue,
            Some(end) if end >= first => Token(end.0.saturating_add(1)),
            _ => first,
        };
        covered += length(from, last);
        end = Some(last);
    }
    (1.0 - covered / length(file.first, file.last)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{file, situation};
    use super::super::options::testing::options;
    use super::*;

    fn full_of_tombstones() -> Candidate {
        Candidate {
            droppable_ratio: 0.5,
            age_seconds: 100_000,
            ..file(1, 100)
        }
    }

    fn worth(files: &[Candidate], pairs: &[(&str, &str)]) -> bool {
        let options = CommonOptions::of(&options("SizeTieredCompactionStrategy", pairs));
        let mut situation = situation(files);
        situation.only_purges_repaired = options.only_purge_repaired_tombstones;
        worth_dropping(&files[0], &situation, &options)
    }

    #[test]
    fn a_file_alone_is_when_old_enough() {
        let mut file = full_of_tombstones();
        assert!(worth(std::slice::from_ref(&file), &[]));
        assert!(!worth(
            std::slice::from_ref(&file),
            &[("tombstone_threshold", "0.5")]
        ));
        let interval = [("tombstone_compaction_interval", "100001")];
        assert!(!worth(std::slice::from_ref(&file), &interval));
        let repaired = [("only_purge_repaired_tombstones", "true")];
        assert!(!worth(std::slice::from_ref(&file), &repaired));
        file.repaired_at = 7;
        assert!(worth(std::slice::from_ref(&file), &repaired));
        file.droppable_ratio = 0.2;
        assert!(!worth(std::slice::from_ref(&file), &[]));
    }

    #[test]
    fn files_that_overlap_may_keep_the_tombstones() {
        let other = file(2, 100);
        let unchecked = [("unchecked_tombstone_compaction", "true")];
        assert!(!worth(&[full_of_tombstones(), other.clone()], &[]));
        assert!(worth(&[full_of_tombstones(), other.clone()], &unchecked));
        let upper = |first| Candidate {
            first: Token(first),
            ..other.clone()
        };
        // Half of it lies alone, then a quarter.
        let interval = [("tombstone_threshold", "0.2")];
        assert!(worth(&[full_of_tombstones(), upper(0)], &interval));
        let quarter = upper(i64::MIN / 2);
        assert!(!worth(
            &[full_of_tombstones(), quarter, upper(0)],
            &interval
        ));
        let mut unknown = full_of_tombstones();
        unknown.is_informative = false;
        assert!(!worth(&[unknown, upper(0)], &interval));
    }
}
