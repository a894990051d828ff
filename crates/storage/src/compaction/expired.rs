//! sstables of which nothing is needed any more: `CompactionController.getFullyExpiredSSTables`.
//!
//! All of such an sstable is deleted or has expired, and its grace is over; and nothing that it
//! could cover is left elsewhere: all timestamps in it are before those of whatever still has
//! something alive, in overlapping sstables, in the other sstables of the compaction, in memory. It
//! goes without being read.

use super::candidate::{Candidate, Situation};

/// Which of the sstables to compact are needed no more.
pub(crate) fn fully_expired(compacting: &[usize], situation: &Situation<'_>) -> Vec<usize> {
    let all = || situation.files.iter();
    let (chosen, others): (Vec<&Candidate>, Vec<&Candidate>) =
        all().partition(|file| compacting.contains(&file.id));
    if !situation.may_purge(chosen.iter().copied()) {
        return Vec::new();
    }
    let is_dead = |file: &Candidate| file.max_local_deletion_time < situation.gc_before;
    let alive = chosen
        .iter()
        .filter(|file| !is_dead(file))
        .chain(others.iter().filter(|file| {
            let mut chosen = chosen.iter();
            !is_dead(file) && chosen.any(|c| c.overlaps(file))
        }))
        .map(|file| file.min_timestamp);
    let oldest = alive.fold(situation.memory_min_timestamp, i64::min);
    let expired = chosen
        .iter()
        .filter(|file| is_dead(file) && file.max_timestamp < oldest);
    expired.map(|file| file.id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::candidate::testing::{file, situation};
    use super::*;
    use model::Token;

    fn dead(id: usize, (min, max): (i64, i64)) -> Candidate {
        Candidate {
            min_timestamp: min,
            max_timestamp: max,
            max_local_deletion_time: 499_999,
            ..file(id, 100)
        }
    }

    #[test]
    fn what_is_not_repaired_stays_if_only_what_is_may_go() {
        let mut files = [dead(1, (10, 20)), dead(2, (10, 20))];
        files[0].repaired_at = 7;
        let mut situation = situation(&files);
        assert_eq!(fully_expired(&[1, 2], &situation), [1, 2]);
        situation.only_purges_repaired = true;
        assert_eq!(fully_expired(&[1], &situation), [1]);
        assert!(fully_expired(&[1, 2], &situation).is_empty());
    }

    #[test]
    fn what_covers_nothing_older_goes() {
        let alive = |min| Candidate {
            min_timestamp: min,
            ..file(9, 100)
        };
        let dead = dead(1, (10, 20));
        let expired = |other: Candidate, memory: i64| {
            let files = [dead.clone(), other];
            let mut situation = situation(&files);
            situation.memory_min_timestamp = memory;
            fully_expired(&[1], &situation) == [1]
        };
        assert!(expired(alive(21), i64::MAX));
        assert!(
            !expired(alive(20), i64::MAX),
            "it may cover something there"
        );
        assert!(!expired(alive(21), 20), "or in a memtable");
        assert!(!expired(alive(21), i64::MIN), "nothing may be purged");
        let elsewhere = Candidate {
            first: Token(5),
            ..alive(0)
        };
        assert!(!expired(elsewhere.clone(), i64::MAX));
        let files = [
            Candidate {
                last: Token(4),
                ..dead.clone()
            },
            elsewhere,
        ];
        assert_eq!(
            fully_expired(&[1], &situation(&files)),
            [1],
            "they do not overlap"
        );
    }

    #[test]
    fn the_dead_do_not_protect_each_other() {
        let files = [dead(1, (10, 20)), dead(2, (5, 30)), file(3, 1)];
        let mut files = files.to_vec();
        files[2].min_timestamp = 25;
        assert_eq!(fully_expired(&[1, 2], &situation(&files)), [1]);
        files[2].min_timestamp = 31;
        assert_eq!(fully_expired(&[1, 2, 3], &situation(&files)), [1, 2]);
        files[0].max_local_deletion_time = 500_000;
        assert!(
            fully_expired(&[1], &situation(&files)).is_empty(),
            "in its grace"
        );
    }
}
