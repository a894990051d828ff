//! `Helenus.db`: what Helenus keeps of an sstable beside Cassandra's components. It says which
//! shard wrote it, and holds checksums of what Cassandra's format leaves without: a bit that
//! changes in a bloom filter, a summary or an index would hide rows.
//!
//! Lines of text, so that people can read it:
//!
//! ```text
//! helenus 2
//! shard 0
//! shards 4
//! crc32 Filter.db 1f2e3d4c
//! crc32 Index.db 4096 0a1b2c3d 4e5f6071
//! crc32 Helenus.db 8899aabb
//! ```
//!
//! Of an index each piece of that many bytes has its own, as it is not read whole. The last line
//! is the checksum of all lines before it. All of it stands there twice, so that damage to the file
//! does not leave the index without checksums. Version 1 was the first three lines, once.

use std::fmt::Write;

use super::chunked_file::Checksums;
use super::descriptor::{Component, ShardOrigin};

/// Bytes of an index with one checksum: a page of a trie, and about what lies between two samples of
/// an index. A look-up reads no less, and has to check all that it reads.
const PIECE: usize = 4 << 10;
/// The indexes.
const IN_PIECES: [Component; 3] = [Component::Index, Component::Partitions, Component::Rows];

/// The content of `Helenus.db`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Who wrote the sstable.
    pub(crate) origin: ShardOrigin,
    whole: Vec<(String, u32)>,
    /// The component, the bytes with one checksum, the checksums.
    pieces: Vec<(String, u64, Vec<u32>)>,
}

impl Seal {
    /// Of an sstable whose components have this content, with the checksums of its indexes.
    pub(crate) fn new<'c>(
        origin: ShardOrigin,
        components: impl IntoIterator<Item = (Component, &'c [u8])>,
        indexes: impl IntoIterator<Item = (Component, Pieces)>,
    ) -> Seal {
        let pieces = |(component, pieces): (Component, Pieces)| {
            (component.name().to_owned(), PIECE as u64, pieces.finish())
        };
        let sum = |(component, content): (Component, &[u8])| {
            (component.name().to_owned(), crc32fast::hash(content))
        };
        Seal {
            origin,
            whole: components.into_iter().map(sum).collect(),
            pieces: indexes.into_iter().map(pieces).collect(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let ShardOrigin { shard, shards } = self.origin;
        let mut text = format!("helenus 2\nshard {shard}\nshards {shards}\n");
        for (component, sum) in &self.whole {
            let _ = writeln!(text, "crc32 {component} {sum:08x}");
        }
        for (component, piece, sums) in &self.pieces {
            let _ = write!(text, "crc32 {component} {piece}");
            for sum in sums {
                let _ = write!(text, " {sum:08x}");
            }
            text.push('\n');
        }
        let own = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "crc32 {} {own:08x}", Component::Helenus.name());
        text.repeat(2).into_bytes()
    }

    /// `None`: it is damaged, or of a version that is not known.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Seal> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let whole = || Seal::decode_copy(bytes);
        Seal::decode_copy(first)
            .or_else(|| Seal::decode_copy(second))
            .or_else(whole)
    }

