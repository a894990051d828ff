//! The bloom filter of an sstable's keys, `Filter.db`.
//!
//! Keys are hashed as for their token; the `i`-th bit of a key is
//! `|(h1 + i·h0) mod capacity|` with signed arithmetic that wraps
//! (`org.apache.cassandra.utils.BloomFilter`). The file holds the number of hash functions, the
//! number of 64-bit words and the words (`BloomFilterSerializer`, `OffHeapBitSet`).

use bytes::Bytes;

use super::error::DecodeError;
use super::input::Input;
use super::version::Version;

/// A bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    hashes: u32,
    bits: Bits,
}

/// A filter that was read needs not be copied out of the file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bits {
    Growing(Vec<u8>),
    Read(Bytes),
    /// Says "maybe" to everything: tables with `bloom_filter_fp_chance` 1 have none.
    AlwaysPresent,
}

/// Bits beyond what the elements need (`FilterFactory.BITSET_EXCESS`).
const EXCESS_BITS: u64 = 20;
/// More hash functions than any filter of Cassandra has.
const MAX_HASHES: u32 = 64;

impl BloomFilter {
    /// The filter that knows nothing.
    pub(crate) const ALWAYS_PRESENT: BloomFilter = BloomFilter {
        hashes: 0,
        bits: Bits::AlwaysPresent,
    };

    /// An empty filter for so many keys that gives wrong answers with this chance
    /// (`FilterFactory.getFilter`).
    pub(crate) fn new(keys: u64, false_positive_chance: f64) -> BloomFilter {
        if false_positive_chance >= 1.0 {
            return BloomFilter::ALWAYS_PRESENT;
        }
        let (hashes, bits_per_key) = specification(false_positive_chance);
        let bits = keys * u64::from(bits_per_key) + EXCESS_BITS;
        let words = (bits - 1) / 64 + 1;
        BloomFilter {
            hashes,
            bits: Bits::Growing(vec![0; words as usize * 8]),
        }
    }

    /// Adds the key of this hash ([`model::murmur3_x64_128`] of its bytes).
    pub(crate) fn add(&mut self, hash: [i64; 2]) {
        let hashes = self.hashes;
        if let Bits::Growing(bits) = &mut self.bits {
            let capacity = bits.len() as i64 * 8;
            for bit in positions(hash, hashes, capacity) {
                bits[(bit >> 3) as usize] |= 1 << (bit & 7);
            }
        }
    }

    /// May the key of this hash be there?
    pub(crate) fn may_contain(&self, hash: [i64; 2]) -> bool {
        let Some(bits) = self.bytes() else {
            return true;
        };
        positions(hash, self.hashes, bits.len() as i64 * 8)
            .all(|bit| bits[(bit >> 3) as usize] & (1 << (bit & 7)) != 0)
    }

    fn bytes(&self) -> Option<&[u8]> {
        match &self.bits {
            Bits::Growing(bits) => Some(bits),
            Bits::Read(bits) => Some(bits),
            Bits::AlwaysPresent => None,
        }
    }

    /// How much memory it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes().map_or(0, <[u8]>::len)
    }

    /// The component's bytes; `None` for a filter that knows nothing, which has no component.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let bits = self.bytes()?;
        let mut out = Vec::with_capacity(8 + bits.len());
        out.extend(self.hashes.to_be_bytes());
        out.extend((bits.len() as u32 / 8).to_be_bytes());
        out.extend(bits);
        Some(out)
    }

    pub(crate) fn decode(bytes: Bytes, version: Version) -> Result<BloomFilter, DecodeError> {
        let mut input = Input::new(&bytes);
        let hashes = input.u32()?;
        if hashes == 0 || hashes > MAX_HASHES {
            return Err(DecodeError::Invalid(
                "the number of hash functions is impossible",
            ));
        }
        let words = input.count(8)?;
        if words == 0 {
            return Err(DecodeError::Invalid("the filter has no bits"));
        }
        let start = input.position();
        let bits = if version.features().big_endian_filter {
            let mut bits = Vec::with_capacity(words * 8);
            for _ in 0..words {
                bits.extend(input.u64()?.to_le_bytes());
            }
            Bytes::from(bits)
        } else {
            bytes.slice(start..start + words * 8)
        };
        Ok(BloomFilter {
            hashes,
            bits: Bits::Read(bits),
        })
    }
}

/// Which bits belong to a key.
fn positions(hash: [i64; 2], hashes: u32, capacity: i64) -> impl Iterator<Item = u64> {
    let [increment, mut base] = hash;
    (0..hashes).map(move |_| {
        let bit = (base % capacity).unsigned_abs();
        base = base.wrapping_add(increment);
        bit
    })
}

