//! Tokens of the Murmur3 partitioner, and the shard that owns one.

/// A position on the ring: `Murmur3Partitioner`'s 64-bit token.
///
/// `i64::MIN` is never the token of a key; it stands for the ring's open lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The ring's open lower end: below the token of every key.
    pub const MIN: Token = Token(i64::MIN);
    /// The highest token a key can have.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a serialized partition key (`Murmur3Partitioner.getToken`).
    pub fn of(key: &[u8]) -> Token {
        if key.is_empty() {
            return Token::MIN;
        }
        let hash = murmur3_x64_128(key)[0];
        // The lowest value is reserved for the end of the ring.
        Token(if hash == i64::MIN { i64::MAX } else { hash })
    }
}

/// The index of a shard within its node.
pub type ShardId = u16;

/// Scylla's `biased-token-round-robin`: which shard of a node owns a token.
///
/// The ring is cut into `shards << ignored_bits` slices of equal length that are dealt to the
/// shards in turn; shard-aware drivers compute the same and connect to the right shard
/// (scylladb/scylladb `docs/dev/protocol-extensions.md`, "Intranode sharding").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharder {
    shards: u16,
    ignored_bits: u8,
}

impl Sharder {
    /// How many of the token's most significant bits do not count, as Scylla ships it.
    pub const IGNORED_BITS: u8 = 12;

    /// A sharder for a node of `shards` shards (at least one) with the usual ignored bits.
    pub fn new(shards: u16) -> Sharder {
        assert!(shards > 0, "a node has at least one shard");
        Sharder {
            shards,
            ignored_bits: Self::IGNORED_BITS,
        }
    }

    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// How many most significant bits of a token are ignored.
    pub fn ignored_bits(&self) -> u8 {
        self.ignored_bits
    }

    /// How many slices the ring is cut into. The one of the lowest tokens is slice 0; shard
    /// `slice % shards` owns it.
    pub fn slices(&self) -> u64 {
        u64::from(self.shards) << self.ignored_bits
    }

    /// The slice that `token` is in.
    pub fn slice_of(&self, token: Token) -> u64 {
        let place = (token.0 as u64).wrapping_add(1 << 63);
        ((u128::from(place) * u128::from(self.slices())) >> 64) as u64
    }

    /// The highest token of a slice.
    ///
    /// # Panics
    /// If there is no such slice.
    pub fn end_of_slice(&self, slice: u64) -> Token {
        assert!(slice < self.slices(), "the ring has no slice {slice}");
        let next = ((u128::from(slice) + 1) << 64).div_ceil(u128::from(self.slices()));
        Token((((next - 1) as u64).wrapping_sub(1 << 63)) as i64)
    }

    /// The shard that owns `token`.
    pub fn shard_of(&self, token: Token) -> ShardId {
        let biased = (token.0 as u64).wrapping_add(1 << 63) << self.ignored_bits;
        ((u128::from(biased) * u128::from(self.shards)) >> 64) as ShardId
    }

    /// The shard that a connection from local port `port` asks for on the shard-aware port.
    pub fn shard_of_port(&self, port: u16) -> ShardId {
        port % self.shards
    }
}

/// MurmurHash3_x64_128 with seed 0, with Cassandra's quirk: the bytes of the tail are
/// sign-extended (`org.apache.cassandra.utils.MurmurHash.hash3_x64_128`). Libraries implement the
/// original and so give other tokens for keys with bytes above 0x7f. Tokens are made of the first
/// half, bloom filters of both.
pub fn murmur3_x64_128(data: &[u8]) -> [i64; 2] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let (mut h1, mut h2) = (0u64, 0u64);
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);

    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let mut halves = block
            .as_chunks::<8>()
            .0
            .iter()
            .map(|half| u64::from_le_bytes(*half));
        let (k1, k2) = (halves.next().unwrap_or(0), halves.next().unwrap_or(0));
        h1 ^= mix1(k1);
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 ^= mix2(k2);
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }

    let (mut k1, mut k2) = (0u64, 0u64);
    for (i, byte) in tail.iter().enumerate() {
        let extended = i64::from(*byte as i8) as u64;
        if i < 8 {
            k1 ^= extended << (8 * i);
        } else {
            k2 ^= extended << (8 * (i - 8));
        }
    }
    if tail.len() > 8 {
        h2 ^= mix2(k2);
    }
    if !tail.is_empty() {
        h1 ^= mix1(k1);
    }

    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let (f1, f2) = (finish(h1), finish(h2));
    let first = f1.wrapping_add(f2);
    [first as i64, first.wrapping_add(f2) as i64]
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_ring_evenly_and_in_turn() {
        let sharder = Sharder::new(3);
        let mut owned = [0usize; 3];
        for i in 0..30_000i64 {
            owned[usize::from(
                sharder.shard_of(Token(i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64))),
            )] += 1;
        }
        assert!(
            owned.iter().all(|n| (9_500..10_500).contains(n)),
            "{owned:?}"
        );
    }

    #[test]
    fn slices_follow_each_other_and_are_dealt_out_in_turn() {
        for shards in [1, 2, 3, 7, 64, 1000] {
            let sharder = Sharder::new(shards);
            let slices = sharder.slices();
            assert_eq!(sharder.slice_of(Token::MIN), 0);
            assert_eq!(sharder.end_of_slice(slices - 1), Token::MAX);
            for slice in (0..100).chain(slices / 2..slices / 2 + 100) {
                let end = sharder.end_of_slice(slice);
                assert_eq!(sharder.slice_of(end), slice);
                assert_eq!(sharder.slice_of(Token(end.0 + 1)), slice + 1);
                assert_eq!(
                    u64::from(sharder.shard_of(end)),
                    slice % u64::from(shards),
                    "slice {slice} of {shards} shards"
                );
            }
        }
    }

    #[test]
    fn one_shard_owns_all() {
        let sharder = Sharder::new(1);
        for token in [Token::MIN, Token(-1), Token(0), Token::MAX] {
            assert_eq!(sharder.shard_of(token), 0);
        }
    }
}
