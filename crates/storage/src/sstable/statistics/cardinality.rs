//! How many distinct keys there are, estimated: HyperLogLog++ as the library that Cassandra uses
//! serializes it (`com.clearspring.analytics.stream.cardinality.HyperLogLogPlus` with p = 13 and
//! sp = 25), so that Cassandra can merge the estimates of several sstables.
//!
//! While there are few keys, it is a sorted list of 25-bit prefixes of hashes (*sparse*); where
//! the bits after the first 13 of such a prefix are all zero, the length of the run of zeros is
//! kept with it. With many keys it becomes 2^13 registers of 5 bits, six to a word, that hold the
//! longest run of zeros of each 13-bit prefix.

const P: u32 = 13;
const SP: u32 = 25;
const REGISTERS: usize = 1 << P;
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
/// A sparse list this long becomes registers.
const SPARSE_LIMIT: usize = REGISTERS / 4 * 3;
const SERIAL_VERSION: i32 = 2;

/// An estimator of the number of distinct keys.
#[derive(Clone, Debug)]
pub(crate) struct Cardinality {
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Encoded prefixes: sorted and distinct ones, and those that came since.
    Sparse {
        sorted: Vec<u32>,
        recent: Vec<u32>,
    },
    Registers(Vec<u8>),
}

impl Default for Cardinality {
    fn default() -> Cardinality {
        Cardinality {
            state: State::Sparse {
                sorted: Vec::new(),
                recent: Vec::new(),
            },
        }
    }
}

impl Cardinality {
    /// Counts a partition key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.add_hash(murmur2_64(key));
    }

    fn add_hash(&mut self, hash: u64) {
        match &mut self.state {
            State::Registers(registers) => {
                let at = (hash >> (64 - P)) as usize;
                registers[at] = registers[at].max(run_length(hash));
            }
            State::Sparse { sorted, recent } => {
                recent.push(encode_sparse(hash));
                if recent.len() > 64.max(sorted.len() / 4) {
                    self.merge_recent();
                }
            }
        }
    }

    fn merge_recent(&mut self) {
        let State::Sparse { sorted, recent } = &mut self.state else {
            return;
        };
        sorted.append(recent);
        // Of two of one index, the smaller code has the longer run, as runs are kept inverted.
        sorted.sort_unstable_by_key(|code| (sparse_index(*code), *code));
        sorted.dedup_by_key(|code| sparse_index(*code));
        if sorted.len() > SPARSE_LIMIT {
            let mut registers = vec![0; REGISTERS];
            for code in sorted {
                let at = (sparse_index(*code) >> (SP - P)) as usize;
                registers[at] = registers[at].max(sparse_run_length(*code));
            }
            self.state = State::Registers(registers);
        }
    }

    /// The bytes that `HyperLogLogPlus.getBytes` gives.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        self.merge_recent();
        let mut out = Vec::new();
        out.extend((-SERIAL_VERSION).to_be_bytes());
        write_varint(&mut out, P);
        write_varint(&mut out, SP);
        match &self.state {
            State::Registers(registers) => {
                let words = words(registers);
                write_varint(&mut out, 0);
                write_varint(&mut out, words.len() as u32 * 4);
                for word in words {
                    out.extend(word.to_be_bytes());
                }
            }
            State::Sparse { sorted, .. } => {
                write_varint(&mut out, 1);
                write_varint(&mut out, sorted.len() as u32);
                let mut previous = 0u32;
                for code in sorted {
                    write_varint(&mut out, code.wrapping_sub(previous));
                    previous = *code;
                }
            }
        }
        out
    }
}