/// False positive rates by bits per element (row) and number of hash functions (column), from
/// "Summary Cache" (Fan, Cao, Almeida, Broder), as `BloomCalculations` has them.
const RATES: [&[f64]; 21] = [
    &[1.0],
    &[1.0, 1.0],
    &[1.0, 0.393, 0.400],
    &[1.0, 0.283, 0.237, 0.253],
    &[1.0, 0.221, 0.155, 0.147, 0.160],
    &[1.0, 0.181, 0.109, 0.092, 0.092, 0.101],
    &[1.0, 0.154, 0.0804, 0.0609, 0.0561, 0.0578, 0.0638],
    &[1.0, 0.133, 0.0618, 0.0423, 0.0359, 0.0347, 0.0364],
    &[1.0, 0.118, 0.0489, 0.0306, 0.024, 0.0217, 0.0216, 0.0229],
    &[
        1.0, 0.105, 0.0397, 0.0228, 0.0166, 0.0141, 0.0133, 0.0135, 0.0145,
    ],
    &[
        1.0, 0.0952, 0.0329, 0.0174, 0.0118, 0.00943, 0.00844, 0.00819, 0.00846,
    ],
    &[
        1.0, 0.0869, 0.0276, 0.0136, 0.00864, 0.0065, 0.00552, 0.00513, 0.00509,
    ],
    &[
        1.0, 0.08, 0.0236, 0.0108, 0.00646, 0.00459, 0.00371, 0.00329, 0.00314,
    ],
    &[
        1.0, 0.074, 0.0203, 0.00875, 0.00492, 0.00332, 0.00255, 0.00217, 0.00199, 0.00194,
    ],
    &[
        1.0, 0.0689, 0.0177, 0.00718, 0.00381, 0.00244, 0.00179, 0.00146, 0.00129, 0.00121, 0.0012,
    ],
    &[
        1.0, 0.0645, 0.0156, 0.00596, 0.003, 0.00183, 0.00128, 0.001, 0.000852, 0.000775, 0.000744,
    ],
    &[
        1.0, 0.0606, 0.0138, 0.005, 0.00239, 0.00139, 0.000935, 0.000702, 0.000574, 0.000505,
        0.00047, 0.000459,
    ],
    &[
        1.0, 0.0571, 0.0123, 0.00423, 0.00193, 0.00107, 0.000692, 0.000499, 0.000394, 0.000335,
        0.000302, 0.000287, 0.000284,
    ],
    &[
        1.0, 0.054, 0.0111, 0.00362, 0.00158, 0.000839, 0.000519, 0.00036, 0.000275, 0.000226,
        0.000198, 0.000183, 0.000176,
    ],
    &[
        1.0, 0.0513, 0.00998, 0.00312, 0.0013, 0.000663, 0.000394, 0.000264, 0.000194, 0.000155,
        0.000132, 0.000118, 0.000111, 0.000109,
    ],
    &[
        1.0, 0.0488, 0.00906, 0.0027, 0.00108, 0.00053, 0.000303, 0.000196, 0.00014, 0.000108,
        8.89e-05, 7.77e-05, 7.12e-05, 6.79e-05, 6.71e-05,
    ],
];

/// The number of hash functions that is best for so many bits per element.
fn best_hashes(bits_per_key: usize) -> usize {
    let rates = RATES[bits_per_key];
    let (mut best, mut least) = (1, f64::MAX);
    for (hashes, rate) in rates.iter().enumerate() {
        if *rate < least {
            (best, least) = (hashes.max(1), *rate);
        }
    }
    best
}

/// Hash functions and bits per element for a false positive chance
/// (`BloomCalculations.computeBloomSpec`). A chance too small to reach gets the best there is.
fn specification(chance: f64) -> (u32, u32) {
    const MOST_BITS: usize = RATES.len() - 1;
    if chance >= RATES[2][1] {
        return (2, best_hashes(2) as u32);
    }
    let mut bits_per_key = 2;
    while bits_per_key < MOST_BITS && RATES[bits_per_key][best_hashes(bits_per_key)] > chance {
        bits_per_key += 1;
    }
    // With enough bits, fewer hash functions may do.
    let mut hashes = best_hashes(bits_per_key);
    while RATES[bits_per_key][hashes - 1] <= chance {
        hashes -= 1;
    }
    (hashes as u32, bits_per_key as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u32) -> [i64; 2] {
        model::murmur3_x64_128(&i.to_be_bytes())
    }

    #[test]
    fn specifications_are_cassandras() {
        // FilterFactory for the default chances of STCS, LCS and others.
        assert_eq!(specification(0.01), (5, 10));
        assert_eq!(specification(0.1), (3, 5));
        assert_eq!(specification(0.5), (2, 1));
        assert_eq!(specification(0.0), (14, 20));
    }

    #[test]
    fn finds_all_and_little_else() {
        let mut filter = BloomFilter::new(10_000, 0.01);
        (0..10_000).for_each(|i| filter.add(hash(i)));
        let bytes = Bytes::from(filter.encode().expect("a component"));
        let read = BloomFilter::decode(bytes, Version::Nb).expect("decodes");
        assert!((0..10_000).all(|i| read.may_contain(hash(i))));
        let wrong = (10_000..20_000)
            .filter(|i| read.may_contain(hash(*i)))
            .count();
        assert!(wrong < 200, "{wrong} of 10000");
    }

    #[test]
    fn without_a_filter_everything_may_be_there() {
        let mut filter = BloomFilter::new(10, 1.0);
        filter.add(hash(1));
        assert!(filter.may_contain(hash(2)));
        assert_eq!(filter.encode(), None);
    }

    #[test]
    fn damaged_filters_are_refused() {
        for bytes in [&[][..], &[0; 8], &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]] {
            assert!(BloomFilter::decode(Bytes::copy_from_slice(bytes), Version::Nb).is_err());
        }
    }
}
