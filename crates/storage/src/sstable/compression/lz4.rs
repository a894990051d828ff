//! Blocks of LZ4, written for what sstables are made of.
//!
//! The format is LZ4's ("LZ4 Block Format Description", lz4/doc/lz4_Block_format.md), so that any
//! decoder reads it. What differs from LZ4's own fast compressor, and from `lz4_flex`, is how repeated bytes are
//! found. Both look for four bytes that were there before, in blocks of less than 64 KiB. Rows of one table repeat
//! four bytes all the time, the length of a value or the beginning of a number, at places that have nothing else in common;
//! a match of four saves one byte, takes as long to write as a long one, and hides the one that begins behind it.
//! Here five or six bytes have to be the same, whichever gives less ([`Lz4Encoder::compress`]).
//! docs/performance.md has what that is worth: it is smaller, and faster to write and to read.

/// 16 bits, which places and offsets have here, reach any place of a block of this length. What is longer is left to
/// `lz4_flex`, which looks for five bytes there, too.
const LONGEST: usize = 1 << 16;

/// A block ends with so many bytes that no match may reach into.
const LITERALS_AT_END: usize = 5;

/// No match begins so near to the end. The format wants twelve bytes; the others let eight be read
/// at any place that is looked at, and sixteen be copied from any place that literals begin at.
const MARGIN: usize = 24;

/// The format's shortest match: lengths are written less these.
const SHORTEST: usize = 4;

/// A length of so much has more bytes behind the token.
const IN_TOKEN: usize = 15;

/// Places remembered: as many as let a chunk of 16 KiB find what is in it.
const TABLE_BITS: u32 = 13;

/// Where nothing was found for two to the power of this many places, they are looked at less densely.
const PATIENCE: u32 = 5;

/// One in so many blocks is compressed both ways, to see which is better for the next ones.
const TRIAL_EACH: u32 = 64;

/// The most bytes that a block of so many can become.
const fn bound(length: usize) -> usize {
    length + length / 255 + 16
}

/// Compresses blocks; keeps its working memory, and what it learned of the data.
pub(super) struct Lz4Encoder {
    /// Where bytes with this hash were last seen.
    table: Box<[u16; 1 << TABLE_BITS]>,
    /// Where blocks are made; as long as the longest so far may become.
    made: Vec<u8>,
    /// Whether matches begin with five bytes, not with six.
    short: bool,
    until_trial: u32,
}

impl Lz4Encoder {
    pub(super) fn new() -> Lz4Encoder {
        Lz4Encoder {
            table: Box::new([0; 1 << TABLE_BITS]),
            made: Vec::new(),
            short: false,
            until_trial: 0,
        }
    }

    /// Appends `block`, compressed, to `out`.
    ///
    /// Matches of six bytes are the faster ones, and the smaller ones of binary data; prose loses a twentieth by
    /// them. Now and then both are tried, and five stays where it saves more than a sixty-fourth.
    pub(super) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) {
        if block.len() > LONGEST {
            out.extend(lz4_flex::block::compress(block));
            return;
        }
        if self.until_trial > 0 {
            self.until_trial -= 1;
            match self.short {
                true => self.append::<5>(block, out),
                false => self.append::<6>(block, out),
            };
            return;
        }
        self.until_trial = TRIAL_EACH - 1;
        let start = out.len();
        let long = self.append::<6>(block, out);
        let short = self.append::<5>(block, out);
        self.short = short + long / 64 < long;
        match self.short {
            true => drop(out.drain(start..start + long)),
            false => out.truncate(start + long),
        }
    }

    /// Appends the block with matches of at least `MATCH` bytes; its length.
    fn append<const MATCH: usize>(&mut self, block: &[u8], out: &mut Vec<u8>) -> usize {
        let mut made = std::mem::take(&mut self.made);
        made.resize(made.len().max(bound(block.len())), 0);
        let length = self.encode::<MATCH>(block, &mut made);
        out.extend_from_slice(&made[..length]);
        self.made = made;
        length
    }

    /// Writes the block to the beginning of `out`, which has [`bound`] bytes at least; how many it took.
    fn encode<const MATCH: usize>(&mut self, block: &[u8], out: &mut [u8]) -> usize {
        let mut to = 0;
        let Some(last) = block.len().checked_sub(MARGIN) else {
            return write_literals(block, out, to);
        };
        let table = &mut *self.table;
        table.fill(0);
        let match_end = block.len() - LITERALS_AT_END;
        // What is not written yet begins here.
        let mut literals = 0;
        // Place 0 is what the table knows of without having been told.
        let mut next = 1;
        'sequences: loop {
            let mut looked_at = 1 << PATIENCE;
            let (mut at, mut before);
            loop {
                at = next;
                if at > last {
                    break 'sequences;
                }
                next += looked_at >> PATIENCE;
                looked_at += 1;
                let bytes = eight(block, at);
                let slot = &mut table[slot::<MATCH>(bytes)];
                before = usize::from(*slot);
                *slot = at as u16;
                if first::<MATCH>(eight(block, before) ^ bytes) == 0 {
                    break;
                }
            }
            let mut length = MATCH + same(block, before + MATCH, at + MATCH, match_end);
            while at > literals && before > 0 && block[at - 1] == block[before - 1] {
                at -= 1;
                before -= 1;
                length += 1;
            }
            to = write_sequence(block, literals..at, at - before, length, out, to);
            literals = at + length;
            next = literals;
            if next > last {
                break;
            }
            // What ends a match often begins the next one.
            table[slot::<MATCH>(eight(block, next - 2))] = (next - 2) as u16;
        }
        write_literals(&block[literals..], out, to)
    }
}