    fn decode_copy(bytes: &[u8]) -> Option<Seal> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.lines();
        let version = lines.next()?.strip_prefix("helenus ")?;
        let shard = lines.next()?.strip_prefix("shard ")?.parse().ok()?;
        let shards = lines.next()?.strip_prefix("shards ")?.parse().ok()?;
        let mut seal = Seal {
            origin: ShardOrigin { shard, shards },
            whole: Vec::new(),
            pieces: Vec::new(),
        };
        if shard >= shards {
            return None;
        }
        match version {
            "1" => return lines.next().is_none().then_some(seal),
            "2" => {}
            _ => return None,
        }
        let mut own = None;
        for line in lines {
            let mut words = line.strip_prefix("crc32 ")?.split(' ');
            let component = words.next()?;
            if IN_PIECES.iter().any(|index| index.name() == component) {
                let piece = words.next()?.parse().ok().filter(|piece| *piece > 0)?;
                let sums = words.map(hex).collect::<Option<_>>()?;
                seal.pieces.push((component.to_owned(), piece, sums));
            } else if component == Component::Helenus.name() {
                own = Some(hex(words.next()?)?);
            } else {
                seal.whole.push((component.to_owned(), hex(words.next()?)?));
            }
        }
        let line = text.trim_end_matches('\n').rfind('\n')? + 1;
        (own? == crc32fast::hash(&bytes[..line])).then_some(seal)
    }

    /// Is this the content that a component was written with? `true` too if nothing is known of it.
    pub(crate) fn fits(&self, component: Component, content: &[u8]) -> bool {
        let known = self
            .whole
            .iter()
            .find(|(name, _)| *name == component.name());
        known.is_none_or(|(_, sum)| *sum == crc32fast::hash(content))
    }

    /// The checksums of an index.
    pub(crate) fn pieces(&self, component: Component) -> Option<Checksums> {
        let of = |(name, ..): &&(String, u64, Vec<u32>)| *name == component.name();
        let (_, piece, sums) = self.pieces.iter().find(of)?;
        Some(Checksums::new(*piece, sums.clone()))
    }
}

fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

/// The checksums of the pieces of a file that is being written.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    sums: Vec<u32>,
    current: crc32fast::Hasher,
    /// Bytes in the current piece.
    filled: usize,
}

impl Pieces {
    /// The next bytes of the file.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.filled));
            self.current.update(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == PIECE {
                self.end_piece();
            }
        }
    }

    fn end_piece(&mut self) {
        self.sums.push(std::mem::take(&mut self.current).finalize());
        self.filled = 0;
    }

    fn finish(mut self) -> Vec<u32> {
        if self.filled > 0 {
            self.end_piece();
        }
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGIN: ShardOrigin = ShardOrigin {
        shard: 3,
        shards: 8,
    };

    fn seal(index: &[u8], cut: usize) -> Seal {
        let mut pieces = Pieces::default();
        let (first, second) = index.split_at(cut.min(index.len()));
        pieces.append(first);
        pieces.append(second);
        let indexes = [
            (Component::Index, pieces),
            (Component::Rows, Pieces::default()),
        ];
        Seal::new(ORIGIN, [(Component::Filter, &b"bits"[..])], indexes)
    }

    #[test]
    fn reads_as_written() {
        for (length, count) in [(0, 0), (1, 1), (PIECE, 1), (3 * PIECE + 5, 4)] {
            let index = vec![7; length];
            let seal = seal(&index, length / 3);
            assert_eq!(seal.pieces[0].2.len(), count);
            assert_eq!(Seal::decode(&seal.encode()), Some(seal.clone()));
            assert!(seal.fits(Component::Filter, b"bits"));
            assert!(!seal.fits(Component::Filter, b"bitt"));
            assert!(seal.fits(Component::Summary, b"anything"));
        }
        let old = Seal::decode(b"helenus 1\nshard 3\nshards 8\n").expect("version 1");
        assert_eq!((old.origin, old.pieces(Component::Index)), (ORIGIN, None));
        assert_eq!(Seal::decode(b"helenus 1\nshard 8\nshards 8\n"), None);
        assert_eq!(Seal::decode(b""), None);
    }

    proptest! {
        #[test]
        fn a_flipped_bit_changes_nothing(
            bit in any::<prop::sample::Index>(),
            length in 0..200_000usize,
        ) {
            let seal = seal(&vec![1; length], 10);
            let mut bytes = seal.encode();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Seal::decode(&bytes), Some(seal.clone()));
            // The same damage in both copies.
            let half = bytes.len() / 2;
            bytes[(bit / 8 + half) % (2 * half)] ^= 1 << (bit % 8);
            // A digit of the last line may have become a capital letter.
            prop_assert!(Seal::decode(&bytes).is_none_or(|decoded| decoded == seal));
        }
    }
}
