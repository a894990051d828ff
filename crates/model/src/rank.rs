//! Numbers that sort as clusterings do, as far as 64 bits go.
//!
//! A search among many rows compares ranks, which lie beside each other in memory, and looks at
//! the rows themselves only where ranks are equal. A rank is made of the first columns, as many of
//! them as fit: each gives the first bits of a number that sorts as its values do. Only where
//! those bits tell all values apart may the next column follow.

use crate::compare::{double_rank, float_rank, lexical_uuid_rank, timeuuid_rank, uuid_rank};
use crate::{Bound, Clustering, ClusteringComparator, CqlType, Order};

/// The first bits of a value, as a number below 2^`width`.
struct Head {
    bits: u64,
    width: u32,
    rest: Rest,
}

/// What may follow the bits of a value.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    /// The bits say all: whatever sorts what is equal so far.
    Open,
    /// The value comes before those that have these bits and say all: nothing but zeros.
    Before,
    /// The value comes behind them: nothing but ones.
    Behind,
}

impl ClusteringComparator {
    /// A number for a row of these values: if one row does not come behind another, nor does its
    /// number.
    pub fn rank<'v>(&self, values: impl Iterator<Item = &'v [u8]>) -> u64 {
        self.rank_before(values, false)
    }

    /// The number of a row.
    pub fn rank_of(&self, clustering: &Clustering) -> u64 {
        self.rank(clustering.values())
    }

    /// A number for a bound: the number of a row before it, or of a bound not behind it, is not
    /// greater, and that of a row behind it not smaller.
    pub fn rank_of_bound(&self, bound: &Bound) -> u64 {
        self.rank_before(bound.prefix.values(), bound.is_after())
    }

    /// With ones for the columns that `values` do not have, or with zeros.
    fn rank_before<'v>(&self, values: impl Iterator<Item = &'v [u8]>, ones: bool) -> u64 {
        let (mut rank, mut room) = (0, u64::BITS);
        let mut fill = ones;
        for ((ty, order), value) in self.columns().iter().zip(values) {
            let Head { bits, width, rest } = head(ty, value);
            let descending = *order == Order::Descending;
            let flip = if descending { u64::MAX } else { 0 };
            // The bits at the upper end of a word, then below those of the columns before.
            let bits = (bits ^ flip) << (u64::BITS - width) >> (u64::BITS - room);
            rank |= bits;
            if width >= room {
                return rank;
            }
            room -= width;
            if rest != Rest::Open {
                fill = (rest == Rest::Behind) != descending;
                break;
            }
        }
        if fill {
            rank |= u64::MAX >> (u64::BITS - room);
        }
        rank
    }
}

fn head(ty: &CqlType, value: &[u8]) -> Head {
    match ty {
        CqlType::Int => fixed(value, 32, |v| {
            u64::from(i32::from_be_bytes(*v) as u32 ^ 1 << 31)
        }),
        CqlType::Bigint | CqlType::Counter | CqlType::Timestamp => {
            fixed(value, 64, |v| i64::from_be_bytes(*v) as u64 ^ 1 << 63)
        }
        CqlType::Smallint => fixed(value, 16, |v| {
            u64::from(i16::from_be_bytes(*v) as u16 ^ 1 << 15)
        }),
        CqlType::Tinyint => fixed(value, 8, |v: &[u8; 1]| u64::from(v[0] ^ 1 << 7)),
        CqlType::Boolean => fixed(value, 1, |v: &[u8; 1]| u64::from(v[0] != 0)),
        CqlType::Float => fixed(value, 32, |v| {
            u64::from(float_rank(f32::from_be_bytes(*v)) as u32 ^ 1 << 31)
        }),
        CqlType::Double => fixed(value, 64, |v| {
            double_rank(f64::from_be_bytes(*v)) as u64 ^ 1 << 63
        }),
        CqlType::Uuid => fixed(value, 64, |v| {
            let (version, rank, _) = uuid_rank(v);
            version << 60 | rank >> 4
        }),
        CqlType::Timeuuid => fixed(value, 64, |v| timeuuid_rank(v).0),
        CqlType::Date => first_bytes::<4>(value),
        CqlType::Custom(_) if ty.modern() == Some(&CqlType::Uuid) => {
            fixed(value, 64, |v| lexical_uuid_rank(v).0)
        }
        CqlType::Ascii
        | CqlType::Blob
        | CqlType::Duration
        | CqlType::Empty
        | CqlType::Inet
        | CqlType::Text
        | CqlType::Time
        | CqlType::Custom(_) => first_bytes::<8>(value),
        // Nothing is said, which is never wrong.
        CqlType::Decimal
        | CqlType::Varint
        | CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. }
        | CqlType::Composite(_)
        | CqlType::Vector { .. } => Head {
            bits: 0,
            width: 64,
            rest: Rest::Open,
        },
    }
}

/// Of a type whose values have `N` bytes; what has another length comes before them.
fn fixed<const N: usize>(value: &[u8], width: u32, bits: impl Fn(&[u8; N]) -> u64) -> Head {
    match value.as_array::<N>() {
        Some(value) => Head {
            bits: bits(value),
            width,
            rest: Rest::Open,
        },
        None => Head {
            bits: 0,
            width,
            rest: Rest::Before,
        },
    }
}

/// Of a type that is ordered by bytes, the first `N` of them.
fn first_bytes<const N: usize>(value: &[u8]) -> Head {
    let mut first = [0; 8];
    let len = value.len().min(N);
    first[8 - N..][..len].copy_from_slice(&value[..len]);
    Head {
        bits: u64::from_be_bytes(first),
        width: 8 * N as u32,
        rest: match value.len().cmp(&N) {
            std::cmp::Ordering::Less => Rest::Before,
            std::cmp::Ordering::Equal => Rest::Open,
            std::cmp::Ordering::Greater => Rest::Behind,
        },
    }
}