/// Eight bytes from this place, the first of them the lowest.
#[inline]
fn eight(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
}

/// The first so many of eight bytes, and nothing of the others.
#[inline]
fn first<const MATCH: usize>(bytes: u64) -> u64 {
    bytes << (64 - 8 * MATCH)
}

/// Where the table has what begins with these bytes: their product with 2^64 divided by the golden ratio (Knuth, The
/// Art of Computer Programming 3, 6.4).
#[inline]
fn slot<const MATCH: usize>(bytes: u64) -> usize {
    (first::<MATCH>(bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - TABLE_BITS)) as usize
}

/// How many bytes are the same from both places on, until the second one comes to `end`.
#[inline]
fn same(block: &[u8], mut before: usize, mut at: usize, end: usize) -> usize {
    let start = at;
    while at + 8 <= end {
        let differ = eight(block, before) ^ eight(block, at);
        if differ != 0 {
            return at - start + (differ.trailing_zeros() / 8) as usize;
        }
        before += 8;
        at += 8;
    }
    while at < end && block[before] == block[at] {
        before += 1;
        at += 1;
    }
    at - start
}

/// Writes literals, and a match of `length` bytes, `offset` before them; where the next sequence goes.
#[inline]
fn write_sequence(
    block: &[u8],
    literals: std::ops::Range<usize>,
    offset: usize,
    length: usize,
    out: &mut [u8],
    mut to: usize,
) -> usize {
    let (count, more) = (literals.len(), length - SHORTEST);
    out[to] = (count.min(IN_TOKEN) << 4 | more.min(IN_TOKEN)) as u8;
    to += 1;
    if count < IN_TOKEN {
        // Sixteen at once, which is quicker than just as many: those too many are overwritten.
        let copied = block[literals.start..][..16].first_chunk::<16>();
        out[to..to + 16].copy_from_slice(copied.expect("sixteen bytes"));
    } else {
        to = write_length(count - IN_TOKEN, out, to);
        out[to..to + count].copy_from_slice(&block[literals]);
    }
    to += count;
    out[to..to + 2].copy_from_slice(&(offset as u16).to_le_bytes());
    to += 2;
    match more < IN_TOKEN {
        true => to,
        false => write_length(more - IN_TOKEN, out, to),
    }
}

/// Writes the sequence that ends a block: literals alone.
fn write_literals(literals: &[u8], out: &mut [u8], mut to: usize) -> usize {
    out[to] = (literals.len().min(IN_TOKEN) << 4) as u8;
    to += 1;
    if literals.len() >= IN_TOKEN {
        to = write_length(literals.len() - IN_TOKEN, out, to);
    }
    out[to..to + literals.len()].copy_from_slice(literals);
    to + literals.len()
}

