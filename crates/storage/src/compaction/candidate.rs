//! What strategies know of the sstables of a table on one shard.

use model::Token;

/// An sstable, as a strategy sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// By what the caller knows it.
    pub(crate) id: usize,
    /// May it be chosen: is it neither being compacted nor known to be damaged?
    pub(crate) is_free: bool,
    /// Is it known to be damaged?
    pub(crate) is_suspect: bool,
    /// Bytes on disk, of this shard's partitions.
    pub(crate) size: u64,
    /// Its first partition.
    pub(crate) first: Token,
    /// Its last partition.
    pub(crate) last: Token,
    /// The level that it was written for (`LeveledCompactionStrategy`).
    pub(crate) level: u32,
    /// The lowest timestamp in it, in microseconds since 1970 as a rule.
    pub(crate) min_timestamp: i64,
    /// The highest one.
    pub(crate) max_timestamp: i64,
    /// When the last of it is deleted or expires, in seconds since 1970; `u32::MAX` if never.
    pub(crate) max_local_deletion_time: u32,
    /// The share of its cells and deletions that are tombstones whose grace has passed.
    pub(crate) droppable_ratio: f64,
    /// Seconds since it was written.
    pub(crate) age_seconds: u64,
    /// When its data was repaired, in milliseconds since 1970; 0 if never. It is also 0 as long as a
    /// repair that it takes part in is pending.
    pub(crate) repaired_at: i64,
    /// Are the estimates of its partitions and cells based on enough of them
    /// (`SSTableReader.isEstimationInformative`)?
    pub(crate) is_informative: bool,
}

impl Candidate {
    /// Is it being compacted?
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_free && !self.is_suspect
    }

    /// Has its data been repaired?
    pub(crate) fn is_repaired(&self) -> bool {
        self.repaired_at > 0
    }

    /// May both have rows of one partition?
    pub(crate) fn overlaps(&self, other: &Candidate) -> bool {
        self.overlaps_range((other.first, other.last))
    }

    /// May it have rows of a partition from the first to the last token?
    pub(crate) fn overlaps_range(&self, (first, last): (Token, Token)) -> bool {
        self.first <= last && first <= self.last
    }
}

/// The bytes of all of them.
pub(crate) fn total_size<'c>(files: impl IntoIterator<Item = &'c Candidate>) -> u64 {
    files.into_iter().map(|file| file.size).sum()
}

/// From the first to the last partition of all of them; `None` if there are none.
pub(crate) fn span<'c>(files: impl IntoIterator<Item = &'c Candidate>) -> Option<(Token, Token)> {
    files.into_iter().fold(None, |span, file| match span {
        None => Some((file.first, file.last)),
        Some((first, last)) => Some((file.first.min(first), file.last.max(last))),
    })
}

/// A table on one shard at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'s> {
    /// All sstables.
    pub(crate) files: &'s [Candidate],
    /// Which are compacted now, those that are repaired or the others: what is repaired is never
    /// mixed with what is not.
    pub(crate) repaired: bool,
    /// `only_purge_repaired_tombstones`
    pub(crate) only_purges_repaired: bool,
    /// Seconds since 1970.
    pub(crate) now_seconds: u32,
    /// Deletions before this have had their grace.
    pub(crate) gc_before: u32,
    /// The lowest timestamp in memtables, in what of the commit log could be replayed, and in sstables
    /// out of sight that a restart brings back; `i64::MAX` if there is nothing. `i64::MIN`: nothing may be purged now.
    pub(crate) memory_min_timestamp: i64,
    /// How large sstables are as they are flushed, in bytes; 0 if not known yet.
    pub(crate) flush_size: u64,
}

impl<'s> Situation<'s> {
    /// The same for the repaired ones or for the others.
    pub(crate) fn of(&self, repaired: bool) -> Situation<'s> {
        Situation { repaired, ..*self }
    }

    /// Those that are compacted with each other.
    pub(crate) fn own(&self) -> impl Iterator<Item = &'s Candidate> + use<'s> {
        let repaired = self.repaired;
        let files = self.files.iter();
        files.filter(move |file| file.is_repaired() == repaired)
    }

    /// Those of them that may be chosen.
    pub(crate) fn free(&self) -> impl Iterator<Item = &'s Candidate> + use<'s> {
        self.own().filter(|file| file.is_free)
    }

    /// May the tombstones of these be purged, as far as repairs go?
    pub(crate) fn may_purge<'c>(&self, files: impl IntoIterator<Item = &'c Candidate>) -> bool {
        !self.only_purges_repaired || files.into_iter().all(Candidate::is_repaired)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Tables for the tests of the strategies.

    use super::*;

    /// An sstable of all tokens.
    pub(crate) fn file(id: usize, size: u64) -> Candidate {
        Candidate {
            id,
            is_free: true,
            is_suspect: false,
            size,
            first: Token::MIN,
            last: Token::MAX,
            level: 0,
            min_timestamp: 0,
            max_timestamp: id as i64,
            max_local_deletion_time: u32::MAX,
            droppable_ratio: 0.0,
            age_seconds: 0,
            repaired_at: 0,
            is_informative: true,
        }
    }

    /// sstables of these sizes, numbered from 1.
    pub(crate) fn files(sizes: &[u64]) -> Vec<Candidate> {
        let numbered = sizes.iter().enumerate();
        numbered.map(|(at, size)| file(at + 1, *size)).collect()
    }

    /// At noon, with nothing in memory.
    pub(crate) fn situation(files: &[Candidate]) -> Situation<'_> {
        Situation {
            files,
            repaired: false,
            only_purges_repaired: false,
            now_seconds: 1_000_000,
            gc_before: 500_000,
            memory_min_timestamp: i64::MAX,
            flush_size: 0,
        }
    }
}