/// How many distinct keys these bytes of a `HyperLogLogPlus` count (`cardinality`); `None` if they
/// are of another form. Of many keys it is the raw estimate, without the library's correction of
/// its bias, which is below half a per cent there.
pub(super) fn estimate(bytes: &[u8]) -> Option<u64> {
    let (version, mut rest) = bytes.split_first_chunk::<4>()?;
    if i32::from_be_bytes(*version) != -SERIAL_VERSION {
        return None;
    }
    let [p, sp, form, count] = [(); 4].map(|()| read_varint(&mut rest));
    let (p, sp, count) = (p?, sp?, count?);
    if !(4..=16).contains(&p) || sp > 32 {
        return None;
    }
    let linear = |all: f64, zeros: f64| (all * (all / zeros).ln()).round() as u64;
    match form? {
        1 => {
            let all = (1u64 << sp) as f64;
            Some(linear(all, all - f64::from(count)))
        }
        0 => {
            let all = 1usize << p;
            let words = rest.chunks_exact(4).map(|word| {
                let word = word.first_chunk().copied().unwrap_or_default();
                u32::from_be_bytes(word)
            });
            let registers = words.flat_map(|word| {
                (0..REGISTERS_PER_WORD).map(move |i| word >> (REGISTER_BITS * i) & 0x1f)
            });
            let (mut sum, mut zeros) = (0.0, 0u32);
            for register in registers.take(all) {
                sum += 1.0 / f64::from(1u32 << register);
                zeros += u32::from(register == 0);
            }
            let all = all as f64;
            let few = linear(all, f64::from(zeros));
            if zeros > 0 && few <= 6500 {
                return Some(few);
            }
            let alpha = 0.7213 / (1.0 + 1.079 / all);
            Some((alpha * all * all / sum).round() as u64)
        }
        _ => None,
    }
}

/// Takes a number as Protocol Buffers have it.
fn read_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Registers as the library packs them (`RegisterSet`).
fn words(registers: &[u8]) -> Vec<u32> {
    let full = REGISTERS / REGISTERS_PER_WORD;
    let count = if full.is_multiple_of(32) {
        full
    } else {
        full + 1
    };
    let mut words = vec![0u32; count];
    for (word, registers) in words.iter_mut().zip(registers.chunks(REGISTERS_PER_WORD)) {
        for (i, register) in registers.iter().enumerate() {
            *word |= u32::from(register & 0x1f) << (REGISTER_BITS * i);
        }
    }
    words
}

/// The position of the first one bit after the first `P`.
fn run_length(hash: u64) -> u8 {
    ((hash << P | 1 << (P - 1)).leading_zeros() + 1) as u8
}

fn encode_sparse(hash: u64) -> u32 {
    let index = (hash >> (64 - SP)) as u32;
    if index << (32 - SP + P) == 0 {
        let inverted = u32::from(run_length(hash)) ^ 63;
        (index << 6 | inverted) << 1 | 1
    } else {
        index << 1
    }
}

fn sparse_index(code: u32) -> u32 {
    if code & 1 == 1 { code >> 7 } else { code >> 1 }
}

fn sparse_run_length(code: u32) -> u8 {
    if code & 1 == 1 {
        ((code >> 1 & 63) ^ 63) as u8
    } else {
        ((code << (P + 31 - SP)).leading_zeros() + 1) as u8
    }
}

/// Numbers as in Protocol Buffers.
fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// MurmurHash2, 64 bits, seed 0, as `org.apache.cassandra.utils.MurmurHash.hash2_64` computes it:
/// the bytes of the tail are sign-extended.
fn murmur2_64(data: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut h = (data.len() as u64).wrapping_mul(M);
    let (blocks, tail) = data.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> R;
        h = (h ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            h ^= (i64::from(*byte as i8) as u64) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> R;
    h = h.wrapping_mul(M);
    h ^ h >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_codes_keep_index_and_run() {
        for hash in [
            0u64,
            1,
            u64::MAX,
            0x8000_0000_0000_0000,
            0x1234_5678_9abc_def0,
        ] {
            let code = encode_sparse(hash);
            assert_eq!(u64::from(sparse_index(code)), hash >> (64 - SP), "{hash:x}");
            assert_eq!(sparse_run_length(code), run_length(hash), "{hash:x}");
        }
    }

    #[test]
    fn becomes_registers_when_many() {
        let mut few = Cardinality::default();
        (0u32..100).for_each(|i| few.add(&i.to_be_bytes()));
        assert_eq!(few.encode()[6], 1, "sparse");
        let mut many = Cardinality::default();
        (0u32..20_000).for_each(|i| many.add(&i.to_be_bytes()));
        let bytes = many.encode();
        assert_eq!(bytes[6], 0, "registers");
        assert_eq!(estimate(&few.encode()), Some(100));
        let estimated = estimate(&bytes).expect("it can be read");
        assert!((19_500..20_500).contains(&estimated), "{estimated}");
        assert_eq!(estimate(&bytes[..3]), None);
        assert_eq!(bytes.len(), 4 + 1 + 1 + 1 + 2 + 4 * 1366);
    }
}