/// Writes what a length is more than its token says.
#[inline]
fn write_length(mut more: usize, out: &mut [u8], mut to: usize) -> usize {
    while more >= 255 {
        out[to] = 255;
        to += 1;
        more -= 255;
    }
    out[to] = more as u8;
    to + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a decoder that is not ours makes of it.
    fn decoded(compressed: &[u8], length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        let len = lz4_flex::block::decompress_into(compressed, &mut out).expect("a block");
        out.truncate(len);
        out
    }

    fn compressed(encoder: &mut Lz4Encoder, block: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.compress(block, &mut out);
        assert!(out.len() <= bound(block.len()));
        assert_eq!(decoded(&out, block.len()), block);
        out
    }

    /// Rows like those of metrics: lengths, times, and numbers that grow.
    fn points(length: usize) -> Vec<u8> {
        let mut block = Vec::new();
        for second in 0_u32.. {
            block.extend([8, 4]);
            block.extend(second.to_be_bytes());
            for factor in [1.5, 1.0, 2.0] {
                block.extend(8_u32.to_be_bytes());
                block.extend((f64::from(second + 700_001) * factor).to_be_bytes());
            }
            if block.len() >= length {
                break;
            }
        }
        block.truncate(length);
        block
    }

    /// Words of letters, some far more often than others.
    fn prose(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % bound
        };
        let words: Vec<Vec<u8>> = (0..1000)
            .map(|_| (0..2 + below(7)).map(|_| b'a' + below(26) as u8).collect())
            .collect();
        let mut block = Vec::new();
        while block.len() < length {
            let commoner = 1 + below(words.len());
            block.extend(&words[below(commoner)]);
            block.push(b' ');
        }
        block.truncate(length);
        block
    }

    #[test]
    fn every_length_comes_back() {
        let mut encoder = Lz4Encoder::new();
        for length in (0..400).chain([16 << 10, LONGEST - 1, LONGEST, LONGEST + 1, 1 << 20]) {
            for block in [points(length), prose(length), vec![7; length]] {
                compressed(&mut encoder, &block);
            }
        }
    }

    /// Beside an encoder that looks for four bytes, as LZ4's own does.
    #[test]
    fn numbers_are_a_fifth_smaller_and_prose_is_hardly_larger() {
        for (block, of_100) in [(points(16 << 10), 80), (prose(16 << 10), 101)] {
            let others = lz4_flex::block::compress(&block).len();
            let ours = compressed(&mut Lz4Encoder::new(), &block).len();
            assert!(ours * 100 <= others * of_100, "{ours} of {others} bytes");
        }
    }

    #[test]
    fn learns_which_matches_save_more() {
        let mut encoder = Lz4Encoder::new();
        for (block, short) in [(points(16 << 10), false), (prose(16 << 10), true)] {
            for _ in 0..2 * TRIAL_EACH {
                compressed(&mut encoder, &block);
            }
            assert_eq!(encoder.short, short);
        }
    }

    #[test]
    fn a_match_from_the_first_byte_of_the_longest_block_is_within_reach() {
        let mut block: Vec<u8> = (0..LONGEST as u32 / 4)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
            .collect();
        let (first, last) = (block[..64].to_vec(), LONGEST - 100);
        block[last..last + 64].copy_from_slice(&first);
        let out = compressed(&mut Lz4Encoder::new(), &block);
        assert!(out.len() < bound(block.len()) - 16);
    }

    proptest! {
        #[test]
        fn blocks_come_back(
            pieces in proptest::collection::vec((0_usize..2000, 1_usize..70), 0..200),
            noise in proptest::collection::vec(any::<u8>(), 2100),
        ) {
            let mut encoder = Lz4Encoder::new();
            let block: Vec<u8> = pieces.iter().flat_map(|&(from, count)| &noise[from..from + count]).copied().collect();
            for _ in 0..2 {
                compressed(&mut encoder, &block);
                encoder.short = !encoder.short;
            }
        }

        #[test]
        fn few_different_bytes_come_back(block in proptest::collection::vec(0_u8..3, 0..3000)) {
            let mut encoder = Lz4Encoder::new();
            compressed(&mut encoder, &block);
            encoder.short = true;
            compressed(&mut encoder, &block);
        }
    }
}
