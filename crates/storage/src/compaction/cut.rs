//! Where an output of a compaction ends and the next one begins. Always between partitions.

use model::Token;

/// How the outputs of a compaction are cut.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cut {
    /// One output.
    Never,
    /// Outputs of about so many bytes on disk (`MaxSSTableSizeWriter`).
    Size(u64),
    /// So too; and as soon as a level is full they are for the next one, from level 1
    /// (`MajorLeveledCompactionWriter`).
    Levels {
        /// Bytes of an output.
        size: u64,
        /// How many times larger each level is.
        fanout: u64,
    },
    /// The first output gets half of so many bytes, the second half of the rest and so on, down to
    /// [`SMALLEST_HALF`] (`SplittingSizeTieredCompactionWriter`).
    Halves(u64),
    /// At these tokens, sorted: an output ends with the last partition that is not above one
    /// (`ShardTracker`).
    Tokens(Vec<Token>),
}

/// Outputs of [`Cut::Halves`] are not smaller (`DEFAULT_SMALLEST_SSTABLE_BYTES`).
const SMALLEST_HALF: u64 = 50 << 20;

/// The highest level there is (`LeveledGenerations.MAX_LEVEL_COUNT` counts level 0).
pub(crate) const HIGHEST_LEVEL: u32 = 8;

impl Cut {
    /// How many outputs there will be about, if there are so many bytes in all.
    pub(crate) fn expected_outputs(&self, total: u64) -> u64 {
        match self {
            Cut::Never => 1,
            Cut::Size(size) | Cut::Levels { size, .. } => (total / (*size).max(1)).max(1),
            // The first is the largest.
            Cut::Halves(_) => 2,
            Cut::Tokens(tokens) => tokens.len() as u64 + 1,
        }
    }
}

/// Decides while the outputs are written.
#[derive(Debug)]
pub(crate) struct Cutter {
    cut: Cut,
    level: u32,
    /// Bytes of the outputs of this level.
    in_level: u64,
    /// Tokens passed, or halves taken.
    passed: usize,
}

impl Cutter {
    /// For outputs of this level.
    pub(crate) fn new(cut: Cut, level: u32) -> Cutter {
        let level = match cut {
            Cut::Levels { .. } => 1,
            _ => level,
        };
        Cutter {
            cut,
            level,
            in_level: 0,
            passed: 0,
        }
    }

    /// The level of the output that is being written, or begins now.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    /// A partition comes, and the output has so many bytes: does another output begin with it?
    pub(crate) fn cuts(&mut self, next: Token, written: u64) -> bool {
        match &self.cut {
            Cut::Never => false,
            Cut::Size(size) => written > *size,
            Cut::Levels { size, fanout } => {
                if written <= *size {
                    return false;
                }
                self.in_level += written;
                let full = size.saturating_mul(fanout.saturating_pow(self.level));
                if self.in_level > full && self.level < HIGHEST_LEVEL {
                    self.level += 1;
                    self.in_level = 0;
                }
                true
            }
            Cut::Halves(total) => {
                let half = total >> (self.passed + 1).min(63);
                // What is left behind this output would be as large as it.
                let cuts = half >= SMALLEST_HALF && written > half;
                self.passed += usize::from(cuts);
                cuts
            }
            Cut::Tokens(tokens) => {
                let passed = tokens[self.passed..]
                    .iter()
                    .take_while(|token| **token < next)
                    .count();
                self.passed += passed;
                passed > 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions of 10 bytes with tokens from 0; the numbers of those that begin an output, and
    /// the levels of all outputs.
    fn outputs(cut: Cut, partitions: i64, bytes: u64) -> (Vec<i64>, Vec<u32>) {
        let mut cutter = Cutter::new(cut, 3);
        let (mut starts, mut levels, mut written) = (vec![], vec![cutter.level()], 0);
        for token in 0..partitions {
            if cutter.cuts(Token(token), written) {
                starts.push(token);
                levels.push(cutter.level());
                written = 0;
            }
            written += bytes;
        }
        (starts, levels)
    }

    #[test]
    fn by_size() {
        assert_eq!(outputs(Cut::Never, 100, 10), (vec![], vec![3]));
        assert_eq!(outputs(Cut::Size(25), 10, 10), (vec![3, 6, 9], vec![3; 4]));
    }

    #[test]
    fn by_level() {
        let cut = Cut::Levels { size: 9, fanout: 2 };
        let (starts, levels) = outputs(cut, 12, 10);
        assert_eq!(starts, (1..12).collect::<Vec<_>>());
        assert_eq!(levels, [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn by_halves() {
        const MIB: u64 = 1 << 20;
        let (starts, _) = outputs(Cut::Halves(400 * MIB), 400, MIB);
        assert_eq!(
            starts,
            [201, 302, 353],
            "200, 100 and 50 MiB, and what is left"
        );
        assert!(outputs(Cut::Halves(99 * MIB), 99, MIB).0.is_empty());
    }

    #[test]
    fn by_token() {
        let tokens = vec![Token(-5), Token(2), Token(3), Token(7)];
        assert_eq!(outputs(Cut::Tokens(tokens), 10, 1).0, [0, 3, 4, 8]);
    }
}
